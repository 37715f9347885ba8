//! `init --agent`: an agent's notes about an existing project, good ones, bad ones and none.

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fixtures;
use crate::support::Background;

const REPORT: &str = ".gsd/INFRASTRUCTURE.md";
const INIT: [&str; 3] = ["init", "--agent", "mine"];
/// The answer that a test has put down.
const ANSWER: &str = "cat > .git/prompt; cat .git/answer";

/// A project with an agent `mine` that answers by a script.
fn with_agent(script: &str) -> Bench {
    let bench = Bench::new(fixtures::GO);
    bench.repo.write(
        ".mahabharatha/config.yaml",
        "sandbox: off\nagents: { mine: { kind: command, command: [./agent.sh] } }\n",
    );
    bench.repo.program("agent.sh", script);
    bench
}

fn answering(answer: &Value) -> Bench {
    let bench = with_agent(ANSWER);
    bench.repo.write(".git/answer", &answer.to_string());
    bench
}

fn section(report: &str) -> &str {
    report.split_once("\n## Scout notes\n").unwrap_or_else(|| panic!("{report}")).1
}

#[test]
fn notes_of_an_agent_are_a_section_of_their_own() {
    let bench = answering(&json!({
        "summary": "A shop behind an API.", "architecture": ["`cmd/` starts it."], "security": ["No limits in server.go."],
    }));
    bench.repo.run(&["init", "--agent", "mine", "--dry-run"]).code(0).does_not_say("asking");
    bench.repo.run(&INIT).code(0).says("asking mine as the scout");
    let report = bench.repo.read(REPORT);
    let notes = section(&report);
    assert!(notes.contains("the agent `mine`") && notes.contains("Summary: A shop behind an API.\n"), "{notes}");
    assert!(
        notes.contains("| architecture | \\`cmd/\\` starts it. |\n| security | No limits in server.go. |\n"),
        "{notes}"
    );
    let records = bench.repo.read(".git/mahabharatha/setup.jsonl");
    assert_eq!(records.matches(r#""phase":"init""#).count(), 1, "{records}");
    bench.repo.write(".gsd/specs/x/requirements.md", "# Feature: x\n");
    bench.repo.commit("set up");
    let status = bench.repo.run(&["status", "-f", "x", "--json"]).code(0).json();
    assert_eq!((&status["setup"]["cost_usd"], &status["cost_usd"]), (&Value::Null, &json!(0.0)), "{status}");
    bench
        .repo
        .run(&["status", "-f", "x"])
        .code(0)
        .says("Not charged to a feature yet (init --agent, features that were given up): unknown.");
    let prompt = bench.repo.read(".git/prompt");
    assert!(prompt.contains("You are a scout.") && prompt.contains("### Entry points"), "{prompt}");

    let again = bench.repo.run(&["init", "--force", "--agent", "mine", "--json"]).code(0).json();
    assert_eq!(again["scout"]["quality"], json!([]));
    assert_eq!(bench.repo.read(REPORT), report, "the same answer changes nothing");
    bench.repo.run(&["init", "--force", "--agent", "none"]).code(0).does_not_say("asking");
    assert!(!bench.repo.read(REPORT).contains("scout"), "asked anew, or gone");
}

#[test]
fn without_an_answer_init_continues_and_says_so() {
    for (script, what) in [
        ("echo why >&2; exit 3", "it ended with exit code 3 why"),
        ("echo Sorry.", "mine's answer cannot be used: it is not JSON"),
        ("echo '{\"summary\": 7}'", "summary: invalid type"),
        ("echo '{}'", "neither a `summary` nor notes"),
        ("yes | head -c 20000000", "its answer is longer than"),
    ] {
        let bench = with_agent(script);
        bench.repo.run(&INIT).code(0).says(what).says("was written without scout notes");
        let report = bench.repo.read(REPORT);
        assert!(report.contains("## Security") && !report.contains("scout"), "{script}: {report}");
        assert!(bench.repo.exists(".devcontainer/Dockerfile"), "{script}");
    }
}

#[test]
fn notes_that_mean_harm_stay_notes() {
    let evil =
        "# x\n\n## Security\n\n- a\n<script>alert(1)</script> ![i](http://e/) | b | \u{202e}\x1b[2J ``` `$(id)` <!--";
    let long: Vec<String> = (0..100).map(|number| format!("{number} {}", evil.repeat(1_000))).collect();
    let bench = answering(&json!({ "summary": evil, "architecture": long, "quality": [evil], "extra": { "a": [1] } }));
    let before = bench.repo.run(&["init"]).code(0);
    let headings = |report: &str| -> Vec<String> {
        report.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect()
    };
    let found = bench.repo.read(REPORT);
    before.does_not_say("asking");
    bench.repo.run(&["init", "--force", "--agent", "mine"]).code(0);
    let report = bench.repo.read(REPORT);
    let mut expected = headings(&found);
    expected.push("## Scout notes".to_owned());
    assert_eq!(headings(&report), expected);
    let notes = section(&report);
    assert!(notes.chars().count() < 10_000, "{}", notes.len());
    assert!(!notes.contains(['\u{202e}', '\x1b']), "{notes}");
    let bare = |sign: &str| notes.matches(sign).count() - notes.matches(&format!("\\{sign}")).count();
    assert_eq!((bare("<"), bare("["), bare("`")), (0, 0, 2), "only the agent's name is code: {notes}");
    let starts: Vec<&str> = notes.lines().filter(|line| !line.is_empty()).map(|line| &line[..2]).collect();
    assert!(starts.iter().all(|start| ["Wr", "Su", "| ", "|-"].contains(start)), "{starts:?}");
}

#[test]
fn an_agent_that_cannot_be_asked_is_an_error_before_anything_is_written() {
    let bench = with_agent(ANSWER);
    let before = bench.repo.everything();
    bench.repo.run(&["init", "--agent", "nobody"]).code(2).says("there is no agent \"nobody\"").says("mine");
    bench.repo.run(&["init", "--agent", "command"]).code(6).says("has no command");
    bench.run(&["init", "--agent", "claude"]).code(7).says("claude");
    assert_eq!(bench.repo.everything(), before);

    let empty = Bench::without_git(&[]);
    let ran = empty.run(&["init", "--yes", "--name", "x", "--language", "go", "--agent", "claude"]).code(2);
    ran.says("is for an existing project, but this is a new one").says("init --force --agent claude");
    assert!(empty.repo.everything().is_empty());
}

#[test]
fn it_is_asked_where_there_is_no_repository_too() {
    let bench = Bench::without_git(&[("main.py", "print('hello')\n"), ("answer", "{\"summary\": \"It says hello.\"}")]);
    bench.repo.write(
        ".mahabharatha/config.yaml",
        "sandbox: off\nagents: { mine: { kind: command, command: [./agent.sh] } }\n",
    );
    bench.repo.program("agent.sh", "[ \"$MAHABHARATHA_ROLE\" = scout ] && cat answer");
    bench.repo.run(&INIT).code(0);
    assert!(bench.repo.read(REPORT).contains("Summary: It says hello.\n"));
    assert!(!bench.repo.exists(".git"));

    bench.repo.program("agent.sh", "git init -q . && cat answer");
    bench.repo.run(&["init", "--force", "--agent", "mine"]).code(0);
    let records = bench.repo.read(".git/mahabharatha/setup.jsonl");
    assert!(records.contains(r#""record":"answered""#), "kept in the repository that there is now: {records}");
}

#[test]
fn ctrl_c_ends_the_agent_and_nothing_is_written() {
    let bench = with_agent("touch .git/held; while :; do sleep 0.02; done");
    let run = Background::start(bench.repo.command(&INIT));
    bench.repo.wait_for(".git/held");
    run.signal("INT");
    assert_eq!(run.wait().code, 130);
    assert!(!bench.repo.exists(REPORT) && !bench.repo.exists(".devcontainer"));
}
