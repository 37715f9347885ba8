//! `mbh`, the short name: runs the `mahabharatha` that is installed beside it, with the same arguments.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return failed(&error),
    };
    let error = Command::new(own.with_file_name("mahabharatha")).arg0("mbh").args(std::env::args_os().skip(1)).exec();
    failed(&error)
}

fn failed(error: &std::io::Error) -> ExitCode {
    eprintln!("error: mbh cannot start mahabharatha, which must be in the same directory: {error}");
    ExitCode::FAILURE
}
