//! What Claude Code's hooks are answered.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{HELD, Ran, Repo, task};

const WORKTREE: &str = ".mahabharatha/worktrees/x/worker-0";

/// The hook's answer to what a client says.
fn hook(repo: &Repo, call: &str, env: &[(&str, &str)]) -> Ran {
    let mut command = repo.command(&["hook", "pre-tool-use"]);
    command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(call.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

fn write_to(repo: &Repo, path: &str) -> Value {
    let input = json!({ "file_path": path, "content": "x" });
    json!({ "session_id": "s1", "cwd": repo.path(), "tool_name": "Write", "tool_input": input })
}

fn decision(ran: &Ran) -> Value {
    ran.json()["hookSpecificOutput"]["permissionDecision"].clone()
}

#[test]
fn who_does_a_task_may_write_its_files_and_nobody_else_may() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "src/a.txt", &format!("{HELD} mkdir -p src && echo A > src/a.txt"))]);
    let run = repo.run_until_held("x");
    let worktree = repo.join(WORKTREE);
    let own = [("MAHABHARATHA_WORKTREE", worktree.to_str().unwrap())];
    let owned = format!("{WORKTREE}/src/a.txt");
    let absolute = repo.join(&owned).display().to_string();
    for path in [owned.as_str(), &absolute, &format!("{WORKTREE}/src/../src/a.txt")] {
        assert_eq!(decision(&hook(&repo, &write_to(&repo, path).to_string(), &own).code(0)), "allow", "{path}");
    }
    hook(&repo, &write_to(&repo, &format!("{WORKTREE}/README.md")).to_string(), &own)
        .code(2)
        .says("README.md is not a file of A: it owns src/a.txt");
    hook(&repo, &write_to(&repo, &owned).to_string(), &[]).code(2).says("worker 0 of x is at A for somebody else");
    hook(&repo, &write_to(&repo, ".mahabharatha/worktrees/x/worker-7/a").to_string(), &own)
        .code(2)
        .says("nobody holds worker 7 of x");
    // A link in the worktree leads out of it, though its name is owned.
    fs::create_dir_all(worktree.join("src")).unwrap();
    symlink(repo.join("README.md"), worktree.join("src/a.txt")).unwrap();
    let through = hook(&repo, &write_to(&repo, &owned).to_string(), &own).code(0);
    assert_eq!(through.stdout, "", "it is a write to the checkout, which is the person's");
    fs::remove_file(worktree.join("src/a.txt")).unwrap();
    symlink("/nowhere/at/all", worktree.join("src/a.txt")).unwrap();
    hook(&repo, &write_to(&repo, &owned).to_string(), &own).code(2);
    fs::remove_file(worktree.join("src/a.txt")).unwrap();
    hook(&repo, &write_to(&repo, ".git/mahabharatha/x/events.jsonl").to_string(), &[]).code(2).says("own books");
    repo.let_go_on("x", run).code(0);
}

#[test]
fn sessions_that_have_nothing_to_do_with_tasks_are_not_bothered() {
    let repo = Repo::new();
    let plain = Repo::empty();
    for place in [&repo, &plain] {
        for path in ["README.md", "new/file.txt", "a/../../b", "/nowhere/x"] {
            let mut call = write_to(place, path);
            assert_eq!(hook(place, &call.to_string(), &[]).code(0).stdout, "", "{path}");
            call["agent_type"] = json!("worker");
            assert_eq!(hook(place, &call.to_string(), &[]).code(0).stdout, "", "{path}");
        }
        let bash = json!({ "session_id": "s1", "cwd": place.path(), "tool_name": "Bash", "tool_input": { "command": "git push" } });
        hook(place, &bash.to_string(), &[]).code(0);
    }
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let repo = Repo::new();
    for call in ["", "{", "[]", "{\"tool_name\":\"Write\"}"] {
        hook(&repo, call, &[]).code(2).says("cannot understand what the client says");
    }
}
