//! Entries of the task list: how a feature's tasks and phases are shown.

use std::collections::BTreeMap;

use mahabharatha_core::graph::{Task, TaskGraph};
use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_core::view::{RunView, TaskView};
use mahabharatha_sys::ui::{clean, fit, one_line};
use serde_json::{Map, Value, json};

const MAX_TITLE_COLUMNS: usize = 120;
const MAX_REASON_COLUMNS: usize = 100;
/// Characters kept of a text that users or agents wrote.
const MAX_TEXT_CHARS: usize = 4_000;

/// Statuses that the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pending,
    InProgress,
    Completed,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
        }
    }

    /// Translates a status of the run. The client hides tasks whose status it does not know.
    pub fn of(our_status: &str) -> Status {
        match our_status {
            "in_progress" => Status::InProgress,
            "completed" | "skipped" => Status::Completed,
            _ => Status::Pending,
        }
    }
}

/// A phase of a feature before its tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Plan,
    Design,
}

impl Phase {
    const ALL: [Phase; 2] = [Phase::Plan, Phase::Design];

    fn word(self) -> &'static str {
        match self {
            Phase::Plan => "plan",
            Phase::Design => "design",
        }
    }
}

/// Subject of an entry, by which the entry is found again whatever its id is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Phase(Phase),
    Task(TaskId),
}

/// Returns project, feature and key from an entry's metadata; `None` if the entry was not written by us.
pub fn origin_of(task: &Map<String, Value>) -> Option<(&str, &str, Key)> {
    let metadata = task.get("metadata")?;
    Some((metadata["project"].as_str()?, metadata["feature"].as_str()?, Key::from_metadata(metadata)?))
}

impl Key {
    fn from_metadata(metadata: &Value) -> Option<Key> {
        let phase = Phase::ALL.into_iter().find(|phase| metadata["phase"] == phase.word()).map(Key::Phase);
        phase.or_else(|| TaskId::new(metadata["task"].as_str()?).ok().map(Key::Task))
    }

    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Key::Phase(_) => None,
            Key::Task(task) => Some(task),
        }
    }

    /// Returns the metadata field that identifies the entry.
    fn metadata_field(&self) -> (&'static str, &str) {
        match self {
            Key::Phase(phase) => ("phase", phase.word()),
            Key::Task(task) => ("task", task.as_str()),
        }
    }
}

/// Desired state of one entry of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: Key,
    pub subject: String,
    pub description: String,
    pub active_form: String,
    pub status: Status,
    /// Status in the run.
    pub our_status: &'static str,
    pub owner: Option<String>,
    pub needs: Vec<Key>,
    /// Metadata besides key, project and feature.
    pub metadata: Map<String, Value>,
    pub attempt: u32,
    /// Whether a user may claim that it is completed: its level has begun and no attempt is running.
    pub claimable: bool,
    /// Whether the entry is created if it is missing.
    pub create_if_missing: bool,
}

impl Entry {
    /// Returns the complete metadata of the entry.
    pub fn metadata_of(&self, project: &str, feature: &Feature) -> Map<String, Value> {
        let (name, value) = self.key.metadata_field();
        let mut metadata = Map::new();
        for (name, value) in [("project", project), ("feature", feature.as_str()), (name, value)] {
            metadata.insert(name.to_string(), json!(value));
        }
        metadata.extend(self.metadata.clone());
        metadata
    }

    pub fn of_phase(phase: Phase, feature: &Feature, status: Status) -> Entry {
        let (subject, active_form) = match phase {
            Phase::Plan => (format!("[Plan] Capture requirements: {feature}"), format!("Planning {feature}")),
            Phase::Design => (format!("[Design] Architecture for {feature}"), format!("Designing {feature}")),
        };
        let our_status = status.word();
        Entry {
            key: Key::Phase(phase),
            subject,
            description: format!("mahabharatha {} {feature}", phase.word()),
            active_form,
            status,
            our_status,
            owner: None,
            needs: Vec::new(),
            metadata: [("status".to_string(), json!(our_status))].into_iter().collect(),
            attempt: 0,
            claimable: false,
            create_if_missing: true,
        }
    }
}

