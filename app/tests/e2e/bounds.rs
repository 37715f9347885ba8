//! Endless or huge files in place of ours: links to devices, pipes, sparse files. Each is refused or passed over at once,
//! and takes no memory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Ran, Repo, simple, with};

/// What the program may use of the address space, in kilobytes: less than a third of the files here.
const MAX_KILOBYTES: u32 = 1_000_000;
/// Time after which the program hangs.
const TIMEOUT: &str = "60";

/// Puts something at a path, and what it is.
type Plant = (&'static str, fn(&Path));

const PLANTS: [Plant; 3] = [
    ("a link to a device", |path| symlink("/dev/zero", path).unwrap()),
    ("a pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
    ("three gigabytes", |path| fs::File::create(path).unwrap().set_len(3 << 30).unwrap()),
];

/// Runs the program with little memory, and ends it if it hangs.
fn limited(repo: &Repo, args: &[&str]) -> Ran {
    let program = repo.command(args);
    let script = format!("ulimit -v {MAX_KILOBYTES}; exec timeout -s KILL {TIMEOUT} \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(program.get_program()).args(args).stdin(Stdio::null());
    Ran::of(command.current_dir(repo.path()).env("HOME", repo.home()).output().unwrap())
}

/// A repository with a completed and a blocked task, whose files are all there.
fn with_a_run() -> Repo {
    let repo = Repo::new();
    repo.config("quality_gates: [ { name: there, command: 'true' } ]\n");
    repo.write("CLAUDE.md", "rules\n");
    repo.commit("with a gate");
    repo.write(".gsd/PROJECT.md", "project\n");
    repo.write(".gsd/specs/x/requirements.md", "requirements\n");
    let fails = with(simple("B", 2, "b.txt"), json!({ "run": "exit 3" }));
    repo.graph("x", &[simple("A", 1, "a.txt"), fails]);
    repo.run(&["run"]).code(3);
    repo
}

/// Plants each in the place of the file and runs the commands; returns what was said, with the exit codes.
fn plant(path: &str, commands: &[&[&str]], check: impl Fn(&str, &Ran)) {
    for (kind, plant) in PLANTS {
        let repo = with_a_run();
        let place = repo.join(path);
        let _ = fs::remove_file(&place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        plant(&place);
        for args in commands {
            let ran = limited(&repo, args);
            let what = format!("{path} as {kind}, {args:?}: exit {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
            assert!((0..=128).contains(&ran.code) && ran.code != 124, "it crashed or hung: {what}");
            check(&what, &ran);
        }
    }
}

/// The command ends with an error that names the file.
fn refused(name: &'static str) -> impl Fn(&str, &Ran) {
    move |what, ran| {
        assert!(ran.code > 0, "{what}");
        assert!(ran.stderr.contains("error: ") && ran.stderr.contains(name), "{what}");
    }
}

/// The command ends with an error that names the file, which is not what it should be.
fn invalid(name: &'static str) -> impl Fn(&str, &Ran) {
    move |what, ran| {
        refused(name)(what, ran);
        assert_eq!(ran.code, 6, "{what}");
    }
}

/// The command does what it can without the file.
fn passed_over(what: &str, ran: &Ran) {
    assert!(ran.code == 0 || ran.code == 3, "{what}");
}

#[test]
fn specs_and_settings_without_an_end_are_refused() {
    let run: &[&[&str]] = &[&["run"], &["run", "--dry-run"], &["design", "--validate-only"]];
    plant(".gsd/specs/x/task-graph.json", run, invalid("task-graph.json"));
    plant(".mahabharatha/config.yaml", &[&["run", "--dry-run"]], invalid("config.yaml"));
    plant(".gsd/.current-feature", &[&["status"], &["run"]], invalid(".current-feature"));
}

#[test]
fn a_journal_without_an_end_is_refused() {
    let commands: &[&[&str]] = &[&["status"], &["run"], &["debug", "--repair"], &["task", "list"], &["retry", "B"]];
    plant(".git/mahabharatha/x/events.jsonl", commands, refused("events.jsonl"));
}

#[test]
fn documents_without_an_end_are_passed_over_in_prompts() {
    for path in [".gsd/PROJECT.md", ".gsd/specs/x/requirements.md", ".gsd/specs/x/design.md", ".worktreeinclude"] {
        plant(path, &[&["retry", "B"], &["run"]], passed_over);
    }
}

#[test]
fn what_is_shown_without_an_end_is_passed_over() {
    plant(".mahabharatha/state/x.json", &[&["debug"], &["status", "--line"], &["status"]], passed_over);
    plant(".mahabharatha/logs/x/workers/worker-0.jsonl", &[&["logs"], &["status"]], passed_over);
    plant(".git/mahabharatha/x/slots/worker-0.doing", &[&["status"]], passed_over);
    plant(".git/hooks/post-checkout", &[&["retry", "B"], &["run"], &["status"]], passed_over);
}

#[test]
fn endless_files_of_a_run_block_no_reader() {
    let told = |what: &str, ran: &Ran| assert!(ran.code < 128, "{what}");
    plant(".git/mahabharatha/x/lock", &[&["status"], &["run"]], told);
    plant(".git/mahabharatha/x/jobs/B.1/result.json", &[&["status"], &["run"]], told);
    plant(".git/mahabharatha/x/slots/worker-0.json", &[&["run"], &["cleanup", "--force"]], told);
    plant(".git/mahabharatha/worktrees.lock", &[&["run"]], told);
    plant(".gsd/STATE.md", &[&["run"]], told);
    plant(".gitignore", &[&["init", "--yes"]], told);
    plant("CLAUDE.md", &[&["init", "--yes"]], told);
}
