//! Repositories of strangers: commands that only read execute nothing of them, and nothing in them controls the terminal.

use std::path::Path;

use serde_json::json;

use crate::support::{Ran, Repo, simple, with};
use crate::terminal::Terminal;

/// Every command that reads, as a person would call it in a repository.
const READERS: [&[&str]; 18] = [
    &["status"],
    &["status", "-v"],
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
        let doctor = repo.run(&["doctor"]).says("uncommitted changes were not looked for").says("gates were not run");
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
    // Before the run it would wait for it.
    repo.run(&["status", "--watch", "--plain"]).code(0);
    assert!(!mark.exists());
}

#[test]
fn a_doctor_runs_the_gates_only_where_it_is_asked_to_and_says_so() {
    let repo = Repo::new();
    let (outside, gate) = (tempfile::tempdir().unwrap(), "executes code of this repository");
    let mark = outside.path().join("executed");
    repo.config(&format!("quality_gates: [ {{ name: lint, command: \"touch '{}'\" }} ]\n", mark.display()));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("spec");
    repo.run(&["doctor"]).code(0).says("gates were not run; `mahabharatha doctor --run-gates` runs them");
    assert!(!mark.exists());
    repo.run(&["doctor", "--run-gates"]).code(0).says(&format!("running the gates on main, which {gate}: lint"));
    assert!(mark.exists());
    repo.run(&["run"]).code(0);
    repo.run(&["doctor", "--run-gates"]).code(0).says("x is completed already");
}

/// Sets a title, hides text, clears the screen, and rings, in sequences of both sets.
const EVIL: &str = "\x1b]0;owned\x07\x1b[8m\x1b[2J\u{9b}2J\u{9d}0;owned\u{9c}\x08\x7f\u{202e}";
/// The same for a shell.
const EVIL_PRINTF: &str =
    "printf '\\033]0;owned\\007\\033[8m\\033[2J\\302\\2332J\\302\\2350;owned\\302\\234\\010\\177\\n'";

