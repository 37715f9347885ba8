//! Which writes of a Claude Code session are its own to make: in a worker's worktree those that the attempt there owns.
//!
//! It helps the agent to notice early; what guarantees is the look at the whole worktree when the task is completed. It is
//! asked before every write of every session, so it starts no process and reads a few small files at most.

mod subagent;

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::effect::Doer;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, ExitCode, Result, io};
use crate::git::RepoPath;
use crate::lease::{self, Lease};
use crate::project::{above_our_worktrees, our_worktree};
use crate::worker::{FENCE, Order, occupant, owner};

/// What the client tells before it uses a tool.
#[derive(Debug, Deserialize)]
pub struct ToolUse {
    pub session_id: String,
    pub cwd: PathBuf,
    /// Which subagent; nothing where the session itself is at it.
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
    /// Not ours to judge.
    Pass,
    /// The person need not be asked.
    Allow(String),
    Deny(String),
}

impl ToolUse {
    fn target(&self) -> Option<&str> {
        let key = match self.tool_name.as_str() {
            "Write" | "Edit" | "MultiEdit" => "file_path",
            "NotebookEdit" => "notebook_path",
            _ => return None,
        };
        self.tool_input[key].as_str()
    }

    /// A subagent that does a task.
    fn is_worker(&self) -> bool {
        self.agent_type.as_deref() == Some("worker")
    }
}

/// Judges, and notes that the session is alive. `job_worktree` is the worktree of the job that the session runs in.
pub fn judge(call: &ToolUse, job_worktree: Option<&Path>) -> Result<Verdict> {
    let repository = Repository::around(&call.cwd)?;
    let held = repository.as_ref().map(|repository| repository.held_by(&call.session_id)).unwrap_or_default();
    for feature_dir in &held {
        lease::renew(feature_dir, &call.session_id);
    }
    if call.tool_name == "Bash" {
        return judge_command(call, &held);
    }
    let Some(target) = call.target() else { return Ok(Verdict::Pass) };
    let target = match resolve(&call.cwd, target) {
        Ok(target) => target,
        Err(_) if held.is_empty() && our_worktree(&call.cwd.join(target)).is_none() => return Ok(Verdict::Pass),
        Err(error) => return Err(error),
    };
    if let Some((root, feature, worker)) = worker_slot(&target) {
        return in_slot(call, &target, &root, &feature, worker, job_worktree);
    }
    if repository.is_some_and(|repository| target.starts_with(&repository.books)) {
        return Ok(Verdict::Deny(format!("{} is of the program's own books", target.display())));
    }
    if call.is_worker() && !held.is_empty() {
        let message = format!("{} is outside of your worktree, which your prompt names", target.display());
        return Ok(Verdict::Deny(message));
    }
    Ok(Verdict::Pass)
}

/// A hook sees what a command is called, not what it writes.
fn judge_command(call: &ToolUse, held: &[PathBuf]) -> Result<Verdict> {
    let line = call.tool_input["command"].as_str().unwrap_or_default();
    if pushes(line) && call.is_worker() && !held.is_empty() {
        return Ok(Verdict::Deny(NO_PUSH.to_owned()));
    }
    if let (Some(agent), Some(task)) = (&call.agent_id, asks_for(line)) {
        subagent::is_told(agent, task, &call.session_id, held)?;
    }
    Ok(Verdict::Pass)
}

const NO_PUSH: &str = "a worker does not push: the program commits and merges what it has checked";

fn in_slot(
    call: &ToolUse,
    target: &Path,
    root: &Path,
    feature: &str,
    worker: WorkerId,
    job_worktree: Option<&Path>,
) -> Result<Verdict> {
    let deny = |message: String| Ok(Verdict::Deny(message));
    let Some(repository) = Repository::at(root)? else {
        return deny(format!("{} is no repository, so nobody works there", root.display()));
    };
    let feature_dir = repository.books.join(feature);
    let Some(job_dir) = occupant(&feature_dir, worker)? else {
        return deny(format!(
            "nobody holds worker {worker} of {feature}: claim a task first (mahabharatha task claim)"
        ));
    };
    let order = Order::read(&job_dir)?;
    let is_theirs = match &order.job.doer {
        Doer::Session(session) => *session == call.session_id,
        Doer::Agent | Doer::Nobody { .. } => job_worktree.is_some_and(|worktree| worktree == order.worktree),
    };
    if !is_theirs {
        return deny(format!("worker {worker} of {feature} is at {} for somebody else", order.job.task));
    }
    if job_dir.join(FENCE).exists() {
        return deny(format!("this attempt at {} was given up; claim the task anew", order.job.task));
    }
    let Ok(inside) = target.strip_prefix(&order.worktree) else {
        return deny(format!("{} is not in {}", target.display(), order.worktree.display()));
    };
    let path = RepoPath::new(inside.as_os_str().as_encoded_bytes());
    if owner(&order.owned, &path).is_none() {
        let owned: Vec<&str> = order.owned.iter().map(|owned| owned.path.as_str()).collect();
        return deny(format!("{path} is not a file of {}: it owns {}", order.job.task, owned.join(", ")));
    }
    if let Some(agent) = &call.agent_id
        && let Some(own) = subagent::enter(agent, &job_dir, &repository.held_by(&call.session_id))?
    {
        let (task, place) = (&own.job.task, own.worktree.display());
        return deny(format!("you are at {task} in {place}: {} is for another subagent", order.job.task));
    }
    Ok(Verdict::Allow(format!("{} owns {path}", order.job.task)))
}

