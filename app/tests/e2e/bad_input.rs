//! What is wrong is named with the way out, and nothing is lost: files that cannot be read, places that cannot be
//! written, programs that never end or never stop talking.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::support::{Disk, Ran, Repo, Unwritable, processes_in, simple, task, with};

const JOURNAL: &str = ".git/mahabharatha/x/events.jsonl";
/// Every command that reads a feature.
const READERS: [&[&str]; 10] = [
    &["status"],
    &["status", "--json"],
    &["run"],
    &["run", "--dry-run"],
    &["retry", "--all"],
    &["skip", "B", "--reason", "r"],
    &["stop"],
    &["merge"],
    &["cleanup"],
    &["design", "--validate-only"],
];

/// Level 1 is merged, level 2 is blocked.
fn half_done() -> Repo {
    let repo = Repo::new();
    let second =
        with(simple("B", 2, "b.txt"), json!({ "run": "test -e \"$MAHABHARATHA_SPEC_DIR/go\" && echo b > b.txt" }));
    repo.graph("x", &[simple("A", 1, "a.txt"), second]);
    repo.run(&["run"]).code(3);
    repo
}

/// What was damaged is as it was again, and the run goes on from there.
#[track_caller]
fn goes_on(repo: &Repo) {
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["retry", "--all"]).code(0);
    repo.run(&["run"]).code(0).says("x is completed").does_not_say("A started");
    assert_eq!((repo.read("a.txt").as_str(), repo.read("b.txt").as_str()), ("A\n", "b\n"));
}

