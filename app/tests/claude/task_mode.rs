//! A session that runs the tasks itself, with subagents, as the slash commands say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::client::{Bench, task};
use crate::messages_api::{Api, Ask, Reply, Usage, bash, tool_use};
use crate::session::path_to_the_program;
use crate::support::with;

/// A use of a tool, and what came of it.
pub struct Used {
    pub tool: String,
    input: Value,
    result: String,
}

impl Used {
    /// Whether it is a subagent that works in the background now.
    pub fn is_launched(&self) -> bool {
        self.result.contains("Async agent launched")
    }

    pub fn command(&self) -> &str {
        self.input["command"].as_str().unwrap_or_default()
    }

    /// The JSON that a command printed, whatever it said to people around it.
    fn json(&self) -> Value {
        let from = self.result.find('{').unwrap_or(self.result.len());
        let mut values = serde_json::Deserializer::from_str(&self.result[from..]).into_iter::<Value>();
        values.next().and_then(Result::ok).unwrap_or_else(|| panic!("{}: {}", self.input, self.result))
    }
}

/// What the model used last, all of it at once.
pub fn used(ask: &Ask) -> Vec<Used> {
    let results = ask.tool_results();
    let uses = ask.last_tool_uses();
    uses.into_iter()
        .map(|(id, tool, input)| Used { tool, input, result: results.get(&id).cloned().unwrap_or_default() })
        .collect()
}

/// The subagents that have finished since the model's last answer, by the tool's own answer or by a notification.
pub fn finished(ask: &Ask) -> Vec<Used> {
    let is_answer = |used: &Used| used.tool == "Agent" && !used.is_launched();
    let mut finished: Vec<Used> = used(ask).into_iter().filter(is_answer).collect();
    let (last, uses) = (ask.last(), ask.tool_uses());
    let between = |text: &str, tag: &str| {
        let inside = text.split(&format!("<{tag}>")).nth(1).and_then(|rest| rest.split(&format!("</{tag}>")).next());
        inside.unwrap_or_default().to_owned()
    };
    for notification in last.split("<task-notification>").skip(1) {
        let id = between(notification, "tool-use-id");
        if let Some((_, tool, input)) = uses.iter().find(|(of, ..)| *of == id) {
            let result = between(notification, "result");
            finished.push(Used { tool: tool.clone(), input: input.clone(), result });
        }
    }
    finished
}

fn call(command: String) -> Value {
    tool_use("Bash", json!({ "command": command, "description": "as the command says" }))
}

/// A call for a subagent of a kind, by the name that the command has for it: plugins have longer ones.
fn agent(ask: &Ask, kind: &str, task: &str, prompt: &str) -> Value {
    let in_plugin = ask.text().contains("`subagent_type` is `mahabharatha:");
    let kind = if in_plugin { format!("mahabharatha:{kind}") } else { kind.to_owned() };
    tool_use("Agent", json!({ "description": task, "prompt": prompt, "subagent_type": kind }))
}

