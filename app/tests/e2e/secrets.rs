//! Secrets that an agent, a session or a fix would commit: refused like a failed verification, and never shown.

use std::path::PathBuf;

use serde_json::json;

use crate::integrations::collector;
use crate::support::{Repo, simple, task, with};
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

/// Every file of ours that holds the key.
fn leaks(repo: &Repo) -> Vec<PathBuf> {
    leaks_of(repo, &key())
}

/// Every file of ours that holds a secret: journal, logs, reports, specs, but no git objects.
fn leaks_of(repo: &Repo, secret: &str) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let text = path.to_string_lossy();
        // An index of the attempt's work has the names of its files.
        let is_work = text.ends_with(".scratch");
        !is_work && ["/.git/mahabharatha/", "/.mahabharatha/", "/.gsd/"].iter().any(|dir| text.contains(dir))
    };
    let files = repo.everything().into_iter().filter(|(path, _)| is_ours(path));
    let secret = secret.as_bytes();
    let holds = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret);
    files.filter(|(_, (_, bytes))| holds(bytes)).map(|(path, _)| path).collect()
}

#[test]
fn a_secret_fails_the_attempt_and_the_next_one_is_given_its_place() {
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
    let detail = attempts[0]["detail"].as_str().unwrap();
    let kept = "kept in this repository only, as refs/mahabharatha/x/wip/A/1";
    assert!(detail.contains(kept) && !detail.contains("Nothing was committed"), "{detail}");
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
    let entry = "add `secrets: { allow: [{ path: a.ts, rule: github-token, reason: … }] }` with a reason";
    let again = "mahabharatha retry -f x A && mahabharatha run x --accept-config";
    let ran = repo.run(&["run"]).code(3).says("a.ts:1: github-token").says(entry).says(again);
    ran.says("refs/mahabharatha/x/wip/A | git update-ref --stdin").does_not_say("Then `mahabharatha run x`");
    repo.run(&["status"]).code(0).says(entry).says(again);
    let problem = &repo.status()["problems"][0];
    let text = problem["text"].as_str().unwrap();
    let kept = "It is not merged. The attempt is kept in this repository only, as refs/mahabharatha/x/wip/A/2.";
    assert!(text.contains(kept) && !text.contains("The user sees"), "{problem:#}");
    repo.git(&["rev-parse", "refs/mahabharatha/x/wip/A/2"]);
    let named = repo.run(&["debug", "--json"]).code(0).json()["hypotheses"][0].clone();
    assert_eq!(named["code"], "secret", "{named:#}");
    assert_eq!(named["command"], "mahabharatha retry A -f x && mahabharatha run x --accept-config");
    assert!(named["next"].as_str().unwrap().contains(entry), "{named:#}");
    repo.run(&["debug"]).code(0).says("adds what looks like a secret").does_not_say("The user sees");
    repo.run(&["cleanup", "--dry-run"]).code(0).says("it holds what looks like a secret (a.ts, github-token)");
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
    let detail = repo.task("A")["attempts"][0]["detail"].to_string();
    let why = "a.py:2: github-token (ghp_…, 40 characters); the comment above it gives no reason: mahabharatha:allow-secret <why";
    assert!(detail.contains(why) && !detail.contains(KEY.1), "{detail}");
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

/// The value of a variable that the configuration passes and whose name says that it is a secret.
const PASSWORD: &str = "correct horse battery staple";

/// Asserts that neither secret is in a file of ours, in these texts, or in what reading commands show.
#[track_caller]
fn assert_shown_nowhere(repo: &Repo, texts: &[(&str, String)]) {
    let mut texts = texts.to_vec();
    for args in [
        &["status", "--json"][..],
        &["status", "-v"],
        &["debug"],
        &["debug", "--json"],
        &["logs", "--json"],
        &["task", "list", "--json"],
    ] {
        let ran = repo.run(args).code(0);
        texts.push((args[0], format!("{}{}", ran.stdout, ran.stderr)));
    }
    texts.push(("notices", std::fs::read_to_string(repo.home().join("notices")).unwrap()));
    for secret in [key().as_str(), PASSWORD] {
        assert_eq!(leaks_of(repo, secret), [] as [PathBuf; 0], "{secret}");
        for (what, text) in &texts {
            assert!(!text.contains(secret), "{secret} is in {what}: {text}");
        }
    }
}

/// Runs with a JUnit file and a trace; returns everything that leaves the run that way.
fn run_watched(repo: &Repo, code: i32) -> Vec<(&'static str, String)> {
    let (address, server) = collector();
    let env = [("DEPLOY_PASSWORD", PASSWORD), ("OTEL_EXPORTER_OTLP_ENDPOINT", &address)];
    let ran = repo.run_with(&["run", "--junit", "out.xml"], &env).code(code);
    let trace = server.join().unwrap().1.to_string();
    vec![("run", format!("{}{}", ran.stdout, ran.stderr)), ("out.xml", repo.read("out.xml")), ("trace", trace)]
}

#[test]
fn what_programs_print_is_shown_nowhere_with_its_secrets() {
    let repo = Repo::new();
    let says = format!("echo \"see $({}) or $DEPLOY_PASSWORD\"", print_key());
    repo.config(&format!(
        "agent: command\nretry: {{ max_attempts: 2, base_seconds: 0, max_seconds: 0 }}\nenv: {{ pass: [DEPLOY_PASSWORD] }}\n\
         notify: {{ command: 'cat >> \"$HOME/notices\"' }}\nmerge: {{ remediation_attempts: 1 }}\n\
         quality_gates: [{{ name: lint, command: {}, required: true }}]\n",
        json!(format!("test ! -e d.txt || {{ {says}; exit 1; }}"))
    ));
    repo.commit("configure");
    let keep_prompt = "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-$MAHABHARATHA_TASK_ID-$MAHABHARATHA_ATTEMPT\"";
    let blocked = format!("{says}; echo \"DECISION: $({says})\"; {says}; exit 3");
    let resumed = format!("{keep_prompt}; test $MAHABHARATHA_ATTEMPT != 1 || {{ {says}; exit 2; }}; {says}; exit 4");
    // The line that is quoted first is cut in the middle of the key.
    let cut = format!("{keep_prompt}; printf 'error: {} ' >&2; {says} >&2; exit 1", "x".repeat(210));
    let unverified = with(
        task("E", 1, "e.txt", &format!("{keep_prompt}; touch e.txt \"stray $({})\"", print_key())),
        json!({ "files": { "create": ["e.txt"], "modify": [] } }),
    );
    let failing = with(
        task("D", 1, "d2.txt", &format!("{keep_prompt}; touch d2.txt")),
        json!({ "verification": { "command": format!("{says}; false") } }),
    );
    let tasks = [task("A", 1, "a.txt", &blocked), task("B", 1, "b.txt", &resumed), task("C", 1, "c.txt", &cut)];
    repo.graph("x", &[&tasks[..], &[failing, unverified, simple("F", 1, "d.txt")]].concat());
    let texts = run_watched(&repo, 3);
    assert_shown_nowhere(&repo, &texts);
    for task in ["A", "B", "C", "D"] {
        let reason = repo.task(task)["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("[redacted: github-token]"), "{task}: {reason}");
        assert!(reason.contains("[redacted: environment DEPLOY_PASSWORD]") || task == "C", "{task}: {reason}");
    }
    assert!(!repo.task("C").to_string().contains("ghp_"), "{:#}", repo.task("C"));
    assert!(repo.read(".gsd/specs/x/prompt-D-2").contains("see [redacted: github-token] or [redacted: environment"));

    repo.run(&["skip", "A", "B", "C", "D", "E", "--reason", "not needed"]).code(0);
    let texts = run_watched(&repo, 4);
    assert!(texts[1].1.contains("see [redacted: github-token] or [redacted: environment"), "{}", texts[1].1);
    assert_shown_nowhere(&repo, &texts);

    // What a person types stays as it is.
    repo.run(&["retry", "A", "--note", &key()]).code(0);
    assert!(repo.read(".gsd/STATE.md").contains(&key()));
}
