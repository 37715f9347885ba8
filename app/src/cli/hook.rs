//! `hook`: called by Claude Code's hooks. The client treats exit code 2 as a refusal and shows stderr as its reason.
//!
//! In a session that works on none of our tasks, every hook must do nothing.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use mahabharatha_core::run::TaskStatus;
use mahabharatha_engine::claude::guard::{self, CallContext, OwnCall, Purpose, ToolUse, Verdict};
use mahabharatha_engine::claude::install::PROGRAM;
use mahabharatha_engine::claude::tasks::{ListedTask, TaskCompleted};
use mahabharatha_engine::lease::{self, Lease};
use mahabharatha_engine::session::{caller, control, ended};
use mahabharatha_engine::worker::WORKTREE_VARIABLE;
use mahabharatha_engine::worker::subagents::Session;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::ui::Ui;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::exit::ExitCode;
use super::{Cli, Command, Global};
use crate::mcp;

/// Larger than the input for any file that an agent writes.
const MAX_INPUT_BYTES: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct HookArgs {
    #[command(subcommand)]
    event: Event,
}

#[derive(Debug, Subcommand)]
enum Event {
    /// Before a tool is used: refuses writes outside of the task's files, allows calls of this program
    PreToolUse,
    /// After a subagent was launched or has answered: records on which task it works
    PostToolUse,
    /// When a subagent stops: records it, so that its task can be completed
    SubagentStop,
    /// When a session ends its turn: records which subagents still run
    Stop,
    /// Before a task of the client's list is marked as completed: refuses it unless it is
    TaskCompleted,
    /// When a session starts: releases tasks of ended sessions
    SessionStart,
    /// When a session ends: releases its tasks
    SessionEnd,
}

pub fn run(_global: &Global, ui: &Ui, args: &HookArgs) -> Result<ExitCode> {
    match args.event {
        Event::PreToolUse => pre_tool_use(ui),
        Event::PostToolUse => post_tool_use(&read_call(ui)?),
        Event::SubagentStop => subagent_stop(&read_call(ui)?),
        Event::Stop => stop(&read_call(ui)?),
        Event::TaskCompleted => task_completed(ui),
        Event::SessionStart => session_start(&read_call(ui)?),
        Event::SessionEnd => session_end(&read_call(ui)?),
    }
    .map_err(|error| error.with_kind(Kind::Usage))
}

fn pre_tool_use(ui: &Ui) -> Result<ExitCode> {
    let Some(call) = read_call_or_pass::<ToolUse>(ui)? else { return Ok(ExitCode::Done) };
    let job_worktree = std::env::var_os(WORKTREE_VARIABLE).map(PathBuf::from);
    let own_call = |words: &[String]| own_call(words, &call.cwd);
    let job_worktree = job_worktree.as_deref();
    let context = CallContext { job_worktree, own_call: &own_call, needs_user: &needs_user, tool_call: &tool_call };
    match guard::check(&call, &context)? {
        Verdict::Pass => {}
        Verdict::Allow(reason) => print_decision(ui, "allow", &reason),
        Verdict::Ask(reason) => print_decision(ui, "ask", &reason),
        Verdict::Deny(reason) => return Err(Error::new(Kind::Usage, reason)),
    }
    Ok(ExitCode::Done)
}

fn print_decision(ui: &Ui, decision: &str, reason: &str) {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    } });
    ui.json_data(&output.to_string());
}

/// Returns the call of this program that a tool of its MCP server stands for.
fn tool_call(tool: &str, input: &Value) -> Option<Vec<String>> {
    let words = mcp::words(tool, input.as_object()?.clone()).ok()?;
    Some([PROGRAM.to_owned()].into_iter().chain(words).collect())
}

/// Tells whether only the user may decide on a call of this program.
fn needs_user(words: &[String]) -> bool {
    let is_ours = matches!(words.first().map(String::as_str), Some("mahabharatha" | "mbh"));
    match Cli::try_parse_from(words).ok().filter(|_| is_ours).map(|cli| cli.command) {
        Some(Command::Task(args)) => args.needs_user(),
        Some(Command::Merge(args)) => args.needs_user(),
        Some(Command::Kurukshetra(args)) => args.needs_user(),
        _ => false,
    }
}

/// Parses a call that a session may make without asking if it runs or plans the feature: in its own directory, only what
/// the slash commands call. What only the user may decide on is asked before this.
fn own_call(words: &[String], cwd: &Path) -> Option<OwnCall> {
    if !matches!(words.first()?.as_str(), "mahabharatha" | "mbh") {
        return None;
    }
    let Cli { global, command } = Cli::try_parse_from(words).ok()?;
    let purpose = match &command {
        Command::Task(args) if args.is_for_subagents() => Purpose::OwnTask,
        Command::Task(_) => Purpose::Run,
        Command::Status(_) => Purpose::Look,
        Command::Merge(_) => Purpose::Run,
        Command::Plan(args) if args.is_for_sessions() => Purpose::Plan,
        Command::Design(args) if args.is_for_sessions() => Purpose::Plan,
        _ => return None,
    };
    if global.directory != Path::new(".") {
        return None;
    }
    let argument = match &command {
        Command::Plan(args) => args.feature(),
        Command::Design(args) => args.feature(),
        _ => None,
    };
    let named = argument.or(global.feature.as_deref());
    let feature = Project::locate_without_git(cwd)?.which_feature(named, std::env::var_os).ok()?;
    Some(OwnCall { feature: feature.to_string(), purpose })
}

