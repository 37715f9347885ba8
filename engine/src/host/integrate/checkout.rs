//! The user's checkout of the base branch. It moves as by `git merge --ff-only`, or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::event::Obstacle;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Change, Git, GitError, IndexInput, RepoPath};

use super::Integration;
use super::index_lock::IndexLock;
use super::worktree::{admin_dir, short_name};

/// What a worktree's git directory holds while somebody is in the middle of something, and what that is.
const UNDER_WAY: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

pub(super) struct Checkout {
    path: PathBuf,
    /// With the pinned settings, so that nothing planted in the repository's configuration runs, and a copy of the
    /// checkout's index.
    git: Git,
    index: PathBuf,
    copy: PathBuf,
    /// For indexes of our own.
    scratch: PathBuf,
}

impl Integration {
    /// Where the base branch is checked out, if anywhere.
    pub(super) fn checkout_of_base(&self) -> Result<Result<Option<Checkout>, Obstacle>> {
        let mut found: Option<Checkout> = None;
        for (position, worktree) in self.repository.worktree_list()?.into_iter().enumerate() {
            let (path, admin) = match position {
                0 => (self.project.root().to_owned(), Some(self.project.common_dir().to_owned())),
                _ => (worktree.path.clone(), admin_dir(self.project.common_dir(), &worktree.path)),
            };
            // Git knows of worktrees whose files are gone; nothing is checked out there.
            let Some(admin) = admin else { continue };
            if is_rebasing(&admin, &self.base_branch) {
                return Ok(Err(in_the_way(&path, Vec::new(), self.under_way("a rebase"))));
            }
            if worktree.branch.as_deref() != Some(&self.base_branch) {
                continue;
            }
            if let Some((_, what)) = UNDER_WAY.iter().find(|(name, _)| admin.join(name).exists()) {
                return Ok(Err(in_the_way(&path, Vec::new(), self.under_way(what))));
            }
            if let Some(other) = &found {
                let branch = short_name(&self.base_branch);
                let why = format!("{branch} is checked out in {} as well", other.path.display());
                return Ok(Err(in_the_way(&path, Vec::new(), why)));
            }
            let scratch = self.objects.git_dir().to_owned();
            // One that outlived its orchestrator may still be at work on that of another process.
            let copy = scratch.join(format!("landing.{}.index", std::process::id()));
            let git = self.objects.clone().work_tree(&path).index(&copy);
            found = Some(Checkout { path, git, index: admin.join("index"), copy, scratch });
        }
        Ok(Ok(found))
    }

    fn under_way(&self, what: &str) -> String {
        format!("{what} of {} is under way there: finish it or abort it", short_name(&self.base_branch))
    }
}

impl Checkout {
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether the index has something as it was at the one commit, though the branch has changed it on its way to the
    /// other.
    pub fn is_left_behind(&self, was: &Oid, now: &Oid) -> Result<bool> {
        let copy = self.scratch.join("behind.index");
        if fs::copy(&self.index, &copy).is_err() {
            return Ok(false);
        }
        let git = self.git.clone().index(&copy);
        // An index that cannot be read from elsewhere tells nothing.
        let Ok(staged) = git.diff_cached(was) else { return Ok(false) };
        let staged: BTreeSet<&RepoPath> = staged.iter().map(|change| &change.path).collect();
        Ok(git.diff_tree(was, now)?.iter().any(|change| !staged.contains(&change.path)))
    }

    /// Keeps others from the index until the lock is dropped.
    pub fn lock(&self) -> Result<Result<IndexLock, Obstacle>> {
        Ok(IndexLock::take(&self.index, &self.copy)?.map_err(|lock| {
            let why = "another git command is at work there, or was killed: if none runs, remove the file".to_owned();
            in_the_way(&self.path, vec![lock.display().to_string()], why)
        }))
    }

    /// Takes away the lock of a process that was killed while it landed.
    pub fn clear(&self) -> Result<()> {
        IndexLock::clear(&self.index)
    }

