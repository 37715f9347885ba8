//! `design` by flags: a person's graph, a skeleton, the approval gate, all or nothing.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::plan::{DOCUMENT, WHOLE};
use crate::support::{Repo, simple, with};
use crate::terminal::Terminal;

pub const SPECS: &str = ".gsd/specs/shop";

/// A repository whose requirements are approved.
pub fn approved() -> Repo {
    let repo = Repo::new();
    repo.write(DOCUMENT, WHOLE);
    repo.run(&["plan", "shop", "--approve"]).code(0);
    repo
}

fn graph() -> Value {
    let first =
        with(simple("L0-001", 0, "shop.sh"), json!({ "acceptance_criteria": ["AC-1.1"], "estimate_minutes": 5 }));
    let second = with(
        simple("L1-001", 1, "tests/shop.sh"),
        json!({ "dependencies": ["L0-001"], "acceptance_criteria": ["An unknown number exits with 2"], "estimate_minutes": 5 }),
    );
    let third = with(simple("L1-002", 1, "USAGE.md"), json!({ "dependencies": ["L0-001"], "estimate_minutes": 5 }));
    json!({ "feature": "shop", "tasks": [first, second, third] })
}

fn write_graph(repo: &Repo, graph: &Value) {
    repo.write("graph.json", &graph.to_string());
}

#[test]
fn the_users_graph_becomes_the_design() {
    let repo = approved();
    write_graph(&repo, &graph());
    let head = repo.git(&["rev-parse", "HEAD"]);
    let ran = repo.run(&["design", "--from-graph", "graph.json", "--no-commit"]).code(0);
    ran.says("shop: 3 tasks on 2 levels, at most 2 at once; critical path 10m; 2 workers are worth having")
        .says("Critical path  10m")
        .says("Written to")
        .does_not_say("unserved_criterion");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), head);
    let written: Value = serde_json::from_str(&repo.read(&format!("{SPECS}/task-graph.json"))).unwrap();
    assert_eq!((&written["total_tasks"], &written["max_parallelization"]), (&json!(3), &json!(2)));
    assert_eq!(written["tasks"][0]["acceptance_criteria"], json!(["AC-1.1: `shop buy 1` prints `sold`"]));
    let design = repo.read(&format!("{SPECS}/design.md"));
    for part in [
        "## 1. Overview",
        "Nobody can buy anything.",
        "| AC-1.2 | an unknown number exits with 2 | L1-001 |",
        "T0 --> T2",
    ] {
        assert!(design.contains(part), "{part} is not in {design}");
    }
    assert!(repo.read(&format!("{SPECS}/tasks/L1-001.md")).contains("# Task: L1-001"));
    let manifest: Value = serde_json::from_str(&repo.read(&format!("{SPECS}/design-tasks-manifest.json"))).unwrap();
    assert_eq!(manifest["tasks"][1]["subject"], "[L1] Make tests/shop.sh");
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("- **Phase:** Design\n- **Status:** 3 tasks on 2 levels\n"), "{state}");
    repo.run(&["design", "--validate-only"]).code(0).says("is valid");
}

#[test]
fn a_new_graph_keeps_what_the_user_wrote() {
    let repo = approved();
    write_graph(&repo, &graph());
    let design = ["design", "shop", "--from-graph", "graph.json", "--no-commit"];
    repo.run(&design).code(0);
    repo.write(&format!("{SPECS}/design.md"), "My own words.\n");
    let before = repo.read(&format!("{SPECS}/task-graph.json"));
    let mut other = graph();
    other["tasks"].as_array_mut().unwrap().pop();
    write_graph(&repo, &other);
    let data = repo.run(&[&design[..], &["--json"]].concat()).code(0).json();
    assert_eq!(data["kept"], json!([repo.join(&format!("{SPECS}/task-graph.1.json"))]));
    assert_eq!(data["criteria"][0]["tasks"], json!(["L0-001"]));
    assert_eq!(repo.read(&format!("{SPECS}/task-graph.1.json")), before);
    assert_eq!(repo.read(&format!("{SPECS}/design.md")), "My own words.\n");
    assert!(!repo.exists(&format!("{SPECS}/tasks/L1-002.md")) && repo.exists(&format!("{SPECS}/tasks/L1-001.md")));
    // The same again changes nothing.
    let before = repo.everything();
    repo.run(&["design", "--from-graph", &format!("{SPECS}/task-graph.json"), "--no-commit"]).code(0);
    let changed: Vec<_> = repo
        .everything()
        .into_iter()
        .filter(|(path, found)| before.get(path) != Some(found))
        .map(|(path, _)| path)
        .collect();
    assert!(changed.iter().all(|path| path.ends_with("STATE.md") || path.ends_with("lock")), "{changed:?}");
}

