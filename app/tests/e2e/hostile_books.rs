//! Agents that rewrite what the run goes by: branches, refs, the journal, the specs, results; or leave something running.

use std::fs;

use serde_json::{Value, json};

use crate::agents::{doing, is_alive};
use crate::support::{Repo, processes_in, simple, with};

/// What scripts may use: `$S` is where the specs are, `$G` the repository's git directory; `evil COMMIT` prints a commit
/// with a file that no task owns on top of that one.
const SETUP: &str = "G=$(git rev-parse --path-format=absolute --git-common-dir)\n\
    evil() { (\n\
      export GIT_INDEX_FILE=$(mktemp -u) GIT_AUTHOR_NAME=E GIT_AUTHOR_EMAIL=e@e GIT_COMMITTER_NAME=E GIT_COMMITTER_EMAIL=e@e\n\
      git read-tree \"$1\"; git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),evil.txt\n\
      git commit-tree -m evil -p \"$1\" $(git write-tree); rm \"$GIT_INDEX_FILE\"\n\
    ) }\n\
    forge() { printf '{\"end\":{\"end\":\"done\",\"commit\":\"%s\"},\"ran_ms\":1,\"tokens\":0}' \"$1\" > \"$MAHABHARATHA_JOB/result.json\"; }\n";

/// A task that does its work, and on its first attempt something else before.
fn hostile(id: &str, level: u32, file: &str, does: &str) -> Value {
    doing(
        id,
        level,
        file,
        &format!("{SETUP}test $MAHABHARATHA_ATTEMPT -gt 1 || {{ set -e; {does}\n}}; echo {id} > {file}"),
    )
}

fn one_after_the_other(tasks: &[Value]) -> Repo {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", tasks);
    repo
}

#[track_caller]
fn assert_not_evil(repo: &Repo) {
    assert!(!repo.tree("main").contains_key("evil.txt"));
    assert!(!repo.exists("evil.txt"));
}

#[test]
fn branches_of_workers_count_for_nothing() {
    let does = "for n in 0 1; do git update-ref refs/heads/mahabharatha/x/worker-$n $(evil HEAD); done";
    let repo = one_after_the_other(&[
        hostile("A", 1, "a", does),
        hostile(
            "B",
            1,
            "b",
            "git commit -q --allow-empty -m mine; git commit -q --amend -m b; git reset -q --hard HEAD~1",
        ),
        simple("C", 2, "c"),
    ]);
    repo.run(&["run"]).code(0);
    assert_not_evil(&repo);
    assert_eq!(repo.task("A")["attempt"], 1);
    let log = repo.run(&["logs", "--task", "A", "--search", "was moved to", "--json"]).code(0).stdout;
    assert!(log.contains("mahabharatha/x/worker-0 was moved to"), "{log}");
}

#[test]
fn a_staging_branch_that_was_rewritten_is_kept_aside_and_told() {
    let repo = one_after_the_other(&[
        hostile("A", 1, "a", "git update-ref refs/heads/mahabharatha/x/staging $(evil HEAD)"),
        simple("B", 2, "b"),
    ]);
    repo.run(&["run"]).code(0).says("it is kept as refs/mahabharatha/x/unfinished/");
    assert_not_evil(&repo);
}

#[test]
fn the_refs_of_other_tasks_are_put_back_and_told() {
    let repo = one_after_the_other(&[
        simple("A", 1, "a"),
        with(
            hostile("B", 1, "b", "git update-ref refs/mahabharatha/x/tasks/A $(evil HEAD)"),
            json!({ "dependencies": [] }),
        ),
        simple("C", 2, "c"),
    ]);
    repo.run(&["run", "--level", "1"])
        .code(0)
        .says("refs/mahabharatha/x/tasks/A was changed from outside: it is restored");
    assert_not_evil(&repo);
    assert_eq!(repo.git(&["show", "refs/mahabharatha/x/tasks/A:a"]), "A");
}

