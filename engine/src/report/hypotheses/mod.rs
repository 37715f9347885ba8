//! Likely causes of a feature's problems, each with a code, the evidence for it and what to do next.
//!
//! A cause is named only if a recorded fact or a line of output shows it; otherwise the code says what is known, such as
//! `agent_failed`. Codes never change their meaning.

mod level;
mod state;
mod task;
mod words;

use mahabharatha_core::run::Run;
use mahabharatha_core::run::event::FailCause;
use mahabharatha_core::view::AttemptView;
use serde::Serialize;

pub use self::state::bring_back;
use super::debug::{Findings, TroubledTask};
use super::text::{few, headline, outcome};

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Hypothesis {
    pub code: &'static str,
    /// The task that it is about; none if it is about a level or the feature.
    pub task: Option<String>,
    /// What may be wrong, in one sentence.
    pub cause: String,
    /// Lines of output and facts that show it.
    pub evidence: Vec<String>,
    /// What to do about it, or how to find out.
    pub next: String,
    /// The command to run once that is done.
    pub command: String,
}

impl Hypothesis {
    fn new(code: &'static str, cause: impl Into<String>, command: impl Into<String>) -> Hypothesis {
        let command = command.into();
        Hypothesis {
            code,
            task: None,
            cause: cause.into(),
            evidence: Vec::new(),
            next: format!("`{command}`"),
            command,
        }
    }

    fn shown_by(self, evidence: impl IntoIterator<Item = String>) -> Hypothesis {
        Hypothesis { evidence: evidence.into_iter().collect(), ..self }
    }

    fn next(self, next: impl Into<String>) -> Hypothesis {
        Hypothesis { next: next.into(), ..self }
    }
}

/// Returns the likely causes, most urgent first. `run` is the run that the findings are of.
pub fn hypotheses(findings: &Findings, run: Option<&Run>) -> Vec<Hypothesis> {
    let mut found = state::about_state(findings);
    found.extend(about_all_tasks(findings));
    if let Some(run) = run {
        found.extend(findings.tasks.iter().filter_map(|task| task::about_task(findings, run, task)));
        let levels = level::about_levels(findings, run).into_iter();
        let is_new = |one: &Hypothesis| found.iter().all(|known| (known.code, &known.task) != (one.code, &one.task));
        let levels: Vec<Hypothesis> = levels.filter(is_new).collect();
        found.extend(levels);
        found.extend(state::about_standstill(findings, run));
    }
    found.extend(state::about_base(findings).filter(|base| found.iter().all(|known| known.code != base.code)));
    let under_way = state::about_run_under_way(findings, &found);
    found.extend(under_way);
    found
}

/// Covers several tasks of which the same line of output tells that they failed: they likely have one common cause.
fn about_all_tasks(findings: &Findings) -> Option<Hypothesis> {
    let blocked: Vec<&TroubledTask> = findings.tasks.iter().filter(|task| task.status == "blocked").collect();
    let last = |task: &TroubledTask| {
        let attempt = task.attempts.last()?;
        Some((attempt.outcome, attempt.cause, distinctive_line(task, attempt)?))
    };
    let first = blocked.first().and_then(|task| last(task))?;
    if blocked.len() < 2 || !blocked.iter().all(|task| last(task).as_ref() == Some(&first)) {
        return None;
    }
    let names: Vec<String> = blocked.iter().map(|task| task.id.clone()).collect();
    let cause = format!("{} failed in the same way: the cause is likely common to them.", few(&names));
    let each = names.iter().map(|name| format!("{name} {}", outcome(first.0, first.1)));
    let evidence = [first.2.clone()].into_iter().chain(each.take(5));
    let next = match first.1 {
        Some(FailCause::Verification) => {
            "Look at what their verifications share, such as a program, a service or the base: `mahabharatha doctor`."
        }
        _ => {
            "Look at the agent's configuration, its key and network, and at what the tasks share: `mahabharatha doctor`."
        }
    };
    Some(Hypothesis::new("common_cause", cause, "mahabharatha doctor").shown_by(evidence).next(next))
}

/// Returns the first line that tells why an attempt failed, without the name of its task; none if the failure alone is
/// known, which tasks with different causes share.
fn distinctive_line(task: &TroubledTask, attempt: &AttemptView) -> Option<String> {
    let detail = attempt.detail.as_deref().unwrap_or_default();
    let is_said_by_program = matches!(attempt.cause, Some(FailCause::Verification | FailCause::Agent));
    let line = match task::output_lines(detail).into_iter().next() {
        Some(line) => line,
        None if is_said_by_program => return None,
        None => headline(detail),
    };
    Some(line.replace(&task.id, "…"))
}

/// Returns the command that runs a feature, or goes on with it.
fn run_again(feature: &str) -> String {
    format!("mahabharatha run {feature}")
}

/// Returns the command that tries a task again.
fn try_again(feature: &str, task: &str) -> String {
    format!("mahabharatha retry {task} -f {feature} && {}", run_again(feature))
}
