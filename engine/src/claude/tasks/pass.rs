//! One pass over a list: compares it with the desired entries and corrects the differences.

use std::collections::{BTreeMap, BTreeSet};

use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_sys::error::Result;
use serde_json::{Map, Value, json};

use super::dir::{Content, ListDir};
use super::entry::{Entry, Key, Status, origin_of};

type Task = Map<String, Value>;

/// Project and feature whose entries are ours.
#[derive(Debug, Clone)]
pub struct Owner {
    pub project: String,
    pub feature: Feature,
}

/// Contents of a list.
pub struct Found {
    /// Our entries with their ids; of two with the same key the first.
    ours: BTreeMap<Key, (u64, Task)>,
    others: BTreeSet<u64>,
    /// The client is writing an entry, which may be ours.
    pub being_written: bool,
}

/// Result of a pass.
#[derive(Debug, Default)]
pub struct Pass {
    /// The client held a lock or was writing: another pass is needed.
    pub held: bool,
    /// Claimed tasks.
    pub claims: Vec<TaskId>,
}

impl Owner {
    pub fn find(&self, dir: &ListDir) -> Result<Found> {
        let mut found = Found { ours: BTreeMap::new(), others: BTreeSet::new(), being_written: false };
        for id in dir.ids()? {
            match dir.read(id) {
                Content::Task(task) => match self.key(&task).filter(|key| !found.ours.contains_key(key)) {
                    Some(key) => drop(found.ours.insert(key, (id, task))),
                    None => drop(found.others.insert(id)),
                },
                Content::BeingWritten => found.being_written = true,
                Content::Nothing => {}
            }
        }
        Ok(found)
    }

    fn key(&self, task: &Task) -> Option<Key> {
        let (project, feature, key) = origin_of(task)?;
        (project == self.project && feature == self.feature.as_str()).then_some(key)
    }

    /// Creates missing entries, corrects different ones, and removes our tasks that are not among the entries. Leaves a
    /// claim as it is unless it was refused.
    pub fn sync_all(&self, dir: &ListDir, entries: &[Entry], refused: &BTreeSet<TaskId>) -> Result<Pass> {
        let mut found = self.find(dir)?;
        let mut pass = self.correct(dir, entries, refused, &mut found)?;
        let wanted: BTreeSet<&Key> = entries.iter().map(|entry| &entry.key).collect();
        let is_left_over = |key: &Key| key.task().is_some() && !wanted.contains(key);
        pass.held |= !self.remove_found(dir, &found, is_left_over)?;
        Ok(pass)
    }

    /// Creates and corrects these entries like `sync_all`, and removes nothing.
    pub fn sync(&self, dir: &ListDir, entries: &[Entry], refused: &BTreeSet<TaskId>) -> Result<Pass> {
        self.correct(dir, entries, refused, &mut self.find(dir)?)
    }

    fn correct(&self, dir: &ListDir, entries: &[Entry], refused: &BTreeSet<TaskId>, found: &mut Found) -> Result<Pass> {
        // A missing entry may be the one that is being written.
        let held = found.being_written || !self.create_missing(dir, entries, found)?;
        let mut pass = Pass { held, ..Pass::default() };
        let wanted = Wanted::new(entries, found);
        for entry in entries {
            let Some((id, task)) = found.ours.get(&entry.key) else { continue };
            let is_refused = entry.key.task().is_some_and(|task| refused.contains(task));
            let is_claim = |task: &Task| entry.is_claimed(task) && !is_refused;
            if is_claim(task) {
                pass.claims.extend(entry.key.task().cloned());
                continue;
            }
            if wanted.task(self, entry, *id, Some(task)) == *task {
                continue;
            }
            // Read again with the lock held: the client may have changed the entry since.
            match (dir.lock_file(*id)?, dir.read(*id)) {
                (Some(_), Content::Task(task)) if is_claim(&task) => pass.claims.extend(entry.key.task().cloned()),
                (Some(lock), Content::Task(task)) if self.key(&task).as_ref() == Some(&entry.key) => {
                    dir.write(&lock, *id, &to_json(&wanted.task(self, entry, *id, Some(&task))))?;
                }
                _ => pass.held = true,
            }
        }
        Ok(pass)
    }

    /// Creates missing entries; returns whether all could be created.
    fn create_missing(&self, dir: &ListDir, entries: &[Entry], found: &mut Found) -> Result<bool> {
        let is_missing = |found: &Found, entry: &Entry| entry.create_if_missing && !found.ours.contains_key(&entry.key);
        if !entries.iter().any(|entry| is_missing(found, entry)) {
            return Ok(true);
        }
        let Some(lock) = dir.lock_list()? else { return Ok(false) };
        *found = self.find(dir)?;
        if found.being_written {
            return Ok(false);
        }
        let missing: Vec<&Entry> = entries.iter().filter(|entry| is_missing(found, entry)).collect();
        let first = dir.next_id()?;
        for (id, entry) in (first..).zip(&missing) {
            found.ours.insert(entry.key.clone(), (id, Task::new()));
        }
        let wanted = Wanted::new(entries, found);
        let created: Vec<Task> =
            (first..).zip(&missing).map(|(id, entry)| wanted.task(self, entry, id, None)).collect();
        for ((id, entry), task) in (first..).zip(missing).zip(created) {
            dir.write(&lock, id, &to_json(&task))?;
            found.ours.insert(entry.key.clone(), (id, task));
        }
        Ok(true)
    }

