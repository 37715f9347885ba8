//! Follows a run that another process drives, from its journal. Must never change anything of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use mahabharatha_core::ids::Time;
use mahabharatha_core::run::{End, Run};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::signals;
use mahabharatha_sys::store::journal::{self, News};
use mahabharatha_sys::store::watch;
use mahabharatha_sys::ui::Ui;

use super::control;
use crate::report::log_lines::LogLines;
use crate::report::running_gate::RunningGate;
use crate::report::stream::Stream;
use crate::report::{Display, files};

/// Poll interval for the progress of the running gate, while there is a screen to show it, and for the end of the process.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How following a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    Ended(End),
    /// The user or the reader of the output left; the run goes on.
    Left,
    /// The process that drove the run is gone, and the run has not ended.
    Died,
}

/// Shows what a run does until it ends, as the process that drives it shows it. With `streams` prints events for programs.
pub fn follow(place: &Place, ui: &Arc<Ui>, streams: bool) -> Result<Followed> {
    let changes = watch::feature_changes(place.paths.dir())?;
    let left = Arc::new(AtomicBool::new(false));
    let (leaves, wake) = (Arc::clone(&left), changes.waker());
    signals::listen(move |_, _| {
        leaves.store(true, Ordering::Relaxed);
        wake();
    })?;
    ui.note(&format!("following {}; Ctrl-C leaves it running", place.feature));
    let mut follower = Follower::start(place, Display::start(ui, streams))?;
    let followed = loop {
        // Read first: if no process drives the run, what is read below is final.
        let driven = control::is_driven(place)?;
        follower.read_on()?;
        match follower.run.ended() {
            _ if left.load(Ordering::Relaxed) || ui.reader_left() => break Followed::Left,
            Some(end) if !driven => break Followed::Ended(end.clone()),
            None if !driven => break Followed::Died,
            // After the end another process, such as `stop`, may hold the feature for a moment, and changes no file then.
            end => {
                changes.wait((ui.has_screen() || end.is_some()).then_some(POLL_INTERVAL));
            }
        }
    };
    follower.display.finish();
    Ok(followed)
}

struct Follower<'a> {
    place: &'a Place,
    run: Run,
    journal: journal::Follower,
    /// Number of the journal's records that were shown.
    seen: usize,
    log_lines: LogLines,
    stream: Option<Stream>,
    display: Display,
}

impl Follower<'_> {
    fn start(place: &Place, display: Display) -> Result<Follower<'_>> {
        let (journal, records) = journal::Follower::start(&place.paths.journal())?;
        let run = super::rebuild(&place.paths, &records)?.ok_or_else(|| control::no_run(place))?;
        let stream = display.streams().then(|| {
            let (stream, first) = Stream::open(&run);
            display.event(first);
            stream
        });
        let mut log_lines = LogLines::of(&run);
        records.iter().for_each(|record| log_lines.recall(&record.event));
        Ok(Follower { place, log_lines, run, journal, seen: records.len(), stream, display })
    }

    /// Shows what the journal has gained.
    fn read_on(&mut self) -> Result<()> {
        let records = match self.journal.read()? {
            News::Records(new) => new,
            // Put back after a program changed it, so that what was shown is in it.
            News::Replaced(all) => all.into_iter().skip(self.seen).collect(),
        };
        self.seen += records.len();
        for record in &records {
            self.run.step(record.at, &record.event);
            for line in self.log_lines.tell(&record.event, &self.run) {
                self.display.line(line);
            }
            let events = self.stream.as_mut().map(|stream| stream.lines(&record.event, &self.run));
            events.into_iter().flatten().for_each(|event| self.display.event(event));
        }
        let view = files::view(&self.place.paths, &self.run).unwrap_or_else(|_| RunView::of(&self.run));
        self.display.update(view);
        let now = Time(Timestamp::now().as_millisecond());
        self.display.gate(RunningGate::find(&self.place.paths)?.map(|gate| gate.progress(now)));
        Ok(())
    }
}
