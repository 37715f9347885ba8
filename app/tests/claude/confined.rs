//! The client in a sandbox: it works as usual, with its own login and without anything else of the user.

use std::fs;

use serde_json::json;

use crate::client::{Bench, task};
use crate::messages_api::{Api, Reply};
use crate::support::with;

fn bench(sandbox: &str) -> Option<Bench> {
    let api = Api::start(|ask| match ask.turn() {
        0 => ask.write("a.txt", "A\n"),
        _ => Reply::says("It is made."),
    });
    let bench = Bench::new(api, &format!("sandbox: {sandbox}\n"))?;
    bench.repo.graph("x", &[with(task("A-1", 1, "a.txt"), json!({ "verification": { "command": "test -s a.txt" } }))]);
    Some(bench)
}

fn is_done_in(sandbox: &str) {
    let Some(bench) = bench(sandbox) else { return };
    bench.run(&["run"]).code(0).says(&format!("sandbox {sandbox}"));
    assert_eq!(bench.repo.tree("main")["a.txt"], "A");
    // Of the client there is only what its call in the preflight leaves, which is not confined.
    let entries = fs::read_dir(bench.home().join(".claude")).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = entries.filter(|name| name != "backups").collect();
    assert_eq!(left, ["tasks"]);
}

#[test]
fn a_task_is_done_in_bubblewrap() {
    is_done_in("bwrap");
}

#[test]
fn a_task_is_done_under_landlock() {
    is_done_in("landlock");
}

#[test]
fn all_workers_see_the_same_path() {
    let Some(bench) = bench("bwrap") else { return };
    bench.run(&["run"]).code(0);
    let asked = bench.api.asked();
    let worktree = bench.repo.path().display().to_string();
    assert!(asked[0].text().contains(&format!("**Worktree:** `{worktree}`")), "{}", asked[0].text());
    assert!(!asked[0].body.to_string().contains(".mahabharatha/worktrees"));
}

#[test]
fn the_client_has_its_login_inside() {
    for sandbox in ["bwrap", "landlock"] {
        let Some(bench) = bench(sandbox) else { return };
        let login = json!({ "claudeAiOauth": {
            "accessToken": "sk-ant-oat01-fake", "refreshToken": "sk-ant-ort01-fake", "expiresAt": 4_102_444_800_000_u64,
            "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
        } });
        fs::create_dir_all(bench.home().join(".claude")).unwrap();
        let file = bench.home().join(".claude/.credentials.json");
        fs::write(&file, login.to_string()).unwrap();
        let output = bench.command(&["run"]).env_remove("ANTHROPIC_API_KEY").output().unwrap();
        assert!(output.status.success(), "{sandbox}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_to_string(&file).unwrap(), login.to_string());
        assert!(!Bench::is_in_files(&bench.repo.path(), "sk-ant-oat01-fake"), "{sandbox}: a copy is left");
    }
}

#[test]
fn the_task_list_is_there_for_workers_that_may_use_it() {
    for sandbox in ["bwrap", "landlock"] {
        let api = Api::start(|ask| match ask.turn() {
            0 => Reply::uses("TaskList", json!({})),
            1 => Reply::uses("TaskUpdate", json!({ "taskId": "1", "metadata": { "mark": "seen" } })),
            2 => ask.write("a.txt", "A\n"),
            _ => Reply::says("It is made."),
        });
        let config = format!("sandbox: {sandbox}\nclaude_tasks: {{ worker_tools: true }}\n");
        let Some(bench) = Bench::new(api, &config) else { return };
        let verification = json!({ "verification": { "command": "test -s a.txt" } });
        bench.repo.graph("x", &[with(task("A-1", 1, "a.txt"), verification)]);
        bench.run(&["run"]).code(0);
        let asked = bench.api.asked();
        let results = asked.last().unwrap().tool_results();
        assert!(results.values().any(|listed| listed.contains("[L1]")), "{sandbox}: {results:?}");
        assert!(Bench::is_in_files(&bench.home().join(".claude/tasks/x"), "seen"), "{sandbox}: {results:?}");
    }
}
