//! What needs the user; says so if nothing does.

use mahabharatha_core::view::{Blocker, TaskView, merged_phrase};
use mahabharatha_engine::report::human_duration;
use mahabharatha_engine::report::text::outcome;
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::ui::width;
use ratatui::text::Line;

use super::Frame;
use crate::screen::look::Sign;
use crate::screen::rows::{Pick, rows};
use crate::screen::text::{Row, clock, first_lines, names, number, rule, tries, usd, wrap};

/// Most problems that have a line each.
const MAX_LINES: usize = 3;

/// Returns the box; `task` is the one that keys act on.
pub fn problems(frame: &Frame<'_>, task: Option<&TaskView>) -> Vec<Line<'static>> {
    let blockers = &frame.data.view.blockers;
    let mut lines = waits(frame);
    match blockers.len() {
        _ if frame.is_compact() => lines.extend(compact(frame, task)),
        0 if !lines.is_empty() => {}
        0 => lines.extend(nothing(frame)),
        1 => lines.extend(one(frame, &blockers[0], task)),
        _ => lines.extend(several(frame, task)),
    }
    let rule = match blockers.len() {
        0 => rule(frame.look.dim(), "", frame.width),
        _ if frame.is_compact() => rule(frame.look.dim(), "", frame.width),
        count => rule(frame.look.sign(Sign::Asks), &format!("needs you {}", number(count)), frame.width),
    };
    if frame.is_compact() && lines.is_empty() {
        return Vec::new();
    }
    lines.insert(0, rule);
    lines
}

pub fn sign_of(blocker: &Blocker) -> Sign {
    match blocker.kind {
        "question" | "grant" | "person" | "approval" => Sign::Asks,
        "paused" | "undriven" | "obstacle" => Sign::Warning,
        _ => Sign::Failed,
    }
}

/// Returns what a problem is, in a word or two.
pub fn word_of(blocker: &Blocker) -> &'static str {
    match blocker.kind {
        "question" => "asks",
        "grant" => "needs files",
        "person" => "waits for a person",
        "approval" => "waits for approval",
        "gate" | "failed" => "failed",
        "paused" => "is paused",
        "undriven" => "was interrupted",
        "conflict" => "conflicts",
        "design" => "is not valid",
        _ => "is blocked",
    }
}