#[test]
fn a_graph_that_does_not_hold_is_refused_with_every_problem() {
    let repo = approved();
    let mut bad = graph();
    bad["tasks"][1]["files"]["create"] = json!(["shop.sh"]);
    bad["tasks"][2]["dependencies"] = json!(["NOBODY"]);
    write_graph(&repo, &bad);
    let before = repo.everything();
    let ran = repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(6);
    ran.says("nothing was written").says("shop.sh").says("NOBODY");
    let json = ["design", "shop", "--from-graph", "graph.json", "--commit", "--json"];
    let data = repo.run(&json).code(6).json();
    assert!(data["problems"].as_array().unwrap().len() >= 2, "{data}");
    repo.write("graph.json", "{\"feature\":\"shop\",\"tasks\":[{\"id\":1}]}");
    assert_eq!(repo.run(&json).code(6).json()["problems"][0]["code"], "unreadable_design");
    for (text, what) in [("{", "EOF"), ("", "is empty"), ("{\"feature\":\"other\",\"tasks\":[]}", "feature_mismatch")] {
        repo.write("graph.json", text);
        let ran = repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]);
        assert!(matches!(ran.code, 2 | 6), "{}", ran.stderr);
        ran.says(what);
    }
    write_graph(&repo, &bad);
    let changed: Vec<_> = repo.everything().into_keys().filter(|path| !before.contains_key(path)).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

#[test]
fn requirements_must_be_approved() {
    let repo = Repo::new();
    write_graph(&repo, &graph());
    let design = ["design", "shop", "--from-graph", "graph.json", "--no-commit"];
    repo.run(&design).code(6).says("shop has no requirements").says("mahabharatha plan shop");
    repo.write(DOCUMENT, WHOLE);
    repo.run(&design).code(6).says("are a draft").says("--approve");
    repo.run(&["plan", "shop", "--approve"]).code(0);
    repo.run(&design).code(0);
    repo.write(DOCUMENT, &WHOLE.replace("exits with 2", "exits with 3"));
    repo.run(&design).code(6).says("are changed since approval");
    repo.run(&["design", "--validate-only"]).code(0).says("changed since approval").says("unserved_criterion");
    repo.run(&[&design[..], &["--force"]].concat()).code(0).says("no task covers AC-1.2");
    repo.run(&["plan", "--approve"]).code(0);
    repo.run(&design).code(0);
    repo.run(&["run"]).code(0);
    repo.run(&design).code(6).says("has begun");
}

#[test]
fn a_skeleton_tells_what_belongs_where_and_no_run_starts_it() {
    let repo = approved();
    let ran = repo.run(&["design", "shop", "--agent", "none"]).code(0);
    ran.says("Fill in").says("--from-graph").does_not_say("Next: mahabharatha run");
    assert!(repo.read(".gsd/STATE.md").contains("- **Status:** a form, to be filled in\n"));
    let design = repo.read(&format!("{SPECS}/design.md"));
    assert!(design.contains("{How the parts work together}") && design.contains("| 4 | Verification |"), "{design}");
    let task = repo.read(&format!("{SPECS}/tasks/L2-001.md"));
    assert!(task.contains("Level 2 is for integration: connecting the parts."), "{task}");
    // It serves nothing yet, and says what is to be done.
    assert!(design.contains("| AC-1.1 | `shop buy 1` prints `sold` | **none** |"), "{design}");
    for args in [&["design", "--validate-only"][..], &["run", "--dry-run"], &["run"]] {
        repo.run(args).code(6).says("[unfilled_task] L4-001: still has placeholders: {what this task makes}");
    }
    assert!(!repo.exists(".git/mahabharatha/shop/jobs"));
    // An empty document is generated from the graph.
    write_graph(&repo, &graph());
    repo.run(&["design", "--from-graph", "graph.json", "--no-commit"]).code(0);
    let made = repo.read(&format!("{SPECS}/design.md"));
    assert!(made.contains("L1-002") && !made.contains("{How the parts work together}"), "{made}");
    assert_eq!(repo.read(&format!("{SPECS}/design.1.md")), design);
    // Filled in, in its place.
    repo.write(&format!("{SPECS}/task-graph.json"), &graph().to_string());
    repo.write(&format!("{SPECS}/design.md"), "Filled in.\n");
    repo.run(&["design", "--from-graph", &format!("{SPECS}/task-graph.json"), "--commit"]).code(0);
    assert_eq!(repo.read(&format!("{SPECS}/design.md")), "Filled in.\n");
    assert_eq!(repo.tree("main")[&format!("{SPECS}/design.md")], "Filled in.");
    assert!(repo.exists(&format!("{SPECS}/tasks/L1-002.md")));
    repo.run(&["run"]).code(0);
}

