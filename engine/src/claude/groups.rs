//! Groups of the files that `init` and `install` write; users select which groups they want.

use std::collections::BTreeSet;

use serde::Serialize;

/// Files that are written, left out and removed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    Commands,
    Agents,
    /// Hooks and the variable that enables the task tools, in `settings.json`.
    Hooks,
    /// Written only if the user asks for it.
    StatusLine,
    /// The MCP server in `.mcp.json`. Written only if the user asks for it.
    Mcp,
    /// The configuration and the directories that a run needs.
    Config,
    /// Facts that `init` found out, or the description of a new project.
    Project,
    Rules,
    ClaudeMd,
    Devcontainer,
    /// Source files of a new project: always written, never removed.
    Scaffold,
    /// A plugin's manifests, readme and licence.
    Plugin,
    /// Record of written files, for later updates and removal.
    Record,
}

impl Group {
    /// Groups that `install` writes.
    pub const INSTALL: [Group; 5] = [Group::Commands, Group::Agents, Group::Hooks, Group::StatusLine, Group::Mcp];
    /// Groups that are written only if the user asks for them.
    pub const ON_REQUEST: [Group; 2] = [Group::StatusLine, Group::Mcp];
    /// Groups that `init` writes.
    pub const INIT: [Group; 10] = [
        Group::Commands,
        Group::Agents,
        Group::Hooks,
        Group::StatusLine,
        Group::Mcp,
        Group::Config,
        Group::Project,
        Group::Rules,
        Group::ClaudeMd,
        Group::Devcontainer,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Group::Commands => "commands",
            Group::Agents => "agents",
            Group::Hooks => "hooks",
            Group::StatusLine => "status-line",
            Group::Mcp => "mcp",
            Group::Config => "config",
            Group::Project => "project",
            Group::Rules => "rules",
            Group::ClaudeMd => "claude-md",
            Group::Devcontainer => "devcontainer",
            Group::Scaffold => "scaffold",
            Group::Plugin => "plugin",
            Group::Record => "record",
        }
    }

    pub fn parse(word: &str) -> Option<Group> {
        Group::INIT.into_iter().find(|group| group.word() == word)
    }

    /// Returns the group of a file by its path from the root of a project.
    pub fn of_project_file(path: &str) -> Group {
        if let Some(name) = path.strip_prefix(".claude/") {
            return Group::of_claude_file(name);
        }
        match path.split('/').next() {
            Some(".devcontainer") => Group::Devcontainer,
            Some(".mahabharatha") => Group::Config,
            Some(".gsd") if path == ".gsd/specs/.gitkeep" => Group::Config,
            Some(".gsd") => Group::Project,
            _ if path == "CLAUDE.md" || path.starts_with("CLAUDE.md.new") => Group::ClaudeMd,
            _ => Group::Scaffold,
        }
    }

    /// Returns the group of a file by its path below a `.claude` directory, or below a directory of plugins.
    pub fn of_claude_file(name: &str) -> Group {
        let has = |dir: &str| name.split('/').any(|part| part == dir);
        match name {
            _ if has("rules") => Group::Rules,
            _ if has("agents") => Group::Agents,
            _ if has("commands") || name.contains(".details.md") => Group::Commands,
            _ if has("hooks") => Group::Hooks,
            "mahabharatha/installed.json" => Group::Record,
            _ => Group::Plugin,
        }
    }
}

/// The groups that a command writes or removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(BTreeSet<Group>);

impl Selection {
    pub fn new(groups: impl IntoIterator<Item = Group>) -> Selection {
        Selection(groups.into_iter().collect())
    }

    /// Selects every group that users can choose.
    pub fn all() -> Selection {
        Selection::new(Group::INIT)
    }

    /// Selects the default groups: all but those on request.
    pub fn usual() -> Selection {
        Selection::new(Group::INIT.into_iter().filter(|group| !Group::ON_REQUEST.contains(group)))
    }

    /// Returns whether a group is selected; groups that users cannot choose always are.
    pub fn has(&self, group: Group) -> bool {
        self.0.contains(&group) || !Group::INIT.contains(&group)
    }

    pub fn is_all(&self) -> bool {
        *self == Selection::all()
    }
}

/// A file and what was done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Placed {
    pub group: Group,
    /// Path from the root, with `/` as separator.
    pub path: String,
    pub action: Action,
    /// Path of the new version, if it was not written to `path`.
    pub beside: Option<String>,
}

/// Counts distinct files; a file can be listed under several groups.
pub fn count_files<'a>(files: impl Iterator<Item = &'a Placed>) -> usize {
    files.map(|file| file.path.as_str()).collect::<BTreeSet<_>>().len()
}

impl Placed {
    /// Returns whether the file or the new version beside it has this name.
    pub fn is(&self, name: &str) -> bool {
        self.path == name || self.beside.as_deref() == Some(name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Created,
    /// Ours and not changed by the user: replaced with new contents.
    Updated,
    /// The user's file, to which our entries were added or from which they were removed.
    Merged,
    Unchanged,
    /// Changed by the user and left as it is.
    Kept,
    Removed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_the_right_group() {
        for (path, group) in [
            (".claude/commands/z/plan.md", Group::Commands),
            (".claude/mahabharatha/plan.details.md.new", Group::Commands),
            (".claude/agents/worker.md", Group::Agents),
            (".claude/rules/security-go.md", Group::Rules),
            (".claude/mahabharatha/installed.json", Group::Record),
            (".mahabharatha/config.yaml.new", Group::Config),
            (".gsd/specs/.gitkeep", Group::Config),
            (".gsd/PROJECT.md", Group::Project),
            (".devcontainer/Dockerfile", Group::Devcontainer),
            ("CLAUDE.md", Group::ClaudeMd),
            ("src/commands/agents.rs", Group::Scaffold),
        ] {
            assert_eq!(Group::of_project_file(path), group, "{path}");
        }
        assert_eq!(Group::of_claude_file("z/commands/plan.md"), Group::Commands);
        assert_eq!(Group::of_claude_file("mahabharatha/hooks/hooks.json"), Group::Hooks);
        assert_eq!(Group::of_claude_file("z/README.md"), Group::Plugin);
    }

    #[test]
    fn every_group_is_parsed_from_its_word() {
        for group in Group::INIT {
            assert_eq!(Group::parse(group.word()), Some(group));
            assert_eq!(serde_json::to_value(group).unwrap(), group.word());
        }
        assert_eq!(Group::parse("scaffold"), None);
        assert!(Selection::new([]).has(Group::Scaffold) && !Selection::new([]).has(Group::Rules));
    }
}
