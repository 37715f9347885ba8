//! `attach`: follows a run that another process drives, and ends as it ends.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mahabharatha_core::run::End;
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session::attach::{Followed, follow};
use mahabharatha_engine::session::control;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::watch;
use mahabharatha_sys::ui::Ui;

use crate::observe::planned;
use crate::screen::{Left, Purpose};

use super::exit::ExitCode;
use super::finish::{Driver, end_stream, finish};
use super::status::waiting_line;
use super::{Global, on_screen};

/// Poll interval for the end of the output's reader while there is no run.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "q or Ctrl-C leaves the run going. The exit code is that of the run; 0 if you left.")]
pub struct AttachArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Print lines instead of opening the screen
    #[arg(long)]
    plain: bool,
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &AttachArgs) -> Result<ExitCode> {
    let result = global.known_place(args.feature.as_deref()).and_then(|place| attach(&place, ui, args.plain));
    end_stream(ui, ui.json(), &result);
    result
}

/// Follows the run; one that is not running is reported as its process reported it. On a terminal this is the screen.
pub fn attach(place: &Place, ui: &Arc<Ui>, plain: bool) -> Result<ExitCode> {
    let is_driven = control::is_driven(place)?;
    if !is_driven && let Some(lease) = Lease::driving(place.paths.dir()) {
        let message = format!("no process drives {}: session {} does its tasks", place.feature, lease.session);
        return Err(Error::new(Kind::Held, message).hint("Watch it with `mahabharatha status --watch`."));
    }
    let has_screen = !plain && ui.can_open_screen();
    // The screen shows the design before the first run.
    if !has_screen && Journal::read(&place.paths.journal())?.is_empty() {
        if !has_begun(place, ui)? {
            return Ok(ExitCode::Done);
        }
        return attach(place, ui, plain);
    }
    if has_screen {
        return match on_screen::show(place, ui, Purpose::Watch)? {
            Left::Going => Ok(goes_on(place, ui)),
            Left::Over(end) => over(place, ui, end.as_ref()),
            Left::NotRun => Ok(ExitCode::Done),
        };
    }
    if !is_driven {
        return not_running(place, ui);
    }
    match follow(place, ui, ui.json())? {
        Followed::Ended(end) => finish(place, ui, &end, Driver::Run),
        Followed::Died => Err(died(place)),
        Followed::Left => Ok(goes_on(place, ui)),
    }
}

/// Waits for the first run of a designed feature; returns whether it has begun, or else the reader has left.
fn has_begun(place: &Place, ui: &Ui) -> Result<bool> {
    if !planned(place)?.is_designed() {
        return Err(control::no_run(place));
    }
    ui.note(&waiting_line(place));
    let changes = watch::feature_changes(place.paths.dir())?;
    while Journal::read(&place.paths.journal())?.is_empty() {
        if ui.reader_left() {
            return Ok(false);
        }
        changes.wait(Some(POLL_INTERVAL));
    }
    Ok(true)
}

/// Tells a user who detaches that the run continues.
pub fn goes_on(place: &Place, ui: &Ui) -> ExitCode {
    let feature = &place.feature;
    ui.note(&format!(
        "{feature} goes on; follow it with `mahabharatha attach {feature}`, end it with `mahabharatha stop {feature}`"
    ));
    ExitCode::Done
}

fn not_running(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let run = control::read_run(place)?;
    ui.note(&format!("{} is not running", place.feature));
    over(place, ui, run.ended())
}

/// Reports how the run ended.
pub fn over(place: &Place, ui: &Ui, end: Option<&End>) -> Result<ExitCode> {
    match end {
        Some(end) => finish(place, ui, end, Driver::Run),
        None => Err(died(place)),
    }
}

fn died(place: &Place) -> Error {
    Error::new(Kind::Paused, format!("{} is paused: the process that drove it is gone", place.feature))
        .hint(format!("Go on with: mahabharatha run {}", place.feature))
}
