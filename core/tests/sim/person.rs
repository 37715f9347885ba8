//! Simulated users: send random commands during a run, and help where it cannot go on.

use mahabharatha_core::ids::{TaskId, WorkerId};
use mahabharatha_core::run::event::{Command, Intent, Obstacle, Policy, TaskBudget};
use mahabharatha_core::run::{End, LevelFailure, LevelStatus, Phase, Run, TaskStatus};
use mahabharatha_core::view::Next;

use crate::graphs;
use crate::ownership;
use crate::rng::{Rng, oid};
use crate::world::World;

pub fn random_command(rng: &mut Rng, run: &Run) -> Command {
    let grace_ms = rng.one_of([0, 100, 10_000]);
    // Prefer to stop runs that have just begun or are about to end.
    let tempting = matches!(run.phase(), Phase::CheckingBase | Phase::Closing) && rng.chance(50);
    match rng.between(0, 16) {
        _ if tempting => Command::Stop { force: false, grace_ms, worker: None },
        0 => Command::Stop { force: rng.chance(30), grace_ms, worker: None },
        1 | 2 => {
            let worker = Some(WorkerId(rng.between(0, 8) as u32));
            Command::Stop { force: rng.chance(30), grace_ms, worker }
        }
        3 => Command::Retry { tasks: Vec::new(), budget: None, note: None },
        4..=6 => Command::Retry { tasks: some_tasks(rng, run), budget: None, note: note(rng) },
        7 | 8 => Command::Scale { workers: rng.between(1, 9) as u32 },
        9 => Command::Pause,
        10 => Command::Resume,
        11 => approve(rng, run),
        12 | 13 => {
            let tasks = run.graph().tasks();
            let task = tasks[rng.index(tasks.len())].id.clone();
            Command::Grant { task, paths: vec![ownership::path(rng)] }
        }
        _ => {
            let keep_dependents = rng.chance(50);
            Command::Skip { tasks: some_tasks(rng, run), reason: "not needed".to_string(), keep_dependents }
        }
    }
}

/// Draws a command of a session.
pub fn session_command(rng: &mut Rng, run: &Run) -> Command {
    if rng.chance(25) {
        let tasks = run.graph().tasks();
        return Command::Adopt { task: tasks[rng.index(tasks.len())].id.clone() };
    }
    // Mostly tasks that can be claimed.
    let mut tasks = if rng.chance(30) { some_tasks(rng, run) } else { Next::of(run).tasks };
    tasks.truncate(rng.between(1, 4) as usize);
    Command::Claim { tasks, session: rng.one_of(["one", "one", "two"]).to_string() }
}

/// Draws a note of the user, each another one.
fn note(rng: &mut Rng) -> Option<String> {
    rng.chance(30).then(|| format!("do it like this: {}", rng.between(0, u64::MAX / 2)))
}

/// Approves what waits for it, or something else.
fn approve(rng: &mut Rng, run: &Run) -> Command {
    let levels = run.levels();
    match run.awaiting_approval().filter(|_| rng.chance(70)) {
        Some((level, candidate)) => Command::Approve { level, tree: candidate.tree.clone() },
        None => Command::Approve { level: levels[rng.index(levels.len())].level, tree: oid("another tree") },
    }
}

fn some_tasks(rng: &mut Rng, run: &Run) -> Vec<TaskId> {
    let tasks = run.graph().tasks();
    let mut some: Vec<TaskId> = (0..rng.between(1, 3)).map(|_| tasks[rng.index(tasks.len())].id.clone()).collect();
    if rng.chance(20) {
        some.push(TaskId::new("no-such-task").expect("a good id"));
    }
    some
}

/// Removes obstacles of the run: all of them if `thorough`, else some.
pub fn help(world: &mut World, run: &Run, thorough: bool) -> Vec<Command> {
    if !thorough && world.rng.chance(20) {
        return Vec::new();
    }
    world.repo.put_right();
    world.end_outage();
    let mut commands = Vec::new();
    if matches!(run.ended(), Some(End::GateFailed { .. })) {
        if thorough || world.rng.chance(50) {
            world.repo.fix_everything();
        } else {
            world.repo.gate_broken = false;
            commands.push(random_command(&mut world.rng, run));
        }
    }
    let of_status = |is: fn(&TaskStatus) -> bool| -> Vec<TaskId> {
        let tasks = run.graph().tasks().iter().zip(run.tasks());
        tasks.filter(|(_, state)| is(&state.status)).map(|(task, _)| task.id.clone()).collect()
    };
    for task in of_status(|status| matches!(status, TaskStatus::Blocked { .. })) {
        commands.push(match world.rng.between(0, 3) {
            0 => skip(task, world.rng.chance(50)),
            1 if !thorough => Command::Grant { task, paths: vec![ownership::path(&mut world.rng)] },
            // The user removes the budget that blocks some tasks.
            _ => {
                let budget = (thorough || world.rng.chance(50)).then_some(TaskBudget { max_usd: None });
                Command::Retry { tasks: vec![task], budget, note: note(&mut world.rng) }
            }
        });
    }
    if let Some((level, candidate)) = run.awaiting_approval() {
        commands.push(Command::Approve { level, tree: candidate.tree.clone() });
    }
    let failed = run.current_level().map(|level| &level.status);
    if let Some(LevelStatus::Failed { failure: LevelFailure::Obstacle(Obstacle::WorkLost { tasks }) }) = failed {
        let budget = thorough.then_some(TaskBudget { max_usd: None });
        commands.push(Command::Retry { tasks: tasks.clone(), budget, note: None });
    }
    for task in of_status(|status| matches!(status, TaskStatus::Waiting)) {
        commands.push(match world.rng.chance(50) {
            true => skip(task, world.rng.chance(50)),
            false => Command::Claim { tasks: vec![task], session: "one".to_string() },
        });
    }
    commands
}

fn skip(task: TaskId, keep_dependents: bool) -> Command {
    Command::Skip { tasks: vec![task], reason: "a person does it".to_string(), keep_dependents }
}

/// Draws the policy and the intent of the next process.
pub fn resume(world: &mut World, run: &Run, thorough: bool) -> (Policy, Intent) {
    use crate::faults::Fault;
    let mut policy = run.policy().clone();
    if world.strikes(Fault::OtherPolicy) {
        policy = graphs::policy(&mut world.rng);
    }
    let short = policy.max_usd.is_some_and(|limit| run.cost().known_usd() >= limit);
    if thorough {
        policy.max_usd_per_task = None;
    }
    if short && (thorough || world.rng.chance(80)) {
        policy.max_usd = (!thorough).then(|| run.cost().known_usd() + world.rng.between(1, 10) as f64);
    }
    let mut intent = Intent::Complete;
    if world.strikes(Fault::OtherIntent) {
        let levels = run.levels();
        let level = levels[world.rng.index(levels.len())].level;
        intent = match world.rng.between(0, 4) {
            0 => Intent::Level(level),
            1 => Intent::Merge(level),
            // The session knows which level is next.
            2 => Intent::Session(run.current_level().filter(|level| level.open == 0).map(|level| level.level)),
            _ => Intent::Session(None),
        };
    }
    (policy, intent)
}
