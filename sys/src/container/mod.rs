//! The only module that calls a container engine: Docker or Podman, by its API and its client.
//!
//! Used by `sandbox` for programs that run in the container of a worker, and by runs to build images and to remove
//! containers. Killing a client of the engine does not end what runs inside; that takes a call of the engine.

mod api;
mod engine;
mod exec;
mod helper;
mod image;
mod inside;
mod session;
mod usage;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::config::Resources;
use rustix::process::{getgid, getuid};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};

pub use engine::Engine;
pub use helper::COMMAND as HELPER_COMMAND;
pub use image::{BuildCall, Probe};
pub use inside::serve;
pub use session::{Parking, Session};
pub use usage::{Storage, Usage};

/// Label with a hash of everything that a container was made with.
const LAYOUT: &str = "mahabharatha.layout";
/// User and group of a container's first process, whom the programs inside can neither signal nor trace.
const FIRST_PROCESS_USER: &str = "65534:65534";
/// The same, for a user who has that number.
const OTHER_FIRST_PROCESS_USER: &str = "65533:65533";
/// Number of times to ask the engine how a container ended before giving up.
const END_CHECKS: u32 = 50;
const END_CHECK_INTERVAL: Duration = Duration::from_millis(40);
/// Keeps the container alive. Busybox knows no `infinity`.
const SLEEP: &str = "exec sleep 2147483647";
/// Files of the kernel that count processes killed for lack of memory, with cgroups of version 2 and 1.
const OOM_COUNTS: &str = "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null; true";

/// A container of ours, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Container {
    pub engine: Engine,
    pub image: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub limits: Resources,
    pub network: String,
    /// Ports that are published on loopback.
    pub ports: Vec<u16>,
    /// Directory with copies of the helper's files, for an engine that does not see them where they are.
    #[serde(default)]
    pub helper_copies: Option<PathBuf>,
}

/// A path of this machine that a container sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub from: PathBuf,
    pub to: PathBuf,
    pub writable: bool,
}

/// What the engine knows of a container.
enum State {
    Missing,
    Running { id: String, layout: String },
    Ended { code: Option<i64>, out_of_memory: bool },
}

impl Container {
    /// Makes sure that the container runs with exactly these paths; replaces one that was made otherwise or has ended.
    /// Returns the engine's id of it.
    pub fn ensure(&self, binds: &[Bind]) -> Result<String> {
        let layout = hash(&self.options(binds), &self.image, binds);
        let state = match self.state() {
            Err(_) => {
                self.engine.wait_until_reachable()?;
                self.state()?
            }
            Ok(state) => state,
        };
        match state {
            State::Running { id, layout: found } if found == layout => return Ok(id),
            State::Missing => {}
            State::Running { .. } | State::Ended { .. } => self.remove()?,
        }
        let started = match self.start(binds, &layout) {
            Err(error) if is_about_ports(&error) => {
                // Another program uses one of them by now. Inside they can be used all the same.
                self.remove()?;
                Container { ports: Vec::new(), ..self.clone() }.start(binds, &layout)
            }
            started => started,
        };
        started.map_err(|error| {
            Error::new(Kind::Failed, format!("the container {} could not be started: {}", self.name, error.message()))
        })
    }

    /// Starts the container and returns its id.
    fn start(&self, binds: &[Bind], layout: &str) -> Result<String> {
        let mut args: Vec<OsString> = ["run", "--detach", "--label"].map(OsString::from).into();
        args.push(format!("{LAYOUT}={layout}").into());
        args.extend(self.options(binds));
        args.extend(["--entrypoint", "sh", &self.image, "-c", SLEEP].map(OsString::from));
        Ok(self.engine.call(&args)?.trim().to_owned())
    }

    /// Returns the options with which the container is made.
    fn options(&self, binds: &[Bind]) -> Vec<OsString> {
        let first = if getuid().as_raw() == 65534 { OTHER_FIRST_PROCESS_USER } else { FIRST_PROCESS_USER };
        let Container { limits, network, name, .. } = self;
        let memory = limits.memory.to_string();
        let mut options: Vec<OsString> = ["--init", "--read-only", "--cap-drop", "ALL", "--pull", "never"]
            .into_iter()
            .chain(["--security-opt", "no-new-privileges", "--security-opt", "label=disable"])
            .chain(["--name", name, "--user", first, "--network", network, "--workdir", "/"])
            .chain(["--memory", &memory, "--memory-swap", &memory])
            .map(OsString::from)
            .collect();
        options.extend(["--cpus".into(), limits.cpus.to_string().into()]);
        options.extend(["--pids-limit".into(), limits.pids.to_string().into()]);
        options.extend(self.engine.user_options().iter().map(OsString::from));
        for (key, value) in &self.labels {
            options.extend(["--label".into(), format!("{key}={value}").into()]);
        }
        for port in self.ports.iter().filter(|_| network != "none") {
            options.extend(["--publish".into(), format!("127.0.0.1:{port}:{port}").into()]);
        }
        options.extend(binds.iter().flat_map(|bind| ["--mount".into(), mount(bind)]));
        options
    }

