//! Whether the client is there, new enough and logged in, found out without a request to its service.

use std::path::Path;
use std::time::Duration;

use mahabharatha_sys::proc::{self, Cmd};
use serde::Deserialize;

use super::super::find_program;
use super::{OWN_ENV, QUIET};

/// The oldest client that works; options and permission rules were other ones before.
const OLDEST: [u32; 3] = [2, 1, 197];
/// The newest client that this program was tested with.
const NEWEST_TESTED: [u32; 3] = [2, 1, 325];
const LIMIT: Duration = Duration::from_secs(60);

/// A client that can be used.
pub struct Client {
    /// Its version and how it is logged in.
    pub found: String,
    /// What a person should know about it all the same.
    pub note: Option<Trouble>,
}

/// What is wrong, and what to do about it.
pub struct Trouble {
    pub what: String,
    pub hint: String,
}

#[derive(Deserialize)]
struct Login {
    #[serde(rename = "loggedIn")]
    logged_in: bool,
    #[serde(rename = "authMethod", default)]
    method: String,
}

/// Looks for the client and asks it for its version and whether it is logged in.
pub fn check(root: &Path, command: &[String], env_pass: &[String]) -> Result<Client, Trouble> {
    let program = command.first().map_or("claude", String::as_str);
    let path = find_program(root, program).ok_or_else(|| {
        let place = if program.contains('/') { "is no program that can be run" } else { "was not found on PATH" };
        trouble(format!("{program} {place}"), "Install Claude Code, or name its program in agents.claude.command.")
    })?;
    let pass: Vec<String> = OWN_ENV.iter().map(|name| (*name).to_owned()).chain(env_pass.iter().cloned()).collect();
    let run = |args: &[&str]| {
        let quiet = QUIET.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let args: Vec<&str> = command.iter().skip(1).map(String::as_str).chain(args.iter().copied()).collect();
        let ran = Cmd::new(&path).args(args).cwd(root).envs(quiet).envs(proc::base_env(&pass)).timeout(LIMIT).run();
        ran.map_err(|error| trouble(error.to_string(), "See whether the program can be started by hand."))
    };
    let said = String::from_utf8_lossy(&run(&["--version"])?.stdout).trim().to_owned();
    let version = parse_version(&said).ok_or_else(|| {
        trouble(
            format!("{program} does not tell its version: {said:?}"),
            "Is it Claude Code? See agents.claude.command.",
        )
    })?;
    if version < OLDEST {
        return Err(trouble(
            format!("{program} is version {}, and {} is needed", dotted(version), dotted(OLDEST)),
            "Update it: `claude update`.",
        ));
    }
    let status = run(&["auth", "status", "--json"])?;
    match serde_json::from_slice::<Login>(&status.stdout) {
        Ok(login) if login.logged_in => {
            Ok(Client { found: format!("{said}, logged in ({})", login.method), note: untested(program, version) })
        }
        _ => Err(trouble(
            format!("{program} is not logged in"),
            "Log in by `claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN.",
        )),
    }
}

/// A newer client most likely works, but what it changed is not known here.
fn untested(program: &str, version: [u32; 3]) -> Option<Trouble> {
    let newer = format!(
        "{program} is version {}, newer than {}, the newest one that this program was tested with",
        dotted(version),
        dotted(NEWEST_TESTED)
    );
    let hint = "If agents fail in a way that you cannot explain, try the tested version, or update mahabharatha.";
    (version > NEWEST_TESTED).then(|| trouble(newer, hint))
}

fn dotted(version: [u32; 3]) -> String {
    version.map(|number| number.to_string()).join(".")
}

fn trouble(what: String, hint: &str) -> Trouble {
    Trouble { what, hint: hint.to_owned() }
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
    fn versions_are_read_from_what_the_client_says() {
        assert_eq!(parse_version("2.1.197 (Claude Code)"), Some([2, 1, 197]));
        assert_eq!(parse_version("2.2.0-beta.1 (Claude Code)"), Some([2, 2, 0]));
        assert_eq!(parse_version("claude: not found"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn the_versions_are_those_that_the_tests_run_with() {
        let package: serde_json::Value =
            serde_json::from_str(include_str!("../../../../app/tests/client/package.json")).unwrap();
        assert_eq!(package["oldest"], dotted(OLDEST));
        assert_eq!(package["dependencies"]["@anthropic-ai/claude-code"], dotted(NEWEST_TESTED));
    }

    #[test]
    fn only_a_client_newer_than_the_tested_ones_is_named() {
        let [major, minor, patch] = NEWEST_TESTED;
        assert!(untested("claude", OLDEST).is_none() && untested("claude", NEWEST_TESTED).is_none());
        for newer in [[major, minor, patch + 1], [major, minor + 1, 0], [major + 1, 0, 0]] {
            assert!(untested("claude", newer).is_some_and(|note| note.what.contains(&dotted(newer))), "{newer:?}");
        }
    }
}
