//! Why an attempt failed or is blocked, wherever that is told.

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};

fn only_once(repo: &Repo, tasks: &[Value]) {
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", tasks);
}

#[test]
fn a_blocked_task_shows_its_agents_last_words() {
    let repo = Repo::new();
    let script = "echo reading the settings; echo 'looking for a key'; echo 'the service needs a key'; exit 3";
    only_once(&repo, &[task("CONFIG", 1, "a", script), simple("B", 1, "b")]);
    repo.run(&["run"]).code(3).says("CONFIG is blocked: the service needs a key\n");
    let status = repo.status();
    assert_eq!(status["blockers"], json!(["CONFIG: the service needs a key"]));
    let reason = status["tasks"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("the service needs a key\n\nreading the settings\n"), "{reason}");
    repo.run(&["status"]).code(0).says("the service needs a key").does_not_say("reading the settings");
    repo.run(&["debug"]).code(0).says("CONFIG: blocked: the service needs a key");
    repo.run(&["skip", "CONFIG", "--reason", "later"]).code(0);
    repo.run(&["run"]).code(0);
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(report.contains("- CONFIG, attempt 1: is blocked: the service needs a key"), "{report}");
}

#[test]
fn a_failed_agent_shows_its_last_output() {
    let repo = Repo::new();
    only_once(&repo, &[task("A", 1, "a", "echo begun; echo 'no module named abacus' >&2; exit 1")]);
    repo.run(&["run"]).code(3).says("A is blocked: The agent failed with exit code 1: begun; no module named abacus");
    let blockers = repo.status()["blockers"].clone();
    assert_eq!(blockers, json!(["A: The agent failed with exit code 1: begun; no module named abacus"]));
}

#[test]
fn a_failed_verification_shows_the_lines_that_matter() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\n");
    let tests = "echo running 2 tests; echo 'test adds ... FAILED'; echo; echo 'see the log'; exit 1";
    let script = "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-$MAHABHARATHA_ATTEMPT\"; echo x > a";
    let a = with(task("A", 1, "a", script), json!({ "verification": { "command": tests } }));
    repo.graph("x", &[a]);
    let told = "The verification failed with exit code 1: test adds ... FAILED";
    repo.run(&["run"])
        .code(3)
        .says(&format!("A failed its verification (attempt 1 of 2), the next attempt follows: {told}\n"))
        .says(&format!("A is blocked: {told}\n"));
    assert!(repo.read(".gsd/specs/x/prompt-2").contains(&format!("{told}\n")));
    assert_eq!(repo.status()["blockers"], json!([format!("A: {told}")]));
    repo.run(&["debug"]).code(0).says(&format!("| {told}\n")).says("| test adds ... FAILED\n");
    repo.run(&["skip", "A", "--reason", "later"]).code(0);
    repo.run(&["run"]).code(0);
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(report.contains(&format!("- A, attempt 1: failed its verification: {told}")), "{report}");
}

#[test]
fn strays_are_named() {
    let repo = Repo::new();
    let script = "echo x > a; for n in 1 2 3 4 5 6 7; do echo y > s$n; done";
    only_once(&repo, &[task("A", 1, "a", script)]);
    let told = "The attempt changed what the task does not own: s1, s2, s3, s4, s5 and 2 more";
    repo.run(&["run"]).code(3).says(&format!("A is blocked: {told}\n"));
    assert_eq!(repo.status()["blockers"], json!([format!("A: {told}")]));
    let task = repo.task("A");
    assert_eq!(task["strays"].as_array().unwrap().len(), 7);
    // Their files are saved with the attempt's work.
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A/1:s1"), "y");
    assert!(task["reason"].as_str().unwrap().contains("\n\nThese changes will not be merged:\n- s1"), "{task}");
}
