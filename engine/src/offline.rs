//! Recognises a verification or a gate that fails because the project turns the network off for it.

use mahabharatha_core::config::Isolation;
use mahabharatha_core::excerpt::tells_of_no_network;

use crate::confinement::Confinement;

/// What the user is told. It names the setting, which `debug` recognises.
const NETWORK_OFF: &str = "This project turns the network off for verifications and gates (`sandbox.network: false`). Let \
                           them do without it, or set that to true.";

/// Returns why a verification or a gate that printed this may have failed, if it needs the network and has none.
pub fn cause(confinement: &Confinement, output: &str) -> Option<String> {
    let is_off = !confinement.network && confinement.isolation != Isolation::Off;
    (is_off && tells_of_no_network(output)).then(|| NETWORK_OFF.to_owned())
}

/// Tells whether a cause of a failure is this one.
pub fn is_cause(text: &str) -> bool {
    text == NETWORK_OFF
}
