//! Removes what an earlier attempt left in a worktree. Most leave new files, which need one look by git instead of a reset
//! and a cleaning.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Found, Git, StatusEntry};

use super::{files, ownership};

/// Sets the worktree of `git` to the base, which its HEAD must name. Returns `false` if that takes more than one look at
/// what git lists.
pub fn sweep(git: &Git, worktree: &Path, base: &Oid) -> Result<bool> {
    let found = git.status_and_staged()?;
    if found.iter().any(is_difficult) {
        return Ok(false);
    }
    let of = |found: &[StatusEntry], state: Found| -> BTreeSet<PathBuf> {
        found.iter().filter(|entry| entry.found == state).map(|entry| entry.path.as_path().to_owned()).collect()
    };
    let (untracked, ignored) = (of(&found, Found::Untracked), of(&found, Found::Ignored));
    for path in &untracked {
        files::remove(&worktree.join(path))?;
        remove_empty_parents(worktree, path);
    }
    if found.len() > untracked.len() + ignored.len() {
        git.run(["read-tree", "--reset", "-u", base.as_str()])?;
    }
    let Leftovers { has_empty_directory, repositories } = look(worktree, &ignored);
    if has_empty_directory {
        git.run(["clean", "-ffd"])?;
    }
    remove_repositories(git, worktree, base, &repositories)?;
    Ok(true)
}

/// Removes the `.git` of repositories in directories with tracked files, which git neither lists nor cleans away.
pub fn remove_nested_git(git: &Git, worktree: &Path, base: &Oid) -> Result<()> {
    let ignored = git.status()?.into_iter().filter(|entry| entry.found == Found::Ignored);
    let ignored = ignored.map(|entry| entry.path.as_path().to_owned()).collect();
    remove_repositories(git, worktree, base, &look(worktree, &ignored).repositories)
}

fn remove_repositories(git: &Git, worktree: &Path, base: &Oid, dot_gits: &[PathBuf]) -> Result<()> {
    if dot_gits.is_empty() {
        return Ok(());
    }
    let submodules = ownership::submodules(git, base)?;
    let is_of_submodule = |dot_git: &Path| submodules.iter().any(|submodule| dot_git.starts_with(submodule.as_path()));
    dot_gits.iter().filter(|path| !is_of_submodule(path)).try_for_each(|path| files::remove(&worktree.join(path)))
}

/// Whether more may be in the way than the list shows: an ignore file hides files, git does not look into a nested
/// repository.
fn is_difficult(entry: &StatusEntry) -> bool {
    let is_ignore_file = entry.path.as_path().ends_with(".gitignore") && entry.found != Found::Ignored;
    is_ignore_file || entry.found == Found::UntrackedDirectory
}

fn remove_empty_parents(root: &Path, path: &Path) {
    let parents = path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty());
    for parent in parents {
        if std::fs::remove_dir(root.join(parent)).is_err() {
            break;
        }
    }
}

/// What git does not list.
struct Leftovers {
    /// Whether there is a directory without a file, or one that cannot be read.
    has_empty_directory: bool,
    /// The `.git` of each repository in the worktree.
    repositories: Vec<PathBuf>,
}

fn look(root: &Path, ignored: &BTreeSet<PathBuf>) -> Leftovers {
    let (mut directories, mut filled, mut repositories) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    files::walk(root, |path, entry| {
        filled.extend(path.parent().map(Path::to_owned));
        let is_dot_git = files::is_dot_git(&entry.file_name());
        if is_dot_git && path != Path::new(".git") && !ignored.contains(path) {
            repositories.push(path.to_owned());
        }
        let is_entered = !is_dot_git && !ignored.contains(path);
        if is_entered && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            directories.insert(path.to_owned());
        }
        is_entered
    });
    Leftovers { has_empty_directory: !directories.is_subset(&filled), repositories }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mahabharatha_testing::git as run_git;

    use super::*;

    struct Worktree {
        dir: tempfile::TempDir,
        git: Git,
        base: Oid,
    }

    impl Worktree {
        fn new() -> Worktree {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("w");
            fs::create_dir_all(root.join("src")).unwrap();
            run_git(&root, &["init", "-q"]);
            fs::write(root.join(".gitignore"), "/cache/\n").unwrap();
            fs::write(root.join("src/a"), "a").unwrap();
            run_git(&root, &["add", "-A"]);
            run_git(&root, &["commit", "-q", "-m", "x"]);
            let base = Oid::new(run_git(&root, &["rev-parse", "HEAD"])).unwrap();
            let git = Git::repository(root.join(".git")).work_tree(&root);
            Worktree { git, base, dir }
        }

        fn root(&self) -> PathBuf {
            self.dir.path().join("w")
        }

        fn write(&self, name: &str) {
            let path = self.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "left").unwrap();
        }

        fn sweep(&self) -> bool {
            sweep(&self.git, &self.root(), &self.base).unwrap()
        }

        /// Lists all files and directories but git's own.
        fn contents(&self) -> Vec<String> {
            let mut found = Vec::new();
            files::walk(&self.root(), |path, _| {
                let is_ours = !path.starts_with(".git");
                found.extend(is_ours.then(|| path.display().to_string()));
                is_ours
            });
            found.sort();
            found
        }
    }

    #[test]
    fn new_and_changed_files_are_swept_and_ignored_ones_stay() {
        let worktree = Worktree::new();
        for name in ["out/deep/new", "src/new", "cache/built", "src/a"] {
            worktree.write(name);
        }
        fs::create_dir_all(worktree.root().join("empty/below")).unwrap();
        assert!(worktree.sweep());
        assert_eq!(worktree.contents(), [".gitignore", "cache", "cache/built", "src", "src/a"]);
        assert_eq!(fs::read_to_string(worktree.root().join("src/a")).unwrap(), "a");
        fs::remove_dir_all(worktree.root().join("src")).unwrap();
        assert!(worktree.sweep());
        assert_eq!(fs::read_to_string(worktree.root().join("src/a")).unwrap(), "a");
    }

    #[test]
    fn a_repository_in_a_tracked_directory_is_swept() {
        let worktree = Worktree::new();
        run_git(&worktree.root().join("src"), &["init", "-q"]);
        worktree.write("cache/package/.git/config");
        assert!(worktree.sweep());
        let left = [".gitignore", "cache", "cache/package", "cache/package/.git", "cache/package/.git/config"];
        assert_eq!(worktree.contents(), [&left[..], &["src", "src/a"]].concat());
    }

    #[test]
    fn an_index_of_another_commit_is_noticed() {
        let worktree = Worktree::new();
        worktree.write("later");
        run_git(&worktree.root(), &["add", "-A"]);
        assert!(worktree.sweep());
        assert_eq!(worktree.contents(), [".gitignore", "src", "src/a"]);
        assert_eq!(run_git(&worktree.root(), &["status", "--porcelain"]), "");
    }

    #[test]
    fn what_git_does_not_list_is_left_to_a_full_reset() {
        for left in ["sub/.gitignore", "nested/file", ".gitignore"] {
            let worktree = Worktree::new();
            worktree.write(left);
            if left == "nested/file" {
                run_git(&worktree.root().join("nested"), &["init", "-q"]);
            }
            assert!(!worktree.sweep(), "{left}");
        }
    }
}
