//! Tasks that a session does itself: `task start|next|claim|prompt|verify|complete|fail|list`, and `merge` between them.

use std::fs::{self, File, FileTimes};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::agents::held;
use crate::support::{Background, Ran, Repo, pass_over, simple, task, with};

/// What one session calls.
pub struct Session<'a>(pub &'a Repo, pub &'a str);

impl Session<'_> {
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.env("CLAUDE_CODE_SESSION_ID", self.1);
        command
    }

    pub fn next(&self) -> Value {
        self.run(&["task", "next", "--json"]).json()
    }

    /// Where the task is to be done.
    pub fn claim(&self, task: &str) -> String {
        let claimed = self.run(&["task", "claim", task, "--json"]).code(0).json();
        claimed["claimed"][0]["worktree"].as_str().unwrap().to_string()
    }

    /// Writes a file there.
    pub fn write(&self, worktree: &str, path: &str, text: &str) {
        fs::write(format!("{worktree}/{path}"), text).unwrap();
    }

    pub fn does(&self, task: &str, path: &str, text: &str) -> Ran {
        let worktree = self.claim(task);
        self.write(&worktree, path, text);
        self.run(&["task", "complete", task, "--json"])
    }
}

/// A task that a session is to do: it has no `run`.
pub fn plain(id: &str, level: u32, file: &str) -> Value {
    let mut task = simple(id, level, file);
    task.as_object_mut().unwrap().remove("run");
    task
}

pub fn foreground(id: &str, level: u32, file: &str) -> Value {
    with(plain(id, level, file), json!({ "foreground": true }))
}

/// Ages the session's lease until it has expired.
pub fn falls_silent(repo: &Repo, session: &str) {
    let path = repo.join(&format!(".git/mahabharatha/x/sessions/{session}.json"));
    let long_ago = SystemTime::now() - Duration::from_secs(100_000);
    File::options().write(true).open(path).unwrap().set_times(FileTimes::new().set_modified(long_ago)).unwrap();
}

