//! A run in containers, killed at the points that have to do with them: the next run ends as usual, and no container is left.

use mahabharatha_testing::containers::{BASE, Project, task};

use crate::sweep::{AT, TRACE, WITH, in_parallel, tell};

/// What is killed.
#[derive(Debug)]
struct Crash {
    point: String,
    with_parent: bool,
}

/// A project whose image needs no build.
fn project() -> Option<Project> {
    let gate = "quality_gates: [ { name: all, command: 'true' } ]\n";
    let project = Project::new(&format!("{gate}workers: {{ count: 1 }}\n"))?;
    project.write(".devcontainer/devcontainer.json", &format!("{{ \"image\": \"{BASE}\" }}"));
    project.commit("settings");
    project.graph("x", &[task("A", "echo a > a.txt", "test -s a.txt")]);
    Some(project)
}

/// Returns whether a container may be there or be made at this point, and no other point stands for it.
fn is_tried(point: &str) -> bool {
    let of_worker = point.strip_prefix("worker A.1 ");
    let what = of_worker.unwrap_or(point);
    let in_worker = [
        "with the worktree set",
        "with the agent begun",
        "after the agent",
        "with the changes known",
        "before the result",
    ];
    what.starts_with("container")
        || (of_worker.is_some() && in_worker.contains(&what))
        || (what.starts_with("command ") && what.ends_with(" begun"))
        || what == "session at the end"
}

fn crashes(trace: &str) -> Vec<Crash> {
    let only = std::env::var("CRASH_ONLY").unwrap_or_default();
    let tried = trace.lines().filter(|point| is_tried(point) && point.contains(&only));
    tried
        .flat_map(|point| {
            let alone = Crash { point: point.to_owned(), with_parent: false };
            let both = point.starts_with("worker ").then(|| Crash { point: point.to_owned(), with_parent: true });
            [Some(alone), both].into_iter().flatten()
        })
        .collect()
}

impl Crash {
    /// Returns what was promised and did not hold; `None` if the point was not come to.
    fn happen(&self, said: &mut String) -> Option<Vec<String>> {
        let project = project()?;
        let trace = project.home().join("trace");
        let mut killed = project.command(&["run"]);
        killed.env(AT, &self.point).env(TRACE, &trace);
        if self.with_parent {
            killed.env(WITH, "parent");
        }
        let mut run = |mut command: std::process::Command| {
            let output = command.output().unwrap();
            said.push_str(&String::from_utf8_lossy(&output.stderr));
            output.status.code()
        };
        run(killed);
        let passed = std::fs::read_to_string(&trace).unwrap_or_default();
        if !passed.lines().any(|point| point == self.point) {
            return None;
        }
        let code = run(project.command(&["run", "--resume"]));
        let mut found = Vec::new();
        if code != Some(0) {
            found.push(format!("the run ended with {code:?}"));
        }
        if project.tree("main").get("a.txt").map(String::as_str) != Some("a") {
            found.push("the task's file is not on main".to_owned());
        }
        found.extend(project.containers().iter().map(|name| format!("container left behind: {name}")));
        Some(found)
    }
}

#[test]
fn a_run_in_containers_killed_at_any_point_is_resumed_and_leaves_no_container() {
    let Some(usual) = project() else { return };
    let trace = usual.home().join("trace");
    let output = usual.command(&["run"]).env(TRACE, &trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    usual.nothing_is_left();
    let trace = std::fs::read_to_string(&trace).unwrap();
    assert!(trace.lines().filter(|point| is_tried(point)).count() >= 20, "{trace}");
    let crashes = crashes(&trace);
    tell(&format!("containers: {} crash points", crashes.len()));
    let missed = in_parallel("containers", &crashes, Crash::happen, |crash| format!("{crash:?}"));
    assert_eq!(missed, [""; 0], "not come to");
}
