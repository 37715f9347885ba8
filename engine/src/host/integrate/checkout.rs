//! The user's checkout of the base branch. It advances as by `git merge --ff-only`, or not at all; changes of the user
//! are never overwritten.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::event::Obstacle;
use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::{Change, Git, GitError, IndexInput, RepoPath, short_branch};
use mahabharatha_sys::proc::Exit;
use mahabharatha_sys::project::{BISECTION, operations_in};

use super::Integration;
use super::index_lock::{IndexLock, copy_index};
use super::worktree::admin_dir;

/// Why files of the user keep the checkout from advancing.
const NOT_COMMITTED: &str = "these files are changed, staged or not tracked: commit, stash or move them";

pub(super) struct Checkout {
    path: PathBuf,
    /// Git on a copy of the checkout's index, with the pinned settings, so that nothing planted in the repository's
    /// configuration is executed.
    git: Git,
    index: PathBuf,
    copy: PathBuf,
    /// Directory for temporary indexes.
    scratch: PathBuf,
}

impl Integration {
    /// Returns the checkout of the base branch, if there is one, or what keeps it from advancing.
    pub(super) fn checkout_of_base(&self) -> Result<Result<Option<Checkout>, Obstacle>> {
        let mut found: Option<Checkout> = None;
        for (position, worktree) in self.repository.worktree_list()?.into_iter().enumerate() {
            let (path, admin) = match position {
                0 => (self.project.root().to_owned(), Some(self.project.common_dir().to_owned())),
                _ => (worktree.path.clone(), admin_dir(self.project.common_dir(), &worktree.path)),
            };
            // Skip worktrees that git knows but whose files are gone.
            let Some(admin) = admin else { continue };
            if is_rebasing(&admin, &self.base_branch) {
                return Ok(Err(in_the_way(&path, Vec::new(), self.under_way("a rebase"))));
            }
            if worktree.branch.as_deref() != Some(&self.base_branch) {
                continue;
            }
            // A bisection only looks at commits.
            if let Some((what, _)) = operations_in(&admin).find(|(what, _)| *what != BISECTION) {
                return Ok(Err(in_the_way(&path, Vec::new(), self.under_way(what))));
            }
            if let Some(other) = &found {
                let branch = short_branch(&self.base_branch);
                let why = format!("{branch} is checked out in {} as well", other.path.display());
                return Ok(Err(in_the_way(&path, Vec::new(), why)));
            }
            let scratch = self.objects.git_dir().to_owned();
            // Named after this process: an orphaned git of an earlier process may still write to its own copy.
            let copy = scratch.join(format!("landing.{}.index", std::process::id()));
            let git = self.objects.clone().as_sparse_as(&admin)?.work_tree(&path).index(&copy);
            found = Some(Checkout { path, git, index: admin.join("index"), copy, scratch });
        }
        Ok(Ok(found))
    }

    fn under_way(&self, what: &str) -> String {
        format!("{what} of {} is under way there: finish it or abort it", short_branch(&self.base_branch))
    }
}

impl Checkout {
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns whether the index still has a file as of `was` that the branch has changed between `was` and `now`.
    pub fn is_left_behind(&self, was: &Oid, now: &Oid) -> Result<bool> {
        let copy = self.scratch.join("behind.index");
        if copy_index(&self.index, &copy).is_err() {
            return Ok(false);
        }
        self.take_shared_index()?;
        let git = self.git.clone().index(&copy);
        // An index that cannot be read as a copy gives no evidence.
        let Ok(staged) = git.diff_cached(was) else { return Ok(false) };
        let staged: BTreeSet<&RepoPath> = staged.iter().map(|change| &change.path).collect();
        Ok(git.diff_tree(was, now)?.iter().any(|change| !staged.contains(&change.path)))
    }

    /// Locks the index against other git commands until the lock is dropped.
    pub fn lock(&self) -> Result<Result<IndexLock, Obstacle>> {
        Ok(IndexLock::take(&self.index, &self.copy)?.map_err(|lock| {
            let why = "another git command is at work there, or was killed: if none runs, remove the file".to_owned();
            in_the_way(&self.path, vec![lock.display().to_string()], why)
        }))
    }

