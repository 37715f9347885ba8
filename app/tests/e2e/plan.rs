//! The plan: shown without touching anything, and kept by the run.

use serde_json::{Value, json};

use crate::support::{Repo, simple, with};

/// Six tasks on two levels, with estimates of all kinds.
fn planned() -> Repo {
    let repo = Repo::new();
    repo.config(
        "workers: { count: 2 }\nports: { range_start: 49300, range_end: 49400, per_worker: 2 }\n\
         merge: { prepare: 'echo prepared' }\nworktrees: { setup: 'echo set up' }\nquality_gates:\n  - { name: style, command: \"true && echo fine\" }\n",
    );
    let minutes = |minutes: f64| json!({ "estimate_minutes": minutes });
    repo.graph(
        "x",
        &[
            with(simple("SHORT", 1, "a/short.txt"), minutes(5.0)),
            with(simple("LONG", 1, "a/long.txt"), minutes(30.0)),
            with(simple("TOKENS", 1, "a/tokens.txt"), json!({ "estimate_tokens": 12_000 })),
            with(simple("UNKNOWN", 1, "a/unknown.txt"), json!({})),
            with(simple("LAST", 2, "b/last.txt"), json!({ "estimate_minutes": 8, "dependencies": ["LONG", "SHORT"] })),
            with(simple("PERSON", 2, "b/person.txt"), json!({ "foreground": true, "dependencies": ["SHORT"] })),
        ],
    );
    repo
}

#[test]
fn a_dry_run_refuses_a_task_that_nothing_can_do_as_the_run_does() {
    let repo = Repo::new();
    repo.config("agent: command\n");
    let mut task = simple("A", 1, "a.txt");
    task.as_object_mut().unwrap().remove("run");
    repo.graph("x", &[task]);
    for args in [&["run", "--dry-run"][..], &["run"]] {
        repo.run(args)
            .code(7)
            .says("A: the agent command has no command, and the task has no `run`.")
            .says("Set agents.command.command, or give the task a `run`.");
    }
}

#[test]
fn a_dry_run_shows_the_plan_and_touches_nothing() {
    let repo = planned();
    let before = repo.everything();
    let shown = repo.run(&["run", "--dry-run"]).code(0);
    assert_eq!(shown.stderr, "");
    insta::assert_snapshot!(shown.stdout);
    let data = repo.run(&["run", "x", "--dry-run", "--json", "-w", "3"]).code(0).json();
    assert_eq!(repo.everything(), before);

    let plan = &data["plan"];
    assert_eq!((&data["feature"], &plan["workers"]), (&json!("x"), &json!(3)));
    // LONG takes 30 of the 45 minutes that its level is worth on two workers: no third could shorten it.
    let alternatives = plan["alternatives"].as_array().unwrap();
    let totals: Vec<(u64, f64)> = alternatives
        .iter()
        .map(|each| (each["workers"].as_u64().unwrap(), each["total_seconds"].as_f64().unwrap() / 60.0))
        .collect();
    assert_eq!(totals, [(1, 65.0), (2, 38.0), (3, 38.0)]);
    assert_eq!(plan["critical_path"]["tasks"], json!(["LONG", "LAST"]));
    assert_eq!(plan["lower_bound_seconds"], 38.0 * 60.0);
    assert_eq!(plan["schedules"]["dependencies_seconds"], 38.0 * 60.0);
    assert_eq!(plan["levels"][0]["assignments"][0]["task"], "LONG");
    assert_eq!(plan["levels"][1]["foreground"], json!(["PERSON"]));
    let commands: Vec<&str> =
        data["commands"].as_array().unwrap().iter().map(|each| each["command"].as_str().unwrap()).collect();
    for command in
        ["mkdir -p 'a' && echo LONG > 'a/long.txt'", "test -e 'b/last.txt'", "echo prepared", "true && echo fine"]
    {
        assert!(commands.contains(&command), "{command} is not in {commands:?}");
    }
    assert!(!commands.iter().any(|command| command.contains("person")), "nobody runs what waits for a person");
}

