//! Renders the slash commands and agents as files for a `.claude` directory or for plugins.

use std::path::{Path, PathBuf};

use mahabharatha_sys::error::{Error, Kind, Result};

use crate::agent::claude::config_dir;

/// Where commands and agents are below a directory, and how commands name the agents.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Folders for `/mahabharatha:x` and for `/z:x`.
    pub commands: [&'static str; 2],
    pub agents: &'static str,
    /// Folder for details in separate files. Not below `commands`, where the client takes every file for a command.
    pub details: Option<&'static str>,
    pub agent_prefix: &'static str,
    /// Options for `init`, so that it does not install again what the layout has.
    pub init_options: &'static str,
}

/// Layout below a `.claude` directory.
pub const DOT_CLAUDE: Layout = Layout {
    commands: ["commands/mahabharatha", "commands/z"],
    agents: "agents",
    details: Some("mahabharatha"),
    agent_prefix: "",
    init_options: "",
};

/// Layout of a directory with our two plugins. The agents are in the first one, whose name the client puts before
/// theirs.
pub const PLUGINS: Layout = Layout {
    commands: ["mahabharatha/commands", "z/commands"],
    agents: "mahabharatha/agents",
    details: None,
    agent_prefix: "mahabharatha:",
    init_options: " --without commands,agents,hooks",
};

struct Command {
    name: &'static str,
    core: &'static str,
    /// Text that is rarely needed, kept apart so that the command itself stays short.
    details: Option<&'static str>,
}

macro_rules! asset {
    ($($path:literal),+) => {
        include_str!(concat!("../../assets/claude/", $($path),+))
    };
}

macro_rules! command {
    ($name:literal) => {
        Command { name: $name, core: asset!("commands/", $name, ".md"), details: None }
    };
    ($name:literal, details) => {
        Command {
            name: $name,
            core: asset!("commands/", $name, ".md"),
            details: Some(asset!("commands/", $name, ".details.md")),
        }
    };
}

const COMMANDS: [Command; 15] = [
    command!("init"),
    command!("plan", details),
    command!("design", details),
    command!("kurukshetra", details),
    command!("status"),
    command!("worker"),
    command!("merge"),
    command!("stop"),
    command!("retry"),
    command!("cleanup"),
    command!("debug"),
    command!("logs"),
    command!("estimate"),
    command!("review"),
    command!("git"),
];

const AGENT_FILES: [(&str, &str); 5] = [
    ("scout", asset!("agents/scout.md")),
    ("product-owner", asset!("agents/product-owner.md")),
    ("architect", asset!("agents/architect.md")),
    ("worker", asset!("agents/worker.md")),
    ("gatekeeper", asset!("agents/gatekeeper.md")),
];

const PREFLIGHT: &str = asset!("preflight.md");
const MCP: &str = asset!("mcp.md");

/// A `.claude` directory: a project's, or the user's, which applies to all projects.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
    /// Path from the root to the directory.
    prefix: &'static str,
    /// The directory as commands name it to the model.
    shown: String,
}

impl Home {
    pub fn of_project(root: &Path) -> Home {
        Home { root: root.to_owned(), prefix: ".claude", shown: ".claude".to_owned() }
    }

    /// Returns the user's directory.
    pub fn of_user() -> Result<Home> {
        let root = config_dir().ok_or_else(|| {
            Error::new(Kind::Failed, "cannot find your Claude Code directory: HOME is not set")
                .hint("Set HOME or CLAUDE_CONFIG_DIR, or install into the project with `mahabharatha install`.")
        })?;
        Ok(Home { shown: root.display().to_string(), root, prefix: "" })
    }

    /// Returns the directory that shown paths are relative to: the project, or the user's `.claude` directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn dir(&self) -> PathBuf {
        self.root.join(self.prefix)
    }

    /// Returns the path from the root to the directory.
    pub fn prefix(&self) -> &'static str {
        self.prefix
    }

    pub fn is_project(&self) -> bool {
        !self.prefix.is_empty()
    }
}

/// How commands are rendered.
#[derive(Debug, Clone, Copy)]
struct Style<'a> {
    layout: &'static Layout,
    /// The directory of the details as commands name it to the model; `None` puts details into the command itself.
    details: Option<&'a str>,
}

pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

pub fn agents() -> impl Iterator<Item = &'static str> {
    AGENT_FILES.iter().map(|(name, _)| *name)
}

/// Returns every file by its path below a `.claude` directory. With `split`, details are separate files.
pub fn files(home: &Home, split: bool) -> Vec<(PathBuf, String)> {
    let details = format!("{}/{}", home.shown, DOT_CLAUDE.details.unwrap_or_default());
    rendered(Style { layout: &DOT_CLAUDE, details: split.then_some(details.as_str()) })
}

/// Returns every command and agent by its path below a directory of plugins. Each command includes its details: a
/// plugin's directory differs between machines, and reading a file there would need the user's permission.
pub fn plugin_files() -> Vec<(PathBuf, String)> {
    rendered(Style { layout: &PLUGINS, details: None })
}

fn rendered(style: Style<'_>) -> Vec<(PathBuf, String)> {
    let layout = style.layout;
    let mut files = Vec::new();
    for command in &COMMANDS {
        let text = render(command, style);
        let name = format!("{}.md", command.name);
        files.extend(layout.commands.map(|folder| (Path::new(folder).join(&name), text.clone())));
        if let (Some(details), Some(_), Some(folder)) = (command.details, style.details, layout.details) {
            let text = with_agents(details, layout);
            files.push((Path::new(folder).join(details_name(command.name)), text));
        }
    }
    let agents = AGENT_FILES.iter();
    files.extend(agents.map(|(name, text)| (Path::new(layout.agents).join(format!("{name}.md")), (*text).to_owned())));
    files
}

