//! Shows long text through the user's pager, as git does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, Once};
use std::time::Duration;

use rustix::process::Signal;

use super::{Ui, locked, restore_terminal};
use crate::proc::{Canceller, Cmd, Exit};
use crate::signals;

/// The pager if the user's environment names none.
const DEFAULT_PAGER: &str = "less";
/// Options of `less` that git sets too: quit if the text fits on the screen, show colors, leave the text there.
const LESS_OPTIONS: &str = "FRX";
/// Exit code of a shell that does not find the program.
const NOT_FOUND: Exit = Exit::Code(127);

impl Ui {
    /// Writes painted text to stdout like `painted`; on a terminal through the pager. Which one is up to the user's
    /// environment, never to the repository's configuration.
    pub fn paged(&self, painted: &str) {
        let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let pager = io::stdout().is_terminal().then(|| pager_of(&environment)).flatten();
        let is_shown = pager.is_some_and(|pager| page(&pager, environment, self.without_sequences(painted)));
        if !is_shown {
            self.painted(painted);
        }
    }
}

/// Returns the command line of the pager; `None` if the user wants none.
fn pager_of(environment: &BTreeMap<OsString, OsString>) -> Option<String> {
    let named = ["GIT_PAGER", "PAGER"].into_iter().find_map(|name| environment.get(&OsString::from(name)));
    let pager = named.map_or(DEFAULT_PAGER.to_owned(), |name| name.to_string_lossy().trim().to_owned());
    (!pager.is_empty() && pager != "cat").then_some(pager)
}

/// Runs the pager until the user leaves it; returns whether there is such a program.
fn page(pager: &str, environment: BTreeMap<OsString, OsString>, text: String) -> bool {
    let mut cmd = Cmd::shell(pager).stdin(text).inherited().in_our_group();
    for (name, value) in [("LESS", LESS_OPTIONS), ("LV", "-c")] {
        cmd = cmd.env(name, value);
    }
    let Ok(running) = cmd.envs(environment).spawn() else { return false };
    *locked(&PAGER) = Some(running.canceller());
    listen_once();
    let ended = running.wait();
    *locked(&PAGER) = None;
    ended.is_ok_and(|ended| ended.status != NOT_FOUND)
}

/// The pager that runs now.
static PAGER: Mutex<Option<Canceller>> = Mutex::new(None);

/// Leaves Ctrl-C to the pager while one runs: it is in our process group, and stops what it does.
fn listen_once() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let _ = signals::listen(|_, signal| match &*locked(&PAGER) {
            Some(_) if signal == Signal::INT.as_raw() => {}
            Some(pager) => pager.cancel(Duration::ZERO),
            None => {
                restore_terminal();
                signals::terminate_by(signal);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_pager() {
        let of = |variables: &[(&str, &str)]| {
            pager_of(&variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
        };
        assert_eq!(of(&[]), Some("less".to_owned()));
        assert_eq!(of(&[("PAGER", "more")]), Some("more".to_owned()));
        assert_eq!(of(&[("PAGER", "more"), ("GIT_PAGER", "most -x")]), Some("most -x".to_owned()));
        assert_eq!(of(&[("PAGER", "more"), ("GIT_PAGER", "")]), None);
        assert_eq!(of(&[("PAGER", "cat")]), None);
    }
}
