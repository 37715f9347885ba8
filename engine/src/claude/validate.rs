//! Checks slash commands and agents: front matter, references, the pre-flight section, twins (the two names of a
//! command), and every call of this program. Used by `validate-commands`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Result, io};
use serde::Serialize;

use super::commands::{self, DOT_CLAUDE, Home, Layout, PLUGINS};

/// How the feature is found if the arguments name none; every command must contain this line in its first section.
const PREFLIGHT: &str = "FEATURE=${ZERG_FEATURE:-$(cat .gsd/.current-feature 2>/dev/null)}";
const PROGRAMS: [&str; 2] = ["mahabharatha", "mbh"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    pub file: PathBuf,
    pub line: usize,
    pub message: String,
}

/// Commands and agents by their paths below a `.claude` directory or a directory of plugins.
#[derive(Debug, Clone)]
pub struct Files {
    pub layout: &'static Layout,
    pub texts: BTreeMap<PathBuf, String>,
}

impl Files {
    /// Returns the files that `install` writes.
    pub fn embedded() -> Files {
        let texts = commands::files(&Home::of_project(Path::new("")), true).into_iter().collect();
        Files { layout: &DOT_CLAUDE, texts }
    }

    /// Returns the files that `install --plugin` writes.
    pub fn embedded_plugins() -> Files {
        Files { layout: &PLUGINS, texts: commands::plugin_files().into_iter().collect() }
    }

    /// Reads our files from a directory, in either layout; `None` if it contains no command of ours.
    pub fn installed(dir: &Path) -> Result<Option<Files>> {
        for layout in [&DOT_CLAUDE, &PLUGINS] {
            let mut texts = BTreeMap::new();
            for folder in layout.commands.into_iter().chain([layout.agents]).chain(layout.details) {
                read_folder(dir, folder, &mut texts)?;
            }
            let has_commands = texts.keys().any(|name| layout.commands.iter().any(|folder| name.starts_with(folder)));
            if has_commands {
                return Ok(Some(Files { layout, texts }));
            }
        }
        Ok(None)
    }
}

fn read_folder(dir: &Path, folder: &str, texts: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    let path = dir.join(folder);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io("read", &path)(error)),
    };
    for entry in entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "md")) {
        let bytes = bounded::read(&entry.path(), LARGE_FILE_BYTES).map_err(io("read", &entry.path()))?;
        texts.insert(Path::new(folder).join(entry.file_name()), String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(())
}

/// Returns every problem. `parses` parses the words of a call, and returns what is wrong with them.
pub fn validate(files: &Files, parses: &dyn Fn(&[String]) -> Result<(), String>) -> Vec<Problem> {
    let layout = files.layout;
    let mut check = Check { files: &files.texts, layout, parses, problems: BTreeSet::new() };
    let mut names: BTreeSet<&str> = layout.commands.iter().flat_map(|dir| check.stems(dir)).collect();
    for name in commands::names() {
        names.insert(name);
    }
    for name in names {
        check.twins(name);
    }
    for folder in layout.commands {
        for name in check.stems(folder) {
            check.command(&Path::new(folder).join(format!("{name}.md")));
        }
    }
    for name in check.stems(layout.agents) {
        check.agent(name);
    }
    check.problems.into_iter().collect()
}

struct Check<'a> {
    files: &'a BTreeMap<PathBuf, String>,
    layout: &'static Layout,
    parses: &'a dyn Fn(&[String]) -> Result<(), String>,
    problems: BTreeSet<Problem>,
}

