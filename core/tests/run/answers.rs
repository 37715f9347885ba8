//! Answers: to which effect they belong, and how levels follow from them.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Level};
use mahabharatha_core::run::event::{
    Candidate, Command, Event, Intent, JobEnd, JobReport, Obstacle, Policy, SetupFailure, TaskCommit,
};
use mahabharatha_core::run::{Effect, EffectId, End};
use mahabharatha_core::view::{Next, RunView, Step};

use super::story::{Story, graph, id, oid};

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
fn a_session_must_retry_lost_or_outdated_work() {
    for obstacle in [Obstacle::WorkLost { tasks: vec![id("A")] }, Obstacle::Outdated { tasks: vec![id("A")] }] {
        let mut story = Story::of(&[("A", 1)]);
        story.done('a').answers(|effect| Event::NotLanded { effect, level: Level(1), obstacle });
        let next = Next::of(&story.run);
        assert_eq!((next.step, next.command.as_deref()), (Step::Failed, Some("mahabharatha retry -f f A")), "{next:?}");
    }
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
    let approve = |story: &mut Story, tree| story.asks(Command::Approve { level: Level(1), tree: oid(tree) });
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

#[test]
fn only_a_setup_that_failed_is_called_one() {
    let text = |text: &str| text.to_string();
    let (what, command, output) = (text("it failed"), text("npm ci"), text("no network"));
    let command = SetupFailure::Command { what, command, output, cause: None };
    // The words do not decide.
    let other = SetupFailure::Other { why: text("worktrees.setup: no container engine answers") };
    for (failure, kind) in [(command, "setup"), (other, "failed")] {
        let mut story = Story::of(&[("A", 1)]);
        story.ends(JobEnd::SetupFailed { failure });
        let blockers = RunView::of(&story.run).blockers.0;
        let [blocker] = &blockers[..] else { panic!("{kind}: {blockers:?}") };
        assert_eq!((blocker.kind, blocker.resolution.contains("worktrees.setup")), (kind, kind == "setup"), "{kind}");
    }
}
