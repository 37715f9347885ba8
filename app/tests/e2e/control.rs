//! `retry`, `skip`, `merge`, `cleanup`: while a run is on, and when none is.

use serde_json::{Value, json};

use crate::agents::{doing, held};
use crate::support::{Repo, simple, task, with};

/// Fails until `<id>.ok` is there.
fn failing(id: &str, level: u32, file: &str) -> Value {
    doing(id, level, file, &format!("echo half > {file}; test -e \"$S/{id}.ok\" && echo {id} > {file}"))
}

fn after(task: Value, dependencies: &[&str]) -> Value {
    with(task, json!({ "dependencies": dependencies }))
}

fn task_refs(repo: &Repo) -> Vec<String> {
    repo.refs()
        .into_iter()
        .filter_map(|name| name.strip_prefix("refs/mahabharatha/x/tasks/").map(str::to_string))
        .collect()
}

#[test]
fn retry_repeats_blocked_and_completed_tasks() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[failing("A-1", 1, "a1"), doing("A-2", 1, "a2", "echo x > a2"), simple("B-1", 2, "b1")]);
    repo.run(&["run"]).code(3).says("only blocked or waiting tasks remain: A-1");
    assert_eq!(task_refs(&repo), ["A-2"]);
    repo.run(&["retry"]).code(2).says("--all");
    repo.run(&["retry", "A-1", "Z-9"]).code(2).says("x has no task Z-9");
    assert_eq!(repo.task_status("A-1"), "blocked", "nothing is queued if one task is unknown");
    let again = repo.run(&["retry", "A-1", "A-2", "B-1"]).code(1);
    again
        .says("A-1: queued again")
        .says("A-2: queued again")
        .says("B-1: not queued again: it is queued already")
        .says("Continue with: mahabharatha run x");
    assert_eq!(task_refs(&repo), [""; 0]);
    assert_eq!([repo.task_status("A-1"), repo.task_status("A-2")], ["pending", "pending"]);
    repo.write(".gsd/specs/x/A-1.ok", "");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.calls(), ["A-1", "A-1", "A-2", "A-2"]);
    repo.run(&["retry", "A-1"]).code(1).says("A-1: not queued again: level 1 is merged");
    repo.run(&["retry", "--all"]).code(0).says("no task is blocked");
}

#[test]
fn every_blocked_task_is_tried_again_while_the_run_is_on() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 3 }\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[failing("A-1", 1, "a1"), failing("A-2", 1, "a2"), held("A-3", 1, "a3")]);
    let run = repo.run_until_up(&["A-3"]);
    repo.wait_until("both are blocked", || repo.status()["levels"][0]["blocked"] == 2);
    for task in ["A-1", "A-2"] {
        repo.write(&format!(".gsd/specs/x/{task}.ok"), "");
    }
    let answer = repo.run(&["retry", "--all", "--json"]).code(0).json();
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(["A-1", "A-2"]), &json!([])));
    repo.wait_until("both are done", || repo.status()["levels"][0]["completed"] == 2);
    repo.let_go("all");
    run.wait().code(0).says("A-1 is retried");
}

#[test]
fn skipping_lists_what_needs_it_and_asks() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let tasks = [
        failing("A-1", 1, "a1"),
        simple("A-2", 1, "a2"),
        after(simple("B-1", 2, "b1"), &["A-1"]),
        after(simple("C-1", 3, "c1"), &["B-1"]),
        after(simple("C-2", 3, "c2"), &["A-2"]),
    ];
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(3);
    repo.run(&["skip", "A-1"]).code(2).says("--reason");
    repo.run(&["skip", "A-1", "--reason", "not needed"])
        .code(2)
        .says("B-1, C-1")
        .says("--yes")
        .says("--keep-dependents");
    assert_eq!(repo.task_status("A-1"), "blocked");
    repo.run(&["skip", "A-1", "--reason", "not needed", "--yes"])
        .code(0)
        .says("A-1: skipped")
        .says("B-1: skipped")
        .says("C-1: skipped")
        .says("mahabharatha run x");
    repo.run(&["skip", "A-1", "--reason", "again"]).code(1).says("A-1: not skipped: it is skipped already");
    // Only what is not skipped yet is asked about.
    repo.run(&["retry", "A-1", "B-1"]).code(0);
    let unanswered = repo.run(&["skip", "A-1", "--reason", "not needed"]).code(2);
    unanswered.says("Tasks that depend on them are skipped too: B-1\n").does_not_say("C-1");
    repo.run(&["skip", "A-1", "--reason", "not needed", "--yes"]).code(0).does_not_say("C-1: skipped");
    repo.run(&["run"]).code(0).says("(3 skipped)").says("level 2: nothing to merge");
    assert_eq!(repo.tree("main").keys().filter(|name| name.len() == 2).collect::<Vec<_>>(), ["a2", "c2"]);
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(report.contains("3 skipped") && report.contains("not needed"), "{report}");
    assert_eq!(repo.task("A-1")["reason"], "not needed");
    repo.run(&["skip", "A-2", "--reason", "late"]).code(1).says("A-2: not skipped: level 1 is merged");
}

