//! `task`: the protocol by which a session runs tasks itself. It does the work, the program keeps the books.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use mahabharatha_core::ids::{Attempt, TaskId};
use mahabharatha_core::run::effect::{Doer, Refusal};
use mahabharatha_core::run::event::{Command, Intent, JobEnd, JobReport, Obstacle};
use mahabharatha_core::run::{LevelFailure, LevelStatus, Run, TaskStatus};
use mahabharatha_core::view::{Next, RunView, Step, first_line};
use serde_json::json;

use super::finish::{Driver, finish};
use super::place::Place;
use super::{Global, control};
use crate::error::{Error, ExitCode, Result};
use crate::lease::{self, Lease};
use crate::proc;
use crate::session::{self, Outcome, claims};
use crate::specs;
use crate::ui::Ui;
use crate::worker::held::{self, Check, Claimed};
use crate::worker::{JobSpec, subagents};

/// Who only does one task may take his time.
const PATIENCE_WITH_ONE: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Debug, Args)]
pub struct TaskArgs {
    /// The session that asks [else CLAUDE_CODE_SESSION_ID, else this login session]
    #[arg(long, global = true, value_name = "ID")]
    session: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open the feature's run for this session, or go on with it
    Start {
        /// How many tasks at once [default: workers.count, at most 10]
        #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
        workers: Option<u32>,
        /// Go on though gates fail on the base; those are then only reported
        #[arg(long)]
        allow_red_base: bool,
    },
    /// Say what to do next: claim, wait, merge, remedy, or that it is over
    Next,
    /// Take tasks: each gets a worktree, held until it is completed or given up
    Claim {
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<String>,
    },
    /// Print what whoever does the task is to be told
    Prompt {
        #[arg(value_name = "TASK")]
        task: String,
    },
    /// Check ownership and verification; the task stays held
    Verify {
        #[arg(value_name = "TASK")]
        task: String,
    },
    /// Check, verify and commit what was done
    Complete {
        #[arg(value_name = "TASK")]
        task: String,
        /// What later tasks must know; may be given several times
        #[arg(long, value_name = "TEXT")]
        decision: Vec<String>,
    },
    /// Give the attempt up; what was done is kept
    Fail {
        #[arg(value_name = "TASK")]
        task: String,
        /// What went wrong: the next attempt is told
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// It cannot be done: no other attempt before a person has looked
        #[arg(long)]
        blocked: bool,
    },
    /// List the tasks and who holds them
    List,
}

impl TaskArgs {
    /// Whether it names a session, rather than being the one that it is called from.
    pub fn acts_as_another(&self) -> bool {
        self.session.is_some()
    }

    /// Whether a subagent may call it for the task that it works on.
    pub fn is_for_subagents(&self) -> bool {
        matches!(self.verb, Verb::Prompt { .. } | Verb::Verify { .. } | Verb::List)
    }
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &TaskArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    let name = session_name(args.session.as_deref());
    lease::check_name(&name)?;
    lease::renew(place.paths.dir(), &name);
    let caller = Caller { place: &place, ui, name };
    let paused = |error: Error| if error.is_lack_of_space() { error.with_exit(ExitCode::Paused) } else { error };
    caller.act(&args.verb).map_err(paused)
}

/// Which session it is that calls.
pub fn session_name(asked: Option<&str>) -> String {
    let of_client = || std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.trim().is_empty());
    let of_login = || format!("login-{}", proc::login_session());
    asked.map(str::to_owned).or_else(of_client).unwrap_or_else(of_login)
}

struct Caller<'a> {
    place: &'a Place,
    ui: &'a Arc<Ui>,
    name: String,
}

/// An attempt that this session holds.
struct Held {
    task: TaskId,
    attempt: Attempt,
    dir: PathBuf,
}

