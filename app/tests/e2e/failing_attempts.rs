//! Attempts that fail, stop on their way, or need a person.

use serde_json::{Value, json};

use crate::agents::doing;
use crate::support::{Repo, simple, with};

fn with_agent(repo: &Repo, retry: &str) {
    repo.config(&format!("agent: command\nretry: {retry}\n"));
}

fn journal(repo: &Repo) -> Vec<Value> {
    repo.read(".git/mahabharatha/x/events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_failed_task_is_tried_again_with_what_went_wrong_then_blocked_with_an_analysis() {
    let repo = Repo::new();
    with_agent(&repo, "{ base_seconds: 0, max_seconds: 0 }");
    let script = "cat > \"$S/prompt-$MAHABHARATHA_ATTEMPT\"; echo try $MAHABHARATHA_ATTEMPT > a1";
    let task = with(
        doing("A-1", 1, "a1", script),
        json!({ "verification": { "command": "echo the sky is falling; grep -q four a1" } }),
    );
    repo.graph("x", &[task, simple("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    repo.run(&["run"])
        .code(3)
        .says("A-1 failed its verification (attempt 1 of 3)")
        .says("A-1 failed its verification (attempt 3 of 3)")
        .says("A-1 is blocked")
        .says("only blocked or waiting tasks remain: A-1")
        .does_not_say("completed: ");
    assert_eq!(repo.calls(), ["A-1", "A-1", "A-1"]);
    let prompt = |attempt: u32| repo.read(&format!(".gsd/specs/x/prompt-{attempt}"));
    for attempt in [2, 3] {
        // Once as the command, once as what it said.
        assert!(
            prompt(attempt).matches("the sky is falling").count() > prompt(1).matches("the sky is falling").count()
        );
    }
    let analysis = repo.read(".gsd/specs/x/tasks/A-1.md");
    for text in [
        "## Failure Analysis",
        "Blocked after 3 attempts",
        "### Attempt 3",
        "refs/mahabharatha/x/wip/A-1/3",
        "retry -f x A-1",
    ] {
        assert!(analysis.contains(text), "{text:?} is not in\n{analysis}");
    }
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("- A-1\n  - Root cause: ") && state.contains("mahabharatha retry -f x A-1"), "{state}");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/2:a1"), "try 2");
    assert_eq!(repo.task_status("A-2"), "completed");
    // What blocked it is gone with the block.
    repo.run(&["skip", "A-1", "--reason", "later"]).code(0);
    repo.run(&["run"]).code(0);
    assert!(!repo.read(".gsd/specs/x/tasks/A-1.md").contains("Failure Analysis"));
    assert!(!repo.read(".gsd/STATE.md").contains("Root cause"));
}

#[test]
fn the_next_attempt_waits_longer_each_time() {
    let repo = Repo::new();
    with_agent(&repo, "{ max_attempts: 3, strategy: exponential, base_seconds: 1, max_seconds: 60 }");
    repo.graph("x", &[doing("A-1", 1, "a1", "exit 1")]);
    repo.run(&["run"]).code(3).says("next attempt in 1s").says("next attempt in 2s");
    let events = journal(&repo);
    let times = |name: &str| -> Vec<i64> {
        let found = events.iter().filter(|record| record["event"]["event"] == name || record["event"] == name);
        found.map(|record| record["at"].as_i64().unwrap()).collect()
    };
    let (started, ended) = (times("job_started"), times("job_ended"));
    assert_eq!((started.len(), ended.len()), (3, 3), "{events:?}");
    assert!(started[1] - ended[0] >= 1_000 && started[2] - ended[1] >= 2_000, "{started:?} {ended:?}");
}

#[test]
fn a_checkpoint_continues_from_its_note_and_work_and_uses_up_no_retry() {
    let repo = Repo::new();
    with_agent(&repo, "{ max_attempts: 1 }");
    let script = "cat > \"$S/prompt-$MAHABHARATHA_ATTEMPT\"; echo line $MAHABHARATHA_ATTEMPT >> a1; \
                  test $MAHABHARATHA_ATTEMPT -ge 3 || { echo so far I have $MAHABHARATHA_ATTEMPT; exit 2; }";
    repo.graph("x", &[doing("A-1", 1, "a1", script)]);
    repo.run(&["run"]).code(0).says("A-1 stopped at a checkpoint, the next attempt follows: so far I have 1");
    assert_eq!(repo.tree("main")["a1"], "line 1\nline 2\nline 3");
    assert!(repo.read(".gsd/specs/x/prompt-3").contains("so far I have 2"));
    assert_eq!(repo.calls().len(), 3);
}

#[test]
fn checkpoints_are_bounded() {
    let repo = Repo::new();
    repo.graph("x", &[doing("A-1", 1, "a1", "echo again; exit 2")]);
    repo.run(&["run"])
        .code(3)
        .says("A-1 is blocked: it stopped at a checkpoint more than 10 times, at last with this note: again");
    assert_eq!(repo.calls().len(), 11);
}

#[test]
fn an_exit_code_2_without_a_note_is_a_failure() {
    let repo = Repo::new();
    repo.graph("x", &[doing("A-1", 1, "a1", "echo x > no-such-directory/a1")]);
    repo.run(&["run"]).code(3).says("A-1 failed: its agent ended with an error (attempt 3 of 3)");
    assert!(repo.read(".gsd/specs/x/tasks/A-1.md").contains("no-such-directory"));
}

#[test]
fn a_blocked_or_escalated_task_is_not_retried() {
    let repo = Repo::new();
    repo.graph(
        "x",
        &[
            doing("A-1", 1, "a1", "echo half > a1; echo there is no key; exit 3"),
            doing("A-2", 1, "a2", "echo which colour; exit 4"),
            simple("A-3", 1, "a3"),
        ],
    );
    repo.run(&["run"])
        .code(3)
        .says("A-1 is blocked: there is no key")
        .says("A-2 is blocked: the user must decide: which colour");
    assert_eq!(repo.calls(), ["A-1", "A-2"]);
    assert_eq!(repo.task("A-1")["reason"], "there is no key");
    assert_eq!(repo.status()["blockers"], json!(["A-1: there is no key", "A-2: the user must decide: which colour"]));
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    assert!(repo.read(".gsd/specs/x/tasks/A-2.md").contains("which colour"));
    assert_eq!(repo.task_status("A-3"), "completed");
    // Without an answer the same again; nothing else is done anew.
    repo.run(&["run"]).code(3);
    assert_eq!(repo.calls(), ["A-1", "A-2"]);
}

#[test]
fn the_breaker_opens_when_workers_die_as_they_start_and_closes_when_one_lives() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 2 }\nretry: { max_attempts: 5, base_seconds: 0, max_seconds: 1 }\n");
    let deadly = |id: &str, file: &str| {
        doing(
            id,
            1,
            file,
            &format!("test $(wc -l < \"$S/calls\") -gt 4 || {{ kill -9 $PPID; sleep 100; }}; echo x > {file}"),
        )
    };
    repo.graph("x", &[deadly("A-1", "a1"), deadly("A-2", "a2"), deadly("A-3", "a3")]);
    repo.run(&["run"])
        .code(0)
        .says("workers die as soon as they start: no launches for 1s (breaker open)")
        .says("one worker is tried (breaker half open)")
        .says("workers start again (breaker closed)")
        .says("x is completed");
}
