//! `serve`: shows all features in a browser, until Ctrl-C.

use std::fs::OpenOptions;

use clap::Args;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc::{Cmd, base_env, find_program};
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;
use crate::serve::{Options, Server};

/// Variables that a browser needs to show a window, beside those that every program gets.
const DISPLAY: [&str; 6] =
    ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The port to listen on; 0 is any free one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Let the page retry, skip, grant, approve and stop; without it the page only shows
    #[arg(long)]
    allow_actions: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &ServeArgs) -> Result<ExitCode> {
    let server = Server::bind(global.project()?, Options { port: args.port, actions: args.allow_actions })?;
    let url = server.url();
    if ui.json() {
        ui.data(&format!("{}\n", json!({ "url": url, "port": server.port(), "actions": args.allow_actions })));
    } else {
        ui.data(&format!("{url}\n"));
        ui.note("Keep this address private: it gives access to the project's features. Ctrl-C stops the server.");
    }
    if args.open
        && let Err(why) = open(&url)
    {
        ui.warn(&format!("cannot open a browser: {why}; open the address yourself"));
    }
    server.serve()?;
    Ok(ExitCode::Stopped)
}

/// Starts the user's browser, without a shell.
fn open(url: &str) -> std::result::Result<(), String> {
    let named = std::env::var("BROWSER").ok().filter(|name| !name.trim().is_empty());
    // Several may be named; the first one that is there is taken.
    let mut programs = named.iter().flat_map(|names| names.split(':')).chain(["xdg-open"]).map(str::trim);
    let program = programs.find_map(|name| if name.contains('/') { Some(name.into()) } else { find_program(name) });
    let program = program.ok_or("neither $BROWSER nor xdg-open is there")?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null").map_err(|error| error.to_string())?;
    let browser = Cmd::new(program).arg(url).envs(base_env(&DISPLAY.map(str::to_string))).output_to(nowhere).spawn();
    // The browser outlives this program; dropped, it would be killed.
    std::mem::forget(browser.map_err(|error| error.to_string())?);
    Ok(())
}
