//! Merges two commits without a work tree, file by file: without rename detection (which cannot be turned off in
//! `git merge-tree` before 2.50) and without running merge drivers.

use std::fs;

use mahabharatha_core::ids::Oid;

use super::{Call, Exit, Git, GitError, RepoPath, Result};

/// Scratch directory for merging files, below the git directory.
const SCRATCH: &str = "merge";
const FILES: [&str; 3] = ["merge/ours", "merge/common", "merge/theirs"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    Clean(Oid),
    /// The tree holds the files with conflict markers; `stages` are their index entries.
    Conflict {
        tree: Oid,
        stages: Vec<Stage>,
    },
}

/// One version of a conflicting file: 1 is the common one, 2 ours, 3 theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    pub path: RepoPath,
    pub mode: u32,
    pub oid: Oid,
    pub number: u8,
}

/// The content of a path in the merged tree, and whether it merged without conflict.
struct Resolved {
    file: Option<(u32, Oid)>,
    clean: bool,
}

/// Changes to an index, in the input format of `git update-index --index-info`.
#[derive(Default)]
pub struct IndexInput(Vec<u8>);

impl IndexInput {
    pub fn set(&mut self, path: &RepoPath, mode: u32, oid: &Oid, stage: u8) {
        self.line(&format!("{mode:06o} {oid} {stage}"), path);
    }

    /// Removes all versions of the path. `like` is any object name; only its length is used.
    pub fn remove(&mut self, path: &RepoPath, like: &Oid) {
        self.line(&format!("0 {}", "0".repeat(like.as_str().len())), path);
    }

    fn line(&mut self, entry: &str, path: &RepoPath) {
        self.0.extend_from_slice(entry.as_bytes());
        self.0.push(b'\t');
        self.0.extend_from_slice(path.as_bytes());
        self.0.push(0);
    }
}

impl Git {
    pub fn change_index(&self, input: IndexInput) -> Result<()> {
        self.call(Call::new(["update-index", "-z", "--index-info"]).input(input.0)).map(drop)
    }

    /// Merges `theirs` into `ours` with `common` as the merge base. Must be called on a private git directory.
    pub fn merge_trees(&self, common: &Oid, ours: &Oid, theirs: &Oid, their_name: &str) -> Result<Merged> {
        let scratch = self.git_dir.join(SCRATCH);
        fs::create_dir_all(&scratch).map_err(|error| GitError::file("cannot write", &scratch, error))?;
        let git = Git { index: Some(scratch.join("index")), work_tree: None, ..self.clone() };
        for old in ["index", "index.lock"] {
            let _ = fs::remove_file(scratch.join(old));
        }
        let trees = [common.as_str(), ours.as_str(), theirs.as_str()];
        git.call(Call::new(["read-tree", "-i", "-m", "--aggressive"].iter().chain(&trees)))?;
        let mut input = IndexInput::default();
        let mut conflicts: Vec<Stage> = Vec::new();
        for stages in git.unmerged()?.chunk_by(|one, next| one.path == next.path) {
            let (path, resolved) = (&stages[0].path, git.merge_file(stages, their_name)?);
            input.remove(path, common);
            if let Some((mode, oid)) = &resolved.file {
                input.set(path, *mode, oid, 0);
            }
            if !resolved.clean {
                conflicts.extend_from_slice(stages);
            }
        }
        git.change_index(input)?;
        let tree = git.write_tree()?;
        Ok(if conflicts.is_empty() { Merged::Clean(tree) } else { Merged::Conflict { tree, stages: conflicts } })
    }

    /// Replaces the index entries of the conflicting files with their stages.
    pub fn mark_conflict(&self, stages: &[Stage]) -> Result<()> {
        let mut input = IndexInput::default();
        for versions in stages.chunk_by(|one, next| one.path == next.path) {
            input.remove(&versions[0].path, &versions[0].oid);
            for stage in versions {
                input.set(&stage.path, stage.mode, &stage.oid, stage.number);
            }
        }
        self.change_index(input)
    }

    fn unmerged(&self) -> Result<Vec<Stage>> {
        let output = self.call(Call::new(["ls-files", "--unmerged", "-z", "--full-name"]))?;
        output.parts().map(|part| stage(part).ok_or_else(|| output.unreadable(part))).collect()
    }