#[test]
fn a_configuration_that_does_not_hold() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    for (text, place, what) in [
        ("workers: { cuont: 3 }\n", "line 1, column 12", "unknown key workers.cuont; did you mean `count`?"),
        ("agent: command\nretyr: 3\n", "line 2, column 1", "unknown key retyr; did you mean `retry`?"),
        ("workers: [1\n", "line 1", "not valid YAML"),
        ("workers: { count: -1 }\n", "line 1, column 19", "workers.count must be a whole number"),
        ("agent: nobody\n", "line 1, column 8", "agent must be one of agents (aider, claude, codex, command,"),
        ("quality_gates: [ { name: lint } ]\n", "line 1", "quality_gates[0].command is missing"),
    ] {
        repo.write(".mahabharatha/config.yaml", text);
        for args in [&["run"][..], &["run", "--dry-run"]] {
            repo.run(args)
                .code(6)
                .says("config.yaml is not valid")
                .says(place)
                .says(what)
                .says("mahabharatha help config");
        }
    }
    fs::write(repo.join(".mahabharatha/config.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    repo.run(&["run"]).code(6).says("config.yaml: not UTF-8 text");
    // All of it at once, not the first alone.
    repo.write(".mahabharatha/config.yaml", "wrokers: 1\nprots: 2\nmerge: { target: moon }\n");
    repo.run(&["run"]).code(6).says("`workers`").says("`ports`").says("merge.target must be");
    assert_eq!(repo.status()["status"], "designed", "nothing was begun");
}

#[test]
fn a_feature_that_cannot_be_one() {
    let repo = Repo::new();
    let inside = repo.everything();
    for args in [
        &["run", "../x"][..],
        &["--feature", "../x", "status"],
        &["-f", "/etc", "logs"],
        &["design", "A b", "--validate-only"],
    ] {
        repo.run(args).code(2).says("is not a valid feature name").says("a-z");
    }
    repo.run(&["run", "Log In"])
        .code(2)
        .says("error: \"Log In\" is not a valid feature name")
        .does_not_say("--feature");
    repo.run(&["run", "-f", "Log In"]).code(2).says("error: --feature: \"Log In\" is not a valid feature name");
    repo.run_with(&["status"], &[("ZERG_FEATURE", "../x")]).code(2).says("ZERG_FEATURE").says("../x");
    repo.run_with(&["run"], &[("ZERG_FEATURE", "x"), ("MAHABHARATHA_FEATURE", "y")]).code(2).says("Unset one");
    repo.run(&["run", "x", "--feature", "y"]).code(2).says("two features are named");
    assert_eq!(repo.everything(), inside, "nothing was made, here or above");

    repo.write(".gsd/.current-feature", "../x\n");
    for args in READERS {
        repo.run(args).code(6).says(".current-feature").says("../x").says("a-z");
    }
    fs::write(repo.join(".gsd/.current-feature"), [0xff, 0xfe]).unwrap();
    repo.run(&["status"]).code(6).says(".current-feature is not a text file").says("or remove it");
    fs::remove_file(repo.join(".gsd/.current-feature")).unwrap();
    fs::create_dir(repo.join(".gsd/.current-feature")).unwrap();
    repo.run(&["status"]).code(6).says(".current-feature is not a text file");
    fs::remove_dir(repo.join(".gsd/.current-feature")).unwrap();
    repo.run(&["run"]).code(2).says("no feature is named").says("--feature <name>");
}

#[test]
fn a_place_where_nothing_can_be_done() {
    let repo = Repo::new();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::create_dir(dir.path().join("plain")).unwrap();
    repo.git(&["init", "-q", &at("empty")]);
    repo.git(&["init", "-q", "--bare", &at("bare")]);
    let commands = READERS.iter().copied().chain([&["doctor"][..], &["logs"]]);
    for args in commands {
        let run = |place: &str| repo.run(&[&["-C", &at(place), "-f", "x"], args].concat());
        run("plain").code(7).says("is not in a git repository").says("git init").says("mahabharatha init");
        run("empty").code(7).says("has no commit yet").says("git commit");
        run("bare").code(7).says("bare").says("git clone");
        run("nowhere").code(2).says("there is no directory").says("-C <dir>");
    }
}

#[test]
fn a_torn_end_of_the_journal_is_cut_off_and_kept() {
    let repo = half_done();
    let good = repo.read(JOURNAL);
    for tail in ["{\"seq\":", "{\"seq\":999,\"at\":1,\"event\":{\"event\":\"woke\"}}", "\0\0\0\0\0\0"] {
        repo.write(JOURNAL, &format!("{good}{tail}"));
        assert_eq!(repo.task_status("B"), "blocked", "who only looks passes over it");
        assert_eq!(repo.read(JOURNAL), format!("{good}{tail}"), "and leaves it");
        repo.run(&["run"]).code(3);
        assert!(repo.read(JOURNAL).starts_with(&good));
        assert!(repo.read(&format!("{JOURNAL}.torn")).contains(tail));
        repo.write(JOURNAL, &good);
    }
    goes_on(&repo);
}

#[test]
fn a_damaged_journal_is_named_with_the_place_and_the_way_out() {
    let repo = half_done();
    let good = repo.read(JOURNAL);
    let lines: Vec<&str> = good.lines().collect();
    let fifth: usize = lines[..4].iter().map(|line| line.len() + 1).sum();
    let mut damaged = lines.clone();
    damaged[4] = "garbage";
    let damaged = damaged.join("\n") + "\n";
    repo.write(JOURNAL, &damaged);
    for args in READERS {
        let refused = repo.run(args).code(6).says("is damaged").says(&format!("line 5, byte {fifth}"));
        assert!(refused.stderr.contains("mahabharatha debug --repair -f x"), "{}", refused.stderr);
    }
    repo.run(&["doctor"]).code(7).says("FAILED  journal: ");
    assert_eq!(repo.read(JOURNAL), damaged, "nobody touched it");

    repo.run(&["debug", "--repair", "-f", "x"]).code(0).says("3 records are kept");
    assert_eq!(repo.read(JOURNAL), lines[..4].join("\n") + "\n");
    assert_eq!(repo.read(&format!("{JOURNAL}.damaged")), damaged);
    repo.run(&["status"]).code(0);

    for (text, what) in [("", "the file is empty"), ("{\"journal\":9}\n", "version 9"), ("not json\n", "not a header")]
    {
        repo.write(JOURNAL, text);
        repo.run(&["run"]).code(6).says(what);
        repo.run(&["status"]).code(6).says(what);
    }
    let other = good.replacen("\"feature\":\"x\"", "\"feature\":\"y\"", 1);
    repo.write(JOURNAL, &other);
    repo.run(&["run"]).code(6).says("is the journal of y, not of x");
    repo.write(JOURNAL, &good);
    goes_on(&repo);
}

#[test]
fn a_journal_that_was_changed_to_no_workers_has_none_to_stop() {
    let repo = Repo::new();
    repo.config("workers: { count: 7 }\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(0);
    let journal = repo.read(JOURNAL);
    let changed = journal.replace("\"workers\":7", "\"workers\":0");
    assert_ne!(changed, journal);
    repo.write(JOURNAL, &changed);
    repo.run(&["stop", "--worker", "0"]).code(2).says("there is no worker 0");
}

#[test]
fn a_graph_that_is_lost_or_broken_while_a_run_is_half_done() {
    let repo = half_done();
    let graph = ".gsd/specs/x/task-graph.json";
    let good = repo.read(graph);
    repo.write(graph, "{");
    repo.run(&["run"]).code(6).says("task-graph.json");
    repo.run(&["status"]).code(0);
    repo.write(graph, &good.replace("\"x\"", "\"y\""));
    repo.run(&["run"]).code(6).says("feature_mismatch");
    fs::remove_file(repo.join(graph)).unwrap();
    repo.run(&["run"]).code(3).says("is gone; the run goes on with the graph that it began with");
    goes_on(&repo);
}

#[test]
fn places_that_cannot_be_written() {
    let ready = || {
        let repo = Repo::new();
        repo.graph("x", &[simple("A", 1, "a.txt")]);
        repo
    };
    // What the run depends on.
    let repo = ready();
    let Some(unwritable) = Unwritable::new(&repo.join(".git/mahabharatha")) else { return };
    repo.run(&["run"]).code(1).says(".git/mahabharatha/x").says("Read-only").says("writable");
    drop(unwritable);
    repo.run(&["run"]).code(0);

    let repo = ready();
    let unwritable = Unwritable::new(&repo.join(".mahabharatha/worktrees")).unwrap();
    repo.run(&["run"]).code(1).says(".mahabharatha/worktrees/x").says("Read-only").does_not_say("graft");
    drop(unwritable);
    repo.run(&["run"]).code(0);

    // What it only tells.
    for dir in [".mahabharatha/state", ".mahabharatha/logs"] {
        let repo = ready();
        let _unwritable = Unwritable::new(&repo.join(dir)).unwrap();
        let ran = repo.run(&["run"]).code(0);
        assert_eq!(ran.stderr.contains("warning: "), dir.ends_with("state"), "{}", ran.stderr);
    }
}

#[test]
fn a_state_directory_that_can_only_be_read() {
    let repo = half_done();
    let dir = repo.join(".git/mahabharatha");
    let again = |args: &[&str]| Command::new("mount").args(args).arg(&dir).status().unwrap().success();
    if !Disk::may_mount() {
        return;
    }
    assert!(Command::new("mount").arg("--bind").arg(&dir).arg(&dir).status().unwrap().success());
    let unwritable = Unwritable(dir.clone());
    assert!(again(&["-o", "remount,bind,ro"]));
    repo.run(&["status"]).code(0).says("x: blocked");
    repo.run(&["debug"]).code(0).says("journal: good");
    repo.run(&["logs"]).code(0);
    for args in [&["run"][..], &["retry", "--all"], &["skip", "B", "--reason", "r"], &["stop"], &["cleanup"]] {
        repo.run(args).code(1).says(".git/mahabharatha").says("Read-only").says("writable");
    }
    drop(unwritable);
    goes_on(&repo);
}

#[test]
fn a_disk_that_fills_up_in_the_middle() {
    let repo = Repo::new();
    let Some(disk) = Disk::new("260m") else { return };
    let fill = "[ -e \"$MAHABHARATHA_SPEC_DIR/again\" ] || dd if=/dev/zero of=\"$MAHABHARATHA_SPEC_DIR/fill\" bs=1M 2> /dev/null; \
                echo b > b.txt; true";
    repo.graph(
        "x",
        &[simple("A", 1, "a.txt"), with(simple("B", 2, "b.txt"), json!({ "run": fill })), simple("C", 3, "c.txt")],
    );
    repo.commit("specs");
    let full = disk.path().join("full");
    repo.git(&["clone", "-q", repo.path().to_str().unwrap(), full.to_str().unwrap()]);
    let run = |args: &[&str]| -> Ran { repo.run(&[&["-C", full.to_str().unwrap()], args].concat()) };
    run(&["run"]).code(9).says("No space left on device").says("x is paused").does_not_say("breaker");
    assert!(processes_in(&full).is_empty());
    let status = run(&["status", "--json"]).code(0).json();
    assert_eq!(status["status"], "paused");
    assert!(status["problems"].to_string().contains("free some space, then `mahabharatha run x`"), "{status}");

    fs::remove_file(full.join(".gsd/specs/x/fill")).unwrap();
    fs::write(full.join(".gsd/specs/x/again"), "").unwrap();
    run(&["run"]).code(0).says("x is completed").does_not_say("A started");
    assert_eq!(repo.git_in(&full, &["show", "main:b.txt"]), "b");
    repo.git_in(&full, &["fsck", "--connectivity-only"]);
}

#[test]
fn programs_that_never_end_or_never_stop_talking() {
    let repo = Repo::new();
    // A gigabyte and more, in one line and in many; a child that would not go by itself.
    let once = |trouble: &str| format!("test \"$MAHABHARATHA_ATTEMPT\" != 1 || {{ {trouble}; }}");
    let lines = "yes | head -c 1100000000";
    let one_line = "head -c 1100000000 /dev/zero | tr '\\0' x";
    let for_ever = "trap '' TERM; sleep 1000 & setsid sleep 1000 & while :; do sleep 1000; done";
    let verified = |id: &str, file: &str, trouble: &str, seconds: u32| {
        let command = format!("{}; test -e {file}", once(trouble));
        with(simple(id, 1, file), json!({ "verification": { "command": command, "timeout_seconds": seconds } }))
    };
    repo.graph(
        "x",
        &[
            task("TALKS", 1, "a.txt", &format!("echo a > a.txt; {one_line}")),
            verified("VERIFIES", "b.txt", &format!("{lines}; exit 1"), 120),
            verified("HANGS", "c.txt", for_ever, 1),
        ],
    );
    repo.run(&["run"]).code(0).says("HANGS failed its verification").says("VERIFIES failed its verification");
    let hangs = repo.task("HANGS");
    let feedback = hangs["attempts"][0]["detail"].as_str().unwrap();
    assert!(feedback.contains("did not end within 1 s"), "{feedback}");
    let verifies = repo.task("VERIFIES");
    let feedback = verifies["attempts"][0]["detail"].as_str().unwrap();
    assert!(feedback.contains("bytes left out") && feedback.len() < 64 << 10, "{} bytes", feedback.len());
    let mut logged = 0;
    for (path, (_, content)) in repo.everything() {
        logged += if path.starts_with(repo.join(".mahabharatha")) { content.len() } else { 0 };
        assert!(content.len() <= 64 << 20, "{} has {} bytes", path.display(), content.len());
    }
    assert!(logged < 256 << 20, "{logged} bytes of logs");
}
