//! What planning, designing and running a feature cost, and where that is told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::agents::answers;
use crate::client::{Bench, task};
use crate::design::approved;
use crate::messages_api::{Api, Ask, Reply, Usage, bash};
use crate::plan::WHOLE;
use crate::support::{Repo, simple, with};

fn requirements() -> Value {
    let story = json!({
        "title": "A visitor can buy a book", "role": "visitor", "capability": "to buy a book", "benefit": "I can read it",
        "criteria": ["`shop` sells"], "verification": "test -e a.txt",
    });
    json!({ "requirements": { "problem": "Nobody can buy anything.", "stories": [story] } })
}

/// Three tasks on two levels.
fn proposal() -> Value {
    let task = |id: &str, level: u32, file: &str, dependencies: &[&str]| {
        with(
            task(id, level, file),
            json!({ "action": "Make it.", "dependencies": dependencies, "acceptance_criteria": ["AC-1.1"] }),
        )
    };
    json!({
        "design": {
            "summary": "Three files.", "goals": ["sells"], "non_goals": ["pays"], "architecture": "Files.",
            "decisions": [{ "title": "Text", "context": "c", "options": [{ "name": "txt" }], "decision": "txt", "rationale": "small" }],
            "risks": [], "testing": ["by hand"], "stubs": [],
        },
        "tasks": [task("A-1", 1, "a.txt", &[]), task("A-2", 1, "b.txt", &[]), task("B-1", 2, "c.txt", &["A-1"])],
    })
}

fn is_product_owner(ask: &Ask) -> bool {
    let tools = ask.body["tools"].as_array().unwrap();
    tools.iter().any(|tool| !tool["input_schema"]["properties"]["questions"].is_null())
}

/// Everything that is asked on the way from a wish to merged code.
fn shop(ask: &Ask) -> Reply {
    let (task, turn) = (ask.task(), ask.turn());
    match (task.as_str(), turn) {
        ("", 0) if is_product_owner(ask) => answers(ask, requirements()),
        ("", 0) => answers(ask, proposal()),
        ("A-1", 0) if ask.attempt() == "1" => ask.write("a.txt", "wrong\n"),
        ("A-1", 0) => ask.write("a.txt", "A-1\n"),
        ("A-2", 0) => ask.write("b.txt", "A-2\n"),
        ("B-1", 0) => ask.write("c.txt", "B-1\n"),
        // Asked to stop twice, the second time so that its turn ends: the client gives two results.
        ("B-1", _) if ask.text().matches("Your context is nearly full").count() < 2 => bash("git status"),
        ("B-1", _) => Reply::says("FINISHED"),
        _ => Reply::says("Done."),
    }
}