#[test]
fn what_was_done_by_a_graph_is_not_changed_under_it() {
    let repo = approved();
    let mut stuck = graph();
    stuck["tasks"][1]["run"] = json!("false");
    write_graph(&repo, &stuck);
    let design = ["design", "shop", "--from-graph", "graph.json", "--no-commit"];
    repo.run(&design).code(0);
    repo.run(&["run"]).code(3);
    repo.run(&design).code(6).says("has begun");
    let before = repo.read(&format!("{SPECS}/task-graph.json"));
    let mut other = graph();
    other["tasks"][0]["title"] = json!("Another");
    write_graph(&repo, &other);
    let force = [&design[..], &["--force"]].concat();
    repo.run(&force).code(6).says("[too_late] L0-001 cannot be changed: it is completed").says("nothing was written");
    repo.run(&["design", "shop", "--agent", "none", "--force"]).code(6).says("[too_late] L0-001 cannot be");
    assert_eq!(repo.read(&format!("{SPECS}/task-graph.json")), before);
    // What is not done yet may be, though what is done is on the base by now.
    write_graph(&repo, &graph());
    repo.run(&force).code(0);
    repo.run(&["retry", "--all"]).code(0);
    repo.run(&["run"]).code(0).says("graph changed: L1-001 was changed (run)");
}

#[test]
fn what_cannot_be_asked_names_the_flag() {
    let repo = approved();
    write_graph(&repo, &graph());
    repo.run(&["design", "shop", "--from-graph", "graph.json"]).code(2).says("--commit or --no-commit");
    repo.run(&["design", "shop", "--no-commit"]).code(6).says("has no command").says("--from-graph FILE");
    repo.run(&["design", "shop", "--commit", "--no-commit"]).code(2);
    repo.git(&["switch", "-q", "--detach"]);
    repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(7).says("HEAD is detached");
    repo.git(&["switch", "-q", "main"]);
    fs::write(repo.join(".git/MERGE_HEAD"), repo.git(&["rev-parse", "HEAD"])).unwrap();
    repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(7).says("a merge is under way");
    fs::remove_file(repo.join(".git/MERGE_HEAD")).unwrap();
    repo.git(&["worktree", "add", "-q", "linked", "-b", "other"]);
    let linked = repo.join("linked").display().to_string();
    repo.run(&["-C", &linked, "design", "shop", "--from-graph", "../graph.json", "--commit"])
        .code(2)
        .says("main checkout");
}

#[test]
fn a_commit_takes_the_specs_and_nothing_of_the_users() {
    let repo = approved();
    write_graph(&repo, &graph());
    repo.write("README.md", "staged\n");
    repo.git(&["add", "README.md"]);
    repo.write("README.md", "changed\n");
    let head = repo.git(&["rev-parse", "HEAD"]);
    let data = repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit", "--json"]).code(0).json();
    assert_eq!(data["commit"], json!(repo.git(&["rev-parse", "main"])));
    assert_eq!(repo.git(&["rev-parse", "main^"]), head);
    assert_eq!(repo.git(&["log", "-1", "--format=%s by %an"]), "design(shop): 3 tasks on 2 levels by A Person");
    let committed = repo.git(&["diff", "--name-only", "main^", "main"]);
    let expected = ["approval.json", "design-tasks-manifest.json", "design.md", "requirements.md", "task-graph.json"];
    let tasks = ["L0-001", "L1-001", "L1-002"].map(|id| format!("{SPECS}/tasks/{id}.md"));
    let expected: Vec<String> = expected.iter().map(|name| format!("{SPECS}/{name}")).chain(tasks).collect();
    assert_eq!(committed.lines().collect::<Vec<_>>(), expected);
    // What the person had staged and changed is as it was.
    assert_eq!(repo.git(&["status", "--porcelain", "--", "README.md", SPECS]), "MM README.md");
    assert_eq!(repo.git(&["show", ":README.md"]), "staged");
    // Once more, and there is nothing to commit.
    let head = repo.git(&["rev-parse", "main"]);
    let ran = repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(0);
    ran.says("committed already").does_not_say("Committed to");
    assert_eq!(repo.git(&["rev-parse", "main"]), head);
}

