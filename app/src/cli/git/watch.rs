//! `git ship --watch`: does the follow-ups that the pull request gives rise to, and ships them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mahabharatha_core::run::event::Intent;
use mahabharatha_engine::session::Options;
use mahabharatha_engine::ship::{GitHub, ShipOptions, Shipment, watch};
use mahabharatha_sys::error::{Kind, Result};
use mahabharatha_sys::interrupt;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

use super::super::exit::ExitCode;
use super::super::run as run_command;
use super::hold;

/// Times in a row that GitHub may fail to answer.
const MAX_FAILURES: u32 = 5;

pub struct Watch<'a> {
    pub place: &'a Place,
    pub ui: &'a Arc<Ui>,
    pub options: &'a ShipOptions,
    pub interval: Duration,
}

impl Watch<'_> {
    /// Runs what is left of the feature, such as follow-ups of a watch that was stopped.
    pub fn run(&self) -> Result<ExitCode> {
        let options = Options { streams: self.ui.json(), ..Options::new(Intent::Complete) };
        interrupt::left_to_run(|| run_command::drive(self.place, self.ui, &options))
    }

    /// Watches the pull request until it is merged or closed.
    pub fn watch(&self, github: &GitHub, number: u64, mut shipment: Shipment) -> Result<ExitCode> {
        let Watch { place, ui, options, interval } = *self;
        let (mut told, mut failures) = (BTreeSet::new(), 0);
        ui.note(&format!("Watching pull request {number} until it is merged or closed."));
        loop {
            match self.look(github, number, &shipment) {
                Ok(None) => return Ok(ExitCode::Done),
                Ok(Some(seen)) => {
                    failures = 0;
                    for (source, why) in seen.left {
                        if told.insert(source.clone()) {
                            ui.warn(&format!("{source} is left to you: {why}"));
                        }
                    }
                    if !seen.added.is_empty() {
                        ui.note(&format!("New tasks from pull request {number}: {}", seen.added.join(", ")));
                        self.run()?;
                        let _lock = hold(place)?;
                        shipment = Shipment::of_feature(place, options)?;
                        shipment.push(&place.project)?;
                        ui.note(&format!("Pushed {} to {}.", shipment.commit.short(), shipment.branch));
                        continue;
                    }
                }
                Err(error) if error.kind() != Kind::Stopped && failures + 1 < MAX_FAILURES => {
                    failures += 1;
                    ui.warn(&format!("{error}; trying again in {} s", interval.as_secs()));
                }
                Err(error) => return Err(error),
            }
            if !interrupt::sleep(interval) {
                return Ok(ExitCode::Stopped);
            }
        }
    }

    /// Looks at the pull request once; returns none if it is no longer open.
    fn look(&self, github: &GitHub, number: u64, shipment: &Shipment) -> Result<Option<watch::Seen>> {
        let state = github.state(number)?.state;
        if state != "OPEN" {
            self.ui.note(&format!("Pull request {number} is {}.", state.to_lowercase()));
            return Ok(None);
        }
        let _lock = hold(self.place)?;
        watch::look(self.place, github, number, shipment).map(Some)
    }
}
