//! A feature's tasks as its list shows them.

use std::collections::BTreeMap;

use mahabharatha_core::graph::{Task, TaskGraph};
use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_core::view::{RunView, TaskView};
use mahabharatha_sys::ui::{clean, fit, one_line};
use serde_json::{Map, Value, json};

/// In columns, of a title and of the reason behind it.
const LONGEST_TITLE: usize = 120;
const LONGEST_REASON: usize = 100;
/// In characters, of a text of others in a description.
const LONGEST_TEXT: usize = 4_000;

/// What the client knows.
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

    /// Of a status of ours. The client hides a task whose status it does not know.
    pub fn of(ours: &str) -> Status {
        match ours {
            "in_progress" => Status::InProgress,
            "completed" | "skipped" => Status::Completed,
            _ => Status::Pending,
        }
    }
}

/// The part of a feature's life that comes before its tasks.
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

/// What an entry is about, by which it is found again under whatever id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Phase(Phase),
    Task(TaskId),
}

/// What is noted in an entry of anybody's: project, feature, what it is about.
pub fn noted(task: &Map<String, Value>) -> Option<(&str, &str, Key)> {
    let metadata = task.get("metadata")?;
    Some((metadata["project"].as_str()?, metadata["feature"].as_str()?, Key::noted(metadata)?))
}

impl Key {
    fn noted(metadata: &Value) -> Option<Key> {
        let phase = Phase::ALL.into_iter().find(|phase| metadata["phase"] == phase.word()).map(Key::Phase);
        phase.or_else(|| TaskId::new(metadata["task"].as_str()?).ok().map(Key::Task))
    }

    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Key::Phase(_) => None,
            Key::Task(task) => Some(task),
        }
    }

    fn note(&self) -> (&'static str, &str) {
        match self {
            Key::Phase(phase) => ("phase", phase.word()),
            Key::Task(task) => ("task", task.as_str()),
        }
    }
}

/// One task of the list as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: Key,
    pub subject: String,
    pub description: String,
    pub active_form: String,
    pub status: Status,
    /// Our own word for it.
    pub ours: &'static str,
    pub owner: Option<String>,
    pub needs: Vec<Key>,
    /// Without the key, the project and the feature.
    pub metadata: Map<String, Value>,
    pub attempt: u32,
    /// Whether a person may say that it is done: nobody is at it, and its turn has come.
    pub claimable: bool,
    /// Whether it is made where it is not there.
    pub made: bool,
}

impl Entry {
    pub fn metadata_of(&self, project: &str, feature: &Feature) -> Map<String, Value> {
        let (name, value) = self.key.note();
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
        let ours = status.word();
        Entry {
            key: Key::Phase(phase),
            subject,
            description: format!("mahabharatha {} {feature}", phase.word()),
            active_form,
            status,
            ours,
            owner: None,
            needs: Vec::new(),
            metadata: [("status".to_string(), json!(ours))].into_iter().collect(),
            attempt: 0,
            claimable: false,
            made: true,
        }
    }
}

/// Every task of a run. What came before it is over.
pub fn entries(view: &RunView, graph: &TaskGraph, feature: &Feature) -> Vec<Entry> {
    let phases = Phase::ALL.map(|phase| Entry { made: false, ..Entry::of_phase(phase, feature, Status::Completed) });
    let specs: BTreeMap<&TaskId, &Task> = graph.tasks().iter().map(|task| (&task.id, task)).collect();
    let tasks = view.tasks.iter().filter_map(|task| Some(entry(view, task, specs.get(&task.id)?)));
    phases.into_iter().chain(tasks).collect()
}

fn entry(view: &RunView, task: &TaskView, spec: &Task) -> Entry {
    let title = fit(&one_line(&task.title), LONGEST_TITLE);
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
        ours: task.status,
        owner: worker.map(|worker| format!("worker-{worker}")),
        needs: task.dependencies.iter().cloned().map(Key::Task).collect(),
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        attempt: task.attempt,
        claimable: Some(task.level) == view.level && matches!(task.status, "pending" | "waiting" | "blocked"),
        made: view.status != "completed",
    }
}

/// What the client's own status cannot say.
fn remark(task: &TaskView) -> String {
    let reason = task.reason.as_deref().unwrap_or_default();
    let headline = reason.lines().map(one_line).find(|line| !line.is_empty()).unwrap_or_default();
    match task.status {
        "blocked" | "skipped" => format!(" ({}: {})", task.status, fit(&headline, LONGEST_REASON)),
        "waiting" => " (waits for a person)".to_string(),
        _ => String::new(),
    }
}

fn description(view: &RunView, task: &TaskView, spec: &Task) -> String {
    let reason = task.reason.as_deref().unwrap_or_default();
    let mut parts = match (task.status, task.checkpoint_note()) {
        ("blocked", _) => vec![format!("BLOCKED: {}", text(reason))],
        ("skipped", _) => vec![format!("SKIPPED: {}", text(reason))],
        ("waiting", _) => vec!["WAITING: it needs a person.".to_string()],
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
    facts.push("Ownership: it may change what it creates and modifies, and nothing else.".to_string());
    parts.push(facts.join("\n"));
    parts.join("\n\n")
}

/// Of others: harmless, and not endless.
fn text(of_others: &str) -> String {
    let clean = clean(of_others.trim());
    match clean.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}
