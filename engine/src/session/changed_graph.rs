//! Detects that the task graph was changed since its run began.

use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::Oid;
use mahabharatha_core::run::{End, Run};
use mahabharatha_core::spec::{GraphFile, TaskSpec};
use mahabharatha_sys::error::{Error, Kind, Result};

use super::Session;
use crate::specs;

/// Returns the graph file's current contents if they differ from the run's graph. Shows every difference; a change to
/// work that is already done is an error.
pub(super) fn find(session: &Session<'_>, run: &Run, start: &Oid) -> Result<Option<(GraphFile, TaskGraph)>> {
    let Session { project, paths, ref display, ref config, .. } = *session;
    if !paths.graph().exists() {
        if run.ended() == Some(&End::Completed) {
            return Ok(None);
        }
        display.warn(format!("{} is gone; the run goes on with the graph that it began with", paths.graph().display()));
        return Ok(None);
    }
    // Check against the start commit: what the run itself has merged since must not count.
    let tree = specs::start_tree(&project.git(), start)?;
    let file = specs::read_graph(paths, &tree)?;
    if file == run.setup().graph && *start == run.setup().start {
        return Ok(None);
    }
    let (graph, problems) = specs::valid_graph(paths, &file, Some(&tree), config.graph_rules())?;
    specs::warnings(&problems).for_each(|warning| display.warn(warning));
    for difference in differences(run.graph(), &graph) {
        display.note(format!("graph changed: {difference}"));
    }
    let too_late = run.cannot_replan(&file);
    if too_late.is_empty() {
        return Ok(Some((file, graph)).filter(|(file, _)| *file != run.setup().graph));
    }
    let error = Error::new(Kind::Invalid, "the graph changes tasks that are already completed");
    Err(too_late
        .into_iter()
        .fold(error, Error::detail)
        .hint("Put those tasks back as they were; new work goes into new tasks on a level that is not merged."))
}

fn differences(old: &TaskGraph, new: &TaskGraph) -> Vec<String> {
    let mut found = Vec::new();
    for task in old.tasks() {
        match new.task(&task.id) {
            None => found.push(format!("{} was removed", task.id)),
            Some(now) if now.spec != task.spec => {
                found.push(format!("{} was changed ({})", task.id, changed_fields(&task.spec, &now.spec).join(", ")));
            }
            Some(_) => {}
        }
    }
    let added = new.tasks().iter().filter(|task| old.task(&task.id).is_none());
    found.extend(added.map(|task| format!("{} is new on level {}", task.id, task.level)));
    found
}

fn changed_fields(old: &TaskSpec, new: &TaskSpec) -> Vec<String> {
    let fields = |spec: &TaskSpec| match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let other = new.iter().filter(|(name, value)| old.get(*name) != Some(*value)).map(|(name, _)| name);
    other.chain(gone).cloned().collect()
}
