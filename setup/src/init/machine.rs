//! Finds out what the project's commands need from the machine they run on.

use std::collections::BTreeMap;

use mahabharatha_sys::proc::{self, leading_program};

use super::detect::{Survey, Tool};

/// Returns one step per program that the gates call and that is not installed.
pub fn missing_programs(survey: &Survey, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let commands = survey.quality.commands.iter().chain(&survey.quality.prepare);
    let commands: Vec<String> = commands.map(|command| command.here(&is_there).command).collect();
    let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for command in &commands {
        if let Some(program) = leading_program(command).filter(|program| !is_there(program)) {
            callers.entry(program).or_default().push(command);
        }
    }
    let step = |(program, commands): (&str, Vec<&str>)| {
        let calls: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
        format!(
            "put {program} on PATH (install it, or activate the environment that has it); these commands need it: {}",
            calls.join(", ")
        )
    };
    callers.into_iter().map(step).collect()
}

/// Variables that locate CA certificates, for any tool that talks to a registry.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Returns the set variables that locate the project's toolchains and certificates. They hold paths, never secrets.
pub fn variables(survey: &Survey, is_set: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let by_tool: [(Tool, &[&str]); 8] = [
        (Tool::Python, &["PYENV_ROOT", "PIP_CERT", "REQUESTS_CA_BUNDLE"]),
        (Tool::Node, &["VOLTA_HOME", "NODE_EXTRA_CA_CERTS"]),
        (Tool::Go, &["GOROOT", "GOPATH", "GOMODCACHE"]),
        (Tool::Rust, &["CARGO_HOME", "RUSTUP_HOME", "CARGO_HTTP_CAINFO"]),
        (Tool::Java, &["JAVA_HOME", "GRADLE_USER_HOME"]),
        (Tool::DotNet, &["DOTNET_ROOT"]),
        (Tool::Ruby, &["RBENV_ROOT", "GEM_HOME"]),
        (Tool::Php, &["COMPOSER_HOME"]),
    ];
    let needs = |wanted: Tool| survey.stack.toolchains.iter().any(|toolchain| toolchain.tool == wanted);
    let used: Vec<&[&str]> = by_tool.into_iter().filter(|(tool, _)| needs(*tool)).map(|(_, names)| names).collect();
    let certificates: &[&str] = if used.is_empty() { &[] } else { &CERTIFICATES };
    used.into_iter().chain([certificates]).flatten().copied().filter(|name| is_set(name)).collect()
}

/// Returns the set proxy variables. Downloads behind a proxy need them, but they may hold a password, so only the user
/// may pass them on.
pub fn proxy_variables(is_set: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy"];
    names.into_iter().filter(|name| is_set(name)).collect()
}

/// Files with the settings of package registries.
const REGISTRY_FILES: [(Tool, &[&str]); 5] = [
    (Tool::Node, &["~/.npmrc"]),
    (Tool::Rust, &["~/.cargo/config.toml"]),
    (Tool::Python, &["~/.pip/pip.conf", "~/.config/pip/pip.conf"]),
    (Tool::Java, &["~/.m2/settings.xml", "~/.gradle/gradle.properties"]),
    (Tool::Go, &["~/.config/go/env"]),
];

/// Returns the files with settings of registries that the project's package managers would read. They may hold
/// credentials.
pub fn registry_files(survey: &Survey, exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let used = REGISTRY_FILES.into_iter().filter(|(tool, _)| survey.toolchain(*tool).is_some());
    used.flat_map(|(_, files)| files).copied().filter(|file| exists(file)).collect()
}

/// Returns the directories with sockets of the databases that the project uses.
pub fn database_sockets(survey: &Survey, exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    survey.stack.databases.iter().map(|database| database.sockets()).filter(|dir| exists(dir)).collect()
}

/// Tells whether there is a file or directory; `~/` is the home directory.
pub fn exists(path: &str) -> bool {
    proc::expand_home(path).exists()
}
