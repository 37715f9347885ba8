//! What a run writes for others to read: the projection, STATE.md, the logs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{HELD, Ran, Repo, simple, with};

fn projection(repo: &Repo, feature: &str) -> Value {
    serde_json::from_str(&repo.read(&format!(".mahabharatha/state/{feature}.json"))).unwrap()
}

/// The keys that readers of the file know, with these values.
#[track_caller]
fn assert_shape(state: &Value, status: &str, level: u32, tasks: &[(&str, &str)], levels: &[(&str, &str)]) {
    assert_eq!((&state["status"], &state["current_level"]), (&json!(status), &json!(level)), "{state:#}");
    for (id, status) in tasks {
        let task = &state["tasks"][id];
        assert_eq!(task["status"], *status, "{id}: {task:#}");
        assert_eq!(task["completed_at"].is_string(), *status == "completed", "{id}: {task:#}");
        assert_eq!(task["started_at"].is_string(), *status != "pending", "{id}: {task:#}");
        assert_eq!(task["worker_id"].is_u64(), *status != "pending", "{id}: {task:#}");
    }
    for (level, status) in levels {
        let entry = &state["levels"][level];
        assert_eq!(entry["status"], *status, "{level}: {entry:#}");
        assert_eq!(entry["completed_at"].is_string(), *status == "merged", "{level}: {entry:#}");
    }
    for worker in state["workers"].as_object().unwrap().values() {
        assert!(worker["status"].is_string() && worker.get("current_task").is_some(), "{worker:#}");
    }
    assert_eq!(state["completion"].is_null(), status != "completed");
}

#[test]
fn the_projection_tells_where_the_run_is_at_every_stop() {
    let repo = Repo::new();
    let second = format!("{HELD} test -e \"$MAHABHARATHA_SPEC_DIR/right\" && echo b > b.txt");
    repo.graph(
        "x",
        &[simple("A", 1, "a.txt"), with(simple("B", 2, "b.txt"), json!({ "run": second })), simple("C", 3, "c.txt")],
    );

    let run = repo.run_until_held("x");
    let under_way = || projection(&repo, "x")["tasks"]["B"]["status"] == "in_progress";
    repo.wait_until("the projection follows", under_way);
    let state = projection(&repo, "x");
    let merged_first = [("1", "merged"), ("2", "in_progress"), ("3", "pending")];
    assert_shape(
        &state,
        "in_progress",
        2,
        &[("A", "completed"), ("B", "in_progress"), ("C", "pending")],
        &merged_first,
    );
    assert_eq!(state["workers"]["0"]["status"], "running");
    assert_eq!(state["workers"]["0"]["current_task"], "B");

    repo.run(&["stop", "--grace", "0"]).code(0);
    run.wait().code(130);
    let state = projection(&repo, "x");
    assert_eq!((&state["status"], &state["tasks"]["B"]["status"]), (&json!("paused"), &json!("pending")), "{state:#}");
    assert_eq!(
        (&state["tasks"]["A"]["status"], &state["levels"]["1"]["status"]),
        (&json!("completed"), &json!("merged"))
    );
    let worker = &state["workers"]["0"];
    assert_eq!(
        (&worker["status"], &worker["current_task"], &worker["pid"]),
        (&json!("stopped"), &Value::Null, &Value::Null)
    );

    repo.write(".gsd/specs/x/go", "");
    repo.run(&["run"]).code(3);
    assert_shape(
        &projection(&repo, "x"),
        "blocked",
        2,
        &[("A", "completed"), ("B", "blocked"), ("C", "pending")],
        &merged_first,
    );
    assert_eq!(projection(&repo, "x")["tasks"]["B"]["attempts"].as_array().unwrap().len(), 4);

    repo.write(".gsd/specs/x/right", "");
    repo.run(&["retry", "B"]).code(0);
    assert_eq!(projection(&repo, "x")["tasks"]["B"]["status"], "pending", "also when nobody drives the run");
    repo.run(&["run"]).code(0);
    let done = [("A", "completed"), ("B", "completed"), ("C", "completed")];
    let state = projection(&repo, "x");
    assert_shape(&state, "completed", 3, &done, &[("1", "merged"), ("2", "merged"), ("3", "merged")]);
    assert_eq!(state["completion"]["tasks_completed"], 3);
    assert_eq!(state["completion"]["commit"], repo.git(&["rev-parse", "main"]));
    // A damaged or missing file is rebuilt.
    fs::remove_dir_all(repo.join(".mahabharatha/state")).unwrap();
    assert_eq!(repo.run(&["status", "--json"]).code(0).json()["status"], "completed");
}