impl<'a> Check<'a> {
    fn stems(&self, folder: &str) -> Vec<&'a str> {
        let inside = self.files.keys().filter(|path| path.parent() == Some(Path::new(folder)));
        inside.filter_map(|path| path.file_stem()?.to_str()).collect()
    }

    /// Returns the path of a details file.
    fn details(&self, name: &str) -> PathBuf {
        Path::new(self.layout.details.unwrap_or_default()).join(name)
    }

    fn problem(&mut self, file: &Path, line: usize, message: impl Into<String>) {
        self.problems.insert(Problem { file: file.to_owned(), line, message: message.into() });
    }

    fn twins(&mut self, name: &str) {
        let paths = self.layout.commands.map(|folder| Path::new(folder).join(format!("{name}.md")));
        let [ours, short] = paths.each_ref().map(|path| self.files.get(path));
        match (ours, short) {
            (Some(ours), Some(short)) => {
                let differs = ours.lines().zip(short.lines()).position(|(one, other)| one != other);
                let shorter = ours.lines().count().min(short.lines().count());
                if ours != short {
                    let message = format!("differs from its twin {}", paths[0].display());
                    self.problem(&paths[1], differs.unwrap_or(shorter) + 1, message);
                }
            }
            (None, Some(_)) => self.problem(&paths[0], 1, "is missing"),
            (Some(_), None) => self.problem(&paths[1], 1, "is missing"),
            (None, None) => paths.iter().for_each(|path| self.problem(path, 1, "is missing")),
        }
    }

    fn command(&mut self, path: &Path) {
        let text = &self.files[path];
        let fields = self.front_matter(path, &["description", "allowed-tools"]);
        if let Some((line, tools)) = fields.get("allowed-tools") {
            for agent in tools.split("Agent(").skip(1).filter_map(|rest| rest.split(')').next()) {
                self.agent_exists(path, *line, agent);
            }
        }
        let headings = text.lines().enumerate().filter(|(_, line)| line.starts_with("## "));
        match headings.clone().next() {
            Some((_, "## Pre-flight")) => {
                let end = headings.clone().nth(1).map_or(usize::MAX, |(at, _)| at);
                if !text.lines().take(end).any(|line| line.trim() == PREFLIGHT) {
                    self.problem(path, 1, format!("the pre-flight section does not contain the line {PREFLIGHT}"));
                }
            }
            other => self.problem(path, other.map_or(1, |(at, _)| at + 1), "the first section is not Pre-flight"),
        }
        self.references(path, text);
        let details: Vec<PathBuf> = details_of(text).map(|(_, name)| self.details(name)).collect();
        for details in details {
            if let Some(text) = self.files.get(&details) {
                self.references(&details, text);
            }
        }
    }

    /// Checks that named details and agents exist, and that calls of this program parse.
    fn references(&mut self, path: &Path, text: &str) {
        for (line, name) in details_of(text) {
            let details = self.details(name);
            if !self.files.contains_key(&details) {
                self.problem(path, line, format!("refers to {}, which does not exist", details.display()));
            }
        }
        for (at, line) in text.lines().enumerate() {
            for agent in line.split("subagent `").skip(1).filter_map(|rest| rest.split('`').next()) {
                self.agent_exists(path, at + 1, agent);
            }
        }
        for (line, words) in calls(text) {
            if let Err(error) = (self.parses)(&words) {
                self.problem(path, line, format!("`{}` is not a valid call: {error}", words.join(" ")));
            }
        }
    }

    fn agent_exists(&mut self, path: &Path, line: usize, agent: &str) {
        let name = agent.strip_prefix(self.layout.agent_prefix);
        let file = name.map(|name| Path::new(self.layout.agents).join(format!("{name}.md")));
        if !file.is_some_and(|file| self.files.contains_key(&file)) {
            self.problem(path, line, format!("refers to the agent {agent}, which does not exist"));
        }
    }

    /// Checks one of our agents; the project's other agents are ignored.
    fn agent(&mut self, name: &str) {
        let path = Path::new(self.layout.agents).join(format!("{name}.md"));
        if !commands::agents().any(|ours| ours == name) {
            return;
        }
        let fields = self.front_matter(&path, &["name", "description", "tools", "model"]);
        if let Some((line, found)) = fields.get("name").filter(|(_, found)| *found != name) {
            self.problem(&path, *line, format!("has the name {found}, not {name}"));
        }
        self.references(&path, &self.files[&path].clone());
    }

    /// Returns the fields of the front matter, each with its line.
    fn front_matter(&mut self, path: &Path, needed: &[&str]) -> BTreeMap<&'a str, (usize, &'a str)> {
        let text = &self.files[path];
        let mut fields = BTreeMap::new();
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != "---") {
            self.problem(path, 1, "does not begin with front matter (---)");
            return fields;
        }
        loop {
            match lines.next() {
                None => {
                    self.problem(path, 1, "the front matter is never closed (---)");
                    break;
                }
                Some((_, "---")) => break,
                Some((at, line)) => match line.split_once(':') {
                    Some((key, value)) if !key.trim().is_empty() => {
                        fields.insert(key.trim(), (at + 1, value.trim()));
                    }
                    _ => self.problem(path, at + 1, "not a `key: value` line of the front matter"),
                },
            }
        }
        for key in needed {
            if fields.get(key).is_none_or(|(_, value)| value.is_empty()) {
                self.problem(path, 1, format!("the front matter has no {key}"));
            }
        }
        fields
    }
}

/// Returns the names of details files that a text refers to, with their lines.
fn details_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(at, line)| {
        let spans = line.split('`').skip(1).step_by(2).filter(|span| span.ends_with(".details.md"));
        spans.map(move |span| (at + 1, span.rsplit('/').next().unwrap_or(span)))
    })
}

/// Finds calls of this program in shell code blocks and in inline code.
fn calls(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut calls = Vec::new();
    for line in commands::lines(text) {
        let found: Vec<&str> = match line.code_block {
            Some("bash" | "sh") => vec![line.text],
            Some(_) => Vec::new(),
            None => line.text.split('`').skip(1).step_by(2).collect(),
        };
        let words = found.into_iter().map(words).filter(|words| words.len() > 1);
        calls.extend(words.filter(|words| PROGRAMS.contains(&words[0].as_str())).map(|words| (line.number, words)));
    }
    calls
}

