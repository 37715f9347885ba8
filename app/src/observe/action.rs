//! What a key of the screen or the page can do to a run: always what a command does too.

use mahabharatha_core::ids::{Level, Oid, TaskId, WorkerId};
use mahabharatha_core::run::effect::{Answer, GRACE_PERIOD};
use mahabharatha_core::run::event::Command;
use mahabharatha_core::run::notes::checked_note;
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session::control;
use mahabharatha_engine::session::stop::stop;
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Cmd, bounded_text, shell_word};
use mahabharatha_sys::project::Place;

/// Bytes kept of what a command says that fails, from the beginning and the end.
const MESSAGE_BYTES: (usize, usize) = (2048, 512);

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Starts the run, or continues it, in a process of its own.
    Run,
    Retry {
        task: TaskId,
        note: String,
    },
    Skip {
        task: TaskId,
        reason: String,
        with: Vec<TaskId>,
    },
    Grant {
        task: TaskId,
        paths: Vec<String>,
    },
    Approve {
        level: Level,
        tree: Oid,
    },
    Scale {
        workers: u32,
    },
    StopWorker {
        worker: u32,
    },
    StopRun {
        force: bool,
    },
}

impl Action {
    /// Returns the same action with what the person typed.
    pub fn with_text(self, text: &str) -> Action {
        let text = text.trim().to_string();
        match self {
            Action::Retry { task, .. } => Action::Retry { task, note: text },
            Action::Skip { task, with, .. } => Action::Skip { task, reason: text, with },
            other => other,
        }
    }

    /// Returns what the person is asked to type or confirm.
    pub fn question(&self) -> String {
        match self {
            Action::Retry { task, .. } => format!("Answer or advice for {task}"),
            Action::Skip { task, with, .. } if with.is_empty() => format!("Why skip {task}?"),
            Action::Skip { task, with, .. } => {
                let with: Vec<&str> = with.iter().map(TaskId::as_str).collect();
                format!("Why skip {task}, and with it {}?", with.join(", "))
            }
            Action::Grant { task, .. } => format!("Grant {task} these files?"),
            Action::Approve { level, tree } => format!("Merge level {level} (tree {})?", tree.short()),
            Action::StopWorker { worker } => {
                format!("Stop worker {worker}? Its task goes to another, its work is kept.")
            }
            Action::Run => "Run it now? It goes on when you leave.".to_string(),
            Action::Scale { .. } | Action::StopRun { .. } => String::new(),
        }
    }

    /// Returns the command that does the same.
    pub fn command(&self, feature: &str) -> String {
        match self {
            Action::Retry { task, note } if note.is_empty() => format!("mahabharatha retry -f {feature} {task}"),
            Action::Retry { task, note } => {
                format!("mahabharatha retry -f {feature} {task} --note {}", shell_word(note))
            }
            Action::Skip { task, reason, .. } => {
                format!("mahabharatha skip -f {feature} {task} --reason {}", shell_word(reason))
            }
            Action::Grant { task, paths } => {
                let paths: Vec<String> = paths.iter().map(|path| shell_word(path)).collect();
                format!("mahabharatha task grant -f {feature} {task} -- {}", paths.join(" "))
            }
            Action::Approve { level, tree } => {
                format!("mahabharatha merge --approve={} --level {level} -f {feature}", tree.short())
            }
            Action::Run => format!("mahabharatha run {feature}"),
            Action::Scale { workers } => format!("mahabharatha scale -f {feature} {workers}"),
            Action::StopWorker { worker } => format!("mahabharatha stop {feature} --worker {worker}"),
            Action::StopRun { force: false } => format!("mahabharatha stop {feature}"),
            Action::StopRun { force: true } => format!("mahabharatha stop {feature} --force"),
        }
    }

