//! `logs`: what workers and tasks logged.

use clap::Args;

use super::Global;
use crate::error::{ExitCode, Result};
use crate::report::logs::{self, Filter};
use crate::store::watch;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Only what this worker did
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Only what was done for this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Go on showing what comes
    #[arg(long)]
    follow: bool,
    /// Only what is newer: a time, or a length such as 10m
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Only this level and above
    #[arg(long, value_name = "LEVEL", value_parser = ["debug", "info", "warn", "error"])]
    level: Option<String>,
    /// Only lines that contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}
