//! `schema`: what it prints accepts what the program reads and writes, by a validator of others.

use std::io::Write;
use std::process::{Command, Stdio};

use mahabharatha_core::config::Config;
use mahabharatha_core::spec::GraphFile;
use serde_json::{Value, json};

use crate::support::{Repo, pass_over, simple, task, with};

const CHECK: &str = include_str!("schema_check.py");

/// The first Python that has the package `jsonschema`.
fn python() -> Option<&'static str> {
    let has = |python: &&str| {
        let found = Command::new(python).args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has);
    if python.is_none() {
        pass_over("Python has no package jsonschema");
    }
    python
}

/// The problems of each value by the schema of `subject`; `None` without a validator.
fn problems(subject: &str, values: &[Value]) -> Option<Vec<Vec<String>>> {
    let python = python()?;
    let schema = Repo::new().run(&["schema", subject]).code(0).json();
    let mut child =
        Command::new(python).args(["-c", CHECK]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let given = json!({ "schema": schema, "values": values });
    child.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{subject}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[track_caller]
fn assert_accepted(subject: &str, values: &[Value]) {
    for (value, problems) in values.iter().zip(problems(subject, values).unwrap_or_default()) {
        assert_eq!(problems, [""; 0], "{value}");
    }
}

/// Schema and reader must agree on which values are good.
#[track_caller]
fn assert_agree(subject: &str, values: &[Value], is_read: fn(&str) -> bool, is_good: bool) {
    let found = problems(subject, values);
    for (index, value) in values.iter().enumerate() {
        assert_eq!(is_read(&value.to_string()), is_good, "the reader: {value}");
        if let Some(found) = &found {
            assert_eq!(found[index].is_empty(), is_good, "the schema: {value}: {:?}", found[index]);
        }
    }
}

#[test]
fn reader_and_schema_of_the_configuration_agree() {
    // JSON is YAML.
    let is_read = |text: &str| Config::parse(text).is_ok();
    let good = [
        json!({}),
        json!({ "workers": null, "sandbox": null, "agent": null }),
        json!({ "workers": { "count": 3, "timeout_minutes": 0.5 }, "budget": { "max_usd": 0 } }),
        json!({ "sandbox": "off" }),
        json!({ "sandbox": { "mode": "bwrap", "read": ["/srv"], "network": false } }),
        json!({ "agent": "mine", "agents": { "mine": { "kind": "command", "command": ["a", "b"], "env": ["X"] } } }),
        json!({ "agents": { "claude": { "command": "claude", "effort": "high" } } }),
        json!({ "quality_gates": [{ "name": "lint", "command": true, "timeout": 5, "required": false }] }),
        json!({ "resources": { "memory": "1g", "cpus": 1.5 }, "merge": { "target": "staging" } }),
        json!({ "secrets": { "allow": [{ "path": "docs/**", "reason": "examples that everybody may see" }] } }),
    ];
    assert_agree("config", &good, is_read, true);
    let bad = [
        json!([]),
        json!({ "worker": { "count": 3 } }),
        json!({ "workers": { "counts": 3 } }),
        json!({ "workers": { "count": 0 } }),
        json!({ "workers": { "count": "3" } }),
        json!({ "workers": 3 }),
        json!({ "budget": { "max_usd": "much" } }),
        json!({ "sandbox": "on" }),
        json!({ "sandbox": { "mod": "off" } }),
        json!({ "merge": { "target": "main" } }),
        json!({ "quality_gates": [{ "name": "lint" }] }),
        json!({ "quality_gates": { "name": "lint", "command": "true" } }),
        json!({ "agents": { "mine": { "kind": "robot" } } }),
        json!({ "agents": { "mine": { "kind": "command", "colour": "red" } } }),
        json!({ "env": { "pass": "HOME" } }),
        json!({ "cleanup": { "on_completion": "yes" } }),
        json!({ "project": { "name": "" } }),
    ];
    assert_agree("config", &bad, is_read, false);
}

#[test]
fn reader_and_schema_of_the_graph_agree() {
    let is_read = |text: &str| GraphFile::parse(text).is_ok();
    let of = |task: Value| json!({ "feature": "x", "tasks": [task] });
    let plain = json!({ "id": "A", "title": "a", "level": 1 });
    let good =
        [of(plain.clone()), of(simple("A", 1, "a.txt")), of(with(plain.clone(), json!({ "estimate_minutes": 2.5 })))];
    assert_agree("graph", &good, is_read, true);
    let bad = [
        json!({ "tasks": [] }),
        json!({ "feature": "x", "tasks": {} }),
        of(json!({ "id": "A", "title": "a" })),
        of(with(plain.clone(), json!({ "level": "one" }))),
        of(with(plain.clone(), json!({ "files": { "create": "a.txt" } }))),
        of(with(plain.clone(), json!({ "verification": { "timeout_seconds": -1 } }))),
        of(with(plain, json!({ "acceptance_criteria": [1] }))),
    ];
    assert_agree("graph", &bad, is_read, false);
}

#[test]
fn a_graph_may_name_its_schema() {
    let repo = Repo::new();
    let schema = "../../../.mahabharatha/graph.schema.json";
    let graph = json!({ "$schema": schema, "feature": "x", "tasks": [simple("A", 1, "a.txt")] });
    repo.write(".gsd/specs/x/task-graph.json", &graph.to_string());
    let problems = repo.run(&["design", "x", "--validate-only", "--json"]).code(0).json();
    assert_eq!(problems, json!({ "problems": [] }));
    repo.run(&["run", "x"]).code(0).does_not_say("schema");
    assert_eq!(serde_json::from_str::<Value>(&repo.read(".gsd/specs/x/task-graph.json")).unwrap()["$schema"], schema);
}

#[test]
fn what_status_and_run_print_is_as_their_schemas_say() {
    let repo = Repo::new();
    // The lint fails once, and is fixed by a retry; the report never passes and is not required.
    repo.config(
        "quality_gates: [{ name: lint, command: '! test -e b.txt || test -e fixed' }, \
         { name: report, command: 'test ! -e a.txt', required: false }]\n",
    );
    repo.commit("configure");
    let stuck = with(task("C", 3, "c.txt", "echo cannot; exit 3"), json!({ "dependencies": ["B"] }));
    repo.graph("x", &[simple("A", 1, "a.txt"), task("B", 2, "b.txt", "echo b > b.txt; echo x > stray"), stuck]);
    let designed = repo.status();
    let first = repo.run(&["run", "--json", "--dry-run"]).code(0).json();
    assert!(first["plan"].is_object());
    let ran = repo.run(&["run", "--json"]);
    let refused = repo.run(&["run", "--json", "--workers", "2", "--agent", "nobody"]);
    let lines = ran.stdout.lines().chain(refused.stdout.lines());
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in ["run", "task", "level", "gate_failed", "log", "end"] {
        assert!(events.iter().any(|line| line["event"] == event), "{event} is not among\n{}", ran.stdout);
    }
    assert_accepted("events", &events);
    assert_accepted("status", &[designed, repo.status()]);
    let wrong = json!({ "version": 1, "at": "now", "event": "task", "id": 7, "news": true });
    if let Some(found) = problems("events", &[wrong]) {
        assert!(found[0].iter().any(|problem| problem.contains("$.id")), "{found:?}");
        assert!(found[0].iter().any(|problem| problem.contains("$.news")), "{found:?}");
    }
}

#[test]
fn init_writes_the_schema_that_the_configuration_names() {
    let repo = Repo::new();
    std::fs::remove_dir_all(repo.join(".mahabharatha")).unwrap();
    repo.write("package.json", "{}");
    repo.run(&["init", "--yes"]).code(0);
    let config = repo.read(".mahabharatha/config.yaml");
    let named = config.lines().next().unwrap().strip_prefix("# yaml-language-server: $schema=").unwrap().to_owned();
    let schema = repo.read(&format!(".mahabharatha/{named}"));
    assert_eq!(schema, repo.run(&["schema", "config"]).code(0).stdout);
    assert!(repo.git(&["status", "--porcelain", "-uall"]).contains("config.yaml"));
    assert!(
        !repo.git(&["status", "--porcelain", "-uall"]).contains(&named),
        "it belongs to the program, not the project"
    );
    repo.run(&["schema", "grph"]).code(2).says("[possible values: graph, config, status, events]");
}
