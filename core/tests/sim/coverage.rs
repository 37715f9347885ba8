//! Counts which events came in which states.

use std::fmt::Write;

use mahabharatha_core::run::effect::{Job, Purpose};
use mahabharatha_core::run::event::{Command, Event, FailCause, JobEnd};
use mahabharatha_core::run::{Effect, LevelStatus, Phase, Run};

const STATES: [&str; 10] =
    ["checking base", "running", "staging", "gating", "blaming", "fixing", "landing", "closing", "draining", "ended"];
const EVENTS: [&str; 30] = [
    "Started",
    "Resumed",
    "Replanned",
    "BaseChecked",
    "SlotReady",
    "JobStarted",
    "JobEnded",
    "Staged",
    "GatesPassed",
    "GateFailed",
    "Blamed",
    "Landed",
    "NotLanded",
    "Noted",
    "Closed",
    "Stop",
    "Retry",
    "Grant",
    "Skip",
    "Claim",
    "Finish",
    "Adopt",
    "Scale",
    "Pause",
    "Resume",
    "Approve",
    "Cancelled",
    "EffectFailed",
    "OutOfSpace",
    "Woke",
];

/// Pairs that the simulation must reach.
const IMPORTANT: [(&str, &[&str]); 10] = [
    ("checking base", &["Resumed", "BaseChecked", "JobEnded", "Stop", "Retry", "Skip", "EffectFailed"]),
    (
        "running",
        &[
            "Resumed",
            "Replanned",
            "SlotReady",
            "JobStarted",
            "JobEnded",
            "Staged",
            "Landed",
            "Stop",
            "Retry",
            "Grant",
            "Skip",
            "Claim",
            "Finish",
            "Adopt",
            "Scale",
            "Pause",
            "Resume",
            "Cancelled",
            "EffectFailed",
            "OutOfSpace",
            "Woke",
        ],
    ),
    (
        "staging",
        &[
            "Resumed",
            "Replanned",
            "SlotReady",
            "JobEnded",
            "Staged",
            "NotLanded",
            "Stop",
            "Retry",
            "Skip",
            "EffectFailed",
        ],
    ),
    (
        "gating",
        &[
            "Resumed",
            "Replanned",
            "JobEnded",
            "Staged",
            "GatesPassed",
            "GateFailed",
            "NotLanded",
            "Stop",
            "Retry",
            "Skip",
            "EffectFailed",
        ],
    ),
    ("blaming", &["Resumed", "Blamed", "Stop", "Retry", "Skip", "Pause", "EffectFailed"]),
    (
        "fixing",
        &["Resumed", "SlotReady", "JobStarted", "JobEnded", "Stop", "Retry", "Skip", "Claim", "Finish", "EffectFailed"],
    ),
    (
        "landing",
        &[
            "Resumed",
            "Replanned",
            "GatesPassed",
            "Landed",
            "NotLanded",
            "Stop",
            "Retry",
            "Skip",
            "Resume",
            "EffectFailed",
        ],
    ),
    ("closing", &["Resumed", "Replanned", "Closed", "Landed", "Stop", "Retry", "Skip", "EffectFailed"]),
    (
        "draining",
        &[
            "Resumed",
            "BaseChecked",
            "SlotReady",
            "JobEnded",
            "Staged",
            "GatesPassed",
            "GateFailed",
            "Blamed",
            "Landed",
            "NotLanded",
            "Closed",
            "Stop",
            "Retry",
            "Skip",
            "Cancelled",
            "EffectFailed",
            "OutOfSpace",
        ],
    ),
    ("ended", &["Started", "Resumed", "Replanned", "Stop", "Retry", "Skip", "Claim", "Scale", "Pause", "Approve"]),
];

/// Ways in which attempts end, fixes included.
const ENDS: [&str; 13] = [
    "done",
    "failed",
    "timed out",
    "stalled",
    "checkpoint",
    "blocked",
    "escalated",
    "limited",
    "unserved",
    "setup failed",
    "died",
    "never started",
    "cancelled",
];

#[derive(Debug, Default, Clone)]
pub struct Coverage {
    seen: [[u64; EVENTS.len()]; STATES.len()],
    ends: [[u64; ENDS.len()]; 2],
}

impl Coverage {
    pub fn note(&mut self, run: &Run, event: &Event) {
        self.seen[place(&STATES, state(run))][place(&EVENTS, name(event))] += 1;
        if let Event::JobEnded { task, attempt, report, .. } = event {
            let of_this = |job: &Job| job.task == *task && job.attempt == *attempt;
            let job = run.outstanding().find_map(|(_, effect)| match effect {
                Effect::RunJob(job) if of_this(job) => Some(job),
                _ => None,
            });
            if let Some(job) = job {
                let fix = usize::from(job.purpose != Purpose::Build);
                self.ends[fix][place(&ENDS, end(&report.end))] += 1;
            }
        }
    }

    pub fn add(&mut self, other: &Coverage) {
        for (mine, theirs) in self.seen.iter_mut().flatten().zip(other.seen.iter().flatten()) {
            *mine += theirs;
        }
        for (mine, theirs) in self.ends.iter_mut().flatten().zip(other.ends.iter().flatten()) {
            *mine += theirs;
        }
    }

    /// Table of how often an attempt ended in each way.
    pub fn ends(&self) -> String {
        let mut text = format!("{:14}{:>14}{:>14}", "", "build", "fix");
        for (index, name) in ENDS.iter().enumerate() {
            let _ = write!(text, "\n{name:14}{:>14}{:>14}", self.ends[0][index], self.ends[1][index]);
        }
        text
    }