    fn merge_file(&self, stages: &[Stage], their_name: &str) -> Result<Resolved> {
        let version = |number| stages.iter().find(|stage| stage.number == number);
        let file = |number| version(number).filter(|stage| stage.mode & 0o170000 == 0o100000);
        let (Some(ours), Some(theirs)) = (file(2), file(3)) else {
            return Ok(choose(version(2).or(version(3))));
        };
        let common = file(1);
        for (name, side) in FILES.into_iter().zip([Some(ours), common, Some(theirs)]) {
            let content = match side {
                Some(stage) => self.call(Call::new(["cat-file", "blob", stage.oid.as_str()]))?.bytes,
                None => Vec::new(),
            };
            let path = self.git_dir.join(name);
            fs::write(&path, content).map_err(|error| GitError::file("cannot write", &path, error))?;
        }
        let args = ["merge-file", "-p", "-q", "-L", "staging", "-L", "common", "-L", their_name];
        let call = Call::new(args.iter().chain(&FILES));
        let ended = self.execute(&call)?.map_err(GitError::Start)?;
        if ended.truncated {
            return Err(call.unexpected("too much output"));
        }
        // The exit code is the number of conflicts, or an error code if a file is binary.
        let Exit::Code(conflicts @ 0..=127) = ended.status else { return Ok(choose(Some(ours))) };
        let oid = self.call(Call::new(["hash-object", "-w", "--stdin"]).input(ended.stdout))?.oid()?;
        let mode = match common {
            Some(common) if common.mode == ours.mode => theirs.mode,
            _ => ours.mode,
        };
        // Two additions without a common version are a conflict, however similar they are.
        Ok(Resolved { file: Some((mode, oid)), clean: conflicts == 0 && common.is_some() })
    }
}

/// Picks one version of a file whose content cannot be merged. If the path is a directory on the other side, the
/// directory wins, since the paths below it are set later.
fn choose(stage: Option<&Stage>) -> Resolved {
    Resolved { file: stage.map(|stage| (stage.mode, stage.oid.clone())), clean: false }
}

