//! The files of the commit that a run starts from.

use std::collections::BTreeMap;

use crate::spec::path::folded;

/// Maximum steps when following symlinks. A longer path is a loop or an attack, and counts as leading out.
const MAX_STEPS: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct StartTree {
    /// Maps each path to its kind. Directories are not listed; they are implied by the paths below them.
    pub entries: BTreeMap<String, EntryKind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Symlink { target: String },
    Submodule,
}

impl StartTree {
    /// Returns true if the path exists, as an entry or as a directory.
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path) || self.has_below(path)
    }

    /// Returns the path of each entry by its folded form.
    pub(super) fn spellings(&self) -> BTreeMap<String, &str> {
        self.entries.keys().map(|path| (folded(path), path.as_str())).collect()
    }

    pub(super) fn has_below(&self, directory: &str) -> bool {
        let prefix = format!("{directory}/");
        self.entries.range(prefix.clone()..).next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// Returns true if the path, with every symlink on the way followed, leaves the repository.
    pub(super) fn leads_out(&self, path: &str) -> bool {
        let mut ahead: Vec<&str> = path.rsplit('/').collect();
        let mut here: Vec<&str> = Vec::new();
        for _ in 0..MAX_STEPS {
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
                if target.starts_with('/') || ahead.len() > MAX_STEPS {
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
    fn directories_are_implied_by_the_paths_below() {
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
