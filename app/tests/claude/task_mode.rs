//! A session that runs the tasks itself, with subagents, as the slash commands say.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};

use serde_json::{Value, json};

use crate::client::{Bench, task};
use crate::messages_api::{Api, Ask, Reply, bash, tool_use};
use crate::support::with;

/// A use of a tool, and what came of it.
struct Used {
    tool: String,
    input: Value,
    result: String,
}

impl Used {
    fn command(&self) -> &str {
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
fn used(ask: &Ask) -> Vec<Used> {
    let results = ask.tool_results();
    let uses = ask.last_tool_uses();
    uses.into_iter()
        .map(|(id, tool, input)| Used { tool, input, result: results.get(&id).cloned().unwrap_or_default() })
        .collect()
}

fn call(command: String) -> Value {
    tool_use("Bash", json!({ "command": command, "description": "as the command says" }))
}

fn agent(kind: &str, task: &str, prompt: &str) -> Value {
    tool_use("Agent", json!({ "description": task, "prompt": prompt, "subagent_type": kind }))
}

fn ids(tasks: &Value) -> Vec<String> {
    tasks.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// What the prompt of a task says that is to mend a gate.
const IS_REMEDY: &str = "Mend the Gate";

/// A model that does what /mahabharatha:kurukshetra says, by what it was told last alone.
fn conduct(ask: &Ask) -> Reply {
    let used = used(ask);
    let Some(first) = used.first() else { return bash("mahabharatha task start --workers 3 --json") };
    if first.tool == "Agent" {
        let done = |kind: &str| used.iter().filter(|it| it.input["subagent_type"] == kind).collect::<Vec<_>>();
        if let Some(gatekeeper) = done("gatekeeper").first() {
            let told = ask.tool_results().into_values().rfind(|result| result.contains("# Where you work")).unwrap();
            let prompt = format!("{told}\n# Diagnosis\n\n{}", gatekeeper.result);
            return Reply::of(vec![agent("worker", gatekeeper.input["description"].as_str().unwrap(), &prompt)]);
        }
        let finished = done("worker").into_iter().map(|it| it.input["description"].as_str().unwrap().to_owned());
        return Reply::of(
            finished.map(|id| call(format!("mahabharatha task complete {id} --json --feature x"))).collect(),
        );
    }
    let words: Vec<&str> = first.command().split(' ').collect();
    match words[1..] {
        ["status", ..] => Reply::says(&format!("{} is {}.", first.json()["feature"], first.json()["status"])),
        ["task", "start" | "next", ..] => step(&first.json()),
        ["task", "claim", ..] => {
            let claimed = first.json()["claimed"].as_array().unwrap().clone();
            let ids = claimed.iter().map(|it| it["task"].as_str().unwrap().to_owned());
            Reply::of(ids.map(|id| call(format!("mahabharatha task prompt {id} --feature x"))).collect())
        }
        ["task", "prompt", ..] => Reply::of(
            used.iter()
                .map(|it| {
                    let kind = if it.result.contains(IS_REMEDY) { "gatekeeper" } else { "worker" };
                    agent(kind, it.command().split(' ').nth(3).unwrap(), &it.result)
                })
                .collect(),
        ),
        _ => bash("mahabharatha task next --json --feature x"),
    }
}

fn step(next: &Value) -> Reply {
    match next["step"].as_str().unwrap() {
        "claim" | "remedy" => {
            bash(&format!("mahabharatha task claim {} --json --feature x", ids(&next["tasks"]).join(" ")))
        }
        "merge" => bash(next["command"].as_str().unwrap()),
        _ => bash("mahabharatha status --json --feature x"),
    }
}

#[test]
fn two_levels_are_done_by_subagents_at_once_and_a_failed_attempt_is_tried_again() {
    let (reached, changed) = (Mutex::new(BTreeMap::new()), Condvar::new());
    let api = Api::start(move |ask| {
        if ask.is_main() {
            return conduct(ask);
        }
        let (id, attempt, turn) = (ask.task(), ask.attempt(), ask.turn());
        let note = |what: &str| {
            reached.lock().unwrap().insert(what.to_owned(), ask.worktree());
            changed.notify_all();
        };
        if turn == 0 && id.starts_with("A-") && attempt == "1" {
            // Nobody of the first level goes on before all are there, nor A-2 before another has tried to do its work.
            note(&id);
            let awaited = if id == "A-2" { 4 } else { 3 };
            drop(changed.wait_while(reached.lock().unwrap(), |reached| reached.len() < awaited).unwrap());
        }
        let right = id != "A-2" || attempt == "2";
        let own = || ask.write(&format!("out/{id}.txt"), if right { &id } else { "wrong" });
        let verify = || bash(&format!("cd '{}' && mahabharatha task verify {id} -f x", ask.worktree()));
        match (id.as_str(), turn) {
            ("A-1", 0) => ask.write("other.txt", "not mine"),
            ("A-1", 1) => {
                let checkout = ask.worktree().split("/.mahabharatha").next().unwrap().to_owned();
                Reply::uses("Write", json!({ "file_path": format!("{checkout}/new.txt"), "content": "mine" }))
            }
            ("A-1", 2) => bash("git push origin main"),
            ("A-1", 3) => own(),
            ("A-1", 4) => verify(),
            ("A-3", 1) => {
                let file = format!("{}/out/A-2.txt", reached.lock().unwrap()["A-2"]);
                Reply::uses("Write", json!({ "file_path": file, "content": "A-2" }))
            }
            ("A-3", 2) => {
                note("A-3 has tried");
                verify()
            }
            (_, 0) => own(),
            (_, 1) => verify(),
            _ => Reply::says("Done."),
        }
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
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".");
    assert!(talk.asked.is_empty(), "the person was asked: {:?}", talk.asked);

    let errors = talk.errors();
    let denied = |what: &str| assert!(errors.iter().any(|error| error.contains(what)), "{what}: {errors:#?}");
    denied("other.txt is not a file of A-1: it owns out/A-1.txt");
    denied("new.txt is outside of your worktree");
    denied("a worker does not push");
    denied("A-2 is for another subagent");
    let second = bench.api.asked_about("A-2").into_iter().find(|ask| !ask.is_main() && ask.attempt() == "2").unwrap();
    assert!(second.text().contains("after 2 that failed"), "{}", second.text());
    assert!(second.text().contains("grep -q A-2"), "the error of the first attempt: {}", second.text());
}

#[test]
fn a_gate_that_fails_is_diagnosed_and_mended_once() {
    let api = Api::start(|ask| {
        if ask.is_main() {
            return conduct(ask);
        }
        if ask.system().contains("You are a gatekeeper") {
            return Reply::says("out.txt must not say so.");
        }
        let mends = ask.text().contains("must-not-be-there");
        match (mends, ask.turn()) {
            (false, 0) => ask.write("out.txt", "A-1 bad\n"),
            (true, 0) => Reply::uses("Read", json!({ "file_path": ask.file("out.txt") })),
            (true, 1) => ask.write("out.txt", "A-1\n"),
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
    let diagnosed = bench.api.asked().into_iter().filter(|ask| ask.system().contains("You are a gatekeeper")).count();
    assert_eq!(diagnosed, 1);
    assert!(
        bench.repo.subjects("main").contains(&"fix(A-1): Make out.txt".to_owned()),
        "{:?}",
        bench.repo.subjects("main")
    );
}

#[test]
fn another_session_goes_on_where_one_ended_and_does_nothing_twice() {
    let api = Api::start(|ask| {
        let id = ask.task();
        match (ask.is_main(), ask.turn()) {
            (true, _) => {
                let has_claimed = |id: &str| used(ask).iter().any(|it| it.command().contains(&format!("prompt {id}")));
                let ends = has_claimed("B-1") && !ask.text().contains("Arguments: --resume");
                if ends { Reply::says("That is all for today.") } else { conduct(ask) }
            }
            (false, 0) => ask.write(&format!("{id}.txt"), &id),
            _ => Reply::says("Done."),
        }
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt"), task("B-1", 2, "B-1.txt")]);
    bench.repo.commit("graph");
    bench.talk(&["/mahabharatha:kurukshetra"]);
    assert_eq!(bench.repo.task_status("B-1"), "in_progress");
    let talk = bench.talk(&["/z:kurukshetra --resume"]);
    assert_eq!(talk.errors(), [""; 0]);
    assert_eq!(talk.course().last().unwrap(), "\"x\" is \"completed\".");
    assert_eq!((&bench.repo.task("A-1")["attempt"], &bench.repo.task("B-1")["attempt"]), (&json!(1), &json!(2)));
    let begun = |id: &str| bench.api.asked_about(id).iter().filter(|ask| !ask.is_main() && ask.turn() == 0).count();
    assert_eq!((begun("A-1"), begun("B-1")), (1, 1));
    assert_eq!(bench.repo.tree("main")["B-1.txt"], "B-1");
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
