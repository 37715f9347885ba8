//! The first tab of a task: its problem, what it owns and needs, how it is verified, its attempts.

use mahabharatha_core::view::{AttemptView, TaskView};
use mahabharatha_engine::report::human_duration;
use mahabharatha_engine::report::text::{attempt_took, headline, outcome};
use ratatui::text::Line;

use super::Frame;
use super::problems::{sign_of as sign_of_problem, word_of};
use crate::screen::look::Sign;
use crate::screen::text::{Row, clock, names, rule, usd, wrap};

const LABEL_COLUMNS: usize = 11;

pub fn sign_of(outcome: &str) -> Sign {
    match outcome {
        "running" => Sign::Running,
        "done" => Sign::Done,
        "blocked" | "escalated" => Sign::Asks,
        "cancelled" | "checkpoint" | "unserved" => Sign::Skipped,
        _ => Sign::Failed,
    }
}

pub fn overview(frame: &Frame<'_>, task: &TaskView) -> Vec<Line<'static>> {
    let mut lines = problem(frame, task);
    let spec = &task.spec;
    let owned: Vec<String> =
        spec.files.create.iter().map(|path| format!("{path} (new)")).chain(spec.files.modify.clone()).collect();
    lines.extend(fact(frame, "Owns", &owned.join(", ")));
    lines.extend(fact(frame, "Granted", &task.granted.join(", ")));
    lines.extend(fact(frame, "Reads", &spec.files.read.join(", ")));
    let signed = |id: &str| match frame.data.task(id) {
        Some(other) => format!("{} {id}", frame.data.sign(other).symbol()),
        None => id.to_string(),
    };
    let needs: Vec<String> = task.dependencies.iter().map(|id| signed(id.as_str())).collect();
    lines.extend(fact(frame, "Needs", &needs.join("  ")));
    let of = |other: &&TaskView| other.dependencies.contains(&task.id);
    let needed: Vec<String> = frame.data.view.tasks.iter().filter(of).map(|other| signed(other.id.as_str())).collect();
    lines.extend(fact(frame, "Needed by", &needed.join("  ")));
    lines.extend(fact(frame, "Criteria", &spec.acceptance_criteria.join("\n")));
    lines.extend(fact(frame, "Verified by", &spec.verification.command));
    let estimate = spec.estimate_minutes.map(|minutes| format!("{minutes} minutes")).unwrap_or_default();
    lines.extend(fact(frame, "Estimate", &estimate));
    let decided = frame.data.view.decisions.iter().filter(|decision| decision.task == task.id);
    lines.extend(fact(
        frame,
        "Decided",
        &decided.map(|decision| decision.text.as_str()).collect::<Vec<_>>().join("\n"),
    ));
    if !task.attempts.is_empty() {
        lines.push(rule(frame.look.dim(), "attempts", frame.width));
        lines.extend(task.attempts.iter().flat_map(|record| attempt(frame, task, record)));
    }
    lines
}

fn problem(frame: &Frame<'_>, task: &TaskView) -> Vec<Line<'static>> {
    let Some(blocker) = frame.data.problem_of(task) else { return Vec::new() };
    let look = frame.look;
    let sign = sign_of_problem(blocker);
    let ago = blocker.since.map(|since| format!(", {} ago", clock(frame.now.since(since.0)))).unwrap_or_default();
    let row =
        Row::new().plain(" ").add(look.sign(sign), &format!("{} {}", sign.symbol(), word_of(blocker))).plain(&ago);
    let row = match blocker.holds.len() {
        0 => row,
        1 => row.plain(&format!("; {} waits for it", blocker.holds[0])),
        _ => row.plain(&format!("; {} wait for it", names(blocker.holds.iter().map(|task| task.as_str()), 6))),
    };
    let mut lines = vec![row.fit(frame.width)];
    for line in wrap(&blocker.text, frame.width.saturating_sub(4)) {
        lines.push(Row::new().plain("   ").plain(&line).fit(frame.width));
    }
    for command in &blocker.commands {
        lines.push(Row::new().plain("   ").add(look.strong(), command).fit(frame.width));
    }
    lines.push(rule(look.dim(), "", frame.width));
    lines
}

/// Returns a label with its text, which may take several lines; nothing without text.
fn fact(frame: &Frame<'_>, label: &str, text: &str) -> Vec<Line<'static>> {
    let lines = wrap(text, frame.width.saturating_sub(LABEL_COLUMNS + 3));
    let line = |(index, line): (usize, String)| {
        let label = if index == 0 { label } else { "" };
        Row::new().plain(" ").cell(frame.look.dim(), label, LABEL_COLUMNS).plain(" ").plain(&line).fit(frame.width)
    };
    lines.into_iter().enumerate().map(line).collect()
}

fn attempt(frame: &Frame<'_>, task: &TaskView, attempt: &AttemptView) -> Vec<Line<'static>> {
    let (data, look) = (frame.data, frame.look);
    let sign = sign_of(attempt.outcome);
    let row = Row::new().plain(&format!(" {}  ", attempt.attempt)).add(look.sign(sign), sign.symbol());
    let mut row = row.plain(&format!(" {}", outcome(attempt.outcome, attempt.cause)));
    let live = data.doing(task).filter(|_| attempt.outcome == "running");
    if let Some(doing) = live {
        row = row.plain(&format!(": {}", if doing.phase == "verifying" { "verifying" } else { "agent works" }));
    }
    let agent = attempt.agent.as_deref().or(live.map(|doing| doing.agent.as_str()));
    let model = attempt.model.as_deref().or(live.and_then(|doing| doing.model.as_deref()));
    let mut facts: Vec<String> = [agent, model].into_iter().flatten().map(str::to_string).collect();
    facts.push(format!("w{}", attempt.worker));
    facts.push(human_duration(attempt_took(
        &data.view,
        attempt,
        if data.driven { frame.now } else { data.view.updated_at.0 },
    )));
    if !attempt.cost.is_zero() {
        facts.push(usd(attempt.cost));
    }
    facts.extend(attempt.verification.map(|took| format!("verified in {}", human_duration(took))));
    facts.extend(attempt.wip.as_ref().map(|wip| format!("kept as wip {}", wip.short())));
    let mut lines = vec![row.against(Row::new().add(look.dim(), &format!("{} ", facts.join("  "))), frame.width)];
    if attempt.outcome != "done"
        && let Some(detail) = &attempt.detail
    {
        lines.push(Row::new().plain("      ").add(look.dim(), &headline(detail)).fit(frame.width));
    }
    lines
}