/// Returns the entries of all tasks of a run, and of the phases before it, which are completed.
pub fn entries(view: &RunView, graph: &TaskGraph, feature: &Feature) -> Vec<Entry> {
    let phases = Phase::ALL
        .map(|phase| Entry { create_if_missing: false, ..Entry::of_phase(phase, feature, Status::Completed) });
    let specs: BTreeMap<&TaskId, &Task> = graph.tasks().iter().map(|task| (&task.id, task)).collect();
    let tasks = view.tasks.iter().filter_map(|task| Some(entry(view, task, specs.get(&task.id)?)));
    phases.into_iter().chain(tasks).collect()
}

fn entry(view: &RunView, task: &TaskView, spec: &Task) -> Entry {
    let title = fit(&one_line(&task.title), MAX_TITLE_COLUMNS);
    let worker = task.worker.filter(|_| matches!(task.status, "in_progress" | "completed"));
    let metadata = json!({
        "level": task.level, "status": task.status, "attempt": task.attempt, "commit": task.commit, "reason": task.reason,
    });
    Entry {
        key: Key::Task(task.id.clone()),
        subject: format!("[L{}] {title}{}", task.level, remark(task)),
        description: description(view, task, spec),
        active_form: format!("Executing {title}"),
        status: Status::of(task.status),
        our_status: task.status,
        owner: worker.map(|worker| format!("worker-{worker}")),
        needs: task.dependencies.iter().cloned().map(Key::Task).collect(),
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        attempt: task.attempt,
        claimable: Some(task.level) == view.level && matches!(task.status, "pending" | "waiting" | "blocked"),
        create_if_missing: view.status != "completed",
    }
}

/// Returns a suffix for the title with what the client's statuses cannot express.
fn remark(task: &TaskView) -> String {
    let reason = task.reason.as_deref().unwrap_or_default();
    let headline = reason.lines().map(one_line).find(|line| !line.is_empty()).unwrap_or_default();
    match task.status {
        "blocked" | "skipped" => format!(" ({}: {})", task.status, fit(&headline, MAX_REASON_COLUMNS)),
        "waiting" => " (waits for a person)".to_string(),
        _ => String::new(),
    }
}

fn description(view: &RunView, task: &TaskView, spec: &Task) -> String {
    let reason = task.reason.as_deref().unwrap_or_default();
    let mut parts = match (task.status, task.checkpoint_note()) {
        ("blocked", _) => vec![format!("BLOCKED: {}", text(reason))],
        ("skipped", _) => vec![format!("SKIPPED: {}", text(reason))],
        ("waiting", _) => vec!["WAITING: this task needs a person.".to_string()],
        (_, Some(note)) => vec![format!("CHECKPOINT: {}", text(note))],
        _ => Vec::new(),
    };
    parts.extend(spec.spec.description.as_deref().or(spec.spec.action.as_deref()).map(text));
    let files = &spec.spec.files;
    let mut facts = vec![format!("Task {} of {}, level {}", task.id, view.feature, task.level)];
    for (name, paths) in [("Creates", &files.create), ("Modifies", &files.modify), ("Reads", &files.read)] {
        facts.extend((!paths.is_empty()).then(|| format!("{name}: {}", one_line(&paths.join(", ")))));
    }
    let needs: Vec<&str> = task.dependencies.iter().map(TaskId::as_str).collect();
    facts.extend((!needs.is_empty()).then(|| format!("Needs: {}", needs.join(", "))));
    let command = &spec.spec.verification.command;
    facts.extend((!command.is_empty()).then(|| format!("Verification: {}", text(command))));
    facts.push("Ownership: the task may change only the files that it creates or modifies.".to_string());
    parts.push(facts.join("\n"));
    parts.join("\n\n")
}

/// Cleans and shortens a text that users or agents wrote.
fn text(untrusted: &str) -> String {
    let clean = clean(untrusted.trim());
    match clean.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}
