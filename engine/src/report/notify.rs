//! Tells the user of notices: by the terminal's bell, on the desktop, and by a command.
//!
//! On a thread of its own: a run never waits for a notice, only its end does, for a bounded time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use mahabharatha_core::config::{Config, Isolation, NoticeKind, Notify};
use mahabharatha_core::ids::Time;
use mahabharatha_core::run::Run;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, Cmd, bounded_text};
use mahabharatha_sys::project::Project;
use mahabharatha_sys::sandbox;
use mahabharatha_sys::ui::one_line;
use serde_json::json;

use super::notice::{Notice, Notices};
use crate::confinement::{self, Confinement};

/// Time limit for telling one notice by one channel.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(10);
/// What `notify-send` needs to reach the desktop.
const DESKTOP_VARIABLES: [&str; 5] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"];
/// Bytes of a failed command's output that are shown, from its beginning and its end.
const SHOWN_OUTPUT: (usize, usize) = (200, 600);

/// How notices are told.
pub struct Channels {
    config: Notify,
    /// The sandbox of the command.
    confinement: Confinement,
    pass: Vec<String>,
    root: PathBuf,
}

impl Channels {
    /// Returns the configured channels; none if the user wants no notices.
    pub fn of(project: &Project, config: &Config) -> Result<Option<Channels>> {
        let Notify { bell, desktop, command, on } = &config.notify;
        if on.is_empty() || !bell && !desktop && command.is_none() {
            return Ok(None);
        }
        let isolation = match command {
            Some(_) => sandbox::choose(config.sandbox.mode)?,
            None => Isolation::Off,
        };
        Ok(Some(Channels {
            config: config.notify.clone(),
            confinement: Confinement::new(&config.sandbox, isolation),
            pass: config.env.pass.clone(),
            root: project.root().to_owned(),
        }))
    }

    fn wants(&self, kind: NoticeKind) -> bool {
        self.config.on.contains(&kind)
    }

    /// Tells a notice by all channels but the bell, and returns what went wrong.
    fn tell(&self, notice: &Notice) -> Vec<String> {
        let desktop = self.config.desktop.then(|| show_on_desktop(notice));
        let command = self.config.command.as_ref().map(|command| self.run_command(command, notice));
        desktop.into_iter().chain(command).filter_map(Result::err).collect()
    }

    /// Runs the command as gates run, but where it can only read the checkout.
    fn run_command(&self, command: &str, notice: &Notice) -> Told {
        let failed = |error: Error| format!("notify.command: {error}");
        let dir = tempfile::Builder::new().prefix("mahabharatha-notify-").tempdir();
        let dir = dir.map_err(|error| format!("notify.command: {error}"))?;
        let mut sandbox = self.confinement.reading(&dir.path().join("sandbox"), &self.root).map_err(failed)?;
        if !self.confinement.network {
            sandbox.without_network();
        }
        let cmd = Cmd::shell(command)
            .cwd(&self.root)
            .envs(proc::base_env(&self.pass))
            .stdin(json!(notice).to_string() + "\n");
        let result = ended("notify.command", sandbox.confine(cmd.merged().timeout(NOTICE_TIMEOUT)).map_err(failed)?);
        confinement::failure(&sandbox).map_or(result, |error| Err(failed(error)))
    }
}

/// Fails with why a notice did not reach the user.
type Told = std::result::Result<(), String>;

fn show_on_desktop(notice: &Notice) -> Told {
    let program = proc::find_program("notify-send")
        .ok_or("notify.desktop: there is no notify-send; install it (package libnotify-bin)")?;
    let (title, body) = texts(notice);
    // Notification servers read the body as markup.
    let body = body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let args: [OsString; 4] = ["--app-name=mahabharatha".into(), "--".into(), title.into(), body.into()];
    let pass = DESKTOP_VARIABLES.map(str::to_owned);
    ended("notify.desktop", Cmd::new(program).args(args).envs(proc::base_env(&pass)).merged().timeout(NOTICE_TIMEOUT))
}

/// Returns title and text of a notice.
fn texts(notice: &Notice) -> (String, String) {
    let Notice { event, feature, task, message, .. } = notice;
    let word = NoticeKind::ALL.iter().find(|(_, kind)| kind == event).map_or("", |(word, _)| word);
    let about = task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
    (format!("{feature}: {word}"), one_line(&format!("{about}{message}")))
}

fn ended(what: &str, cmd: Cmd) -> Told {
    let ended = cmd.run().map_err(|error| format!("{what}: {error}"))?;
    if ended.success() {
        return Ok(());
    }
    let output = bounded_text(&ended.stdout, SHOWN_OUTPUT);
    let how = if ended.timed_out {
        format!("was ended after {} seconds", NOTICE_TIMEOUT.as_secs())
    } else {
        format!("failed: {}", ended.status)
    };
    Err(format!("{what} {how} {}", one_line(&output)).trim_end().to_owned())
}

/// Follows a run and tells what is worth it.
pub struct Notifier {
    notices: Notices,
    wanted: Vec<NoticeKind>,
    rings: bool,
    queue: Sender<Notice>,
    /// Disconnected when the thread has ended.
    over: Receiver<()>,
}

impl Notifier {
    pub fn start(channels: Channels, run: &Run, warn: impl Fn(String) + Send + 'static) -> Notifier {
        let (queue, inbox) = mpsc::channel();
        let (running, over) = mpsc::channel();
        let (wanted, rings) = (channels.config.on.clone(), channels.config.bell);
        thread::spawn(move || {
            let _running: Sender<()> = running;
            deliver_all(&channels, &inbox, warn);
        });
        Notifier { notices: Notices::at_start(run), wanted, rings, queue, over }
    }

    /// Tells what the latest event gives reason to. Returns whether the bell should ring.
    pub fn recorded(&mut self, run: &Run) -> bool {
        let mut told = false;
        for notice in self.notices.next(run).into_iter().filter(|notice| self.wanted.contains(&notice.event)) {
            let _ = self.queue.send(notice);
            told = true;
        }
        told && self.rings
    }

    /// Waits until everything is told, for a bounded time.
    pub fn finish(self) {
        drop(self.queue);
        let _ = self.over.recv_timeout(2 * NOTICE_TIMEOUT);
    }
}

/// Tells notices until there are no more; warns once.
fn deliver_all(channels: &Channels, inbox: &Receiver<Notice>, warn: impl Fn(String)) {
    let mut warned = false;
    for problem in inbox.iter().flat_map(|notice| channels.tell(&notice)) {
        if !std::mem::replace(&mut warned, true) {
            warn(problem);
        }
    }
}

/// Tells one notice of each kind, and returns the kinds and what went wrong.
pub fn test(project: &Project, config: &Config, now: Time, ring: impl Fn()) -> Result<(Vec<NoticeKind>, Vec<String>)> {
    let channels = Channels::of(project, config)?.ok_or_else(|| {
        Error::new(Kind::Invalid, "no notices are configured")
            .hint("Set notify.bell, notify.desktop or notify.command in .mahabharatha/config.yaml; see `mahabharatha help integrations`.")
    })?;
    let mut problems: Vec<String> = Vec::new();
    let kinds: Vec<NoticeKind> =
        NoticeKind::ALL.into_iter().map(|(_, kind)| kind).filter(|kind| channels.wants(*kind)).collect();
    for kind in &kinds {
        let notice = Notice::new(now, *kind, "test", None, "a test by `mahabharatha notify --test`".to_owned());
        if channels.config.bell {
            ring();
        }
        problems.extend(channels.tell(&notice));
    }
    problems.sort();
    problems.dedup();
    Ok((kinds, problems))
}
