//! Recomputes the names of objects from their contents. Git trusts the name under which it finds an object, so a
//! program that can write to the repository can put other bytes there. An object may be stored more than once, and
//! which copy git reads may change with time, so every copy is hashed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;

use super::trees::{SUBMODULE_MODE, change};
use super::{Call, Git, GitError, Output, RepoPath, Result};
use crate::bounded::{self, LARGE_FILE_BYTES};

/// Scratch directory, below the git directory.
const SCRATCH: &str = "rehash";
/// Object directory in the scratch directory that has no objects.
const NO_OBJECTS: &str = "none";
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
        let all: BTreeSet<&Oid> = names.keys().collect();
        let dirs = self.object_dirs();
        let mut forged = self.forged_in(&scratch, &dirs[0], &all)?;
        let copies = self.copies(&scratch, &dirs, &all)?;
        let stored_twice = |name: &&Oid| copies.iter().filter(|(_, found)| found.contains(name)).count() > 1;
        for (dir, found) in &copies {
            // Git has already read the only copy of an object that is stored once.
            let unsure: BTreeSet<&Oid> = found.iter().copied().filter(stored_twice).collect();
            if !unsure.is_empty() {
                forged.extend(self.forged_in(&scratch, dir, &unsure)?);
            }
        }
        Ok(forged.into_iter().map(|name| (name.clone(), names.get(&name).cloned().flatten())).collect())
    }

    /// Returns those of the objects whose contents, as git reads them from this object directory, do not match their
    /// names.
    fn forged_in(&self, scratch: &Scratch, objects: &Path, names: &BTreeSet<&Oid>) -> Result<BTreeSet<Oid>> {
        let pack = self.pack_as_named(scratch, objects, names)?;
        let (named, hashed) = (pack.with_extension("idx"), scratch.0.join("hashed.idx"));
        // Without the repository's objects git compares nothing with them.
        let git = Git { objects: Some(scratch.0.join(NO_OBJECTS)), ..self.clone() };
        let args = ["-c", "core.fsync=none", "index-pack", "-o"].map(Path::new);
        git.call(Call::new(args.into_iter().chain([hashed.as_path(), &pack])))?;
        let indexes = (read(&named)?, read(&hashed)?);
        for file in [&pack, &named, &hashed, &hashed.with_extension("rev"), &named.with_extension("rev")] {
            let _ = fs::remove_file(file);
        }
        if indexes.0 == indexes.1 {
            return Ok(BTreeSet::new());
        }
        let (named, hashed) = (git.names_by_offset(indexes.0)?, git.names_by_offset(indexes.1)?);
        let forged = named.into_iter().filter(|(offset, name)| hashed.get(offset) != Some(name));
        Ok(forged.map(|(_, name)| name).collect())
    }

    /// Returns every place that holds some of the objects, each as an object directory with nothing else in it: one
    /// pack, all packs as their common index shows them, or the loose objects of a directory. None if all are loose
    /// objects of one directory, of which there can be only one copy.
    fn copies<'a>(
        &self,
        scratch: &Scratch,
        dirs: &[PathBuf],
        names: &BTreeSet<&'a Oid>,
    ) -> Result<Vec<(PathBuf, BTreeSet<&'a Oid>)>> {
        let mut copies = Vec::new();
        for packs in dirs.iter().map(|objects| objects.join("pack")) {
            for view in scratch.views_of_packs(&packs)? {
                let found = self.found_in(&view, names)?;
                copies.push((view, found));
            }
        }
        if copies.is_empty() && dirs.len() == 1 {
            return Ok(copies);
        }
        for objects in dirs {
            let found: BTreeSet<&Oid> = names.iter().copied().filter(|name| loose(objects, name).exists()).collect();
            copies.push((scratch.view_of_loose(objects, &found)?, found));
        }
        Ok(copies)
    }

    /// Returns those of the objects that an object directory has.
    fn found_in<'a>(&self, objects: &Path, names: &BTreeSet<&'a Oid>) -> Result<BTreeSet<&'a Oid>> {
        let git = Git { objects: Some(objects.to_owned()), ..self.clone() };
        let call = Call::new(["cat-file", "--batch-check=%(objectname)", "--buffer"]).input(lines(names));
        let output = git.call(call)?.text()?;
        // For a missing object git prints its name and a word.
        let found: BTreeSet<&str> = output.lines().collect();
        Ok(names.iter().copied().filter(|name| found.contains(name.as_str())).collect())
    }

    /// Returns the commits since `base`, the objects that they add, and the parents' trees compared to find these, each
    /// with its path if it has one.
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

    /// Writes the objects to a pack whose index has the names under which git found them in the object directory.
    fn pack_as_named(&self, scratch: &Scratch, objects: &Path, names: &BTreeSet<&Oid>) -> Result<PathBuf> {
        let git = Git { objects: Some(scratch.0.clone()), ..self.clone() };
        // Without `--no-reuse-object` git would copy packed data and trust other files of the pack.
        let args = ["-c", "core.fsync=none", "-c", "pack.compression=0", "pack-objects", "--quiet", "--window=0"];
        let args = args.into_iter().chain(["--no-reuse-object"]).map(Path::new);
        let place = scratch.0.join("named");
        let call = Call::new(args.chain([place.as_path()]))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(objects))
            .input(lines(names));
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
        let change = change.ok_or_else(|| output.unreadable(part))?;
        let new = change.new.filter(|_| change.new_mode != SUBMODULE_MODE);
        let old = change.old.filter(|_| change.old_mode == TREE_MODE);
        found.extend(new.into_iter().chain(old).map(|name| (name, Some(change.path.clone()))));
    }
    Ok(found)
}

