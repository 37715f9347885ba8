//! A path listed in a spec: normalized when it is read, or rejected with a reason.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Longer paths are rejected, since no file system accepts them.
const MAX_PATH_BYTES: usize = 4096;
const MAX_COMPONENT_BYTES: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedPath {
    /// Relative, separated by `/`, without `.`, `..`, empty parts or a trailing `/`.
    pub path: String,
    /// Written with a trailing `/` or `/**`: includes everything below it.
    pub directory: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadPath {
    pub code: &'static str,
    pub why: &'static str,
}

impl ListedPath {
    pub fn read(text: &str) -> Result<Self, BadPath> {
        let bad = |code, why| Err(BadPath { code, why });
        if text.trim().is_empty() {
            return bad("path_empty", "is empty");
        }
        if text.contains(char::is_control) {
            return bad("path_control_character", "contains a control character");
        }
        if text.len() > MAX_PATH_BYTES || text.split('/').any(|part| part.len() > MAX_COMPONENT_BYTES) {
            return bad("path_too_long", "is longer than a file name can be");
        }
        if text.contains('\\') {
            return bad("path_windows", "contains a backslash; write `/` between directories");
        }
        if text.as_bytes()[0].is_ascii_alphabetic() && text.as_bytes().get(1) == Some(&b':') {
            return bad("path_windows", "starts with a drive letter; write it relative to the repository");
        }
        if text.starts_with('/') || text == "~" || text.starts_with("~/") {
            return bad("path_absolute", "is absolute; write it relative to the repository");
        }
        let (bare, directory) = without_directory_mark(text);
        if is_glob(bare) {
            return bad("path_glob", "is a pattern; only a trailing `/**` is supported, so list the files one by one");
        }
        let Some(parts) = normal_parts(bare) else {
            return bad("path_outside", "leads out of the repository");
        };
        if parts.is_empty() {
            return bad("path_empty", "is the whole repository; name the directories in it");
        }
        if parts.iter().any(|part| is_git_directory(part)) {
            return bad("path_reserved", "is under `.git`, which belongs to git");
        }
        if is_folded(parts[0], ".mahabharatha") || is_folded(parts[0], ".gsd") {
            return bad("path_reserved", "is under `.mahabharatha` or `.gsd`, which belong to the run itself");
        }
        // Nothing is left out of most paths.
        let is_normal = parts.iter().map(|part| part.len() + 1).sum::<usize>() == bare.len() + 1;
        Ok(ListedPath { path: if is_normal { bare.to_owned() } else { parts.join("/") }, directory })
    }
}

fn without_directory_mark(text: &str) -> (&str, bool) {
    let bare = text.trim_end_matches('/');
    match bare {
        "**" => ("", true),
        _ => match bare.strip_suffix("/**").or_else(|| bare.strip_suffix("/.")) {
            Some(directory) => (directory, true),
            None => (bare, bare.len() < text.len()),
        },
    }
}

/// Returns true for a glob pattern. `[` does not count: many frameworks use it in file names (`app/[slug]/page.tsx`).
fn is_glob(text: &str) -> bool {
    let braces = text
        .split_once('{')
        .is_some_and(|(_, rest)| rest.split_once('}').is_some_and(|(inside, _)| inside.contains(',')));
    braces || text.contains(['*', '?'])
}

/// Resolves `.`, `..` and empty parts. Returns None if `..` leads out of the repository.
fn normal_parts(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts)
}

/// Returns true if some file system treats this name as `.git`: other case, ignored characters (HFS+), short names and
/// trailing dots or spaces (NTFS).
fn is_git_directory(part: &str) -> bool {
    let ignored =
        |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let seen = if part.is_ascii() {
        Cow::from(part)
    } else {
        Cow::from(part.chars().filter(|&c| !ignored(c)).collect::<String>())
    };
    let seen = seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    is_folded(seen, ".git") || is_folded(seen, "git~1")
}

/// Returns true if the path folds to this one.
fn is_folded(path: &str, to: &str) -> bool {
    if path.is_ascii() { path.eq_ignore_ascii_case(to) } else { folded(path) == to }
}

/// Folds a path so that two paths compare equal if a case-insensitive or normalizing file system treats them as one.
pub(crate) fn folded(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    path.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfc().collect()
}

/// Returns the parent directories of a path, nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, bool), &'static str> {
        ListedPath::read(text).map(|listed| (listed.path, listed.directory)).map_err(|bad| bad.code)
    }

    #[test]
    fn different_spellings_normalize_to_one_path() {
        for text in ["a/b", "./a/b", "a//b", "a/./b", "a/c/../b", ".//a/b"] {
            assert_eq!(read(text), Ok(("a/b".into(), false)), "{text}");
        }
        for text in ["a/b/", "a/b/**", "a/b/**/", "a//b//", "a/b/."] {
            assert_eq!(read(text), Ok(("a/b".into(), true)), "{text}");
        }
    }

    #[test]
    fn unusual_names_are_accepted() {
        for text in
            ["app/[slug]/page.tsx", "a b/ü.txt", ".github/x", "src/.gitignore", "a/.gsd/x", "{x}", "ab:c", "git"]
        {
            assert_eq!(read(text), Ok((text.into(), false)));
        }
    }

    #[test]
    fn bad_paths_say_why() {
        for (text, code) in [
            ("", "path_empty"),
            (" ", "path_empty"),
            (".", "path_empty"),
            ("./", "path_empty"),
            ("**", "path_empty"),
            ("./**", "path_empty"),
            ("a/..", "path_empty"),
            ("/etc/passwd", "path_absolute"),
            ("/", "path_absolute"),
            ("~/x", "path_absolute"),
            ("C:/x", "path_windows"),
            ("c:x", "path_windows"),
            ("a\\b", "path_windows"),
            ("a\nb", "path_control_character"),
            ("a\0", "path_control_character"),
            ("a\u{85}", "path_control_character"),
            ("..", "path_outside"),
            ("a/../../b", "path_outside"),
            ("../**", "path_outside"),
            ("*.rs", "path_glob"),
            ("a/*/b", "path_glob"),
            ("a/**/b", "path_glob"),
            ("a?", "path_glob"),
            ("src/{a,b}.rs", "path_glob"),
            (".git", "path_reserved"),
            (".GIT/hooks/x", "path_reserved"),
            ("a/.git/x", "path_reserved"),
            ("a/.g\u{200c}it/x", "path_reserved"),
            ("git~1/x", "path_reserved"),
            (".git./x", "path_reserved"),
            (".gsd/x", "path_reserved"),
            ("./.GSD/", "path_reserved"),
            (".mahabharatha", "path_reserved"),
        ] {
            assert_eq!(read(text), Err(code), "{text:?}");
        }
        assert_eq!(read(&"a/".repeat(3000)), Err("path_too_long"));
        assert_eq!(read(&"a".repeat(256)), Err("path_too_long"));
    }

    #[test]
    fn names_that_a_file_system_treats_as_one_fold_to_one() {
        for (a, b) in [("Src/A", "src/a"), ("STRASSE", "straße"), ("é", "e\u{301}"), ("Σ", "ς"), ("Å", "\u{212b}")]
        {
            assert_eq!(folded(a), folded(b), "{a} {b}");
        }
        assert_ne!(folded("a/b"), folded("a-b"));
    }

    #[test]
    fn ancestors_go_upwards() {
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b", "a"]);
        assert_eq!(ancestors("a").count(), 0);
    }
}
