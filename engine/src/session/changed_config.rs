//! Detects that the configuration changed since the run began.

use mahabharatha_core::config::Config;
use mahabharatha_core::run::Run;
use mahabharatha_sys::error::{Error, Kind, Result};

use crate::report::Display;

/// Fails if the configuration changes what the run executes or believes, unless the user accepts that. Prints what is
/// accepted.
pub fn check(run: &Run, config: &Config, accept: bool, display: &Display) -> Result<()> {
    let changes = run.unaccepted(&config.accepted());
    if accept {
        changes.iter().for_each(|change| display.note(format!("config changed: {change}")));
    }
    if accept || changes.is_empty() {
        return Ok(());
    }
    let feature = run.feature();
    let message = format!("{feature} is paused: the configuration changed since the run began");
    let hint = format!(
        "Put .mahabharatha/config.yaml back, or accept the change: mahabharatha run {feature} --accept-config (also with `merge` \
         and `task start`)."
    );
    Err(changes.into_iter().fold(Error::new(Kind::Paused, message), Error::detail).hint(hint))
}
