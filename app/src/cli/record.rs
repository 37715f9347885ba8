//! What `run` leaves for other programs when it ends: a JUnit file and an OpenTelemetry trace, both from the journal.

use std::path::Path;

use mahabharatha_core::ids::Time;
use mahabharatha_engine::report::junit::junit;
use mahabharatha_engine::report::trace::{self, Part};
use mahabharatha_engine::{session, specs};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;

/// Fails if the file could not be written after the run.
pub fn check_junit(file: &Path) -> Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() || file.file_name().is_none() || !dir.is_dir() {
        let message = format!("--junit: {} cannot be written", file.display());
        return Err(Error::new(Kind::Usage, message).hint("Name a file in a directory that exists."));
    }
    Ok(())
}

/// Writes the JUnit file of a command that ran a feature, also if it failed.
pub fn write_junit(place: &Place, file: &Path, result: &Result<ExitCode>) -> Result<()> {
    let records = Journal::read(&place.paths.journal())?;
    let run = session::rebuild(&place.paths, &records)?;
    let gates = specs::load_config(&place.project).map(|config| config.quality_gates).unwrap_or_default();
    let error = result.as_ref().err().map(Error::message);
    let text = junit(run.as_ref(), records.iter().map(|record| &record.event), &gates, error);
    let file = std::path::absolute(file).map_err(io("write", file))?;
    write_atomic(&file, text.as_bytes())
}

/// Sends a trace of what happened since, if the environment names a collector. A failure is a warning.
pub fn send_trace(place: &Place, ui: &Ui, since: Time) {
    let send = || -> Result<Option<String>> {
        let records = Journal::read(&place.paths.journal())?;
        let Some(run) = session::rebuild(&place.paths, &records)? else { return Ok(None) };
        let config = specs::load_config(&place.project)?;
        let events: Vec<_> =
            records.iter().filter(|record| record.at >= since).map(|record| (record.at, &record.event)).collect();
        Ok(trace::send(&Part { run: &run, events: &events, config: &config }))
    };
    if !trace::is_wanted() {
        return;
    }
    match send() {
        Ok(warning) => warning.iter().for_each(|warning| ui.warn(warning)),
        Err(error) => ui.warn(&format!("no trace was sent: {error}")),
    }
}