/// The root, the feature and the worker of a path in a worker's worktree.
fn worker_slot(path: &Path) -> Option<(PathBuf, String, WorkerId)> {
    let (root, inside) = our_worktree(path)?;
    let mut names = inside.components().map(|part| part.as_os_str().to_str());
    let (feature, slot) = (names.next()??, names.next()??);
    let worker = slot.strip_prefix("worker-")?.parse().ok()?;
    Some((root.to_owned(), feature.to_owned(), WorkerId(worker)))
}

/// A repository that features were run in.
struct Repository {
    /// `<git common dir>/mahabharatha`
    books: PathBuf,
}

impl Repository {
    /// The one that a directory lies in.
    fn around(dir: &Path) -> Result<Option<Repository>> {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let start = above_our_worktrees(&dir).unwrap_or(&dir);
        match start.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok()) {
            Some(root) => Repository::at(root),
            None => Ok(None),
        }
    }

    fn at(root: &Path) -> Result<Option<Repository>> {
        let Some(git_dir) = git_dir(root)? else { return Ok(None) };
        let common = match fs::read_to_string(git_dir.join("commondir")) {
            Ok(text) => git_dir.join(text.trim_end()),
            Err(_) => git_dir,
        };
        let books = common.join("mahabharatha");
        Ok(books.canonicalize().ok().map(|books| Repository { books }))
    }

    /// The directories of the features that a session holds.
    fn held_by(&self, session: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.books).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|dir| Lease::of(dir, session).is_some()).collect()
    }
}

/// As git finds it, without asking git.
fn git_dir(root: &Path) -> Result<Option<PathBuf>> {
    let dot_git = root.join(".git");
    match fs::read_to_string(&dot_git) {
        Ok(text) => Ok(text.trim_end().strip_prefix("gitdir: ").map(|dir| root.join(dir))),
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(Some(dot_git)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", &dot_git)(error)),
    }
}

/// Where a write really goes: links followed, `..` taken off. A path that means two places is refused.
fn resolve(cwd: &Path, path: &str) -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = match path.strip_prefix("~/") {
        Some(rest) => home().join(rest),
        None => cwd.join(path),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    let target = follow(&plain)?;
    // Where the way there is not there, no link is on it.
    if path.components().any(|part| part == Component::ParentDir) && follow(&path).is_ok_and(|found| found != target) {
        return Err(Error::new(ExitCode::Usage, format!("{} goes through a link and back", path.display())));
    }
    Ok(target)
}

/// Follows links as far as the path is there.
fn follow(path: &Path) -> Result<PathBuf> {
    let mut missing = Vec::new();
    for part in path.ancestors() {
        match part.canonicalize() {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            // A link that leads nowhere is there, and a write would follow it.
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(part).is_err() => {
                missing.push(part.file_name().ok_or_else(|| io("follow", path)(error))?);
            }
            Err(error) => return Err(io("follow", path)(error)),
        }
    }
    Ok(path.to_owned())
}

/// The task whose prompt a shell's line plainly asks for.
fn asks_for(line: &str) -> Option<&str> {
    commands(line).find_map(|command| match command.split_whitespace().collect::<Vec<_>>()[..] {
        ["mahabharatha", "task", "prompt", task, ..] => Some(task),
        _ => None,
    })
}

/// The commands on a shell's line, cut without regard to quotes.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split([';', '&', '|', '\n', '(', ')', '{', '}'])
}

/// Whether one of the commands on a shell's line is plainly a `git push`.
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
