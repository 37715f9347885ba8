//! The hidden command `confine-filter`, which git runs as a filter: reads a file on standard input, writes it to standard
//! output, and works in a worktree that it may only read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::config::Isolation;

use super::{Sandbox, Workplace};
use crate::error::{Error, Kind, Result};
use crate::proc::{Cmd, Exit, base_env, own_program};

/// Name of the hidden command.
pub const FILTER_COMMAND: &str = "confine-filter";
/// Time limit of a filter. One process may serve all files of a checkout.
const FILTER_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the program and the arguments that run a filter in such a sandbox, in which it may read these paths too.
pub fn filter_launcher(isolation: Isolation, read: &[PathBuf]) -> io::Result<Vec<String>> {
    let own = own_program()?;
    let mut words = vec![own.to_string_lossy().into_owned(), FILTER_COMMAND.to_owned(), isolation.to_string()];
    words.extend(read.iter().map(|path| path.to_string_lossy().into_owned()));
    Ok(words)
}

/// Runs the filter as `ISOLATION [READ…] -- COMMAND [FILE]` says.
pub fn run_filter(args: &[OsString]) -> Result<()> {
    let usage = || Error::new(Kind::Usage, format!("{FILTER_COMMAND} is called by git"));
    let [isolation, rest @ ..] = args else { return Err(usage()) };
    let Some(separator) = rest.iter().position(|word| word == "--") else { return Err(usage()) };
    let (read, [_, command, file @ ..]) = rest.split_at(separator) else { return Err(usage()) };
    let known = [Isolation::Bwrap, Isolation::Landlock, Isolation::SandboxExec];
    let isolation = known.into_iter().find(|known| isolation == OsStr::new(&known.to_string())).ok_or_else(usage)?;

    let cannot = || Error::caused("cannot set up the sandbox of a filter");
    let scratch = tempfile::tempdir().map_err(cannot())?;
    let worktree = std::env::current_dir().and_then(|dir| dir.canonicalize()).map_err(cannot())?;
    let place = Workplace { worktree: &worktree, appears_at: &worktree, writable: false };
    let mut sandbox = Sandbox::create(&scratch.path().join("sandbox"), isolation, place)?;
    sandbox.without_network();
    for path in read.iter().map(Path::new).filter(|path| path.exists()) {
        sandbox.read(path);
        sandbox.link_below_home(path)?;
    }
    // In the user's checkout they hold tokens and the state of runs.
    for private in [".git", ".mahabharatha"].map(|name| worktree.join(name)).iter().filter(|path| path.is_dir()) {
        sandbox.hide(private);
    }
    let program = command.to_str().and_then(|command| command.split_whitespace().next()).map(Path::new);
    if let Some(program) = program.filter(|program| program.is_absolute() && program.is_file()) {
        sandbox.show_program(program, &worktree)?;
    }
    let cmd = Cmd::new("/bin/sh").arg("-c").arg(command).arg("sh").args(file).envs(base_env(&[]));
    let ended = sandbox.confine(cmd.inherited().timeout(FILTER_TIMEOUT))?.run().map_err(cannot())?;
    if let Some(why) = sandbox.failure() {
        return Err(Error::new(Kind::Failed, why));
    }
    if ended.status != Exit::Code(0) {
        let what = format!("git's filter `{}` failed with {}", command.display(), ended.status);
        return Err(Error::new(Kind::Failed, what).hint(
            "If it needs files of your home, add them to `sandbox.read` in .mahabharatha/config.yaml; it has no network.",
        ));
    }
    Ok(())
}
