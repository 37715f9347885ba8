//! The run as a state machine: events in, effects out.

pub mod effect;
pub mod event;
