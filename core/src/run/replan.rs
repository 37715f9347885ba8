//! Changes of the graph between two processes.

use super::effect::{Effect, Purpose};
use super::state::{LevelState, LevelStatus, Run, TaskState, TaskStatus, levels_of};
use crate::graph::{Rules, Task, TaskGraph};
use crate::ids::TaskId;
use crate::spec::GraphFile;

impl Run {
    /// Returns why a changed graph is refused; empty if it is accepted.
    pub fn cannot_replan(&self, file: &GraphFile) -> Vec<String> {
        match TaskGraph::check(file, None, Rules::ACCEPTED) {
            (Some(graph), _) => self.too_late_for(&graph),
            (None, problems) if problems.is_empty() => vec!["the graph is invalid".to_string()],
            (None, problems) => problems.into_iter().map(|problem| problem.message).collect(),
        }
    }

    fn too_late_for(&self, graph: &TaskGraph) -> Vec<String> {
        let mut reasons = Vec::new();
        for (index, task) in self.graph.tasks().iter().enumerate() {
            let why = if matches!(self.tasks[index].status, TaskStatus::Completed { .. }) {
                "it is completed".to_string()
            } else if is_on_its_way(&self.levels[self.level_of(index)]) {
                format!("level {} is merged or about to be", task.level)
            } else {
                continue;
            };
            match graph.task(&task.id) {
                None => reasons.push(format!("{} cannot be removed: {why}", task.id)),
                Some(changed) if changed.spec != task.spec => {
                    reasons.push(format!("{} cannot be changed: {why}", task.id));
                }
                Some(_) => {}
            }
        }
        reasons.extend(self.conflicts_with_grants(graph));
        let begun = self.levels.iter().rfind(|level| !matches!(level.status, LevelStatus::Pending));
        let is_new = |task: &&Task| self.graph.task(&task.id).is_none_or(|known| known.level != task.level);
        for task in graph.tasks().iter().filter(is_new) {
            if let Some(begun) = begun
                && (task.level < begun.level || task.level == begun.level && is_on_its_way(begun))
            {
                reasons.push(format!("{} comes too late for level {}", task.id, task.level));
            }
        }
        if let Some(level) = graph.levels().last()
            && let Some(last) = self.levels.iter().find(|state| state.level == *level)
            && is_on_its_way(last)
            && !last.verified
        {
            reasons.push(format!(
                "level {level} cannot become the last one: it is merged or about to be, and every task is verified once \
                 more with the last level; skip the tasks above it instead (`mahabharatha skip`)"
            ));
        }
        reasons
    }

    /// Accepts a changed graph if possible; the process that resumes decides what follows.
    pub(super) fn replanned(&mut self, file: &GraphFile) {
        let (Some(graph), _) = TaskGraph::check(file, None, Rules::ACCEPTED) else { return };
        if !self.too_late_for(&graph).is_empty() {
            return;
        }
        let (level_before, was_last) = self.current_and_last();
        self.outdate_jobs(&graph);
        let tasks: Vec<TaskState> = graph.tasks().iter().map(|task| self.state_for(&task.id)).collect();
        for (index, task) in self.graph.tasks().iter().enumerate() {
            if graph.task(&task.id).is_none() {
                let attempts = std::mem::take(&mut self.tasks[index].attempts);
                self.removed.insert(task.id.clone(), attempts);
            }
        }
        let mut levels = levels_of(&graph, &tasks);
        for level in &mut levels {
            if let Some(old) = self.levels.iter().find(|old| old.level == level.level) {
                *level = LevelState { tasks: level.tasks.clone(), open: level.open, ..old.clone() };
            }
        }
        self.setup.graph = file.clone();
        self.graph = self.apply_grants(graph).into();
        self.tasks = tasks;
        self.levels = levels;
        self.go_on_from(level_before, was_last);
        self.reschedule();
    }

    fn current_and_last(&self) -> (Option<crate::ids::Level>, bool) {
        (self.current_level().map(|level| level.level), self.current().is_some_and(|level| self.is_last(level)))
    }

    /// Drops effects that make no sense for the new graph.
    fn go_on_from(&mut self, level_before: Option<crate::ids::Level>, was_last: bool) {
        let (level, is_last) = self.current_and_last();
        let merges_on = self.current_level().is_some_and(|current| {
            let same = level == level_before && (is_last == was_last || is_on_its_way(current));
            same && current.open == 0
        });
        if !merges_on {
            let stays = |effect: &Effect| {
                matches!(effect, Effect::RunJob(_) | Effect::PrepareSlot { .. } | Effect::CheckBase { .. })
            };
            self.outstanding.retain(|_, effect| stays(effect));
            if let Some(LevelState { status, .. }) = self.current().map(|current| &mut self.levels[current])
                && matches!(status, LevelStatus::AwaitingApproval { .. })
            {
                *status = LevelStatus::Gating;
            }
        }
        if let Some(current) = self.current()
            && self.levels[current].open > 0
            && !matches!(self.levels[current].status, LevelStatus::Pending)
        {
            self.levels[current].run_again();
        }
    }

    /// Marks jobs whose spec has changed, so that their result does not count.
    fn outdate_jobs(&mut self, graph: &TaskGraph) {
        for (id, effect) in &self.outstanding {
            if let Effect::RunJob(job) = effect
                && job.purpose == Purpose::Build
                && let (Some(old), Some(new)) = (self.graph.task(&job.task), graph.task(&job.task))
                && old.spec != new.spec
            {
                self.outdated.insert(*id);
            }
        }
    }

    /// Returns the state of a task in the new graph. A task that comes back continues the numbers of its attempts.
    fn state_for(&mut self, id: &TaskId) -> TaskState {
        if let Some(index) = self.graph.index(id) {
            let mut state = self.tasks[index].clone();
            if matches!(state.status, TaskStatus::Waiting) {
                // Whether it still is a foreground task is decided again.
                state.status = TaskStatus::Pending;
            }
            return state;
        }
        let mut state = TaskState { attempts: self.removed.remove(id).unwrap_or_default(), ..TaskState::default() };
        for (effect, outstanding) in &self.outstanding {
            if let Effect::RunJob(job) = outstanding
                && job.task == *id
            {
                state.status = TaskStatus::InProgress { effect: *effect, attempt: job.attempt, worker: job.worker };
                self.outdated.insert(*effect);
            }
        }
        state
    }
}

/// Whether the level is on the base branch or about to be.
fn is_on_its_way(level: &LevelState) -> bool {
    matches!(level.status, LevelStatus::Merged { .. } | LevelStatus::Landing { .. })
}
