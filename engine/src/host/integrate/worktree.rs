//! Staging's own worktree, where commands run on exactly one tree, and where a person resolves a conflict.

use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::is_lock_file;
use mahabharatha_core::ids::Oid;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{Found, Git, RefChange, RepoPath, Stage};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::locks::WorktreesLock;

use super::{Integration, Note};

/// What git leaves in a worktree's git directory while a merge is unfinished.
const MERGE_FILES: [&str; 4] = ["MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE"];

pub(super) struct StagingWorktree<'a> {
    integration: &'a Integration,
    pub path: PathBuf,
    /// With an index of ours: no flag that anybody sets in the worktree's own hides a file from us.
    pub git: Git,
    index: PathBuf,
    /// The worktree's own git directory.
    admin: PathBuf,
    /// Where HEAD stands while commands run.
    at: Oid,
}

/// A command that commits does not move the branch: HEAD is on it only while no command of ours runs there.
impl Drop for StagingWorktree<'_> {
    fn drop(&mut self) {
        // Where it cannot be written, people find HEAD detached at the right commit.
        let _ = self.attach_head();
    }
}

impl Integration {
    /// Makes staging's worktree and checks `at` out there, so that little is left to do when a level is complete.
    /// Where a person is at work on a conflict nothing is touched.
    pub fn prepare_staging_worktree(&self, at: &Oid) -> Result<()> {
        let worktree = StagingWorktree::open(self, at)?;
        if worktree.has_unfinished_merge() { Ok(()) } else { worktree.set_to(at) }
    }

    /// Leaves the files as staging has them, for a person who looks there or fixes something.
    pub(super) fn show_staging(&self, staging: &Oid) -> Result<()> {
        StagingWorktree::open(self, staging)?.set_to(&self.tree_of(staging)?)?;
        write_projected(&self.shown_mark(), staging.as_str().as_bytes())
    }

    /// Says that the files were left as staging has them, and at which commit: what differs afterwards is a person's.
    fn shown_mark(&self) -> PathBuf {
        self.paths.dir().join("staging-shown")
    }

    /// What a person was left with: the commit that was shown, or their own on top of it. Staging may have gone on since.
    fn shown(&self) -> Result<Option<Oid>> {
        let Some(shown) = fs::read_to_string(self.shown_mark()).ok().and_then(|text| Oid::new(text).ok()) else {
            return Ok(None);
        };
        let tip = self.repository.resolve_ref(&self.paths.staging_branch())?;
        let theirs = tip.map_or(Ok(None), |tip| self.newest_of_people(&shown, &tip))?;
        Ok(theirs.or(Some(shown)))
    }
}

impl<'a> StagingWorktree<'a> {
    /// `at` is where HEAD stands, and where the staging branch begins if there is none yet.
    pub fn open(integration: &'a Integration, at: &Oid) -> Result<Self> {
        let path = integration.paths.staging_worktree();
        let common_dir = integration.project.common_dir();
        let admin = match admin_dir(common_dir, &path) {
            Some(admin) => admin,
            None => {
                integration.add_staging_worktree(&path, at)?;
                admin_dir(common_dir, &path)
                    .ok_or_else(|| Error::new(Kind::Failed, format!("git made no worktree at {}", path.display())))?
            }
        };
        let index = integration.objects.git_dir().join("staging.index");
        let git = integration.objects.clone().work_tree(&path).index(&index);
        Ok(StagingWorktree { integration, path, git, index, admin, at: at.clone() })
    }

    /// Makes the files those of the tree. What git ignores stays, and files that need not change keep their times:
    /// both are expensive to build anew.
    pub fn set_to(&self, tree: &Oid) -> Result<()> {
        self.put_away_what_people_left()?;
        self.integration.known.restore(&self.index)?;
        self.git.run(["read-tree", "--reset", "-u", tree.as_str()])?;
        crash::point(|| "staging's files reset");
        self.git.run(["clean", "-ffdq"])?;
        let index = self.integration.known.remember(&self.index)?;
        self.show_to_others(&index)
    }

    /// Whether the files are still those of the tree that they were set to, apart from what git ignores.
    pub fn is_clean(&self) -> Result<bool> {
        self.integration.known.restore(&self.index)?;
        Ok(self.git.status()?.iter().all(|entry| entry.found == Found::Ignored))
    }

    /// Takes the lock files among the changes in the worktree; the rest is not part of the tree.
    pub fn tree_with_lock_files(&self) -> Result<Oid> {
        self.integration.known.restore(&self.index)?;
        let changed = self.git.status()?.into_iter().filter(|entry| {
            matches!(entry.found, Found::Changed | Found::Deleted | Found::Untracked)
                && entry.path.as_str().is_some_and(is_lock_file)
        });
        let paths: Vec<RepoPath> = changed.map(|entry| entry.path).collect();
        self.git.update_index(&paths)?;
        Ok(self.git.write_tree()?)
    }

