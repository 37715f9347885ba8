//! Starts a worker as a process on this machine.

use std::path::{Path, PathBuf};

use mahabharatha_core::run::effect::Job;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Result, io};
use mahabharatha_sys::proc::{self, Cmd, MARKER, Running};
use mahabharatha_sys::store::state_file;

/// Output of the worker itself, empty unless the worker crashes.
const OUTPUT_FILE: &str = "output.log";

/// Starts the worker of a job whose spec is written. The worker survives the orchestrator: it writes its output to a
/// file and has its own process group.
pub fn start(program: &Path, job_dir: &Path, job: &Job, env_pass: &[String]) -> Result<Running> {
    let output = job_dir.join(OUTPUT_FILE);
    let file = state_file::open(&output).map_err(io("create", &output))?;
    file.set_len(0).map_err(io("write", &output))?;
    // An update may have removed or be replacing the executable; the running one can still be started through /proc.
    let program = if program.exists() { program } else { Path::new("/proc/self/exe") };
    Cmd::new(program)
        .args(["worker", job.task.as_str(), "--job-dir"])
        .arg(job_dir)
        .envs(proc::base_env(env_pass))
        .envs(crash::worker_env())
        .env(MARKER, job_dir)
        .output_to(file)
        .spawn()
        .map_err(Error::caused("cannot start a worker"))
}

/// Returns the path of the running executable, with which workers are started.
pub fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(Error::caused("cannot find the path of this executable"))
}
