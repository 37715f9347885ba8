//! Starts a worker as a process on this machine.

use std::path::Path;

use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Result, io};
use mahabharatha_sys::proc::{self, Cmd, MARKER, Running};
use mahabharatha_sys::store::state_file;

use crate::worker::JobSpec;

/// Output of the worker itself, empty unless the worker crashes.
const OUTPUT_FILE: &str = "output.log";

/// Starts the worker of a job. The worker survives the orchestrator: it reads its spec from a file, writes its output to
/// one, and has its own process group.
pub fn start(job_dir: &Path, spec: &JobSpec) -> Result<Running> {
    let output = job_dir.join(OUTPUT_FILE);
    let file = state_file::open(&output).map_err(io("create", &output))?;
    file.set_len(0).map_err(io("write", &output))?;
    let program = proc::own_program().map_err(Error::caused("cannot start a worker"))?;
    Cmd::new(program)
        .args(["worker", spec.job.task.as_str(), "--job-dir"])
        .arg(job_dir)
        .envs(proc::base_env(&spec.env_pass))
        .envs(proc::base_env(&spec.agent.profile.env))
        .envs(crash::worker_env())
        .env(MARKER, job_dir)
        .files(spec.as_input(job_dir)?, file)
        .spawn()
        .map_err(Error::caused("cannot start a worker"))
}
