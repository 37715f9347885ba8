//! Readers of a run's output that stop reading, or go away: the run does not depend on them.

use std::fs;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::agents::held;
use crate::support::{Background, Repo, simple, with};
use crate::terminal::Terminal;

/// A pipe that is full already, so that the first write to it never returns.
pub fn full_pipe() -> (io::PipeReader, Stdio) {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&vec![b'.'; 64 << 10]).unwrap();
    (reader, Stdio::from(writer))
}

fn run_with_full_stderr(repo: &Repo) -> (io::PipeReader, Background) {
    let (reader, stderr) = full_pipe();
    let mut command = repo.command(&["run"]);
    command.stderr(stderr).stdout(Stdio::null()).stdin(Stdio::null());
    (reader, Background::spawn(command))
}

#[test]
fn a_reader_that_stops_reading_does_not_hold_up_a_run() {
    let repo = Repo::new();
    repo.config("quality_gates: [ { name: there, command: 'true' } ]\n");
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    let (_unread, mut run) = run_with_full_stderr(&repo);
    repo.wait_until("the end of the run", || repo.status()["status"] == "completed");
    repo.run(&["stop", "--force"]).code(0);
    assert_eq!(repo.status()["status"], "completed");
    // What is left is to print the last words: a signal ends that.
    assert!(run.is_running());
    run.signal("INT");
    run.wait();
}

#[test]
fn warnings_that_are_not_read_hold_up_no_run() {
    let repo = Repo::new();
    // The graph gives a warning before the run starts, the task list one while it is driven.
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "depends_on": [] }))]);
    fs::create_dir_all(repo.home().join(".claude")).unwrap();
    fs::write(repo.home().join(".claude/tasks"), "").unwrap();
    let (_unread, run) = run_with_full_stderr(&repo);
    repo.wait_until("the end of the run", || repo.status()["status"] == "completed");
    repo.run(&["stop", "--force"]).code(0);
    assert_eq!(repo.status()["status"], "completed");
    run.signal("INT");
    run.wait();
}

#[test]
fn a_run_whose_warnings_are_not_read_can_be_stopped_by_force() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    fs::create_dir_all(repo.home().join(".claude")).unwrap();
    fs::write(repo.home().join(".claude/tasks"), "").unwrap();
    let (_unread, run) = run_with_full_stderr(&repo);
    repo.wait_until_up(&["A"]);
    repo.run(&["stop", "--force"]).code(0);
    assert_eq!(run.wait().code, 130);
    assert_eq!(repo.status()["status"], "paused");
}

#[test]
fn a_run_whose_output_is_not_read_can_be_stopped() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let (_unread, run) = run_with_full_stderr(&repo);
    repo.wait_until_up(&["A"]);
    run.signal("INT");
    assert_eq!(run.wait().code, 130);
    assert_eq!(repo.status()["status"], "paused");
}

#[test]
fn a_terminal_that_is_closed_stops_the_run_in_good_order() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let terminal = Terminal::open(&repo, "run --plain", &[]);
    repo.wait_until_up(&["A"]);
    terminal.wait_for(&repo, "A  Make a.txt");
    terminal.close();
    let is_over = || repo.read(".git/mahabharatha/x/events.jsonl").contains("\"event\":\"job_ended\"");
    repo.wait_until("the agent's end", is_over);
    repo.run(&["stop"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A/1:a.txt"), "half");
    let left = Command::new("pgrep").args(["-f", repo.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes run on");
}

#[test]
fn a_replaced_decision_reaches_no_later_task_but_a_users_note_does() {
    let repo = Repo::new();
    let says = |text: &str| format!("printf '%s\\n' 'DECISION: {text}'");
    let first = with(
        simple("A", 1, "a.txt"),
        json!({ "run": format!("echo A > a.txt; {}", says("use $MAHABHARATHA_ATTEMPT").replace('\'', "\"")) }),
    );
    let fails = with(simple("B", 1, "b.txt"), json!({ "run": "exit 3" }));
    repo.graph("x", &[first, fails, with(simple("C", 2, "c.txt"), json!({ "run": "cat > c.txt" }))]);
    repo.run(&["run"]).code(3);
    assert!(repo.read(".gsd/STATE.md").contains("- A: use 1"), "{}", repo.read(".gsd/STATE.md"));
    let noted = repo.read(".gsd/STATE.md").replace("- A: use 1\n", "- A: use 1\n- Keep it small.\n");
    repo.write(".gsd/STATE.md", &noted);
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["skip", "B", "--reason", "not needed"]).code(0);
    repo.run(&["run"]).code(0);
    let prompt = repo.tree("main")["c.txt"].clone();
    assert!(prompt.contains("A: use 2") && prompt.contains("Keep it small."), "{prompt}");
    assert!(!prompt.contains("A: use 1") && !repo.read(".gsd/STATE.md").contains("A: use 1"), "{prompt}");
}
