//! Carries out what the run decides.

pub mod integrate;
