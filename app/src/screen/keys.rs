//! What keys do: they change what is shown, or ask for an action.

use mahabharatha_core::ids::TaskId;
use mahabharatha_sys::ui::Key;

use super::rows::{Fold, Item, Pick, rows};
use super::state::{Page, Prompt, Scroll, State, Tab, TaskPage};
use crate::observe::{Action, Data};

/// What follows a key beyond another frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Reaction {
    None,
    /// Leave the screen; the run goes on.
    Leave,
    /// Ctrl-C.
    Interrupt,
    Act(Action),
    Copy(String),
}

/// Rows that pages and lists have now.
#[derive(Debug, Clone, Default)]
pub struct Room {
    pub rows: usize,
    /// Lines of the open page, and how many there are.
    pub page: usize,
    pub lines: usize,
    /// Lines of the open page that match the search; without a search, the heads of files.
    pub marks: Vec<usize>,
}

pub fn press(state: &mut State, data: &Data, room: &Room, key: Key) -> Reaction {
    state.touched = true;
    if key == Key::Ctrl('c') {
        return Reaction::Interrupt;
    }
    state.message = None;
    if state.prompt.is_some() {
        return in_prompt(state, key);
    }
    if state.filtering {
        in_filter(state, key);
        return Reaction::None;
    }
    let is_search = state.searching;
    if is_search && !in_search(state, key) {
        return Reaction::None;
    }
    let key = if is_search { Key::Char('n') } else { key };
    match state.page.clone() {
        Page::List => in_list(state, data, room, key),
        Page::Task(page) => in_task(state, data, room, page, key),
        Page::Gate(scroll) => {
            match key {
                Key::Esc | Key::Left => back(state, key),
                Key::Char('/') => search(state),
                Key::Char('?') => open_help(state),
                Key::Char('q') => return Reaction::Leave,
                _ => state.page = Page::Gate(scrolled(scroll, room, key).unwrap_or(scroll)),
            }
            Reaction::None
        }
        Page::Help { over, scroll } => {
            let scrolls = room.lines > room.page;
            state.page = match scrolled(scroll, room, key).filter(|_| scrolls) {
                Some(scroll) => Page::Help { over, scroll },
                None => *over,
            };
            Reaction::None
        }
    }
}

/// Adds pasted text to what is typed; its line breaks answer nothing.
pub fn paste(state: &mut State, text: &str) {
    let typed = match &mut state.prompt {
        Some(prompt) => prompt.text.as_mut(),
        None if state.filtering => Some(&mut state.filter),
        None if state.searching => Some(&mut state.search),
        None => None,
    };
    if let Some(typed) = typed {
        typed.push_str(&text.replace(['\r', '\n'], " "));
    }
}

fn in_prompt(state: &mut State, key: Key) -> Reaction {
    let Some(prompt) = state.prompt.as_mut() else { return Reaction::None };
    match (key, &mut prompt.text) {
        (Key::Esc, _) | (Key::Char('n'), None) => state.prompt = None,
        (Key::Enter, Some(text)) => {
            if prompt.needs_text && text.trim().is_empty() {
                state.says("type an answer", true);
                return Reaction::None;
            }
            let action = prompt.action.clone().with_text(text);
            state.prompt = None;
            return Reaction::Act(action);
        }
        (Key::Enter | Key::Char('y'), None) => {
            let action = prompt.action.clone();
            state.prompt = None;
            return Reaction::Act(action);
        }
        (key, Some(text)) => edit(text, key),
        _ => {}
    }
    Reaction::None
}

/// Changes what is being typed.
fn edit(text: &mut String, key: Key) {
    match key {
        Key::Backspace => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        Key::Char(c) => text.push(c),
        _ => {}
    }
}

fn in_filter(state: &mut State, key: Key) {
    match key {
        Key::Esc => {
            state.filter.clear();
            state.filtering = false;
        }
        Key::Enter => state.filtering = false,
        key => edit(&mut state.filter, key),
    }
    state.top = 0;
}

fn search(state: &mut State) {
    state.search.clear();
    state.searching = true;
}

/// Edits the search text; returns whether it is complete.
fn in_search(state: &mut State, key: Key) -> bool {
    match key {
        Key::Esc => {
            state.search.clear();
            state.searching = false;
        }
        Key::Enter => state.searching = false,
        key => edit(&mut state.search, key),
    }
    key == Key::Enter
}

/// Goes back to the list; Esc ends a search first.
fn back(state: &mut State, key: Key) {
    if state.search.is_empty() || key != Key::Esc {
        state.page = Page::List;
    }
    state.search.clear();
}

