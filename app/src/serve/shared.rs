//! What all connections share, and what the addresses name.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use mahabharatha_core::ids::{Feature, TaskId};
use mahabharatha_engine::session::control;
use mahabharatha_sys::project::{Place, Project};
use serde::Deserialize;

use super::live::{Hub, Live};
use super::problem::Problem;

#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    project: Project,
    actions: bool,
    hub: Hub,
}

impl Shared {
    pub fn new(project: Project, actions: bool) -> Shared {
        Shared(Arc::new(Inner { project, actions, hub: Hub::default() }))
    }

    pub fn project(&self) -> &Project {
        &self.0.project
    }

    pub fn allows_actions(&self) -> bool {
        self.0.actions
    }

    /// Returns the place of a feature that exists. May block.
    pub fn place(&self, name: &str) -> Result<Place, Problem> {
        let known = Feature::new(name).ok().filter(|feature| self.0.project.known_features().contains(feature));
        let unknown = || {
            Problem::new(StatusCode::NOT_FOUND, "unknown_feature", format!("there is no feature {name}"))
                .hint("`mahabharatha list` shows all features.")
        };
        known.map(|feature| Place::new(self.0.project.clone(), feature)).ok_or_else(unknown)
    }

    /// Returns place and feed of a feature that exists. May block.
    pub fn live(&self, name: &str) -> Result<(Place, Arc<Live>), Problem> {
        let place = self.place(name)?;
        let live = self.0.hub.live(&place)?;
        Ok((place, live))
    }
}

/// Does work that blocks, on a thread for it.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let gone = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the work was interrupted");
    tokio::task::spawn_blocking(work).await.map_err(gone)?
}

/// The names in a path.
#[derive(Debug, Deserialize)]
pub struct Names {
    pub feature: String,
    #[serde(default)]
    task: String,
}

impl Names {
    pub fn with_task(&self, task: &str) -> Names {
        Names { feature: self.feature.clone(), task: task.to_string() }
    }

    /// Returns the task, which the run must have. May block.
    pub fn task_in(&self, live: &Live) -> Result<TaskId, Problem> {
        let find = |run: &mahabharatha_core::run::Run| {
            let known = TaskId::new(self.task.as_str()).ok().filter(|task| run.task(task).is_some());
            known.ok_or_else(|| {
                Problem::of(StatusCode::NOT_FOUND, "unknown_task", &control::no_such_task(run, &self.task))
            })
        };
        let no_run = || {
            let message = format!("there has been no run of {}", self.feature);
            Problem::new(StatusCode::NOT_FOUND, "no_run", message)
                .hint(format!("Start one: mahabharatha run {}", self.feature))
        };
        live.with_run(|run, _| find(run)).ok_or_else(no_run)?
    }

    /// Returns the attempt that is wanted, else the latest one of the task; an error if there is no such attempt. May block.
    pub fn attempt_in(&self, live: &Live, task: &TaskId, wanted: Option<u32>) -> Result<u32, Problem> {
        let known = live.with_run(|run, _| {
            let attempts = run.task(task).map_or(&[][..], |state| &state.attempts);
            attempts.iter().map(|record| record.attempt.0).collect::<Vec<_>>()
        });
        let known = known.unwrap_or_default();
        match wanted {
            None => Ok(known.last().copied().unwrap_or(0)),
            Some(number) if known.contains(&number) => Ok(number),
            Some(number) => {
                let message = format!("{task} has no attempt {number}");
                Err(Problem::new(StatusCode::NOT_FOUND, "unknown", message))
            }
        }
    }

    /// Returns the name of the task, or of the gate's log.
    pub fn item(&self) -> &str {
        &self.task
    }
}

/// What the query of an address asks for.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    pub attempt: Option<u32>,
    pub file: Option<String>,
    pub task: Option<String>,
    pub gate: Option<String>,
    pub level: Option<u32>,
    /// Whether a task's log has its output too.
    pub output: Option<bool>,
}

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Names, Problem> {
        let names = Path::<Names>::from_request_parts(parts, state).await;
        names.map(|Path(names)| names).map_err(|_: PathRejection| Problem::nothing_there())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Wanted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Wanted, Problem> {
        let bad = |error: QueryRejection| Problem::new(StatusCode::BAD_REQUEST, "bad_request", error.body_text());
        Query::<Wanted>::from_request_parts(parts, state).await.map(|Query(wanted)| wanted).map_err(bad)
    }
}
