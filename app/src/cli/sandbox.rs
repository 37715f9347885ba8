//! `sandbox`: runs a command as a verification would run, on a checkout of the current commit or on a task's work.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use mahabharatha_core::config::Isolation;
use mahabharatha_core::excerpt::few;
use mahabharatha_core::run::effect::GRACE_PERIOD;
use mahabharatha_engine::cause::hidden_variable;
use mahabharatha_engine::confinement::{self, Confinement};
use mahabharatha_engine::session::control;
use mahabharatha_engine::specs;
use mahabharatha_engine::worker::WORKTREE_VARIABLE;
use mahabharatha_engine::worker::trial::{Interrupts, Settings, Trial};
use mahabharatha_setup::planning::ScratchCheckout;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Cmd, Ended, Exit};
use mahabharatha_sys::project::Project;
use mahabharatha_sys::signals;
use mahabharatha_sys::ui::{self, Ui, one_line};

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
    let is_shell = is_shell(&args.command);
    // A shell needs the whole terminal; of another program the errors are read, to explain a failure.
    let cmd = if is_shell { cmd.inherited() } else { cmd.errors_read().copy_to(ui::errors()) };
    let (ended, cause) = match &args.task {
        Some(task) => run_on_task(global, ui, task, cmd, is_shell)?,
        None => run_on_commit(global, ui, cmd, is_shell)?,
    };
    if let Some(cause) = cause {
        ui.note(&format!("Likely cause: {}", one_line(&cause)));
    }
    // The command's own exit code, so that scripts see what a verification would see.
    std::process::exit(match ended.status {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    })
}

/// Tells whether the command is a shell for the user: none, or a shell without arguments.
fn is_shell(command: &[String]) -> bool {
    const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "fish"];
    match command {
        [] => true,
        [only] => Path::new(only).file_name().is_some_and(|name| SHELLS.iter().any(|shell| name == *shell)),
        _ => false,
    }
}

/// Warns if the command is not confined.
fn warn_without_sandbox(ui: &Ui, isolation: Isolation) {
    if isolation == Isolation::Off {
        ui.warn("there is no sandbox: the command runs with your rights.");
    }
}

/// Says where a shell runs and what becomes of what the user writes there: it looks like the real checkout.
fn announce_shell(ui: &Ui, isolation: Isolation, place: &str, is_copy: bool) {
    let sandbox = if isolation == Isolation::Off { "" } else { "in the sandbox, " };
    let leaves = match is_copy {
        true => "`exit` leaves it and deletes the copy: nothing that you write here is kept.",
        false => "`exit` leaves it.",
    };
    ui.note(&format!("This shell runs {sandbox}{place}. {leaves}"));
}

/// Names the user's changes that a copy of the current commit lacks.
fn tell_of_changes(ui: &Ui, project: &Project) -> Result<()> {
    // Git would run these filters.
    if !project.own_filters()?.is_empty() {
        return Ok(());
    }
    let changed = project.changed_files()?;
    let names = few(&changed);
    match changed.len() {
        0 => {}
        1 => ui.note(&format!("1 uncommitted change is not in this copy: {names}")),
        count => ui.note(&format!("{count} uncommitted changes are not in this copy: {names}")),
    }
    Ok(())
}

/// Runs the command on a checkout of the current commit.
fn run_on_commit(global: &Global, ui: &Ui, cmd: Cmd, is_shell: bool) -> Result<(Ended, Option<String>)> {
    let project = global.project()?;
    let config = specs::load_config(&project)?;
    let confinement = Confinement::choose(&config.sandbox)?;
    warn_without_sandbox(ui, confinement.isolation);
    if is_shell {
        let place = format!("in a copy of commit {}", project.head_commit()?.short());
        announce_shell(ui, confinement.isolation, &place, true);
        tell_of_changes(ui, &project)?;
    }
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
    if let Some(error) = confinement::failure(&sandbox) {
        return Err(error);
    }
    let output = String::from_utf8_lossy(&ended.stdout);
    let hidden = || hidden_variable(&output, &proc::hidden_names(&config.env.pass));
    let cause = if ended.success() { None } else { sandbox.denial(&output).or_else(hidden) };
    drop(output);
    Ok((ended, cause))
}

/// Runs the command on what the task's last attempt left.
fn run_on_task(global: &Global, ui: &Ui, task: &str, cmd: Cmd, is_shell: bool) -> Result<(Ended, Option<String>)> {
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
            hidden_variables: proc::hidden_names(&config.env.pass),
            ports: leases.iter().flat_map(|lease| lease.ports.clone()).collect(),
        },
    )?;
    warn_without_sandbox(ui, trial.isolation());
    if is_shell {
        announce_shell(ui, trial.isolation(), &trial.place(), trial.is_copy());
    } else {
        ui.note(&trial.place());
    }
    trial.run(cmd, Interrupts::new(is_shell, trial.isolation()))
}
