//! `status`: shows the progress of a feature.

use std::collections::BTreeMap;

use clap::Args;
use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, TaskId};
use mahabharatha_core::view::RunView;
use mahabharatha_engine::claude::tasks::{self, TaskList};
use mahabharatha_engine::containers;
use mahabharatha_engine::report::TICK_INTERVAL;
use mahabharatha_engine::report::logs::{LogFilter, read_logs};
use mahabharatha_engine::report::planned::planned_text;
use mahabharatha_engine::report::status::{ContainerView, Details, Show, status_text};
use mahabharatha_engine::report::text::cost_fact;
use mahabharatha_engine::session::{self, diagnosis};
use mahabharatha_engine::worker::JobSpec;
use mahabharatha_setup::planning::{self, ApprovalStatus};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::tree;
use mahabharatha_sys::store::watch::{self, Changes};
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::exit::ExitCode;
use super::{Global, on_screen, status_line};
use crate::observe::{Feed, planned, run_json, task_list};
use crate::screen::Purpose;

/// Lines shown of each worker's log.
const LOG_LINES: usize = 3;

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Keep showing it until the run ends
    #[arg(long)]
    watch: bool,
    /// With --watch: print text instead of opening the screen
    #[arg(long, requires = "watch")]
    plain: bool,
    /// Print one short line for a status line or a shell prompt; nothing if there is no run
    #[arg(long, conflicts_with = "watch")]
    line: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &StatusArgs) -> Result<ExitCode> {
    if args.line {
        return Ok(status_line::run(global, ui, args.feature.as_deref()));
    }
    let place = global.known_place(args.feature.as_deref())?;
    if !args.watch {
        ui.painted(&look(&place, ui, false)?.text);
        return Ok(ExitCode::Done);
    }
    if !args.plain && ui.can_open_screen() {
        on_screen::show(&place, ui, Purpose::Watch)?;
        return Ok(ExitCode::Done);
    }
    let list = tasks::list_of(&place.project, &place.feature).and_then(Result::ok);
    let mut changes: Option<Changes> = None;
    let mut shown = String::new();
    let mut waited = false;
    loop {
        if let (Some(changes), Some(dir)) = (&mut changes, list.as_ref().and_then(TaskList::dir)) {
            changes.watch_also(&dir);
        }
        let look = look(&place, ui, true)?;
        if look.text != shown {
            ui.screen(&look.text);
            shown = look.text;
        }
        if !(look.driven || look.awaits_run) || ui.reader_left() {
            return Ok(ExitCode::Done);
        }
        // The exit of a holder is watched from the time when there is one.
        changes = changes.filter(|_| look.awaits_run || !waited);
        waited = look.awaits_run;
        match &changes {
            Some(changes) => {
                changes.wait((ui.has_screen() && look.driven).then_some(TICK_INTERVAL));
            }
            // Start watching before the next look, so that no change is missed.
            None => {
                let mut watched = watch::feature_changes(place.paths.dir())?;
                if look.awaits_run {
                    watched.watch_also(place.paths.specs());
                }
                changes = Some(watched);
            }
        }
    }
}

struct Look {
    text: String,
    /// A process or session drives the run, so more changes follow.
    driven: bool,
    /// It is designed, and a watcher waits for its first run.
    awaits_run: bool,
}

/// Returns the status. For a screen, the most important part is first, since a screen cuts off the end.
fn look(place: &Place, ui: &Ui, watched: bool) -> Result<Look> {
    let Some(mut feed) = Feed::find(place)? else {
        let (text, is_designed) = not_run_yet(place, ui, watched)?;
        return Ok(Look { text, driven: false, awaits_run: watched && is_designed });
    };
    let mut data = if ui.json() { feed.read()? } else { feed.read_without_gates()? };
    let driven = data.driven;
    if ui.json() {
        let containers = ui.verbose().then(|| containers(place, &latest_jobs(place, &data.view), watched));
        let mut status = run_json(place, feed.run(), &mut data)?;
        if let Some(containers) = containers {
            status.fields["worktree_bytes"] = json!(worktree_bytes(place, watched));
            for shown in status.fields["workers"].as_array_mut().into_iter().flatten() {
                let worker = shown["id"].as_u64().and_then(|id| u32::try_from(id).ok());
                shown["container"] = json!(worker.and_then(|worker| containers.get(&worker)));
            }
        }
        let text = status.to_string();
        if !watched {
            leave_to_system(status);
            leave_to_system((feed, data));
        }
        return Ok(Look { text, driven, awaits_run: false });
    }
    let view = &data.view;
    let details = ui.verbose().then(|| details(place, view, watched)).transpose()?;
    let list = task_list(place, view, feed.run(), driven);
    let show = Show {
        now: session::now(),
        list: list.as_ref(),
        doing: &data.doing,
        gate: data.gate.as_ref(),
        details: details.as_ref(),
        columns: ui.columns(),
        for_screen: watched && ui.has_screen(),
        paint: ui.paint(),
    };
    let mut text = status_text(view, show);
    let approval_status = planning::approval_status(&place.project, &place.paths)?;
    if approval_status == ApprovalStatus::Changed {
        text.push_str(&format!("\nRequirements: {approval_status}.\n"));
    }
    if let Some((lost, next)) = diagnosis::merge_lost(&place.project, feed.run())? {
        text.push_str(&format!("\n{lost}.\n{next}\n"));
    }
    text.push_str(&setup_line(place.project.setup_cost()?));
    if !watched {
        leave_to_system((feed, data));
    }
    Ok(Look { text, driven, awaits_run: false })
}