    /// Performs the action as its command would. Returns what to tell the user.
    pub fn act(&self, place: &Place) -> Result<String> {
        let driven = control::is_driven(place)?;
        let told = match self {
            Action::Retry { task, note } => {
                let max_usd = specs::load_config(&place.project)?.budget.max_usd_per_task;
                let refused = |why: String| Error::new(Kind::Usage, why);
                let note = (!note.is_empty()).then(|| checked_note(note).map_err(refused)).transpose()?;
                accepted(control::retry(place, vec![task.clone()], max_usd, note)?, "queued again")?
            }
            Action::Skip { task, reason, .. } => {
                let (tasks, reason) = (vec![task.clone()], reason.clone());
                let command = Command::Skip { tasks, reason, keep_dependents: false };
                accepted(control::send(place, &command)?, "skipped")?
            }
            Action::Grant { task, paths } => {
                accepted(control::grant(place, task.clone(), paths)?, "granted and queued again")?
            }
            Action::Approve { level, tree } => {
                let approved = control::approve(place, Some(*level), tree.as_str())?;
                return if driven { Ok(approved) } else { merge(place, *level, approved) };
            }
            Action::Scale { workers } => {
                let ports = specs::load_config(&place.project)?.ports;
                control::scale(place, *workers, &ports)?.message.unwrap_or_default()
            }
            Action::StopWorker { worker } => match stop(place, Some(WorkerId(*worker)), false, GRACE_PERIOD, || {})? {
                true => format!("worker {worker} is stopped; its task goes to another"),
                false => "nothing runs".to_string(),
            },
            Action::Run => return run(place),
            Action::StopRun { force } => {
                let grace = if *force { std::time::Duration::ZERO } else { GRACE_PERIOD };
                return Ok(match stop(place, None, *force, grace, || {})? {
                    true => "stopped; its work is kept".to_string(),
                    false => format!("nothing runs for {}", place.feature),
                });
            }
        };
        Ok(if driven { told } else { format!("{told}. Go on with: mahabharatha run {}", place.feature) })
    }
}

/// Starts `run --detach`, which returns when the run has begun, or says why it cannot.
fn run(place: &Place) -> Result<String> {
    own_command(place, &["run", place.feature.as_str(), "--detach"])?;
    Ok(format!("{} runs", place.feature))
}

/// Merges an approved level that no process drives, unless a session merges it.
fn merge(place: &Place, level: Level, approved: String) -> Result<String> {
    let feature = &place.feature;
    if let Some(lease) = Lease::driving(place.paths.dir()) {
        return Ok(format!("{approved}. Session {} merges it with: mahabharatha merge -f {feature}", lease.session));
    }
    let merged = own_command(place, &["--quiet", "merge", "--level", &level.to_string(), "-f", feature.as_str()]);
    if merged.is_err() && control::is_driven(place)? {
        // Another process has continued the run in the meantime, and merges it.
        return Ok(approved);
    }
    merged.map_err(|error| Error::new(error.kind(), format!("{approved}, but: {error}")))?;
    let rest = match control::read_run(place)?.current_level() {
        Some(_) => format!("Go on with: mahabharatha run {feature}"),
        None => format!("{feature} is completed"),
    };
    Ok(format!("{approved} and merged. {rest}"))
}

/// Runs a command of this program on the project, in a process of its own, which does not end with this one. Fails with
/// what the command says.
fn own_command(place: &Place, args: &[&str]) -> Result<()> {
    let cannot = |error| Error::caused("cannot start a command of this program")(error);
    let cmd = Cmd::new(proc::own_program().map_err(cannot)?).arg("-C").arg(place.project.root());
    let ended = cmd.args(args).envs(std::env::vars_os().collect()).merged().run().map_err(cannot)?;
    if ended.success() {
        return Ok(());
    }
    let said = bounded_text(&ended.stdout, MESSAGE_BYTES);
    let said = said.trim();
    Err(Error::new(Kind::Failed, said.strip_prefix("error: ").unwrap_or(said).to_string()))
}

fn accepted(answer: Answer, done: &str) -> Result<String> {
    if let Some(refused) = answer.refused.first() {
        return Err(Error::new(Kind::Failed, format!("{}: {}", refused.task, refused.why)));
    }
    let tasks: Vec<&str> = answer.accepted.iter().map(TaskId::as_str).collect();
    Ok(format!("{}: {done}", tasks.join(", ")))
}
