//! `task`: the protocol by which a session runs tasks itself. The session does the work; this program assigns, checks
//! and records it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use mahabharatha_core::excerpt::summary;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::event::{JobEnd, Obstacle};
use mahabharatha_core::run::{LevelFailure, LevelStatus, TaskStatus};
use mahabharatha_core::view::{Next, RunView, Step};
use mahabharatha_engine::session::caller::{self, Caller, Claims, Finished};
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::worker::held::{self, Claimed};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::exit::ExitCode;
use super::finish::{Driver, finish};
use super::{Global, answer};

#[derive(Debug, Args)]
pub struct TaskArgs {
    /// The calling session [default: CLAUDE_CODE_SESSION_ID, else this login session]
    #[arg(long, global = true, value_name = "ID")]
    session: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open the feature's run for this session, or resume it
    Start {
        /// Tasks at once [default: workers.count, at most 10]
        #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
        workers: Option<u32>,
        /// Run even if a gate fails on the base; such gates are only reported
        #[arg(long)]
        allow_red_base: bool,
        /// Resume with a configuration that changed since the run began
        #[arg(long)]
        accept_config: bool,
    },
    /// Print the next step: claim, wait, merge, fix, or that the run is over
    Next,
    /// Claim tasks: each gets a worktree until it is completed or failed
    Claim {
        /// Ids of the tasks
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<String>,
    },
    /// Print the prompt for the subagent or person that does the task
    Prompt {
        /// Id of the task
        #[arg(value_name = "TASK")]
        task: String,
    },
    /// Check ownership and run the verification; the task stays claimed
    Verify {
        /// Id of the task
        #[arg(value_name = "TASK")]
        task: String,
    },
    /// Check, verify and commit the work
    Complete {
        /// Id of the task
        #[arg(value_name = "TASK")]
        task: String,
        /// A decision that later tasks must know; may be repeated
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        decision: Vec<String>,
    },
    /// End the attempt as failed; its work is kept
    Fail {
        /// Id of the task
        #[arg(value_name = "TASK")]
        task: String,
        /// What went wrong, for the next attempt
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        reason: String,
        /// Block the task: no other attempt until a person retries it
        #[arg(long)]
        blocked: bool,
    },
    /// Let a task change files that it does not own; a blocked task is queued again
    #[command(after_help = super::examples::TASK_GRANT)]
    Grant {
        /// Id of the task
        #[arg(value_name = "TASK")]
        task: String,
        /// Files, or directories with a trailing `/`, as in a task graph; all of them or none
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
    },
    /// List the tasks and the sessions that hold them
    List,
}

impl TaskArgs {
    /// Tells whether only the user may decide on the call: it names another session, accepts a configuration or grants files.
    pub fn needs_user(&self) -> bool {
        self.session.is_some() || matches!(self.verb, Verb::Start { accept_config: true, .. } | Verb::Grant { .. })
    }

    /// Tells whether a subagent may call it for its own task.
    pub fn is_for_subagents(&self) -> bool {
        matches!(self.verb, Verb::Prompt { .. } | Verb::Verify { .. } | Verb::List)
    }
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &TaskArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    if let Verb::Grant { task, paths } = &args.verb {
        return grant(&place, ui, task, paths);
    }
    let caller = Caller::new(&place, ui, args.session.as_deref())?;
    let call = Call { place: &place, ui, caller };
    call.run(&args.verb).map_err(session::paused)
}

struct Call<'a> {
    place: &'a Place,
    ui: &'a Arc<Ui>,
    caller: Caller<'a>,
}

