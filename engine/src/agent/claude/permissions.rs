//! What the client may do without asking; all else it may not do.

use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_core::graph::OwnedPath;
use serde_json::{Value, json};

use super::super::Session;

const TOOLS: &str = "Read,Write,Edit,Bash";
const WITH_TASK_TOOLS: &str = "Read,Write,Edit,Bash,TaskGet,TaskUpdate,TaskList";

/// The client allows git's reading commands by itself, without the options by which they write or run something.
const GIT: &[&str] = &[
    "git ls-tree",
    // The prompt offers it, for what an earlier attempt left.
    "git restore --source=*",
];

/// Refused also where a broader rule would allow them, unless a command of the project or of the task calls them.
const NETWORK: &[&str] =
    &["curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "telnet", "nc", "ncat", "socat", "gh", "aria2c"];

/// By the file that tells of the stack: how it installs packages, builds and tests.
const STACKS: &[(&str, &[&str])] = &[
    ("Cargo.toml", &["cargo fetch", "cargo build", "cargo check", "cargo test", "cargo clippy", "cargo fmt"]),
    ("package.json", &["npm ci", "npm install", "npm test", "yarn install", "pnpm install"]),
    (
        "pyproject.toml",
        &["pip install", "pip3 install", "python3 -m pip install", "uv sync", "uv pip install", "poetry install"],
    ),
    ("requirements.txt", &["pip install", "pip3 install", "python3 -m pip install", "uv pip install"]),
    ("go.mod", &["go mod download", "go mod tidy", "go get", "go build", "go vet", "go test", "gofmt"]),
    ("Gemfile", &["bundle install"]),
    ("composer.json", &["composer install"]),
    ("pom.xml", &["mvn dependency:resolve", "mvn compile", "mvn test"]),
    ("build.gradle", &["gradle build", "gradle test", "./gradlew build", "./gradlew test"]),
];

/// They run anything: only the very script or module that was named is allowed, with more arguments behind it.
const INTERPRETERS: &[&str] =
    &["sh", "bash", "dash", "zsh", "python", "python3", "node", "deno", "bun", "ruby", "perl", "php"];

/// They run or change whatever their arguments name: allowed only as they were written.
const AS_WRITTEN: &[&str] = &[
    "git", "env", "sudo", "timeout", "nice", "nohup", "time", "xargs", "find", "eval", "exec", "command", "source",
    ".", "rm", "mv", "cp", "ln", "dd", "tee", "install", "chmod", "chown", "sed", "awk", "tar", "unzip", "kill",
    "pkill",
];

/// Commands whose second word names another command.
const RUNNERS: &[&str] = &["run", "exec", "x", "-m"];

pub fn tools(task_tools: bool) -> &'static str {
    if task_tools { WITH_TASK_TOOLS } else { TOOLS }
}

pub fn settings(session: &Session<'_>, project_commands: &[String]) -> Value {
    let mut allow: Vec<String> = session.owned.iter().map(|owned| edit_rule(session.worktree, owned)).collect();
    allow.push(format!("Read(/{}/**)", escape(&session.root.join(".gsd").to_string_lossy())));
    allow.push(format!("Read(/{}/**)", escape(&session.spec_dir.to_string_lossy())));
    let needed = || project_commands.iter().map(String::as_str).chain([session.task.verification.command.as_str()]);
    let mut commands: BTreeSet<String> = GIT.iter().map(|&command| command.to_owned()).collect();
    for (file, of_stack) in STACKS {
        if session.worktree.join(file).is_file() {
            commands.extend(of_stack.iter().map(|&command| command.to_owned()));
        }
    }
    commands.extend(needed().flat_map(prefixes));
    for command in &commands {
        allow.push(format!("Bash({command})"));
        allow.push(format!("Bash({command} *)"));
    }
    let parts = needed().flat_map(simple_commands).map(|words| words.join(" "));
    let as_written = needed().map(|line| line.trim().to_owned()).chain(parts);
    // A star would stand for anything.
    let as_written = as_written.filter(|command| !command.is_empty() && !command.contains('*'));
    allow.extend(as_written.map(|command| format!("Bash({command})")));
    let called: BTreeSet<String> =
        needed().flat_map(simple_commands).filter_map(|words| words.into_iter().next()).collect();
    let forbidden = NETWORK.iter().filter(|tool| !called.contains(**tool)).chain([&"git push"]);
    let deny: Vec<String> =
        forbidden.flat_map(|command| [format!("Bash({command})"), format!("Bash({command} *)")]).collect();
    json!({ "permissions": { "allow": allow, "deny": deny } })
}

