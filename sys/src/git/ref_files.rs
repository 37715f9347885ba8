//! Reads and writes refs in their files, as git keeps them, without starting a process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;

use super::refs::SYMBOLIC;
use super::{Git, RefChange};
use crate::bounded::{self, LARGE_FILE_BYTES, SMALL_FILE_BYTES};
use crate::crash;
use crate::store::tree;

const PACKED_REFS: &str = "packed-refs";
/// Refs of ours for which git keeps no log.
const UNLOGGED: &str = "refs/mahabharatha/";
/// Most loose refs that are read one by one.
const MAX_LOOSE: usize = 10_000;

/// A ref and the object that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadRef {
    pub oid: Oid,
    /// For a tag with an object of its own: what it names in the end.
    pub peeled: Option<Oid>,
}

impl ReadRef {
    /// Returns the lines of the ref in the common file.
    pub fn line(&self, name: &str) -> String {
        let peeled = self.peeled.as_ref().map(|oid| format!("^{oid}\n")).unwrap_or_default();
        format!("{} {name}\n{peeled}", self.oid)
    }
}

impl Git {
    /// Returns the refs below these directories, by name. `None` if only git can tell: there are symbolic refs to symbolic
    /// refs or to elsewhere, tags that may have an object of their own, or more than fits.
    pub(super) fn refs_in_files(&self, dirs: &[&str]) -> Option<BTreeMap<String, ReadRef>> {
        let mut refs = self.packed(dirs)?;
        let mut loose = Vec::new();
        for dir in dirs {
            tree::walk(&self.git_dir.join(dir), |path, entry| {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let is_lock = path.extension().is_some_and(|extension| extension == "lock");
                if !is_dir && !is_lock {
                    loose.push(Path::new(dir).join(path));
                }
                loose.len() <= MAX_LOOSE
            });
        }
        if loose.len() > MAX_LOOSE {
            return None;
        }
        let mut aliases = BTreeMap::new();
        for path in loose {
            let name = path.to_str()?.to_owned();
            // Deleted meanwhile.
            let Some(text) = self.read_loose(&name) else { continue };
            if let Some(target) = text.strip_prefix(SYMBOLIC) {
                aliases.insert(name, target.trim().to_owned());
                continue;
            }
            let oid = Oid::new(text).ok()?;
            match refs.get(&name) {
                Some(packed) if packed.oid == oid => {}
                _ if name.starts_with("refs/tags/") => return None,
                _ => drop(refs.insert(name, ReadRef { oid, peeled: None })),
            }
        }
        aliases.keys().for_each(|name| drop(refs.remove(name)));
        for (name, target) in &aliases {
            if aliases.contains_key(target) || !dirs.iter().any(|dir| is_below(target, dir)) {
                return None;
            }
            // Git does not list one whose target does not exist.
            if let Some(found) = refs.get(target).cloned() {
                refs.insert(name.clone(), found);
            }
        }
        Some(refs)
    }

    /// Returns the refs below these directories that are in the common file, if that says of each what it names in the
    /// end.
    fn packed(&self, dirs: &[&str]) -> Option<BTreeMap<String, ReadRef>> {
        let text = match bounded::read_to_string(&self.git_dir.join(PACKED_REFS), LARGE_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(BTreeMap::new()),
            Err(_) => return None,
        };
        let mut lines = text.lines().peekable();
        let header = lines.next_if(|line| line.starts_with('#'))?;
        if !header.split(' ').any(|word| word == "fully-peeled") {
            return None;
        }
        let mut refs = BTreeMap::new();
        while let Some(line) = lines.next() {
            let (oid, name) = line.split_once(' ')?;
            let peeled = lines.next_if(|line| line.starts_with('^')).map(|line| Oid::new(&line[1..]));
            if dirs.iter().any(|dir| is_below(name, dir)) {
                refs.insert(name.to_owned(), ReadRef { oid: Oid::new(oid).ok()?, peeled: peeled.transpose().ok()? });
            }
        }
        Some(refs)
    }

    pub(super) fn read_loose(&self, name: &str) -> Option<String> {
        let path = self.git_dir.join(name);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        let text = is_file.then(|| bounded::read_to_string(&path, SMALL_FILE_BYTES));
        Some(text?.ok()?.trim_end_matches('\n').to_owned())
    }

