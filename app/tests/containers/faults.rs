//! What goes wrong is named, and the task goes on in another container.

use crate::proxy::Proxy;
use crate::support::{Disk, Ran};
use mahabharatha_testing::containers::{self, BASE, OwnEngine, Project, task};

/// What the first attempt does, and only it.
fn first(what: &str) -> String {
    format!("if test $MAHABHARATHA_ATTEMPT = 1; then {what}; fi; rm -f begun; echo a > a.txt")
}

fn reasons(project: &Project) -> String {
    project.run(&["logs", "--task", "A"]).code(0).stdout
}

#[test]
fn lack_of_memory_is_named_with_the_limit() {
    let Some(project) = Project::new("resources: { memory: 32m }\n") else { return };
    let verification = "if test $MAHABHARATHA_ATTEMPT = 2; then tail /dev/zero; exit 1; fi; test -s a.txt";
    project.graph("x", &[task("A", &first("tail /dev/zero; exit 1"), verification)]);
    project.run(&["run", "-w", "1"]).code(0).says("out of memory");
    let said = reasons(&project);
    assert!(said.contains("The agent failed: out of memory") && said.contains("its limit of 32 MB"), "{said}");
    assert!(said.contains("The verification failed"), "{said}");
    assert_eq!(project.task("A")["attempt"], 3);
    project.nothing_is_left();
}

#[test]
fn a_killed_container_is_replaced() {
    let Some(project) = Project::new("") else { return };
    project.graph("x", &[task("A", &first("touch begun; sleep 1000"), "true")]);
    let run = project.run_until_begun();
    let name = project.containers().into_iter().find(|name| name.ends_with("worker-0")).unwrap();
    project.docker(&["kill", &name]);
    run.wait().code(0).says("was killed");
    assert_eq!(project.task("A")["attempt"], 2);
    project.nothing_is_left();
}

#[test]
fn a_gate_whose_container_is_killed_runs_again() {
    // Waits on the base, the first time. Only the ignored file is left of that.
    let gate = "test ! -e dirt && { test -e a.txt || test -e seen || { touch seen dirt; sleep 1000; }; }";
    let Some(project) = Project::new(&format!("quality_gates: [ {{ name: all, command: '{gate}' }} ]\n")) else {
        return;
    };
    project.write(".gitignore", "/seen\n");
    project.commit("third");
    project.graph("x", &[task("A", "echo a > a.txt", "true")]);
    let run = project.spawn(&["run", "-w", "1"]);
    project.wait_for(".mahabharatha/worktrees/x/staging/seen");
    let name = project.containers().into_iter().find(|name| name.ends_with("staging")).unwrap();
    project.docker(&["kill", &name]);
    run.wait().code(0);
    project.nothing_is_left();
}

#[test]
fn a_removed_container_is_replaced() {
    let Some(project) = Project::new("") else { return };
    project.graph("x", &[task("A", &first("touch begun; sleep 1000"), "true")]);
    let run = project.run_until_begun();
    let name = project.containers().into_iter().find(|name| name.ends_with("worker-0")).unwrap();
    project.docker(&["rm", "-f", &name]);
    // The engine kills a container before it removes it, and may be asked in between.
    let said = run.wait().code(0).stderr;
    assert!(said.contains("was removed by another program") || said.contains("was killed"), "{said}");
    project.nothing_is_left();
}

#[test]
fn processes_that_an_agent_leaves_do_not_outlive_it() {
    let Some(project) = Project::new("") else { return };
    let agent = "(while :; do echo evil > a.txt; sleep 0.05; done) >/dev/null 2>&1 & sleep 0.2; echo a > a.txt";
    project.graph("x", &[task("A", agent, "sleep 0.3; test \"$(ps | grep -c 'e[v]il')\" = 0")]);
    project.run(&["run", "-w", "1"]).code(0);
    project.nothing_is_left();
}

