//! What must hold before anything is launched: refused with exit code 7 and what to do, by `run` and `doctor` alike.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::support::{Ran, Repo, simple, task};

fn ready() -> Repo {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo
}

/// The check of this name that failed, as `doctor --json` tells it.
#[track_caller]
fn failed_check(doctor: &Ran, name: &str) -> Value {
    let data = doctor.json();
    let checks = data["checks"].as_array().unwrap();
    let failed = checks.iter().find(|check| check["name"] == name && check["status"] == "failed");
    failed.unwrap_or_else(|| panic!("{name} did not fail in {data:#}")).clone()
}

/// `run` refuses and starts nothing, and both forms of `doctor` show the same.
#[track_caller]
fn refused(repo: &Repo, env: &[(&str, &str)], check: &str, what: &str, to_do: &str) {
    repo.run_with(&["run"], env).code(7).says(what).says(to_do);
    assert!(repo.refs().iter().all(|name| !name.contains("worker")), "nothing was launched");
    assert!(!repo.exists(".mahabharatha/logs/x/tasks"), "nothing was launched");
    repo.run_with(&["doctor"], env).code(7).says(&format!("FAILED  {check}: ")).says(what).says(to_do);
    let doctor = repo.run_with(&["doctor", "--json"], env).code(7);
    let failed = failed_check(&doctor, check);
    assert!(failed["message"].as_str().unwrap().contains(what), "{failed}");
    assert!(failed["hint"].as_str().unwrap().contains(to_do), "{failed}");
}

#[test]
fn nothing_is_wrong() {
    let repo = ready();
    let doctor = repo.run(&["doctor", "--json"]).code(0).json();
    let checks: Vec<(&str, &str)> = doctor["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| (check["name"].as_str().unwrap(), check["status"].as_str().unwrap()))
        .collect();
    let names = ["git", "disk", "config", "sandbox", "feature", "graph", "repository", "agent", "ports", "disk"];
    assert_eq!(checks, names.map(|name| (name, if name == "sandbox" { "warning" } else { "ok" })));
    repo.run(&["doctor"]).code(0).says("levels land on main").says("1 task on 1 level");
    repo.run(&["run"]).code(0);
    repo.run(&["doctor"]).code(0).says("x is completed already");
}

#[test]
fn without_a_feature_the_rest_is_checked() {
    let repo = Repo::new();
    repo.run(&["doctor"]).code(0).says("ok      git").says("no feature is named");
    std::fs::remove_file(repo.join(".mahabharatha/config.yaml")).unwrap();
    repo.run(&["doctor"]).code(0).says("config: no ").says("`mahabharatha init` writes one");
    // The default agent is missed before a feature needs it.
    repo.write(".mahabharatha/config.yaml", "agents: { claude: { kind: claude, command: no-such-client } }\n");
    let checks = repo.run(&["doctor", "--json"]).code(0).json();
    let agent = checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "agent").unwrap().clone();
    assert_eq!(agent["status"], "warning", "{agent}");
    assert!(agent["message"].as_str().unwrap().contains("no-such-client"), "{agent}");
    std::fs::remove_file(repo.join(".mahabharatha/config.yaml")).unwrap();
    repo.run(&["status"]).code(2).says("no feature is named").says("mahabharatha plan <name>");
    for feature in ["shop", "stock"] {
        repo.write(&format!(".gsd/specs/{feature}/task-graph.json"), "{}");
    }
    repo.run(&["status"]).code(2).says("there are specs for shop, stock").says("--feature shop");
    repo.run(&["doctor", "--feature", "../x"]).code(2);
    repo.write(".mahabharatha/config.yaml", "wrokers: 3\n");
    repo.run(&["doctor"]).code(7).says("did you mean `workers`?").says("ok      git");
}

#[test]
fn an_old_git() {
    let repo = ready();
    let git = String::from_utf8(Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout).unwrap();
    let git = git.trim();
    repo.program("old/git", &format!("[ \"$1\" = version ] && exec echo 'git version 2.30.1'\nexec {git} \"$@\"\n"));
    let path = format!("{}:{}", repo.join("old").display(), std::env::var("PATH").unwrap());
    refused(&repo, &[("PATH", &path)], "git", "version 2.30.1 is too old", "Install 2.40.0 or newer");
    repo.run_with(&["run"], &[("PATH", "/nowhere")]).code(7).says("git was not found on PATH").says("Install git");
}