#[test]
fn state_md_has_a_section_for_each_feature_and_keeps_what_people_wrote() {
    let repo = Repo::new();
    repo.graph("one", &[simple("A", 1, "a.txt")]);
    repo.write(".gsd/STATE.md", "# Notes of mine\n\nDo not forget the milk.\n");
    repo.run(&["run", "one"]).code(0);
    repo.graph("two", &[with(simple("B", 1, "b.txt"), json!({ "run": "false" }))]);
    repo.run(&["run", "two"]).code(3);

    let state = repo.read(".gsd/STATE.md");
    assert!(state.starts_with("# Notes of mine\n\nDo not forget the milk.\n"), "{state}");
    let of = |feature: &str| -> String {
        let text = repo.read(".gsd/STATE.md");
        let section = text.split("# MAHABHARATHA State: ").find(|section| section.starts_with(&format!("{feature}\n")));
        section.unwrap_or_else(|| panic!("no section of {feature} in\n{text}")).to_string()
    };
    for part in [
        "## Current Phase",
        "- **Phase:** Completion",
        "## Task Progress",
        "| A | completed | 0 |",
        "## Decisions",
        "## Blockers",
    ] {
        assert!(of("one").contains(part), "{part} is not in {}", of("one"));
    }
    for part in [
        "- **Phase:** Execution",
        "- **Status:** blocked",
        "| B | blocked | 0 |",
        "- B\n  - Root cause: The agent failed",
        "mahabharatha retry -f two B",
    ] {
        assert!(of("two").contains(part), "{part} is not in {}", of("two"));
    }

    // A decision stays when its section is rendered anew, and gets into no other.
    let decided = of("two").replacen("## Decisions\n", "## Decisions\n- 2026-01-26: Use SQLite\n", 1);
    repo.write(".gsd/STATE.md", &state.replace(&of("two"), &decided));
    repo.run(&["skip", "B", "--reason", "not needed"]).code(0);
    repo.run(&["run", "two"]).code(0);
    assert!(of("two").contains("- 2026-01-26: Use SQLite\n"), "{}", of("two"));
    assert!(of("two").contains("- **Status:** completed") && !of("one").contains("SQLite"), "{}", of("one"));
    assert!(repo.read(".gsd/STATE.md").starts_with("# Notes of mine\n"));
}

#[test]
fn logs_are_records_in_a_file_for_each_worker_and_task_of_each_feature() {
    let repo = Repo::new();
    for feature in ["one", "two"] {
        let file = format!("{feature}.txt");
        let run = format!("printf 'said by {feature}\\n\\nbell \\a\\n'; echo x > {file}");
        repo.graph(feature, &[with(simple("A", 1, &file), json!({ "run": run }))]);
        repo.run(&["run", feature]).code(0);
    }
    for (feature, other) in [("one", "two"), ("two", "one")] {
        let worker = repo.read(&format!(".mahabharatha/logs/{feature}/workers/worker-0.jsonl"));
        assert_eq!(worker, repo.read(&format!(".mahabharatha/logs/{feature}/tasks/A.jsonl")));
        assert!(worker.contains(&format!("said by {feature}")) && !worker.contains(&format!("said by {other}")));
        let mut events = Vec::new();
        for line in worker.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record["ts"].as_str().unwrap().ends_with('Z'), "{record}");
            assert_eq!((&record["worker"], &record["task"], &record["attempt"]), (&json!(0), &json!("A"), &json!(1)));
            assert!(["debug", "info", "warn", "error"].contains(&record["level"].as_str().unwrap()));
            events.push(record["event"].as_str().unwrap().to_string());
        }
        let expected =
            ["started", "agent_started", "output", "output", "agent_ended", "verification", "committed", "ended"];
        assert_eq!(events, expected);
    }
}

