//! One question to an agent that may read the project, and its structured answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::config::{AgentConfig, AgentKind};
use mahabharatha_core::cost::Cost;
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::proc::{self, Cmd, Ended, bounded_text};
use serde_json::Value;

use super::claude;

/// More is no answer.
const LONGEST: usize = 16 << 20;
const SHOWN: (usize, usize) = (1024, 3 * 1024);

pub struct Asked<'a> {
    pub agent: &'a AgentConfig,
    /// Of `agents:`, for messages.
    pub name: &'a str,
    /// The main checkout: where it runs, to read and not to write.
    pub root: &'a Path,
    pub prompt: &'a str,
    pub schema: &'a Value,
    pub env: BTreeMap<OsString, OsString>,
    /// By which it is found, should we be killed.
    pub mark: PathBuf,
    pub timeout: Duration,
    pub max_usd: Option<f64>,
}

pub struct Answer {
    /// The answer, or why what it said is none, in words for the agent; an error where it could not be asked.
    pub value: Result<Result<Value, String>>,
    /// What the question cost, also where there is no answer.
    pub cost: Cost,
}

/// Returns when the agent and everything that it started has ended.
pub fn ask(asked: &Asked<'_>) -> Answer {
    let mut cost = Cost::default();
    let value = try_ask(asked, &mut cost);
    Answer { value, cost }
}

fn try_ask(asked: &Asked<'_>, cost: &mut Cost) -> Result<Result<Value, String>> {
    let failed = |what: String| Error::new(ExitCode::Failed, format!("the agent {}: {what}", asked.name));
    let cmd = match (asked.agent.kind, asked.agent.command.as_slice()) {
        (AgentKind::Claude, _) => claude::command_for(asked)?,
        (AgentKind::Command, [program, args @ ..]) => super::program(asked.root, program, args),
        (AgentKind::Command, []) => {
            return Err(Error::new(ExitCode::Invalid, format!("the agent {} has no command to ask", asked.name))
                .hint(format!("Set agents.{}.command in .mahabharatha/config.yaml.", asked.name)));
        }
    };
    proc::become_subreaper().map_err(|error| failed(error.to_string()))?;
    *cost = Cost::unknown();
    let ended = run(cmd, asked).map_err(|error| failed(error.to_string()));
    if !proc::end_descendants(Duration::ZERO) {
        return Err(failed("it left processes that cannot be ended".to_owned()));
    }
    let ended = ended?;
    if ended.timed_out {
        return Err(failed(format!("it gave no answer within {} minutes", asked.timeout.as_secs() / 60))
            .hint("Give it more time: workers.timeout_minutes."));
    }
    if ended.truncated {
        return Err(failed(format!("its answer is longer than {} MB", LONGEST >> 20)));
    }
    if asked.agent.kind == AgentKind::Claude {
        let (answer, told) = claude::answer(&ended);
        *cost = told;
        return answer.map_err(|what| failed(what).detail(said(&ended)));
    }
    if !ended.success() {
        return Err(failed(format!("it ended with {}", ended.status)).detail(said(&ended)));
    }
    Ok(read_json(&ended.stdout))
}

fn run(cmd: Cmd, asked: &Asked<'_>) -> std::io::Result<Ended> {
    let cmd = cmd.cwd(asked.root).envs(asked.env.clone()).stdin(asked.prompt);
    cmd.watched(&asked.mark).timeout(asked.timeout).keep(LONGEST, 0).run()
}

fn said(ended: &Ended) -> String {
    bounded_text(&ended.stderr, SHOWN).trim().to_owned()
}

/// The object that was printed, also where it stands in a fence or after some words.
fn read_json(stdout: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| "it is not UTF-8 text".to_owned())?.trim();
    let fenced = || text.rsplit_once("```json\n").and_then(|(_, rest)| rest.split_once("\n```")).map(|(json, _)| json);
    let parse = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| format!("it is not JSON: {error}"));
    match (parse(text), fenced()) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(json)) => parse(json),
        (Err(error), None) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_stand_in_a_fence() {
        assert_eq!(read_json(b" {\"a\": 1}\n"), Ok(serde_json::json!({ "a": 1 })));
        assert_eq!(read_json(b"Here it is:\n```json\n{\"a\": 1}\n```\nBye."), Ok(serde_json::json!({ "a": 1 })));
        assert!(read_json(b"Sorry.").unwrap_err().contains("not JSON"));
        assert!(read_json(b"\xff").unwrap_err().contains("UTF-8"));
    }
}