fn ids(tasks: &Value) -> Vec<String> {
    tasks.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// What a subagent is told, word by word as the command says.
fn line_for(ask: &Ask, task: &str) -> String {
    let text = ask.text();
    let line = text.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    line.replace("ID", task).replace("FEATURE", "x")
}

/// A model that does what /mahabharatha:kurukshetra says.
fn conduct(ask: &Ask) -> Reply {
    let used = used(ask);
    let mut blocks: Vec<Value> = finished(ask).iter().map(|agent| after_agent(ask, agent)).collect();
    if used.is_empty() && blocks.is_empty() && ask.turn() == 0 {
        return bash("mahabharatha task start --workers 3 --json");
    }
    let mut asks_next = false;
    for call in &used {
        let words: Vec<&str> = call.command().split(' ').collect();
        match words.get(1..).unwrap_or_default() {
            ["status", ..] => {
                return Reply::says(&format!("{} is {}.", call.json()["feature"], call.json()["status"]));
            }
            ["task", "start" | "next", ..] => blocks.extend(step(&call.json())),
            ["task", "claim", ..] => blocks.extend(launch(ask, call)),
            [_, ..] => asks_next = true,
            [] => {}
        }
    }
    match (blocks.is_empty(), asks_next) {
        (false, _) => Reply::of(blocks),
        (true, true) => bash("mahabharatha task next --json --feature x"),
        (true, false) => Reply::says("Waiting."),
    }
}

/// A subagent for each task that was claimed.
fn launch(ask: &Ask, claim: &Used) -> Vec<Value> {
    let claimed = claim.json()["claimed"].as_array().unwrap().clone();
    let ids: Vec<&str> = claimed.iter().map(|it| it["task"].as_str().unwrap()).collect();
    // Ids of uses come in the order of their making.
    let step = ask.tool_results().into_values().rfind(|result| result.contains("\"step\"")).unwrap();
    if step.contains("\"fix\"") {
        return vec![agent(ask, "gatekeeper", ids[0], &format!("{step}\n{}", line_for(ask, ids[0])))];
    }
    ids.iter().map(|id| agent(ask, "worker", id, &line_for(ask, id))).collect()
}

fn after_agent(ask: &Ask, agent_used: &Used) -> Value {
    let id = agent_used.input["description"].as_str().unwrap();
    if agent_used.input["subagent_type"] == "gatekeeper" {
        return agent(ask, "worker", id, &format!("{}\n\n# Diagnosis\n\n{}", line_for(ask, id), agent_used.result));
    }
    call(format!("mahabharatha task complete {id} --json --feature x"))
}

/// What a subagent does before anything else: it has itself told what to do.
fn asks_what_to_do(ask: &Ask) -> Option<Reply> {
    if ask.turn() == 0 {
        let text = ask.text();
        return Some(bash(text.split('`').find(|part| part.starts_with("mahabharatha task prompt")).unwrap()));
    }
    let last = ask.last();
    let saved = last.lines().find_map(|line| line.split("Full output saved to: ").nth(1));
    saved.map(|path| Reply::uses("Read", json!({ "file_path": path })))
}

fn step(next: &Value) -> Vec<Value> {
    let command = match next["step"].as_str().unwrap() {
        "wait" => return Vec::new(),
        "claim" | "fix" => {
            format!("mahabharatha task claim {} --json --feature x", ids(&next["tasks"]).join(" "))
        }
        "merge" => next["command"].as_str().unwrap().to_owned(),
        _ => "mahabharatha status --json --feature x".to_owned(),
    };
    vec![call(command)]
}

#[test]
fn two_levels_are_done_by_subagents_at_once_and_a_failed_attempt_is_tried_again() {
    let (reached, changed) = (Mutex::new(BTreeMap::new()), Condvar::new());
    let script = move |ask: &Ask| {
        if ask.is_main() {
            return conduct(ask);
        }
        if let Some(asks) = asks_what_to_do(ask) {
            return asks;
        }
        let (id, attempt, turn) = (ask.task(), ask.attempt(), ask.turn() - 1);
        let note = |what: &str| {
            reached.lock().unwrap().insert(what.to_owned(), ask.worktree());
            changed.notify_all();
        };
        if turn == 0 && id.starts_with("A-") && attempt == "1" {
            // No subagent of the first level continues before all have started, nor A-2 before another has tried to do its work.
            note(&id);
            let awaited = if id == "A-2" { 4 } else { 3 };
            drop(changed.wait_while(reached.lock().unwrap(), |reached| reached.len() < awaited).unwrap());
        }
        let right = id != "A-2" || attempt == "2";
        let own = || ask.write(&format!("out/{id}.txt"), if right { &id } else { "wrong" });
        let verify = || bash(&format!("mahabharatha task verify {id} --feature x"));
        match (id.as_str(), turn) {
            ("A-1", 0) => ask.write("other.txt", "not mine"),
            ("A-1", 1) => write_in_checkout(ask),
            ("A-1", 2) => bash("git push origin main"),
            ("A-1", 3) => own(),
            ("A-1", 4) => verify(),
            ("A-3", 0) => {
                let file = format!("{}/out/A-2.txt", reached.lock().unwrap()["A-2"]);
                Reply::uses("Write", json!({ "file_path": file, "content": "A-2" }))
            }
            ("A-3", 1) => {
                note("A-3 has tried");
                own()
            }
            ("A-3", 2) => verify(),
            (_, 0) => own(),
            (_, 1) => verify(),
            _ => Reply::says("Done."),
        }
    };
    // No two answers use up the same.
    let answers = AtomicU64::new(0);
    let api = Api::start(move |ask| {
        let number = answers.fetch_add(1, Ordering::Relaxed) + 1;
        let usage = Usage { input: number, cache_creation: 100 * number, cache_read: 7, output: 10_000 + number };
        script(ask).using(usage)
    });
    let Some(bench) = Bench::installed(api, "quality_gates: [ { name: there, command: 'test -d .git -o -f .git' } ]\n")
    else {
        return;
    };
    let made = |id: &str, level, needs: &[&str]| {
        with(task(id, level, &format!("out/{id}.txt")), json!({ "dependencies": needs }))
    };
    bench.repo.graph("x", &[made("A-1", 1, &[]), made("A-2", 1, &[]), made("A-3", 1, &[]), made("B-1", 2, &["A-2"])]);
    bench.repo.commit("graph");
    let talk = bench.talk(&["/mahabharatha:kurukshetra --workers 3"]);

    let tree = bench.repo.tree("main");
    for id in ["A-1", "A-2", "A-3", "B-1"] {
        assert_eq!(tree[&format!("out/{id}.txt")], id);
    }
    assert!(!bench.repo.exists("new.txt"));
    let levels = bench.repo.git(&["log", "--first-parent", "--format=%s", "-2", "main"]);
    assert_eq!(levels, "Level 2: x\nLevel 1: x");
    assert_eq!(bench.repo.status()["status"], "completed");
    assert_eq!(bench.repo.task("A-2")["attempt"], 2);
    for id in ["A-1", "A-2", "A-3", "B-1"] {
        let prompt = format!("mahabharatha task prompt {id} ");
        let served = bench.api.served().into_iter();
        let own = served.filter(|(ask, _)| !ask.is_main() && ask.text().contains(&prompt));
        assert_eq!(bench.repo.task(id)["tokens"], own.map(|(_, usage)| usage.total()).sum::<u64>(), "{id}");
    }
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".");
    assert!(talk.asked.is_empty(), "the person was asked: {:?}", talk.asked);

    let errors = talk.errors();
    let denied = |what: &str| assert!(errors.iter().any(|error| error.contains(what)), "{what}: {errors:#?}");
    denied("other.txt is not owned by A-1, which owns out/A-1.txt");
    denied("new.txt is outside of your worktree");
    denied("a worker does not push");
    denied("A-2 belongs to another subagent");
    let second = bench.api.asked_about("A-2").into_iter().find(|ask| !ask.is_main() && ask.attempt() == "2").unwrap();
    assert!(second.text().contains("after 2 failed attempts"), "{}", second.text());
    assert!(second.text().contains("grep -q A-2"), "the error of the first attempt: {}", second.text());
}

