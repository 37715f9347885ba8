//! The slash commands and agents, as files below a `.claude` directory.

use std::path::{Path, PathBuf};

use crate::error::{Error, ExitCode, Result, io};

/// The folders that commands go to; by them the client calls them `/mahabharatha:x` and `/z:x`.
pub const FOLDERS: [&str; 2] = ["commands/mahabharatha", "commands/z"];
pub const AGENTS: &str = "agents";
/// Not below `commands`, where the client would take every file for a command.
pub const DETAILS: &str = "mahabharatha";

struct Command {
    name: &'static str,
    core: &'static str,
    /// What is needed only now and then, so that the command itself stays short.
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

const COMMANDS: [Command; 10] = [
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
];

const AGENT_FILES: [(&str, &str); 5] = [
    ("scout", asset!("agents/scout.md")),
    ("product-owner", asset!("agents/product-owner.md")),
    ("architect", asset!("agents/architect.md")),
    ("worker", asset!("agents/worker.md")),
    ("gatekeeper", asset!("agents/gatekeeper.md")),
];

const PREFLIGHT: &str = asset!("preflight.md");

/// A `.claude` directory: a project's, or the one that counts for all projects of a person.
#[derive(Debug, Clone)]
pub struct Home {
    dir: PathBuf,
    /// As commands name it to the model.
    shown: String,
    /// What nothing may be written outside of.
    project: Option<PathBuf>,
}

impl Home {
    pub fn of_project(root: &Path) -> Home {
        Home { dir: root.join(".claude"), shown: ".claude".to_owned(), project: Some(root.to_owned()) }
    }

    /// Where the client looks too.
    pub fn of_user() -> Result<Home> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME").map(|home| home.join(".claude")));
        let dir = dir.ok_or_else(|| {
            Error::new(ExitCode::Failed, "cannot tell where your Claude Code directory is: HOME is not set")
                .hint("Set HOME or CLAUDE_CONFIG_DIR, or install into the project: mahabharatha install.")
        })?;
        Ok(Home { shown: dir.display().to_string(), dir, project: None })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What a repository contains is not to be trusted: no link in it may lead a write elsewhere.
    pub fn check_place(&self, path: &Path) -> Result<()> {
        let Some(root) = &self.project else { return Ok(()) };
        let root = root.canonicalize().map_err(io("follow", root))?;
        let dir = path.ancestors().skip(1).find_map(|dir| dir.canonicalize().ok());
        if dir.is_some_and(|dir| dir.starts_with(root)) {
            return Ok(());
        }
        let message = format!("{} leads out of the project, through a symbolic link", path.display());
        Err(Error::new(ExitCode::Invalid, message)
            .hint("Remove the link, or install for yourself: mahabharatha install --user."))
    }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

pub fn agents() -> impl Iterator<Item = &'static str> {
    AGENT_FILES.iter().map(|(name, _)| *name)
}

/// Every file, by its place below the directory. `split`: details are files of their own, else they stand in the command.
pub fn files(home: &Home, split: bool) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for command in &COMMANDS {
        let text = render(command, home, split);
        files.extend(FOLDERS.map(|folder| (Path::new(folder).join(format!("{}.md", command.name)), text.clone())));
        if let Some(details) = command.details.filter(|_| split) {
            files.push((Path::new(DETAILS).join(details_name(command.name)), details.to_owned()));
        }
    }
    let agents = AGENT_FILES.iter();
    files.extend(agents.map(|(name, text)| (Path::new(AGENTS).join(format!("{name}.md")), (*text).to_owned())));
    files
}

pub fn details_name(command: &str) -> String {
    format!("{command}.details.md")
}

fn render(command: &Command, home: &Home, split: bool) -> String {
    let core = command.core.replace("{{preflight}}\n", PREFLIGHT);
    match command.details {
        None => core,
        Some(_) if split => {
            let place = format!("`{}/{DETAILS}/{}`", home.shown, details_name(command.name));
            core.replace("{{details}}", &place)
        }
        Some(details) => {
            format!("{}\n{}", core.replace("{{details}}", "the last section"), one_deeper(details))
        }
    }
}

/// With headings one deeper, to stand below a command's own.
fn one_deeper(text: &str) -> String {
    let lines = lines(text).map(|line| match line.example {
        None if line.text.starts_with('#') => format!("#{}\n", line.text),
        _ => format!("{}\n", line.text),
    });
    lines.collect()
}

/// A line of Markdown.
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    pub text: &'a str,
    /// The language of the example that it stands in, fences included.
    pub example: Option<&'a str>,
}

pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    // How many ticks the open fence has, and its language.
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
        Line { number: at + 1, text, example: was.or(open).map(|(_, language)| language) }
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
    fn both_names_get_the_same_and_nothing_is_left_to_fill_in() {
        for name in names() {
            let ours = file(true, &format!("commands/mahabharatha/{name}.md")).unwrap();
            assert_eq!(file(true, &format!("commands/z/{name}.md")).unwrap(), ours);
            assert!(ours.contains("ZERG_FEATURE") && !ours.contains("{{"), "{ours}");
        }
    }

    #[test]
    fn headings_in_examples_are_not_touched() {
        let joined = file(false, "commands/z/plan.md").unwrap();
        assert!(
            joined.contains("\n## The form of requirements\n") && joined.contains("\n# Feature: <name>\n"),
            "{joined}"
        );
        assert!(joined.contains("\n## Problem Statement\n") && joined.contains("\n### Story 1: "), "{joined}");
        assert_eq!(one_deeper("# a\n````x\n# b\n```\n# c\n````\n# d\n"), "## a\n````x\n# b\n```\n# c\n````\n## d\n");
    }

    #[test]
    fn details_stand_apart_or_in_the_command() {
        let place = "commands/z/kurukshetra.md";
        let (apart, joined) = (file(true, place).unwrap(), file(false, place).unwrap());
        assert!(
            apart.contains("`.claude/mahabharatha/kurukshetra.details.md`")
                && !apart.contains("## Task mode in detail")
        );
        assert!(
            joined.contains("\n## Task mode in detail\n") && !joined.contains("{{") && !joined.contains(".details.md")
        );
        assert!(file(true, "mahabharatha/kurukshetra.details.md").is_some());
        assert!(file(false, "mahabharatha/kurukshetra.details.md").is_none());
    }
}