/// `<mode> <oid> <stage>\t<path>`
fn stage(part: &[u8]) -> Option<Stage> {
    let tab = part.iter().position(|&byte| byte == b'\t')?;
    let mut fields = std::str::from_utf8(&part[..tab]).ok()?.split(' ');
    let mode = u32::from_str_radix(fields.next()?, 8).ok()?;
    let (oid, number) = (Oid::new(fields.next()?).ok()?, fields.next()?.parse().ok()?);
    Some(Stage { path: RepoPath::new(&part[tab + 1..]), mode, oid, number })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    use super::super::Pinned;
    use super::*;
    use mahabharatha_testing::git as run_git;

    struct Repo {
        dir: tempfile::TempDir,
    }

    impl Repo {
        fn git(&self, args: &[&str]) -> String {
            run_git(self.dir.path(), args)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn commit(&self, on: Option<&Oid>, work: impl FnOnce(&Path)) -> Oid {
            if let Some(on) = on {
                self.git(&["reset", "-q", "--hard", on.as_str()]);
            }
            work(self.dir.path());
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
            Oid::new(self.git(&["rev-parse", "HEAD"])).unwrap()
        }

        fn show(&self, tree: &Oid, path: &str) -> String {
            self.git(&["show", &format!("{tree}:{path}")])
        }
    }

    const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

    /// Merges what the two sides do to a file of nine lines, a symbolic link and a directory.
    fn merge(ours: impl FnOnce(&Path), theirs: impl FnOnce(&Path)) -> (Repo, Merged) {
        let repo = Repo { dir: tempfile::tempdir().unwrap() };
        repo.git(&["init", "-q"]);
        let common = repo.commit(None, |dir| {
            fs::write(dir.join("fi le.txt"), LINES).unwrap();
            fs::write(dir.join("other.txt"), "other\n").unwrap();
            symlink("other.txt", dir.join("link")).unwrap();
            fs::create_dir(dir.join("d")).unwrap();
            fs::write(dir.join("d/f"), "f\n").unwrap();
        });
        let ours = repo.commit(Some(&common), ours);
        let theirs = repo.commit(Some(&common), theirs);
        let private = Git::objects(&repo.path(".git/ours"), &repo.path(".git"), &Pinned::default()).unwrap();
        let merged = private.merge_trees(&common, &ours, &theirs, "trunk").unwrap();
        (repo, merged)
    }

    fn conflict(merged: Merged) -> (Oid, Vec<String>) {
        match merged {
            Merged::Conflict { tree, stages } => {
                (tree, stages.iter().map(|stage| format!("{} {}", stage.path, stage.number)).collect())
            }
            Merged::Clean(tree) => panic!("{tree} is clean"),
        }
    }

    fn clean(merged: Merged) -> Oid {
        match merged {
            Merged::Clean(tree) => tree,
            other => panic!("{other:?}"),
        }
    }

    fn edit(dir: &Path, from: &str, to: &str) {
        fs::write(dir.join("fi le.txt"), LINES.replace(from, to)).unwrap();
    }

    #[test]
    fn changes_that_do_not_overlap_are_combined() {
        let (repo, merged) = merge(
            |dir| {
                edit(dir, "1\n", "one\n");
                fs::remove_file(dir.join("other.txt")).unwrap();
                fs::set_permissions(dir.join("fi le.txt"), PermissionsExt::from_mode(0o755)).unwrap();
            },
            |dir| {
                edit(dir, "9\n", "nine\n");
                fs::write(dir.join("new ü"), "new\n").unwrap();
                fs::remove_file(dir.join("d/f")).unwrap();
            },
        );
        let tree = clean(merged);
        assert_eq!(repo.show(&tree, "fi le.txt"), LINES.replace("1\n", "one\n").replace("9\n", "nine").trim_end());
        let listed =
            repo.git(&["-c", "core.quotePath=false", "ls-tree", "-r", "--format=%(objectmode) %(path)", tree.as_str()]);
        assert_eq!(listed, "100755 fi le.txt\n120000 link\n100644 new ü");
    }

    #[test]
    fn the_same_on_both_sides_is_no_conflict() {
        let same = |dir: &Path| {
            edit(dir, "5\n", "five\n");
            fs::write(dir.join("new"), "new\n").unwrap();
            fs::remove_file(dir.join("other.txt")).unwrap();
        };
        let (repo, merged) = merge(same, same);
        assert_eq!(repo.show(&clean(merged), "new"), "new");
    }

    #[test]
    fn the_same_lines_are_a_conflict_with_markers() {
        let (repo, merged) = merge(|dir| edit(dir, "5\n", "ours\n"), |dir| edit(dir, "5\n", "theirs\n"));
        let (tree, stages) = conflict(merged);
        assert_eq!(stages, ["fi le.txt 1", "fi le.txt 2", "fi le.txt 3"]);
        let text = repo.show(&tree, "fi le.txt");
        assert!(text.contains("<<<<<<< staging\nours\n=======\ntheirs\n>>>>>>> trunk\n"), "{text}");
    }

    #[test]
    fn a_rename_is_a_deletion_and_an_addition() {
        let (repo, merged) = merge(
            |dir| edit(dir, "5\n", "ours\n"),
            |dir| fs::rename(dir.join("fi le.txt"), dir.join("renamed.txt")).unwrap(),
        );
        let (tree, stages) = conflict(merged);
        assert_eq!(stages, ["fi le.txt 1", "fi le.txt 2"]);
        assert!(repo.show(&tree, "fi le.txt").contains("ours"));
        assert_eq!(repo.show(&tree, "renamed.txt"), LINES.trim_end());
    }

    #[test]
    fn content_that_cannot_be_merged_shows_ours() {
        let (repo, merged) = merge(
            |dir| fs::write(dir.join("new"), b"ours\0").unwrap(),
            |dir| fs::write(dir.join("new"), b"theirs\0").unwrap(),
        );
        let (tree, stages) = conflict(merged);
        assert_eq!(stages, ["new 2", "new 3"]);
        assert_eq!(repo.show(&tree, "new"), "ours\0");

        let relink = |to: &'static str| {
            move |dir: &Path| {
                fs::remove_file(dir.join("link")).unwrap();
                symlink(to, dir.join("link")).unwrap();
            }
        };
        let (repo, merged) = merge(relink("ours"), relink("theirs"));
        let (tree, stages) = conflict(merged);
        assert_eq!((stages.len(), repo.show(&tree, "link").as_str()), (3, "ours"));
    }

    #[test]
    fn a_file_against_a_directory_is_a_conflict() {
        for swapped in [false, true] {
            let file = |dir: &Path| fs::write(dir.join("new"), "a file\n").unwrap();
            let directory = |dir: &Path| {
                fs::create_dir(dir.join("new")).unwrap();
                fs::write(dir.join("new/below"), "in a directory\n").unwrap();
            };
            let (repo, merged) = if swapped { merge(directory, file) } else { merge(file, directory) };
            let (tree, stages) = conflict(merged);
            assert!(stages.iter().any(|stage| stage.starts_with("new ")), "{stages:?}");
            assert_eq!(repo.show(&tree, "new/below"), "in a directory");
        }
        let (repo, merged) = merge(
            |dir| {
                fs::remove_dir_all(dir.join("d")).unwrap();
                fs::write(dir.join("d"), "a file now\n").unwrap();
            },
            |dir| {
                fs::write(dir.join("d/f"), "changed\n").unwrap();
                fs::write(dir.join("d/new"), "new\n").unwrap();
            },
        );
        let (tree, stages) = conflict(merged);
        assert!(stages.contains(&"d 2".to_owned()), "{stages:?}");
        assert_eq!((repo.show(&tree, "d/f"), repo.show(&tree, "d/new")), ("changed".to_owned(), "new".to_owned()));
    }
}
