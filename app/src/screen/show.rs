//! The loop of the screen: waits for keys, changes of the run, signals and the clock, and draws what follows.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use mahabharatha_core::run::End;
use mahabharatha_engine::report::TICK_INTERVAL;
use mahabharatha_engine::session;
use mahabharatha_engine::specs;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::signals;
use mahabharatha_sys::store::watch;
use mahabharatha_sys::ui::{FullScreen, Input, leave_screen, next_input};

use super::detail::{self, Detail, Wanted};
use super::keys::{self, Reaction};
use super::look::Look;
use super::render::{self, Frame};
use super::state::{State, Tab};
use crate::observe::{Action, Data, Feed, Planned, planned};

/// Shortest time between two looks at the run.
const MIN_INTERVAL: Duration = Duration::from_millis(40);

/// SIGHUP: the terminal was closed.
const HANGUP: i32 = 1;

/// What the screen was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Started the run: Ctrl-C and SIGTERM stop it.
    Drive,
    /// Looks on: Ctrl-C leaves.
    Watch,
}

/// How the screen was left.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    /// The run goes on.
    Going,
    /// No process drives the run; how it ended, if it has.
    Over(Option<End>),
    /// There has been no run.
    NotRun,
}

enum News {
    Input(Input),
    /// Keys can no longer be read: the terminal is gone.
    InputClosed,
    Change,
    Signal(i32),
    Done(std::result::Result<String, String>),
    Detail(Box<Detail>),
}

struct Screen<'a> {
    place: &'a Place,
    /// None before the first run.
    feed: Option<Feed>,
    data: Data,
    state: State,
    detail: Option<Detail>,
    /// A thread is reading a page; one at a time, so that no number of keys starts more of them.
    reading: bool,
    /// The run's latest event when the open page was read.
    read_at: u64,
    look: Look,
    purpose: Purpose,
    /// Whether the bell rings when something new needs the user.
    rings: bool,
    sender: Sender<News>,
    terminal: FullScreen,
}

/// Shows the run until the user leaves, or until it ends if the user has not pressed a key. Before the first run it shows the
/// design, and the run once it begins.
pub fn show(place: &Place, look: Look, purpose: Purpose) -> Result<Left> {
    let (sender, news) = mpsc::channel();
    // Watch before the first look, so that no change is missed.
    watch_changes(place, &sender)?;
    let mut feed = Feed::find(place)?;
    let data = match &mut feed {
        Some(feed) => feed.read()?,
        None => of_design(planned(place)?),
    };
    listen(&sender)?;
    let terminal = FullScreen::enter().map_err(Error::caused("cannot use the terminal"))?;
    read_keys(&sender);
    let mut screen = Screen {
        place,
        feed,
        data,
        state: State::default(),
        detail: None,
        reading: false,
        read_at: 0,
        look,
        purpose,
        rings: specs::load_config(&place.project).is_ok_and(|config| config.notify.bell),
        sender,
        terminal,
    };
    let stays = !screen.data.driven;
    screen.run(&news, stays)
}

fn of_design(planned: Planned) -> Data {
    Data::new(planned.view.into_run(), false)
}

fn watch_changes(place: &Place, sender: &Sender<News>) -> Result<()> {
    let mut changes = watch::feature_changes(place.paths.dir())?;
    // Before the first run, the design is shown.
    changes.watch_also(place.paths.specs());
    let sender = sender.clone();
    thread::spawn(move || {
        while sender.send(News::Change).is_ok() {
            changes.wait(None);
        }
    });
    Ok(())
}

fn listen(sender: &Sender<News>) -> Result<()> {
    let sender = sender.clone();
    let handle = move |before: usize, signal: i32| {
        let is_heard = sender.send(News::Signal(signal)).is_ok();
        // A third signal ends even a process that is stuck writing to a terminal.
        if !is_heard || before > 1 {
            leave_screen();
            signals::terminate_by(signal);
        }
    };
    signals::listen(handle)
}

fn read_keys(sender: &Sender<News>) {
    let sender = sender.clone();
    thread::spawn(move || {
        loop {
            let news = next_input().map_or(News::InputClosed, News::Input);
            let is_over = matches!(news, News::InputClosed);
            if sender.send(news).is_err() || is_over {
                break;
            }
        }
    });
}

