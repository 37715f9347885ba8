//! Finds the paths named in the output of compilers, linters and test runners. Only whole paths count.

use std::collections::{BTreeMap, BTreeSet};

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::TaskId;

/// Returns the tasks whose files the text names, each with the first such path. `root` is stripped from absolute paths.
pub(super) fn owners_named<'a>(
    text: &str,
    root: &str,
    owners: impl IntoIterator<Item = (&'a TaskId, &'a [OwnedPath])>,
) -> BTreeMap<&'a TaskId, String> {
    let text = text.replace(&format!("{root}/"), "./");
    let words: BTreeSet<&str> = words(&text).collect();
    let mut named = BTreeMap::new();
    for (task, owned) in owners {
        let by_word = words.iter().find(|word| owned.iter().any(|owned| owned.covers(word))).copied();
        let with_spaces = || owned.iter().find(|owned| owned.path.contains(' ') && names_whole(&text, &owned.path));
        if let Some(path) = by_word.or_else(|| with_spaces().map(|owned| owned.path.as_str())) {
            named.insert(task, path.to_owned());
        }
    }
    named
}

/// Returns the text's words without the punctuation that commonly surrounds a path.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_path_char(c)).map(|word| word.trim_end_matches(['.', ',', ':'])).flat_map(|word| {
        let word = word.strip_prefix("./").unwrap_or(word);
        // `a/` and `b/` are how diffs name the two sides.
        let in_diff = word.strip_prefix("a/").or_else(|| word.strip_prefix("b/"));
        [Some(word), in_diff].into_iter().flatten().filter(|word| !word.is_empty())
    })
}

fn is_path_char(c: char) -> bool {
    !c.is_whitespace()
        && !c.is_control()
        && !matches!(c, ':' | ',' | ';' | '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '|' | '=')
}

/// Returns whether the text names a path with spaces, delimited by characters that cannot be part of a path.
fn names_whole(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let before = &text[..at];
        let before = before.strip_suffix("./").unwrap_or(before);
        let after = text[at + path.len()..].trim_start_matches('.');
        !before.ends_with(is_path_char) && !after.starts_with(is_path_char)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(path: &str) -> OwnedPath {
        let directory = path.ends_with('/');
        OwnedPath { path: path.trim_end_matches('/').into(), directory, create: false }
    }

    fn named(text: &str) -> Vec<String> {
        let tasks: Vec<(TaskId, Vec<OwnedPath>)> = [
            ("A", vec!["src/a.rs", "a.rs"]),
            ("B", vec!["src/b.rs", "lib/", "my docs/read me.md"]),
            ("C", vec!["größe/ü.py", "src/a.rs.bak"]),
        ]
        .into_iter()
        .map(|(id, paths)| (TaskId::new(id).unwrap(), paths.into_iter().map(owned).collect()))
        .collect();
        let owners = tasks.iter().map(|(id, owned)| (id, owned.as_slice()));
        owners_named(text, "/w/staging", owners).into_iter().map(|(id, path)| format!("{id} {path}")).collect()
    }

    #[test]
    fn paths_are_found_in_the_formats_of_common_tools() {
        for text in [
            "error: oops\n  --> src/b.rs:10:5",
            "src/b.rs(3,4): bad",
            "/w/staging/src/b.rs: bad",
            "File \"./src/b.rs\", line 1",
            "see src/b.rs.",
            "--- a/src/b.rs",
            "+++ b/src/b.rs\t2026",
            "FAILED src/b.rs::test_x",
        ] {
            assert_eq!(named(text), ["B src/b.rs"], "{text}");
        }
        assert_eq!(named("in lib/deep/x.c:1"), ["B lib/deep/x.c"]);
        assert_eq!(named("größe/ü.py:1"), ["C größe/ü.py"]);
        assert_eq!(named("bad 'my docs/read me.md'"), ["B my docs/read me.md"]);
        assert_eq!(named("./my docs/read me.md:1"), ["B my docs/read me.md"]);
    }

    #[test]
    fn a_part_of_another_path_does_not_count() {
        for text in
            ["other/src/b.rs", "src/b.rsx", "/src/b.rs", "xsrc/b.rs", "src/b.rs/x", "lib", "not my docs/read me.mdx"]
        {
            assert_eq!(named(text), [""; 0], "{text}");
        }
        assert_eq!(named("src/a.rs.bak:1"), ["C src/a.rs.bak"]);
        assert_eq!(named("src/a.rs:1"), ["A src/a.rs"]);
    }

    #[test]
    fn every_named_task_is_returned() {
        assert_eq!(named("src/a.rs and src/b.rs").len(), 2);
    }
}
