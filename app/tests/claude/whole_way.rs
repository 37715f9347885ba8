//! A graph goes in, merged code comes out.

use std::sync::{Condvar, Mutex};

use serde_json::json;

use crate::claude_client;
use crate::client::{Bench, SECRET, task};
use crate::messages_api::{Api, Reply, bash};
use crate::support::{Ran, with};

#[test]
fn a_task_is_done_by_the_real_client() {
    let api = Api::start(|ask| match ask.turn() {
        0 => ask.write("src/a one.txt", "A-1\n"),
        1 => bash("grep -q A-1 'src/a one.txt'"),
        2 => bash("printenv"),
        _ => Reply::says("It is made."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.write("CLAUDE.md", "Use four spaces.\n");
    bench.repo.write(".claude/rules/security-python.md", "No eval.\n");
    bench.repo.write(".claude/rules/security-general.md", "No passwords.\n");
    bench.repo.commit("project");
    let verification = json!({ "command": "printenv | grep -q HOME && grep -q A-1 'src/a one.txt'" });
    let fields = json!({ "verification": verification, "model": "opus" });
    bench.repo.graph("x", &[with(task("A-1", 1, "src/a one.txt"), fields)]);
    bench.run(&["run"]).code(0).says("x is completed");
    assert_eq!(bench.repo.tree("main")["src/a one.txt"], "A-1");

    let asked = bench.api.asked();
    let (system, text) = (asked[0].system(), asked[0].text());
    assert!(asked[0].bytes <= 16 * 1024, "the first request has {} bytes", asked[0].bytes);
    assert!(asked[0].body["model"].as_str().unwrap().contains("opus"));
    assert!(system.contains("You Are a Worker") && system.contains("Use four spaces."), "{system}");
    assert!(text.contains("No passwords.") && !text.contains("No eval."), "{text}");
    let tools: Vec<&str> =
        asked[0].body["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    // The client may add a placeholder of its own.
    let tools: Vec<&str> = tools.into_iter().filter(|tool| *tool != "DeferredToolPlaceholder").collect();
    assert_eq!(tools, ["Bash", "Edit", "Read", "Write"]);

    let told = bench.events("A-1", &["text", "tool_use", "finished"]);
    let expected = ["editing src/a one.txt", "running grep -q A-1 'src/a one.txt'", "running printenv", "It is made."];
    assert_eq!(told[..4], expected);
    let task = bench.repo.task("A-1");
    let served: u64 = bench.api.served().iter().map(|(_, usage)| usage.total()).sum();
    assert!(task["cost_usd"].as_f64().unwrap() > 0.0 && task["tokens"] == served, "{task}");
    // The client has the key; the commands that it runs, the logs and the files do not.
    let last = asked[3].text();
    assert!(last.contains("ANTHROPIC_BASE_URL") && !last.contains(SECRET), "{last}");
    assert!(!Bench::is_in_files(&bench.repo.path(), SECRET) && !Bench::is_in_files(bench.home(), SECRET));
}

#[test]
fn three_levels_are_done_by_several_clients_at_once() {
    let (here, all_here) = (Mutex::new(0), Condvar::new());
    let api = Api::start(move |ask| {
        let id = ask.task();
        if ask.turn() == 1 && id.starts_with("A-") {
            // No client of the first level goes on before all are there.
            *here.lock().unwrap() += 1;
            all_here.notify_all();
            drop(all_here.wait_while(here.lock().unwrap(), |here| *here < 3).unwrap());
        }
        match ask.turn() {
            0 => ask.write(&format!("out/{id}.txt"), &format!("{id}\n")),
            1 => bash(&format!("cat out/{id}.txt")),
            _ => Reply::says("Done."),
        }
    });
    let Some(bench) = Bench::new(api, "workers: { count: 3 }\n") else { return };
    let task = |id: &str, level, dependencies: &[&str]| {
        with(task(id, level, &format!("out/{id}.txt")), json!({ "dependencies": dependencies }))
    };
    let all = [("A-1", 1), ("A-2", 1), ("A-3", 1), ("B-1", 2), ("C-1", 3)];
    let requirements = format!("# Requirements\n\n{}", "- It must work.\n".repeat(100));
    bench.repo.write(".gsd/specs/x/requirements.md", &requirements);
    bench.repo.graph(
        "x",
        &[
            task("A-1", 1, &[]),
            task("A-2", 1, &[]),
            task("A-3", 1, &[]),
            task("B-1", 2, &["A-1", "A-3"]),
            task("C-1", 3, &["B-1"]),
        ],
    );
    bench.run(&["run"]).code(0).says("x is completed");
    let tree = bench.repo.tree("main");
    for (id, _) in all {
        assert_eq!(tree[&format!("out/{id}.txt")], id);
    }
    assert_eq!(
        bench.repo.git(&["log", "--first-parent", "--format=%s", "-3", "main"]).lines().collect::<Vec<_>>(),
        ["Level 3: x", "Level 2: x", "Level 1: x"]
    );
    let status = bench.repo.status();
    let tasks = status["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["attempt"] == 1 && task["tokens"] == 3 * 1020), "{status:#}");
    assert_eq!(status["tokens"], 5 * 3 * 1020);
    // What all workers of a feature are told first is the same, byte by byte.
    let firsts: Vec<_> = bench.api.asked().into_iter().filter(|ask| ask.turn() == 0).collect();
    assert_eq!(firsts.len(), 5);
    for ask in &firsts {
        assert_eq!((&ask.body["tools"], &ask.body["system"]), (&firsts[0].body["tools"], &firsts[0].body["system"]));
    }
    // The client adds something of its own, which names the worktree.
    let (one, other) = (&firsts[0], &firsts[1]);
    let (shared, chosen) = (one.shared_with(other), one.bytes - one.bytes_of_client());
    assert!(100 * shared >= 93 * chosen, "{shared} of {chosen} bytes are shared");
    // Another version may describe its tools at greater length.
    if claude_client::is_pinned() {
        assert!(one.bytes <= 16 * 1024, "the first request has {} bytes", one.bytes);
    }
}

#[test]
fn model_effort_fallback_and_task_tools_are_what_configuration_and_task_say() {
    let api = Api::start(|ask| {
        let overloaded = ask.task() == "A-1" && ask.body["model"].as_str().unwrap().contains("sonnet");
        match ask.turn() {
            _ if overloaded => Reply::fails(529, "overloaded_error"),
            0 => ask.write(&format!("{}.txt", ask.task()), &ask.task()),
            _ => Reply::says("Done."),
        }
    });
    let Some(bench) = Bench::new(api, "claude_tasks: { worker_tools: true }\n") else { return };
    let config = bench.repo.read(".mahabharatha/config.yaml").replace("env: [", "effort: high, env: [");
    bench.repo.write(".mahabharatha/config.yaml", &config);
    let own = json!({ "effort": "low", "fallback_model": "haiku" });
    bench.repo.graph("x", &[with(task("A-1", 1, "A-1.txt"), own), task("A-2", 1, "A-2.txt")]);
    let mut command = bench.command(&["run"]);
    // The client falls back after the third refusal.
    command.env("CLAUDE_CODE_MAX_RETRIES", "5");
    Ran::of(command.output().unwrap()).code(0);
    let (first, second) = (bench.api.asked_about("A-1"), bench.api.asked_about("A-2"));
    assert_eq!(first[0].body["output_config"]["effort"], "low");
    assert!(first.last().unwrap().body["model"].as_str().unwrap().contains("haiku"));
    assert_eq!(second[0].body["output_config"]["effort"], "high");
    assert!(["TaskGet", "TaskList", "TaskUpdate"].iter().all(|tool| second[0].tools().contains(&(*tool).to_owned())));
    assert_eq!(bench.repo.task("A-1")["attempt"], 1);
}