#[test]
fn an_engine_that_goes_away_ends_the_attempt_and_not_the_run() {
    let Some(engine) = containers::find() else { return };
    let mut proxy = Proxy::start(&engine);
    let mut project = Project::of_engine(proxy.host(), "", &format!("FROM {BASE}\n"));
    project.graph("x", &[task("A", &first("touch begun; while :; do date > stray.txt; sleep 0.05; done"), "true")]);
    let run = project.run_until_begun();
    proxy.stop();
    // The client notices at once; the container still runs.
    project.wait_until("the end of the attempt", || {
        project.task("A")["attempt"] != 1 || project.task("A")["status"] != "in_progress"
    });
    proxy.start_again();
    run.wait().code(0);
    project.host = engine;
    assert_eq!(project.task("A")["attempt"], 2);
    assert!(reasons(&project).contains("docker"), "{}", reasons(&project));
    project.nothing_is_left();
}

#[test]
fn an_engine_that_is_restarted_ends_the_attempt_and_not_the_run() {
    let Some(engine) = OwnEngine::start() else { return };
    let config = "launcher: { type: container, network: none }\n";
    let project = Project::of_engine(engine.host(), config, &format!("FROM {BASE}\n"));
    let both = ["A", "B"].map(|id| {
        let run = first(&format!("touch begun; echo half > {}.txt; sleep 1000", id.to_lowercase()));
        task(id, &run.replace("a.txt", &format!("{}.txt", id.to_lowercase())), "true")
    });
    project.graph("x", &both);
    let run = project.spawn(&["run", "-w", "2"]);
    let worktree = |number: u32| project.join(&format!(".mahabharatha/worktrees/x/worker-{number}/begun"));
    project.wait_until("both agents", || worktree(0).exists() && worktree(1).exists());
    engine.restart();
    run.wait().code(0);
    for id in ["A", "B"] {
        assert_eq!(project.task(id)["attempt"], 2, "{id}");
        let kept = format!("refs/mahabharatha/x/wip/{id}/1:{}.txt", id.to_lowercase());
        assert_eq!(project.git(&["show", &kept]), "half");
        assert_eq!(project.tree("main")[&format!("{}.txt", id.to_lowercase())], "a");
    }
    project.nothing_is_left();
}

#[test]
fn a_stopped_program_is_a_stall_and_is_ended() {
    let Some(project) = Project::new("workers: { stall_minutes: 0.2 }\n") else { return };
    project.graph("x", &[task("A", &first("echo half > a.txt; kill -STOP $$"), "true")]);
    project.run(&["run", "-w", "1"]).code(0).says("A stalled: no output and no change (attempt 1 of 3)");
    assert_eq!(project.git(&["show", "refs/mahabharatha/x/wip/A/1:a.txt"]), "half");
    project.nothing_is_left();
}

#[test]
fn a_stopped_verification_ends_with_its_time() {
    let Some(project) = Project::new("") else { return };
    let mut stops = task("A", "echo a > a.txt", "");
    let command = "test \"$MAHABHARATHA_ATTEMPT\" != 1 || kill -STOP $$";
    stops["verification"] = serde_json::json!({ "command": command, "timeout_seconds": 5 });
    project.graph("x", &[stops]);
    project.run(&["run", "-w", "1"]).code(0).says("A failed its verification");
    assert!(reasons(&project).contains("did not end within 5 s"), "{}", reasons(&project));
    project.nothing_is_left();
}

#[test]
fn a_program_that_closes_its_output_is_waited_for() {
    let Some(project) = Project::new("") else { return };
    project.graph("x", &[task("A", "exec >/dev/null 2>&1 </dev/null; sleep 1; echo a > a.txt; exit 0", "true")]);
    project.run(&["run", "-w", "1"]).code(0);
    assert_eq!(project.task("A")["attempt"], 1);
}

#[test]
fn exit_codes_mean_what_they_mean_without_containers() {
    let Some(project) = Project::new("retry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n")
    else {
        return;
    };
    let tasks = [
        task("A", "test -e a.txt && exit 0; echo a > a.txt; echo half; exit 2", "true"),
        task("B", "echo cannot be done; exit 3", "true"),
        task("C", "echo which colour; exit 4", "true"),
        task("D", "echo d > d.txt; kill -9 $$", "true"),
    ];
    let mut ends = Vec::new();
    for (feature, mode) in [("x", "container"), ("y", "subprocess")] {
        project.graph(feature, &tasks);
        project.run(&["run", "--mode", mode]).code(3);
        let end = |id: &str| {
            let task = project.task(id);
            let attempts = task["attempts"].as_array().unwrap().iter();
            let told = |attempt: &serde_json::Value| {
                format!("{} {} {}", attempt["outcome"], attempt["cause"], attempt["detail"])
            };
            (task["status"].to_string(), task["reason"].to_string(), attempts.map(told).collect::<Vec<_>>())
        };
        ends.push(["A", "B", "C", "D"].map(end));
    }
    // A signal is told by the code that a shell would give.
    let killed = ends[1][3].2[0].replace("signal 9", "exit code 137");
    assert_eq!(ends[0][3].2[0], killed);
    assert_eq!(ends[0][..3], ends[1][..3]);
    assert!(ends[0][1].1.contains("cannot be done"), "{ends:?}");
}

