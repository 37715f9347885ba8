//! `sandbox --task` beside other commands, and after it was killed.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;

use crate::life::processes_with;
use crate::support::{Background, HELD, Repo};

const SANDBOXES: [&str; 3] = ["bwrap", "landlock", "off"];
/// Writes to a file as long as it lives, in a session of its own. Its command line names the repository.
fn beats(repo: &Repo) -> String {
    format!("setsid sh -c '{} while :; do date +%N > beat.local; sleep 0.01; done' & wait", mark(repo))
}

fn mark(repo: &Repo) -> String {
    format!(": beats in {};", repo.path().display())
}

/// A repository with a task, of which `run` is what its agent does.
fn repo_with(sandbox: &str, run: Option<&str>) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("sandbox: {sandbox}\n"));
    repo.write(".gitignore", "*.local\n");
    repo.commit("second");
    let mut task = json!({
        "id": "A", "title": "A", "level": 1, "files": { "create": ["A.txt"] }, "dependencies": [],
        "verification": { "command": "grep good A.txt" },
    });
    if let Some(run) = run {
        task["run"] = json!(run);
    }
    repo.graph("x", &[task]);
    repo
}

fn worktree(repo: &Repo) -> PathBuf {
    repo.join(".mahabharatha/worktrees/x/worker-0")
}

/// A repository in which a session holds the task, with its file written.
fn held_by_a_session(sandbox: &str) -> Repo {
    let repo = repo_with(sandbox, None);
    repo.run(&["task", "start"]).code(0);
    repo.run(&["task", "claim", "A"]).code(0);
    std::fs::write(worktree(&repo).join("A.txt"), "good\n").unwrap();
    repo
}

/// A repository whose run was killed with its worker, so that the attempt's work is in the worktree.
fn left_by_a_killed_run() -> Repo {
    let repo = repo_with("off", Some(&format!("{HELD} echo good > A.txt")));
    let run = repo.run_until_held("x");
    let worker = repo.status()["workers"][0]["pid"].as_u64().unwrap().to_string();
    run.signal("KILL");
    assert!(std::process::Command::new("kill").args(["-9", &worker]).status().unwrap().success());
    repo.let_go_on("x", run);
    repo
}

fn open_trial(repo: &Repo) -> Background {
    let mut trial = repo.command(&["sandbox", "--task", "A", "--", &beats(repo)]);
    trial.stdout(Stdio::null()).stderr(Stdio::null());
    let trial = Background::spawn(trial);
    let beat = worktree(repo).join("beat.local");
    repo.wait_until("the command runs", || beat.exists());
    trial
}

fn kill(trial: Background) {
    trial.signal("KILL");
    trial.wait();
}

/// Tells whether any process of a trial is left.
fn is_beating(repo: &Repo) -> bool {
    processes_with(&mark(repo)) > 0
}

#[test]
fn what_a_killed_trial_left_is_ended_before_the_task_is_completed() {
    for sandbox in SANDBOXES {
        let repo = held_by_a_session(sandbox);
        kill(open_trial(&repo));
        repo.run(&["task", "complete", "A"]).code(0);
        assert!(!is_beating(&repo), "{sandbox}");
    }
}

#[test]
fn what_a_killed_trial_left_is_ended_by_stop_and_run() {
    for (repo, next) in [
        (left_by_a_killed_run(), "run"),
        (left_by_a_killed_run(), "stop"),
        (held_by_a_session("off"), "stop"),
        (held_by_a_session("landlock"), "stop"),
    ] {
        kill(open_trial(&repo));
        assert!(is_beating(&repo), "what the trial left goes on");
        repo.run(&[next]).code(0);
        assert!(!is_beating(&repo), "{next}");
    }
}

#[test]
fn everything_in_bubblewrap_ends_with_a_killed_trial() {
    let repo = held_by_a_session("bwrap");
    kill(open_trial(&repo));
    repo.wait_until("nothing writes any more", || !is_beating(&repo));
}

#[test]
fn an_open_trial_keeps_a_run_from_starting() {
    let repo = left_by_a_killed_run();
    let trial = open_trial(&repo);
    let pid = format!("process {}", trial.pid());
    repo.run(&["run"]).code(8).says("sandbox --task A").says(&pid);
    repo.run(&["sandbox", "--task", "A", "--", "true"]).code(8).says("sandbox --task A").says(&pid);
    assert!(is_beating(&repo));
    trial.signal("TERM");
    trial.wait();
    repo.run(&["run"]).code(0);
}

#[test]
fn an_open_trial_keeps_its_task_from_being_completed() {
    let repo = held_by_a_session("bwrap");
    let trial = open_trial(&repo);
    for command in ["complete", "verify"] {
        repo.run(&["task", command, "A"]).code(8).says("sandbox --task A");
    }
    trial.signal("TERM");
    trial.wait();
    repo.run(&["task", "complete", "A"]).code(0);
}

#[test]
fn an_open_trial_is_ended_by_stop() {
    for sandbox in SANDBOXES {
        let repo = held_by_a_session(sandbox);
        let mut trial = open_trial(&repo);
        repo.run(&["stop", "--grace", "0"]).code(0);
        assert!(!trial.is_running() && !is_beating(&repo), "{sandbox}");
    }
}

#[test]
fn a_file_that_changes_after_it_was_hashed_is_not_committed() {
    let repo = repo_with("off", None);
    // Git runs it while it hashes the file.
    repo.git(&["config", "filter.swap.clean", "cat; echo good > A.txt"]);
    repo.write(".gitattributes", "A.txt filter=swap\n");
    repo.commit("third");
    repo.run(&["task", "start"]).code(0);
    repo.run(&["task", "claim", "A"]).code(0);
    std::fs::write(worktree(&repo).join("A.txt"), "evil\n").unwrap();
    repo.run(&["task", "complete", "A"]).says("changed while");
    assert_ne!(repo.task_status("A"), "completed");
}
