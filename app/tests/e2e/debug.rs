//! `debug`: what stands in the way is told, and a damaged journal is fixed without losing what it told.

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;

use serde_json::{Value, json};

use crate::agents::{doing, held, kill};
use crate::support::{Repo, simple, task, with};

const JOURNAL: &str = ".git/mahabharatha/x/events.jsonl";

#[test]
fn debug_shows_everything_that_the_user_needs_to_find_the_cause() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    let verified = json!({ "verification": { "command": "grep right a.txt" } });
    repo.graph(
        "x",
        &[
            with(task("A", 1, "a.txt", "echo wrong > a.txt"), verified),
            task("B", 1, "b.txt", "echo b > b.txt; echo stray > other.txt"),
            simple("C", 1, "c.txt"),
        ],
    );
    repo.run(&["run"]).code(3);
    let told = repo.run(&["debug"]).code(0);
    for part in [
        "x: blocked",
        "journal: good",
        "lock: free",
        "projection: current",
        "disk: has room",
        "worker-0: ok",
        "A: blocked",
        "verified by: grep right a.txt",
        "attempt 3: failed its verification",
        "attempt 1: changed what it does not own: other.txt",
        "git show refs/mahabharatha/x/wip/A/3",
        "mahabharatha logs -f x --task A",
        "mahabharatha retry A",
        "A fails its verification with the same output each time",
        "B cannot be done with the files that it owns: each attempt changed other.txt",
    ] {
        assert!(told.stdout.contains(part), "{part:?} is not in\n{}", told.stdout);
    }
    assert!(!told.stdout.contains("\nC: "), "{}", told.stdout);

    let found = repo.run(&["debug", "--json"]).code(0).json();
    assert_eq!((&found["status"], &found["journal"]["health"]), (&json!("blocked"), &json!("good")));
    assert_eq!(found["wip"].as_array().unwrap().len(), 6);
    assert_eq!(found["tasks"][0]["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(found["tasks"][0]["attempts"][0]["cause"], "verification");
    assert_eq!(found["blockers"].as_array().unwrap().len(), 2);

    let one = repo.run(&["debug", "B"]).code(0);
    assert!(one.stdout.contains("\nB: blocked") && !one.stdout.contains("\nA: "), "{}", one.stdout);
    assert!(!one.stdout.contains("wip/A/"), "{}", one.stdout);
    repo.run(&["debug", "C"]).code(0).says("C: completed");
    repo.run(&["debug", "Z"]).code(2).says("x has no task Z");
}

#[test]
fn the_name_of_a_feature_in_the_place_of_a_task() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a.txt")]);
    repo.graph("alpha", &[simple("HASH", 1, "b.txt")]);
    for run in [false, true] {
        for word in ["alpah", "alpha"] {
            let hint = "For the feature alpha: mahabharatha debug -f alpha\n";
            repo.run(&["debug", word]).code(2).says(&format!("alpha has no task {word}")).says(hint);
        }
        repo.run(&["debug", "x", "-f", "alpha"]).code(2).says("mahabharatha debug -f x");
        if !run {
            repo.run(&["run", "alpha"]).code(0);
        }
    }
    repo.run(&["debug", "HAHS"]).code(2).says("Did you mean `HASH`?");
}

#[test]
fn a_feature_whose_run_was_refused_has_not_run_yet() {
    let repo = Repo::new();
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "agent": "nobody" }))]);
    repo.run(&["run"]).code(6);
    let told = repo.run(&["debug"]).code(0).says("x: not run yet; next: mahabharatha run x");
    told.does_not_say("No problem was found").does_not_say("cannot be told");
    // A graph that is no longer valid is called that everywhere, with the problem.
    repo.write(".gsd/specs/x/task-graph.json", "{");
    repo.run(&["list"]).code(0).says("invalid");
    let cause = "task-graph.json";
    repo.run(&["status"]).code(0).says("x: invalid, not run yet").says(cause);
    repo.run(&["debug"]).code(0).says("design: ").says(cause).says("mahabharatha design x --validate-only");
}

