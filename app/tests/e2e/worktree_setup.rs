//! `worktrees.setup`: when it runs, where, and what happens when it fails.

use serde_json::json;

use crate::support::{Repo, simple, task, with};

/// Tells where it ran and on which lock file, and installs that.
const INSTALL: &str = "echo \"$(basename \"$PWD\") $(cat package-lock.json)\" >> ../../../../.git/setups; \
                       mkdir -p deps && cp package-lock.json deps/lock";

fn repo(setup: &str, more: &str) -> Repo {
    let repo = Repo::new();
    repo.write(".gitignore", "deps/\n");
    repo.write("package-lock.json", "v1\n");
    repo.config(&format!("worktrees: {{ setup: {} }}\n{more}", json!(setup)));
    repo.commit("project");
    repo
}

/// A task that can only be verified where the lock file was installed.
fn needs_deps(id: &str, level: u32, file: &str, run: &str) -> serde_json::Value {
    with(task(id, level, file, run), json!({ "verification": { "command": "cmp package-lock.json deps/lock" } }))
}

fn setups(repo: &Repo) -> Vec<String> {
    let mut lines: Vec<String> = repo.read(".git/setups").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn it_runs_in_each_worktree_and_again_when_a_lock_file_changes() {
    let repo = repo(INSTALL, "workers: { count: 2 }\n");
    // Both slots are in use at once.
    let meet = |own: &str, other: &str| {
        format!("touch ../../../../.git/{own}; while ! test -e ../../../../.git/{other}; do sleep 0.01; done;")
    };
    let install = "echo v2 > package-lock.json; cp package-lock.json deps/lock; echo A > a.txt";
    let lock = needs_deps("A", 1, "a.txt", &format!("{} {install}", meet("a", "b")));
    let lock = with(lock, json!({ "files": { "create": ["a.txt"], "modify": ["package-lock.json"] } }));
    let waits = &format!("{} echo B > b.txt", meet("b", "a"));
    repo.graph("x", &[lock, needs_deps("B", 1, "b.txt", waits), needs_deps("C", 2, "c.txt", "cp deps/lock c.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.tree("main")["c.txt"], "v2");
    // Staging before the first level lands, and in the clean checkout of the last one.
    let expected = ["staging v2", "staging v2", "worker-0 v1", "worker-0 v2", "worker-1 v1"];
    assert_eq!(setups(&repo), expected);
    repo.run(&["logs", "--gate", "worktrees.setup"]).code(0).says("passed after");
}

#[test]
fn one_that_fails_ends_the_run_with_7_before_any_agent_starts() {
    let repo = repo("echo 'npm ERR! code E404' >&2; exit 3", "retry: { max_attempts: 1 }\nagent: command\n");
    repo.graph("x", &[task("A", 1, "a.txt", "touch ../../../../.git/launched; echo A > a.txt")]);
    repo.run(&["run"])
        .code(7)
        .says("error: worktrees.setup failed with exit code 3 in the worktree of worker 0: npm ERR! code E404")
        .says("Try it: `mahabharatha sandbox -- 'echo '\\''npm ERR! code E404'\\'' >&2; exit 3'`")
        .says("`mahabharatha logs -f x --task A --level debug`");
    assert!(!repo.exists(".git/launched"));
    repo.run(&["logs", "-f", "x", "--task", "A", "--level", "debug"]).code(0).says("npm ERR! code E404");
    let state = repo.status();
    assert_eq!((&state["status"], &state["tasks"][0]["status"]), (&json!("failed"), &json!("pending")), "{state:#}");
    let causes = repo.run(&["debug", "--json"]).json();
    let cause = &causes["hypotheses"][0];
    assert_eq!(cause["code"], "setup_failed", "{causes:#}");
    assert!(cause["command"].as_str().unwrap().starts_with("mahabharatha sandbox -- "), "{causes:#}");
    // What a run executes has changed, so the person has to accept it. No attempt was used up.
    repo.config("retry: { max_attempts: 1 }\nagent: command\nworktrees: { setup: 'true' }\n");
    repo.run(&["run"]).code(9).says("worktrees.setup");
    repo.run(&["run", "--accept-config"]).code(0);
}

#[test]
fn a_program_that_is_missing_is_named() {
    let repo = repo("no-such-manager ci", "");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(7).says("no-such-manager").says("exit code 127");
    let doctor = repo.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let told = |check: &&serde_json::Value| check["message"].as_str().unwrap().contains("no-such-manager");
    assert_eq!(checks.iter().find(told).unwrap()["status"], "warning", "{doctor:#}");
}

#[test]
fn one_that_fails_on_the_base_ends_the_run_before_its_gates_even_if_those_may_be_red() {
    let gate = "quality_gates: [ { name: all, command: 'touch ../../../../.git/gated' } ]\n";
    let repo = repo("echo broken; exit 1", gate);
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    for arguments in [&["run"][..], &["run", "--allow-red-base"]] {
        repo.run(arguments).code(7).says("worktrees.setup fails on the base: broken").says("mahabharatha sandbox -- ");
    }
    assert!(!repo.exists(".git/gated"));
}

#[test]
fn what_it_leaves_beside_ignored_files_is_taken_back_and_named() {
    let repo =
        repo("mkdir -p deps out && echo 1 > deps/lock && echo 1 > out/a && echo 1 > out/b && echo 2 > README.md", "");
    let checks = "test -e deps/lock && ! test -e out && grep hello README.md && echo A > a.txt";
    repo.graph("x", &[task("A", 1, "a.txt", checks)]);
    repo.run(&["run"]).code(0).says("that was taken back: README.md, out/ (2 files)");
    assert_eq!(repo.tree("main")["README.md"], "hello");
}

#[test]
fn it_runs_again_where_an_attempt_changed_or_removed_what_it_made() {
    for harm in ["rm -r deps", "echo v0 > deps/lock; echo v0 > package-lock.json"] {
        let repo = repo(INSTALL, "workers: { count: 1 }\n");
        let harmful = task("A", 1, "a.txt", &format!("{harm}; echo A > a.txt"));
        repo.graph("x", &[harmful, needs_deps("B", 2, "b.txt", "echo B > b.txt")]);
        repo.run(&["run"]).code(0);
        let in_slot = setups(&repo).iter().filter(|line| line.starts_with("worker-0")).count();
        assert_eq!(in_slot, 2, "{harm}");
    }
}

#[test]
fn a_level_on_which_it_fails_is_fixed_like_one_that_fails_a_gate() {
    let repo = repo("grep -v broken package-lock.json", "");
    let files = json!({ "files": { "create": [], "modify": ["package-lock.json"] } });
    let run = "if test \"$MAHABHARATHA_ATTEMPT\" = 1; then echo broken; else echo v2; fi > package-lock.json";
    repo.graph("x", &[with(task("A", 1, "package-lock.json", run), files), simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0).says("worktrees.setup");
    assert_eq!(repo.tree("main")["package-lock.json"], "v2");
}

#[test]
fn own_inputs_replace_the_known_lock_files() {
    let repo = repo(INSTALL, "");
    repo.config(&format!(
        "workers: {{ count: 1 }}\nworktrees: {{ setup: {}, setup_inputs: [requirements.txt] }}\n",
        json!(INSTALL)
    ));
    repo.write("requirements.txt", "1\n");
    repo.commit("inputs");
    let changes = |id: &str, level: u32, path: &str, run: &str| {
        with(task(id, level, path, run), json!({ "files": { "create": [], "modify": [path] } }))
    };
    let a = changes("A", 1, "package-lock.json", "echo v2 > package-lock.json");
    let b = changes("B", 2, "requirements.txt", "echo 2 > requirements.txt");
    repo.graph("x", &[a, b, simple("C", 3, "c.txt")]);
    repo.run(&["run"]).code(0);
    let in_slot = setups(&repo).iter().filter(|line| line.starts_with("worker-0")).cloned().collect::<Vec<_>>();
    assert_eq!(in_slot, ["worker-0 v1", "worker-0 v2"], "not on level 2, which changed no input");
    repo.config("worktrees: { setup_inputs: ['a{'] }\n");
    repo.run(&["run"]).code(6).says("worktrees.setup_inputs[0] must be a valid glob");
}

#[test]
fn a_session_that_claims_a_task_gets_a_worktree_that_is_set_up() {
    let repo = repo(INSTALL, "");
    repo.graph("x", &[needs_deps("A", 1, "a.txt", "true")]);
    let session = [("CLAUDE_CODE_SESSION_ID", "one")];
    repo.run_with(&["task", "start"], &session).code(0);
    repo.run_with(&["task", "claim", "A"], &session).code(0);
    assert_eq!(repo.read(".mahabharatha/worktrees/x/worker-0/deps/lock"), "v1\n");
    let failing = self::repo("echo broken; exit 1", "");
    failing.graph("x", &[simple("A", 1, "a.txt")]);
    failing.run_with(&["task", "start"], &session).code(0);
    failing.run_with(&["task", "claim", "A"], &session).code(1).says("Try it: mahabharatha sandbox -- ");
}
