//! Sessions that pages show (fences marked `console`) are run with the real program, in one shell for each page.
//!
//! A line that begins with `$ ` is a command; it has to succeed, unless the next command is `echo $?`. The lines below are
//! some lines of its output, in order; `…` stands for any others. Times, durations, commits and the sandbox may differ. A
//! fence below a line that ends with "as `NAME`:" is a file that is saved first.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{read, root};

#[derive(Debug, PartialEq)]
enum Step {
    Save { name: String, text: String },
    Run { command: String, shown: Vec<String> },
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut above = "";
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            let name = above.strip_suffix("`:").and_then(|above| above.rsplit_once("as `"));
            match (language, name) {
                ("console", _) => steps.extend(session(&body)),
                (_, Some((_, name))) => steps.push(Step::Save { name: name.to_owned(), text: body.join("\n") + "\n" }),
                _ => {}
            }
        } else if !line.is_empty() {
            above = line;
        }
    }
    steps
}

fn session(lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step::Run { command: command.to_owned(), shown: Vec::new() }),
            (None, Some(Step::Run { shown, .. })) => shown.push((*line).to_owned()),
            (None, _) => panic!("a session begins with a command, not with {line:?}"),
        }
    }
    steps
}

/// A shell script that does the steps and leaves each command's output and exit code in a directory.
fn script(steps: &[Step], results: &Path) -> String {
    let results = results.display();
    let mut script = String::new();
    for (index, step) in steps.iter().enumerate() {
        script += &match step {
            Step::Save { name, text } => format!("cat >'{name}' <<'END OF THE FILE'\n{text}END OF THE FILE\n"),
            Step::Run { command, .. } => format!(
                "{{ {command}\n}} >'{results}/{index}.out' 2>&1\ncode=$?; echo $code >'{results}/{index}.code'; (exit $code)\n"
            ),
        };
    }
    script
}

/// Replaces what differs between runs and machines: times, durations, commits, the sandbox, the width of columns.
fn stable(line: &str, home: &Path) -> String {
    let line = line.replace(&home.display().to_string(), "~");
    let line = line.replace("sandbox landlock", "sandbox bwrap").replace("sandbox off", "sandbox bwrap");
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':');
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let core = word.trim_matches(|c| !in_word(c)).trim_end_matches(['.', ':']);
        let is = |allowed: fn(char) -> bool| !core.is_empty() && core.chars().all(allowed);
        let number = core.strip_suffix(['s', 'm', 'h']).unwrap_or_default();
        let is_duration = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let replacement = if is(|c| c.is_ascii_digit() || c == ':') && core.contains(':') {
            "TIME"
        } else if is_duration {
            "DURATION"
        } else if core.len() >= 7 && is(|c| c.is_ascii_hexdigit()) {
            "COMMIT"
        } else {
            core
        };
        let word = if core.is_empty() { word.to_owned() } else { word.replacen(core, replacement, 1) };
        // `1m 07s` is one duration.
        if replacement == "DURATION" && words.last().is_some_and(|last| last.ends_with("DURATION")) {
            words.pop();
        }
        words.push(word);
    }
    words.join(" ")
}

/// Runs the sessions of a page in an empty home.
fn run_sessions(page: &str) {
    let steps = steps(&read(page));
    let runs = steps.iter().filter(|step| matches!(step, Step::Run { .. })).count();
    assert!(runs > 0, "{page} has no session");
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let results = tempfile::tempdir().unwrap();
    fs::write(home.join(".gitconfig"), "[user]\n\tname = A Person\n\temail = person@example.com\n").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mahabharatha")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let shell = Command::new("sh")
        .arg("-c")
        .arg(script(&steps, results.path()))
        .current_dir(&home)
        .envs([("PATH", path.as_str()), ("GIT_CONFIG_NOSYSTEM", "1"), ("NO_COLOR", "1"), ("LANG", "C.UTF-8")])
        .env("HOME", &home)
        .env("GIT_CONFIG_GLOBAL", home.join(".gitconfig"))
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("ZERG_FEATURE")
        .output()
        .unwrap();
    for (index, step) in steps.iter().enumerate() {
        let Step::Run { command, shown } = step else { continue };
        let result = |kind: &str| fs::read_to_string(results.path().join(format!("{index}.{kind}")));
        let (Ok(output), Ok(code)) = (result("out"), result("code")) else {
            panic!("{page}: `{command}` was not run: {shell:?}");
        };
        let asks = |step: &Step| matches!(step, Step::Run { command, .. } if command == "echo $?");
        let may_fail = steps.get(index + 1).is_some_and(asks);
        assert!(code.trim() == "0" || may_fail, "{page}: `{command}` exits with {code}{output}");
        let mut lines = output.lines().map(|line| stable(line, &home));
        for line in shown.iter().filter(|line| line.trim() != "…" && !line.is_empty()) {
            let line = stable(line, &home);
            assert!(lines.any(|printed| printed == line), "{page}: `{command}` does not print {line:?}:\n{output}");
        }
    }
}

#[test]
fn what_readme_shows_is_what_happens() {
    run_sessions("README.md");
}

#[test]
fn what_the_tour_shows_is_what_happens() {
    run_sessions("docs/tour.md");
}

#[test]
fn every_session_in_the_documents_is_run() {
    let pages = super::entries(&root().join("docs"));
    let with_sessions = pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let with_sessions: Vec<_> = with_sessions.filter(|page| read(page).contains("```console")).collect();
    assert_eq!(with_sessions, [&root().join("docs/tour.md")]);
}

#[test]
fn only_what_differs_between_runs_is_ignored() {
    let home = Path::new("/tmp/home");
    let stable = |line: &str| stable(line, home);
    assert_eq!(
        stable("08:28:16 MIN completed in 0.6s (474db362b9)"),
        stable("21:00:00 MIN completed in 1m 07s (abcdefab12)")
    );
    assert_eq!(stable("a  b"), "a b");
    assert_eq!(stable("in /tmp/home/x."), "in ~/x.");
    assert_ne!(stable("12 tasks in 3 levels"), stable("12 tasks in 4 levels"));
    assert_ne!(stable("attempt 1 of 3"), stable("attempt 2 of 3"));
}
