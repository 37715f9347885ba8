//! `worker`: runs one attempt at one task, as its job spec says. Started by the orchestrator.

use std::ffi::OsString;
use std::path::Path;

use mahabharatha_engine::worker;
use mahabharatha_sys::proc;

/// Runs the job if this process was started for one; then it does not return. Called before the command line is parsed,
/// which would take as long as the start of this program.
pub fn run_if_called() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [command, _task, option, dir] = args.as_slice() else { return };
    if command == "worker" && option == "--job-dir" {
        proc::limit_memory_pools();
        // A worker has exit codes of its own: 0 done, 1 error, 2 checkpoint, 3 blocked, 4 escalated.
        std::process::exit(worker::run_job(Path::new(dir)))
    }
}
