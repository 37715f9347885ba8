//! `run --detach` and `attach`: a run in the background, and processes that follow it.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::agents::{held, is_alive, kill};
use crate::support::{Background, Repo, processes_in, simple};
use crate::terminal::Terminal;

/// Starts a run in the background and returns its process.
fn detached(repo: &Repo) -> u32 {
    let started = repo.run(&["run", "--detach", "--json"]).code(0).json();
    assert_eq!(started["feature"], "x");
    u32::try_from(started["pid"].as_u64().unwrap()).unwrap()
}

/// Follows the run and waits until it says so.
fn attached(repo: &Repo) -> Background {
    let mut command = repo.command(&["attach"]);
    let seen = repo.join("attached.log");
    command.stdout(Stdio::null()).stderr(std::fs::File::create(&seen).unwrap());
    let attached = Background::spawn(command);
    repo.wait_until("it is followed", || std::fs::read_to_string(&seen).unwrap().contains("following x"));
    attached
}

fn field(pid: u32, number: usize) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(number - 3).unwrap().to_owned()
}

#[test]
fn a_detached_run_outlives_its_terminal_and_attach_ends_as_it_ends() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let program = mahabharatha_testing::program();
    let line = format!("'{}' run --detach; : > .gsd/specs/x/started; sleep 1000", program.display());
    let mut terminal = Command::new("script");
    terminal.args(["-qefc", &line, "/dev/null"]).current_dir(repo.path()).env("HOME", repo.home());
    terminal.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    repo.wait_for(".gsd/specs/x/started");
    repo.wait_until_up(&["A-1"]);
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let pid: u32 = repo.read(".gsd/specs/x/.lock").split(':').next().unwrap().parse().unwrap();
    assert_eq!((field(pid, 6), field(pid, 7)), (pid.to_string(), "0".to_owned()), "a session without a terminal");
    let attached = repo.spawn(&["attach"]);
    repo.let_go("all");
    attached.wait().code(0).says("x is completed: every level is merged");
    repo.wait_until("it is gone", || !is_alive(pid));
    repo.run(&["attach"]).code(0).says("x is not running").says("x is completed");
}

#[test]
fn stop_ends_a_detached_run_with_everything_in_it() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let pid = detached(&repo);
    repo.wait_until_up(&["A-1"]);
    let attached = attached(&repo);
    repo.run(&["stop"]).code(0).says("x is stopped");
    attached.wait().code(130);
    repo.wait_until("it is gone", || !is_alive(pid));
    assert_eq!(processes_in(&repo.path()), []);
    repo.run(&["attach"]).code(130);
}

#[test]
fn a_detached_run_that_was_killed_is_resumed() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1"), simple("B-1", 2, "b1")]);
    let pid = detached(&repo);
    repo.wait_until_up(&["A-1"]);
    let attached = attached(&repo);
    kill(pid);
    attached.wait().code(9);
    repo.run(&["attach"]).code(9).says("the process that drove it is gone").says("mahabharatha run x");
    let again = detached(&repo);
    assert_ne!(again, pid);
    let mut following = repo.command(&["attach", "--json"]);
    following.stdout(Stdio::piped()).stderr(Stdio::piped());
    let following = Background::spawn(following);
    repo.let_go("all");
    let ran = following.wait().code(0);
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["code"]), (&"end".into(), &0.into()));
    repo.wait_until("it is gone", || !is_alive(again));
}

#[test]
fn errors_of_the_start_are_those_of_run() {
    let repo = Repo::new();
    repo.run(&["run", "x", "--detach"]).code(repo.run(&["run", "x"]).code);
    repo.graph("x", &[held("A-1", 1, "a1")]);
    repo.config("no_such_key: 1\n");
    let (plain, detached_too) = (repo.run(&["run"]).code(6), repo.run(&["run", "--detach"]).code(6));
    assert_eq!(detached_too.stderr, plain.stderr);
    let (plain, detached_too) = (["run", "--json"], ["run", "--detach", "--json"]);
    assert_eq!(repo.run(&detached_too).code(6).stderr, repo.run(&plain).code(6).stderr);
    repo.config("");
    let pid = detached(&repo);
    repo.wait_until_up(&["A-1"]);
    repo.run(&["run", "--detach"]).code(8).says("mahabharatha attach x");
    repo.run(&["run"]).code(8).says("mahabharatha attach x");
    repo.let_go("all");
    repo.run(&["attach"]).code(0);
    repo.wait_until("it is gone", || !is_alive(pid));
    repo.run(&["run", "--detach"]).code(0).says("x is completed already");
    repo.run(&["run", "--detach", "--dry-run"]).code(2);
}

#[test]
fn detaching_leaves_the_run_going_and_attach_returns_its_exit_code() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), crate::agents::doing("A-2", 1, "a2", "exit 1")]);
    let pid = detached(&repo);
    repo.wait_until_up(&["A-1"]);
    let leaving = attached(&repo);
    leaving.signal("INT");
    leaving.wait().code(0);
    assert!(repo.read("attached.log").contains("x goes on"));
    assert!(is_alive(pid));
    let staying = attached(&repo);
    repo.let_go("all");
    staying.wait().code(3);
    repo.run(&["attach"]).code(3).says("x is blocked");
    repo.wait_until("it is gone", || !is_alive(pid));
}

#[test]
fn run_at_a_terminal_offers_to_follow_what_is_running() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let pid = detached(&repo);
    repo.wait_until_up(&["A-1"]);
    let mut no = Terminal::open(&repo, "run", &[]);
    no.answer(&repo, "Follow it?", "n");
    assert_eq!(no.end().0, 8);
    let mut yes = Terminal::open(&repo, "run --plain", &[]);
    yes.answer(&repo, "Follow it?", "y");
    yes.wait_for(&repo, "following x");
    repo.let_go("all");
    let (code, shown) = yes.end();
    assert_eq!(code, 0, "{shown}");
    repo.wait_until("it is gone", || !is_alive(pid));
}