#[test]
fn debug_distinguishes_a_dead_run_from_a_live_one() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    let run = repo.run_until_up(&["A"]);
    let worker = repo.worker_pid("A");
    let found = repo.run(&["debug", "--json"]).code(0).json();
    assert_eq!((&found["lock"]["held"], &found["lock"]["pid"]), (&json!(true), &json!(run.pid())));
    assert_eq!(found["workers"], json!([{ "job": "A.1", "pid": worker }]));
    assert_eq!(found["projection"], "in use");
    repo.run(&["debug", "--repair"]).code(8).says(&format!("process {}", run.pid()));
    kill(run.pid());
    let died = run.wait();
    assert_eq!(died.code, -1);
    let told = repo.run(&["debug"]).code(0);
    told.says("x: paused")
        .says("lock: free; the file .lock names a process that has exited")
        .says("The orchestrator died; its workers are still running.")
        .says(&format!("A.1, process {worker}"));
    repo.run(&["stop", "--force"]).code(0);
    repo.let_go("all");
    repo.run(&["run"]).code(0);
}

#[test]
fn work_is_shown_by_a_command_that_works() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[doing("A", 1, "a.txt", "echo half > a.txt; exit 1")]);
    repo.run(&["run"]).code(3);
    repo.run(&["debug"]).code(0).says("its work: git show refs/mahabharatha/x/wip/A/1");
    repo.run(&["status", "-v"]).code(0).says("work kept: git show refs/mahabharatha/x/wip/A/1");
    repo.run(&["cleanup", "--force"]).code(0);
    for shown in [&["debug"][..], &["status", "-v"]] {
        repo.run(shown).code(0).says("mahabharatha diff -f x A --attempt 1").does_not_say("git show");
    }
    repo.run(&["diff", "-f", "x", "A", "--attempt", "1"]).code(0).says("+half");
}

/// A run whose first level is merged and whose second waits for `go`, with one failed attempt on the way.
fn half_done() -> Repo {
    let repo = Repo::new();
    repo.config("workers: { count: 1 }\nretry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n");
    let tasks = [
        doing("A", 1, "a.txt", "test \"$MAHABHARATHA_ATTEMPT\" -gt 1 && echo a > a.txt"),
        doing("B", 1, "b.txt", "echo b > b.txt"),
        doing("C", 2, "c.txt", "test -e \"$S/go\" && cat a.txt b.txt > c.txt"),
    ];
    repo.graph("x", &tasks);
    repo.commit("specs");
    repo.run(&["run"]).code(3);
    repo
}

#[track_caller]
fn goes_on_to_the_end(repo: &Repo, case: &str) {
    repo.write(".gsd/specs/x/go", "");
    // The attempts that failed before are found again, and failed.
    assert!(matches!(repo.run(&["run"]).code, 0 | 3), "{case}");
    repo.run(&["retry", "--all"]);
    repo.run(&["run"]).code(0).says("x is completed");
    let tree = repo.tree("main");
    assert_eq!((&*tree["a.txt"], &*tree["b.txt"], &*tree["c.txt"]), ("a", "b", "a\nb"), "{case}");
    let mut subjects: BTreeMap<String, u32> = BTreeMap::new();
    for subject in repo.subjects("main") {
        *subjects.entry(subject).or_default() += 1;
    }
    assert!(subjects.values().all(|count| *count == 1), "{case}: {subjects:?}");
    assert_eq!(subjects.len(), 7, "{case}: {subjects:?}");
    let calls = repo.calls();
    let times = |task: &str| calls.iter().filter(|call| *call == task).count();
    assert_eq!((times("A"), times("B")), (2, 1), "{case}: what was done and paid for is not done again");
}

