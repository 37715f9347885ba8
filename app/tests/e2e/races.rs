//! Many processes at once: nothing is lost, nothing is done twice, and the second process is told so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

use mahabharatha_core::ids::Feature;
use mahabharatha_core::run::event::Event;
use mahabharatha_core::run::replay;
use mahabharatha_core::view::RunView;
use mahabharatha_sys::store::journal::Journal;
use serde_json::{Value, json};

use crate::agents::{doing, held};
use crate::support::{HELD, Ran, Repo, simple, task};

const JOURNAL: &str = ".git/mahabharatha/x/events.jsonl";
/// Number of commands that the eight run together.
const COMMANDS: u32 = 300;

/// Chance with a memory: the same seed, the same choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Five workers' tasks on three levels, of which every third fails until its second attempt, and some block for good.
fn busy_feature(repo: &Repo) -> Vec<String> {
    let mut tasks = Vec::new();
    for level in 1..=3 {
        for number in 0..8 {
            let (id, file) = (format!("T{level}-{number}"), format!("f{level}-{number}"));
            let script = match number {
                0 => format!("test -e \"$S/unblocked\" || exit 3; echo {id} > {file}"),
                3 | 6 => format!("sleep 0.05; test \"$MAHABHARATHA_ATTEMPT\" -gt 1 && echo {id} > {file}"),
                _ => format!("sleep 0.1; echo {id} > {file}"),
            };
            tasks.push(doing(&id, level, &file, &script));
        }
    }
    repo.graph("x", &tasks);
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_string()).collect()
}

