//! What `debug` names beside the cause of one task: the state of the run, its surroundings, several causes together.

use std::fs;

use serde_json::{Value, json};

use crate::agents::held;
use crate::causes::{RUN, in_shell, making_a, named, serve, tried_once};
use crate::support::{Disk, Repo, simple, task, with};

#[track_caller]
fn names_the_disk(found: &Value) {
    let full = found["hypotheses"].as_array().unwrap().iter().find(|one| one["code"] == "disk_full");
    let full = full.unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(full["command"], RUN);
    assert!(full["evidence"][0].as_str().unwrap().contains("No space left on device"), "{full}");
}

#[test]
fn a_full_disk_is_named() {
    const VARIABLE: &str = "MAHABHARATHA_TEST_FULL_DISK";
    let repo = Repo::new();
    repo.config(&format!("env: {{ pass: [{VARIABLE}] }}\n"));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("specs");
    let file = repo.join(".git/full-disk");
    fs::write(&file, "from 12\n").unwrap();
    let on_it = [(VARIABLE, file.to_str().unwrap())];
    repo.run_with(&["run"], &on_it).code(9);
    names_the_disk(&repo.run_with(&["debug", "--json"], &on_it).code(0).json());
    in_shell(&repo, RUN).code(0);
}

#[test]
fn a_full_disk_of_worktrees_is_named() {
    let Some(disk) = Disk::new("2m") else { return };
    let repo = Repo::new();
    let large = disk.path().join("large");
    repo.config(&format!("worktrees: {{ dir: '{}' }}\n", disk.path().join("trees").display()));
    let fill = format!("test -e \"$HOME/served\" || head -c 8000000 /dev/zero > '{}'; echo a > a.txt", large.display());
    repo.graph("x", &[making_a(&fill, "true")]);
    repo.commit("specs");
    repo.run(&["run"]).code(9);
    names_the_disk(&repo.run(&["debug", "--json"]).code(0).json());
    fs::remove_file(&large).unwrap();
    names_the_disk(&repo.run(&["debug", "--json"]).code(0).json());
    serve(&repo);
    in_shell(&repo, RUN).code(0);
}

#[test]
fn a_common_cause_is_named_only_if_the_output_is_alike() {
    let failing = |one: &str, two: &str| {
        let making = |id: &str, file: &str, says: &str| {
            let verification = json!({ "command": format!("echo '{says}'; exit 1"), "timeout_seconds": 30 });
            with(task(id, 1, file, &format!("echo a > {file}")), json!({ "verification": verification }))
        };
        let repo = tried_once("", &[making("A", "a.txt", one), making("B", "b.txt", two)], 3);
        let found = repo.run(&["debug", "--json"]).code(0).json();
        found["hypotheses"].as_array().unwrap().iter().find(|one| one["code"] == "common_cause").cloned()
    };
    assert_eq!(failing("error: a is 1", "error: no such column"), None);
    let named = failing("error: the database is down", "error: the database is down").unwrap();
    assert_eq!(named["evidence"][0], "error: the database is down", "{named:#}");
    assert!(named["cause"].as_str().unwrap().starts_with("A, B failed in the same way"), "{named:#}");
    assert_eq!(failing("", ""), None, "an exit code alone shows nothing");
}

#[test]
fn status_says_what_to_do_about_files_of_others_and_where_to_find_other_causes() {
    let repo = tried_once("", &[making_a("echo a > a.txt; echo b > b.txt", "true")], 3);
    let way_out = "if it may change them: `mahabharatha task grant -f x A b.txt && mahabharatha run x`; otherwise";
    repo.run(&["status"]).code(0).says(way_out);
    let problem = &repo.status()["problems"][0];
    assert_eq!(
        (&problem["kind"], &problem["commands"][0]),
        (&json!("strays"), &json!("mahabharatha task grant -f x A b.txt"))
    );
    let repo = tried_once("", &[making_a("echo wrong > a.txt", "cat a.txt; grep right a.txt")], 3);
    let way_out = "fix the cause (`mahabharatha debug -f x A` says how), then `mahabharatha retry -f x A`";
    repo.run(&["status"]).code(0).says(way_out);
}

#[test]
fn a_file_of_the_user_that_is_in_the_way_is_no_lock() {
    let repo = Repo::new();
    let lock = json!({ "files": { "create": ["index.lock"] }, "verification": { "command": "true" } });
    repo.graph("x", &[with(task("A", 1, "index.lock", "echo a > index.lock"), lock)]);
    repo.commit("specs");
    repo.write("index.lock", "mine\n");
    repo.run(&["run"]).code(9);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let named = &found["hypotheses"][0];
    assert_eq!((&named["code"], &named["command"]), (&json!("checkout_in_the_way"), &json!(RUN)), "{found:#}");
}

#[test]
fn a_run_that_is_on_is_named_as_what_holds_the_feature() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let first = &found["hypotheses"][0];
    assert_eq!((&first["code"], &first["command"]), (&json!("lock"), &json!("mahabharatha stop -f x")));
    assert!(first["evidence"][0].as_str().unwrap().contains(&format!("process {}", run.pid())), "{first}");
    repo.run(&["debug"])
        .says(&format!("The run is under way (process {}); nothing is wrong with it. [lock]", run.pid()))
        .does_not_say("saved nowhere else")
        .does_not_say("worktrees/x/worker-0");
    in_shell(&repo, "mahabharatha stop -f x").code(0);
    run.wait().code(130);
    let stopped = named(&repo, "stopped");
    assert_eq!((&stopped["cause"], &stopped["command"]), (&json!("It was stopped."), &json!(RUN)));
    repo.run(&["debug"]).code(0).says("`mahabharatha run x` continues it").does_not_say("No problem was found");
}

