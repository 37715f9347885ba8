//! `logs`: what workers and tasks logged.

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Global;
use crate::error::{Error, ExitCode, Result, io};
use crate::report::logs::{LogFilter, LogLevel, parse_since, read_logs, render_record};
use crate::store::watch;
use crate::ui::Ui;

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Only what this worker did
    #[arg(long, value_name = "N")]
    worker: Option<u32>,
    /// Only what was done for this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Go on showing what comes
    #[arg(long)]
    follow: bool,
    /// Only what is newer: a time, or a length such as 10m
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Only this level and above
    #[arg(long, value_name = "LEVEL", value_enum)]
    level: Option<LogLevel>,
    /// Only lines that contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

pub fn run(global: &Global, ui: &Ui, args: &LogsArgs) -> Result<ExitCode> {
    let place = global.place(None)?;
    let zone = TimeZone::system();
    let since = match &args.since {
        Some(text) => Some(parse_since(text, Timestamp::now(), &zone).map_err(|why| Error::new(ExitCode::Usage, format!("--since: {why}")))?),
        None => None,
    };
    let mut filter = LogFilter {
        worker: args.worker,
        task: args.task.clone(),
        since,
        level: args.level.unwrap_or_default(),
        search: args.search.clone(),
    };
    let dir = place.paths.logs();
    let changes = if args.follow { Some(watch::changes(&dir)?) } else { None };
    let mut shown = 0;
    loop {
        let logs = read_logs(&dir, &filter).map_err(io("read", &dir))?;
        // Records are merged by time; what was shown before is a beginning of what is there now.
        for record in logs.records.iter().skip(shown) {
            if ui.json() {
                ui.data(&record.to_line().unwrap_or_default());
            } else {
                ui.data(&render_record(record, &zone, ui.paint()));
            }
        }
        if logs.unreadable > 0 && shown == 0 {
            ui.warn(&format!("{} lines could not be read", logs.unreadable));
        }
        match &changes {
            Some(changes) if !ui.reader_left() => changes.wait(),
            _ => return Ok(ExitCode::Done),
        }
        if let Some(last) = logs.records.last() {
            shown = logs.records.iter().filter(|record| record.ts == last.ts).count();
            filter.since = Some(last.ts);
        }
    }
}