/// Does not free memory that the end of the process frees at once: for 10,000 tasks that takes an eighth of the time.
fn leave_to_system<T>(value: T) {
    std::mem::forget(value);
}

/// Formats a feature that is planned or designed, and tells whether it is designed; an error if nothing is known about it.
fn not_run_yet(place: &Place, ui: &Ui, watched: bool) -> Result<(String, bool)> {
    let mut planned = planned(place)?;
    let is_designed = planned.is_designed();
    if ui.json() {
        return Ok((planned.json(place)?.to_string(), is_designed));
    }
    let requirements = planned.requirements.map(|status| status.to_string());
    let text = planned_text(&planned.view, requirements.as_deref(), &planned.next(), ui.columns(), ui.paint());
    let waits = if watched && is_designed { format!("\n{}\n", waiting_line(place)) } else { String::new() };
    Ok((text + &setup_line(place.project.setup_cost()?) + &waits, is_designed))
}

/// Says that a command which follows a run waits for the first one.
pub fn waiting_line(place: &Place) -> String {
    let feature = &place.feature;
    format!("{feature} has not run yet; waiting for `mahabharatha run {feature}` (Ctrl-C ends the wait)")
}

/// Formats the cost that is not charged to a feature yet; empty if there is none.
fn setup_line(setup: Cost) -> String {
    let line = |cost| format!("\nNot charged to a feature yet (init --agent, features that were given up): {cost}.\n");
    cost_fact(setup).map(line).unwrap_or_default()
}

/// Returns the job of each worker's latest attempt.
fn latest_jobs(place: &Place, view: &RunView) -> BTreeMap<u32, JobSpec> {
    let attempts = view.tasks.iter().flat_map(|task| task.attempts.iter().map(move |attempt| (&task.id, attempt)));
    let mut latest: Vec<_> = attempts.collect();
    latest.sort_by_key(|(_, attempt)| attempt.started_at);
    let job = |task: &TaskId, attempt: u32| JobSpec::read(&place.paths.job(task, Attempt(attempt))).ok();
    latest.into_iter().filter_map(|(task, attempt)| Some((attempt.worker, job(task, attempt.attempt)?))).collect()
}

/// Returns each worker's container, if it has one. Its usage is left out under `--watch`: the engine needs a second to
/// measure it.
fn containers(place: &Place, jobs: &BTreeMap<u32, JobSpec>, watched: bool) -> BTreeMap<u32, ContainerView> {
    let in_containers = jobs.iter().filter(|(_, spec)| spec.confinement.isolation == Isolation::Container);
    let name =
        |spec: &JobSpec| containers::name_of(&place.project, &place.feature, &containers::slot_of(spec.job.worker));
    let named: BTreeMap<u32, String> = in_containers.map(|(worker, spec)| (*worker, name(spec))).collect();
    let measured = if watched { Vec::new() } else { named.values().cloned().collect() };
    let usage = containers::usage(place.paths.dir(), measured);
    let view = |name: String| ContainerView { usage: usage.get(&name).copied(), name };
    named.into_iter().map(|(worker, name)| (worker, view(name))).collect()
}

/// Returns the disk space of the feature's worktrees; none under `--watch`, since it takes a look at every file.
fn worktree_bytes(place: &Place, watched: bool) -> Option<u64> {
    (!watched).then(|| tree::disk_bytes(&place.paths.worktrees()))
}

/// Returns more about each worker: ports and container of its latest job, and the end of its log.
fn details(place: &Place, view: &RunView, watched: bool) -> Result<Details> {
    let jobs = latest_jobs(place, view);
    let containers = containers(place, &jobs, watched);
    let ports = jobs.into_iter().map(|(worker, spec)| (worker, spec.ports)).collect();
    let worktree_bytes = worktree_bytes(place, watched);
    let work = session::saved_work(place, view)?;
    let mut details = Details { ports, containers, worktree_bytes, work, ..Details::default() };
    let dir = place.paths.logs();
    for record in read_logs(&dir, &LogFilter::default()).map_err(io("read", &dir))?.records {
        if let Some(worker) = record.worker {
            let tail = details.logs.entry(worker).or_default();
            tail.push(record);
            if tail.len() > LOG_LINES {
                tail.remove(0);
            }
        }
    }
    Ok(details)
}