#[test]
fn refs_that_were_made_symbolic_move_no_branch_of_the_user() {
    let plant = |kept: &str| {
        let names =
            "heads/mahabharatha/x/staging heads/mahabharatha/x/worker-0 mahabharatha/x/tasks/A mahabharatha/x/tasks/C";
        format!("for name in {names} {kept}; do git symbolic-ref refs/$name refs/heads/precious; done")
    };
    let fails_once = "test $MAHABHARATHA_ATTEMPT -gt 1 || { echo half > b; exit 1; }; echo B > b";
    let repo = one_after_the_other(&[
        with(simple("A", 1, "a"), json!({ "run": format!("echo A > a; {}", plant("mahabharatha/x/wip/B/1")) })),
        doing("B", 1, "b", fails_once),
        with(simple("C", 2, "c"), json!({ "run": format!("echo C > c; {}", plant("")) })),
    ]);
    let start = repo.git(&["rev-parse", "main"]);
    repo.git(&["branch", "precious"]);
    repo.run(&["run"]).code(0).says("refs/heads/mahabharatha/x/staging was changed from outside: it is restored");
    assert_eq!(repo.git(&["rev-parse", "refs/heads/precious"]), start);
    assert_eq!(repo.tree("main").keys().collect::<Vec<_>>(), [".mahabharatha/config.yaml", "README.md", "a", "b", "c"]);
    assert_eq!(repo.git(&["show", "refs/mahabharatha/x/wip/B/1:b"]), "half");
    let symbolic = repo.git(&["for-each-ref", "--format=%(symref)", "refs/mahabharatha", "refs/heads"]);
    assert_eq!(symbolic.trim(), "");
}

#[test]
fn a_base_that_is_an_alias_of_another_branch_moves_with_it() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a")]);
    repo.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/alias"]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["symbolic-ref", "refs/heads/alias"]), "refs/heads/main");
    assert_eq!((repo.tree("main")["a"].as_str(), repo.read("a").as_str()), ("A", "A\n"));
    assert_eq!(repo.git(&["status", "--porcelain", "--untracked-files=no"]), "");
}

#[test]
fn bytes_under_the_name_of_another_object_do_not_land() {
    // The worker finds an object of that name and writes no other.
    let does = "at() { printf '%s/objects/%s/%s' \"$G\" $(echo $1 | cut -c1-2) $(echo $1 | cut -c3-); }\n\
                good=$(at $(echo A | git hash-object --stdin)); mkdir -p \"$(dirname \"$good\")\"\n\
                cp \"$(at $(echo evil | git hash-object -w --stdin))\" \"$good\"";
    let repo = one_after_the_other(&[hostile("A", 1, "a", does), simple("B", 2, "b")]);
    let start = repo.git(&["rev-parse", "main"]);
    repo.run(&["run"]).code(9).says("do not match their names").says("(a)");
    repo.run(&["run"]).code(9).says("do not match their names");
    assert_eq!(repo.git(&["rev-parse", "main"]), start);
    assert!(!repo.exists("a"));
    // The person does as the hint says.
    let name = repo.git(&["rev-parse", "refs/mahabharatha/x/tasks/A:a"]);
    repo.run(&["retry", "A"]).code(0);
    fs::remove_file(repo.join(&format!(".git/objects/{}/{}", &name[..2], &name[2..]))).unwrap();
    repo.run(&["run"]).code(0);
    assert_eq!((repo.tree("main")["a"].as_str(), repo.read("a").as_str()), ("A", "A\n"));
}

#[test]
fn a_base_that_was_moved_under_its_checkout_stops_the_run() {
    let repo = one_after_the_other(&[
        hostile("A", 1, "a", "git update-ref refs/heads/main $(evil main)"),
        simple("B", 2, "b"),
    ]);
    let start = repo.git(&["rev-parse", "main"]);
    repo.run(&["run"])
        .code(9)
        .says("main was moved to ")
        .says("but its checkout at")
        .says(&format!("git update-ref refs/heads/main {start}"));
    assert!(!repo.exists("a") && !repo.exists("evil.txt"));
    assert_eq!(repo.status()["status"], "paused");
    assert!(repo.read(".gsd/STATE.md").contains("but its checkout"));
    repo.run(&["run"]).code(9).says("main was moved to ");
    // The person takes it back, as it says.
    repo.git(&["update-ref", "refs/heads/main", &start]);
    repo.run(&["run"]).code(0);
    assert_not_evil(&repo);
    assert_eq!(repo.task("A")["attempt"], 1);
}

#[test]
fn the_user_may_accept_a_moved_base() {
    let repo = one_after_the_other(&[hostile("A", 1, "a", "git update-ref refs/heads/main $(evil main)")]);
    let start = repo.git(&["rev-parse", "main"]);
    repo.write("README.md", "changed meanwhile\n");
    repo.run(&["run"]).code(9);
    let moved = repo.git(&["rev-parse", "main"]);
    repo.git(&["read-tree", "-m", "-u", &start, &moved]);
    repo.run(&["run"])
        .code(0)
        .says("main has commits that the run did not make, which land with the level: ")
        .says("evil (E)");
    assert_eq!((repo.read("evil.txt").as_str(), repo.read("README.md").as_str()), ("evil\n", "changed meanwhile\n"));
}

