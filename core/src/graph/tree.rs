//! What stands in the commit that a run starts from.

use std::collections::BTreeMap;

/// A way with more parts goes in a circle, or was made to keep us busy; neither is followed.
const LONGEST_WALK: usize = 2000;

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

    /// Whether one leaves the repository by following the path and every symlink on its way.
    pub(super) fn leads_out(&self, path: &str) -> bool {
        let mut ahead: Vec<&str> = path.rsplit('/').collect();
        let mut here: Vec<&str> = Vec::new();
        for _ in 0..LONGEST_WALK {
            match ahead.pop() {
                None => return false,
                Some("" | ".") => {}
                Some("..") => {
                    if here.pop().is_none() {
                        return true;
                    }
                }
                Some(part) => here.push(part),
            }
            if let Some(EntryKind::Symlink { target }) = self.entries.get(&here.join("/")) {
                if target.starts_with('/') || ahead.len() > LONGEST_WALK {
                    return true;
                }
                here.pop();
                ahead.extend(target.rsplit('/'));
            }
        }
        true
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
        let links = [
            ("d/in", "../x"),
            ("d/out", "../../x"),
            ("abs", "/x"),
            ("chain", "d/out"),
            ("through", "up/y"),
            ("up", "d/../.."),
            ("down", "d/in/../y"),
            ("loop", "loop"),
        ];
        let link = |(path, target): (&str, &str)| (path.to_owned(), EntryKind::Symlink { target: target.to_owned() });
        let tree = StartTree { entries: links.map(link).into() };
        let out: Vec<&str> = links.iter().map(|(path, _)| *path).filter(|path| tree.leads_out(path)).collect();
        assert_eq!(out, ["d/out", "abs", "chain", "through", "up", "loop"]);
    }
}