impl Call<'_> {
    fn run(&self, verb: &Verb) -> Result<ExitCode> {
        match verb {
            Verb::Start { workers, allow_red_base, accept_config } => {
                match self.caller.start(*workers, *allow_red_base, *accept_config)? {
                    None => self.next(),
                    Some(end) => finish(self.place, self.ui, &end, Driver::Opening),
                }
            }
            Verb::Next => self.next(),
            Verb::Claim { tasks } => {
                let tasks = answer::task_ids(tasks)?;
                answer::check_tasks(&control::read_run(self.place)?, &tasks)?;
                let claims = self.caller.claim(tasks)?;
                self.print_claims(&claims);
                Ok(if claims.refused.is_empty() { ExitCode::Done } else { ExitCode::Failed })
            }
            Verb::Prompt { task } => self.prompt(task),
            Verb::Verify { task } => self.verify(task),
            Verb::Complete { task, decision } => self.end(task, Claimed::Done, decision),
            Verb::Fail { task, reason, blocked: false } => self.end(task, Claimed::Failed(reason.clone()), &[]),
            Verb::Fail { task, reason, blocked: true } => self.end(task, Claimed::Blocked(reason.clone()), &[]),
            Verb::List => self.list(),
            Verb::Grant { task, paths } => grant(self.place, self.ui, task, paths),
        }
    }

    fn next(&self) -> Result<ExitCode> {
        let (next, run) = self.caller.next()?;
        if self.ui.json() {
            self.ui.pretty(&next);
        } else {
            self.ui.data(&next_text(&next));
        }
        Ok(match (next.step, run.current_level().map(|level| &level.status)) {
            (Step::Failed, Some(LevelStatus::Failed { failure: LevelFailure::Obstacle(obstacle) })) => match obstacle {
                Obstacle::Conflict { .. } => ExitCode::Conflict,
                _ => ExitCode::Paused,
            },
            (Step::Blocked, Some(LevelStatus::AwaitingApproval { .. })) => ExitCode::Paused,
            (Step::Blocked, _) => ExitCode::Blocked,
            (Step::Failed, _) if next.tasks.is_empty() => ExitCode::Gate,
            (Step::Failed, _) => ExitCode::Failed,
            _ => ExitCode::Done,
        })
    }

    fn print_claims(&self, Claims { claimed, refused }: &Claims) {
        let ui = self.ui;
        if ui.json() {
            let claimed: Vec<_> = claimed
                .iter()
                .map(|spec| {
                    let branch = short_branch(&spec.branch);
                    json!({ "task": spec.job.task, "attempt": spec.job.attempt, "worktree": spec.worktree, "branch": branch })
                })
                .collect();
            ui.data(&json!({ "claimed": claimed, "refused": refused }).to_string());
            return;
        }
        for spec in claimed {
            ui.data(&format!("{} attempt {}: {}\n", spec.job.task, spec.job.attempt, spec.worktree.display()));
        }
        if let [first, others @ ..] = &claimed[..] {
            let task = if others.is_empty() { first.job.task.as_str() } else { "TASK" };
            ui.note(&format!("work there, then: mahabharatha task complete -f {} {task}", self.place.feature));
        }
        for refusal in refused {
            ui.warn(&format!("{}: not claimed: {}", refusal.task, refusal.why));
        }
    }

    fn prompt(&self, task: &str) -> Result<ExitCode> {
        let held = self.caller.attempt_at(task)?;
        let text = held::prompt_text(&held.dir)?;
        let data = match self.ui.json() {
            true => json!({ "task": held.task, "attempt": held.attempt, "prompt": text }).to_string(),
            false => text,
        };
        self.ui.data(&data);
        Ok(ExitCode::Done)
    }

    fn verify(&self, task: &str) -> Result<ExitCode> {
        let held = self.caller.attempt_at(task)?;
        let check = caller::check(self.place, &held.dir)?;
        if self.ui.json() {
            self.ui.pretty(&check);
        } else if check.passed() {
            self.ui.data(&format!("{}: inside its files, and its verification passes\n", held.task));
        } else {
            self.ui.data(&check.objections().join("\n"));
        }
        Ok(if check.passed() { ExitCode::Done } else { ExitCode::Failed })
    }

    fn end(&self, task: &str, claimed: Claimed, decisions: &[String]) -> Result<ExitCode> {
        let wants_done = matches!(claimed, Claimed::Done);
        let finished = self.caller.end(task, claimed, decisions.to_vec())?;
        self.print_end(&finished);
        let is_done = matches!(finished.report.end, JobEnd::Done { .. }) && finished.rejected.is_none();
        Ok(if is_done || !wants_done { ExitCode::Done } else { ExitCode::Failed })
    }

    fn print_end(&self, Finished { run, task, attempt, report, rejected }: &Finished) {
        let rejected = rejected.as_deref();
        let state = run.task(task);
        let failures = state.map_or(0, |state| state.failures);
        let blocked = state.is_some_and(|state| matches!(state.status, TaskStatus::Blocked { .. }));
        let tries_left = if blocked { 0 } else { run.policy().max_attempts.saturating_sub(failures) };
        let (result, commit, feedback, strays) = match &report.end {
            JobEnd::Done { commit } if rejected.is_none() => ("completed", Some(commit), None, &[][..]),
            JobEnd::Done { commit } => ("failed", Some(commit), rejected, &[][..]),
            JobEnd::Failed { feedback, strays, .. } => ("failed", None, Some(feedback.as_str()), &strays[..]),
            JobEnd::Blocked { reason } => ("blocked", None, Some(reason.as_str()), &[][..]),
            _ => ("failed", None, None, &[][..]),
        };
        if self.ui.json() {
            let end = json!({ "task": task, "attempt": attempt, "result": result, "commit": commit, "feedback": feedback,
                "strays": strays, "tries_left": tries_left });
            self.ui.data(&end.to_string());
            return;
        }
        match commit.filter(|_| rejected.is_none()) {
            Some(commit) => self.ui.data(&format!("{task} is completed: {}\n", commit.short())),
            None => {
                let feedback = report.with_hint(feedback.unwrap_or_default());
                self.ui.data(&format!("{task} attempt {attempt}: {result}\n{feedback}\n"));
            }
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
        let Call { place, ui, .. } = self;
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
            ui.data(&json!({ "tasks": tasks }).to_string());
            return Ok(ExitCode::Done);
        }
        for task in &view.tasks {
            let reason = task.reason.as_deref().map(|reason| format!(": {}", summary(reason))).unwrap_or_default();
            let place = worktrees.get(&task.id).map(|path| format!(" in {}", path.display())).unwrap_or_default();
            ui.data(&format!("L{} {:<11} {} {}{place}{reason}\n", task.level, task.status, task.id, task.title));
        }
        Ok(ExitCode::Done)
    }
}

