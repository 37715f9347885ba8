//! Faults of a schedule. Each schedule draws a few kinds and a limited number of faults, so that every run can complete.

use crate::rng::Rng;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    JobFails,
    JobBlocks,
    JobCheckpoints,
    DiesEarly,
    DiesLate,
    NeverStarts,
    /// The worktree cannot be set up.
    SetupFails,
    /// Loses its heartbeat, or never ends.
    Hangs,
    /// The API limit is hit for a while.
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
    FixFails,
    BaseMoves,
    BaseRewritten,
    Conflict,
    CheckoutInTheWay,
    /// The repository loses a commit of a task, or what is staged.
    ObjectsLost,
    /// Someone changes a file of an early task on the base branch.
    FilesOutdated,
    EffectFails,
    DiskFull,
    ClockGoesBack,
    PersonAsks,
    /// A session claims a task or reports it done.
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

/// Faults that are worst in combination; a schedule may have one such set in addition.
const THEMES: [&[Fault]; 11] = [
    &[Fault::VerificationFails, Fault::FilesOutdated, Fault::PersonAsks, Fault::BadCommit, Fault::JobIsSlow],
    &[Fault::StartMoves, Fault::PersonAsks, Fault::EffectFails, Fault::DiskFull, Fault::ObjectsLost, Fault::SetupFails],
    &[Fault::SessionAsks, Fault::OtherIntent, Fault::BadCommit, Fault::OrchestratorDies, Fault::GraphChanges],
    &[Fault::Outage, Fault::JobCheckpoints, Fault::BadCommit, Fault::FixFails, Fault::OrchestratorDies],
    &[Fault::BaseMoves, Fault::EventRepeated, Fault::LateAnswer, Fault::BadCommit, Fault::CheckoutInTheWay],
    &[Fault::JobFails, Fault::JobBlocks, Fault::JobCheckpoints, Fault::DiesLate, Fault::Hangs, Fault::PersonAsks],
    &[Fault::DiesEarly, Fault::NeverStarts, Fault::JobCalledOff, Fault::PersonAsks, Fault::BadCommit],
    &[Fault::BadCommit, Fault::VerificationFails, Fault::FixFails, Fault::JobCheckpoints, Fault::WrongBlame],
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
        // Otherwise faults that can strike at every step would use up the whole number at once.
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