#[test]
fn a_commit_that_cannot_land_takes_everything_back() {
    let repo = approved();
    write_graph(&repo, &graph());
    repo.write(&format!("{SPECS}/design.md"), "Mine.\n");
    fs::write(repo.join(".git/index.lock"), "").unwrap();
    let before = repo.everything();
    repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(1).says("index.lock");
    let ours = |path: &std::path::Path| !path.starts_with(repo.join(".git/objects")) && !path.ends_with("lock");
    let after = repo.everything();
    let changed: Vec<_> = after.iter().filter(|(path, found)| before.get(*path) != Some(found) && ours(path)).collect();
    assert!(changed.is_empty() && before.keys().all(|path| after.contains_key(path)), "{changed:?}");
    fs::remove_file(repo.join(".git/index.lock")).unwrap();
    repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(0);
    assert_eq!(repo.tree("main")[&format!("{SPECS}/design.md")], "Mine.");
}

#[test]
fn specs_that_git_ignores_are_not_committed() {
    let repo = approved();
    repo.write(".gitignore", ".gsd/\n");
    repo.commit("ignored");
    write_graph(&repo, &graph());
    let head = repo.git(&["rev-parse", "HEAD"]);
    repo.run(&["design", "shop", "--from-graph", "graph.json", "--commit"]).code(0).says("nothing to commit");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_disk_that_fills_up_at_any_moment_leaves_no_half_design() {
    let repo = approved();
    write_graph(&repo, &graph());
    let files = |repo: &Repo| {
        let all = repo.everything().into_iter();
        all.filter(|(path, _)| path.starts_with(repo.join(".gsd")) && !path.ends_with("STATE.md")).collect::<Vec<_>>()
    };
    let (before, head) = (files(&repo), repo.git(&["rev-parse", "main"]));
    let counter = repo.join("full");
    let mut failures = 0;
    for nth in 1.. {
        fs::write(&counter, format!("once {nth}\n")).unwrap();
        let env = [("MAHABHARATHA_TEST_FULL_DISK", counter.to_str().unwrap())];
        let ran = repo.run_with(&["design", "shop", "--from-graph", "graph.json", "--commit"], &env);
        if ran.code == 0 {
            break;
        }
        ran.code(1).says("No space left");
        // Only how far it is may have failed to be noted.
        if repo.git(&["rev-parse", "main"]) == head {
            assert_eq!(files(&repo), before, "after write {nth}");
            failures += 1;
        } else {
            break;
        }
    }
    assert!(failures > 5, "{failures}");
    assert_ne!(repo.git(&["rev-parse", "main"]), head);
}

#[test]
fn specs_that_are_links_lead_no_write_elsewhere() {
    let repo = approved();
    write_graph(&repo, &graph());
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), repo.join(&format!("{SPECS}/tasks"))).unwrap();
    repo.run(&["design", "--from-graph", "graph.json", "--no-commit"]).code(6).says("through a symbolic link");
    assert!(!repo.exists(&format!("{SPECS}/task-graph.json")) && !repo.exists(&format!("{SPECS}/design.md")));
    symlink(outside.path(), repo.join(".gsd/specs/other")).unwrap();
    repo.run(&["plan", "other", "--from", DOCUMENT]).code(6).says("through a symbolic link");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn what_changed_while_the_user_was_asked_is_not_overwritten() {
    let repo = approved();
    write_graph(&repo, &graph());
    repo.run(&["design", "--from-graph", "graph.json", "--no-commit"]).code(0);
    write_graph(&repo, &json!({ "feature": "shop", "tasks": [simple("L0-001", 0, "other.sh")] }));
    let graph = repo.read(&format!("{SPECS}/task-graph.json"));
    let mut person = Terminal::open(&repo, "design --from-graph graph.json", &[("NO_COLOR", "1")]);
    person.wait_for(&repo, "Commit the design");
    repo.write(&format!("{SPECS}/tasks/L1-001.md"), "notes of the user\n");
    person.answer(&repo, "Commit the design", "n");
    let (code, shown) = person.end();
    assert!(code == 1 && shown.contains("was changed meanwhile"), "{shown}");
    assert_eq!(repo.read(&format!("{SPECS}/tasks/L1-001.md")), "notes of the user\n");
    assert_eq!(repo.read(&format!("{SPECS}/task-graph.json")), graph);
    assert!(!repo.exists(&format!("{SPECS}/task-graph.1.json")));
}
