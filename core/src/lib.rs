//! The deciding half of mahabharatha. Nothing here sees a clock, a disk, an environment, a network or a
//! process: time comes in with each event, the world is asked for by returning effects.

pub mod charter;
pub mod config;
pub mod cost;
pub mod design;
pub mod devcontainer;
pub mod estimate;
pub mod excerpt;
pub mod graph;
pub mod ids;
mod isolation;
pub mod markdown;
pub mod names;
pub mod plan;
pub mod prompt;
pub mod run;
pub mod sarif;
mod seconds;
pub mod secrets;
mod severity;
pub mod spec;
pub mod view;