pub(super) fn lines(names: &BTreeSet<&Oid>) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// Returns the file of an object that is not in a pack.
pub(super) fn loose(objects: &Path, name: &Oid) -> PathBuf {
    let (dir, file) = name.as_str().split_at(2);
    objects.join(dir).join(file)
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

    /// Returns an object directory that has only these loose objects of another.
    fn view_of_loose(&self, objects: &Path, names: &BTreeSet<&Oid>) -> Result<PathBuf> {
        let view = self.new_view()?;
        for name in names {
            link(&loose(objects, name), &loose(&view, name))?;
        }
        Ok(view)
    }

    /// Returns an object directory for each pack in a directory, and one with all of them if they have a common index.
    fn views_of_packs(&self, packs: &Path) -> Result<Vec<PathBuf>> {
        let mut views = Vec::new();
        let files = fs::read_dir(packs).into_iter().flatten().flatten().map(|entry| entry.path());
        for index in files.filter(|path| path.extension().is_some_and(|extension| extension == "idx")) {
            let view = self.new_view()?;
            for file in [index.with_extension("pack"), index] {
                link(&file, &view.join("pack").join(file.file_name().unwrap_or_default()))?;
            }
            views.push(view);
        }
        if ["multi-pack-index", "multi-pack-index.d"].iter().any(|name| packs.join(name).exists()) {
            let view = self.new_view()?;
            link(packs, &view.join("pack"))?;
            views.push(view);
        }
        Ok(views)
    }

    fn new_view(&self) -> Result<PathBuf> {
        let views = self.0.join("views");
        let made = fs::create_dir_all(&views).and_then(|()| tempfile::tempdir_in(&views));
        Ok(made.map_err(|error| GitError::file("cannot make", &views, error))?.keep())
    }
}

