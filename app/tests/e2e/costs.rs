//! What attempts cost, and what is shown where the cost is unknown.

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};
use crate::task_mode::{Session, plain};

fn cost(of: &Value) -> (Option<f64>, Option<f64>) {
    (of["cost_usd"].as_f64(), of["known_cost_usd"].as_f64())
}

const NOTHING: (Option<f64>, Option<f64>) = (Some(0.0), Some(0.0));
const UNKNOWN: (Option<f64>, Option<f64>) = (None, Some(0.0));

/// A repository with an agent `mine`, which runs a script.
fn with_agent(script: &str, config: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("agents: {{ mine: {{ kind: command, command: [./agent.sh] }} }}\n{config}"));
    repo.program("agent.sh", script);
    repo.commit("agent");
    repo
}

/// A task for that agent.
fn by_agent(id: &str, level: u32, file: &str) -> Value {
    with(plain(id, level, file), json!({ "agent": "mine" }))
}

#[test]
fn a_tasks_own_command_costs_nothing_and_what_another_program_costs_is_unknown() {
    let repo = with_agent("echo x > b.txt\n", "");
    repo.graph("x", &[simple("A", 1, "a.txt"), by_agent("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run", "--level", "1"]).code(0).does_not_say("USD");
    let status = repo.status();
    assert_eq!(["A", "B", "C"].map(|id| cost(&repo.task(id))), [NOTHING, UNKNOWN, NOTHING]);
    assert_eq!([&status["levels"][0], &status["levels"][1], &status].map(cost), [UNKNOWN, NOTHING, UNKNOWN]);
    assert!(!status.to_string().contains("-0.0"), "{status}");
    repo.run(&["status", "-v"]).code(0).says("cost unknown").does_not_say("USD");

    repo.run(&["run"]).code(0).does_not_say("USD");
    for file in [".gsd/specs/x/COMPLETION.md", ".gsd/STATE.md"] {
        let text = repo.read(file);
        assert!(text.contains("- **Cost:** unknown\n") && !text.contains("USD"), "{text}");
    }
    let projection: Value = serde_json::from_str(&repo.read(".mahabharatha/state/x.json")).unwrap();
    assert_eq!([&projection, &projection["completion"]].map(cost), [UNKNOWN, UNKNOWN]);
}

#[test]
fn where_nothing_costs_anything_nothing_is_said_of_it() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(0).does_not_say("USD").does_not_say("cost");
    repo.run(&["status", "-v"]).code(0).does_not_say("USD").does_not_say("cost");
    assert!(!repo.read(".gsd/specs/x/COMPLETION.md").contains("USD"));
    assert_eq!(cost(&repo.status()), NOTHING);
}

#[test]
fn what_a_worker_cost_that_died_is_unknown_unless_it_ran_the_tasks_own_command() {
    let repo = with_agent("kill -9 $PPID; sleep 1000\n", "retry: { max_attempts: 1 }\n");
    repo.graph("x", &[task("A", 1, "a.txt", "kill -9 $PPID; sleep 1000"), by_agent("B", 1, "b.txt")]);
    repo.run(&["run"]).code(3);
    let attempt = |id: &str| repo.task(id)["attempts"][0].clone();
    assert_eq!([attempt("A"), attempt("B")].map(|attempt| attempt["outcome"].clone()), ["died", "died"]);
    assert_eq!([cost(&attempt("A")), cost(&attempt("B"))], [NOTHING, UNKNOWN]);
}

#[test]
fn a_tasks_own_command_costs_nothing_where_its_order_and_its_result_are_lost() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let mut run = repo.command(&["run"]);
    run.env("MAHABHARATHA_CRASH_AT", "worker A.1 after the ref").env("MAHABHARATHA_CRASH_WITH", "parent");
    assert!(!run.output().unwrap().status.success(), "it is killed");
    std::fs::remove_file(repo.join(".git/mahabharatha/x/jobs/A.1/spec.json")).unwrap();
    repo.run(&["run"]).code(0);
    assert_eq!((&repo.task("A")["attempt"], cost(&repo.task("A"))), (&json!(1), NOTHING));
}

#[test]
fn the_cost_of_a_session_is_unknown() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 1, "b.txt")]);
    let session = Session(&repo, "s1");
    session.run(&["task", "start"]).code(0);
    session.does("A", "a.txt", "A\n").code(0);
    session.claim("B");
    assert_eq!(["A", "B"].map(|id| cost(&repo.task(id))), [UNKNOWN, NOTHING], "counted when an attempt ends");
    session.run(&["task", "fail", "B", "--reason", "no"]).code(0);
    assert_eq!([cost(&repo.task("B")), cost(&repo.status())], [UNKNOWN, UNKNOWN]);
    session.claim("B");
    repo.run(&["stop"]).code(0);
    let attempts = repo.task("B")["attempts"].clone();
    assert_eq!((&attempts[1]["outcome"], cost(&attempts[1])), (&json!("cancelled"), UNKNOWN), "{attempts}");
}

#[test]
fn a_design_that_was_not_run_yet_is_shown_with_its_tasks() {
    let repo = Repo::new();
    let last = with(simple("B", 2, "b.txt"), json!({ "dependencies": ["A-1"] }));
    repo.graph("x", &[simple("A-1", 1, "a1.txt"), simple("A-2", 1, "a2.txt"), last]);
    let status = repo.status();
    assert_eq!(status["status"], "designed");
    let levels = status["levels"].as_array().unwrap().iter();
    let levels: Vec<_> = levels.map(|level| (&level["level"], &level["status"], &level["total"])).collect();
    let pending = json!("pending");
    assert_eq!(levels, [(&json!(1), &pending, &json!(2)), (&json!(2), &pending, &json!(1))]);
    let tasks = status["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["status"] == "pending" && task["attempt"] == 0), "{status}");
    assert_eq!((&tasks[2]["id"], &tasks[2]["dependencies"]), (&json!("B"), &json!(["A-1"])));
    assert_eq!([&status, &status["planning"], &status["setup"]].map(cost), [NOTHING; 3]);
    repo.run(&["status"]).code(0).says("x: designed, not run yet; 3 tasks on 2 levels").says("mahabharatha run x");

    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "dependencies": ["Z"] }))]);
    let status = repo.status();
    assert_eq!((&status["status"], &status["tasks"]), (&json!("planned"), &json!([])));
    assert!(status["blockers"][0].as_str().unwrap().starts_with("design: "), "{status}");
    repo.run(&["status"]).code(0).says("--validate-only");
}
