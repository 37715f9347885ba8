//! `diff`: what a task, a level or a feature changed.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{HELD, Repo, simple, task, with};
use crate::terminal::Terminal;

/// The exact bytes that a pipe gets.
fn piped(repo: &Repo, args: &[&str]) -> Vec<u8> {
    let output = repo.command(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Applies a patch to a commit in a new worktree and returns the tree that results.
fn applied(repo: &Repo, commit: &str, patch: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("tree");
    repo.git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap(), commit]);
    let apply = Command::new("git").args(["apply", "--index"]).current_dir(&place).stdin(Stdio::piped()).spawn();
    let mut apply = apply.unwrap();
    apply.stdin.take().unwrap().write_all(patch).unwrap();
    assert!(apply.wait().unwrap().success(), "{}", String::from_utf8_lossy(patch));
    let tree = repo.git_in(&place, &["write-tree"]);
    repo.git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
    tree
}

fn files(diff: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_string();
    diff["files"].as_array().unwrap().iter().map(|file| (text(&file["status"]), text(&file["path"]))).collect()
}

fn file(status: &str, path: &str) -> (String, String) {
    (status.to_string(), path.to_string())
}

#[test]
fn a_pipe_gets_patches_that_git_applies() {
    let repo = Repo::new();
    repo.write("old.txt", "one\ntwo\nthree\n");
    repo.write("gone.txt", "gone\n");
    repo.write("kind", "a file\n");
    let start = repo.commit("more");
    let run = "printf 'one\\nzwei\\033[2J\\r\\nthree' > old.txt; rm gone.txt; printf 'a\\000b\\377' > bin; chmod +x bin; \
               printf 'l\\344tin\\n' > latin; mkdir -p 'ü dir'; echo x > 'ü dir/x y'; rm kind; ln -s old.txt kind";
    let change = with(
        task("A", 1, "bin", run),
        json!({ "files": { "create": ["bin", "latin", "ü dir/"], "modify": ["old.txt", "gone.txt", "kind"] } }),
    );
    repo.graph("x", &[change, simple("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run"]).code(0);
    assert!(repo.refs().is_empty(), "the refs of the tasks are gone");

    let tree = |commit: &str| repo.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
    let merged = |level: u32| repo.git(&["log", "--format=%H", "--merges", &format!("--grep=^Level {level}:")]);
    assert_eq!(applied(&repo, &start, &piped(&repo, &["diff", "--level", "1"])), tree(&merged(1)));
    assert_eq!(applied(&repo, &start, &piped(&repo, &["diff"])), tree("HEAD"));
    let of_a = piped(&repo, &["diff", "A"]);
    let of_b = piped(&repo, &["diff", "B", "--no-pager"]);
    assert_eq!(applied(&repo, &start, &[of_a, of_b].concat()), tree(&merged(1)));

    let diff = repo.run(&["diff", "A", "--json"]).code(0).json();
    assert_eq!(diff["source"], "commit");
    assert_eq!(diff["attempt"], 1);
    assert_eq!(diff["commits"].as_array().unwrap().len(), 1);
    assert_eq!(
        files(&diff),
        [
            file("added", "bin"),
            file("deleted", "gone.txt"),
            file("type_changed", "kind"),
            file("added", "latin"),
            file("modified", "old.txt"),
            file("added", "ü dir/x y"),
        ]
    );
    let of = |path: &str| diff["files"].as_array().unwrap().iter().find(|file| file["path"] == path).unwrap().clone();
    assert_eq!(of("bin")["new_mode"], "100755");
    assert_eq!(
        (&of("bin")["binary"], &of("bin")["added"], &of("bin")["old_mode"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    assert_eq!((&of("old.txt")["added"], &of("old.txt")["deleted"]), (&json!(2), &json!(2)));
    assert_eq!((&of("latin")["exact"], &of("old.txt")["exact"]), (&json!(false), &json!(true)));
    assert!(of("kind")["patch"].as_str().unwrap().matches("diff --git").count() == 2, "{}", of("kind"));
    assert_eq!(files(&repo.run(&["diff", "--json"]).code(0).json()).len(), 8);
    repo.run(&["diff", "--stat"]).code(0).says("A bin ").says("8 files, ");
    // Coloured, it is meant for a person.
    let shown = repo.run(&["diff", "A", "--color", "always"]).code(0).stdout;
    assert!(shown.contains("zwei␛[2J␍") && shown.contains("binary file") && shown.contains("\x1b[32m"), "{shown:?}");
}

#[test]
fn commits_are_found_by_their_trailers_after_a_rebase() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("A.B", 1, "b.txt"), simple("AxB", 1, "c.txt")]);
    let start = repo.commit("graph");
    repo.run(&["run"]).code(0);
    let before = piped(&repo, &["diff", "A.B"]);
    repo.git(&["-c", "user.name=Another", "rebase", "-q", "--force-rebase", &start]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(piped(&repo, &["diff", "A.B"]), before);
    assert_eq!(files(&repo.run(&["diff", "--level", "1", "--json"]).code(0).json()).len(), 3);
    repo.git(&["reset", "-q", "--hard", &start]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "-q", "--prune=now"]);
    repo.run(&["diff", "A.B"]).code(6).says("the commit of A.B is no longer in the repository");
}

#[test]
fn saved_work_is_shown_for_each_attempt() {
    let repo = Repo::new();
    repo.config("retry: { max_attempts: 2, base_seconds: 0 }\nagent: command\n");
    let failing = with(
        task("A", 1, "a.txt", "echo $MAHABHARATHA_ATTEMPT > a.txt; echo stray > stray.txt"),
        json!({ "verification": { "command": "false" } }),
    );
    repo.graph("x", &[failing, simple("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run"]).code(3);
    for (args, attempt) in [
        (&["diff", "A", "--json"][..], 2),
        (&["diff", "A", "--wip", "--json"], 2),
        (&["diff", "A", "--attempt", "1", "--json"], 1),
        (&["diff", "A", "--attempt", "1", "--wip", "--json"], 1),
    ] {
        let diff = repo.run(args).code(0).says("not verified").json();
        assert_eq!((&diff["source"], &diff["attempt"]), (&json!("wip"), &json!(attempt)), "{args:?}");
        assert_eq!(files(&diff), [file("added", "a.txt"), file("added", "stray.txt")]);
        assert!(diff["files"][0]["patch"].as_str().unwrap().ends_with(&format!("+{attempt}\n")));
    }
    // Not staged yet: what is completed of the level.
    let level = repo.run(&["diff", "--level", "1", "--json"]).code(0).says("1 task of level 1 not completed").json();
    assert_eq!(files(&level), [file("added", "b.txt")]);
    repo.run(&["diff"]).code(0).says("nothing of this is merged yet").says("+B");

    let before = repo.everything();
    for (args, code, what) in [
        (&["diff", "D"][..], 2, "x has no task D"),
        (&["diff", "a/b"], 2, "a/b"),
        (&["diff", "A", "--attempt", "7"], 2, "Its attempts are: 1, 2."),
        (&["diff", "B", "--wip"], 6, "B has no saved work in progress"),
        (&["diff", "B", "--attempt", "1", "--wip"], 6, "B attempt 1 left no work"),
        (&["diff", "C"], 6, "C was not started yet"),
        (&["diff", "C", "--attempt", "1"], 2, "not started yet"),
        (&["diff", "--level", "2"], 6, "no task of level 2 is completed yet"),
        (&["diff", "--level", "9"], 2, "The levels are: 1, 2."),
        (&["diff", "--attempt", "1"], 2, "<TASK>"),
        (&["diff", "A", "--level", "1"], 2, "cannot be used with"),
    ] {
        repo.run(args).code(code).says(what);
    }
    assert_eq!(repo.everything(), before);
    let fresh = Repo::new();
    fresh.graph("x", &[simple("A", 1, "a.txt")]);
    fresh.run(&["diff", "A"]).code(6).says("there has been no run of x");
}

#[test]
fn a_running_task_shows_its_worktree_and_nothing_of_the_repository_is_executed() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.txt filter=spy diff=spy\n*.md diff=spy\n");
    repo.write("kept.txt", "kept\n");
    repo.write(".gitignore", "*.log\n");
    repo.commit("attributes");
    let spy = repo.home().join("spied");
    for key in ["filter.spy.clean", "diff.spy.command", "diff.spy.textconv", "diff.external"] {
        repo.git(&["config", key, &format!("sh -c 'echo {key} >> {}; cat'", spy.display())]);
    }
    let run = format!("echo new > a.txt; echo own > own.log; echo x > other.log; echo more >> README.md; {HELD} true");
    let held = with(task("A", 1, "a.txt", &run), json!({ "files": { "create": ["a.txt", "own.log"], "modify": [] } }));
    repo.graph("x", &[held]);
    let running = repo.run_until_held("x");
    let (before, spied) = (repo.everything(), std::fs::read_to_string(&spy).unwrap_or_default());
    let diff = repo.run(&["diff", "A", "--json"]).code(0).says("A does not own: README.md").json();
    assert_eq!((&diff["source"], &diff["attempt"]), (&json!("worktree"), &json!(1)));
    assert_eq!(files(&diff), [file("modified", "README.md"), file("added", "a.txt"), file("added", "own.log")]);
    repo.run(&["diff", "A", "--attempt", "1"]).code(0).says("+new");
    repo.run(&["diff"]).code(0).says("x has changed nothing yet");
    assert_eq!(std::fs::read_to_string(&spy).unwrap_or_default(), spied, "something of the repository was executed");
    // The run that is on goes on writing these.
    let of_the_run = ["heartbeat", "staging", "/.mahabharatha/state/", "/.mahabharatha/logs/", "/.gsd/STATE.md"];
    let changed: Vec<_> = repo
        .everything()
        .into_iter()
        .filter(|(path, was)| before.get(path) != Some(was))
        .map(|(path, _)| path)
        .collect();
    let by_diff: Vec<_> =
        changed.iter().filter(|path| !of_the_run.iter().any(|part| path.to_string_lossy().contains(part))).collect();
    assert!(by_diff.is_empty(), "{by_diff:?}");
    repo.write("stop", "");
    repo.run(&["stop", "--force"]).code(0);
    running.wait().code(130);
}

#[test]
fn what_a_killed_attempt_left_is_shown_before_the_next_run_saves_it() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.txt filter=spy diff=spy\n");
    repo.commit("attributes");
    let spy = repo.home().join("spied");
    for key in ["filter.spy.clean", "diff.spy.command", "diff.spy.textconv", "diff.external", "core.fsmonitor"] {
        repo.git(&["config", key, &format!("sh -c 'echo {key} >> {}; cat'", spy.display())]);
    }
    repo.graph("x", &[task("A", 1, "a.txt", &format!("trap '' TERM; echo half > a.txt; echo x > b.txt; {HELD} true"))]);
    let running = repo.run_until_held("x");
    repo.run(&["stop", "--force"]).code(0);
    running.wait().code(130);
    let (before, spied) = (repo.everything(), std::fs::read_to_string(&spy).unwrap_or_default());
    let what = "this is what A attempt 1 left in its worktree when it was killed; it is not verified, and the next run \
                saves it";
    for args in [&["diff", "A", "--json"][..], &["diff", "A", "--attempt", "1", "--json"]] {
        let diff = repo.run(args).code(0).says(what).says("A does not own: b.txt").json();
        assert_eq!((&diff["source"], &diff["attempt"]), (&json!("worktree"), &json!(1)));
        assert_eq!(files(&diff), [file("added", "a.txt"), file("added", "b.txt")]);
    }
    repo.run(&["diff", "A"]).code(0).says("+half");
    repo.run(&["diff", "A", "--wip"]).code(6).says("no saved work in progress");
    assert_eq!(std::fs::read_to_string(&spy).unwrap_or_default(), spied, "something of the repository was executed");
    assert_eq!(repo.everything(), before);
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["run"]).code(3);
    repo.run(&["diff", "A", "--attempt", "1"]).code(0).says("this is what A attempt 1 saved").says("+half");
}

