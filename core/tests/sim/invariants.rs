//! What must hold of every effect, of every state, and of every end.

use std::collections::BTreeSet;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Level, TaskId, WorkerId};
use mahabharatha_core::run::effect::{Answer, Doer, Job, Purpose};
use mahabharatha_core::run::event::{Candidate, Command, Intent, Obstacle, TaskCommit};
use mahabharatha_core::run::{Effect, EffectId, End, LevelStatus, Phase, Run, TaskStatus, WorkerStatus};
use mahabharatha_core::view::RunView;

use crate::books::{Fuse, Standing, TaskBook};
use crate::ledger::Ledger;

/// Whether this effect may be begun now.
pub fn check_effect(ledger: &Ledger, run: &Run, id: EffectId, effect: &Effect) {
    assert!(!ledger.outstanding.contains_key(&id), "{id:?} is given twice");
    let working = matches!(run.phase(), Phase::Working);
    match effect {
        Effect::Interrupt { .. } | Effect::Answer { .. } => {}
        Effect::CheckBase { base } => {
            assert!(matches!(run.phase(), Phase::CheckingBase) && !ledger.base_is_good, "a needless check of the base");
            assert_eq!(*base, ledger.start, "another commit than the start is checked");
        }
        Effect::PrepareSlot { worker } => {
            assert!(working, "a slot is prepared though nothing may be launched");
            check_worker(ledger, *worker);
            assert!(worker.0 < ledger.policy.workers, "worker {worker} does not exist");
        }
        Effect::RunJob(job) => {
            let may = match job.doer {
                Doer::Session(_) => !matches!(run.phase(), Phase::CheckingBase | Phase::Draining { .. }),
                _ => working,
            };
            assert!(may, "{} is launched in {:?}", job.task, run.phase());
            check_launch(ledger, job);
        }
        Effect::Close => {
            assert_eq!(ledger.current(), None, "closed before every level is merged");
            assert!(ledger.is_settled(), "closed while something is under way");
        }
        Effect::Stage { .. } | Effect::Gate { .. } | Effect::Blame { .. } | Effect::Land { .. } => {
            assert!(working, "{effect:?} in {:?}", run.phase());
            check_integration(ledger, effect);
        }
    }
}

fn check_worker(ledger: &Ledger, worker: WorkerId) {
    assert!(!ledger.stopped.contains(&worker.0), "worker {worker} was taken out of service");
    for effect in ledger.outstanding.values() {
        let busy = match effect {
            Effect::RunJob(job) => job.worker == worker,
            Effect::PrepareSlot { worker: of } => *of == worker,
            _ => false,
        };
        assert!(!busy, "worker {worker} is given a second thing to do beside {effect:?}");
    }
}

fn check_launch(ledger: &Ledger, job: &Job) {
    let task = &job.task;
    let book = ledger.tasks.get(task).unwrap_or_else(|| panic!("{task} is not in the graph"));
    check_worker(ledger, job.worker);
    assert!(ledger.job_of(task).is_none(), "{task} is on two workers");
    assert_eq!(job.attempt.0, book.last_attempt + 1, "the attempts at {task} are not counted one by one");
    let policy = &ledger.policy;
    assert!(ledger.base_is_good || !policy.has_gates || ledger.levels[0].merged.is_some(), "the base was not checked");
    if job.doer.is_agent() {
        check_agent(ledger, job);
    }
    let current = ledger.current().expect("work is only left where a level is");
    match &job.purpose {
        Purpose::Build => check_build(ledger, job, current),
        Purpose::Remedy { failure } => {
            let level = ledger.level(current);
            assert_eq!(Some(failure), level.failure.as_ref(), "a remedy for another failure than the last");
            assert_eq!(Some(&job.base), level.staging.as_ref(), "a remedy on top of something else than staging");
            assert_eq!(Some(task), level.blamed.as_ref(), "a remedy by a task that is not to blame");
            assert_eq!(job.carry, level.remedy_carry, "a remedy is not given what the last one left");
            assert!(level.remedies < policy.remediation_attempts, "more remedies than allowed");
        }
    }
}

