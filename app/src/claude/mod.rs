//! What Claude Code itself sees of a feature.

pub mod tasks;
