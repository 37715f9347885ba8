//! Turns the events of a run into log lines. Reports only what has happened, and no events without effect.

mod jobs;
mod levels;

use std::collections::BTreeSet;

use mahabharatha_core::config::Isolation;
use mahabharatha_core::ids::{Attempt, Level, TaskId, Time};
use mahabharatha_core::run::event::{Command, GateFailure, Note, RequestId};
use mahabharatha_core::run::{Breaker, Effect, EffectId, End, Event, LevelStatus, Pause, Phase, Run, TaskStatus};
use mahabharatha_core::view::{RunView, merged_phrase};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::ui::one_line;

use super::human_duration;
use super::text::{cost_phrase, count, few, gate_gist, headline};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub at: Time,
    pub severity: Severity,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Info,
    Warn,
    Error,
}

/// Reports what each event changed. Its memory does not grow with the number of tasks.
#[derive(Debug, Default)]
pub struct LogLines {
    before: Glimpse,
    requests: BTreeSet<RequestId>,
    /// Gates that have failed on the base since its check began, which was only reported.
    reported: BTreeSet<String>,
}

/// The part of a run that is needed to see what an event changed.
#[derive(Debug, Default)]
struct Glimpse {
    outstanding: Vec<EffectId>,
    jobs: Vec<JobGlimpse>,
    merged_levels: usize,
    running_level: Option<Level>,
    /// Tasks of sessions that the run waits for.
    awaited: Vec<TaskId>,
    breaker: Option<Breaker>,
    /// Pause until the API limit resets.
    pause: Option<Pause>,
    ended: bool,
}

#[derive(Debug)]
struct JobGlimpse {
    effect: EffectId,
    task: TaskId,
    attempt: Attempt,
    pid: Option<u32>,
}

impl Glimpse {
    /// Tells whether there was a run before the event.
    fn has_run(&self) -> bool {
        self.breaker.is_some()
    }

    fn of(run: &Run) -> Self {
        let job = |(effect, of): (EffectId, &Effect)| match of {
            Effect::RunJob(job) => {
                let record = run.task(&job.task).and_then(|task| task.attempts.last());
                let pid = record.filter(|record| record.attempt == job.attempt).and_then(|record| record.pid);
                Some(JobGlimpse { effect, task: job.task.clone(), attempt: job.attempt, pid })
            }
            _ => None,
        };
        let current = run.current_level();
        let is_merged = |status: &LevelStatus| matches!(status, LevelStatus::Merged { .. });
        Glimpse {
            outstanding: run.outstanding().map(|(id, _)| id).collect(),
            jobs: run.outstanding().filter_map(job).collect(),
            merged_levels: run.levels().iter().take_while(|level| is_merged(&level.status)).count(),
            running_level: current
                .filter(|level| matches!(level.status, LevelStatus::Running))
                .map(|level| level.level),
            awaited: run.awaited().map(|(job, _)| job.task.clone()).collect(),
            breaker: Some(*run.breaker()),
            pause: run.service_pause().cloned(),
            ended: run.ended().is_some(),
        }
    }
}

impl LogLines {
    /// For a run that an earlier process has reported up to here.
    pub fn of(run: &Run) -> Self {
        LogLines { before: Glimpse::of(run), ..LogLines::default() }
    }

    /// Remembers of an event what a later line tells.
    pub fn recall(&mut self, event: &Event) {
        if let Event::Noted { level: None, note: Note::OnlyReported { failure } } = event {
            self.reported.insert(failure.gate.clone());
        }
    }

    /// Returns lines for what the event changed; `run` is the state after the event.
    pub fn tell(&mut self, event: &Event, run: &Run) -> Vec<Line> {
        if matches!(event, Event::Resumed { .. }) {
            // Resumed by another process, which reports its own beginning and end.
            self.before.running_level = None;
            self.before.awaited.clear();
            self.before.ended = false;
            self.before.pause = None;
            self.reported.clear();
        }
        self.recall(event);
        let after = Glimpse::of(run);
        let mut telling =
            Telling { run, before: &self.before, after: &after, reported: &self.reported, lines: Vec::new() };
        match event {
            Event::Asked { request, command } => {
                if self.requests.insert(request.clone()) {
                    telling.asked(request, command);
                }
            }
            _ => telling.event(event),
        }
        telling.breaker();
        telling.pause(event);
        telling.empty_levels(event);
        telling.level_begun();
        telling.awaits_sessions();
        // Between two processes the run is still in the state that the earlier one left.
        if !matches!(event, Event::Started(_) | Event::Replanned { .. }) {
            telling.end();
        }
        let lines = telling.lines;
        self.before = after;
        lines
    }
}