/// Whether an agent may be launched.
fn check_agent(ledger: &Ledger, job: &Job) {
    let policy = &ledger.policy;
    assert!(job.worker.0 < policy.workers, "worker {} does not exist", job.worker);
    assert!(ledger.slots.contains(&job.worker.0), "worker {} has no worktree yet", job.worker);
    assert!(matches!(ledger.intent, Intent::Complete | Intent::Level(_)), "a launch where none was asked for");
    let own = ledger.jobs().filter(|(id, job)| job.doer.is_agent() && !ledger.adopted.contains(id)).count();
    assert!(own < policy.workers as usize, "more jobs than workers");
    assert!(policy.max_usd.is_none_or(|limit| ledger.known_usd() < limit), "a launch over the budget");
    assert!(!ledger.is_over_budget(&job.task), "a launch over the budget of {}", job.task);
    if let Fuse::Open { until, probe } = &ledger.fuse {
        assert!(ledger.now >= *until, "a launch while the breaker is open until {until}");
        assert_eq!(*probe, None, "a second launch while the breaker is half open");
    }
    let served = ledger.outages.until.is_none_or(|until| ledger.now >= until);
    assert!(served, "a launch though the service asked to wait until {:?}", ledger.outages.until);
    assert!(!ledger.outages.given_up, "a launch though the service was tried often enough");
}

fn check_build(ledger: &Ledger, job: &Job, current: Level) {
    let (task, book) = (&job.task, &ledger.tasks[&job.task]);
    assert_eq!(book.spec.level, current.0, "{task} is launched though level {current} is not merged");
    let said_done = matches!(job.doer, Doer::Nobody { .. }) && book.standing == Standing::Blocked;
    let open = said_done || book.standing == Standing::Open;
    assert!(open, "{task} is launched though it is {:?}", book.standing);
    assert!(!book.spec.foreground || !job.doer.is_agent(), "{task} needs a person");
    assert_eq!(job.base, ledger.base_of(current), "{task} does not start from what the level below became");
    assert_eq!(job.carry, book.carry, "{task} is not given what its last attempt left");
    let rested = !job.doer.is_agent() || book.rests_until.is_none_or(|until| until <= ledger.now);
    assert!(rested, "{task} is launched before its pause is over");
    for dependency in &book.dependencies {
        let needed = &ledger.tasks[dependency];
        let there = matches!(needed.standing, Standing::Done(_) | Standing::Skipped);
        let merged = ledger.level(Level(needed.spec.level)).merged.is_some();
        assert!(there && merged, "{task} is launched before {dependency} is merged");
    }
}

