//! Follows a run on a thread of its own and keeps the files that are derived from it up to date.
//!
//! It replays the same events, so it has its own copy of the run and does not slow down the orchestrator's loop. Output
//! for users is sent to a `Display`, which its reader may block; nothing here waits for it.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mahabharatha_core::ids::{TaskId, Time};
use mahabharatha_core::run::event::{Command, JobEnd, JobReport};
use mahabharatha_core::run::{Effect, Event, Run, TaskStatus};
use mahabharatha_core::view::RunView;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::{FeaturePaths, Project};

use super::display::Display;
use super::files;
use super::log_lines::{Line, LogLines};
use super::notify::Notifier;
use super::running_gate::RunningGate;
use super::stream::Stream;
use crate::claude::tasks::Mirror;

/// Shortest time between two writes of the projection.
const PROJECTION_INTERVAL: Duration = Duration::from_millis(250);
/// Shortest time between two writes of `STATE.md`.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Poll interval for the progress of the running gate.
const GATE_POLL_INTERVAL: Duration = Duration::from_secs(1);

pub struct Reporter {
    messages: Sender<Message>,
    thread: Mutex<Option<JoinHandle<bool>>>,
}

enum Message {
    Recorded(Time, Box<Event>),
    Mirror(Box<Mirror>),
    Notifier(Box<Notifier>),
    Finish,
}

/// Log lines of events that this process recorded before the reporter started.
#[derive(Debug, Default)]
pub struct Opening {
    log_lines: LogLines,
    lines: Vec<Line>,
}

impl Opening {
    /// For a run that an earlier process has reported up to here.
    pub fn of(run: &Run) -> Opening {
        Opening { log_lines: LogLines::of(run), lines: Vec::new() }
    }

    pub fn tell(&mut self, event: &Event, run: &Run) {
        self.lines.extend(self.log_lines.tell(event, run));
    }
}

impl Reporter {
    pub fn start(project: &Project, paths: &FeaturePaths, run: &Run, display: Display, opening: Opening) -> Reporter {
        let (messages, inbox) = mpsc::channel();
        display.update(RunView::of(run));
        let stream = display.streams().then(|| {
            let (stream, first) = Stream::open(run);
            display.event(first);
            stream
        });
        opening.lines.into_iter().for_each(|line| display.line(line));
        let follower = Follower {
            project: project.clone(),
            paths: paths.clone(),
            log_lines: opening.log_lines,
            stream,
            display,
            run: run.clone(),
            projection: Due::at_once(PROJECTION_INTERVAL),
            reports: Due::at_once(REPORT_INTERVAL),
            gate: Due { wanted: runs_gates(run), ..Due::at_once(GATE_POLL_INTERVAL) },
            mirror: None,
            notifier: None,
            warned: false,
        };
        let thread = thread::spawn(move || follower.follow(&inbox));
        Reporter { messages, thread: Mutex::new(Some(thread)) }
    }

    pub fn recorded(&self, now: Time, event: &Event) {
        let _ = self.messages.send(Message::Recorded(now, Box::new(event.clone())));
    }

    /// Also keeps the feature's task list in Claude Code up to date from now on.
    pub fn mirror(&self, mirror: Mirror) {
        let _ = self.messages.send(Message::Mirror(Box::new(mirror)));
    }

    /// Also tells the user of what deserves attention from now on.
    pub fn notify(&self, notifier: Notifier) {
        let _ = self.messages.send(Message::Notifier(Box::new(notifier)));
    }

    /// Brings every file up to date and closes the display. Returns `false` if its reader did not read everything.
    pub fn finish(&self) -> bool {
        let _ = self.messages.send(Message::Finish);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.is_none_or(|thread| thread.join().unwrap_or(true))
    }
}

struct Follower {
    project: Project,
    paths: FeaturePaths,
    run: Run,
    log_lines: LogLines,
    /// Stream of changes for programs.
    stream: Option<Stream>,
    display: Display,
    projection: Due,
    reports: Due,
    /// Polls the running gate, while there is one.
    gate: Due,
    mirror: Option<Box<Mirror>>,
    notifier: Option<Box<Notifier>>,
    /// A write error was shown; it is shown only once.
    warned: bool,
}

/// Rate limit for a recurring action.
struct Due {
    pause: Duration,
    wanted: bool,
    next: Instant,
}

impl Due {
    fn at_once(pause: Duration) -> Due {
        Due { pause, wanted: true, next: Instant::now() }
    }

    fn is_due(&self) -> bool {
        self.wanted && self.next <= Instant::now()
    }

    /// Notes that the action that began at this time is done. A slow one must not keep a processor busy.
    fn done(&mut self, began: Instant) {
        self.wanted = false;
        self.next = Instant::now() + self.pause.max(4 * began.elapsed());
    }
}