/// What one of the eight did, with the answers that have to be found in the journal.
#[derive(Default)]
struct Did {
    /// Tasks that were taken, each with the word of its request.
    accepted: Vec<(&'static str, String)>,
    codes: BTreeMap<(&'static str, i32), u32>,
}

fn one_of_eight(repo: &Repo, tasks: &[String], seed: u64, begun: &AtomicU32) -> Did {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut did = Did::default();
    while begun.fetch_add(1, Ordering::Relaxed) < COMMANDS {
        let task = tasks[dice.below(tasks.len() as u64) as usize].as_str();
        let (word, args): (&'static str, Vec<&str>) = match dice.below(20) {
            0..=4 => ("run", vec!["run"]),
            5..=7 => ("status", vec!["status", "--json"]),
            8..=10 => ("retry", vec!["retry", task, "--json"]),
            11..=12 => ("retry", vec!["retry", "--all", "--json"]),
            13 => ("skip", vec!["skip", task, "--reason", "race", "--keep-dependents", "--yes", "--json"]),
            14 => ("stop", vec!["stop", "--grace", "0"]),
            15 => ("stop", vec!["stop", "--force"]),
            16 => ("stop", vec!["stop", "--worker", "1", "--grace", "0"]),
            17 => ("merge", vec!["merge"]),
            18 => ("cleanup", vec!["cleanup"]),
            _ => ("debug", vec!["debug", "--json"]),
        };
        let ran = repo.run(&args);
        *did.codes.entry((word, ran.code)).or_default() += 1;
        assert_ne!(ran.code, -1, "{args:?} was killed: {}", ran.stderr);
        if matches!(word, "retry" | "skip") && ran.stdout.starts_with('{') {
            let accepted = ran.json()["accepted"].as_array().unwrap().clone();
            did.accepted.extend(accepted.iter().map(|task| (word, task.as_str().unwrap().to_string())));
        }
        if word == "status" && ran.code == 0 {
            ran.json();
        }
    }
    did
}

/// What the journal says of what was asked for, replayed from its beginning up to each of its records.
fn granted(repo: &Repo) -> BTreeMap<(&'static str, String), usize> {
    let records = Journal::read(&repo.join(JOURNAL)).unwrap();
    let mut granted: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    let mut run = None;
    for (place, record) in records.iter().enumerate() {
        assert_eq!(record.seq, place as u64 + 1);
        match (&mut run, &record.event) {
            (None, _) => run = replay([(record.at, &record.event)]).unwrap(),
            (Some(run), event) => {
                let known = match event {
                    Event::Asked { request, .. } => run.answer(request).is_some(),
                    _ => true,
                };
                run.step(record.at, event);
                if let (false, Event::Asked { request, command }) = (known, event) {
                    let word = if format!("{command:?}").starts_with("Skip") { "skip" } else { "retry" };
                    for task in run.answer(request).map(|answer| answer.accepted.clone()).unwrap_or_default() {
                        *granted.entry((word, task.to_string())).or_default() += 1;
                    }
                }
            }
        }
    }
    let whole = replay(records.iter().map(|record| (record.at, &record.event))).unwrap();
    assert!(whole == run, "replayed at once it is another run than replayed step by step");
    granted
}

/// Users who do not know of each other, for a few hundred commands.
#[test]
fn eight_at_once_lose_nothing() {
    let repo = Repo::new();
    repo.config("workers: { count: 3 }\nretry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n");
    let tasks = busy_feature(&repo);
    repo.commit("specs");
    repo.run(&["run", "--level", "1"]).code(3);
    let begun = AtomicU32::new(0);
    let (is_over, over) = mpsc::channel();
    let did: Vec<Did> = std::thread::scope(|threads| {
        let (repo, tasks, begun) = (&repo, &tasks, &begun);
        let one = |seed| {
            let is_over = is_over.clone();
            threads.spawn(move || {
                let did = one_of_eight(repo, tasks, seed, begun);
                is_over.send(()).unwrap();
                did
            })
        };
        let eight: Vec<_> = (1..=8).map(one).collect();
        over.recv().unwrap();
        // Who drives the run now may have a long way to go.
        while eight.iter().any(|one| !one.is_finished()) {
            repo.run(&["stop", "--grace", "0"]);
        }
        eight.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // Every answer that a caller got is in the journal, and nothing else is.
    let mut answered: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    for accepted in did.iter().flat_map(|did| &did.accepted) {
        *answered.entry(accepted.clone()).or_default() += 1;
    }
    assert_eq!(granted(&repo), answered);
    let mut codes: BTreeMap<(&str, i32), u32> = BTreeMap::new();
    did.iter().flat_map(|did| &did.codes).for_each(|(key, count)| *codes.entry(*key).or_default() += count);
    assert!(codes.contains_key(&("run", 8)), "{codes:?}");
    for (word, code) in codes.keys() {
        assert!(![2, 7].contains(code) && (*code != 6 || *word == "merge"), "{word} ended with {code}: {codes:?}");
    }
    comes_to_its_end(&repo, &tasks);
}

#[track_caller]
fn comes_to_its_end(repo: &Repo, tasks: &[String]) {
    repo.write(".gsd/specs/x/unblocked", "");
    for _ in 0..3 {
        repo.run(&["retry", "--all"]);
        if repo.run(&["run"]).code == 0 {
            break;
        }
    }
    let last = repo.run(&["run"]);
    assert_eq!(last.code, 0, "{}\n{}", last.stderr, repo.run(&["debug"]).stdout);
    let (tree, status) = (repo.tree("main"), repo.status());
    let mut done = 0;
    for task in status["tasks"].as_array().unwrap() {
        let id = task["id"].as_str().unwrap();
        let file = id.replace('T', "f");
        match task["status"].as_str().unwrap() {
            "completed" => assert_eq!(tree[&file], *id),
            "skipped" => assert!(!tree.contains_key(&file), "{id} was skipped and is there"),
            other => panic!("{id} is {other}"),
        }
        done += usize::from(task["status"] == "completed");
    }
    let feats: Vec<String> = repo.subjects("main").into_iter().filter(|subject| subject.starts_with("feat(")).collect();
    assert_eq!((feats.len(), feats.iter().collect::<BTreeSet<_>>().len()), (done, done), "{feats:?}");
    assert_eq!(status["tasks"].as_array().unwrap().len(), tasks.len());
    let records = Journal::read(&repo.join(JOURNAL)).unwrap();
    let run = replay(records.iter().map(|record| (record.at, &record.event))).unwrap().unwrap();
    assert_eq!(run.feature(), &Feature::new("x").unwrap());
    assert_eq!(serde_json::to_value(RunView::of(&run)).unwrap()["tasks"], status["tasks"]);
    let projection: Value = serde_json::from_str(&repo.read(".mahabharatha/state/x.json")).unwrap();
    for task in status["tasks"].as_array().unwrap() {
        assert_eq!(projection["tasks"][task["id"].as_str().unwrap()]["status"], task["status"]);
    }
    repo.git(&["fsck", "--no-dangling"]);
}

#[test]
fn of_two_runs_of_one_feature_the_second_is_refused() {
    let repo = Repo::new();
    repo.graph("x", &[held("A", 1, "a.txt")]);
    // Both at the same moment.
    let runs = [repo.spawn(&["run"]), repo.spawn(&["run"])];
    repo.wait_until_up(&["A"]);
    let third = repo.run(&["run", "--resume"]).code(8).says("is held by another run or session (process ");
    assert!(third.stderr.contains("mahabharatha stop"), "{}", third.stderr);
    repo.let_go("all");
    let mut codes = runs.map(|run| run.wait().code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 8]);
    assert_eq!(repo.calls(), ["A"]);
}

#[test]
fn features_that_merge_at_the_same_moment_all_land() {
    let repo = Repo::new();
    repo.config("quality_gates: [ { name: g, command: 'true' } ]\n");
    let features = ["p", "q", "r", "s"];
    for feature in features {
        let at_once =
            "touch \"$MAHABHARATHA_SPEC_DIR/up\"; while ! [ -e \"$MAHABHARATHA_SPEC_DIR/../go\" ]; do sleep 0.01; done";
        let file = format!("{feature}1");
        repo.graph(
            feature,
            &[
                task("A", 1, &file, &format!("{at_once}; echo {feature} > {file}")),
                simple("B", 2, &format!("{feature}2")),
            ],
        );
    }
    repo.commit("specs");
    let runs = features.map(|feature| repo.spawn(&["run", feature]));
    for feature in features {
        repo.wait_for(&format!(".gsd/specs/{feature}/up"));
    }
    repo.write(".gsd/specs/go", "");
    for run in runs {
        run.wait().code(0).says("is completed");
    }
    let tree = repo.tree("main");
    let subjects = repo.subjects("main");
    for feature in features {
        assert_eq!((&*tree[&format!("{feature}1")], &*tree[&format!("{feature}2")]), (feature, "B"));
        for level in 1..=2 {
            let subject = format!("Level {level}: {feature}");
            assert_eq!(subjects.iter().filter(|found| **found == subject).count(), 1, "{subject}");
        }
    }
    assert_eq!(repo.git(&["status", "--porcelain", "--untracked-files=no"]), "");
}

/// Ends when `over` does; how often each came to its end well.
fn person_at_work(repo: &Repo, over: &AtomicBool) -> [AtomicU32; 4] {
    let done: [AtomicU32; 4] = Default::default();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(args).current_dir(repo.path()).stdout(Stdio::null()).stderr(Stdio::null());
        u32::from(git.status().unwrap().success())
    };
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                number += 1;
                let place = repo.join(&format!(".git/mine-{number}"));
                let made = git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap()]);
                done[0].fetch_add(made, Ordering::Relaxed);
                git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
            }
        });
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                done[1].fetch_add(git(&["gc", "-q"]), Ordering::Relaxed);
            }
        });
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                done[2].fetch_add(git(&["fetch", "-q", "--prune", "."]), Ordering::Relaxed);
                git(&["worktree", "prune"]);
            }
        });
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                repo.write("README.md", "half a thought\n");
                let stashed = git(&["stash", "push", "-q", "README.md"]);
                // What was stashed comes back, or waits in the list.
                done[3].fetch_add(stashed & git(&["stash", "pop", "-q"]), Ordering::Relaxed);
            }
        });
    });
    done
}

