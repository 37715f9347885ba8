//! `worker`: runs one attempt at one task, as its job spec says. Started by the orchestrator.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_engine::worker;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The task that the job spec is for
    task: String,
    /// Where the job spec is and the result goes
    #[arg(long, value_name = "DIR")]
    job_dir: Option<PathBuf>,
}

pub fn run(_global: &Global, _ui: &Ui, args: &WorkerArgs) -> Result<ExitCode> {
    let Some(dir) = &args.job_dir else {
        return Err(Error::new(Kind::Usage, "a worker is started by `mahabharatha run`, which writes its job spec")
            .hint(format!("To have {} done: mahabharatha run", args.task)));
    };
    // A worker has exit codes of its own: 0 done, 1 error, 2 checkpoint, 3 blocked, 4 escalated.
    std::process::exit(worker::run_job(dir))
}
