//! `step` is total: no event in any state panics or leads to a state that a replay does not reach.

use mahabharatha_core::ids::{Attempt, Feature, Level, Oid, TaskId, Time, WorkerId};
use mahabharatha_core::run::event::{
    Candidate, Command, Event, FailCause, GateFailure, GatePass, Intent, JobEnd, JobReport, Note, Obstacle, Setup,
    SetupFailure, TaskCommit,
};
use mahabharatha_core::run::{Effect, EffectId, Run, replay};
use mahabharatha_core::view::RunView;

use crate::rng::{Rng, oid};
use crate::{graphs, person};

const WALKS: u64 = 500;
const STEPS: usize = 150;

#[test]
fn any_event_in_any_state_is_survived() {
    for seed in 0..WALKS {
        walk(&mut Rng::new(seed ^ 0xda7a));
    }
}

fn walk(rng: &mut Rng) {
    let setup = Setup {
        feature: Feature::new("sim").expect("a good name"),
        graph: graphs::graph(rng, 60),
        base_branch: "refs/heads/main".to_string(),
        start: oid("start"),
        git_config: Vec::new(),
        policy: graphs::policy(rng),
        planning: graphs::planning(rng),
    };
    let mut now = Time(0);
    let mut run = Run::start(now, &setup).expect("the simulator's graphs are valid");
    let mut journal = vec![(now, Event::Started(Box::new(setup)))];
    for _ in 0..STEPS {
        let event = any_event(rng, &run);
        run.step(now, &event);
        journal.push((now, event));
        now = Time(now.0 + rng.between(0, 3_000) as i64 - 500);
        if run.ended().is_some() {
            assert!(run.is_settled(), "ended while something is under way");
        }
        RunView::of(&run);
    }
    let replayed = replay(journal.iter().map(|(now, event)| (*now, event)));
    assert!(replayed == Ok(Some(run)), "replay is not live");
}

/// Half of them answer an outstanding effect, in one way or another; the others are noise.
fn any_event(rng: &mut Rng, run: &Run) -> Event {
    let outstanding: Vec<(EffectId, Effect)> = run.outstanding().map(|(id, effect)| (id, effect.clone())).collect();
    let under_way = rng.pick(&outstanding);
    let id = under_way.map(|(id, _)| *id).filter(|_| rng.chance(80)).unwrap_or(EffectId(rng.between(0, 99)));
    match under_way.filter(|_| rng.chance(50)) {
        Some((_, effect)) => answer(rng, run, id, effect),
        None => noise(rng, run, id),
    }
}

fn noise(rng: &mut Rng, run: &Run, effect: EffectId) -> Event {
    let level = level(rng, run);
    match rng.between(0, 19) {
        0 => {
            let (policy, planning) = (graphs::policy(rng), graphs::planning(rng));
            Event::Resumed { policy, intent: intent(rng, level), planning }
        }
        1 => Event::Replanned { graph: Box::new(graph(rng, run)) },
        2 => Event::BaseChecked { effect, red: red(rng) },
        3 => Event::SlotReady { effect, worker: WorkerId(rng.between(0, 9) as u32) },
        4 => Event::JobStarted { effect, task: task(rng, run), attempt: attempt(rng), pid: 7 },
        5 => Event::JobEnded { effect, task: task(rng, run), attempt: attempt(rng), report: report(rng) },
        6 => Event::Staged { effect, level, staging: any_oid(rng), commits: commits(rng, run) },
        7 => gates_passed(rng, effect, level),
        8 => gate_failed(rng, run, effect, level),
        9 => Event::Blamed { effect, level, task: rng.chance(50).then(|| task(rng, run)), why: String::new() },
        10 => Event::Landed { effect, level, commit: any_oid(rng) },
        11 => Event::NotLanded { effect, level, obstacle: obstacle(rng) },
        12 => Event::Closed { effect },
        13 => Event::Asked { request: format!("r{}", rng.between(0, 99)), command: command(rng, run) },
        14 => Event::Woke,
        15 => Event::Started(Box::new(Setup { start: any_oid(rng), ..run.setup().clone() })),
        17 => Event::OutOfSpace { why: String::new() },
        16 => Event::Noted { level: Some(level), note: Note::OnlyReported { failure: failure(rng, None) } },
        18 if rng.chance(5) => Event::Undone { commit: any_oid(rng) },
        _ if rng.chance(50) => Event::Cancelled { effect },
        _ => Event::EffectFailed { effect, error: String::new() },
    }
}

fn answer(rng: &mut Rng, run: &Run, id: EffectId, effect: &Effect) -> Event {
    if rng.chance(10) {
        return Event::Cancelled { effect: id };
    }
    match effect {
        Effect::CheckBase { .. } => Event::BaseChecked { effect: id, red: red(rng) },
        Effect::PrepareSlot { worker } => Event::SlotReady { effect: id, worker: *worker },
        Effect::RunJob(job) => {
            Event::JobEnded { effect: id, task: job.task.clone(), attempt: job.attempt, report: report(rng) }
        }
        Effect::Stage { level, tasks, .. } => {
            Event::Staged { effect: id, level: *level, staging: any_oid(rng), commits: tasks.clone() }
        }
        Effect::Gate { level, .. } if rng.chance(30) => gate_failed(rng, run, id, *level),
        Effect::Gate { level, .. } => gates_passed(rng, id, *level),
        Effect::Blame { level, commits, .. } => {
            let task = rng.pick(commits).map(|of| of.task.clone());
            Event::Blamed { effect: id, level: *level, task, why: String::new() }
        }
        Effect::Land { level, .. } if rng.chance(30) => {
            Event::NotLanded { effect: id, level: *level, obstacle: obstacle(rng) }
        }
        Effect::Land { level, .. } => Event::Landed { effect: id, level: *level, commit: any_oid(rng) },
        Effect::Close => Event::Closed { effect: id },
        Effect::Cancel { .. } | Effect::Answer { .. } => unreachable!("never outstanding"),
    }
}

