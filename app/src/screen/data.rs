//! Signs of tasks and of the run as a whole.

use mahabharatha_core::view::TaskView;

use super::look::Sign;
use crate::observe::Data;

impl Data {
    pub fn sign(&self, task: &TaskView) -> Sign {
        match task.status {
            _ if task.running().is_some() && !self.is_alive(task) => Sign::Warning,
            _ if self.doing(task).is_some_and(|doing| doing.phase == "verifying") => Sign::Verifying,
            _ if task.running().is_some() => Sign::Running,
            "waiting" => Sign::Asks,
            "blocked" if task.question.is_some() => Sign::Asks,
            "blocked" => Sign::Failed,
            "completed" => Sign::Done,
            "skipped" => Sign::Skipped,
            _ if task.next_attempt_at.is_some() => Sign::Retries,
            _ => Sign::Pending,
        }
    }

    /// Tells whether something is at work on a running task; its process may be gone.
    fn is_alive(&self, task: &TaskView) -> bool {
        let works = |id: u32| self.view.workers.iter().any(|worker| worker.id == id && worker.status == "running");
        self.driven || task.running().is_some_and(|attempt| works(attempt.worker))
    }

    /// Returns the sign and the word for the run as a whole.
    pub fn state(&self) -> (Sign, &'static str) {
        let asks = || self.view.tasks.iter().any(|task| self.sign(task) == Sign::Asks);
        match self.view.status {
            "completed" => (Sign::Done, "completed"),
            "failed" => (Sign::Failed, "failed"),
            "undone" => (Sign::Skipped, "undone"),
            "blocked" if asks() => (Sign::Asks, "asks"),
            "blocked" => (Sign::Failed, "blocked"),
            "paused" => (Sign::Warning, "paused"),
            "designed" | "planned" => (Sign::Pending, self.view.status),
            _ if self.view.pause.is_some() => (Sign::Warning, "waiting"),
            _ => (Sign::Running, "running"),
        }
    }
}
