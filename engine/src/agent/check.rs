//! Checks that an agent is installed and, as far as that can be known, logged in, without a request to its service.

use std::path::Path;
use std::time::Duration;

use mahabharatha_core::config::{AgentConfig, Format};
use mahabharatha_core::markdown::bound_text;
use mahabharatha_sys::proc::{self, Cmd};

use super::{claude, find_program, login};

/// Timeout of a call that asks an agent for its version or its login.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of what a program prints as its version that are shown.
const MAX_VERSION_CHARS: usize = 80;

/// An agent that can be used.
pub struct Found {
    /// The agent's version and login, for people.
    pub what: String,
    /// A warning about this agent.
    pub note: Option<Problem>,
}

/// A problem with an agent and its fix.
pub struct Problem {
    pub what: String,
    pub hint: String,
}

/// Whether an agent has a login that it can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// By a file, or a variable of the environment.
    Present(String),
    /// None was found where the agent keeps it, but it may have one elsewhere, or need none.
    Unknown,
}

/// Finds the agent's program and asks it for its version. Starts it in `cwd`: a program may execute what settings there
/// name.
pub fn check(root: &Path, cwd: &Path, name: &str, agent: &AgentConfig) -> Result<Found, Problem> {
    if agent.format == Format::Claude {
        return claude::check(root, cwd, &agent.command, &agent.env);
    }
    let Some(program) = agent.command.first() else {
        let hint = format!("Set agents.{name}.command in .mahabharatha/config.yaml.");
        return Err(Problem { what: "no command is configured".to_owned(), hint });
    };
    if find_program(root, program).is_none() {
        let place = if program.contains('/') { "is no program that can be run" } else { "was not found on PATH" };
        let hint = match program.starts_with('~') {
            true => format!("`~` is not expanded in a list: write the whole path in agents.{name}.command."),
            false => {
                format!("Put it there, executable, or change agents.{name}.command in .mahabharatha/config.yaml.")
            }
        };
        return Err(Problem { what: format!("{program} {place}"), hint });
    }
    if !agent.is_coding_agent() {
        return Ok(match shell_command(&agent.command) {
            Some(command) => check_shell_command(root, name, command),
            None => Found { what: "can be started".to_owned(), note: None },
        });
    }
    let version = version(root, cwd, agent).ok_or_else(|| Problem {
        what: format!("{program} --version failed"),
        hint: "Try to start the program by hand.".to_owned(),
    })?;
    Ok(match login_state(agent) {
        LoginState::Present(by) => Found { what: format!("{version}, login by {by}"), note: None },
        LoginState::Unknown => Found {
            what: format!("{version}, login unknown"),
            note: Some(Problem { what: "no login or key was found".to_owned(), hint: login_hint(agent) }),
        },
    })
}

/// Returns the text that a shell runs.
fn shell_command(command: &[String]) -> Option<&str> {
    match command {
        [shell, flag, text] if shell == "sh" && flag == "-c" => Some(text),
        _ => None,
    }
}

/// Looks for the program that a shell command starts with. What is missing is only noted, because it looks at the first word
/// only, and a worktree may get files that the checkout does not have.
fn check_shell_command(root: &Path, name: &str, command: &str) -> Found {
    let first = command.split_whitespace().next().unwrap_or_default();
    let is_path = first.contains('/') && first.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+~".contains(c));
    let found = if is_path {
        let path = root.join(proc::expand_home(first));
        Some((first, proc::is_program(&path), "is no program that can be run"))
    } else {
        let program = proc::leading_program(command);
        program.map(|program| (program, proc::find_program(program).is_some(), "was not found on PATH"))
    };
    let Some((program, is_there, place)) = found else {
        return Found { what: "runs a shell command, which was not checked".to_owned(), note: None };
    };
    if is_there {
        return Found { what: "can be started".to_owned(), note: None };
    }
    let note = Problem {
        what: format!("{program}, which its command calls, {place}"),
        hint: format!("Put it there, or change agents.{name}.command in .mahabharatha/config.yaml."),
    };
    Found { what: "runs a shell command".to_owned(), note: Some(note) }
}

/// Returns what the program prints as its version.
pub fn version(root: &Path, cwd: &Path, agent: &AgentConfig) -> Option<String> {
    let (program, first) = agent.command.split_first()?;
    let cmd = Cmd::new(find_program(root, program)?).args(first).arg("--version");
    let ended = cmd.cwd(cwd).envs(proc::base_env(&agent.env)).timeout(CALL_TIMEOUT).run().ok()?;
    let line_in = |output: &[u8]| {
        let text = String::from_utf8_lossy(output);
        let line = text.lines().map(str::trim).rfind(|line| line.contains(|c: char| c.is_ascii_digit()))?;
        Some(bound_text(line, MAX_VERSION_CHARS))
    };
    // Some programs print it on standard error.
    let line = line_in(&ended.stdout).or_else(|| line_in(&ended.stderr))?;
    ended.success().then_some(line)
}

/// Looks for a login: a key in the environment, or the file in which the agent keeps it.
pub fn login_state(agent: &AgentConfig) -> LoginState {
    let file = || login::files(agent).first().map(|(name, _)| format!("~/{name}"));
    login_variable(agent).map(str::to_owned).or_else(file).map_or(LoginState::Unknown, LoginState::Present)
}

/// Returns the name of the variable by which the agent is logged in, or of the file, without its directory.
pub fn login_name(agent: &AgentConfig) -> Option<String> {
    let file = || Some(Path::new(login::files(agent).first()?.0).file_name()?.to_string_lossy().into_owned());
    login_variable(agent).map(str::to_owned).or_else(file)
}

fn login_variable(agent: &AgentConfig) -> Option<&str> {
    let is_on =
        |name: &&str| std::env::var_os(name).is_some_and(|value| !["", "0", "false"].map(Into::into).contains(&value));
    agent.keys().find(is_on)
}

fn login_hint(agent: &AgentConfig) -> String {
    let program = agent.command.first().map_or("the agent", String::as_str);
    match agent.keys().collect::<Vec<_>>().as_slice() {
        [] => format!("Log in with {program} itself."),
        keys => format!("Log in with {program} itself, or set {}.", keys.join(" or ")),
    }
}
