use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A test directory below a temporary one.
struct Place(TempDir);

impl Place {
    fn with(files: &[(&str, &str)]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.root()).unwrap();
        files.iter().for_each(|(path, text)| place.put(path, text));
        place
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o777
    }

    /// Returns a set with a journal that replaces `old`, removes `gone`, creates `deep/er/new`, and last creates
    /// `last`.
    fn planned(&self) -> FileSet {
        let mut set = FileSet::within(&[&self.root()]).journaled(&self.root(), "test");
        set.write(self.at("old"), "new").unwrap();
        set.remove(self.at("gone")).unwrap();
        set.write(self.at("deep/er/new"), "x").unwrap();
        set.write(self.at("last"), "x").unwrap();
        set
    }

    /// Returns every file and directory with its contents.
    fn everything(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.root()];
        while let Some(dir) = open.pop() {
            for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                let is_dir = path.is_dir() && !path.is_symlink();
                found.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default());
                open.extend(is_dir.then_some(path));
            }
        }
        found
    }

    /// Leaves the files as a process does that is killed after its last change, or just before it.
    fn simulate_kill(&self, is_complete: bool) {
        std::mem::forget(self.planned().apply().unwrap());
        if !is_complete {
            fs::remove_file(self.at("last")).unwrap();
        }
    }
}

