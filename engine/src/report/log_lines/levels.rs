//! Log lines about levels: how they start, are staged, gated and merged.

use std::collections::BTreeSet;

use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::event::{Candidate, GateFailure, GatePass, Note, Obstacle};
use mahabharatha_core::run::{Event, LevelState, LevelStatus, TaskState, TaskStatus};
use mahabharatha_core::view::approval_command;
use mahabharatha_sys::ui::one_line;

use super::{Severity, Telling};
use crate::report::text::{count, few, gate_gist, has_or_have, headline};

impl Telling<'_> {
    /// Reports a level that the event started.
    pub(super) fn level_begun(&mut self) {
        if self.after.running_level.is_none() || self.after.running_level == self.before.running_level {
            return;
        }
        let Some(LevelState { level, tasks, open, .. }) = self.run.current_level().cloned() else { return };
        let workers = (self.run.policy().workers as usize).min(open);
        let to_do = if open == tasks.len() { count(open, "task") } else { format!("{open} of {} tasks", tasks.len()) };
        self.say(Severity::Info, format!("level {level}: {to_do}, {}", count(workers, "worker")));
        for index in tasks {
            if matches!(self.run.tasks()[index].status, TaskStatus::Waiting) {
                let id = &self.run.graph().tasks()[index].id;
                let text = format!("{id} waits for a person: `/mahabharatha:worker {id}` in Claude Code");
                self.say(Severity::Warn, text);
            }
        }
    }

    /// Reports levels that had nothing to merge.
    pub(super) fn empty_levels(&mut self, event: &Event) {
        for index in self.before.merged_levels..self.after.merged_levels {
            let level = self.run.levels()[index].level;
            if !matches!(event, Event::Landed { level: landed, .. } if *landed == level) {
                self.say(Severity::Info, format!("level {level}: nothing to merge"));
            }
        }
    }

    pub(super) fn staged(&mut self, level: Level, staging: &Oid, commits: usize) {
        let text = format!("level {level}: {} on staging ({})", count(commits, "commit"), staging.short());
        self.say(Severity::Info, text);
    }

    pub(super) fn gates_passed(&mut self, level: Level, candidate: &Candidate, passed: &[GatePass]) {
        let clean = if passed.iter().any(|pass| pass.clean) { " in a clean checkout" } else { "" };
        let of_level = format!("level {level}");
        let has_passed = |command: &str| {
            let is_of_gate = |pass: &&GatePass| pass.task.is_none() && pass.tree == candidate.tree;
            self.run.passed_gates().filter(is_of_gate).any(|pass| pass.command == command)
        };
        // The level would not have passed if one of them was required.
        let gates: Vec<(String, bool)> =
            self.gates().map(|(name, command)| (name.to_owned(), has_passed(&command))).collect();
        if !gates.is_empty() {
            let failed: BTreeSet<&str> = gates.iter().filter(|gate| !gate.1).map(|gate| gate.0.as_str()).collect();
            let text = self.gates_phrase(&of_level, clean, &failed);
            self.say(Severity::Info, text);
        } else if !passed.is_empty() {
            let text = format!("{of_level}: {}", self.verified_phrase(level, clean));
            self.say(Severity::Info, text);
        }
        if let Some((level, candidate)) = self.run.awaiting_approval() {
            let command = approval_command(self.run, level, candidate);
            self.say(Severity::Warn, format!("level {level} waits for your approval: `{command}`"));
        }
    }

    /// Returns the quality gates that the run has, with their commands.
    pub(super) fn gates(&self) -> impl Iterator<Item = (&str, String)> {
        self.run.policy().accepted.gates()
    }

    /// Says how many of the gates passed, and of the others why their failure is only reported.
    pub(super) fn gates_phrase(&self, what: &str, clean: &str, failed: &BTreeSet<&str>) -> String {
        if failed.is_empty() {
            return format!("{what} passed its gates{clean}");
        }
        let all: BTreeSet<&str> = self.gates().map(|(name, _)| name).chain(failed.iter().copied()).collect();
        let was_red = |name: &&str| self.run.red_gates().iter().any(|red| red.gate == *name);
        let (red, others): (Vec<&str>, Vec<&str>) = failed.iter().copied().partition(was_red);
        let listed = |names: &[&str]| few(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let mut text = format!("{what}: {} of {} passed{clean}", all.len() - failed.len(), count(all.len(), "gate"));
        if !others.is_empty() {
            let are = if others.len() == 1 { "is" } else { "are" };
            text.push_str(&format!(", {} failed and {are} not required", listed(&others)));
        }
        if !red.is_empty() {
            let (were, base) = (if red.len() == 1 { "was" } else { "were" }, self.base_branch());
            text.push_str(&format!(", {} failed and {were} red on {base} before", listed(&red)));
        }
        text
    }

    /// Says that every verification passed with the level, and which tasks have none.
    fn verified_phrase(&self, level: Level, clean: &str) -> String {
        let tasks = self.run.verified_with(level);
        let is_unverified =
            |id: &&TaskId| self.run.graph().task(id).is_some_and(|task| task.spec.verification.is_blank());
        let unverified: Vec<String> = tasks.iter().filter(is_unverified).map(ToString::to_string).collect();
        if unverified.is_empty() {
            return format!("every task passed its verification on the merged tree{clean}");
        }
        let (passed, all, has) = (tasks.len() - unverified.len(), tasks.len(), has_or_have(unverified.len()));
        let its = if passed == 1 { "its" } else { "their" };
        format!(
            "{passed} of {} passed {its} verification on the merged tree{clean}, {} {has} no verification",
            count(all, "task"),
            few(&unverified)
        )
    }

    pub(super) fn noted(&mut self, level: Option<Level>, note: &Note) {
        let text = match (note, level) {
            (Note::OnlyReported { failure }, Some(level)) => {
                format!("level {level}: gate {} failed, which is only reported: {}", failure.gate, gate_gist(failure))
            }
            (Note::OnlyReported { failure }, None) => {
                let (gate, base) = (&failure.gate, self.base_branch());
                format!("gate {gate} fails on {base}, which is only reported: {}", gate_gist(failure))
            }
            (Note::StagingKept { name }, _) => {
                format!("what a person did on staging is in the way of the level: it is kept as {name}")
            }
            (Note::Gained { branch, commits }, _) => {
                format!("{branch} has commits that the run did not make, which land with the level: {}", few(commits))
            }
            (Note::LockFilesLeftOut { files }, _) => format!(
                "merge.prepare made {}, which is not committed: it is a symbolic link, or it is new and no task owns it",
                few(files)
            ),
            (Note::LockFilesDeleted { files }, _) => {
                format!("merge.prepare deleted {}, which is committed with the level", few(files))
            }
            (Note::RefPutBack { name }, _) => format!("{name} was changed from outside: it is restored"),
            (Note::JournalPutBack { aside }, _) => {
                format!("the journal was changed from outside: it is restored, and the changed copy is kept in {aside}")
            }
        };
        self.say(Severity::Warn, text);
    }

    pub(super) fn gate_failed(&mut self, level: Level, failure: &GateFailure) {
        let what = match &failure.task {
            Some(task) => format!("the verification of {task} fails on the merged tree"),
            None => format!("gate {} failed", failure.gate),
        };
        let redone = failure.task.as_ref().and_then(|task| self.run.task(task)).is_some_and(TaskState::is_open);
        let then = if redone { "; it is not completed any more" } else { "" };
        self.say(Severity::Warn, format!("level {level}: {what}: {}{then}", gate_gist(failure)));
        if let Some(denial) = failure.cause.as_deref().filter(|_| failure.denied) {
            self.say(Severity::Warn, format!("level {level}: {}", one_line(denial)));
        }
    }

    pub(super) fn blamed(&mut self, level: Level, task: Option<&TaskId>, why: &str) {
        let text = match task {
            Some(task) => format!("level {level}: {task} is to blame: {}", headline(why)),
            None => format!("level {level}: no task can be blamed: {}", headline(why)),
        };
        self.say(Severity::Warn, text);
    }

    pub(super) fn landed(&mut self, level: Level, commit: &Oid) {
        let text = format!("level {level} merged into {} ({})", self.landing_branch(), commit.short());
        self.say(Severity::Info, text);
    }

    /// Reports an obstacle only if the run continues: otherwise the run's end reports it.
    pub(super) fn not_landed(&mut self, level: Level, obstacle: &Obstacle) {
        let gating = self.run.current_level().is_some_and(|current| matches!(current.status, LevelStatus::Gating));
        if *obstacle == Obstacle::BaseMoved && gating {
            let base = self.base_branch();
            let text = format!("{base} moved while level {level} was gated: it is merged in and gated again");
            self.say(Severity::Warn, text);
        }
        if let Obstacle::Outdated { .. } = obstacle {
            self.say(Severity::Warn, format!("level {level}: {obstacle}; it is not completed any more"));
        }
    }
}
