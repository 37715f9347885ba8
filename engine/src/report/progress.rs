//! Shows a run in progress: a live display on a terminal, plain lines otherwise.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mahabharatha_core::ids::Time;
use mahabharatha_core::view::{RunView, TaskView};
use mahabharatha_sys::ui::{Style, Ui, one_line};

use super::log_lines::{Line, Severity};
use super::running_gate::GateProgress;
use super::stream::log_event;
use super::text::amount;
use super::{TICK_INTERVAL, human_duration};

/// Most workers that get a bar of their own.
const MAX_SHOWN_WORKERS: usize = 12;

/// Interval between log lines about a gate that is still running.
const GATE_LINE_INTERVAL: Duration = Duration::from_secs(20);

pub enum Progress<'ui> {
    Live(Live<'ui>),
    Lines(Lines<'ui>, GateLines),
    /// Only warnings and errors.
    Quiet(Lines<'ui>),
    /// Lines as events for programs.
    Events(&'ui Ui),
}

/// Lines with the time of day.
pub struct Lines<'ui> {
    ui: &'ui Ui,
    zone: TimeZone,
}

/// The gate that was reported last, and for how many intervals.
#[derive(Debug, Default)]
pub struct GateLines {
    of: Option<(String, Time)>,
    reported: u32,
}

impl GateLines {
    /// Returns the line that is due, if any.
    fn next(&mut self, gate: &GateProgress) -> Option<Line> {
        let of = Some((gate.running.gate.clone(), gate.running.started_at));
        if self.of != of {
            (self.of, self.reported) = (of, 0);
        }
        if gate.elapsed < GATE_LINE_INTERVAL * (self.reported + 1) {
            return None;
        }
        self.reported = (gate.elapsed.as_secs() / GATE_LINE_INTERVAL.as_secs()) as u32;
        Some(Line { at: gate.running.started_at + gate.elapsed, severity: Severity::Info, text: gate.text() })
    }
}

/// Bars at the bottom of the screen, lines above them.
pub struct Live<'ui> {
    lines: Lines<'ui>,
    bars: MultiProgress,
    /// An empty line: a terminal that echoes `^C` moves the bars down by one and leaves one line behind.
    gap: ProgressBar,
    head: ProgressBar,
    /// One bar per busy worker, up to the maximum.
    workers: Vec<ProgressBar>,
    /// Present while a gate runs.
    gate: Option<ProgressBar>,
}

impl<'ui> Progress<'ui> {
    pub fn new(ui: &'ui Ui) -> Self {
        let lines = Lines { ui, zone: TimeZone::system() };
        match ui.open_bars() {
            Some(bars) => Progress::Live(Live::new(lines, bars)),
            None if ui.quiet() => Progress::Quiet(lines),
            None => Progress::Lines(lines, GateLines::default()),
        }
    }

    pub fn line(&self, line: &Line) {
        match self {
            Progress::Live(Live { lines, .. }) | Progress::Lines(lines, _) => lines.print(line),
            Progress::Quiet(lines) if line.severity > Severity::Info => lines.print(line),
            Progress::Quiet(_) => {}
            Progress::Events(ui) => ui.data(&log_event(line)),
        }
    }

    /// Updates the bars. Its cost grows with the number of tasks, so call it only a few times a second.
    pub fn update(&mut self, view: &RunView) {
        if let Progress::Live(live) = self {
            live.update(view);
        }
    }

    /// Shows which gate is running, for how long, and its last line of output.
    pub fn gate(&mut self, gate: Option<&GateProgress>) {
        match (self, gate) {
            (Progress::Live(live), gate) => live.update_gate(gate),
            (Progress::Lines(lines, reported), Some(gate)) => {
                reported.next(gate).iter().for_each(|line| lines.print(line))
            }
            _ => {}
        }
    }

    /// Removes the bars and keeps the lines.
    pub fn finish(self) {
        if let Progress::Live(live) = self {
            live.finish();
        }
    }
}

impl Lines<'_> {
    fn print(&self, line: &Line) {
        let style = match line.severity {
            Severity::Info => Style::Plain,
            Severity::Warn => Style::Warn,
            Severity::Error => Style::Bad,
        };
        self.ui.tell(style, &stamped(line, &self.zone));
    }
}

