//! The engine: its API for what is done often, its client for images and new containers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mahabharatha_core::config::ContainerEngine;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::{self, Answer};
use crate::error::{Error, Kind, Result};
use crate::proc::{self, Cmd, Ended, bounded_text};

/// Time limit for a call of the client that starts a container or only asks.
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Engine {
    kind: EngineKind,
    /// Its client.
    program: PathBuf,
    /// Where its API is.
    socket: PathBuf,
    env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
        if !cfg!(target_os = "linux") {
            let why = "containers need Linux: their helper is this program, which is built for another system";
            return Err(Error::new(Kind::Preflight, why).hint("Use --mode subprocess."));
        }
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
            let engine = Engine { kind: *kind, program, socket: PathBuf::new(), env };
            let answering = engine.find_socket().map(|socket| Engine { socket, ..engine }).and_then(|engine| {
                engine.version()?;
                Ok(engine)
            });
            match answering {
                Ok(engine) => return Ok(engine),
                Err(error) => reasons.push(error.message().to_owned()),
            }
        }
        Err(Error::new(Kind::Preflight, format!("no container engine answers: {}", reasons.join("; ")))
            .hint("Start Docker, or the service of Podman (`systemctl --user start podman.socket`), or use --mode subprocess."))
    }

    /// Returns the engine's socket, as its client finds it.
    fn find_socket(&self) -> Result<PathBuf> {
        let variable = |name: &str| self.env.get(name).filter(|value| !value.is_empty()).cloned();
        let host = match self.kind {
            EngineKind::Docker => match variable("DOCKER_HOST") {
                Some(host) => host,
                // Only the client knows which context is in use.
                None => self.call(&["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"])?,
            },
            EngineKind::Podman => variable("CONTAINER_HOST").unwrap_or_else(|| {
                let dir = variable("XDG_RUNTIME_DIR").filter(|_| !rustix::process::getuid().is_root());
                format!("unix://{}/podman/podman.sock", dir.as_deref().unwrap_or("/run"))
            }),
        };
        let host = host.trim();
        let socket = host.strip_prefix("unix://").map(Path::new).filter(|path| path.is_absolute());
        let refusal = || format!("{self} is at {host}, and only a Unix socket of this machine can be used");
        socket.map(Path::to_owned).ok_or_else(|| Error::new(Kind::Preflight, refusal()))
    }

    /// Returns the version of the engine, not of its client.
    pub fn version(&self) -> Result<String> {
        let found = self.expect("GET", "/version", None)?;
        Ok(found["Version"].as_str().unwrap_or_default().to_owned())
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
            EngineKind::Podman => cmd.arg("--url").arg(format!("unix://{}", self.socket.display())),
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

    /// Calls the engine's API.
    fn request(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Answer> {
        api::call(&self.socket, method, target, body).map_err(|error| self.lost(&error))
    }

    /// Calls the engine's API and returns what it answers; an error if it refuses.
    pub(super) fn expect(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.request(method, target, body)?;
        if answer.is_ok() { Ok(answer.json()) } else { Err(self.refused(&answer)) }
    }

    /// Returns what the API knows at this path; `None` if there is no such thing.
    pub(super) fn get(&self, target: &str) -> Result<Option<Value>> {
        match self.request("GET", target, None)? {
            answer if answer.is_ok() => Ok(Some(answer.json())),
            answer if answer.status == 404 => Ok(None),
            answer => Err(self.refused(&answer)),
        }
    }

    /// Opens a stream of the API.
    pub(super) fn open_stream(&self, target: &str, body: &Value) -> Result<BufReader<UnixStream>> {
        let opened = api::open_stream(&self.socket, target, body).map_err(|error| self.lost(&error))?;
        opened.map_err(|answer| self.refused(&answer))
    }

    /// Says that the engine does not answer.
    pub(super) fn lost(&self, error: &io::Error) -> Error {
        Error::new(Kind::Failed, format!("{self} does not answer at {}: {error}", self.socket.display()))
    }

    fn refused(&self, answer: &Answer) -> Error {
        let said = bounded_text(answer.message().as_bytes(), MESSAGE_BYTES);
        Error::new(Kind::Failed, format!("{self}: {}", said.trim()))
    }

    /// Returns the names of the containers with all these labels, running or not, each with the value of `label`.
    pub fn labelled(&self, labels: &BTreeMap<String, String>, label: &str) -> Result<Vec<(String, String)>> {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let filters = api::escaped(&json!({ "label": labels }).to_string());
        let listed = self.expect("GET", &format!("/containers/json?all=true&filters={filters}"), None)?;
        let named = |found: &Value| {
            let name = found["Names"][0].as_str()?.trim_start_matches('/');
            Some((name.to_owned(), found["Labels"][label].as_str().unwrap_or_default().to_owned()))
        };
        Ok(listed.as_array().into_iter().flatten().filter_map(named).collect())
    }

    /// Kills and removes containers, with their anonymous volumes. None of them needs to exist.
    pub fn remove(&self, names: &[String]) -> Result<()> {
        std::thread::scope(|scope| {
            let removals: Vec<_> = names.iter().map(|name| scope.spawn(|| self.remove_one(name))).collect();
            removals.into_iter().try_for_each(|removal| removal.join().unwrap_or(Ok(())))
        })
    }

    fn remove_one(&self, name: &str) -> Result<()> {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        loop {
            let answer = self.request("DELETE", &format!("/containers/{name}?force=true&v=true"), None)?;
            match answer.status {
                404 => return Ok(()),
                _ if answer.is_ok() => return Ok(()),
                // Another program removes it.
                409 if Instant::now() < deadline => std::thread::sleep(REMOVAL_POLL_INTERVAL),
                _ => return Err(self.refused(&answer)),
            }
        }
    }

    /// Returns whether the classic builder has to be asked for: Docker builds with BuildKit only by a plug-in.
    pub(super) fn needs_classic_builder(&self) -> bool {
        self.kind == EngineKind::Docker && self.call(&["buildx", "version"]).is_err()
    }
}
