//! Prints a run's log lines and live progress, or its events for programs, on a thread of its own.
//!
//! A terminal or pipe whose reader has stopped reading blocks only this thread, never the run.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mahabharatha_core::view::RunView;
use mahabharatha_sys::ui::Ui;

use super::log_lines::Line;
use super::progress::Progress;
use super::running_gate::GateProgress;

/// Time for a slow reader at the end of a run to read the remaining output.
const READER_GRACE: Duration = Duration::from_secs(2);

pub struct Display {
    output: Sender<Output>,
    streams: bool,
    /// The newest view that is not shown yet; a slow reader skips older ones.
    view: Arc<Mutex<Option<RunView>>>,
    /// Disconnected when the thread has ended; none once that was waited for.
    ended: Option<Receiver<()>>,
}

enum Output {
    Line(Line),
    /// A line for programs.
    Event(String),
    Warning(String),
    Note(String),
    Bell,
    /// Progress of the gate that is running now.
    Gate(Option<GateProgress>),
    /// There is a newer view.
    View,
    Finish,
}

impl Display {
    /// Starts the thread. With `streams` it prints events to stdout and no log lines.
    pub fn start(ui: &Arc<Ui>, streams: bool) -> Display {
        let (output, inbox) = mpsc::channel();
        let (running, ended) = mpsc::channel::<()>();
        let view = Arc::new(Mutex::new(None));
        let (ui, newest) = (Arc::clone(ui), Arc::clone(&view));
        thread::spawn(move || {
            let _running = running;
            show(&ui, streams, &inbox, &newest);
        });
        Display { output, streams, view, ended: Some(ended) }
    }

    /// Tells whether it prints events for programs.
    pub fn streams(&self) -> bool {
        self.streams
    }

    pub fn line(&self, line: Line) {
        let _ = self.output.send(Output::Line(line));
    }

    pub fn event(&self, event: String) {
        let _ = self.output.send(Output::Event(event));
    }

    pub fn warn(&self, text: String) {
        let _ = self.output.send(Output::Warning(text));
    }

    /// Returns a callback for warnings from other threads.
    pub fn warnings(&self) -> impl Fn(String) + Send + 'static {
        let output = self.output.clone();
        move |text| drop(output.send(Output::Warning(text)))
    }

    pub fn note(&self, text: String) {
        let _ = self.output.send(Output::Note(text));
    }

    pub fn ring(&self) {
        let _ = self.output.send(Output::Bell);
    }

    pub fn gate(&self, gate: Option<GateProgress>) {
        let _ = self.output.send(Output::Gate(gate));
    }

    pub fn update(&self, view: RunView) {
        if lock(&self.view).replace(view).is_none() {
            let _ = self.output.send(Output::View);
        }
    }

    /// Removes the progress bars and keeps the lines. Returns `false` if the reader did not read everything in time.
    pub fn finish(mut self) -> bool {
        self.close()
    }

    fn close(&mut self) -> bool {
        let _ = self.output.send(Output::Finish);
        let ended = self.ended.take();
        ended.is_none_or(|ended| ended.recv_timeout(READER_GRACE) != Err(RecvTimeoutError::Timeout))
    }
}

/// Prints what is left, so that an error that ends the run appears below it.
impl Drop for Display {
    fn drop(&mut self) {
        self.close();
    }
}

fn show(ui: &Ui, streams: bool, inbox: &Receiver<Output>, newest: &Mutex<Option<RunView>>) {
    let open = || if streams { Progress::Events(ui) } else { Progress::new(ui) };
    let mut progress: Option<Progress<'_>> = None;
    for output in inbox {
        match output {
            Output::Line(line) => progress.get_or_insert_with(open).line(&line),
            Output::Event(event) => ui.data(&event),
            Output::Warning(text) => ui.warn(&text),
            Output::Note(text) => ui.note(&text),
            Output::Bell => ui.ring(),
            Output::Gate(gate) => progress.get_or_insert_with(open).gate(gate.as_ref()),
            Output::View => {
                let view = lock(newest).take();
                view.iter().for_each(|view| progress.get_or_insert_with(open).update(view));
            }
            Output::Finish => break,
        }
    }
    if let Some(progress) = progress {
        progress.finish();
    }
}

fn lock(view: &Mutex<Option<RunView>>) -> std::sync::MutexGuard<'_, Option<RunView>> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}