#[test]
fn a_session_runs_a_feature_to_its_end() {
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: clean, command: '! grep bad *.txt', timeout: 60 }]\n");
    let b = with(plain("B", 1, "b.txt"), json!({ "verification": { "command": "grep -q good b.txt" } }));
    let c = with(plain("C", 2, "c.txt"), json!({ "dependencies": ["A"] }));
    repo.graph("x", &[plain("A", 1, "a.txt"), b, c]);
    let one = Session(&repo, "one");
    one.run(&["task", "next"]).code(6).says("there has been no run of x");
    one.run(&["task", "start", "-w", "2"]).code(0).says("main passed its gates").says("claim A, B");

    // If one is not there, none is given, and programs get the error as they do from every command.
    for verb in [
        &["claim", "A", "Z"][..],
        &["prompt", "Z"],
        &["verify", "Z"],
        &["complete", "Z"],
        &["fail", "Z", "--reason", "no"],
    ] {
        let ran = one.run(&[&["task", "--json"], verb].concat()).code(2);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!((&error["kind"], &error["message"]), (&json!("usage"), &json!("x has no task Z")), "{verb:?}");
    }
    // What is not its turn is refused; what is free is given.
    let claims = one.run(&["task", "claim", "A", "C", "--json"]).code(1).json();
    assert_eq!(claims["claimed"][0]["task"], "A");
    let refused: Vec<&str> =
        claims["refused"].as_array().unwrap().iter().map(|refusal| refusal["why"].as_str().unwrap()).collect();
    assert_eq!(refused, ["it is of level 2, and level 1 is not merged yet"]);
    one.run(&["task", "claim", "A"]).code(0);
    let next = one.next();
    assert_eq!((&next["step"], &next["tasks"], &next["in_progress"]), (&json!("claim"), &json!(["B"]), &json!(["A"])));

    // While it lives, no other session can claim.
    repo.run(&["run"]).code(8).says("held by another session (one)").says("mahabharatha stop");
    let two = Session(&repo, "two");
    two.run(&["task", "claim", "B"]).code(8);
    two.run(&["merge"]).code(8);
    two.run(&["task", "start"]).code(8);
    repo.run(&["cleanup"]).code(8);
    assert_eq!(repo.status()["status"], "running");

    let worktree = claims["claimed"][0]["worktree"].as_str().unwrap();
    one.run(&["task", "prompt", "A"])
        .code(0)
        .says(worktree)
        .says("# Task: ")
        .says("mahabharatha task verify A --feature x");
    one.write(worktree, "a.txt", "a\n");
    let done = one.run(&["task", "complete", "A", "--json", "--decision", "all lower case"]).code(0).json();
    assert_eq!((&done["result"], done["commit"].as_str().map(str::len)), (&json!("completed"), Some(40)));
    assert!(repo.read(".gsd/STATE.md").contains("A: all lower case"));

    // One retry, told what went wrong.
    let failed = one.does("B", "b.txt", "nothing\n").code(1).json();
    assert_eq!((&failed["result"], &failed["tries_left"]), (&json!("failed"), &json!(1)));
    let worktree = one.claim("B");
    one.run(&["task", "prompt", "B"]).says("grep -q good b.txt").says("The Previous Attempt Failed");
    one.write(&worktree, "b.txt", "good and bad\n");
    one.run(&["task", "complete", "B"]).code(0);

    // A gate fails: the task that is to blame fixes it, from staging.
    assert_eq!(one.next()["step"], "merge");
    one.run(&["merge", "--level", "1"]).code(4).says("gate clean failed").says("task next -f x");
    let next = one.next();
    assert_eq!((&next["step"], &next["tasks"]), (&json!("fix"), &json!(["B"])));
    assert!(next["why"].as_str().unwrap().contains("b.txt:good and bad"));
    let worktree = one.claim("B");
    assert_eq!(fs::read_to_string(format!("{worktree}/a.txt")).unwrap(), "a\n");
    one.write(&worktree, "b.txt", "good\n");
    one.run(&["task", "complete", "B"]).code(0);
    one.run(&["merge", "--level", "1"]).code(0).says("x: level 1 is merged");

    assert_eq!(one.next()["tasks"], json!(["C"]));
    one.does("C", "c.txt", "c\n").code(0);
    one.run(&["merge", "--level", "2"]).code(0).says("x is completed");
    assert_eq!(one.next()["step"], "completed");
    assert_eq!(repo.status()["mode"], "task");
    let subjects = ["Level 2: x", "feat(C): Make c.txt", "Level 1: x", "fix(B): Make b.txt", "feat(B): Make b.txt"];
    // Commits of one second come in any order otherwise.
    let log = repo.git(&["log", "--topo-order", "--format=%s", "-5", "main"]);
    assert_eq!(log.lines().collect::<Vec<_>>(), subjects);
    for (file, text) in [("a.txt", "a\n"), ("b.txt", "good\n"), ("c.txt", "c\n")] {
        assert_eq!(repo.read(file), text);
    }
    assert!(!repo.exists(".mahabharatha/worktrees/x/worker-0"));
    repo.run(&["run"]).code(0).says("is completed");
}

#[test]
fn what_is_not_the_tasks_own_is_not_taken() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 1, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "a\n");
    one.write(&worktree, "b.txt", "of another\n");
    let check = one.run(&["task", "verify", "A", "--json"]).code(1).json();
    assert_eq!(check["strays"], json!(["b.txt"]));
    let failed = one.run(&["task", "complete", "A", "--json"]).code(1).json();
    assert_eq!((&failed["strays"], &failed["result"]), (&json!(["b.txt"]), &json!("failed")));
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A/1:b.txt"), "of another");
    assert!(!repo.exists("b.txt"), "the main checkout was touched");
    // Looking ends nothing.
    let worktree = one.claim("A");
    one.run(&["task", "verify", "A"]).code(1).says("missing: a.txt, which the task must create");
    one.write(&worktree, "a.txt", "a\n");
    one.run(&["task", "verify", "A"]).code(0).says("its verification passes");
    one.run(&["task", "complete", "A"]).code(0);
    one.run(&["task", "complete", "A"]).code(0).says("A is completed");
    one.run(&["task", "fail", "A", "--reason", "late"]).code(6).says("A is not held by this session");
}

#[test]
fn a_level_of_which_nothing_is_done_has_failed_and_one_of_which_something_is_is_blocked() {
    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 1, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    one.run(&["task", "claim", "A", "B"]).code(0);
    one.run(&["task", "fail", "A", "--reason", "no way", "--blocked"]).code(0);
    one.run(&["task", "fail", "B", "--reason", "once"]).code(0).says("1 left");
    let worktree = one.claim("B");
    one.run(&["task", "prompt", "B"]).says("once");
    one.run(&["task", "fail", "B", "--reason", "twice"]).code(0).says("it is blocked now");
    one.run(&["task", "claim", "B"]).code(1).says("it is blocked");
    one.run(&["task", "next"]).code(1).says("failed").says("A: no way").says("B: twice");
    repo.run(&["retry", "B"]).code(0);
    one.claim("B");
    one.write(&worktree, "b.txt", "b\n");
    one.run(&["task", "complete", "B"]).code(0);
    one.run(&["task", "next"]).code(3).says("only blocked tasks are left: A");
    one.run(&["merge", "--level", "1"]).code(3);
}

