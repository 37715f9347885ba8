//! `sandbox`: runs a command as a verification would run, on a checkout of the current commit or on a task's work.

use std::time::Duration;

use clap::Args;
use mahabharatha_core::config::Isolation;
use mahabharatha_core::run::effect::GRACE_PERIOD;
use mahabharatha_engine::confinement::{self, Confinement};
use mahabharatha_engine::session::control;
use mahabharatha_engine::specs;
use mahabharatha_engine::worker::WORKTREE_VARIABLE;
use mahabharatha_engine::worker::trial::{Interrupts, Settings, Trial};
use mahabharatha_setup::planning::ScratchCheckout;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Cmd, Ended, Exit};
use mahabharatha_sys::signals;
use mahabharatha_sys::ui::Ui;

use super::{Global, answer};

#[derive(Debug, Args)]
pub struct SandboxArgs {
    /// Run on what the task's last attempt left, as its verification would run
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// The command; without one, your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(global: &Global, ui: &Ui, args: &SandboxArgs) -> Result<std::convert::Infallible> {
    let cmd = match args.command.as_slice() {
        [] => Cmd::new(proc::shell()),
        [command] => Cmd::shell(command),
        [program, args @ ..] => Cmd::new(program).args(args),
    };
    let is_shell = args.command.is_empty();
    let ended = match &args.task {
        Some(task) => run_on_task(global, ui, task, cmd.inherited(), is_shell)?,
        None => run_on_commit(global, ui, cmd.inherited(), is_shell)?,
    };
    // The command's own exit code, so that scripts see what a verification would see.
    std::process::exit(match ended.status {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    })
}

/// Says what the command is confined to.
fn announce(ui: &Ui, isolation: Isolation, is_shell: bool) {
    if isolation == Isolation::Off {
        ui.warn("there is no sandbox: the command runs with your rights.");
    } else if is_shell {
        ui.note("This shell runs in the sandbox; `exit` leaves it.");
    }
}

/// Runs the command on a checkout of the current commit.
fn run_on_commit(global: &Global, ui: &Ui, cmd: Cmd, is_shell: bool) -> Result<Ended> {
    let project = global.project()?;
    let config = specs::load_config(&project)?;
    let confinement = Confinement::choose(&config.sandbox)?;
    announce(ui, confinement.isolation, is_shell);
    let scratch = ScratchCheckout::open(&project)?;
    scratch.check_out()?;
    let specs =
        global.place(None).map_or_else(|_| project.root().join(".gsd/specs"), |place| place.paths.specs().to_owned());
    let sandbox = scratch.sandbox(&project, &specs, &confinement)?;
    let cmd = cmd.envs(proc::base_env(&config.env.pass)).env(WORKTREE_VARIABLE, sandbox.workdir());
    proc::become_subreaper().map_err(Error::caused("cannot become the parent of orphans"))?;
    let running = sandbox.confine(cmd)?.spawn().map_err(Error::caused("cannot run the command"))?;
    let canceller = running.canceller();
    let mut interrupts = Interrupts::new(is_shell, confinement.isolation);
    signals::listen(move |before, signal| {
        if !interrupts.passes_on(signal) {
            canceller.cancel(if before == 0 { GRACE_PERIOD } else { Duration::ZERO });
        }
    })?;
    let ended = running.wait().map_err(Error::caused("cannot run the command"))?;
    proc::end_descendants(Duration::ZERO);
    confinement::failure(&sandbox).map_or(Ok(ended), Err)
}

/// Runs the command on what the task's last attempt left.
fn run_on_task(global: &Global, ui: &Ui, task: &str, cmd: Cmd, is_shell: bool) -> Result<Ended> {
    let place = global.known_place(None)?;
    let id = answer::task_id(task)?;
    let run = control::read_run(&place)?;
    let state = run.task(&id).ok_or_else(|| control::no_such_task(&run, task))?;
    let last = state.attempts.last().ok_or_else(|| {
        Error::new(Kind::Invalid, format!("{id} was not tried yet"))
            .hint("Without --task the command runs on a checkout of your current commit.")
    })?;
    let job_dir = place.paths.job(&id, last.attempt);
    if !job_dir.is_dir() {
        return Err(Error::new(Kind::Invalid, format!("what {id} attempt {} left was removed", last.attempt))
            .hint("Without --task the command runs on a checkout of your current commit."));
    }
    let config = specs::load_config(&place.project)?;
    let leases = place.project.lease_ports(&config.ports, 1)?;
    let trial = Trial::open(
        &job_dir,
        Settings {
            confinement: Confinement::choose(&config.sandbox)?,
            env_pass: config.env.pass.clone(),
            ports: leases.iter().flat_map(|lease| lease.ports.clone()).collect(),
        },
    )?;
    announce(ui, trial.isolation(), is_shell);
    ui.note(&trial.place());
    trial.run(cmd, Interrupts::new(is_shell, trial.isolation()))
}
