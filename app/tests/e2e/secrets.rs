//! Secrets that an agent, a session or a fix would commit: refused like a failed verification, and never shown.

use std::path::PathBuf;

use serde_json::json;

use crate::support::{Repo, simple, with};
use crate::task_mode::{Session, plain};

/// A key in two parts, so that no scanner finds it in this file.
const KEY: (&str, &str) = ("ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");

fn key() -> String {
    format!("{}_{}", KEY.0, KEY.1)
}

/// A shell command that prints the key.
fn print_key() -> String {
    format!("printf '%s_%s' {} {}", KEY.0, KEY.1)
}

/// Every file of ours that holds the key: journal, logs, reports, specs, but no git objects.
fn leaks(repo: &Repo) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let text = path.to_string_lossy();
        ["/.git/mahabharatha/", "/.mahabharatha/", "/.gsd/"].iter().any(|dir| text.contains(dir))
    };
    let files = repo.everything().into_iter().filter(|(path, _)| is_ours(path));
    let key = key().into_bytes();
    files.filter(|(_, (_, bytes))| bytes.windows(key.len()).any(|part| part == key)).map(|(path, _)| path).collect()
}

#[test]
fn a_secret_fails_the_attempt_and_the_next_one_is_told_where_it_is() {
    let repo = Repo::new();
    let run = format!(
        "cat > \"$MAHABHARATHA_SPEC_DIR/prompt\"\n\
         if [ $MAHABHARATHA_ATTEMPT = 1 ]; then echo first > a.ts; echo \"const k = '$({})';\" >> a.ts\n\
         else grep -qF 'a.ts:2: github-token (ghp_…, 40 characters)' \"$MAHABHARATHA_SPEC_DIR/prompt\" && echo clean > a.ts; fi",
        print_key()
    );
    repo.graph("x", &[with(simple("A", 1, "a.ts"), json!({ "run": run }))]);
    let ran = repo.run(&["run"]).code(0).says("A would commit what looks like a secret (attempt 1 of 3)");
    let shown = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!shown.contains(KEY.1), "{shown}");
    assert_eq!(repo.tree("main")["a.ts"], "clean");
    let attempts = repo.task("A")["attempts"].clone();
    assert_eq!((&attempts[0]["cause"], &attempts[1]["outcome"]), (&json!("secrets"), &json!("done")), "{attempts:#}");
    assert_eq!(leaks(&repo), [] as [PathBuf; 0]);
    let completion = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(completion.contains("## Suppressed Secrets\n\nNone.\n"), "{completion}");
}

#[test]
fn what_always_adds_a_secret_is_blocked_with_the_way_out() {
    let repo = Repo::new();
    repo.config("retry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n");
    repo.graph("x", &[with(simple("A", 1, "a.ts"), json!({ "run": format!("{} > a.ts", print_key()) }))]);
    repo.run(&["run"]).code(3).says("a.ts:1: github-token");
    repo.run(&["debug"]).code(0).says("adds what looks like a secret").says("secrets.allow");
    repo.config(
        "retry: { base_seconds: 0, max_seconds: 0 }\nagent: command\n\
         secrets: { allow: [ { path: '*.ts', rule: github-token, reason: revoked in 2024 } ] }\n",
    );
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run", "--accept-config"]).code(0);
    let completion = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(
        completion.contains("## Suppressed Secrets\n\n- A: `a.ts:1`: github-token: revoked in 2024\n"),
        "{completion}"
    );
    assert_eq!(leaks(&repo), [] as [PathBuf; 0]);
}

#[test]
fn a_suppression_with_a_reason_is_listed_and_one_without_does_not_count() {
    let repo = Repo::new();
    let write = |comment: &str, file: &str| {
        format!("printf '%s\\n' '{comment}' > {file}; echo \"k = '$({})'\" >> {file}", print_key())
    };
    let run = format!(
        "if [ $MAHABHARATHA_ATTEMPT = 1 ]; then {}; else {}; fi",
        write("# mahabharatha:allow-secret", "a.py"),
        write("# mahabharatha:allow-secret a key of the demo", "a.py")
    );
    repo.graph("x", &[with(simple("A", 1, "a.py"), json!({ "run": run })), simple("B", 1, "b.txt")]);
    repo.run(&["run"]).code(0).says("A would commit what looks like a secret (attempt 1 of 3)");
    let suppressed = &repo.status()["suppressed_secrets"];
    let expected =
        json!([{ "task": "A", "path": "a.py", "line": 2, "rule": "github-token", "reason": "a key of the demo" }]);
    assert_eq!(*suppressed, expected);
    let completion = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(completion.contains("- A: `a.py:2`: github-token: a key of the demo\n"), "{completion}");
}

#[test]
fn a_fix_and_a_session_are_scanned_too() {
    let repo = Repo::new();
    repo.config(
        "quality_gates: [{ name: clean, command: '! grep -Hn BAD a.ts' }]\nmerge: { remediation_attempts: 1 }\n",
    );
    let run = format!("test $MAHABHARATHA_ATTEMPT = 1 && echo BAD > a.ts || {} > a.ts", print_key());
    repo.graph("x", &[with(simple("A", 1, "a.ts"), json!({ "run": run }))]);
    repo.run(&["run"]).code(4).says("A would commit what looks like a secret");
    assert_eq!(repo.subjects("main"), ["first"]);

    let repo = Repo::new();
    repo.graph("x", &[plain("A", 1, "a.ts")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    one.write(&worktree, "a.ts", &format!("k = '{}'\n", key()));
    let verified = one.run(&["task", "verify", "A"]).code(1).says("looks like a secret: a.ts:1: github-token");
    assert!(!verified.stdout.contains(KEY.1), "{}", verified.stdout);
    let ended = one.run(&["task", "complete", "A"]).code(1).says("a.ts:1: github-token (ghp_…, 40 characters)");
    assert!(!ended.stdout.contains(KEY.1), "{}", ended.stdout);
    one.does("A", "a.ts", "k = os.environ['KEY']\n").code(0);
}

#[test]
fn a_worker_that_is_killed_after_its_commit_loses_no_suppression() {
    let repo = Repo::new();
    let run = format!("echo '# mahabharatha:allow-secret a key of the demo' > a.py; {} >> a.py", print_key());
    repo.graph("x", &[with(simple("A", 1, "a.py"), json!({ "run": run }))]);
    repo.run_with(&["run"], &[("MAHABHARATHA_CRASH_AT", "worker A.1 after the ref")]).code(0);
    assert_eq!(repo.task("A")["attempt"], 1);
    assert_eq!(repo.status()["suppressed_secrets"][0]["reason"], "a key of the demo");
}
