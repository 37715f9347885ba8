//! The MCP server, with the official client from npm. `./test` installs it; without it the tests say that they were not run.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod client;

use std::fs;
use std::process::{Command, Stdio};

use mahabharatha_testing::support::{Ran, Repo, is_alive, simple, with};
use serde_json::{Value, json};

use client::Client;

/// A task that a client is to do: it has no `run`.
fn plain(id: &str, level: u32, file: &str) -> Value {
    let mut task = simple(id, level, file);
    task.as_object_mut().unwrap().remove("run");
    task
}

/// Two levels, of two tasks and of one.
fn two_levels() -> Repo {
    let repo = Repo::new();
    repo.graph(
        "x",
        &[
            plain("A", 1, "a.txt"),
            plain("B", 1, "b.txt"),
            with(plain("C", 2, "c.txt"), json!({ "dependencies": ["A"] })),
        ],
    );
    repo.write(".gsd/specs/x/requirements.md", "# Feature: x\n\nA \u{1b}[31mred\u{1b}[0m word\n");
    repo
}

fn write(worktree: &Value, path: &str, text: &str) {
    fs::write(format!("{}/{path}", worktree.as_str().unwrap()), text).unwrap();
}

/// Claims a task and writes its file.
fn does(client: &mut Client, task: &str, file: &str) -> Value {
    let claims = client.call("claim", json!({ "tasks": [task] }));
    let worktree = claims["claimed"][0]["worktree"].clone();
    write(&worktree, file, "done\n");
    worktree
}

/// A verification that says that it runs, and waits until it may end.
fn waiting(repo: &Repo) -> Value {
    let place = repo.join(".gsd/specs/x").display().to_string();
    let command = format!("S='{place}'; : > \"$S/up\"; while ! [ -e \"$S/go\" ]; do sleep 0.02; done");
    json!({ "verification": { "command": command, "timeout_seconds": 120 } })
}

