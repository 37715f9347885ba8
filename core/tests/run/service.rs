//! The API limit.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Time};
use mahabharatha_core::run::event::{Command, Event, Intent, JobEnd, Policy};
use mahabharatha_core::run::{Effect, End, LevelStatus};
use mahabharatha_core::view::RunView;

use super::story::{Story, id};

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
    let policy = Policy { waits_for_limits: false, ..story.run.policy().clone() };
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
