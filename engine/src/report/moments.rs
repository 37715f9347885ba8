//! What happened in a run and when, for `debug`.

use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::run::event::Command;
use mahabharatha_core::run::{Event, Run};
use mahabharatha_core::view::Stamp;
use serde::Serialize;

use super::log_lines::LogLines;

/// Most moments that are kept, the latest ones.
const MAX_MOMENTS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    pub at: Stamp,
    pub text: String,
}

/// Returns what the events of a journal tell, oldest first; of one task only what concerns it.
pub fn moments<'a>(events: impl IntoIterator<Item = (Time, &'a Event)>, task: Option<&str>) -> Vec<Moment> {
    let (mut run, mut lines, mut moments): (Option<Run>, _, Vec<Moment>) = (None, LogLines::default(), Vec::new());
    for (at, event) in events {
        match (&mut run, event) {
            (Some(run), event) => drop(run.step(at, event)),
            (None, Event::Started(setup)) => run = Run::start(at, setup).ok(),
            (None, _) => {}
        }
        let Some(run) = &run else { break };
        let told = lines.tell(event, run);
        if task.is_none_or(|task| concerns(event, task, run.graph())) {
            moments.extend(told.into_iter().map(|line| Moment { at: Stamp(line.at), text: line.text }));
        }
    }
    moments.split_off(moments.len().saturating_sub(MAX_MOMENTS))
}

fn concerns(event: &Event, wanted: &str, graph: &TaskGraph) -> bool {
    let level = || Some(graph.task(&TaskId::new(wanted).ok()?)?.level);
    let is_named = |tasks: &[TaskId]| tasks.is_empty() || tasks.iter().any(|task| task.as_str() == wanted);
    match event {
        Event::JobStarted { task, .. } | Event::JobEnded { task, .. } => task.as_str() == wanted,
        Event::Staged { level: of, .. }
        | Event::GatesPassed { level: of, .. }
        | Event::GateFailed { level: of, .. }
        | Event::Blamed { level: of, .. }
        | Event::Landed { level: of, .. }
        | Event::NotLanded { level: of, .. } => Some(*of) == level(),
        Event::Asked { command, .. } => match command {
            Command::Retry { tasks, .. } | Command::Skip { tasks, .. } | Command::Claim { tasks, .. } => {
                is_named(tasks)
            }
            Command::Finish { task, .. } | Command::Adopt { task } | Command::Grant { task, .. } => {
                task.as_str() == wanted
            }
            Command::Approve { level: of, .. } => Some(*of) == level(),
            _ => false,
        },
        _ => false,
    }
}