    /// Removes our entries that `is_selected` selects; returns whether all of them could be removed.
    pub fn remove(&self, dir: &ListDir, is_selected: impl Fn(&Key) -> bool) -> Result<bool> {
        self.remove_found(dir, &self.find(dir)?, is_selected)
    }

    fn remove_found(&self, dir: &ListDir, found: &Found, is_selected: impl Fn(&Key) -> bool) -> Result<bool> {
        let mut all = !found.being_written;
        for (key, (id, _)) in found.ours.iter().filter(|(key, _)| is_selected(key)) {
            match (dir.lock_file(*id)?, dir.read(*id)) {
                (Some(lock), Content::Task(task)) if self.key(&task).as_ref() == Some(key) => dir.remove(&lock, *id)?,
                (Some(_), Content::Task(_) | Content::Nothing) => {}
                (None, _) | (_, Content::BeingWritten) => all = false,
            }
        }
        Ok(all)
    }
}

impl Found {
    pub fn task(&self, key: &Key) -> Option<&Task> {
        self.ours.get(key).map(|(_, task)| task)
    }

    pub fn is_empty(&self) -> bool {
        self.ours.is_empty()
    }
}

impl Entry {
    /// Returns whether the entry is claimed: a user marked it as completed when it showed the current attempt and no
    /// attempt was running.
    pub fn is_claimed(&self, task: &Task) -> bool {
        let metadata = task.get("metadata").unwrap_or(&Value::Null);
        let was_open = matches!(metadata["status"].as_str(), Some("pending" | "waiting" | "blocked"));
        self.claimable && status_of(task) == Some("completed") && was_open && metadata["attempt"] == self.attempt
    }
}

pub fn status_of(task: &Task) -> Option<&str> {
    task.get("status").and_then(Value::as_str)
}

/// Returns whether the task's status is the one that we wrote.
pub fn is_as_written(task: &Task) -> bool {
    let ours = task.get("metadata").and_then(|metadata| metadata["status"].as_str());
    ours.is_some_and(|ours| status_of(task) == Some(Status::of(ours).word()))
}

/// Dependencies between the desired entries, as ids in this list.
struct Wanted<'a> {
    needs: BTreeMap<&'a Key, Vec<u64>>,
    needed_by: BTreeMap<&'a Key, Vec<u64>>,
    others: &'a BTreeSet<u64>,
}

impl<'a> Wanted<'a> {
    fn new(entries: &'a [Entry], found: &'a Found) -> Wanted<'a> {
        let id = |key: &Key| found.ours.get(key).map(|(id, _)| *id);
        let mut needed_by: BTreeMap<&Key, Vec<u64>> = BTreeMap::new();
        for entry in entries {
            for need in &entry.needs {
                needed_by.entry(need).or_default().extend(id(&entry.key));
            }
        }
        let needs = entries.iter().map(|entry| (&entry.key, entry.needs.iter().filter_map(id).collect())).collect();
        Wanted { needs, needed_by, others: &found.others }
    }

    /// Returns the desired content of an entry, and keeps harmless additions of others.
    fn task(&self, owner: &Owner, entry: &Entry, id: u64, before: Option<&Task>) -> Task {
        let nothing = Task::new();
        let before = before.unwrap_or(&nothing);
        let ids = |name: &str, ours: Option<&Vec<u64>>| {
            let kept = before.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let kept = kept.filter_map(|id| id.parse().ok()).filter(|id| self.others.contains(id));
            let all: Vec<u64> = ours.into_iter().flatten().copied().chain(kept).collect();
            Value::from_iter(all.iter().map(u64::to_string))
        };
        let mut metadata = before.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.extend(entry.metadata_of(&owner.project, &owner.feature));
        let mut task = Task::new();
        let mut put = |name: &str, value: Value| drop(task.insert(name.to_string(), value));
        put("id", json!(id.to_string()));
        put("subject", json!(entry.subject));
        put("description", json!(entry.description));
        put("activeForm", json!(entry.active_form));
        if let Some(owner) = &entry.owner {
            put("owner", json!(owner));
        }
        put("status", json!(entry.status.word()));
        put("blocks", ids("blocks", self.needed_by.get(&entry.key)));
        put("blockedBy", ids("blockedBy", self.needs.get(&entry.key)));
        put("metadata", Value::Object(metadata));
        task
    }
}

/// Formats an entry as the client does.
fn to_json(task: &Task) -> Vec<u8> {
    serde_json::to_vec_pretty(task).expect("a task has string keys only, so JSON can hold it")
}
