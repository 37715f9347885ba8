//! Notices: by a command, on the desktop, by the terminal's bell.

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};
use crate::terminal::Terminal;

/// A repository whose command collects notices in `notices` of the home directory.
fn telling(added: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("notify: {{ command: 'cat >> \"$HOME/notices\"' }}\n{added}"));
    repo.commit("configure");
    repo
}

fn told(repo: &Repo) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(repo.home().join("notices")).unwrap_or_default();
    let notices = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    notices.map(|notice| (notice["event"].as_str().unwrap().to_owned(), notice["task"].clone())).collect()
}

fn notice(event: &str, task: Value) -> (String, Value) {
    (event.to_owned(), task)
}

#[test]
fn a_run_tells_what_needs_or_deserves_attention() {
    let repo = telling("");
    let asks = task("B", 1, "b.txt", "echo which one; exit 4");
    let stuck = task("C", 1, "c.txt", "echo no; exit 1");
    let person = with(simple("D", 1, "d.txt"), json!({ "foreground": true }));
    repo.graph("x", &[simple("A", 1, "a.txt"), asks, stuck, person]);
    repo.run(&["run"]).code(3);
    let mut found = told(&repo);
    assert_eq!(found.pop(), Some(notice("blocked", Value::Null)), "the end of the run comes last");
    found.sort_by_key(|(_, task)| task.to_string());
    assert_eq!(found, [notice("question", json!("B")), notice("blocked", json!("C")), notice("question", json!("D"))]);

    repo.run(&["skip", "B", "C", "D", "--reason", "not needed"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!(told(&repo).last(), Some(&notice("completed", Value::Null)));
    assert_eq!(told(&repo).len(), 5, "nothing is told twice");
}

#[test]
fn gates_and_budgets_cause_notices() {
    let repo =
        telling("quality_gates: [{ name: lint, command: '! test -e a.txt' }]\nmerge: { remediation_attempts: 0 }\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(4);
    assert_eq!(told(&repo), [notice("failed", Value::Null)]);
    repo.graph("y", &[simple("A", 1, "y.txt")]);
    repo.run(&["run", "y", "--max-cost", "0"]).code(9);
    assert_eq!(told(&repo).last(), Some(&notice("budget", Value::Null)));
}

#[test]
fn a_command_that_is_still_at_work_when_the_run_ends_tells_once() {
    let repo = Repo::new();
    repo.config("notify: { command: 'cat >> \"$HOME/notices\"; sleep 0.3; echo end >> \"$HOME/ends\"' }\n");
    repo.commit("configure");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(told(&repo), [notice("completed", Value::Null)]);
    assert_eq!(std::fs::read_to_string(repo.home().join("ends")).unwrap(), "end\n");
}

#[test]
fn a_command_that_fails_or_hangs_stops_nothing() {
    let repo = Repo::new();
    repo.config("notify: { command: 'echo wrong hook; exit 7' }\n");
    repo.commit("configure");
    repo.graph("x", &[task("A", 1, "a.txt", "exit 3"), task("B", 1, "b.txt", "exit 3")]);
    let ran = repo.run(&["run"]).code(3).says("notify.command failed").says("wrong hook");
    assert_eq!(ran.stderr.matches("notify.command").count(), 1, "{}", ran.stderr);
    repo.config("notify: { command: 'sleep 1000' }\n");
    repo.graph("y", &[simple("A", 1, "y.txt")]);
    // That no process is left is checked with the repository.
    repo.run(&["run", "y"]).code(0).says("notify.command was ended after 10 seconds");
}

#[test]
fn the_command_is_one_of_the_configuration() {
    let repo = telling("");
    repo.graph("x", &[simple("A", 1, "a.txt"), task("B", 2, "b.txt", "exit 3")]);
    let plan = repo.run(&["run", "--dry-run", "--json"]).code(0).json();
    let commands = plan["commands"].as_array().unwrap();
    assert!(commands.iter().any(|command| command["where"] == "notify.command"), "{commands:?}");
    repo.run(&["run"]).code(3);
    repo.config("notify: { command: 'true' }\n");
    repo.run(&["run"]).code(9).says("notify.command");
    repo.config("notify: { on: [complted] }\n");
    repo.run(&["run"]).code(6).says("notify.on[0] must be one of completed");
}

#[test]
fn the_command_runs_in_the_sandbox() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        let script = "read line; touch \"$HOME/out\"; test -r README.md && ! cat .git/HEAD && ! touch made && echo \"$line\"; exit 9";
        repo.config(&format!("sandbox: {sandbox}\nnotify: {{ command: {}, on: [quota] }}\n", json!(script)));
        let ran = repo.run(&["notify", "--test", "--json"]).code(1).json();
        let problem = ran["problems"][0].as_str().unwrap();
        assert!(problem.contains("\"event\":\"quota\"") && problem.contains("9"), "{sandbox}: {problem}");
        assert!(!repo.exists("made") && !repo.home().join("out").exists(), "{sandbox}");
    }
}

#[test]
fn test_notices_are_sent_by_every_channel() {
    let repo = Repo::new();
    repo.run(&["notify"]).code(2).says("--test");
    repo.run(&["notify", "--test"]).code(6).says("no notices are configured");
    repo.config("notify: { bell: true, desktop: true, command: 'cat >> \"$HOME/notices\"', on: [completed, quota] }\n");
    let path = format!("{}:{}", repo.join("bin").display(), std::env::var("PATH").unwrap());
    repo.program("bin/notify-send", "printf '%s\\n' \"$@\" >> \"$HOME/shown\"");
    let sent = repo.run_with(&["notify", "--test", "--json"], &[("PATH", &path)]).code(0).json();
    assert_eq!(sent, json!({ "sent": ["completed", "quota"], "problems": [] }));
    assert_eq!(told(&repo), [notice("completed", Value::Null), notice("quota", Value::Null)]);
    let shown = std::fs::read_to_string(repo.home().join("shown")).unwrap();
    let expected = "--app-name=mahabharatha\n--\ntest: completed\na test by `mahabharatha notify --test`\n";
    assert!(shown.starts_with(expected), "{shown}");

    repo.config("notify: { bell: true, on: [quota] }\n");
    let (code, shown) = Terminal::open(&repo, "notify --test", &[]).end();
    assert_eq!((code, shown.matches('\u{7}').count()), (0, 1), "{shown:?}");
    assert!(!repo.run(&["notify", "--test"]).code(0).stderr.contains('\u{7}'), "there is no terminal");
}
