//! `sandbox`: runs a command in a checkout of the current commit as a verification would run.

use std::time::Duration;

use clap::Args;
use mahabharatha_core::config::Isolation;
use mahabharatha_engine::confinement::{self, Confinement};
use mahabharatha_engine::specs;
use mahabharatha_setup::planning::ScratchCheckout;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::proc::{self, Cmd, Exit};
use mahabharatha_sys::ui::Ui;

use super::Global;

#[derive(Debug, Args)]
pub struct SandboxArgs {
    /// The command; without one, a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(global: &Global, ui: &Ui, args: &SandboxArgs) -> Result<std::convert::Infallible> {
    let project = global.project()?;
    let config = specs::load_config(&project)?;
    let confinement = Confinement::choose(&config.sandbox)?;
    if confinement.isolation == Isolation::Off {
        ui.warn("there is no sandbox: the command runs with your rights.");
    }
    let scratch = ScratchCheckout::open(&project)?;
    scratch.check_out()?;
    let specs =
        global.place(None).map_or_else(|_| project.root().join(".gsd/specs"), |place| place.paths.specs().to_owned());
    let sandbox = scratch.sandbox(&project, &specs, &confinement)?;
    let cmd = match args.command.as_slice() {
        [] => Cmd::new("/bin/sh"),
        [command] => Cmd::shell(command),
        [program, args @ ..] => Cmd::new(program).args(args),
    };
    let cmd = cmd.envs(proc::base_env(&config.env.pass)).env("MAHABHARATHA_WORKTREE", sandbox.workdir()).inherited();
    proc::become_subreaper().map_err(Error::caused("cannot become the parent of orphans"))?;
    let ended = sandbox.confine(cmd)?.run().map_err(Error::caused("cannot run the command"))?;
    proc::end_descendants(Duration::ZERO);
    if let Some(error) = confinement::failure(&sandbox) {
        return Err(error);
    }
    drop(scratch);
    // The command's own exit code, so that scripts see what a verification would see.
    std::process::exit(match ended.status {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    })
}
