//! The screen: a run on the whole terminal, with keys that control it.
//!
//! ```text
//! journal, slots, logs ─ feed ─▶ Data ─┐
//!                 keys ─────────▶ State ├─▶ render ─▶ lines ─▶ terminal (sys/ui)
//!     open task ─ detail ─────▶ Detail ─┘
//! ```
//!
//! Called by `run`, `attach` and `status --watch`. It only observes and must never act on a run itself: keys that
//! change the run call the same functions as the commands (`observe/action`).

mod data;
mod detail;
mod keys;
mod look;
mod render;
mod rows;
#[cfg(test)]
mod sample;
mod show;
mod state;
#[cfg(test)]
mod tests;
mod text;

pub use look::Look;
pub use show::{Left, Purpose, show};
