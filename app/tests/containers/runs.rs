//! Whole runs: agents, verifications and gates work as usual.

use crate::support::Ran;
use mahabharatha_testing::containers::{BASE, Project, task};

#[test]
fn a_run_succeeds_and_leaves_no_container() {
    let gates = "quality_gates: [ { name: all, command: 'test -e /made && git log -1 --format=%H && git status' } ]\n";
    let Some(project) = Project::with_image(gates, &format!("FROM {BASE}\nRUN echo 1 > /made\n")) else { return };
    let root = project.path();
    project.write(".claude/rules/security.md", "be careful\n");
    let look = format!(
        "set -e; test \"$PWD\" = '{0}'; test \"$MAHABHARATHA_WORKTREE\" = '{0}'; cmp README.md /workspace/README.md; \
         test -s /specs/x/task-graph.json; test -s \"$MAHABHARATHA_SPEC_DIR/task-graph.json\"; grep -q careful /rules/security.md; \
         test \"$MAHABHARATHA_WORKER_ID $MAHABHARATHA_FEATURE $CLAUDE_CODE_TASK_LIST_ID\" = '0 x x'; git status --short; \
         git log --oneline; echo a > a.txt; touch ~/made /tmp/made /var/tmp/made /dev/shm/made; ",
        root.display()
    );
    let nothing_stayed = "for dir in ~ /tmp /var/tmp /dev/shm; do test ! -e $dir/made || exit 1; done; test -s /workspace/a.txt; \
                          test -z \"$MAHABHARATHA_ATTEMPT\" || test \"$(git diff --cached --name-only)\" = a.txt";
    project.graph("x", &[task("A", &look, nothing_stayed)]);
    project.run(&["run", "-w", "1"]).code(0).says("building the image").says("(container)");
    let status = project.status();
    assert_eq!((status["mode"].as_str(), status["sandbox"].as_str()), (Some("container"), Some("container")));
    assert_eq!(project.tree("HEAD")["a.txt"], "a");
    project.nothing_is_left();

    project.graph("y", &[task("B", "echo b > b.txt", "true")]);
    project.run(&["run", "-w", "1"]).code(0).does_not_say("building the image");
    project.nothing_is_left();
}

#[test]
fn the_plan_and_doctor_describe_the_containers() {
    let Some(project) = Project::new("resources: { cpus: 1, memory: 64m, pids: 99 }\n") else { return };
    project.graph("x", &[task("A", "echo a > a.txt", "true")]);
    let plan = project.run(&["run", "--dry-run"]).code(0);
    let plan = plan.says("to be built").says("1 CPUs, 64 MB of memory, 99 processes").says("/specs/x: ");
    assert!(plan.says("network  bridge").stdout.contains("/workspace"));
    let json = project.run(&["run", "--dry-run", "--json"]).code(0).json();
    assert_eq!(json["containers"]["network"][0], "bridge");
    project.run(&["doctor"]).code(0).says("containers: docker ").says("is not on this machine");
    project.run(&["run"]).code(0);
    project
        .run(&["doctor"])
        .code(0)
        .says("is there, built in")
        .says("MB are free in")
        .says("images of this project: 1, ");
    // What was asked for and cannot be had is an error.
    let lost = project.command(&["doctor"]).env("DOCKER_HOST", "unix:///nonexistent").output().unwrap();
    assert_eq!(lost.status.code(), Some(7));
    project.run(&["run", "--sandbox", "bwrap", "-f", "x"]).code(2).says("which are the sandbox");
}

#[test]
fn an_image_of_devcontainer_json_is_used() {
    let Some(project) = Project::new("") else { return };
    project.write(".devcontainer/devcontainer.json", &format!("{{ // mine\n \"image\": \"{BASE}\", }}"));
    project.graph("x", &[task("A", "echo a > a.txt", "true")]);
    project.run(&["run"]).code(0).does_not_say("building");
}

#[test]
fn a_compose_service_is_built() {
    let Some(project) = Project::with_image("", "ARG BASE=none\nFROM $BASE\nCOPY tool /tool\n") else { return };
    project.write(
        ".devcontainer/devcontainer.json",
        r#"{ "dockerComposeFile": "docker-compose.yaml", "service": "worker" }"#,
    );
    let build = format!("build: {{ context: .., dockerfile: .devcontainer/Dockerfile, args: [ 'BASE={BASE}' ] }}");
    project.write(".devcontainer/docker-compose.yaml", &format!("services:\n  worker:\n    {build}\n"));
    project.write("tool", "1\n");
    project.graph("x", &[task("A", "cp /tool a.txt", "true")]);
    project.run(&["run"]).code(0);
    project.write("tool", "2\n");
    project.graph("y", &[task("B", "cp /tool b.txt", "true")]);
    project.run(&["run"]).code(0).says("building the image");
    let tree = project.tree("HEAD");
    assert_eq!((tree["a.txt"].as_str(), tree["b.txt"].as_str()), ("1", "2"));
}

#[test]
fn a_session_that_does_tasks_itself_verifies_in_containers() {
    let gates = "quality_gates: [ { name: all, command: test -e /made } ]\n";
    let Some(project) = Project::with_image(gates, &format!("FROM {BASE}\nRUN echo 1 > /made\n")) else { return };
    let mut by_hand = task("A", "", "test -e /made && test -s a.txt");
    by_hand.as_object_mut().unwrap().remove("run");
    project.graph("x", &[by_hand]);
    let call = |args: &[&str]| {
        let ran = Ran::of(project.command(args).env("CLAUDE_CODE_SESSION_ID", "one").output().unwrap());
        project.nothing_is_left();
        ran
    };
    call(&["task", "start"]).code(0);
    let claimed = call(&["task", "claim", "A", "--json"]).code(0).json();
    let worktree = claimed["claimed"][0]["worktree"].as_str().unwrap().to_owned();
    call(&["task", "verify", "A"]).code(1);
    std::fs::write(format!("{worktree}/a.txt"), "a\n").unwrap();
    call(&["task", "verify", "A"]).code(0);
    call(&["task", "complete", "A"]).code(0);
    call(&["merge", "--level", "1"]).code(0);
    assert_eq!(project.tree("HEAD")["a.txt"], "a");
}

#[test]
fn programs_of_a_worker_share_its_container_and_what_is_mounted_there() {
    let Some(project) = Project::new("sandbox: { write: ['~/.cargo/registry'] }\n") else { return };
    let registry = project.home().join(".cargo/registry");
    std::fs::create_dir_all(&registry).unwrap();
    std::fs::write(registry.join("mine"), "").unwrap();
    let agent = "test -e ~/.cargo/registry/mine && touch ~/.cargo/left && hostname > a.txt";
    // The name of a container is its own.
    let verification = "test -e ~/.cargo/registry/mine && test ! -e ~/.cargo/left && \
        case $MAHABHARATHA_WORKER_ID in 0) test \"$(hostname)\" = \"$(cat a.txt)\";; esac";
    project.graph("x", &[task("A", agent, verification)]);
    project.run(&["run", "-w", "1"]).code(0);
    assert_eq!(project.task("A")["attempt"], 1);
    project.nothing_is_left();
}