impl Caller<'_> {
    fn act(&self, verb: &Verb) -> Result<ExitCode> {
        match verb {
            Verb::Start { workers, allow_red_base } => self.start(*workers, *allow_red_base),
            Verb::Next => self.next(),
            Verb::Claim { tasks } => self.claim(control::task_ids(tasks)?),
            Verb::Prompt { task } => self.prompt(task),
            Verb::Verify { task } => self.verify(task),
            Verb::Complete { task, decision } => self.end(task, Claimed::Done, decision),
            Verb::Fail { task, reason, blocked: false } => self.end(task, Claimed::Failed(reason.clone()), &[]),
            Verb::Fail { task, reason, blocked: true } => self.end(task, Claimed::Blocked(reason.clone()), &[]),
            Verb::List => self.list(),
        }
    }

    fn start(&self, workers: Option<u32>, allow_red_base: bool) -> Result<ExitCode> {
        let Caller { place, ui, .. } = self;
        let config = specs::load_config(&place.project)?;
        let workers = Some(workers.unwrap_or(config.workers.count).min(10));
        let lease = Lease { drives: true, workers, allow_red_base, ..self.new_lease(config.workers.timeout) };
        match session::run(&place.project, &place.paths, ui, &claims::options(&lease, Intent::Session(None)))? {
            Outcome::AlreadyCompleted | Outcome::Open => self.next(),
            Outcome::Ended(end) => {
                self.end_lease_unless(|lease, holds| holds && lease.drives)?;
                finish(place, ui, &end, Driver::Opening)
            }
        }
    }

    fn new_lease(&self, patience: Duration) -> Lease {
        let in_client = std::env::var_os("CLAUDE_CODE_SESSION_ID").is_some();
        Lease {
            session: self.name.clone(),
            drives: false,
            workers: None,
            allow_red_base: false,
            patience_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            client: in_client.then(|| proc::ancestor_without("CLAUDECODE")).flatten(),
        }
    }

    /// The session's own lease, or one for the tasks that it is about to claim.
    fn lease(&self) -> Lease {
        Lease::of(self.place.paths.dir(), &self.name).unwrap_or_else(|| self.new_lease(PATIENCE_WITH_ONE))
    }

    fn next(&self) -> Result<ExitCode> {
        let Caller { place, ui, .. } = self;
        let lease = self.lease();
        let run = if lease.drives {
            claims::refresh(&place.project, &place.paths, ui, &lease)?
        } else {
            control::read_run(place)?
        };
        let next = Next::of(&run);
        if ui.json() {
            ui.data(&(serde_json::to_string_pretty(&next).expect("a step has string keys only") + "\n"));
        } else {
            ui.data(&say(&next));
        }
        if next.step == Step::Completed && lease.drives {
            // The session still has to report on the run, without permission prompts.
            Lease { drives: false, ..lease }.write(place.paths.dir())?;
        }
        Ok(match (next.step, run.current_level().map(|level| &level.status)) {
            (Step::Failed, Some(LevelStatus::Failed { failure: LevelFailure::Obstacle(obstacle) })) => match obstacle {
                Obstacle::Conflict { .. } => ExitCode::Conflict,
                _ => ExitCode::Paused,
            },
            (Step::Blocked, _) => ExitCode::Blocked,
            (Step::Failed, _) if next.tasks.is_empty() => ExitCode::Gate,
            (Step::Failed, _) => ExitCode::Failed,
            _ => ExitCode::Done,
        })
    }

    fn claim(&self, tasks: Vec<TaskId>) -> Result<ExitCode> {
        let Caller { place, ui, name } = self;
        control::read_run(place)?;
        let lease = self.lease();
        if Lease::of(place.paths.dir(), name).is_none() {
            lease.write(place.paths.dir())?;
        }
        let command = Command::Claim { tasks, session: name.clone() };
        let answer = claims::ask(&place.project, &place.paths, ui, &lease, command);
        self.drop_idle_lease()?;
        let answer = answer?;
        let run = control::read_run(place)?;
        let (mut claimed, mut refused) = (Vec::new(), answer.refused);
        for task in answer.accepted {
            let ready = held_by(&run, name, &task).map_err(|error| why_not_begun(&run, &task).unwrap_or(error));
            let ready = ready.and_then(|attempt| {
                let dir = place.paths.job(&task, attempt);
                for warning in held::make_ready(&dir)? {
                    ui.warn(&warning);
                }
                JobSpec::read(&dir)
            });
            match ready {
                Ok(spec) => claimed.push(spec),
                Err(error) => refused.push(Refusal { task, why: error.to_string() }),
            }
        }
        self.print_claims(&claimed, &refused);
        Ok(if refused.is_empty() { ExitCode::Done } else { ExitCode::Failed })
    }

    fn print_claims(&self, claimed: &[JobSpec], refused: &[Refusal]) {
        let ui = self.ui;
        if ui.json() {
            let claimed: Vec<_> = claimed
                .iter()
                .map(|spec| {
                    let branch = spec.branch.trim_start_matches("refs/heads/");
                    json!({ "task": spec.job.task, "attempt": spec.job.attempt, "worktree": spec.worktree, "branch": branch })
                })
                .collect();
            ui.data(&(json!({ "claimed": claimed, "refused": refused }).to_string() + "\n"));
            return;
        }
        for spec in claimed {
            ui.data(&format!("{} attempt {}: {}\n", spec.job.task, spec.job.attempt, spec.worktree.display()));
        }
        for refusal in refused {
            ui.warn(&format!("{}: not claimed: {}", refusal.task, refusal.why));
        }
    }

    /// The attempt that this session holds at a task.
    fn attempt_at(&self, task: &str) -> Result<Held> {
        let task = TaskId::new(task.to_string()).map_err(|bad| Error::new(ExitCode::Usage, bad.to_string()))?;
        let attempt = held_by(&control::read_run(self.place)?, &self.name, &task)?;
        let dir = self.place.paths.job(&task, attempt);
        Ok(Held { task, attempt, dir })
    }

    fn prompt(&self, task: &str) -> Result<ExitCode> {
        let held = self.attempt_at(task)?;
        let text = held::prompt_text(&held.dir)?;
        let data = match self.ui.json() {
            true => json!({ "task": held.task, "attempt": held.attempt, "prompt": text }).to_string(),
            false => text,
        };
        self.ui.data(&data);
        Ok(ExitCode::Done)
    }

    fn verify(&self, task: &str) -> Result<ExitCode> {
        let held = self.attempt_at(task)?;
        let check = check(self.place, &held.dir)?;
        if self.ui.json() {
            self.ui.data(&(serde_json::to_string_pretty(&check).expect("a check has string keys only") + "\n"));
        } else if check.passed() {
            self.ui.data(&format!("{}: inside its files, and its verification passes\n", held.task));
        } else {
            self.ui.data(&objections(&check).join("\n"));
        }
        Ok(if check.passed() { ExitCode::Done } else { ExitCode::Failed })
    }

    fn end(&self, task: &str, claimed: Claimed, decisions: &[String]) -> Result<ExitCode> {
        let Caller { place, ui, .. } = self;
        let wanted_done = matches!(claimed, Claimed::Done);
        let Held { task, attempt, dir } = match self.attempt_at(task) {
            Err(error) if error.exit() == ExitCode::Invalid && wanted_done => {
                return self.repeat_completion(task, error);
            }
            held => held?,
        };
        if wanted_done {
            refuse_while_working(&task, &dir)?;
        }
        let decisions = decisions.to_vec();
        let report = with_ports(place, |ports| held::end(&dir, claimed, ports, decisions))?;
        let command = Command::Finish { task: task.clone(), attempt, report: Box::new(report.clone()) };
        let answer = claims::ask(&place.project, &place.paths, ui, &self.lease(), command)?;
        if let Some(refusal) = answer.refused.first() {
            return Err(Error::new(ExitCode::Held, format!("{task}: {}", refusal.why)));
        }
        self.drop_idle_lease()?;
        let run = control::read_run(place)?;
        self.print_end(&run, &task, attempt, &report, answer.message.as_deref());
        let good = (matches!(report.end, JobEnd::Done { .. }) && answer.message.is_none()) || !wanted_done;
        Ok(if good { ExitCode::Done } else { ExitCode::Failed })
    }

    /// A completion of this session that was cut off, and is asked for once more, may have been told to the run.
    fn repeat_completion(&self, task: &str, not_held: Error) -> Result<ExitCode> {
        let run = control::read_run(self.place)?;
        let tasks = run.graph().tasks().iter().zip(run.tasks());
        let mut completed = tasks.filter(|(_, state)| matches!(state.status, TaskStatus::Completed { .. }));
        let Some((id, last)) = completed
            .find(|(of, _)| of.id.as_str() == task)
            .and_then(|(of, state)| Some((&of.id, state.attempts.last()?)))
        else {
            return Err(not_held);
        };
        let doer = JobSpec::read(&self.place.paths.job(id, last.attempt)).map(|spec| spec.job.doer);
        match &last.ended {
            Some((_, report @ JobReport { end: JobEnd::Done { .. }, .. }))
                if doer.is_ok_and(|doer| doer == Doer::Session(self.name.clone())) =>
            {
                self.print_end(&run, id, last.attempt, report, None);
                Ok(ExitCode::Done)
            }
            _ => Err(not_held),
        }
    }

    /// Who only did one task, and has done it, holds nothing any more.
    fn drop_idle_lease(&self) -> Result<()> {
        self.end_lease_unless(|lease, holds| holds || lease.drives)
    }

    fn end_lease_unless(&self, needed: impl Fn(&Lease, bool) -> bool) -> Result<()> {
        let dir = self.place.paths.dir();
        let holds = || -> Result<bool> { Ok(control::read_run(self.place)?.held().any(|(_, by)| by == self.name)) };
        let Some(lease) = Lease::of(dir, &self.name) else { return Ok(()) };
        if needed(&lease, holds()?) {
            return Ok(());
        }
        lease::end(dir, &self.name)?;
        // Another call of the same session may have claimed something in between.
        if holds()? { lease.write(dir) } else { Ok(()) }
    }

    fn print_end(&self, run: &Run, task: &TaskId, attempt: Attempt, report: &JobReport, not_taken: Option<&str>) {
        let state = run.task(task);
        let failures = state.map_or(0, |state| state.failures);
        let blocked = state.is_some_and(|state| matches!(state.status, TaskStatus::Blocked { .. }));
        let tries_left = if blocked { 0 } else { run.policy().max_attempts.saturating_sub(failures) };
        let (result, commit, feedback, strays) = match &report.end {
            JobEnd::Done { commit } if not_taken.is_none() => ("completed", Some(commit), None, &[][..]),
            JobEnd::Done { commit } => ("failed", Some(commit), not_taken, &[][..]),
            JobEnd::Failed { feedback, strays, .. } => ("failed", None, Some(feedback.as_str()), &strays[..]),
            JobEnd::Blocked { reason } => ("blocked", None, Some(reason.as_str()), &[][..]),
            _ => ("failed", None, None, &[][..]),
        };
        if self.ui.json() {
            let end = json!({ "task": task, "attempt": attempt, "result": result, "commit": commit, "feedback": feedback,
                "strays": strays, "tries_left": tries_left });
            self.ui.data(&(end.to_string() + "\n"));
            return;
        }
        match commit.filter(|_| not_taken.is_none()) {
            Some(commit) => self.ui.data(&format!("{task} is completed: {}\n", commit.short())),
            None => self.ui.data(&format!("{task} attempt {attempt}: {result}\n{}\n", feedback.unwrap_or_default())),
        }
        if result == "failed" {
            let tries = if state.is_none() {
                "it is no longer to be done".to_string()
            } else if tries_left == 0 {
                "it is blocked now".to_string()
            } else {
                format!("claim it again to try once more ({tries_left} left)")
            };
            self.ui.note(&format!("{task}: {tries}; what was done is kept"));
        }
    }

    fn list(&self) -> Result<ExitCode> {
        let Caller { place, ui, .. } = self;
        let run = control::read_run(place)?;
        let view = RunView::of(&run);
        let worktrees: BTreeMap<&TaskId, PathBuf> =
            run.held().map(|(job, _)| (&job.task, place.paths.worktree(job.worker))).collect();
        if ui.json() {
            let tasks: Vec<_> = view
                .tasks
                .iter()
                .map(|task| {
                    json!({ "id": task.id, "title": task.title, "level": task.level, "status": task.status, "worker": task.worker,
                        "worktree": worktrees.get(&task.id), "session": task.session, "reason": task.reason })
                })
                .collect();
            ui.data(&(json!({ "tasks": tasks }).to_string() + "\n"));
            return Ok(ExitCode::Done);
        }
        for task in &view.tasks {
            let reason = task.reason.as_deref().map(|reason| format!(": {}", first_line(reason))).unwrap_or_default();
            let place = worktrees.get(&task.id).map(|path| format!(" in {}", path.display())).unwrap_or_default();
            ui.data(&format!("L{} {:<11} {} {}{place}{reason}\n", task.level, task.status, task.id, task.title));
        }
        Ok(ExitCode::Done)
    }
}