fn grant(place: &Place, ui: &Ui, task: &str, paths: &[String]) -> Result<ExitCode> {
    let answer = control::grant(place, answer::task_id(task)?, paths)?;
    let code = answer::print(ui, &answer, &format!("granted {}", paths.join(", ")));
    answer::print_next_command(place, ui, &answer)?;
    Ok(code)
}

fn next_text(next: &Next) -> String {
    let level = next.level.map(|level| format!("level {level}: ")).unwrap_or_default();
    let tasks: Vec<&str> = next.tasks.iter().map(TaskId::as_str).collect();
    let under_way: Vec<&str> = next.in_progress.iter().map(TaskId::as_str).collect();
    let what = match next.step {
        Step::Start => "the run is not open".to_string(),
        Step::Claim => format!("claim {}", tasks.join(", ")),
        Step::Wait => format!("wait for {}", under_way.join(", ")),
        Step::Merge => "every task is done: merge".to_string(),
        Step::Fix => format!("{} is to fix a gate that failed", tasks.join(", ")),
        Step::Completed => return format!("{} is completed\n", next.feature),
        Step::Blocked if next.tasks.is_empty() => "waiting for approval".to_string(),
        Step::Blocked => format!("only blocked tasks are left: {}", tasks.join(", ")),
        Step::Failed => "failed".to_string(),
    };
    let why = next.why.as_deref().map(|why| format!("{why}\n")).unwrap_or_default();
    let command = next.command.as_deref().map(|command| format!("  {command}\n")).unwrap_or_default();
    format!("{level}{what}\n{why}{command}")
}
