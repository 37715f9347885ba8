//! Going on after whatever happened: nothing is lost, nothing is paid for twice.

use std::fs;

use serde_json::{Value, json};

use crate::agents::{doing, escape, held, is_alive, kill, wait};
use crate::support::{Background, Repo, simple, task, with};

/// Ended without being asked; its workers go on.
fn kill_orchestrator(run: Background) {
    run.signal("KILL");
    run.wait();
}

fn finished_jobs(repo: &Repo) -> usize {
    let jobs = fs::read_dir(repo.join(".git/mahabharatha/x/jobs")).unwrap();
    jobs.flatten().filter(|job| job.path().join("result.json").exists()).count()
}

#[test]
fn workers_of_a_killed_orchestrator_are_adopted_and_paid_for_once() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    let run = repo.run_until_up(&["A-1", "A-2"]);
    let pids = [repo.worker_pid("A-1"), repo.worker_pid("A-2")];
    kill_orchestrator(run);
    let run = repo.spawn(&["run"]);
    repo.wait_until("the run is driven again", || repo.status()["status"] == "running");
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    assert_eq!([repo.worker_pid("A-1"), repo.worker_pid("A-2")], pids);
    repo.let_go("all");
    run.wait().code(0).says("A-1 was under way (attempt 1)").says("x resumed: 0 of 3 tasks done");
    assert_eq!(repo.calls(), ["A-1", "A-2"]);
    assert_eq!(repo.tree("main")["a2"], "A-2");
}

#[test]
fn results_of_workers_without_an_orchestrator_are_used() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2")]);
    let run = repo.run_until_up(&["A-1", "A-2"]);
    kill_orchestrator(run);
    repo.let_go("all");
    repo.wait_until("both workers are done", || finished_jobs(&repo) == 2);
    repo.run(&["run"]).code(0).does_not_say("started on worker");
    assert_eq!(repo.calls(), ["A-1", "A-2"]);
}

#[test]
fn an_adopted_worker_can_be_stopped() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    kill_orchestrator(repo.run_until_up(&["A-1"]));
    let run = repo.spawn(&["run"]);
    repo.wait_until("the run is driven again", || repo.status()["status"] == "running");
    let pid = repo.worker_pid("A-1");
    repo.run(&["stop"]).code(0);
    assert!(!is_alive(pid));
    run.wait().code(130).says("A-1 was cancelled (attempt 1), its work is kept");
}

#[test]
fn a_killed_worker_is_replaced_at_once_and_what_it_left_is_ended() {
    let repo = Repo::new();
    let script = format!("echo half > a1; {}; {}; echo A-1 > a1", escape("A-1"), wait("A-1"));
    repo.graph("x", &[doing("A-1", 1, "a1", &script), held("A-2", 1, "a2")]);
    let run = repo.run_until_up(&["A-1", "A-2"]);
    let (worker, escaped) = (repo.worker_pid("A-1"), repo.pid_of("A-1"));
    repo.forget_up("A-1");
    fs::remove_file(repo.join(".gsd/specs/x/A-1.pid")).unwrap();
    kill(worker);
    repo.wait_until_up(&["A-1"]);
    assert!(!is_alive(escaped));
    repo.let_go("all");
    run.wait().code(0).says("A-1 ended without a result: its worker died (attempt 1 of 3)");
    assert_eq!(repo.calls(), ["A-1", "A-1", "A-2"]);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    assert_eq!(repo.tree("main")["a1"], "A-1");
}

#[test]
fn after_orchestrator_and_worker_were_killed_the_old_agent_is_ended_before_the_new_one_begins() {
    let repo = Repo::new();
    let script = format!(
        "test \"$MAHABHARATHA_ATTEMPT\" = 1 && {{ echo half > a1; echo $$ > \"$S/old.pid\"; {}; {}; echo late > a1; }}; \
         test -n \"$(readlink /proc/$(cat \"$S/old.pid\")/cwd)\" && touch \"$S/beside\"; echo A-1 > a1",
        escape("A-1"),
        wait("A-1")
    );
    // The new attempt mostly gets the worktree of A-0: to make one's own empty is not enough.
    repo.config("workers: { count: 2 }\n");
    repo.graph("x", &[held("A-0", 1, "a0"), doing("A-1", 1, "a1", &script)]);
    let run = repo.run_until_up(&["A-0", "A-1"]);
    repo.let_go("A-0");
    repo.wait_until("A-0 is done", || repo.task_status("A-0") == "completed");
    let (worker, old, escaped) = (repo.worker_pid("A-1"), repo.pid_of("old"), repo.pid_of("A-1"));
    run.signal("KILL");
    kill(worker);
    run.wait();
    assert!(is_alive(old) && is_alive(escaped));
    repo.run(&["status"]).code(0).says("crashed").says("the process that drove it is gone");
    repo.run(&["run", "--workers", "1"]).code(0);
    assert!(!is_alive(old) && !is_alive(escaped));
    assert!(!repo.exists(".gsd/specs/x/beside"), "the old agent was alive when the new one began");
    assert_eq!(repo.task("A-1")["worker"], 0);
    assert_eq!(repo.calls(), ["A-0", "A-1", "A-1"]);
    assert_eq!(repo.tree("main")["a1"], "A-1");
}