/// Ports for the verification, held as long as it takes.
fn with_ports<T>(place: &Place, act: impl FnOnce(Vec<u16>) -> Result<T>) -> Result<T> {
    let config = specs::load_config(&place.project)?;
    let leases = session::lease_ports(&place.project, &config, 1)?;
    act(leases.iter().flat_map(|lease| lease.ports.clone()).collect())
}

/// What stands against completing an attempt that a session holds.
pub fn check(place: &Place, job_dir: &Path) -> Result<Check> {
    with_ports(place, |ports| held::check(job_dir, ports))
}

pub fn objections(check: &Check) -> Vec<String> {
    let strays = check.strays.iter().map(|stray| format!("not the task's: {stray}"));
    let missing = check.missing.iter().map(|missing| format!("to be created, and not there: {missing}"));
    strays.chain(missing).chain(check.verification.clone()).collect()
}

/// A completion that comes before the subagent has stopped costs no attempt: it is refused before anything is checked.
fn refuse_while_working(task: &TaskId, job_dir: &Path) -> Result<()> {
    let working = subagents::working(job_dir);
    if working.is_empty() {
        return Ok(());
    }
    let message = format!("{task} cannot be completed yet: its subagent ({}) is still working", working.join(", "));
    Err(Error::new(ExitCode::Held, message).hint(
        format!(
            "End your turn now and complete the task when you are notified that the subagent has finished; nothing was checked, \
             and no attempt was used up. If the subagent is gone: mahabharatha task fail {task} --reason 'it was stopped'."
        ),
    ))
}

