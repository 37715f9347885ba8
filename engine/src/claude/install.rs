//! Installs commands, agents and hooks for Claude Code, or removes them. Must never touch what the user changed.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::store::file_set::{FileSet, fingerprint, read};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::commands::{self, DOT_CLAUDE, Home};
use super::groups::{Action, Group, Placed, Selection};
use super::mcp_json;
use super::plugin;
use super::settings::{self, Added, Edit, Edited, Entries};

/// Program name that commands and hooks call.
pub const PROGRAM: &str = "mahabharatha";
const SETTINGS: &str = "settings.json";
/// Settings of one user in a project.
const LOCAL_SETTINGS: &str = "settings.local.json";

/// Directory that our files are installed in.
struct Target {
    /// Paths are shown relative to this directory.
    root: PathBuf,
    /// Path from the root to the directory, empty or without a final `/`.
    prefix: &'static str,
    /// Path of the manifest below the directory.
    manifest: &'static str,
    /// The only folders below the directory in which a manifest may name files.
    folders: Vec<&'static str>,
    /// Forbids writing outside the root through a symbolic link.
    is_confined: bool,
}

impl Target {
    fn home(home: &Home) -> Target {
        let [ours, short] = DOT_CLAUDE.commands;
        Target {
            root: home.root().to_owned(),
            prefix: home.prefix(),
            manifest: "mahabharatha/installed.json",
            folders: vec![ours, short, DOT_CLAUDE.agents, "mahabharatha"],
            is_confined: home.is_project(),
        }
    }

    fn plugins(dir: &Path) -> Target {
        Target {
            root: dir.to_owned(),
            prefix: "",
            manifest: ".claude-plugin/installed.json",
            folders: vec![".claude-plugin", "mahabharatha", "z"],
            is_confined: true,
        }
    }

    fn shown(&self, name: &Path) -> String {
        Path::new(self.prefix).join(name).display().to_string()
    }

    fn path(&self, name: &Path) -> PathBuf {
        self.root.join(self.prefix).join(name)
    }

    /// Tells whether a file is in our folders. A manifest may have been tampered with, so others are ignored.
    fn may_hold(&self, name: &Path) -> bool {
        let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain && self.folders.iter().any(|folder| name.starts_with(folder))
    }
}

/// Record of what we wrote, which tells our files from those that the user has changed since.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<PathBuf, String>,
    #[serde(default, skip_serializing_if = "Added::is_nothing")]
    settings: Added,
    #[serde(default, skip_serializing_if = "Added::is_nothing")]
    mcp: Added,
}

/// Changes to make, all of them or none.
#[derive(Debug)]
pub struct Plan {
    root: PathBuf,
    pub files: Vec<Placed>,
    pub warnings: Vec<String>,
    changes: FileSet,
}

impl Plan {
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the changes, for a caller that applies them together with others.
    pub fn changes(&self) -> &FileSet {
        &self.changes
    }

    pub fn carry_out(&self) -> Result<()> {
        self.changes.apply()?.keep();
        self.changes.remove_empty_dirs(&self.root);
        Ok(())
    }

    /// Adds the removal of a file, by its path from the root.
    pub fn remove(&mut self, group: Group, path: &str) -> Result<()> {
        self.changes.remove(self.root.join(path))?;
        self.files.push(Placed { group, path: path.to_owned(), action: Action::Removed, beside: None });
        Ok(())
    }

    /// Adds a rewrite of a file without our part of it.
    pub fn rewrite(&mut self, group: Group, path: &str, text: String) -> Result<()> {
        self.changes.write(self.root.join(path), text)?;
        self.files.push(Placed { group, path: path.to_owned(), action: Action::Merged, beside: None });
        Ok(())
    }

    /// Notes that a file stays because the user changed it.
    pub fn keep(&mut self, group: Group, path: &str) {
        self.files.push(Placed { group, path: path.to_owned(), action: Action::Kept, beside: None });
    }

    pub fn removes(&self, path: &Path) -> bool {
        self.changes.removes(path)
    }
}

