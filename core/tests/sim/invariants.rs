//! Invariants of every effect, every state and every end.

use std::collections::BTreeSet;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Level, TaskId, WorkerId};
use mahabharatha_core::run::effect::{Answer, Job, Performer, Purpose};
use mahabharatha_core::run::event::{Candidate, CleanGates, Command, Intent, Obstacle, TaskCommit};
use mahabharatha_core::run::{Effect, EffectId, End, LevelStatus, Phase, Run, TaskStatus, WorkerStatus};
use mahabharatha_core::view::{Decision, RunView};

use crate::model::Model;
use crate::model::parts::{BreakerModel, Standing, TaskModel};

/// Checks that this effect may be begun now.
pub fn check_effect(model: &Model, run: &Run, id: EffectId, effect: &Effect) {
    assert!(!model.outstanding.contains_key(&id), "{id:?} is given twice");
    let working = matches!(run.phase(), Phase::Working);
    let is_asked_for = match effect {
        Effect::RunJob(job) => !job.performer.is_agent(),
        Effect::Cancel { .. } | Effect::Answer { .. } | Effect::Close => true,
        _ => false,
    };
    assert!(is_asked_for || !model.paused, "{effect:?} of a paused run");
    match effect {
        Effect::Cancel { .. } | Effect::Answer { .. } => {}
        Effect::CheckBase { base } => {
            assert!(matches!(run.phase(), Phase::CheckingBase) && !model.base_is_good, "a needless check of the base");
            assert_eq!(*base, model.start, "another commit than the start is checked");
        }
        Effect::PrepareSlot { worker } => {
            assert!(working, "a slot is prepared though nothing may be launched");
            check_worker(model, *worker);
            assert!(worker.0 < model.policy.workers, "worker {worker} does not exist");
        }
        Effect::RunJob(job) => {
            let may = match job.performer {
                Performer::Session(_) => !matches!(run.phase(), Phase::CheckingBase | Phase::Draining { .. }),
                _ => working,
            };
            assert!(may, "{} is launched in {:?}", job.task, run.phase());
            check_launch(model, job);
        }
        Effect::Close => {
            assert_eq!(model.current(), None, "closed before every level is merged");
            assert!(model.is_settled(), "closed while something is under way");
        }
        Effect::Stage { .. } | Effect::Gate { .. } | Effect::Blame { .. } | Effect::Land { .. } => {
            assert!(working, "{effect:?} in {:?}", run.phase());
            check_integration(model, effect);
        }
    }
}

fn check_worker(model: &Model, worker: WorkerId) {
    assert!(!model.stopped.contains(&worker.0), "worker {worker} was taken out of service");
    for effect in model.outstanding.values() {
        let busy = match effect {
            Effect::RunJob(job) => job.worker == worker,
            Effect::PrepareSlot { worker: of } => *of == worker,
            _ => false,
        };
        assert!(!busy, "worker {worker} is given a second thing to do beside {effect:?}");
    }
}

fn check_launch(model: &Model, job: &Job) {
    let task = &job.task;
    let entry = model.tasks.get(task).unwrap_or_else(|| panic!("{task} is not in the graph"));
    check_worker(model, job.worker);
    assert!(model.job_of(task).is_none(), "{task} is on two workers");
    model.check_alone(task);
    assert_eq!(job.attempt.0, entry.last_attempt + 1, "the attempts at {task} are not counted one by one");
    let policy = &model.policy;
    assert!(model.base_is_good || !policy.has_gates || model.levels[0].merged.is_some(), "the base was not checked");
    let notes = model.notes.iter().filter(|(to, _)| to == task).map(|(_, text)| text);
    assert!(job.notes.iter().map(|note| &note.text).eq(notes), "{task} is not given the notes to it");
    if job.performer.is_agent() {
        check_agent(model, job);
    }
    let current = model.current().expect("work is only left where a level is");
    match &job.purpose {
        Purpose::Build => check_build(model, job, current),
        Purpose::Fix { failure } => {
            let level = model.level(current);
            assert_eq!(Some(failure), level.failure.as_ref(), "a fix for another failure than the last");
            assert_eq!(Some(&job.base), level.staging.as_ref(), "a fix on top of something else than staging");
            assert_eq!(Some(task), level.blamed.as_ref(), "a fix by a task that is not to blame");
            assert_eq!(job.carry, level.fix_carry, "a fix is not given what the last one left");
            assert!(level.fix_attempts < policy.remediation_attempts, "more fixes than allowed");
        }
    }
}

