//! How long a run was driven: the time between its events, without the time in which no process or session was at it.

use std::time::Duration;

use super::event::{Command, Event, JobEnd};
use super::state::Run;
use crate::ids::Time;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct WorkTime {
    total: Duration,
    /// Time before events that a process may have recorded which does not drive the run. It counts once an event of one that
    /// does follows.
    unconfirmed: Duration,
}

/// What the time between an event and the one before was.
enum Gap {
    Driven,
    Unconfirmed,
    Idle,
}

impl Run {
    /// Counts the time up to `now`, when `event` comes.
    pub(super) fn count_work_time(&mut self, now: Time, event: &Event) {
        let gap = now.since(self.updated_at);
        match self.gap_before(event) {
            Gap::Driven => self.work_time.total += std::mem::take(&mut self.work_time.unconfirmed) + gap,
            Gap::Unconfirmed => self.work_time.unconfirmed += gap,
            Gap::Idle => self.work_time.unconfirmed = Duration::ZERO,
        }
    }

    /// An event that ended the run was recorded by the process that drove it.
    pub(super) fn confirm_work_time(&mut self) {
        self.work_time.total += std::mem::take(&mut self.work_time.unconfirmed);
    }

    /// Returns work time with what may still turn out not to be any, to measure attempts by.
    pub(super) fn work_clock(&self) -> Duration {
        self.work_time.total + self.work_time.unconfirmed
    }

    /// Returns how long the run was driven, up to its latest event.
    pub fn elapsed(&self) -> Duration {
        self.work_time.total
    }

    /// Returns the time before the latest events that counts only if the process that drives the run now drove it then.
    pub fn unconfirmed(&self) -> Duration {
        self.work_time.unconfirmed
    }

    fn gap_before(&self, event: &Event) -> Gap {
        match event {
            // A process starts with these; the one before ended some time after its last event.
            Event::Started(_) | Event::Replanned { .. } | Event::Resumed { .. } => Gap::Idle,
            _ if self.ended().is_some() => Gap::Idle,
            // A session that holds nothing may be gone.
            _ if self.intent.is_session() && self.outstanding.is_empty() => Gap::Idle,
            Event::Asked { command: Command::Claim { .. } | Command::Finish { .. }, .. } => Gap::Driven,
            Event::Asked { .. } => Gap::Unconfirmed,
            Event::JobEnded { report, .. } if report.end == JobEnd::Cancelled => Gap::Unconfirmed,
            _ => Gap::Driven,
        }
    }
}
