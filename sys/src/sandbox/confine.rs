//! The hidden command `confine`: prepares its own process, then starts the program in the sandbox. It ends when every
//! process inside has ended.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;

use mahabharatha_core::config::Isolation;

use super::{FAILURE, Layout, container, sandbox_exec, system};
use crate::bounded::{self, LARGE_FILE_BYTES};
use crate::proc::exec;
use crate::raw;

/// Runs the program confined as the layout file says and returns its exit code; 128 and the number of the signal that
/// killed it. If the sandbox cannot be set up, reports why in a file beside the layout.
pub fn confine(layout_file: &Path, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    let dir = layout_file.parent().unwrap_or(Path::new("/"));
    let result = read(layout_file).and_then(|layout| start(&layout, dir, program, args));
    if let Err(error) = &result {
        fs::write(layout_file.with_file_name(FAILURE), error.to_string())?;
    }
    result
}

/// Serves as the helper in a container, until its standard input ends.
pub fn serve_inside() -> io::Result<()> {
    crate::container::serve(io::stdin(), io::stdout())
}

fn read(layout_file: &Path) -> io::Result<Layout> {
    Ok(serde_json::from_slice(&bounded::read(layout_file, LARGE_FILE_BYTES)?)?)
}

fn start(layout: &Layout, dir: &Path, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    system::die_with_caller()?;
    // A session of its own: a program that shares the caller's terminal could type into it.
    rustix::process::setsid()?;
    raw::close_inherited_on_exec()?;
    system::leave_session_keyring()?;
    match layout.isolation {
        Isolation::Bwrap | Isolation::Landlock => system::run(layout, program, args),
        Isolation::SandboxExec => sandbox_exec::run(layout, dir, program, args),
        Isolation::Container => container::run(layout, dir, program, args),
        Isolation::Off => Err(exec(program, args)),
    }
}
