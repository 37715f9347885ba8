//! `ownership.sequential`: several tasks own a file, one after the other.

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};

const IN_ORDER: &str = "ownership: { sequential: true }\n";

/// A task that adds its id to `list.txt`, and shows by its verification that it is there.
fn adding(id: &str, level: u32, dependencies: &[&str]) -> Value {
    let files = match dependencies {
        [] => json!({ "create": ["list.txt"] }),
        _ => json!({ "modify": ["list.txt"] }),
    };
    let verification = json!({ "command": format!("grep -qx {id} list.txt") });
    let fields = json!({ "files": files, "dependencies": dependencies, "verification": verification });
    with(task(id, level, "list.txt", &format!("echo {id} >> list.txt")), fields)
}

fn three() -> [Value; 3] {
    [adding("A", 1, &[]), adding("B", 2, &["A"]), adding("C", 3, &["B"])]
}

fn problems(repo: &Repo) -> Vec<Value> {
    repo.run(&["design", "--validate-only", "--json"]).code(6).json()["problems"].as_array().unwrap().clone()
}

#[test]
fn three_levels_change_one_file_in_turn() {
    let repo = Repo::new();
    repo.config(IN_ORDER);
    repo.graph("x", &three());
    repo.run(&["design", "--validate-only"]).code(0);
    repo.run(&["run"]).code(0).says("x is completed");
    assert_eq!(repo.read("list.txt"), "A\nB\nC\n");
    for (id, line) in [("A", "+A"), ("B", "+B"), ("C", "+C")] {
        let commit = repo.git(&["log", "--format=%H", &format!("--grep=^feat({id})"), "main"]);
        assert_eq!(repo.git(&["show", "--name-only", "--format=", &commit]), "list.txt");
        let diff = repo.run(&["diff", id, "--json"]).code(0).json();
        let patch = diff["files"][0]["patch"].as_str().unwrap().to_string();
        let added: Vec<&str> = patch.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")).collect();
        assert_eq!(added, [line], "{patch}");
    }
    let levels = repo.status()["levels"].clone();
    assert!(levels.as_array().unwrap().iter().all(|level| level["status"] == "merged"), "{levels}");

    // A follow-up comes after all of them, also after one that has not run yet.
    for comment in ["say more", "say even more"] {
        repo.run(&["review", "--send-back", "A", "--comment", comment]).code(0);
    }
    let graph: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    assert_eq!(graph["tasks"][3]["dependencies"], json!(["A", "B", "C"]));
    assert_eq!(graph["tasks"][4]["dependencies"], json!(["A", "B", "C", "FOLLOW-001"]));
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("list.txt"), "A\nB\nC\nC\nC\n");
    repo.run(&["undo", "--yes"]).code(0);
    assert!(!repo.exists("list.txt"));
}

#[test]
fn owners_that_no_dependency_orders_are_refused() {
    let repo = Repo::new();
    repo.config(IN_ORDER);
    repo.graph("x", &[adding("A", 1, &[]), adding("B", 2, &["A"]), adding("C", 3, &["A"])]);
    let found = problems(&repo);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["code"], &found[0]["task"], &found[0]["path"]),
        (&json!("owners_not_ordered"), &json!("C"), &json!("list.txt"))
    );
    assert!(found[0]["message"].as_str().unwrap().contains("`B`"), "{found:?}");
    repo.run(&["run"]).code(6).says("owners_not_ordered").says("neither depends on the other");
    repo.run(&["run", "--dry-run"]).code(6);
    assert!(!repo.exists("list.txt"));
}

#[test]
fn by_default_a_file_has_one_owner_and_the_message_names_the_setting() {
    let repo = Repo::new();
    repo.config("");
    repo.graph("x", &three());
    let found = problems(&repo);
    assert_eq!(found.iter().map(|problem| &problem["task"]).collect::<Vec<_>>(), [&json!("B"), &json!("C")]);
    for problem in &found {
        assert_eq!(problem["code"], "path_owned_twice");
        assert!(problem["message"].as_str().unwrap().contains("`ownership.sequential: true`"), "{problem}");
    }
    repo.run(&["run"]).code(6).says("ownership.sequential: true");
    repo.run(&["estimate"]).code(6);
    assert_eq!(repo.run(&["list", "--json"]).code(0).json()["features"][0]["status"], "invalid");
    repo.config(IN_ORDER);
    repo.run(&["run", "--dry-run"]).code(0);
    repo.run(&["estimate"]).code(0);
    assert_ne!(repo.run(&["list", "--json"]).code(0).json()["features"][0]["status"], "invalid");
}

