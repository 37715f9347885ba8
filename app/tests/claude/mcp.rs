//! A session that runs tasks through the MCP server that `install --mcp` has configured.

use serde_json::{Value, json};

use crate::client::{Bench, task};
use crate::messages_api::{Api, Ask, Reply, bash, tool_use};

fn tool(name: &str, arguments: Value) -> Value {
    let mut arguments = arguments;
    arguments["feature"] = json!("x");
    tool_use(&format!("mcp__mahabharatha__{name}"), arguments)
}

/// Writes a file in the worktree, which the claim has named in JSON.
fn write(ask: &Ask, path: &str, text: &str) -> Value {
    let claim = ask.tool_results().into_values().find(|result| result.contains("worktree")).unwrap_or_default();
    let claim = claim.replace('\\', "");
    let worktree = claim.split("\"worktree\":").nth(1).and_then(|rest| rest.split('"').nth(1)).unwrap_or_default();
    tool_use("Write", json!({ "file_path": format!("{worktree}/{path}"), "content": text }))
}

/// A model that does a task itself, with our tools where there are some.
fn conduct(ask: &Ask) -> Reply {
    let own = json!({ "task": "A-1" });
    let used = ask.tool_uses().len();
    Reply::of(vec![match used {
        0 => tool("start", json!({ "workers": 1 })),
        1 => tool("claim", json!({ "tasks": ["A-1"] })),
        2 => tool("prompt", own),
        3 => write(ask, "other.txt", "not mine"),
        4 => write(ask, "out/A-1.txt", "A-1"),
        // The session is the same one for the program, whichever way it calls.
        5 => return bash("mahabharatha task verify A-1 --feature x"),
        6 => tool("verify", own),
        7 => tool("grant", json!({ "task": "A-1", "paths": ["other.txt"] })),
        8 => tool("complete", own),
        9 => tool("merge", json!({})),
        10 => tool("status", json!({})),
        _ => return Reply::says("Done."),
    }])
}

#[test]
fn a_session_does_tasks_with_our_tools_and_is_asked_only_what_the_user_decides() {
    let Some(bench) = Bench::installed(Api::start(conduct), "") else { return };
    bench.run(&["install", "--mcp"]).code(0);
    bench.repo.graph("x", &[task("A-1", 1, "out/A-1.txt")]);
    bench.repo.commit("designed");
    let talk = bench.talk(&["/mahabharatha:kurukshetra x"]);
    let results = talk.results();
    assert_eq!(results.len(), 11, "{results:#?}");
    assert!(results[0].contains("claim") && results[1].contains("worktree"), "{results:#?}");
    assert!(results[3].contains("is not owned by A-1"), "{results:#?}");
    assert!(results[5].contains("its verification passes"), "{}", results[5]);
    assert!(results[8].contains("completed") && results[10].contains("completed"), "{results:#?}");
    let asked: Vec<&Value> = talk.asked.iter().map(|asked| &asked["tool_name"]).collect();
    assert_eq!(asked, ["mcp__mahabharatha__grant"]);
    assert_eq!(talk.errors().len(), 2, "the write that is not the task's, and the grant: {:?}", talk.errors());
    assert_eq!(bench.repo.status()["status"], "completed");
    assert_eq!(bench.repo.read("out/A-1.txt"), "A-1");
    assert!(!bench.repo.exists("other.txt"));
    assert_eq!(std::fs::read_dir(bench.repo.join(".git/mahabharatha/x/sessions")).unwrap().count(), 0);
}
