//! Allows or denies tool uses of Claude Code sessions in advance: writes in a worker's worktree, documents of a feature
//! that is being planned, and shell commands.
//!
//! The `PreToolUse` hook calls this before every write and shell command of every session, so it must start no process
//! and read only a few small files. It must not interfere with a session that neither works on a task of ours nor plans
//! a feature. A denial only tells the agent early; ownership is enforced by the check of the whole worktree when a task
//! is completed.

mod plain;
mod planning;

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::effect::Performer;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::RepoPath;
use mahabharatha_sys::proc;
use mahabharatha_sys::project::{GitDirs, our_worktree};
use serde::Deserialize;
use serde_json::Value;

use crate::lease::{self, Lease};
use crate::worker::subagents::{PromptCall, Session};
use crate::worker::{FENCE, JobSpec, occupant, owner};

/// Input of the hook before the client uses a tool.
#[derive(Debug, Deserialize)]
pub struct ToolUse {
    pub session_id: String,
    pub cwd: PathBuf,
    /// The subagent that uses the tool; `None` for the session itself.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The kind of subagent.
    #[serde(default)]
    pub agent_type: Option<String>,
    pub tool_name: String,
    #[serde(default)]
    pub tool_input: Value,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No opinion: the client's own rules apply.
    Pass,
    /// Allowed without asking the user.
    Allow(String),
    /// The user is asked, whatever the client's own rules allow.
    Ask(String),
    Deny(String),
}

/// A call of this program that may run without asking the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCall {
    /// The feature that the call is about.
    pub feature: String,
    pub purpose: Purpose,
}

/// What a call of this program does, which decides the sessions that may make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Shows the state of a feature.
    Look,
    /// Reads or verifies a subagent's own work, so subagents may call it too.
    OwnTask,
    /// Runs the feature's tasks.
    Run,
    /// Plans or designs the feature.
    Plan,
}

/// Context of a tool use.
pub struct CallContext<'a> {
    /// Worktree of the job, if the session is a worker's agent.
    pub job_worktree: Option<&'a Path>,
    /// Parses a call of this program; `None` unless it may run without asking the user.
    pub own_call: &'a dyn Fn(&[String]) -> Option<OwnCall>,
    /// Tells whether only the user may decide on a call of this program.
    pub needs_user: &'a dyn Fn(&[String]) -> bool,
    /// Returns the call of this program that a tool of its MCP server stands for.
    pub tool_call: &'a dyn Fn(&str, &Value) -> Option<Vec<String>>,
}

/// What Claude Code puts before the names of our MCP server's tools.
const OWN_TOOLS: &str = "mcp__mahabharatha__";

impl ToolUse {
    fn target(&self) -> Option<&str> {
        let key = match self.tool_name.as_str() {
            "Write" | "Edit" | "MultiEdit" => "file_path",
            "NotebookEdit" => "notebook_path",
            _ => return None,
        };
        self.tool_input[key].as_str()
    }

    /// Returns whether a shell command has only plain inputs, and none such as the one that turns the client's sandbox
    /// off.
    fn has_plain_input(&self) -> bool {
        const PLAIN: [&str; 4] = ["command", "description", "timeout", "run_in_background"];
        self.tool_input.as_object().is_some_and(|input| input.keys().all(|key| PLAIN.contains(&key.as_str())))
    }

    /// Returns the name of the tool if it is one of our MCP server.
    fn own_tool(&self) -> Option<&str> {
        self.tool_name.strip_prefix(OWN_TOOLS)
    }

    /// Returns the plain call of this program that the tool would run, if it is one.
    fn own_call(&self, context: &CallContext<'_>) -> Option<OwnCall> {
        if let Some(tool) = self.own_tool() {
            return (context.own_call)(&(context.tool_call)(tool, &self.tool_input)?);
        }
        let line =
            self.tool_input["command"].as_str().filter(|_| self.tool_name == "Bash" && self.has_plain_input())?;
        (context.own_call)(&plain::words(line)?)
    }

