//! `sandbox --task`: a command runs on a task's work as its verification would run.

use serde_json::{Value, json};

use mahabharatha_testing::terminal::Terminal;

use crate::support::{Ran, Repo};

const SANDBOXES: [&str; 3] = ["bwrap", "landlock", "off"];

fn confined_by(sandbox: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("sandbox: {sandbox}\n"));
    repo.write(".gitignore", "*.local\n");
    repo.write("given.txt", "given\n");
    repo.commit("second");
    repo
}

fn task(id: &str, run: Option<&str>, verification: &str) -> Value {
    let mut task = json!({
        "id": id, "title": id, "level": 1, "files": { "create": [format!("{id}.txt")] }, "dependencies": [],
        "verification": { "command": verification },
    });
    if let Some(run) = run {
        task["run"] = json!(run);
    }
    task
}

fn try_on(repo: &Repo, task: &str, command: &str) -> Ran {
    repo.run(&["sandbox", "--task", task, "--", command])
}

#[test]
fn a_command_runs_on_the_commit_of_a_completed_task() {
    for sandbox in SANDBOXES {
        let repo = confined_by(sandbox);
        repo.write(".worktreeinclude", "key.local\n");
        repo.write("key.local", "secret");
        let kept = "env | grep -E '^(MAHABHARATHA_|CLAUDE_CODE_TASK)' | grep -vE '_(PORT|PORTS|JOB|WORKTREE)=' | sort";
        let seen = format!("pwd >> \"$MAHABHARATHA_WORKTREE/seen.local\"; {kept} > env.local; test -s A.txt");
        repo.graph("x", &[task("A", Some("echo a > A.txt"), &seen), task("B", Some("echo b > B.txt"), "false")]);
        repo.run(&["run"]).code(3);
        let slots = repo.join(".mahabharatha/worktrees/x");
        let of_verification = |name: &str| {
            let found = std::fs::read_dir(&slots).unwrap().flatten().map(|entry| entry.path().join(name));
            found.filter_map(|path| std::fs::read_to_string(path).ok()).next().unwrap()
        };
        let tried =
            try_on(&repo, "A", "cat A.txt key.local; test ! -e B.txt; git status --short; echo made > made.txt");
        let tried = tried.code(0).says("a\nsecretA  A.txt\n").says("A attempt 1 left");
        tried.does_not_say("made.txt");
        try_on(&repo, "A", kept).code(0).says(&of_verification("env.local"));
        if sandbox == "bwrap" {
            try_on(&repo, "A", "pwd").code(0).says(&of_verification("seen.local"));
        }
        try_on(&repo, "A", "test -n \"$MAHABHARATHA_PORT\"").code(0);
        assert!(!repo.exists("made.txt"));
        // Work that was not verified is tried in the same way.
        try_on(&repo, "B", "cat B.txt given.txt && test ! -e A.txt && exit 7").code(7).says("b\ngiven\n");
    }
}

#[test]
fn a_command_runs_in_the_worktree_of_a_task_that_is_held() {
    for sandbox in SANDBOXES {
        let repo = confined_by(sandbox);
        repo.graph("x", &[task("A", None, "test -s A.txt")]);
        repo.run(&["task", "start"]).code(0);
        repo.run(&["task", "claim", "A"]).code(0);
        let worktree = repo.join(".mahabharatha/worktrees/x/worker-0");
        std::fs::write(worktree.join("A.txt"), "a\n").unwrap();
        let link = std::fs::read_to_string(worktree.join(".git")).unwrap();
        let tried = try_on(&repo, "A", "git status --short && echo more >> A.txt");
        // Without a sandbox a verification sees the worktree's own index.
        tried.code(0).says(if sandbox == "off" { "?? A.txt" } else { "A  A.txt" }).says("stays there");
        assert_eq!(std::fs::read_to_string(worktree.join("A.txt")).unwrap(), "a\nmore\n");
        assert_eq!(std::fs::read_to_string(worktree.join(".git")).unwrap(), link);
        repo.run(&["task", "complete", "A"]).code(0);
    }
}

