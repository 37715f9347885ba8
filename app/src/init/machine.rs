//! What the commands of a project need of the machine that they run on.

use std::collections::BTreeMap;

use super::detect::{Survey, Tool};
use crate::proc::called_by;

/// What to do about programs that the gates call and that are not here.
pub fn missing_programs(survey: &Survey, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let commands = survey.quality.commands.iter().chain(&survey.quality.prepare);
    let commands: Vec<String> = commands.map(|command| command.here(&is_there).command).collect();
    let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for command in &commands {
        if let Some(program) = called_by(command).filter(|program| !is_there(program)) {
            callers.entry(program).or_default().push(command);
        }
    }
    let step = |(program, commands): (&str, Vec<&str>)| {
        let calls: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
        format!(
            "put {program} on PATH (install it, or activate the environment that has it): {} cannot pass without it",
            calls.join(", ")
        )
    };
    callers.into_iter().map(step).collect()
}

/// Variables that say where toolchains are, by what the project is made of. They hold paths, never secrets.
pub fn variables(survey: &Survey, is_set: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let by_tool: [(Tool, &[&str]); 8] = [
        (Tool::Python, &["PYENV_ROOT"]),
        (Tool::Node, &["VOLTA_HOME"]),
        (Tool::Go, &["GOROOT", "GOPATH", "GOMODCACHE"]),
        (Tool::Rust, &["CARGO_HOME", "RUSTUP_HOME"]),
        (Tool::Java, &["JAVA_HOME", "GRADLE_USER_HOME"]),
        (Tool::DotNet, &["DOTNET_ROOT"]),
        (Tool::Ruby, &["RBENV_ROOT", "GEM_HOME"]),
        (Tool::Php, &["COMPOSER_HOME"]),
    ];
    let used = by_tool.into_iter().filter(|(tool, _)| survey.uses(*tool));
    used.flat_map(|(_, names)| names.iter().copied()).filter(|name| is_set(name)).collect()
}
