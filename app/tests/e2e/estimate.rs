//! `estimate`: by the graph, by what earlier runs took, and against what a run took.

use serde_json::{Value, json};

use crate::agents::held;
use crate::support::{Repo, simple, with};
use crate::task_mode::plain;

/// A task for the agent `mine`, which creates the file `<id>.txt`.
fn by_mine(id: &str, level: u32) -> Value {
    with(plain(id, level, &format!("{id}.txt")), json!({ "agent": "mine", "estimate_minutes": 10 }))
}

/// A repository with the agent `mine`, and a completed feature of six tasks by it.
fn with_history() -> Repo {
    let repo = Repo::new();
    repo.config(CONFIG);
    repo.program("agent.sh", "echo x > \"$MAHABHARATHA_TASK_ID.txt\"\n");
    repo.commit("agent");
    let tasks: Vec<Value> = (1..=6u32).map(|n| by_mine(&format!("H-{n}"), n.div_ceil(3))).collect();
    repo.graph("past", &tasks);
    repo.run(&["run"]).code(0);
    repo
}

const CONFIG: &str =
    "agent: command\nagents: { mine: { kind: command, command: [./agent.sh] } }\nworkers: { count: 2 }\n";

fn journal(feature: &str) -> String {
    format!(".git/mahabharatha/{feature}/events.jsonl")
}

/// Writes the journal of another feature from that of `past`, with these costs of its attempts.
fn imitate(repo: &Repo, feature: &str, cost_usd: f64) {
    let lines = repo.read(&journal("past"));
    let changed = lines.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        if record["feature"].is_string() {
            record["feature"] = json!(feature);
        }
        let event = &mut record["event"];
        match event["event"].as_str() {
            Some("started") => {
                event["feature"] = json!(feature);
                event["graph"]["feature"] = json!(feature);
            }
            Some("job_ended") => event["report"]["cost_usd"] = json!(cost_usd),
            _ => {}
        }
        format!("{record}\n")
    });
    repo.write(&journal(feature), &changed.collect::<String>());
}

fn estimate(repo: &Repo, args: &[&str]) -> Value {
    repo.run(&[&["estimate", "--json"], args].concat()).code(0).json()
}

#[test]
fn without_a_history_the_graph_alone_is_estimated() {
    let repo = Repo::new();
    let minutes = |id: &str, level, minutes: u32| {
        with(simple(id, level, &format!("{id}.txt")), json!({ "estimate_minutes": minutes }))
    };
    let last = with(minutes("D", 2, 5), json!({ "dependencies": ["B"] }));
    repo.graph("x", &[minutes("A", 1, 10), minutes("B", 1, 4), minutes("C", 1, 6), last]);
    let before = repo.everything();
    let found = estimate(&repo, &["--what-if", "workers=1"]);
    let total = &found["estimate"]["total"];
    assert_eq!((&total["work_seconds"], &total["critical_path_seconds"]), (&json!(1500.0), &json!(600.0)));
    assert_eq!((&total["p50_seconds"], &total["p90_usd"]), (&Value::Null, &Value::Null));
    assert_eq!(found["estimate"]["levels"][0]["work_seconds"], 1200.0);
    assert_eq!(found["estimate"]["best_workers"], 2);
    assert_eq!(
        found["estimate"]["by_workers"][0],
        json!({ "workers": 1, "wall_seconds": 1500.0, "p50_seconds": null, "p90_seconds": null })
    );
    assert_eq!((&found["what_if"]["workers"], &found["what_if"]["total"]["wall_seconds"]), (&json!(1), &json!(1500.0)));
    assert_eq!((&found["actual"], &found["estimate"]["pools"][0]["basis"]), (&Value::Null, &json!("none")));
    repo.run(&["estimate"]).code(0).says("No history").says("Critical path: A");
    assert!(repo.everything() == before, "an estimate changes nothing");
}

#[test]
fn nonsense_is_refused_and_nothing_changes() {
    let repo = with_history();
    repo.write(".gsd/specs/empty/requirements.md", "# Requirements\n");
    repo.graph("x", &[by_mine("A", 1)]);
    let before = repo.everything();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["empty"], 6, "empty has no task graph"),
        (&["nowhere"], 2, "there is no feature nowhere"),
        (&["x", "--what-if", "workers=0"], 2, "a number from 1 to 500 is needed"),
        (&["x", "--what-if", "workers=many"], 2, "a number from 1 to 500 is needed"),
        (&["x", "--what-if", "colour=red"], 2, "not an assumption"),
        (&["x", "--what-if", "workers"], 2, "not an assumption"),
        (&["x", "--what-if", "agent=claude"], 2, "the history has mine"),
        (&["x", "--what-if", "agent=nobody"], 2, "there is no agent \"nobody\""),
        (&["x", "--what-if", "model=opus"], 2, "the history has nothing"),
    ];
    for (args, code, why) in cases {
        repo.run(&[&["estimate"], args].concat()).code(code).says(why);
    }
    let good = repo.read(&journal("past"));
    repo.write(&journal("past"), &format!("{good}garbage\n"));
    repo.run(&["estimate", "past"]).code(6).says("is damaged").says("debug --repair");
    repo.write(&journal("past"), &good);
    assert!(repo.everything() == before, "an estimate changes nothing");
}

