//! Which rows the list of tasks has, and in which order. Only rows that are visible are built.

use super::look::Sign;
use super::state::State;
use crate::observe::Data;

/// A row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// A task, by its place in the view.
    Task(usize),
    /// The gate that runs now.
    Gate,
    /// Tasks in one line.
    Fold(Fold, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    Pending,
    Done,
}

/// What is selected. It follows the task, not the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    Task(String),
    Gate,
    Fold(Fold),
}

impl Item {
    pub fn pick(self, data: &Data) -> Pick {
        match self {
            Item::Task(index) => Pick::Task(data.view.tasks[index].id.to_string()),
            Item::Gate => Pick::Gate,
            Item::Fold(fold, _) => Pick::Fold(fold),
        }
    }
}

/// Returns the rows: what asks, what is blocked, what runs, what is tried again, what waits, what is done. Inside a group the
/// order is that of the graph; what was done last comes first.
pub fn rows(data: &Data, state: &State, room: usize) -> Vec<Item> {
    let mut active = Vec::new();
    let (mut pending, mut done) = (Vec::new(), Vec::new());
    let filter = state.filter.to_lowercase();
    for (index, task) in data.view.tasks.iter().enumerate() {
        let sign = data.sign(task);
        if !filter.is_empty() && !matches(&filter, task.id.as_str(), &task.title, sign) {
            continue;
        }
        match sign {
            Sign::Pending => pending.push(index),
            Sign::Done | Sign::Skipped => done.push(index),
            _ => active.push((group(sign), index)),
        }
    }
    active.sort_by_key(|(group, _)| *group);
    done.sort_by_key(|&index| {
        let task = &data.view.tasks[index];
        (task.status == "skipped", std::cmp::Reverse(task.completed_at))
    });
    let mut items: Vec<Item> = active.iter().map(|&(_, index)| Item::Task(index)).collect();
    if data.gate.is_some() && filter.is_empty() && !state.problems_only {
        let first = active.iter().position(|(group, _)| *group >= 2).unwrap_or(items.len());
        items.insert(first, Item::Gate);
    }
    if state.problems_only {
        items.truncate(active.iter().filter(|(group, _)| *group < 2).count());
        return items;
    }
    let unfolded = state.unfolded || !filter.is_empty() || data.view.status == "completed";
    let all = items.len() + pending.len() + done.len();
    if unfolded || all <= room {
        items.extend(pending.into_iter().chain(done).map(Item::Task));
        return items;
    }
    let picked = match &state.pick {
        Some(Pick::Task(id)) => data.view.tasks.iter().position(|task| task.id.as_str() == id),
        _ => None,
    };
    fold(&mut items, &pending, &done, room, picked);
    items
}

/// Adds what there is room for, the rest in one line each. The picked task keeps its row, so that no key acts on another.
fn fold(items: &mut Vec<Item>, pending: &[usize], done: &[usize], room: usize, picked: Option<usize>) {
    let picked_of = |group: &[usize]| picked.filter(|picked| group.contains(picked));
    let has_done = usize::from(!done.is_empty());
    if items.len() + pending.len() + has_done <= room {
        items.extend(pending.iter().copied().map(Item::Task));
        let shown = room.saturating_sub(items.len() + 1).min(done.len());
        let (shown, folded) = done.split_at(shown);
        items.extend(shown.iter().copied().map(Item::Task));
        fold_group(items, Fold::Done, folded, picked_of(folded));
        return;
    }
    fold_group(items, Fold::Pending, pending, picked_of(pending));
    fold_group(items, Fold::Done, done, picked_of(done));
}

fn fold_group(items: &mut Vec<Item>, fold: Fold, tasks: &[usize], picked: Option<usize>) {
    items.extend(picked.map(Item::Task));
    let folded = tasks.len() - usize::from(picked.is_some());
    if folded > 0 {
        items.push(Item::Fold(fold, folded));
    }
}

fn group(sign: Sign) -> u8 {
    match sign {
        Sign::Asks => 0,
        Sign::Failed => 1,
        Sign::Running | Sign::Verifying => 2,
        _ => 3,
    }
}

fn matches(filter: &str, id: &str, title: &str, sign: Sign) -> bool {
    id.to_lowercase().contains(filter) || title.to_lowercase().contains(filter) || sign.word().starts_with(filter)
}
