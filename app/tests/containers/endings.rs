//! Every way in which a run can end removes its containers and no others.

use mahabharatha_testing::containers::{BASE, Project, task};

const WAITS: &str = "touch begun; while test ! -e go; do sleep 0.1; done; rm -f begun go; echo a > a.txt";

/// A project whose only agent waits, and a container that is not ours.
fn waiting() -> Option<(Project, String)> {
    let project = Project::new("")?;
    project.graph("x", &[task("A", WAITS, "true")]);
    let other = format!("other-{}", std::process::id());
    project.docker(&["run", "-d", "--name", &other, "--label", "mahabharatha.feature=other", BASE, "sleep", "1000"]);
    Some((project, other))
}

#[track_caller]
fn only_the_other_is_left(project: &Project, other: &str) {
    project.nothing_is_left();
    assert_eq!(project.docker(&["inspect", "-f", "{{.State.Running}}", other]), "true");
    project.docker(&["rm", "-f", other]);
    assert_eq!(project.docker(&["volume", "ls", "-q", "--filter", "label=mahabharatha.feature"]), "");
}

#[test]
fn an_interrupted_run_leaves_no_container_and_can_be_continued() {
    let Some((project, other)) = waiting() else { return };
    let run = project.run_until_begun();
    run.signal("INT");
    run.wait().code(130);
    project.nothing_is_left();
    let run = project.run_until_begun();
    std::fs::write(project.worktree("go"), "").unwrap();
    run.wait().code(0);
    only_the_other_is_left(&project, &other);
}

#[test]
fn stop_removes_the_containers() {
    let Some((project, other)) = waiting() else { return };
    for force in [&["stop"][..], &["stop", "--force"]] {
        let run = project.run_until_begun();
        assert!(!project.containers().is_empty());
        project.run(force).code(0);
        project.nothing_is_left();
        run.wait().code(130);
    }
    only_the_other_is_left(&project, &other);
}

#[test]
fn after_a_kill_the_next_command_removes_what_is_left() {
    let Some((project, other)) = waiting() else { return };
    for next in [&["stop"][..], &["cleanup"]] {
        let run = project.run_until_begun();
        run.signal("KILL");
        run.wait();
        assert!(!project.containers().is_empty());
        project.run(next).code(0);
        project.nothing_is_left();
    }
    only_the_other_is_left(&project, &other);
}

#[test]
fn a_worker_that_outlived_its_run_keeps_its_container() {
    let Some((project, other)) = waiting() else { return };
    let run = project.run_until_begun();
    run.signal("KILL");
    run.wait();
    let before = project.docker(&["ps", "-q", "--no-trunc", "--filter", "name=worker-0"]);
    let run = project.spawn(&["run", "-w", "1"]);
    std::fs::write(project.worktree("go"), "").unwrap();
    run.wait().code(0);
    assert!(!before.is_empty());
    assert_eq!(project.task("A")["attempt"], 1, "adopted, not started again");
    only_the_other_is_left(&project, &other);
}

#[test]
fn a_killed_worker_leaves_nothing_that_writes_on() {
    let Some(project) = Project::new("") else { return };
    let agent = "if test $MAHABHARATHA_ATTEMPT = 1; then (while :; do date > stray.txt; sleep 0.05; done) & touch begun; wait; fi; echo a > a.txt";
    project.graph("x", &[task("A", agent, "true")]);
    let run = project.run_until_begun();
    let pid = project.status()["workers"][0]["pid"].to_string();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    run.wait().code(0);
    assert_eq!(project.task("A")["attempt"], 2);
    project.nothing_is_left();
}