fn check_integration(ledger: &Ledger, effect: &Effect) {
    let current = ledger.current().expect("only a level that is not merged is integrated");
    let book = ledger.level(current);
    let is_integration =
        |effect: &Effect| !matches!(effect, Effect::RunJob(_) | Effect::PrepareSlot { .. } | Effect::CheckBase { .. });
    assert!(!ledger.outstanding.values().any(is_integration), "two things are done to staging at once");
    for (task, book) in ledger.of_level(current) {
        let settled = matches!(book.standing, Standing::Done(_) | Standing::Skipped);
        assert!(settled, "{effect:?} though {task} is {:?}", book.standing);
        assert!(ledger.job_of(task).is_none(), "{effect:?} while {task} is on a worker");
    }
    match effect {
        Effect::Stage { level, base, tasks } => {
            assert_eq!((*level, base), (current, &ledger.base_of(current)), "staged on something else");
            assert_eq!(*tasks, verified_commits(ledger, current), "not what the tasks' latest verified commits are");
        }
        Effect::Gate { level, base, staging, passed, verify_all, ignore } => {
            assert_eq!((*level, base), (current, &ledger.base_of(current)), "gated against something else");
            assert!(book.staged.is_some(), "gated before it was staged");
            assert_eq!(Some(staging), book.staging.as_ref(), "something else than staging is gated");
            assert_eq!(*verify_all, ledger.is_last(current), "all is verified at the last level, and only there");
            assert_eq!(*ignore, ledger.red, "other gates are ignored than were red on the base");
            assert!(
                passed.iter().all(|pass| ledger.passes.contains(pass)),
                "a gate is said to have passed that did not"
            );
        }
        Effect::Blame { level, base, failure, commits } => {
            assert_eq!((*level, base), (current, &ledger.base_of(current)), "blamed against something else");
            assert_eq!(Some(failure), book.failure.as_ref(), "blame for another failure than the last");
            assert_eq!(Some(commits), book.staged.as_ref(), "blame among other commits than were staged");
        }
        Effect::Land { level, candidate } => {
            assert_eq!(*level, current, "another level than the lowest lands");
            assert_eq!(Some(candidate), book.candidate.as_ref(), "what lands is not what passed the gates");
        }
        _ => unreachable!("only what is done to staging comes here"),
    }
}

/// Every task's commit followed by its fixes, then the fixes by tasks of other levels.
pub fn verified_commits(ledger: &Ledger, level: Level) -> Vec<TaskCommit> {
    let fixes = &ledger.level(level).fixes;
    let mut commits = Vec::new();
    for (task, book) in ledger.of_level(level) {
        if let Standing::Done(commit) = &book.standing {
            commits.push(TaskCommit { task: task.clone(), commit: commit.clone() });
            commits.extend(fixes.iter().filter(|fix| fix.task == *task).cloned());
        }
    }
    commits.extend(fixes.iter().filter(|fix| ledger.tasks[&fix.task].spec.level != level.0).cloned());
    commits
}

/// Whether a person's wish was rightly granted.
pub fn check_granted(ledger: &Ledger, command: &Command, task: &TaskId) {
    let book = ledger.tasks.get(task).unwrap_or_else(|| panic!("{task} is granted but not in the graph"));
    let level = ledger.level(Level(book.spec.level));
    assert!(level.merged.is_none(), "{command:?} of {task} though it is merged");
    assert!(ledger.job_of(task).is_none(), "{command:?} of {task} though it is on a worker");
    let integrating = |effect: &Effect| {
        matches!(effect, Effect::Stage { .. } | Effect::Gate { .. } | Effect::Blame { .. } | Effect::Land { .. })
    };
    let touched = ledger.current() == Some(level.level) && ledger.outstanding.values().any(integrating);
    assert!(!touched, "{command:?} of {task} though its level is being merged");
}

/// Whether a person's wish was rightly refused.
pub fn check_refused(ledger: &Ledger, command: &Command, task: &TaskId) {
    if !matches!(command, Command::Retry { .. } | Command::Skip { .. }) {
        return;
    }
    let Some(book) = ledger.tasks.get(task) else { return };
    let unmerged = ledger.level(Level(book.spec.level)).merged.is_none();
    let poor = matches!(command, Command::Retry { .. }) && ledger.is_over_budget(task);
    let plain = unmerged && book.standing == Standing::Blocked && ledger.job_of(task).is_none() && !poor;
    assert!(!plain, "{command:?} of {task} is refused though it is only blocked");
}

/// Whether a skip took the dependents along that it must, and no others.
pub fn check_skipped(ledger: &Ledger, command: &Command, answer: &Answer) {
    let Command::Skip { tasks, keep_dependents, .. } = command else { return };
    let is_skipped = |task: &TaskId| {
        answer.accepted.contains(task) || ledger.tasks.get(task).is_some_and(|book| book.standing == Standing::Skipped)
    };
    for (task, book) in &ledger.tasks {
        let needs_skipped = book.dependencies.iter().any(is_skipped);
        let needs_accepted = book.dependencies.iter().any(|dependency| answer.accepted.contains(dependency));
        if answer.accepted.contains(task) && !tasks.contains(task) {
            assert!(!keep_dependents && needs_skipped, "{task} is skipped, but nothing that it needs");
        }
        if needs_accepted && !keep_dependents {
            assert!(is_skipped(task), "{task} is not skipped, but something that it needs");
        }
    }
}

