//! Answers to blocked agents, and files that tasks are granted.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agents::held;
use crate::support::{Ran, Repo, simple, task};

/// Keeps its prompt and asks until the prompt has `answer`.
fn asking(id: &str, file: &str, question: &str, answer: &str) -> Value {
    let script = format!(
        "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-{id}-$MAHABHARATHA_ATTEMPT\"; echo half > {file}; \
         if grep -q '{answer}' \"$MAHABHARATHA_SPEC_DIR/prompt-{id}-$MAHABHARATHA_ATTEMPT\"; then echo {id} > {file}; \
         else echo '{question}'; exit 3; fi"
    );
    task(id, 1, file, &script)
}

fn prompt(repo: &Repo, id: &str, attempt: u32) -> String {
    repo.read(&format!(".gsd/specs/x/prompt-{id}-{attempt}"))
}

fn decisions(repo: &Repo) -> Vec<String> {
    let state = repo.read(".gsd/STATE.md");
    let (_, section) = state.split_once("## Decisions\n").unwrap();
    section
        .lines()
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| !line.is_empty())
        .map(str::to_string)
        .collect()
}

#[test]
fn an_answer_reaches_every_later_attempt_and_the_decisions() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let later = task("B", 2, "b", "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-B-1\"; echo B > b");
    repo.graph("x", &[asking("A", "a", "sqlite or postgres?", "use sqlite"), later]);
    repo.run(&["run"])
        .code(3)
        .says("A is blocked: sqlite or postgres?\n")
        .says("A is blocked: sqlite or postgres?")
        .says("mahabharatha retry -f x A --note \"…\"");
    assert_eq!(repo.task("A")["question"], "sqlite or postgres?");
    repo.run(&["status"]).code(0).says("A: sqlite or postgres?").says("retry -f x A --note \"…\"");
    repo.run(&["debug"]).code(0).says("A is blocked: sqlite or postgres?").says("retry A --note \"…\"");
    assert!(repo.read(".gsd/specs/x/tasks/A.md").contains("mahabharatha retry -f x A --note"));

    repo.run(&["retry", "A", "--note", "no idea", "--run"]).code(3).says("A: queued again").says("A is blocked");
    assert!(prompt(&repo, "A", 2).contains("no idea") && !prompt(&repo, "A", 1).contains("The User's Answer"));
    assert!(repo.task("A")["attempts"][1]["wip"].is_string());
    repo.run(&["retry", "A", "--note", "use sqlite", "--run"]).code(0).says("x is completed");
    let last = prompt(&repo, "A", 3);
    let (_, answer) = last.split_once("## The User's Answer\n").unwrap();
    for text in ["no idea", "use sqlite", "sqlite or postgres?", "git restore --source="] {
        assert!(answer.contains(text), "{text} is not in {answer}");
    }
    assert_eq!(decisions(&repo), ["- A: the user says: no idea", "- A: the user says: use sqlite"]);
    let shared = prompt(&repo, "B", 1);
    assert_eq!(shared.matches("the user says: use sqlite").count(), 1, "{shared}");
    assert!(!shared.contains("The User's Answer"), "{shared}");
    assert_eq!(repo.read("a"), "A\n");
}

#[test]
fn an_answer_survives_a_crash_and_a_task_that_is_done_again() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[asking("A", "a", "which?", "sqlite"), asking("B", "b", "why?", "because")]);
    repo.run(&["run"]).code(3);
    let answer = repo.run(&["retry", "A", "--note", "use sqlite", "--json"]).code(0).json();
    assert_eq!(answer["accepted"], json!(["A"]));
    // Derived files are written again from the journal.
    std::fs::remove_file(repo.join(".gsd/STATE.md")).unwrap();
    repo.run(&["run"]).code(3);
    assert_eq!(repo.task_status("A"), "completed");
    assert_eq!(decisions(&repo), ["- A: the user says: use sqlite"]);
    repo.run(&["retry", "A", "--note", "- keep it small"]).code(0);
    repo.run(&["run"]).code(3);
    let again = prompt(&repo, "A", 3);
    assert!(again.contains("use sqlite") && again.contains("- keep it small"), "{again}");
}