/// Plans to bring a `.claude` directory up to date. A second run changes nothing.
pub fn plan(home: &Home, split: bool, selection: &Selection) -> Result<Plan> {
    let mut draft = Draft::begin(Target::home(home))?;
    draft.install_files(commands::files(home, split), selection)?;
    draft.add_settings(selection)?;
    draft.add_mcp(selection)?;
    if selection.has(Group::Commands) && !selection.has(Group::Hooks) && !has_settings(home, settings::has_hooks) {
        let add = if home.is_project() { "install --only hooks" } else { "install --user --only hooks" };
        draft.warnings.push(format!(
            "without the hooks, plan, design and kurukshetra ask you about each of their calls once a subagent has worked, and \
             kurukshetra cannot tell when one has finished; `{PROGRAM} {add}` adds them"
        ));
    }
    draft.finish()
}

/// Plans to write our plugins into a directory that may have other files.
pub fn plan_plugins(dir: &Path) -> Result<Plan> {
    let mut draft = Draft::begin(Target::plugins(dir))?;
    draft.install_files(plugin::files(), &Selection::all())?;
    draft.finish()
}

/// Plans to remove from a `.claude` directory what `plan` adds.
pub fn plan_removal(home: &Home, selection: &Selection) -> Result<Plan> {
    let mut draft = Draft::begin(Target::home(home))?;
    draft.remove_files(selection)?;
    draft.remove_settings(selection)?;
    draft.remove_mcp(selection)?;
    draft.finish()
}

pub fn plan_plugin_removal(dir: &Path) -> Result<Plan> {
    let mut draft = Draft::begin(Target::plugins(dir))?;
    draft.remove_files(&Selection::all())?;
    draft.finish()
}

struct Draft {
    target: Target,
    /// The manifest as it was found.
    known: Manifest,
    manifest: Manifest,
    changes: FileSet,
    files: Vec<Placed>,
    warnings: Vec<String>,
}

impl Draft {
    fn begin(target: Target) -> Result<Draft> {
        let known = read(&target.path(Path::new(target.manifest)))?;
        let known: Manifest = known.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let root = target.root.as_path();
        let changes = if target.is_confined { FileSet::within(&[root]) } else { FileSet::anywhere() };
        let changes = changes.journaled(root, "install");
        let manifest = known.clone();
        Ok(Draft { target, known, manifest, changes, files: Vec::new(), warnings: Vec::new() })
    }

    fn placed(&mut self, name: &Path, action: Action, beside: Option<&Path>) {
        let group = Group::of_claude_file(&name.to_string_lossy());
        let beside = beside.map(|name| self.target.shown(name));
        self.files.push(Placed { group, path: self.target.shown(name), action, beside });
    }

    fn install_files(&mut self, files: Vec<(PathBuf, String)>, selection: &Selection) -> Result<()> {
        let is_selected = |name: &Path| selection.has(Group::of_claude_file(&name.to_string_lossy()));
        // Files that an earlier version wrote and this one does not are obsolete. Files of unselected groups stay.
        let mut obsolete: Vec<PathBuf> = self.known.files.keys().filter(|name| is_selected(name)).cloned().collect();
        for (name, text) in files.into_iter().filter(|(name, _)| is_selected(name)) {
            obsolete.retain(|other| *other != name);
            if let Some(beside) = self.install_file(&name, text)? {
                obsolete.retain(|other| *other != beside);
            }
        }
        for name in obsolete {
            let ours = self.manifest.files.remove(&name);
            let found = read(&self.target.path(&name))?;
            if self.target.may_hold(&name) && found.map(|found| fingerprint(&found)) == ours {
                self.changes.remove(self.target.path(&name))?;
                self.placed(&name, Action::Removed, None);
            }
        }
        Ok(())
    }

    /// Returns the name of the new version beside a file that the user changed.
    fn install_file(&mut self, name: &Path, text: String) -> Result<Option<PathBuf>> {
        let path = self.target.path(name);
        let ours = self.known.files.get(name);
        let print = fingerprint(text.as_bytes());
        match read(&path)? {
            Some(found) if found == text.as_bytes() => self.placed(name, Action::Unchanged, None),
            Some(found) if ours.is_none_or(|ours| *ours != fingerprint(&found)) => {
                let beside = beside(name);
                let new = self.target.path(&beside);
                if read(&new)?.as_deref() != Some(text.as_bytes()) {
                    self.changes.write(new, text)?;
                }
                self.manifest.files.insert(beside.clone(), print);
                self.placed(name, Action::Kept, Some(&beside));
                return Ok(Some(beside));
            }
            found => {
                self.changes.write(path, text)?;
                self.placed(name, if found.is_some() { Action::Updated } else { Action::Created }, None);
            }
        }
        self.manifest.files.insert(name.to_owned(), print);
        Ok(None)
    }

