//! `worktrees.warm`: copies of what the main checkout has built, what stays, and the disk that worktrees use.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Disk, Ran, Repo, simple, task, with};

fn config(repo: &Repo, worktrees: Value, more: &str) {
    repo.config(&format!("worktrees: {worktrees}\n{more}"));
}

/// A repository with a directory that git ignores and that is built.
fn built(worktrees: Value, more: &str) -> Repo {
    let repo = Repo::new();
    repo.write(".gitignore", "out/\nlinked\n.venv/\n");
    config(&repo, worktrees, more);
    repo.commit("project");
    repo.write("out/deep/made", "by me\n");
    repo
}

fn checks(repo: &Repo, name: &str) -> Vec<(String, String)> {
    let report = repo.run(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    checks.map(|check| (text(&check["status"]), text(&check["message"]))).collect()
}

#[test]
fn a_new_worktree_gets_a_copy_and_keeps_what_it_builds() {
    let repo = built(json!({ "warm": ["out/"] }), "workers: { count: 1 }\n");
    let first = "cat out/deep/made > a.txt; echo by A >> out/deep/made";
    let second = task("B", 2, "b.txt", "cat out/deep/made > b.txt");
    repo.graph("x", &[task("A", 1, "a.txt", first), second]);
    repo.run(&["run"]).code(0).says("worktrees.warm: out is ").says("into new worktrees: 1 files");
    let tree = repo.tree("main");
    assert_eq!((&*tree["a.txt"], &*tree["b.txt"]), ("by me", "by me\nby A"));
    assert_eq!(repo.read("out/deep/made"), "by me\n", "nothing is shared");
}

#[test]
fn what_cannot_be_copied_is_named_and_left_out() {
    let warm = json!({ "warm": ["out", "linked", "seen", "gone", "big"], "warm_limit": "1m" });
    let repo = built(warm, "");
    repo.write(".gitignore", "out/\nlinked\nbig/\n");
    repo.commit("ignore");
    symlink("/etc", repo.join("linked")).unwrap();
    repo.write("seen/untracked", "");
    fs::create_dir(repo.join("big")).unwrap();
    fs::write(repo.join("big/blob"), vec![b'x'; 3 << 20]).unwrap();
    let agent = "ls -A | grep -e linked -e seen -e big -e mahabharatha-warm; test -e out/deep/made && echo A > a.txt";
    repo.graph("x", &[task("A", 1, "a.txt", agent)]);
    let told = checks(&repo, "warm");
    let of = |dir: &str| told.iter().find(|(_, message)| message.contains(&format!("warm: {dir} "))).unwrap();
    assert_eq!(of("out").0, "ok");
    assert_eq!(of("gone").0, "ok");
    for (dir, why) in
        [("linked", "a symbolic link"), ("seen", "git does not ignore it"), ("big", "cannot share blocks")]
    {
        // On a file system that can share blocks nothing is too large.
        let cloned = dir == "big" && of(dir).1.contains("cloned");
        assert!(cloned || of(dir).0 == "warning" && of(dir).1.contains(why), "{told:?}");
    }
    repo.run(&["run"]).code(0).says("worktrees.warm: linked is not copied: it is, or lies behind, a symbolic link");
    for bad in ["/etc", "../x", ".git/hooks", ".mahabharatha", "a//b", "."] {
        config(&repo, json!({ "warm": [bad] }), "");
        repo.run(&["run"]).code(6).says("worktrees.warm[0] must be a directory inside of the repository");
    }
    repo.config("env: { pass: [CARGO_TARGET_DIR] }\n");
    repo.run(&["run"]).code(6).says("env.pass[0] must be a variable that worktrees can share");
}

#[test]
fn a_virtual_environment_is_copied_only_where_its_path_is_the_same() {
    for (sandbox, is_there) in [("off", false), ("bwrap", true)] {
        let repo = built(json!({ "warm": [".venv"] }), &format!("sandbox: {sandbox}\n"));
        repo.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
        let agent = "if test -e .venv/pyvenv.cfg; then echo yes; else echo no; fi > a.txt";
        repo.graph("x", &[task("A", 1, "a.txt", agent)]);
        repo.run(&["run"]).code(0);
        assert_eq!(repo.tree("main")["a.txt"] == "yes", is_there, "{sandbox}");
    }
}

/// Variables by which cargo finds its toolchain and its home. Others, such as those of the test's own build, change what
/// cargo builds.
fn cargo_env() -> Vec<(&'static str, String)> {
    let home = std::env::var("HOME").unwrap();
    let known = |name, dir| (name, std::env::var(name).unwrap_or_else(|_| format!("{home}/{dir}")));
    let path = ("PATH", std::env::var("PATH").unwrap());
    vec![path, known("CARGO_HOME", ".cargo"), known("RUSTUP_HOME", ".rustup"), ("CARGO_NET_OFFLINE", "true".to_owned())]
}

/// Runs cargo in the main checkout, as a person does.
fn cargo(repo: &Repo, args: &[&str]) {
    let mut cargo = Command::new("cargo");
    cargo.args(args).current_dir(repo.path()).env_clear().envs(cargo_env()).env("HOME", repo.home());
    assert!(cargo.status().unwrap().success(), "{args:?}");
}

#[test]
fn with_a_copied_target_cargo_builds_only_what_changed() {
    let repo = Repo::new();
    let package = |name: &str, more: &str| {
        format!("[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\n{more}")
    };
    repo.write(".gitignore", "/target\n");
    repo.write("Cargo.toml", &package("app", "a = { path = 'a' }\nb = { path = 'b' }\n"));
    repo.write("src/lib.rs", "pub fn sum() -> u32 { a::one() + b::one() }\n");
    for name in ["a", "b"] {
        repo.write(&format!("{name}/Cargo.toml"), &package(name, ""));
        repo.write(&format!("{name}/src/lib.rs"), "pub fn one() -> u32 { 1 }\n");
    }
    let env = cargo_env();
    let shown: Vec<&str> = env[1..3].iter().map(|(_, dir)| dir.as_str()).collect();
    let sandbox = json!({ "mode": "bwrap", "read": shown });
    let more = format!(
        "sandbox: {sandbox}\nworkers: {{ count: 1 }}\nenv: {{ pass: [CARGO_HOME, RUSTUP_HOME, CARGO_NET_OFFLINE] }}\n"
    );
    config(&repo, json!({ "warm": ["target"] }), &more);
    cargo(&repo, &["test", "-q", "--no-run"]);
    repo.commit("project");
    let fields = json!({
        "files": { "create": [], "modify": ["b/src/lib.rs"] },
        "verification": { "command": "cargo test --no-run -v", "timeout_seconds": 300 },
    });
    let change = task("B", 1, "b/src/lib.rs", "echo 'pub fn one() -> u32 { 2 }' > b/src/lib.rs");
    repo.graph("x", &[with(change, fields)]);
    let mut run = repo.command(&["run"]);
    run.env_clear().envs(cargo_env()).env("HOME", repo.home());
    // Never passed on, so that no worktree builds where another one does.
    run.env("CARGO_TARGET_DIR", repo.home().join("shared"));
    Ran::of(run.output().unwrap()).code(0);
    let log = repo.run(&["logs", "--task", "B", "--level", "debug", "--json"]).stdout;
    let of_worker: Vec<&str> = log.lines().filter(|line| line.contains("verification_output")).collect();
    let did =
        |what: &str, package: &str| of_worker.iter().any(|line| line.contains(&format!("{what} {package} v0.1.0")));
    assert!(did("Fresh", "a") && did("Compiling", "b") && did("Compiling", "app"), "{log}");
    assert!(!did("Compiling", "a") && !repo.home().join("shared").exists(), "{log}");
}

#[test]
fn kept_worktrees_serve_the_next_run_of_the_feature() {
    let repo = built(json!({}), "workers: { count: 1 }\ncleanup: { keep_worktrees: true }\n");
    let first = task("A", 1, "a.txt", "mkdir -p out && echo kept > out/mine; echo A > a.txt");
    repo.graph("x", std::slice::from_ref(&first));
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read(".mahabharatha/worktrees/x/worker-0/out/mine"), "kept\n");
    repo.graph("x", &[first, task("B", 2, "b.txt", "cp out/mine b.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.tree("main")["b.txt"], "kept");
    repo.run(&["cleanup"]).code(0);
    assert!(!repo.exists(".mahabharatha/worktrees/x"));
}

#[test]
fn a_run_that_does_not_fit_on_the_disk_does_not_start() {
    let Some(disk) = Disk::new("10m") else { return };
    let repo = Repo::new();
    fs::write(repo.join("large"), vec![b'x'; 3 << 20]).unwrap();
    config(&repo, json!({ "dir": disk.path().join("trees") }), "");
    repo.commit("large");
    let tasks: Vec<Value> = (0..4).map(|number| simple(&format!("T{number}"), 1, &format!("t{number}.txt"))).collect();
    repo.graph("x", &tasks);
    repo.run(&["run", "-w", "4"])
        .code(7)
        .says("5 new worktrees take about 15 MB (3 MB of files and 0 MB of worktrees.warm for each)")
        .says("--workers 2");
    assert_eq!(repo.read(".git/mahabharatha/x/events.jsonl").lines().count(), 1, "nothing but the journal's header");
    assert_eq!(checks(&repo, "disk").last().unwrap().0, "failed");
    repo.run(&["run", "-w", "2"]).code(0);
}

#[test]
fn status_shows_the_disk_of_worktrees() {
    let repo = built(json!({ "warm": ["out"] }), "");
    fs::write(repo.join("out/blob"), vec![b'x'; 2 << 20]).unwrap();
    repo.graph("x", &[task("A", 1, "a.txt", "exit 3")]);
    repo.run(&["run"]).code(3);
    let status = repo.run(&["status", "-v", "--json"]).code(0).json();
    assert!(status["worktree_bytes"].as_u64().unwrap() >= 2 << 20, "{}", status["worktree_bytes"]);
    assert_eq!(repo.status()["worktree_bytes"], Value::Null);
    repo.run(&["status", "-v"]).code(0).says("MB on disk");
}
