//! Walks the files of a project: those that git does not ignore, without generated ones. Symlinks are never followed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};

use ignore::{DirEntry, WalkBuilder, WalkState};
use mahabharatha_core::config::Generated;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::file_set::JOURNAL_DIR_PREFIX;

use super::languages;

/// Maximum size in bytes of a text file that is read; a longer manifest is not handwritten.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Maximum size in bytes of a source file whose lines are counted.
const MAX_SOURCE_BYTES: u64 = 4 << 20;
/// Maximum size in bytes of an ignore file that is heeded.
const MAX_IGNORE_BYTES: u64 = 1 << 20;
/// Maximum files per survey.
const MAX_FILES: usize = 1_000_000;
/// Names that are skipped: third-party code, version control, and our own directories.
const SKIPPED_NAMES: [&str; 9] =
    [".git", ".hg", ".svn", ".mahabharatha", ".gsd", ".claude", "vendor", "third_party", "venv"];
/// A file with a NUL among its first bytes counts as binary.
const BINARY_CHECK_BYTES: usize = 8 << 10;

pub struct Tree {
    root: PathBuf,
    /// Sorted by path.
    files: Vec<Entry>,
    notes: Mutex<BTreeSet<String>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Relative to the root, separated by `/`.
    pub path: String,
    pub language: Option<&'static str>,
    pub lines: u64,
}

impl Tree {
    /// Walks the project, leaving out files for which `is_ours` returns true.
    pub fn walk(root: &Path, is_ours: impl Fn(&str) -> bool) -> Result<Tree> {
        // An unreadable root is an error; an unreadable directory below it is only a note.
        fs::read_dir(root).map_err(io("read", root))?;
        let (sender, receiver) = mpsc::channel();
        let generated = Generated::default();
        // The walker reads ignore files whatever they are, so it must not meet one without an end.
        let readable = [".gitignore", ".git/info/exclude"].iter().all(|name| is_short_file(&root.join(name)));
        let (skipped, top) = (sender.clone(), root.to_owned());
        let has_readable_ignore_file = move |entry: &DirEntry| {
            let is_readable = is_short_file(&entry.path().join(".gitignore"));
            if !is_readable {
                let dir = entry.path().strip_prefix(&top).unwrap_or(entry.path()).display();
                let _ = skipped.send(Err(format!("{dir} was skipped: its .gitignore is not a plain, short file")));
            }
            is_readable
        };
        let walk = WalkBuilder::new(root)
            .git_ignore(readable)
            .git_exclude(readable)
            .hidden(false)
            .parents(false)
            .ignore(false)
            .git_global(false)
            .require_git(false)
            .follow_links(false)
            .filter_entry(move |entry| {
                let is_dir = entry.depth() > 0 && entry.file_type().is_some_and(|kind| kind.is_dir());
                !is_skipped(entry, &generated) && (!is_dir || has_readable_ignore_file(entry))
            })
            .build_parallel();
        walk.run(|| {
            let sender = sender.clone();
            let mut buffer = Vec::new();
            Box::new(move |found| {
                let seen = match found {
                    Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                        Ok(inspect(root, entry.path(), &mut buffer))
                    }
                    Ok(_) => return WalkState::Continue,
                    Err(error) => Err(without_root(root, &error.to_string())),
                };
                // The receiver is gone because it has enough files.
                if sender.send(seen).is_err() { WalkState::Quit } else { WalkState::Continue }
            })
        });
        drop(sender);
        let mut tree = Tree { root: root.to_owned(), files: Vec::new(), notes: Mutex::default() };
        for seen in receiver {
            match seen {
                Ok(_) if tree.files.len() == MAX_FILES => {
                    tree.note(format!("there are more than {MAX_FILES} files; the rest were skipped"));
                    break;
                }
                Ok(entry) if is_ours(&entry.path) => {}
                Ok(entry) => tree.files.push(entry),
                Err(note) => tree.note(note),
            }
        }
        tree.files.sort_unstable();
        Ok(tree)
    }

    pub fn files(&self) -> &[Entry] {
        &self.files
    }

    pub fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|entry| entry.path.as_str().cmp(path)).is_ok()
    }

    /// Returns true if the file exists, even in a directory that the survey skips, such as vendored code.
    pub fn has_anywhere(&self, path: &str) -> bool {
        fs::symlink_metadata(self.root.join(path)).is_ok_and(|found| found.is_file())
    }

    /// Returns the path of the first of these names that is a file in the directory.
    pub fn first_in(&self, dir: &str, names: &[&str]) -> Option<String> {
        names.iter().map(|name| join(dir, name)).find(|path| self.has(path))
    }

    /// Reads a text file. If it cannot be read, adds a note and returns None.
    pub fn read(&self, path: &str) -> Option<String> {
        if !self.has(path) {
            return None;
        }
        match read_bounded(&self.root.join(path), MAX_TEXT_BYTES) {
            Ok(Some(bytes)) => Some(String::from_utf8(bytes).unwrap_or_else(|error| {
                self.note(format!("{path} is not valid UTF-8; the invalid bytes were replaced"));
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            })),
            Ok(None) => {
                self.note(format!("{path} is longer than {} KB and was not read", MAX_TEXT_BYTES >> 10));
                None
            }
            Err(error) => {
                self.note(format!("{path} could not be read: {error}"));
                None
            }
        }
    }

    pub fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(text);
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Joins a directory and a name, where the root is the empty path.
pub fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the directory of a path; empty at the root.
pub fn dir_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

