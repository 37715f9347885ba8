//! Loose objects that cannot be read, as a power loss leaves them. Git never writes an object whose file is there already,
//! so nothing with the same contents could be committed again.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use mahabharatha_core::ids::Oid;

use super::rehash::{lines, loose};
use super::{Call, Git, GitError, Result};
use crate::bounded;
use crate::crash;

impl Git {
    /// Moves loose objects that git cannot read to a directory outside of the repository's objects: of the whole repository
    /// those without a readable header, and of these commits also those that are cut short behind it. What git can read
    /// stays. Returns how many were moved.
    pub fn set_aside_damaged(&self, commits: &[Oid], into: &Path) -> Result<usize> {
        let objects = self.object_dirs().swap_remove(0);
        let mut damaged = self.without_header(&objects)?;
        for commit in commits {
            damaged.extend(self.cut_short(&objects, commit)?);
        }
        let mut moved = 0;
        for name in damaged {
            let file = loose(&objects, &name);
            // One that only may not be read can be whole.
            if bounded::open(&file).and_then(|mut open| open.read(&mut [0])).is_err() {
                continue;
            }
            fs::create_dir_all(into).map_err(|error| GitError::file("cannot make", into, error))?;
            fs::rename(&file, into.join(name.as_str())).map_err(|error| GitError::file("cannot move", &file, error))?;
            crash::point(|| "damaged object moved");
            moved += 1;
        }
        Ok(moved)
    }

    /// Returns the loose objects whose header git cannot read.
    fn without_header(&self, objects: &Path) -> Result<BTreeSet<Oid>> {
        let all = loose_objects(objects);
        if all.is_empty() {
            return Ok(all);
        }
        let names = lines(&all.iter().collect());
        // For names alone git would not read the headers.
        let output = self.call(Call::new(["cat-file", "--batch-check", "--buffer"]).input(names))?;
        let output = output.text()?;
        let missing = output.lines().filter_map(|line| line.strip_suffix(" missing"));
        Ok(missing.filter_map(|name| Oid::new(name).ok()).filter(|name| all.contains(name)).collect())
    }

    /// Returns the commit, or those of its trees, that are loose objects and cannot be read to their end.
    fn cut_short(&self, objects: &Path, commit: &Oid) -> Result<Vec<Oid>> {
        let is_loose = |name: &Oid| loose(objects, name).exists();
        let args = ["rev-list", "--no-walk", "--no-commit-header", "--format=%T", commit.as_str()];
        let Some(root) = unless_unreadable(self.run(args))? else {
            return Ok(Some(commit.clone()).filter(is_loose).into_iter().collect());
        };
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut trees: Vec<Oid> = Oid::new(root.text()?).ok().into_iter().collect();
        while let Some(tree) = trees.pop() {
            if !is_loose(&tree) || !seen.insert(tree.clone()) {
                continue;
            }
            match unless_unreadable(self.run(["ls-tree", "-d", "-z", "--format=%(objectname)", tree.as_str()]))? {
                Some(below) => trees.extend(below.parts().filter_map(super::batch::oid)),
                None => found.push(tree),
            }
        }
        Ok(found)
    }
}

/// Returns `None` if git failed, as it does on an object that it cannot read.
fn unless_unreadable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(GitError::Failed { .. }) => Ok(None),
        result => result.map(Some),
    }
}

fn loose_objects(objects: &Path) -> BTreeSet<Oid> {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries(objects).filter(|dir| dir.file_name().len() == 2);
    let names = dirs.flat_map(|dir| {
        let start = dir.file_name();
        entries(&dir.path()).filter_map(move |file| {
            let name = [start.to_str()?, file.file_name().to_str()?].concat();
            Oid::new(name).ok()
        })
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use mahabharatha_testing::git as run_git;

    use super::*;

    /// Returns a repository with one commit of a file in a directory.
    fn repository() -> (tempfile::TempDir, Git, Oid) {
        let dir = tempfile::tempdir().unwrap();
        run_git(dir.path(), &["init", "-q", "-b", "trunk"]);
        fs::create_dir(dir.path().join("d")).unwrap();
        // Long enough that half of each object has a header.
        let lines = |count: u32| (0..count).map(|line| format!("{}\n", line * 7919)).collect::<String>();
        fs::write(dir.path().join("d/file"), lines(500)).unwrap();
        for number in 0..50 {
            fs::write(dir.path().join(format!("d/{number}")), lines(number)).unwrap();
        }
        run_git(dir.path(), &["add", "-A"]);
        run_git(dir.path(), &["commit", "-q", "-m", &lines(100)]);
        let commit = Oid::new(run_git(dir.path(), &["rev-parse", "HEAD"])).unwrap();
        let git = Git::repository(dir.path().join(".git"));
        (dir, git, commit)
    }

    fn file_of(dir: &Path, object: &str) -> PathBuf {
        loose(&dir.join(".git/objects"), &Oid::new(run_git(dir, &["rev-parse", object])).unwrap())
    }

    fn cut(file: &Path, keep: u64) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
        File::options().write(true).open(file).unwrap().set_len(keep).unwrap();
    }

    #[test]
    fn only_unreadable_objects_are_moved() {
        for (object, is_empty) in
            [("HEAD", true), ("HEAD:d", true), ("HEAD:d/file", true), ("HEAD", false), ("HEAD:d", false)]
        {
            let (dir, git, commit) = repository();
            let aside = dir.path().join(".git/aside");
            assert_eq!(git.set_aside_damaged(std::slice::from_ref(&commit), &aside).unwrap(), 0);
            assert!(!aside.exists());
            let file = file_of(dir.path(), object);
            let before = loose_objects(&dir.path().join(".git/objects")).len();
            cut(&file, if is_empty { 0 } else { fs::metadata(&file).unwrap().len() / 2 });
            assert_eq!(git.set_aside_damaged(&[commit], &aside).unwrap(), 1, "{object}");
            assert!(!file.exists(), "{object}");
            assert_eq!(loose_objects(&dir.path().join(".git/objects")).len(), before - 1);
            assert_eq!(fs::read_dir(&aside).unwrap().count(), 1);
        }
    }
}
