//! The staging worktree, where commands run on exactly one tree and where the user resolves conflicts.
//!
//! Changes that the user left there must never be lost: they are saved under a ref before the files are reset.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{Isolation, is_lock_file};
use mahabharatha_core::ids::Oid;
use mahabharatha_sys::bounded::{self, INDEX_BYTES, SMALL_FILE_BYTES};
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{
    EntryType, Found, Git, IndexInput, RefChange, RepoPath, Stage, StatusEntry, TreeEntry, short_branch,
};
use mahabharatha_sys::sandbox::{Contents, Sandbox};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::locks::WorktreesLock;
use mahabharatha_sys::store::tree;

use super::stage::owns;
use super::{Integration, Note};
use crate::confinement::Confined;
use crate::containers::STAGING;
use crate::provision::warm;
use crate::worker::check_worktree;

/// Files of an unfinished merge in a worktree's git directory.
const MERGE_FILES: [&str; 4] = ["MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE"];

/// Directory of a feature with the private files of sandboxes in staging.
pub const STAGING_SANDBOX: &str = "staging-sandbox";

/// File of a feature that records that the staging worktree was warmed.
const WARM_RECORD: &str = "staging.warm";

/// Modes of files in a tree.
const REGULAR: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;

/// The lock files that `merge.prepare` changed.
pub(super) struct LockFiles {
    /// The tree with those that are committed.
    pub tree: Oid,
    pub left_out: Vec<String>,
    pub deleted: Vec<String>,
}

pub(super) struct StagingWorktree<'a> {
    integration: &'a Integration,
    pub path: PathBuf,
    /// Git with a private index, so that no flag set in the worktree's own index hides a file from us.
    pub git: Git,
    index: PathBuf,
    /// The worktree's own git directory.
    admin: PathBuf,
    /// The commit that HEAD is detached at while commands run.
    at: Oid,
    /// The tree that the files were last set to.
    tree: RefCell<Option<Oid>>,
    /// A sandbox in which a command has run and left nothing.
    spare: RefCell<Option<StagingSandbox>>,
    /// Whether commands may run in series: not once that failed, or a command left something.
    may_begin_series: Cell<bool>,
}

/// A sandbox for commands in the worktree.
pub(super) struct StagingSandbox {
    sandbox: Sandbox,
    is_check: bool,
    /// What was in it before the first command, if it can be used again.
    new: Option<Contents>,
}

impl Deref for StagingSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl DerefMut for StagingSandbox {
    fn deref_mut(&mut self) -> &mut Sandbox {
        &mut self.sandbox
    }
}

/// Attaches HEAD to the staging branch again. It is detached while our commands run, so that a command that commits
/// does not move the branch.
impl Drop for StagingWorktree<'_> {
    fn drop(&mut self) {
        // If this fails, HEAD stays detached at the right commit.
        let _ = self.attach_head();
    }
}

impl Integration {
    /// Creates the staging worktree and checks out `at`, so that a completed level integrates faster. Leaves a conflict
    /// that the user is resolving untouched. `clean` tells whether the next gates begin with a clean checkout, which would
    /// throw copies from the main checkout away.
    pub fn prepare_staging_worktree(&self, at: &Oid, clean: bool) -> Result<()> {
        let worktree = StagingWorktree::open(self, at)?;
        if worktree.has_unfinished_merge() {
            return Ok(());
        }
        worktree.set_to(at)?;
        if !clean || !self.caches.is_empty() {
            worktree.warm()?;
        }
        if self.confinement.isolation == Isolation::Container {
            worktree.sandbox(true)?.start_container()
        } else {
            Ok(())
        }
    }

    /// Sets the files to the staging commit, so that the user can inspect or fix something there.
    pub(super) fn show_staging(&self, staging: &Oid) -> Result<()> {
        StagingWorktree::open(self, staging)?.set_to(&self.tree_of(staging)?)?;
        write_projected(&self.shown_file(), staging.as_str().as_bytes())
    }

    /// Returns the file that records the commit last shown to the user: any difference from it is the user's change.
    fn shown_file(&self) -> PathBuf {
        self.paths.dir().join("staging-shown")
    }