#[test]
fn a_gate_that_outlived_its_orchestrator_is_ended_before_it_is_run_again() {
    let repo = Repo::new();
    let signs = repo.join(".gsd/specs/x").display().to_string();
    repo.config(&format!(
        "quality_gates: [ {{ name: slow, timeout: 60, command: \"test -e a1 || exit 0; S='{signs}'; echo $$ >> \\\"$S/gates\\\"; \
         : > \\\"$S/gate.up\\\"; while ! [ -e \\\"$S/go\\\" ]; do sleep 0.02; done\" }} ]\n"
    ));
    repo.commit("gate");
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["gate"]);
    kill_orchestrator(run);
    let old: u32 = repo.read(".gsd/specs/x/gates").trim().parse().unwrap();
    assert!(is_alive(old));
    repo.forget_up("gate");
    let run = repo.run_until_up(&["gate"]);
    assert!(!is_alive(old));
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn a_run_whose_orchestrator_is_killed_again_and_again_ends_as_if_it_had_not_been() {
    let tasks = |repo: &Repo| {
        let second = doing("B-1", 2, "b1", "cat a1 a2 a3 > b1");
        repo.graph(
            "x",
            &[
                doing("A-1", 1, "a1", "echo 1 > a1"),
                doing("A-2", 1, "a2", "echo 2 > a2"),
                doing("A-3", 1, "a3", "echo 3 > a3"),
                with(second, json!({ "dependencies": ["A-1", "A-2", "A-3"] })),
                doing("B-2", 2, "b2", "echo 2 > b2"),
            ],
        );
    };
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\nquality_gates: [ { name: g, command: \"true\" } ]\n");
    repo.commit("gate");
    tasks(&repo);
    let journal = || fs::read_to_string(repo.join(".git/mahabharatha/x/events.jsonl")).unwrap_or_default();
    let mut kills = 0;
    let end = loop {
        let before = journal().lines().count();
        let mut run = repo.spawn(&["run"]);
        repo.wait_until("the run has come further, or to its end", || {
            journal().lines().count() >= before + 3 || journal().contains("\"closed\"")
        });
        if journal().contains("\"closed\"") || !run.is_running() {
            break run.wait();
        }
        kill_orchestrator(run);
        kills += 1;
    };
    end.code(0);
    assert!(kills >= 5, "only {kills} kills");
    // An attempt that was not even begun is begun by the next process; none is begun twice.
    assert_eq!(repo.calls(), ["A-1", "A-2", "A-3", "B-1", "B-2"]);
    let tree = repo.tree("main");
    assert_eq!((tree["b1"].as_str(), tree["b2"].as_str()), ("1\n2\n3", "2"));
    let first_parents = repo.git(&["log", "--first-parent", "--format=%s", "main"]);
    assert_eq!(first_parents.lines().collect::<Vec<_>>(), ["Level 2: x", "Level 1: x", "gate", "first"]);
    let changed = repo.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(changed.lines().all(|line| line.starts_with("?? .gsd/")) && !changed.contains(".unfinished"), "{changed}");
}

#[test]
fn resume_without_an_earlier_run_starts_one_and_of_a_completed_feature_says_so() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["run", "--resume"]).code(0).says("x: 1 task in 1 level").says("x is completed");
    let tip = repo.git(&["rev-parse", "main"]);
    repo.run(&["run", "--resume"]).code(0).says("x is completed already");
    assert_eq!(repo.git(&["rev-parse", "main"]), tip);
}

#[test]
fn a_second_run_of_a_feature_is_refused_and_told_who_holds_it() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let holder = format!("process {}", run.pid());
    repo.run(&["run"]).code(8).says(&holder).says("mahabharatha stop");
    assert!(repo.read(".gsd/specs/x/.lock").starts_with(&format!("{}:", run.pid())));
    // The lock is tried before anything is checked.
    let config = repo.read(".mahabharatha/config.yaml");
    repo.write(".mahabharatha/config.yaml", "nonsense: [");
    repo.write(".gsd/specs/x/task-graph.json", "{");
    repo.run(&["run"]).code(8).says(&holder);
    repo.write(".mahabharatha/config.yaml", &config);
    repo.let_go("all");
    run.wait().code(0);
    assert!(!repo.exists(".gsd/specs/x/.lock"));
    assert_eq!(repo.calls(), ["A-1"]);
}

