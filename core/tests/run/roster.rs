//! Agents that take over from one another.

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::event::{Event, FailCause, JobEnd, Policy};
use mahabharatha_core::run::{Breaker, End, Roster, Successor};
use mahabharatha_core::view::RunView;

use super::story::Story;

/// Returns a run with one task for `small`, from which `large` takes over after so many failed attempts.
fn story(after: u32) -> Story {
    let next = [("small".to_string(), Successor { agent: "large".to_string(), after })].into();
    let roster = Roster { default: "small".to_string(), next, ..Roster::default() };
    Story::with(&[("A", 1)], |policy| Policy { roster, max_attempts: 4, ..policy })
}

fn agent(story: &Story) -> String {
    story.job().performer.agent().expect("an agent makes the attempt").to_string()
}

fn fails(story: &mut Story) {
    let feedback = "no".to_string();
    story.ends(JobEnd::Failed { cause: FailCause::Verification, feedback, strays: Vec::new() });
}

fn unserved(until: Option<Time>) -> JobEnd {
    JobEnd::Unserved { why: "usage limit".to_string(), until }
}

#[test]
fn another_agent_takes_over_after_failed_attempts() {
    let mut story = story(2);
    let mut agents = Vec::new();
    while story.run.ended().is_none() {
        agents.push(agent(&story));
        fails(&mut story);
    }
    assert_eq!(agents, ["small", "small", "large", "large"]);
}

#[test]
fn another_agent_takes_over_while_the_limit_lasts() {
    let mut story = story(2);
    let reset = Time(3_600_000);
    story.ends(unserved(Some(reset)));
    assert_eq!(agent(&story), "large");
    assert_eq!(RunView::of(&story.run).pause, None, "nothing is delayed");
    story.ends(unserved(Some(Time(2 * reset.0))));
    assert_eq!(story.run.outstanding().count(), 0);
    assert_eq!(RunView::of(&story.run).pause.expect("people see it").until.0, Time(2 * reset.0));
    assert_eq!(story.run.next_wakeup(), Some(reset), "the first agent is served again before the second");
    story.now = reset;
    story.happens(Event::Woke);
    assert_eq!(agent(&story), "small");
}

#[test]
fn a_limit_of_the_first_agent_does_not_delay_the_second_after_early_deaths() {
    let mut story = story(2);
    let reset = Time(5 * 3_600_000);
    story.ends(unserved(Some(reset)));
    for _ in 0..3 {
        assert_eq!(agent(&story), "large");
        story.ends(JobEnd::Died { started: false });
    }
    let Breaker::Open { until } = *story.run.breaker() else { panic!("{:?}", story.run.breaker()) };
    assert!(until < reset);
    assert_eq!(story.run.next_wakeup(), Some(until));
    story.now = until;
    story.happens(Event::Woke);
    assert_eq!(agent(&story), "large");
    story.ends(unserved(Some(Time(2 * reset.0))));
    assert_eq!(story.run.next_wakeup(), Some(reset), "no agent is served before");
}

#[test]
fn a_fix_is_left_to_the_next_agent_after_one_that_failed() {
    let mut story = Story::with(&[("A", 1)], |policy| {
        let next = [("small".to_string(), Successor { agent: "large".to_string(), after: 1 })].into();
        let roster = Roster { default: "small".to_string(), next, ..Roster::default() };
        Policy { roster, remediation_attempts: 2, ..policy }
    });
    story.done('a').staged(1).gate_fails(1, "A");
    assert_eq!(agent(&story), "small");
    fails(&mut story);
    assert_eq!(agent(&story), "large");
}

#[test]
fn the_run_pauses_only_if_no_other_agent_takes_over() {
    let mut story = story(1);
    let mut refused = 0;
    while story.run.ended().is_none() {
        refused += u32::from(agent(&story) == "large");
        story.ends(unserved(None));
        if story.run.outstanding().count() == 0
            && let Some(wakes) = story.run.next_wakeup()
        {
            story.now = wakes;
            story.happens(Event::Woke);
        }
    }
    assert!(matches!(story.run.ended(), Some(End::Paused { .. })), "{:?}", story.run.ended());
    assert_eq!(refused, 10);
}