#[test]
fn a_dry_run_of_a_run_that_is_under_way_says_what_is_done() {
    let repo = Repo::new();
    repo.graph(
        "x",
        &[simple("A", 1, "a.txt"), with(simple("B", 2, "b.txt"), json!({ "run": "test -e go && echo b > b.txt" }))],
    );
    repo.run(&["run"]).code(3);
    let before = repo.everything();
    repo.run(&["run", "--dry-run"]).code(0).says("not done again: A.").does_not_say("echo A > 'a.txt'");
    assert_eq!(repo.run(&["run", "--dry-run", "--json"]).code(0).json()["done"], json!(["A"]));
    assert_eq!(repo.everything(), before);
    repo.run(&["skip", "B", "--reason", "not needed"]).code(0);
    repo.run(&["run"]).code(0);
    repo.run(&["run", "--dry-run"]).code(0).says("a run would launch nothing");
}

#[test]
fn worker_assignments_say_what_the_run_does() {
    let repo = planned();
    // Each attempt notes what it was given; LONG waits for the others, so that both workers are needed.
    let note = "env | grep ^MAHABHARATHA_ > \"$MAHABHARATHA_SPEC_DIR/env-$MAHABHARATHA_TASK_ID\"";
    let noting = |id: &str, minutes: f64, more: &str| {
        let file = format!("a/{}.txt", id.to_lowercase());
        let run = format!("{note}; {more}; mkdir -p a && echo {id} > {file}");
        with(simple(id, 1, &file), json!({ "estimate_minutes": minutes, "run": run }))
    };
    repo.graph(
        "x",
        &[
            noting("SHORT", 5.0, "true"),
            noting("LONG", 30.0, "while [ ! -e \"$MAHABHARATHA_SPEC_DIR/env-SHORT\" ]; do sleep 0.05; done"),
            noting("MIDDLE", 10.0, "true"),
        ],
    );
    repo.run(&["run"]).code(0);
    let assignments: Value = serde_json::from_str(&repo.read(".gsd/specs/x/worker-assignments.json")).unwrap();
    let workers = assignments["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2);
    let planned = |worker: usize| -> Vec<&str> {
        workers[worker]["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
    };
    assert_eq!((planned(0), planned(1)), (vec!["LONG"], vec!["MIDDLE", "SHORT"]));
    assert_eq!(workers[0]["tasks"][0], json!({ "id": "LONG", "level": 1, "estimate_minutes": 30.0 }));
    // The first free worker takes the next task, and finds the file as written.
    for task in ["LONG", "MIDDLE", "SHORT"] {
        let env = repo.read(&format!(".gsd/specs/x/env-{task}"));
        let value = |name: &str| env.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap();
        let entry = &workers[value("MAHABHARATHA_WORKER_ID").parse::<usize>().unwrap()];
        let given: Vec<String> = entry["ports"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(value("MAHABHARATHA_WORKER_ID"), entry["id"].to_string());
        assert_eq!(value("MAHABHARATHA_BRANCH"), entry["branch"].as_str().unwrap());
        assert_eq!(
            value("MAHABHARATHA_WORKTREE"),
            repo.join(entry["worktree"].as_str().unwrap()).display().to_string()
        );
        assert_eq!(
            (value("MAHABHARATHA_PORTS"), value("MAHABHARATHA_PORT")),
            (given.join(",").as_str(), given[0].as_str())
        );
    }
    let mut ports: Vec<u64> = workers
        .iter()
        .flat_map(|entry| entry["ports"].as_array().unwrap())
        .map(|port| port.as_u64().unwrap())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 4, "each worker has its own");
    assert!(ports.iter().all(|port| (49300..=49400).contains(port)), "{ports:?}");
}