/// Formats a line with its time: `12:03:44 the text`.
fn stamped(line: &Line, zone: &TimeZone) -> String {
    format!("{} {}", time_of_day(line.at, zone), line.text)
}

fn time_of_day(time: Time, zone: &TimeZone) -> String {
    let timestamp = Timestamp::from_millisecond(time.0).unwrap_or_default();
    timestamp.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

impl<'ui> Live<'ui> {
    fn new(lines: Lines<'ui>, bars: MultiProgress) -> Self {
        let gap = bars.add(ProgressBar::no_length());
        gap.set_style(style(" "));
        gap.tick();
        let head = bars.add(ProgressBar::no_length());
        head.set_style(style("{prefix} {bar:20} {pos}/{len} {wide_msg} {took}").progress_chars("█▌░"));
        head.enable_steady_tick(TICK_INTERVAL);
        Live { lines, bars, gap, head, workers: Vec::new(), gate: None }
    }

    fn update(&mut self, view: &RunView) {
        let done = view.tasks.iter().filter(|task| matches!(task.status, "completed" | "skipped")).count();
        self.head.set_elapsed(view.elapsed);
        self.head.set_length(view.tasks.len() as u64);
        // Before the prefix and the message, whose calls draw it.
        self.head.set_position(done as u64);
        self.head.set_prefix(stage(view));
        self.head.set_message(counts(view));
        self.update_workers(view);
    }

    fn update_workers(&mut self, view: &RunView) {
        let busy: Vec<(u32, &TaskView)> = view
            .workers
            .iter()
            .filter_map(|worker| Some((worker.id, worker.task.as_ref()?)))
            .filter_map(|(worker, id)| Some((worker, view.tasks.iter().find(|task| task.id == *id)?)))
            .take(MAX_SHOWN_WORKERS)
            .collect();
        while self.workers.len() > busy.len() {
            if let Some(bar) = self.workers.pop() {
                self.bars.remove(&bar);
            }
        }
        while self.workers.len() < busy.len() {
            let bar = self.bars.add(ProgressBar::no_length());
            bar.set_style(style("  {prefix:<9} {took:>7}  {wide_msg}"));
            bar.enable_steady_tick(TICK_INTERVAL);
            self.workers.push(bar);
        }
        for (bar, (worker, task)) in self.workers.iter().zip(busy) {
            bar.set_elapsed(task.attempts.last().map(|attempt| attempt.elapsed).unwrap_or_default());
            bar.set_prefix(format!("worker {worker}"));
            bar.set_message(job(task));
        }
    }

    fn update_gate(&mut self, gate: Option<&GateProgress>) {
        let Some(gate) = gate else {
            if let Some(bar) = self.gate.take() {
                self.bars.remove(&bar);
            }
            return;
        };
        let bar = self.gate.get_or_insert_with(|| {
            let bar = self.bars.add(ProgressBar::no_length());
            bar.set_style(style("  gate {prefix} {took:>7}  {wide_msg}"));
            bar.enable_steady_tick(TICK_INTERVAL);
            bar
        });
        bar.set_elapsed(gate.elapsed);
        bar.set_prefix(one_line(&gate.running.gate));
        bar.set_message(gate.last_line_or_command());
    }

    fn finish(self) {
        self.lines.ui.close_bars();
        for bar in self.workers.iter().chain(&self.gate).chain([&self.head, &self.gap]) {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let took = |state: &ProgressState, text: &mut dyn Write| {
        // Writing to a string in memory cannot fail.
        let _ = text.write_str(&human_duration(Duration::from_secs(state.elapsed().as_secs())));
    };
    ProgressStyle::with_template(template).expect("the templates are constants of this file").with_key("took", took)
}

fn stage(view: &RunView) -> String {
    let current = view.levels.iter().find(|level| Some(level.level) == view.level);
    match (current, view.levels.last()) {
        (Some(current), Some(last)) => format!("level {} of {} {}", current.level, last.level, current.status),
        _ => String::new(),
    }
}

fn counts(view: &RunView) -> String {
    let of = |status: &str| view.tasks.iter().filter(|task| task.status == status).count();
    let busy = view.workers.iter().filter(|worker| worker.status == "running").count();
    let all = [(busy, "running"), (of("waiting"), "waiting"), (of("blocked"), "blocked"), (of("skipped"), "skipped")];
    let mut parts: Vec<String> =
        all.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    if view.cost.known_usd() > 0.0 {
        parts.push(amount(view.cost));
    }
    parts.join(", ")
}

fn job(task: &TaskView) -> String {
    let attempt = if task.attempt > 1 { format!(" (attempt {})", task.attempt) } else { String::new() };
    format!("{}{attempt}  {}", task.id, one_line(&task.title))
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};
    use mahabharatha_core::run::Event;
    use mahabharatha_core::run::event::FailCause;

    use super::super::running_gate::RunningGate;
    use super::super::support::{START, Story, failed};
    use super::*;
    use mahabharatha_sys::ui::Flags;

    #[test]
    fn a_line_begins_with_the_time_of_day() {
        let line = Line { at: START, severity: Severity::Warn, text: "gate lint failed".to_string() };
        assert_eq!(stamped(&line, &TimeZone::fixed(jiff::tz::offset(2))), "12:30:00 gate lint failed");
    }

    #[test]
    fn a_slow_gate_is_reported_at_intervals() {
        let running = RunningGate {
            gate: "test".to_string(),
            command: "npm test".to_string(),
            at: "1".to_string(),
            started_at: START,
            pid: 1,
            log: "log".into(),
        };
        let mut lines = GateLines::default();
        let mut after = |seconds, last_line: Option<&str>, running: &RunningGate| {
            let (elapsed, last_line) = (Duration::from_secs(seconds), last_line.map(str::to_string));
            lines.next(&GateProgress { running: running.clone(), elapsed, last_line }).map(|line| line.text)
        };
        assert_eq!(after(19, None, &running), None);
        let first = after(20, None, &running).unwrap();
        assert_eq!(first, "gate test has been running for 20s: it has printed nothing");
        assert_eq!(after(21, None, &running), None);
        let later = after(65, Some("suite\t3"), &running).unwrap();
        assert_eq!(later, "gate test has been running for 1m 05s: suite 3");
        assert_eq!(after(79, None, &running), None);
        let next = RunningGate { started_at: START + Duration::from_secs(80), ..running };
        assert_eq!(after(5, None, &next), None);
        assert!(after(20, None, &next).is_some());
    }

    fn screen(story: &Story, live: &mut Live<'_>, term: &InMemoryTerm) -> String {
        live.update(&story.view());
        live.head.force_draw();
        term.contents()
    }

    #[test]
    fn the_screen_shows_levels_workers_and_counts() {
        let ui = Ui::new(Flags::default());
        let term = InMemoryTerm::new(24, 80);
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::term_like(Box::new(term.clone())));
        let mut live = Live::new(Lines { ui: &ui, zone: TimeZone::UTC }, bars);
        let mut story = Story::unattended();
        story.base_is_green().starts("TASK-001").starts("TASK-002").after(65.0);
        let both = screen(&story, &mut live, &term);
        story.ends("TASK-001", failed(FailCause::Verification, "no", &[])).after(5.0).happens(Event::Woke);
        story.done("TASK-002");
        let one = screen(&story, &mut live, &term);
        story.done("TASK-001");
        let (started_at, pid, log) = (START, 1, "log".into());
        let (gate, command, at) = ("test".to_string(), "npm test".to_string(), "1".to_string());
        let running = RunningGate { gate, command, at, started_at, pid, log };
        let last_line = Some("suite 3".to_string());
        live.update_gate(Some(&GateProgress { running, elapsed: Duration::from_secs(7), last_line }));
        let gate = screen(&story, &mut live, &term);
        live.update_gate(None);
        let none = screen(&story, &mut live, &term);
        // Times change while the test runs.
        insta::with_settings!({filters => vec![(r" *(\d+m )?\d+s", " [time]")]}, {
            insta::assert_snapshot!([both, one, gate, none].join("\n\n"));
        });
    }
}
