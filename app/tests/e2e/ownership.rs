//! A task changes what it owns and nothing else, whatever its agent tries.

use serde_json::json;

use crate::support::{Repo, simple, with};

#[test]
fn a_task_that_never_keeps_to_its_own_is_blocked_and_says_what_it_touched() {
    let repo = Repo::new();
    repo.config("retry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n");
    let run = "echo a > a.txt; echo b > b.txt; echo more >> README.md";
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": run }))]);
    repo.run(&["run"]).code(3);
    let task = repo.task("A");
    assert_eq!((&task["status"], &task["strays"]), (&json!("blocked"), &json!(["README.md", "b.txt"])));
    repo.run(&["status", "-v"]).code(0).says("changed without owning it: README.md, b.txt").says("wip/A/2");
    let analysis = repo.read(".gsd/specs/x/tasks/A.md");
    assert!(analysis.contains("## Failure Analysis") && analysis.contains("README.md"), "{analysis}");
    assert!(repo.read(".gsd/STATE.md").contains("- A\n  - Root cause:"));
    assert_eq!(repo.tree("main").keys().collect::<Vec<_>>(), [".mahabharatha/config.yaml", "README.md"]);
}

#[test]
fn a_verification_that_changes_more_than_it_may_lands_nothing_of_it() {
    let repo = Repo::new();
    let verify = "echo more >> README.md; echo x > made.txt; echo changed >> a.txt; test -e a.txt";
    let task = with(simple("A", 1, "a.txt"), json!({ "verification": { "command": verify, "timeout_seconds": 20 } }));
    repo.graph("x", &[task, simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    let tree = repo.tree("main");
    assert_eq!((tree["a.txt"].as_str(), tree["README.md"].as_str()), ("A", "hello"));
    assert!(!tree.contains_key("made.txt"));
}

#[test]
fn what_tools_make_is_left_out_without_a_word() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.o\n");
    repo.write("Cargo.lock", "old\n");
    repo.commit("ignore");
    let run = "echo a > src/a.py; echo new > Cargo.lock; mkdir -p src/__pycache__ node_modules/left-pad target/debug; \
               echo p > src/__pycache__/a.pyc; echo n > node_modules/left-pad/i.js; echo t > target/debug/x; echo o > a.o; \
               echo g > api.generated.ts";
    repo.config("ownership: { generated: [\"**/*.generated.ts\"] }\n");
    repo.graph("x", &[with(simple("A", 1, "src/a.py"), json!({ "run": format!("mkdir -p src; {run}") }))]);
    repo.run(&["run"]).code(0).does_not_say("does not own");
    let task = repo.task("A");
    assert_eq!((task["attempt"].as_u64(), &task["attempts"][0]["strays"]), (Some(1), &json!([])));
    let tree = repo.tree("main");
    let expected = [".gitignore", ".mahabharatha/config.yaml", "Cargo.lock", "README.md", "src/a.py"];
    assert_eq!(tree.keys().collect::<Vec<_>>(), expected);
    assert_eq!(tree["Cargo.lock"], "old");
}
