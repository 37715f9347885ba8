//! Frames of the screen in its states and sizes, and what keys do.

mod narrow;

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Level, Oid, TaskId};
use mahabharatha_core::run::Event;
use mahabharatha_core::run::event::{Command, GateFailure, JobEnd};
use mahabharatha_core::view::{Draft, PlannedView};
use mahabharatha_sys::ui::Key;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::json;

use super::detail::{Detail, Piece, Tone, Wanted};
use super::keys::{Reaction, paste, press};
use super::look::Look;
use super::render::{self, Frame};
use super::rows::Pick;
use super::sample::{Sample, completed, midrun, task, thousand};
use super::state::{Page, Scroll, State, Tab, TaskPage};
use crate::observe::{Action, Data};

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (50, 12)];

struct Shown<'a> {
    sample: &'a Sample,
    data: Data,
    state: State,
    detail: Option<Detail>,
    look: Look,
}

impl<'a> Shown<'a> {
    fn new(sample: &'a Sample, driven: bool) -> Shown<'a> {
        let look = Look { color: true, unicode: true };
        Shown { sample, data: sample.data(driven), state: State::default(), detail: None, look }
    }

    fn frame(&self, width: u16, height: u16) -> Frame<'_> {
        Frame {
            data: &self.data,
            state: &self.state,
            detail: self.detail.as_ref(),
            now: self.sample.now,
            look: self.look,
            width: usize::from(width),
            height: usize::from(height),
        }
    }

    /// Returns the screen as text. Every line fits.
    fn at(&self, (width, height): (u16, u16)) -> String {
        let frame = self.frame(width, height);
        let lines = render::lines(&frame);
        assert!(lines.len() <= usize::from(height), "{} lines of {height}", lines.len());
        assert!(lines.iter().all(|line| line.width() <= usize::from(width)), "{lines:#?}");
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        render::paint(&frame, &mut buffer);
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }

    fn at_all_sizes(&self) -> String {
        SIZES.map(|size| format!("=== {} x {} ===\n{}", size.0, size.1, self.at(size))).join("\n")
    }

    fn press(&mut self, keys: &[Key]) -> Reaction {
        self.press_at((80, 24), keys)
    }

    fn press_at(&mut self, (width, height): (u16, u16), keys: &[Key]) -> Reaction {
        let mut reaction = Reaction::None;
        for key in keys {
            let room = render::room(&self.frame(width, height));
            reaction = press(&mut self.state, &self.data, &room, *key);
        }
        reaction
    }
}

fn typed(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).collect()
}

#[test]
fn a_run_with_a_question() {
    insta::assert_snapshot!(Shown::new(&midrun(), true).at_all_sizes());
}

#[test]
fn a_completed_run() {
    insta::assert_snapshot!(Shown::new(&completed(), false).at_all_sizes());
}

#[test]
fn a_thousand_tasks() {
    insta::assert_snapshot!(Shown::new(&thousand(), true).at_all_sizes());
}

#[test]
fn a_gate_that_runs() {
    let mut sample = Sample::start("x", 2, &[task("A", "Make a", 1, &[]), task("B", "Make b", 2, &["A"])]);
    sample.after(60).done("A").staged(1);
    insta::assert_snapshot!(Shown::new(&sample, true).at_all_sizes());
}

#[test]
fn a_task_with_a_question() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Enter]);
    insta::assert_snapshot!(shown.at_all_sizes());
}

#[test]
fn the_diff_of_a_task() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    let page = TaskPage { task: "EMAIL".to_string(), tab: Tab::Diff, attempt: None, scroll: Scroll::Start };
    shown.state.page = Page::Task(page);
    let piece = |tone, text: &str| Piece { tone, text: text.to_string() };
    let mut lines = vec![piece(Tone::File, "src/EMAIL.rs  owned  +40 −1"), piece(Tone::Dim, "@@ -1,2 +1,40 @@")];
    lines.push(piece(Tone::Bad, "-old"));
    lines.extend((1..=40).map(|number| piece(Tone::Good, &format!("+line {number}"))));
    let of = Wanted::Task { task: "EMAIL".to_string(), tab: Tab::Diff, attempt: None };
    shown.detail = Some(Detail { of, lines });
    insta::assert_snapshot!(shown.at_all_sizes());
    shown.press(&[Key::Char('G')]);
    assert!(shown.at((80, 24)).contains("+line 40"));
    shown.press(&[Key::PageUp, Key::PageUp, Key::PageUp]);
    assert!(shown.at((80, 24)).contains("src/EMAIL.rs  owned"));
}