/// Splits a call into words without quotes, up to a heredoc.
fn words(call: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut inside) = (None, false);
    for c in call.split("<<").next().unwrap_or_default().chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                if !inside {
                    words.push(String::new());
                }
                inside = true;
            }
            (None, ' ' | '\t') => inside = false,
            _ => {
                if !inside {
                    words.push(String::new());
                }
                inside = true;
                if let Some(word) = words.last_mut() {
                    word.push(c);
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses like a program whose only command is `status`.
    fn parses(words: &[String]) -> Result<(), String> {
        if words[1] == "status" { Ok(()) } else { Err(format!("no {}", words[1])) }
    }

    fn problems(change: impl Fn(&mut Files)) -> Vec<String> {
        let mut files = Files::embedded();
        change(&mut files);
        let problems = validate(&files, &|words| if words[1] == "conquer" { parses(words) } else { Ok(()) });
        problems.iter().map(|it| format!("{}:{}: {}", it.file.display(), it.line, it.message)).collect()
    }

    fn edit(files: &mut Files, path: &str, from: &str, to: &str) {
        let text = files.texts.get_mut(Path::new(path)).unwrap();
        assert!(text.contains(from), "{from} is not in {path}");
        *text = text.replace(from, to);
    }

    #[test]
    fn our_own_files_are_valid() {
        assert_eq!(problems(|_| ()), [""; 0]);
        assert_eq!(validate(&Files::embedded_plugins(), &|_| Ok(())), []);
    }

    #[test]
    fn each_kind_of_problem_is_reported_with_its_place() {
        let both = |from: &'static str, to: &'static str| {
            move |files: &mut Files| {
                DOT_CLAUDE.commands.iter().for_each(|dir| edit(files, &format!("{dir}/stop.md"), from, to))
            }
        };
        let of_short = |problems: Vec<String>| {
            problems.into_iter().filter(|text| text.starts_with("commands/z/")).collect::<Vec<_>>()
        };
        assert_eq!(
            problems(|files| edit(files, "commands/z/stop.md", "# Stop\n", "# Halt\n")),
            ["commands/z/stop.md:7: differs from its twin commands/mahabharatha/stop.md"]
        );
        assert_eq!(
            problems(|files| drop(files.texts.remove(Path::new("commands/z/stop.md")))),
            ["commands/z/stop.md:1: is missing"]
        );
        assert_eq!(
            of_short(problems(both("description: ", "about: "))),
            ["commands/z/stop.md:1: the front matter has no description"]
        );
        assert_eq!(
            of_short(problems(both("## Pre-flight", "## Before"))),
            ["commands/z/stop.md:11: the first section is not Pre-flight"]
        );
        assert!(of_short(problems(both("FEATURE=${ZERG", "FEATURE=${WERG")))[0].contains("does not contain the line"));
        assert_eq!(
            of_short(problems(both("mahabharatha stop --feature", "mahabharatha conquer --feature"))),
            ["commands/z/stop.md:31: `mahabharatha conquer --feature FEATURE` is not a valid call: no conquer"]
        );
        assert!(
            problems(|files| drop(files.texts.remove(Path::new("agents/gatekeeper.md")))).contains(
                &"commands/z/kurukshetra.md:4: refers to the agent gatekeeper, which does not exist".to_owned()
            )
        );
        let without = problems(|files| drop(files.texts.remove(Path::new("mahabharatha/plan.details.md"))));
        assert_eq!(without.len(), 2, "{without:?}");
        assert!(without[0].ends_with("refers to mahabharatha/plan.details.md, which does not exist"), "{without:?}");
        assert_eq!(
            problems(|files| edit(files, "agents/scout.md", "name: scout", "name: spy")),
            ["agents/scout.md:2: has the name spy, not scout"]
        );
    }

    #[test]
    fn calls_are_found_in_code_blocks_and_in_inline_code() {
        let text = "Run `mahabharatha status --json`, not `status`.\n```bash\nmahabharatha fail X --reason \"a b\" <<'E'\n```\n```text\nmahabharatha no call\n```\n";
        let found: Vec<_> = calls(text).into_iter().map(|(line, words)| (line, words.join("|"))).collect();
        let expected = [(1, "mahabharatha|status|--json"), (3, "mahabharatha|fail|X|--reason|a b")];
        assert_eq!(found, expected.map(|(line, words)| (line, words.to_owned())));
    }

    #[test]
    fn in_a_plugin_agents_need_the_prefix() {
        let mut files = Files::embedded_plugins();
        for folder in PLUGINS.commands {
            edit(&mut files, &format!("{folder}/kurukshetra.md"), "Agent(mahabharatha:worker)", "Agent(worker)");
        }
        let problems = validate(&files, &|_| Ok(()));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert_eq!(problems[0].file, Path::new("mahabharatha/commands/kurukshetra.md"));
        assert_eq!(problems[0].message, "refers to the agent worker, which does not exist");
    }
}