impl Follower {
    fn follow(mut self, inbox: &Receiver<Message>) -> bool {
        self.write_what_is_due();
        self.write(|follower| files::write_tasks(&follower.paths, &follower.run));
        loop {
            let message = match self.next_due() {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match message {
                Ok(Message::Recorded(now, event)) => self.recorded(now, &event),
                Ok(Message::Mirror(mirror)) => self.mirror = Some(mirror),
                Ok(Message::Notifier(notifier)) => self.notifier = Some(notifier),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write_what_is_due();
            self.look_at_gate();
        }
        self.write(|follower| files::write_files(&follower.project, &follower.paths, &follower.run));
        if let Some(mirror) = self.mirror.take() {
            mirror.update(&RunView::of(&self.run), &self.run);
            mirror.finish();
        }
        if let Some(notifier) = self.notifier.take() {
            notifier.finish();
        }
        self.display.finish()
    }

    fn next_due(&self) -> Option<Instant> {
        [&self.projection, &self.reports, &self.gate].into_iter().filter(|due| due.wanted).map(|due| due.next).min()
    }

    fn recorded(&mut self, now: Time, event: &Event) {
        self.run.step(now, event);
        self.tell(event);
        if self.notifier.as_mut().is_some_and(|notifier| notifier.recorded(&self.run)) {
            self.display.ring();
        }
        self.projection.wanted = true;
        if !runs_gates(&self.run) && std::mem::take(&mut self.gate.wanted) {
            self.display.gate(None);
        }
        self.gate.wanted = runs_gates(&self.run);
        self.reports.wanted |= is_worth_a_report(event);
        if let (Some(mirror), Event::Asked { request, command: Command::Adopt { .. } }) = (&self.mirror, event) {
            mirror.update(&RunView::of(&self.run), &self.run);
            self.run.answer(request).into_iter().for_each(|answer| mirror.answered(answer));
        }
        if let Some((task, report)) = ended_job(event)
            && (matches!(report.end, JobEnd::Checkpoint { .. })
                || self.run.task(task).is_some_and(|state| matches!(state.status, TaskStatus::Blocked { .. })))
        {
            self.write(|follower| files::write_task(&follower.paths, &follower.run, task));
        }
    }

    fn tell(&mut self, event: &Event) {
        for line in self.log_lines.tell(event, &self.run) {
            self.display.line(line);
        }
        let events = self.stream.as_mut().map(|stream| stream.lines(event, &self.run));
        events.into_iter().flatten().for_each(|event| self.display.event(event));
    }

    fn write_what_is_due(&mut self) {
        let (projects, reports) = (self.projection.is_due(), self.reports.is_due());
        if !projects && !reports {
            return;
        }
        let began = Instant::now();
        // `status` reports an unreadable cost file.
        let view = files::view(&self.paths, &self.run).unwrap_or_else(|_| RunView::of(&self.run));
        if projects {
            if let Some(mirror) = &self.mirror {
                mirror.update(&view, &self.run);
            }
            self.write(|follower| files::write_projection(&follower.paths, &view));
            self.projection.done(began);
        }
        if reports {
            self.write(|Follower { project, paths, run, .. }| files::write_state_of(project, paths, run, &view));
            self.reports.done(began);
        }
        self.display.update(view);
    }

    fn look_at_gate(&mut self) {
        if self.gate.is_due() {
            self.gate.done(Instant::now());
            self.gate.wanted = true;
            let now = Time(jiff::Timestamp::now().as_millisecond());
            let running = RunningGate::of_process(&self.paths, std::process::id());
            self.display.gate(running.map(|running| running.progress(now)));
        }
    }

    /// Writes a file and warns once on error. The files can be rebuilt from the journal, so errors do not stop the run.
    fn write(&mut self, write: impl FnOnce(&Follower) -> Result<()>) {
        if let Err(error) = write(self)
            && !self.warned
        {
            self.warned = true;
            self.display.warn(error.to_string());
        }
    }
}

/// Tells whether gates are running.
fn runs_gates(run: &Run) -> bool {
    let is_gating =
        |effect: &Effect| matches!(effect, Effect::CheckBase { .. } | Effect::Gate { .. } | Effect::Blame { .. });
    run.outstanding().any(|(_, effect)| is_gating(effect))
}

/// Returns the job that ended, whether an agent or a session performed it.
fn ended_job(event: &Event) -> Option<(&TaskId, &JobReport)> {
    match event {
        Event::JobEnded { task, report, .. } => Some((task, report)),
        Event::Asked { command: Command::Finish { task, report, .. }, .. } => Some((task, report)),
        _ => None,
    }
}

fn is_worth_a_report(event: &Event) -> bool {
    !matches!(event, Event::Woke | Event::SlotReady { .. } | Event::JobStarted { .. })
}