#[test]
fn git_sees_only_the_configuration() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("specs");
    repo.run(&["run"]).code(0);
    let status = || repo.git(&["status", "--porcelain", "--", ".mahabharatha"]);
    assert_eq!(status(), "");
    assert!(repo.exists(".mahabharatha/logs") && repo.exists(".mahabharatha/state"));
    repo.config("workers: { count: 3 }\n");
    assert_eq!(status(), " M .mahabharatha/config.yaml");
    // One that a person wrote is left as it is.
    repo.write(".mahabharatha/.gitignore", "state/\n");
    repo.graph("y", &[simple("B", 1, "b.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read(".mahabharatha/.gitignore"), "state/\n");
}

#[test]
fn the_very_next_task_is_given_the_decisions_of_an_agent() {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    let decides = |id: &str| {
        let file = id.to_lowercase();
        let run = format!("cat > {file}; echo 'DECISION: {id} was here'; printf 'DECISION: \\033[2J%9000s\\n' {id}");
        with(simple(id, 1, &file), json!({ "run": run }))
    };
    repo.graph("x", &["A-1", "A-2", "A-3"].map(decides));
    repo.run(&["run"]).code(0);
    let prompts = repo.tree("main");
    for (prompt, told) in [("a-1", &[][..]), ("a-2", &["A-1"]), ("a-3", &["A-1", "A-2"])] {
        for id in ["A-1", "A-2", "A-3"] {
            let line = format!("{id} was here");
            let is_there = prompts[prompt].lines().any(|text| text.starts_with("- ") && text.contains(&line));
            assert_eq!(is_there, told.contains(&id), "{id} in {prompt}:\n{}", prompts[prompt]);
        }
    }
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("A-3 was here") && !state.contains('\u{1b}') && state.len() < 8_000, "{state}");
}

#[test]
fn a_state_md_that_is_not_utf_8_is_kept_byte_for_byte() {
    let repo = Repo::new();
    let notes = b"# Notes of mine\n\nDas M\xe4rchen.\n\n";
    fs::write(repo.join(".gsd-notes"), notes).unwrap();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    fs::rename(repo.join(".gsd-notes"), repo.join(".gsd/STATE.md")).unwrap();
    repo.run(&["plan", "y", "--describe", "z", "--agent", "none"]).code(0).does_not_say("warning: cannot");
    repo.run(&["run", "x"]).code(0).does_not_say("warning");
    let state = fs::read(repo.join(".gsd/STATE.md")).unwrap();
    assert!(state.starts_with(notes), "{}", String::from_utf8_lossy(&state));
    let ours = String::from_utf8(state[notes.len()..].to_vec()).unwrap();
    assert!(ours.starts_with("# MAHABHARATHA State: x\n") && ours.contains("# MAHABHARATHA State: y\n"), "{ours}");
}

#[test]
fn a_state_md_that_cannot_be_read_fails_nothing() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    fs::create_dir_all(repo.join(".gsd/STATE.md/mine")).unwrap();
    repo.run(&["plan", "y", "--describe", "z", "--agent", "none"]).code(0).says("warning: cannot").says("is a draft");
    repo.run(&["run", "x"]).code(0).says("warning: cannot").says("x is completed");
    assert!(repo.exists(".gsd/STATE.md/mine"));
}

/// Everything below these directories, with its permissions.
fn modes_below(repo: &Repo, dirs: &[&str]) -> Vec<(PathBuf, bool, u32)> {
    let mut open: Vec<PathBuf> = dirs.iter().map(|dir| repo.join(dir)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        let of = fs::symlink_metadata(&path).unwrap();
        if of.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        }
        found.push((path, of.is_dir(), of.mode() & 0o777));
    }
    found
}

#[test]
fn state_logs_and_locks_are_private_whatever_the_umask() {
    for sandbox in ["off", "auto"] {
        check_permissions(sandbox);
    }
}

fn check_permissions(sandbox: &str) {
    let repo = Repo::new();
    repo.config(&format!("sandbox: {sandbox}\nquality_gates: [ {{ name: there, command: 'true' }} ]\n"));
    repo.commit("with a gate");
    let fails = with(simple("B", 2, "b.txt"), json!({ "run": "echo half > b.txt; touch stray.txt; exit 3" }));
    repo.graph("x", &[simple("A", 1, "a.txt"), fails]);
    // As an earlier version made them.
    for dir in [".git/mahabharatha", ".mahabharatha/logs", ".mahabharatha/state"] {
        fs::create_dir_all(repo.join(dir)).unwrap();
        fs::set_permissions(repo.join(dir), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let program = repo.command(&["run"]);
    let mut open = Command::new("sh");
    open.args(["-c", "umask 000; exec \"$0\" run"]).arg(program.get_program()).current_dir(repo.path());
    let ran = Ran::of(open.env("HOME", repo.home()).output().unwrap()).code(3);
    let modes = modes_below(&repo, &[".git/mahabharatha", ".mahabharatha/logs", ".mahabharatha/state"]);
    let all: Vec<String> = modes.iter().map(|(path, ..)| path.display().to_string()).collect();
    for there in ["events.jsonl", "/jobs/B.1/result.json", "/lock", "worker-0.jsonl", "1-there.1.jsonl", "state/x.json"]
    {
        assert!(all.iter().any(|path| path.ends_with(there)), "{there} is not in {all:#?}\n{}", ran.stderr);
    }
    // Git makes these itself, in directories of ours.
    let by_git = |path: &Path| {
        let end = path.extension().unwrap_or_default();
        let above = path.parent().unwrap_or(path);
        end == "index" || end == "scratch" || above.components().any(|part| part.as_os_str() == "integration")
    };
    for (path, is_dir, mode) in &modes {
        let wanted = if *is_dir { 0o700 } else { 0o600 };
        let is_private = *mode & 0o077 == 0 && (*is_dir || *mode & 0o700 == wanted);
        assert!(is_private || by_git(path), "{} has {mode:o}", path.display());
    }
    for (path, _, mode) in modes_below(&repo, &[".mahabharatha/worktrees/x/worker-0/README.md", ".gsd/STATE.md"]) {
        assert_eq!(mode & 0o044, 0o044, "{} has {mode:o}", path.display());
    }
}
