//! Carries out what the core decides: agents, workers, integration, reports.

pub mod agent;
pub mod claude;
pub mod confinement;
pub mod containers;
pub mod history;
pub mod host;
mod launch;
pub mod lease;
mod offline;
pub mod preflight;
pub mod provision;
pub mod report;
pub mod session;
pub mod ship;
pub mod specs;
pub mod worker;
