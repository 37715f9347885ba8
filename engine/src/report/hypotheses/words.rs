//! Recognises in a program's output what kept it from its work.

use mahabharatha_core::config::Isolation;
use mahabharatha_core::excerpt::missing_program;
use mahabharatha_sys::proc::find_program;

/// Lines of output that are examined, from its end.
const MAX_LINES: usize = 400;
/// Lines that are examined for what a client says last. Further up it may be about the task.
const MAX_LAST_LINES: usize = 10;

/// How clients of coding agents say that they are not logged in, or that their key is refused.
const LOGIN: [&str; 9] = [
    "not logged in",
    "please run /login",
    "invalid api key",
    "invalid x-api-key",
    "authentication_error",
    "authentication failed",
    "401 unauthorized",
    "oauth token has expired",
    "api key is missing",
];

/// How they say that a limit of the service is reached.
const QUOTA: [&str; 9] = [
    "rate limit exceeded",
    "rate limit reached",
    "rate_limit_error",
    "usage limit reached",
    "hit your limit",
    "quota exceeded",
    "exceeded your current quota",
    "429 too many requests",
    "credit balance is too low",
];

/// How the system says that there is no room.
const DISK: [&str; 3] = ["No space left on device", "Disk quota exceeded", "ENOSPC"];

/// Returns the program that a shell did not find, and the line that says so.
pub fn missing_tool(output: &str) -> Option<(&str, &str)> {
    lines(output).find_map(|line| missing_program(line).map(|program| (program, line)))
}

/// Says where a program is that a sandbox may hide; none if there is no sandbox or this machine lacks the program too.
pub fn hidden_tool(isolation: Isolation, program: &str) -> Option<String> {
    let found = (isolation != Isolation::Off).then(|| find_program(program)).flatten()?;
    Some(format!(
        "this machine has {}, which the sandbox ({isolation}) may not show: see sandbox.read",
        found.display()
    ))
}

pub fn login(output: &str) -> Option<&str> {
    says(output, &LOGIN)
}

pub fn quota(output: &str) -> Option<&str> {
    says(output, &QUOTA)
}

pub fn disk(output: &str) -> Option<&str> {
    lines(output).find(|line| DISK.iter().any(|words| line.contains(words)))
}

/// Returns the command that goes on after what a hint says: changed settings have to be accepted.
pub fn after(command: String, hint: &str) -> String {
    let changes = ["to sandbox.", "sandbox.network", "to env.pass", "`worktrees.setup` in"]
        .iter()
        .any(|words| hint.contains(words));
    if changes { format!("{command} --accept-config") } else { command }
}

fn says<'a>(output: &'a str, words: &[&str]) -> Option<&'a str> {
    lines(output).take(MAX_LAST_LINES).find(|line| {
        let line = line.to_lowercase();
        words.iter().any(|words| line.contains(words))
    })
}

/// Returns the lines, last first, without the command that a report quotes.
fn lines(output: &str) -> impl Iterator<Item = &str> {
    output.lines().rev().take(MAX_LINES).map(str::trim).filter(|line| !line.starts_with("$ "))
}