#[test]
fn a_feature_of_which_everything_was_skipped_is_not_called_merged() {
    const NOTHING: &str = "nothing was merged: every task was skipped";
    const LEVEL: &str = "level 1 had nothing to merge: every task was skipped";
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\ncleanup: { on_completion: false }\n");
    repo.graph("x", &[failing("A-1", 1, "a1"), after(simple("B-1", 2, "b1"), &["A-1"])]);
    repo.run(&["run"]).code(3);
    repo.run(&["skip", "A-1", "--reason", "not needed", "--yes"]).code(0);
    let first = repo.run(&["run", "--level", "1"]).code(0);
    first.says(&format!("{LEVEL}; the run ends here")).says(&format!("x: {LEVEL}; go on with the levels above it"));
    repo.run(&["merge", "--level", "1"]).code(0).says(&format!("x: {LEVEL}"));
    repo.run(&["run"]).code(0).says(&format!("x is completed: {NOTHING}")).does_not_say("every level is merged");
    let levels = repo.status()["levels"].clone();
    for level in levels.as_array().unwrap() {
        assert_eq!((&level["status"], &level["commit"]), (&"skipped".into(), &Value::Null), "{levels}");
    }
    repo.run(&["status"]).code(0).says(NOTHING).does_not_say("merged ");
    repo.run(&["retry", "A-1"]).code(1).says(&format!("A-1: not queued again: {LEVEL}"));
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(report.contains(&format!("- [ ] All levels merged to `main` ({NOTHING})")), "{report}");
}

#[test]
fn what_needs_a_skipped_task_can_be_kept_and_a_skipped_task_taken_up_again() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[failing("A-1", 1, "a1"), after(simple("B-1", 2, "b1"), &["A-1"])]);
    repo.run(&["run"]).code(3);
    repo.run(&["skip", "A-1", "--reason", "done by hand", "--keep-dependents"]).code(0).does_not_say("B-1");
    repo.run(&["retry", "A-1"]).code(0);
    repo.run(&["skip", "A-1", "--reason", "done by hand", "--keep-dependents"]).code(0);
    repo.run(&["run"]).code(0);
    let tree = repo.tree("main");
    assert!(tree.contains_key("b1") && !tree.contains_key("a1"));
}

#[test]
fn tasks_are_skipped_while_the_run_is_on() {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), simple("A-2", 1, "a2"), after(simple("B-1", 2, "b1"), &["A-2"])]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["skip", "A-1", "--reason", "slow", "--yes"]).code(1).says("it is in progress on worker 0");
    repo.run(&["skip", "A-2", "--reason", "not now", "--yes"]).code(0).does_not_say("is not running. Continue with");
    repo.let_go("all");
    run.wait().code(0).says("A-2 is skipped: not now").says("B-1 is skipped: not now");
    let tree = repo.tree("main");
    assert!(tree.contains_key("a1") && !tree.contains_key("a2") && !tree.contains_key("b1"));
}