#[test]
fn one_answer_goes_to_several_tasks_and_comes_from_standard_input() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 2 }\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[asking("A", "a", "which?", "sqlite"), asking("B", "b", "which?", "sqlite")]);
    repo.run(&["run"]).code(3);
    let ran = with_input(&repo, &["retry", "A", "B", "--note", "-", "--run", "--json"], b"use\r\nsqlite\n").code(0);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["event"], &lines[0]["accepted"]), (&json!("retried"), &json!(["A", "B"])));
    assert_eq!(lines.last().unwrap()["event"], "end");
    assert!(prompt(&repo, "B", 2).contains("use\nsqlite\n"));
    assert_eq!(decisions(&repo), ["- A: the user says: use sqlite", "- B: the user says: use sqlite"]);
}

#[test]
fn an_answer_goes_to_a_run_that_is_on() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 2 }\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[asking("A", "a", "which?", "sqlite"), held("B", 1, "b")]);
    let run = repo.run_until_up(&["B"]);
    repo.wait_until("A is blocked", || repo.task_status("A") == "blocked");
    repo.run(&["retry", "B", "--note", "be quick"])
        .code(1)
        .says("B: not queued again: it is in progress on worker")
        .says("mahabharatha stop");
    repo.run(&["retry", "A", "--note", "use sqlite", "--run"]).code(0).does_not_say("is not running. Continue with");
    repo.wait_until("A is completed", || repo.task_status("A") == "completed");
    repo.let_go("all");
    run.wait().code(0).says("A: answer it: `mahabharatha retry -f x A --note \"…\"`").says("A is retried: use sqlite");
    assert!(!repo.read(".gsd/STATE.md").contains("be quick"));
}

#[test]
fn bad_notes_are_refused_and_change_nothing() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[asking("A", "a", "\u{1b}[31mwhich?", "sqlite"), simple("B", 2, "b")]);
    repo.run(&["run"]).code(3).does_not_say("\u{1b}");
    repo.run(&["status"]).code(0).does_not_say("\u{1b}");
    let before = repo.everything();
    for note in ["", " \n", "a\u{1b}[2Jb", &"x".repeat(4_001)] {
        repo.run(&["retry", "A", "--note", note]).code(2).says("error: the note");
    }
    for input in [&b"\xff\xfe"[..], &[b' '; 20_000]] {
        with_input(&repo, &["retry", "A", "--note", "-"], input).code(2).says("error: standard input");
    }
    repo.run(&["retry", "--note", "x"]).code(2).says("no task is named");
    assert_eq!(repo.everything(), before);
    repo.run(&["retry", "A", "Z", "--note", "use sqlite", "--run"]).code(2).says("x has no task Z");
    assert_eq!(repo.everything(), before);
    repo.run(&["retry", "A", "--note", "use sqlite"]).code(0);
    repo.run(&["retry", "A", "--run"]).code(1).says("A: not queued again: it is queued already");
    assert_eq!(repo.task_status("A"), "pending", "nothing runs after a refusal");
    repo.run(&["run"]).code(0);
    repo.run(&["retry", "A", "--note", "too late"]).code(1).says("level 1 is merged");
    assert_eq!(decisions(&repo), ["- A: the user says: use sqlite"]);
}

fn with_input(repo: &Repo, args: &[&str], input: &[u8]) -> Ran {
    let mut command = repo.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran::of(child.wait_with_output().unwrap())
}

/// Asks for `other` until it may change it, then changes both.
fn needing(id: &str, level: u32, file: &str, other: &str) -> Value {
    let script = format!(
        "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-{id}-$MAHABHARATHA_ATTEMPT\"; echo {id} > {file}; \
         if grep -q 'You modify' \"$MAHABHARATHA_SPEC_DIR/prompt-{id}-$MAHABHARATHA_ATTEMPT\"; then echo {id} >> '{other}'; \
         else echo 'NEEDS: {other} — it has the type'; exit 3; fi"
    );
    task(id, level, file, &script)
}