#[test]
fn what_a_session_that_fell_silent_held_is_kept_and_done_by_others() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 1, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "half\n");
    repo.run(&["run"]).code(8);
    falls_silent(&repo, "one");
    assert_eq!(repo.status()["status"], "paused");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A/1:a.txt"), "half");
    assert_eq!(repo.task("A")["attempt"], 2);
    one.run(&["task", "complete", "A"]).code(6).says("not held by this session");
}

#[test]
fn stop_ends_a_session_and_keeps_what_it_did() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 1, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "half\n");
    repo.run(&["debug"]).code(0).says("x: running").says("session one: runs the tasks").does_not_say("is gone");
    repo.run(&["stop"]).code(0).says("x is stopped; its work is kept");
    repo.run(&["debug"]).code(0).does_not_say("session one");
    one.run(&["task", "complete", "A"]).code(6).says("not held by this session");
    repo.run(&["stop"]).code(0).says("nothing runs for x");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A/1:a.txt"), "half");
}

#[test]
fn a_session_learns_which_tasks_are_not_for_subagents() {
    let repo = Repo::new();
    repo.graph("x", &[foreground("A", 1, "a.txt"), plain("B", 1, "b.txt")]);
    let session = Session(&repo, "s1");
    let next = session.run(&["task", "start", "--json"]).code(0).json();
    assert_eq!((&next["tasks"], &next["foreground"]), (&json!(["A", "B"]), &json!(["A"])));
    session.does("A", "a.txt", "A").code(0);
    assert_eq!(session.next()["foreground"], json!([]));
}

