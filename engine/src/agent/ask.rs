//! Asks an agent that may only read the project one question, and returns its structured answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mahabharatha_core::config::{AgentConfig, Format};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Cmd, Ended, bounded_text};
use mahabharatha_sys::sandbox::Sandbox;
use serde_json::Value;

use super::format::Scope;
use super::login::Logins;
use super::profile::{Call, Called, Heard, listener, reading};
use super::{AgentOutcome, claude};
use crate::confinement::{self, Confinement};

/// Longer answers are rejected.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Bytes of the agent's stderr that an error shows, from its start and its end.
const SHOWN_BYTES: (usize, usize) = (1024, 3 * 1024);

pub struct Asked<'a> {
    pub agent: &'a AgentConfig,
    /// The agent's name under `agents:`, for messages.
    pub name: &'a str,
    /// The main checkout, in which the agent runs and which it may only read.
    pub root: &'a Path,
    pub prompt: &'a str,
    pub schema: &'a Value,
    pub env: BTreeMap<OsString, OsString>,
    /// Marks the agent's processes, so that they are found and killed if this process dies.
    pub mark: PathBuf,
    pub timeout: Duration,
    pub max_usd: Option<f64>,
    pub confinement: &'a Confinement,
}

pub struct Answer {
    /// The answer, or why it is unusable, worded for the agent; an error if the agent could not be asked.
    pub value: Result<Result<Value, String>>,
    /// Cost of the question, also without an answer.
    pub cost: Cost,
}

/// Asks the agent, and returns once the agent and every process that it started have ended.
pub fn ask(asked: &Asked<'_>) -> Answer {
    let mut cost = Cost::default();
    let value = try_ask(asked, &mut cost);
    Answer { value, cost }
}

fn try_ask(asked: &Asked<'_>, cost: &mut Cost) -> Result<Result<Value, String>> {
    let failed = |what: String| Error::new(Kind::Failed, format!("the agent {}: {what}", asked.name));
    let private = tempfile::tempdir().map_err(Error::caused("cannot create a temporary directory"))?;
    let mut sandbox = asked.confinement.reading(&private.path().join("sandbox"), asked.root)?;
    let Prepared { cmd, logins, heard } = prepare(asked, private.path(), &mut sandbox)?;
    proc::become_subreaper().map_err(|error| failed(error.to_string()))?;
    *cost = Cost::unknown();
    let ended = run(cmd, asked, &sandbox);
    logins.take_back();
    let ended = match confinement::failure(&sandbox) {
        Some(error) => Err(error),
        None => ended.map_err(|error| failed(error.to_string())),
    };
    if !proc::end_descendants(Duration::ZERO) {
        return Err(failed("it left processes that cannot be killed".to_owned()));
    }
    let ended = ended?;
    if ended.timed_out {
        return Err(failed(format!("it gave no answer within {} minutes", asked.timeout.as_secs() / 60))
            .hint("Raise workers.timeout_minutes."));
    }
    if ended.truncated {
        return Err(failed(format!("its answer is longer than {} MB", MAX_ANSWER_BYTES >> 20)));
    }
    if asked.agent.format == Format::Claude {
        let (answer, reported) = claude::answer(&ended);
        *cost = reported;
        return answer.map_err(|what| failed(what).detail(stderr_text(&ended)));
    }
    if let Some(heard) = heard {
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        *cost = heard.cost().unwrap_or(*cost);
        return match heard.outcome(&ended) {
            AgentOutcome::Unserved { why, .. } | AgentOutcome::Failed(why) => Err(failed(why)),
            _ => Ok(read_json(heard.answer().as_bytes())),
        };
    }
    if !ended.success() {
        return Err(failed(format!("it ended with {}", ended.status)).detail(stderr_text(&ended)));
    }
    Ok(read_json(&ended.stdout))
}

/// A question that is ready to be asked.
struct Prepared {
    cmd: Cmd,
    logins: Logins,
    /// What an agent says that has a parser.
    heard: Option<Arc<Mutex<Heard>>>,
}

fn prepare(asked: &Asked<'_>, dir: &Path, sandbox: &mut Sandbox) -> Result<Prepared> {
    match (asked.agent.format, asked.agent.command.as_slice()) {
        (Format::Claude, _) => {
            let logins = claude::lend(sandbox, asked.agent)?;
            let cmd = claude::command_for(asked, sandbox)?.envs(asked.env.clone()).envs(claude::environment(sandbox));
            Ok(Prepared { cmd: cmd.stdin(asked.prompt), logins, heard: None })
        }
        (_, []) => Err(Error::new(Kind::Invalid, format!("the agent {} has no command to ask", asked.name))
            .hint(format!("Set agents.{}.command in .mahabharatha/config.yaml.", asked.name))),
        (Format::Command, [program, args @ ..]) => {
            let cmd = super::program(sandbox, asked.root, program, args)?.envs(asked.env.clone());
            Ok(Prepared { cmd: cmd.stdin(asked.prompt), logins: Logins::default(), heard: None })
        }
        _ => {
            let prompt = format!(
                "{}\n\nAnswer with one JSON object and nothing else, valid by this schema:\n\n{}\n",
                asked.prompt, asked.schema
            );
            let rules = reading(asked.agent.paths, sandbox.isolation());
            let call = Call {
                profile: asked.agent,
                args: asked.agent.ask_args(),
                model: asked.agent.model.as_deref(),
                effort: asked.agent.effort,
                root: asked.root,
                dir,
                prompt: &prompt,
                rules: &rules,
            };
            let Called { cmd, set, feed, logins } = call.prepare(sandbox)?;
            let (worktree, model) = (sandbox.workdir().to_owned(), call.model_by_protocol());
            let scope = Scope { worktree, owned: Vec::new(), model, prompt };
            let heard = Arc::new(Mutex::new(Heard::default()));
            let mut begun = heard.lock().unwrap_or_else(PoisonError::into_inner);
            begun.begin(asked.agent.format, scope, feed, Redactor::default(), Box::new(|_| ()));
            drop(begun);
            let cmd = cmd.envs(asked.env.clone()).envs(set).listen(listener(Arc::clone(&heard)));
            Ok(Prepared { cmd, logins, heard: Some(heard) })
        }
    }
}

fn run(cmd: Cmd, asked: &Asked<'_>, sandbox: &Sandbox) -> Result<Ended> {
    let cmd = sandbox.confine(cmd.watched(&asked.mark))?.timeout(asked.timeout).keep(MAX_ANSWER_BYTES, 0);
    cmd.run().map_err(|error| Error::new(Kind::Failed, error.to_string()))
}

fn stderr_text(ended: &Ended) -> String {
    bounded_text(&ended.stderr, SHOWN_BYTES).trim().to_owned()
}

/// Parses the printed JSON, also from a fenced code block within other text.
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
    fn an_answer_may_be_in_a_code_block() {
        assert_eq!(read_json(b" {\"a\": 1}\n"), Ok(serde_json::json!({ "a": 1 })));
        assert_eq!(read_json(b"Here it is:\n```json\n{\"a\": 1}\n```\nBye."), Ok(serde_json::json!({ "a": 1 })));
        assert!(read_json(b"Sorry.").unwrap_err().contains("not JSON"));
        assert!(read_json(b"\xff").unwrap_err().contains("UTF-8"));
    }
}
