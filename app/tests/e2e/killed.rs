//! Workers and agents that are killed, stopped or misbehave: the run notices, goes on, and leaves no process behind.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::agents::{doing, held, is_alive, kill, wait};
use crate::support::{Background, Repo, pass_over, processes_in, simple, with};

const WORKTREE: &str = ".mahabharatha/worktrees/x/worker-0";

fn signal(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success());
}

/// Leaves a process that was forked twice, in a session of its own, with an empty environment, that no process waits for.
fn vanish(name: &str) -> String {
    format!(
        "(setsid env -i /bin/sh -c '(setsid /bin/sh -c \"echo \\$\\$ > \\\"\\$0/{name}.tmp\\\"; \
         mv \\\"\\$0/{name}.tmp\\\" \\\"\\$0/{name}.pid\\\"; exec sleep 1000\" \"$0\" &)' \"$S\" >/dev/null 2>&1 &); \
         while ! [ -e \"$S/{name}.pid\" ]; do sleep 0.02; done"
    )
}

/// One task whose agent leaves such a process, then waits.
fn vanishing(then: &str) -> Value {
    doing("A-1", 1, "a1", &format!("echo half > a1; {}; {}; {then}", vanish("A-1"), wait("A-1")))
}

fn journal(repo: &Repo) -> Vec<Value> {
    repo.read(".git/mahabharatha/x/events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn first_cause(repo: &Repo, task: &str) -> Value {
    repo.task(task)["attempts"][0]["cause"].clone()
}

/// Everything that the agent of `A-1` left is dead, and nothing works in the repository.
#[track_caller]
fn assert_all_gone(repo: &Repo) {
    let escaped = repo.pid_of("A-1");
    assert!(!is_alive(escaped), "the escaped process {escaped} is alive");
    assert_eq!(processes_in(&repo.path()), []);
}

#[test]
fn a_dead_worker_is_noticed_within_a_second() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 9, base_seconds: 0, max_seconds: 0 }\n");
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let mut taken = Vec::new();
    for _ in 0..5 {
        let ended = || journal(&repo).iter().filter(|record| record["event"]["event"] == "job_ended").count();
        let (before, worker) = (ended(), repo.worker_pid("A-1"));
        repo.forget_up("A-1");
        let killed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        kill(worker);
        repo.wait_until("the death is in the journal", || ended() > before);
        let records = journal(&repo);
        let noticed = records.iter().rfind(|record| record["event"]["event"] == "job_ended").unwrap();
        taken.push(noticed["at"].as_i64().unwrap() - killed);
        repo.wait_until_up(&["A-1"]);
    }
    taken.sort_unstable();
    println!("a killed worker was noticed after {taken:?} ms");
    // The middle one: a busy machine may hold a single one up.
    assert!(taken[2] < 1_000, "{taken:?}");
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(repo.tree("main")["a1"], "A-1");
}

#[test]
fn a_killed_agent_is_a_failed_attempt_and_the_next_continues() {
    let repo = Repo::new();
    let script = "echo half > a1; test $MAHABHARATHA_ATTEMPT = 2 || kill -9 $$; echo A-1 > a1";
    repo.graph("x", &[doing("A-1", 1, "a1", script)]);
    repo.run(&["run"]).code(0).says("A-1 failed: its agent ended with an error (attempt 1 of 3)");
    assert_eq!(first_cause(&repo, "A-1"), "agent");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    repo.run(&["logs", "--task", "A-1", "--search", "signal 9"]).code(0).says("signal 9");
}

