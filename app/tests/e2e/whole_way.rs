//! A graph goes in, merged code comes out.

use serde_json::json;

use crate::support::{Repo, simple, task, with};

#[test]
fn two_levels_are_verified_committed_and_merged() {
    let repo = Repo::new();
    let second = with(
        task("B-1", 2, "b/one.txt", "mkdir -p b && cat a/one.txt a/two.txt > b/one.txt"),
        json!({ "dependencies": ["A-1", "A-2"], "verification": { "command": "test \"$(cat b/one.txt)\" = \"$(printf 'A-1\\nA-2')\"" } }),
    );
    repo.graph("x", &[simple("A-1", 1, "a/one.txt"), simple("A-2", 1, "a/two.txt"), second]);
    repo.run(&["run"]).code(0).says("x is completed");
    let tree = repo.tree("main");
    assert_eq!(tree["a/one.txt"], "A-1");
    assert_eq!(tree["b/one.txt"], "A-1\nA-2");
    assert_eq!(
        repo.git(&["log", "--first-parent", "--format=%s", "main"]).lines().collect::<Vec<_>>(),
        ["Level 2: x", "Level 1: x", "first"]
    );
    let mut feats: Vec<String> =
        repo.subjects("main").into_iter().filter(|subject| subject.starts_with("feat(")).collect();
    feats.sort();
    assert_eq!(feats, ["feat(A-1): Make a/one.txt", "feat(A-2): Make a/two.txt", "feat(B-1): Make b/one.txt"]);
    // The user's checkout came along, clean.
    assert_eq!(repo.read("b/one.txt"), "A-1\nA-2\n");
    assert_eq!(repo.git(&["status", "--porcelain", "--", "a", "b", "README.md"]), "");
    assert_eq!(repo.refs(), [""; 0]);
    assert!(!repo.exists(".mahabharatha/worktrees"));
    repo.run(&["run"]).code(0).says("completed already");
}

#[test]
fn as_many_agents_work_at_once_as_there_are_workers_and_no_more() {
    let repo = Repo::new();
    repo.config("workers: { count: 3 }\n");
    // Each notes how many it meets, and stays until three have met.
    let meet = |id: &str| {
        let run = format!(
            "cd \"$MAHABHARATHA_SPEC_DIR\" && mkdir -p up && : > up/{id} && ls up | wc -l >> met && \
             while ! grep -q 3 met; do sleep 0.02; ls up | wc -l >> met; done; rm up/{id}; \
             cd \"$MAHABHARATHA_WORKTREE\" && echo {id} > {id}.txt"
        );
        with(simple(id, 1, &format!("{id}.txt")), json!({ "run": run }))
    };
    let ids = ["A", "B", "C", "D", "E", "F", "G"];
    repo.graph("x", &ids.map(meet));
    repo.run(&["run"]).code(0).says("level 1: 7 tasks, 3 workers");
    let met = repo.read(".gsd/specs/x/met");
    let most = met.lines().map(|line| line.trim().parse::<u32>().unwrap()).max();
    assert_eq!(most, Some(3), "{met}");
    repo.run(&["status"]).code(0).says("7 of 7 completed");
}
