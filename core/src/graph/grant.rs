//! Checks a path that a task is to own beside those of its spec against the files that the task finds.

use super::claims::{elsewhere, in_submodule};
use super::report::shown;
use super::{EntryKind, OwnedPath, StartTree};
use crate::spec::path::{ancestors, folded};

impl StartTree {
    /// Returns why no task can be granted the path, as these files are. The path may exist or not.
    pub fn cannot_grant(&self, path: &OwnedPath) -> Option<String> {
        let why = self.why_not(path)?;
        Some(format!("{} {why}", shown(&path.path)))
    }

    fn why_not(&self, owned: &OwnedPath) -> Option<String> {
        let path = owned.path.as_str();
        if let Some((_, why)) = elsewhere(owned, self, &self.spellings()) {
            return Some(why);
        }
        if let Some(file) = ancestors(path).find(|above| self.entries.contains_key(*above)) {
            return Some(format!("is below {}, which is a file", shown(file)));
        }
        match self.entries.get(path) {
            Some(EntryKind::Symlink { target }) => {
                Some(format!("is a symlink (to {}); name the real path", shown(target)))
            }
            Some(EntryKind::Submodule) => Some(in_submodule(path)),
            Some(EntryKind::File) if owned.directory => Some("is a file; name it without the trailing `/`".to_owned()),
            Some(EntryKind::File) => None,
            None if self.has_below(path) && !owned.directory => {
                Some("is a directory; add a trailing `/` to grant everything below it".to_owned())
            }
            None => {
                let like = self.spelled_otherwise(path)?;
                Some(format!("differs from {}, which exists, only in case or accents", shown(&like)))
            }
        }
    }

    /// Returns what exists under another spelling of the path or of a directory above it.
    fn spelled_otherwise(&self, path: &str) -> Option<String> {
        let wanted: Vec<&str> = [path].into_iter().chain(ancestors(path)).filter(|path| !self.contains(path)).collect();
        let folded_wanted: Vec<String> = wanted.iter().map(|path| folded(path)).collect();
        let existing = self.entries.keys().flat_map(|entry| [entry.as_str()].into_iter().chain(ancestors(entry)));
        existing.into_iter().find(|existing| folded_wanted.contains(&folded(existing))).map(str::to_owned)
    }
}