#[test]
fn the_next_attempts_configuration_is_tried() {
    let repo = confined_by("bwrap");
    std::fs::write(repo.home().join(".tool"), "settings").unwrap();
    let file = repo.home().canonicalize().unwrap().join(".tool");
    let read = format!("cat '{}'", file.display());
    repo.graph("x", &[task("A", Some("echo a > A.txt"), &read)]);
    repo.run(&["run"]).code(3);
    assert_ne!(try_on(&repo, "A", &read).code, 0);
    repo.config(&format!("sandbox: {{ mode: bwrap, network: false, read: ['{}'] }}\n", file.display()));
    try_on(&repo, "A", &read).code(0).says("settings");
    // Only loopback is left.
    try_on(&repo, "A", "test \"$(grep -c : /proc/net/dev)\" = 1").code(0);
}

#[test]
fn what_cannot_be_tried_is_refused_with_a_hint() {
    let repo = confined_by("off");
    try_on(&repo, "A", "true").code(2).says("no feature is named");
    let held = format!("{} echo a > A.txt", crate::support::HELD);
    let mut later = task("B", Some("echo b > B.txt"), "true");
    later["level"] = json!(2);
    later["dependencies"] = json!(["A"]);
    repo.graph("x", &[task("A", Some(&held), "true"), later]);
    try_on(&repo, "A", "true").code(6).says("there has been no run of x");
    let run = repo.run_until_held("x");
    try_on(&repo, "A", "true").code(8).says("a worker is busy with this attempt: A.1").says("hint:");
    try_on(&repo, "B", "true").says("B was not tried yet").says("Without --task");
    try_on(&repo, "C", "true").code(2).says("x has no task C").says("A");
    repo.let_go_on("x", run).code(0);
    try_on(&repo, "A", "true").code(6).says("what A attempt 1 left was removed").says("Without --task");
    repo.run(&["sandbox", "--task", "A", "-f", "y", "--", "true"]).code(2).says("y");
}

#[test]
fn without_a_command_the_users_shell_is_opened() {
    let repo = confined_by("bwrap");
    repo.write("given.txt", "changed\n");
    let commit = repo.git(&["rev-parse", "--short=10", "HEAD"]);
    let mut command = repo.command(&["sandbox"]);
    command.env("SHELL", "/bin/bash").stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"echo \"in ${BASH_VERSION:+bash}\"; exit 5\n")
        .unwrap();
    Ran::of(child.wait_with_output().unwrap())
        .code(5)
        .says("in bash")
        .says(&format!(
            "This shell runs in the sandbox, in a copy of commit {commit}. `exit` leaves it and deletes the copy:"
        ))
        .says("nothing that you write here is kept")
        .says("1 uncommitted change is not in this copy: given.txt");
}

#[test]
fn ctrl_c_interrupts_the_programs_of_a_shell_and_not_the_shell() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = confined_by(sandbox);
        let mut terminal = Terminal::open(&repo, "sandbox", &[("SHELL", "/bin/bash")]);
        // The output is not what is typed.
        terminal.press("echo ready $((6*7)); sleep 1000\n");
        terminal.wait_for(&repo, "ready 42");
        terminal.press("\x03");
        terminal.press("echo code $(($? + 1000)); exit 7\n");
        terminal.wait_for(&repo, "code 1130");
        assert_eq!(terminal.end().0, 7, "{sandbox}");
    }
}

#[test]
fn ctrl_c_ends_a_command_in_the_sandbox() {
    let repo = confined_by("bwrap");
    let mut terminal = Terminal::open(&repo, "sandbox -- 'echo ready $((6*7)); exec sleep 1000'", &[]);
    terminal.wait_for(&repo, "ready 42");
    terminal.press("\x03");
    assert_eq!(terminal.end().0, 130);
}
