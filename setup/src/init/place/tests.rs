use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

fn place(root: &Path, files: &[NewFile]) -> Result<Vec<Placed>> {
    let (placed, set) = plan(root, files, None)?;
    set.apply()?.keep();
    Ok(placed)
}

/// Everything below, except the record.
fn contents(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if name != record::PATH {
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn actions(placed: &[Placed]) -> Vec<Action> {
    placed.iter().map(|file| file.action).collect()
}

#[test]
fn unchanged_files_are_renewed_and_changed_ones_kept_with_the_new_version_beside() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("theirs"), "theirs").unwrap();
    let first = ["theirs", "a/ours", "a/changed"].map(|path| NewFile::ours(path, "one"));
    assert_eq!(actions(&place(root, &first).unwrap()), [Action::Kept, Action::Created, Action::Created]);
    let before = contents(root);
    assert_eq!(before["theirs"], "theirs");
    assert_eq!(before["theirs.new"], "one");

    let again = place(root, &first).unwrap();
    assert_eq!(actions(&again), [Action::Kept, Action::Unchanged, Action::Unchanged]);
    assert_eq!(contents(root), before, "twice changes nothing");

    fs::write(root.join("a/changed"), "by a person").unwrap();
    fs::write(root.join("theirs.new"), "also by a person").unwrap();
    let second = ["theirs", "a/ours", "a/changed"].map(|path| NewFile::ours(path, "two"));
    let placed = place(root, &second).unwrap();
    assert_eq!(actions(&placed), [Action::Kept, Action::Updated, Action::Kept]);
    assert_eq!(placed[0].beside.as_deref(), Some("theirs.new-2"));
    let expected = [
        ("theirs", "theirs"),
        ("theirs.new", "also by a person"),
        ("theirs.new-2", "two"),
        ("a/ours", "two"),
        ("a/changed", "by a person"),
        ("a/changed.new", "two"),
    ];
    assert_eq!(contents(root), expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
}

#[test]
fn what_is_merged_takes_the_place_and_never_becomes_ours() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("CLAUDE.md"), "theirs\n").unwrap();
    let placed = place(dir.path(), &[NewFile::merged("CLAUDE.md", "theirs\nours\n")]).unwrap();
    assert_eq!(actions(&placed), [Action::Merged]);
    let placed = place(dir.path(), &[NewFile::ours("CLAUDE.md", "ours\n")]).unwrap();
    assert_eq!(actions(&placed), [Action::Kept]);
    assert_eq!(contents(dir.path())["CLAUDE.md"], "theirs\nours\n");
}

#[test]
fn a_failure_in_the_middle_takes_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    place(root, &[NewFile::ours("ours", "one")]).unwrap();
    fs::write(root.join("theirs"), "theirs").unwrap();
    let before = contents(root);
    // The last file's directory is another file of the same lot, which shows only when it is made.
    let files = [
        NewFile::ours("ours", "two"),
        NewFile::merged("theirs", "theirs and more"),
        NewFile::ours("new/deep/file", "x"),
        NewFile::ours("new/deep/file/below", "x"),
    ];
    place(root, &files).unwrap_err();
    assert_eq!(contents(root), before);
    assert!(!root.join("new").exists());
    assert!(Record::read(root).wrote("ours", b"one"));
}

#[test]
fn what_is_planned_besides_comes_before_the_record_and_is_undone_with_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("theirs"), "theirs").unwrap();
    let before = contents(root);
    let mut more = FileSet::within(&[root]);
    more.write(root.join("theirs"), "theirs and more").unwrap();
    more.write(root.join("deep/er/made"), "x").unwrap();
    let (_, set) = plan(root, &[NewFile::ours("b/ours", "x")], Some(&more)).unwrap();
    let paths: Vec<_> = set.iter().map(|(path, _)| path.strip_prefix(root).unwrap().to_owned()).collect();
    assert_eq!(paths, ["b/ours", "theirs", "deep/er/made", record::PATH].map(PathBuf::from));
    drop(set.apply().unwrap());
    assert_eq!(contents(root), before);
    assert!(!root.join("deep").exists() && !root.join("b").exists());
}

#[test]
fn nothing_is_written_through_a_link_or_over_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    fs::create_dir_all(root.join("taken/full")).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, root.join(".claude")).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    symlink(outside.join("precious"), root.join("link")).unwrap();
    let file = |path: &str| [NewFile::ours("first", "x"), NewFile::ours(path, "x")];
    for path in [".claude/rules/a.md", "taken"] {
        let error = place(&root, &file(path)).unwrap_err();
        assert!(error.what_to_do().is_some(), "{error}");
        assert!(!root.join("first").exists(), "{path}");
    }
    let placed = place(&root, &[NewFile::merged("link", "x")]).unwrap();
    assert_eq!(placed[0].beside.as_deref(), Some("link.new"));
    assert_eq!(contents(&outside), [("precious".to_owned(), "precious".to_owned())].into());
}