#[test]
fn a_client_runs_a_feature_to_its_end() {
    let repo = two_levels();
    let Some(mut client) = Client::connect(&repo) else { return };
    assert_eq!(client.hello["server"]["name"], "mahabharatha");
    assert!(client.hello["instructions"].as_str().unwrap().contains("`claim`"));
    let refused = client.refused("next", json!({}));
    assert_eq!((&refused["error"]["code"], &refused["error"]["kind"]), (&json!(6), &json!("invalid")));
    assert!(refused["error"]["hint"].is_string());

    assert_eq!(client.call("start", json!({ "workers": 2 }))["step"], "claim");
    let next = client.call("next", json!({}));
    assert_eq!((&next["step"], &next["tasks"]), (&json!("claim"), &json!(["A", "B"])));
    let claims = client.call("claim", json!({ "tasks": ["A", "B"] }));
    let worktree = |at: usize| claims["claimed"][at]["worktree"].clone();
    assert_eq!((claims["claimed"].as_array().unwrap().len(), &claims["refused"]), (2, &json!([])));

    let prompt = client.get("callTool", json!({ "name": "prompt", "arguments": { "task": "A" } }));
    let text = prompt["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("# Task: ") && text.contains(worktree(0).as_str().unwrap()), "{text}");
    assert_eq!(prompt["structuredContent"]["prompt"], text);

    let check = client.refused("verify", json!({ "task": "A" }));
    assert_eq!(check["missing"], json!(["a.txt"]));
    write(&worktree(0), "a.txt", "a\n");
    assert_eq!(client.call("verify", json!({ "task": "A" }))["verification"], Value::Null);
    let done = client.call("complete", json!({ "task": "A", "decisions": ["all lower case"] }));
    assert_eq!((&done["result"], done["commit"].as_str().map(str::len)), (&json!("completed"), Some(40)));

    // Its work is kept, and the next prompt says why it failed.
    write(&worktree(1), "b.txt", "half\n");
    let failed = client.call("fail", json!({ "task": "B", "reason": "no idea" }));
    assert_eq!((&failed["result"], &failed["tries_left"]), (&json!("failed"), &json!(1)));
    assert_eq!(repo.git(&["show", "refs/mahabharatha/x/wip/B/1:b.txt"]), "half");
    does(&mut client, "B", "b.txt");
    let prompt = client.call("prompt", json!({ "task": "B" }));
    assert!(prompt["prompt"].as_str().unwrap().contains("no idea"));
    let diff = client.call("diff", json!({ "task": "B" }));
    assert_eq!((&diff["files"][0]["path"], &diff["files"][0]["exact"]), (&json!("b.txt"), &json!(true)));
    client.call("complete", json!({ "task": "B" }));

    let next = client.call("next", json!({}));
    assert_eq!(next["step"], "merge");
    assert_eq!(client.call("merge", json!({ "dry_run": true }))["tasks"].as_array().unwrap().len(), 2);
    let merged = client.call("merge", json!({ "level": 1 }));
    assert_eq!((&merged["end"]["code"], merged["events"].as_array().unwrap().is_empty()), (&json!(0), false));
    does(&mut client, "C", "c.txt");
    client.call("complete", json!({ "task": "C" }));
    client.call("merge", json!({}));
    assert_eq!(client.call("next", json!({}))["step"], "completed");
    assert_eq!(client.call("status", json!({}))["status"], "completed");
    let logs = client.call("logs", json!({ "task": "A" }));
    assert!(logs["records"].as_array().unwrap().iter().all(|record| record["task"] == "A"), "{logs}");

    let report = client.get("readResource", json!({ "uri": "mahabharatha:///x/COMPLETION.md" }));
    assert!(report["contents"][0]["text"].as_str().unwrap().starts_with("# Completion: x\n"), "{report}");
    assert!(repo.read(".gsd/STATE.md").contains("A: all lower case"));
    client.disconnect();
    assert_eq!((repo.read("a.txt"), repo.read("c.txt")), ("a\n".into(), "done\n".into()));
    assert_eq!(repo.subjects("main")[0], "Level 2: x");
}

#[test]
fn refusals_say_why() {
    let repo = two_levels();
    let Some(mut one) = Client::connect(&repo) else { return };
    let code = |refused: &Value| refused["error"]["code"].clone();
    let unknown = one.refused("status", json!({ "feature": "y" }));
    assert_eq!((&unknown["error"]["message"], code(&unknown)), (&json!("there is no feature y"), json!(2)));
    let unknown = one.refused("claim", json!({ "tasks": ["A"], "now": true }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("unknown field `now`"), "{unknown}");
    let id = one.begin("conquer", json!({}));
    assert!(one.answer(id)["error"]["message"].as_str().unwrap().contains("there is no tool conquer"));

    one.call("start", json!({}));
    let bad = one.refused("claim", json!({ "tasks": ["A", "--yes"] }));
    assert!(bad["error"]["message"].as_str().unwrap().contains("is not a valid task id"), "{bad}");
    let level = one.refused("claim", json!({ "tasks": ["A", "C"] }));
    assert_eq!(level["claimed"][0]["task"], "A");
    assert_eq!(level["refused"][0]["why"], "it is of level 2, and level 1 is not merged yet");
    assert_eq!(level["error"]["message"], "not every task was claimed");
    let strays = level["claimed"][0]["worktree"].clone();
    write(&strays, "a.txt", "a\n");
    write(&strays, "b.txt", "of another\n");
    assert_eq!(one.refused("verify", json!({ "task": "A" }))["strays"], json!(["b.txt"]));
    let failed = one.refused("complete", json!({ "task": "A" }));
    assert_eq!((&failed["strays"], &failed["result"]), (&json!(["b.txt"]), &json!("failed")));
    let early = one.refused("merge", json!({}));
    assert_eq!((&early["error"]["kind"], code(&early)), (&json!("blocked"), json!(3)));
    let other = one.refused("merge", json!({ "level": 2 }));
    assert!(other["error"]["message"].as_str().unwrap().contains("level 1 is next"), "{other}");
    let dependents = one.refused("skip", json!({ "tasks": ["A"], "reason": "not needed" }));
    assert_eq!(code(&dependents), 2, "{dependents}");

    // What one holds, another cannot take.
    let Some(mut two) = Client::connect(&repo) else { return };
    let held = two.refused("claim", json!({ "tasks": ["B"] }));
    assert_eq!((&held["error"]["kind"], code(&held)), (&json!("held"), json!(8)));
    assert!(held["error"]["message"].as_str().unwrap().contains("is held by another session (mcp-"), "{held}");
    assert_eq!(two.refused("merge", json!({}))["error"]["kind"], "held");
    assert_eq!(two.refused("start", json!({}))["error"]["kind"], "held");
    repo.run(&["run"]).code(8);
    let granted = two.call("grant", json!({ "task": "A", "paths": ["extra.txt"] }));
    assert_eq!(granted["accepted"], json!(["A"]));
    one.disconnect();
    // The run is free again.
    assert_eq!(two.call("start", json!({}))["step"], "claim");
    assert_eq!(two.call("claim", json!({ "tasks": ["A"] }))["claimed"][0]["task"], "A");
    two.disconnect();
}

#[test]
fn clients_do_single_tasks_of_a_run_side_by_side() {
    let repo = Repo::new();
    let foreground = |id: &str, file: &str| with(plain(id, 1, file), json!({ "foreground": true }));
    repo.graph("x", &[foreground("A", "a.txt"), foreground("B", "b.txt")]);
    repo.run(&["run"]).code(3);
    let (Some(mut one), Some(mut two)) = (Client::connect(&repo), Client::connect(&repo)) else { return };
    does(&mut one, "A", "a.txt");
    let held = two.refused("claim", json!({ "tasks": ["A"] }));
    assert!(held["refused"][0]["why"].is_string(), "{held}");
    does(&mut two, "B", "b.txt");
    let stranger = two.refused("complete", json!({ "task": "A" }));
    assert_eq!(stranger["error"]["kind"], "held");
    let (a, b) = (one.begin("complete", json!({ "task": "A" })), two.begin("complete", json!({ "task": "B" })));
    assert_eq!(one.answer(a)["result"]["structuredContent"]["result"], "completed");
    assert_eq!(two.answer(b)["result"]["structuredContent"]["result"], "completed");
    one.disconnect();
    two.disconnect();
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a.txt"), "done\n");
}

#[test]
fn a_killed_client_holds_nothing_and_its_work_is_kept() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let Some(mut client) = Client::connect(&repo) else { return };
    client.call("start", json!({}));
    does(&mut client, "A", "a.txt");
    let server = client.server();
    client.kill();
    repo.wait_until("the server ends", || !is_alive(server));
    assert_eq!(fs::read_dir(repo.join(".git/mahabharatha/x/sessions")).unwrap().count(), 0);
    assert_eq!(repo.status()["status"], "paused");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["show", "refs/mahabharatha/x/wip/A/1:a.txt"]), "done");
    assert_eq!(repo.read("a.txt"), "A\n");

    // Where the server is killed too, its lease shows that.
    repo.graph("y", &[simple("A", 1, "y.txt")]);
    let mut client = Client::connect(&repo).unwrap();
    client.call("start", json!({}));
    does(&mut client, "A", "y.txt");
    Command::new("kill").args(["-9", &client.server().to_string()]).status().unwrap();
    repo.wait_until("the server is gone", || !is_alive(client.server()));
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["show", "refs/mahabharatha/y/wip/A/1:y.txt"]), "done");
}