/// What a run waits for by itself.
fn waits(frame: &Frame<'_>) -> Vec<Line<'static>> {
    let view = &frame.data.view;
    let mut lines = Vec::new();
    let warn =
        |text: &str| Row::new().plain(" ").add(frame.look.sign(Sign::Warning), "! ").plain(text).fit(frame.width);
    if frame.state.stopping {
        lines.push(warn("Stopping: agents end and their work is kept. Ctrl-C again kills them."));
    }
    if let Some(pause) = view.pause.as_ref().filter(|_| frame.data.driven) {
        let left = clock(pause.until.0.since(frame.now));
        lines.push(warn(&format!("No new attempts for {left}: {}", pause.why)));
        if !frame.is_compact() {
            lines.push(
                Row::new().plain("   Attempts that were not served are repeated and use up no retry.").fit(frame.width),
            );
        }
    }
    lines.extend(view.breaker.as_ref().filter(|_| frame.data.driven).map(|breaker| warn(breaker)));
    lines
}

/// One problem with all that is known, as far as there is room.
fn one(frame: &Frame<'_>, blocker: &Blocker, task: Option<&TaskView>) -> Vec<Line<'static>> {
    let mut lines = vec![headline(frame, blocker)];
    let text = |line: &str| Row::new().plain("   ").plain(line).fit(frame.width);
    lines.extend(excerpt(frame, blocker).iter().map(|line| text(line)));
    lines.extend(commands(frame, blocker, task));
    lines
}

/// Returns what is known of a problem, as far as there is room: the first lines, for a gate its cause and its last lines.
fn excerpt(frame: &Frame<'_>, blocker: &Blocker) -> Vec<String> {
    let most = if frame.height >= 30 { 4 } else { 2 };
    let columns = frame.width.saturating_sub(5);
    let mut text = wrap(&blocker.text, columns);
    if blocker.kind == "gate" {
        let mut lines = wrap(&blocker.cause, columns);
        lines.truncate(most - 1);
        let room = most - lines.len();
        lines.extend(text.split_off(text.len().saturating_sub(room)));
        return lines;
    }
    first_lines(text, most)
}

/// Returns the command that resolves a problem and the keys that do; for an approval also the command to look first.
fn commands(frame: &Frame<'_>, blocker: &Blocker, task: Option<&TaskView>) -> Vec<Line<'static>> {
    let look = frame.look;
    let shown = if blocker.kind == "approval" { 2 } else { 1 };
    let mut rows: Vec<Row> = Vec::new();
    for command in blocker.commands.iter().take(shown) {
        rows.push(Row::new().plain("   ").add(look.strong(), command));
    }
    let keys = keys_for(frame, blocker, task);
    match &rows[..] {
        _ if keys.is_empty() => {}
        [row] if row.width() + 6 + width(&keys) <= frame.width => {
            rows[0] = row.clone().plain("      ").add(look.dim(), &keys);
        }
        _ => rows.push(Row::new().plain("   ").add(look.dim(), &keys)),
    }
    rows.into_iter().map(|row| row.fit(frame.width)).collect()
}

fn headline(frame: &Frame<'_>, blocker: &Blocker) -> Line<'static> {
    let (data, look) = (frame.data, frame.look);
    let sign = sign_of(blocker);
    let row = Row::new().plain(" ").add(look.sign(sign), sign.symbol()).plain(" ").add(look.strong(), &blocker.what);
    let mut row = row.plain(&format!(" {}", word_of(blocker)));
    let mut facts = Vec::new();
    if let Some(task) = blocker.task.as_ref().and_then(|task| data.task(task.as_str())) {
        if frame.width >= 100 {
            facts.push(format!("level {}", task.level));
        }
        if task.attempt > 0 {
            facts.push(format!("attempt {}", tries(task.attempt, data.view.max_attempts)));
        }
    }
    facts.extend(blocker.since.map(|since| format!("{} ago", clock(frame.now.since(since.0)))));
    if !facts.is_empty() {
        row = row.add(look.dim(), &format!("   {}", facts.join(", ")));
    }
    match blocker.holds.len() {
        0 => row,
        1 => row.add(look.dim(), &format!("   {} waits for it", blocker.holds[0])),
        _ => {
            let names = names(blocker.holds.iter().map(|task| task.as_str()), 3);
            row.add(look.dim(), &format!("   {names} wait for it"))
        }
    }
    .fit(frame.width)
}

/// Returns the keys that resolve a problem, with the task that they act on.
fn keys_for(frame: &Frame<'_>, blocker: &Blocker, task: Option<&TaskView>) -> String {
    let text = match blocker.kind {
        "paused" | "undriven" if frame.data.can_run() => "R continue",
        "gate" if frame.data.can_run() => "R try again",
        "approval" => "a approve",
        _ => "",
    };
    let Some(id) = &blocker.task else { return text.to_string() };
    if task.is_none_or(|task| task.id != *id) {
        return format!("n select {id}");
    }
    let keys: &[&str] = match blocker.kind {
        "question" => &["r answer", "s skip", "d diff"],
        "grant" => &["g grant", "r refuse", "s skip"],
        "person" => &["s skip"],
        _ => &["r retry", "s skip", "d diff"],
    };
    let each: Vec<String> = keys.iter().map(|key| format!("{key} {id}")).collect();
    let each = each.join("   ");
    if width(&each) + 3 <= frame.width { each } else { format!("{id}: {}", keys.join("   ")) }
}

/// A line for each of the first problems.
fn several(frame: &Frame<'_>, task: Option<&TaskView>) -> Vec<Line<'static>> {
    let blockers = &frame.data.view.blockers;
    let mut lines: Vec<Line<'static>> =
        blockers.iter().take(MAX_LINES).map(|blocker| in_one_line(frame, blocker)).collect();
    let more = blockers.len().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.push(Row::new().add(frame.look.dim(), &format!("   and {more} more (p)")).fit(frame.width));
    }
    let of_task = task.and_then(|task| frame.data.problem_of(task));
    // Without one, the one that `n` selects.
    let next = || blockers.iter().find(|blocker| blocker.task.is_some()).or(blockers.first());
    lines.extend(of_task.or_else(next).into_iter().flat_map(|blocker| commands(frame, blocker, task)));
    lines
}

/// Returns the problem of the task that keys act on; where they act on none, of the one that was selected.
fn selected<'a>(frame: &Frame<'a>, task: Option<&TaskView>) -> Option<&'a Blocker> {
    let hidden = || match &frame.state.pick {
        Some(Pick::Task(task)) => frame.data.task(task),
        _ => None,
    };
    frame.data.problem_of(task.or_else(hidden)?)
}

fn in_one_line(frame: &Frame<'_>, blocker: &Blocker) -> Line<'static> {
    let look = frame.look;
    let sign = sign_of(blocker);
    let row = Row::new().plain(" ").add(look.sign(sign), sign.symbol()).plain(" ");
    let row = row.cell(look.strong(), &blocker.what, 11).plain(" ");
    let row = if frame.width >= 100 { row.cell(look.dim(), word_of(blocker), 12).plain(" ") } else { row };
    let holds = match blocker.holds.len() {
        0 => Row::new(),
        1 => Row::new().add(look.dim(), "1 task waits "),
        count => Row::new().add(look.dim(), &format!("{} tasks wait ", number(count))),
    };
    let text = if blocker.text.is_empty() { &blocker.cause } else { &blocker.text };
    row.plain(&mahabharatha_sys::ui::one_line(text)).against(holds, frame.width)
}

/// On a low screen tasks say in their rows what they need: this is the command for the selected one, and the other problems.
fn compact(frame: &Frame<'_>, task: Option<&TaskView>) -> Vec<Line<'static>> {
    let others = frame.data.view.blockers.iter().filter(|blocker| blocker.task.is_none());
    let mut lines = Vec::new();
    for blocker in others.take(1) {
        lines.push(in_one_line(frame, blocker));
        if let Some(command) = blocker.commands.first().filter(|_| frame.height >= 10) {
            lines.push(Row::new().plain("   ").add(frame.look.strong(), command).fit(frame.width));
        }
    }
    let selected = selected(frame, task);
    if task.is_none() && is_hidden(frame) {
        lines.extend(selected.map(|blocker| headline(frame, blocker)));
    }
    // Before the user selects one, the rows are worth more.
    let command = selected.filter(|_| frame.state.pick.is_some()).and_then(|blocker| blocker.commands.first());
    if let Some(command) = command {
        lines.push(Row::new().plain("   ").add(frame.look.strong(), command).fit(frame.width));
    }
    lines.extend(not_run(frame));
    if frame.data.view.status == "completed" {
        let merged = match frame.data.view.is_all_skipped() {
            true => merged_phrase(&frame.data.view.levels),
            false => "all is merged".to_string(),
        };
        let text = format!(" Nothing needs you; {merged}");
        let row = Row::new().plain(" ").add(frame.look.sign(Sign::Done), "✓").plain(&text);
        lines.push(row.fit(frame.width));
    }
    lines
}

/// Tells whether what is selected has no row now, such as under a filter.
fn is_hidden(frame: &Frame<'_>) -> bool {
    let items = rows(frame.data, frame.state, usize::MAX);
    frame.state.pick.as_ref().is_some_and(|pick| items.iter().all(|item| item.pick(frame.data) != *pick))
}

/// Says what comes next for a feature that is not completed and that no process works on.
fn not_run(frame: &Frame<'_>) -> Option<Line<'static>> {
    let feature = &frame.data.view.feature;
    let (text, command) = match frame.data.view.status {
        "designed" => (" Designed, not run yet.  R runs it: ", format!("mahabharatha run {feature}")),
        "empty" => (" Nothing is planned yet: ", format!("mahabharatha plan {feature}")),
        "planned" => (" Planned, not designed yet: ", format!("mahabharatha design {feature}")),
        _ if frame.data.can_run() && frame.data.view.blockers.is_empty() => {
            (" No process works on it.  R continues it: ", format!("mahabharatha run {feature}"))
        }
        _ => return None,
    };
    Some(Row::new().plain(text).add(frame.look.strong(), &command).fit(frame.width))
}

fn nothing(frame: &Frame<'_>) -> Vec<Line<'static>> {
    let (view, look) = (&frame.data.view, frame.look);
    if let Some(line) = not_run(frame) {
        return vec![line];
    }
    let row = Row::new().plain(" ").add(look.sign(Sign::Done), "✓").plain(" Nothing needs you.");
    if view.status != "completed" {
        return vec![row.fit(frame.width)];
    }
    let wide = frame.width >= 100;
    let passed = if wide { " and passed on the merged tree" } else { "" };
    let row = row.plain(&format!(" Everything is merged onto {}{passed}.", short_branch(&view.landing_branch)));
    let mut lines = vec![row.fit(frame.width)];
    let feature = &view.feature;
    let next = [("next  ", format!("git ship --pr -f {feature}")), ("review", format!("review {feature}"))];
    let command = |row: Row, (what, command): &(&str, String)| {
        row.add(look.dim(), &format!("   {what}  ")).add(look.strong(), &format!("mahabharatha {command}"))
    };
    match wide {
        true => lines.push(next.iter().fold(Row::new(), command).fit(frame.width)),
        false => lines.extend(next.iter().map(|next| command(Row::new(), next).fit(frame.width))),
    }
    if frame.height >= 20 {
        lines.extend(on_the_way(frame));
    }
    lines
}

/// Attempts that failed in a completed run.
fn on_the_way(frame: &Frame<'_>) -> Vec<Line<'static>> {
    let look = frame.look;
    let attempts =
        frame.data.view.tasks.iter().flat_map(|task| task.attempts.iter().map(move |attempt| (task, attempt)));
    let failed: Vec<_> =
        attempts.filter(|(_, attempt)| !matches!(attempt.outcome, "done" | "running" | "checkpoint")).collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let most = if frame.height >= 30 { 5 } else { 2 };
    let mut lines = vec![rule(look.dim(), &format!("failed attempts {}", failed.len()), frame.width)];
    for (task, attempt) in failed.iter().take(most) {
        let row = Row::new().plain(" ").add(look.sign(Sign::Failed), "✗").plain(" ").cell(
            look.strong(),
            task.id.as_str(),
            11,
        );
        let what = format!(" attempt {} {}", attempt.attempt, outcome(attempt.outcome, attempt.cause));
        let facts = format!("{}  {} ", human_duration(attempt.elapsed), usd(attempt.cost));
        lines.push(row.plain(&what).against(Row::new().add(look.dim(), &facts), frame.width));
    }
    if failed.len() > most {
        lines.push(Row::new().add(look.dim(), &format!("   and {} more", failed.len() - most)).fit(frame.width));
    }
    lines
}