/// Checks that an agent may be launched now.
fn check_agent(model: &Model, job: &Job) {
    let policy = &model.policy;
    assert!(job.worker.0 < policy.workers, "worker {} does not exist", job.worker);
    assert!(model.slots.contains(&job.worker.0), "worker {} has no worktree yet", job.worker);
    assert!(matches!(model.intent, Intent::Complete | Intent::Level(_)), "a launch where none was asked for");
    let running = model.jobs().filter(|(_, job)| job.performer.is_agent()).count();
    assert!(running < policy.workers as usize, "more jobs than workers");
    assert!(policy.max_usd.is_none_or(|limit| model.known_usd() < limit), "a launch over the budget");
    assert!(!model.is_over_budget(&job.task), "a launch over the budget of {}", job.task);
    if let BreakerModel::Open { until, probe } = &model.breaker {
        assert!(model.now >= *until, "a launch while the breaker is open until {until}");
        assert_eq!(*probe, None, "a second launch while the breaker is half open");
    }
    let failed_fixes = match job.purpose {
        Purpose::Build => 0,
        Purpose::Fix { .. } => model.current().map_or(0, |level| model.level(level).fix_attempts),
    };
    let (agent, due) = (job.performer.agent(), model.agent_for(&job.task, failed_fixes));
    assert!(due.is_some(), "a launch though the services asked to wait: {:?}", model.limits);
    assert_eq!(agent, due, "{} is given to another agent than the one whose turn it is", job.task);
    assert!(!model.setup_failed, "a launch though a worktree could not be set up");
    assert!(!model.is_exhausted(), "a launch though the service was tried often enough");
}

fn check_build(model: &Model, job: &Job, current: Level) {
    let (task, entry) = (&job.task, &model.tasks[&job.task]);
    assert!(model.may_start(task), "{task} is launched though level {current} or what it needs is not there");
    let above_goal = matches!(model.intent, Intent::Level(goal) if goal.0 < entry.spec.level);
    assert!(!above_goal || !job.performer.is_agent(), "{task} is above the level that was asked for");
    let said_done = matches!(job.performer, Performer::Reported { .. }) && entry.standing == Standing::Blocked;
    let open = said_done || entry.standing == Standing::Open;
    assert!(open, "{task} is launched though it is {:?}", entry.standing);
    assert!(!entry.spec.foreground || !job.performer.is_agent(), "{task} needs a person");
    assert_eq!(job.base, model.base_of(current), "{task} does not start from what the last merged level became");
    let on = if entry.spec.level == current.0 { Vec::new() } else { unmerged_work(model, task) };
    assert_eq!(job.on, on, "{task} does not start from what it depends on");
    assert_eq!(job.carry, entry.carry, "{task} is not given what its last attempt left");
    let rested = !job.performer.is_agent() || entry.rests_until.is_none_or(|until| until <= model.now);
    assert!(rested, "{task} is launched before its pause is over");
    for dependency in model.all_dependencies(task) {
        let needed = &model.tasks[dependency];
        let there = match &needed.standing {
            Standing::Skipped => true,
            Standing::Done(commit) => {
                let is_merged = model.level(Level(needed.spec.level)).merged.is_some();
                is_merged || job.on.iter().any(|of| of.task == *dependency && of.commit == *commit)
            }
            _ => false,
        };
        assert!(there, "{task} is launched without the work of {dependency}");
    }
}

/// Returns the work of everything that the task depends on and that is not merged.
fn unmerged_work(model: &Model, task: &TaskId) -> Vec<TaskCommit> {
    let needed = model.all_dependencies(task);
    let levels = model.levels.iter().filter(|entry| entry.merged.is_none());
    let commits = levels.flat_map(|entry| {
        let here = |of: &TaskCommit| model.tasks[&of.task].spec.level == entry.level.0;
        verified_commits(model, entry.level).into_iter().filter(here).collect::<Vec<_>>()
    });
    commits.filter(|of| needed.contains(&of.task)).collect()
}

