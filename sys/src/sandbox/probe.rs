//! Finds out which sandboxes work on this machine, by using them.

use std::path::Path;
use std::time::Duration;

use mahabharatha_core::config::{Isolation, SandboxMode};

use super::system::SANDBOXES;
use super::{Sandbox, Workplace};
use crate::error::{Error, Kind, Result};
use crate::proc::Cmd;

const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a program in such a sandbox. An error of kind `Preflight` says why it does not work here; any other, why that could
/// not be found out.
pub fn available(isolation: Isolation) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::new(Kind::Preflight, format!("{isolation} does not work here: {}", why.trim()))
            .hint("`sandbox: auto` uses what works; `mahabharatha help security` says what each sandbox needs."))
    };
    if isolation == Isolation::Off {
        return Ok(());
    }
    let scratch = tempfile::tempdir().map_err(Error::caused("cannot create a temporary directory"))?;
    let worktree = scratch.path().join("worktree");
    std::fs::create_dir(&worktree).map_err(Error::caused("cannot create a temporary directory"))?;
    let place = Workplace { worktree: &worktree, appears_at: Path::new("/tmp/worktree"), writable: true };
    let sandbox = Sandbox::create(&scratch.path().join("sandbox"), isolation, place)?;
    let cmd = sandbox.confine(Cmd::shell(": > probe").env("PATH", std::env::var_os("PATH").unwrap_or_default()))?;
    let ended = cmd.merged().timeout(PROBE_TIMEOUT).run().map_err(Error::caused("cannot try the sandbox"))?;
    if ended.timed_out {
        return Err(Error::new(Kind::Failed, format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())));
    }
    let printed = String::from_utf8_lossy(&ended.stdout);
    match sandbox.failure() {
        Some(why) => {
            // `confine` prints the reason as well.
            let others: Vec<&str> = printed
                .lines()
                .filter(|line| !line.ends_with(&why) && !why.ends_with(line.trim_start_matches("bwrap: ")))
                .collect();
            refuse(&if others.is_empty() { why } else { format!("{why}: {}", others.join("\n")) })
        }
        None if !ended.success() || !worktree.join("probe").exists() => refuse(&printed),
        None => Ok(()),
    }
}

/// Says why the strongest sandbox of this system is not the one that is in force; none if it is, or if there is none.
pub fn why_weaker(isolation: Isolation) -> Option<String> {
    let strongest = *SANDBOXES.first()?;
    if isolation == strongest || !SANDBOXES.contains(&isolation) {
        return None;
    }
    let error = available(strongest).err()?;
    let why = error.message().strip_prefix(&format!("{strongest} does not work here: ")).unwrap_or(error.message());
    Some(format!("{isolation}, which stops less than {strongest} ({strongest}: {})", why.lines().next().unwrap_or(why)))
}

/// Returns the isolation for a mode; fails if the one asked for does not work here.
pub fn choose(mode: SandboxMode) -> Result<Isolation> {
    match mode {
        SandboxMode::Off => Ok(Isolation::Off),
        SandboxMode::Bwrap => available(Isolation::Bwrap).map(|()| Isolation::Bwrap),
        SandboxMode::Landlock => available(Isolation::Landlock).map(|()| Isolation::Landlock),
        SandboxMode::SandboxExec => available(Isolation::SandboxExec).map(|()| Isolation::SandboxExec),
        SandboxMode::Auto => {
            for isolation in SANDBOXES {
                match available(isolation) {
                    Ok(()) => return Ok(isolation),
                    Err(error) if error.kind() == Kind::Preflight => {}
                    Err(error) => return Err(unknown(isolation, &error)),
                }
            }
            Ok(Isolation::Off)
        }
    }
}

/// Returns the error for a sandbox that could not be tried. A run must not go on without one for that reason.
fn unknown(isolation: Isolation, error: &Error) -> Error {
    let kind = if error.kind() == Kind::OutOfSpace { Kind::OutOfSpace } else { Kind::Preflight };
    Error::new(kind, format!("cannot find out whether {isolation} works here: {}", error.message())).hint(
        "Mend that, or choose a sandbox yourself: `sandbox: landlock` or `sandbox: off` in .mahabharatha/config.yaml.",
    )
}
