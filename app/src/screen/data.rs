//! Signs of tasks and of the run as a whole.

use mahabharatha_core::view::{AttemptView, TaskView, WorkerView};

use super::look::Sign;
use crate::observe::Data;

impl Data {
    pub fn sign(&self, task: &TaskView) -> Sign {
        if let Some(attempt) = task.running() {
            return match self.doing(task) {
                _ if !self.is_alive(attempt) => Sign::Warning,
                Some(doing) if doing.phase == "verifying" => Sign::Verifying,
                _ => Sign::Running,
            };
        }
        match task.status {
            "waiting" => Sign::Asks,
            "blocked" if task.question.is_some() => Sign::Asks,
            "blocked" => Sign::Failed,
            "completed" => Sign::Done,
            "skipped" => Sign::Skipped,
            _ if task.next_attempt_at.is_some() => Sign::Retries,
            _ => Sign::Pending,
        }
    }

    /// Tells whether something is at work on a running attempt; its process may be gone.
    fn is_alive(&self, attempt: &AttemptView) -> bool {
        let is_its = |worker: &WorkerView| worker.id == attempt.worker && worker.status == "running";
        self.driven || self.view.workers.iter().any(is_its)
    }

    /// Returns the sign and the word for the run as a whole.
    pub fn state(&self) -> (Sign, &'static str) {
        let asks = || self.view.tasks.iter().any(|task| self.sign(task) == Sign::Asks);
        match self.view.status {
            _ if self.view.is_stopping => (Sign::Warning, self.view.status_word()),
            "completed" => (Sign::Done, "completed"),
            "failed" => (Sign::Failed, "failed"),
            "undone" => (Sign::Skipped, "undone"),
            "blocked" if asks() => (Sign::Asks, "asks"),
            "blocked" => (Sign::Failed, "blocked"),
            "paused" => (Sign::Warning, self.view.status_word()),
            "designed" | "planned" | "empty" => (Sign::Pending, self.view.status),
            _ if self.view.pause.is_some() => (Sign::Warning, "waiting"),
            _ => (Sign::Running, "running"),
        }
    }
}
