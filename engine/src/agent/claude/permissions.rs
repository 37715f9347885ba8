//! Permission rules for the client: what they do not allow is denied.

use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_core::graph::OwnedPath;
use serde_json::{Value, json};

use super::super::Session;

const TOOLS: &str = "Read,Write,Edit,Bash";
const WITH_TASK_TOOLS: &str = "Read,Write,Edit,Bash,TaskGet,TaskUpdate,TaskList";

/// Git commands to allow in addition to the read-only calls that the client allows by itself.
const GIT_COMMANDS: &[&str] = &[
    "git ls-tree",
    // The prompt offers it for restoring the work of an earlier attempt.
    "git restore --source=*",
];

/// Programs that are denied even if a broader rule would allow them, unless a command of the project or the task calls
/// them.
const NETWORK_PROGRAMS: &[&str] =
    &["curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "telnet", "nc", "ncat", "socat", "gh", "aria2c"];

/// Commands that install packages, build and test, by the file that identifies the stack.
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

/// Programs that run arbitrary code: allowed only with the script or module that was named, and further arguments.
const INTERPRETERS: &[&str] =
    &["sh", "bash", "dash", "zsh", "python", "python3", "node", "deno", "bun", "ruby", "perl", "php"];

/// Programs that run or change whatever their arguments name: allowed only with exactly the arguments that were
/// written.
const EXACT_ONLY: &[&str] = &[
    "git", "env", "sudo", "timeout", "nice", "nohup", "time", "xargs", "find", "eval", "exec", "command", "source",
    ".", "rm", "mv", "cp", "ln", "dd", "tee", "install", "chmod", "chown", "sed", "awk", "tar", "unzip", "kill",
    "pkill",
];

/// First arguments that make the second one the name of another command.
const RUNNERS: &[&str] = &["run", "exec", "x", "-m"];

/// Returns the client's tools as a comma-separated list.
pub fn tools(task_tools: bool) -> &'static str {
    if task_tools { WITH_TASK_TOOLS } else { TOOLS }
}

/// Returns the client's settings file for a session.
pub fn settings(session: &Session<'_>, project_commands: &[String]) -> Value {
    let mut allow: Vec<String> =
        session.owned.iter().map(|owned| edit_rule(session.sandbox.workdir(), owned)).collect();
    allow.push(format!("Read(/{}/**)", escape(&session.root.join(".gsd").to_string_lossy())));
    allow.push(format!("Read(/{}/**)", escape(&session.spec_dir.to_string_lossy())));
    let needed = || project_commands.iter().map(String::as_str).chain([session.task.verification.command.as_str()]);
    let mut commands: BTreeSet<String> = GIT_COMMANDS.iter().map(|&command| command.to_owned()).collect();
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
    // A `*` in a rule would match anything.
    let as_written = as_written.filter(|command| !command.is_empty() && !command.contains('*'));
    allow.extend(as_written.map(|command| format!("Bash({command})")));
    let called: BTreeSet<String> =
        needed().flat_map(simple_commands).filter_map(|words| words.into_iter().next()).collect();
    let forbidden = NETWORK_PROGRAMS.iter().filter(|tool| !called.contains(**tool)).chain([&"git push"]);
    let deny: Vec<String> =
        forbidden.flat_map(|command| [format!("Bash({command})"), format!("Bash({command} *)")]).collect();
    json!({ "permissions": { "allow": allow, "deny": deny } })
}

/// Returns the rule that allows Write, Edit and Bash to write an owned path.
fn edit_rule(worktree: &Path, owned: &OwnedPath) -> String {
    let path = escape(&worktree.join(&owned.path).to_string_lossy());
    if owned.directory { format!("Edit(/{path}/**)") } else { format!("Edit(/{path})") }
}

/// Escapes a path for a rule, which is a pattern as in `.gitignore`.
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

/// Returns the prefixes of a shell line's commands that may also be called with other arguments.
fn prefixes(line: &str) -> Vec<String> {
    simple_commands(line).iter().filter_map(|words| prefix(words)).collect()
}

fn prefix(words: &[String]) -> Option<String> {
    let plain = |word: &String| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:+@=".contains(c));
    let is_name = |word: &&String| word.starts_with(|c: char| c.is_ascii_alphabetic()) && plain(word);
    let (program, rest) = words.split_first().filter(|(program, _)| plain(program))?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if EXACT_ONLY.contains(&name) {
        return None;
    }
    let count = match rest {
        [runner, what, ..] if RUNNERS.contains(&runner.as_str()) && plain(what) => 2,
        _ if INTERPRETERS.contains(&name) => {
            // Allow a script, but no code on the command line.
            rest.first().filter(|script| plain(script) && !script.starts_with('-'))?;
            1
        }
        [subcommand, ..] if is_name(&subcommand) => 1,
        _ => 0,
    };
    Some([std::slice::from_ref(program), &rest[..count]].concat().join(" "))
}

/// Splits a shell line into commands and words, as far as that is possible without a shell.
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
    commands.into_iter().map(strip_lead).filter(|words: &Vec<String>| !words.is_empty()).collect()
}

fn push_word(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// Removes leading shell keywords and assignments.
fn strip_lead(words: Vec<String>) -> Vec<String> {
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
