//! What tasks own in the model: the files of their spec and what they were granted.

use mahabharatha_core::ids::{Level, TaskId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{Amend, JobEnd, JobReport};
use mahabharatha_core::run::{EffectId, Run};
use mahabharatha_core::spec::{GraphFile, TaskSpec};

use crate::model::Model;
use crate::model::parts::Standing;
use crate::rng::Rng;

/// Files granted to a task at most without the user.
const MAX_AUTO: usize = 5;

/// Draws a path: one without an owner, one of a task, or an invalid one.
pub fn path(rng: &mut Rng) -> String {
    match rng.between(0, 9) {
        0 => rng.one_of(["../out.rs", "/etc/passwd", ".git/config", ""]).to_string(),
        1..=4 => format!("extra/{}.rs", rng.between(0, 4)),
        _ => format!("src/T-{:02}.rs", rng.between(0, 6)),
    }
}

/// Draws the last words of an agent that asks for a file.
pub fn request(rng: &mut Rng) -> String {
    format!("it cannot be done\nNEEDS: {} - the type is there", path(rng))
}

impl Model {
    fn owned(&self, task: &TaskId) -> Vec<&str> {
        let granted = self.grants.iter().filter(|(to, ..)| to == task).map(|(_, path, _)| path.as_str());
        let mut listed: Vec<&str> = listed(&self.tasks[task].spec).map(String::as_str).collect();
        listed.sort_unstable();
        listed.into_iter().chain(granted).collect()
    }

    /// Returns another owner of the path whose level is merged or not: the first that is not done, else the first.
    fn owner_besides(&self, task: &TaskId, path: &str, merged: bool) -> Option<TaskId> {
        let is_merged = |id: &TaskId| self.level(Level(self.tasks[id].spec.level)).merged.is_some();
        let is_one = |id: &&TaskId| *id != task && self.owned(id).contains(&path) && is_merged(id) == merged;
        let owners: Vec<&TaskId> = self.order.iter().filter(is_one).collect();
        let is_open = |id: &&&TaskId| matches!(self.tasks[**id].standing, Standing::Open | Standing::Blocked);
        owners.iter().find(is_open).or(owners.first()).map(|id| (*id).clone())
    }

    /// Returns whether a task of a lower level that is not merged yet owns a file of this one.
    pub fn shares_unmerged(&self, task: &TaskId, current: Level) -> bool {
        let unmerged = current.0..self.tasks[task].spec.level;
        let is_below = |other: &&TaskId| unmerged.contains(&self.tasks[*other].spec.level);
        let shares = |other: &TaskId| self.owned(other).iter().any(|path| self.owned(task).contains(path));
        self.order.iter().filter(is_below).any(shares)
    }

    /// Checks that no attempt under way owns a file of this task, which is launched now.
    pub fn check_alone(&self, task: &TaskId) {
        // An attempt at a task that was taken out of the graph, or whose spec has changed, cannot end in a commit.
        let counts = |id: &EffectId, job: &Job| self.tasks.contains_key(&job.task) && !self.outdated.contains(id);
        for other in self.jobs().filter(|(id, job)| counts(id, job)).map(|(_, job)| &job.task) {
            let shared = self.owned(task).into_iter().find(|path| self.owned(other).contains(path));
            assert_eq!(shared, None, "{task} is launched while {other}, which owns the same file, is in progress");
        }
    }

    /// Returns whether a changed graph gives a file that was granted to an unfinished task to another one.
    pub fn disputes_grants(&self, graph: &GraphFile) -> bool {
        let is_merged = |id: &str| {
            let task = self.tasks.iter().find(|(task, _)| task.as_str() == id);
            task.is_some_and(|(_, entry)| self.level(Level(entry.spec.level)).merged.is_some())
        };
        let granted = |id: &str, path: &String| self.grants.iter().any(|(to, of, _)| to.as_str() == id && of == path);
        let open = || graph.tasks.iter().filter(|task| !is_merged(&task.id));
        self.grants.iter().any(|(to, path, _)| {
            let owns = |task: &TaskSpec| listed(task).any(|own| own == path) || granted(&task.id, path);
            let is_other = |task: &TaskSpec| task.id != to.as_str() && owns(task);
            open().any(|task| task.id == to.as_str()) && open().any(|task| is_other(task))
        })
    }

    /// Checks a grant that was accepted, and takes it over.
    pub fn granted(&mut self, task: &TaskId, paths: &[String]) {
        for path in paths {
            assert!(path.starts_with("src/") || path.starts_with("extra/"), "{path} is granted to {task}");
            let owner = self.owner_besides(task, path, false);
            assert_eq!(owner, None, "{path} is granted to {task}, and it is another unfinished task's");
            self.grants.push((task.clone(), path.clone(), false));
        }
        if self.tasks[task].standing == Standing::Blocked {
            self.retried(task);
        }
    }

    /// Takes over what follows from an agent's request. Returns whether the task goes on.
    pub fn requested(&mut self, task: &TaskId, report: &JobReport) -> bool {
        let (JobEnd::Blocked { reason } | JobEnd::Escalated { reason }) = &report.end else { return false };
        let Some((_, line)) = reason.split_once("NEEDS: ") else { return false };
        let path = line.trim_end_matches(" - the type is there");
        if !path.starts_with("src/") && !path.starts_with("extra/") {
            return false;
        }
        if let Some(owner) = self.owner_besides(task, path, false) {
            let note = (owner, format!("{task} needs a change in {path}: the type is there"));
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
            return false;
        }
        let auto = self.grants.iter().filter(|(to, _, auto)| to == task && *auto).count();
        let taken = self.owned(task).contains(&path) || self.owner_besides(task, path, true).is_some();
        let grants = self.policy.amend == Amend::Auto && auto < MAX_AUTO && !taken;
        if grants {
            self.grants.push((task.clone(), path.to_string(), true));
        }
        grants
    }
}

/// Returns the files that a task lists.
fn listed(task: &TaskSpec) -> impl Iterator<Item = &String> {
    task.files.create.iter().chain(&task.files.modify)
}

/// Checks what every task owns.
pub fn check(model: &Model, run: &Run) {
    for task in run.graph().tasks() {
        let owned: Vec<&str> = task.owned.iter().map(|owned| owned.path.as_str()).collect();
        assert_eq!(owned, model.owned(&task.id), "{} owns something else", task.id);
    }
}