    /// Files and index go from one commit to the other; the caller moves the branch.
    pub fn advance(&self, lock: &IndexLock, from: &Oid, to: &Oid) -> Result<Result<(), Obstacle>> {
        lock.copy()?;
        crash::point(|| "checkout with the index copied");
        match self.fast_forward(from, to) {
            Ok(()) => {
                crash::point(|| "checkout with the files moved");
                return lock.install().map(Ok);
            }
            Err(GitError::Failed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let changes = self.git.diff_tree(from, to)?;
        let files = self.files_in_the_way(from, &changes)?;
        if !files.is_empty() {
            let why = "these files are changed, staged or not tracked: commit, stash or move them".to_owned();
            return Ok(Err(in_the_way(&self.path, files, why)));
        }
        // All that is in the way is as it is to become: once the index says so, git agrees.
        self.take_for_done(&changes)?;
        match self.fast_forward(from, to) {
            Ok(()) => lock.install().map(Ok),
            Err(GitError::Failed { stderr, .. }) => Ok(Err(in_the_way(&self.path, Vec::new(), stderr))),
            Err(error) => Err(error.into()),
        }
    }

    /// Undoes `advance` where the branch could not be moved; what changed since is left as it is.
    pub fn retreat(&self, lock: &IndexLock, from: &Oid, to: &Oid) -> Result<()> {
        lock.copy()?;
        self.git.run(["read-tree", "-m", "-u", from.as_str(), to.as_str()])?;
        lock.install()
    }

    fn fast_forward(&self, from: &Oid, to: &Oid) -> Result<(), GitError> {
        self.git.detach_head(from)?;
        let identity = ["-c", "user.name=mahabharatha", "-c", "user.email=mahabharatha@localhost"];
        let merge = ["merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat", "--quiet"];
        self.git.run(identity.iter().chain(&merge).chain(&[to.as_str()])).map(drop)
    }

    /// Of the files that are to change: those that are neither as they were nor as they are to become.
    fn files_in_the_way(&self, from: &Oid, changes: &[Change]) -> Result<Vec<String>> {
        let not_done = self.differing(changes, |change| (change.new_mode, change.new.as_ref()))?;
        let undone: Vec<Change> = changes.iter().filter(|change| not_done.contains(&change.path)).cloned().collect();
        let mut found = self.differing(&undone, |change| (change.old_mode, change.old.as_ref()))?;
        found.extend(self.staged_otherwise(from, changes)?);
        let going: BTreeSet<&RepoPath> =
            changes.iter().filter(|change| change.new.is_none()).map(|change| &change.path).collect();
        found.extend(changes.iter().filter_map(|change| self.file_above(change, &going)));
        Ok(found.iter().map(RepoPath::to_string).collect())
    }

    /// Which of the files are not as `side` has them, read through the pinned filters.
    fn differing<'c>(
        &self,
        changes: &'c [Change],
        side: impl Fn(&'c Change) -> (u32, Option<&'c Oid>),
    ) -> Result<BTreeSet<RepoPath>> {
        let index = self.scratch.join("compare.index");
        let _ = fs::remove_file(&index);
        let git = self.git.clone().index(&index);
        let mut input = IndexInput::default();
        let mut differing = BTreeSet::new();
        for change in changes {
            match side(change) {
                (mode, Some(oid)) => input.set(&change.path, mode, oid, 0),
                (_, None) if exists(&change.path.under(&self.path)) => drop(differing.insert(change.path.clone())),
                (_, None) => {}
            }
        }
        git.change_index(input)?;
        git.run(["update-index", "-q", "--refresh"])?;
        let listed = git.run(["diff-files", "-z", "--name-only", "--ignore-submodules=all"])?;
        let names = listed.bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        differing.extend(names.map(RepoPath::new));
        Ok(differing)
    }

    /// What the user's index has of the files, if it is neither the old nor the new.
    fn staged_otherwise(&self, from: &Oid, changes: &[Change]) -> Result<Vec<RepoPath>> {
        let otherwise = self.git.diff_cached(from)?.into_iter().filter(|staged| {
            changes.iter().any(|change| {
                change.path == staged.path && (change.new_mode, &change.new) != (staged.new_mode, &staged.new)
            })
        });
        Ok(otherwise.map(|staged| staged.path).collect())
    }

    /// A file of the user's where a directory has to be, if it is not one that goes.
    fn file_above(&self, change: &Change, going: &BTreeSet<&RepoPath>) -> Option<RepoPath> {
        change.new.as_ref()?;
        let bytes = change.path.as_bytes();
        let above = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &bytes[..end]);
        above.map(RepoPath::new).find(|path| {
            let is_file = fs::symlink_metadata(path.under(&self.path)).is_ok_and(|found| !found.is_dir());
            is_file && !going.contains(path)
        })
    }

    fn take_for_done(&self, changes: &[Change]) -> Result<()> {
        let not_done = self.differing(changes, |change| (change.new_mode, change.new.as_ref()))?;
        let mut input = IndexInput::default();
        for change in changes.iter().filter(|change| !not_done.contains(&change.path)) {
            match (&change.new, &change.old) {
                (Some(new), _) => input.set(&change.path, change.new_mode, new, 0),
                (None, Some(old)) => input.remove(&change.path, old),
                (None, None) => {}
            }
        }
        Ok(self.git.change_index(input)?)
    }
}

fn in_the_way(path: &Path, files: Vec<String>, why: String) -> Obstacle {
    Obstacle::CheckoutInTheWay { files, worktree: path.display().to_string(), why }
}

fn is_rebasing(admin: &Path, branch: &str) -> bool {
    ["rebase-merge/head-name", "rebase-apply/head-name"]
        .iter()
        .any(|name| fs::read_to_string(admin.join(name)).is_ok_and(|text| text.trim() == branch))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
