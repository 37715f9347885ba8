//! Judges what a Claude Code session is about to do, before it does it: writes in a worker's worktree, and shell commands.
//!
//! Called by the `PreToolUse` hook before every write and shell command of every session, so it starts no process and
//! reads a few small files at most. A session that works on no task of ours is left alone. This tells an agent early; what
//! guarantees ownership is the check of the whole worktree when a task is completed.

mod plain;

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::effect::Doer;
use mahabharatha_sys::error::{Error, ExitCode, Result, io};
use mahabharatha_sys::git::RepoPath;
use mahabharatha_sys::project::{above_our_worktrees, our_worktree};
use mahabharatha_sys::store::bounded::{SMALL_FILE_BYTES, read_to_string};
use serde::Deserialize;
use serde_json::Value;

use crate::lease::{self, Lease};
use crate::worker::subagents::{PromptCall, Session};
use crate::worker::{FENCE, JobSpec, occupant, owner};

/// What the client says before it uses a tool.
#[derive(Debug, Deserialize)]
pub struct ToolUse {
    pub session_id: String,
    pub cwd: PathBuf,
    /// The subagent that uses it; none where the session itself does.
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
    /// The user need not be asked.
    Allow(String),
    Deny(String),
}

/// What a call of this program would do, as far as it matters whether the user must be asked first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCall {
    /// The feature that it is about.
    pub feature: String,
    /// Whether a subagent may make it: one that only reads, or checks the subagent's own work.
    pub for_subagents: bool,
}

/// The surroundings of a tool use.
pub struct Setting<'a> {
    /// The worktree of the job that the session runs in.
    pub job_worktree: Option<&'a Path>,
    /// Parses a call of this program; `None` unless it may run without asking the user.
    pub own_call: &'a dyn Fn(&[String]) -> Option<OwnCall>,
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

    /// Whether a shell command is to run as usual, without any option such as one that turns the client's sandbox off.
    fn has_usual_input(&self) -> bool {
        const USUAL: [&str; 4] = ["command", "description", "timeout", "run_in_background"];
        self.tool_input.as_object().is_some_and(|input| input.keys().all(|key| USUAL.contains(&key.as_str())))
    }

    /// Whether a subagent that performs tasks uses the tool. The second name is the one that a plugin gives it.
    fn is_worker(&self) -> bool {
        matches!(self.agent_type.as_deref(), Some("worker" | "mahabharatha:worker"))
    }
}

/// Directories of the features that a session holds in the repository around a directory.
pub fn features_held(cwd: &Path, session: &str) -> Vec<PathBuf> {
    let repository = Repository::around(cwd).ok().flatten();
    repository.map(|repository| repository.held_by(session)).unwrap_or_default()
}

/// Directories of all features that were run in the repository around a directory.
pub fn features(cwd: &Path) -> Vec<PathBuf> {
    let repository = Repository::around(cwd).ok().flatten();
    repository.map(|repository| repository.features().collect()).unwrap_or_default()
}

/// Directories of the features that any session holds in the repository around a directory.
pub fn features_with_sessions(cwd: &Path) -> Vec<PathBuf> {
    features(cwd).into_iter().filter(|dir| !Lease::all_alive(dir).is_empty()).collect()
}

/// Judges a tool use, and renews the leases of the session.
pub fn judge(call: &ToolUse, setting: &Setting<'_>) -> Result<Verdict> {
    let held = features_held(&call.cwd, &call.session_id);
    for feature_dir in &held {
        lease::renew(feature_dir, &call.session_id);
    }
    if held.is_empty() && setting.job_worktree.is_none() && !call.is_worker() {
        return Ok(Verdict::Pass);
    }
    if call.tool_name == "Bash" {
        return judge_command(call, &held, setting);
    }
    let Some(target) = call.target() else { return Ok(Verdict::Pass) };
    let target = match resolve(&call.cwd, target) {
        Ok(target) => target,
        Err(_) if held.is_empty() && our_worktree(&call.cwd.join(target)).is_none() => return Ok(Verdict::Pass),
        Err(error) => return Err(error),
    };
    if let Some(slot) = Slot::around(&target) {
        return slot.judge(call, &target, setting.job_worktree);
    }
    if held.is_empty() {
        return Ok(Verdict::Pass);
    }
    if Repository::around(&call.cwd)?.is_some_and(|repository| target.starts_with(&repository.books)) {
        return Ok(Verdict::Deny(format!("{} belongs to the program itself", target.display())));
    }
    if call.is_worker() {
        let message = format!("{} is outside of your worktree, which your prompt names", target.display());
        return Ok(Verdict::Deny(message));
    }
    Ok(Verdict::Pass)
}