/// Colors of ours, and the carriage return that a terminal adds to a line break.
const OURS: [&str; 9] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[22m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[39m", "\r\n"];

/// A text as a YAML scalar.
fn yaml(text: &str) -> String {
    let plain = |c: char| if c.is_control() { format!("\\u{:04x}", c as u32) } else { c.to_string() };
    format!("\"{}\"", text.chars().map(plain).collect::<String>())
}

#[track_caller]
fn assert_harmless(args: &str, text: &str) {
    let left = OURS.iter().fold(text.to_string(), |text, ours| text.replace(ours, "\n"));
    let bad = left.lines().find(|line| line.chars().any(|c| c.is_control() && c != '\t'));
    assert_eq!(bad, None, "{args} prints control characters");
}

/// What a person sees in a pipe and on a terminal, with and without `--json`.
fn read_harmlessly(repo: &Repo, args: &[&str]) {
    for json in [None, Some("--json")] {
        let args: Vec<&str> = args.iter().copied().chain(json).collect();
        let Ran { stdout, stderr, .. } = repo.run(&args);
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let (_, shown) = Terminal::open(repo, &quoted.join(" "), &[]).end();
        for text in [stdout, stderr, shown] {
            // A watched status draws over what it showed.
            let text = text.replace("\x1b[H", "").replace("\x1b[K", "").replace("\x1b[J", "");
            assert_harmless(&args.join(" "), &text);
        }
    }
}

#[test]
fn no_escape_sequence_of_a_run_reaches_the_terminal() {
    let repo = Repo::new();
    repo.git(&["checkout", "-q", "-b", "m\u{9b}2J"]);
    repo.config(&format!(
        "agent: command\nretry: {{ max_attempts: 1, base_seconds: 0, max_seconds: 0 }}\n\
         quality_gates: [ {{ name: {}, required: false, command: \"{}; exit 1\" }} ]\n",
        yaml(&format!("lint {EVIL}")),
        EVIL_PRINTF.replace('\\', "\\\\")
    ));
    let loud = format!("{EVIL_PRINTF}; {EVIL_PRINTF} >&2; printf 'DECISION: '; {EVIL_PRINTF}");
    let evil = |id: &str, level: u32, file: &str, run: &str| {
        with(
            simple(id, level, file),
            json!({ "title": "Make \u{202e}it", "description": EVIL, "acceptance_criteria": [EVIL], "run": run,
                    "verification": { "command": format!("{EVIL_PRINTF}; test -e '{file}' # {EVIL}") } }),
        )
    };
    let stray = format!("{loud}; echo x > \"$({EVIL_PRINTF})\"");
    repo.graph(
        "x",
        &[
            evil("A", 1, "a.txt", &stray),
            evil("B", 1, "b.txt", &format!("{loud}; exit 3")),
            evil("C", 1, "c.txt", &format!("{loud}; echo c > c.txt")),
            evil("D", 1, "d.txt", &loud),
            evil("E", 1, "e.txt", &format!("{loud}; exit 1")),
        ],
    );
    repo.commit(&format!("spec {EVIL}"));
    for args in READERS {
        read_harmlessly(&repo, args);
    }
    let ran = repo.run(&["run"]).code(3);
    assert_harmless("run", &format!("{}{}", ran.stdout, ran.stderr));
    for args in READERS {
        read_harmlessly(&repo, args);
    }
    let ran = repo.run(&["skip", "A", "B", "D", "E", "--reason", EVIL]).code(0);
    assert_harmless("skip", &format!("{}{}", ran.stdout, ran.stderr));
    // The live display of a terminal moves the cursor itself.
    let (_, shown) = Terminal::open(&repo, "run --plain", &[]).end();
    for part in ["\x1b]", "\x1b[8m", "\x1b[2J", "\u{9b}", "\u{9d}", "\u{9c}", "\x07", "\x08", "\x7f"] {
        assert!(!shown.contains(part), "{part:?} in {shown:?}");
    }
    for args in READERS {
        read_harmlessly(&repo, args);
    }
}

#[test]
fn no_escape_sequence_of_a_bad_spec_or_configuration_reaches_the_terminal() {
    let repo = Repo::new();
    let bad = with(
        simple(EVIL, 1, EVIL),
        json!({ "title": EVIL, "dependencies": [EVIL], "agent": EVIL, EVIL: 1, "files": { "create": [EVIL], "modify": [format!("x{EVIL}")] } }),
    );
    repo.graph("x", &[bad, with(simple("A", 1, "a.txt"), json!({ "agent": EVIL, EVIL: 1, "read": [EVIL] }))]);
    for args in READERS {
        read_harmlessly(&repo, args);
    }
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "agent": EVIL, EVIL: 1 }))]);
    for args in READERS {
        read_harmlessly(&repo, args);
    }
    for config in [
        format!("{}: 1\n", yaml(EVIL)),
        format!("agent: {}\n", yaml(EVIL)),
        format!("agents: {{ {}: {{ kind: claude, command: {} }} }}\n", yaml(EVIL), yaml(&format!("./{EVIL}"))),
        format!("agent: mine\nagents: {{ mine: {{ kind: command, command: [{}] }} }}\n", yaml(EVIL)),
        format!("project: {EVIL}\n"),
    ] {
        repo.write(".mahabharatha/config.yaml", &config);
        for args in [&["doctor"][..], &["run", "--dry-run"], &["merge", "--dry-run"], &["status"]] {
            read_harmlessly(&repo, args);
        }
    }
    for args in
        [&["status", "-f", EVIL][..], &["status", EVIL], &["logs", "--task", EVIL], &["-C", EVIL, "list"], &[EVIL]]
    {
        read_harmlessly(&repo, args);
    }
    repo.write(".gsd/.current-feature", EVIL);
    read_harmlessly(&repo, &["status"]);
}
