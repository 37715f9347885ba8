//! Reads a run as it goes on: the journal as far as it is new, the files of workers and gates.

use mahabharatha_core::run::Run;
use mahabharatha_engine::report::gate_runs::GateRuns;
use mahabharatha_engine::report::running_gate::RunningGate;
use mahabharatha_engine::session::{self, control, live};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::{Follower, News};

use super::data::Data;

pub struct Feed {
    place: Place,
    run: Run,
    journal: Follower,
    /// Length of the journal when it was last read.
    bytes: u64,
    gates: GateRuns,
}

impl Feed {
    /// Opens the feed of a run; none if there has been no run.
    pub fn find(place: &Place) -> Result<Option<Feed>> {
        let bytes = length(place);
        let (journal, records) = Follower::start(&place.paths.journal())?;
        let feed = |run| Feed { place: place.clone(), run, journal, bytes, gates: GateRuns::default() };
        Ok(session::rebuild(&place.paths, &records)?.map(feed))
    }

    /// Returns the run as it is now.
    pub fn read(&mut self) -> Result<Data> {
        let mut data = self.read_run()?;
        self.look_at_slots(&mut data)?;
        Ok(data)
    }

    /// Returns the run as it is now, without the gates that have run: each has a log that must be read.
    pub fn read_without_gates(&mut self) -> Result<Data> {
        let mut data = self.read_run()?;
        self.look_at_workers(&mut data, RunningGate::find(&self.place.paths)?);
        Ok(data)
    }

    fn read_run(&mut self) -> Result<Data> {
        // Read first: if no process drives the run, what is read below is final.
        let driven = control::is_at_work(&self.place)?;
        self.read_journal()?;
        let view = control::view(&self.place, &self.run, driven)?;
        Ok(Data::new(view, driven))
    }

    /// Brings the data up to date. While nothing happens, only what workers and gates do is read.
    pub fn refresh(&mut self, data: &mut Data) -> Result<()> {
        let driven = control::is_at_work(&self.place)?;
        if driven && data.driven && length(&self.place) == self.bytes {
            return self.look_at_slots(data);
        }
        *data = self.read()?;
        Ok(())
    }

    fn read_journal(&mut self) -> Result<()> {
        let bytes = length(&self.place);
        if bytes == self.bytes {
            return Ok(());
        }
        match self.journal.read()? {
            News::Records(new) => new.iter().for_each(|record| drop(self.run.step(record.at, &record.event))),
            News::Replaced(records) => {
                let run = session::rebuild(&self.place.paths, &records)?;
                self.run = run.ok_or_else(|| control::no_run(&self.place))?;
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    fn look_at_slots(&mut self, data: &mut Data) -> Result<()> {
        let running = RunningGate::find(&self.place.paths)?;
        data.gates = self.gates.read(&self.place.paths, running.as_ref());
        self.look_at_workers(data, running);
        Ok(())
    }

    fn look_at_workers(&self, data: &mut Data, running: Option<RunningGate>) {
        data.doing = live::doing(&self.place.paths, &data.view);
        data.gate = running.map(|gate| gate.progress(session::now()));
    }

    /// Returns the run as far as it was read.
    pub fn run(&self) -> &Run {
        &self.run
    }
}

fn length(place: &Place) -> u64 {
    std::fs::metadata(place.paths.journal()).map_or(0, |found| found.len())
}