#[test]
fn a_disk_that_an_agent_fills_pauses_the_run() {
    // The disk is mounted for this test alone, so that another engine may not see it.
    let (Some(disk), Some(engine)) = (Disk::new("260m"), OwnEngine::start()) else { return };
    let config = "launcher: { type: container, network: none }\n";
    let project = Project::of_engine(engine.host(), config, &format!("FROM {BASE}\n"));
    let agent = "test -e /specs/x/again || dd if=/dev/zero of=fill bs=1M; echo a > a.txt";
    project.graph("x", &[task("A", agent, "true")]);
    project.commit("specs");
    let full = disk.path().join("full");
    project.git(&["clone", "-q", project.path().to_str().unwrap(), full.to_str().unwrap()]);
    let run = |args: &[&str]| -> Ran { project.run(&[&["-C", full.to_str().unwrap()], args].concat()) };
    run(&["run", "-w", "1"]).code(9).says("No space left on device").says("x is paused");
    assert_eq!(project.docker(&["ps", "-aq"]), "");

    std::fs::remove_file(full.join(".mahabharatha/worktrees/x/worker-0/fill")).unwrap();
    std::fs::write(full.join(".gsd/specs/x/again"), "").unwrap();
    run(&["run", "-w", "1"]).code(0).says("x is completed");
    assert_eq!(project.git_in(&full, &["show", "main:a.txt"]), "a");
    assert_eq!(project.docker(&["ps", "-aq"]), "");
}

#[test]
fn images_that_cannot_be_used_are_refused_before_anything_starts() {
    let Some(project) = Project::with_image("", &format!("FROM {BASE}\nRUN echo the last line; exit 3\n")) else {
        return;
    };
    project.graph("x", &[task("A", "echo a > a.txt", "true")]);
    let broken = |dockerfile: &str, why: &str| {
        project.write(".devcontainer/Dockerfile", dockerfile);
        project.run(&["run"]).code(7).says(why);
    };
    project.run(&["run"]).code(7).says("building the image from").says("the last line");
    broken(&format!("FROM {BASE}\nRUN rm /usr/bin/git\n"), "has no git");
    broken("FROM scratch\nLABEL a=b\n", "has no `sh`");
    let foreign = "RUN echo of another machine > /bin/s && chmod +x /bin/s && mv /bin/s /bin/sh";
    broken(&format!("FROM {BASE}\n{foreign}\n"), "is for another architecture");
    project.write(".devcontainer/devcontainer.json", "{}");
    project.run(&["run"]).code(7).says("names neither an image");
    std::fs::remove_dir_all(project.join(".devcontainer")).unwrap();
    project.run(&["run"]).code(7).says("no .devcontainer");
    let lost = project.command(&["run"]).env("DOCKER_HOST", "unix:///nonexistent").output().unwrap();
    assert_eq!(lost.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&lost.stderr).contains("no container engine answers"));
    assert!(project.refs().is_empty());
    project.nothing_is_left();
}

/// Puts a shell in place that refuses to sleep.
const NO_SLEEP: &str = r##"printf '#!/bin/busybox sh\ncase "$*" in *exec*sleep*) echo no sleep here; exit 5;; esac; exec /bin/busybox sh "$@"\n' > /bin/s && chmod +x /bin/s && mv /bin/s /bin/sh"##;

#[test]
fn a_container_that_ends_at_once_says_why() {
    let Some(project) = Project::with_image("", &format!("FROM {BASE}\nRUN {NO_SLEEP}\n")) else { return };
    project.graph("x", &[task("A", "echo a > a.txt", "true")]);
    project.run(&["run", "-w", "1"]).code(3).says("ended by itself with exit code 5").says("no sleep here");
    project.nothing_is_left();
}