    /// Leaves the conflict as `git merge` would, so that the person's `git commit` makes the merge.
    pub fn show_conflict(&self, staging: &Oid, theirs: &Oid, tree: &Oid, stages: &[Stage]) -> Result<()> {
        self.set_to(tree)?;
        self.git.mark_conflict(stages)?;
        self.show_to_others(&fs::read(&self.index).map_err(io("read", &self.index))?)?;
        let branch = short_name(&self.integration.base_branch);
        let message = format!("Merge {branch} into {}\n", short_name(&self.integration.paths.staging_branch()));
        self.write("ORIG_HEAD", &format!("{staging}\n"))?;
        self.write("MERGE_MSG", &message)?;
        self.write("MERGE_MODE", "")?;
        self.write("MERGE_HEAD", &format!("{theirs}\n"))
    }

    pub fn has_unfinished_merge(&self) -> bool {
        self.admin.join("MERGE_HEAD").exists()
    }

    /// Whether a person is at work on a conflict of this very staging.
    pub fn is_being_merged(&self, staging: &Oid) -> bool {
        self.has_unfinished_merge() && self.began_at().as_ref() == Some(staging)
    }

    fn began_at(&self) -> Option<Oid> {
        Oid::new(fs::read_to_string(self.admin.join("ORIG_HEAD")).ok()?.trim()).ok()
    }

    /// Keeps what a person may have put into a merge that nothing comes of any more, or changed without a commit after
    /// staging was shown.
    fn put_away_what_people_left(&self) -> Result<()> {
        let shown = self.integration.shown_mark();
        let began = if self.has_unfinished_merge() {
            self.began_at()
        } else if shown.exists() {
            self.integration.shown()?
        } else {
            return Ok(());
        };
        if let Some(began) = began {
            self.keep_changes_since(&began)?;
        }
        for path in MERGE_FILES.iter().map(|name| self.admin.join(name)).chain([shown]) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    fn keep_changes_since(&self, began: &Oid) -> Result<()> {
        let integration = self.integration;
        let git = self.git.clone().index(integration.objects.git_dir().join("kept.index"));
        git.read_tree(began)?;
        git.detach_head(began)?;
        let there = git.status()?.into_iter();
        let kept: Vec<RepoPath> = there
            .filter(|entry| matches!(entry.found, Found::Changed | Found::Deleted | Found::Untracked))
            .map(|entry| entry.path)
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        git.update_index(&kept)?;
        let message = format!("Not committed on staging: {}\n", integration.paths.feature());
        let commit =
            git.commit_tree(&git.write_tree()?, std::slice::from_ref(began), &message, &integration.identity)?;
        integration.keep_for_people(commit)
    }

    fn attach_head(&self) -> Result<()> {
        self.write("HEAD", &format!("ref: {}\n", self.integration.paths.staging_branch()))
    }

    /// Lets git as others call it there see what we see: the commit, and an index that fits.
    fn show_to_others(&self, index: &[u8]) -> Result<()> {
        self.write("HEAD", &format!("{}\n", self.at))?;
        write_projected(&self.admin.join("index"), index)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        write_projected(&self.admin.join(name), text.as_bytes())
    }
}

impl Integration {
    /// Keeps what a person did on staging under a ref of its own, and says so.
    pub(super) fn keep_for_people(&self, commit: Oid) -> Result<()> {
        let name = format!("refs/mahabharatha/{}/unfinished/{}", self.paths.feature(), commit.short());
        self.repository.update_refs(&[RefChange::Set { name: name.clone(), new: commit }], "")?;
        (self.report)(Note::Kept { name });
        Ok(())
    }

    fn add_staging_worktree(&self, path: &Path, at: &Oid) -> Result<()> {
        let branch = self.paths.staging_branch();
        let _lock = WorktreesLock::wait(&self.project.shared_dir())?;
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::new(
                Kind::Failed,
                format!("{} is not empty, and not a worktree of this repository", path.display()),
            )
            .hint("Move it away, then run the same command again."));
        }
        if self.repository.resolve_ref(&branch)?.is_none() {
            self.repository.update_ref(&branch, at, None)?;
        }
        crash::point(|| "add staging before");
        let args = ["worktree", "add", "--quiet", "--no-checkout", "--force"].map(Path::new);
        self.repository.run(args.into_iter().chain([path, Path::new(short_name(&branch))]))?;
        crash::point(|| "add staging after");
        Ok(())
    }
}

/// The git directory of a checkout, by what the repository says: the checkout's own `.git` file is anybody's to write.
pub(super) fn admin_dir(common_dir: &Path, worktree: &Path) -> Option<PathBuf> {
    Git::repository(common_dir).worktree_git_dir(worktree).filter(|_| worktree.join(".git").is_file())
}

/// A branch as people call it.
pub(super) fn short_name(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}