/// Hook input after a subagent was launched in the background, or has answered in the foreground.
#[derive(Debug, Deserialize)]
struct AgentUsed {
    session_id: String,
    cwd: PathBuf,
    #[serde(default)]
    tool_input: Value,
    #[serde(default)]
    tool_response: Value,
}

fn post_tool_use(used: &AgentUsed) -> Result<ExitCode> {
    let features = guard::features_held(&used.cwd, &used.session_id);
    let asked = used.tool_input["prompt"].as_str().and_then(guard::prompt_asked_for);
    let is_launched = used.tool_response["status"] == "async_launched";
    if let (Some(agent), true) = (used.tool_response["agentId"].as_str(), is_launched) {
        Session { id: &used.session_id, features: &features }.launches(agent, asked.as_ref())?;
    }
    Ok(ExitCode::Done)
}

#[derive(Debug, Deserialize)]
struct SubagentStopped {
    session_id: String,
    cwd: PathBuf,
    agent_id: String,
    agent_transcript_path: PathBuf,
}

fn subagent_stop(stopped: &SubagentStopped) -> Result<ExitCode> {
    let features = guard::features_held(&stopped.cwd, &stopped.session_id);
    let session = Session { id: &stopped.session_id, features: &features };
    session.stops(&stopped.agent_id, &stopped.agent_transcript_path)?;
    Ok(ExitCode::Done)
}

#[derive(Debug, Deserialize)]
struct TurnEnded {
    session_id: String,
    cwd: PathBuf,
    /// Tasks running in the background; `None` if the client does not report them.
    background_tasks: Option<Vec<Value>>,
}

fn stop(ended: &TurnEnded) -> Result<ExitCode> {
    let features = guard::features_held(&ended.cwd, &ended.session_id);
    let session = Session { id: &ended.session_id, features: &features };
    if let Some(tasks) = &ended.background_tasks {
        let running: Vec<String> = tasks.iter().filter_map(|task| task["id"].as_str().map(str::to_owned)).collect();
        session.runs_only(&running)?;
    }
    for feature_dir in session.idle_features()? {
        // The run has ended, and so has the turn that reported on it.
        if Lease::of(&feature_dir, &ended.session_id).is_some_and(|lease| !lease.drives) {
            lease::end(&feature_dir, &ended.session_id)?;
        }
    }
    Ok(ExitCode::Done)
}

#[derive(Debug, Deserialize)]
struct SessionCall {
    session_id: String,
    cwd: PathBuf,
}

fn session_start(call: &SessionCall) -> Result<ExitCode> {
    ended::release_abandoned(&call.cwd)?;
    Ok(ExitCode::Done)
}

fn session_end(call: &SessionCall) -> Result<ExitCode> {
    ended::end(&call.cwd, &call.session_id)?;
    Ok(ExitCode::Done)
}

fn task_completed(ui: &Ui) -> Result<ExitCode> {
    let Some(call) = read_call_or_pass::<TaskCompleted>(ui)? else { return Ok(ExitCode::Done) };
    // Ignore entries of a project that is gone or was never run.
    let Ok(Some(ListedTask { project, feature, task })) = call.our_task() else { return Ok(ExitCode::Done) };
    let Ok(project) = Project::find(&project) else { return Ok(ExitCode::Done) };
    let place = Place::new(project, feature);
    if !place.paths.journal().exists() {
        return Ok(ExitCode::Done);
    }
    let run = control::read_run(&place)?;
    let refused = |why: &str| Err(Error::new(Kind::Usage, format!("{task} is not completed: {why}")));
    if let Some((job, session)) = run.held().find(|(job, _)| job.task == task) {
        if session != call.session_id {
            return refused(&format!("another session ({session}) holds it"));
        }
        let check = caller::check(&place, &place.paths.job(&task, job.attempt))?;
        return match check.passed() {
            true => Ok(ExitCode::Done),
            false => refused(&check.objections().join("\n")),
        };
    }
    match run.task(&task).map(|task| &task.status) {
        Some(TaskStatus::InProgress { .. }) => refused("a worker is working on it"),
        // No worker or session has the task: the run verifies the claim before it accepts it.
        _ => Ok(ExitCode::Done),
    }
}

/// Like `read_call`, but returns `None` for unreadable input if no session holds tasks, so it cannot block the user.
fn read_call_or_pass<T: DeserializeOwned>(ui: &Ui) -> Result<Option<T>> {
    match read_call(ui) {
        Err(_) if guard::features_with_sessions(Path::new(".")).is_empty() => Ok(None),
        call => call.map(Some),
    }
}

fn read_call<T: DeserializeOwned>(ui: &Ui) -> Result<T> {
    let text = ui
        .input(MAX_INPUT_BYTES)
        .map_err(|error| Error::new(Kind::Usage, format!("cannot read the hook input of Claude Code: {error}")))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::new(Kind::Usage, format!("unexpected hook input from Claude Code: {error}")))
}
