//! Actions of the page: the same as those of the commands and of the screen's keys.

use mahabharatha_core::ids::{Oid, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_engine::session::control;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use serde::Deserialize;

use crate::observe::Action;

/// Why a task is skipped, if the person gives no reason.
const REASON: &str = "skipped on the page";

/// An action as the page asks for it.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Asked {
    Retry {
        task: String,
        #[serde(default)]
        note: String,
    },
    Skip {
        task: String,
        #[serde(default)]
        reason: String,
    },
    Grant {
        task: String,
        paths: Vec<String>,
    },
    Approve {
        /// The tree that the person has seen.
        tree: String,
    },
    Stop {},
}

impl Asked {
    /// Returns the name of the task that it is about.
    pub fn task(&self) -> Option<&str> {
        match self {
            Asked::Retry { task, .. } | Asked::Skip { task, .. } | Asked::Grant { task, .. } => Some(task),
            Asked::Approve { .. } | Asked::Stop {} => None,
        }
    }

    /// Does it; returns what to tell the person.
    pub fn act(self, place: &Place, run: &Run) -> Result<String> {
        self.action(place, run)?.act(place)
    }

    fn action(self, place: &Place, run: &Run) -> Result<Action> {
        let task = |name: &str| TaskId::new(name).map_err(|_| control::no_such_task(run, name));
        Ok(match self {
            Asked::Retry { task: name, note } => Action::Retry { task: task(&name)?, note: note.trim().to_string() },
            Asked::Skip { task: name, reason } => {
                let reason = if reason.trim().is_empty() { REASON } else { reason.trim() }.to_string();
                Action::Skip { task: task(&name)?, reason, with: Vec::new() }
            }
            Asked::Grant { task: name, paths } => Action::Grant { task: task(&name)?, paths },
            Asked::Approve { tree } => {
                let refused =
                    |why: String| Error::new(Kind::Invalid, why).hint("`mahabharatha status` shows what waits now.");
                let tree = Oid::new(tree).map_err(|bad| refused(bad.to_string()))?;
                let Some((level, _)) = run.awaiting_approval() else {
                    return Err(refused(format!("no level of {} waits for approval", place.feature)));
                };
                Action::Approve { level, tree }
            }
            Asked::Stop {} => Action::StopRun { force: false },
        })
    }
}