#[test]
fn a_retry_says_that_the_run_does_not_use_the_changed_configuration_yet() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), failing("A-2", 1, "a2")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.wait_until("A-2 is blocked", || repo.task("A-2")["status"] == "blocked");
    repo.run(&["retry", "A-2"]).code(0).does_not_say("config.yaml");
    repo.config(
        "agent: command\nretry: { max_attempts: 2 }\nsandbox: { mode: off }\nenv: { pass: [A] }\nquality_gates: [{ name: lint, command: 'true' }]\n",
    );
    repo.wait_until("A-2 is blocked again", || {
        repo.task("A-2")["status"] == "blocked" && repo.task("A-2")["attempt"] == 2
    });
    repo.run(&["retry", "A-2"])
        .code(0)
        .says("A-2: queued again")
        .says("config.yaml changed since this run began (env.pass, quality_gates.lint.command, quality_gates.lint.required")
        .says("and the run does not use it yet: mahabharatha stop x && mahabharatha run x --accept-config");
    repo.run(&["stop", "x"]).code(0);
    run.wait().code(130);
    let skipped = repo.run(&["skip", "A-2", "--reason", "not needed", "--yes"]).code(0);
    skipped.says("x is not running. Continue with: mahabharatha run x --accept-config");
}

/// A level that is complete and cannot land, because a person's file is in the way.
fn ready_to_merge() -> Repo {
    let repo = Repo::new();
    repo.graph("x", &[doing("A-1", 1, "a1", "echo A-1 > a1"), simple("B-1", 2, "b1")]);
    repo.write("a1", "a person's\n");
    repo.run(&["run"]).code(9).says("a1");
    repo
}

#[test]
fn a_level_that_is_ready_is_merged_and_nothing_is_launched() {
    let repo = ready_to_merge();
    let tip = repo.git(&["rev-parse", "main"]);
    let plan = repo.run(&["merge", "--dry-run"]).code(0);
    plan.says("level 1 would be merged into main").says("A-1");
    let plan = repo.run(&["merge", "--dry-run", "--json"]).code(0).json();
    assert_eq!((&plan["level"], &plan["into"], &plan["tasks"][0]["task"]), (&json!(1), &json!("main"), &json!("A-1")));
    repo.run(&["merge", "--level", "2"]).code(6).says("level 1 is next");
    assert_eq!(repo.git(&["rev-parse", "main"]), tip);
    repo.run(&["merge", "--retry"]).code(9).says("a1");
    assert_eq!(repo.read("a1"), "a person's\n");
    std::fs::remove_file(repo.join("a1")).unwrap();
    repo.run(&["merge", "--retry", "--level", "1"]).code(0).says("x: level 1 is merged").does_not_say("B-1 started");
    assert_eq!(repo.read("a1"), "A-1\n");
    assert_eq!(repo.calls(), ["A-1"]);
    repo.run(&["merge"]).code(3).says("these tasks are not completed").says("B-1");
    repo.run(&["merge", "--retry"]).code(6).says("it has not been tried");
    repo.run(&["run"]).code(0);
    repo.run(&["merge"]).code(0).says("x: every level is merged");
}

#[test]
fn a_merge_while_the_run_is_on_is_refused() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    for command in ["merge", "cleanup"] {
        repo.run(&[command]).code(8).says(&format!("process {}", run.pid()));
    }
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn cleanup_takes_away_what_is_merged_and_nothing_else() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1"), simple("B-1", 2, "b1"), failing("B-2", 2, "b2")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.let_go("all");
    repo.run(&["run"]).code(3);
    let before = (repo.refs(), repo.git(&["worktree", "list"]));
    let dry = repo.run(&["cleanup", "--dry-run"]).code(0);
    assert_eq!((repo.refs(), repo.git(&["worktree", "list"])), before);
    let real = repo.run(&["cleanup"]).code(0);
    assert_eq!(dry.stdout.replace("would remove", "removed"), real.stdout);
    real.says("kept ref refs/mahabharatha/x/tasks/B-1: B-1 is not merged")
        .says("removed ref refs/mahabharatha/x/tasks/A-1")
        .says("removed ref refs/mahabharatha/x/wip/A-1/1")
        .says("--force");
    let kept = ["tasks/B-1", "wip/B-2/1", "wip/B-2/2", "wip/B-2/3"].map(|name| format!("refs/mahabharatha/x/{name}"));
    assert_eq!(repo.refs(), kept);
    assert!(!repo.exists(".mahabharatha/worktrees"));

    // It goes on all the same.
    repo.run(&["retry", "--all"]).code(0);
    repo.write(".gsd/specs/x/B-2.ok", "");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.tree("main")["b2"], "B-2");
    assert_eq!(repo.task("B-1")["attempt"], 1);
    repo.run(&["cleanup"]).code(0).says("wip/B-2/3");
    assert_eq!(repo.refs(), [""; 0]);
    repo.run(&["cleanup"]).code(0).says("there is nothing to remove");
}