    fn remove_files(&mut self, selection: &Selection) -> Result<()> {
        for (name, ours) in self.known.files.clone() {
            if !selection.has(Group::of_claude_file(&name.to_string_lossy())) {
                continue;
            }
            self.manifest.files.remove(&name);
            match read(&self.target.path(&name))?.filter(|_| self.target.may_hold(&name)) {
                Some(found) if fingerprint(&found) == ours => {
                    self.changes.remove(self.target.path(&name))?;
                    self.placed(&name, Action::Removed, None);
                }
                Some(_) => self.placed(&name, Action::Kept, None),
                None => {}
            }
        }
        Ok(())
    }

    fn add_settings(&mut self, selection: &Selection) -> Result<()> {
        let Some((path, old, entries)) = self.settings(selection)? else { return Ok(()) };
        let edit = settings::add(&path, old.as_deref(), entries, &mut self.manifest.settings)?;
        let theirs = old.as_deref().and_then(|old| serde_json::from_str(old).ok()).unwrap_or_default();
        if entries.status_line && settings::has_other_status_line(&theirs) {
            self.warnings.push(format!("{} already has a statusLine; it was kept", path.display()));
        }
        let unchanged = entries.groups().into_iter().filter(|group| !edit.changed.groups().contains(group));
        self.place_settings(unchanged.collect(), Action::Unchanged);
        self.edit_settings(&path, edit, if old.is_some() { Action::Merged } else { Action::Created })
    }

    fn remove_settings(&mut self, selection: &Selection) -> Result<()> {
        let Some((path, Some(old), entries)) = self.settings(selection)? else { return Ok(()) };
        let edit = settings::remove(&path, &old, entries, &mut self.manifest.settings)?;
        self.edit_settings(&path, edit, Action::Merged)
    }

    /// Returns the settings file, its text and the selected entries; `None` if no entry is selected.
    fn settings(&self, selection: &Selection) -> Result<Option<(PathBuf, Option<String>, Entries)>> {
        let entries = Entries::selected(selection);
        if entries == Entries::default() {
            return Ok(None);
        }
        let path = self.target.path(Path::new(SETTINGS));
        let old = read_text(&path)?;
        Ok(Some((path, old, entries)))
    }

    /// Applies an edit of the settings. `action` is reported for a file that still has text after it.
    fn edit_settings(&mut self, path: &Path, edit: Edit, action: Action) -> Result<()> {
        if let Some(action) = self.edit_file(path, edit.result, action)? {
            self.place_settings(edit.changed.groups(), action);
        }
        Ok(())
    }