/// Checks that no worker is idle while a task could be launched.
pub fn check_no_idle_worker(model: &Model, run: &Run) {
    let launches = matches!(model.intent, Intent::Complete | Intent::Level(_)) && !model.paused;
    let affordable = model.policy.max_usd.is_none_or(|limit| model.known_usd() < limit);
    let may = launches && affordable && matches!(model.breaker, BreakerModel::Closed { .. });
    let begun = !matches!(run.current_level().map(|level| &level.status), None | Some(LevelStatus::Pending));
    if !may || !begun || !matches!(run.phase(), Phase::Working) || run.ended().is_some() {
        return;
    }
    let agents = model.jobs().filter(|(_, job)| job.performer.is_agent()).count();
    let mut workers = run.workers().iter().take(model.policy.workers as usize);
    if agents >= model.policy.workers as usize || !workers.any(|worker| matches!(worker, WorkerStatus::Idle)) {
        return;
    }
    for (task, entry) in &model.tasks {
        let within_goal = !matches!(model.intent, Intent::Level(goal) if goal.0 < entry.spec.level);
        let rested = entry.rests_until.is_none_or(|until| until <= model.now);
        let free = entry.standing == Standing::Open && !entry.spec.foreground && model.job_of(task).is_none();
        let served = model.agent_for(task, 0).is_some();
        assert!(
            !(free && rested && served && within_goal && model.may_start(task)),
            "{task} waits beside an idle worker"
        );
    }
}

fn check_integration(model: &Model, effect: &Effect) {
    let current = model.current().expect("only a level that is not merged is integrated");
    let entry = model.level(current);
    let is_integration =
        |effect: &Effect| !matches!(effect, Effect::RunJob(_) | Effect::PrepareSlot { .. } | Effect::CheckBase { .. });
    assert!(!model.outstanding.values().any(is_integration), "two things are done to staging at once");
    assert!(model.levels.iter().take_while(|entry| entry.level < current).all(|entry| entry.merged.is_some()));
    for (task, entry) in model.of_level(current) {
        let settled = matches!(entry.standing, Standing::Done(_) | Standing::Skipped);
        assert!(settled, "{effect:?} though {task} is {:?}", entry.standing);
        assert!(model.job_of(task).is_none(), "{effect:?} while {task} is on a worker");
    }
    match effect {
        Effect::Stage { level, base, tasks } => {
            assert_eq!((*level, base), (current, &model.base_of(current)), "staged on something else");
            assert_eq!(*tasks, verified_commits(model, current), "not what the tasks' latest verified commits are");
        }
        Effect::Gate { level, base, staging, passed, verify, clean, ignore } => {
            assert_eq!((*level, base), (current, &model.base_of(current)), "gated against something else");
            assert!(entry.staged.is_some(), "gated before it was staged");
            assert_eq!(Some(staging), entry.staging.as_ref(), "something else than staging is gated");
            let is_due = |task: &&TaskId| match model.is_last(current) {
                true => matches!(model.tasks[*task].standing, Standing::Done(_)),
                false => model.tasks[*task].spec.level == current.0 && model.is_early(task),
            };
            assert!(verify.iter().eq(model.order.iter().filter(is_due)), "not what must be verified on what lands");
            assert_eq!(*ignore, model.red, "other gates are ignored than were red on the base");
            let is_clean = match model.policy.clean_gates {
                CleanGates::Last => model.is_last(current),
                CleanGates::Every => true,
                CleanGates::Never => false,
            };
            assert_eq!(*clean, is_clean, "not gated in a clean checkout where it should be, or needlessly");
            let counts = model.passes.iter().filter(|pass| pass.clean || !is_clean);
            assert!(passed.iter().eq(counts), "other gates are said to have passed than did");
        }
        Effect::Blame { level, base, failure, commits } => {
            assert_eq!((*level, base), (current, &model.base_of(current)), "blamed against something else");
            assert_eq!(Some(failure), entry.failure.as_ref(), "blame for another failure than the last");
            assert_eq!(Some(commits), entry.staged.as_ref(), "blame among other commits than were staged");
        }
        Effect::Land { level, candidate } => {
            assert_eq!(*level, current, "another level than the lowest lands");
            assert_eq!(Some(candidate), entry.candidate.as_ref(), "what lands is not what passed the gates");
            let approved = !model.policy.approval || entry.approved.as_ref() == Some(&candidate.tree);
            assert!(approved, "what lands was not approved");
        }
        _ => unreachable!("only what is done to staging comes here"),
    }
}