/// Covers Write and Edit, and what Bash would write there.
fn edit_rule(worktree: &Path, owned: &OwnedPath) -> String {
    let path = escape(&worktree.join(&owned.path).to_string_lossy());
    if owned.directory { format!("Edit(/{path}/**)") } else { format!("Edit(/{path})") }
}

/// The rules are patterns as in `.gitignore`.
fn escape(path: &str) -> String {
    let mut escaped = String::new();
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The beginnings of the commands in a line of shell that may be called with other arguments too.
fn prefixes(line: &str) -> Vec<String> {
    simple_commands(line).iter().filter_map(|words| prefix(words)).collect()
}

fn prefix(words: &[String]) -> Option<String> {
    let plain = |word: &String| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:+@=".contains(c));
    let is_name = |word: &&String| word.starts_with(|c: char| c.is_ascii_alphabetic()) && plain(word);
    let (program, rest) = words.split_first().filter(|(program, _)| plain(program))?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if AS_WRITTEN.contains(&name) {
        return None;
    }
    let count = match rest {
        [runner, what, ..] if RUNNERS.contains(&runner.as_str()) && plain(what) => 2,
        _ if INTERPRETERS.contains(&name) => {
            // A script, but no code on the command line.
            rest.first().filter(|script| plain(script) && !script.starts_with('-'))?;
            1
        }
        [subcommand, ..] if is_name(&subcommand) => 1,
        _ => 0,
    };
    Some([std::slice::from_ref(program), &rest[..count]].concat().join(" "))
}

/// The commands in a line of shell, word by word, as far as they can be told without a shell.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), _) if c == open => {
                quote = None;
                word.push(c);
            }
            (Some(_), _) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.push(c);
            }
            (None, '\\') => {
                word.push(c);
                word.extend(characters.next());
            }
            (None, _) if c.is_whitespace() && c != '\n' => push_word(&mut words, &mut word),
            (None, '\n' | ';' | '|' | '&' | '(' | ')') => {
                push_word(&mut words, &mut word);
                commands.push(std::mem::take(&mut words));
            }
            (None, _) => word.push(c),
        }
    }
    push_word(&mut words, &mut word);
    commands.push(words);
    commands.into_iter().map(without_lead).filter(|words: &Vec<String>| !words.is_empty()).collect()
}

fn push_word(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// Without words of the shell and assignments in front.
fn without_lead(words: Vec<String>) -> Vec<String> {
    const KEYWORDS: [&str; 11] = ["if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{"];
    let is_assignment = |word: &str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty())
    };
    words.into_iter().skip_while(|word| KEYWORDS.contains(&word.as_str()) || is_assignment(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_be_called_with_other_arguments_but_interpreters_run_only_what_was_named() {
        let all = |line: &str| prefixes(line).join(", ");
        assert_eq!(all("cargo test -p core && cargo clippy --all-targets | tail -3"), "cargo test, cargo clippy, tail");
        assert_eq!(all("CI=1 npm run lint:fix -- --quiet; npx jest src"), "npm run lint:fix, npx jest");
        assert_eq!(all("python3 -m pytest tests/a.py -k x"), "python3 -m pytest");
        assert_eq!(all("python3 -c 'import os'; node -e 1; sh -c 'rm x'"), "");
        assert_eq!(all("rm -rf out && env X=1 cargo test; find . -exec rm {} +; git diff --exit-code"), "");
        assert_eq!(all("bash scripts/check.sh all"), "bash scripts/check.sh");
        assert_eq!(all("if ! grep -q 'a && b' src/x; then exit 1; fi"), "grep, exit");
        assert_eq!(all("./run-tests.sh fast"), "./run-tests.sh fast");
        assert_eq!(all("\"$TOOL\" x"), "");
        assert_eq!(all(""), "");
    }

    #[test]
    fn owned_paths_become_rules_that_match_nothing_else() {
        let owned = |path: &str, directory| OwnedPath { path: path.into(), directory, create: true };
        let worktree = Path::new("/w t/ü");
        assert_eq!(edit_rule(worktree, &owned("src/a[1]*.rs", false)), "Edit(//w t/ü/src/a\\[1\\]\\*.rs)");
        assert_eq!(edit_rule(worktree, &owned("src/auth", true)), "Edit(//w t/ü/src/auth/**)");
    }
}
