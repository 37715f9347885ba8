//! Agents that take over from one another, and tasks that are routed to them.

use serde_json::json;

use crate::support::{Repo, with};
use crate::task_mode::plain;

/// A repository with the agents `small`, which always fails, and `large`, which writes the task's file.
fn repo(routing: &str) -> Repo {
    let repo = Repo::new();
    let agents = "small: { kind: command, command: [./small.sh] }, large: { kind: command, command: [./large.sh] }";
    repo.config(&format!(
        "agent: small\nagents: {{ {agents}, {routing} }}\nretry: {{ max_attempts: 3, base_seconds: 0 }}\n"
    ));
    repo.program("small.sh", "echo 'too hard for me'\nexit 1\n");
    repo.program("large.sh", "echo x > \"$MAHABHARATHA_TASK_ID.txt\"\n");
    repo.commit("agents");
    repo.graph("x", &[plain("A", 1, "A.txt"), with(plain("B", 1, "B.txt"), json!({ "agent": "large" }))]);
    repo
}

/// Returns the agents that made the attempts at a task.
fn agents(repo: &Repo, task: &str) -> Vec<String> {
    let journal = repo.read(".git/mahabharatha/x/events.jsonl");
    let records = journal.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ends = records.filter(|record| record["event"]["event"] == "job_ended" && record["event"]["task"] == task);
    ends.map(|record| record["event"]["report"]["agent"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_next_agent_takes_over_after_a_failed_attempt() {
    let repo = repo("escalate: [small, large]");
    repo.run(&["run"]).code(0);
    assert_eq!(agents(&repo, "A"), ["small", "large"]);
    assert_eq!(agents(&repo, "B"), ["large"]);
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    let row = |agent: &str| report.lines().find(|line| line.starts_with(&format!("| {agent} "))).unwrap().to_owned();
    assert!(row("small").contains("| 1 | 0 (0 %) |"), "{report}");
    assert!(row("large").contains("| 2 | 2 (100 %) |"), "{report}");
}

#[test]
fn a_fallback_takes_over_after_as_many_failed_attempts_as_configured() {
    let repo = Repo::new();
    repo.config(
        "agent: small\nagents: { small: { kind: command, command: [./small.sh], fallback: large, fallback_after: 2 }, \
         large: { kind: command, command: [./large.sh] } }\nretry: { max_attempts: 3, base_seconds: 0 }\n",
    );
    repo.program("small.sh", "exit 1\n");
    repo.program("large.sh", "echo x > \"$MAHABHARATHA_TASK_ID.txt\"\n");
    repo.commit("agents");
    repo.graph("x", &[plain("A", 1, "A.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(agents(&repo, "A"), ["small", "small", "large"]);
}

#[test]
fn a_dry_run_shows_where_tasks_are_routed_and_why() {
    let repo = repo("escalate: [small, large], route: cheapest-that-passes");
    let plan = repo.run(&["run", "--dry-run", "--json"]).code(0).json();
    assert_eq!(plan["routes"]["A"]["agent"], "small");
    assert!(plan["routes"]["A"]["reason"].as_str().unwrap().contains("0 attempts"), "{plan}");
    assert_eq!(plan["routes"]["B"], serde_json::Value::Null, "it names its agent");
    repo.run(&["run", "--dry-run"]).code(0).says("Agents by agents.route");
    let asked = repo.run(&["run", "--dry-run", "--agent", "large", "--json"]).code(0).json();
    assert_eq!(asked["routes"], json!({}));
    repo.run(&["run"]).code(0);
    assert_eq!(agents(&repo, "A"), ["small", "large"]);
    repo.graph("y", &[plain("C", 1, "C.txt")]);
    let estimate = repo.run(&["estimate", "y", "--json"]).code(0).json();
    let small = estimate["estimate"]["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tally| tally["agent"] == "small")
        .unwrap()
        .clone();
    assert_eq!((&small["attempts"], &small["passed"]), (&json!(1), &json!(0)), "{estimate}");
    repo.run(&["estimate", "y"]).code(0).says("Attempts of earlier runs");
}

#[test]
fn agents_that_may_take_over_have_to_be_installed() {
    let repo = Repo::new();
    repo.config(
        "agent: small\nagents: { small: { kind: command, command: [./small.sh], fallback: gone }, \
         gone: { kind: command, command: [./gone.sh] } }\n",
    );
    repo.program("small.sh", "exit 1\n");
    repo.commit("agents");
    repo.graph("x", &[plain("A", 1, "A.txt")]);
    repo.run(&["run"]).code(7).says("gone");
}

#[test]
fn a_route_needs_agents_to_choose_from() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "A.txt")]);
    for (agents, problem) in [
        ("route: cheapest-that-passes", "agents.escalate"),
        ("escalate: [claude]", "agents.escalate"),
        ("escalate: [claude, nobody]", "agents.escalate[1]"),
        ("escalate: [claude, codex], claude: { fallback: gemini }", "agents.claude.fallback"),
        ("claude: { fallback: claude }", "agents.claude.fallback"),
    ] {
        repo.config(&format!("agents: {{ {agents} }}\n"));
        repo.run(&["run", "--dry-run"]).code(6).says(problem);
    }
}
