//! `stop`: stops a run, or the orphans of a run that died. When it returns, nothing is running.

use std::time::Duration;

use clap::Args;
use mahabharatha_core::ids::WorkerId;
use mahabharatha_core::run::End;
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::Command;
use mahabharatha_engine::host::jobs;
use mahabharatha_engine::lease::{self, Lease};
use mahabharatha_engine::session::{claims, control};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::spool::{self, Asked};
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct StopArgs {
    /// The feature to stop
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Stop only this worker
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// Time that agents get to end by themselves
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=86_400))]
    grace: u64,
}

pub fn run(global: &Global, ui: &Ui, args: &StopArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let run = control::read_run(&place)?;
    let worker = args.worker.map(WorkerId);
    if let Some(worker) = worker
        && worker.0 as usize >= run.workers().len()
    {
        return Err(Error::new(Kind::Usage, format!("there is no worker {worker}")).hint(format!(
            "The workers of {} are 0 to {}.",
            place.feature,
            run.workers().len() - 1
        )));
    }
    let grace = if args.force { Duration::ZERO } else { Duration::from_secs(args.grace) };
    let command = Command::Stop { force: args.force, grace_ms: grace.as_millis() as u64, worker };
    let stopped = match (spool::ask(place.paths.dir(), &place.paths.holder_file(), &command)?, worker) {
        (Asked::Answered(_), Some(worker)) => {
            wait_for_worker(&place, worker)?;
            true
        }
        (Asked::Answered(_), None) => {
            // The run releases its lock after its last process has exited.
            let lock = FeatureLock::wait(place.paths.dir(), &place.paths.holder_file())?;
            if Lease::driving(place.paths.dir()).is_some() {
                // The lock was held by a command of the session.
                give_up_held(&place, &lock, None)?;
            }
            end_survivors(&place, &lock, None, grace)?;
            true
        }
        (Asked::TookLock { lock, .. }, _) => {
            let held = give_up_held(&place, &lock, worker)?;
            end_survivors(&place, &lock, worker, grace)? || held
        }
    };
    if ui.json() {
        ui.data(
            &serde_json::json!({ "feature": place.feature.as_str(), "worker": worker, "stopped": stopped }).to_string(),
        );
    } else {
        ui.note(&result_text(&place, worker, stopped)?);
    }
    Ok(ExitCode::Done)
}

fn result_text(place: &Place, worker: Option<WorkerId>, stopped: bool) -> Result<String> {
    let feature = &place.feature;
    Ok(match worker {
        _ if !stopped => format!("nothing runs for {feature}"),
        Some(worker) => format!("worker {worker} is stopped; what it was at goes to another"),
        None if control::read_run(place)?.ended() == Some(&End::Completed) => {
            format!("{feature} is completed; nothing runs")
        }
        None => format!("{feature} is paused; its work is kept. Go on with: mahabharatha run {feature}"),
    })
}

/// Waits for the end of a worker that the run's process has cancelled.
fn wait_for_worker(place: &Place, worker: WorkerId) -> Result<()> {
    let run = control::read_run(place)?;
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        for attempt in state.attempts.iter().filter(|attempt| attempt.worker == worker) {
            jobs::wait_for_end(&place.paths, &task.id, attempt.attempt)?;
        }
    }
    Ok(())
}

/// Ends the sessions and the attempts they hold; returns whether there were any. The next attempt saves their work.
fn give_up_held(place: &Place, lock: &FeatureLock, only: Option<WorkerId>) -> Result<bool> {
    let sessions = Lease::all_alive(place.paths.dir());
    if only.is_none() {
        sessions.iter().try_for_each(|lease| lease::end(place.paths.dir(), &lease.session))?;
    }
    let is_meant = |job: &Job, _: &str| only.is_none_or(|only| only == job.worker);
    let held = claims::give_up(&place.project, &place.paths, lock, is_meant)?;
    Ok(held || (only.is_none() && !sessions.is_empty()))
}

/// Ends workers that outlived their orchestrator. The lock proves that no orchestrator is running.
fn end_survivors(place: &Place, _lock: &FeatureLock, only: Option<WorkerId>, grace: Duration) -> Result<bool> {
    jobs::end_survivors(&place.paths, Some(&control::read_run(place)?), only, grace)
}
