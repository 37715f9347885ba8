//! The run as a state machine: events in, effects out.
//!
//! `step` is the only place that decides. `drive` connects it to a journal and a host, real or simulated.

mod accepted;
mod breaker;
mod command;
mod control;
mod drive;
pub mod effect;
pub mod event;
mod fix;
mod grants;
mod jobs;
mod levels;
pub mod needs;
pub mod notes;
mod replan;
mod roster;
mod schedule;
mod service;
mod session;
mod state;
mod step;
mod task_budget;
mod work_time;

pub use breaker::{Breaker, MIN_LIFETIME};
pub use drive::{Host, Journal, drive, happen, record, record_start, replay, take_over, turn};
pub use effect::{Effect, EffectId};
pub use event::Event;
pub use grants::Grant;
pub use roster::{Roster, Successor};
pub use service::Pause;
pub use state::{
    AttemptRecord, End, LevelFailure, LevelState, LevelStatus, PauseCause, Phase, Run, TaskState, TaskStatus,
    WorkerStatus,
};