#[test]
fn a_file_is_granted_on_request_and_lands_with_the_task() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[needing("A", 1, "a", "my types.rs"), simple("B", 2, "b")]);
    let command = "mahabharatha task grant -f x A 'my types.rs'";
    repo.run(&["run"])
        .code(3)
        .says(&format!("A: grant it: `{command}`; refuse it: `mahabharatha retry -f x A --note \"…\"`"));
    let asked = repo.task("A");
    assert_eq!(asked["needs"], json!([{ "path": "my types.rs", "why": "it has the type" }]));
    repo.run(&["status"]).code(0).says(command);
    let answer = repo.run(&["task", "grant", "A", "my types.rs", "--json"]).code(0).json();
    assert_eq!(answer["accepted"], json!(["A"]));
    assert_eq!((repo.task_status("A"), &repo.task("A")["granted"]), ("pending".to_string(), &json!(["my types.rs"])));
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read("a"), repo.read("my types.rs")), ("A\n".to_string(), "A\n".to_string()));
    let changed = repo.git(&["log", "--name-only", "--format=", "--grep=feat(A)", "main"]);
    assert_eq!(changed.lines().collect::<Vec<_>>(), ["a", "my types.rs"]);
    repo.run(&["task", "grant", "A", "later"]).code(1).says("level 1 is merged");
}

#[test]
fn a_request_is_refused_by_a_note() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let script = "if grep -q 'do without' ; then echo A > a; else echo 'NEEDS: types.rs - why'; exit 3; fi";
    repo.graph("x", &[task("A", 1, "a", script)]);
    repo.run(&["run"]).code(3);
    repo.run(&["retry", "A", "--note", "do without", "--run"]).code(0);
    assert!(!repo.exists("types.rs"));
}

#[test]
fn a_free_file_is_granted_by_the_run_if_the_configuration_says_so() {
    let repo = Repo::new();
    repo.write("types.rs", "mine\n");
    repo.commit("types");
    repo.config("agent: command\nretry: { max_attempts: 1 }\nownership: { amend: auto }\n");
    repo.graph("x", &[needing("A", 1, "a", "types.rs"), simple("B", 1, "b")]);
    repo.run(&["run"]).code(0).says("A is granted types.rs, which no task owns").does_not_say("is blocked:");
    assert_eq!(repo.read("types.rs"), "mine\nA\n");
    assert_eq!(repo.task("A")["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn what_the_files_of_the_base_forbid_is_not_granted_by_the_run() {
    let repo = Repo::new();
    std::os::unix::fs::symlink("real.rs", repo.join("types.rs")).unwrap();
    repo.write("dir/file", "");
    repo.commit("a link and a directory");
    repo.config("agent: command\nretry: { max_attempts: 1 }\nownership: { amend: auto }\n");
    let asks = |id: &str, path: &str| task(id, 1, id, &format!("echo 'NEEDS: {path} — why'; exit 3"));
    repo.graph("x", &[asks("A", "types.rs"), asks("B", "dir"), asks("C", "dir/file/below"), asks("D", "Dir/file")]);
    repo.run(&["run"]).code(3);
    for id in ["A", "B", "C", "D"] {
        let task = repo.task(id);
        assert_eq!((&task["status"], &task["granted"]), (&json!("blocked"), &Value::Null), "{id}");
    }
}

#[test]
fn an_agent_cannot_ask_forever_nor_for_what_is_not_to_be_had() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\nownership: { amend: auto }\n");
    let greedy = task("A", 1, "a", "echo \"NEEDS: more/$MAHABHARATHA_ATTEMPT — more\"; exit 3");
    let bad = |id: &str, file: &str, path: &str| task(id, 1, file, &format!("echo 'NEEDS: {path} — why'; exit 3"));
    let paths = ["../up", "/etc/passwd", ".git/hooks/x", ".mahabharatha/config.yaml", "src/"];
    let mut tasks = vec![greedy];
    tasks.extend(paths.iter().enumerate().map(|(n, path)| bad(&format!("B-{n}"), &format!("b{n}"), path)));
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(3);
    assert_eq!(repo.task("A")["granted"].as_array().unwrap().len(), 5);
    assert_eq!(repo.task("A")["attempts"].as_array().unwrap().len(), 6);
    for (n, path) in paths.iter().enumerate() {
        let task = repo.task(&format!("B-{n}"));
        assert_eq!((&task["status"], &task["granted"]), (&json!("blocked"), &Value::Null), "{path}");
    }
}

#[test]
fn the_file_of_an_unfinished_task_is_refused_and_its_owner_gets_the_request() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 1 }\nretry: { max_attempts: 1 }\nownership: { amend: auto }\n");
    let script = "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-C-1\"; echo C > c";
    repo.graph("x", &[needing("A", 1, "a", "c"), simple("B", 1, "b"), task("C", 2, "c", script)]);
    repo.run(&["run"]).code(3).says("C is told that A needs c");
    repo.run(&["task", "grant", "A", "c"]).code(1).says("A: not granted c: c belongs to C, which is not merged");
    repo.run(&["task", "grant", "A", "C"]).code(1).says("belongs to C");
    repo.run(&["task", "grant", "A", "x", "b"]).code(1).says("b belongs to B, which is not merged");
    assert_eq!(repo.task("A")["granted"], Value::Null, "all or nothing");
    repo.run(&["skip", "A", "--reason", "not needed", "--yes"]).code(0);
    repo.run(&["run"]).code(0);
    let told = repo.read(".gsd/specs/x/prompt-C-1");
    assert!(
        told.contains("## Requests from Other Tasks") && told.contains("A needs a change in c: it has the type"),
        "{told}"
    );
    assert!(!repo.read(".gsd/STATE.md").contains("needs a change"));
}

