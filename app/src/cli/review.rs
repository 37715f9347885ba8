//! `review`: walks through completed tasks; accepts them or sends them back.

use clap::Args;
use mahabharatha_core::ids::{Level, TaskId};
use mahabharatha_core::run::Run;
use mahabharatha_core::view::approval_command;
use mahabharatha_engine::report::diff::files_json;
use mahabharatha_engine::report::review::{Item, item_text};
use mahabharatha_engine::report::text::count;
use mahabharatha_engine::session::control;
use mahabharatha_engine::session::diff::{self, Diff, Selection};
use mahabharatha_engine::session::review::{self, SentBack};
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;
use serde_json::{Value, json};

use super::exit::ExitCode;
use super::{Global, answer};

/// The flags that answer the questions of this command.
const FLAGS: &str = "--accept TASK or --send-back TASK --comment TEXT";

#[derive(Debug, Args)]
#[command(after_help = super::examples::REVIEW)]
pub struct ReviewArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Only this level
    #[arg(long, value_name = "N")]
    level: Option<u32>,
    /// Also what was accepted or sent back before
    #[arg(long)]
    all: bool,
    /// Accept these tasks without asking
    #[arg(long, value_name = "TASK", num_args = 1.., conflicts_with_all = ["send_back", "level", "all"])]
    accept: Vec<String>,
    /// Have this task done again, or add a follow-up task if it is merged
    #[arg(long, value_name = "TASK", requires = "comment", conflicts_with_all = ["level", "all"])]
    send_back: Option<String>,
    /// What should be different
    #[arg(long, value_name = "TEXT", requires = "send_back", allow_hyphen_values = true)]
    comment: Option<String>,
    /// Never use a pager
    #[arg(long)]
    no_pager: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &ReviewArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let run = control::read_run(&place)?;
    if !args.accept.is_empty() {
        return accept(&place, ui, &run, &answer::task_ids(&args.accept)?);
    }
    if let (Some(task), Some(comment)) = (&args.send_back, &args.comment) {
        return send_back(&place, ui, &run, &answer::task_id(task)?, comment);
    }
    let items = review::items(&place, &run, args.level.map(Level))?;
    let (shown, before): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| args.all || item.verdict.is_none());
    if ui.json() {
        let tasks = shown.iter().map(|item| item_json(&place, &run, item)).collect::<Result<Vec<Value>>>()?;
        let data = json!({ "feature": place.feature.as_str(), "tasks": tasks, "reviewed_before": before.len() });
        ui.pretty(&data);
        return Ok(ExitCode::Done);
    }
    walk(&place, ui, &run, &shown, args.no_pager)?;
    if shown.is_empty() {
        let reviewed = if before.is_empty() { "no task is completed yet" } else { "everything completed is reviewed" };
        ui.note(&format!("{reviewed}; nothing is to be reviewed of {}", place.feature));
    } else if !before.is_empty() {
        ui.note(&format!("{} reviewed before; --all shows them too", count(before.len(), "task")));
    }
    Ok(ExitCode::Done)
}

fn diff_of(place: &Place, run: &Run, task: &TaskId) -> Result<Diff> {
    diff::find(place, run, &Selection::Task { task: task.clone(), attempt: None, wip: false })
}

fn item_json(place: &Place, run: &Run, item: &Item) -> Result<Value> {
    let found = diff_of(place, run, &item.task)?;
    let mut data = serde_json::to_value(item).map_err(Error::caused("cannot write a task as JSON"))?;
    data["commits"] = json!(found.commits);
    data["files"] = files_json(&found.files);
    Ok(data)
}

/// Shows one task after the other, and asks about each at a terminal.
fn walk(place: &Place, ui: &Ui, run: &Run, items: &[Item], no_pager: bool) -> Result<()> {
    for (index, item) in items.iter().enumerate() {
        let text = item_text(item, &diff_of(place, run, &item.task)?.files, ui.paint());
        if no_pager || !ui.can_ask() {
            ui.painted(&text)
        } else {
            ui.paged(&text)
        }
        if !ui.can_ask() {
            continue;
        }
        let left = items.len() - index - 1;
        if !decide(place, ui, run, item, left)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Asks what is to become of a task; returns false if the user quits.
fn decide(place: &Place, ui: &Ui, run: &Run, item: &Item, left: usize) -> Result<bool> {
    let question = format!("{} ({left} more): [a]ccept, send [b]ack, [n]ext, [q]uit?", item.task);
    loop {
        let Ok(choice) = ui.ask(&question, FLAGS) else { return Ok(false) };
        let done = match choice.to_ascii_lowercase().as_str() {
            "a" | "accept" => accept(place, ui, run, std::slice::from_ref(&item.task)),
            "b" | "back" => match ui.ask_text("What should be different?", FLAGS) {
                Ok(comment) if !comment.is_empty() => send_back(place, ui, run, &item.task, &comment),
                _ => continue,
            },
            "n" | "next" | "" => return Ok(true),
            "q" | "quit" => return Ok(false),
            _ => continue,
        };
        match done {
            Ok(_) => return Ok(true),
            // The review goes on: the user may skip the task.
            Err(error) => ui.print_error(error.message(), error.details(), error.what_to_do()),
        }
    }
}

fn accept(place: &Place, ui: &Ui, run: &Run, tasks: &[TaskId]) -> Result<ExitCode> {
    review::accept(place, run, tasks)?;
    if ui.json() {
        ui.data(&json!({ "accepted": tasks }).to_string());
    } else {
        tasks.iter().for_each(|task| ui.note(&format!("{task}: accepted")));
        offer_approval(place, ui, run)?;
    }
    Ok(ExitCode::Done)
}

/// Names the command that approves the level if all of its tasks are accepted. It approves what `run` has, which the user
/// was shown, not what waits by now.
fn offer_approval(place: &Place, ui: &Ui, run: &Run) -> Result<()> {
    let Some((level, candidate)) = run.awaiting_approval() else { return Ok(()) };
    let items = review::items(place, run, Some(level))?;
    if items.iter().all(|item| item.verdict == Some("accepted")) {
        let command = approval_command(run, level, candidate);
        ui.note(&format!("Every task of level {level} is accepted. Approve it: {command}"));
    }
    Ok(())
}

fn send_back(place: &Place, ui: &Ui, run: &Run, task: &TaskId, comment: &str) -> Result<ExitCode> {
    let sent_back = review::send_back(place, run, task, comment)?;
    let follow_up = match &sent_back {
        SentBack::Requeued => None,
        SentBack::FollowUp(id, level) => Some((id, level)),
    };
    if ui.json() {
        let data = json!({
            "task": task,
            "requeued": follow_up.is_none(),
            "follow_up": follow_up.map(|(id, level)| json!({ "task": id, "level": level })),
        });
        ui.data(&data.to_string());
        return Ok(ExitCode::Done);
    }
    let driven = control::is_at_work(place)?;
    let feature = &place.feature;
    match follow_up {
        None => ui.note(&format!("{task}: queued again with your comment")),
        Some((id, level)) => ui.note(&format!("{task} is merged: {id} on level {level} will change it")),
    }
    match (follow_up, driven) {
        (None, true) => {}
        (Some(_), true) => ui.note(&format!("After the current run has ended: mahabharatha run {feature}")),
        (_, false) => ui.note(&format!("Go on with: mahabharatha run {feature}")),
    }
    Ok(ExitCode::Done)
}
