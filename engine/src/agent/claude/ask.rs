//! Asks Claude Code one question, with read-only tools.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::spec::Effort;
use mahabharatha_sys::proc::{Cmd, Ended, Exit};
use mahabharatha_sys::sandbox::Sandbox;
use serde_json::Value;

use super::super::Asked;
use super::quiet_env;
use super::wire::{Line, Outcome};

const TOOLS: &str = "Read,Grep,Glob";
const MAX_TURNS: &str = "60";

/// Returns the command for a question. The client reads no settings or hooks of the project, and denies without a
/// prompt what is not allowed.
pub fn command_for(asked: &Asked<'_>, sandbox: &mut Sandbox) -> mahabharatha_sys::error::Result<Cmd> {
    let command = &asked.agent.command;
    let (program, args) = command.split_first().map_or(("claude", &[][..]), |(first, rest)| (first.as_str(), rest));
    let mut cmd = super::super::program(sandbox, asked.root, program, args)?
        .args(["-p", "--output-format", "json", "--permission-mode", "dontAsk"])
        .args(["--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"])
        .args(["--tools", TOOLS, "--max-turns", MAX_TURNS])
        .arg("--json-schema")
        .arg(asked.schema.to_string());
    let (model, fallback) = (asked.agent.model.as_deref(), asked.agent.fallback_model.as_deref());
    let options =
        [("--model", model), ("--effort", asked.agent.effort.map(Effort::as_str)), ("--fallback-model", fallback)];
    cmd = cmd.args(options.iter().filter_map(|(option, value)| Some(format!("{option}={}", (*value)?))));
    if let Some(usd) = asked.max_usd {
        cmd = cmd.args(["--max-budget-usd", &usd.to_string()]);
    }
    Ok(cmd.envs(quiet_env()))
}

/// Returns the client's answer, or why there is none, and the cost that the client reported.
pub fn answer(ended: &Ended) -> (Result<Result<Value, String>, String>, Cost) {
    let lines = String::from_utf8_lossy(&ended.stdout);
    let outcome = lines.lines().rev().find_map(|line| match serde_json::from_str(line) {
        Ok(Line::Result(outcome)) => Some(outcome),
        _ => None,
    });
    match outcome {
        None => (Err(format!("it ended with {} and without a result", ended.status)), Cost::unknown()),
        Some(outcome) => {
            let cost = Cost::of(outcome.total_cost_usd, outcome.tokens());
            (value_of(outcome, ended), cost)
        }
    }
}

fn value_of(outcome: Outcome, ended: &Ended) -> Result<Result<Value, String>, String> {
    let Outcome { subtype, is_error, terminal_reason, result, errors, structured_output, .. } = outcome;
    let completed = !is_error && subtype == "success" && terminal_reason.as_deref() == Some("completed");
    if !completed || ended.status != Exit::Code(0) {
        let why = if result.is_empty() { errors.join("; ") } else { result };
        let reason = terminal_reason.unwrap_or(subtype);
        return Err(format!("it did not finish ({reason}): {}", why.trim()));
    }
    Ok(structured_output.ok_or_else(|| "it was text instead of the requested JSON object".to_owned()))
}