#[test]
fn one_level_at_a_time_and_none_before_those_below() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a1"), simple("B-1", 2, "b1"), simple("C-1", 3, "c1")]);
    repo.run(&["run", "--level", "2"]).code(6).says("level 2 cannot run: level 1 is not merged").says("--level 1");
    repo.run(&["run", "--level", "9"]).code(2).says("x has no level 9").says("The levels are: 1, 2, 3.");
    assert_eq!(repo.status()["status"], "designed", "no run was begun");
    repo.run(&["run", "--level", "1"]).code(0).says("x: level 1 is merged").does_not_say("x is completed");
    assert_eq!(repo.subjects("main").len(), 3);
    repo.run(&["run", "--level", "3"]).code(6).says("level 2 is not merged");
    repo.run(&["run", "--level", "2"]).code(0);
    repo.run(&["run"]).code(0).says("x is completed");
    assert_eq!(repo.task("A-1")["attempt"], 1);
}

fn stopped_after_first_level() -> (Repo, Vec<Value>) {
    let repo = Repo::new();
    let tasks = vec![simple("A-1", 1, "a1"), simple("B-1", 2, "b1"), held("B-2", 2, "b2"), simple("C-1", 3, "c1")];
    repo.graph("x", &tasks);
    let run = repo.run_until_up(&["B-2"]);
    repo.wait_until("B-1 is done", || repo.task_status("B-1") == "completed");
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.let_go("all");
    (repo, tasks)
}

#[test]
fn tasks_that_were_added_or_changed_since_are_taken_up_where_it_is_not_too_late() {
    let (repo, mut tasks) = stopped_after_first_level();
    tasks[2] = with(simple("B-2", 2, "b2-new"), json!({ "title": "Make another" }));
    tasks[3] = simple("C-2", 3, "c2");
    tasks.push(simple("B-3", 2, "b3"));
    tasks.push(simple("D-1", 4, "d1"));
    repo.graph("x", &tasks);
    repo.run(&["run"])
        .code(0)
        .says("graph changed: B-2 was changed (title, files, verification, run)")
        .says("graph changed: C-1 was removed")
        .says("graph changed: B-3 is new on level 2")
        .says("graph changed: C-2 is new on level 3")
        .says("graph changed: D-1 is new on level 4");
    let tree = repo.tree("main");
    for file in ["a1", "b1", "b2-new", "b3", "c2", "d1"] {
        assert!(tree.contains_key(file), "{file}");
    }
    assert!(!tree.contains_key("c1") && !tree.contains_key("b2"));
    assert_eq!(repo.task("B-1")["attempt"], 1);
}

#[test]
fn a_change_that_comes_too_late_is_refused_before_anything_is_done() {
    let (repo, tasks) = stopped_after_first_level();
    let tip = repo.git(&["rev-parse", "main"]);
    let refused = |tasks: &[Value], why: &str| {
        repo.graph("x", tasks);
        repo.run(&["run"]).code(6).says("graph changed: ").says(why);
        assert_eq!(repo.git(&["rev-parse", "main"]), tip);
    };
    let mut changed = tasks.clone();
    changed[1]["title"] = json!("Something else");
    refused(&changed, "B-1 cannot be changed: it is completed");
    changed = tasks.clone();
    changed.remove(0);
    refused(&changed, "A-1 cannot be removed: it is completed");
    changed = tasks.clone();
    changed.push(simple("A-2", 1, "a2"));
    refused(&changed, "A-2 comes too late for level 1");
    changed = tasks.clone();
    changed.push(with(task("C-3", 3, "c3", "true"), json!({ "files": { "modify": ["nothing.txt"] } })));
    repo.graph("x", &changed);
    repo.run(&["run"]).code(6).says("nothing.txt");
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(0).does_not_say("graph changed");
}

#[test]
fn work_that_was_added_to_a_completed_feature_is_done() {
    let repo = Repo::new();
    let mut tasks = vec![simple("A-1", 1, "a1")];
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(0);
    repo.commit("a person's own");
    tasks.push(with(task("B-1", 2, "b1", "cat a1 > b1"), json!({ "dependencies": ["A-1"] })));
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(0).says("graph changed: B-1 is new on level 2").says("x is completed");
    assert_eq!(repo.tree("main")["b1"], "A-1");
    assert!(repo.subjects("main").contains(&"a person's own".to_string()));
    repo.run(&["run"]).code(0).says("x is completed already");
}