#[test]
fn the_file_of_a_merged_task_may_be_granted() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\nownership: { amend: auto }\n");
    repo.graph("x", &[simple("A", 1, "a"), needing("B", 2, "b", "a"), simple("C", 3, "c")]);
    repo.run(&["run"]).code(3).says("mahabharatha task grant -f x B a");
    repo.run(&["task", "grant", "B", "a"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a"), "A\nB\n");
}

#[test]
fn a_grant_reaches_a_run_that_is_on_and_holds_after_a_changed_graph() {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 2 }\nretry: { max_attempts: 1 }\n");
    let tasks = [needing("A", 1, "a", "types.rs"), held("B", 1, "b")];
    repo.graph("x", &tasks);
    let run = repo.run_until_up(&["B"]);
    repo.wait_until("A is blocked", || repo.task_status("A") == "blocked");
    repo.run(&["task", "grant", "B", "other"]).code(1).says("it is in progress").says("mahabharatha stop");
    repo.run(&["task", "grant", "A", "types.rs"]).code(0).does_not_say("is not running. Continue with");
    repo.wait_until("A is completed", || repo.task_status("A") == "completed");
    repo.run(&["stop"]).code(0);
    run.wait().code(130).says("A is granted types.rs");
    repo.graph("x", &[tasks[0].clone(), tasks[1].clone(), simple("C", 1, "types.rs")]);
    repo.run(&["run"]).code(6).says("C cannot own types.rs: it was granted to A");
    repo.graph("x", &[tasks[0].clone(), tasks[1].clone(), simple("C", 2, "c")]);
    repo.let_go("all");
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read("types.rs"), repo.read("c")), ("A\n".to_string(), "C\n".to_string()));
}

#[test]
fn two_tasks_are_never_granted_one_file_also_if_one_was_out_of_the_graph() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let both = [task("A", 1, "a", "exit 3"), task("B", 1, "b", "exit 3")];
    repo.graph("x", &both);
    repo.run(&["run"]).code(3);
    repo.run(&["task", "grant", "A", "shared"]).code(0);
    repo.graph("x", &both[1..]);
    repo.run(&["run"]).code(3);
    repo.run(&["task", "grant", "B", "shared"]).code(0);
    repo.graph("x", &both);
    repo.run(&["run"]).code(6).says("it was granted to");
}

