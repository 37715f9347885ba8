//! Slash commands, agents and hooks, as `install` puts them in place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

use super::place::{Action, Placed};
use crate::claude::commands::{self, DETAILS, Home};
use crate::claude::install::install;
use crate::error::Result;

/// What became of them, and which files there were not before.
pub fn put_in_place(root: &Path, split: bool) -> Result<(Vec<Placed>, Vec<PathBuf>)> {
    let home = Home::of_project(root);
    let before = files_below(home.dir());
    let installed = install(&home, split)?;
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let mut placed = Vec::new();
    for path in &installed.written {
        let action = match path.file_name().is_some_and(|name| name == "settings.json") {
            _ if !before.contains(path) => Action::Created,
            true => Action::Merged,
            false => Action::Updated,
        };
        placed.push(Placed { path: name(path), action, beside: None });
    }
    for kept in &installed.kept {
        placed.push(Placed { path: name(&kept.path), action: Action::Kept, beside: Some(name(&kept.new)) });
    }
    let new: Vec<PathBuf> = files_below(home.dir()).difference(&before).cloned().collect();
    // What is as it should be already, and the installer's own record.
    let ours = commands::files(&home, split).into_iter().map(|(path, _)| path);
    let ours = ours.chain([PathBuf::from("settings.json"), Path::new(DETAILS).join("installed.json")]);
    for path in ours.map(|path| home.dir().join(path)).filter(|path| path.is_file()) {
        let action = if new.contains(&path) { Action::Created } else { Action::Unchanged };
        let path = name(&path);
        if !placed.iter().any(|file| file.is(&path)) {
            placed.push(Placed { path, action, beside: None });
        }
    }
    Ok((placed, new))
}

fn files_below(dir: &Path) -> BTreeSet<PathBuf> {
    let walk = WalkBuilder::new(dir).standard_filters(false).follow_links(false).build().flatten();
    walk.filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir())).map(|entry| entry.into_path()).collect()
}
