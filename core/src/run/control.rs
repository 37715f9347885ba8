//! Commands that control a run in progress: the number of its workers, pause and resume, approval of levels.

use super::effect::Answer;
use super::event::Candidate;
use super::state::{LevelStatus, Phase, Run, WorkerStatus};
use crate::ids::{Level, Oid, WorkerId};

impl Run {
    /// Sets the number of workers, until the run is completed or `run` is given another one. Workers that a user stopped
    /// come back if they are within the number; those above it finish what they do.
    pub(super) fn scale(&mut self, workers: u32) -> Answer {
        let workers = workers.max(1);
        self.scaled = Some(workers);
        if !self.intent.launches() {
            return Answer::saying(format!("the next `mahabharatha run` uses {}", counted(workers)));
        }
        let before = self.policy.worker_count();
        self.policy.workers = workers;
        let count = self.policy.worker_count();
        for (index, status) in self.workers_under_way(count).into_iter().enumerate().take(count) {
            match self.workers.get_mut(index) {
                None => self.workers.push(status),
                // A spare worker of a session may have no worktree yet.
                Some(worker @ WorkerStatus::Idle) if index >= before => *worker = status,
                Some(worker @ WorkerStatus::Stopped) => *worker = status,
                Some(_) => {}
            }
        }
        let retiring: Vec<String> = self.retiring().map(|worker| worker.to_string()).collect();
        let tail = match &retiring[..] {
            [] => String::new(),
            [one] => format!("; worker {one} finishes its task first"),
            several => format!("; workers {} finish their tasks first", several.join(", ")),
        };
        Answer::saying(format!("{} from now on{tail}", counted(workers)))
    }

    /// Returns the number of workers that a user set during the run.
    pub fn scaled(&self) -> Option<u32> {
        self.scaled
    }

    /// Returns the workers above the current number that still run an agent; they get no other task.
    pub fn retiring(&self) -> impl Iterator<Item = WorkerId> {
        let limit = self.policy.worker_count();
        let above = self.workers.iter().enumerate().skip(if self.intent.launches() { limit } else { usize::MAX });
        let running = above.filter(|(_, status)| matches!(status, WorkerStatus::Running { .. }));
        let held = |worker: &WorkerId| self.held().any(|(job, _)| job.worker == *worker);
        running.map(|(index, _)| WorkerId(index as u32)).filter(move |worker| !held(worker))
    }

    pub(super) fn pause(&mut self) -> Answer {
        match self.phase {
            _ if self.paused => Answer::saying("paused already"),
            Phase::Draining { .. } => Answer::declining("the run is about to end"),
            Phase::Ended { .. } => Answer::declining("the run is not running"),
            _ if self.intent.is_session() => {
                Answer::declining("a session drives the run, which launches nothing itself")
            }
            Phase::CheckingBase | Phase::Working | Phase::Closing => {
                self.paused = true;
                Answer::saying("paused: nothing new is started; what is in progress goes on to its end")
            }
        }
    }

    pub(super) fn resume(&mut self) -> Answer {
        match std::mem::replace(&mut self.paused, false) {
            true => Answer::saying("resumed"),
            false => Answer::saying("not paused"),
        }
    }

    /// Lets a level land that waits for approval, if it still is what the user was shown.
    pub(super) fn approve(&mut self, level: Level, tree: &Oid) -> Answer {
        let current = self.current().filter(|current| self.levels[*current].level == level);
        let Some(state) = current.map(|current| &mut self.levels[current]) else {
            return Answer::declining(format!("level {level} does not wait for approval"));
        };
        match state.status.clone() {
            LevelStatus::AwaitingApproval { candidate } if candidate.tree == *tree => {
                state.approved = Some(tree.clone());
                state.status = LevelStatus::Landing { candidate };
                Answer::saying(format!("level {level} is approved (tree {})", tree.short()))
            }
            LevelStatus::AwaitingApproval { .. } => {
                Answer::declining(format!("what waits for approval in level {level} has changed"))
            }
            _ => Answer::declining(format!("level {level} does not wait for approval")),
        }
    }

    /// Returns the level that waits for approval, and what would land.
    pub fn awaiting_approval(&self) -> Option<(Level, &Candidate)> {
        let current = self.current_level()?;
        match &current.status {
            LevelStatus::AwaitingApproval { candidate } => Some((current.level, candidate)),
            _ => None,
        }
    }

    /// Whether a user paused the run, and no process has taken it over since.
    pub fn is_paused(&self) -> bool {
        self.paused
    }
}

fn counted(workers: u32) -> String {
    if workers == 1 { "1 worker".to_string() } else { format!("{workers} workers") }
}