#[test]
fn a_requested_path_is_never_an_option_of_the_command_to_copy() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[task("A", 1, "a", "printf 'NEEDS: -fy — a\\nNEEDS: b — b\\n'; exit 3")]);
    repo.run(&["run"]).code(3).says("`mahabharatha task grant -f x A -- b -fy`");
    let causes = repo.run(&["debug", "--json"]).code(0).json()["hypotheses"].clone();
    assert_eq!(causes[0]["command"], "mahabharatha task grant A -f x -- b -fy && mahabharatha run x");
    repo.run(&["task", "grant", "A", "-f", "x", "--", "-fy", "b"]).code(0);
    assert_eq!(repo.task("A")["granted"], json!(["-fy", "b"]));
}

#[test]
fn a_grant_fits_the_files_that_the_task_finds() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.write("src/Main.rs", "");
    repo.write("file", "");
    for (link, target) in [("in", "src"), ("out", "/etc"), ("to-file", "file")] {
        std::os::unix::fs::symlink(target, repo.join(link)).unwrap();
    }
    repo.commit("files");
    let merged = task("A", 1, "made/", "mkdir -p made; echo > made/file; ln -s file made/link");
    repo.graph("x", &[merged, needing("B", 2, "b", "types.rs")]);
    repo.run(&["run"]).code(3);
    for (path, why) in [
        ("in/new.rs", "goes through `in`, a symlink that leads elsewhere (to `src`)"),
        ("out/passwd", "a symlink that leads out of the repository (to `/etc`)"),
        ("in/", "goes through `in`"),
        ("IN/new.rs", "goes through `in`"),
        ("to-file", "`to-file` is a symlink (to `file`); name the real path"),
        ("file/x", "is below `file`, which is a file"),
        ("file/", "is a file; name it without the trailing `/`"),
        ("src", "is a directory; add a trailing `/`"),
        ("src/main.rs", "differs from `src/Main.rs`, which exists, only in case or accents"),
        ("SRC/new.rs", "differs from `src`, which exists, only in case or accents"),
        // Of a merged level.
        ("made/link", "is a symlink (to `file`)"),
        ("made/file/x", "is below `made/file`, which is a file"),
    ] {
        repo.run(&["task", "grant", "B", "fine", path]).code(2).says(why).says("nothing is granted");
    }
    assert_eq!((repo.task_status("B"), &repo.task("B")["granted"]), ("blocked".to_string(), &Value::Null));
    repo.run(&["task", "grant", "B", "src/Main.rs", "src/new.rs", "new/"]).code(0);
}

#[test]
fn bad_grants_are_refused_and_change_nothing() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[needing("A", 1, "a", "types.rs"), simple("B", 2, "b")]);
    repo.run(&["task", "grant", "A", "t"]).code(6).says("there has been no run");
    repo.run(&["run"]).code(3);
    let granted = || repo.status()["tasks"].as_array().unwrap().iter().any(|task| task["granted"].is_array());
    for path in ["/etc/passwd", "../up", ".git/config", ".mahabharatha/x", ".gsd/x", "a\u{1b}b", "*.rs", "."] {
        repo.run(&["task", "grant", "A", "fine", path]).code(2).says("nothing is granted").does_not_say("\u{1b}");
    }
    repo.run(&["task", "grant", "AA", "t"]).code(2).says("x has no task AA").says("Did you mean `A`?");
    repo.run(&["task", "grant", "A", "a"]).code(1).says("it owns a already");
    repo.run(&["task", "grant", "A", "a/b"]).code(1).says("it owns a, so it cannot own a/b too");
    repo.run(&["task", "grant", "A"]).code(2);
    assert!(!granted());
    assert_eq!(repo.task_status("A"), "blocked");
}