#[test]
fn a_long_call_holds_up_no_other_and_can_be_cancelled() {
    let repo = Repo::new();
    repo.graph("x", &[with(plain("A", 1, "a.txt"), waiting(&repo)), plain("B", 1, "b.txt")]);
    let Some(mut client) = Client::connect(&repo) else { return };
    client.call("start", json!({}));
    does(&mut client, "A", "a.txt");
    let verify = client.begin("verify", json!({ "task": "A" }));
    repo.wait_for(".gsd/specs/x/up");
    assert_eq!(client.call("status", json!({}))["status"], "running");
    does(&mut client, "B", "b.txt");
    client.call("complete", json!({ "task": "B" }));
    client.cancel(verify);
    assert!(client.answer(verify)["error"]["message"].as_str().unwrap().contains("no longer wanted"));
    // The task stays claimed, and nothing of the verification is left that would disturb the next one.
    repo.write(".gsd/specs/x/go", "");
    assert_eq!(client.call("complete", json!({ "task": "A" }))["result"], "completed");

    // Also if the client leaves in the middle.
    client.call("merge", json!({}));
    client.disconnect();
    let repo = Repo::new();
    repo.graph("x", &[with(plain("A", 1, "a.txt"), waiting(&repo))]);
    let mut client = Client::connect(&repo).unwrap();
    client.call("start", json!({}));
    does(&mut client, "A", "a.txt");
    client.begin("complete", json!({ "task": "A" }));
    repo.wait_for(".gsd/specs/x/up");
    let server = client.server();
    client.kill();
    repo.wait_until("the server ends", || !is_alive(server));
    assert_ne!(repo.task_status("A"), "completed");
    assert_eq!(repo.status()["status"], "paused");
}