    /// Returns the variables to pass on: not PATH and SHELL, which the image sets, and none that select an engine or libraries.
    pub fn variables(env: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
        env.filter(|(key, _)| key == "HOME" || !(key == "SHELL" || Engine::is_own_variable(key))).collect()
    }

    /// Returns whether a program in the container was killed for lack of memory.
    pub fn ran_out_of_memory(&self) -> bool {
        if let Ok(State::Ended { out_of_memory, .. }) = self.state() {
            return out_of_memory;
        }
        let counts = self.output_of(OOM_COUNTS).unwrap_or_default();
        counts.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }

    /// Says why a session in the container failed.
    pub fn why_lost(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            // The helper said so.
            std::io::ErrorKind::Other => Error::new(Kind::Failed, format!("in the container {}: {error}", self.name)),
            _ => self.why_ended(&error.to_string()),
        }
    }

    /// Says why the container does not run; if it does, why our helper in it does not.
    fn why_ended(&self, error: &str) -> Error {
        let name = &self.name;
        let mut state = self.state();
        // The engine may not have noticed yet.
        for _ in 0..END_CHECKS {
            if !matches!(state, Ok(State::Running { .. })) {
                break;
            }
            std::thread::sleep(END_CHECK_INTERVAL);
            state = self.state();
        }
        let text = match state {
            Err(error) => return error,
            Ok(State::Missing) => format!("the container {name} was removed by another program"),
            Ok(State::Ended { out_of_memory: true, .. }) => self.out_of_memory(),
            Ok(State::Ended { code: Some(137), .. }) => format!("the container {name} was killed"),
            Ok(State::Ended { code, .. }) => {
                let code = code.unwrap_or_default();
                let logs = self.engine.call_merged(&["logs", "--tail", "5", name]).unwrap_or_default();
                format!("the container {name} ended by itself with exit code {code}\n{}", logs.trim()).trim().to_owned()
            }
            Ok(State::Running { .. }) => format!("the helper in the container {name} ended: {error}"),
        };
        Error::new(Kind::Failed, text)
    }

    /// Says that the limit of memory was reached.
    pub fn out_of_memory(&self) -> String {
        format!(
            "out of memory: a program in the container {} needed more than its limit of {} MB (resources.memory)",
            self.name,
            self.limits.memory >> 20
        )
    }

    /// Returns the files of our helper, and where they are in the container. `spare` is a place for a copy of this program.
    pub fn helper_files(&self, spare: &Path) -> std::io::Result<Vec<(PathBuf, PathBuf)>> {
        helper::files(spare, self.helper_copies.as_deref())
    }

    /// Kills everything in the container and removes it.
    pub fn remove(&self) -> Result<()> {
        self.engine.remove(std::slice::from_ref(&self.name))
    }

    fn state(&self) -> Result<State> {
        let Some(found) = self.engine.get(&format!("/containers/{}/json", self.name))? else {
            return Ok(State::Missing);
        };
        let state = &found["State"];
        if state["Running"] == true {
            let layout = found["Config"]["Labels"][LAYOUT].as_str().unwrap_or_default();
            let id = found["Id"].as_str().unwrap_or_default();
            return Ok(State::Running { id: id.to_owned(), layout: layout.to_owned() });
        }
        Ok(State::Ended { code: state["ExitCode"].as_i64(), out_of_memory: state["OOMKilled"] == true })
    }
}

fn is_about_ports(error: &Error) -> bool {
    let said = error.message();
    ["port is already allocated", "address already in use", "external connectivity"]
        .iter()
        .any(|text| said.contains(text))
}

/// Returns the user and group of programs in containers: our own, so that what they write is ours.
pub fn user() -> String {
    format!("{}:{}", getuid().as_raw(), getgid().as_raw())
}

/// Returns a hash of how the container is made, and of which files and directories its paths are now.
fn hash(options: &[OsString], image: &str, binds: &[Bind]) -> String {
    let mut hasher = DefaultHasher::new();
    (options, image).hash(&mut hasher);
    for bind in binds {
        let found = std::fs::symlink_metadata(&bind.from).ok();
        found.map(|found| (found.dev(), found.ino())).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Returns the option for a path, which is a line of comma-separated values.
fn mount(bind: &Bind) -> OsString {
    let quoted = |key: &str, path: &PathBuf| format!("\"{key}={}\"", path.display().to_string().replace('"', "\"\""));
    let mut text = format!("type=bind,{},{}", quoted("source", &bind.from), quoted("target", &bind.to));
    if !bind.writable {
        text.push_str(",readonly");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_can_be_mounted() {
        let bind = Bind { from: "/a,b \"c\"".into(), to: "/d".into(), writable: false };
        assert_eq!(mount(&bind), r#"type=bind,"source=/a,b ""c""","target=/d",readonly"#);
    }

    #[test]
    fn a_container_is_created_again_when_a_path_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let bind = Bind { from: dir.path().join("a"), to: "/a".into(), writable: true };
        let now = || hash(&[], "image", std::slice::from_ref(&bind));
        let missing = now();
        std::fs::create_dir(&bind.from).unwrap();
        let first = now();
        std::fs::rename(&bind.from, dir.path().join("b")).unwrap();
        std::fs::create_dir(&bind.from).unwrap();
        assert!(missing != first && first != now());
    }
}
