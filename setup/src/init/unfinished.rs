//! What an `init` that was killed has left behind: it is taken back, so that the next one begins where that one did.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use mahabharatha_engine::claude::install::fingerprint;
use mahabharatha_sys::error::{Result, io};

use super::place::UNFINISHED;
use super::record;

const MOVES: &str = "moves.json";
/// No list of ours, and no file in it, is longer.
const MAX: u64 = 4 << 20;

/// Says which files will be made too, before the first of them is. Each by its path, with its contents.
pub fn note<'a>(staging: &Path, files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<()> {
    let mut signs = noted(staging);
    signs.extend(files.map(|(path, contents)| (path.to_owned(), fingerprint(contents))));
    let text = serde_json::to_vec(&signs).expect("names and signs are plain data");
    let (path, new) = (staging.join(MOVES), staging.join("moves.new"));
    fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(io("write", &path))
}

/// In a repository that has our record nothing but the place of work is removed: there `init` was at its end, or at it once
/// more. In one that has none only what is made for every project: a list that was cloned may name anything.
/// Whether there was one. The caller holds the lock.
pub fn take_back(root: &Path) -> Result<bool> {
    let mut interrupted = false;
    for entry in fs::read_dir(root).map_err(io("read", root))?.flatten() {
        let dir = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        interrupted = true;
        let (repository, sealed) = (root.join(".git").exists(), root.join(record::PATH).exists());
        for (path, sign) in noted(&dir) {
            if !repository || !sealed && is_for_every_project(&path) {
                remove(root, &path, &sign);
            }
        }
        let removed = if dir.is_symlink() { fs::remove_file(&dir) } else { fs::remove_dir_all(&dir) };
        removed.map_err(io("remove", &dir))?;
    }
    Ok(interrupted)
}

fn is_for_every_project(path: &str) -> bool {
    path == "CLAUDE.md"
        || [".claude/", ".devcontainer/", ".gsd/", ".mahabharatha/"].iter().any(|dir| path.starts_with(dir))
}

fn noted(dir: &Path) -> BTreeMap<String, String> {
    read(&dir.join(MOVES)).and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Only what is still as it was written, only inside of the root, and through no link; then the directories that are empty.
fn remove(root: &Path, path: &str, written: &str) {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    if parts.is_empty() || !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
        return;
    }
    let above: Vec<_> = (1..parts.len()).map(|length| root.join(parts[..length].iter().collect::<PathBuf>())).collect();
    let is_plain = |dir: &PathBuf| fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir());
    let file = root.join(path);
    if !above.iter().all(is_plain) || read(&file).is_none_or(|contents| fingerprint(&contents) != written) {
        return;
    }
    // What cannot be removed stays, and is then somebody's file like any other.
    let _ = fs::remove_file(&file);
    for dir in above.iter().rev() {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_file() && found.len() <= MAX { fs::read(path).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_behind(root: &Path, files: &[(&str, &str)]) {
        let dir = root.join(format!("{UNFINISHED}x"));
        fs::create_dir(&dir).unwrap();
        note(&dir, files.iter().map(|(path, text)| (*path, text.as_bytes()))).unwrap();
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_was_made_goes_and_what_somebody_changed_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        left_behind(root, &[("a/b/one", "1"), ("a/two", "2"), ("three", "3"), ("never", "made")]);
        write(&root.join("a/b/one"), "1");
        write(&root.join("a/two"), "changed");
        write(&root.join("three"), "3");
        take_back(root).unwrap();
        assert!(!root.join("a/b").exists() && !root.join("three").exists());
        assert_eq!(fs::read_to_string(root.join("a/two")).unwrap(), "changed");
        assert_eq!(fs::read_dir(root).unwrap().count(), 1, "the place of work is gone");
    }

    #[test]
    fn nothing_outside_is_touched_whatever_the_list_says() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        write(&outside.path().join("precious"), "1");
        write(&root.join("inside"), "1");
        std::os::unix::fs::symlink(outside.path(), root.join("link")).unwrap();
        let absolute = outside.path().join("precious");
        left_behind(
            &root,
            &[("../precious", "1"), ("link/precious", "1"), (absolute.to_str().unwrap(), "1"), ("", "1")],
        );
        take_back(&root).unwrap();
        assert_eq!(fs::read_to_string(absolute).unwrap(), "1");
        assert!(root.join("inside").exists());
    }

    #[test]
    fn in_a_repository_only_what_is_for_every_project_is_taken_back_and_nothing_where_init_was_done() {
        for sealed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let files = [(".git/HEAD", "1"), ("src/one", "1"), (".gsd/two", "2"), (".gsd/../src/one", "1")];
            left_behind(dir.path(), &files);
            files.iter().for_each(|(path, text)| write(&dir.path().join(path), text));
            if sealed {
                write(&dir.path().join(record::PATH), "{}");
            }
            assert!(take_back(dir.path()).unwrap());
            assert!(dir.path().join(".git/HEAD").exists() && dir.path().join("src/one").exists());
            assert_eq!(dir.path().join(".gsd/two").exists(), sealed);
        }
    }
}
