//! The engine of the tests, and projects whose workers run in its containers.
//!
//! An engine is found as `app/tests/engine up` leaves it. A test that stops its engine has one of its own.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Background, Repo, pass_over};

/// Made by `app/tests/engine up`.
pub const BASE: &str = "mahabharatha-test/base:1";
const OWN_SOCKET: &str = "unix:///var/tmp/mahabharatha-engine/run/docker.sock";
const PODMAN_SOCKET: &str = "unix:///var/tmp/mahabharatha-engine/run/podman.sock";
/// Settings of the Docker client with which it has Compose 2 and BuildKit.
const PLUGINS: &str = "/var/tmp/mahabharatha-engine/docker-config";

/// Returns where the engine is; `None`, after saying so, if there is none.
pub fn find() -> Option<String> {
    let given = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let has_image = |host: &String| {
        let inspect = Command::new("docker").args(["image", "inspect", BASE]).env("DOCKER_HOST", host).output();
        inspect.is_ok_and(|output| output.status.success())
    };
    let found = [given, OWN_SOCKET.to_owned()].into_iter().find(has_image);
    if found.is_none() {
        pass_over("no container engine with the tests' image answers; `app/tests/engine up` starts one");
    }
    found
}

/// An engine of a test's own, which can be stopped. It is in a network of its own.
pub struct OwnEngine {
    dir: tempfile::TempDir,
    /// A directory that it does not see.
    hidden: Option<PathBuf>,
}

impl OwnEngine {
    /// Starts an engine; `None`, after saying so, if that cannot be done here.
    pub fn start() -> Option<OwnEngine> {
        OwnEngine::start_without(None)
    }

    /// The same, with an engine that does not see a directory of this machine.
    pub fn start_without(hidden: Option<PathBuf>) -> Option<OwnEngine> {
        let engine = OwnEngine { dir: tempfile::Builder::new().prefix("engine").tempdir().unwrap(), hidden };
        if engine.call("up") {
            return Some(engine);
        }
        pass_over("no container engine can be started here, which takes root and dockerd");
        None
    }

    pub fn host(&self) -> String {
        format!("unix://{}/run/docker.sock", self.dir.path().display())
    }

    /// Stops the engine, which ends its containers, and starts it again.
    pub fn restart(&self) {
        assert!(self.call("stop") && self.call("up"), "the engine did not start again");
    }

    fn call(&self, command: &str) -> bool {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/tests/engine");
        let mut call = Command::new(script);
        call.arg(command).env("MAHABHARATHA_TEST_ENGINE", self.dir.path());
        call.envs(self.hidden.as_ref().map(|hidden| ("MAHABHARATHA_TEST_HIDE", hidden)));
        call.status().is_ok_and(|status| status.success())
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        self.call("down");
        // Which the engine mounts on itself.
        let _ = Command::new("umount").arg("--quiet").arg(self.dir.path().join("data/docker")).status();
    }
}

/// Returns whether a program runs; says so if it does not.
fn answers(command: &mut Command, name: &str) -> bool {
    let found = command.output().is_ok_and(|output| output.status.success());
    if !found {
        pass_over(&format!("{name} is not there; `app/tests/engine up` installs it"));
    }
    found
}

/// Returns the variable with which Docker's client has a plug-in: `compose` or `buildx`.
pub fn plugin(name: &str) -> Option<(&'static str, &'static str)> {
    let variable = ("DOCKER_CONFIG", PLUGINS);
    answers(Command::new("docker").args([name, "version"]).envs([variable]), &format!("docker {name}"))
        .then_some(variable)
}

/// Returns the variable that leads to Podman's service.
pub fn podman() -> Option<(&'static str, &'static str)> {
    let variable = ("CONTAINER_HOST", PODMAN_SOCKET);
    answers(Command::new("podman").args(["--remote", "version"]).envs([variable]), "Podman's service")
        .then_some(variable)
}

/// Returns whether Compose 1 is there.
pub fn has_compose_1() -> bool {
    answers(Command::new("docker-compose").arg("version"), "docker-compose")
}

fn docker(host: &str, args: &[&str]) -> String {
    let output = Command::new("docker").args(args).env("DOCKER_HOST", host).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
}

/// Names of the containers of a project, running or not.
pub fn containers_of(host: &str, root: &Path) -> Vec<String> {
    let all = docker(host, &["ps", "-a", "--format", "{{.Names}}", "--filter", "label=mahabharatha.feature"]);
    let is_ours = |name: &&str| docker(host, &["inspect", name]).contains(&format!("{}", root.display()));
    all.lines().filter(is_ours).map(str::to_owned).collect()
}

/// A project with a devcontainer, whose configuration asks for containers.
pub struct Project {
    repo: Repo,
    pub host: String,
}

impl Deref for Project {
    type Target = Repo;

    fn deref(&self) -> &Repo {
        &self.repo
    }
}

impl Project {
    pub fn new(config: &str) -> Option<Project> {
        Project::with_image(config, &format!("FROM {BASE}\n"))
    }

    pub fn with_image(config: &str, dockerfile: &str) -> Option<Project> {
        Some(Project::of_engine(find()?, config, dockerfile))
    }

    /// A project that uses this engine.
    pub fn of_engine(host: String, config: &str, dockerfile: &str) -> Project {
        let project = Project { repo: Repo::new().with_env("DOCKER_HOST", &host), host };
        project.write(".devcontainer/Dockerfile", dockerfile);
        let launcher = if config.contains("launcher:") { "" } else { "launcher: { type: container }\n" };
        project.config(&format!("{launcher}{config}"));
        project.commit("second");
        project
    }

    /// Calls the engine; what it prints, whether it succeeds or not.
    pub fn docker(&self, args: &[&str]) -> String {
        docker(&self.host, args)
    }

    /// Names of this project's containers, running or not.
    pub fn containers(&self) -> Vec<String> {
        containers_of(&self.host, &self.path())
    }

    /// The worktree of the first worker.
    pub fn worktree(&self, path: &str) -> PathBuf {
        self.join(".mahabharatha/worktrees/x/worker-0").join(path)
    }

    /// Starts a run and waits until its agent has made `begun`, which an earlier one may have left.
    pub fn run_until_begun(&self) -> Background {
        let _ = std::fs::remove_file(self.worktree("begun"));
        let run = self.spawn(&["run", "-w", "1"]);
        self.wait_for_agent("begun");
        run
    }

    pub fn wait_for_agent(&self, file: &str) {
        self.wait_until(file, || self.worktree(file).exists());
    }

    /// Asserts that no container of the project is left.
    #[track_caller]
    pub fn nothing_is_left(&self) {
        assert_eq!(self.containers(), [""; 0]);
    }
}

/// Removes what a test left.
impl Drop for Project {
    fn drop(&mut self) {
        for name in self.containers() {
            self.docker(&["rm", "-f", "-v", &name]);
        }
    }
}

pub fn task(id: &str, run: &str, verification: &str) -> Value {
    let file = format!("{}.txt", id.to_lowercase());
    json!({
        "id": id, "title": id, "level": 1, "files": { "create": [file] }, "dependencies": [],
        "run": run, "verification": { "command": verification },
    })
}
