//! From an empty repository to merged code.

use serde_json::{Value, json};

use crate::support::Repo;

/// A task that creates one file by a command, and how that is verified.
fn task(id: &str, level: u32, create: &str, [run, verify]: [&str; 2]) -> Value {
    json!({
        "id": id, "title": format!("Make {create}"), "level": level, "files": { "create": [create] },
        "dependencies": [], "acceptance_criteria": [], "run": run, "verification": { "command": verify },
    })
}

fn with(mut task: Value, dependencies: &[&str], criteria: &[&str]) -> Value {
    task["dependencies"] = json!(dependencies);
    task["acceptance_criteria"] = json!(criteria);
    task
}

/// The phases that Claude Code's task list shows.
fn in_task_list(repo: &Repo) -> Vec<String> {
    let files = std::fs::read_dir(repo.home().join(".claude/tasks/shop")).unwrap().flatten();
    let json = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut shown: Vec<String> = json
        .map(|path| {
            let task: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let phase = task["subject"].as_str().unwrap().split(' ').next().unwrap().to_owned();
            format!("{phase} {}", task["status"].as_str().unwrap())
        })
        .collect();
    shown.sort();
    shown
}

#[test]
fn an_idea_becomes_merged_code() {
    let repo = Repo::empty();
    repo.git(&["init", "-q", "-b", "main"]);
    repo.git(&["config", "user.name", "A Person"]);
    repo.git(&["config", "user.email", "person@example.com"]);
    repo.git(&["commit", "-q", "--allow-empty", "-m", "empty"]);
    repo.write(".git/wish.md", crate::plan::WHOLE);
    repo.write(
        ".git/graph.json",
        &json!({ "feature": "shop", "tasks": [
            task("L0-001", 0, "books", ["echo '1 Mahabharata' > books", "grep -q 1 books"]),
            with(task("L1-001", 1, "shop", ["echo 'grep -q \"^$2 \" books && echo sold || exit 2' > shop",
                "[ \"$(sh shop buy 1)\" = sold ]"]), &["L0-001"], &["AC-1.1", "AC-1.2"]),
            with(task("L2-001", 2, "tests/shop.sh", ["mkdir -p tests; echo 'sh shop buy 9; [ $? = 2 ]' > tests/shop.sh",
                "sh tests/shop.sh"]), &["L1-001"], &["AC-1.2"]),
        ] })
        .to_string(),
    );
    repo.run(&["plan", "shop", "--from", ".git/wish.md"]).code(0).says("is a draft");
    assert_eq!(in_task_list(&repo), ["[Plan] pending"]);
    repo.run(&["design", "--from-graph", ".git/graph.json", "--commit"]).code(6).says("are a draft");
    repo.run(&["plan", "--approve"]).code(0);
    repo.run(&["design", "--from-graph", ".git/graph.json", "--commit"]).code(0).does_not_say("warning");
    assert_eq!(in_task_list(&repo), ["[Design] completed", "[Plan] completed"]);
    repo.run(&["run"]).code(0).says("shop is completed");
    let subjects = repo.git(&["log", "--first-parent", "--format=%s", "main"]);
    let expected = ["Level 2: shop", "Level 1: shop", "Level 0: shop", "design(shop): 3 tasks on 3 levels", "empty"];
    assert_eq!(subjects.lines().collect::<Vec<_>>(), expected);
    let sold = std::process::Command::new("sh").args(["shop", "buy", "1"]).current_dir(repo.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&sold.stdout), "sold\n");
    assert_eq!(repo.run(&["status", "--json"]).code(0).json()["requirements"], "approved");
    assert!(repo.git(&["status", "--porcelain"]).lines().all(|line| line.contains(".gsd/")));
}
