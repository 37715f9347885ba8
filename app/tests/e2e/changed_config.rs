//! A configuration that changed under a run: what it executes or believes goes on only with the user's consent.

use serde_json::{Value, json};

use crate::agents::doing;
use crate::support::{Repo, simple};
use crate::task_mode::{Session, plain};

const GATE: &str = "quality_gates: [{ name: lint, command: '! grep -q bad b.txt' }]\n";

/// A run whose second task is blocked until `go` is there.
fn blocked() -> Repo {
    let repo = Repo::new();
    repo.config(GATE);
    repo.commit("a gate");
    repo.graph("x", &[simple("A", 1, "a.txt"), doing("B", 2, "b.txt", "[ -e \"$S/go\" ] || exit 3; echo bad > b.txt")]);
    repo.run(&["run"]).code(3);
    repo
}

#[test]
fn gates_that_were_removed_while_no_process_ran_are_shown_and_need_consent() {
    let repo = blocked();
    repo.run(&["retry", "B"]).code(0);
    repo.write(".gsd/specs/x/go", "");
    repo.config("");
    let journal = repo.read(".git/mahabharatha/x/events.jsonl");
    repo.run(&["run"])
        .code(9)
        .says("x is paused: the configuration changed since the run began")
        .says("- quality_gates.lint.command: \"! grep -q bad b.txt\"")
        .says("--accept-config");
    assert_eq!(repo.calls(), ["B"], "nothing was launched");
    assert_eq!(repo.read(".git/mahabharatha/x/events.jsonl"), journal);
    let error = repo.run(&["run", "--json"]).code(9).stderr;
    let error: Value = serde_json::from_str(error.lines().last().unwrap()).unwrap();
    assert_eq!(error["kind"], "paused");
    assert_eq!(error["details"][0], "- quality_gates.lint.command: \"! grep -q bad b.txt\"");
    // Put back, it goes on as it began.
    repo.config(GATE);
    repo.run(&["run"]).code(4).says("its gate lint failed");
    repo.config("");
    repo.run(&["run", "--accept-config"]).code(0).says("config changed: - quality_gates.lint.command");
    assert_eq!(repo.read("b.txt"), "bad\n");
}

#[test]
fn what_was_accepted_once_is_not_asked_again() {
    let repo = blocked();
    repo.config("quality_gates: [{ name: lint, command: 'true' }]\nenv: { pass: [SECRET] }\n");
    repo.run(&["run", "--accept-config"])
        .code(3)
        .says("config changed: + env.pass: [\"SECRET\"]")
        .says("config changed: + quality_gates.lint.command: \"true\"");
    repo.run(&["run"]).code(3).does_not_say("config changed");
    repo.run(&["run", "--accept-config"]).code(3).does_not_say("config changed");
}

#[test]
fn other_settings_may_be_changed_under_a_run() {
    let repo = blocked();
    repo.config(&format!(
        "{GATE}workers: {{ count: 1 }}\nmerge: {{ remediation_attempts: 0 }}\nbudget: {{ max_usd: 9 }}\n"
    ));
    repo.run(&["run"]).code(3);
}

#[test]
fn merge_asks_too() {
    let repo = blocked();
    repo.config("agents: { command: { command: 'true' } }\n");
    repo.run(&["skip", "B", "--reason", "no"]).code(0);
    repo.run(&["merge"]).code(9).says("+ agents.command.command: [\"sh\",\"-c\",\"true\"]");
    repo.run(&["merge", "--accept-config"]).code(0);
    assert_eq!(repo.status()["status"], "completed");
}

#[test]
fn a_session_is_asked_before_it_continues_with_a_changed_configuration() {
    let repo = Repo::new();
    repo.config(GATE);
    repo.commit("a gate");
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 2, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "A\n");
    repo.config("ownership: { generated: [\"*.txt\"] }\n");
    // What was begun may be finished; it goes by what held when it began.
    one.run(&["task", "complete", "A"]).code(0);
    for call in [&["task", "next"][..], &["task", "claim", "B"], &["task", "start"], &["merge"]] {
        one.run(call).code(9).says("+ ownership.generated: [\"*.txt\"]").says("--accept-config");
    }
    repo.config(GATE);
    assert_eq!(one.next()["step"], json!("merge"));
    repo.config("");
    one.run(&["task", "start", "--accept-config"]).code(0);
    one.run(&["merge"]).code(0);
    one.does("B", "b.txt", "bad\n").code(0);
    one.run(&["merge"]).code(0).says("x is completed");
}
