//! The project: finds the main checkout of a git repository, and knows the paths of all our files in it.
//!
//! Called by every crate above. Must never create a project: `init` does.

mod checkout;
mod costs;
mod glance;
mod paths;
mod which_feature;
mod worktrees;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mahabharatha_core::config::Ports;
use mahabharatha_core::ids::Feature;

use crate::error::{Error, Kind, Result};
use crate::git::{self, Cause, Git, GitError, Identity, Pinned, Settings};
use crate::store::ports::{self, PortLease};

pub use checkout::{BISECTION, operations_in};
pub use glance::GitDirs;
pub use mahabharatha_core::names::wip_ref;
pub use paths::{FeaturePaths, job_dir};
pub use worktrees::{above_our_worktrees, is_worktrees_dir, our_worktree};

/// The project and feature that a command works on.
#[derive(Clone)]
pub struct Place {
    pub project: Project,
    pub feature: Feature,
    pub paths: FeaturePaths,
}

impl Place {
    pub fn new(project: Project, feature: Feature) -> Place {
        Place { paths: project.feature(&feature), project, feature }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    common_dir: PathBuf,
    /// The checkout in which the command was run: the main checkout or a linked worktree.
    checkout: PathBuf,
    /// The git directory of that checkout.
    git_dir: PathBuf,
    /// Read once, so that later changes by an agent have no effect.
    settings: OnceLock<Settings>,
}

impl Project {
    /// Finds the project of a directory, which may be a subdirectory or a linked worktree. Fails if it has no commit.
    pub fn find(start: &Path) -> Result<Project> {
        let project = Project::locate(start)?.ok_or_else(|| {
            Error::new(Kind::Preflight, format!("{} is not in a git repository", start.display())).hint(
                "Name a repository with -C <dir>, or create one here: git init && git add -A && git commit, or \
                 `mahabharatha init` in an empty directory.",
            )
        })?;
        if project.find_head()?.is_none() {
            let root = project.root.display();
            return Err(Error::new(Kind::Preflight, format!("the repository {root} has no commit yet"))
                .hint("Create one first: git add -A && git commit -m \"First commit\"."));
        }
        Ok(project)
    }

    /// Finds the project of a directory, even if it has no commit yet; `None` if there is no repository.
    pub fn locate(start: &Path) -> Result<Option<Project>> {
        let start = start.canonicalize().map_err(|error| {
            Error::new(Kind::Usage, format!("there is no directory {}: {error}", start.display()))
                .hint("Name an existing directory: -C <dir>.")
        })?;
        let start = &above_our_worktrees(&start).unwrap_or(start);
        let found = match git::discover(start) {
            Err(error) if error.cause() == Some(Cause::NoRepository) => return Ok(None),
            found => found.map_err(|error| explain(error, start))?,
        };
        let root = match found.top {
            Some(ref top) if found.is_main() => top.clone(),
            // Inside `.git`, or in a linked worktree.
            _ => main_worktree(&found.common_dir)?,
        };
        let checkout = found.top.unwrap_or_else(|| root.clone());
        let (common_dir, git_dir) = (found.common_dir, found.git_dir);
        Ok(Some(Project { root, checkout, common_dir, git_dir, settings: OnceLock::new() }))
    }

    /// Returns the main checkout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the checkout in which the command was run.
    pub fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// Returns the git directory that all checkouts share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    pub fn git(&self) -> Git {
        Git::repository(&self.common_dir)
    }

    /// Returns git for the checkout in which the command was run; levels land on its branch.
    pub fn head(&self) -> Git {
        Git::repository(&self.git_dir)
    }

    /// Returns the git directory of the checkout in which the command was run.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    pub fn pinned_config(&self) -> Result<Pinned> {
        Ok(self.settings()?.pinned()?)
    }

    /// Returns the user's git identity.
    pub fn identity(&self) -> Result<Identity> {
        Ok(self.settings()?.identity())
    }

    fn settings(&self) -> Result<&Settings> {
        if let Some(known) = self.settings.get() {
            return Ok(known);
        }
        let settings = self.git().settings()?;
        Ok(self.settings.get_or_init(|| settings))
    }

    /// Leases ports for each worker from the configured range.
    pub fn lease_ports(&self, config: &Ports, workers: u32) -> Result<Vec<PortLease>> {
        let range = config.range_start..=config.range_end;
        ports::lease(&self.shared_dir().join("ports"), range, workers, config.per_worker as u16)
    }

    /// Returns our directory below the git directory, shared by all features.
    pub fn shared_dir(&self) -> PathBuf {
        self.common_dir.join("mahabharatha")
    }

    /// Returns the file to which the cost of agent calls during project setup is appended. No feature can have this name.
    pub fn setup_costs(&self) -> PathBuf {
        self.shared_dir().join("setup.jsonl")
    }

    /// `.mahabharatha`
    pub fn home(&self) -> PathBuf {
        self.root.join(HOME)
    }

    pub fn config_file(&self) -> PathBuf {
        self.home().join("config.yaml")
    }

    /// Returns the directory for documents that a session hands to `plan` and `design`; git ignores it.
    pub fn drafts(&self) -> PathBuf {
        self.home().join("drafts")
    }

    /// `.gsd`
    pub fn gsd(&self) -> PathBuf {
        self.root.join(".gsd")
    }

    pub fn project_file(&self) -> PathBuf {
        self.gsd().join("PROJECT.md")
    }

    pub fn state_file(&self) -> PathBuf {
        self.gsd().join("STATE.md")
    }

    pub fn current_feature_file(&self) -> PathBuf {
        self.gsd().join(".current-feature")
    }

    pub fn feature(&self, feature: &Feature) -> FeaturePaths {
        FeaturePaths::new(&self.gsd(), &self.home(), &self.shared_dir(), feature)
    }
}