    /// Returns the task whose prompt the tool would print.
    fn prompt_asked_for(&self) -> Option<PromptCall> {
        match self.own_tool() {
            Some("prompt") => {
                let named = |key: &str| self.tool_input[key].as_str().map(str::to_owned);
                Some(PromptCall { task: named("task")?, feature: named("feature") })
            }
            _ => prompt_asked_for(self.tool_input["command"].as_str().unwrap_or_default()),
        }
    }

    /// Returns whether the tool would call this program for something that only the user decides on. What is not one plain
    /// call counts if it has the words for that.
    fn needs_user(&self, context: &CallContext<'_>) -> bool {
        if let Some(tool) = self.own_tool() {
            // A call that cannot be read is refused by the server.
            return (context.tool_call)(tool, &self.tool_input).is_some_and(|words| (context.needs_user)(&words));
        }
        let line = self.tool_input["command"].as_str().filter(|_| self.tool_name == "Bash").unwrap_or_default();
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        match plain::words(line) {
            Some(words) => (context.needs_user)(&words),
            None => {
                let approves = has(&["merge"]) && has(&["--approve"]);
                has(&["mahabharatha", "mbh"]) && (approves || has(&["--accept-config", "task grant"]))
            }
        }
    }

    /// Returns whether the tool is used by a `worker` subagent. The second name is the one in a plugin.
    fn is_worker(&self) -> bool {
        matches!(self.agent_type.as_deref(), Some("worker" | "mahabharatha:worker"))
    }
}

/// Returns the directories of the features that a session holds in the repository around a directory.
pub fn features_held(cwd: &Path, session: &str) -> Vec<PathBuf> {
    let repository = Repository::around(cwd).ok().flatten();
    repository.map(|repository| repository.held_by(session)).unwrap_or_default()
}

/// Returns the directories of all features that were run in the repository around a directory.
pub fn features(cwd: &Path) -> Vec<PathBuf> {
    let repository = Repository::around(cwd).ok().flatten();
    repository.map(|repository| repository.features().collect()).unwrap_or_default()
}

/// Returns the directories of the features that any session holds in the repository around a directory.
pub fn features_with_sessions(cwd: &Path) -> Vec<PathBuf> {
    features(cwd).into_iter().filter(|dir| !Lease::all_alive(dir).is_empty()).collect()
}

/// Returns the directories of the features that a session plans in the repository around a directory.
pub fn features_planned(cwd: &Path, session: &str) -> Vec<PathBuf> {
    let is_planned = |dir: &PathBuf| Lease::of(&lease::planning(dir), session).is_some();
    features(cwd).into_iter().filter(is_planned).collect()
}

/// Decides on a tool use, and renews the session's leases.
pub fn check(call: &ToolUse, context: &CallContext<'_>) -> Result<Verdict> {
    if call.needs_user(context) {
        return Ok(Verdict::Ask("only the user decides on that".to_owned()));
    }
    Ok(match check_for_tasks(call, context)? {
        Verdict::Pass => planning::check(call, context),
        decided => decided,
    })
}

/// Decides on a tool use by the tasks that the session holds.
fn check_for_tasks(call: &ToolUse, context: &CallContext<'_>) -> Result<Verdict> {
    let held = features_held(&call.cwd, &call.session_id);
    for feature_dir in &held {
        lease::renew(feature_dir, &call.session_id);
    }
    if held.is_empty() && context.job_worktree.is_none() && !call.is_worker() {
        return Ok(Verdict::Pass);
    }
    if call.tool_name == "Bash" || call.own_tool().is_some() {
        return check_command(call, &held, context);
    }
    let Some(target) = call.target() else { return Ok(Verdict::Pass) };
    let target = match resolve(&call.cwd, target) {
        Ok(target) => target,
        Err(_) if held.is_empty() && our_worktree(&call.cwd.join(target)).is_none() => return Ok(Verdict::Pass),
        Err(error) => return Err(error),
    };
    if let Some(slot) = Slot::around(&target) {
        return slot.check_write(call, &target, context.job_worktree);
    }
    if held.is_empty() {
        return Ok(Verdict::Pass);
    }
    if Repository::around(&call.cwd)?.is_some_and(|repository| target.starts_with(&repository.state_dir)) {
        return Ok(Verdict::Deny(format!("{} is managed by mahabharatha and must not be changed", target.display())));
    }
    if call.is_worker() {
        let message = format!("{} is outside of your worktree; your prompt names the worktree", target.display());
        return Ok(Verdict::Deny(message));
    }
    Ok(Verdict::Pass)
}