#[test]
fn a_terminal_gets_the_users_pager_and_no_escape_sequences() {
    let repo = Repo::new();
    repo.git(&["config", "core.pager", "echo EVIL-PAGER"]);
    repo.git(&["config", "pager.diff", "echo EVIL-PAGER"]);
    repo.graph("x", &[task("A", 1, "a.txt", "printf 'cleared \\033[2J\\n' > a.txt")]);
    repo.run(&["run"]).code(0);
    let paged = |args: &str, env: &[(&str, &str)]| {
        let terminal = Terminal::open(&repo, &format!("diff A {args}"), env);
        let (code, shown) = terminal.end();
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("cleared ␛[2J") && !shown.contains("\x1b[2J"), "{shown:?}");
        assert!(!shown.contains("EVIL"), "{shown}");
        shown
    };
    let own = ("PAGER", "sed s/^/PAGED:/");
    assert!(paged("", &[own]).contains("PAGED:"));
    assert!(paged("", &[own, ("GIT_PAGER", "sed s/^/GIT:/")]).contains("GIT:"));
    assert!(!paged("--no-pager", &[own]).contains("PAGED:"));
    assert!(!paged("", &[("PAGER", "cat")]).contains("PAGED:"));
    assert!(!paged("", &[("PAGER", "no-such-program-here 2>/dev/null")]).contains("PAGED:"));
    // `less` would wait for a key if it did not see that everything fits.
    paged("", &[]);
}