/// What was in the way of an attempt that ended as it began.
fn why_not_begun(run: &Run, task: &TaskId) -> Option<Error> {
    let (_, report) = run.task(task)?.attempts.last()?.ended.as_ref()?;
    let why = report.warnings.first().filter(|_| matches!(report.end, JobEnd::Died { .. } | JobEnd::Interrupted))?;
    Some(Error::new(ExitCode::Failed, why.clone()))
}

fn held_by(run: &Run, session: &str, task: &TaskId) -> Result<Attempt> {
    match run.held().find(|(job, _)| job.task == *task) {
        Some((job, by)) if by == session => Ok(job.attempt),
        Some((_, by)) => Err(Error::new(ExitCode::Held, format!("{task} is held by another session ({by})"))
            .hint("`mahabharatha task list` shows who holds what.")),
        None if run.task(task).is_none() => Err(control::no_such_task(run, task.as_str())),
        None => Err(Error::new(ExitCode::Invalid, format!("{task} is not held by this session ({session})"))
            .hint(format!("mahabharatha task claim {task}"))),
    }
}

fn say(next: &Next) -> String {
    let level = next.level.map(|level| format!("level {level}: ")).unwrap_or_default();
    let tasks: Vec<&str> = next.tasks.iter().map(TaskId::as_str).collect();
    let under_way: Vec<&str> = next.in_progress.iter().map(TaskId::as_str).collect();
    let what = match next.step {
        Step::Start => "the run is not open".to_string(),
        Step::Claim => format!("claim {}", tasks.join(", ")),
        Step::Wait => format!("wait for {}", under_way.join(", ")),
        Step::Merge => "every task is done: merge".to_string(),
        Step::Remedy => format!("{} is to mend a gate that failed", tasks.join(", ")),
        Step::Completed => return format!("{} is completed\n", next.feature),
        Step::Blocked => format!("only blocked tasks are left: {}", tasks.join(", ")),
        Step::Failed => "failed".to_string(),
    };
    let why = next.why.as_deref().map(|why| format!("{why}\n")).unwrap_or_default();
    let command = next.command.as_deref().map(|command| format!("  {command}\n")).unwrap_or_default();
    format!("{level}{what}\n{why}{command}")
}