#[test]
fn a_feature_that_has_not_run() {
    let sample = Sample::start("x", 2, &[task("A", "Make a", 1, &[]), task("B", "Make b", 2, &["A"])]);
    let mut shown = Shown::new(&sample, false);
    let planned = PlannedView::of("x", Draft::Design(sample.run.graph()), Cost::default());
    shown.data = Data::new(planned.into_run(), false);
    insta::assert_snapshot!(shown.at_all_sizes());
    assert_eq!(shown.press(&[Key::Char('R')]), Reaction::None);
    assert!(shown.at((80, 24)).contains("mahabharatha run x"));
    assert_eq!(shown.press(&[Key::Char('y')]), Reaction::Act(Action::Run));
    shown.press(&[Key::Enter]);
    assert!(shown.at((80, 24)).contains("cargo nextest run a"));
}

#[test]
fn text_is_found_on_a_page() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    let page = TaskPage { task: "EMAIL".to_string(), tab: Tab::Diff, attempt: None, scroll: Scroll::Start };
    shown.state.page = Page::Task(page);
    let piece = |tone, text: String| Piece { tone, text };
    let file = |name: &str| {
        let lines = (1..=40).map(move |number| piece(Tone::Good, format!("+line {number}")));
        [piece(Tone::File, name.to_string())].into_iter().chain(lines).collect::<Vec<_>>()
    };
    let of = Wanted::Task { task: "EMAIL".to_string(), tab: Tab::Diff, attempt: None };
    shown.detail = Some(Detail { of, lines: [file("one"), file("two"), file("three")].concat() });
    let first = |shown: &Shown<'_>| shown.at((80, 24)).lines().nth(3).unwrap().trim().to_string();
    for (key, name) in [('n', "two"), ('n', "three"), ('n', "one"), ('N', "three"), ('N', "two")] {
        shown.press(&[Key::Char(key)]);
        assert!(first(&shown).contains(name), "{key} does not lead to {name} but to {}", first(&shown));
    }
    shown.press(&[Key::Char('/')]);
    shown.press(&typed("LINE 2"));
    assert!(shown.at((80, 24)).contains("/LINE 2   33 lines"), "{}", shown.at((80, 24)));
    shown.press(&[Key::Enter]);
    assert_eq!(first(&shown), "+line 2");
    shown.press(&[Key::Char('n')]);
    assert_eq!(first(&shown), "+line 20");
    shown.press(&[Key::Esc]);
    assert!(matches!(shown.state.page, Page::Task(_)) && shown.state.search.is_empty(), "only the search has ended");
    shown.press(&[Key::Esc]);
    assert_eq!(shown.state.page, Page::List);
}

#[test]
fn the_page_of_keys() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('?')]);
    insta::assert_snapshot!(shown.at_all_sizes());
}

#[test]
fn what_stops_a_run() {
    let mut text = String::new();
    let mut add = |name: &str, sample: &Sample, driven: bool| {
        let shown = Shown::new(sample, driven).at((80, 14));
        text.push_str(&format!("=== {name} ===\n{shown}\n"));
    };
    let tasks = [task("A", "Make a", 1, &[]), task("B", "Make b", 1, &[])];
    add("the process is gone", Sample::start("x", 2, &tasks).after(90), false);
    let until = Some(mahabharatha_core::ids::Time(super::sample::START.0 + 600_000));
    let mut quota = Sample::start("x", 2, &tasks);
    quota.after(60).ends("A", JobEnd::Unserved { why: "the limit of 5 hours is reached".to_string(), until });
    add("quota", &quota, true);
    let mut paused = Sample::start("x", 2, &tasks);
    paused.happens(&Event::Asked { request: "1".to_string(), command: Command::Pause });
    add("paused", &paused, true);
    insta::assert_snapshot!(text);
}

#[test]
fn without_unicode_everything_is_ascii_and_without_color_nothing_has_one() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.look = Look { color: false, unicode: false };
    let text = shown.at((80, 24));
    assert!(text.is_ascii(), "{text}");
    assert!(text.contains(">? CLEANUP") && text.contains("+ L1"), "{text}");
    let frame = shown.frame(120, 40);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 40));
    render::paint(&frame, &mut buffer);
    let reset = ratatui::style::Color::Reset;
    assert!(buffer.content.iter().all(|cell| cell.fg == reset && cell.bg == reset));
}

