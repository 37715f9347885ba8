//! Where the worktrees of workers are: in `.mahabharatha/worktrees`, or in the directory that `worktrees.dir` names.
//!
//! That directory names its project in a file, and each feature's state names the directory. Both must agree: a file
//! that came with a clone or that an agent left means nothing.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{FeaturePaths, GitDirs, HOME, Project};
use crate::bounded::{SMALL_FILE_BYTES, read};
use crate::error::{Error, Kind, Result, io};
use crate::git::RepoPath;
use crate::proc::expand_home;
use crate::store::atomic::write_projected;
use crate::store::locks::WorktreesLock;
use crate::store::tree;

/// File in a directory of worktrees outside of `.mahabharatha` that names the project.
const MARK: &str = ".mahabharatha-project";
/// File in a feature's state that names its directory of worktrees, unless that is the default.
const RECORD: &str = "worktrees-dir";
const DEFAULT: &str = "worktrees";

impl Project {
    /// Returns the directory for worktrees: what `worktrees.dir` says, or the default.
    pub fn worktrees_dir(&self, setting: Option<&str>) -> PathBuf {
        let Some(setting) = setting else { return self.home().join(DEFAULT) };
        resolved(&self.root().join(expand_home(setting)))
    }

    /// Refuses a directory that is not for worktrees of this project alone.
    pub fn check_worktrees_dir(&self, dir: &Path) -> Result<()> {
        let refuse = |why: &str, hint: String| {
            Err(Error::new(Kind::Preflight, format!("worktrees.dir: {} {why}", dir.display())).hint(hint))
        };
        let another = || "Name another directory, such as one beside the repository.".to_owned();
        if dir == self.home().join(DEFAULT) {
            return Ok(());
        }
        if self.root().starts_with(dir) || [self.common_dir(), self.git_dir()].iter().any(|git| dir.starts_with(git)) {
            return refuse("holds the repository or is in its git directory", another());
        }
        if let Ok(inside) = dir.strip_prefix(self.root()) {
            let path = RepoPath::new(inside.as_os_str().as_bytes());
            // A pattern for directories does not apply to one that is not there yet, but to what would be in it.
            let below = RepoPath::new(inside.join("x").as_os_str().as_bytes());
            let git = self.head().work_tree(self.root());
            if git.ignored(&[below])?.is_empty() {
                return refuse(
                    "is in the repository, and git does not ignore it",
                    format!("Add `/{path}/` to .gitignore."),
                );
            }
        }
        let is_empty = fs::read_dir(dir).map(|mut entries| entries.next().is_none());
        match (owner(dir), is_empty) {
            (Some(root), _) if root == self.root() => Ok(()),
            (Some(root), _) => refuse(
                &format!("is used by another project, {}", root.display()),
                format!("Name another directory; if that project is gone, remove {}.", dir.join(MARK).display()),
            ),
            (None, Ok(false)) => {
                refuse("is not empty, and not made for worktrees", "Name an empty or a new directory.".to_owned())
            }
            (None, Err(error)) if error.kind() != ErrorKind::NotFound => refuse(&format!("({error})"), another()),
            (None, _) => Ok(()),
        }
    }

    /// Lets the feature's worktrees be in the directory from now on. There must be none elsewhere.
    pub fn use_worktrees_dir(&self, paths: &FeaturePaths, dir: &Path) -> Result<()> {
        let record = paths.dir().join(RECORD);
        // Another feature may be removing the directory.
        let _lock = WorktreesLock::wait(&self.shared_dir())?;
        if dir == self.home().join(DEFAULT) {
            return tree::remove_file(&record);
        }
        let own = dir.join(paths.feature().as_str());
        fs::create_dir_all(&own).map_err(io("make", &own))?;
        write_projected(&dir.join(MARK), self.root().as_os_str().as_bytes())?;
        write_projected(&record, dir.as_os_str().as_bytes())
    }
}

