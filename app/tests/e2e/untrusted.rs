//! Repositories of strangers: commands that only read execute nothing of them.

use std::path::Path;

use serde_json::json;

use crate::support::{Repo, simple, with};

/// Every command that reads, as a person would call it in a repository.
const READERS: [&[&str]; 19] = [
    &["status"],
    &["status", "-v"],
    &["status", "--watch"],
    &["status", "--line"],
    &["list"],
    &["logs"],
    &["logs", "--gate", "none"],
    &["debug"],
    &["debug", "A"],
    &["doctor"],
    &["design", "--validate-only"],
    &["run", "--dry-run"],
    &["merge", "--dry-run"],
    &["cleanup", "--dry-run"],
    &["task", "list"],
    &["task", "next"],
    &["install", "--dry-run"],
    &["init", "--dry-run"],
    &["validate-commands"],
];

/// Plants something that leaves a mark in every place where this program or git could execute it.
fn plant(repo: &Repo, mark: &Path, client: &str) {
    let touch = format!("touch '{}'", mark.display());
    repo.config(&format!(
        "agent: claude\nagents: {{ claude: {{ kind: claude, command: {client} }}, mine: {{ kind: command, command: [./agent] }} }}\n\
         quality_gates: [ {{ name: lint, command: \"{touch}\" }} ]\nmerge: {{ prepare: \"{touch}\" }}\n"
    ));
    for program in
        ["agent", "claude", "git", "bin/claude", ".git/hooks/reference-transaction", ".git/hooks/post-checkout"]
    {
        repo.program(program, &format!("{touch}\necho 2.1.300\n"));
    }
    repo.write(".claude/settings.json", &json!({ "apiKeyHelper": touch, "hooks": {} }).to_string());
    repo.write(".gitattributes", "* filter=evil diff=evil\n");
    let settings = ["fsmonitor", "pager", "sshCommand", "editor", "alternateRefsCommand"];
    let core: String = settings.iter().map(|key| format!("\t{key} = \"{touch}\"\n")).collect();
    let mut config = repo.read(".git/config");
    config.push_str(&format!("[core]\n{core}[filter \"evil\"]\n\tclean = \"{touch}; cat\"\n\tprocess = \"{touch}\"\n"));
    config.push_str(&format!("[diff]\n\texternal = \"{touch}\"\n[diff \"evil\"]\n\ttextconv = \"{touch}\"\n"));
    config.push_str(&format!("[alias]\n\tstatus = \"!{touch}\"\n\tconfig = \"!{touch}\"\n"));
    repo.write(".git/config", &config);
    repo.write("README.md", "changed\n");
}

fn read_all(repo: &Repo, mark: &Path) {
    let path = format!(".:{}:{}", repo.join("bin").display(), std::env::var("PATH").unwrap());
    for args in READERS {
        for json in [None, Some("--json")] {
            let args: Vec<&str> = args.iter().copied().chain(json).collect();
            let ran = repo.run_with(&args, &[("PATH", &path)]);
            assert!(!mark.exists(), "{args:?} executed something:\n{}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn reading_commands_execute_nothing_of_a_clone() {
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("executed");
    let touch = format!("touch '{}'", mark.display());
    let hostile =
        with(simple("A", 1, "a.txt"), json!({ "run": touch, "agent": "claude", "verification": { "command": touch } }));
    let absolute = |repo: &Repo| repo.join("claude").display().to_string();
    for client in ["./claude", "claude", "absolute", &format!("[sh, -c, \"{touch}\"]")] {
        let repo = Repo::new();
        repo.graph("x", std::slice::from_ref(&hostile));
        repo.commit("spec");
        let client = if client == "absolute" { absolute(&repo) } else { client.to_string() };
        plant(&repo, &mark, &client);
        read_all(&repo, &mark);
        let doctor =
            repo.run(&["doctor"]).says("uncommitted changes were not looked for").says("the gates were not run");
        if client != "claude" {
            doctor.says("claude was not started: ").says("checked when a run starts");
        }
    }

    // After a run there is more to read.
    let repo = Repo::new();
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": "exit 3" })), simple("B", 1, "b.txt")]);
    repo.commit("spec");
    repo.run(&["run"]).code(3);
    plant(&repo, &mark, "./claude");
    read_all(&repo, &mark);
}

#[test]
fn a_doctor_runs_the_gates_only_where_it_is_asked_to_and_says_so() {
    let repo = Repo::new();
    let (outside, gate) = (tempfile::tempdir().unwrap(), "executes code of this repository");
    let mark = outside.path().join("executed");
    repo.config(&format!("quality_gates: [ {{ name: lint, command: \"touch '{}'\" }} ]\n", mark.display()));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("spec");
    repo.run(&["doctor"]).code(0).says("the gates were not run: `mahabharatha doctor --run-gates` does").says(gate);
    assert!(!mark.exists());
    repo.run(&["doctor", "--run-gates"]).code(0).says(&format!("running the gates on main, which {gate}: lint"));
    assert!(mark.exists());
    repo.run(&["run"]).code(0);
    repo.run(&["doctor", "--run-gates"]).code(0).says("x is completed already");
}