#[test]
fn documents_are_resources() {
    let repo = two_levels();
    repo.write(".gsd/specs/y/requirements.md", "# Feature: y\n");
    let Some(mut client) = Client::connect(&repo) else { return };
    let listed = client.get("listResources", json!({}));
    let uris: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    let expected = ["x/requirements.md", "x/task-graph.json", "y/requirements.md"];
    assert_eq!(uris, expected.map(|path| format!("mahabharatha:///{path}")));
    let templates = client.get("listResourceTemplates", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "mahabharatha:///{feature}/{document}");
    let graph = client.get("readResource", json!({ "uri": "mahabharatha:///x/task-graph.json" }));
    let graph: Value = serde_json::from_str(graph["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(graph["tasks"][0]["id"], "A");
    let requirements = client.get("readResource", json!({ "uri": "mahabharatha:///x/requirements.md" }));
    assert_eq!(requirements["contents"][0]["text"], "# Feature: x\n\nA red word\n");
    for uri in [
        "mahabharatha:///x/config.yaml",
        "mahabharatha:///x/../../config.yaml",
        "file:///etc/passwd",
        "mahabharatha:///z/design.md",
        "mahabharatha:///x/COMPLETION.md",
    ] {
        let id = client.ask("readResource", json!({ "uri": uri }));
        let answer = client.answer(id);
        assert!(answer["error"]["message"].as_str().unwrap().contains("there is no"), "{uri}: {answer}");
    }
    client.disconnect();
}

#[test]
fn tools_are_listed_with_their_schemas() {
    let repo = two_levels();
    let Some(mut client) = Client::connect(&repo) else { return };
    let tools = client.get("listTools", json!({}));
    insta::assert_snapshot!(serde_json::to_string_pretty(&tools["tools"]).unwrap());
    client.disconnect();
}

#[test]
fn a_server_for_one_feature_of_another_directory() {
    let repo = two_levels();
    repo.graph("y", &[plain("A", 1, "y.txt")]);
    let elsewhere = Repo::new();
    let root = repo.path().display().to_string();
    let Some(mut client) = Client::connect_with(&elsewhere, &["-C", &root, "-f", "x", "mcp"]) else { return };
    assert_eq!(client.call("status", json!({}))["feature"], "x");
    assert_eq!(client.call("status", json!({ "feature": "y" }))["feature"], "y");
    client.disconnect();
}

#[test]
fn output_is_the_protocol_and_the_end_of_input_ends_it() {
    let repo = Repo::new();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let call =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "status", "arguments": {} } });
    repo.write(
        "lines",
        &format!("{hello}\n{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n{call}\n"),
    );
    let input = fs::File::open(repo.join("lines")).unwrap();
    let ran = Ran::of(repo.command(&["mcp"]).stdin(input).output().unwrap()).code(0);
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2, "{}", ran.stdout);
    assert_eq!(answers[1]["result"]["isError"], true);
    repo.command(&["mcp"]).stdin(Stdio::null()).output().map(Ran::of).unwrap().code(0);
}
