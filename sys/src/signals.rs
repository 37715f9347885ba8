//! The only listener for termination signals: SIGINT, SIGTERM and SIGHUP.
//!
//! Called by each command that must end in good order. Must never end the process by itself: the listener decides.

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Error, Result};
use crate::proc;

/// Calls `handle` on a dedicated thread for each signal, with the number of signals received before it.
///
/// SIGHUP stays ignored if it was ignored at startup: with `nohup` the user wants the program to outlive the terminal.
pub fn listen(handle: impl FnMut(usize, i32) + Send + 'static) -> Result<()> {
    start(handle).map_err(Error::caused("cannot listen for signals"))
}

fn start(mut handle: impl FnMut(usize, i32) + Send + 'static) -> io::Result<()> {
    let hangup = (!proc::ignores(SIGHUP)).then_some(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup))?;
    let listen = move || signals.forever().enumerate().for_each(|(before, signal)| handle(before, signal));
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

/// Terminates this process the way the signal would have without a listener.
pub fn terminate_by(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}
