//! The sweeps: each point of a trace in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::outcome::{Outcome, processes_of};
use crate::scenario::{BY_DEPENDENCIES, BY_LEVELS, Scenario, Story, points};

pub const AT: &str = "MAHABHARATHA_CRASH_AT";
pub const TRACE: &str = "MAHABHARATHA_CRASH_TRACE";
pub const WITH: &str = "MAHABHARATHA_CRASH_WITH";

/// The scenario as it goes when nobody is killed.
struct Uninterrupted {
    outcome: Outcome,
    /// Before each step.
    places: Vec<Scenario>,
    /// Of each step.
    traces: Vec<Vec<String>>,
}

impl Uninterrupted {
    fn run() -> Uninterrupted {
        Uninterrupted::of(&BY_LEVELS)
    }

    fn of(story: &'static Story) -> Uninterrupted {
        let scenario = Scenario::new(story);
        let (mut places, mut traces) = (Vec::new(), Vec::new());
        for (step, (_, code)) in story.steps.iter().enumerate() {
            places.push(scenario.copy());
            let trace = scenario.trace(&format!("trace-{step}"));
            let ended = scenario.step(step, &[(TRACE, trace.to_str().unwrap())]);
            assert_eq!(ended.code, Some(*code), "{}", ended.said);
            traces.push(points(&trace));
        }
        assert_eq!(processes_of(&scenario), [""; 0]);
        let outcome = Outcome::of(&scenario);
        let calls: Vec<&str> =
            outcome.calls.iter().flat_map(|(task, count)| std::iter::repeat_n(task.as_str(), *count)).collect();
        assert_eq!(calls, story.calls);
        assert!(!outcome.files.iter().any(|name| is_unfinished_object(name)), "{:?}", outcome.files);
        let kept = story.kept.iter().map(|task| format!("refs/mahabharatha/x/wip/{task}/*"));
        assert_eq!(outcome.refs, kept.chain(["refs/heads/main".to_owned()]).collect());
        Uninterrupted { outcome, places, traces }
    }
}

/// Where to kill, and who goes along.
#[derive(Debug, Clone)]
struct Crash {
    step: usize,
    point: String,
    with: Option<&'static str>,
    /// The resume is killed too, after so many points.
    again: Option<usize>,
}

impl Crash {
    /// The task whose worker is killed, and whether its attempt is finished by then.
    fn worker(&self) -> Option<(&str, bool)> {
        let (job, what) = self.point.strip_prefix("worker ")?.split_once(' ')?;
        let (task, _attempt) = job.rsplit_once('.')?;
        Some((task, matches!(what, "after the ref" | "after the result")))
    }

    /// What was promised and did not hold; `None` where the point was not come to.
    fn happen(&self, usual: &Uninterrupted, said: &mut String) -> Option<Vec<String>> {
        let scenario = usual.places[self.step].copy();
        let (trace, after) = (scenario.trace("trace"), scenario.trace("trace-after"));
        let mut env = vec![(AT, self.point.as_str()), (TRACE, trace.to_str().unwrap())];
        env.extend(self.with.map(|whom| (WITH, whom)));
        said.push_str(&scenario.step(self.step, &env).said);
        if !points(&trace).contains(&self.point) {
            return None;
        }
        let again = self.again.map(|count| count.to_string());
        let mut env = vec![(TRACE, after.to_str().unwrap())];
        env.extend(again.as_deref().map(|count| (AT, count)));
        if let Err(why) = scenario.finish(&env, said) {
            return Some(vec![why]);
        }
        let survivors = processes_of(&scenario);
        let mut found: Vec<String> = survivors.iter().map(|process| format!("still runs: {process}")).collect();
        let outcome = Outcome::of(&scenario);
        found.extend(outcome.differences(&self.expected(usual, &outcome)));
        if let (Some(_), false) = (self.again, found.is_empty()) {
            said.push_str(&format!("killed again at {:?}\n", points(&after).last()));
        }
        Some(found)
    }

    /// As where nobody is killed. An attempt whose worker is killed before it is finished is made once more, and what
    /// it left is kept.
    fn expected(&self, usual: &Uninterrupted, found: &Outcome) -> Outcome {
        let mut expected = usual.outcome.clone();
        // A git that is killed, or that writes to the dead orchestrator, leaves an unfinished object for `git gc` to remove.
        expected.files.extend(found.files.iter().filter(|name| is_unfinished_object(name)).cloned());
        if let Some((task, finished)) = self.worker() {
            let (usual, calls) = (expected.calls[task], found.calls.get(task).copied().unwrap_or_default());
            if !finished && calls == usual + 1 {
                expected.calls.insert(task.to_owned(), calls);
            }
            let kept = |name: &&String| name.contains(&format!("/wip/{task}/"));
            expected.refs.extend(found.refs.iter().filter(kept).cloned());
            expected.files.extend(found.files.iter().filter(kept).cloned());
        }
        expected
    }
}

