//! What users and sessions ask for, and settings that they accepted.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::Time;
use mahabharatha_core::run::event::{Accepted, Command, Event, Intent, JobEnd, JobReport, Policy, Setup};
use mahabharatha_core::run::{End, Run};
use mahabharatha_core::view::RunView;

use super::story::{Story, id, oid};

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

#[test]
fn the_number_of_workers_holds_until_it_is_set_again_or_the_run_is_completed() {
    let mut story = Story::of(&[("A", 1)]);
    assert!(story.asks(Command::Scale { workers: 3 }));
    assert_eq!((story.run.policy().workers, story.run.scaled(), story.run.workers().len()), (3, Some(3), 3));
    let resume = |story: &mut Story, workers, intent| {
        let policy = Policy { workers, ..story.run.policy().clone() };
        story.happens(Event::Resumed { policy, intent, planning: Cost::default() });
        story.run.scaled()
    };
    assert_eq!(resume(&mut story, 3, Intent::Complete), Some(3));
    assert_eq!(resume(&mut story, 5, Intent::Session(None)), Some(3), "a session launches nothing");
    assert!(story.asks(Command::Scale { workers: 4 }));
    assert_eq!((story.run.policy().workers, story.run.scaled()), (5, Some(4)), "it is for the next run");
    assert_eq!(resume(&mut story, 1, Intent::Complete), None);
}

#[test]
fn a_pause_is_for_a_process_that_drives_the_run() {
    let mut story = Story::of(&[("A", 1), ("B", 1)]);
    assert!(story.asks(Command::Pause));
    story.done('a');
    assert_eq!(story.run.outstanding().count(), 0);
    assert_eq!((story.run.next_wakeup(), story.run.ended()), (None, None));
    assert_eq!(RunView::of(&story.run).status, "paused");
    story.resumed();
    assert_eq!((story.run.is_paused(), story.job().task), (false, id("B")));
    story.ends(JobEnd::Blocked { reason: "no".to_string() });
    assert_eq!(story.run.ended(), Some(&End::Blocked));
    assert!(!story.asks(Command::Pause), "it has ended");
}