/// Whether the run's state agrees with the books.
pub fn check_state(ledger: &Ledger, run: &Run) {
    assert!(run.outstanding().eq(ledger.outstanding.iter().map(|(id, effect)| (*id, effect))), "{}", {
        let ours: Vec<_> = run.outstanding().collect();
        format!("outstanding is {ours:?}, should be {:?}", ledger.outstanding)
    });
    assert_eq!(run.cost().known_usd(), ledger.known_usd(), "the money is not counted right");
    let is_known = !ledger.has_unpriced && ledger.planning.usd().is_some();
    assert_eq!(run.cost().usd().is_some(), is_known, "an unknown cost passes for a known one");
    let tokens = ledger.tokens + ledger.planning.tokens();
    assert_eq!(run.cost().tokens(), tokens, "the tokens are not counted right");
    let building: BTreeSet<&TaskId> =
        ledger.jobs().filter(|(_, job)| job.purpose == Purpose::Build).map(|(_, job)| &job.task).collect();
    for (task, state) in run.graph().tasks().iter().zip(run.tasks()) {
        let book = &ledger.tasks[&task.id];
        let agrees = match &state.status {
            TaskStatus::Completed { commit, .. } => book.standing == Standing::Done(commit.clone()),
            TaskStatus::Blocked { .. } => book.standing == Standing::Blocked,
            TaskStatus::Skipped { .. } => book.standing == Standing::Skipped,
            TaskStatus::InProgress { .. } => building.contains(&task.id),
            TaskStatus::Waiting => book.spec.foreground && book.standing == Standing::Open,
            TaskStatus::Pending => book.standing == Standing::Open,
            TaskStatus::Resting { until } => book.standing == Standing::Open && book.rests_until == Some(*until),
        };
        assert!(agrees, "{} is {:?}, should be {book:?}", task.id, state.status);
        let on_worker = matches!(state.status, TaskStatus::InProgress { .. });
        assert_eq!(on_worker, building.contains(&task.id), "{} is {:?}", task.id, state.status);
        let counted = (state.failures, state.checkpoints, state.false_starts);
        let due = (book.failures, book.checkpoints, book.false_starts);
        assert_eq!(counted, due, "the failures, checkpoints and false starts of {} are miscounted", task.id);
    }
    check_levels(ledger, run);
    check_workers(ledger, run);
    if run.ended().is_some() {
        assert!(ledger.is_settled(), "ended while something is under way");
    }
}

fn check_levels(ledger: &Ledger, run: &Run) {
    assert_eq!(run.levels().len(), ledger.levels.len());
    for (state, book) in run.levels().iter().zip(&ledger.levels) {
        let merged = match &state.status {
            LevelStatus::Merged { commit, .. } => Some(commit),
            _ => None,
        };
        assert_eq!(
            (state.level, merged),
            (book.level, book.merged.as_ref()),
            "a level is merged that is not, or not so"
        );
        let open = run.tasks()[state.tasks.clone()].iter().filter(|task| task.is_open()).count();
        assert_eq!(state.open, open, "the open tasks of level {} are miscounted", state.level);
        if ledger.current() == Some(book.level) {
            assert_eq!(state.remedies, book.remedies, "the remedies of level {} are miscounted", state.level);
        }
    }
}