#[test]
fn a_branch_in_the_way() {
    let repo = ready();
    repo.git(&["branch", "mahabharatha"]);
    refused(&repo, &[], "branches", "the branch mahabharatha is in the way", "git branch -m mahabharatha <other name>");
    repo.git(&["branch", "-m", "mahabharatha", "mahabharatha/x"]);
    refused(&repo, &[], "branches", "the branch mahabharatha/x is in the way", "git branch -m mahabharatha/x");
    repo.git(&["branch", "-m", "mahabharatha/x", "mahabharatha/x/worker-0"]);
    repo.run(&["run"]).code(7).says("in the way: mahabharatha/x/worker-0").says("git branch -D");
    repo.git(&["branch", "-m", "mahabharatha/x/worker-0", "mine"]);
    repo.run(&["run"]).code(0);
    repo.git(&["rev-parse", "mine"]);
}

#[test]
fn an_operation_that_git_is_in_the_middle_of() {
    let repo = ready();
    repo.commit("specs");
    repo.git(&["checkout", "-q", "-b", "theirs"]);
    repo.write("README.md", "theirs\n");
    repo.commit("theirs");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("README.md", "ours\n");
    repo.commit("ours");
    let merge = |args: &[&str]| Command::new("git").args(args).current_dir(repo.path()).output().unwrap();
    assert!(!merge(&["merge", "theirs"]).status.success(), "it conflicts");
    refused(&repo, &[], "repository", "a merge is under way", "git merge --abort");
    repo.git(&["merge", "--abort"]);
    assert!(!merge(&["rebase", "theirs"]).status.success(), "it conflicts");
    refused(&repo, &[], "repository", "a rebase is under way", "git rebase --abort");
    repo.git(&["rebase", "--abort"]);
    repo.git(&["checkout", "-q", "--detach"]);
    refused(&repo, &[], "repository", "HEAD is detached", "git switch");
    repo.git(&["switch", "-q", "main"]);
    repo.run(&["run"]).code(0);
}

#[test]
fn a_missing_agent() {
    let repo = ready();
    let agent = |command: &str| {
        repo.config(&format!("agent: mine\nagents: {{ mine: {{ kind: command, command: [{command}] }} }}\n"));
    };
    agent("no-such-agent, --now");
    refused(&repo, &[], "agent", "mine: no-such-agent was not found on PATH", "agents.mine.command");
    agent("~/bin/agent.sh");
    refused(&repo, &[], "agent", "mine: ~/bin/agent.sh is no program", "`~` is not expanded in a list");
    agent("./agent.sh");
    refused(&repo, &[], "agent", "mine: ./agent.sh is no program", "agents.mine.command");
    repo.write("agent.sh", "#!/bin/sh\necho a > a.txt\n");
    refused(&repo, &[], "agent", "mine: ./agent.sh is no program", "executable");
    repo.program("agent.sh", "echo a > a.txt\n");
    repo.run(&["run"]).code(0);
}

#[test]
fn the_program_of_a_shell_command_is_looked_for() {
    let repo = ready();
    let doctor = |command: &str| {
        repo.config(&format!("agent: mine\nagents: {{ mine: {{ kind: command, command: '{command}' }} }}\n"));
        repo.run(&["doctor"]).code(0)
    };
    let calls = |program: &str, place: &str| format!("mine: {program}, which its command calls, {place}");
    doctor("./agent.sh --now").says(&calls("./agent.sh", "is no program")).does_not_say("mine can be started");
    doctor("no-such-agent --now").says(&calls("no-such-agent", "was not found on PATH"));
    doctor("$AGENT --now").says("mine runs a shell command, which was not checked");
    repo.program("agent.sh", "echo a > a.txt\n");
    doctor("./agent.sh --now").says("mine can be started");
}

#[test]
fn a_task_without_a_usable_agent() {
    let repo = ready();
    let mut task = simple("A", 1, "a.txt");
    task.as_object_mut().unwrap().remove("run");
    repo.graph("x", &[task]);
    refused(&repo, &[], "agent", "A: the agent command has no command", "give the task a `run`");
    repo.run(&["run", "--agent", "nobody"]).code(2).says("there is no agent \"nobody\"");
}

#[test]
fn no_free_ports() {
    let repo = ready();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    repo.config(&format!("workers: {{ count: 1 }}\nports: {{ range_start: {port}, range_end: {port} }}\n"));
    refused(&repo, &[], "ports", &format!("too few free ports from {port} to {port}"), "ports.range_start");
    assert_eq!(repo.status()["status"], "designed", "no run was begun");
    drop(taken);
    repo.run(&["run"]).code(0);
}