/// Cut wherever its journal is damaged, a run comes to the same end: what is forgotten is found again.
#[test]
fn a_journal_damaged_at_any_line_is_repaired_and_the_run_continues() {
    let lines = half_done().read(JOURNAL).lines().count();
    assert!(lines > 15, "{lines}");
    let case = |number: usize| {
        let repo = half_done();
        let good = repo.read(JOURNAL);
        let mut lines: Vec<&str> = good.lines().collect();
        let Some(line) = lines.get_mut(number) else { return };
        *line = "{\"seq\":garbage";
        let damaged = lines.join("\n") + "\n";
        repo.write(JOURNAL, &damaged);
        let offset: usize = lines[..number].iter().map(|line| line.len() + 1).sum();
        let found = repo.run(&["debug", "--json"]).code(6).json();
        assert_eq!(found["journal"]["health"], "damaged");
        assert!(
            found["journal"]["problem"].as_str().unwrap().starts_with(&format!("line {}, byte {offset}: ", number + 1))
        );
        let answer = repo.run(&["debug", "--repair", "--json", "--yes"]).code(0).json()["journal"].clone();
        let original = answer["original"].as_str().unwrap();
        assert_eq!(fs::read_to_string(original).unwrap(), damaged);
        if number == 0 {
            assert_eq!((&answer["header_replaced"], &answer["lines_dropped"]), (&json!(true), &json!(1)));
            assert_eq!(repo.read(JOURNAL), good);
        } else {
            assert_eq!(answer["records_kept"], number - 1);
            assert_eq!(answer["lines_dropped"], lines.len() - number);
            assert_eq!(repo.read(JOURNAL), lines[..number].join("\n") + "\n");
        }
        // With nothing left it is another run, which its own files stand in the way of.
        if number != 1 {
            goes_on_to_the_end(&repo, &format!("damaged at line {}", number + 1));
        }
    };
    let numbers: Vec<usize> = (0..lines).collect();
    let broken: Vec<usize> = std::thread::scope(|threads| {
        let halves = numbers.chunks(numbers.len().div_ceil(4)).map(|part| {
            threads
                .spawn(move || part.iter().copied().filter(|n| catch_unwind(|| case(*n)).is_err()).collect::<Vec<_>>())
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert!(broken.is_empty(), "as told above, of {lines} lines these: {broken:?}");
}

#[test]
fn what_cannot_be_repaired_is_left_as_it_is() {
    let repo = half_done();
    let good = repo.read(JOURNAL);
    repo.run(&["debug", "--repair"]).code(0).says("the journal of x is valid");
    assert_eq!(repo.read(JOURNAL), good);

    let newer = good.replacen("\"journal\":1", "\"journal\":7", 1);
    repo.write(JOURNAL, &newer);
    repo.run(&["debug"]).code(6).says("journal: newer").says("it has version 7").says("Use that one");
    repo.run(&["debug", "--repair"]).code(6).says("it has version 7").says("is not damaged");
    assert_eq!(repo.read(JOURNAL), newer);

    let foreign = good.replacen("\"feature\":\"x\"", "\"feature\":\"y\"", 1);
    repo.write(JOURNAL, &foreign);
    repo.run(&["debug"]).code(6).says("journal: foreign");
    repo.run(&["debug", "--repair"]).code(6).says("is the journal of y, not of x");
    assert_eq!(repo.read(JOURNAL), foreign);

    // A run whose journal is gone is not started over without asking.
    for nothing in ["", "garbage\n", "{\"journal\":1,\"feature\":\"x\"}\ngarbage\n"] {
        repo.write(JOURNAL, nothing);
        repo.run(&["run"]).code(6).says("is damaged");
        repo.run(&["debug", "--repair"]).code(2).says("Start the run over?").says("--yes");
        assert_eq!(repo.read(JOURNAL), nothing);
        repo.run(&["debug", "--repair", "--yes"]).code(0).says("0 records are kept");
        assert_eq!(repo.read(JOURNAL), "{\"journal\":1,\"feature\":\"x\"}\n");
    }
    let kept = fs::read_dir(repo.join(".git/mahabharatha/x")).unwrap().flatten();
    let kept = kept.filter(|entry| entry.file_name().to_string_lossy().contains(".damaged")).count();
    assert_eq!(kept, 3, "each original under a name of its own");

    // Records that can be read, and make no run.
    let without_start: Vec<&str> = good.lines().enumerate().filter(|(n, _)| *n != 1).map(|(_, line)| line).collect();
    let mut seq = 0;
    let renumbered = without_start.iter().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        if record["seq"].is_u64() {
            seq += 1;
            record["seq"] = json!(seq);
        }
        format!("{record}\n")
    });
    repo.write(JOURNAL, &renumbered.collect::<String>());
    repo.run(&["run"]).code(6).says("does not begin with the start of a run").says("debug --repair");
    repo.run(&["debug"]).code(6).says("journal: inconsistent");
    repo.run(&["debug", "--repair", "--yes"]).code(0).says("0 records are kept");
    repo.write(JOURNAL, &good);
    goes_on_to_the_end(&repo, "put back");
}

#[test]
fn a_projection_that_was_edited_by_hand_changes_nothing() {
    let repo = half_done();
    let projection = ".mahabharatha/state/x.json";
    let good = repo.read(projection);
    let lie = good.replace("\"blocked\"", "\"completed\"").replace("\"merged\"", "\"pending\"");
    for (edited, state) in [(lie.as_str(), "outdated"), ("{", "unreadable"), ("[]", "outdated")] {
        repo.write(projection, edited);
        repo.run(&["debug"]).code(0).says(&format!("projection: {state}")).says("it was edited or removed");
        assert_eq!(repo.task_status("C"), "blocked");
        repo.run(&["debug", "--repair"]).code(0);
        assert_eq!(repo.read(projection), good);
    }
    repo.write(projection, &lie);
    goes_on_to_the_end(&repo, "with an edited projection");
    assert!(repo.read(projection).contains("\"completed\""));
}

#[test]
fn what_is_blocked_is_named_with_its_cause_whatever_that_is() {
    let repo = Repo::new();
    let spaced = with(
        task("B", 1, "b.txt", "echo b > b.txt"),
        json!({ "verification": { "command": "printf '%s  %s' a b\n\tfalse" } }),
    );
    repo.graph("x", &[task("A", 1, "a.txt", "echo looking; echo there is no key; exit 3"), spaced]);
    repo.config("agents: { a: { kind: command, command: [sh, -c, 'echo a'] } }\n");
    repo.run(&["run", "--dry-run", "--agent", "a"]).code(0).says("sh -c 'echo a'\n");
    repo.run(&["run", "--dry-run"]).code(0).says("printf '%s  %s' a b\n").says("\tfalse\n");
    repo.run(&["run"]).code(3);
    let told = repo.run(&["debug"]).code(0).says("A is blocked: there is no key").does_not_say("No problem was found");
    let block =
        "shell that `mahabharatha sandbox -f x --task B` opens:\n      printf '%s  %s' a b\n      \tfalse\n    Once";
    let told = told.says("verified by: printf '%s  %s' a b\n               \tfalse\n").says(block);
    let is_indented = |line: &&str| line.starts_with(' ') || !line.contains("false");
    assert!(told.stdout.lines().all(|line| is_indented(&line)), "{}", told.stdout);
    let found = repo.run(&["debug", "A", "--json"]).code(0).json();
    assert_eq!(found["hypotheses"][0]["cause"], "A is blocked: there is no key");
}

#[test]
fn a_level_that_failed_its_gate_is_named_with_its_cause() {
    let repo = Repo::new();
    repo.config(
        "quality_gates: [{ name: lint, command: '! grep -Hn BAD *.txt' }]\nmerge: { remediation_attempts: 0 }\n",
    );
    repo.graph("x", &[task("A", 1, "a.txt", "echo BAD > a.txt")]);
    repo.run(&["run"]).code(4);
    let found = repo.run(&["debug", "--json"]).code(0).json();
    let cause = found["hypotheses"][0]["cause"].as_str().unwrap();
    assert!(cause.starts_with("level 1: gate lint failed: a.txt:1:BAD; "), "{cause}");
    repo.run(&["debug"]).code(0).does_not_say("No problem was found");
}