fn check_workers(ledger: &Ledger, run: &Run) {
    for (index, worker) in run.workers().iter().enumerate() {
        let job = ledger.jobs().map(|(_, job)| job).find(|job| job.worker.0 as usize == index);
        match (worker, job) {
            (WorkerStatus::Running { task, attempt, .. }, Some(job)) => {
                assert_eq!((task, *attempt), (&job.task, job.attempt), "worker {index} runs another job");
            }
            (WorkerStatus::Stopped, _) | (_, None) if !matches!(worker, WorkerStatus::Running { .. }) => {}
            _ => panic!("worker {index} is {worker:?}, its job is {job:?}"),
        }
    }
    let seated = ledger.jobs().all(|(_, job)| (job.worker.0 as usize) < run.workers().len());
    assert!(seated, "a job runs on a worker that the run does not know");
}

/// Whether a run that says that it ended so may say it.
pub fn check_end(ledger: &Ledger, run: &Run, end: &End) {
    let current = ledger.current();
    let status = run.current_level().map(|level| &level.status);
    // A retry or skip takes a failed level back to running, also while the run is coming to its end.
    let due = run.intent().is_session() && matches!(status, Some(LevelStatus::Remedying { job: None, .. }));
    let failed = due || matches!(status, Some(LevelStatus::Failed { .. } | LevelStatus::Running));
    let honest = match end {
        End::Completed => {
            let last = ledger.levels.last().expect("a graph has levels");
            assert!(last.verified, "completed, but never was every task verified on what landed last");
            current.is_none()
                && ledger.tasks.values().all(|book| matches!(book.standing, Standing::Done(_) | Standing::Skipped))
        }
        End::LevelMerged { level } => {
            let asked = matches!(ledger.intent,
                Intent::Level(goal) | Intent::Merge(goal) | Intent::Session(Some(goal)) if goal == *level);
            asked && current.is_none_or(|current| current > *level)
        }
        End::Blocked => current.is_some_and(|current| {
            let stuck = |book: &TaskBook| {
                book.standing == Standing::Blocked || book.standing == Standing::Open && book.spec.foreground
            };
            let mut open = ledger
                .of_level(current)
                .filter(|(_, book)| matches!(book.standing, Standing::Open | Standing::Blocked))
                .peekable();
            open.peek().is_some() && open.all(|(_, book)| stuck(book))
        }),
        End::RedBase { gates } => !gates.is_empty() && *gates == ledger.red && !ledger.base_is_good,
        End::GateFailed { level, .. } => failed && current == Some(*level) && ledger.gate_failed,
        End::Conflict { .. } => failed && matches!(ledger.obstacle, Some(Obstacle::Conflict { .. })),
        End::Paused { .. } => {
            let poor = ledger.policy.max_usd.is_some_and(|limit| ledger.known_usd() >= limit);
            let unfinished = matches!(ledger.intent, Intent::Merge(_) | Intent::Session(Some(_)));
            let hindered = failed && !matches!(ledger.obstacle, None | Some(Obstacle::Conflict { .. }));
            poor || unfinished || hindered || ledger.outages.given_up || ledger.out_of_space
        }
        End::Stopped => ledger.stop_asked || (0..ledger.policy.workers).all(|worker| ledger.stopped.contains(&worker)),
        End::Failed { .. } => ledger.effect_failed,
    };
    assert!(honest, "the run says {end:?}, but its level is {status:?}, its tasks are {:?}", run.tasks());
}

/// Whether what people see agrees with itself and with the run.
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
    for decision in &view.decisions {
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
    assert_eq!(view.status == "running", run.ended().is_none());
}

/// Whether what stands on the candidate is exactly the level's verified work.
pub fn check_content(ledger: &Ledger, level: Level, candidate: &Candidate, content: &[TaskCommit]) {
    let sorted = |mut commits: Vec<TaskCommit>| {
        commits.sort_by(|a, b| (&a.task, &a.commit).cmp(&(&b.task, &b.commit)));
        commits
    };
    let verified = sorted(verified_commits(ledger, level));
    assert_eq!(sorted(content.to_vec()), verified, "{candidate:?} of level {level} holds something else");
}
