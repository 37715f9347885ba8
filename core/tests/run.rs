//! Single decisions of a run.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Feature, Level, Oid, TaskId, Time, WorkerId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{
    Accepted, Amend, Backoff, BackoffStrategy, Candidate, CleanGates, Command, Event, GateFailure, Intent, JobEnd,
    JobReport, Obstacle, Policy, Schedule, Setup, TaskBudget, TaskCommit,
};
use mahabharatha_core::run::{Effect, EffectId, End, LevelStatus, Run, TaskStatus};
use mahabharatha_core::spec::GraphFile;
use mahabharatha_core::view::RunView;

fn id(task: &str) -> TaskId {
    TaskId::new(task).unwrap()
}

fn oid(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

fn graph(tasks: &[(&str, u32)]) -> GraphFile {
    let task = |(id, level): &(&str, u32)| {
        let files = format!(r#"{{"create":["{id}.rs"]}}"#);
        format!(r#"{{"id":"{id}","title":"T","level":{level},"files":{files},"verification":{{"command":"true"}}}}"#)
    };
    let tasks: Vec<String> = tasks.iter().map(task).collect();
    serde_json::from_str(&format!(r#"{{"feature":"f","tasks":[{}]}}"#, tasks.join(","))).unwrap()
}

/// A run with one worker, and the current time.
struct Story {
    run: Run,
    now: Time,
}

impl Story {
    fn of(tasks: &[(&str, u32)]) -> Story {
        let policy = Policy {
            workers: 1,
            max_attempts: 2,
            backoff: Backoff { strategy: BackoffStrategy::Fixed, base_ms: 0, max_ms: 0 },
            remediation_attempts: 1,
            has_gates: false,
            allow_red_base: false,
            max_usd: Some(5.0),
            max_usd_per_task: None,
            onto_staging: false,
            clean_gates: CleanGates::Last,
            heeds_limits: true,
            accepted: Accepted::default(),
            amend: Amend::Ask,
            isolation: Isolation::Off,
            approval: false,
            schedule: Schedule::Levels,
        };
        let setup = Setup {
            feature: Feature::new("f").unwrap(),
            graph: graph(tasks),
            base_branch: "refs/heads/main".to_string(),
            start: oid('0'),
            mode: "subprocess".to_string(),
            git_config: Vec::new(),
            policy,
            planning: Cost::default(),
        };
        let mut story = Story { run: Run::start(Time(0), &setup).unwrap(), now: Time(0) };
        story.slot_ready();
        story
    }

    fn happens(&mut self, event: Event) -> &mut Story {
        self.now = Time(self.now.0 + 1_000);
        self.run.step(self.now, &event);
        self
    }

    fn resumed(&mut self) -> &mut Story {
        let policy = self.run.policy().clone();
        let planning = self.run.planning();
        self.happens(Event::Resumed { policy, intent: Intent::Complete, planning });
        let prepares = |(_, effect): (EffectId, &Effect)| matches!(effect, Effect::PrepareSlot { .. });
        if self.run.outstanding().any(prepares) {
            self.slot_ready();
        }
        self
    }

    fn slot_ready(&mut self) -> &mut Story {
        self.answers(|effect| Event::SlotReady { effect, worker: WorkerId(0) })
    }

    /// Returns the only outstanding effect.
    fn under_way(&self) -> (EffectId, Effect) {
        let all: Vec<_> = self.run.outstanding().collect();
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].0, all[0].1.clone())
    }

    fn job(&self) -> Job {
        match self.under_way().1 {
            Effect::RunJob(job) => job,
            other => panic!("{other:?}"),
        }
    }

    fn ends(&mut self, end: JobEnd) -> &mut Story {
        self.reports(JobReport::new(end, 500))
    }

    fn reports(&mut self, report: JobReport) -> &mut Story {
        let Job { effect, task, attempt, .. } = self.job();
        self.happens(Event::JobEnded { effect, task, attempt, report })
    }

    fn done(&mut self, commit: char) -> &mut Story {
        self.ends(JobEnd::Done { commit: oid(commit) })
    }

    /// Answers the effect under way.
    fn answers(&mut self, event: impl FnOnce(EffectId) -> Event) -> &mut Story {
        let (effect, _) = self.under_way();
        self.happens(event(effect))
    }

    fn staged(&mut self, level: u32) -> &mut Story {
        let Effect::Stage { tasks, .. } = self.under_way().1 else { panic!() };
        self.answers(|effect| Event::Staged { effect, level: Level(level), staging: oid('5'), commits: tasks })
    }

    fn gates_pass(&mut self, level: u32, base: char) -> &mut Story {
        let candidate = Candidate { base: oid(base), staging: oid('5'), tree: oid('7') };
        self.answers(|effect| Event::GatesPassed { effect, level: Level(level), candidate, passed: Vec::new() })
    }

    fn gate_fails(&mut self, level: u32, task: &str) -> &mut Story {
        let [gate, command, output] = ["lint", "lint", "lint"].map(str::to_string);
        let failure = GateFailure {
            gate,
            command,
            output,
            cause: None,
            denied: false,
            staging: oid('5'),
            task: Some(id(task)),
            clean: false,
        };
        self.answers(|effect| Event::GateFailed { effect, level: Level(level), failure, passed: Vec::new() })
    }

    fn merges(&mut self, level: u32) -> &mut Story {
        self.staged(level).gates_pass(level, '0');
        self.answers(|effect| Event::Landed { effect, level: Level(level), commit: oid('c') })
    }
}

#[test]
fn a_late_or_repeated_answer_does_not_count_for_a_newer_effect() {
    let mut story = Story::of(&[("A", 1)]);
    story.done('a').staged(1).gates_pass(1, '0');
    let (first, _) = story.under_way();
    let moved = |effect| Event::NotLanded { effect, level: Level(1), obstacle: Obstacle::BaseMoved };
    story.answers(moved).gates_pass(1, '1');
    let (second, landing) = story.under_way();
    assert!(matches!(landing, Effect::Land { .. }) && second != first);
    // If it counted, the level would be gated again while it lands.
    story.happens(moved(first));
    assert_eq!(story.under_way(), (second, landing));
    story.happens(moved(second));
    assert!(matches!(story.under_way().1, Effect::Gate { .. }));
}

#[test]
fn an_answer_that_does_not_fit_its_effect_is_ignored() {
    let mut story = Story::of(&[("A", 1)]);
    let (effect, job) = story.under_way();
    story.happens(Event::Landed { effect, level: Level(1), commit: oid('c') });
    let report = JobReport::new(JobEnd::Done { commit: oid('a') }, 500);
    story.happens(Event::JobEnded { effect, task: id("A"), attempt: Attempt(2), report });
    assert_eq!(story.under_way(), (effect, job));
}

#[test]
fn an_answer_in_the_journal_must_name_its_effect() {
    let read = |line: &str| serde_json::from_str::<Event>(line).map_err(|error| error.to_string());
    assert!(read(r#"{"event":"closed"}"#).unwrap_err().contains("missing field `effect`"));
    assert_eq!(read(r#"{"event":"closed","effect":7}"#), Ok(Event::Closed { effect: EffectId(7) }));
}

#[test]
fn the_broken_verification_of_a_task_of_a_lower_level_is_blamed_on_this_level() {
    let mut story = Story::of(&[("A", 1), ("B", 2)]);
    story.done('a').merges(1).done('b').staged(2).gate_fails(2, "A");
    assert!(matches!(story.under_way().1, Effect::Blame { level: Level(2), .. }));
    assert!(story.run.is_integrating(), "no other feature may land before the blame is known");
    story.answers(|effect| Event::Blamed { effect, level: Level(2), task: Some(id("B")), why: "why".to_string() });
    assert_eq!(story.job().task, id("B"));
    assert!(!story.run.is_integrating());
}

#[test]
fn a_fix_is_kept_when_another_task_is_retried() {
    let mut story = Story::of(&[("A", 1), ("B", 1), ("C", 1)]);
    story.done('a').done('b').done('d').staged(1).gate_fails(1, "A");
    assert_eq!(story.job().task, id("A"));
    story.done('e').gate_fails(1, "B");
    assert!(matches!(story.run.ended(), Some(End::GateFailed { .. })), "no fix is left");
    let retry = |task: &str| Event::Asked {
        request: task.into(),
        command: Command::Retry { tasks: vec![id(task)], budget: None, note: None },
    };
    story.happens(retry("B")).resumed().done('f');
    let commit = |task: &str, commit| TaskCommit { task: id(task), commit: oid(commit) };
    let Effect::Stage { tasks, .. } = story.under_way().1 else { panic!() };
    assert_eq!(tasks, [commit("A", 'a'), commit("A", 'e'), commit("B", 'f'), commit("C", 'd')]);

    // A fix of the retried task itself is dropped.
    story.staged(1).gate_fails(1, "C").ends(JobEnd::Blocked { reason: "no".to_string() });
    story.happens(Event::Asked {
        request: "A".into(),
        command: Command::Retry { tasks: vec![id("A")], budget: None, note: None },
    });
    story.resumed().done('9');
    let Effect::Stage { tasks, .. } = story.under_way().1 else { panic!() };
    assert_eq!(tasks, [commit("A", '9'), commit("B", 'f'), commit("C", 'd')]);
}

#[test]
fn a_level_becomes_the_last_only_if_every_task_was_verified() {
    let mut story = Story::of(&[("A", 1), ("B", 2)]);
    let only_first = graph(&[("A", 1)]);
    assert_eq!(story.run.cannot_replan(&only_first), [""; 0]);
    story.done('a').staged(1);
    assert_eq!(story.run.cannot_replan(&only_first), [""; 0]);
    story.gates_pass(1, '0');
    let refused = |story: &Story| {
        let reasons = story.run.cannot_replan(&only_first);
        assert!(reasons.iter().any(|why| why.starts_with("level 1 cannot become the last one")), "{reasons:?}");
    };
    refused(&story);
    story.answers(|effect| Event::Landed { effect, level: Level(1), commit: oid('c') });
    refused(&story);

    // A level that was added after the last one was merged can be removed again.
    let mut story = Story::of(&[("A", 1)]);
    story.done('a').merges(1);
    story.happens(Event::Replanned { graph: Box::new(graph(&[("A", 1), ("B", 2)])) });
    assert_eq!(story.run.current_level().map(|level| level.level), Some(Level(2)));
    assert_eq!(story.run.cannot_replan(&only_first), [""; 0]);
}

#[test]
fn the_api_limit_is_waited_for_and_uses_up_no_retry() {
    let mut story = Story::of(&[("A", 1)]);
    let reset = Time(3_600_000);
    for attempt in 1..=5 {
        assert_eq!(story.job().attempt, Attempt(attempt));
        story
            .ends(JobEnd::Unserved { why: "usage limit".to_string(), until: Some(Time(reset.0 * i64::from(attempt))) });
        assert_eq!(story.run.outstanding().count(), 0);
        assert_eq!(story.run.ended(), None);
        let pause = RunView::of(&story.run).pause.expect("people see it");
        assert_eq!(pause.until.0, Time(reset.0 * i64::from(attempt)));
        story.happens(Event::Woke);
        assert_eq!(story.run.outstanding().count(), 0, "woken too early");
        let wakes = story.run.next_wakeup().expect("it goes on by itself");
        story.now = Time(wakes.0 - 1_000);
        story.happens(Event::Woke);
    }
    story.done('a');
    let task = story.run.task(&id("A")).unwrap();
    assert_eq!((task.failures, task.checkpoints, task.false_starts), (0, 0, 0));
}

#[test]
fn a_resumed_run_waits_for_the_api_limit_unless_told_not_to() {
    let reset = Time(3_600_000);
    let limited = || {
        let mut story = Story::of(&[("A", 1)]);
        story.ends(JobEnd::Unserved { why: "usage limit".to_string(), until: Some(reset) });
        story.happens(Event::Asked {
            request: "r".into(),
            command: Command::Stop { force: false, grace_ms: 0, worker: None },
        });
        assert_eq!(story.run.ended(), Some(&End::Stopped));
        story
    };
    let mut story = limited();
    story.resumed();
    assert_eq!((story.run.outstanding().count(), story.run.ended()), (0, None));
    assert_eq!(story.run.next_wakeup(), Some(reset));
    assert_eq!(RunView::of(&story.run).pause.expect("people see it").until.0, reset);
    story.now = reset;
    story.happens(Event::Woke).slot_ready();
    assert_eq!(story.job().attempt, Attempt(2));

    let mut story = limited();
    let policy = Policy { heeds_limits: false, ..story.run.policy().clone() };
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    assert_eq!(story.slot_ready().job().attempt, Attempt(2));
}

#[test]
fn a_fix_that_hit_the_api_limit_is_launched_again() {
    let mut story = Story::of(&[("A", 1)]);
    story.done('a').staged(1).gate_fails(1, "A");
    story.ends(JobEnd::Unserved { why: "overloaded".to_string(), until: None });
    assert!(matches!(story.run.levels()[0].status, LevelStatus::Fixing { job: None, .. }));
    story.now = story.run.next_wakeup().unwrap();
    story.happens(Event::Woke).done('e');
    assert!(matches!(story.under_way().1, Effect::Gate { .. }));
}

#[test]
fn the_run_pauses_if_the_api_limit_does_not_end() {
    let mut story = Story::of(&[("A", 1)]);
    let mut tries = 0;
    while story.run.ended().is_none() {
        tries += 1;
        story.ends(JobEnd::Unserved { why: "overloaded".to_string(), until: None });
        if let Some(wakes) = story.run.next_wakeup() {
            story.now = wakes;
            story.happens(Event::Woke);
        }
    }
    assert_eq!(tries, 10);
    assert!(matches!(story.run.ended(), Some(End::Paused { why, .. }) if why.contains("overloaded")));
    assert_eq!(story.resumed().job().task, id("A"), "it is tried again when a person says so");
}

#[test]
fn planning_counts_against_the_budget() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    let policy = story.run.policy().clone();
    let planning = Cost::of(Some(4.0), 900);
    story.happens(Event::Resumed { policy: policy.clone(), intent: Intent::Complete, planning });
    let end = JobEnd::Done { commit: oid('a') };
    story.reports(JobReport { cost_usd: Some(1.0), tokens: 100, ..JobReport::new(end, 500) });
    assert!(matches!(story.run.ended(), Some(End::Paused { why, .. }) if why.contains("4.00 USD of it by planning")));
    let view = RunView::of(&story.run);
    assert_eq!((view.cost, view.planning), (Cost::of(Some(5.0), 1_000), planning));
    assert_eq!(view.levels[0].cost, Cost::of(Some(1.0), 100), "planning is of no level");
}

#[test]
fn an_unknown_cost_is_not_zero_and_does_not_use_up_the_budget() {
    let mut story = Story::of(&[("A", 1), ("B", 1), ("C", 2)]);
    let done = |cost_usd| JobReport { cost_usd, tokens: 10, ..JobReport::new(JobEnd::Done { commit: oid('a') }, 500) };
    story.reports(done(None));
    story.reports(done(Some(1.5)));
    let view = serde_json::to_value(RunView::of(&story.run)).unwrap();
    let cost = |of: &serde_json::Value| (of["cost_usd"].as_f64(), of["known_cost_usd"].as_f64(), of["tokens"].as_u64());
    assert_eq!(cost(&view), (None, Some(1.5), Some(20)));
    assert_eq!(cost(&view["levels"][0]), (None, Some(1.5), Some(20)));
    assert_eq!(cost(&view["tasks"][0]), (None, Some(0.0), Some(10)));
    assert_eq!(cost(&view["tasks"][0]["attempts"][0]), (None, Some(0.0), Some(10)));
    assert_eq!(cost(&view["tasks"][1]), (Some(1.5), Some(1.5), Some(10)));
    assert_eq!(cost(&view["tasks"][2]), (Some(0.0), Some(0.0), Some(0)), "nothing was done for it yet");
    assert!(!view.to_string().contains("-0.0"), "{view}");
    assert!(story.run.ended().is_none(), "it goes on");
}

#[test]
fn nothing_is_launched_once_the_budget_is_used_up() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    let end = JobEnd::Done { commit: oid('a') };
    story.reports(JobReport { cost_usd: Some(5.0), tokens: 700, ..JobReport::new(end, 500) });
    assert!(matches!(story.run.ended(), Some(End::Paused { why, .. }) if why.contains("5.00 USD")));
    let view = RunView::of(&story.run);
    assert_eq!([view.cost, view.levels[0].cost, view.tasks[0].cost], [Cost::of(Some(5.0), 700); 3]);
    let policy = Policy { max_usd: Some(6.0), ..story.run.policy().clone() };
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    assert_eq!(story.slot_ready().job().task, id("B"));
}

/// Returns a run of one task with a budget of 1 USD, after an attempt of this cost.
fn after_an_attempt(cost_usd: f64) -> Story {
    let mut story = Story::of(&[("A", 1)]);
    let policy = Policy { max_usd_per_task: Some(1.0), max_usd: None, ..story.run.policy().clone() };
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    let end = JobEnd::Checkpoint { note: "half".to_string() };
    story.reports(JobReport { cost_usd: Some(cost_usd), ..JobReport::new(end, 500) });
    story
}

fn reason(story: &Story) -> String {
    match &story.run.task(&id("A")).unwrap().status {
        TaskStatus::Blocked { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_gets_the_rest_of_its_budget_and_is_blocked_when_it_is_spent() {
    let mut story = after_an_attempt(0.75);
    assert_eq!(story.slot_ready().job().max_usd, Some(0.25));
    let report = JobReport::new(JobEnd::Checkpoint { note: "more".to_string() }, 500);
    story.reports(JobReport { cost_usd: Some(0.5), ..report });
    assert_eq!(story.run.ended(), Some(&End::Blocked));
    assert_eq!(reason(&story), "its budget of 1.00 USD is used up: 1.25 USD spent; raise budget.max_usd_per_task");
    assert_eq!(story.run.task(&id("A")).unwrap().attempts.len(), 2);
}

#[test]
fn a_task_over_its_budget_can_be_retried_only_with_a_higher_budget() {
    let mut story = after_an_attempt(1.0);
    assert!(reason(&story).contains("1.00 USD spent"));
    let retry = |story: &mut Story, request: &str, budget: Option<TaskBudget>| {
        let command = Command::Retry { tasks: vec![id("A")], budget, note: None };
        story.happens(Event::Asked { request: request.to_string(), command });
        story.run.answer(request).unwrap().clone()
    };
    let refused = retry(&mut story, "1", None);
    assert!(refused.accepted.is_empty() && refused.refused[0].why.contains("raise budget.max_usd_per_task"));
    assert_eq!(retry(&mut story, "2", Some(TaskBudget { max_usd: Some(0.5) })).accepted, []);
    assert_eq!(retry(&mut story, "3", Some(TaskBudget { max_usd: Some(3.0) })).accepted, [id("A")]);
    let policy = story.run.policy().clone();
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    assert_eq!(story.slot_ready().job().max_usd, Some(2.0));
}

#[test]
fn a_lowered_budget_blocks_tasks_that_have_spent_more() {
    let mut story = Story::of(&[("A", 1)]);
    let report = JobReport::new(JobEnd::Checkpoint { note: "half".to_string() }, 500);
    story.reports(JobReport { cost_usd: Some(2.0), ..report });
    assert_eq!(story.job().max_usd, None);
    story.ends(JobEnd::Cancelled);
    let policy = Policy { max_usd_per_task: Some(1.0), ..story.run.policy().clone() };
    story.happens(Event::Asked {
        request: "stop".into(),
        command: Command::Stop { force: false, grace_ms: 0, worker: None },
    });
    story.ends(JobEnd::Cancelled);
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    assert!(reason(&story).contains("2.00 USD spent"));
}

#[test]
fn decisions_of_replaced_attempts_are_dropped() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    let report = |end, decision: &str| JobReport { decisions: vec![decision.to_string()], ..JobReport::new(end, 500) };
    let decided = |story: &Story| {
        let view = RunView::of(&story.run);
        view.decisions.into_iter().map(|decision| format!("{} {}", decision.task, decision.text)).collect::<Vec<_>>()
    };
    story.reports(report(JobEnd::Checkpoint { note: "half".to_string() }, "use sqlite"));
    assert_eq!(decided(&story), [""; 0]);
    story.reports(report(JobEnd::Done { commit: oid('a') }, "no index"));
    assert_eq!(decided(&story), ["A use sqlite", "A no index"]);
    story.ends(JobEnd::Blocked { reason: "no".to_string() });
    let retry = Command::Retry { tasks: vec![id("A")], budget: None, note: None };
    story.happens(Event::Asked { request: "r".into(), command: retry }).resumed();
    assert_eq!(decided(&story), [""; 0]);
    story.reports(report(JobEnd::Done { commit: oid('b') }, "use files"));
    assert_eq!(decided(&story), ["A use files"]);
}

#[test]
fn adopting_a_task_resumes_a_blocked_run() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    let blocked = || JobEnd::Blocked { reason: "no".to_string() };
    story.ends(blocked()).ends(blocked());
    assert_eq!(story.run.ended(), Some(&End::Blocked));
    let adopt = |story: &mut Story, request: &str, task: &str| {
        let command = Command::Adopt { task: id(task) };
        story.happens(Event::Asked { request: request.to_string(), command });
        story.run.answer(request).unwrap().accepted.len()
    };
    story.resumed();
    assert_eq!(story.run.ended(), Some(&End::Blocked));
    assert_eq!(adopt(&mut story, "1", "A"), 1);
    assert_eq!(story.run.ended(), None);
    story.done('a');
    assert_eq!(story.run.ended(), Some(&End::Blocked), "B is still blocked");
    story.resumed();
    assert_eq!(adopt(&mut story, "2", "B"), 1);
    story.ends(blocked());
    assert_eq!(adopt(&mut story, "3", "A"), 0, "it is completed");
    assert_eq!(story.run.ended(), Some(&End::Blocked));
    story.resumed();
    assert_eq!(adopt(&mut story, "4", "B"), 1);
    story.done('b').merges(1).answers(|effect| Event::Closed { effect });
    assert_eq!(story.run.ended(), Some(&End::Completed));
    assert_eq!(adopt(&mut story, "5", "B"), 0);
}

/// The run's and its latest attempt's time, in seconds.
fn elapsed(story: &Story) -> (u64, u64) {
    let view = RunView::of(&story.run);
    (view.elapsed.as_secs(), view.tasks[0].attempts.last().unwrap().elapsed.as_secs())
}

const NIGHT: i64 = 14 * 3_600_000;

#[test]
fn a_night_in_which_nothing_drives_the_run_does_not_count() {
    let mut story = Story::of(&[("A", 1)]);
    let stop = Command::Stop { force: false, grace_ms: 0, worker: None };
    story.happens(Event::Asked { request: "1".to_string(), command: stop });
    story.ends(JobEnd::Cancelled);
    assert_eq!((story.run.ended(), elapsed(&story)), (Some(&End::Stopped), (3, 2)));
    story.now.0 += NIGHT;
    story.resumed();
    let before = elapsed(&story);
    story.happens(Event::Woke);
    assert_eq!((before, elapsed(&story)), ((4, 0), (5, 1)));
}

#[test]
fn a_crash_and_what_is_asked_before_the_run_goes_on_do_not_count() {
    let mut story = Story::of(&[("A", 1)]);
    story.happens(Event::Woke);
    assert_eq!(elapsed(&story), (2, 1));
    story.now.0 += NIGHT;
    let retry = Command::Retry { tasks: vec![id("A")], budget: None, note: None };
    story.happens(Event::Asked { request: "1".to_string(), command: retry });
    assert_eq!(elapsed(&story), (2, 1));
    story.now.0 += NIGHT;
    story.resumed().ends(JobEnd::Cancelled);
    let (run, _) = elapsed(&story);
    assert_eq!(run, 2, "it counts once the process that drives the run records more");
    story.done('a');
    assert_eq!((elapsed(&story), story.run.tasks()[0].attempts.len()), ((4, 1), 2));
}

#[test]
fn the_clock_of_a_run_that_is_driven_does_not_go_back_when_something_is_asked() {
    let mut story = Story::of(&[("A", 1)]);
    story.happens(Event::Woke);
    let times = |story: &Story| {
        let view = RunView::of(&story.run);
        let attempt = view.tasks[0].attempts.last().unwrap().elapsed + view.since_elapsed(story.now);
        (view.elapsed_by(story.now), attempt)
    };
    let (run, attempt) = times(&story);
    story.now.0 += 60_000;
    story.happens(Event::Asked { request: "1".to_string(), command: Command::Scale { workers: 2 } });
    let minute = std::time::Duration::from_secs(60);
    assert!(times(&story).0 >= run + minute && times(&story).1 >= attempt + minute, "{:?}", times(&story));
    let gone = RunView::of(&story.run).undriven(|_, _| false);
    assert_eq!(gone.elapsed_by(story.now), story.run.elapsed(), "the process that drove it is gone");
}

#[test]
fn a_run_that_ended_stays_as_long_as_it_was() {
    let mut story = Story::of(&[("A", 1)]);
    story.ends(JobEnd::Blocked { reason: "no".to_string() });
    let (ended, before) = (story.run.ended_at(), elapsed(&story));
    assert_eq!((story.run.ended(), before), (Some(&End::Blocked), (2, 1)));
    story.now.0 += NIGHT;
    let retry = Command::Retry { tasks: vec![id("NOPE")], budget: None, note: None };
    story.happens(Event::Asked { request: "1".to_string(), command: retry });
    assert_eq!((story.run.ended_at(), elapsed(&story)), (ended, before));
    assert_eq!(RunView::of(&story.run).elapsed_by(Time(story.now.0 + NIGHT)), story.run.elapsed());
}

#[test]
fn the_time_of_a_session_counts_while_it_holds_a_task() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    story.ends(JobEnd::Cancelled);
    let (policy, planning) = (story.run.policy().clone(), story.run.planning());
    story.happens(Event::Resumed { policy, intent: Intent::Session(None), planning });
    story.slot_ready();
    let left: Vec<EffectId> = story.run.outstanding().map(|(effect, _)| effect).collect();
    for effect in left {
        story.happens(Event::Cancelled { effect });
    }
    let before = story.run.elapsed();
    story.now.0 += NIGHT;
    let claim = Command::Claim { tasks: vec![id("A")], session: "s".to_string() };
    story.happens(Event::Asked { request: "1".to_string(), command: claim });
    assert_eq!(story.run.elapsed(), before, "no session held a task");
    let Job { effect, task, attempt, .. } = story.job();
    let report = Box::new(JobReport::new(JobEnd::Done { commit: oid('a') }, 10));
    let other = Command::Finish { effect: EffectId(effect.0 + 1), task: task.clone(), attempt, report: report.clone() };
    story.happens(Event::Asked { request: "2".to_string(), command: other });
    assert_eq!(story.run.held().count(), 1, "another effect was answered");
    let command = Command::Finish { effect, task, attempt, report };
    story.happens(Event::Asked { request: "3".to_string(), command });
    assert_eq!((story.run.elapsed() - before).as_secs(), 2);
}

#[test]
fn settings_that_were_accepted_may_not_change_once_work_has_begun() {
    let mut accepted = Accepted::default();
    accepted.set("env.pass", ["A"]);
    let mut story = Story::of(&[("A", 1)]);
    let policy = Policy { accepted: accepted.clone(), ..story.run.policy().clone() };
    assert_eq!(story.run.unaccepted(&accepted), [r#"+ env.pass: ["A"]"#]);
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    assert_eq!(story.run.unaccepted(&accepted), [""; 0]);
    accepted.set("env.pass", ["A", "B"]);
    assert_eq!(story.run.unaccepted(&accepted), [r#"- env.pass: ["A"]"#, r#"+ env.pass: ["A","B"]"#]);
    let setup = Setup { policy: Policy { has_gates: true, ..story.run.policy().clone() }, ..story.run.setup().clone() };
    let not_begun = Run::start(Time(0), &setup).unwrap();
    assert_eq!(not_begun.unaccepted(&accepted), [""; 0]);
}

#[test]
fn lost_work_is_done_again_when_it_is_retried_and_lost_staging_by_itself() {
    let mut story = Story::of(&[("A", 1)]);
    story.done('a').staged(1);
    story.answers(|effect| Event::NotLanded { effect, level: Level(1), obstacle: Obstacle::StagingLost });
    assert!(matches!(story.under_way().1, Effect::Stage { .. }), "staged again");
    let lost = Obstacle::WorkLost { tasks: vec![id("A")] };
    story.answers(|effect| Event::NotLanded { effect, level: Level(1), obstacle: lost });
    assert!(matches!(story.run.ended(), Some(End::Paused { why, .. }) if why.contains("lost the work of A")));
    let command = Command::Retry { tasks: vec![id("A")], budget: None, note: None };
    story.happens(Event::Asked { request: "r".to_string(), command }).resumed();
    assert_eq!(story.job().attempt, Attempt(2));
}

#[test]
fn an_undone_run_has_ended_for_good() {
    let mut story = Story::of(&[("A", 1), ("B", 2)]);
    let undone = || Event::Undone { commit: oid('e') };
    story.happens(undone());
    assert_eq!(story.run.ended(), None, "a task is under way");
    story.done('a').merges(1);
    let stop = Command::Stop { force: true, grace_ms: 0, worker: None };
    story.happens(Event::Asked { request: "r".into(), command: stop }).ends(JobEnd::Cancelled);
    story.happens(undone());
    assert_eq!(story.run.ended(), Some(&End::Undone));
    let view = RunView::of(&story.run);
    assert_eq!((view.status, view.levels[0].status, view.levels[1].status), ("undone", "undone", "running"));
    let before = story.run.clone();
    story.resumed();
    let retry = Command::Retry { tasks: vec![id("B")], budget: None, note: None };
    story.happens(Event::Asked { request: "s".into(), command: retry });
    assert_eq!(story.run, before);
}

fn asks(story: &mut Story, command: Command) -> bool {
    let request = format!("r{}", story.now.0);
    story.happens(Event::Asked { request: request.clone(), command });
    story.run.answer(&request).is_some_and(|answer| !answer.declined)
}

#[test]
fn the_number_of_workers_holds_until_it_is_given_anew_or_the_run_is_completed() {
    let mut story = Story::of(&[("A", 1)]);
    assert!(asks(&mut story, Command::Scale { workers: 3 }));
    assert_eq!((story.run.policy().workers, story.run.scaled(), story.run.workers().len()), (3, Some(3), 3));
    let resume = |story: &mut Story, workers, intent| {
        let policy = Policy { workers, ..story.run.policy().clone() };
        story.happens(Event::Resumed { policy, intent, planning: Cost::default() });
        story.run.scaled()
    };
    assert_eq!(resume(&mut story, 3, Intent::Complete), Some(3));
    assert_eq!(resume(&mut story, 5, Intent::Session(None)), Some(3), "a session launches nothing");
    assert!(asks(&mut story, Command::Scale { workers: 4 }));
    assert_eq!((story.run.policy().workers, story.run.scaled()), (5, Some(4)), "it is for the next run");
    assert_eq!(resume(&mut story, 1, Intent::Complete), None);
}

#[test]
fn a_pause_is_for_a_process_that_drives_the_run() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    assert!(asks(&mut story, Command::Pause));
    story.done('a');
    assert_eq!(story.run.outstanding().count(), 0);
    assert_eq!((story.run.next_wakeup(), story.run.ended()), (None, None));
    assert_eq!(RunView::of(&story.run).status, "paused");
    story.resumed();
    assert_eq!((story.run.is_paused(), story.job().task), (false, id("B")));
    story.ends(JobEnd::Blocked { reason: "no".to_string() });
    assert_eq!(story.run.ended(), Some(&End::Blocked));
    assert!(!asks(&mut story, Command::Pause), "it has ended");
}

#[test]
fn only_the_tree_that_was_approved_lands() {
    let mut story = Story::of(&[("A", 1)]);
    let policy = Policy { approval: true, ..story.run.policy().clone() };
    story.happens(Event::Resumed { policy, intent: Intent::Complete, planning: Cost::default() });
    let gated = |story: &mut Story, tree| {
        story.answers(|effect| {
            let candidate = Candidate { base: oid('0'), staging: oid('b'), tree: oid(tree) };
            Event::GatesPassed { effect, level: Level(1), candidate, passed: Vec::new() }
        });
    };
    let approve = |story: &mut Story, tree| asks(story, Command::Approve { level: Level(1), tree: oid(tree) });
    story.done('a').answers(|effect| Event::Staged { effect, level: Level(1), staging: oid('b'), commits: Vec::new() });
    gated(&mut story, '1');
    assert!(matches!(story.run.ended(), Some(End::Paused { .. })), "{:?}", story.run.ended());
    assert!(!approve(&mut story, '2'), "it was not shown");
    assert!(approve(&mut story, '1'));
    assert!(!approve(&mut story, '1'), "it does not wait any more");
    story.resumed();
    assert!(matches!(story.under_way().1, Effect::Land { .. }));
    story.answers(|effect| Event::NotLanded { effect, level: Level(1), obstacle: Obstacle::BaseMoved });
    gated(&mut story, '3');
    assert_eq!(
        story.run.awaiting_approval().map(|(level, candidate)| (level, &candidate.tree)),
        Some((Level(1), &oid('3')))
    );
}