/// Links to a file or directory of the repository from a directory that is created if needed.
fn link(target: &Path, place: &Path) -> Result<()> {
    let parent = place.parent().unwrap_or(place);
    let made = fs::create_dir_all(parent).and_then(|()| symlink(target, place));
    made.map_err(|error| GitError::file("cannot make", place, error))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use mahabharatha_testing::git as run_git;

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

        fn sh(&self, command: &str) -> String {
            let output = std::process::Command::new("sh").args(["-c", command]).current_dir(self.dir.path()).output();
            String::from_utf8(output.unwrap().stdout).unwrap().trim_end().to_owned()
        }

        fn objects(&self) -> PathBuf {
            self.dir.path().join(".git/objects")
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
            self.objects().join(dir).join(name)
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

    /// Writes a pack beside the repository's own with one object, which its index calls by another name.
    fn plant_pack(objects: &Path, repo: &Repo, name: &Oid, bytes_of: &Oid) {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        fs::write(&list, format!("{bytes_of}\n")).unwrap();
        let made = repo.sh(&format!("git pack-objects -q '{}/p' < '{}'", dir.path().display(), list.display()));
        let file = |extension: &str| dir.path().join(format!("p-{made}.{extension}"));
        let mut index = fs::read(file("idx")).unwrap();
        let raw: Vec<u8> =
            (0..40).step_by(2).map(|at| u8::from_str_radix(&name.as_str()[at..at + 2], 16).unwrap()).collect();
        for first in 0..256_usize {
            let count = u32::from(first >= usize::from(raw[0]));
            index[8 + 4 * first..12 + 4 * first].copy_from_slice(&count.to_be_bytes());
        }
        index[1032..1052].copy_from_slice(&raw);
        fs::create_dir_all(objects.join("pack")).unwrap();
        for (extension, bytes) in [("pack", fs::read(file("pack")).unwrap()), ("idx", index)] {
            let place = objects.join("pack").join(format!("pack-{made}.{extension}"));
            fs::write(&place, bytes).unwrap();
            // Git looks into newer packs first.
            let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
            fs::File::options().write(true).open(&place).unwrap().set_modified(old).unwrap();
        }
    }

    /// Returns a repository whose tip adds a file with good bytes, in a pack; its base, tip, and the names of good and evil bytes.
    fn packed() -> (Repo, [Oid; 4]) {
        let repo = Repo::new(&[]);
        let base = repo.oid("HEAD");
        let tip = repo.commit("d/new", "good\n");
        let good = repo.oid("HEAD:d/new");
        repo.git(&["repack", "-q", "-a", "-d"]);
        fs::write(repo.dir.path().join("evil"), "evil\n").unwrap();
        let evil = Oid::new(repo.git(&["hash-object", "-w", "evil"])).unwrap();
        (repo, [base, tip, good, evil])
    }

    #[test]
    fn a_second_copy_with_other_bytes_is_found_in_a_pack() {
        let (repo, [base, tip, good, evil]) = packed();
        plant_pack(&repo.objects(), &repo, &good, &evil);
        assert_eq!(repo.git(&["cat-file", "blob", good.as_str()]), "good", "git reads the good copy");
        assert_eq!(repo.forged(&base, &tip), [good]);
    }

    #[test]
    fn a_second_copy_with_other_bytes_is_found_in_a_file() {
        let (repo, [base, tip, good, evil]) = packed();
        fs::create_dir_all(repo.file_of(&good).parent().unwrap()).unwrap();
        repo.forge(&good, &evil);
        assert_eq!(repo.git(&["cat-file", "blob", good.as_str()]), "good", "git reads the good copy");
        assert_eq!(repo.forged(&base, &tip), [good]);
    }

    #[test]
    fn a_second_copy_with_other_bytes_is_found_in_borrowed_objects() {
        for quoted in [false, true] {
            let (repo, [base, tip, good, evil]) = packed();
            let other = repo.dir.path().join("other");
            plant_pack(&other, &repo, &good, &evil);
            let line = if quoted { "\"../../\\157ther\"" } else { "../../other" };
            fs::write(repo.objects().join("info/alternates"), format!("# a comment\n{line}\n")).unwrap();
            assert_eq!(repo.git(&["cat-file", "blob", good.as_str()]), "good", "git reads the good copy");
            assert_eq!(repo.forged(&base, &tip), [good]);
        }
    }

    #[test]
    fn a_pack_whose_own_index_differs_from_the_common_one_is_found() {
        let (repo, [base, tip, good, _]) = packed();
        repo.git(&["multi-pack-index", "write"]);
        assert_eq!(repo.forged(&base, &tip), []);
        let old = repo.oid(&format!("{base}:d/old"));
        let mut files = fs::read_dir(repo.objects().join("pack")).unwrap().flatten().map(|entry| entry.path());
        let index = files.find(|path| path.extension().is_some_and(|found| found == "idx")).unwrap();
        let mut bytes = fs::read(&index).unwrap();
        let count = u32::from_be_bytes(bytes[1028..1032].try_into().unwrap()) as usize;
        let names: Vec<Oid> = repo
            .sh(&format!("git show-index < '{}' | cut -d ' ' -f 2", index.display()))
            .lines()
            .map(|name| Oid::new(name).unwrap())
            .collect();
        let entry = |name: &Oid| 4 * names.iter().position(|found| found == name).unwrap();
        // The checksums and the places of the packed objects.
        for table in [1032 + 20 * count, 1032 + 24 * count] {
            for at in table..table + 4 {
                bytes.swap(at + entry(&good), at + entry(&old));
            }
        }
        fs::set_permissions(&index, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        fs::write(&index, bytes).unwrap();
        let _ = fs::remove_file(index.with_extension("rev"));
        assert_eq!(repo.git(&["cat-file", "blob", good.as_str()]), "good", "git reads the common index");
        assert_eq!(repo.forged(&base, &tip), [good]);
    }

    #[test]
    fn several_equal_copies_pass() {
        let (repo, [base, tip, good, _]) = packed();
        plant_pack(&repo.dir.path().join("other"), &repo, &good, &good);
        fs::write(repo.objects().join("info/alternates"), "../../other\n").unwrap();
        repo.git(&["multi-pack-index", "write"]);
        assert_eq!(repo.forged(&base, &tip), []);
    }
}