#[test]
fn the_setting_does_not_change_unseen_under_a_run() {
    let repo = Repo::new();
    repo.config(IN_ORDER);
    let run = "[ -e \"$MAHABHARATHA_SPEC_DIR/go\" ] || exit 3; echo B >> list.txt";
    let stuck = with(adding("B", 2, &["A"]), json!({ "run": run }));
    let [first, _, last] = three();
    repo.graph("x", &[first.clone(), stuck.clone(), last.clone()]);
    repo.run(&["run"]).code(3);
    repo.config("");
    repo.run(&["run"]).code(9).says("- ownership.sequential: true");
    // The run keeps the graph that it has; a changed one must hold by the setting of now.
    repo.write(".gsd/specs/x/go", "");
    repo.graph("x", &[first.clone(), stuck.clone(), last.clone(), simple("D", 4, "d")]);
    repo.run(&["run", "--accept-config"]).code(6).says("path_owned_twice");
    repo.graph("x", &[first, stuck, last]);
    repo.run(&["retry", "B"]).code(0);
    repo.run(&["run", "--accept-config"]).code(0);
    assert_eq!(repo.read("list.txt"), "A\nB\nC\n");
}

#[test]
fn the_owner_whose_level_fails_a_gate_fixes_it() {
    let repo = Repo::new();
    let gate = "quality_gates: [{ name: words, command: '! grep -n bad list.txt /dev/null' }]\n";
    repo.config(&format!("{gate}{IN_ORDER}"));
    repo.commit("gate");
    let run = "if grep -q bad list.txt; then sed -i s/bad/B/ list.txt; else echo bad >> list.txt; fi";
    let second = with(adding("B", 2, &["A"]), json!({ "run": run, "verification": { "command": "true" } }));
    let [first, _, last] = three();
    repo.graph("x", &[first, second, last]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("list.txt"), "A\nB\nC\n");
    let subjects = repo.subjects("main");
    let fixes: Vec<&String> = subjects.iter().filter(|subject| subject.starts_with("fix(")).collect();
    assert_eq!(fixes, ["fix(B): Make list.txt"], "{subjects:?}");
}

#[test]
fn a_file_with_an_unfinished_owner_is_refused_and_the_next_owner_gets_the_request() {
    let repo = Repo::new();
    repo.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\n{IN_ORDER}"));
    let asking = with(task("X", 2, "x.txt", "echo 'NEEDS: list.txt — why'; exit 3"), json!({ "dependencies": ["A"] }));
    repo.graph("x", &[adding("A", 1, &[]), asking, adding("B", 3, &["A"]), adding("C", 4, &["B"])]);
    repo.run(&["run"]).code(3).says("B is told that X needs list.txt");
    repo.run(&["task", "grant", "X", "list.txt"]).code(1).says("list.txt belongs to B, which is not merged");
    repo.run(&["skip", "X", "--reason", "B does it", "--yes"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("list.txt"), "A\nB\nC\n");
}

#[test]
fn task_files_with_one_list_of_files_follow_the_dependencies() {
    let repo = Repo::new();
    repo.config(IN_ORDER);
    for (id, level, depends) in [("A", 1, ""), ("B", 2, "A"), ("C", 3, "B")] {
        let text = format!(
            "<task type=\"auto\" id=\"{id}\">\n  <name>Add {id}</name>\n  <level>{level}</level>\n  <depends>{depends}</depends>\n  \
             <files>list.txt</files>\n  <run>\n    echo {id} >> list.txt\n  </run>\n  <verify>\n    grep -qx {id} list.txt\n  \
             </verify>\n</task>\n"
        );
        repo.write(&format!(".gsd/specs/x/tasks/{id}.md"), &text);
    }
    repo.write(".gsd/.current-feature", "x");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("list.txt"), "A\nB\nC\n");
    let graph: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    assert_eq!(
        (&graph["tasks"][0]["files"]["create"], &graph["tasks"][1]["files"]["modify"]),
        (&json!(["list.txt"]), &json!(["list.txt"]))
    );
}
