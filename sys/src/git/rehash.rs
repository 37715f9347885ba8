//! Recomputes the names of objects from their contents. Git trusts the name under which it finds an object, so a
//! program that can write to the repository can put other bytes there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;

use super::trees::change;
use super::{Call, Git, GitError, Output, RepoPath, Result};
use crate::bounded::{self, LARGE_FILE_BYTES};

/// Scratch directory, below the git directory.
const SCRATCH: &str = "rehash";
/// Object directory in the scratch directory that has no objects.
const NO_OBJECTS: &str = "none";
const SUBMODULE_MODE: u32 = 0o160000;
const TREE_MODE: u32 = 0o040000;

impl Git {
    /// Returns the objects that `tip` adds to `base` and whose contents do not match their names, each with a path that
    /// it has in a commit. Must be called on a private git directory.
    pub fn forged_objects(&self, base: &Oid, tip: &Oid) -> Result<Vec<(Oid, Option<RepoPath>)>> {
        let names = self.added_objects(base, tip)?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let scratch = Scratch::make(&self.git_dir)?;
        let pack = self.pack_as_named(&scratch, names.keys())?;
        let (named, hashed) = (pack.with_extension("idx"), scratch.0.join("hashed.idx"));
        // Without the repository's objects git compares nothing with them.
        let git = Git { objects: Some(scratch.0.join(NO_OBJECTS)), ..self.clone() };
        let args = ["-c", "core.fsync=none", "index-pack", "-o"].map(Path::new);
        git.call(Call::new(args.into_iter().chain([hashed.as_path(), &pack])))?;
        let (named, hashed) = (read(&named)?, read(&hashed)?);
        if named == hashed {
            return Ok(Vec::new());
        }
        let (named, hashed) = (git.names_by_offset(named)?, git.names_by_offset(hashed)?);
        let forged = named.into_iter().filter(|(offset, name)| hashed.get(offset) != Some(name));
        Ok(forged.map(|(_, name)| (name.clone(), names.get(&name).cloned().flatten())).collect())
    }

    /// Returns the commits since `base`, everything that they add, and all that this was concluded from: the trees of
    /// their parents that were compared. Those with a path have it.
    fn added_objects(&self, base: &Oid, tip: &Oid) -> Result<BTreeMap<Oid, Option<RepoPath>>> {
        let format = ["rev-list", "--boundary", "--no-commit-header", "--format=%m %H %T"];
        let listed = self.call(Call::new(format.into_iter().chain([tip.as_str(), &format!("^{base}")])))?;
        let (mut found, mut new_commits) = (BTreeMap::new(), String::new());
        for line in listed.text()?.lines() {
            let mut fields = line.split(' ');
            let is_new = fields.next() == Some(">");
            let names: Vec<Oid> = fields.filter_map(|name| Oid::new(name).ok()).collect();
            let [commit, _] = &names[..] else { return Err(listed.unexpected(line)) };
            if is_new {
                new_commits += &format!("{commit}\n");
            }
            found.extend(names.into_iter().map(|name| (name, None)));
        }
        // `-m` compares a merge with each of its parents, `-t` shows the trees that were read.
        let args = ["diff-tree", "--stdin", "-m", "-r", "-t", "-z", "--raw", "--no-renames", "--full-index", "--root"];
        let output = self.call(Call::new(args).input(new_commits))?;
        found.extend(compared(&output)?);
        Ok(found)
    }

    /// Writes the objects to a pack whose index has the names under which git found them.
    fn pack_as_named<'a>(&self, scratch: &Scratch, names: impl Iterator<Item = &'a Oid>) -> Result<PathBuf> {
        let git = Git { objects: Some(scratch.0.clone()), ..self.clone() };
        let objects = self.objects.as_deref().unwrap_or(Path::new(""));
        let args = ["-c", "core.fsync=none", "-c", "pack.compression=0", "pack-objects", "--quiet", "--window=0"];
        let place = scratch.0.join("named");
        let call = Call::new(args.map(Path::new).into_iter().chain([place.as_path()]))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(objects))
            .input(names.map(|name| format!("{name}\n")).collect::<String>());
        let name = git.call(call)?.oid()?;
        Ok(scratch.0.join(format!("named-{name}.pack")))
    }

    /// Returns the object names in a pack index by their place in the pack.
    fn names_by_offset(&self, index: Vec<u8>) -> Result<BTreeMap<u64, Oid>> {
        let output = self.call(Call::new(["show-index"]).input(index))?;
        let entry = |line: &str| {
            let mut fields = line.split(' ');
            Some((fields.next()?.parse().ok()?, Oid::new(fields.next()?).ok()?))
        };
        output.text()?.lines().map(|line| entry(line).ok_or_else(|| output.unexpected(line))).collect()
    }
}

