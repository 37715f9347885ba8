//! What goes wrong in a schedule. Each schedule draws its own few kinds, and only so many in all: the world is fair in the end.

use crate::rng::Rng;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    JobFails,
    JobBlocks,
    JobCheckpoints,
    DiesEarly,
    DiesLate,
    NeverStarts,
    /// No sign of life any more, or one for ever.
    Hangs,
    /// The service behind the agents does not serve for a while.
    Outage,
    JobIsSlow,
    EventRepeated,
    StrayEvent,
    LateAnswer,
    SlowSlot,
    BadCommit,
    GateBreaks,
    VerificationFails,
    WrongBlame,
    RemedyFails,
    BaseMoves,
    BaseRewritten,
    Conflict,
    CheckoutInTheWay,
    EffectFails,
    DiskFull,
    ClockGoesBack,
    PersonAsks,
    /// Somebody does a task himself, or says that it is done.
    SessionAsks,
    SpuriousWake,
    OrchestratorDies,
    JobsDieToo,
    JobCalledOff,
    GraphChanges,
    StartMoves,
    OtherIntent,
    OtherPolicy,
}

const KINDS: usize = Fault::OtherPolicy as usize + 1;

/// Faults that show their worst together; a schedule may have one such set beside what it draws otherwise.
const THEMES: [&[Fault]; 10] = [
    &[Fault::StartMoves, Fault::PersonAsks, Fault::EffectFails, Fault::DiskFull],
    &[Fault::SessionAsks, Fault::OtherIntent, Fault::BadCommit, Fault::OrchestratorDies, Fault::GraphChanges],
    &[Fault::Outage, Fault::JobCheckpoints, Fault::BadCommit, Fault::RemedyFails, Fault::OrchestratorDies],
    &[Fault::BaseMoves, Fault::EventRepeated, Fault::LateAnswer, Fault::BadCommit, Fault::CheckoutInTheWay],
    &[Fault::JobFails, Fault::JobBlocks, Fault::JobCheckpoints, Fault::DiesLate, Fault::Hangs, Fault::PersonAsks],
    &[Fault::DiesEarly, Fault::NeverStarts, Fault::JobCalledOff, Fault::PersonAsks, Fault::BadCommit],
    &[Fault::BadCommit, Fault::VerificationFails, Fault::RemedyFails, Fault::JobCheckpoints, Fault::WrongBlame],
    &[Fault::BaseMoves, Fault::BaseRewritten, Fault::Conflict, Fault::CheckoutInTheWay, Fault::EventRepeated],
    &[Fault::OrchestratorDies, Fault::GraphChanges, Fault::OtherIntent, Fault::OtherPolicy, Fault::BadCommit],
    &[Fault::OrchestratorDies, Fault::JobsDieToo, Fault::EventRepeated, Fault::StrayEvent, Fault::JobIsSlow],
];

#[derive(Debug, Clone)]
pub struct Faults {
    left: u32,
    percent: [u64; KINDS],
}

impl Faults {
    pub fn random(rng: &mut Rng) -> Faults {
        let theme = THEMES.get(rng.index(2 * THEMES.len())).copied().unwrap_or_default();
        let mut percent = [0; KINDS];
        for odds in &mut percent {
            if rng.chance(25) {
                *odds = rng.one_of([2, 5, 20, 50, 90]);
            }
        }
        for fault in theme {
            percent[*fault as usize] = rng.one_of([5, 20, 50, 90]);
        }
        // What may strike at every step would otherwise use up all that may go wrong at one moment.
        for often in
            [Fault::OrchestratorDies, Fault::PersonAsks, Fault::StrayEvent, Fault::LateAnswer, Fault::SpuriousWake]
        {
            let odds = &mut percent[often as usize];
            *odds = (*odds).min(15);
        }
        let left = rng.one_of([0, 5, 20, 60, 120]);
        Faults { left, percent }
    }

    pub fn strikes(&mut self, fault: Fault, rng: &mut Rng) -> bool {
        let odds = self.percent[fault as usize];
        let strikes = odds > 0 && self.left > 0 && rng.chance(odds);
        self.left -= u32::from(strikes);
        strikes
    }
}