#[test]
fn a_gate_that_fails_is_diagnosed_and_fixed_once() {
    let api = Api::start(|ask| {
        if ask.is_main() {
            return conduct(ask);
        }
        if let Some(asks) = asks_what_to_do(ask) {
            return asks;
        }
        if ask.system().contains("You are a gatekeeper") {
            return Reply::says("out.txt must not say so.");
        }
        let fixes = ask.text().contains("out.txt must not say so.") && ask.text().contains("must-not-be-there");
        match (fixes, ask.turn()) {
            (false, 1) => ask.write("out.txt", "A-1 bad\n"),
            (true, 1) => Reply::uses("Read", json!({ "file_path": ask.file("out.txt") })),
            (true, 2) => ask.write("out.txt", "A-1\n"),
            _ => Reply::says("Done."),
        }
    });
    let gate =
        "quality_gates: [ { name: good, command: '! grep -s bad out.txt || (echo must-not-be-there; false)' } ]\n";
    let Some(bench) = Bench::installed(api, gate) else { return };
    bench.repo.graph("x", &[task("A-1", 1, "out.txt")]);
    bench.repo.commit("graph");
    let talk = bench.talk(&["/z:kurukshetra"]);
    assert_eq!(bench.repo.tree("main").get("out.txt").map(String::as_str), Some("A-1"), "{:#?}", talk.results());
    assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    let is_begun = |ask: &Ask| ask.turn() == 0 && ask.system().contains("You are a gatekeeper");
    let diagnosed = bench.api.asked().into_iter().filter(is_begun).count();
    assert_eq!(diagnosed, 1);
    assert!(
        bench.repo.subjects("main").contains(&"fix(A-1): Make out.txt".to_owned()),
        "{:?}",
        bench.repo.subjects("main")
    );
}

