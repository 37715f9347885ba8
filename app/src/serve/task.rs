//! One task for the page: status, spec, prompt, verification, decisions, the commands that solve its problem.

use mahabharatha_core::ids::{Attempt, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_core::view::RunView;
use mahabharatha_engine::report::logs::{LogRecord, last_records};
use mahabharatha_engine::worker::PROMPT;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::clean;
use serde_json::{Value, json};

use crate::observe::{self, TAIL_BYTES};

/// Longest prompt that is shown.
const MAX_PROMPT_BYTES: u64 = 1 << 20;

/// Returns a task of a design that has not run; none if there is no such task.
pub fn planned(place: &Place, task: &str) -> Result<Option<Value>> {
    let planned = observe::planned(place)?;
    let Some(shown) = planned.view.tasks.iter().find(|known| known.id.as_str() == task) else { return Ok(None) };
    let spec = planned.spec(task);
    Ok(Some(
        json!({ "task": shown, "spec": spec, "attempt": 0, "prompt": null, "verification": null, "decisions": [], "commands": [] }),
    ))
}

/// Returns the task; none if the run does not have it.
pub fn read(place: &Place, run: &Run, view: &RunView, task: &TaskId, attempt: u32) -> Option<Value> {
    let shown = view.tasks.iter().find(|known| known.id == *task)?;
    let spec = &run.graph().task(task)?.spec;
    let prompt = place.paths.job(task, Attempt(attempt)).join(PROMPT);
    let decisions = view.decisions.iter().filter(|decision| decision.task == *task).map(|decision| &decision.text);
    let blockers = view.blockers.iter().filter(|blocker| blocker.task.as_ref() == Some(task));
    Some(json!({
        "task": shown,
        "spec": spec,
        "attempt": attempt,
        "prompt": bounded::read_to_string(&prompt, MAX_PROMPT_BYTES).ok(),
        "verification": verification(place, task, attempt, &spec.verification.command),
        "decisions": decisions.collect::<Vec<_>>(),
        "commands": blockers.flat_map(|blocker| &blocker.commands).collect::<Vec<_>>(),
    }))
}

/// Returns the command and the output of an attempt's verification; none if it was not verified.
fn verification(place: &Place, task: &TaskId, attempt: u32, command: &str) -> Option<Value> {
    let is_part = |record: &LogRecord| {
        record.attempt == Some(attempt)
            && matches!(record.event.as_deref(), Some("verification" | "verification_output"))
    };
    let records = last_records(&place.paths.task_log(task), TAIL_BYTES);
    let lines: Vec<String> =
        records.iter().filter(|record| is_part(record)).map(|record| clean(&record.message)).collect();
    (!lines.is_empty()).then(|| json!({ "command": command, "output": lines.join("\n") }))
}