#[test]
fn changes_are_undone_unless_kept() {
    let place = Place::with(&[("old", "old"), ("gone", "gone")]);
    fs::set_permissions(place.at("old"), Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(place.at("gone"), Permissions::from_mode(0o700)).unwrap();
    let before = place.everything();
    drop(place.planned().apply().unwrap());
    assert_eq!(place.everything(), before);
    assert_eq!((place.mode("old"), place.mode("gone")), (0o751, 0o700));

    place.planned().apply().unwrap().keep();
    let names = ["deep", "deep/er", "deep/er/new", "last", "old"].map(|path| place.at(path));
    assert_eq!(place.everything().into_keys().collect::<Vec<_>>(), names);
    assert_eq!((fs::read(place.at("old")).unwrap(), place.mode("old")), (b"new".to_vec(), 0o751));
}

#[test]
fn a_failed_change_undoes_the_changes_before_it() {
    let place = Place::with(&[("old", "old"), ("gone", "gone")]);
    let before = place.everything();
    let mut set = place.planned();
    // A file of the set is in the place of a directory, which is detected only on writing.
    set.write(place.at("last/below"), "y").unwrap();
    set.apply().unwrap_err();
    assert_eq!(place.everything(), before);
}

#[test]
fn concurrent_changes_of_the_user_are_neither_overwritten_nor_undone() {
    let place = Place::with(&[("old", "old"), ("gone", "gone")]);
    for (path, is_new) in [("old", false), ("gone", false), ("last", true)] {
        let set = place.planned();
        let old = fs::read(place.at(path)).ok();
        place.put(path, "by the user");
        let before = place.everything();
        assert!(set.apply().unwrap_err().message().contains("was changed meanwhile"), "{path}");
        assert_eq!(place.everything(), before, "{path}");
        assert_eq!(old.is_none(), is_new, "{path}");
        old.map_or_else(|| fs::remove_file(place.at(path)), |old| fs::write(place.at(path), old)).unwrap();
    }
    let applied = place.planned().apply().unwrap();
    place.put("old", "by the user");
    place.put("deep/theirs", "by the user");
    drop(applied);
    assert_eq!(fs::read(place.at("old")).unwrap(), b"by the user");
    assert!(place.at("gone").exists() && place.at("deep/theirs").exists() && !place.at("deep/er").exists());
}

#[test]
fn nothing_is_changed_through_a_link_or_in_a_git_directory() {
    let place = Place::with(&[(".git/HEAD", "x")]);
    fs::create_dir(place.at("../home")).unwrap();
    symlink(".git", place.at("agents")).unwrap();
    symlink("../home", place.at("z")).unwrap();
    symlink("../home/file", place.at("link")).unwrap();
    for path in ["agents/HEAD", "z/x", "link", ".git/HEAD", "../home/x", "a/../../home/x", "/etc/x"] {
        let mut set = FileSet::within(&[&place.root()]);
        assert_eq!(set.write(place.at(path), "x").unwrap_err().kind(), Kind::Invalid, "{path}");
        assert_eq!(set.remove(place.at(path)).unwrap_err().kind(), Kind::Invalid, "{path}");
        let mut other = FileSet::anywhere();
        other.planned.push(Change { path: place.at(path), old: None, new: None });
        assert_eq!(set.extend(&other).unwrap_err().kind(), Kind::Invalid, "{path}");
    }
    let mut set = FileSet::within(&[&place.root(), &place.at("../home")]);
    set.write(place.at("new/file"), "x").unwrap();
    set.write(place.0.path().join("home/file"), "x").unwrap();
    // A link that appears after planning.
    symlink("../home", place.at("new")).unwrap();
    assert_eq!(set.apply().unwrap_err().kind(), Kind::Invalid);
    fs::remove_file(place.at("new")).unwrap();
    set.apply().unwrap().keep();
    assert!(place.at("new/file").exists() && place.0.path().join("home/file").exists());
}

#[test]
fn recovery_undoes_the_changes_unless_they_were_complete() {
    for is_complete in [false, true] {
        let place = Place::with(&[("old", "old"), ("gone", "gone"), ("deep/theirs", "x")]);
        fs::set_permissions(place.at("gone"), Permissions::from_mode(0o700)).unwrap();
        let before = place.everything();
        place.simulate_kill(is_complete);
        place.put("deep/er/.unfinished-new-x", "what a killed write leaves");
        assert!(recover(&place.root()).unwrap());
        assert_eq!(place.everything() == before, !is_complete, "{:?}", place.everything());
        assert_eq!(place.at("last").exists(), is_complete);
        assert!(is_complete || place.mode("gone") == 0o700);
        assert!(!recover(&place.root()).unwrap(), "the journal is gone");
    }
}

#[test]
fn recovery_keeps_later_changes_of_the_user() {
    let place = Place::with(&[("old", "old"), ("gone", "gone")]);
    place.simulate_kill(false);
    place.put("old", "by the user");
    place.put("gone", "by the user");
    recover(&place.root()).unwrap();
    let names = ["gone", "old"].map(|path| (place.at(path), "by the user".to_owned()));
    assert_eq!(place.everything(), names.into());
}

#[test]
fn a_set_is_complete_once_its_completion_path_exists() {
    for is_there in [false, true] {
        let place = Place::with(&[]);
        let mut set = FileSet::within(&[&place.root()]).journaled(&place.root(), "test").completed_by("done");
        set.write(place.at("new"), "x").unwrap();
        std::mem::forget(set.apply().unwrap());
        if is_there {
            place.put("done", "");
        }
        recover(&place.root()).unwrap();
        assert_eq!(place.at("new").exists(), is_there);
    }
}

#[test]
fn a_journal_that_was_copied_or_leads_outside_the_root_changes_nothing() {
    let place = Place::with(&[("old", "old"), ("gone", "gone")]);
    place.simulate_kill(false);
    let journal = fs::read_dir(place.root()).unwrap().flatten().map(|entry| entry.path());
    let journal = journal.into_iter().find(|path| path.to_string_lossy().contains(JOURNAL_DIR_PREFIX)).unwrap();
    let copy = place.at(&format!("{JOURNAL_DIR_PREFIX}copy"));
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&journal).unwrap().flatten() {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    fs::remove_dir_all(journal).unwrap();
    assert!(recover(&place.root()).unwrap());
    assert_eq!(fs::read(place.at("old")).unwrap(), b"new");
    assert!(!place.at("gone").exists() && !copy.exists());

    let place = Place::with(&[("old", "old"), ("gone", "gone")]);
    place.simulate_kill(false);
    // After the kill, a directory is replaced by a link out of the project.
    fs::rename(place.at("deep"), place.at("../outside")).unwrap();
    symlink("../outside", place.at("deep")).unwrap();
    recover(&place.root()).unwrap();
    assert!(place.at("../outside/er/new").exists() && place.at("gone").exists());
}

#[test]
fn the_lock_is_exclusive_and_a_journal_without_a_list_is_removed() {
    let place = Place::with(&[]);
    let held = lock(&place.root()).unwrap();
    assert_eq!(lock(&place.root()).unwrap_err().kind(), Kind::Held);
    drop(held);
    place.put(&format!("{JOURNAL_DIR_PREFIX}abc/git/HEAD"), "x");
    assert!(recover(&place.root()).unwrap());
    assert!(place.everything().is_empty());
}

#[test]
fn the_fingerprint_is_stable_across_versions() {
    assert_eq!(fingerprint(b"a"), "1-af63dc4c8601ec8c", "the published value");
}