#[test]
fn the_user_does_a_foreground_task_during_the_run() {
    let repo = Repo::new();
    repo.graph("x", &[foreground("A", 1, "a.txt"), held("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    let run = repo.run_until_up(&["B"]);
    assert_eq!(repo.task_status("A"), "waiting");
    repo.run(&["status"]).says("/mahabharatha:worker A");
    let one = Session(&repo, "one");
    let worktree = one.claim("A");
    assert_eq!(repo.task_status("A"), "in_progress");
    Session(&repo, "two").run(&["task", "claim", "A"]).code(1).says("it is in progress");
    repo.let_go("B");
    repo.wait_until("only the person is at it", || repo.task_status("B") == "completed");
    let held = "A: held by session one, and the run waits for it";
    let complete = "mahabharatha task complete -f x A";
    repo.run(&["status"]).says(held).says(complete);
    let problem = repo.status()["problems"][0].clone();
    assert_eq!((&problem["kind"], &problem["commands"][0]), (&json!("person"), &json!(complete)));
    assert_eq!(problem["since"], repo.task("A")["started_at"]);
    let cause = repo.run(&["debug", "--json"]).code(0).json()["hypotheses"].clone();
    let is_it =
        |one: &Value| one["code"] == "waits_for_person" && one["command"] == "mahabharatha task complete A -f x";
    assert!(cause.as_array().unwrap().iter().any(is_it), "{cause:#}");
    one.write(&worktree, "a.txt", "by hand\n");
    one.run(&["task", "complete", "A"]).code(0);
    run.wait().code(0).says("x is completed").says(&format!("{held}: that session ends it with `{complete}`"));
    assert_eq!(repo.read("a.txt"), "by hand\n");
}

#[test]
fn a_foreground_task_can_be_done_when_nothing_runs_any_more() {
    let repo = Repo::new();
    repo.graph("x", &[foreground("A", 1, "a.txt"), simple("B", 1, "b.txt")]);
    repo.run(&["run"]).code(3).says("/mahabharatha:worker A");
    let one = Session(&repo, "one");
    one.run(&["task", "claim", "A"]).code(0).says("work there, then: mahabharatha task complete -f x A");
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "by hand\n");
    // A run that is begun meanwhile waits for it.
    let run = repo.spawn(&["run"]);
    repo.wait_until("the run is on", || repo.status()["status"] == "running");
    one.run(&["task", "complete", "A"]).code(0);
    run.wait().code(0);
    assert_eq!(repo.read("a.txt"), "by hand\n");
}

#[test]
fn a_stopped_run_leaves_the_user_the_claimed_task() {
    let repo = Repo::new();
    repo.graph("x", &[foreground("A", 1, "a.txt"), held("B", 1, "b.txt")]);
    let run = repo.run_until_up(&["B"]);
    let one = Session(&repo, "one");
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "by hand\n");
    run.signal("INT");
    run.wait().code(130);
    one.run(&["task", "complete", "A"]).code(0);
    repo.let_go("B");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a.txt"), "by hand\n");
}

#[test]
fn eight_processes_that_claim_and_complete_at_once_do_each_task_once() {
    let repo = Repo::new();
    let ids: Vec<String> = (0..12).map(|n| format!("T-{n:02}")).collect();
    let tasks: Vec<Value> = ids.iter().map(|id| foreground(id, 1, &format!("{id}.txt"))).collect();
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(3);
    let done: Vec<Vec<String>> = std::thread::scope(|scope| {
        let start = |process: usize| {
            let (repo, ids) = (&repo, &ids);
            scope.spawn(move || {
                let name = format!("session-{process}");
                let session = Session(repo, &name);
                let mut done = Vec::new();
                for turn in 0..ids.len() {
                    let id = &ids[(turn + process * 5) % ids.len()];
                    let claim = session.run(&["task", "claim", id, "--json"]);
                    if claim.code != 0 {
                        assert_eq!(claim.code, 1, "{}", claim.stderr);
                        continue;
                    }
                    let worktree = claim.json()["claimed"][0]["worktree"].as_str().unwrap().to_string();
                    session.write(&worktree, &format!("{id}.txt"), &name);
                    session.run(&["task", "complete", id]).code(0);
                    done.push(id.clone());
                }
                done
            })
        };
        let threads: Vec<_> = (0..8).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = done.concat();
    all.sort();
    assert_eq!(all, ids, "each task is done once, by whoever got it");
    repo.run(&["run"]).code(0);
    for (process, done) in done.iter().enumerate() {
        for id in done {
            assert_eq!(repo.read(&format!("{id}.txt")), format!("session-{process}"));
            assert_eq!(repo.task(id)["attempt"], 1);
        }
    }
}

#[test]
fn a_completion_that_is_killed_leaves_the_task_held() {
    let repo = Repo::new();
    let slow = "touch \"$MAHABHARATHA_SPEC_DIR/verifying\"; test -e \"$MAHABHARATHA_SPEC_DIR/go\" || sleep 60";
    repo.graph("x", &[with(plain("A", 1, "a.txt"), json!({ "verification": { "command": slow } }))]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.txt", "a\n");
    for signal in ["KILL", "INT"] {
        let completing = Background::start(one.command(&["task", "complete", "A"]));
        repo.wait_for(".gsd/specs/x/verifying");
        completing.signal(signal);
        completing.wait();
        fs::remove_file(repo.join(".gsd/specs/x/verifying")).unwrap();
        assert_eq!(repo.task_status("A"), "in_progress");
        for (pid, _) in crate::support::processes_in(&repo.path()) {
            // No process is left to end what the killed one started.
            crate::agents::kill(pid);
        }
    }
    repo.write(".gsd/specs/x/go", "");
    one.run(&["task", "complete", "A"]).code(0);
    one.run(&["merge"]).code(0);
    assert_eq!(repo.read("a.txt"), "a\n");
}

#[test]
fn a_session_has_a_name_that_leads_nowhere() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    repo.run(&["task", "start", "--session", "../../evil"]).code(2).says("is not a valid session name");
    assert_eq!(repo.refs().iter().filter(|name| name.contains("mahabharatha")).count(), 0);
    repo.run(&["task", "claim", "A"]).code(6).says("there has been no run of x");
    repo.run(&["task", "claim", "not an id"]).code(2);
}

/// As in a container that a shell outside of it started.
#[cfg(target_os = "linux")]
#[test]
fn who_has_no_login_session_still_has_a_name() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    let apart = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let may = Command::new("unshare").args(apart).arg("true").output();
    if !may.as_ref().is_ok_and(|output| output.status.success()) {
        return pass_over(&format!("no namespace of processes can be made here: {may:?}"));
    }
    let inside = |args: &[&str]| {
        let ours = repo.command(args);
        let mut command = Command::new("unshare");
        command.args(apart).arg(ours.get_program()).args(args).current_dir(repo.path());
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ran::of(command.output().unwrap())
    };
    inside(&["task", "start"]).code(0);
    inside(&["task", "claim", "A"]).code(0);
    assert_eq!(repo.task("A")["session"], "login-0");
}