#[test]
fn a_screen_that_is_too_small_has_one_line() {
    let sample = midrun();
    let shown = Shown::new(&sample, true);
    assert_eq!(shown.at((39, 24)).trim_end(), "invoice-export 4/10 ? CLEANUP");
    assert_eq!(shown.at((80, 7)).trim_end(), "invoice-export 4/10 ? CLEANUP");
    for (width, height) in [(1, 1), (2, 40), (200, 1), (40, 8), (41, 9), (300, 100)] {
        shown.at((width, height));
    }
}

#[test]
fn nothing_that_an_agent_writes_is_obeyed_by_the_terminal() {
    let evil = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{202e}evil\r\nnext";
    let mut sample = Sample::start("x", 2, &[task("A", "Make \u{202e}it", 1, &[]), task("B", "b", 2, &["A"])]);
    sample.after(5).asks("A", evil);
    let mut shown = Shown::new(&sample, true);
    let of = |tab| Wanted::Task { task: "A".to_string(), tab, attempt: None };
    for keys in [&[][..], &[Key::Enter], &[Key::Char('2')], &[Key::Char('4')], &[Key::Esc, Key::Char('r')]] {
        shown.press(keys);
        shown.detail =
            Some(Detail { of: of(Tab::Output), lines: vec![Piece { tone: Tone::Plain, text: evil.to_string() }] });
        for (width, height) in SIZES {
            // Before the buffer, which would drop some of it too.
            let lines = render::lines(&shown.frame(width, height));
            let text: String = lines.iter().flat_map(|line| &line.spans).map(|span| span.content.as_ref()).collect();
            let bad = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}');
            assert!(!text.contains(bad), "{text:?}");
        }
    }
}

#[test]
fn the_selection_follows_its_task_and_folded_tasks_unfold() {
    let sample = thousand();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('j'), Key::Down]);
    let pick = shown.state.pick.clone();
    assert!(matches!(&pick, Some(Pick::Task(_))), "{pick:?}");
    let mut later = thousand();
    let running = later.running();
    later.after(3).done(&running[3]);
    shown.data = later.data(true);
    assert_eq!(shown.state.pick, pick);
    assert!(!shown.at((80, 24)).contains("L1-000"));
    shown.press(&[Key::Char('c'), Key::End]);
    assert!(shown.at((80, 24)).contains("L1-"), "{}", shown.at((80, 24)));
    shown.press(&[Key::Char('c'), Key::Char('/')]);
    shown.press(&typed("l8-05"));
    shown.press(&[Key::Enter]);
    let text = shown.at((80, 24));
    assert!(text.contains("L8-059") && !text.contains("L4-010"), "{text}");
    shown.press(&[Key::Esc, Key::Char('p')]);
    let text = shown.at((80, 24));
    assert!(text.contains("problems only") && !text.contains("waits for level"), "{text}");
}

#[test]
fn keys_that_change_the_run_show_their_command_first() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    assert_eq!(shown.press(&[Key::Char('r')]), Reaction::None);
    shown.press(&typed("from the creation, it's simpler"));
    let command = "mahabharatha retry -f invoice-export CLEANUP --note 'from the creation, it'\\''s simpler'";
    assert!(shown.at((120, 40)).contains(command), "{}", shown.at((120, 40)));
    let note = "from the creation, it's simpler".to_string();
    let id = |name: &str| TaskId::new(name).unwrap();
    assert_eq!(shown.press(&[Key::Enter]), Reaction::Act(Action::Retry { task: id("CLEANUP"), note }));
    assert_eq!(shown.press(&[Key::Char('s'), Key::Enter]), Reaction::None);
    assert!(shown.at((80, 24)).contains("type an answer"));
    assert!(shown.at((80, 24)).contains("and with it E2E, DOCS"));
    shown.press(&[Key::Esc]);
    assert_eq!(shown.press(&[Key::Char('g')]), Reaction::None, "it asks for no files");
    assert_eq!(shown.press(&[Key::Char('a')]), Reaction::None, "no level waits");
    assert_eq!(shown.press(&[Key::Char('j'), Key::Char('x'), Key::Esc]), Reaction::None, "asked, and refused");
    assert!(matches!(shown.press(&[Key::Char('x'), Key::Char('y')]), Reaction::Act(Action::StopWorker { .. })));
    assert_eq!(shown.press(&[Key::Char('+')]), Reaction::Act(Action::Scale { workers: 5 }));
    assert_eq!(shown.press(&[Key::Char('-')]), Reaction::Act(Action::Scale { workers: 3 }));
    assert_eq!(shown.press(&[Key::Ctrl('c')]), Reaction::Interrupt);
    assert_eq!(shown.press(&[Key::Char('q')]), Reaction::Leave);
    let copied = shown.press(&[Key::Char('n'), Key::Char('y')]);
    assert_eq!(copied, Reaction::Copy("mahabharatha retry -f invoice-export CLEANUP --note \"…\"".to_string()));
}