    /// Returns the commit last shown to the user, or the user's newest commit on top of it. Staging may have moved
    /// since.
    fn shown(&self) -> Result<Option<Oid>> {
        let shown = bounded::read_to_string(&self.shown_file(), SMALL_FILE_BYTES).ok();
        let Some(shown) = shown.and_then(|text| Oid::new(text).ok()) else {
            return Ok(None);
        };
        let tip = self.repository.resolve_ref(&self.paths.staging_branch())?;
        if self.is_lost(&shown)? {
            // A comparison with the new tip may show too many changes, but misses none.
            return Ok(tip);
        }
        let theirs = tip.map_or(Ok(None), |tip| self.newest_user_commit(&shown, &tip))?;
        Ok(theirs.or(Some(shown)))
    }
}

impl<'a> StagingWorktree<'a> {
    /// Opens the worktree, creating it if necessary. `at` is the commit for HEAD, and for a staging branch that does
    /// not exist yet.
    pub fn open(integration: &'a Integration, at: &Oid) -> Result<Self> {
        let path = integration.paths.staging_worktree();
        check_worktree(integration.project.root(), &integration.paths.worktrees_dir(), &path)?;
        let common_dir = integration.project.common_dir();
        // Also if a command that was killed left no `.git` file, or something else in its place.
        let known = Git::repository(common_dir).worktree_git_dir(&path).filter(|_| path.is_dir());
        let admin = match known {
            Some(admin) => admin,
            None => {
                integration.add_staging_worktree(&path, at)?;
                admin_dir(common_dir, &path)
                    .ok_or_else(|| Error::new(Kind::Failed, format!("git made no worktree at {}", path.display())))?
            }
        };
        let index = integration.staging_index();
        let git = integration.objects.clone().work_tree(&path).index(&index);
        let worktree = StagingWorktree {
            integration,
            path,
            git,
            index,
            admin,
            at: at.clone(),
            tree: RefCell::default(),
            spare: RefCell::default(),
            may_begin_series: Cell::new(true),
        };
        worktree.restore_git_link()?;
        Ok(worktree)
    }

    /// Sets the files to the tree. Ignored files stay and unchanged files keep their times, because rebuilding is
    /// expensive.
    pub fn set_to(&self, tree: &Oid) -> Result<()> {
        self.reset_to(tree, &["clean", "-ffdq"])
    }

    /// Copies what the configuration names from the main checkout if the worktree is new. Not before gates in a clean
    /// checkout.
    pub fn warm(&self) -> Result<()> {
        let Integration { project, paths, confinement, known, warm, .. } = self.integration;
        let (Some(warm), Some(tree)) = (warm, self.tree.borrow().clone()) else { return Ok(()) };
        let same_path = confinement.isolation.maps_paths();
        let place = warm::Place { root: project.root(), worktree: &self.path, same_path };
        known.restore(&self.index)?;
        // Workers report what could not be copied.
        warm.fill(&place, &self.git, &tree, &paths.dir().join(WARM_RECORD))?;
        let index = known.remember(&self.index)?;
        self.publish_state(&index)
    }

    /// Sets the files to the tree of the last time, after a command that did not end.
    pub fn set_again(&self) -> Result<()> {
        let tree = self.tree.borrow().clone();
        tree.map_or(Ok(()), |tree| self.set_to(&tree))
    }

    /// Sets the files to the tree as in a fresh clone: of ignored files only the declared caches stay.
    pub fn set_to_clean(&self, tree: &Oid) -> Result<()> {
        let caches: Vec<String> =
            self.integration.caches.iter().map(|pattern| format!("--exclude={pattern}")).collect();
        let clean: Vec<&str> = ["clean", "-ffdxq"].into_iter().chain(caches.iter().map(String::as_str)).collect();
        self.reset_to(tree, &clean)?;
        let entries = self.git.ls_tree(tree)?;
        let dirs = self.dirs_of(&entries);
        self.restore_modes(&entries, &dirs)?;
        // Git leaves repositories in directories with files of its own.
        dirs.iter().filter(|dir| **dir != self.path).try_for_each(|dir| tree::remove(&dir.join(".git")))?;
        // Git leaves the contents of submodules alone.
        let submodules = entries.into_iter().filter(|entry| entry.kind == EntryType::Submodule);
        for path in submodules.map(|entry| entry.path.under(&self.path)) {
            tree::remove(&path)?;
            fs::create_dir(&path).map_err(io("make", &path))?;
        }
        Ok(())
    }

