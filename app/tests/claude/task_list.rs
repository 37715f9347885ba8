//! The feature's task list as the client itself reads and changes it.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::claude_client;
use crate::client::{Bench, SECRET};
use crate::messages_api::{Api, Ask, Reply, tool_use};
use crate::support::{Background, HELD, simple, task, with};

const PERSON: &str = "I am a person";

/// Who asks, where it is a session of a person.
fn person(ask: &Ask) -> Option<usize> {
    let text = ask.text();
    let (_, rest) = text.split_once(PERSON)?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Bench {
    /// A session that has nothing but the list of the feature `x`.
    fn session(&self, number: usize) -> Background {
        let mut command = Command::new(claude_client::program().unwrap());
        command
            .args(["-p", &format!("{PERSON} {number} ."), "--output-format", "json", "--permission-mode", "dontAsk"])
            .args(["--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"])
            .args(["--tools", "TaskCreate,TaskGet,TaskList,TaskUpdate"])
            .current_dir(self.repo.path())
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("ANTHROPIC_BASE_URL", self.api.url())
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("CLAUDE_CODE_TASK_LIST_ID", "x");
        Background::start(command)
    }

    /// Every task in the list, each of which is whole.
    fn list(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.home().join(".claude/tasks/x")).into_iter().flatten().flatten();
        let tasks = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"));
        tasks.filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()).collect()
    }

    fn entry(&self, task: &str) -> Option<Value> {
        self.list().into_iter().find(|entry| entry["metadata"]["task"] == task)
    }

    fn wait_for_status(&self, task: &str, status: &str) {
        let is = || self.entry(task).is_some_and(|entry| entry["status"] == status);
        self.repo.wait_until(&format!("{task} is {status} in the list"), is);
    }
}

#[test]
fn the_clients_own_tools_see_our_tasks_and_we_what_they_change() {
    let api = Api::start(|ask| match ask.turn() {
        0 => Reply::uses("TaskList", json!({})),
        1 => Reply::uses("TaskGet", json!({ "taskId": "4" })),
        2 => Reply::of(vec![
            tool_use("TaskUpdate", json!({ "taskId": "1", "status": "completed" })),
            tool_use("TaskUpdate", json!({ "taskId": "2", "status": "pending" })),
            tool_use("TaskUpdate", json!({ "taskId": "3", "status": "completed" })),
            tool_use("TaskCreate", json!({ "subject": "Mine", "description": "of a person" })),
        ]),
        _ => Reply::says("So it is."),
    });
    let Some(bench) = Bench::new(api, "workers: { count: 2 }\n") else { return };
    let last = with(simple("B-1", 2, "b1"), json!({ "dependencies": ["A-1", "A-2"] }));
    let by_hand = with(simple("A-3", 1, "a3"), json!({ "foreground": true }));
    let first = task("A-1", 1, "a1", &format!("{HELD} echo > a1"));
    bench.repo.graph("x", &[first, simple("A-2", 1, "a2"), by_hand, last]);
    let run = bench.spawn(&["run"]);
    bench.repo.wait_for(".gsd/specs/x/held");
    bench.wait_for_status("A-1", "in_progress");
    bench.wait_for_status("A-2", "completed");
    bench.repo.write("a3", "by hand\n");
    bench.session(1).wait().code(0);

    let asked = bench.api.asked();
    let seen = asked[1].text();
    for line in [
        "#1 [in_progress] [L1] Make a1",
        "#2 [completed] [L1] Make a2",
        "#3 [pending] [L1] Make a3 (waits for a person)",
        "#4 [pending] [L2] Make b1",
    ] {
        assert!(seen.contains(line), "{line:?} is not in {seen}");
    }
    let seen = asked[2].text();
    assert!(seen.contains("Verification: test -e 'b1'") && seen.contains("Blocked by: #1"), "{seen}");
    let seen = asked[3].text();
    assert!(seen.contains("Updated task #1 status") && seen.contains("Updated task #2 status"), "{seen}");
    assert!(seen.contains("Task #5 created successfully"), "{seen}");
    bench.repo.wait_until("A-3 is taken", || bench.repo.task_status("A-3") == "completed");
    bench.wait_for_status("A-1", "in_progress");
    bench.wait_for_status("A-2", "completed");
    bench.repo.write(".gsd/specs/x/go", "");
    run.wait().code(0);
    let all = bench.list();
    let (ours, theirs): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|entry| !entry["metadata"].is_null());
    assert_eq!(bench.repo.tree("main")["a3"], "by hand");
    assert!(ours.len() == 4 && ours.iter().all(|entry| entry["status"] == "completed"), "{ours:#?}");
    assert_eq!((theirs.len(), &theirs[0]["subject"], &theirs[0]["status"]), (1, &json!("Mine"), &json!("pending")));
}