pub fn details_name(command: &str) -> String {
    format!("{command}.details.md")
}

fn render(command: &Command, style: Style<'_>) -> String {
    let core = command.core.replace("{{preflight}}\n", PREFLIGHT).replace("{{mcp}}\n", MCP);
    let text = match (command.details, style.details) {
        (None, _) => core,
        (Some(_), Some(dir)) => core.replace("{{details}}", &format!("`{dir}/{}`", details_name(command.name))),
        (Some(details), None) => {
            format!("{}\n{}", core.replace("{{details}}", "the last section"), deepen_headings(details))
        }
    };
    with_agents(&text.replace("{{init options}}", style.layout.init_options), style.layout)
}

/// Replaces placeholders such as `{{agent:worker}}` with the agents' names.
fn with_agents(text: &str, layout: &Layout) -> String {
    let names = agents().map(|name| (format!("{{{{agent:{name}}}}}"), format!("{}{name}", layout.agent_prefix)));
    names.fold(text.to_owned(), |text, (placeholder, name)| text.replace(&placeholder, &name))
}

/// Moves headings one level down, for use below a command's own heading.
fn deepen_headings(text: &str) -> String {
    let lines = lines(text).map(|line| match line.code_block {
        None if line.text.starts_with('#') => format!("#{}\n", line.text),
        _ => format!("{}\n", line.text),
    });
    lines.collect()
}

/// A line of Markdown.
pub struct Line<'a> {
    /// Line number, counted from 1.
    pub number: usize,
    pub text: &'a str,
    /// Language of the code block that the line is in; fence lines belong to their block.
    pub code_block: Option<&'a str>,
}

pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    // Number of backticks of the open fence, and its language.
    let mut open: Option<(usize, &str)> = None;
    text.lines().enumerate().map(move |(at, text)| {
        let language = text.trim_start().trim_start_matches('`');
        let ticks = text.trim_start().len() - language.len();
        let was = open;
        match open {
            None if ticks >= 3 => open = Some((ticks, language)),
            Some((opened, _)) if ticks >= opened && language.is_empty() => open = None,
            _ => {}
        }
        Line { number: at + 1, text, code_block: was.or(open).map(|(_, language)| language) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(split: bool, name: &str) -> Option<String> {
        let files = files(&Home::of_project(Path::new("/p")), split);
        files.into_iter().find(|(path, _)| path == Path::new(name)).map(|(_, text)| text)
    }

    #[test]
    fn both_names_get_the_same_text_without_placeholders() {
        for name in names() {
            let ours = file(true, &format!("commands/mahabharatha/{name}.md")).unwrap();
            assert_eq!(file(true, &format!("commands/z/{name}.md")).unwrap(), ours);
            assert!(ours.contains("ZERG_FEATURE") && !ours.contains("{{"), "{ours}");
        }
    }

    #[test]
    fn headings_in_code_blocks_are_not_changed() {
        let joined = file(false, "commands/z/plan.md").unwrap();
        assert!(
            joined.contains("\n## The form of requirements\n") && joined.contains("\n# Feature: <name>\n"),
            "{joined}"
        );
        assert!(joined.contains("\n## Problem Statement\n") && joined.contains("\n### Story 1: "), "{joined}");
        assert_eq!(
            deepen_headings("# a\n````x\n# b\n```\n# c\n````\n# d\n"),
            "## a\n````x\n# b\n```\n# c\n````\n## d\n"
        );
    }

    #[test]
    fn details_are_in_a_separate_file_or_in_the_command() {
        let place = "commands/z/kurukshetra.md";
        let (apart, joined) = (file(true, place).unwrap(), file(false, place).unwrap());
        assert!(
            apart.contains("`.claude/mahabharatha/kurukshetra.details.md`")
                && !apart.contains("## Task mode in detail")
        );
        assert!(
            joined.contains("\n## Task mode in detail\n") && !joined.contains("{{") && !joined.contains(".details.md")
        );
        let details = file(true, "mahabharatha/kurukshetra.details.md").unwrap();
        assert!(details.contains("subagent `worker`") && !details.contains("{{"), "{details}");
        assert!(file(false, "mahabharatha/kurukshetra.details.md").is_none());
    }

    #[test]
    fn plugin_files_use_prefixed_agent_names_and_no_placeholders() {
        let files: std::collections::BTreeMap<_, _> = plugin_files().into_iter().collect();
        assert_eq!(files.len(), 2 * COMMANDS.len() + AGENT_FILES.len());
        for (path, text) in &files {
            assert!(!text.contains("{{") && !text.contains(".details.md"), "{}: {text}", path.display());
        }
        let text = &files[Path::new("z/commands/kurukshetra.md")];
        assert!(text.contains("Agent(mahabharatha:worker)") && text.contains("`mahabharatha:worker`"), "{text}");
        assert!(!text.contains("Agent(worker)") && !text.contains("`worker`"), "{text}");
        let text = &files[Path::new("mahabharatha/commands/init.md")];
        assert_eq!(text.matches("mahabharatha init --without commands,agents,hooks --agent none").count(), 3, "{text}");
    }
}