    /// Gives files and their directories the permissions that a new checkout has. Git sees only who may execute a file.
    fn restore_modes(&self, entries: &[TreeEntry], dirs: &BTreeSet<PathBuf>) -> Result<()> {
        let probe = self.admin.join("mode");
        File::create(&probe).map_err(io("create", &probe))?;
        let plain = fs::metadata(&probe).map_err(io("read", &probe))?.mode() & 0o777;
        fs::remove_file(&probe).map_err(io("remove", &probe))?;
        let executable = plain | (plain & 0o444) >> 2;
        let set = |path: &Path, mode: u32| match fs::symlink_metadata(path) {
            Ok(found) if !found.is_symlink() && found.mode() & 0o7777 != mode => {
                fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io("change the permissions of", path))
            }
            _ => Ok(()),
        };
        for entry in entries.iter().filter(|entry| entry.kind == EntryType::File) {
            let path = entry.path.under(&self.path);
            set(&path, if entry.mode == EXECUTABLE { executable } else { plain })?;
        }
        dirs.iter().try_for_each(|dir| set(dir, executable))
    }

    /// Returns the worktree and the directories in it that have files of the tree.
    fn dirs_of(&self, entries: &[TreeEntry]) -> BTreeSet<PathBuf> {
        let files =
            entries.iter().filter(|entry| entry.kind == EntryType::File).map(|entry| entry.path.under(&self.path));
        let parents = |file: PathBuf| -> Vec<PathBuf> {
            file.ancestors().skip(1).take_while(|dir| dir.starts_with(&self.path)).map(Path::to_owned).collect()
        };
        files.flat_map(parents).chain([self.path.clone()]).collect()
    }

    fn reset_to(&self, tree: &Oid, clean: &[&str]) -> Result<()> {
        // Its index is of another tree.
        self.spare.take();
        tree::remove_special_files(&self.path)?;
        self.save_user_changes()?;
        self.integration.known.restore(&self.index)?;
        if self.attributes_differ(tree)? {
            // Git rewrites only files whose content differs, unless it has no index.
            tree::remove_file(&self.index)?;
        }
        self.git.run(["read-tree", "--reset", "-u", tree.as_str()])?;
        crash::point(|| "staging's files reset");
        if self.git.run(clean).is_err() {
            // Some tools leave directories without write permission.
            tree::make_writable(&self.path);
            self.git.run(clean)?;
        }
        self.tree.replace(Some(tree.clone()));
        let index = self.integration.known.remember(&self.index)?;
        self.publish_state(&index)
    }

    /// Tells whether an attributes file differs between the files as they were written and the tree.
    fn attributes_differ(&self, tree: &Oid) -> Result<bool> {
        let differing = self.git.run(["diff-index", "--cached", "--name-only", "--no-renames", "-z", tree.as_str()])?;
        let is_of_attributes = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes");
        Ok(differing.bytes.split(|byte| *byte == 0).any(is_of_attributes))
    }

    /// Returns the sandbox for a command in the worktree. A check may have no network.
    pub fn sandbox(&self, is_check: bool) -> Result<StagingSandbox> {
        if let Some(mut spare) = self.spare.take().filter(|spare| spare.is_check == is_check) {
            // Without a series each command has a sandbox of its own in the same directories, which takes longer.
            if !(self.may_begin_series.get() && spare.continue_in_series()) {
                self.may_begin_series.set(false);
                spare.end_series();
            }
            return Ok(spare);
        }
        let Integration { project, paths, confinement, identity, known, .. } = self.integration;
        known.restore(&self.index)?;
        let confined = Confined {
            dir: paths.dir().join(STAGING_SANDBOX),
            worktree: &self.path,
            root: project.root(),
            common_dir: project.common_dir(),
            spec_dir: paths.specs(),
            head: &self.at,
            branch: None,
            index: &self.index,
            identity,
            // The ports of the first worker are published by its own container.
            slot: STAGING.to_owned(),
            ports: &[],
        };
        let sandbox =
            if is_check { confinement.sandbox_of_check(&confined)? } else { confinement.sandbox(&confined)? };
        let new = sandbox.contents();
        Ok(StagingSandbox { sandbox, is_check, new })
    }

    /// Keeps a sandbox for the next command if the last one left nothing in it. Creating one can take longer than a
    /// verification.
    pub fn keep(&self, sandbox: StagingSandbox) {
        if sandbox.new.is_some() && sandbox.contents() == sandbox.new {
            self.spare.replace(Some(sandbox));
        }
    }

    /// Makes the worktree's `.git` file lead to the repository, after a sandbox that had to replace it or was killed.
    pub fn restore_git_link(&self) -> Result<()> {
        let (link, text) = (self.path.join(".git"), format!("gitdir: {}\n", self.admin.display()));
        let regular =
            fs::symlink_metadata(&link).is_ok_and(|found| found.is_file() && found.len() == text.len() as u64);
        if regular && bounded::read(&link, SMALL_FILE_BYTES).is_ok_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        tree::remove(&link)?;
        write_projected(&link, text.as_bytes())
    }

    /// Returns how the files differ from those of `set_to`.
    pub fn status(&self) -> Result<Vec<StatusEntry>> {
        // Nothing may run there meanwhile.
        if let Some(spare) = self.spare.borrow_mut().as_mut() {
            spare.end_series();
        }
        tree::remove_special_files(&self.path)?;
        self.integration.known.restore(&self.index)?;
        Ok(self.git.status()?)
    }

    /// Returns whether the files are unchanged since `set_to`, apart from ignored ones.
    pub fn is_clean(&self) -> Result<bool> {
        Ok(self.status()?.iter().all(|entry| entry.found == Found::Ignored))
    }

    /// Takes the changed lock files of the worktree, which was set to the tree `before`, and no other change. Left out
    /// are symbolic links, and new lock files that no task owns.
    pub fn take_lock_files(&self, before: &Oid) -> Result<LockFiles> {
        self.integration.known.restore(&self.index)?;
        let status = self.git.status()?.into_iter();
        let (taken, left_out): (Vec<_>, Vec<_>) = status
            .filter(|entry| matches!(entry.found, Found::Changed | Found::Deleted | Found::Untracked))
            .filter(|entry| entry.path.as_str().is_some_and(is_lock_file))
            .partition(|entry| self.may_be_committed(entry));
        self.git.update_index(taken.iter().map(|entry| &entry.path))?;
        let tree = self.with_committed_modes(before, self.git.write_tree()?)?;
        let left_out = left_out.iter().map(|entry| entry.path.to_string()).collect();
        let deleted = taken.iter().filter(|entry| entry.found == Found::Deleted);
        let deleted = deleted.map(|entry| entry.path.to_string()).collect();
        Ok(LockFiles { tree, left_out, deleted })
    }

    /// Returns the tree in the index with the modes that the changed files had before; new ones are not executable.
    fn with_committed_modes(&self, before: &Oid, tree: Oid) -> Result<Oid> {
        let mut input = IndexInput::default();
        let mut differ = false;
        for change in self.git.diff_tree(before, &tree)? {
            let mode = if change.old_mode == EXECUTABLE { EXECUTABLE } else { REGULAR };
            if let Some(new) = change.new.filter(|_| change.new_mode != mode) {
                input.set(&change.path, mode, &new, 0);
                differ = true;
            }
        }
        if !differ {
            return Ok(tree);
        }
        self.git.change_index(input)?;
        Ok(self.git.write_tree()?)
    }

    fn may_be_committed(&self, lock_file: &StatusEntry) -> bool {
        let StatusEntry { path, found } = lock_file;
        let is_file = || fs::symlink_metadata(path.under(&self.path)).is_ok_and(|found| found.is_file());
        match found {
            _ if tree::link_on_the_way(&self.path, path.as_path()).is_some() => false,
            Found::Deleted => true,
            Found::Untracked => is_file() && self.integration.owners.values().any(|owned| owns(owned, path)),
            _ => is_file(),
        }
    }

    /// Leaves the conflict as `git merge` would, so that the user's `git commit` creates the merge.
    pub fn show_conflict(&self, staging: &Oid, theirs: &Oid, tree: &Oid, stages: &[Stage]) -> Result<()> {
        self.set_to(tree)?;
        self.git.mark_conflict(stages)?;
        self.publish_state(&bounded::read(&self.index, INDEX_BYTES).map_err(io("read", &self.index))?)?;
        let branch = short_branch(&self.integration.base_branch);
        let message = format!("Merge {branch} into {}\n", short_branch(&self.integration.paths.staging_branch()));
        self.write("ORIG_HEAD", &format!("{staging}\n"))?;
        self.write("MERGE_MSG", &message)?;
        self.write("MERGE_MODE", "")?;
        self.write("MERGE_HEAD", &format!("{theirs}\n"))
    }

    pub fn has_unfinished_merge(&self) -> bool {
        self.admin.join("MERGE_HEAD").exists()
    }

    /// Returns whether the user is resolving a conflict of this staging commit.
    pub fn is_being_merged(&self, staging: &Oid) -> bool {
        self.has_unfinished_merge() && self.merge_start().as_ref() == Some(staging)
    }

    /// Returns the commit that the unfinished merge started from.
    fn merge_start(&self) -> Option<Oid> {
        Oid::new(bounded::read_to_string(&self.admin.join("ORIG_HEAD"), SMALL_FILE_BYTES).ok()?.trim()).ok()
    }

    /// Saves the user's work in an abandoned merge, or uncommitted changes made after staging was shown.
    fn save_user_changes(&self) -> Result<()> {
        let shown = self.integration.shown_file();
        let start = if self.has_unfinished_merge() {
            self.merge_start()
        } else if shown.exists() {
            self.integration.shown()?
        } else {
            return Ok(());
        };
        if let Some(start) = start {
            self.keep_changes_since(&start)?;
        }
        for path in MERGE_FILES.iter().map(|name| self.admin.join(name)).chain([shown]) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    fn keep_changes_since(&self, start: &Oid) -> Result<()> {
        let integration = self.integration;
        let git = self.git.clone().index(integration.objects.git_dir().join("kept.index"));
        git.read_tree(start)?;
        git.detach_head(start)?;
        let changes = git.status()?.into_iter();
        let kept: Vec<RepoPath> = changes
            .filter(|entry| matches!(entry.found, Found::Changed | Found::Deleted | Found::Untracked))
            .map(|entry| entry.path)
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        git.update_index(&kept)?;
        let message = format!("Not committed on staging: {}\n", integration.paths.feature());
        let commit =
            git.commit_tree(&git.write_tree()?, std::slice::from_ref(start), &message, &integration.identity)?;
        integration.keep_for_user(commit)
    }

    fn attach_head(&self) -> Result<()> {
        self.write("HEAD", &format!("ref: {}\n", self.integration.paths.staging_branch()))
    }

    /// Writes HEAD and the worktree's own index, so that git commands of the user and of gates see the same state as we
    /// do.
    fn publish_state(&self, index: &[u8]) -> Result<()> {
        self.write("HEAD", &format!("{}\n", self.at))?;
        write_projected(&self.admin.join("index"), index)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        write_projected(&self.admin.join(name), text.as_bytes())
    }
}