fn any_oid(rng: &mut Rng) -> Oid {
    oid(rng.one_of(["start", "a", "b", "c"]))
}

fn attempt(rng: &mut Rng) -> Attempt {
    Attempt(rng.between(0, 6) as u32)
}

fn level(rng: &mut Rng, run: &Run) -> Level {
    let levels = run.levels();
    if rng.chance(80) { levels[rng.index(levels.len())].level } else { Level(rng.between(0, 40) as u32) }
}

fn task(rng: &mut Rng, run: &Run) -> TaskId {
    let tasks = run.graph().tasks();
    let nobody = TaskId::new("nobody").expect("a good id");
    if rng.chance(90) { tasks[rng.index(tasks.len())].id.clone() } else { nobody }
}

fn intent(rng: &mut Rng, level: Level) -> Intent {
    let session = Intent::Session(rng.chance(50).then_some(level));
    rng.one_of([Intent::Complete, Intent::Complete, Intent::Level(level), Intent::Merge(level), session])
}

fn command(rng: &mut Rng, run: &Run) -> Command {
    match rng.between(0, 5) {
        0 => Command::Claim {
            tasks: vec![task(rng, run), task(rng, run)],
            session: rng.one_of(["one", "two"]).to_string(),
        },
        1 => {
            let held = run.held().map(|(job, _)| job).next().filter(|_| rng.chance(80));
            let effect = held.map_or_else(|| EffectId(rng.between(0, 99)), |job| job.effect);
            let task = held.filter(|_| rng.chance(80)).map_or_else(|| task(rng, run), |job| job.task.clone());
            let attempt = held.filter(|_| rng.chance(80)).map_or_else(|| attempt(rng), |job| job.attempt);
            Command::Finish { effect, task, attempt, report: Box::new(report(rng)) }
        }
        2 => Command::Adopt { task: task(rng, run) },
        _ => person::random_command(rng, run),
    }
}

fn graph(rng: &mut Rng, run: &Run) -> mahabharatha_core::spec::GraphFile {
    if rng.chance(10) { graphs::graph(rng, 60) } else { crate::replan::random_replan(rng, run).0 }
}

fn commits(rng: &mut Rng, run: &Run) -> Vec<TaskCommit> {
    (0..rng.between(0, 3)).map(|_| TaskCommit { task: task(rng, run), commit: any_oid(rng) }).collect()
}

fn failure(rng: &mut Rng, task: Option<TaskId>) -> GateFailure {
    let [gate, command, output] = ["lint", "lint", "lint"].map(str::to_string);
    GateFailure {
        gate,
        command,
        output,
        cause: None,
        denied: false,
        staging: any_oid(rng),
        task,
        clean: rng.chance(50),
    }
}

fn red(rng: &mut Rng) -> Vec<GateFailure> {
    if rng.chance(20) { vec![failure(rng, None)] } else { Vec::new() }
}

fn gates_passed(rng: &mut Rng, effect: EffectId, level: Level) -> Event {
    let candidate = Candidate { base: any_oid(rng), staging: any_oid(rng), tree: any_oid(rng) };
    let passed = vec![GatePass { command: "lint".to_string(), tree: any_oid(rng), task: None, clean: rng.chance(50) }];
    Event::GatesPassed { effect, level, candidate, passed }
}

fn gate_failed(rng: &mut Rng, run: &Run, effect: EffectId, level: Level) -> Event {
    let task = rng.chance(40).then(|| task(rng, run));
    Event::GateFailed { effect, level, failure: failure(rng, task), passed: Vec::new() }
}

fn obstacle(rng: &mut Rng) -> Obstacle {
    let text = || "x".to_string();
    match rng.between(0, 7) {
        0 => Obstacle::BaseMoved,
        1 => Obstacle::BaseRewritten { was: any_oid(rng), now: None },
        2 => Obstacle::Conflict { files: vec![text()], worktree: text() },
        3 => {
            let (was, now) = (any_oid(rng), any_oid(rng));
            Obstacle::CheckoutLeftBehind { branch: text(), worktree: text(), was, now }
        }
        4 => Obstacle::WorkLost { tasks: vec![TaskId::new("T-01").expect("a good id")] },
        5 => Obstacle::StagingLost,
        6 => Obstacle::Forged { objects: vec![text()] },
        _ => Obstacle::CheckoutInTheWay { files: vec![text()], worktree: text(), why: text() },
    }
}

fn report(rng: &mut Rng) -> JobReport {
    let text = "why".to_string();
    let end = match rng.between(0, 11) {
        0..=3 => JobEnd::Done { commit: any_oid(rng) },
        4 => JobEnd::Failed { cause: FailCause::Agent, feedback: text, strays: Vec::new() },
        5 => JobEnd::Checkpoint { note: text },
        6 => JobEnd::Blocked { reason: text },
        7 => JobEnd::Cancelled,
        10 => JobEnd::SetupFailed { failure: SetupFailure::Other { why: text } },
        8 => JobEnd::Unserved { why: text, until: rng.chance(50).then(|| Time(rng.between(0, 90_000) as i64)) },
        _ => JobEnd::Died { started: rng.chance(50) },
    };
    let cost_usd = rng.one_of([Some(0.0), Some(0.5), Some(-1.0), Some(f64::INFINITY), None]);
    let tokens = rng.one_of([0, 7, u64::MAX]);
    JobReport { cost_usd, tokens, ..JobReport::new(end, rng.between(0, 5_000)) }
}
