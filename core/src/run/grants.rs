//! Grants: files that a task owns beside those of its spec, because its agent asked for them and no other unfinished task owns them.

use std::sync::Arc;

use super::event::Amend;
use super::needs::{Need, needs_in};
use super::notes::TaskNote;
use super::state::{LevelStatus, Run, TaskStatus};
use crate::graph::{OwnedPath, TaskGraph};
use crate::ids::TaskId;

/// Most files that a task is granted without the user.
const MAX_AUTO_GRANTS: usize = 5;

/// A path that a task owns beside those of its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub task: TaskId,
    pub path: OwnedPath,
    /// Granted without the user.
    pub auto: bool,
}

impl Run {
    /// Returns the paths that a task was granted, in order, as they are written in a spec.
    pub fn granted_to<'a>(&'a self, task: &'a TaskId) -> impl Iterator<Item = String> + 'a {
        let written = |path: &OwnedPath| if path.directory { format!("{}/", path.path) } else { path.path.clone() };
        self.grants.iter().filter(move |grant| grant.task == *task).map(move |grant| written(&grant.path))
    }

    /// Returns the files that a blocked task asks for.
    pub fn needs_of(&self, task: &TaskId) -> Vec<Need> {
        self.task(task).and_then(|state| state.question()).map(needs_in).unwrap_or_default()
    }

    /// Grants a task all of these paths or none, and requeues it if it is blocked.
    pub(super) fn grant(&mut self, task: usize, paths: &[String]) -> Result<(), String> {
        self.still_open_to_change(task)?;
        let is_blocked = matches!(self.tasks[task].status, TaskStatus::Blocked { .. });
        if let Some(why) = self.over_task_budget(task).filter(|_| is_blocked) {
            return Err(why);
        }
        if paths.is_empty() {
            return Err("no path is named".to_string());
        }
        let paths = paths.iter().map(|path| self.grantable(task, path)).collect::<Result<Vec<_>, _>>()?;
        self.add_grants(task, paths, false);
        if is_blocked { self.retry(task, None) } else { Ok(()) }
    }

    /// Returns the path as the task would own it, or why it cannot.
    fn grantable(&self, task: usize, text: &str) -> Result<OwnedPath, String> {
        let path = OwnedPath::read(text)?;
        for own in &self.graph.tasks()[task].owned {
            if own.path == path.path || own.covers(&path.path) {
                return Err(format!("it owns {} already", path.path));
            }
            if own.touches(&path) {
                return Err(format!("it owns {}, so it cannot own {} too", own.path, path.path));
            }
        }
        match self.unmerged_owner(task, &path) {
            Some(owner) => Err(format!("{} belongs to {owner}, which is not merged", path.path)),
            None => Ok(path),
        }
    }

    /// Returns another task that owns the path or a part of it and may still change it: of several the first that is not
    /// done, else the first.
    fn unmerged_owner(&self, task: usize, path: &OwnedPath) -> Option<&TaskId> {
        let owners = || self.graph.owners_touching(path).filter(|owner| *owner != task && !self.is_merged(*owner));
        let owner = owners().find(|owner| self.tasks[*owner].is_open()).or_else(|| owners().next())?;
        Some(&self.graph.tasks()[owner].id)
    }

    fn is_merged(&self, task: usize) -> bool {
        matches!(self.levels[self.level_of(task)].status, LevelStatus::Merged { .. })
    }

    fn add_grants(&mut self, task: usize, paths: Vec<OwnedPath>, auto: bool) {
        let before = self.grants.len();
        for path in paths {
            let grant = Grant { task: self.graph.tasks()[task].id.clone(), path, auto };
            if !self.grants.contains(&grant) {
                self.grants.push(grant);
            }
        }
        let added = self.grants[before..].iter().map(|grant| (task, grant.path.clone()));
        self.graph = Arc::new(TaskGraph::clone(&self.graph).with_grants(added));
    }

    /// Meets what the agent of a blocked task asks for, if the policy and the files of the base allow it. Returns whether
    /// the task can go on. Tells the tasks whose files it asks for.
    pub(super) fn meet_needs(&mut self, task: usize, words: &str, base_allows: bool) -> bool {
        let needs = needs_in(words);
        for need in &needs {
            self.tell_owner(task, need);
        }
        let id = &self.graph.tasks()[task].id;
        let granted = self.grants.iter().filter(|grant| grant.auto && grant.task == *id).count();
        let is_allowed = base_allows && self.policy.amend != Amend::Ask;
        if needs.is_empty() || !is_allowed || granted + needs.len() > MAX_AUTO_GRANTS {
            return false;
        }
        let unowned = |need: &Need| {
            let path = self.grantable(task, &need.path).ok().filter(|path| !path.directory)?;
            let is_owned = self.graph.owners_touching(&path).next().is_some();
            (!is_owned).then_some(path)
        };
        let Some(paths) = needs.iter().map(unowned).collect::<Option<Vec<_>>>() else { return false };
        self.add_grants(task, paths, true);
        true
    }

    /// Notes the request for the task that owns the file and may still change it.
    fn tell_owner(&mut self, task: usize, need: &Need) {
        let Ok(path) = OwnedPath::read(&need.path) else { return };
        let Some(owner) = self.unmerged_owner(task, &path).cloned() else { return };
        let from = self.graph.tasks()[task].id.clone();
        let text = request(&from, &path, need);
        self.keep_note(TaskNote { task: owner, from: Some(from), text, question: None });
    }

    /// Returns the tasks that were told that the agent of this one asks for a file of theirs.
    pub fn told_of(&self, task: &TaskId, need: &Need) -> Vec<&TaskId> {
        let Ok(path) = OwnedPath::read(&need.path) else { return Vec::new() };
        let text = request(task, &path, need);
        let is_it = |note: &&TaskNote| note.from.as_ref() == Some(task) && note.text == text;
        self.notes.iter().filter(is_it).map(|note| &note.task).collect()
    }

    /// Returns why a changed graph gives a granted file to another task, also to one that was granted it while the first
    /// task was not in the graph.
    pub(super) fn conflicts_with_grants(&self, graph: &TaskGraph) -> Vec<String> {
        let graph = self.apply_grants(graph.clone());
        let mut reasons = Vec::new();
        for grant in &self.grants {
            let Some(index) = graph.index(&grant.task) else { continue };
            if self.graph.index(&grant.task).is_some_and(|known| self.is_merged(known)) {
                continue;
            }
            for owner in graph.owners_touching(&grant.path).filter(|owner| *owner != index) {
                let owner = &graph.tasks()[owner].id;
                if !self.graph.index(owner).is_some_and(|known| self.is_merged(known)) {
                    reasons.push(format!("{owner} cannot own {}: it was granted to {}", grant.path.path, grant.task));
                }
            }
        }
        reasons
    }

    /// Applies the grants to a changed graph.
    pub(super) fn apply_grants(&self, graph: TaskGraph) -> TaskGraph {
        let placed = |grant: &Grant| Some((graph.index(&grant.task)?, grant.path.clone()));
        let grants: Vec<(usize, OwnedPath)> = self.grants.iter().filter_map(placed).collect();
        graph.with_grants(grants)
    }
}

/// Returns what the owner of a file is told that the agent of another task asks for.
fn request(from: &TaskId, path: &OwnedPath, need: &Need) -> String {
    let why = if need.why.is_empty() { String::new() } else { format!(": {}", need.why) };
    format!("{from} needs a change in {}{why}", path.path)
}