#[test]
fn tokens_of_the_real_client_are_those_that_the_service_handed_out() {
    let (asked, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let api = Api::start(move |ask| {
        let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
        // The client asks once more. (Of an answer that breaks off it counts now a part, now nothing: not compared here.)
        if ask.task() == "A-2" && !failed.swap(true, Ordering::Relaxed) {
            return Reply::fails(500, "api_error");
        }
        let full = if ask.task() == "B-1" { 150_000 } else { 0 };
        shop(ask).using(Usage {
            input: full + number,
            cache_creation: 10 * number,
            cache_read: 7,
            output: 100 + number,
        })
    });
    let Some(bench) = Bench::new(api, "workers: { context_threshold: 0.1 }\n") else { return };
    bench.run(&["plan", "shop", "--agent", "claude", "--describe", "Sell books."]).code(0);
    bench.run(&["plan", "shop", "--approve"]).code(0);
    bench.run(&["design", "shop", "--agent", "claude", "--commit"]).code(0);
    let designed = bench.repo.status();
    assert_eq!((&designed["status"], designed["tasks"].as_array().unwrap().len()), (&json!("designed"), 3));
    assert_eq!(designed["tokens"], designed["planning"]["tokens"]);
    assert!(bench.repo.read(".gsd/STATE.md").contains("- **Cost:** 0."), "the checkpoint tells it");

    bench.run(&["run"]).code(0);
    let status = bench.repo.status();
    let served = bench.api.served();
    let handed_out = |of: &dyn Fn(&str) -> bool| -> u64 {
        served.iter().filter(|(ask, _)| of(&ask.task())).map(|(_, usage)| usage.total()).sum()
    };
    for id in ["A-1", "A-2", "B-1"] {
        assert_eq!(bench.repo.task(id)["tokens"], handed_out(&|task| task == id), "{id}");
    }
    assert_eq!(bench.repo.task("A-1")["attempt"], 2, "both attempts are counted");
    let log = bench.repo.read(".mahabharatha/logs/shop/tasks/B-1.jsonl");
    assert_eq!(log.matches(r#""event":"finished""#).count(), 2, "there were two results: {log}");
    assert_eq!(status["planning"]["tokens"], handed_out(&str::is_empty));
    assert_eq!(designed["planning"], status["planning"]);
    assert_eq!(status["tokens"], handed_out(&|_| true));

    let usd = |of: &Value| of["cost_usd"].as_f64().unwrap();
    let parts = usd(&status["planning"]) + status["tasks"].as_array().unwrap().iter().map(usd).sum::<f64>();
    assert!(usd(&status["planning"]) > 0.0 && (usd(&status) - parts).abs() < 1e-9, "{status:#}");
    let completion = bench.repo.read(".gsd/specs/shop/COMPLETION.md");
    let planning = format!("(planning: {:.2} USD, {} tokens)", usd(&status["planning"]), status["planning"]["tokens"]);
    assert!(completion.contains(&planning), "{completion}");
}

#[test]
fn what_a_session_spent_that_planned_by_itself_is_unknown() {
    let session = [("CLAUDE_CODE_SESSION_ID", "s1")];
    let unknown = json!({ "cost_usd": null, "known_cost_usd": 0.0, "tokens": 0 });
    let repo = Repo::new();
    repo.write("draft.md", WHOLE);
    let plan = ["plan", "shop", "--from", "draft.md", "--agent", "none"];
    // A person's own work costs nothing.
    repo.run(&plan).code(0).does_not_say("cost");
    assert_eq!(repo.status()["cost_usd"], 0.0);
    repo.run_with(&plan, &session).code(0).says("cost unknown");
    assert_eq!((&repo.status()["planning"], &repo.status()["cost_usd"]), (&unknown, &Value::Null));

    let repo = approved();
    repo.write("graph.json", &json!({ "feature": "shop", "tasks": [simple("A", 1, "a.txt")] }).to_string());
    repo.run_with(&["design", "shop", "--no-commit", "--from-graph", "graph.json"], &session)
        .code(0)
        .says("cost unknown");
    assert_eq!((&repo.status()["planning"], &repo.status()["cost_usd"]), (&unknown, &Value::Null));
}

#[test]
fn planning_with_the_real_client_stops_at_the_budget_and_leaves_nothing_of_it_to_a_run() {
    let api = Api::start(|ask| shop(ask).reading(100_000));
    let Some(bench) = Bench::new(api, "budget: { max_usd: 0.05 }\n") else { return };
    let plan = ["plan", "shop", "--agent", "claude", "--describe", "Sell books."];
    let first = bench.run(&plan);
    assert!([0, 9].contains(&first.code), "the client ends before or after its answer: {}", first.stderr);
    let asked = bench.api.asked().len();
    bench.run(&plan).code(9).says("the budget of 0.05 USD is used up").says("Raise budget.max_usd in");
    assert_eq!(bench.api.asked().len(), asked, "nothing more is asked");
    let spent = bench.repo.run(&["status", "--json", "-f", "shop"]).code(0).json();
    assert!(spent["planning"]["cost_usd"].as_f64().unwrap() > 0.05, "{spent}");

    bench.repo.graph("shop", &[task("A-1", 1, "a.txt")]);
    bench.run(&["run", "shop"]).code(9).says("of it by planning");
    assert_eq!(bench.api.asked().len(), asked);
    bench.run(&["run", "shop", "--max-cost", "5"]).code(0);
}

/// A repository with an agent `mine` that answers by a script.
fn with_agent(script: &str) -> Repo {
    let repo = Repo::new();
    repo.config("agents: { mine: { kind: command, command: [./agent.sh] } }\n");
    repo.program("agent.sh", script);
    repo.commit("agent");
    repo
}

const PLAN: [&str; 6] = ["plan", "shop", "--agent", "mine", "--describe", "x"];

fn planning_cost(repo: &Repo) -> Value {
    repo.run(&["status", "--json", "-f", "shop"]).code(0).json()["planning"].clone()
}

#[test]
fn a_question_that_fails_or_is_interrupted_has_an_unknown_cost() {
    let failing = with_agent("exit 3\n");
    failing.run(&PLAN).code(1);
    let hanging = with_agent("touch .git/held; while :; do sleep 0.02; done\n");
    for signal in ["INT", "KILL"] {
        let plan = hanging.spawn(&PLAN);
        hanging.wait_for(".git/held");
        plan.signal(signal);
        plan.wait();
        std::fs::remove_file(hanging.join(".git/held")).unwrap();
    }
    for repo in [failing, hanging] {
        assert_eq!(planning_cost(&repo), json!({ "cost_usd": null, "known_cost_usd": 0.0, "tokens": 0 }));
        repo.run(&["status", "-f", "shop"]).code(0).says("shop: empty, not run yet; cost unknown");
    }
}

#[test]
fn what_planning_costs_after_a_run_is_shown_everywhere() {
    let repo = with_agent("exit 3\n");
    repo.graph("shop", &[simple("A", 1, "a.txt")]);
    let costs = || {
        let projection: Value = serde_json::from_str(&repo.read(".mahabharatha/state/shop.json")).unwrap();
        let status = repo.run(&["status", "--json", "-f", "shop"]).code(0).json();
        let line = repo.run(&["status", "--line", "--json", "-f", "shop"]).code(0).json();
        [projection, status, line].map(|of| of["cost_usd"].clone())
    };
    repo.run(&["run", "shop"]).code(0);
    assert_eq!(costs(), [json!(0.0), json!(0.0), json!(0.0)]);
    repo.run(&PLAN).code(1);
    assert_eq!(costs(), [Value::Null, Value::Null, Value::Null]);
    assert!(repo.read(".gsd/STATE.md").contains("- **Cost:** unknown"));
    let examined = repo.run(&["debug", "--json", "-f", "shop"]).json();
    assert_eq!(examined["projection"], "current", "{examined}");
}

#[test]
fn the_first_feature_pays_for_setting_up_the_project() {
    let repo = with_agent("exit 3\n");
    let setup =
        json!({ "record": "answered", "id": "1", "cost": { "cost_usd": 2.5, "known_cost_usd": 2.5, "tokens": 7 } });
    repo.write(".git/mahabharatha/setup.jsonl", &format!("{setup}\n"));
    repo.graph("shop", &[simple("A", 1, "a.txt")]);
    repo.graph("second", &[simple("B", 1, "b.txt")]);
    repo.commit("graphs");
    repo.config("budget: { max_usd: 2 }\n");
    repo.run(&["run", "shop"]).code(9).says("budget");
    repo.config("");
    repo.run(&["run", "shop"]).code(0);
    repo.run(&["run", "second"]).code(0);
    let cost = |feature: &str| repo.run(&["status", "--json", "-f", feature]).code(0).json()["cost_usd"].clone();
    assert_eq!([cost("shop"), cost("second")], [json!(2.5), json!(0.0)]);
    let completion = repo.read(".gsd/specs/shop/COMPLETION.md");
    assert!(completion.contains("2.50 USD"), "{completion}");
}

#[test]
fn what_a_feature_cost_that_is_given_up_counts_for_the_next_one() {
    let setup =
        json!({ "record": "answered", "id": "1", "cost": { "cost_usd": 2.5, "known_cost_usd": 2.5, "tokens": 7 } });
    // The failed question itself has an unknown cost.
    let spent = json!({ "cost_usd": null, "known_cost_usd": 2.5, "tokens": 7 });
    let give_up: [&[&[&str]]; 2] =
        [&[&["quick", "Sell books!", "--agent", "mine", "--yes"]], &[&PLAN, &["cleanup", "shop"]]];
    for commands in give_up {
        let repo = with_agent("exit 3\n");
        repo.graph("next", &[simple("A", 1, "a.txt")]);
        repo.commit("graph");
        repo.write(".git/mahabharatha/setup.jsonl", &format!("{setup}\n"));
        commands.iter().for_each(|command| drop(repo.run(command)));
        assert_eq!(repo.run(&["list", "--json"]).code(0).json()["features"].as_array().unwrap().len(), 1);
        let status = || repo.run(&["status", "--json", "-f", "next"]).code(0).json();
        assert_eq!(status()["setup"], spent, "{commands:?}");
        repo.config("budget: { max_usd: 2 }\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
        repo.run(&["plan", "other", "--agent", "mine", "--describe", "x"])
            .code(9)
            .says("the budget of 2.00 USD is used up");
        repo.config("");
        repo.run(&["run", "next"]).code(0);
        assert_eq!((&status()["planning"], &status()["cost_usd"]), (&spent, &Value::Null), "{commands:?}");
    }
}
