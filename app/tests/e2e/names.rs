//! Names on the command line: features and tasks that are there, and such as are not.

use serde_json::{Value, json};

use crate::agents::doing;
use crate::support::{Repo, simple, with};

fn two_features() -> Repo {
    let repo = Repo::new();
    repo.graph("login", &[simple("AUTH-1", 1, "a.txt")]);
    repo.graph("search", &[with(simple("FIND-1", 1, "f.txt"), json!({ "run": "exit 3" }))]);
    std::fs::remove_file(repo.join(".gsd/.current-feature")).unwrap();
    repo
}

#[test]
fn a_feature_that_is_not_there_is_answered_with_those_that_are() {
    let repo = two_features();
    for args in [
        &["run", "lgoin"][..],
        &["run", "lgoin", "--dry-run"],
        &["status", "lgoin"],
        &["logs", "lgoin"],
        &["stop", "lgoin"],
        &["cleanup", "lgoin"],
        &["merge", "-f", "lgoin"],
        &["retry", "A", "-f", "lgoin"],
        &["debug", "-f", "lgoin"],
        &["doctor", "-f", "lgoin"],
        &["task", "next", "-f", "lgoin"],
        &["design", "lgoin", "--validate-only"],
    ] {
        repo.run(args)
            .code(2)
            .says("there is no feature lgoin")
            .says("Did you mean `login`? The features are: login, search.");
    }
    assert!(!repo.exists(".git/mahabharatha/lgoin"), "nothing was begun");
    // One that is new is planned.
    repo.run(&["plan", "lgoin", "--describe", "x", "--agent", "none"]).code(0);
}

#[test]
fn a_feature_that_is_not_there_is_refused_whatever_names_it() {
    let repo = two_features();
    let readers = [&["status"][..], &["logs"], &["run"], &["estimate"], &["task", "next"]];
    for (variable, args) in ["ZERG_FEATURE", "MAHABHARATHA_FEATURE"].iter().flat_map(|v| readers.map(|args| (v, args)))
    {
        repo.run_with(args, &[(variable, "lgoin")])
            .code(2)
            .says(&format!("there is no feature lgoin (from {variable})"))
            .says("Did you mean `login`?");
    }
    repo.run_with(&["doctor"], &[("ZERG_FEATURE", "lgoin")])
        .code(0)
        .says("there is no feature lgoin (from ZERG_FEATURE)");
    repo.write(".gsd/.current-feature", "lgoin\n");
    for args in readers {
        repo.run(args).code(2).says("there is no feature lgoin (from .gsd/.current-feature)");
    }
    repo.run(&["status", "login"]).code(0);
    // One that is new is planned.
    repo.run(&["plan", "--describe", "x", "--agent", "none"]).code(0);
    repo.run(&["status"]).code(0).says("lgoin");
}

#[test]
fn a_mistyped_name_leaves_no_feature_behind() {
    let repo = Repo::new();
    repo.run(&["run", "typo"]).code(6).says("typo has no task graph");
    assert!(!repo.exists(".git/mahabharatha/typo") && !repo.exists(".gsd/specs/typo"));
    assert_eq!(repo.run(&["list", "--json"]).code(0).json()["features"], json!([]));
}

#[test]
fn cleanup_of_a_feature_that_never_was_is_an_error_even_if_there_is_none() {
    let repo = Repo::new();
    for args in [&["cleanup", "typo"][..], &["cleanup", "typo", "--dry-run"], &["cleanup", "-f", "typo", "--force"]] {
        repo.run(args).code(2).says("there is no feature typo").says("There are no features.");
    }
    repo.run_with(&["cleanup"], &[("ZERG_FEATURE", "typo")]).code(2).says("(from ZERG_FEATURE)");
    assert!(!repo.exists(".git/mahabharatha/typo"), "nothing was begun");
    repo.write(".git/mahabharatha/typo/planning.jsonl", "");
    let would = repo.run(&["cleanup", "typo", "--dry-run"]).code(0);
    would.says("would remove the feature typo, for which nothing was written");
    repo.run(&["cleanup", "typo"]).code(0).says("removed the feature typo, for which nothing was written");
    repo.run(&["cleanup", "typo"]).code(0).says("there is nothing to remove");
}