impl FeaturePaths {
    /// Returns the directory with the worktrees of all features that use it.
    pub fn worktrees_dir(&self) -> PathBuf {
        let recorded = path_in(&self.dir().join(RECORD));
        // Another project may use the directory by now.
        let is_ours = |dir: &PathBuf| owner(dir).as_deref() == self.home().parent();
        recorded.filter(is_ours).unwrap_or_else(|| self.home().join(DEFAULT))
    }

    /// Returns the directory of the feature's worktrees.
    pub fn worktrees(&self) -> PathBuf {
        self.worktrees_dir().join(self.feature().as_str())
    }

    /// Removes the directories of the feature's worktrees as far as they are empty.
    pub fn remove_worktrees_dir(&self) {
        let (own, dir) = (self.worktrees(), self.worktrees_dir());
        // Each fails if something is in it.
        let _ = fs::remove_dir(&own);
        let mark = dir.join(MARK);
        let is_last = fs::read_dir(&dir).is_ok_and(|entries| entries.flatten().all(|entry| entry.path() == mark));
        if is_last {
            let _ = fs::remove_file(&mark);
            let _ = fs::remove_file(self.dir().join(RECORD));
            let _ = fs::remove_dir(&dir);
        }
    }
}

/// Returns the project root if the path is in one of our worktrees. A worker's worktree is not a project itself, and
/// git files that an agent left in it must not be trusted.
pub fn above_our_worktrees(path: &Path) -> Option<PathBuf> {
    our_worktree(path).map(|(root, _)| root)
}

/// Splits a path in one of our worktrees into the project root and the path below the worktrees directory.
pub fn our_worktree(path: &Path) -> Option<(PathBuf, PathBuf)> {
    in_default_place(path).or_else(|| in_other_place(path))
}

fn in_default_place(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let names: Vec<Component> = path.components().collect();
    let at = names.windows(2).position(|pair| pair[0].as_os_str() == HOME && pair[1].as_os_str() == DEFAULT)?;
    let root = path.ancestors().nth(names.len() - at)?;
    Some((root.to_owned(), path.strip_prefix(root.join(HOME).join(DEFAULT)).ok()?.to_owned()))
}

fn in_other_place(path: &Path) -> Option<(PathBuf, PathBuf)> {
    // The outermost one: what is in a worktree may come from an agent.
    let found = path.ancestors().skip(1).filter_map(|dir| {
        let root = owner(dir).filter(|root| !root.starts_with(dir))?;
        let inside = path.strip_prefix(dir).ok()?;
        let state = GitDirs::at(&root).ok()??.common_dir.join("mahabharatha").join(inside.iter().next()?);
        (path_in(&state.join(RECORD)).as_deref() == Some(dir)).then(|| (root, inside.to_owned()))
    });
    found.last()
}

/// Tells whether the directory is one for worktrees, outside of `.mahabharatha`.
pub fn is_worktrees_dir(dir: &Path) -> bool {
    owner(dir).is_some()
}

/// Returns the project that a directory of worktrees names as its own.
fn owner(dir: &Path) -> Option<PathBuf> {
    path_in(&dir.join(MARK))
}

/// Returns the absolute path that a file of ours holds.
fn path_in(file: &Path) -> Option<PathBuf> {
    let bytes = read(file, SMALL_FILE_BYTES).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&bytes))).filter(|path| path.is_absolute())
}

