//! Sessions of Claude Code: one that hands over to containers, and one that runs in a devcontainer itself.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use serde_json::Value;

use crate::client::Bench;
use crate::messages_api::Api;
use crate::session::path_to_the_program;
use crate::support::{Ran, simple};
use mahabharatha_testing::containers::{self, BASE, Project};

#[test]
fn kurukshetra_hands_over_to_containers() {
    let Some(host) = containers::find() else { return };
    let api = Api::start(|ask| ask.runs("mahabharatha kurukshetra"));
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.write(".devcontainer/Dockerfile", &format!("FROM {BASE}\n"));
    bench.repo.graph("x", &[simple("A-1", 1, "a.txt")]);
    bench.repo.commit("graph");
    let env = [("PATH", path_to_the_program()), ("DOCKER_HOST", host.clone())];
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let talk = bench.talk_with(&env, &["/mahabharatha:kurukshetra x --mode container --workers 1"]);
    assert!(talk.asked.is_empty(), "{:#?}", talk.asked);
    assert_eq!(talk.errors(), [""; 0], "{:#?}", talk.results());
    assert_eq!(talk.course()[0], "→ Bash");
    assert!(talk.course().pop().unwrap().contains("x is completed"), "{:#?}", talk.course());
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
    let status = bench.repo.status();
    assert_eq!((status["status"].as_str(), status["mode"].as_str()), (Some("completed"), Some("container")));
    assert_eq!(containers::containers_of(&host, &bench.repo.path()), [""; 0]);
}

/// A container with the project at `/workspace` and our program, as in a devcontainer; removed with the test.
struct Inside<'a> {
    project: &'a Project,
    id: String,
}

impl Inside<'_> {
    fn start(project: &Project) -> Inside<'_> {
        let owner = std::fs::metadata(project.path()).unwrap();
        let user = format!("{}:{}", owner.uid(), owner.gid());
        let mount = format!("type=bind,\"source={}\",target=/workspace", project.path().display());
        let options = ["create", "--init", "--user", &user, "--env", "HOME=/tmp", "--workdir", "/workspace"];
        let id = project.docker(&[&options[..], &["--mount", &mount, BASE, "sleep", "infinity"]].concat());
        let inside = Inside { project, id };
        let program = mahabharatha_testing::program();
        // The image has none of its libraries but those of git.
        let listed = Command::new("ldd").arg(&program).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            inside.copy(library, library);
        }
        inside.copy(program.to_str().unwrap(), "/usr/bin/mahabharatha");
        project.docker(&["start", &inside.id]);
        inside
    }

    fn copy(&self, from: &str, to: &str) {
        self.project.docker(&["cp", "--follow-link", from, &format!("{}:{to}", self.id)]);
    }

    /// Runs a command as a session does.
    fn exec(&self, command: &[&str]) -> Ran {
        let mut exec = Command::new("docker");
        exec.env("DOCKER_HOST", &self.project.host).args(["exec", "--env", "CLAUDE_CODE_SESSION_ID=one", &self.id]);
        Ran::of(exec.args(command).output().unwrap())
    }

    fn json(&self, args: &[&str]) -> Value {
        self.exec(&[&["mahabharatha"], args, &["--json"]].concat()).code(0).json()
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.project.docker(&["rm", "--force", "--volumes", &self.id]);
    }
}

#[test]
fn a_session_in_a_devcontainer_does_the_tasks_itself() {
    let Some(project) = Project::new("") else { return };
    project.config("sandbox: auto\nquality_gates: [ { name: there, command: test -e README.md } ]\n");
    let mut by_hand = simple("A", 1, "a.txt");
    by_hand.as_object_mut().unwrap().remove("run");
    by_hand["verification"]["command"] = "touch /workspace/escaped 2>/dev/null; test -s a.txt".into();
    project.graph("x", &[by_hand]);
    project.commit("graph");
    let inside = Inside::start(&project);
    let started = inside.json(&["task", "start"]);
    assert_eq!(started["step"], "claim", "{started}");
    let claimed = inside.json(&["task", "claim", "A"]);
    let worktree = claimed["claimed"][0]["worktree"].as_str().unwrap();
    assert!(worktree.starts_with("/workspace/"), "{worktree}");
    inside.exec(&["mahabharatha", "task", "verify", "A"]).code(1);
    inside.exec(&["sh", "-c", &format!("echo a > {worktree}/a.txt")]).code(0);
    inside.exec(&["mahabharatha", "task", "complete", "A"]).code(0);
    assert_eq!(inside.json(&["task", "next"])["step"], "merge");
    inside.exec(&["mahabharatha", "merge", "--level", "1"]).code(0);
    let status = inside.json(&["status"]);
    assert_eq!(status["status"], "completed");
    // No user namespaces and no engine are there. What is said about the sandbox is what a verification could do.
    let sandbox = status["sandbox"].as_str().unwrap();
    assert!(["landlock", "off"].contains(&sandbox), "{sandbox}");
    assert_eq!(project.exists("escaped"), sandbox == "off");
    // Outside, the work is there and the run is over.
    assert_eq!(project.tree("main")["a.txt"], "a");
    assert_eq!(project.status()["status"], "completed");
}