pub fn depth(path: &str) -> usize {
    path.matches('/').count()
}

fn is_skipped(entry: &DirEntry, generated: &Generated) -> bool {
    let name = entry.file_name().to_string_lossy();
    let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
    entry.depth() > 0
        && (name.starts_with(JOURNAL_DIR_PREFIX)
            || SKIPPED_NAMES.contains(&name.as_ref())
            || is_dir && generated.is_generated(&name))
}

/// Tells whether there is a file that can be read quickly, or nothing.
fn is_short_file(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file() && found.len() <= MAX_IGNORE_BYTES,
        Err(_) => true,
    }
}

fn inspect(root: &Path, path: &Path, buffer: &mut Vec<u8>) -> Entry {
    let below = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let language = languages::of(&below);
    let lines = language.and_then(|_| count_lines(path, buffer));
    Entry { path: below, language: lines.and(language), lines: lines.unwrap_or_default() }
}

/// Returns None for a binary file or one that is too long to be handwritten.
fn count_lines(path: &Path, buffer: &mut Vec<u8>) -> Option<u64> {
    buffer.clear();
    let length = bounded::open(path).ok()?.take(MAX_SOURCE_BYTES + 1).read_to_end(buffer).ok()?;
    if length as u64 > MAX_SOURCE_BYTES || buffer[..length.min(BINARY_CHECK_BYTES)].contains(&0) {
        return None;
    }
    let ends = buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
    Some(ends + u64::from(buffer.last().is_some_and(|byte| *byte != b'\n')))
}

/// Returns None if the file is longer than `max`. Only opens regular files: reading a pipe might never end.
fn read_bounded(path: &Path, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    bounded::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// Removes the root from an error message: paths of this machine do not belong in a document of the project.
fn without_root(root: &Path, text: &str) -> String {
    text.replace(&format!("{}/", root.display()), "").replace(&root.display().to_string(), ".")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::walk(dir.path(), |_| false).unwrap();
        (dir, tree)
    }

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.files().iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn ignored_and_generated_files_are_skipped() {
        let (_dir, tree) = tree(&[
            (".gitignore", b"/secret\n*.log\n"),
            ("secret/a.py", b"x"),
            ("a.log", b"x"),
            ("node_modules/x/index.js", b"x"),
            ("sub/target/x.rs", b"x"),
            (".git/config", b"x"),
            (".github/workflows/ci.yml", b"x"),
            ("package-lock.json", b"{}"),
            ("src/main.rs", b"fn main() {}\n// end"),
        ]);
        assert_eq!(paths(&tree), [".github/workflows/ci.yml", ".gitignore", "package-lock.json", "src/main.rs"]);
        assert_eq!(tree.files()[3].lines, 2);
    }

    #[test]
    fn links_are_not_followed_and_long_or_binary_files_are_not_read() {
        let long = vec![b'x'; 2 << 20];
        let (dir, tree) =
            tree(&[("a.json", &long), ("b.json", b"{\"a\": \"\xff\"}"), ("c.py", b"\0\0\n"), ("d.py", b"\n")]);
        symlink("..", dir.path().join("loop")).unwrap();
        symlink("/etc/passwd", dir.path().join("passwd.py")).unwrap();
        assert_eq!(paths(&Tree::walk(dir.path(), |_| false).unwrap()), ["a.json", "b.json", "c.py", "d.py"]);
        assert_eq!(tree.read("a.json"), None);
        assert_eq!(tree.read("b.json").unwrap(), "{\"a\": \"\u{fffd}\"}");
        let languages: Vec<_> = tree.files().iter().filter_map(|entry| entry.language).collect();
        assert_eq!(languages, ["Python"], "the binary file does not count as Python");
        insta::assert_debug_snapshot!(tree.notes(), @r#"
        [
            "a.json is longer than 1024 KB and was not read",
            "b.json is not valid UTF-8; the invalid bytes were replaced",
        ]
        "#);
    }
}