#[test]
fn a_base_that_moved_without_a_checkout_is_reported() {
    let repo = one_after_the_other(&[hostile(
        "A",
        1,
        "a",
        ": > \"$S/up\"; while ! [ -e \"$S/go\" ]; do sleep 0.02; done; \
         git update-ref refs/heads/main $(evil main)",
    )]);
    let run = repo.spawn(&["run"]);
    repo.wait_for(".gsd/specs/x/up");
    repo.git(&["switch", "-q", "-c", "elsewhere"]);
    repo.let_go("all");
    run.wait().code(0).says("main has commits that the run did not make, which land with the level: ").says("evil (E)");
}

#[test]
fn a_base_that_was_rewritten_or_removed_stops_the_run() {
    for (does, says) in [
        ("git update-ref refs/heads/main $(git commit-tree -m new $(git write-tree))", "the base branch was rewritten"),
        ("git update-ref -d refs/heads/main", "the base branch is gone"),
    ] {
        let repo = one_after_the_other(&[hostile("A", 1, "a", does)]);
        let start = repo.git(&["rev-parse", "main"]);
        repo.run(&["run"]).code(9).says(says);
        repo.git(&["update-ref", "refs/heads/main", &start]);
        repo.run(&["run"]).code(0);
        assert_eq!(repo.tree("main").keys().collect::<Vec<_>>(), [".mahabharatha/config.yaml", "README.md", "a"]);
    }
}

#[test]
fn a_journal_that_was_changed_is_put_back_and_told() {
    let forged = "{\"event\":\"asked\",\"request\":\"r\",\"command\":{\"command\":\"skip\",\"tasks\":[\"B\"],\"reason\":\"r\",\"keep_dependents\":true}}";
    let append =
        format!("N=$(wc -l < \"$J\"); printf '{{\"seq\":%s,\"at\":1,\"event\":%s}}\\n' $N '{forged}' >> \"$J\"");
    for does in [
        append.as_str(),
        "sed -i 's/\"attempt\":1/\"attempt\":7/' \"$J\"",
        "head -n 2 \"$J\" > \"$J.new\"; mv \"$J.new\" \"$J\"",
        "rm \"$J\"",
        ": > \"$J\"",
        "rm -r \"$G/mahabharatha/x/events.jsonl\"; ln -s /dev/null \"$J\"",
        "rm \"$J\"; mkdir \"$J\"",
    ] {
        let does = format!("J=\"$G/mahabharatha/x/events.jsonl\"; {does}");
        let repo = one_after_the_other(&[hostile("A", 1, "a", &does), doing("B", 2, "b", "exit 3")]);
        repo.run(&["run"]).code(3).says("the journal was changed from outside: it is restored");
        assert!(repo.exists(".git/mahabharatha/x/events.jsonl.changed"), "{does}");
        // Who reads it afterwards reads the truth.
        let status = repo.status();
        let states: Vec<&Value> = [0, 1].map(|task| &status["tasks"][task]["status"]).into();
        assert_eq!(states, ["completed", "blocked"], "{does}");
        assert_eq!(status["tasks"][0]["attempt"], 1, "{does}");
        repo.run(&["run"]).code(3).does_not_say("A started");
    }
}

#[test]
fn changed_specs_are_reported_and_the_run_keeps_the_old_ones() {
    let does = "sed -i 's/\"create\": \\[/\"create\": [\"evil.txt\",/' \"$S/task-graph.json\"; echo evil > \"$S/requirements.md\"; \
                echo 'quality_gates: []' >> \"$S/../../../.mahabharatha/config.yaml\"; echo evil > evil.txt";
    let repo = one_after_the_other(&[hostile("A", 1, "a", does), simple("B", 2, "b")]);
    let ran = repo.run(&["run"]).code(0).says("A tried to change what it does not own: evil.txt");
    for path in [".gsd/specs/x/task-graph.json", ".gsd/specs/x/requirements.md", ".mahabharatha/config.yaml"] {
        let told = format!("A: {path} was changed while the attempt ran");
        assert_eq!(ran.stderr.matches(&told).count(), 1, "{path}: {}", ran.stderr);
    }
    assert_not_evil(&repo);
}