impl Integration {
    /// Keeps the user's commit under a ref of its own and reports it.
    pub(super) fn keep_for_user(&self, commit: Oid) -> Result<()> {
        let name = format!("refs/mahabharatha/{}/unfinished/{}", self.paths.feature(), commit.short());
        self.repository.update_refs(&[RefChange::Set { name: name.clone(), new: commit }], "")?;
        (self.report)(Note::Kept { name });
        Ok(())
    }

    fn add_staging_worktree(&self, path: &Path, at: &Oid) -> Result<()> {
        let branch = self.paths.staging_branch();
        let _lock = WorktreesLock::wait(&self.project.shared_dir())?;
        let has_files = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        let is_adopted = has_files && self.adopt_staging_worktree(path)?;
        if has_files && !is_adopted {
            return Err(Error::new(
                Kind::Failed,
                format!("{} is not empty, and not a worktree of this repository", path.display()),
            )
            .hint("Move it away, then run the same command again."));
        }
        if self.repository.resolve_ref(&branch)?.is_none() {
            let set = RefChange::Set { name: branch.clone(), new: at.clone() };
            self.repository.update_refs(&[set], "")?;
        }
        crash::point(|| "add staging before");
        if !is_adopted {
            let args = ["worktree", "add", "--quiet", "--no-checkout", "--force"].map(Path::new);
            self.repository.run(args.into_iter().chain([path, Path::new(short_branch(&branch))]))?;
        }
        if let Some(admin) = admin_dir(self.project.common_dir(), path) {
            // Git copies the patterns of a sparse checkout; gates see every file.
            let _ = fs::remove_file(admin.join("info/sparse-checkout"));
        }
        crash::point(|| "add staging after");
        Ok(())
    }
}

/// Returns the git directory of a checkout as recorded in the repository: an agent could have changed the checkout's
/// own `.git` file.
pub(super) fn admin_dir(common_dir: &Path, worktree: &Path) -> Option<PathBuf> {
    Git::repository(common_dir).worktree_git_dir(worktree).filter(|_| worktree.join(".git").is_file())
}