/// Returns every task's commit followed by its fixes, then the fixes by tasks of other levels.
pub fn verified_commits(model: &Model, level: Level) -> Vec<TaskCommit> {
    let fixes = &model.level(level).fixes;
    let mut commits = Vec::new();
    for (task, entry) in model.of_level(level) {
        if let Standing::Done(commit) = &entry.standing {
            commits.push(TaskCommit { task: task.clone(), commit: commit.clone() });
            commits.extend(fixes.iter().filter(|fix| fix.task == *task).cloned());
        }
    }
    commits.extend(fixes.iter().filter(|fix| model.tasks[&fix.task].spec.level != level.0).cloned());
    commits
}

/// Checks that a command was rightly accepted for this task.
pub fn check_granted(model: &Model, command: &Command, task: &TaskId) {
    let entry = model.tasks.get(task).unwrap_or_else(|| panic!("{task} is granted but not in the graph"));
    let level = model.level(Level(entry.spec.level));
    assert!(level.merged.is_none(), "{command:?} of {task} though it is merged");
    assert!(model.job_of(task).is_none(), "{command:?} of {task} though it is on a worker");
    let integrating = |effect: &Effect| {
        matches!(effect, Effect::Stage { .. } | Effect::Gate { .. } | Effect::Blame { .. } | Effect::Land { .. })
    };
    let touched = model.current() == Some(level.level) && model.outstanding.values().any(integrating);
    assert!(!touched, "{command:?} of {task} though its level is being merged");
}

/// Checks that a command was rightly refused for this task.
pub fn check_refused(model: &Model, command: &Command, task: &TaskId) {
    if !matches!(command, Command::Retry { .. } | Command::Skip { .. }) {
        return;
    }
    let Some(entry) = model.tasks.get(task) else { return };
    let unmerged = model.level(Level(entry.spec.level)).merged.is_none();
    let poor = matches!(command, Command::Retry { .. }) && model.is_over_budget(task);
    let with_dependents = matches!(command, Command::Skip { keep_dependents: false, .. });
    if with_dependents && model.jobs().any(|(_, job)| model.needs(&job.task, task)) {
        return;
    }
    let plain = unmerged && entry.standing == Standing::Blocked && model.job_of(task).is_none() && !poor;
    assert!(!plain, "{command:?} of {task} is refused though it is only blocked");
}

/// Checks that a skip included exactly the dependents that it must.
pub fn check_skipped(model: &Model, command: &Command, answer: &Answer) {
    let Command::Skip { tasks, keep_dependents, .. } = command else { return };
    let is_skipped = |task: &TaskId| {
        answer.accepted.contains(task) || model.tasks.get(task).is_some_and(|entry| entry.standing == Standing::Skipped)
    };
    for (task, entry) in &model.tasks {
        let needs_skipped = entry.dependencies.iter().any(is_skipped);
        let needs_accepted = entry.dependencies.iter().any(|dependency| answer.accepted.contains(dependency));
        if answer.accepted.contains(task) && !tasks.contains(task) {
            assert!(!keep_dependents && needs_skipped, "{task} is skipped, but nothing that it needs");
        }
        if needs_accepted && !keep_dependents {
            assert!(is_skipped(task), "{task} is not skipped, but something that it needs");
        }
    }
}

/// Checks that the run's state agrees with the model.
pub fn check_state(model: &Model, run: &Run) {
    assert!(run.outstanding().eq(model.outstanding.iter().map(|(id, effect)| (*id, effect))), "{}", {
        let ours: Vec<_> = run.outstanding().collect();
        format!("outstanding is {ours:?}, should be {:?}", model.outstanding)
    });
    assert_eq!(run.cost().known_usd(), model.known_usd(), "the money is not counted right");
    let is_known = !model.has_unpriced && model.planning.usd().is_some();
    assert_eq!(run.cost().usd().is_some(), is_known, "an unknown cost passes for a known one");
    let tokens = model.tokens + model.planning.tokens();
    assert_eq!(run.cost().tokens(), tokens, "the tokens are not counted right");
    let building: BTreeSet<&TaskId> =
        model.jobs().filter(|(_, job)| job.purpose == Purpose::Build).map(|(_, job)| &job.task).collect();
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        let entry = &model.tasks[&task.id];
        let agrees = match &state.status {
            TaskStatus::Completed { commit, .. } => entry.standing == Standing::Done(commit.clone()),
            TaskStatus::Blocked { .. } => entry.standing == Standing::Blocked,
            TaskStatus::Skipped { .. } => entry.standing == Standing::Skipped,
            TaskStatus::InProgress { .. } => building.contains(&task.id),
            TaskStatus::Waiting => entry.spec.foreground && entry.standing == Standing::Open,
            TaskStatus::Pending => entry.standing == Standing::Open,
            TaskStatus::Resting { until } => entry.standing == Standing::Open && entry.rests_until == Some(*until),
        };
        assert!(agrees, "{} is {:?}, should be {entry:?}", task.id, state.status);
        let on_worker = matches!(state.status, TaskStatus::InProgress { .. });
        assert_eq!(on_worker, building.contains(&task.id), "{} is {:?}", task.id, state.status);
        let counted = (state.failures, state.checkpoints, state.false_starts);
        let due = (entry.failures, entry.checkpoints, entry.false_starts);
        assert_eq!(counted, due, "the failures, checkpoints and false starts of {} are miscounted", task.id);
    }
    check_levels(model, run);
    check_workers(model, run);
    assert_eq!(run.is_paused(), model.paused, "paused or not");
    assert_eq!(run.policy().workers, model.policy.workers, "another number of workers");
    if run.ended().is_some() {
        assert!(model.is_settled(), "ended while something is under way");
    }
}