fn in_list(state: &mut State, data: &Data, room: &Room, key: Key) -> Reaction {
    let page = room.rows.saturating_sub(1).max(1) as isize;
    match key {
        Key::Char('q') => return Reaction::Leave,
        Key::Char('j') | Key::Down => state.step(data, room.rows, 1),
        Key::Char('k') | Key::Up => state.step(data, room.rows, -1),
        Key::PageDown | Key::Ctrl('f') => state.step(data, room.rows, page),
        Key::PageUp | Key::Ctrl('b') => state.step(data, room.rows, -page),
        Key::Home => state.step(data, room.rows, isize::MIN / 2),
        Key::End | Key::Char('G') => state.step(data, room.rows, isize::MAX / 2),
        Key::Char('n') | Key::Tab => state.next_problem(data),
        Key::Esc => {
            state.filter.clear();
            state.problems_only = false;
        }
        Key::Char('/') => state.filtering = true,
        Key::Char('p') => state.problems_only = !state.problems_only,
        Key::Char('c') => state.unfolded = !state.unfolded,
        Key::Char('t') => state.span = state.span.next(),
        Key::Char('?') => open_help(state),
        Key::Enter | Key::Right => open(state, data, room),
        Key::Char('d') => {
            open(state, data, room);
            if let Page::Task(page) = &mut state.page {
                page.tab = Tab::Diff;
            }
        }
        key => return act(state, data, room, key),
    }
    Reaction::None
}

fn open(state: &mut State, data: &Data, room: &Room) {
    let items = rows(data, state, room.rows);
    match items.get(state.selected(data, &items)) {
        Some(Item::Task(index)) => {
            let task = data.view.tasks[*index].id.to_string();
            state.pick = Some(Pick::Task(task.clone()));
            let page = TaskPage { task, tab: Tab::Overview, attempt: None, scroll: Scroll::Start };
            state.page = Page::Task(page);
        }
        Some(Item::Gate) => state.page = Page::Gate(Scroll::End),
        Some(Item::Fold(Fold::Pending | Fold::Done, _)) => state.unfolded = true,
        None => {}
    }
}

fn open_help(state: &mut State) {
    state.page = Page::Help { over: Box::new(std::mem::take(&mut state.page)), scroll: Scroll::Start };
}

fn in_task(state: &mut State, data: &Data, room: &Room, mut page: TaskPage, key: Key) -> Reaction {
    let start = |tab: Tab| if tab == Tab::Output { Scroll::End } else { Scroll::Start };
    let turn = |page: &mut TaskPage, tab: Tab| (page.tab, page.scroll) = (tab, start(tab));
    match key {
        Key::Esc | Key::Left => {
            back(state, key);
            return Reaction::None;
        }
        Key::Char('/') => {
            search(state);
            return Reaction::None;
        }
        Key::Char('q') => return Reaction::Leave,
        Key::Char('?') => {
            open_help(state);
            return Reaction::None;
        }
        Key::Char(digit @ '1'..='4') => turn(&mut page, Tab::ALL[digit as usize - '1' as usize]),
        Key::Char('d') => turn(&mut page, Tab::Diff),
        Key::Tab | Key::Right => {
            let next = page.tab.next();
            turn(&mut page, next);
        }
        Key::Char(bracket @ ('[' | ']')) => {
            let latest = data.task(&page.task).map_or(0, |task| task.attempt);
            let now = page.attempt.unwrap_or(latest);
            let next = if bracket == '[' { now.saturating_sub(1).max(1) } else { (now + 1).min(latest) };
            page.attempt = (next != latest).then_some(next);
            page.scroll = start(page.tab);
        }
        Key::Char(turn @ ('J' | 'K')) => {
            state.page = Page::List;
            state.step(data, room.rows, if turn == 'J' { 1 } else { -1 });
            if let Some(Pick::Task(task)) = state.pick.clone() {
                page = TaskPage { task, tab: page.tab, attempt: None, scroll: start(page.tab) };
            }
        }
        key => match scrolled(page.scroll, room, key) {
            Some(scroll) => page.scroll = scroll,
            None => return act(state, data, room, key),
        },
    }
    state.page = Page::Task(page);
    Reaction::None
}