const HOME: &str = ".mahabharatha";

fn main_worktree(common_dir: &Path) -> Result<PathBuf> {
    let place = common_dir.display();
    let main = Git::repository(common_dir).worktree_list()?.into_iter().next();
    let Some(main) = main.filter(|main| !main.bare) else {
        return Err(Error::new(Kind::Preflight, format!("{place} is a bare repository, without a work tree"))
            .hint("Clone it (git clone <repository> <directory>) and work in the clone."));
    };
    // With a separate git directory, git reports that directory as the checkout.
    let top = git::discover(&main.path).ok().filter(|found| found.is_main() && found.common_dir == common_dir);
    top.and_then(|found| found.top).ok_or_else(|| {
        Error::new(Kind::Preflight, format!("cannot find the main checkout of {place}"))
            .hint("Run the command in the main checkout, or name it with -C <dir>.")
    })
}

fn explain(error: GitError, start: &Path) -> Error {
    match error {
        GitError::Failed { cause: Cause::NotTrusted, stderr, .. } => {
            let message = format!("git does not trust the repository of {}", start.display());
            stderr.lines().fold(Error::new(Kind::Preflight, message), Error::detail)
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mahabharatha_testing::git;

    use super::*;

    /// Creates a repository with one commit.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().canonicalize().unwrap().join("ma in");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        (dir, main)
    }

    #[test]
    fn the_project_is_the_main_checkout_from_any_directory() {
        let (_dir, main) = repository();
        let deep = main.join("a/b");
        let linked = main.with_file_name("linked");
        fs::create_dir_all(&deep).unwrap();
        git(&main, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        fs::create_dir(linked.join("sub")).unwrap();
        for start in [&main, &deep, &linked, &linked.join("sub"), &main.join(".git"), &main.join(".git/objects")] {
            let project = Project::find(start).unwrap();
            assert_eq!(project.root(), main, "{}", start.display());
            assert_eq!(project.common_dir(), main.join(".git"), "{}", start.display());
        }
    }

    #[test]
    fn a_workers_worktree_is_no_project_even_if_an_agent_made_it_one() {
        let (_dir, main) = repository();
        let worktree = main.join(".mahabharatha/worktrees/x/worker-0");
        fs::create_dir_all(worktree.join("src")).unwrap();
        git(&worktree, &["init", "-q"]);
        git(&worktree, &["commit", "-q", "--allow-empty", "-m", "planted"]);
        assert_eq!(Project::find(&worktree.join("src")).unwrap().root(), main);
    }

    #[test]
    fn a_repository_with_its_git_directory_elsewhere_works() {
        let dir = tempfile::tempdir().unwrap();
        let (root, files) = (dir.path().canonicalize().unwrap(), dir.path().canonicalize().unwrap().join("files"));
        git(&root, &["init", "-q", "--separate-git-dir", "gits", "files"]);
        git(&files, &["commit", "-q", "--allow-empty", "-m", "one"]);
        let project = Project::find(&files).unwrap();
        assert_eq!((project.root(), project.common_dir()), (files.as_path(), root.join("gits").as_path()));
        git(&files, &["worktree", "add", "-q", "../linked"]);
        let error = Project::find(&root.join("linked")).unwrap_err();
        assert!(error.what_to_do().unwrap().contains("-C"), "{error}");
    }

    #[test]
    fn a_submodule_is_a_project_of_its_own() {
        let (_dir, main) = repository();
        let outer = main.with_file_name("outer");
        fs::create_dir(&outer).unwrap();
        git(&outer, &["init", "-q"]);
        git(&outer, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../ma in", "sub"]);
        let project = Project::find(&outer.join("sub")).unwrap();
        assert_eq!(project.root(), outer.join("sub"));
        assert_eq!(project.common_dir(), outer.join(".git/modules/sub"));
    }

    #[test]
    fn a_directory_without_commits_or_work_tree_gives_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("plain")).unwrap();
        git(dir.path(), &["init", "-q", "--bare", "bare"]);
        git(dir.path(), &["init", "-q", "empty"]);
        for (name, what, hint) in [
            ("plain", "not in a git repository", "git init"),
            ("bare", "bare", "git clone"),
            ("empty", "no commit", "git commit"),
        ] {
            let error = Project::find(&at(name)).unwrap_err();
            assert_eq!(error.kind(), Kind::Preflight, "{name}: {error}");
            assert!(error.message().contains(what), "{name}: {error}");
            assert!(error.what_to_do().unwrap().contains(hint), "{name}: {error}");
        }
        assert!(Project::find(&at("nowhere")).unwrap_err().message().contains("nowhere"));
    }
}
