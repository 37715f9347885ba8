//! What is in the logs, and for how long: no secrets, rotated files, retention.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn records(repo: &Repo, args: &[&str]) -> Vec<Value> {
    let ran = repo.run(&[&["logs", "--json"], args].concat()).code(0);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn secrets_never_reach_a_log() {
    let repo = Repo::new();
    let token = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let gates = format!(
        "env: {{ pass: [DEPLOY_PASSWORD, COLOUR] }}\nquality_gates: [{{ name: lint, command: 'echo gate {token} $DEPLOY_PASSWORD $COLOUR' }}]\n"
    );
    repo.config(&gates);
    let leaky = with(
        task("A", 1, "a.txt", &format!("echo agent {token} $DEPLOY_PASSWORD; echo {token} >&2; touch a.txt")),
        json!({ "verification": { "command": format!("echo verified {token} $DEPLOY_PASSWORD; test -e a.txt") } }),
    );
    let failing = with(
        task("B", 1, "b.txt", "touch b.txt"),
        json!({ "verification": { "command": "echo failing $DEPLOY_PASSWORD; false" } }),
    );
    repo.graph("x", &[leaky, failing]);
    let env = [("DEPLOY_PASSWORD", "correct horse battery"), ("COLOUR", "burgundy red")];
    repo.run_with(&["run"], &env).code(3);
    repo.run_with(&["skip", "B", "--reason", "fails"], &env).code(0);
    repo.run_with(&["run"], &env).code(0);
    for file in files_below(&repo.join(".mahabharatha/logs")) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&token) && !text.contains("battery"), "{}: {text}", file.display());
    }
    let hidden = "[redacted: github-token] [redacted: environment DEPLOY_PASSWORD]";
    let messages: Vec<String> =
        records(&repo, &[]).iter().map(|record| record["message"].as_str().unwrap().to_string()).collect();
    for message in [format!("agent {hidden}"), format!("verified {hidden}"), format!("gate {hidden} burgundy red")] {
        assert!(messages.contains(&message), "{message} is not in {messages:#?}");
    }
}

#[test]
fn large_logs_are_rotated_and_read_as_one() {
    let repo = Repo::new();
    repo.config("logs: { max_mb: 1 }\n");
    // 1.5 MB of output, below what one program may write.
    let line = "x".repeat(140);
    let run = format!("i=0; while [ $i -lt 10000 ]; do echo \"$i {line}\"; i=$((i+1)); done; touch a.txt");
    repo.graph("x", &[task("A", 1, "a.txt", &run)]);
    repo.run(&["run"]).code(0);
    let logs = repo.join(".mahabharatha/logs/x");
    for log in ["workers/worker-0.jsonl", "tasks/A.jsonl"] {
        for part in [log.to_string(), format!("{log}.1"), format!("{log}.2")] {
            let length = fs::metadata(logs.join(&part)).unwrap_or_else(|error| panic!("{part}: {error}")).len();
            assert!(length <= 1 << 20, "{part}: {length}");
        }
    }
    let output: Vec<Value> =
        records(&repo, &["--task", "A"]).into_iter().filter(|record| record["event"] == "output").collect();
    assert_eq!(output.len(), 10_000);
    let numbers = output.iter().map(|record| record["message"].as_str().unwrap().split(' ').next().unwrap());
    assert!(numbers.enumerate().all(|(at, number)| number == at.to_string()), "each once and in order");
}

#[test]
fn old_logs_are_removed_when_a_run_starts() {
    let repo = Repo::new();
    repo.config("logs: { keep_days: 3 }\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let day = Duration::from_secs(24 * 60 * 60);
    let log = |name: &str, days: u32| {
        let path = repo.join(&format!(".mahabharatha/logs/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap().set_modified(SystemTime::now() - day * days).unwrap();
        path
    };
    let gone = [log("x/workers/worker-7.jsonl", 4), log("x/tasks/OLD.jsonl.1", 400), log("x/gates/1-lint.1.jsonl", 4)];
    let kept = [log("x/tasks/NEW.jsonl", 2), log("x/tasks/notes.txt", 400), log("y/tasks/OLD.jsonl", 400)];
    repo.run(&["logs"]).code(0);
    assert!(gone.iter().all(|path| path.exists()), "reading removes nothing");
    repo.run(&["run"]).code(0);
    assert!(gone.iter().all(|path| !path.exists()), "{:?}", files_below(&repo.join(".mahabharatha/logs")));
    assert!(kept.iter().all(|path| path.exists()), "{:?}", files_below(&repo.join(".mahabharatha/logs")));
}

#[test]
fn following_an_unknown_gate_is_refused() {
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: lint, command: 'true' }]\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["logs", "--follow", "--gate", "lnit"]).code(2).says("lint");
}
