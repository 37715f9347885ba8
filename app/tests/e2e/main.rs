//! The real program on real git.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_testing::{agents, support, terminal};

mod attempts;
mod bad_input;
mod base_moves;
mod bounds;
mod changed_config;
mod checkout;
mod clean_gates;
mod commands;
mod completion;
mod control;
mod costs;
mod debug;
mod disk;
mod failing_attempts;
mod features;
mod gates;
mod hooks;
mod hostile;
mod hostile_books;
mod inception;
mod install;
mod json_output;
mod killed;
mod landing;
mod links;
mod lost_commits;
mod names;
mod ownership;
mod peers_control;
mod peers_integration;
mod plan;
mod preflight;
mod progress;
mod races;
mod readers;
mod reasons;
mod repositories;
mod resume;
mod secrets;
mod specs;
mod state_files;
mod status;
mod stop;
mod survivors;
mod task_list;
mod task_mode;
mod task_mode_hard;
mod untrusted;
mod whole_way;
mod worktrees_dir;