/// Builds the lines for one event.
struct Telling<'a> {
    run: &'a Run,
    before: &'a Glimpse,
    after: &'a Glimpse,
    reported: &'a BTreeSet<String>,
    lines: Vec<Line>,
}

impl Telling<'_> {
    fn say(&mut self, severity: Severity, text: impl AsRef<str>) {
        self.lines.push(Line { at: self.run.updated_at(), severity, text: one_line(text.as_ref()) });
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Started(_) if self.before.has_run() => self.started_again(),
            Event::Started(_) => self.started(),
            Event::Resumed { .. } => self.resumed(),
            Event::Replanned { .. } => self.replanned(),
            Event::JobStarted { task, attempt, pid, .. } => self.job_started(task, *attempt, *pid),
            Event::Noted { level, note } => self.noted(*level, note),
            Event::OutOfSpace { why } => self.effect_failed(why),
            Event::Woke
            | Event::SlotReady { .. }
            | Event::Closed { .. }
            | Event::Undone { .. }
            | Event::Asked { .. } => {}
            // The others answer an effect; one that answers none came late and was ignored.
            _ if !self.answers_effect() => {}
            Event::BaseChecked { red, .. } => self.base_checked(red),
            Event::JobEnded { task, attempt, report, .. } => self.job_ended(task, *attempt, report),
            Event::Staged { level, staging, commits, .. } => self.staged(*level, staging, commits.len()),
            Event::GatesPassed { level, candidate, passed, .. } => self.gates_passed(*level, candidate, passed),
            Event::GateFailed { level, failure, .. } => self.gate_failed(*level, failure),
            Event::Blamed { level, task, why, .. } => self.blamed(*level, task.as_ref(), why),
            Event::Landed { level, commit, .. } => self.landed(*level, commit),
            Event::NotLanded { level, obstacle, .. } => self.not_landed(*level, obstacle),
            Event::Cancelled { effect } => self.cancelled(*effect),
            Event::EffectFailed { error, .. } => self.effect_failed(error),
        }
    }

    /// Tells whether the event answered an outstanding effect.
    fn answers_effect(&self) -> bool {
        self.before.outstanding.iter().any(|id| !self.after.outstanding.contains(id))
    }

    fn base_branch(&self) -> &str {
        short_branch(&self.run.setup().base_branch)
    }

    fn landing_branch(&self) -> String {
        short_branch(&self.run.landing_branch()).to_string()
    }

    /// Tells whether this process starts nothing more.
    fn is_draining(&self) -> bool {
        matches!(self.run.phase(), Phase::Draining { .. } | Phase::Ended { .. })
    }

    fn size(&self) -> String {
        let (tasks, levels) = (self.run.tasks().len(), self.run.levels().len());
        format!("{} in {}", count(tasks, "task"), count(levels, "level"))
    }

    fn started(&mut self) {
        let (feature, mode) = (self.run.feature(), self.run.mode());
        let workers = count(self.run.policy().workers as usize, "worker");
        let sandbox = match self.run.policy().isolation {
            // The mode says it.
            Isolation::Off | Isolation::Container => String::new(),
            isolation => format!(", sandbox {isolation}"),
        };
        let text = format!("{feature}: {}, {workers} ({mode}{sandbox}), onto {}", self.size(), self.landing_branch());
        self.say(Severity::Info, text);
        self.without_sandbox();
        self.checking_base();
    }

    fn without_sandbox(&mut self) {
        if self.run.policy().isolation == Isolation::Off {
            self.say(Severity::Warn, "no sandbox is in force: agents, verifications and gates run with your rights");
        }
    }

    fn started_again(&mut self) {
        let start = self.run.setup().start.short();
        self.say(Severity::Info, format!("nothing had begun yet: {} starts from {start} now", self.run.feature()));
    }

    fn resumed(&mut self) {
        let closed = self.run.tasks().iter().filter(|task| !task.is_open()).count();
        let tasks = count(self.run.tasks().len(), "task");
        let level = self.run.current_level().map(|level| format!(", level {}", level.level)).unwrap_or_default();
        let text = format!("{} resumed: {closed} of {tasks} done{level}", self.run.feature());
        self.say(Severity::Info, text);
        for job in &self.after.jobs {
            let text = format!("{} was under way (attempt {})", job.task, job.attempt);
            self.lines.push(Line { at: self.run.updated_at(), severity: Severity::Info, text });
        }
        self.without_sandbox();
        self.checking_base();
    }

    fn checking_base(&mut self) {
        if matches!(self.run.phase(), Phase::CheckingBase) {
            let text = format!("running the gates on {} before anything is started", self.base_branch());
            self.say(Severity::Info, text);
        }
    }

    fn replanned(&mut self) {
        let text = format!("the graph was changed: now {}", self.size());
        self.say(Severity::Info, text);
    }

    fn base_checked(&mut self, red: &[GateFailure]) {
        let base = self.base_branch().to_string();
        let allowed = self.run.policy().allow_red_base;
        for gate in red {
            let what = format!("gate {} is red on {base} already", gate.gate);
            if allowed {
                self.say(Severity::Warn, format!("{what}: from now on it is only reported"));
            } else {
                self.say(Severity::Error, format!("{what}: {}", gate_gist(gate)));
            }
        }
        if red.is_empty() {
            let text = match self.gates().next() {
                Some(_) => self.gates_phrase(&base, "", &self.reported.iter().map(String::as_str).collect()),
                None => format!("merge.prepare succeeded on {base}"),
            };
            self.say(Severity::Info, text);
        }
    }

    fn cancelled(&mut self, effect: EffectId) {
        if let Some(job) = self.before.jobs.iter().find(|job| job.effect == effect) {
            let text = format!("{} was cancelled (attempt {})", job.task, job.attempt);
            self.say(Severity::Warn, text);
        }
    }

    fn effect_failed(&mut self, error: &str) {
        if self.run.ended().is_none() {
            self.say(Severity::Error, format!("no new launches: {}", headline(error)));
        }
    }

    fn asked(&mut self, request: &str, command: &Command) {
        let Some(answer) = self.run.answer(request) else { return };
        if let Command::Finish { task, attempt, report, .. } = command {
            if self.answers_effect() {
                self.job_ended(task, *attempt, report);
            }
            return;
        }
        for task in &answer.accepted {
            let text = match command {
                Command::Skip { reason, .. } => format!("{task} is skipped: {reason}"),
                Command::Retry { note: Some(note), .. } => format!("{task} is retried: {}", headline(note)),
                Command::Grant { paths, .. } => format!("{task} is granted {}", few(paths)),
                Command::Claim { .. } => format!("{task} is claimed"),
                Command::Adopt { .. } => format!("{task} was reported as done; its work is checked"),
                _ => format!("{task} is retried"),
            };
            self.say(Severity::Info, text);
        }
        let verb = match command {
            Command::Skip { .. } => "skipped",
            Command::Grant { .. } => "granted what was asked",
            Command::Claim { .. } => "claimed",
            Command::Adopt { .. } => "taken for done",
            _ => "retried",
        };
        for refusal in &answer.refused {
            self.say(Severity::Warn, format!("{} cannot be {verb}: {}", refusal.task, refusal.why));
        }
        match (command, &answer.message) {
            (Command::Stop { force: true, worker: None, .. }, _) => {
                self.say(Severity::Warn, "forced stop: no new launches, workers are killed");
            }
            (Command::Stop { grace_ms, worker: None, .. }, _) => {
                let grace = human_duration(std::time::Duration::from_millis(*grace_ms));
                self.say(Severity::Warn, format!("asked to stop: no new launches, workers get {grace} to end"));
            }
            (Command::Scale { .. } | Command::Pause | Command::Resume | Command::Approve { .. }, Some(message)) => {
                self.say(Severity::Info, message);
            }
            (_, Some(message)) => self.say(Severity::Warn, message),
            (_, None) => {}
        }
    }

    fn pause(&mut self, event: &Event) {
        let (before, now) = (self.before.pause.as_ref(), self.run.service_pause());
        match (before, now) {
            (_, Some(pause)) if before.is_none_or(|before| before.until < pause.until) => {
                let lasts = human_duration(pause.until.since(self.run.updated_at()));
                let text = format!("no launches until {} (for {lasts}): {}", pause.until, headline(&pause.why));
                self.say(Severity::Warn, text);
                if matches!(event, Event::Resumed { .. }) {
                    let again = format!("mahabharatha run {} --no-wait", self.run.feature());
                    let text = format!("to try at once, as with another account: stop it, then `{again}`");
                    self.say(Severity::Info, text);
                }
            }
            (Some(_), None) if self.run.ended().is_none() => self.say(Severity::Info, "launches resume"),
            _ => {}
        }
    }

    fn awaits_sessions(&mut self) {
        let is_new = |task: &TaskId| self.after.awaited.contains(task) && !self.before.awaited.contains(task);
        if !self.after.awaited.iter().any(is_new) {
            return;
        }
        let blockers = RunView::of(self.run).blockers;
        for blocker in blockers.iter().filter(|blocker| blocker.task.as_ref().is_some_and(is_new)) {
            self.say(Severity::Warn, format!("{blocker}: {}", blocker.resolution));
        }
    }

    fn breaker(&mut self) {
        let now = self.run.breaker();
        match (self.before.breaker, now) {
            (before, Breaker::Open { until }) if before != Some(*now) => {
                let pause = human_duration(until.since(self.run.updated_at()));
                let text = format!("workers die as soon as they start: no launches for {pause} (breaker open)");
                self.say(Severity::Error, text);
            }
            (Some(Breaker::Open { .. }), Breaker::HalfOpen { .. }) => {
                self.say(Severity::Info, "one worker is tried (breaker half open)");
            }
            (Some(Breaker::HalfOpen { .. }), Breaker::Closed { .. }) => {
                self.say(Severity::Info, "workers start again (breaker closed)");
            }
            _ => {}
        }
    }

    fn end(&mut self) {
        let Some(end) = self.run.ended().filter(|_| !self.before.ended) else { return };
        let (severity, text) = match end {
            End::Completed => (Severity::Info, self.completed()),
            End::LevelMerged { level } => {
                let merged = self.run.merged_level_phrase(*level);
                (Severity::Info, format!("{merged}; the run ends here as requested"))
            }
            End::Blocked => (Severity::Error, self.only_stuck_tasks()),
            End::RedBase { gates } => {
                (Severity::Error, format!("nothing was started: red on {}: {}", self.base_branch(), gates.join(", ")))
            }
            End::SetupFailed { failure } => (Severity::Error, headline(&failure.to_string())),
            End::GateFailed { level, gate } => {
                (Severity::Error, format!("level {level} failed: gate {gate} does not pass"))
            }
            End::Conflict { level, files, worktree } => (
                Severity::Error,
                format!(
                    "level {level} conflicts with {} in {}: resolve and commit in {worktree}, then \
                     `mahabharatha merge --retry -f {}`",
                    self.base_branch(),
                    few(files),
                    self.run.feature()
                ),
            ),
            End::Paused { why, .. } => (Severity::Warn, format!("paused: {why}")),
            End::Stopped => {
                let feature = self.run.feature();
                (Severity::Warn, format!("stopped on request; `mahabharatha run {feature}` goes on from here"))
            }
            End::Failed { why } => (Severity::Error, format!("the run failed: {}", headline(why))),
            End::Undone => {
                (Severity::Warn, format!("undone: every merged level was reverted on {}", self.base_branch()))
            }
        };
        self.say(severity, text);
    }

    fn completed(&self) -> String {
        let run = self.run;
        let skipped = run.tasks().iter().filter(|task| matches!(task.status, TaskStatus::Skipped { .. })).count();
        let skipped = match skipped {
            0 => String::new(),
            all if all == run.tasks().len() => format!("; {}", merged_phrase(&RunView::of(run).levels)),
            skipped => format!(" ({skipped} skipped)"),
        };
        let took = human_duration(run.elapsed());
        let is_measured = run.cost().known_usd() > 0.0 || run.cost().tokens() > 0;
        let cost = cost_phrase(run.cost()).filter(|_| is_measured).map(|cost| format!(", {cost}"));
        format!("{} completed: {}{skipped}, {took}{}", run.feature(), self.size(), cost.unwrap_or_default())
    }

    fn only_stuck_tasks(&self) -> String {
        let is_stuck = |status: &TaskStatus| matches!(status, TaskStatus::Blocked { .. } | TaskStatus::Waiting);
        let all = self.run.graph().tasks().iter().zip(self.run.tasks());
        let stuck: Vec<&str> =
            all.filter(|(_, state)| is_stuck(&state.status)).map(|(task, _)| task.id.as_str()).collect();
        if stuck.is_empty() {
            return "the level cannot continue: it has unfinished tasks".to_string();
        }
        format!("only blocked or waiting tasks remain: {}", stuck.join(", "))
    }
}

#[cfg(test)]
mod tests;
