//! `logs`: shows the logs of workers, tasks and gates.

use std::collections::BTreeSet;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mahabharatha_core::ids::{TaskId, WorkerId};
use mahabharatha_core::names::suggestion;
use mahabharatha_engine::report::logs::{LogFilter, LogLevel, Logs, Tail, parse_since, read_logs, render_record};
use mahabharatha_engine::report::text::count;
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::watch;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Only this worker
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Only this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only the output of this gate, of all its runs
    #[arg(long, value_name = "NAME")]
    gate: Option<String>,
    /// Keep showing new lines
    #[arg(long)]
    follow: bool,
    /// Only lines since this time, or since a duration such as 10m ago
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Only this severity and above
    #[arg(long, value_name = "LEVEL", value_enum)]
    level: Option<LogLevel>,
    /// Only lines that contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

pub fn run(global: &Global, ui: &Ui, args: &LogsArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let zone = TimeZone::system();
    let since = match &args.since {
        Some(text) => Some(
            parse_since(text, Timestamp::now(), &zone)
                .map_err(|why| Error::new(Kind::Usage, format!("--since: {why}")))?,
        ),
        None => None,
    };
    let filter = LogFilter {
        worker: args.worker,
        task: args.task.clone(),
        gate: args.gate.clone(),
        since,
        level: args.level.unwrap_or_default(),
        search: args.search.clone(),
    };
    if let Some(task) = &args.task {
        check_task(&place, task)?;
    }
    if let Some(worker) = args.worker {
        check_worker(&place, WorkerId(worker))?;
    }
    let dir = place.paths.logs();
    if args.follow {
        args.gate.as_deref().map_or(Ok(()), |gate| check_gate(&place, gate))?;
        return follow(ui, &zone, Tail::new(&dir, filter));
    }
    let logs = read_logs(&dir, &filter).map_err(io("read", &dir))?;
    if let Some(gate) = args.gate.as_deref().filter(|_| logs.records.is_empty()) {
        check_gate(&place, gate)?;
    }
    print(ui, &zone, &logs);
    if logs.records.is_empty() {
        let feature = &place.feature;
        let nothing = if dir.exists() { "no matching log lines for" } else { "there are no logs yet of" };
        ui.note(&format!("{nothing} {feature}"));
    }
    Ok(ExitCode::Done)
}

/// Refuses a task that is neither in the run's graph nor has a log, as one that was dropped from the graph does.
fn check_task(place: &Place, task: &str) -> Result<()> {
    let Some(run) = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)? else { return Ok(()) };
    let is_known = TaskId::new(task).is_ok_and(|id| run.task(&id).is_some() || place.paths.task_log(&id).exists());
    if is_known { Ok(()) } else { Err(control::no_such_task(&run, task)) }
}

/// Refuses a worker that the run does not have and that has no log, as one of an earlier run may have.
fn check_worker(place: &Place, worker: WorkerId) -> Result<()> {
    if place.paths.worker_log(worker).exists() {
        return Ok(());
    }
    let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    run.map_or(Ok(()), |run| control::check_worker(&run, worker))
}

/// Refuses a gate that is neither configured nor has a log.
fn check_gate(place: &Place, gate: &str) -> Result<()> {
    let dir = place.paths.logs();
    let logged = read_logs(&dir, &LogFilter::default()).map_err(io("read", &dir))?;
    let mut known: BTreeSet<String> = logged.records.into_iter().filter_map(|record| record.gate).collect();
    known.extend(specs::load_config(&place.project)?.quality_gates.into_iter().map(|gate| gate.name));
    if known.contains(gate) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(Error::new(Kind::Usage, format!("{} has no gate {gate}", place.feature))
        .hint(suggestion(gate, "gates", &known)))
}

/// Prints new records until the output is closed or the user cancels.
fn follow(ui: &Ui, zone: &TimeZone, mut tail: Tail) -> Result<ExitCode> {
    let changes = watch::changes(tail.directory())?;
    while !ui.reader_left() {
        let logs = tail.read_on().map_err(io("read", tail.directory()))?;
        print(ui, zone, &logs);
        changes.wait(None);
    }
    Ok(ExitCode::Done)
}

fn print(ui: &Ui, zone: &TimeZone, logs: &Logs) {
    for record in &logs.records {
        if ui.json() {
            ui.data(&record.to_line().unwrap_or_default());
        } else {
            ui.painted(&render_record(record, zone, ui.paint()));
        }
    }
    for incomplete in &logs.incomplete {
        ui.warn(incomplete);
    }
    if logs.unreadable > 0 {
        ui.warn(&format!("{} could not be read", count(logs.unreadable, "line")));
    }
}
