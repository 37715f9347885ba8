//! `run --detach`: starts the run in a process of its own and waits until it has begun.

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use mahabharatha_core::run::Event;
use mahabharatha_core::run::effect::GRACE_PERIOD;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::proc::{self, Cmd, Ended, Exit, Running};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::signals;
use mahabharatha_sys::store::atomic::make_dir;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::{state_file, watch};
use mahabharatha_sys::ui::Ui;
use serde_json::{Value, json};

use super::exit::{ExitCode, error_from_json};

/// The flag by which the started process knows that it has to leave our session.
pub const STARTED: &str = "detached";

enum News {
    Change,
    Ended(std::io::Result<Ended>),
}

/// Starts this command again in the background. Returns when the run holds its lock and has passed its preflight, or fails as
/// the run failed before that.
pub fn detach(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let begun_before = beginnings(place)?;
    let log = place.paths.detached_log();
    make_dir(place.paths.dir())?;
    let (sender, news) = mpsc::channel();
    let changed = sender.clone();
    let _watcher = watch::on_change(place.paths.dir(), move || drop(changed.send(News::Change)))?;
    let running = start(&log)?;
    let pid = running.id().pid;
    let canceller = running.canceller();
    signals::listen(move |_, _| canceller.cancel(GRACE_PERIOD)).map_err(Error::caused("cannot listen for signals"))?;
    // Never joined: the process goes on when this one exits.
    thread::spawn(move || drop(sender.send(News::Ended(running.wait()))));
    for news in news {
        match news {
            News::Ended(ended) => {
                return report_end(ui, &log, ended.map_err(Error::caused("cannot wait for the run"))?);
            }
            News::Change if has_begun(place, pid, begun_before)? => break,
            News::Change => {}
        }
    }
    notes(&log)?.iter().for_each(|line| ui.note(line));
    let feature = &place.feature;
    if ui.json() {
        ui.data(&json!({ "feature": feature, "pid": pid, "log": log.display().to_string() }).to_string());
    } else {
        ui.note(&format!("{feature} runs in the background (process {pid})"));
        ui.note(&format!("Follow it: mahabharatha attach {feature}. Stop it: mahabharatha stop {feature}."));
    }
    Ok(ExitCode::Done)
}

fn start(log: &Path) -> Result<Running> {
    make_dir(log.parent().unwrap_or(log))?;
    let output = state_file::open(log).map_err(io("create", log))?;
    output.set_len(0).map_err(io("write", log))?;
    let renamed = |arg: OsString| if arg == "--detach" { format!("--{STARTED}").into() } else { arg };
    // The events tell us how a run ended that did not begin.
    let args = std::env::args_os().skip(1).map(renamed).filter(|arg| arg != "--json").chain(["--json".into()]);
    let program = proc::own_program().map_err(Error::caused("cannot find the path of this executable"))?;
    Cmd::new(program)
        .args(args)
        .envs(std::env::vars_os().collect())
        .output_to(output)
        .for_own_session()
        .spawn()
        .map_err(Error::caused("cannot start the run in the background"))
}

/// Counts how often the run was started or resumed.
fn beginnings(place: &Place) -> Result<usize> {
    let is_beginning = |event: &Event| matches!(event, Event::Started(_) | Event::Resumed { .. });
    Ok(Journal::read(&place.paths.journal())?.iter().filter(|record| is_beginning(&record.event)).count())
}

fn has_begun(place: &Place, pid: u32, before: usize) -> Result<bool> {
    let holder = FeatureLock::holder(place.paths.dir())?;
    Ok(holder.is_some_and(|holder| holder.pid == Some(pid)) && beginnings(place)? > before)
}

/// Reports the end of a process that ended before its run had begun.
fn report_end(ui: &Ui, log: &Path, ended: Ended) -> Result<ExitCode> {
    notes(log)?.iter().for_each(|line| ui.note(line));
    let end = events(log)?.into_iter().rfind(|event| event["event"] == "end");
    if let Some(error) = end.as_ref().and_then(|end| error_from_json(&end["error"])) {
        return Err(error);
    }
    match (ended.status, end) {
        (Exit::Code(0), Some(_)) => Ok(ExitCode::Done),
        (status, _) => Err(Error::new(Kind::Failed, format!("the run could not be started: it ended with {status:?}"))
            .hint(format!("Its output is in {}.", log.display()))),
    }
}

fn output(log: &Path) -> Result<String> {
    bounded::read_to_string(log, LARGE_FILE_BYTES).map_err(io("read", log))
}

/// Returns the events that the process has printed.
fn events(log: &Path) -> Result<Vec<Value>> {
    Ok(output(log)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Returns the warnings and notes that the process has printed.
fn notes(log: &Path) -> Result<Vec<String>> {
    Ok(output(log)?.lines().filter(|line| !line.starts_with('{') && !line.is_empty()).map(str::to_owned).collect())
}