/// A hook sees which command is called, not what it writes.
fn judge_command(call: &ToolUse, held: &[PathBuf], setting: &Setting<'_>) -> Result<Verdict> {
    if held.is_empty() {
        return Ok(Verdict::Pass);
    }
    let line = call.tool_input["command"].as_str().unwrap_or_default();
    if pushes(line) && call.is_worker() {
        return Ok(Verdict::Deny(NO_PUSH.to_owned()));
    }
    let session = Session { id: &call.session_id, features: held };
    if let (Some(agent), Some(asked)) = (&call.agent_id, prompt_asked_for(line)) {
        session.begins(agent, &asked)?;
    }
    let own = plain::words(line).filter(|_| call.has_usual_input()).and_then(|words| (setting.own_call)(&words));
    let is_held = |feature: &str| held.iter().any(|dir| dir.file_name().is_some_and(|name| name == feature));
    match own {
        Some(own) if (own.for_subagents || call.agent_id.is_none()) && is_held(&own.feature) => {
            Ok(Verdict::Allow("this session runs the feature's tasks".to_owned()))
        }
        _ => Ok(Verdict::Pass),
    }
}

const NO_PUSH: &str = "a worker does not push: the program commits and merges what it has checked";

/// A worker's worktree.
#[derive(Debug, PartialEq, Eq)]
struct Slot {
    root: PathBuf,
    feature: String,
    worker: WorkerId,
}

impl Slot {
    /// The one that a path is in.
    fn around(path: &Path) -> Option<Slot> {
        let (root, inside) = our_worktree(path)?;
        let mut names = inside.components().map(|part| part.as_os_str().to_str());
        let (feature, slot) = (names.next()??, names.next()??);
        let worker = slot.strip_prefix("worker-")?.parse().ok()?;
        Some(Slot { root: root.to_owned(), feature: feature.to_owned(), worker: WorkerId(worker) })
    }

    /// Judges a write in it.
    fn judge(&self, call: &ToolUse, target: &Path, job_worktree: Option<&Path>) -> Result<Verdict> {
        let Slot { root, feature, worker } = self;
        let deny = |message: String| Ok(Verdict::Deny(message));
        let Some(repository) = Repository::at(root)? else { return Ok(Verdict::Pass) };
        let Some(job_dir) = occupant(&repository.books.join(feature), *worker)? else {
            return deny(format!(
                "no task is claimed in the worktree of worker {worker} of {feature}: mahabharatha task claim TASK"
            ));
        };
        let spec = JobSpec::read(&job_dir)?;
        let is_theirs = match &spec.job.doer {
            Doer::Session(session) => *session == call.session_id,
            Doer::Agent | Doer::Nobody { .. } => job_worktree.is_some_and(|worktree| worktree == spec.worktree),
        };
        if !is_theirs {
            return deny(format!("worker {worker} of {feature} is at {} for another session", spec.job.task));
        }
        if job_dir.join(FENCE).exists() {
            return deny(format!("this attempt at {} was given up; claim the task again", spec.job.task));
        }
        let Ok(inside) = target.strip_prefix(&spec.worktree) else {
            return deny(format!("{} is not in {}", target.display(), spec.worktree.display()));
        };
        let path = RepoPath::new(inside.as_os_str().as_encoded_bytes());
        if owner(&spec.owned, &path).is_none() {
            let owned: Vec<&str> = spec.owned.iter().map(|owned| owned.path.as_str()).collect();
            return deny(format!("{path} is not a file of {}: it owns {}", spec.job.task, owned.join(", ")));
        }
        let features = repository.held_by(&call.session_id);
        let session = Session { id: &call.session_id, features: &features };
        if let Some(agent) = &call.agent_id
            && let Some(own) = session.enters(agent, &job_dir)?
        {
            let (task, place) = (&own.job.task, own.worktree.display());
            return deny(format!("you work on {task} in {place}: {} is for another subagent", spec.job.task));
        }
        Ok(Verdict::Allow(format!("{} owns {path}", spec.job.task)))
    }
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
        let common = match read_to_string(&git_dir.join("commondir"), SMALL_FILE_BYTES) {
            Ok(text) => git_dir.join(text.trim_end()),
            Err(_) => git_dir,
        };
        let books = common.join("mahabharatha");
        Ok(books.canonicalize().ok().map(|books| Repository { books }))
    }

    /// The directories of the features that a session holds.
    fn held_by(&self, session: &str) -> Vec<PathBuf> {
        self.features().filter(|dir| Lease::of(dir, session).is_some()).collect()
    }

    fn features(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.books).into_iter().flatten().flatten().map(|entry| entry.path())
    }
}

/// As git finds it, without asking git.
fn git_dir(root: &Path) -> Result<Option<PathBuf>> {
    let dot_git = root.join(".git");
    match read_to_string(&dot_git, SMALL_FILE_BYTES) {
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

/// The task whose prompt a text calls for with `mahabharatha task prompt`: a shell command, or the prompt of a subagent.
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