#[test]
fn a_forged_result_gets_nothing_in_that_is_not_owned() {
    let kill = "kill -9 $PPID; sleep 1000";
    for does in [
        // A commit with an unowned file; the same behind a commit that is inside; on a staging branch that was moved.
        format!("forge $(evil HEAD); {kill}"),
        format!("E=$(evil HEAD); forge $(git commit-tree -m x -p $E $E^{{tree}}); {kill}"),
        format!(
            "E=$(evil HEAD); git update-ref refs/heads/mahabharatha/x/staging $E; forge $(git commit-tree -m x -p $E $E^{{tree}}); {kill}"
        ),
        format!("forge 1234567890123456789012345678901234567890; {kill}"),
        // Without a result, but with a commit where the worker would have put it.
        format!("git update-ref refs/mahabharatha/x/tasks/A $(evil HEAD); {kill}"),
    ] {
        let repo = one_after_the_other(&[hostile("A", 1, "a", &does), simple("B", 2, "b")]);
        repo.run(&["run"]).code(0);
        assert_eq!(repo.task("A")["attempt"], 2, "{does}");
        assert_not_evil(&repo);
        assert_eq!(repo.tree("main")["a"], "A", "{does}");
    }
}

#[test]
fn a_forged_result_of_a_fix_gets_nothing_in_either() {
    let does = "test $MAHABHARATHA_ATTEMPT = 2 && { forge $(evil HEAD); kill -9 $PPID; sleep 1000; }; \
                test $MAHABHARATHA_ATTEMPT = 3 && echo good > a || echo bad > a";
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\nquality_gates: [{ name: good, command: '! grep -q bad a' }]\n");
    repo.graph("x", &[doing("A", 1, "a", &format!("{SETUP}{does}"))]);
    repo.run(&["run"]).code(0).says("evil.txt is not owned");
    assert_not_evil(&repo);
    assert_eq!(repo.tree("main")["a"], "good");
}

#[test]
fn nothing_planted_is_executed_when_a_worker_is_killed_and_cannot_put_it_back() {
    let repo = Repo::new();
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("executed").display().to_string();
    // `git log` of a signed commit would have the program run; the next worker finds and removes what was planted.
    let does = format!(
        "printf '#!/bin/sh\\ntouch {mark}\\n' > \"$G/evil.sh\"; chmod +x \"$G/evil.sh\"\n\
         git config log.showSignature true; git config gpg.program \"$G/evil.sh\"; git config core.fsmonitor \"$G/evil.sh\"\n\
         mkdir -p \"$G/hooks\"; cp \"$G/evil.sh\" \"$G/hooks/reference-transaction\"\n\
         C=$(git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN PGP SIGNATURE-----\\n \\n abc\\n -----END PGP SIGNATURE-----' | \
             git hash-object -t commit -w --stdin)\n\
         git -c core.hooksPath=/dev/null update-ref refs/mahabharatha/x/tasks/A $C; kill -9 $PPID; sleep 1000"
    );
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &[hostile("A", 1, "a", &does), simple("B", 2, "b")]);
    repo.run(&["run"]).code(0).says(".git/config (gpg.program) was changed during A attempt 1");
    assert!(!fs::exists(&mark).unwrap(), "something planted was executed");
    assert!(!repo.exists(".git/hooks/reference-transaction"));
}

#[test]
fn a_process_that_would_write_later_is_ended_and_told() {
    let later = "(setsid env -i /bin/sh -c 'echo $$ > \"$0/pid.new\"; mv \"$0/pid.new\" \"$0/A.pid\"; while ! [ -e \"$0/held\" ]; do sleep 0.05; done; \
                 echo late > README.md; echo late > a; touch \"$0/late\"; sleep 1000' \"$S\" >/dev/null 2>&1 &); \
                 while ! [ -e \"$S/A.pid\" ]; do sleep 0.02; done";
    let repo = one_after_the_other(&[
        hostile("A", 1, "a", later),
        doing("B", 2, "b", ": > \"$S/held\"; sleep 0.5; echo B > b"),
    ]);
    repo.run(&["run"]).code(0);
    assert!(!is_alive(repo.pid_of("A")) && !repo.exists(".gsd/specs/x/late"));
    assert_eq!(processes_in(&repo.path()), []);
    assert_eq!((repo.tree("main")["a"].as_str(), repo.tree("main")["README.md"].as_str()), ("A", "hello"));
    repo.run(&["logs", "--task", "A", "--level", "warn"])
        .code(0)
        .says("the agent left processes running; they are ended");
}