#[test]
fn cleanup_keeps_work_that_is_saved_nowhere_else_unless_forced() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["stop", "--force"])
        .code(0)
        .says("its agents are killed; their work is in the worktrees, and the next run saves it");
    run.wait().code(130);
    repo.run(&["cleanup"]).code(0).says("it holds work that is saved nowhere else");
    assert_eq!(repo.read(".mahabharatha/worktrees/x/worker-0/a1"), "half\n");
    // The worktree stays usable: the branch that it is on is kept with it.
    repo.git_in(&repo.join(".mahabharatha/worktrees/x/worker-0"), &["rev-parse", "--verify", "HEAD"]);
    assert_eq!(repo.refs(), ["refs/heads/mahabharatha/x/worker-0"]);
    let answer = repo.run(&["cleanup", "--force", "--all", "--json"]).code(0).json();
    assert_eq!(answer["kept"], json!([]));
    assert!(!repo.exists(".mahabharatha/worktrees") && repo.refs().is_empty());
    repo.let_go("all");
    repo.run(&["run"]).code(0);
}

#[test]
fn cleanup_keeps_a_conflict_that_is_being_resolved() {
    let repo = Repo::new();
    repo.write("shared.txt", "one\n");
    repo.commit("shared");
    let script = format!("{}; echo tasks > shared.txt", crate::agents::wait("A-1"));
    let modifying = with(doing("A-1", 1, "shared.txt", &script), json!({ "files": { "modify": ["shared.txt"] } }));
    repo.graph("x", &[modifying]);
    let run = repo.run_until_up(&["A-1"]);
    repo.write("shared.txt", "a person's\n");
    repo.git(&["commit", "-qam", "mine"]);
    repo.let_go("all");
    run.wait().code(5).says("merge --retry");
    let staging = repo.join(".mahabharatha/worktrees/x/staging");
    std::fs::write(staging.join("shared.txt"), "both\n").unwrap();
    repo.run(&["cleanup"]).code(0).says("a conflict is being resolved in it");
    assert_eq!(std::fs::read_to_string(staging.join("shared.txt")).unwrap(), "both\n");
    repo.git_in(&staging, &["commit", "-qam", "resolved"]);
    repo.run(&["merge", "--retry"]).code(0);
    assert_eq!(repo.tree("main")["shared.txt"], "both");
    assert!(repo.subjects("main").contains(&"mine".to_string()));
}

#[test]
fn cleanup_of_all_features_leaves_those_that_run_alone() {
    let repo = Repo::new();
    repo.graph("y", &[task("Y-1", 1, "y1", "exit 3")]);
    repo.run(&["run"]).code(3);
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    repo.run(&["cleanup", "--all", "--force", "-f", "x"])
        .code(2)
        .says("--all means every feature, but --feature names one")
        .says("Leave out one of them.");
    assert!(repo.exists(".mahabharatha/worktrees/y"));
    repo.run(&["cleanup", "--all"]).code(0).says("x is left alone: it runs now").says("worktrees/y/worker-0");
    assert!(repo.exists(".mahabharatha/worktrees/x/worker-0") && !repo.exists(".mahabharatha/worktrees/y"));
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn files_that_cleanup_removed_are_no_changes_of_the_next_attempt() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a")]);
    let run = repo.run_until_up(&["A"]);
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
    repo.run(&["cleanup", "--force"]).code(0);
    repo.forget_up("A");
    let run = repo.run_until_up(&["A"]);
    assert!(!repo.refs().iter().any(|name| name.contains("/wip/")), "{:?}", repo.refs());
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
}

#[test]
fn cleanup_keeps_what_a_skipped_task_left() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[simple("A", 1, "a"), task("B", 1, "b", "echo half > b; exit 1")]);
    repo.run(&["run"]).code(3);
    repo.run(&["skip", "B", "--reason", "later"]).code(0);
    repo.run(&["run"]).code(0);
    repo.run(&["cleanup"]);
    assert!(repo.refs().iter().any(|name| name.contains("/wip/B/")), "{:?}", repo.refs());
    repo.run(&["cleanup", "--force"]).code(0);
    assert!(!repo.refs().iter().any(|name| name.contains("/wip/")), "{:?}", repo.refs());
}