#[test]
fn twenty_worktrees_come_and_go_while_the_user_uses_git() {
    let repo = Repo::new();
    repo.config("workers: { count: 20 }\n");
    let tasks: Vec<Value> = (0..2)
        .flat_map(|level| (0..20).map(move |n| (level, n)))
        .map(|(level, n)| {
            let (id, file) = (format!("T{level}-{n}"), format!("d{level}/f{n}"));
            doing(&id, level, &file, &format!("mkdir -p d{level}; echo {id} > {file}"))
        })
        .collect();
    repo.graph("x", &tasks);
    repo.commit("specs");
    let over = AtomicBool::new(false);
    let done = std::thread::scope(|threads| {
        let person = threads.spawn(|| person_at_work(&repo, &over));
        // The person's own changes are in the way now and then: then it pauses, and goes on when asked.
        let mut codes = Vec::new();
        while codes.last() != Some(&0) && codes.len() < 40 {
            let ran = repo.run(&["run"]);
            assert!(matches!(ran.code, 0 | 1 | 9), "{}: {}", ran.code, ran.stderr);
            codes.push(ran.code);
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(codes.last(), Some(&0), "{codes:?}");
        println!("runs ended with {codes:?}");
        person.join().unwrap()
    });
    let done = done.map(AtomicU32::into_inner);
    println!("meanwhile worktree add, gc, fetch, stash: {done:?}");
    let tree = repo.tree("main");
    for level in 0..2 {
        (0..20).for_each(|n| assert_eq!(tree[&format!("d{level}/f{n}")], format!("T{level}-{n}")));
    }
    assert!(repo.calls().len() >= 40);
    // The person's own may be left over, where two of their commands met.
    let worktrees = repo.git(&["worktree", "list"]);
    assert!(!worktrees.contains(".mahabharatha/"), "{worktrees}");
    let stashes = repo.git(&["stash", "list"]).lines().count();
    assert!(repo.read("README.md") == "half a thought\n" || stashes > 0, "the person's change is lost");
    repo.git(&["fsck", "--no-dangling"]);
}

/// In the middle of a run, with an agent at work.
fn disturbed(disturb: impl Fn(&Repo)) -> (Repo, Ran) {
    let repo = Repo::new();
    repo.write(".gitignore", "*.log\n");
    repo.graph(
        "x",
        &[simple("A", 1, "a.txt"), task("B", 2, "b.txt", &format!("{HELD} echo b > b.txt")), simple("C", 3, "c.txt")],
    );
    repo.commit("specs");
    repo.write("build.log", "ignored\n");
    let run = repo.run_until_held("x");
    disturb(&repo);
    // The agent waits for a file in a directory that may be gone.
    repo.write(".gsd/specs/x/go", "");
    let ran = run.wait();
    (repo, ran)
}

#[track_caller]
fn goes_on_or_says_what_is_missing((repo, ran): (Repo, Ran)) {
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    if ran.code != 0 {
        assert!(matches!(ran.code, 1 | 3 | 9), "{}: {}", ran.code, ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        repo.run(&["retry", "--all"]);
        repo.run(&["run"]).code(0);
    }
    let tree = repo.tree("main");
    assert_eq!((&*tree["a.txt"], &*tree["b.txt"], &*tree["c.txt"]), ("A", "b", "C"));
    assert_eq!(repo.task("A")["attempt"], 1, "what was done stays done");
    repo.git(&["fsck", "--no-dangling"]);
}

#[test]
fn git_clean_in_the_middle_of_a_run() {
    let clean = |repo: &Repo| drop(repo.git(&["clean", "-fdxq"]));
    goes_on_or_says_what_is_missing(disturbed(clean));
    // With a second -f it removes repositories in the tree too, and so the worktrees.
    let clean = |repo: &Repo| drop(repo.git(&["clean", "-ffdxq"]));
    goes_on_or_says_what_is_missing(disturbed(clean));
}

#[test]
fn git_stash_of_everything_in_the_middle_of_a_run() {
    let stash = |repo: &Repo| drop(repo.git(&["stash", "push", "-q", "-a"]));
    goes_on_or_says_what_is_missing(disturbed(stash));
}

#[test]
fn a_clock_that_goes_back_by_an_hour_does_not_stop_a_run() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 3, base_seconds: 1, max_seconds: 2 }\n");
    // After `go` it fails once more, and has to rest before it is tried again.
    let once_more = "test -e \"$S/go\" || exit 1; test -e \"$S/again\" || { : > \"$S/again\"; exit 1; }; echo b > b";
    repo.graph("x", &[doing("A", 1, "a", "echo a > a"), doing("B", 2, "b", once_more)]);
    repo.run(&["run"]).code(3);
    // As if everything up to now had been written by a clock that was an hour ahead.
    let ahead: String = repo
        .read(JOURNAL)
        .lines()
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            if let Some(at) = record["at"].as_i64() {
                record["at"] = json!(at + 3_600_000);
            }
            format!("{record}\n")
        })
        .collect();
    repo.write(JOURNAL, &ahead);
    assert_eq!(repo.task_status("B"), "blocked");
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["retry", "--all"]).code(0);
    let run = repo.spawn(&["run"]);
    // A run that waits for the clock to come back would take an hour.
    repo.wait_for(".gsd/specs/x/COMPLETION.md");
    run.wait().code(0);
    assert_eq!(repo.calls(), ["A", "B", "B", "B", "B", "B"]);
    let status = repo.status();
    for task in status["tasks"].as_array().unwrap() {
        assert!(task["completed_at"].as_str() >= task["started_at"].as_str(), "{task}");
    }
    assert!(fs::read_to_string(repo.join(".gsd/specs/x/COMPLETION.md")).unwrap().contains("2 of 2"));
}
