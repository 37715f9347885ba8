//! What the user has chosen on the screen: selection, filter, open page, question that is asked.

use std::time::{Duration, Instant};

use super::rows::{Item, Pick, rows};
use crate::observe::{Action, Data};

/// How long a message takes the place of the keys.
const MESSAGE_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub struct State {
    pub pick: Option<Pick>,
    /// First visible row of the list.
    pub top: usize,
    pub filter: String,
    /// The filter is being typed.
    pub filtering: bool,
    /// Search text of a page.
    pub search: String,
    /// The text is being typed.
    pub searching: bool,
    pub problems_only: bool,
    /// Every task has a row of its own.
    pub unfolded: bool,
    pub span: Span,
    pub page: Page,
    pub prompt: Option<Prompt>,
    /// What happened last, in the place of the keys until the next key, for a few seconds.
    pub message: Option<Message>,
    /// The user has pressed a key, so the screen stays open after the end of the run.
    pub touched: bool,
    /// The user has stopped the run from this screen.
    pub stopping: bool,
}

/// Part of the run that the timeline shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Span {
    #[default]
    All,
    Hour,
    TenMinutes,
}

impl Span {
    pub fn next(self) -> Span {
        match self {
            Span::All => Span::Hour,
            Span::Hour => Span::TenMinutes,
            Span::TenMinutes => Span::All,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Page {
    #[default]
    List,
    Task(TaskPage),
    /// The output of the running gate, or of the last one.
    Gate(Scroll),
    /// Keys and signs, over the page that the next key goes back to unless it scrolls.
    Help {
        over: Box<Page>,
        scroll: Scroll,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPage {
    pub task: String,
    pub tab: Tab,
    /// The attempt that is shown; none for the latest.
    pub attempt: Option<u32>,
    pub scroll: Scroll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    Overview,
    Output,
    Diff,
    Log,
}

impl Tab {
    pub const ALL: [Tab; 4] = [Tab::Overview, Tab::Output, Tab::Diff, Tab::Log];

    pub fn name(self) -> &'static str {
        match self {
            Tab::Overview => "overview",
            Tab::Output => "output",
            Tab::Diff => "diff",
            Tab::Log => "log",
        }
    }

    pub fn next(self) -> Tab {
        let at = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        Tab::ALL[(at + 1) % Tab::ALL.len()]
    }
}

/// Where a page is scrolled to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scroll {
    #[default]
    Start,
    /// This line is the first.
    At(usize),
    /// Follows what is added.
    End,
}

/// A question at the bottom of the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub action: Action,
    /// What is typed; none if only Enter or Esc is expected.
    pub text: Option<String>,
    pub needs_text: bool,
}

impl Prompt {
    /// Asks for Enter or Esc.
    pub fn confirm(action: Action) -> Prompt {
        Prompt { action, text: None, needs_text: false }
    }

    /// Asks for a text.
    pub fn typed(action: Action, needs_text: bool) -> Prompt {
        Prompt { action, text: Some(String::new()), needs_text }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub text: String,
    pub is_error: bool,
    /// The run was read again since, so what the message tells of has been seen.
    pub is_seen: bool,
    /// When it was first drawn; none before.
    drawn_at: Option<Instant>,
}

impl State {
    pub fn says(&mut self, text: impl Into<String>, is_error: bool) {
        self.message = Some(Message { text: text.into(), is_error, is_seen: false, drawn_at: None });
    }

    /// Drops a message that has been on the screen long enough; called before each drawing.
    pub fn clock_moved(&mut self, now: Instant) {
        let is_old = |message: &Message| message.drawn_at.is_some_and(|at| now.duration_since(at) >= MESSAGE_TIME);
        self.message = self.message.take().filter(|message| !is_old(message));
        self.message.iter_mut().for_each(|message| message.drawn_at = message.drawn_at.or(Some(now)));
    }

    /// Drops a message about an earlier state of the run.
    pub fn run_was_read(&mut self, is_other_state: bool) {
        self.message = self.message.take().filter(|message| !(is_other_state && message.is_seen));
        self.message.iter_mut().for_each(|message| message.is_seen = true);
    }

    /// Returns the row of the selection; the first if what was selected has no row now, such as under a filter.
    pub fn selected(&self, data: &Data, items: &[Item]) -> usize {
        let found = self.pick.as_ref().and_then(|pick| items.iter().position(|item| item.pick(data) == *pick));
        found.unwrap_or(0)
    }

    /// Moves the selection by rows, and the list with it.
    pub fn step(&mut self, data: &Data, room: usize, by: isize) {
        let items = rows(data, self, room);
        let Some(last) = items.len().checked_sub(1) else { return };
        let to = self.selected(data, &items).saturating_add_signed(by).min(last);
        self.pick = Some(items[to].pick(data));
        self.top = top_for(to, self.top, items.len(), room);
    }

    /// Selects the next task that needs the user.
    pub fn next_problem(&mut self, data: &Data) {
        let tasks: Vec<String> =
            data.view.blockers.iter().filter_map(|blocker| blocker.task.as_ref()).map(ToString::to_string).collect();
        let now = self.pick.as_ref().and_then(|pick| tasks.iter().position(|task| *pick == Pick::Task(task.clone())));
        let next = now.map_or(0, |now| (now + 1) % tasks.len());
        if let Some(task) = tasks.get(next) {
            self.pick = Some(Pick::Task(task.clone()));
        }
    }

    /// Returns the task that keys act on: the one that is open, else the selected one.
    pub fn current_task<'a>(&'a self, data: &'a Data, room: usize) -> Option<&'a str> {
        if let Page::Task(page) = &self.page {
            return Some(&page.task);
        }
        let items = rows(data, self, room);
        match items.get(self.selected(data, &items)) {
            Some(Item::Task(index)) => Some(data.view.tasks[*index].id.as_str()),
            _ => None,
        }
    }
}

/// Returns the first visible row so that the selected one is visible; as it was, if it may.
pub fn top_for(selected: usize, top: usize, rows: usize, room: usize) -> usize {
    let room = room.max(1);
    let top = top.min(rows.saturating_sub(room));
    if selected < top { selected } else { top.max((selected + 1).saturating_sub(room)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gives_its_place_back_to_the_keys_after_five_seconds() {
        let (mut state, start) = (State::default(), Instant::now());
        state.says("STORE: queued again", false);
        for seconds in [0, 1, 4] {
            state.clock_moved(start + Duration::from_secs(seconds));
            assert!(state.message.is_some(), "after {seconds} s");
        }
        state.clock_moved(start + Duration::from_secs(5));
        assert_eq!(state.message, None);
        state.says("a later one", true);
        state.clock_moved(start + Duration::from_secs(60));
        assert!(state.message.is_some(), "its time begins when it is drawn");
    }

    #[test]
    fn the_selected_row_stays_visible() {
        assert_eq!(top_for(0, 0, 10, 4), 0);
        assert_eq!(top_for(4, 0, 10, 4), 1);
        assert_eq!(top_for(2, 5, 10, 4), 2);
        assert_eq!(top_for(9, 9, 10, 4), 6);
        assert_eq!(top_for(3, 8, 5, 4), 1, "fewer rows than before");
    }
}