#[test]
fn too_little_space() {
    let repo = ready();
    let Some(disk) = crate::support::Disk::new("8m") else { return };
    let clone = disk.path().join("clone");
    repo.commit("specs");
    repo.git(&["clone", "-q", repo.path().to_str().unwrap(), clone.to_str().unwrap()]);
    let args = ["-C", clone.to_str().unwrap(), "run"];
    repo.run(&args).code(7).says("disk: only").says("Free some space");
    let doctor = repo.run(&["-C", clone.to_str().unwrap(), "doctor", "--json"]).code(7);
    failed_check(&doctor, "disk");
    let doctor = repo.run(&["-C", clone.to_str().unwrap(), "doctor"]).code(7);
    doctor.says("disk: only").does_not_say("ok      disk").does_not_say("new worktrees take");
}

#[test]
fn a_red_base_until_it_is_fixed() {
    let repo = ready();
    repo.config("quality_gates: [ { name: unit, command: \"test -e ok || { echo there is no ok; exit 1; }\" } ]\n");
    repo.run(&["doctor", "--run-gates"])
        .code(7)
        .says("FAILED  gates: unit fails on the base (exit code 1).\n          there is no ok\n")
        .says("mahabharatha logs -f x --gate unit");
    failed_check(&repo.run(&["doctor", "--run-gates", "--json"]).code(7), "gates");
    repo.run(&["logs", "--gate", "unit"]).code(0).says("gate output: there is no ok\n");
    assert_eq!((repo.refs(), repo.exists(".mahabharatha/worktrees")), (Vec::new(), false), "doctor leaves nothing");
    repo.run(&["run"])
        .code(7)
        .says("gate unit is red on main already: there is no ok [exit code 1]")
        .says("--allow-red-base");
    repo.run(&["run"]).code(7);
    repo.run(&["doctor", "--run-gates"]).code(7).says("FAILED  gates: unit fails on the base");
    repo.write("ok", "");
    repo.commit("fixed");
    repo.run(&["run"]).code(0).says("main passed its gates").does_not_say("red on main");
    assert_eq!(repo.subjects("main").last().unwrap(), "first");

    let repo = ready();
    repo.config("quality_gates: [ { name: unit, command: \"false\" } ]\n");
    repo.run(&["run", "--allow-red-base"]).code(0).says("unit is red on main already: from now on it is only reported");
}

#[test]
fn the_gates_run_also_for_a_feature_whose_run_has_begun_or_is_completed() {
    let repo = Repo::new();
    repo.config(
        "agent: command\nretry: { max_attempts: 1 }\nquality_gates:\n\
         - { name: audit, command: echo there is no scanner; exit 127, required: false }\n\
         - { name: test, command: 'true' }\n- { name: scan, command: 'true' }\n",
    );
    repo.graph("x", &[task("A", 1, "a", "exit 3")]);
    repo.commit("graph");
    let gates = |feature: &str| {
        repo.run(&["doctor", "--run-gates"])
            .code(0)
            .says(&format!("ok      feature: {feature}"))
            .says("warning gates: audit fails on the base (exit code 127); it is not required. test, scan pass.")
            .says("there is no scanner")
            .says("audit");
    };
    gates("x (from .gsd/.current-feature; --feature names another)");
    repo.run(&["run"]).code(3);
    std::fs::remove_file(repo.join(".gsd/.current-feature")).unwrap();
    let refs = repo.refs();
    gates("x (from the newest file in .mahabharatha/state; --feature names another)");
    assert_eq!(repo.refs(), refs);
    repo.run(&["skip", "A", "--reason", "no need"]).code(0);
    repo.run(&["run"]).code(0);
    gates("x is completed already (from the newest file");
    repo.run(&["doctor", "-f", "x"]).code(0).says("ok      feature: x is completed already\n");
}

#[test]
fn the_gates_run_on_the_base_of_a_project_without_a_feature() {
    let repo = Repo::new();
    repo.run(&["doctor", "--run-gates"]).code(0).says("warning gates: there are none to run");
    repo.config("quality_gates: [ { name: unit, command: \"test -e ok || { echo there is no ok; exit 1; }\" } ]\n");
    repo.run(&["doctor"]).code(0).says("gates were not run");
    repo.run(&["doctor", "--run-gates"])
        .code(7)
        .says("running the gates on main")
        .says("FAILED  gates: unit fails on the base")
        .says(".mahabharatha/logs/doctor/gates");
    assert!(repo.read(".mahabharatha/logs/doctor/gates/base-unit.1.jsonl").contains("there is no ok"));
    repo.write("ok", "");
    repo.commit("fixed");
    repo.run(&["doctor", "--run-gates"]).code(0).says("green on the base").says("no feature is named");
    assert_eq!((repo.refs(), repo.exists(".mahabharatha/worktrees")), (Vec::new(), false), "doctor leaves nothing");
    assert!(!repo.exists(".mahabharatha/logs/doctor"), "nor logs of gates that passed");
    assert_eq!(repo.run(&["list", "--json"]).code(0).json()["features"], serde_json::json!([]));
}