#[test]
fn keys_act_on_the_row_that_is_marked_also_if_a_filter_hides_what_was_selected() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('j'), Key::Char('k'), Key::Char('/')]);
    shown.press(&typed("email"));
    shown.press(&[Key::Enter, Key::Char('s')]);
    let text = shown.at((80, 24));
    assert!(text.contains("❯▸ EMAIL") && text.contains("Why skip EMAIL"), "{text}");
}

#[test]
fn the_page_of_keys_goes_back_to_the_page_before() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Enter, Key::Char('3')]);
    let before = shown.state.page.clone();
    assert!(matches!(before, Page::Task(_)), "{before:?}");
    shown.press(&[Key::Char('?')]);
    assert_ne!(shown.state.page, before);
    shown.press(&[Key::Char('j')]);
    assert_eq!(shown.state.page, before);
}

#[test]
fn the_page_of_keys_scrolls_where_it_does_not_fit() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press_at((50, 12), &[Key::Char('?'), Key::Char('j')]);
    assert!(matches!(shown.state.page, Page::Help { scroll: Scroll::At(1), .. }), "{:?}", shown.state.page);
    shown.press_at((50, 12), &[Key::Esc]);
    assert_eq!(shown.state.page, Page::List);
}

#[test]
fn of_a_long_text_that_is_pasted_the_end_is_shown() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('r')]);
    // Measuring the rest of the text at each character would take minutes.
    paste(&mut shown.state, &("first".to_string() + &"漢 word ".repeat(20_000) + "last"));
    let text = shown.at((80, 24));
    let typed = text.lines().find(|line| line.starts_with(" > ")).unwrap();
    assert!(typed.ends_with("word last") && !typed.contains("first"), "{typed}");
}

#[test]
fn files_that_an_agent_asks_for_are_granted_by_a_key() {
    let sample = thousand();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('n'), Key::Char('n'), Key::Char('g')]);
    assert!(shown.at((120, 40)).contains("mahabharatha task grant -f ledger-rewrite"), "{}", shown.at((120, 40)));
    let reaction = shown.press(&[Key::Char('y')]);
    assert!(
        matches!(&reaction, Reaction::Act(Action::Grant { paths, .. }) if paths == &["src/shared/money.rs"]),
        "{reaction:?}"
    );
}

/// A run whose only level failed its gate, after which its task was given the output to fix.
fn red_gate() -> Sample {
    let mut sample = Sample::start("x", 1, &[task("A", "Make a", 1, &[])]);
    sample.after(60).done("A").staged(1).after(30);
    let output = (1..=40).map(|case| format!("case {case} failed")).collect::<Vec<_>>().join("\n");
    let staging = Oid::new("5".repeat(40)).unwrap();
    let failure = json!({ "gate": "test", "command": "cargo test", "output": output, "staging": staging });
    let failure: GateFailure = serde_json::from_value(failure).unwrap();
    sample.answers(|effect| Event::GateFailed { effect, level: Level(1), failure, passed: Vec::new() });
    let task = TaskId::new("A").ok();
    sample.answers(|effect| Event::Blamed { effect, level: Level(1), task, why: "it changed the parser".to_string() });
    sample
}

#[test]
fn a_completed_task_that_fixes_a_gate_is_shown_as_running() {
    let sample = red_gate();
    assert_eq!(sample.running(), ["A"]);
    let shown = Shown::new(&sample, true).at((80, 24));
    assert!(shown.contains("❯▸ A") && shown.contains("fixes what a gate found"), "{shown}");
}

