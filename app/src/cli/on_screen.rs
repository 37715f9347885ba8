//! Opens the screen for `run`, `attach` and `status --watch`.

use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;

use crate::screen::{self, Left, Look, Purpose};

/// Shows the run on the whole terminal until the user leaves, or until the run ends if no key was pressed.
pub fn show(place: &Place, ui: &Ui, purpose: Purpose) -> Result<Left> {
    screen::show(place, Look::of(ui.has_colors(), std::env::var_os), purpose)
}