/// Returns the new objects of a `diff-tree --stdin -t -z`, and the old trees.
fn compared(output: &Output) -> Result<Vec<(Oid, Option<RepoPath>)>> {
    let mut found = Vec::new();
    let mut parts = output.parts();
    while let Some(part) = parts.next() {
        // Between the changes there are the names of the commits.
        if !part.starts_with(b":") {
            continue;
        }
        let change = parts.next().and_then(|path| change(part, path));
        let change = change.ok_or_else(|| output.unexpected(&String::from_utf8_lossy(part)))?;
        let new = change.new.filter(|_| change.new_mode != SUBMODULE_MODE);
        let old = change.old.filter(|_| change.old_mode == TREE_MODE);
        found.extend(new.into_iter().chain(old).map(|name| (name, Some(change.path.clone()))));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    bounded::read(path, LARGE_FILE_BYTES).map_err(|error| GitError::file("cannot read", path, error))
}

/// Quotes a path for a list that is separated by colons.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', byte]),
            b'\n' => text.extend(b"\\n"),
            _ => text.push(byte),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// A directory that is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(git_dir: &Path) -> Result<Scratch> {
        let scratch = Scratch(git_dir.join(SCRATCH));
        let _ = fs::remove_dir_all(&scratch.0);
        for dir in ["pack", NO_OBJECTS] {
            fs::create_dir_all(scratch.0.join(dir))
                .map_err(|error| GitError::file("cannot make", &scratch.0, error))?;
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {

    use super::super::tests::run_git;
    use super::*;

    struct Repo {
        dir: tempfile::TempDir,
    }

    impl Repo {
        /// Creates a repository with a file in a directory, on the branch `trunk`.
        fn new(init: &[&str]) -> Repo {
            let repo = Repo { dir: tempfile::Builder::new().prefix("a:b \"c\" ü").tempdir().unwrap() };
            repo.git(&[&["init", "-q", "-b", "trunk"], init].concat());
            repo.commit("d/old", "old\n");
            repo
        }

        fn git(&self, args: &[&str]) -> String {
            run_git(self.dir.path(), args)
        }

        fn oid(&self, revision: &str) -> Oid {
            Oid::new(self.git(&["rev-parse", revision])).unwrap()
        }

        fn commit(&self, name: &str, text: &str) -> Oid {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "-m", name]);
            self.oid("HEAD")
        }

        fn file_of(&self, object: &Oid) -> PathBuf {
            let (dir, name) = object.as_str().split_at(2);
            self.dir.path().join(".git/objects").join(dir).join(name)
        }

        /// Puts the bytes of one object under the name of the other.
        fn forge(&self, object: &Oid, with: &Oid) {
            let bytes = fs::read(self.file_of(with)).unwrap();
            let _ = fs::remove_file(self.file_of(object));
            fs::write(self.file_of(object), bytes).unwrap();
        }

        fn forged(&self, base: &Oid, tip: &Oid) -> Vec<Oid> {
            let common = self.dir.path().join(".git");
            let pinned = Git::repository(&common).settings().unwrap().pinned().unwrap();
            let git = Git::objects(&common.join("ours"), &common, &pinned).unwrap();
            git.forged_objects(base, tip).unwrap().into_iter().map(|(name, _)| name).collect()
        }
    }

    #[test]
    fn objects_that_are_what_they_are_called_pass() {
        for init in [&[][..], &["--object-format=sha256"]] {
            let repo = Repo::new(init);
            let base = repo.oid("HEAD");
            repo.commit("d/e/new", "new\n");
            repo.git(&["checkout", "-q", "-b", "side", base.as_str()]);
            repo.commit("side", "side\n");
            repo.git(&["merge", "-q", "--no-ff", "-m", "merged", "trunk"]);
            assert_eq!(repo.forged(&base, &repo.oid("side")), []);
            assert_eq!(repo.forged(&base, &base), []);
            repo.git(&["gc", "-q"]);
            assert_eq!(repo.forged(&base, &repo.oid("side")), []);
        }
    }

    #[test]
    fn a_blob_a_tree_or_a_commit_with_other_bytes_is_found() {
        for object in ["HEAD:d/new", "HEAD:d", "HEAD^{tree}", "HEAD"] {
            let repo = Repo::new(&[]);
            let base = repo.oid("HEAD");
            repo.commit("d/new", "evil\n");
            let with = repo.oid(object);
            repo.git(&["reset", "-q", "--hard", base.as_str()]);
            let tip = repo.commit("d/new", "good\n");
            let object = repo.oid(object);
            repo.forge(&object, &with);
            assert_eq!(repo.forged(&base, &tip), [object]);
        }
    }

    #[test]
    fn two_objects_that_were_exchanged_are_found() {
        let repo = Repo::new(&[]);
        let base = repo.oid("HEAD");
        repo.commit("one", "one\n");
        let tip = repo.commit("two", "two\n");
        let (one, two) = (repo.oid("HEAD:one"), repo.oid("HEAD:two"));
        let bytes = fs::read(repo.file_of(&one)).unwrap();
        repo.forge(&one, &two);
        fs::remove_file(repo.file_of(&two)).unwrap();
        fs::write(repo.file_of(&two), bytes).unwrap();
        assert_eq!(repo.forged(&base, &tip).len(), 2);
    }

    #[test]
    fn an_object_of_the_base_that_gets_a_new_place_is_looked_at_again() {
        let repo = Repo::new(&[]);
        let base = repo.oid("HEAD");
        let (old, evil) = (repo.oid("HEAD:d/old"), repo.commit("evil", "evil\n"));
        let evil = repo.oid(&format!("{evil}:evil"));
        repo.git(&["reset", "-q", "--hard", base.as_str()]);
        let tip = repo.commit("copy", "old\n");
        repo.forge(&old, &evil);
        assert_eq!(repo.forged(&base, &tip), [old]);
    }

    #[test]
    fn a_tree_of_the_base_that_claims_to_have_a_new_blob_hides_nothing() {
        let repo = Repo::new(&[]);
        let base = repo.oid("HEAD");
        let tip = repo.commit("d/new", "good\n");
        let (old_tree, new_tree) = (repo.oid(&format!("{base}:d")), repo.oid("HEAD:d"));
        let good = repo.oid("HEAD:d/new");
        repo.commit("evil", "evil\n");
        repo.forge(&good, &repo.oid("HEAD:evil"));
        repo.forge(&old_tree, &new_tree);
        assert!(repo.forged(&base, &tip).contains(&old_tree));
    }
}