    /// Table with a row for each event and a column for each state.
    pub fn table(&self) -> String {
        let mut text = format!("{:14}", "");
        for state in STATES {
            let _ = write!(text, "{state:>14}");
        }
        for (event, name) in EVENTS.iter().enumerate() {
            let _ = write!(text, "\n{name:14}");
            for counts in &self.seen {
                let count = counts[event];
                let cell = if count == 0 { "·".to_string() } else { count.to_string() };
                let _ = write!(text, "{cell:>14}");
            }
        }
        text
    }

    /// Lists the pairs that never came, by state.
    pub fn never(&self) -> String {
        let mut text = String::new();
        for (state, counts) in STATES.iter().zip(&self.seen) {
            let never: Vec<&str> = EVENTS.iter().zip(counts).filter(|(_, n)| **n == 0).map(|(name, _)| *name).collect();
            let _ = writeln!(text, "  {state}: {}", never.join(", "));
        }
        text
    }

    pub fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let pairs = IMPORTANT.iter().flat_map(|(state, events)| events.iter().map(move |event| (*state, *event)));
        let unseen = pairs.filter(|(state, event)| self.seen[place(&STATES, state)][place(&EVENTS, event)] == 0);
        let ends = ["build", "fix"].iter().zip(&self.ends).flat_map(|(purpose, counts)| {
            ENDS.iter().zip(counts).filter(|(_, count)| **count == 0).map(|(end, _)| (*purpose, *end))
        });
        unseen.chain(ends).collect()
    }
}

fn place(names: &[&str], name: &str) -> usize {
    names.iter().position(|of| *of == name).unwrap_or_else(|| panic!("{name} is not in the table"))
}

fn state(run: &Run) -> &'static str {
    match run.phase() {
        Phase::CheckingBase => "checking base",
        Phase::Closing => "closing",
        Phase::Draining { .. } => "draining",
        Phase::Ended { .. } => "ended",
        Phase::Working => match run.current_level().map(|level| &level.status) {
            // After a change of the graph the current level may not be begun, or not exist; resuming settles that.
            Some(LevelStatus::Running | LevelStatus::Pending) | None => "running",
            Some(LevelStatus::Staging) => "staging",
            Some(LevelStatus::Gating) => "gating",
            Some(LevelStatus::Blaming { .. }) => "blaming",
            Some(LevelStatus::Fixing { .. }) => "fixing",
            Some(LevelStatus::AwaitingApproval { .. } | LevelStatus::Landing { .. }) => "landing",
            Some(LevelStatus::Failed { .. }) if run.intent().is_session() => "gating",
            Some(LevelStatus::Merged { .. } | LevelStatus::Failed { .. }) => panic!("nothing is left to work on"),
        },
    }
}

fn end(end: &JobEnd) -> &'static str {
    match end {
        JobEnd::Done { .. } => "done",
        JobEnd::Failed { cause: FailCause::Timeout, .. } => "timed out",
        JobEnd::Failed { cause: FailCause::Stalled, .. } => "stalled",
        JobEnd::Failed { .. } => "failed",
        JobEnd::Checkpoint { .. } => "checkpoint",
        JobEnd::Blocked { .. } => "blocked",
        JobEnd::Escalated { .. } => "escalated",
        JobEnd::Unserved { until: Some(_), .. } => "limited",
        JobEnd::Unserved { until: None, .. } => "unserved",
        JobEnd::SetupFailed { .. } => "setup failed",
        JobEnd::Died { started: true } => "died",
        JobEnd::Died { started: false } => "never started",
        JobEnd::Cancelled => "cancelled",
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Started(_) => "Started",
        Event::Resumed { .. } => "Resumed",
        Event::Replanned { .. } => "Replanned",
        Event::BaseChecked { .. } => "BaseChecked",
        Event::SlotReady { .. } => "SlotReady",
        Event::JobStarted { .. } => "JobStarted",
        Event::JobEnded { .. } => "JobEnded",
        Event::Staged { .. } => "Staged",
        Event::GatesPassed { .. } => "GatesPassed",
        Event::GateFailed { .. } => "GateFailed",
        Event::Blamed { .. } => "Blamed",
        Event::Landed { .. } => "Landed",
        Event::NotLanded { .. } => "NotLanded",
        Event::Noted { .. } => "Noted",
        Event::Closed { .. } => "Closed",
        Event::Undone { .. } => "Undone",
        Event::Asked { command: Command::Stop { .. }, .. } => "Stop",
        Event::Asked { command: Command::Retry { .. }, .. } => "Retry",
        Event::Asked { command: Command::Grant { .. }, .. } => "Grant",
        Event::Asked { command: Command::Skip { .. }, .. } => "Skip",
        Event::Asked { command: Command::Claim { .. }, .. } => "Claim",
        Event::Asked { command: Command::Finish { .. }, .. } => "Finish",
        Event::Asked { command: Command::Adopt { .. }, .. } => "Adopt",
        Event::Asked { command: Command::Scale { .. }, .. } => "Scale",
        Event::Asked { command: Command::Pause, .. } => "Pause",
        Event::Asked { command: Command::Resume, .. } => "Resume",
        Event::Asked { command: Command::Approve { .. }, .. } => "Approve",
        Event::Cancelled { .. } => "Cancelled",
        Event::EffectFailed { .. } => "EffectFailed",
        Event::OutOfSpace { .. } => "OutOfSpace",
        Event::Woke => "Woke",
    }
}
