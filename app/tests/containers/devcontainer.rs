//! What `init` writes into `.devcontainer/`: with this launcher, with the devcontainer command, and with Compose by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Ran, pass_over};
use mahabharatha_testing::containers::{BASE, Project, has_compose_1, plugin, task};

/// An image that stands in for the official ones, unless `MAHABHARATHA_TEST_OFFICIAL_IMAGES` is set. It has a user of its own.
const STAND_IN: &str = "mahabharatha-test/stand-in:1";
/// Files by which `init` knows a stack; those that have a toolchain of their own in the Dockerfile.
const STACKS: [(&str, &str); 7] = [
    ("pyproject.toml", "[project]\nname = 'shop'\nversion = '1'\n"),
    ("package.json", "{ \"name\": \"shop\", \"scripts\": { \"test\": \"node --test\" } }\n"),
    ("Cargo.toml", "[package]\nname = 'shop'\nversion = '1.0.0'\n"),
    ("go.mod", "module shop\n\ngo 1.22\n"),
    ("pom.xml", "<project></project>\n"),
    ("shop.csproj", "<Project Sdk=\"Microsoft.NET.Sdk\"></Project>\n"),
    ("Gemfile", "source 'https://rubygems.org'\n"),
];

/// A project of several stacks, as `init` sets it up.
fn initialised() -> Option<Project> {
    let project = Project::new("")?;
    fs::remove_dir_all(project.join(".devcontainer")).unwrap();
    for (file, text) in STACKS {
        project.write(file, text);
    }
    project.run(&["init", "--yes", "--force", "--only", "devcontainer,rules"]).code(0);
    let dockerfile = project.read(".devcontainer/Dockerfile");
    for image in ["python:3", "node:2", "rust:1", "golang:1", "eclipse-temurin:21", "maven:3", "dotnet/sdk:8.0"] {
        assert!(dockerfile.contains(&format!("FROM ${{BASE:-{image}")) || dockerfile.contains(&format!("/{image}")));
    }
    project.commit("initialised");
    // Who is not the owner may read it inside.
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where some builds of git have the settings of the system.
    project.write("stand-in/Dockerfile", &format!("FROM {BASE}\nRUN mkdir -p /usr/local/etc\nUSER worker\n"));
    let dir = project.join("stand-in");
    project.docker(&["build", "--tag", STAND_IN, dir.to_str().unwrap()]);
    fs::remove_dir_all(dir).unwrap();
    Some(project)
}

/// Removes what was made for a project of Compose.
struct Composed<'a> {
    project: &'a Project,
    name: String,
}

impl Composed<'_> {
    /// The id of its only container.
    fn container(&self) -> String {
        self.project.docker(&["ps", "--quiet", "--no-trunc", "--filter", &self.label()])
    }

    fn label(&self) -> String {
        format!("label=com.docker.compose.project={}", self.name)
    }
}

impl Drop for Composed<'_> {
    fn drop(&mut self) {
        let listed = |kind: &[&str]| self.project.docker(&[kind, &["--quiet", "--filter", &self.label()]].concat());
        let container = listed(&["ps", "--all"]);
        let image = self.project.docker(&["inspect", "--format", "{{.Image}}", &container]);
        self.project.docker(&["rm", "--force", "--volumes", &container]);
        self.project.docker(&["network", "rm", &listed(&["network", "ls"])]);
        let built = [format!("{}-worker", self.name), format!("{}_worker", self.name)];
        self.project.docker(&["rmi", "--force", &image, &built[0], &built[1]]);
    }
}

fn base() -> (&'static str, &'static str) {
    let is_official = std::env::var_os("MAHABHARATHA_TEST_OFFICIAL_IMAGES").is_some();
    ("MAHABHARATHA_BASE_IMAGE", if is_official { "" } else { STAND_IN })
}

const ENVIRONMENT: [(&str, &str); 4] = [
    ("MAHABHARATHA_WORKER_ID", "1"),
    ("MAHABHARATHA_FEATURE", "x"),
    ("MAHABHARATHA_TASK_ID", "A"),
    ("CLAUDE_CODE_TASK_LIST_ID", "x"),
];