    /// Removes the lock of a process that was killed while landing a level.
    pub fn clear(&self) -> Result<()> {
        IndexLock::clear(&self.index)
    }

    /// Moves files and index from one commit to the other; the caller moves the branch.
    pub fn advance(&self, lock: &IndexLock, from: &Oid, to: &Oid) -> Result<Result<(), Obstacle>> {
        lock.copy()?;
        self.take_shared_index()?;
        let files = self.untracked_in_sparse(lock, from, to)?;
        if !files.is_empty() {
            return Ok(Err(in_the_way(&self.path, files, NOT_COMMITTED.to_owned())));
        }
        crash::point(|| "checkout with the index copied");
        let was_killed = match self.fast_forward(from, to) {
            Ok(()) => {
                crash::point(|| "checkout with the files moved");
                return lock.install().map(Ok);
            }
            Err(GitError::Failed { status, .. }) => lock.was_left_behind || matches!(status, Exit::Signal(_)),
            Err(error) => return Err(error.into()),
        };
        let changes = self.git.diff_tree(from, to)?;
        if was_killed {
            self.restore_unfinished(&changes)?;
        }
        let files = self.files_in_the_way(from, &changes)?;
        if !files.is_empty() {
            return Ok(Err(in_the_way(&self.path, files, NOT_COMMITTED.to_owned())));
        }
        // Git refuses only because files already have their new contents: record that in the index and try again.
        self.stage_files_already_new(&changes)?;
        match self.fast_forward(from, to) {
            Ok(()) => lock.install().map(Ok),
            Err(GitError::Failed { stderr, .. }) => Ok(Err(in_the_way(&self.path, Vec::new(), stderr))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns new files of the level in whose place the user has another file, if the checkout is sparse: git overlooks
    /// those that the checkout leaves out, and would show the user's file as a change of the new one.
    fn untracked_in_sparse(&self, lock: &IndexLock, from: &Oid, to: &Oid) -> Result<Vec<String>> {
        if !self.git.is_sparse() {
            return Ok(Vec::new());
        }
        let mut changes = self.git.diff_tree(from, to)?;
        changes.retain(|change| change.old.is_none() && exists(&change.path.under(&self.path)));
        let differing = self.differing(&changes, |change| (change.new_mode, change.new.as_ref()))?;
        let mut found = Vec::new();
        for change in changes.iter().filter(|change| differing.contains(&change.path)) {
            let (path, Some(new)) = (change.path.under(&self.path), &change.new) else { continue };
            // Left by a git that was killed.
            let is_unfinished = || match fs::symlink_metadata(&path) {
                Ok(found) if lock.was_left_behind && found.is_file() => self.is_beginning(&path, found.len(), new),
                _ => Ok(false),
            };
            if !is_unfinished()? {
                found.push(change.path.to_string());
            }
        }
        Ok(found)
    }

    /// Restores files that a killed git was replacing: those that are missing, or have only the beginning of their new
    /// content.
    fn restore_unfinished(&self, changes: &[Change]) -> Result<()> {
        let mut unfinished = Vec::new();
        for change in changes {
            let (path, Some(new)) = (change.path.under(&self.path), &change.new) else { continue };
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Ok(found) if found.is_file() && self.is_beginning(&path, found.len(), new)? => {
                    fs::remove_file(&path).map_err(io("remove", &path))?;
                }
                _ => continue,
            }
            unfinished.extend(change.old.as_ref().map(|_| &change.path));
        }
        Ok(self.git.checkout_index(unfinished)?)
    }

    /// Tells whether the file has the beginning of the object, but not all of it.
    fn is_beginning(&self, path: &Path, bytes: u64, object: &Oid) -> Result<bool> {
        if self.git.blob_sizes(&[object])?.first().is_none_or(|size| *size <= bytes) {
            return Ok(false);
        }
        let found = bounded::read(path, bytes).map_err(io("read", path))?;
        Ok(self.git.read_blobs(&[object])?.first().is_some_and(|whole| whole.starts_with(&found)))
    }

    /// Undoes `advance` if the branch could not be moved. Never overwrites files that have changed since.
    pub fn retreat(&self, lock: &IndexLock, from: &Oid, to: &Oid) -> Result<()> {
        lock.copy()?;
        self.take_shared_index()?;
        self.git.run(["read-tree", "-m", "-u", from.as_str(), to.as_str()])?;
        lock.install()
    }

    /// Makes the shared part of a split index known to our git, which works on a copy of the other part.
    fn take_shared_index(&self) -> Result<()> {
        Ok(self.git.take_shared_index(self.index.parent().unwrap_or(&self.path))?)
    }

    fn fast_forward(&self, from: &Oid, to: &Oid) -> Result<(), GitError> {
        self.git.detach_head(from)?;
        let identity = ["-c", "user.name=mahabharatha", "-c", "user.email=mahabharatha@localhost"];
        let merge = ["merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat", "--quiet"];
        self.git.run(identity.iter().chain(&merge).chain(&[to.as_str()])).map(drop)
    }

    /// Returns those of the changed files whose contents are neither the old nor the new ones.
    fn files_in_the_way(&self, from: &Oid, changes: &[Change]) -> Result<Vec<String>> {
        let left_out = self.git.left_out_of_work_tree()?;
        let is_there = |change: &&Change| !left_out.contains(&change.path) || exists(&change.path.under(&self.path));
        let changes: Vec<Change> = changes.iter().filter(is_there).cloned().collect();
        let changes = changes.as_slice();
        let not_new = self.differing(changes, |change| (change.new_mode, change.new.as_ref()))?;
        let pending: Vec<Change> = changes.iter().filter(|change| not_new.contains(&change.path)).cloned().collect();
        let mut found = self.differing(&pending, |change| (change.old_mode, change.old.as_ref()))?;
        found.extend(self.staged_otherwise(from, changes)?);
        let removed: BTreeSet<&RepoPath> =
            changes.iter().filter(|change| change.new.is_none()).map(|change| &change.path).collect();
        found.extend(changes.iter().filter_map(|change| self.file_above(change, &removed)));
        Ok(found.iter().map(RepoPath::to_string).collect())
    }

    /// Returns the files that differ from the given side of their change, compared through the pinned filters.
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

    /// Returns the changed files that the user has staged with contents that are neither the old nor the new ones.
    fn staged_otherwise(&self, from: &Oid, changes: &[Change]) -> Result<Vec<RepoPath>> {
        let otherwise = self.git.diff_cached(from)?.into_iter().filter(|staged| {
            changes.iter().any(|change| {
                change.path == staged.path && (change.new_mode, &change.new) != (staged.new_mode, &staged.new)
            })
        });
        Ok(otherwise.map(|staged| staged.path).collect())
    }

    /// Returns a file where the change needs a directory, unless the level removes that file.
    fn file_above(&self, change: &Change, removed: &BTreeSet<&RepoPath>) -> Option<RepoPath> {
        change.new.as_ref()?;
        let bytes = change.path.as_bytes();
        let above = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &bytes[..end]);
        above.map(RepoPath::new).find(|path| {
            let is_file = fs::symlink_metadata(path.under(&self.path)).is_ok_and(|found| !found.is_dir());
            is_file && !removed.contains(path)
        })
    }

    /// Records in the index the new state of the files that already have it.
    fn stage_files_already_new(&self, changes: &[Change]) -> Result<()> {
        let not_new = self.differing(changes, |change| (change.new_mode, change.new.as_ref()))?;
        let mut input = IndexInput::default();
        for change in changes.iter().filter(|change| !not_new.contains(&change.path)) {
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
    ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|name| {
        bounded::read_to_string(&admin.join(name), SMALL_FILE_BYTES).is_ok_and(|text| text.trim() == branch)
    })
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
