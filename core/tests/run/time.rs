//! The time that a run and its attempts take.

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{Command, Event, Intent, JobEnd, JobReport};
use mahabharatha_core::run::{EffectId, End};
use mahabharatha_core::view::{RunView, Stamp};

use super::story::{Story, id, oid};

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
fn a_crash_and_the_questions_after_it_do_not_count() {
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
fn an_attempt_whose_end_was_not_seen_ended_when_its_worker_did() {
    let mut story = Story::of(&[("A", 1)]);
    let started = story.now;
    story.now.0 += NIGHT;
    story.resumed().reports(JobReport::new(JobEnd::Died { started: true }, 4_000));
    let attempt = RunView::of(&story.run).tasks[0].attempts[0].clone();
    assert_eq!((attempt.started_at, attempt.elapsed.as_secs()), (Stamp(started), 4));
    assert_eq!(attempt.ended_at, Some(Stamp(Time(started.0 + 4_000))));
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
