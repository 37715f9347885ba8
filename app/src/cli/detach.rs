//! `run --detach`, and `run` on the screen: starts the run in a process of its own and waits until it has begun.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

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
use super::{attach, on_screen};
use crate::screen::{Left, Purpose};

/// Interval at which notes of the started process are printed, such as those of an image that is built.
const NOTES_INTERVAL: Duration = Duration::from_millis(200);
/// The flag by which the started process knows that it has to leave our session.
pub const STARTED: &str = "detached";

enum News {
    Change,
    Ended(std::io::Result<Ended>),
}

/// A run in a process of its own that has begun.
struct Background {
    pid: u32,
    log: PathBuf,
    news: Receiver<News>,
    /// Number of its notes that were printed.
    told: usize,
}

/// What became of the process that was started.
enum Start {
    Begun(Background),
    /// It ended before its run had begun.
    Over(ExitCode),
}

/// Starts this command again in the background. Returns when the run holds its lock and has passed its preflight, or fails as
/// the run failed before that.
pub fn detach(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let (pid, log) = match begin(place, ui)? {
        Start::Over(code) => return Ok(code),
        Start::Begun(Background { pid, log, .. }) => (pid, log),
    };
    let feature = &place.feature;
    if ui.json() {
        ui.data(&json!({ "feature": feature, "pid": pid, "log": log.display().to_string() }).to_string());
    } else {
        ui.note(&format!("{feature} runs in the background (process {pid})"));
        ui.note(&format!("Follow it: mahabharatha attach {feature}. Stop it: mahabharatha stop {feature}."));
    }
    Ok(ExitCode::Done)
}

/// Starts this command again in the background and shows its run on the screen, so that neither leaving nor a terminal that
/// is closed ends the run. Ends as the run ends.
pub fn on_screen(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let background = match begin(place, ui)? {
        Start::Over(code) => return Ok(code),
        Start::Begun(background) => background,
    };
    let begun = beginnings(place)?;
    match on_screen::show(place, ui, Purpose::Drive)? {
        Left::Going => Ok(attach::goes_on(place, ui)),
        // The user has continued the run from the screen, or in another terminal: this process is not the last.
        Left::Over(end) if beginnings(place)? > begun => attach::over(place, ui, end.as_ref()),
        Left::Over(_) | Left::NotRun => background.report_end(ui),
    }
}

fn begin(place: &Place, ui: &Ui) -> Result<Start> {
    let begun_before = beginnings(place)?;
    let log = place.paths.detached_log();
    make_dir(place.paths.dir())?;
    let (sender, news) = mpsc::channel();
    let changed = sender.clone();
    let _watcher = watch::on_change(place.paths.dir(), move || drop(changed.send(News::Change)))?;
    let running = start(&log)?;
    let (pid, canceller) = (running.id().pid, running.canceller());
    let has_begun_yet = Arc::new(AtomicBool::new(false));
    let has_begun_too = Arc::clone(&has_begun_yet);
    let cancel = move |_, _| {
        if !has_begun_too.load(Ordering::Relaxed) {
            canceller.cancel(GRACE_PERIOD);
        }
    };
    signals::listen(cancel)?;
    // Never joined: the process goes on when this one exits.
    thread::spawn(move || drop(sender.send(News::Ended(running.wait()))));
    let mut background = Background { pid, log, news, told: 0 };
    loop {
        let news = background.news.recv_timeout(NOTES_INTERVAL);
        background.tell(ui)?;
        match news {
            Ok(News::Ended(ended)) => return background.over(ended).map(Start::Over),
            Ok(News::Change) if has_begun(place, pid, begun_before)? => break,
            Ok(News::Change) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    has_begun_yet.store(true, Ordering::Relaxed);
    Ok(Start::Begun(background))
}

impl Background {
    /// Prints the warnings and notes that the process has printed since the last time.
    fn tell(&mut self, ui: &Ui) -> Result<()> {
        let notes = notes(&self.log)?;
        notes.iter().skip(self.told).for_each(|line| ui.note(line));
        self.told = self.told.max(notes.len());
        Ok(())
    }

    /// Waits for the end of the process and reports it.
    fn report_end(mut self, ui: &Ui) -> Result<ExitCode> {
        let is_end = |news: News| match news {
            News::Ended(ended) => Some(ended),
            News::Change => None,
        };
        let ended = self.news.iter().find_map(is_end);
        self.tell(ui)?;
        match ended {
            Some(ended) => self.over(ended),
            None => Ok(ExitCode::Done),
        }
    }

    /// Returns how the process ended.
    fn over(&self, ended: std::io::Result<Ended>) -> Result<ExitCode> {
        let ended = ended.map_err(Error::caused("cannot wait for the run"))?;
        let end = events(&self.log)?.into_iter().rfind(|event| event["event"] == "end");
        if let Some(error) = end.as_ref().and_then(|end| error_from_json(&end["error"])) {
            return Err(error);
        }
        match (ended.status, end) {
            (Exit::Code(0), Some(_)) => Ok(ExitCode::Done),
            (status, _) => {
                let message = format!("the process of the run ended with {status}");
                Err(Error::new(Kind::Failed, message).hint(format!("Its output is in {}.", self.log.display())))
            }
        }
    }
}

fn start(log: &Path) -> Result<Running> {
    make_dir(log.parent().unwrap_or(log))?;
    let output = state_file::open(log).map_err(io("create", log))?;
    output.set_len(0).map_err(io("write", log))?;
    // The events tell us how a run ended that did not begin.
    let is_ours = |arg: &OsString| arg != "--detach" && arg != "--json";
    let mut args: Vec<OsString> = std::env::args_os().skip(1).filter(is_ours).collect();
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    args.splice(end..end, [format!("--{STARTED}").into(), "--json".into()]);
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
