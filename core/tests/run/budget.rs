//! Costs and budgets.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::run::event::{Command, Event, Intent, JobEnd, JobReport, Policy, TaskBudget};
use mahabharatha_core::run::{End, TaskStatus};
use mahabharatha_core::view::RunView;

use super::story::{Story, id, oid};

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