fn check_levels(model: &Model, run: &Run) {
    assert_eq!(run.levels().len(), model.levels.len());
    for (state, entry) in run.levels().iter().zip(&model.levels) {
        let merged = match &state.status {
            LevelStatus::Merged { commit, .. } => Some(commit),
            _ => None,
        };
        assert_eq!(
            (state.level, merged),
            (entry.level, entry.merged.as_ref()),
            "a level is merged that is not, or not so"
        );
        let open = run.tasks()[state.tasks.clone()].iter().filter(|task| task.is_open()).count();
        assert_eq!(state.open, open, "the open tasks of level {} are miscounted", state.level);
        if model.current() == Some(entry.level) {
            assert_eq!(state.fix_attempts, entry.fix_attempts, "the fixes of level {} are miscounted", state.level);
        }
    }
}

fn check_workers(model: &Model, run: &Run) {
    for (index, worker) in run.workers().iter().enumerate() {
        let job = model.jobs().map(|(_, job)| job).find(|job| job.worker.0 as usize == index);
        match (worker, job) {
            (WorkerStatus::Running { task, attempt, .. }, Some(job)) => {
                assert_eq!((task, *attempt), (&job.task, job.attempt), "worker {index} runs another job");
            }
            (WorkerStatus::Stopped, _) | (_, None) if !matches!(worker, WorkerStatus::Running { .. }) => {}
            _ => panic!("worker {index} is {worker:?}, its job is {job:?}"),
        }
    }
    let seated = model.jobs().all(|(_, job)| (job.worker.0 as usize) < run.workers().len());
    assert!(seated, "a job runs on a worker that the run does not know");
}

/// Checks that a run may end in this way.
pub fn check_end(model: &Model, run: &Run, end: &End) {
    let current = model.current();
    let status = run.current_level().map(|level| &level.status);
    // A retry or skip sets a failed level back to running, even while the run is draining.
    let due = run.intent().is_session() && matches!(status, Some(LevelStatus::Fixing { job: None, .. }));
    let failed = due || matches!(status, Some(LevelStatus::Failed { .. } | LevelStatus::Running));
    let honest = match end {
        End::Completed => {
            let last = model.levels.last().expect("a graph has levels");
            assert!(last.verified, "completed, but never was every task verified on what landed last");
            current.is_none()
                && model.tasks.values().all(|entry| matches!(entry.standing, Standing::Done(_) | Standing::Skipped))
        }
        End::LevelMerged { level } => {
            let asked = matches!(model.intent,
                Intent::Level(goal) | Intent::Merge(goal) | Intent::Session(Some(goal)) if goal == *level);
            asked && current.is_none_or(|current| current > *level)
        }
        End::Blocked => current.is_some_and(|current| {
            let stuck = |entry: &TaskModel| {
                entry.standing == Standing::Blocked || entry.standing == Standing::Open && entry.spec.foreground
            };
            let mut open = model
                .of_level(current)
                .filter(|(_, entry)| matches!(entry.standing, Standing::Open | Standing::Blocked))
                .peekable();
            open.peek().is_some() && open.all(|(_, entry)| stuck(entry))
        }),
        End::RedBase { gates } => !gates.is_empty() && *gates == model.red && !model.base_is_good,
        End::SetupFailed { .. } => model.setup_failed,
        End::GateFailed { level, .. } => failed && current == Some(*level) && model.gate_failed,
        End::Conflict { .. } => failed && matches!(model.obstacle, Some(Obstacle::Conflict { .. })),
        End::Paused { .. } => {
            let poor = model.policy.max_usd.is_some_and(|limit| model.known_usd() >= limit);
            let unfinished = matches!(model.intent, Intent::Merge(_) | Intent::Session(Some(_)));
            let hindered = failed && !matches!(model.obstacle, None | Some(Obstacle::Conflict { .. }));
            let awaits = model.policy.approval && matches!(status, Some(LevelStatus::AwaitingApproval { .. }));
            awaits || poor || unfinished || hindered || model.is_exhausted() || model.out_of_space
        }
        End::Stopped => model.stop_asked || (0..model.policy.workers).all(|worker| model.stopped.contains(&worker)),
        End::Failed { .. } => model.effect_failed,
        End::Undone => false,
    };
    assert!(honest, "the run says {end:?}, but its level is {status:?}, its tasks are {:?}", run.tasks());
}

