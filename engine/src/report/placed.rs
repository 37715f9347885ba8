//! Shows by group which files `init` and `install` write or remove, before and after, and asks for confirmation.

use std::path::Path;

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::text::count;
use crate::claude::groups::{Action, Group, Placed, count_files};

/// Most files of one directory that are named individually.
const MAX_LISTED_PER_DIR: usize = 2;

/// What a command does with our files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Write,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tense {
    Planned,
    Done,
}

/// Asks the user whether to proceed, after showing the plan. Without a terminal the answer is yes, since everything
/// written can be removed again.
pub fn confirm(ui: &Ui, operation: Operation, root: &Path, files: &[Placed]) -> Result<bool> {
    if ui.yes() || !ui.can_ask() || files.iter().all(|file| file.action == Action::Unchanged) {
        return Ok(true);
    }
    show_plan(ui, operation, root, files);
    let question = match operation {
        Operation::Write => "Write these files?",
        Operation::Remove => "Remove them?",
    };
    let agreed = ui.confirm(question, "--yes").map_err(|unanswered| Error::new(Kind::Usage, unanswered.to_string()))?;
    if !agreed {
        let done = match operation {
            Operation::Write => "written",
            Operation::Remove => "removed",
        };
        ui.note(&format!("Nothing was changed. --only, --without and --minimal choose what is {done}."));
    }
    Ok(agreed)
}

pub fn show_plan(ui: &Ui, operation: Operation, root: &Path, files: &[Placed]) {
    let changed = count_files(files.iter().filter(|file| file.action != Action::Unchanged));
    ui.note(&format!("{}: {} to change", root.display(), count(changed, "file")));
    for line in lines(files, operation, Tense::Planned, ui.verbose()) {
        ui.note(&line);
    }
}

/// Returns a line for each group and action, with counts and paths; with `every`, a line for each file.
pub fn lines(files: &[Placed], operation: Operation, tense: Tense, every: bool) -> Vec<String> {
    let mut groups: Vec<Group> = files.iter().map(|file| file.group).collect();
    groups.sort();
    groups.dedup();
    let mut lines = Vec::new();
    for group in groups {
        for action in [Action::Created, Action::Updated, Action::Merged, Action::Removed, Action::Kept] {
            let found: Vec<&Placed> =
                files.iter().filter(|file| file.group == group && file.action == action).collect();
            let places = if every || action == Action::Kept {
                found.iter().map(|file| shown(file)).collect()
            } else {
                gathered(&found)
            };
            let word = word(action, operation, tense);
            if every {
                lines.extend(places.iter().map(|place| format!("  {:<13} {word} {place}", group.word())));
            } else if !places.is_empty() {
                let number = if found.len() > 1 { format!("{} files: ", found.len()) } else { String::new() };
                lines.push(format!("  {:<13} {word} {number}{}", group.word(), places.join(", ")));
            }
        }
    }
    lines
}

fn word(action: Action, operation: Operation, tense: Tense) -> &'static str {
    match (action, tense) {
        (Action::Created, Tense::Planned) => "create",
        (Action::Created, Tense::Done) => "created",
        (Action::Updated, Tense::Planned) => "update",
        (Action::Updated, Tense::Done) => "updated",
        (Action::Merged, Tense::Planned) if operation == Operation::Write => "add to",
        (Action::Merged, Tense::Done) if operation == Operation::Write => "added to",
        (Action::Merged, Tense::Planned) => "remove our entries from",
        (Action::Merged, Tense::Done) => "removed our entries from",
        (Action::Removed, Tense::Planned) => "remove",
        (Action::Removed, Tense::Done) => "removed",
        (Action::Kept, Tense::Planned) => "keep",
        (Action::Kept, Tense::Done) => "kept",
        (Action::Unchanged, _) => "unchanged",
    }
}

/// Formats a file's path; for a kept file with the reason or the path of the new version.
pub fn shown(file: &Placed) -> String {
    match (&file.beside, file.action) {
        (Some(beside), _) => format!("{} → {beside}", file.path),
        (None, Action::Kept) => format!("{} (you changed it)", file.path),
        (None, _) => file.path.clone(),
    }
}

/// Replaces many files of one directory by the directory and their number, in the order of the first file.
fn gathered(files: &[&Placed]) -> Vec<String> {
    let dir = |file: &Placed| file.path.rsplit_once('/').map(|(dir, _)| dir.to_owned());
    let mut places: Vec<String> = Vec::new();
    for file in files {
        let together = files.iter().filter(|other| dir(other).is_some() && dir(other) == dir(file)).count();
        let place = match dir(file) {
            Some(dir) if together > MAX_LISTED_PER_DIR => format!("{dir}/ ({together})"),
            _ => file.path.clone(),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(path: &str, action: Action, beside: Option<&str>) -> Placed {
        let group = Group::of_project_file(path);
        Placed { group, path: path.to_owned(), action, beside: beside.map(str::to_owned) }
    }

    #[test]
    fn files_are_shown_by_group_with_counts_and_paths() {
        let mut files: Vec<Placed> =
            (0..4).map(|at| placed(&format!(".claude/agents/{at}.md"), Action::Created, None)).collect();
        files.extend([
            placed("CLAUDE.md", Action::Merged, None),
            placed(".mahabharatha/config.yaml", Action::Kept, Some(".mahabharatha/config.yaml.new")),
            placed(".mahabharatha/.gitignore", Action::Unchanged, None),
            placed(".gsd/specs/.gitkeep", Action::Created, None),
        ]);
        assert_eq!(
            lines(&files, Operation::Write, Tense::Planned, false),
            [
                "  agents        create 4 files: .claude/agents/ (4)",
                "  config        create .gsd/specs/.gitkeep",
                "  config        keep .mahabharatha/config.yaml → .mahabharatha/config.yaml.new",
                "  claude-md     add to CLAUDE.md",
            ]
        );
        assert_eq!(
            lines(&files[3..5], Operation::Remove, Tense::Done, true),
            ["  agents        created .claude/agents/3.md", "  claude-md     removed our entries from CLAUDE.md"]
        );
    }
}