/// Decides on a shell command or a tool of our MCP server. The hook sees the command line only, not what the command writes.
fn check_command(call: &ToolUse, held: &[PathBuf], context: &CallContext<'_>) -> Result<Verdict> {
    if held.is_empty() {
        return Ok(Verdict::Pass);
    }
    let line = call.tool_input["command"].as_str().unwrap_or_default();
    if pushes(line) && call.is_worker() {
        return Ok(Verdict::Deny(NO_PUSH.to_owned()));
    }
    let session = Session { id: &call.session_id, features: held };
    if let (Some(agent), Some(asked)) = (&call.agent_id, call.prompt_asked_for()) {
        session.begins(agent, &asked)?;
    }
    let may_call = |purpose| match purpose {
        Purpose::Look | Purpose::OwnTask => true,
        Purpose::Run => call.agent_id.is_none(),
        Purpose::Plan => false,
    };
    match call.own_call(context) {
        Some(own) if may_call(own.purpose) && is_among(held, &own.feature) => {
            Ok(Verdict::Allow("this session runs the feature's tasks".to_owned()))
        }
        _ => Ok(Verdict::Pass),
    }
}

/// Tells whether a feature's directory is among these.
fn is_among(dirs: &[PathBuf], feature: &str) -> bool {
    dirs.iter().any(|dir| dir.file_name().is_some_and(|name| name == feature))
}

const NO_PUSH: &str = "a worker does not push: mahabharatha commits and merges verified work itself";

/// A worker's worktree.
#[derive(Debug, PartialEq, Eq)]
struct Slot {
    root: PathBuf,
    feature: String,
    worker: WorkerId,
}

impl Slot {
    /// Returns the worktree that a path is in.
    fn around(path: &Path) -> Option<Slot> {
        let (root, inside) = our_worktree(path)?;
        let mut names = inside.components().map(|part| part.as_os_str().to_str());
        let (feature, slot) = (names.next()??, names.next()??);
        let worker = slot.strip_prefix("worker-")?.parse().ok()?;
        Some(Slot { root, feature: feature.to_owned(), worker: WorkerId(worker) })
    }

    /// Decides on a write in this worktree.
    fn check_write(&self, call: &ToolUse, target: &Path, job_worktree: Option<&Path>) -> Result<Verdict> {
        let Slot { root, feature, worker } = self;
        let deny = |message: String| Ok(Verdict::Deny(message));
        let Some(repository) = Repository::of(GitDirs::at(root)?) else { return Ok(Verdict::Pass) };
        let Some(job_dir) = occupant(&repository.state_dir.join(feature), *worker)? else {
            return deny(format!(
                "no task is claimed in the worktree of worker {worker} of {feature}; run `mahabharatha task claim TASK` first"
            ));
        };
        let spec = JobSpec::read(&job_dir)?;
        let is_callers = match &spec.job.performer {
            Performer::Session(session) => *session == call.session_id,
            Performer::Agent(_) | Performer::Reported { .. } => {
                job_worktree.is_some_and(|worktree| worktree == spec.worktree)
            }
        };
        if !is_callers {
            return deny(format!("worker {worker} of {feature} works on {} for another session", spec.job.task));
        }
        if job_dir.join(FENCE).exists() {
            return deny(format!("this attempt at {} was cancelled; claim the task again", spec.job.task));
        }
        let Ok(inside) = target.strip_prefix(&spec.worktree) else {
            return deny(format!("{} is not in {}", target.display(), spec.worktree.display()));
        };
        let path = RepoPath::new(inside.as_os_str().as_encoded_bytes());
        if owner(&spec.owned, &path).is_none() {
            let owned: Vec<&str> = spec.owned.iter().map(|owned| owned.path.as_str()).collect();
            return deny(format!("{path} is not owned by {}, which owns {}", spec.job.task, owned.join(", ")));
        }
        let features = repository.held_by(&call.session_id);
        let session = Session { id: &call.session_id, features: &features };
        if let Some(agent) = &call.agent_id
            && let Some(own) = session.enters(agent, &job_dir)?
        {
            let (task, place) = (&own.job.task, own.worktree.display());
            return deny(format!("you work on {task} in {place}: {} belongs to another subagent", spec.job.task));
        }
        Ok(Verdict::Allow(format!("{} owns {path}", spec.job.task)))
    }
}