#[test]
fn several_clients_write_at_once_and_nothing_is_lost() {
    const SESSIONS: usize = 3;
    const TURNS: usize = 6;
    let api = Api::start(|ask| {
        let Some(person) = person(ask) else { return Reply::says("What?") };
        let turn = ask.turn();
        if turn == TURNS {
            return Reply::says("Enough.");
        }
        let task = (turn * SESSIONS + person) % 12 + 1;
        Reply::of(vec![
            tool_use("TaskCreate", json!({ "subject": format!("Of {person}, {turn}"), "description": "" })),
            tool_use("TaskUpdate", json!({ "taskId": task.to_string(), "status": "in_progress", "description": "?" })),
            tool_use("TaskUpdate", json!({ "taskId": task.to_string(), "owner": "me", "metadata": { "mark": turn } })),
        ])
    });
    let Some(bench) = Bench::new(api, "workers: { count: 2 }\n") else { return };
    let mut tasks: Vec<Value> = (0..11).map(|n| simple(&format!("A-{n}"), 1, &format!("a{n}"))).collect();
    tasks.push(task("B-1", 2, "b1", &format!("{HELD} echo > b1")));
    bench.repo.graph("x", &tasks);
    let run = bench.spawn(&["run"]);
    bench.repo.wait_until("the list is there", || bench.list().len() == 12);
    let sessions: Vec<Background> = (0..SESSIONS).map(|number| bench.session(number)).collect();
    for session in sessions {
        session.wait().code(0);
    }
    for ask in bench.api.asked() {
        let told = ask.text();
        assert!(!told.contains("being held") && !told.contains("not found"), "{told}");
    }
    bench.repo.write(".gsd/specs/x/go", "");
    run.wait().code(0).does_not_say("task list");
    let all = bench.list();
    let of_task = |entry: &Value| entry["metadata"]["task"].as_str().map(str::to_owned);
    let ours: Vec<&Value> = all.iter().filter(|entry| of_task(entry).is_some()).collect();
    let names: BTreeSet<String> = ours.iter().filter_map(|entry| of_task(entry)).collect();
    assert_eq!((ours.len(), names.len()), (12, 12), "{all:#?}");
    for entry in ours {
        assert_eq!(entry["status"], "completed", "{entry:#}");
        assert!(entry["description"].as_str().unwrap().contains("Ownership"), "{entry:#}");
        assert_ne!(entry["owner"], "me");
    }
    let theirs: BTreeSet<&str> = all.iter().filter_map(|entry| entry["subject"].as_str()).collect();
    for (person, turn) in (0..SESSIONS).flat_map(|person| (0..TURNS).map(move |turn| (person, turn))) {
        assert!(theirs.contains(format!("Of {person}, {turn}").as_str()), "{person} {turn}: {all:#?}");
    }
    assert_eq!(all.len(), 12 + SESSIONS * TURNS);
    assert_eq!(bench.run(&["status", "--json"]).code(0).json()["mismatches"], json!([]));
}
