//! Lists what a run would execute, to show it before anything is executed.

use mahabharatha_core::config::Config;
use mahabharatha_core::graph::Task;
use mahabharatha_core::run::event::SETUP;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc;

use super::choose;

/// Returns every command of the repository that a run would execute, each with where it is defined.
pub fn commands(config: &Config, tasks: &[&Task], asked: Option<&str>) -> Result<Vec<(String, String)>> {
    let mut commands = Vec::new();
    for task in tasks.iter().filter(|task| !task.spec.foreground) {
        let (name, agent) = choose(config, &task.spec, asked)?;
        match (&task.spec.run, agent.command.is_empty()) {
            (Some(run), true) => commands.push((format!("{} (run)", task.id), run.clone())),
            _ => commands.push((format!("{} (agent {name})", task.id), proc::shell_line(&agent.whole_command()))),
        }
        if !task.spec.verification.is_blank() {
            commands.push((format!("{} (verification)", task.id), task.spec.verification.command.clone()));
        }
    }
    if let Some(setup) = &config.worktrees.setup {
        commands.push((SETUP.to_string(), setup.clone()));
    }
    if let Some(prepare) = &config.merge.prepare {
        commands.push(("merge.prepare".to_string(), prepare.clone()));
    }
    for gate in &config.quality_gates {
        commands.push((format!("gate {}", gate.name), gate.command.clone()));
    }
    if let Some(command) = &config.notify.command {
        commands.push(("notify.command".to_string(), command.clone()));
    }
    Ok(commands)
}