/// A repository in which features were run.
struct Repository {
    /// `<git common dir>/mahabharatha`
    state_dir: PathBuf,
}

impl Repository {
    fn of(dirs: Option<GitDirs>) -> Option<Repository> {
        let state_dir = dirs?.common_dir.join("mahabharatha").canonicalize().ok()?;
        Some(Repository { state_dir })
    }

    /// Returns the repository around a directory, if features were run in it.
    fn around(dir: &Path) -> Result<Option<Repository>> {
        Ok(Repository::of(GitDirs::around(dir)?))
    }

    /// Returns the directories of the features that a session holds.
    fn held_by(&self, session: &str) -> Vec<PathBuf> {
        self.features().filter(|dir| Lease::of(dir, session).is_some()).collect()
    }

    fn features(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.state_dir).into_iter().flatten().flatten().map(|entry| entry.path())
    }
}

/// Returns the real target of a write, with symlinks followed and `..` removed. Fails for an ambiguous path.
fn resolve(cwd: &Path, path: &str) -> Result<PathBuf> {
    let path = cwd.join(proc::expand_home(path));
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    let target = follow(&plain)?;
    // A path whose parents do not exist cannot lead through a symlink.
    if path.components().any(|part| part == Component::ParentDir) && follow(&path).is_ok_and(|found| found != target) {
        return Err(Error::new(Kind::Usage, format!("{} is ambiguous: `..` follows a symlink", path.display())));
    }
    Ok(target)
}

/// Follows symlinks as far as the path exists.
fn follow(path: &Path) -> Result<PathBuf> {
    let mut missing = Vec::new();
    for part in path.ancestors() {
        match part.canonicalize() {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            // A dangling symlink exists itself, and a write would follow it.
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(part).is_err() => {
                missing.push(part.file_name().ok_or_else(|| io("follow", path)(error))?);
            }
            Err(error) => return Err(io("follow", path)(error)),
        }
    }
    Ok(path.to_owned())
}

/// Finds the `mahabharatha task prompt` call in a shell command or in the prompt of a subagent.
pub fn prompt_asked_for(text: &str) -> Option<PromptCall> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=');
    let words = || text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
    let all: Vec<&str> = words().collect();
    let at = all.windows(3).position(|three| three == ["mahabharatha", "task", "prompt"])?;
    let rest = &all[at + 3..];
    let named = |word: &&str| word.trim_end_matches('.').to_owned();
    let feature = match rest {
        [_, "--feature" | "-f", feature, ..] => Some(named(feature)),
        [_, option, ..] => option.strip_prefix("--feature=").map(str::to_owned),
        _ => None,
    };
    Some(PromptCall { task: rest.first().map(named)?, feature })
}

/// Splits a shell line into commands, ignoring quotes.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split([';', '&', '|', '\n', '(', ')', '{', '}'])
}

/// Returns whether a shell line contains a plain `git push`.
fn pushes(line: &str) -> bool {
    commands(line).any(|command| {
        let mut words = command.split_whitespace().skip_while(|word| *word != "git").skip(1);
        while let Some(word) = words.next() {
            match word {
                "-C" | "-c" => drop(words.next()),
                option if option.starts_with('-') => {}
                verb => return verb == "push",
            }
        }
        false
    })
}

#[cfg(test)]
mod tests;
