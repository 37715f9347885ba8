//! What shells show of the program: completions, the manual, the version.

use std::process::{Command, Stdio};

use crate::support::{Ran, Repo, simple, task, with};

/// The build script, which a release has its version from.
#[path = "../../build.rs"]
#[expect(dead_code, reason = "cargo calls its main")]
mod build_script;

/// A repository whose run is blocked: A is merged, B blocked, C waits for B.
fn blocked() -> Repo {
    let repo = Repo::new();
    repo.config(
        "quality_gates: [{ name: lint, command: 'true' }]\nagents: { 'a*b': { kind: command }, mine: { kind: command } }\n",
    );
    repo.commit("configure");
    let blocked = task("B", 2, "b.txt", "echo no; exit 3");
    let after = with(simple("C", 3, "c.txt"), serde_json::json!({ "dependencies": ["B"] }));
    repo.graph("login", &[simple("A", 1, "a.txt"), blocked, after]);
    repo.run(&["run"]).code(3);
    repo.write(".gsd/specs/other-one/task-graph.json", "{}");
    repo
}

/// What a shell prints for a line, with the program found on PATH.
fn shell(repo: &Repo, program: &str, script: &str) -> String {
    let dir = mahabharatha_testing::program().parent().unwrap().display().to_string();
    let path = format!("{dir}:{}", std::env::var("PATH").unwrap());
    let shell = Command::new(program)
        .args(["-c", script])
        .current_dir(repo.path())
        .env("PATH", path)
        .env("HOME", repo.home())
        .env_remove("MAHABHARATHA_FEATURE")
        .stdin(Stdio::null())
        .output();
    let ran = Ran::of(shell.unwrap()).code(0);
    assert_eq!(ran.stderr, "", "{script}");
    ran.stdout
}