/// Looks from inside: environment, project, specs, rules.
const LOOK: &str = "set -e; cd /workspace; test -s README.md; test -s /specs/x/task-graph.json; test -s /rules/security-general.md; \
    for dir in /specs /rules; do grep -q \" $dir [^ ]* ro,\" /proc/mounts; done; git status --short >/dev/null; \
    test \"$MAHABHARATHA_FEATURE $MAHABHARATHA_TASK_ID $CLAUDE_CODE_TASK_LIST_ID\" = 'x A x'; echo \"worker $MAHABHARATHA_WORKER_ID\"";

#[track_caller]
fn has_limits(project: &Project, container: &str) {
    let limits = project.docker(&["inspect", "--format", "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}", container]);
    assert_eq!(limits, format!("{} {}", 4_u64 << 30, 2_000_000_000_u64));
}

#[test]
fn the_launcher_runs_tasks_in_it() {
    let Some(project) = initialised() else { return };
    let Some(buildx) = plugin("buildx") else { return };
    let agent = "test -s /rules/security-general.md && test -s /specs/x/task-graph.json && pwd > a.txt";
    project.graph("x", &[task("A", agent, "test -s /workspace/a.txt")]);
    project.run_with(&["run", "-w", "1"], &[buildx, base()]).code(0).says("building the image");
    assert_eq!(project.tree("HEAD")["a.txt"], project.path().to_str().unwrap());
    project.nothing_is_left();
}

#[test]
fn the_devcontainer_command_builds_starts_and_enters_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let cli = root.join("target/devcontainer-cli/node_modules/@devcontainers/cli/devcontainer.js");
    if !cli.is_file() {
        return pass_over("@devcontainers/cli is not installed; `./test --all` does that");
    }
    let Some(project) = initialised() else { return };
    let Some(compose) = plugin("compose") else { return };
    project.graph("x", &[task("A", "true", "true")]);
    let call = |args: &[&str]| {
        let mut command = Command::new("node");
        command.arg(&cli).arg(args[0]).arg("--workspace-folder").arg(project.path()).args(&args[1..]);
        command
            .env("DOCKER_HOST", &project.host)
            .env("TMPDIR", project.home())
            .envs([compose, base()])
            .envs(ENVIRONMENT);
        Ran::of(command.output().unwrap())
    };
    let outcome = |ran: Ran| -> Value { serde_json::from_str(ran.code(0).stdout.lines().last().unwrap()).unwrap() };
    let name = outcome(call(&["build"]))["imageName"].as_str().unwrap().strip_suffix("-worker").unwrap().to_owned();
    let composed = Composed { project: &project, name };
    let up = outcome(call(&["up"]));
    assert_eq!((up["outcome"].as_str(), up["remoteUser"].as_str()), (Some("success"), Some("worker")));
    assert_eq!(up["composeProjectName"], composed.name);
    assert_eq!(up["containerId"], composed.container());
    has_limits(&project, &composed.container());
    call(&["exec", "sh", "-c", LOOK]).code(0).says("worker 1");
}

#[test]
fn compose_starts_workers_by_hand() {
    let Some(project) = initialised() else { return };
    let Some(compose) = plugin("compose") else { return };
    project.graph("x", &[task("A", "true", "true")]);
    let mut programs = vec![vec!["docker", "compose"], vec!["docker", "compose"]];
    programs.extend(has_compose_1().then(|| vec!["docker-compose"]));
    let name = project.path().file_name().unwrap().to_str().unwrap().rsplit('ü').next().unwrap().to_lowercase();
    let mut workers = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let composed = Composed { project: &project, name: format!("mbh{name}-{number}") };
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(["up", "-d", "worker"]).current_dir(project.join(".devcontainer"));
        command.env("DOCKER_HOST", &project.host).envs([compose, base()]).envs(ENVIRONMENT);
        command.env("MAHABHARATHA_WORKER_ID", number.to_string()).env("COMPOSE_PROJECT_NAME", &composed.name);
        Ran::of(command.output().unwrap()).code(0);
        workers.push(composed);
    }
    // All of them at the same time.
    for (number, worker) in workers.iter().enumerate() {
        let container = worker.container();
        has_limits(&project, &container);
        assert_eq!(project.docker(&["exec", &container, "sh", "-c", LOOK]), format!("worker {number}"));
    }
}