    /// Applies an edit of a file that the user may have written too. Returns what was done with the file.
    fn edit_file(&mut self, path: &Path, edited: Edited, action: Action) -> Result<Option<Action>> {
        // Writes the target of a symbolic link, such as one into a dotfiles repository; the link stays.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(match edited {
            Edited::Unchanged => None,
            Edited::Text(text) => {
                self.changes.write(target, text)?;
                Some(action)
            }
            Edited::Gone => {
                self.changes.remove(target)?;
                Some(Action::Removed)
            }
        })
    }

    fn add_mcp(&mut self, selection: &Selection) -> Result<()> {
        if !selection.has(Group::Mcp) {
            return Ok(());
        }
        if !self.target.is_confined {
            return Err(Error::new(Kind::Usage, "the MCP server can be installed only in a project")
                .hint("For all your projects: claude mcp add --scope user mahabharatha -- mahabharatha mcp"));
        }
        let path = self.target.root.join(mcp_json::PATH);
        let old = read_text(&path)?;
        let edited = mcp_json::add(&path, old.as_deref(), &mut self.manifest.mcp)?;
        if old.as_deref().and_then(|old| serde_json::from_str(old).ok()).is_some_and(|file| mcp_json::has_other(&file))
        {
            self.warnings.push(format!("{} already has a server mahabharatha; it was kept", path.display()));
        }
        let action = if old.is_some() { Action::Merged } else { Action::Created };
        let action = self.edit_file(&path, edited, action)?.unwrap_or(Action::Unchanged);
        self.place_mcp(action);
        Ok(())
    }

    fn remove_mcp(&mut self, selection: &Selection) -> Result<()> {
        let path = self.target.root.join(mcp_json::PATH);
        if !selection.has(Group::Mcp) || !self.target.is_confined {
            return Ok(());
        }
        // The user's own file, in whatever state, is no obstacle.
        let is_ours = |old: &String| old.contains(PROGRAM) || !self.manifest.mcp.is_nothing();
        let Some(old) = read_text(&path)?.filter(is_ours) else { return Ok(()) };
        let edited = mcp_json::remove(&path, &old, &mut self.manifest.mcp)?;
        if let Some(action) = self.edit_file(&path, edited, Action::Merged)? {
            self.place_mcp(action);
        }
        Ok(())
    }

    fn place_mcp(&mut self, action: Action) {
        self.files.push(Placed { group: Group::Mcp, path: mcp_json::PATH.to_owned(), action, beside: None });
    }

    /// Lists the settings file under each of the groups whose entries it has.
    fn place_settings(&mut self, groups: Vec<Group>, action: Action) {
        let path = self.target.shown(Path::new(SETTINGS));
        self.files.extend(groups.into_iter().map(|group| Placed { group, path: path.clone(), action, beside: None }));
    }

    fn finish(mut self) -> Result<Plan> {
        let name = Path::new(self.target.manifest);
        let path = self.target.path(name);
        let was_there = read(&path)?.is_some();
        let is_empty = self.manifest == Manifest::default();
        let action = match (was_there, is_empty) {
            (true, true) => {
                self.changes.remove(path)?;
                Some(Action::Removed)
            }
            (true, false) if self.manifest == self.known => Some(Action::Unchanged),
            (false, true) => None,
            _ => {
                let text = serde_json::to_string_pretty(&self.manifest).expect("a manifest is plain data");
                self.changes.write(path, text + "\n")?;
                Some(if was_there { Action::Updated } else { Action::Created })
            }
        };
        if let Some(action) = action {
            let path = self.target.shown(name);
            self.files.push(Placed { group: Group::Record, path, action, beside: None });
        }
        let Draft { target, changes, files, warnings, .. } = self;
        Ok(Plan { root: target.root, files, warnings, changes })
    }
}

/// Reads a file that the user may have written too.
fn read_text(path: &Path) -> Result<Option<String>> {
    read(path)?.map(String::from_utf8).transpose().map_err(|_| {
        Error::new(Kind::Invalid, format!("{} is not UTF-8 text", path.display()))
            .hint("Correct the file, then run the same command again; nothing was changed.")
    })
}

/// Tells whether Claude Code already has a status line, by these settings or by those of the user.
pub fn has_status_line(home: &Home) -> bool {
    has_settings(home, |settings| settings.get("statusLine").is_some())
}

/// Tells whether these settings or those of the user have something.
fn has_settings(home: &Home, wanted: impl Fn(&Value) -> bool) -> bool {
    let dirs = [Some(home.dir()), Home::of_user().ok().map(|home| home.dir())];
    let paths = dirs.into_iter().flatten().flat_map(|dir| [SETTINGS, LOCAL_SETTINGS].map(|name| dir.join(name)));
    let texts = paths.filter_map(|path| read(&path).ok().flatten());
    let mut settings = texts.filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
    settings.any(|settings| wanted(&settings))
}

/// Returns a warning for the user if the program is not on the PATH; `on_path` is where it was found.
pub fn warning(on_path: Option<&Path>) -> Option<String> {
    on_path.is_none().then(|| {
        format!(
            "`{PROGRAM}` is not on the PATH: the slash commands cannot call it, and the hooks do nothing until it is"
        )
    })
}

/// Returns the name of the new version beside a changed file: `init.md.new`, which the client does not load.
fn beside(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests;
