//! Each slash command driven to its end, by a model that makes the calls which the command's text shows and no others.

use serde_json::json;

use crate::client::{Bench, task};
use crate::messages_api::{Api, Ask, Reply, bash};
use crate::session::{Talk, path_to_the_program};
use crate::support::{HELD, Repo, simple, with};

/// The calls of our program that stand as examples in what the person typed, with the words in capitals filled in.
pub fn examples(ask: &Ask, fill: &[(&str, &str)]) -> Vec<String> {
    let text = ask.text();
    let examples = text.split("```bash\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let calls = examples.filter(|call| call.starts_with("mahabharatha "));
    calls.map(|call| fill.iter().fold(call.to_owned(), |call, (word, value)| call.replace(word, value))).collect()
}

/// An API whose model makes the calls of the examples, one after the other, then says what the last one gave.
fn follows(fill: &'static [(&str, &str)]) -> Api {
    Api::start(move |ask| match examples(ask, fill).get(ask.turn()) {
        Some(call) => bash(call),
        None => Reply::says(&ask.last()),
    })
}

/// Asserts that the person was not asked for leave, and that no call failed.
#[track_caller]
pub fn went_well(talk: &Talk) {
    let for_leave: Vec<_> = talk.asked.iter().filter(|asked| asked["tool_name"] != "AskUserQuestion").collect();
    assert!(for_leave.is_empty(), "{for_leave:#?}");
    assert_eq!(talk.errors(), [""; 0], "{:#?}", talk.results());
}

pub fn question(text: &str) -> Reply {
    let options = ["Yes", "No"].map(|label| json!({ "label": label, "description": label }));
    let question = json!({ "question": text, "header": "Sure?", "multiSelect": false, "options": options });
    Reply::uses("AskUserQuestion", json!({ "questions": [question] }))
}

#[test]
fn status_shows_what_the_program_says_and_changes_nothing() {
    let Some(bench) = Bench::installed(follows(&[("FEATURE", "x")]), "") else { return };
    bench.repo.graph("x", &[simple("A-1", 1, "a.txt"), with(simple("B-1", 2, "b.txt"), json!({ "run": "exit 3" }))]);
    bench.repo.commit("graph");
    bench.run(&["run"]).code(3);
    let before = bench.repo.everything();
    let talk = bench.talk(&["/z:status"]);
    went_well(&talk);
    assert!(bench.repo.everything() == before, "something changed");
    let said = talk.course().pop().unwrap();
    for line in bench.run(&["status"]).code(0).says("B-1: no reason was given").stdout.lines() {
        assert!(said.contains(line), "{line:?} is not in {said}");
    }
}

#[test]
fn merge_tries_a_level_again_whose_gate_failed() {
    let Some(bench) = Bench::installed(
        follows(&[("merge --feature FEATURE", "merge --feature x --retry"), ("FEATURE", "x")]),
        "quality_gates: [ { name: late, command: 'test ! -e a.txt || test -e \"$(git rev-parse --git-common-dir)/good\"' } ]\nmerge: { remediation_attempts: 0 }\n",
    ) else {
        return;
    };
    bench.repo.graph("x", &[simple("A-1", 1, "a.txt")]);
    bench.repo.commit("graph");
    bench.run(&["run"]).code(4);
    assert!(!bench.repo.tree("main").contains_key("a.txt"));
    bench.repo.write(".git/good", "");
    let talk = bench.talk(&["/mahabharatha:merge --retry"]);
    went_well(&talk);
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
    assert_eq!(bench.repo.status()["status"], "completed");
}

#[test]
fn a_session_approves_no_level_without_the_user() {
    const APPROVE: &[(&str, &str)] = &[("merge --feature FEATURE", "merge --feature x --approve"), ("FEATURE", "x")];
    let Some(bench) = Bench::installed(follows(APPROVE), "merge: { approval: level }\n") else { return };
    bench.repo.graph("x", &[simple("A-1", 1, "a.txt")]);
    bench.repo.commit("graph");
    bench.run(&["run"]).code(9);
    let talk = bench.talk(&["/mahabharatha:merge"]);
    assert_eq!(talk.asked.len(), 1, "{:#?}", talk.asked);
    assert!(!bench.repo.tree("main").contains_key("a.txt"), "the user refused");
}

#[test]
fn stop_ends_a_run_of_another_process() {
    let Some(bench) = Bench::installed(follows(&[("FEATURE", "x")]), "") else { return };
    bench.repo.graph("x", &[with(simple("A-1", 1, "a.txt"), json!({ "run": format!("{HELD} true") }))]);
    bench.repo.commit("graph");
    let run = bench.spawn(&["run"]);
    bench.repo.wait_for(".gsd/specs/x/held");
    let talk = bench.talk(&["/mahabharatha:stop"]);
    went_well(&talk);
    run.wait().code(130);
    assert_eq!(bench.repo.status()["status"], "paused");
}

#[test]
fn retry_queues_a_blocked_task_again() {
    let Some(bench) = Bench::installed(follows(&[("FEATURE", "x"), ("retry ID", "retry A-1")]), "") else { return };
    let run = "test -e \"$MAHABHARATHA_SPEC_DIR/good\" && echo A-1 > a.txt";
    bench.repo.graph("x", &[with(simple("A-1", 1, "a.txt"), json!({ "run": run }))]);
    bench.repo.commit("graph");
    bench.run(&["run"]).code(3);
    let talk = bench.talk(&["/mahabharatha:retry A-1"]);
    went_well(&talk);
    assert_eq!(bench.repo.task_status("A-1"), "pending");
    bench.repo.write(".gsd/specs/x/good", "");
    bench.run(&["run"]).code(0);
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
}

#[test]
fn cleanup_shows_what_would_go_and_asks_before_it_goes() {
    let api = Api::start(|ask| {
        let mut calls = examples(ask, &[("FEATURE", "x")]).into_iter();
        match ask.turn() {
            2 => question("Remove them?"),
            turn @ 0..=1 => bash(&calls.nth(turn).unwrap()),
            turn => calls.nth(turn - 1).map_or(Reply::says("Done."), |call| bash(&call)),
        }
    });
    let Some(bench) = Bench::installed(api, "cleanup: { on_completion: false }\n") else { return };
    bench.repo.graph("x", &[simple("A-1", 1, "a.txt")]);
    bench.repo.commit("graph");
    bench.run(&["run"]).code(0);
    assert!(bench.repo.exists(".mahabharatha/worktrees/x/worker-0") && !bench.repo.refs().is_empty());
    let talk = bench.talk(&["/z:cleanup"]);
    went_well(&talk);
    assert_eq!(talk.course()[..4], ["→ Bash", "→ Bash", "→ AskUserQuestion", "→ Bash"]);
    assert!(!bench.repo.exists(".mahabharatha/worktrees/x/worker-0"));
    assert_eq!(bench.repo.refs(), [""; 0]);
}

#[test]
fn init_sets_an_existing_project_up() {
    let api = Api::start(|ask| match ask.turn() {
        0 => bash(&examples(ask, &[])[0]),
        1 => bash("mahabharatha doctor"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.write("package.json", "{ \"name\": \"shop\", \"scripts\": { \"test\": \"node --test\" } }\n");
    std::fs::remove_file(bench.repo.join(".mahabharatha/config.yaml")).unwrap();
    bench.repo.commit("a project");
    let talk = bench.talk(&["/mahabharatha:init"]);
    let results = talk.results();
    assert!(!talk.errors().iter().any(|error| *error == results[0]), "{results:#?}");
    assert!(talk.asked.is_empty(), "{:#?}", talk.asked);
    assert!(bench.repo.read(".mahabharatha/config.yaml").contains("npm test"), "{results:#?}");
    assert!(bench.repo.exists(".gsd/INFRASTRUCTURE.md"));
}

#[test]
fn init_creates_a_project_in_an_empty_directory_and_keeps_the_users_commands() {
    let api = Api::start(|ask| match ask.turn() {
        0 => question("Which language?"),
        1 => {
            let fill = [("NAME", "shop"), ("TEXT", "'Sells things'"), ("LANGUAGE", "python"), ("FRAMEWORK", "click")];
            bash(&examples(ask, &fill)[1])
        }
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.run(&["install", "--user"]).code(0);
    let place = Repo::empty();
    let (path, person) = (path_to_the_program(), [("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.com")]);
    let env = [[("PATH", path.as_str())].as_slice(), &person].concat();
    let talk = bench.talk_in(&place.path(), &env, &["/mahabharatha:init"]);
    went_well(&talk);
    assert!(place.read(".gsd/PROJECT.md").contains("# Project: shop"));
    assert_eq!(place.git(&["status", "--porcelain"]), "");
}

#[test]
fn kurukshetra_hands_over_to_the_orchestrator_where_a_mode_is_named() {
    let api = Api::start(|ask| {
        if !ask.is_main() {
            return if ask.turn() == 0 { ask.write("a.txt", "A-1\n") } else { Reply::says("Done.") };
        }
        ask.runs("mahabharatha kurukshetra")
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    bench.repo.commit("graph");
    let talk = bench.talk(&["/mahabharatha:kurukshetra x --mode subprocess --workers 1"]);
    went_well(&talk);
    assert_eq!(bench.repo.tree("main")["a.txt"], "A-1");
    assert_eq!(bench.repo.status()["status"], "completed");
    assert!(talk.course().pop().unwrap().contains("x is completed"), "{:#?}", talk.course());
}