/// Checks that the view is consistent and agrees with the run.
pub fn check_view(run: &Run) {
    let view = RunView::of(run);
    assert_eq!(view.tasks.len(), view.levels.iter().map(|level| level.total).sum::<usize>());
    let with = |status: &str| view.tasks.iter().filter(|task| task.status == status).count();
    assert_eq!(with("completed"), view.levels.iter().map(|level| level.completed).sum::<usize>());
    assert_eq!(with("blocked"), view.levels.iter().map(|level| level.blocked).sum::<usize>());
    assert_eq!(with("skipped"), view.levels.iter().map(|level| level.skipped).sum::<usize>());
    assert_eq!(view.tasks.iter().filter(|task| task.commit.is_some()).count(), with("completed"));
    let cost: Cost = view.tasks.iter().map(|task| task.cost).sum();
    let whole = cost + view.planning;
    assert!(whole.known_usd() <= view.cost.known_usd() + 1e-6, "the tasks cost more than the run");
    assert!(whole.usd().is_some() || view.cost.usd().is_none(), "a task's cost is unknown, and that of the run is not");
    let by_level: Cost = view.levels.iter().map(|level| level.cost).sum();
    assert!(
        (cost.known_usd() - by_level.known_usd()).abs() < 1e-6,
        "the levels cost {by_level:?}, their tasks {cost:?}"
    );
    assert_eq!((cost.usd().is_some(), cost.tokens()), (by_level.usd().is_some(), by_level.tokens()), "by level");
    assert!(whole.tokens() <= view.cost.tokens(), "the tasks took more tokens than the run");
    let of_user = run.notes().iter().filter(|note| note.from.is_none()).count();
    let (of_the_user, of_agents) = view.decisions.split_at(of_user);
    let noted = |decision: &Decision| decision.text.starts_with("the user says: do it like this");
    assert!(of_the_user.iter().all(noted), "{of_the_user:?} is not what the user noted");
    for decision in of_agents {
        let task = view.tasks.iter().find(|task| task.id == decision.task);
        assert!(task.is_some_and(|task| task.status == "completed"), "{decision:?} is of nothing that is done");
        assert!(decision.text.starts_with(&format!("as {} saw it", decision.task)), "{decision:?} is somebody else's");
    }
    let running = view.tasks.iter().flat_map(|task| &task.attempts).filter(|attempt| attempt.outcome == "running");
    let jobs = run.outstanding().filter(|(_, effect)| match effect {
        Effect::RunJob(job) => run.task(&job.task).is_some(),
        _ => false,
    });
    assert_eq!(running.count(), jobs.count(), "attempts are shown as running that are not");
    assert_eq!(view.status == "completed", run.ended() == Some(&End::Completed));
    assert_eq!(view.status == "running", run.ended().is_none() && !run.is_paused());
}

/// Checks that the candidate holds exactly the level's verified work.
pub fn check_content(model: &Model, level: Level, candidate: &Candidate, content: &[TaskCommit]) {
    let sorted = |mut commits: Vec<TaskCommit>| {
        commits.sort_by(|a, b| (&a.task, &a.commit).cmp(&(&b.task, &b.commit)));
        commits
    };
    let verified = sorted(verified_commits(model, level));
    assert_eq!(sorted(content.to_vec()), verified, "{candidate:?} of level {level} holds something else");
}