#[test]
fn another_session_continues_where_one_ended_and_repeats_nothing() {
    let api = Api::start(|ask| {
        if ask.is_main() {
            let has_claimed = |id: &str| used(ask).iter().any(|it| it.command().contains(&format!("claim {id}")));
            let ends = has_claimed("B-1") && !ask.text().contains("Arguments: --resume");
            return if ends { Reply::says("That is all for today.") } else { conduct(ask) };
        }
        writes_its_file(ask)
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt"), task("B-1", 2, "B-1.txt")]);
    bench.repo.commit("graph");
    bench.talk(&["/mahabharatha:kurukshetra"]);
    assert_eq!(bench.repo.task_status("B-1"), "pending", "a session that has ended holds nothing");
    let talk = bench.talk(&["/z:kurukshetra --resume"]);
    assert_eq!(talk.errors(), [""; 0]);
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".");
    assert_eq!((&bench.repo.task("A-1")["attempt"], &bench.repo.task("B-1")["attempt"]), (&json!(1), &json!(2)));
    let begun = |id: &str| bench.api.asked_about(id).iter().filter(|ask| !ask.is_main() && ask.turn() == 1).count();
    assert_eq!((begun("A-1"), begun("B-1")), (1, 1));
    assert_eq!(bench.repo.tree("main")["B-1.txt"], "B-1");
}

/// What a subagent does that has nothing but its file to write.
fn writes_its_file(ask: &Ask) -> Reply {
    let id = ask.task();
    asks_what_to_do(ask).unwrap_or_else(|| match ask.last().contains("# Where you work") {
        true => ask.write(&format!("{id}.txt"), &id),
        false => Reply::says("Done."),
    })
}

/// A write that is not the subagent's to make.
fn write_in_checkout(ask: &Ask) -> Reply {
    let checkout = ask.worktree().split("/.mahabharatha").next().unwrap().to_owned();
    Reply::uses("Write", json!({ "file_path": format!("{checkout}/new.txt"), "content": "mine" }))
}

/// Four tasks in two levels, each with a file of its own.
fn four_tasks() -> Vec<Value> {
    let made =
        |id: &str, level, needs: &[&str]| with(task(id, level, &format!("{id}.txt")), json!({ "dependencies": needs }));
    vec![made("A-1", 1, &[]), made("A-2", 1, &[]), made("A-3", 1, &[]), made("B-1", 2, &["A-2"])]
}

#[test]
fn a_session_in_a_terminal_completes_its_tasks_without_asking_the_user() {
    let api = Api::start(|ask| if ask.is_main() { conduct(ask) } else { writes_its_file(ask) });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &four_tasks());
    bench.repo.commit("graph");
    let terminal = bench.open_terminal();
    terminal.type_line(&bench.repo, "/mahabharatha:kurukshetra --workers 3");
    bench.repo.wait_until("the end of the run", || {
        let screen = terminal.screen();
        assert!(!screen.contains("Do you want to"), "the user is asked:\n{screen}");
        screen.contains("\"x\" is \"completed\".")
    });
    assert_eq!(bench.repo.status()["status"], "completed");
    for id in ["A-1", "A-2", "A-3", "B-1"] {
        assert_eq!(bench.repo.tree("main")[&format!("{id}.txt")], id);
        assert_eq!(bench.repo.task(id)["attempt"], 1, "{id}");
    }
}