impl Screen<'_> {
    fn run(&mut self, news: &Receiver<News>, stays: bool) -> Result<Left> {
        let mut looked = Instant::now();
        let mut is_stale = false;
        loop {
            self.state.clock_moved(Instant::now());
            // A terminal that is gone shows nothing, and must not end the run.
            if self.draw().is_err() {
                return Ok(self.left());
            }
            crash::point(|| "screen drawn");
            let wait = self.wait(is_stale, looked);
            let first = match wait {
                Some(time) => news.recv_timeout(time),
                None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if matches!(first, Err(RecvTimeoutError::Timeout)) {
                is_stale |= self.may_change();
            }
            for news in first.into_iter().chain(news.try_iter()) {
                match news {
                    News::Change => is_stale = true,
                    News::InputClosed => return Ok(self.left()),
                    News::Signal(HANGUP) => return Ok(self.left()),
                    News::Signal(_) if self.purpose == Purpose::Watch => return Ok(self.left()),
                    News::Signal(_) => self.interrupt(),
                    News::Input(input) => {
                        if let Some(left) = self.input(input) {
                            return Ok(left);
                        }
                    }
                    News::Done(Ok(told)) => self.state.says(told, false),
                    News::Done(Err(why)) => self.state.says(why, true),
                    News::Detail(detail) => {
                        self.reading = false;
                        self.detail = Some(*detail);
                        // Another page may have been opened meanwhile.
                        self.read_detail(false);
                    }
                }
            }
            if is_stale && looked.elapsed() >= MIN_INTERVAL {
                let problems = self.data.view.blockers.len();
                self.refresh()?;
                (looked, is_stale) = (Instant::now(), false);
                if self.rings && self.data.view.blockers.len() > problems {
                    self.terminal.ring();
                }
                self.read_detail(true);
            }
            if !self.data.driven && !stays && (!self.state.touched || self.state.stopping) {
                return Ok(self.left());
            }
        }
    }

    fn refresh(&mut self) -> Result<()> {
        let before = self.data.view.status;
        if self.feed.is_none() {
            self.feed = Feed::find(self.place)?;
        }
        match &mut self.feed {
            Some(feed) => feed.refresh(&mut self.data)?,
            None => {
                // A design that is being written may be gone for a moment.
                if let Ok(planned) = planned(self.place) {
                    self.data = of_design(planned);
                }
            }
        }
        self.state.run_was_read(self.data.view.status != before);
        Ok(())
    }

    /// Tells whether something is at work, which need not change a file that is watched.
    fn may_change(&self) -> bool {
        self.data.driven || self.data.view.workers.iter().any(|worker| worker.status == "running")
    }

    /// Returns how long to wait at most: until the clock moves, while one does. That of a problem or a message always does.
    fn wait(&self, is_stale: bool, looked: Instant) -> Option<Duration> {
        let has_clock =
            self.state.message.is_some() || self.data.view.blockers.iter().any(|blocker| blocker.since.is_some());
        match is_stale {
            true => Some(MIN_INTERVAL.saturating_sub(looked.elapsed())),
            false => (has_clock || self.may_change()).then_some(TICK_INTERVAL),
        }
    }

    fn frame(&self, width: u16, height: u16) -> Frame<'_> {
        Frame {
            data: &self.data,
            state: &self.state,
            detail: self.detail.as_ref(),
            now: session::now(),
            look: self.look,
            width: usize::from(width),
            height: usize::from(height),
        }
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let Screen { data, state, detail, look, terminal, .. } = self;
        terminal.draw(|buffer| {
            let (width, height) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
            let frame = Frame { data, state, detail: detail.as_ref(), now: session::now(), look: *look, width, height };
            render::paint(&frame, buffer);
        })
    }

    /// Acts on what the user did; returns how the screen is left, if it is.
    fn input(&mut self, input: Input) -> Option<Left> {
        let (width, height) = self.terminal.size();
        let room = render::room(&self.frame(width, height));
        match input {
            Input::Resized => return None,
            Input::Pasted(text) => keys::paste(&mut self.state, &text),
            Input::Key(key) => match keys::press(&mut self.state, &self.data, &room, key) {
                Reaction::None => {}
                Reaction::Leave => return Some(self.left()),
                Reaction::Interrupt if self.purpose == Purpose::Watch || !self.data.driven => return Some(self.left()),
                Reaction::Interrupt => self.interrupt(),
                Reaction::Act(action) => self.act(action),
                Reaction::Copy(command) => {
                    self.terminal.copy(&command);
                    self.state.says(format!("sent to the clipboard: {command}"), false);
                }
            },
        }
        self.read_detail(false);
        None
    }

    /// Stops the run: the first time in good order, then at once.
    fn interrupt(&mut self) {
        let force = std::mem::replace(&mut self.state.stopping, true);
        self.act(Action::StopRun { force });
    }

    /// Does what a command does, on a thread of its own: the process that drives the run may take its time.
    fn act(&mut self, action: Action) {
        self.state.says(action.command(&self.data.view.feature), false);
        let (place, sender) = (self.place.clone(), self.sender.clone());
        thread::spawn(move || {
            let done = action.act(&place).map_err(|error| error.to_string());
            let _ = sender.send(News::Done(done));
            let _ = sender.send(News::Change);
        });
    }

    /// Has the open page read, if it is not yet, or may have changed.
    fn read_detail(&mut self, is_changed: bool) {
        let (width, height) = self.terminal.size();
        let wanted = render::page::wanted(&self.frame(width, height));
        let Some(wanted) = wanted else { return };
        let is_known = self.detail.as_ref().is_some_and(|detail| detail.of == wanted);
        // A diff takes several calls of git: not with every clock.
        let is_costly = matches!(wanted, Wanted::Task { tab: Tab::Diff | Tab::Overview, .. });
        let is_changed = is_changed && (!is_costly || self.read_at != self.data.view.seq);
        if self.reading || is_known && !is_changed {
            return;
        }
        (self.reading, self.read_at) = (true, self.data.view.seq);
        let (place, sender) = (self.place.clone(), self.sender.clone());
        thread::spawn(move || drop(sender.send(News::Detail(Box::new(detail::read(&place, wanted))))));
    }

    fn left(&self) -> Left {
        let Some(feed) = &self.feed else { return Left::NotRun };
        match feed.run().ended() {
            // The process that drove a run lives a little longer than the run.
            None if self.data.driven => Left::Going,
            end => Left::Over(end.cloned()),
        }
    }
}