/// Returns where a key scrolls to; none if it is not one that scrolls.
fn scrolled(scroll: Scroll, room: &Room, key: Key) -> Option<Scroll> {
    let last = room.lines.saturating_sub(room.page);
    let now = match scroll {
        Scroll::Start => 0,
        Scroll::At(line) => line.min(last),
        Scroll::End => last,
    };
    let to = match key {
        Key::Char('j') | Key::Down => now + 1,
        Key::Char('k') | Key::Up => now.saturating_sub(1),
        Key::PageDown | Key::Char(' ') | Key::Ctrl('f') => now + room.page,
        Key::PageUp | Key::Ctrl('b') => now.saturating_sub(room.page),
        Key::Home => 0,
        Key::End | Key::Char('G') => return Some(Scroll::End),
        Key::Char('n' | 'N') => return Some(next_mark(room, now, key).map_or(scroll, Scroll::At)),
        _ => return None,
    };
    Some(if to >= last && scroll == Scroll::End { Scroll::End } else { Scroll::At(to.min(last)) })
}

/// Returns the line that the next or previous mark scrolls to; from the last one to the first.
fn next_mark(room: &Room, now: usize, key: Key) -> Option<usize> {
    let last = room.lines.saturating_sub(room.page);
    let mut tops = room.marks.iter().map(|mark| (*mark).min(last));
    match key {
        Key::Char('n') => tops.clone().find(|top| *top > now).or_else(|| tops.next()),
        _ => tops.clone().rfind(|top| *top < now).or_else(|| tops.next_back()),
    }
}

/// Keys that act on the run.
fn act(state: &mut State, data: &Data, room: &Room, key: Key) -> Reaction {
    let task = state.current_task(data, room.rows).and_then(|task| data.task(task));
    let prompt = match (key, task) {
        (Key::Char('a'), _) => {
            let mut levels = data.view.levels.iter();
            let waiting = levels.find_map(|level| Some((level.level, level.awaits_approval.as_ref()?)));
            let Some((level, candidate)) = waiting else { return refuse(state, "no level waits for approval") };
            Prompt::confirm(Action::Approve { level, tree: candidate.tree.clone() })
        }
        (Key::Char('R'), _) if data.can_run() => Prompt::confirm(Action::Run),
        (Key::Char('R'), _) => {
            return refuse(state, if data.driven { "it is running" } else { "nothing is left to run" });
        }
        (Key::Char('+' | '-'), _) if !data.driven => {
            return refuse(state, "it is not running; `mahabharatha run --workers N` sets their number");
        }
        (Key::Char(sign @ ('+' | '-')), _) => {
            let now = data.view.workers.iter().filter(|worker| worker.status != "stopped" && !worker.retiring).count();
            let workers = if sign == '+' { now as u32 + 1 } else { (now as u32).saturating_sub(1).max(1) };
            return Reaction::Act(Action::Scale { workers });
        }
        (Key::Char('y'), task) => {
            let of_task = task.and_then(|task| data.problem_of(task));
            let command = of_task.or(data.view.blockers.first()).and_then(|blocker| blocker.commands.first());
            let Some(command) = command else { return refuse(state, "no problem, so no command to copy") };
            return Reaction::Copy(command.clone());
        }
        (Key::Char('r' | 's' | 'g' | 'x'), None) => return refuse(state, "select a task first"),
        (Key::Char('r'), Some(task)) => {
            let action = Action::Retry { task: task.id.clone(), note: String::new() };
            Prompt::typed(action, task.question.is_some())
        }
        (Key::Char('s'), Some(task)) => {
            let with = dependents(data, &task.id);
            let action = Action::Skip { task: task.id.clone(), reason: String::new(), with };
            Prompt::typed(action, true)
        }
        (Key::Char('g'), Some(task)) => {
            let paths: Vec<String> = task.needs.iter().map(|need| need.path.clone()).collect();
            if paths.is_empty() {
                return refuse(state, &format!("{} asks for no files", task.id));
            }
            Prompt::confirm(Action::Grant { task: task.id.clone(), paths })
        }
        (Key::Char('x'), Some(task)) => match task.running().filter(|_| task.session.is_none()) {
            Some(attempt) => Prompt::confirm(Action::StopWorker { worker: attempt.worker }),
            None => return refuse(state, &format!("{} has no worker now", task.id)),
        },
        _ => return Reaction::None,
    };
    state.prompt = Some(prompt);
    Reaction::None
}

/// Returns the open tasks that depend on one, directly or not.
fn dependents(data: &Data, task: &TaskId) -> Vec<TaskId> {
    let mut found: Vec<TaskId> = Vec::new();
    // Dependencies are on lower levels, so they come before the task.
    for other in &data.view.tasks {
        let needs = |id: &TaskId| id == task || found.contains(id);
        if !matches!(other.status, "completed" | "skipped") && other.dependencies.iter().any(needs) {
            found.push(other.id.clone());
        }
    }
    found
}

/// Says why a key does nothing here.
fn refuse(state: &mut State, why: &str) -> Reaction {
    state.says(why, true);
    Reaction::None
}