fn is_unfinished_object(name: &str) -> bool {
    name.starts_with(".git/objects/") && name.contains("/tmp_")
}

/// Tries each crash and returns how many were come to.
fn sweep(what: &str, usual: &Uninterrupted, crashes: Vec<Crash>) -> usize {
    let only = std::env::var("CRASH_ONLY").unwrap_or_default();
    let crashes: Vec<Crash> = crashes.into_iter().filter(|crash| crash.point.contains(&only)).collect();
    let missed = in_parallel(what, &crashes, |crash, said| crash.happen(usual, said), |crash| format!("{crash:?}"));
    // Which slot a worker has is chance, and with it the names of the files that are the slot's.
    assert!(missed.iter().all(|point| point.contains("write worker-")), "not come to: {missed:?}");
    crashes.len() - missed.len()
}

/// Tries all of these, as many at once as there are processors, and fails unless everything held. `happen` returns what did
/// not hold, or `None` where it did not come about. Returns the names of those.
pub fn in_parallel<C: Sync>(
    what: &str,
    crashes: &[C],
    happen: impl Fn(&C, &mut String) -> Option<Vec<String>> + Sync,
    name: impl Fn(&C) -> String + Sync,
) -> Vec<String> {
    let (next, failures, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(crash) = crashes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut said = String::new();
                    match happen(crash, &mut said) {
                        None => missed.lock().unwrap().push(name(crash)),
                        Some(found) if found.is_empty() => {}
                        Some(found) => {
                            tell(&format!("{}:\n  {}\n{said}", name(crash), found.join("\n  ")));
                            failures.lock().unwrap().push(name(crash));
                        }
                    }
                }
            });
        }
    });
    let (failures, missed) = (failures.into_inner().unwrap(), missed.into_inner().unwrap());
    let tried = crashes.len() - missed.len();
    let seconds = started.elapsed().as_secs();
    tell(&format!("{what}: {tried} points tried in {seconds} s, {} not come to {missed:?}", missed.len()));
    assert!(failures.is_empty(), "{} of {tried} failed:\n{}", failures.len(), failures.join("\n"));
    missed
}

/// Shown also where the test passes.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Why a point need not be tried, where another stands for it.
fn stood_for(point: &str) -> Option<&'static str> {
    if let Some(("A-2 1" | "B-1 1" | "B-2 1" | "C-1 1", _)) =
        point.strip_prefix("job ").and_then(|job| job.split_at_checked(5))
    {
        return Some("a first attempt is launched like that of A-1");
    }
    (point.starts_with("write ") && point.contains('#'))
        .then_some("the same file is written again, as often as the clock says")
}

/// Tests that share the points of the orchestrator, so that no processor waits for one long test at the end.
const SHARDS: usize = 4;

