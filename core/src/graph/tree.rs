//! What stands in the commit that a run starts from.

use std::collections::BTreeMap;

use crate::spec::path::{ancestors, normal_parts};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct StartTree {
    /// Path → what it is. Directories are not listed; they are told by the paths below them.
    pub entries: BTreeMap<String, EntryKind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Symlink { target: String },
    Submodule,
}

impl StartTree {
    /// Whether the path is there, as an entry or as a directory.
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path) || self.has_below(path)
    }

    pub(super) fn has_below(&self, directory: &str) -> bool {
        let prefix = format!("{directory}/");
        self.entries.range(prefix.clone()..).next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// Whether a symlink, or the last of a chain of them, points out of the repository.
    pub(super) fn leads_out(&self, symlink: &str, target: &str) -> bool {
        let (mut at, mut target) = (symlink.to_owned(), target);
        // As many steps as the kernel takes; a longer chain leads nowhere.
        for _ in 0..40 {
            if target.starts_with('/') {
                return true;
            }
            let joined = match ancestors(&at).next() {
                Some(directory) => format!("{directory}/{target}"),
                None => target.to_owned(),
            };
            let Some(parts) = normal_parts(&joined) else { return true };
            at = parts.join("/");
            match self.entries.get(&at) {
                Some(EntryKind::Symlink { target: next }) => target = next,
                _ => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_told_by_what_lies_below() {
        let tree = StartTree { entries: [("a/b".into(), EntryKind::File), ("a-c".into(), EntryKind::File)].into() };
        assert!(tree.contains("a") && tree.contains("a/b") && tree.has_below("a"));
        assert!(!tree.has_below("a/b") && !tree.contains("a/") && !tree.has_below("a-"));
    }

    #[test]
    fn symlinks_are_followed() {
        let link = |target: &str| EntryKind::Symlink { target: target.into() };
        let entries = [("d/in", "../x"), ("d/out", "../../x"), ("abs", "/x"), ("chain", "d/out"), ("loop", "loop")];
        let tree = StartTree { entries: entries.map(|(path, target)| (path.into(), link(target))).into() };
        for (path, out) in [("d/in", false), ("d/out", true), ("abs", true), ("chain", true), ("loop", false)] {
            let Some(EntryKind::Symlink { target }) = tree.entries.get(path) else { panic!("{path}") };
            assert_eq!(tree.leads_out(path, target), out, "{path}");
        }
    }
}
