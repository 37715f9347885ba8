//! Log lines about attempts: how they start and end, and what follows.

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Attempt, TaskId};
use mahabharatha_core::run::event::{FailCause, JobEnd, JobReport};
use mahabharatha_core::run::needs::needs_in;
use mahabharatha_core::run::{AttemptRecord, LevelStatus, TaskState, TaskStatus};
use mahabharatha_core::view::answer_to;

use super::{Severity, Telling};
use crate::report::human_duration;
use crate::report::text::{few, headline, outcome};

impl Telling<'_> {
    pub(super) fn job_started(&mut self, task: &TaskId, attempt: Attempt, pid: u32) {
        let is_it = |job: &&super::JobGlimpse| job.task == *task && job.attempt == attempt;
        let known = self.before.jobs.iter().find(is_it).is_some_and(|job| job.pid == Some(pid));
        if known || !self.after.jobs.iter().any(|job| is_it(&job)) {
            return;
        }
        let Some(record) = self.record(task, attempt) else { return };
        let place = format!("on worker {} (attempt {attempt})", record.worker);
        let text = match self.run.current_level().map(|level| &level.status) {
            Some(LevelStatus::Fixing { failure, .. }) if record.fix => {
                format!("{task} started to fix gate {} {place}", failure.gate)
            }
            _ => format!("{task} started {place}"),
        };
        self.say(Severity::Info, text);
    }

    pub(super) fn job_ended(&mut self, task: &TaskId, attempt: Attempt, report: &JobReport) {
        let Some(record) = self.record(task, attempt) else { return };
        let (fix, took) = (record.fix, self.run.attempt_elapsed(record));
        for warning in &report.warnings {
            self.say(Severity::Warn, format!("{task}: {warning}"));
        }
        match &report.end {
            JobEnd::Done { commit } => {
                let did = if fix { "has a fix after" } else { "completed in" };
                self.say(Severity::Info, format!("{task} {did} {} ({})", human_duration(took), commit.short()));
            }
            JobEnd::Checkpoint { note } => {
                let text = format!("{task} stopped at a checkpoint{}: {}", self.next_step(task), headline(note));
                self.say(Severity::Info, text);
            }
            JobEnd::Cancelled => {
                let kept = if report.wip.is_some() { ", its work is kept" } else { "" };
                self.say(Severity::Warn, format!("{task} was cancelled (attempt {attempt}){kept}"));
            }
            // The line that says why it is blocked says all.
            JobEnd::Blocked { .. } if !fix && self.is_blocked(task) => {}
            end => {
                let text = format!("{task} {}{}", self.ending(end, report), self.counted(task, attempt, fix));
                let why = self.why(task, report, fix).map(|why| format!(": {why}")).unwrap_or_default();
                self.say(Severity::Warn, text + &self.next_step(task) + &why);
            }
        }
        if !fix {
            self.blocked(task);
            self.requests(task, report);
        }
    }

    /// Tells which files an agent that asked for some was granted, and which tasks were told.
    fn requests(&mut self, task: &TaskId, report: &JobReport) {
        let (JobEnd::Blocked { reason } | JobEnd::Escalated { reason }) = &report.end else { return };
        // All that was asked for is granted, and the task goes on, or nothing is. It may own some of it by an earlier grant.
        let goes_on = |state: &TaskState| state.is_open() && !matches!(state.status, TaskStatus::Blocked { .. });
        let goes_on = self.run.task(task).is_some_and(goes_on);
        for need in needs_in(reason) {
            let Ok(path) = OwnedPath::read(&need.path) else { continue };
            if goes_on && self.run.granted_to(task).any(|granted| granted == path.path) {
                self.say(Severity::Info, format!("{task} is granted {}, which no task owns", path.path));
            }
            for owner in self.run.told_of(task, &need) {
                self.say(Severity::Info, format!("{owner} is told that {task} needs {}", path.path));
            }
        }
    }

    fn is_blocked(&self, task: &TaskId) -> bool {
        self.run.task(task).is_some_and(|state| matches!(state.status, TaskStatus::Blocked { .. }))
    }

    /// Returns why the attempt failed, unless another line says it.
    fn why(&self, task: &TaskId, report: &JobReport, fix: bool) -> Option<String> {
        let is_blocked = self.is_blocked(task) && !fix;
        match &report.end {
            JobEnd::Failed { cause: FailCause::Strays, .. } => None,
            JobEnd::Failed { feedback: why, .. }
            | JobEnd::Blocked { reason: why }
            | JobEnd::Escalated { reason: why } => {
                Some(headline(&report.with_hint(why))).filter(|_| !is_blocked && !why.trim().is_empty())
            }
            _ => None,
        }
    }

    fn ending(&self, end: &JobEnd, report: &JobReport) -> String {
        match end {
            JobEnd::Failed { cause: FailCause::Strays, strays, .. } => {
                let kept = if report.wip.is_some() { "kept in wip, " } else { "" };
                format!("tried to change what it does not own: {} — {kept}attempt failed", few(strays))
            }
            JobEnd::Failed { cause, .. } => outcome("failed", Some(*cause)).to_string(),
            JobEnd::Died { started: false } => "did not start: its worker sent no heartbeat".to_string(),
            JobEnd::Blocked { .. } => outcome("blocked", None).to_string(),
            JobEnd::Unserved { why, .. } => format!("{}: {}", outcome("unserved", None), headline(why)),
            JobEnd::SetupFailed { failure } => {
                format!("{}: {}", outcome("setup_failed", None), headline(&failure.to_string()))
            }
            JobEnd::Escalated { .. } => outcome("escalated", None).to_string(),
            _ => outcome("died", None).to_string(),
        }
    }

    /// Formats the attempt's number and, if failures count, how many are allowed.
    fn counted(&self, task: &TaskId, attempt: Attempt, fix: bool) -> String {
        let max = self.run.policy().max_attempts;
        let failures = self.run.task(task).map_or(0, |state| state.failures);
        match failures {
            0 => format!(" (attempt {attempt})"),
            _ if fix => format!(" (attempt {attempt})"),
            _ if failures == attempt.0 => format!(" (attempt {attempt} of {max})"),
            _ => format!(" (attempt {attempt}, failure {failures} of {max})"),
        }
    }

    fn next_step(&self, task: &TaskId) -> String {
        match self.run.task(task).map(|state| &state.status) {
            Some(TaskStatus::Resting { .. } | TaskStatus::Pending) if self.is_draining() => {
                ", left for the next run".to_string()
            }
            Some(TaskStatus::Resting { until }) => {
                format!(", next attempt in {}", human_duration(until.since(self.run.updated_at())))
            }
            Some(TaskStatus::Pending) if self.run.intent().is_session() => ", it can be claimed again".to_string(),
            Some(TaskStatus::Pending | TaskStatus::InProgress { .. }) => ", the next attempt follows".to_string(),
            _ => String::new(),
        }
    }

    fn blocked(&mut self, task: &TaskId) {
        let Some(state) = self.run.task(task) else { return };
        if let TaskStatus::Blocked { reason, .. } = &state.status {
            let answer = answer_to(self.run, task);
            let text = format!("{task} is blocked: {}", headline(reason));
            self.say(Severity::Error, text);
            if let Some(answer) = answer {
                self.say(Severity::Info, format!("{task}: {answer}"));
            }
        }
    }

    fn record(&self, task: &TaskId, attempt: Attempt) -> Option<&AttemptRecord> {
        self.run.task(task)?.attempts.iter().rfind(|record| record.attempt == attempt)
    }
}