#[test]
fn a_session_with_the_plugin_does_the_same() {
    let api = Api::start(|ask| {
        if ask.is_main() {
            return conduct(ask);
        }
        // One tries to write into the user's checkout before its own file.
        if ask.task() == "A-1" && ask.last().contains("# Where you work") {
            return write_in_checkout(ask);
        }
        if ask.last().contains("is outside of your worktree") {
            ask.write("A-1.txt", "A-1")
        } else {
            writes_its_file(ask)
        }
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &four_tasks());
    bench.repo.commit("graph");
    let plugins = tempfile::tempdir().unwrap();
    bench.run(&["install", "--yes", "--plugin", plugins.path().to_str().unwrap()]).code(0);
    let plugin = plugins.path().join("mahabharatha");
    let args = ["--plugin-dir", plugin.to_str().unwrap()];
    let path = path_to_the_program();
    let talk = bench.talk_by(&bench.repo.path(), &args, &[("PATH", &path)], &["/mahabharatha:kurukshetra --workers 3"]);
    let is_denied = |ask: &Ask| ask.text().contains("new.txt is outside of your worktree");
    assert!(bench.api.asked().iter().any(is_denied) && !bench.repo.exists("new.txt"), "the plugin's worker is known");
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".", "{:#?}", talk.results());
    assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    for id in ["A-1", "A-2", "A-3", "B-1"] {
        assert_eq!(bench.repo.task(id)["attempt"], 1, "{id}");
        assert_ne!(bench.repo.task(id)["tokens"], 0, "{id}");
    }
}

