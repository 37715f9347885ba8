//! `serve`: shows all features in a browser, until Ctrl-C.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use clap::Args;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc::{Cmd, base_env, find_program};
use mahabharatha_sys::ui::Ui;
use serde_json::json;
use tempfile::TempDir;

use super::Global;
use super::exit::ExitCode;
use crate::serve::{Options, Server};

/// Variables that a browser needs to show a window, beside those that every program gets.
const DISPLAY: [&str; 6] =
    ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Port to listen on (default: any free port)
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
    // Removed when the server ends.
    let _opened = args.open.then(|| open(&url)).transpose().unwrap_or_else(|why| {
        ui.warn(&format!("cannot open a browser: {why}; open the address yourself"));
        None
    });
    server.serve()?;
    Ok(ExitCode::Stopped)
}

/// Starts the user's browser, without a shell, on a private file that leads to the address: every user of this machine can
/// read a program's arguments.
fn open(url: &str) -> std::result::Result<TempDir, String> {
    let said = |error: std::io::Error| error.to_string();
    let private = Permissions::from_mode(0o700);
    let dir = tempfile::Builder::new().prefix("mahabharatha-open-").permissions(private).tempdir().map_err(said)?;
    let page = dir.path().join("open.html");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&page).map_err(said)?;
    let html = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\"><title>mahabharatha</title><a href=\"{url}\">Open the page</a>\n"
    );
    file.write_all(html.as_bytes()).map_err(said)?;
    let named = std::env::var("BROWSER").ok().filter(|name| !name.trim().is_empty());
    // Several may be named; the first one that is there is taken.
    let mut programs = named.iter().flat_map(|names| names.split(':')).chain(["xdg-open"]).map(str::trim);
    let program = programs.find_map(|name| if name.contains('/') { Some(name.into()) } else { find_program(name) });
    let program = program.ok_or("neither $BROWSER nor xdg-open is there")?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null").map_err(said)?;
    let browser = Cmd::new(program).arg(&page).envs(base_env(&DISPLAY.map(str::to_string))).output_to(nowhere).spawn();
    // The browser outlives this program; dropped, it would be killed.
    std::mem::forget(browser.map_err(said)?);
    Ok(dir)
}
