//! `confine`: starts a program in a sandbox, as its layout file says. `inside`: starts programs in a container.
//! `serve-series`: starts programs in a sandbox, one after the other. `confine-filter`: starts a filter of git in a sandbox.
//! All are started by the program itself, or by its git.

use std::ffi::OsString;
use std::path::Path;

use mahabharatha_sys::sandbox;
use mahabharatha_sys::ui::{Flags, Ui};

/// Exit code if the sandbox could not be set up.
const NOT_CONFINED: u8 = 125;

/// Runs the command if it is one of these. Called before the command line is parsed, which would take longer than
/// everything else that is done here.
pub fn run_if_called() -> Option<std::process::ExitCode> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let serve: Option<fn() -> std::io::Result<()>> = match args.as_slice() {
        [command] if command == sandbox::HELPER_COMMAND => Some(sandbox::serve_inside),
        [command] if command == sandbox::SERIES_COMMAND => Some(sandbox::serve_series),
        _ => None,
    };
    if let Some(serve) = serve {
        return Some(match serve() {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => failed(&error),
        });
    }
    if let [command, args @ ..] = args.as_slice()
        && command == sandbox::FILTER_COMMAND
    {
        return Some(match sandbox::run_filter(args) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => failed(&error),
        });
    }
    let [command, layout, separator, program, args @ ..] = args.as_slice() else { return None };
    if command != "confine" || separator != "--" {
        return None;
    }
    Some(match sandbox::confine(Path::new(layout), program, args) {
        // At most 255: the exit code of a process.
        Ok(code) => u8::try_from(code).unwrap_or(u8::MAX).into(),
        Err(error) => failed(&error),
    })
}

fn failed(error: &dyn std::fmt::Display) -> std::process::ExitCode {
    Ui::new(Flags::default()).print_error(&format!("the sandbox: {error}"), &[], None);
    NOT_CONFINED.into()
}
