//! The main loop: append durably, then decide, then act. The real and the simulated host use the same.

use super::effect::{Effect, EffectId};
use super::event::Event;
use super::state::{End, Run};
use crate::ids::Time;

/// Stores events. `append` returns when the event is durable.
pub trait Journal {
    type Error;
    fn append(&mut self, now: Time, event: &Event) -> Result<(), Self::Error>;
}

/// Carries out effects and reports events.
pub trait Host {
    fn now(&self) -> Time;
    /// Starts an effect that the run has just decided.
    fn begin(&mut self, id: EffectId, effect: &Effect, run: &Run);
    /// Finds out what became of an effect that an earlier process may have begun: done, alive, or to be begun.
    fn reconcile(&mut self, id: EffectId, effect: &Effect, run: &Run);
    /// Waits for the next event; returns `Woke` when the run's next wakeup has come. Where the run does not integrate, lets
    /// other features do so.
    fn next(&mut self, run: &Run) -> Event;
}

/// Drives a started or resumed run until it ends.
pub fn drive<J: Journal>(run: &mut Run, journal: &mut J, host: &mut impl Host) -> Result<End, J::Error> {
    take_over(run, host);
    loop {
        if let Some(end) = turn(run, journal, host)? {
            return Ok(end);
        }
    }
}

/// Has the host reconcile every outstanding effect.
pub fn take_over(run: &Run, host: &mut impl Host) {
    for (id, effect) in run.outstanding() {
        host.reconcile(id, effect, run);
    }
}

/// Handles one event; returns how the run ended, if it has.
pub fn turn<J: Journal>(run: &mut Run, journal: &mut J, host: &mut impl Host) -> Result<Option<End>, J::Error> {
    if run.ended().is_none() {
        let event = host.next(run);
        happen(run, journal, host, &event)?;
    }
    Ok(run.ended().cloned())
}

/// Records an event and has the host act on what it leads to.
pub fn happen<J: Journal>(run: &mut Run, journal: &mut J, host: &mut impl Host, event: &Event) -> Result<(), J::Error> {
    for (id, effect) in record(run, journal, host.now(), event)? {
        host.begin(id, &effect, run);
    }
    Ok(())
}

/// Appends the start of a run to the journal; returns the event.
pub fn record_start<J: Journal>(run: &Run, journal: &mut J) -> Result<Event, J::Error> {
    let started = Event::Started(Box::new(run.setup().clone()));
    journal.append(run.started_at(), &started)?;
    Ok(started)
}

/// Appends an event to the journal, then lets the run decide; returns the effects to begin. The only place that does both.
pub fn record<J: Journal>(
    run: &mut Run,
    journal: &mut J,
    now: Time,
    event: &Event,
) -> Result<Vec<(EffectId, Effect)>, J::Error> {
    journal.append(now, event)?;
    Ok(run.step(now, event))
}

/// Rebuilds the run from its journal; none if the journal is empty.
pub fn replay<'a>(records: impl IntoIterator<Item = (Time, &'a Event)>) -> Result<Option<Run>, String> {
    let mut run: Option<Run> = None;
    for (now, event) in records {
        match (&mut run, event) {
            (None, Event::Started(setup)) => run = Some(Run::start(now, setup)?),
            (None, _) => return Err("the journal does not begin with the start of a run".to_string()),
            (Some(run), event) => {
                run.step(now, event);
            }
        }
    }
    Ok(run)
}
