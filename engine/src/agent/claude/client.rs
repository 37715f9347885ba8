//! Checks that the client is installed, recent enough and logged in, without a request to its API.

use std::path::Path;

use mahabharatha_sys::proc::{self, Cmd, dotted};
use serde::Deserialize;

use super::super::check::CALL_TIMEOUT;
use super::super::{Found, Problem, find_program};
use super::quiet_env;

/// The oldest client that works; earlier ones have other options and permission rules.
const OLDEST_SUPPORTED: [u32; 3] = [2, 1, 197];
/// The newest client that this program was tested with.
const NEWEST_TESTED: [u32; 3] = [2, 1, 327];

#[derive(Deserialize)]
struct Login {
    #[serde(rename = "loggedIn")]
    logged_in: bool,
    #[serde(rename = "authMethod", default)]
    method: String,
}

/// Finds the client and asks it for its version and login state. Starts it in `cwd`: the client may execute what the
/// settings there name.
pub fn check(root: &Path, cwd: &Path, command: &[String], env_pass: &[String]) -> Result<Found, Problem> {
    let program = command.first().map_or("claude", String::as_str);
    let path = find_program(root, program).ok_or_else(|| {
        let place = if program.contains('/') { "is not an executable program" } else { "was not found on PATH" };
        problem(
            format!("{program} {place}"),
            "Install Claude Code, or set the path of its program in agents.claude.command.",
        )
    })?;
    let run = |args: &[&str]| {
        let args: Vec<&str> = command.iter().skip(1).map(String::as_str).chain(args.iter().copied()).collect();
        let cmd = Cmd::new(&path).args(args).cwd(cwd).envs(quiet_env()).envs(proc::base_env(env_pass));
        let ran = cmd.timeout(CALL_TIMEOUT).run();
        ran.map_err(|error| problem(error.to_string(), "Try to start the program by hand."))
    };
    let output = String::from_utf8_lossy(&run(&["--version"])?.stdout).trim().to_owned();
    let version = parse_version(&output).ok_or_else(|| {
        problem(
            format!("{program} does not print its version: {output:?}"),
            "Check that agents.claude.command is Claude Code.",
        )
    })?;
    if version < OLDEST_SUPPORTED {
        return Err(problem(
            format!("{program} is version {}, but at least {} is required", dotted(version), dotted(OLDEST_SUPPORTED)),
            "Run `claude update`.",
        ));
    }
    let status = run(&["auth", "status", "--json"])?;
    match serde_json::from_slice::<Login>(&status.stdout) {
        Ok(login) if login.logged_in => {
            Ok(Found { what: format!("{output}, logged in ({})", login.method), note: untested(program, version) })
        }
        _ => Err(problem(
            format!("{program} is not logged in"),
            "Run `claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN.",
        )),
    }
}

/// Returns a warning if the client is newer than the tested ones: it most likely works, but may have changed.
fn untested(program: &str, version: [u32; 3]) -> Option<Problem> {
    let newer = format!(
        "{program} is version {}, newer than {}, the newest version that was tested",
        dotted(version),
        dotted(NEWEST_TESTED)
    );
    let hint = "If agents fail for no visible reason, try the tested version or update mahabharatha.";
    (version > NEWEST_TESTED).then(|| problem(newer, hint))
}

fn problem(what: String, hint: &str) -> Problem {
    Problem { what, hint: hint.to_owned() }
}

fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.split_whitespace().next()?.splitn(3, '.').map(|number| {
        let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_the_clients_output() {
        assert_eq!(parse_version("2.1.197 (Claude Code)"), Some([2, 1, 197]));
        assert_eq!(parse_version("2.2.0-beta.1 (Claude Code)"), Some([2, 2, 0]));
        assert_eq!(parse_version("claude: not found"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn the_versions_match_those_that_the_tests_run_with() {
        let package: serde_json::Value =
            serde_json::from_str(include_str!("../../../../app/tests/client/package.json")).unwrap();
        assert_eq!(package["oldest"], dotted(OLDEST_SUPPORTED));
        assert_eq!(package["dependencies"]["@anthropic-ai/claude-code"], dotted(NEWEST_TESTED));
    }

    #[test]
    fn only_a_client_newer_than_the_tested_ones_gets_a_warning() {
        let [major, minor, patch] = NEWEST_TESTED;
        assert!(untested("claude", OLDEST_SUPPORTED).is_none() && untested("claude", NEWEST_TESTED).is_none());
        for newer in [[major, minor, patch + 1], [major, minor + 1, 0], [major + 1, 0, 0]] {
            assert!(untested("claude", newer).is_some_and(|note| note.what.contains(&dotted(newer))), "{newer:?}");
        }
    }
}
