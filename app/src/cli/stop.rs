//! `stop`: end a run, or what a run that died left running. When it returns, nothing runs.

use std::time::Duration;

use clap::Args;
use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::event::Command;

use super::place::Place;
use super::{Global, steer};
use crate::error::{Error, ExitCode, Result};
use crate::host::jobs;
use crate::store::locks::FeatureLock;
use crate::store::spool::{self, Asked};
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct StopArgs {
    /// Only this worker; the others go on
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// How long agents have to end by themselves
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
}

pub fn run(global: &Global, ui: &Ui, args: &StopArgs) -> Result<ExitCode> {
    let place = global.place(None)?;
    steer::read_run(&place)?;
    let grace = if args.force { Duration::ZERO } else { Duration::from_secs(args.grace) };
    let worker = args.worker.map(WorkerId);
    let command = Command::Stop { force: args.force, grace_ms: grace.as_millis() as u64, worker };
    let stopped = match spool::ask(place.paths.dir(), &place.paths.lock_sign(), &command)? {
        Asked::Answered(answer) if worker.is_some() => {
            return match answer.message {
                Some(message) if message.starts_with("there is no") => Err(Error::new(ExitCode::Usage, message)),
                _ => {
                    ui.note(&format!("worker {} is being stopped; its task goes to another", args.worker.unwrap_or(0)));
                    Ok(ExitCode::Done)
                }
            };
        }
        Asked::Answered(_) => {
            // The run lets go of its lock when the last of its processes is gone.
            let lock = FeatureLock::wait(place.paths.dir(), &place.paths.lock_sign())?;
            end_survivors(&place, &lock, grace)?;
            true
        }
        Asked::TookLock { lock, .. } => end_survivors(&place, &lock, grace)? > 0,
    };
    if ui.json() {
        ui.data(&serde_json::json!({ "feature": place.feature.as_str(), "stopped": stopped }).to_string());
    } else if stopped {
        ui.note(&format!("{} is stopped; its work is kept. Go on with: mahabharatha run {0}", place.feature));
    } else {
        ui.note(&format!("nothing runs for {}", place.feature));
    }
    Ok(ExitCode::Done)
}

/// Ends workers that outlived their orchestrator. The lock shows that none is alive.
fn end_survivors(place: &Place, _nobody_drives: &FeatureLock, grace: Duration) -> Result<usize> {
    jobs::end_survivors(&place.paths, grace)
}