/// What bash offers for the last word.
fn offered(repo: &Repo, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (index, current) = (words.len() - 1, quoted.last().unwrap());
    let script = format!(
        "source <({0} completions bash); COMP_WORDS=({1}); COMP_CWORD={index}; COMP_TYPE=9; \
         _clap_complete_{0} {0} {current} ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words[0],
        quoted.join(" ")
    );
    shell(repo, "bash", &script).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn completions_know_features_tasks_agents_and_gates() {
    let repo = blocked();
    for (words, expected) in [
        (&["mahabharatha", "sta"][..], &["status"][..]),
        (&["mahabharatha", "retry", ""], &["A", "B"]),
        (&["mbh", "skip", ""], &["A", "B", "C"]),
        (&["mahabharatha", "task", "claim", "C"], &["C"]),
        (&["mahabharatha", "logs", "--task", "B"], &["B"]),
        (&["mahabharatha", "logs", "--gate", ""], &["lint"]),
        (&["mahabharatha", "run", "lo"], &["login"]),
        (&["mahabharatha", "status", "-f", ""], &["login", "other-one"]),
        (&["mahabharatha", "run", "--agent", "c"], &["claude", "codex", "command", "copilot"]),
        (&["mahabharatha", "run", "--agent", "m"], &["mine"]),
        (&["mahabharatha", "-f", "other-one", "skip", ""], &[]),
        (&["mahabharatha", "-C", "/", "skip", ""], &[]),
    ] {
        let offered = offered(&repo, words);
        let values: Vec<&String> = offered.iter().filter(|value| !value.starts_with('-')).collect();
        assert_eq!(values, expected, "{words:?}");
    }
    assert!(offered(&repo, &["mahabharatha", "run", "--work"]).contains(&"--workers".to_owned()));
}

#[test]
fn completions_are_silent_on_errors_and_start_nothing() {
    let repo = blocked();
    // A git that would tell.
    repo.program("bin/git", "touch \"$HOME/git-was-called\"");
    let home = repo.home().display().to_string();
    let complete_by = |shell: &str, words: &[&str]| {
        let args = [&["--", "mahabharatha"], words].concat();
        let index = words.len().to_string();
        let path = format!("{}:{}", repo.join("bin").display(), std::env::var("PATH").unwrap());
        let env = [
            ("_MAHABHARATHA_COMPLETE", shell),
            ("_CLAP_COMPLETE_INDEX", index.as_str()),
            ("PATH", path.as_str()),
            ("HOME", home.as_str()),
        ];
        repo.run_with(&args, &env)
    };
    let complete = |words: &[&str]| complete_by("bash", words);
    assert!(complete(&["skip", ""]).code(0).stdout.contains('C'));
    let turned = with(simple("C", 1, "c.txt"), serde_json::json!({ "title": "a \u{202e}title\u{1b}[2J" }));
    repo.graph("evil", &[turned]);
    let shown = complete_by("fish", &["-f", "evil", "skip", ""]).code(0).stdout;
    assert!(shown.contains("C\tpending: a ") && !shown.contains(['\u{202e}', '\u{1b}']), "{shown:?}");
    repo.write(".gsd/.current-feature", "login");
    for (file, text) in [
        (".mahabharatha/config.yaml", "agents: ["),
        (".gsd/specs/login/task-graph.json", "\u{1b}[2J"),
        (".mahabharatha/state/login.json", "[]"),
        (".gsd/.current-feature", "../../etc"),
    ] {
        repo.write(file, text);
        for words in [&["skip", ""][..], &["run", "--agent", ""], &["logs", "--gate", ""], &["run", ""]] {
            let ran = complete(words).code(0);
            assert_eq!(ran.stderr, "", "{file} {words:?}");
            assert!(!ran.stdout.contains('\u{1b}'), "{file} {words:?}");
        }
    }
    assert!(!repo.home().join("git-was-called").exists());
    let unknown = repo.run_with(&["status"], &[("_MAHABHARATHA_COMPLETE", "tcsh")]).code(1);
    assert_eq!((unknown.stdout, unknown.stderr), (String::new(), String::new()));
}

#[test]
fn other_shells_ask_the_program_too() {
    let repo = blocked();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = repo.run(&["completions", name]).code(0).stdout;
        assert!(script.contains("_MAHABHARATHA_COMPLETE"), "{name}: {script}");
    }
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if has("fish") {
        let line = "mahabharatha completions fish | source; complete -C 'mahabharatha retry '";
        let shown = shell(&repo, "fish", line);
        assert!(shown.lines().any(|line| line == "B\tblocked: Make b.txt"), "{shown}");
    }
    if has("zsh") {
        let line = "autoload -Uz compinit; compinit -u; source <(mahabharatha completions zsh); \
            _describe() { print -l -- \"${(@P)3}\" }; \
            words=(mahabharatha retry ''); CURRENT=3; _clap_dynamic_completer_mahabharatha";
        let shown = shell(&repo, "zsh", line);
        assert!(shown.lines().any(|line| line == "B:blocked: Make b.txt"), "{shown}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let repo = Repo::new();
    let page = repo.run(&["man"]).code(0).stdout;
    assert!(page.starts_with(".ie ") || page.starts_with(".TH "), "{page}");
    for text in
        [".SS \"kurukshetra, run\"", "\\-\\-dry\\-run", "\\-\\-validate\\-only", ".SH \"EXIT STATUS\"", "\\fB130\\fR"]
    {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    let run = repo.run(&["man", "run"]).code(0).stdout;
    for text in [".TH mahabharatha-kurukshetra 1", "\\-\\-dry\\-run", "\\fB130\\fR", "Examples:"] {
        assert!(run.contains(text), "{text} is not in\n{run}");
    }
    repo.run(&["man", "--dir", "pages"]).code(0);
    assert_eq!(repo.read("pages/mahabharatha.1"), page);
    assert_eq!(repo.read("pages/mahabharatha-kurukshetra.1"), run);
    assert_eq!(repo.read("pages/mahabharatha-task-claim.1"), repo.run(&["man", "task", "claim"]).code(0).stdout);
    assert!(!repo.exists("pages/mahabharatha-worker.1"), "it is not for people");

    repo.run(&["-C", "pages", "man", "--dir", "more"]).code(0);
    assert_eq!(repo.read("pages/more/mahabharatha.1"), page);
    repo.run(&["man", "task", "clam"]).code(2).says("Did you mean `claim`?");
    repo.run(&["man", "run", "--dir", "elsewhere"]).code(2);
    assert!(!repo.exists("elsewhere"));
    repo.write("file", "");
    repo.run(&["man", "--dir", "file/pages"]).code(1).says("file/pages");
}

#[test]
fn a_release_names_its_commit_and_date() {
    let repo = Repo::new();
    let version = || build_script::version("1.2.3", &repo.path());
    let commit = repo.git(&["rev-parse", "--short=9", "HEAD"]);
    let date = repo.git(&["log", "-1", "--format=%cd", "--date=format:%Y-%m-%d"]);
    assert_eq!(version(), format!("1.2.3 ({commit} {date})"));
    repo.git(&["tag", "-a", "-m", "a tag", "v1.2.3"]);
    assert_eq!(version(), format!("1.2.3 ({commit} {date})"));
    repo.write("README.md", "changed\n");
    assert_eq!(version(), format!("1.2.3 ({commit}-dirty {date})"));
    // Sources that were unpacked inside of another repository, and without one.
    repo.write("vendor/file", "");
    assert_eq!(build_script::version("1.2.3", &repo.join("vendor")), "1.2.3");
    assert_eq!(build_script::version("1.2.3", repo.home()), "1.2.3");
}
