//! What the screen, the page and the reading commands share: a run as it goes on, a feature's status, and what a user can
//! do to a run. It only looks on; actions call the same functions as the commands.

mod action;
mod data;
mod features;
mod feed;
mod output;
mod status;

pub use action::Action;
pub use data::{Data, progress};
pub use features::features;
pub use feed::Feed;
pub use output::{OutputKind, OutputLine, TAIL_BYTES, cut_line, is_output, leaves_out, output_lines};
pub use status::{Planned, planned, run_json, task_list};
