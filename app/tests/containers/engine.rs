//! The engine of the tests, and projects whose workers run in its containers.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Background, Ran, Repo, pass_over};

/// Made by `app/tests/engine up`.
pub const BASE: &str = "mahabharatha-test/base:1";
const OWN_SOCKET: &str = "unix:///var/tmp/mahabharatha-engine/run/docker.sock";

/// Returns where the engine is; `None`, after saying so, if there is none.
fn find() -> Option<String> {
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
        let project = Project { host: find()?, repo: Repo::new() };
        project.write(".devcontainer/Dockerfile", dockerfile);
        project.config(&format!("launcher: {{ type: container }}\n{config}"));
        project.commit("second");
        Some(project)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.repo.command(args);
        command.env("DOCKER_HOST", &self.host);
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn spawn(&self, args: &[&str]) -> Background {
        Background::start(self.command(args))
    }

    /// Calls the engine; what it prints, whether it succeeds or not.
    pub fn docker(&self, args: &[&str]) -> String {
        let output = Command::new("docker").args(args).env("DOCKER_HOST", &self.host).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
    }

    /// Names of this project's containers, running or not.
    pub fn containers(&self) -> Vec<String> {
        let root = self.path();
        let all = self.docker(&["ps", "-a", "--format", "{{.Names}}", "--filter", "label=mahabharatha.feature"]);
        let is_ours = |name: &&str| self.docker(&["inspect", name]).contains(&format!("{}", root.display()));
        all.lines().filter(is_ours).map(str::to_owned).collect()
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
