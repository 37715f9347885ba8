//! `attach`: follows a run that another process drives, and ends as it ends.

use std::sync::Arc;

use clap::Args;
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session::attach::{Followed, follow};
use mahabharatha_engine::session::control;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;
use super::finish::{Driver, end_stream, finish};

#[derive(Debug, Args)]
#[command(after_help = "Ctrl-C leaves the run going. The exit code is that of the run; 0 if you left.")]
pub struct AttachArgs {
    /// The feature
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &AttachArgs) -> Result<ExitCode> {
    let result = global.known_place(args.feature.as_deref()).and_then(|place| attach(&place, ui));
    end_stream(ui, ui.json(), &result);
    result
}

/// Follows the run; one that is not running is reported as its process reported it.
pub fn attach(place: &Place, ui: &Arc<Ui>) -> Result<ExitCode> {
    let feature = &place.feature;
    if !control::is_driven(place)? {
        return not_running(place, ui);
    }
    match follow(place, ui, ui.json())? {
        Followed::Ended(end) => finish(place, ui, &end, Driver::Run),
        Followed::Died => Err(died(place)),
        Followed::Left => {
            ui.note(&format!(
                "{feature} goes on; follow it with `mahabharatha attach {feature}`, end it with `mahabharatha stop {feature}`"
            ));
            Ok(ExitCode::Done)
        }
    }
}

fn not_running(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let run = control::read_run(place)?;
    if let Some(lease) = Lease::driving(place.paths.dir()) {
        let message = format!("no process drives {}: session {} does its tasks", place.feature, lease.session);
        return Err(Error::new(Kind::Held, message).hint("Watch it with `mahabharatha status --watch`."));
    }
    ui.note(&format!("{} is not running", place.feature));
    match run.ended() {
        Some(end) => finish(place, ui, end, Driver::Run),
        None => Err(died(place)),
    }
}

fn died(place: &Place) -> Error {
    Error::new(Kind::Paused, format!("{} is paused: the process that drove it is gone", place.feature))
        .hint(format!("Go on with: mahabharatha run {}", place.feature))
}