macro_rules! orchestrator_shards {
    ($($name:ident: $shard:expr;)*) => {
        $(#[test] fn $name() { kill_orchestrator($shard); })*
        const _: () = assert!([$($shard),*].len() == SHARDS);
    };
}

orchestrator_shards! {
    an_orchestrator_killed_at_any_point_is_resumed_as_if_nothing_had_happened_1: 0;
    an_orchestrator_killed_at_any_point_is_resumed_as_if_nothing_had_happened_2: 1;
    an_orchestrator_killed_at_any_point_is_resumed_as_if_nothing_had_happened_3: 2;
    an_orchestrator_killed_at_any_point_is_resumed_as_if_nothing_had_happened_4: 3;
}

/// Returns the shard that tries a crash. It depends on nothing but the crash, because traces differ from run to run.
fn shard_of(crash: &Crash) -> usize {
    let sum: usize = crash.point.bytes().map(usize::from).sum();
    (crash.step + sum) % SHARDS
}

fn kill_orchestrator(shard: usize) {
    let usual = Uninterrupted::run();
    let (mut crashes, mut equal) = (Vec::new(), BTreeMap::<&str, usize>::new());
    for (step, trace) in usual.traces.iter().enumerate() {
        for point in trace.iter().filter(|point| !point.starts_with("worker ") && !point.starts_with("git ")) {
            match stood_for(point) {
                Some(why) => *equal.entry(why).or_default() += 1,
                None => crashes.push(Crash { step, point: point.clone(), with: None, again: None }),
            }
        }
    }
    for (count, crash) in crashes.iter_mut().enumerate().skip(1).step_by(2) {
        crash.again = Some(count * 7 % 90 + 1);
    }
    let distinct: BTreeSet<&str> = crashes.iter().map(|crash| crash.point.as_str()).collect();
    tell(&format!(
        "orchestrator: {} crash points by {} names; others stand for {equal:?}",
        crashes.len(),
        distinct.len()
    ));
    assert!(distinct.len() >= 200, "{distinct:?}");
    crashes.retain(|crash| shard_of(crash) == shard);
    sweep(&format!("orchestrator, part {} of {SHARDS}", shard + 1), &usual, crashes);
}

/// Whether the point has to do with tasks that start early and are verified again; the other sweeps have the rest.
fn is_of_early_tasks(point: &str) -> bool {
    let job = ["job B-", "job C-", "begun run_job B-", "begun run_job C-"].iter().any(|job| point.starts_with(job));
    let integration = ["stage ", "begun stage ", "begun gate ", "begun land "].iter().any(|one| point.starts_with(one));
    job || integration
}

#[test]
fn an_orchestrator_killed_while_tasks_start_early_is_resumed_as_if_nothing_had_happened() {
    let usual = Uninterrupted::of(&BY_DEPENDENCIES);
    let points = usual.traces[0].iter().filter(|point| is_of_early_tasks(point));
    let mut crashes: Vec<Crash> =
        points.map(|point| Crash { step: 0, point: point.clone(), with: None, again: None }).collect();
    for (count, crash) in crashes.iter_mut().enumerate().skip(1).step_by(3) {
        crash.again = Some(count * 7 % 60 + 1);
    }
    assert!(crashes.len() >= 30, "{crashes:?}");
    sweep("orchestrator, by dependencies", &usual, crashes);
}

/// Whose worker stands for those of others: every way that an attempt can go, once.
const JOBS: [(&str, &str); 6] = [
    ("A-1.2", "is done, after a failure"),
    ("B-2.2", "fixes what made a gate fail"),
    ("A-1.1", "fails"),
    ("A-2.1", "stops at a checkpoint"),
    ("A-2.2", "goes on from a checkpoint"),
    ("C-1.1", "is blocked"),
];

/// The points of these workers, but for those within a call of git.
fn worker_crashes(usual: &Uninterrupted, jobs: &[(&str, &str)], with: Option<&'static str>) -> Vec<Crash> {
    let mut crashes = Vec::new();
    for (step, trace) in usual.traces.iter().enumerate() {
        for (job, _) in jobs {
            let of_this = |point: &&String| {
                let what = point.strip_prefix(&format!("worker {job} "));
                what.is_some_and(|what| !what.starts_with("git "))
            };
            let points = trace.iter().filter(of_this).cloned();
            crashes.extend(points.map(|point| Crash { step, point, with, again: None }));
        }
    }
    assert!(crashes.len() >= 15 * jobs.len(), "{crashes:?}");
    crashes
}

/// What a worker leaves does not depend on who else lives, only what the orchestrator makes of it: two jobs show that.
#[test]
fn a_worker_killed_at_any_point_is_replaced_unless_its_attempt_was_finished() {
    let usual = Uninterrupted::run();
    sweep("worker", &usual, worker_crashes(&usual, &JOBS[..2], None));
}

#[test]
fn a_worker_killed_together_with_its_orchestrator_is_replaced_unless_its_attempt_was_finished() {
    let usual = Uninterrupted::run();
    let mut crashes = worker_crashes(&usual, &JOBS, Some("parent"));
    // What is unfinished in a slot is written anew by the next attempt, whoever lives: the other sweep has it.
    crashes.retain(|crash| !crash.point.contains(" write worker-"));
    for (count, crash) in crashes.iter_mut().enumerate().step_by(3) {
        crash.again = Some(count * 5 % 60 + 1);
    }
    sweep("worker and orchestrator", &usual, crashes);
}

/// Calls of git that change something, and how many are tried at most: those that set staging's files are all alike.
const CHANGING: [(&str, u32); 8] = [
    ("worktree", u32::MAX),
    ("update-ref", u32::MAX),
    ("fast-import", u32::MAX),
    ("merge", u32::MAX),
    ("commit-tree", u32::MAX),
    ("read-tree", 3),
    ("clean", 3),
    ("update-index", 3),
];

/// Whether git is killed in something that it changes.
fn is_tried(point: &str) -> bool {
    let Some(call) = point.strip_prefix("git ") else { return false };
    let (verb, count) = call.split_once('#').unwrap_or((call, "1"));
    let most = CHANGING.iter().find(|(changing, _)| *changing == verb).map_or(0, |(_, most)| *most);
    count.parse::<u32>().is_ok_and(|count| count <= most)
}

#[test]
fn an_orchestrator_killed_together_with_the_git_that_it_runs_is_resumed() {
    let usual = Uninterrupted::run();
    let mut crashes = Vec::new();
    for (step, trace) in usual.traces.iter().enumerate() {
        let points = trace.iter().filter(|point| is_tried(point)).cloned();
        crashes.extend(points.map(|point| Crash { step, point, with: Some("git"), again: None }));
    }
    sweep("orchestrator and git", &usual, crashes);
}