#[test]
fn times_and_costs_come_from_earlier_runs_of_the_same_agent() {
    let repo = with_history();
    repo.graph(
        "x",
        &[by_mine("A", 1), by_mine("B", 1), with(simple("C", 2, "c.txt"), json!({ "estimate_minutes": 10 }))],
    );
    let found = estimate(&repo, &[]);
    let pools = &found["estimate"]["pools"];
    assert_eq!((&pools[0]["agent"], &pools[0]["basis"]), (&json!("mine"), &json!("agent_and_model")));
    assert_eq!((&pools[0]["samples"], &pools[0]["cost_samples"]), (&json!(6), &json!(0)));
    assert_eq!(
        (&pools[1]["agent"], &pools[1]["basis"], &pools[1]["samples"]),
        (&json!("command"), &json!("all"), &json!(6))
    );
    let total = &found["estimate"]["total"];
    let seconds = |key: &str| total[key].as_f64().unwrap();
    assert!(seconds("p50_seconds") <= seconds("p90_seconds") && seconds("p90_seconds") < seconds("wall_seconds"));
    assert_eq!(total["p90_usd"], Value::Null, "what the program costs is unknown");
    assert_eq!(found["estimate"]["integration_samples"], 2);
    assert_eq!(estimate(&repo, &[]), found, "the same history gives the same answer");

    imitate(&repo, "priced", 1.0);
    let level = &estimate(&repo, &[])["estimate"]["levels"][0];
    assert_eq!((&level["p50_usd"], &level["p90_usd"]), (&json!(2.0), &json!(2.0)));
    let total = &estimate(&repo, &[])["estimate"]["total"];
    assert_eq!(total["p90_usd"], Value::Null, "nothing is known of what C costs");
}

#[test]
fn a_hundred_journals_are_read_and_a_damaged_one_is_named() {
    let repo = with_history();
    for number in 0..100 {
        imitate(&repo, &format!("past-{number}"), 2.0);
    }
    repo.write(&journal("past-7"), "{}\n");
    repo.graph("x", &[by_mine("A", 1), by_mine("B", 1)]);
    let found = estimate(&repo, &[]);
    assert_eq!(found["estimate"]["pools"][0]["samples"], 600);
    assert_eq!(found["estimate"]["pools"][0]["cost_samples"], 594, "of `past` the costs are unknown");
    let left_out = found["left_out"].as_array().unwrap();
    assert_eq!((left_out.len(), &left_out[0]["feature"]), (1, &json!("past-7")));
    repo.run(&["estimate"]).code(0).says("the history of past-7 is left out").says("600 samples");
}

#[test]
fn a_run_that_may_exceed_its_budget_is_warned_of() {
    let repo = with_history();
    imitate(&repo, "priced", 1.0);
    repo.graph("x", &[by_mine("A", 1), by_mine("B", 1)]);
    repo.config(&format!("{CONFIG}budget: {{ max_usd: 2.5 }}\n"));
    repo.run(&["run", "--level", "1"]).code(0).does_not_say("P90");
    repo.graph("y", &[by_mine("C", 1), by_mine("D", 1), by_mine("E", 1)]);
    repo.run(&["run", "y"]).code(0).says("this one may cost 3.00 USD (P90), more than its budget of 2.50 USD");
}

#[test]
fn a_run_is_compared_with_what_was_known_before_it() {
    let repo = with_history();
    let run_of = |feature: &str| estimate(&repo, &[feature]);
    let first = run_of("past");
    assert_eq!(first["estimate"]["pools"][0]["samples"], 0, "it was the first");
    repo.graph("x", &[by_mine("A", 1), held("B", 2, "b.txt")]);
    let run = repo.run_until_up(&["B"]);
    let during = run_of("x");
    assert_eq!(during["actual"]["completed"], false);
    let merged = |found: &Value| {
        found["actual"]["levels"].as_array().unwrap().iter().map(|level| level["merged"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(merged(&during), [json!(true), json!(false)]);
    repo.run(&["estimate", "x"]).code(0).says("which is not completed");
    repo.let_go("all");
    run.wait().code(0);
    let after = run_of("x");
    assert_eq!(after["estimate"], during["estimate"], "the run itself changes nothing of what was expected");
    assert_eq!(after["estimate"]["pools"][0]["samples"], 6);
    let actual = &after["actual"];
    let seconds = |of: &Value| of["wall_seconds"].as_f64().unwrap();
    assert_eq!((&actual["completed"], merged(&after)), (&json!(true), vec![json!(true), json!(true)]));
    let levels = actual["levels"].as_array().unwrap();
    assert!(levels.iter().all(|level| seconds(level) > 0.0), "{actual}");
    assert!(levels.iter().map(seconds).sum::<f64>() <= seconds(actual) + 0.01, "{actual}");
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(report.contains("## Estimate\n\n| Level | Estimate | P50 | P90 | Took |"), "{report}");
    assert!(report.contains("\n| total | "), "{report}");
}
