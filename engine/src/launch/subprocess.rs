//! A worker as a process on this machine.

use std::fs::File;
use std::path::{Path, PathBuf};

use mahabharatha_core::run::effect::Job;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, ExitCode, Result, io};
use mahabharatha_sys::proc::{self, Cmd, MARKER, Running};

/// What the worker itself prints: nothing, unless it is broken.
const OUTPUT_FILE: &str = "output.log";

/// Starts the worker of a job whose spec is written. It goes on if we die: its output is a file, its group its own.
pub fn start(program: &Path, job_dir: &Path, job: &Job, env_pass: &[String]) -> Result<Running> {
    let output = job_dir.join(OUTPUT_FILE);
    let file = File::create(&output).map_err(io("create", &output))?;
    // Somebody may have removed the program, or be about to put a newer one in its place: what runs can still be run.
    let program = if program.exists() { program } else { Path::new("/proc/self/exe") };
    Cmd::new(program)
        .args(["worker", job.task.as_str(), "--job-dir"])
        .arg(job_dir)
        .envs(proc::base_env(env_pass))
        .envs(crash::worker_env())
        .env(MARKER, job_dir)
        .output_to(file)
        .spawn()
        .map_err(|error| Error::new(ExitCode::Failed, error.to_string()))
}

/// The program that is running now, as workers are to run it.
pub fn own_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::new(ExitCode::Failed, format!("cannot tell where this program is: {error}")))
}