#[test]
fn every_command_that_is_shown_names_its_feature() {
    const RETRY: &str = "`mahabharatha retry -f search FIND-1`";
    let repo = two_features();
    repo.write(".gsd/.current-feature", "login\n");
    repo.run(&["run", "search"]).code(3).says(RETRY).says("Then `mahabharatha run search`");
    repo.run(&["status", "search"]).code(0).says(RETRY);
    assert!(repo.read(".gsd/STATE.md").contains(RETRY));
    repo.run(&["retry", "-f", "search", "LOGIN-1"]).code(2).says("search has no task LOGIN-1");
}

#[test]
fn blocked_tasks_are_listed_with_whole_commands() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let tasks: Vec<_> = (1..=7).map(|task| doing(&format!("A-{task}"), 1, &format!("a{task}"), "exit 1")).collect();
    repo.graph("x", &tasks);
    repo.run(&["run"])
        .code(3)
        .says("A-5 is blocked: The agent failed")
        .says("… 2 more: `mahabharatha status x`")
        .says("hint: Fix the causes (`mahabharatha debug -f x` says how), then `mahabharatha retry -f x --all`")
        .says("`mahabharatha skip -f x TASK --reason TEXT`");
}

#[test]
fn the_feature_is_an_argument_of_whatever_is_about_one() {
    let repo = two_features();
    repo.run(&["run", "search"]).code(3);
    for (args, what) in [
        (&["status", "search"][..], "search: blocked"),
        (&["status", "login"], "login: designed, not run yet"),
        (&["logs", "search"], "FIND-1"),
        (&["stop", "search"], "nothing runs for search"),
        (&["cleanup", "search", "--dry-run"], "worker-0"),
    ] {
        repo.run(args).code(0).says(what);
    }
    assert_eq!(repo.run(&["status", "search", "--line", "--json"]).code(0).json()["feature"], "search");
    repo.run(&["cleanup", "search", "--all"]).code(2).says("cannot be used with");
    repo.run(&["status", "search", "-f", "login"]).code(2).says("two features are named");
}

#[test]
fn a_task_that_is_not_there_is_answered_with_those_that_are() {
    let repo = two_features();
    repo.run(&["run", "search"]).code(3);
    for args in [&["logs", "--task", "FIN-1"][..], &["logs", "--follow", "--task", "FIN-1"], &["debug", "FIN-1"]] {
        repo.run(args).code(2).says("search has no task FIN-1").says("Did you mean `FIND-1`? The tasks are: FIND-1.");
    }
    repo.run(&["logs", "--task", "../FIND-1"]).code(2).says("has no task ../FIND-1");
    for args in
        [&["retry", "FIN-1"][..], &["skip", "FIN-1", "--reason", "r"], &["skip", "FIND-1", "FIN-1", "--reason", "r"]]
    {
        repo.run(args).code(2).says("error: search has no task FIN-1").says("hint: Did you mean `FIND-1`?");
        let told = repo.run(&[args, &["--json"]].concat()).code(2).stderr;
        let error: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&error["code"], &error["message"]), (&json!(2), &json!("search has no task FIN-1")), "{error}");
    }
    assert_eq!(repo.task_status("FIND-1"), "blocked");
}