#[test]
fn a_failed_gate_shows_its_name_its_last_lines_and_the_key_that_continues() {
    let mut sample = red_gate();
    for _ in 0..9 {
        match sample.running().is_empty() {
            true => break,
            false => sample.fails("A", "still red").after(3_600).happens(&Event::Woke),
        };
    }
    insta::assert_snapshot!(Shown::new(&sample, false).at_all_sizes());
}

#[test]
fn the_problems_the_keys_and_the_cursor_name_one_task() {
    let tasks = ["KEY", "ASK", "BUSY"].map(|id| task(id, "Make it", 1, &[]));
    let mut sample = Sample::start("x", 3, &tasks);
    for _ in 0..3 {
        sample.after(60).fails("KEY", "it is red").after(3_600).happens(&Event::Woke);
    }
    sample.asks("ASK", "Which one?");
    let mut shown = Shown::new(&sample, true);
    let says = |shown: &Shown<'_>, parts: &[&str], others: &[&str]| {
        for size in SIZES {
            let text = shown.at(size);
            let is_low = size.1 < 16;
            for part in parts.iter().filter(|part| !is_low || part.starts_with('❯')) {
                assert!(text.contains(part), "{part} is missing:\n{text}");
            }
            assert!(others.iter().all(|part| !text.contains(part)), "{others:?}:\n{text}");
        }
    };
    let ask =
        ["❯? ASK", "mahabharatha retry -f x ASK", "r answer ASK   s skip ASK   d diff ASK", "  r answer  s skip  "];
    says(&shown, &ask, &["retry -f x KEY"]);
    shown.press(&[Key::Char('r')]);
    assert!(matches!(&shown.state.prompt, Some(prompt) if prompt.action.question().contains("ASK")));
    shown.press(&[Key::Esc, Key::Char('j')]);
    let key = ["❯✗ KEY", "mahabharatha retry -f x KEY", "r retry KEY   s skip KEY   d diff KEY", "  r retry  s skip  "];
    says(&shown, &key, &["retry -f x ASK", "r answer"]);
    shown.press(&[Key::Char('j')]);
    says(&shown, &["❯◐ BUSY", "n select KEY", "n next problem"], &["r answer", "r retry", "s skip"]);
    shown.press(&[Key::Char('n')]);
    says(&shown, &key, &["r answer"]);
}

#[test]
fn a_run_whose_agents_are_ending_is_stopping() {
    let mut sample = midrun();
    let command = Command::Stop { force: false, grace_ms: 10_000, worker: None };
    sample.happens(&Event::Asked { request: "1".to_string(), command });
    let shown = Shown::new(&sample, true).at((80, 24));
    assert!(shown.lines().next().unwrap().contains("! stopping"), "{shown}");
    let shown = Shown::new(&sample, false).at((80, 24));
    assert!(shown.lines().next().unwrap().contains("! paused"), "no process waits for them: {shown}");
}

#[test]
fn the_number_of_workers_is_not_changed_while_nothing_runs() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, false);
    assert_eq!(shown.press(&[Key::Char('+')]), Reaction::None);
    assert!(shown.at((80, 24)).contains("it is not running"), "{}", shown.at((80, 24)));
}

#[test]
fn a_selected_task_keeps_its_row_when_it_is_done() {
    let sample = thousand();
    let mut shown = Shown::new(&sample, true);
    let running = sample.running();
    shown.state.pick = Some(Pick::Task(running[3].clone()));
    let mut later = thousand();
    later.after(3).done(&running[3]);
    shown.data = later.data(true);
    let text = shown.at((80, 24));
    assert!(text.contains(&format!("❯✓ {}", running[3])), "{text}");
}

#[test]
fn a_narrow_question_shows_its_whole_command() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('r')]);
    shown.press(&typed("from the creation"));
    let text = shown.at((50, 12)).replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("mahabharatha retry -f invoice-export CLEANUP --note 'from the creation'"), "{text}");
    shown.press(&[Key::Ctrl('u')]);
    assert_eq!(shown.press(&[Key::Enter]), Reaction::None, "a question needs an answer");
}

#[test]
fn text_is_pasted_into_the_filter() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    shown.press(&[Key::Char('/')]);
    paste(&mut shown.state, "email");
    let text = shown.at((80, 24));
    assert!(text.contains("/email_") && text.contains("❯▸ EMAIL"), "{text}");
}
