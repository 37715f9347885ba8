//! The engine's command line.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mahabharatha_core::config::ContainerEngine;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::proc::{self, Cmd, Ended, bounded_text};

/// Time limit for a call that only asks the engine or changes a container.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How long an engine that is being restarted is waited for.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a container may be in the course of being removed.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);
const REMOVAL_POLL_INTERVAL: Duration = Duration::from_millis(50);
const RESTART_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes kept from an error message of the engine.
const MESSAGE_BYTES: (usize, usize) = (512, 2048);

/// Variables of the user that lead the client to its engine.
const ENVIRONMENT: [&str; 12] = [
    "CONTAINERS_CONF",
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// A container engine that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    kind: EngineKind,
    program: PathBuf,
    env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EngineKind {
    Docker,
    Podman,
}

impl EngineKind {
    fn name(self) -> &'static str {
        match self {
            EngineKind::Docker => "docker",
            EngineKind::Podman => "podman",
        }
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind.name())
    }
}

impl Engine {
    /// Finds the engine that the user asks for; fails with the reason if it does not answer.
    pub fn find(choice: ContainerEngine) -> Result<Engine> {
        let kinds: &[EngineKind] = match choice {
            ContainerEngine::Auto => &[EngineKind::Docker, EngineKind::Podman],
            ContainerEngine::Docker => &[EngineKind::Docker],
            ContainerEngine::Podman => &[EngineKind::Podman],
        };
        let mut reasons = Vec::new();
        for kind in kinds {
            let Some(program) = proc::find_program(kind.name()) else {
                reasons.push(format!("{} was not found on PATH", kind.name()));
                continue;
            };
            let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
            let env = ENVIRONMENT.iter().filter_map(|name| variable(name)).collect();
            let engine = Engine { kind: *kind, program, env };
            match engine.version() {
                Ok(_) => return Ok(engine),
                Err(error) => reasons.push(error.message().to_owned()),
            }
        }
        Err(Error::new(Kind::Preflight, format!("no container engine answers: {}", reasons.join("; ")))
            .hint("Start Docker, or the service of Podman (`systemctl --user start podman.socket`), or use --mode subprocess."))
    }

    /// Returns the version of the engine, not of its client.
    pub fn version(&self) -> Result<String> {
        self.call(&["version", "--format", "{{.Server.Version}}"]).map(|text| text.trim().to_owned())
    }

    /// Waits for an engine that does not answer, because it may be starting again.
    pub fn wait_until_reachable(&self) -> Result<()> {
        let deadline = Instant::now() + RESTART_TIMEOUT;
        while let Err(error) = self.version() {
            if Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(RESTART_POLL_INTERVAL);
        }
        Ok(())
    }

    pub(super) fn cmd(&self) -> Cmd {
        let cmd = Cmd::new(&self.program).envs(self.environment()).cwd("/");
        match self.kind {
            EngineKind::Docker => cmd,
            // Through its service: otherwise containers would be processes below ours and end with them.
            EngineKind::Podman => cmd.arg("--remote"),
        }
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.env.iter().map(|(key, value)| (key.into(), value.into())).collect()
    }

    /// Returns whether a variable decides which engine a client uses, or what it runs.
    pub(super) fn is_own_variable(name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        ENVIRONMENT.contains(&&*name) || name.starts_with("DOCKER_") || name.starts_with("LD_")
    }

    /// Returns the options that make files written inside belong to the user.
    pub(super) fn user_options(&self) -> &'static [&'static str] {
        match self.kind {
            EngineKind::Docker => &[],
            EngineKind::Podman if rustix::process::getuid().is_root() => &[],
            EngineKind::Podman => &["--userns", "keep-id"],
        }
    }

    /// Calls the engine and returns what it printed.
    pub(super) fn call(&self, args: &[impl AsRef<OsStr>]) -> Result<String> {
        let ended = self.run(self.cmd().args(args).timeout(CALL_TIMEOUT))?;
        self.output(&ended, &ended.stderr)
    }

    /// Calls the engine and returns what it printed, errors included.
    pub(super) fn call_merged(&self, args: &[impl AsRef<OsStr>]) -> Result<String> {
        let ended = self.run(self.cmd().args(args).merged().timeout(CALL_TIMEOUT))?;
        self.output(&ended, &ended.stdout)
    }

    pub(super) fn run(&self, cmd: Cmd) -> Result<Ended> {
        cmd.run().map_err(Error::caused(format!("cannot run {self}")))
    }

    fn output(&self, ended: &Ended, errors: &[u8]) -> Result<String> {
        if ended.success() {
            return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
        }
        let said = bounded_text(errors, MESSAGE_BYTES);
        let said = if ended.timed_out { "no answer in time" } else { said.trim() };
        Err(Error::new(Kind::Failed, format!("{self}: {said}")))
    }

    /// Returns a property of a container or image; `None` if there is no such thing.
    pub(super) fn inspect(&self, kind: &str, name: &str, format: &str) -> Result<Option<String>> {
        match self.call(&["inspect", "--type", kind, "--format", format, name]) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_unknown(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of processes in a container. Asks the kernel, not a program inside.
    pub(super) fn processes_of(&self, container: &str) -> Result<usize> {
        let listed = match self.kind {
            EngineKind::Docker => self.call(&["top", container, "-eo", "pid"])?,
            EngineKind::Podman => self.call(&["top", container, "pid"])?,
        };
        Ok(listed.lines().filter(|line| !line.trim().is_empty()).count().saturating_sub(1))
    }

    /// Returns the names of the containers with all these labels, running or not, each with the value of `label`.
    pub fn labelled(&self, labels: &BTreeMap<String, String>, label: &str) -> Result<Vec<(String, String)>> {
        let mut args = vec!["ps".to_owned(), "--all".to_owned(), "--format".to_owned()];
        args.push(match self.kind {
            EngineKind::Docker => format!("{{{{.Names}}}} {{{{.Label \"{label}\"}}}}"),
            EngineKind::Podman => format!("{{{{.Names}}}} {{{{index .Labels \"{label}\"}}}}"),
        });
        for (key, value) in labels {
            args.extend(["--filter".to_owned(), format!("label={key}={value}")]);
        }
        let listed = self.call(&args)?;
        Ok(listed.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
    }

    /// Kills and removes containers, with their anonymous volumes. None of them needs to exist.
    pub fn remove(&self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let args: Vec<&str> =
            ["rm", "--force", "--volumes"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        loop {
            match self.call(&args) {
                // Somebody else removes it.
                Err(error) if error.message().contains("already in progress") && Instant::now() < deadline => {
                    std::thread::sleep(REMOVAL_POLL_INTERVAL);
                }
                Err(error) if !is_unknown(&error) => return Err(error),
                _ => return Ok(()),
            }
        }
    }

    /// Returns whether the classic builder has to be asked for: Docker builds with BuildKit only by a plug-in.
    pub(super) fn needs_classic_builder(&self) -> bool {
        self.kind == EngineKind::Docker && self.call(&["buildx", "version"]).is_err()
    }
}

/// Returns whether the engine said that it has no such container or image, as Docker or as Podman says it.
fn is_unknown(error: &Error) -> bool {
    let said = error.message().to_ascii_lowercase();
    ["no such", "not known", "no container with"].iter().any(|text| said.contains(text))
}