#[test]
fn the_gates_of_a_project_do_not_run_as_those_of_a_feature_called_doctor() {
    let repo = Repo::new();
    for feature in ["doctor", "x"] {
        repo.graph(feature, &[simple("A", 1, "a")]);
    }
    std::fs::remove_file(repo.join(".gsd/.current-feature")).unwrap();
    repo.config("quality_gates: [ { name: unit, command: \"false\" } ]\n");
    repo.run(&["doctor", "--run-gates"]).code(7).says(".mahabharatha/logs/doctor-2/gates");
    for dir in [".mahabharatha/logs/doctor", ".git/mahabharatha/doctor", ".gsd/specs/doctor-2"] {
        assert!(!repo.exists(dir), "{dir}");
    }
}

#[test]
fn a_git_directory_that_cannot_be_written_to() {
    let repo = ready();
    // A file in the place of the directory: file permissions do not stop root.
    repo.write(".git/mahabharatha/ports", "");
    let doctor = repo.run(&["doctor"]).code(7).says("FAILED  ports: ").says(".git/mahabharatha/ports");
    // The checks after it are made all the same.
    doctor.says("new worktree");
    failed_check(&repo.run(&["doctor", "--json"]).code(7), "ports");
    repo.run(&["run"]).code(7).says("ports: ").says(".git/mahabharatha/ports");
}

#[test]
fn owned_files_with_uncommitted_changes_are_named() {
    let repo = Repo::new();
    let mut task = simple("A", 1, "README.md");
    task["files"] = serde_json::json!({ "modify": ["README.md"] });
    repo.graph("x", &[task]);
    repo.write("README.md", "in the middle of it\n");
    for staged in [false, true] {
        if staged {
            repo.git(&["add", "README.md"]);
        }
        let doctor = repo.run(&["doctor"]).code(0);
        assert!(doctor.stdout.contains("warning checkout: you have uncommitted changes"), "{}", doctor.stdout);
        assert!(doctor.stdout.contains("README.md"), "{}", doctor.stdout);
    }
}

#[test]
fn a_doctor_that_is_interrupted_leaves_nothing() {
    let repo = ready();
    let gate = format!(": > '{}'; sleep 1000", repo.join(".gsd/up").display());
    repo.config(&format!("quality_gates: [ {{ name: slow, command: \"{gate}\" }} ]\n"));
    let doctor = repo.spawn(&["doctor", "--run-gates"]);
    repo.wait_for(".gsd/up");
    repo.run(&["run"]).code(8).says("held by another run or session");
    doctor.signal("INT");
    doctor.wait().code(130).says("stopped before the gates had ended");
    assert_eq!((repo.refs(), repo.exists(".mahabharatha/worktrees")), (Vec::new(), false));
}

#[test]
fn a_gate_whose_program_is_not_installed() {
    let repo = Repo::new();
    repo.config(
        "quality_gates: [ { name: lint, command: no-such-linter --all }, { name: test, command: git --version } ]\n\
         merge: { prepare: \"cd . && no-such-manager install\" }\n",
    );
    let doctor =
        repo.run(&["doctor"]).code(0).says("warning gates: lint calls no-such-linter, which was not found on PATH");
    doctor
        .says("merge.prepare calls no-such-manager")
        .says("Install it, or change the command")
        .does_not_say("calls git");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(7).says("no-such-manager").says("not found");
}

#[test]
fn a_doctor_removes_no_work_of_a_run_whose_journal_is_lost() {
    let repo = Repo::new();
    repo.config("agent: command\nquality_gates: [{ name: fine, command: \"true\" }]\n");
    repo.graph("x", &[simple("A", 1, "a"), task("B", 1, "b", "echo no; exit 3")]);
    repo.commit("graph");
    repo.run(&["run"]).code(3);
    std::fs::remove_file(repo.join(".git/mahabharatha/x/events.jsonl")).unwrap();
    std::fs::remove_dir_all(repo.join(".mahabharatha/worktrees")).unwrap();
    repo.git(&["worktree", "prune"]);
    for branch in ["staging", "worker-0", "worker-1"] {
        repo.git(&["branch", "-qD", &format!("mahabharatha/x/{branch}")]);
    }
    let refs = repo.refs();
    assert!(refs.iter().any(|name| name.contains("x/tasks/A")), "{refs:?}");
    repo.run(&["doctor", "-f", "x", "--run-gates"]).says("green on the base");
    assert_eq!(repo.refs(), refs);
}