#[test]
fn a_stopped_agent_is_a_stall() {
    let repo = Repo::new();
    repo.config("workers: { stall_minutes: 0.1 }\n");
    let script = "echo half > a1; test $MAHABHARATHA_ATTEMPT = 2 || kill -STOP $$; echo A-1 > a1";
    repo.graph("x", &[doing("A-1", 1, "a1", script)]);
    repo.run(&["run"]).code(0).says("A-1 stalled: no output and no change (attempt 1 of 3)");
    assert_eq!((repo.calls().len(), first_cause(&repo, "A-1")), (2, json!("stalled")));
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn a_stopped_worker_gives_no_sign_of_life_and_is_ended() {
    let repo = Repo::new();
    // The agent itself writes all the time: it is the worker that hangs.
    repo.config("workers: { stall_minutes: 0.1 }\n");
    let script = format!(
        "echo half > a1; {}; test $MAHABHARATHA_ATTEMPT = 2 || while :; do echo busy; sleep 0.1; done; echo A-1 > a1",
        vanish("A-1")
    );
    repo.graph("x", &[doing("A-1", 1, "a1", &script)]);
    let run = repo.spawn(&["run"]);
    repo.wait_for(".gsd/specs/x/A-1.pid");
    let escaped = repo.pid_of("A-1");
    signal("STOP", repo.worker_pid("A-1"));
    run.wait().code(0).says("A-1 stalled: no output and no change (attempt 1 of 3)");
    assert!(!is_alive(escaped));
    assert_all_gone(&repo);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    assert_eq!(repo.tree("main")["a1"], "A-1");
}

#[test]
fn a_stopped_worker_that_was_adopted_is_ended_as_well() {
    let repo = Repo::new();
    repo.config("workers: { stall_minutes: 0.1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let worker = repo.worker_pid("A-1");
    run.signal("KILL");
    run.wait();
    signal("STOP", worker);
    repo.let_go("all");
    repo.run(&["run"]).code(0).says("A-1 stalled: no output and no change");
    assert!(!is_alive(worker));
    assert_eq!(repo.calls(), ["A-1", "A-1"]);
}

#[test]
fn an_adopted_worker_has_the_stall_limit_of_its_agent() {
    let repo = Repo::new();
    repo.config(
        "workers: { stall_minutes: 0.1 }\n\
         agents: { patient: { kind: command, stall_minutes: 10 }, quick: { kind: command } }\n",
    );
    let of = |task, agent: &str| with(task, json!({ "agent": agent }));
    repo.graph("x", &[of(held("SLOW", 1, "a1"), "patient"), of(held("HANGS", 1, "a2"), "quick")]);
    let run = repo.run_until_up(&["SLOW", "HANGS"]);
    let worker = repo.worker_pid("HANGS");
    run.signal("KILL");
    run.wait();
    signal("STOP", worker);
    let resumed = repo.spawn(&["run"]);
    // Both are watched since the same moment.
    let calls = |task| repo.calls().iter().filter(|call| *call == task).count();
    repo.wait_until("the second attempt at HANGS", || calls("HANGS") == 2);
    repo.let_go("all");
    resumed.wait().code(0).says("HANGS stalled: no output and no change");
    assert_eq!(calls("SLOW"), 1);
}

#[test]
fn a_stopped_worker_can_be_told_to_end() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    signal("STOP", repo.worker_pid("A-1"));
    repo.run(&["stop"]).code(0);
    run.wait().code(130).says("A-1 was cancelled (attempt 1), its work is kept");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn agents_that_close_or_fill_their_output_or_do_nothing_are_judged_by_what_they_did() {
    let repo = Repo::new();
    repo.graph(
        "x",
        &[
            doing("CLOSED", 1, "closed", "exec <&- >&- 2>&-; sleep 0.3; : > closed"),
            doing("FULL", 1, "full", "head -c 30000000 /dev/zero | tr '\\0' x; head -c 30000000 /dev/zero >&2; : > full"),
            with(
                doing("IDLE", 1, "idle", "test $MAHABHARATHA_ATTEMPT = 1 || : > idle"),
                json!({ "files": { "create": [], "modify": ["idle"] }, "verification": { "command": "test ! -s idle" } }),
            ),
        ],
    );
    repo.write("idle", "something\n");
    repo.commit("idle");
    let ran = repo.run(&["run"]).code(0);
    ran.says("IDLE failed its verification (attempt 1 of 3)").does_not_say("CLOSED failed").does_not_say("FULL failed");
    let log = fs::metadata(repo.join(".mahabharatha/logs/x/tasks/FULL.jsonl")).unwrap();
    assert!(log.len() < 8 << 20, "{} bytes", log.len());
}

/// Does something to the worktree while the first attempt is at work, then lets it go on.
fn meddled(what: impl Fn(&Repo)) -> Repo {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), simple("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    let run = repo.run_until_up(&["A-1"]);
    what(&repo);
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(repo.tree("main")["a1"], "A-1");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 2: x");
    repo
}

#[test]
fn a_worktree_deleted_under_its_worker_is_created_again() {
    let repo = meddled(|repo| fs::remove_dir_all(repo.join(WORKTREE)).unwrap());
    assert_eq!(first_cause(&repo, "A-1"), "setup");
    let analysis = repo.task("A-1")["attempts"][0].to_string();
    assert!(analysis.contains("was removed while the agent ran"), "{analysis}");
    // And also where git has forgotten it.
    let repo = meddled(|repo| {
        fs::remove_dir_all(repo.join(WORKTREE)).unwrap();
        repo.git(&["worktree", "prune"]);
    });
    assert_eq!(repo.task("A-1")["attempt"], 2);
}

#[test]
fn a_branch_that_was_moved_and_locks_that_were_left_do_not_matter() {
    let repo = meddled(|repo| {
        repo.git(&["update-ref", "refs/heads/mahabharatha/x/worker-0", &repo.git(&["rev-parse", "main"])]);
        let empty = repo.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
        let other = repo.git(&["commit-tree", "-m", "by hand", &empty]);
        repo.git(&["update-ref", "refs/heads/mahabharatha/x/worker-0", &other]);
        repo.write(".git/worktrees/worker-0/index.lock", "");
        repo.write(".git/refs/heads/mahabharatha/x/worker-0.lock", "");
    });
    assert_eq!(repo.task("A-1")["attempt"], 1);
}

/// Of an agent whose first attempt never ends.
const FOREVER: &str = "test $MAHABHARATHA_ATTEMPT = 2 || sleep 1000; echo A-1 > a1";

/// The run, with its agent at work and a process that escaped from it.
fn running(then: &str) -> (Repo, Background) {
    let repo = Repo::new();
    repo.graph("x", &[vanishing(then)]);
    let run = repo.run_until_up(&["A-1"]);
    assert!(is_alive(repo.pid_of("A-1")));
    (repo, run)
}

#[test]
fn no_descendant_is_alive_after_the_end() {
    let (repo, run) = running("echo A-1 > a1");
    repo.let_go("all");
    run.wait().code(0);
    assert_all_gone(&repo);
}

#[test]
fn no_descendant_is_alive_after_ctrl_c_sigterm_and_stop() {
    for how in ["INT", "TERM", "HUP", "stop", "force"] {
        let (repo, run) = running(FOREVER);
        match how {
            "stop" => drop(repo.run(&["stop", "--grace", "1"]).code(0)),
            "force" => drop(repo.run(&["stop", "--force"]).code(0)),
            signal => run.signal(signal),
        }
        // `stop` has waited; a signal is answered by the end of the command.
        let ran = if ["stop", "force"].contains(&how) {
            assert_all_gone(&repo);
            run.wait()
        } else {
            run.wait()
        };
        ran.code(130);
        assert_all_gone(&repo);
    }
}

#[test]
fn where_orchestrator_and_worker_are_killed_at_once_the_next_command_ends_what_escaped() {
    for next in [&["run"][..], &["stop"], &["stop", "--force"], &["cleanup"]] {
        let (repo, run) = running(FOREVER);
        let (worker, escaped) = (repo.worker_pid("A-1"), repo.pid_of("A-1"));
        signal("KILL", run.pid());
        kill(worker);
        run.wait();
        assert!(is_alive(escaped), "{next:?}: it was to escape");
        repo.let_go("all");
        fs::remove_file(repo.join(".gsd/specs/x/A-1.pid")).unwrap();
        repo.run(next).code(0);
        assert!(!is_alive(escaped), "{next:?}: the escaped process is alive");
        assert_eq!(processes_in(&repo.path()), [], "{next:?}");
        repo.run(&["run"]).code(0);
        assert_eq!(repo.tree("main")["a1"], "A-1");
        assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    }
}

#[test]
fn a_users_shell_in_a_worktree_is_not_killed() {
    let (repo, run) = running(FOREVER);
    let worker = repo.worker_pid("A-1");
    // `script` gives the shell a terminal of its own.
    let shell = format!(
        "cd '{}' && echo $$ > '{}' && exec sleep 1000",
        repo.join(WORKTREE).display(),
        repo.join(".gsd/shell").display()
    );
    let terminal = Command::new("script")
        .args(["-qec", &shell, "/dev/null"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn();
    let Ok(mut terminal) = terminal else {
        pass_over("there is no `script` here, which makes a terminal");
        repo.run(&["stop", "--force"]).code(0);
        run.wait();
        return;
    };
    repo.wait_until("the shell is there", || repo.exists(".gsd/shell") && !repo.read(".gsd/shell").is_empty());
    let person: u32 = repo.read(".gsd/shell").trim().parse().unwrap();
    signal("KILL", run.pid());
    kill(worker);
    run.wait();
    repo.run(&["stop"]).code(0);
    assert!(is_alive(person) && !is_alive(repo.pid_of("A-1")));
    kill(person);
    terminal.wait().unwrap();
}

#[test]
fn a_gate_that_escaped_from_a_killed_orchestrator_is_ended_by_the_next_command() {
    for next in [&["run"][..], &["stop"]] {
        let repo = Repo::new();
        let signs = repo.join(".gsd/specs/x").display().to_string();
        let gate = format!(
            "test -e a1 || exit 0; S='{signs}'; test -e \"$S/go\" && exit 0; {}; : > \"$S/gate.up\"; exec sleep 1000",
            vanish("A-1")
        );
        repo.config(&format!("quality_gates: {}\n", json!([{ "name": "slow", "timeout": 60, "command": gate }])));
        repo.commit("gate");
        repo.graph("x", &[simple("A-1", 1, "a1")]);
        let run = repo.run_until_up(&["gate"]);
        signal("KILL", run.pid());
        run.wait();
        assert!(is_alive(repo.pid_of("A-1")));
        repo.let_go("all");
        repo.run(next).code(0);
        assert_all_gone(&repo);
        repo.run(&["run"]).code(0);
    }
}

#[test]
fn work_in_a_worktree_that_git_has_forgotten_is_saved() {
    let (repo, run) = running(FOREVER);
    let worker = repo.worker_pid("A-1");
    signal("KILL", run.pid());
    kill(worker);
    run.wait();
    fs::remove_dir_all(repo.join(".git/worktrees/worker-0")).unwrap();
    repo.let_go("all");
    repo.run(&["run"]).code(0).says("is kept in refs/mahabharatha/x/wip/A-1/1");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    assert!(!repo.exists(".mahabharatha/worktrees"));
}