#[test]
fn a_configuration_that_keeps_a_run_from_going_on_is_named_with_what_changed() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    repo.config("quality_gates: [{ name: lint, command: 'true' }]\n");
    let codes = repo.run(&["debug", "--json"]).code(0).json();
    assert!(codes["hypotheses"].as_array().unwrap().iter().all(|one| one["code"] != "config_changed"), "{codes:#}");
    repo.run(&["stop"]).code(0);
    run.wait().code(130);
    repo.run(&["run"]).code(9);
    let changed = named(&repo, "config_changed");
    assert_eq!(changed["command"], "mahabharatha run x --accept-config");
    assert!(changed["evidence"][0].as_str().unwrap().contains("lint"), "{changed}");
    repo.run(&["debug"]).code(0).says("or accept the change: `mahabharatha run x --accept-config`");
    repo.let_go("all");
    in_shell(&repo, changed["command"].as_str().unwrap()).code(0);
}

#[test]
fn an_attempt_that_could_not_be_carried_out_has_another_code_than_a_setup_that_failed() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    fs::remove_dir_all(repo.join(".mahabharatha/worktrees/x/worker-0")).unwrap();
    repo.let_go("all");
    run.wait().code(3);
    let found = named(&repo, "not_carried_out");
    assert_eq!((&found["command"], &found["task"]), (&json!("mahabharatha doctor"), &json!("A")));
}

#[test]
fn a_run_that_is_paused_is_named_with_the_command_that_resumes_it() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    repo.run(&["pause"]).code(0);
    let paused = named(&repo, "paused");
    assert_eq!((&paused["command"], &paused["task"]), (&json!("mahabharatha resume x"), &Value::Null));
    assert_eq!(paused["evidence"], json!(["paused by `mahabharatha pause`"]));
    in_shell(&repo, paused["command"].as_str().unwrap()).code(0);
    let codes = repo.run(&["debug", "--json"]).code(0).json();
    assert!(codes["hypotheses"].as_array().unwrap().iter().all(|one| one["code"] != "paused"), "{codes:#}");
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn a_level_that_waits_for_approval_is_named_with_the_command_that_approves_it() {
    let repo = tried_once("merge: { approval: level }\n", &[making_a("echo a > a.txt", "true")], 9);
    let waits = named(&repo, "awaits_approval");
    let tree = repo.status()["levels"][0]["awaits_approval"]["tree"].as_str().unwrap()[..10].to_owned();
    assert_eq!(waits["command"], format!("mahabharatha merge --approve={tree} --level 1 -f x"));
    assert_eq!(waits["evidence"], json!(["waits for your approval"]));
    repo.run(&["debug"]).code(0).says("[awaits_approval]");
    in_shell(&repo, waits["command"].as_str().unwrap()).code(0);
    assert_eq!(repo.run(&["debug", "--json"]).code(0).json()["hypotheses"], json!([]));
}

#[test]
fn the_timeline_and_every_cause_that_fits_are_shown() {
    let repo = tried_once("", &[making_a("echo wrong > a.txt", "false"), simple("B", 1, "b.txt")], 3);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let texts = |found: &Value| -> Vec<String> {
        let moments = found["timeline"].as_array().unwrap();
        assert!(moments.iter().all(|moment| moment["at"].is_string()), "{moments:?}");
        moments.iter().map(|moment| moment["text"].as_str().unwrap().to_owned()).collect()
    };
    let told = texts(&found);
    assert!(told.iter().any(|text| text.contains("A")) && told.iter().any(|text| text.contains("B")), "{told:?}");
    let of_a = texts(&repo.run(&["debug", "A", "--json"]).code(0).json());
    assert!(!of_a.is_empty() && of_a.iter().all(|text| !text.starts_with("B")), "{of_a:?}");
    assert_eq!((&found["base"]["branch"], &found["base"]["problem"]), (&json!("main"), &Value::Null));
    let worktrees = found["worktrees"].as_array().unwrap();
    let worktree = worktrees.iter().find(|one| one["path"].as_str().unwrap().ends_with("worker-0")).unwrap();
    assert_eq!(worktree["branch"], "refs/heads/mahabharatha/x/worker-0");
    assert_eq!((&worktree["problem"], &worktree["at_level_base"]), (&Value::Null, &json!(true)));
    repo.run(&["debug"]).code(0).says("Timeline").says("branch main: fits the run");

    repo.git(&["checkout", "-q", "--orphan", "other"]);
    repo.git(&["commit", "-q", "-m", "unrelated"]);
    repo.git(&["branch", "-f", "main", "other"]);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    assert!(found["base"]["problem"].as_str().unwrap().contains("the start of the run"), "{}", found["base"]);
    let codes: Vec<&str> =
        found["hypotheses"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["verification_failed", "base_rewritten"]);
}

#[test]
fn nothing_is_named_without_a_run_or_a_task() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let before = repo.everything();
    repo.run(&["debug"]).code(6).says("there has been no run of x").says("mahabharatha run x");
    repo.run(&["debug", "Z"]).code(6).says("there has been no run of x");
    assert!(repo.everything() == before);
    repo.run(&["run"]).code(0);
    let before = repo.everything();
    repo.run(&["debug", "Z"]).code(2).says("x has no task Z");
    assert_eq!(repo.run(&["debug", "A", "--json"]).code(0).json()["hypotheses"], json!([]));
    assert!(repo.everything() == before);
}