    /// Sets a ref of ours as git does: writes the new file beside it, synced, and renames it. A symbolic ref is replaced
    /// itself. Returns `false`, having changed nothing, if that is left to git. No directory above the ref may be a link.
    pub(super) fn set_in_file(&self, changes: &[RefChange]) -> bool {
        let [RefChange::Set { name, new }] = changes else { return false };
        let (path, log) = (self.git_dir.join(name), self.git_dir.join("logs").join(name));
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        if !name.starts_with(UNLOGGED) || is_dir || fs::symlink_metadata(log).is_ok() {
            return false;
        }
        let mut lock = path.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let Ok(file) = create(&lock) else { return false };
        crash::point(|| "git update-ref");
        let written = write(file, new).and_then(|()| fs::rename(&lock, &path));
        if written.is_err() {
            let _ = fs::remove_file(&lock);
        }
        written.is_ok()
    }
}

fn is_below(name: &str, dir: &str) -> bool {
    name.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

/// Creates the lock of a ref; fails if another program has it.
fn create(lock: &Path) -> io::Result<File> {
    let open = || File::options().write(true).create_new(true).open(lock);
    match (open(), lock.parent()) {
        (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(parent)?;
            open()
        }
        (opened, _) => opened,
    }
}

fn write(mut file: File, oid: &Oid) -> io::Result<()> {
    file.write_all(format!("{oid}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use mahabharatha_testing::git;

    use super::*;

    fn repository() -> (tempfile::TempDir, Git, Oid) {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q", "-b", "main"]);
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "x"]);
        let tip = Oid::new(git(dir.path(), &["rev-parse", "HEAD"])).unwrap();
        let opened = Git::repository(dir.path().join(".git"));
        (dir, opened, tip)
    }

    fn listed(git: &Git) -> Option<Vec<String>> {
        let refs = git.refs_in_files(&["refs/heads", "refs/tags"])?;
        Some(refs.into_iter().map(|(name, found)| format!("{name} {}", found.peeled.is_some())).collect())
    }

    #[test]
    fn loose_and_packed_refs_are_read_as_git_reads_them() {
        let (dir, repository, tip) = repository();
        let run = |args: &[&str]| git(dir.path(), args);
        run(&["branch", "a/b"]);
        run(&["tag", "-a", "-m", "t", "with-object"]);
        run(&["tag", "plain"]);
        assert_eq!(listed(&repository), None, "a loose tag may have an object of its own");
        run(&["pack-refs", "--all"]);
        run(&["branch", "new"]);
        run(&["update-ref", "refs/mahabharatha/f/tasks/A", "HEAD"]);
        run(&["commit", "-q", "--allow-empty", "-m", "y"]);
        let all = ["refs/heads/a/b false", "refs/heads/main false", "refs/heads/new false", "refs/tags/plain false"];
        let all = [&all[..], &["refs/tags/with-object true"]].concat();
        assert_eq!(listed(&repository).unwrap(), all);
        let main = &repository.refs_in_files(&["refs/heads"]).unwrap()["refs/heads/main"];
        assert_ne!(main.oid, tip, "the loose one counts");
        run(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
        run(&["symbolic-ref", "refs/heads/dangling", "refs/heads/gone"]);
        let refs = repository.refs_in_files(&["refs/heads", "refs/tags"]).unwrap();
        let lines: String = refs.iter().map(|(name, found)| found.line(name)).collect();
        let format = "--format=%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)";
        assert_eq!(lines.trim(), run(&["for-each-ref", "--sort=refname", format, "refs/heads", "refs/tags"]));
        run(&["symbolic-ref", "refs/heads/other", "refs/heads/alias"]);
        assert_eq!(listed(&repository), None, "git resolves it");
    }

    #[test]
    fn a_ref_of_the_program_is_set_without_git_and_replaces_a_symbolic_one() {
        let (dir, repository, tip) = repository();
        let set = |name: &str| repository.set_in_file(&[RefChange::Set { name: name.to_owned(), new: tip.clone() }]);
        let ours = "refs/mahabharatha/f/tasks/A";
        assert!(set(ours) && set(ours));
        assert_eq!(git(dir.path(), &["rev-parse", ours]), tip.as_str());
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "y"]);
        let now = git(dir.path(), &["rev-parse", "main"]);
        git(dir.path(), &["symbolic-ref", ours, "refs/heads/main"]);
        assert!(set(ours));
        assert_eq!(git(dir.path(), &["rev-parse", "main"]), now, "the branch stays");
        assert_eq!(git(dir.path(), &["rev-parse", ours]), tip.as_str());

        assert!(!set("refs/heads/main"), "a person's branch has a log");
        assert!(!set("refs/mahabharatha/f/tasks"), "a directory");
        fs::write(dir.path().join(".git").join(format!("{ours}.lock")), "").unwrap();
        assert!(!set(ours), "another program has the lock");
    }
}
