//! A disk that is full, at each single write of the store: the run pauses and names it, nothing is lost, and it goes on.

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::agents::doing;
use crate::support::{Ran, Repo};

const VARIABLE: &str = "MAHABHARATHA_TEST_FULL_DISK";

/// Two tasks at once, one of them at its second attempt, and a level above them.
fn scenario() -> Repo {
    let repo = Repo::new();
    repo.config(&format!("workers: {{ count: 2 }}\nenv: {{ pass: [{VARIABLE}] }}\n"));
    let second = "test \"$MAHABHARATHA_ATTEMPT\" -gt 1 && echo A-2 > a2";
    let tasks = [
        doing("A-1", 1, "a1", "echo A-1 > a1"),
        doing("A-2", 1, "a2", second),
        doing("B-1", 2, "b1", "cat a1 a2 > b1"),
    ];
    repo.graph("x", &tasks);
    repo.commit("specs");
    repo
}

/// Runs on a disk on which these writes of the store fail, counted over all processes.
fn run_on_full_disk(repo: &Repo, which: &str) -> (Ran, usize) {
    let file = repo.join(".git/full-disk");
    fs::write(&file, format!("{which}\n")).unwrap();
    let ran = repo.run_with(&["run"], &[(VARIABLE, file.to_str().unwrap())]);
    let dots = fs::read_to_string(&file).unwrap().matches('.').count();
    fs::remove_file(file).unwrap();
    (ran, dots)
}

#[track_caller]
fn is_whole(repo: &Repo, which: &str) {
    let tree = repo.tree("main");
    assert_eq!((&*tree["a1"], &*tree["a2"], &*tree["b1"]), ("A-1", "A-2", "A-1\nA-2"), "{which}");
    let mut subjects: BTreeMap<String, u32> = BTreeMap::new();
    for subject in repo.subjects("main") {
        *subjects.entry(subject).or_default() += 1;
    }
    assert!(subjects.values().all(|count| *count == 1), "{which}: {subjects:?}");
    assert_eq!(subjects.len(), 7, "{which}: {subjects:?}");
    assert_eq!(repo.refs().iter().filter(|name| !name.contains("/wip/")).count(), 0, "{which}: {:?}", repo.refs());
    let worktrees = repo.git(&["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 1, "{which}: {worktrees}");
    assert_eq!(repo.task("A-1")["status"], "completed", "{which}");
}

/// With the disk full at this write and, perhaps, from then on.
fn survives(which: &str) -> i32 {
    let repo = scenario();
    let (ran, _) = run_on_full_disk(&repo, which);
    let code = ran.code;
    assert!(matches!(code, 0 | 9), "{which}: exit {code}\n{}", ran.stderr);
    ran.does_not_say("breaker").says(if code == 0 { "x is completed" } else { "No space left on device" });
    let before = fs::read_to_string(repo.join(".gsd/specs/x/calls")).unwrap_or_default();
    let done = if code == 9 && repo.exists(".git/mahabharatha/x/events.jsonl") { completed(&repo) } else { Vec::new() };
    repo.run(&["run"]).code(0);
    is_whole(&repo, which);
    let after = repo.read(".gsd/specs/x/calls");
    for task in done {
        let count = |text: &str| text.lines().filter(|line| *line == task).count();
        assert_eq!(count(&before), count(&after), "{which}: {task} was done and is done again");
    }
    code
}

fn completed(repo: &Repo) -> Vec<String> {
    let status = repo.run(&["status", "--json"]);
    if status.code != 0 {
        return Vec::new();
    }
    let tasks = status.json()["tasks"].as_array().unwrap().clone();
    let done = tasks.iter().filter(|task| task["status"] == "completed");
    done.map(|task| task["id"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_disk_that_is_full_at_any_write_of_the_store() {
    let repo = scenario();
    let (ran, writes) = run_on_full_disk(&repo, "from 1000000");
    ran.code(0);
    is_whole(&repo, "never");
    assert!(writes > 60, "{writes} writes were counted");
    // Full from each write on; full at that one alone for some of them, or for all if `FULL_DISK_SWEEP` is set.
    let step = if std::env::var_os("FULL_DISK_SWEEP").is_some() { 1 } else { 4 };
    let from = (1..=writes).map(|number| format!("from {number}"));
    let cases: Vec<String> = from.chain((1..=writes).step_by(step).map(|number| format!("once {number}"))).collect();
    let next = AtomicUsize::new(0);
    let ends: Mutex<Vec<(&str, Option<i32>)>> = Mutex::default();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Some(which) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let end = catch_unwind(|| survives(which)).ok();
                    ends.lock().unwrap().push((which, end));
                }
            });
        }
    });
    let ends = ends.into_inner().unwrap();
    let broken: Vec<&str> = ends.iter().filter(|(_, end)| end.is_none()).map(|(which, _)| *which).collect();
    assert!(broken.is_empty(), "as told above, of {} cases these broke a promise: {broken:?}", cases.len());
    let paused = ends.iter().filter(|(_, end)| *end == Some(9)).count();
    println!("{writes} writes, {} runs on a full disk, {paused} of them paused", cases.len());
    assert!(paused > cases.len() / 3, "{paused} of {} paused", cases.len());
}

/// A git that is killed leaves its locks, and no other process removes them.
#[test]
fn locks_that_a_killed_git_left_are_taken_away() {
    let repo = Repo::new();
    let tasks = [doing("A", 1, "a", "echo a > a"), doing("B", 2, "b", "test -e \"$S/go\" && echo b > b")];
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(3);
    for place in [
        "refs/heads/mahabharatha/x/staging",
        "refs/heads/mahabharatha/x/worker-0",
        "refs/mahabharatha/x/tasks/B",
        "refs/mahabharatha/x/wip/B/4",
        "mahabharatha/x/slots/worker-0.index",
        "mahabharatha/x/slots/worker-0.scratch",
        "mahabharatha/x/integration/staging.index",
        "mahabharatha/x/integration/compare.index",
        "worktrees/staging/index",
        "worktrees/worker-0/index",
        "worktrees/worker-0/HEAD",
    ] {
        repo.write(&format!(".git/{place}.lock"), "");
    }
    // And worktrees of which it wrote only a part.
    repo.write(".git/worktrees/staging/commondir", "");
    fs::remove_file(repo.join(".git/worktrees/worker-0/HEAD")).unwrap();
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["retry", "--all"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read("a").as_str(), repo.read("b").as_str()), ("a\n", "b\n"));
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
}