#[test]
fn an_agent_that_is_not_there_is_refused_before_anything_starts() {
    let repo = Repo::new();
    // Each task names its own agent, so that the one asked for would never be used.
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "agent": "command" }))]);
    for args in [
        &["run", "--agent", "clade"][..],
        &["run", "--agent", "clade", "--dry-run"],
        &["run", "--agent", "clade", "--detach"],
        &["plan", "y", "--agent", "clade", "--describe", "y"],
        &["design", "x", "--agent", "clade", "--force", "--no-commit"],
        &["quick", "y", "--agent", "clade", "--yes"],
        &["estimate", "--what-if", "agent=clade"],
    ] {
        repo.run(args).code(2).says("there is no agent \"clade\"").says("Did you mean `claude`? The agents are: ");
    }
    assert!(!repo.exists(".git/mahabharatha/x/events.jsonl") && repo.refs().is_empty());
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "agent": "clade" }))]);
    repo.run(&["run"]).code(6).says("A: there is no agent \"clade\"").says("Did you mean `claude`?");
}

#[test]
fn a_level_or_worker_that_is_not_there_is_answered_with_those_that_are() {
    let repo = two_features();
    repo.run(&["run", "search"]).code(3);
    for args in [&["run", "--level", "9"][..], &["merge", "--level", "9"], &["diff", "--level", "9"]] {
        repo.run(args).code(2).says("search has no level 9").says("The levels are: 1.");
    }
    for args in [&["logs", "--worker", "99"][..], &["logs", "--follow", "--worker", "99"], &["stop", "--worker", "99"]]
    {
        repo.run(args).code(2).says("there is no worker 99").says("The workers of search are 0 to 4.");
    }
    repo.run(&["logs", "--worker", "0"]).code(0);
    // There is no run that could tell.
    repo.run(&["logs", "login", "--worker", "99"]).code(0);
}

#[test]
fn the_only_spec_is_meant_where_none_is_named() {
    let repo = Repo::new();
    repo.graph("login", &[simple("A", 1, "a.txt")]);
    std::fs::remove_file(repo.join(".gsd/.current-feature")).unwrap();
    repo.run(&["run"]).code(0).says("login is completed");
    let two = two_features();
    two.run(&["run"]).code(2).says("there are specs for login, search");
}

#[test]
fn every_feature_is_listed() {
    let repo = Repo::new();
    repo.run(&["list"]).code(0).says("mahabharatha plan <name>");
    assert_eq!(repo.run(&["list", "--json"]).code(0).json(), json!({ "features": [] }));
    let repo = two_features();
    repo.run(&["run", "search"]).code(3);
    repo.run(&["run", "login"]).code(0);
    repo.write(".gsd/specs/broken/task-graph.json", "{");
    repo.run(&["plan", "later", "--describe", "x", "--agent", "none"]).code(0);
    repo.write(".gsd/.current-feature", "search");
    let list = repo.run(&["list", "--json"]).code(0).json();
    let told: Vec<Value> = list["features"].as_array().unwrap().clone();
    let gist = |one: &Value| json!([one["feature"], one["status"], one["completed"], one["total"], one["current"]]);
    assert_eq!(
        told.iter().map(gist).collect::<Vec<_>>(),
        [
            json!(["broken", "invalid", 0, 0, false]),
            json!(["later", "planned", 0, 0, false]),
            json!(["login", "completed", 1, 1, false]),
            json!(["search", "blocked", 0, 1, true]),
        ]
    );
    assert!(told.iter().all(|one| one["created_at"].is_string() && one.get("cost_usd").is_some()), "{list}");
    assert!(told[3]["problem"].as_str().unwrap().starts_with("FIND-1: "), "{list}");
    repo.run(&["list"]).code(0).says("*  search").says("blocked").says("0/1");
}

#[test]
fn a_gate_that_is_not_there_is_an_error() {
    let repo = Repo::new();
    repo.config("agent: command\nquality_gates: [{ name: lint, command: \"true\" }]\n");
    repo.graph("x", &[simple("A", 1, "a")]);
    repo.commit("gates");
    repo.run(&["run"]).code(0);
    repo.run(&["logs", "--gate", "lint"]).code(0).says("passed");
    repo.run(&["logs", "--gate", "LINT"]).code(2).says("x has no gate LINT").says("Did you mean `lint`?");
}