/// Returns the path without links and `..`, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
        plain = plain.canonicalize().unwrap_or(plain);
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mahabharatha_core::ids::Feature;

    use super::*;

    fn repository(dir: &Path) -> Project {
        fs::create_dir_all(dir).unwrap();
        for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "one"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=T", "-c", "user.email=t@t"]).args(args).current_dir(dir);
            assert!(git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap().status.success());
        }
        Project::find(dir).unwrap()
    }

    #[test]
    fn a_directory_is_found_by_its_setting() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let project = repository(&top.join("ma in"));
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        std::os::unix::fs::symlink(&top, top.join("link")).unwrap();
        for (setting, expected) in [
            (None, top.join("ma in/.mahabharatha/worktrees")),
            (Some("out/trees"), top.join("ma in/out/trees")),
            (Some("../trees"), top.join("trees")),
            (Some("./a/../trees/"), top.join("ma in/trees")),
            (Some("../link/trees"), top.join("trees")),
            (Some("/srv/none/trees"), PathBuf::from("/srv/none/trees")),
            (Some("~/none/trees"), home.canonicalize().unwrap().join("none/trees")),
        ] {
            assert_eq!(project.worktrees_dir(setting), expected, "{setting:?}");
        }
    }

    #[test]
    fn only_a_directory_for_this_project_alone_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (project, other) = (repository(&top.join("main")), repository(&top.join("other")));
        let x = Feature::new("x").unwrap();
        other.use_worktrees_dir(&other.feature(&x), &top.join("others")).unwrap();
        fs::write(project.root().join(".gitignore"), "/out/\n").unwrap();
        fs::create_dir_all(top.join("full/x")).unwrap();
        for (setting, why) in [
            ("..", "holds the repository"),
            (".", "holds the repository"),
            (".git/trees", "in its git directory"),
            ("trees", "git does not ignore it"),
            ("../full", "not empty"),
            ("../others", "is used by another project"),
            ("../main/.gitignore", "git does not ignore it"),
        ] {
            let error = project.check_worktrees_dir(&project.worktrees_dir(Some(setting))).unwrap_err();
            assert!(error.message().contains(why), "{setting}: {error}");
            assert!(error.what_to_do().is_some(), "{setting}");
        }
        for setting in ["out/trees", "../trees", "../full/x", "out"] {
            let place = project.worktrees_dir(Some(setting));
            project.check_worktrees_dir(&place).unwrap();
            project.use_worktrees_dir(&project.feature(&x), &place).unwrap();
            fs::create_dir_all(place.join("x/worker-0")).unwrap();
            project.check_worktrees_dir(&place).unwrap();
            assert_eq!(project.feature(&x).worktrees(), place.join("x"));
            fs::remove_dir_all(&place).unwrap();
        }
        // Not while another project uses it.
        project.use_worktrees_dir(&project.feature(&x), &top.join("trees")).unwrap();
        other.use_worktrees_dir(&other.feature(&x), &top.join("trees")).unwrap();
        assert_eq!(project.feature(&x).worktrees(), project.home().join("worktrees/x"));
        project.use_worktrees_dir(&project.feature(&x), &project.worktrees_dir(None)).unwrap();
        assert_eq!(project.feature(&x).worktrees(), project.home().join("worktrees/x"));
    }

    #[test]
    fn the_project_is_found_from_its_worktrees_and_a_planted_file_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (project, hostile) = (repository(&top.join("main")), repository(&top.join("hostile")));
        let paths = project.feature(&Feature::new("x").unwrap());
        project.use_worktrees_dir(&paths, &top.join("trees")).unwrap();
        let inside = top.join("trees/x/worker-0/src");
        fs::create_dir_all(&inside).unwrap();
        assert_eq!(our_worktree(&inside), Some((project.root().to_owned(), "x/worker-0/src".into())));
        fs::write(inside.join(MARK), hostile.root().as_os_str().as_bytes()).unwrap();
        assert_eq!(above_our_worktrees(&inside.join("x/worker-0")).unwrap(), project.root());
        assert_eq!(Project::find(&inside).unwrap().root(), project.root());
        // A clone that claims to be the directory of another project's worktrees.
        fs::write(hostile.root().join(MARK), project.root().as_os_str().as_bytes()).unwrap();
        fs::create_dir_all(hostile.root().join("x/worker-0")).unwrap();
        assert_eq!(Project::find(&hostile.root().join("x/worker-0")).unwrap().root(), hostile.root());
        // Other features have no worktrees there.
        assert_eq!(our_worktree(&top.join("trees/y/worker-0")), None);
    }
}