#[test]
fn completing_too_early_is_refused_and_uses_up_no_attempt() {
    let (refused, changed) = (Mutex::new(false), Condvar::new());
    let api = Api::start(move |ask| {
        if !ask.is_main() {
            // At work until the session was refused.
            if Bench::has_background_subagents() {
                drop(changed.wait_while(refused.lock().unwrap(), |refused| !*refused).unwrap());
            }
            return writes_its_file(ask);
        }
        let used = used(ask);
        match used.first() {
            Some(first) if first.is_launched() => bash("mahabharatha task complete A-1 --json --feature x"),
            Some(first) if first.result.contains("is still working") => {
                *refused.lock().unwrap() = true;
                changed.notify_all();
                Reply::says("Waiting.")
            }
            _ => conduct(ask),
        }
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt")]);
    bench.repo.commit("graph");
    let talk = bench.talk(&["/mahabharatha:kurukshetra"]);
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".", "{:#?}", talk.results());
    assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    let refused: Vec<String> = talk.errors();
    assert!(refused.iter().all(|error| error.contains("is still working")), "{refused:#?}");
    assert_eq!(refused.len(), usize::from(Bench::has_background_subagents()), "{refused:#?}");
    assert_eq!(bench.repo.task("A-1")["attempt"], 1);
}

#[test]
fn a_killed_session_holds_no_task_and_another_continues() {
    let (reached, changed) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
    let (is_at_work, notify) = (Arc::clone(&reached), Arc::clone(&changed));
    let api = Api::start(move |ask| {
        if ask.is_main() {
            return if ask.text().contains("Hello.") { Reply::says("Hello.") } else { conduct(ask) };
        }
        if ask.task() == "B-1" && ask.attempt() == "1" {
            *is_at_work.lock().unwrap() = true;
            notify.notify_all();
            // No answer: the client is killed while it waits for one.
            loop {
                std::thread::park();
            }
        }
        writes_its_file(ask)
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &four_tasks());
    bench.repo.commit("graph");
    let session = bench.start_session("/mahabharatha:kurukshetra --workers 3");
    drop(changed.wait_while(reached.lock().unwrap(), |reached| !*reached).unwrap());
    assert_eq!(bench.listed("x", "B-1"), "in_progress");
    session.signal("KILL");
    session.wait();
    assert_eq!(bench.repo.status()["status"], "paused");
    // The next session shows in the list that the task is free.
    bench.talk(&["Hello."]);
    assert_eq!((bench.listed("x", "B-1"), bench.repo.task_status("B-1").as_str()), (json!("pending"), "pending"));
    let talk = bench.talk(&["/z:kurukshetra --resume"]);
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".", "{:#?}", talk.results());
    let attempts = ["A-1", "A-2", "A-3", "B-1"].map(|id| bench.repo.task(id)["attempt"].clone());
    assert_eq!(attempts, [1, 1, 1, 2]);
}

#[test]
fn a_prompt_that_is_too_long_for_the_client_to_show_is_read_whole() {
    let api = Api::start(|ask| match ask.is_main() {
        true => conduct(ask),
        false => asks_what_to_do(ask).unwrap_or_else(|| match ask.last().contains("# Where you work") {
            true => ask.write("out.py", "A-1\n"),
            false => Reply::says("Done."),
        }),
    });
    let budget = "plugins: { context_engineering: { task_context_budget_tokens: 100000 } }\n";
    let Some(bench) = Bench::installed(api, budget) else { return };
    for name in ["general", "style", "python", "names", "tests", "errors"] {
        let rules = format!("# Rules\n\n{}", "Be careful, always.\n".repeat(500));
        bench.repo.write(&format!(".claude/rules/security-{name}.md"), &rules);
    }
    bench.repo.graph("x", &[task("A-1", 1, "out.py")]);
    bench.repo.commit("graph");
    let talk = bench.talk(&["/mahabharatha:kurukshetra"]);
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".", "{:#?}", talk.results());
    assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    let about = bench.api.asked_about("A-1");
    assert!(about.iter().any(|ask| ask.text().contains("Full output saved to: ")), "the prompt was not long");
}

#[test]
fn a_task_for_the_foreground_is_done_in_the_session_itself() {
    let api = Api::start(|ask| {
        let used = used(ask);
        let Some(first) = used.first() else { return bash("mahabharatha task claim F-1 --json --feature x") };
        let words: Vec<&str> = first.command().split(' ').collect();
        match words[..] {
            [_, "task", "claim", ..] => bash("mahabharatha task prompt F-1 --feature x"),
            [_, "task", "prompt", ..] => ask.write("out.txt", "F-1\n"),
            [_, "task", "verify", ..] => bash("mahabharatha task complete F-1 --json --feature x"),
            [_, "task", "complete", ..] => Reply::says(first.json()["result"].as_str().unwrap()),
            _ => bash("mahabharatha task verify F-1 --feature x"),
        }
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &[with(task("F-1", 1, "out.txt"), json!({ "foreground": true }))]);
    bench.repo.commit("graph");
    bench.run(&["run"]).code(3).says("`/mahabharatha:worker F-1` in Claude Code");
    let talk = bench.talk(&["/mahabharatha:worker F-1"]);
    assert_eq!(talk.course().last().unwrap(), "completed");
    assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    bench.run(&["run"]).code(0).says("x is completed");
    assert_eq!(bench.repo.tree("main")["out.txt"], "F-1");
}
