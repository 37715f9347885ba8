//! `.gsd/STATE.md`: one section per feature with its state. Must keep everything that the user wrote outside of them.

use std::collections::BTreeSet;

use mahabharatha_core::ids::TaskId;
use mahabharatha_core::run::Run;
use mahabharatha_core::view::{Blocker, RunView, Stamp, TaskView, decisions_of};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::ui::{clean, one_line};

use super::human_duration;
use super::markdown::{inline, table};
use super::text::{blocked_tasks, count, feature_cost, note, task_counts, worked};

const HEADING: &str = "# MAHABHARATHA State: ";
const DECISIONS: &str = "## Decisions";

/// Contents of one feature's section.
#[derive(Debug, Clone)]
pub struct StateSection {
    feature: String,
    facts: Vec<(&'static str, String)>,
    tasks: Vec<Vec<String>>,
    decisions: Vec<String>,
    blockers: Vec<Blocker>,
}

impl StateSection {
    pub fn of(view: &RunView, decisions: Vec<String>) -> Self {
        let blocked = blocked_tasks(view);
        let row = |task: &TaskView| {
            vec![
                task.id.to_string(),
                task.status.to_string(),
                task.worker.map_or_else(|| "-".to_string(), |worker| worker.to_string()),
                if task.status == "completed" {
                    human_duration(worked(view, task, view.updated_at.0))
                } else {
                    "-".to_string()
                },
                inline(&with_attempts(task, note(task, &blocked))),
            ]
        };
        StateSection {
            feature: view.feature.clone(),
            facts: facts(view),
            tasks: view.tasks.iter().map(row).collect(),
            decisions,
            blockers: view.blockers.0.clone(),
        }
    }
}

impl StateSection {
    /// Returns the section of a feature that has not been run yet.
    pub fn before_a_run(feature: &str, facts: Vec<(&'static str, String)>, decisions: Vec<String>) -> Self {
        StateSection { feature: feature.to_owned(), facts, tasks: Vec::new(), decisions, blockers: Vec::new() }
    }
}

fn facts(view: &RunView) -> Vec<(&'static str, String)> {
    let phase = if view.status == "completed" { "Completion" } else { "Execution" };
    let last = view.levels.last().map(|level| level.level);
    let level = match (view.level, last) {
        (Some(level), Some(last)) => format!("{level} of {last}"),
        _ => "-".to_string(),
    };
    let stamp = |stamp: Stamp| stamp.0.to_string();
    let mut facts = vec![
        ("Phase", phase.to_string()),
        ("Status", view.status_word().to_string()),
        ("Level", level),
        ("Started", stamp(view.started_at)),
        ("Last Update", stamp(view.updated_at)),
        ("Base", inline(short_branch(&view.base_branch))),
        ("Tasks", task_counts(view)),
    ];
    facts.extend(feature_cost(view).map(|cost| ("Cost", cost)));
    facts
}

fn with_attempts(task: &TaskView, note: String) -> String {
    match (task.attempts.len(), note.is_empty()) {
        (0 | 1, _) => note,
        (attempts, true) => count(attempts, "attempt"),
        (attempts, false) => format!("{}: {note}", count(attempts, "attempt")),
    }
}

/// Formats the section, from its heading to its last line.
pub fn render_section(section: &StateSection) -> String {
    let mut text = format!("{HEADING}{}\n\n## Current Phase\n", section.feature);
    for (name, value) in &section.facts {
        text.push_str(&format!("- **{name}:** {value}\n"));
    }
    if !section.tasks.is_empty() {
        text.push_str("\n## Task Progress\n\n");
        text.push_str(&table(&["Task ID", "Status", "Worker", "Duration", "Notes"], &section.tasks));
    }
    text.push_str(&format!("\n{DECISIONS}\n"));
    for decision in &section.decisions {
        // A line that looks like a heading would end the section.
        text.push_str(&format!("- {}\n", clean(decision).replace("\n#", "\n  #")));
    }
    text.push_str("\n## Blockers\n");
    for blocker in &section.blockers {
        text.push_str(&format!(
            "- {}\n  - Root cause: {}\n  - Resolution: {}\n",
            inline(&blocker.what),
            inline(&blocker.cause),
            // Our own text with commands in it, so it is not escaped; inserted text must stay on the line.
            one_line(&blocker.resolution)
        ));
    }
    text
}

/// Splits the file into our sections and other bytes, in order. Together the pieces are the whole file.
fn pieces(existing: &[u8]) -> Vec<(Option<&str>, &[u8])> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut feature = None;
    let mut at = 0;
    for line in existing.split_inclusive(|&byte| byte == b'\n') {
        // Any top-level heading ends a section.
        if line.starts_with(b"# ") {
            pieces.push((feature, &existing[start..at]));
            start = at;
            let name = line.strip_prefix(HEADING.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
            feature = name.map(str::trim);
        }
        at += line.len();
    }
    pieces.push((feature, &existing[start..]));
    pieces.retain(|(_, text)| !text.is_empty());
    pieces
}

/// Decodes a line as UTF-8, otherwise as Latin-1, in which every byte is a character, so none is lost.
fn decode(line: &[u8]) -> String {
    String::from_utf8(line.to_vec()).unwrap_or_else(|_| line.iter().copied().map(char::from).collect())
}

/// Returns the entries under `## Decisions` in a feature's section, ours and the user's, so that they survive when the
/// section is rendered again.
pub fn decisions_in(existing: &[u8], feature: &str) -> Vec<String> {
    let pieces = pieces(existing);
    let Some((_, section)) = pieces.iter().find(|(name, _)| *name == Some(feature)) else { return Vec::new() };
    let text: String = section.split_inclusive(|&byte| byte == b'\n').map(decode).collect();
    let body = text.lines().skip_while(|line| line.trim_end() != DECISIONS).skip(1);
    let mut decisions: Vec<String> = Vec::new();
    for line in body.take_while(|line| !line.starts_with("## ")) {
        match line.strip_prefix("- ") {
            Some(decision) => decisions.push(decision.trim_end().to_string()),
            None if line.trim().is_empty() => {}
            None => match decisions.last_mut() {
                Some(last) => last.push_str(&format!("\n{}", line.trim_end())),
                None => decisions.push(line.trim().to_string()),
            },
        }
    }
    decisions
}

/// Returns the current decisions: those of the run's agents and those the user noted. Drops our lines that the run no
/// longer has because the task was done again; every other line of the file stays, in its order.
pub fn decisions(existing: &[u8], run: &Run) -> Vec<String> {
    let line = |task: &TaskId, text: &str| one_line(&format!("{task}: {text}"));
    let current: Vec<String> = decisions_of(run).iter().map(|it| line(&it.task, &it.text)).collect();
    let attempts = run.graph().tasks().iter().zip(run.tasks()).flat_map(|(task, state)| {
        let reports = state.attempts.iter().filter_map(|attempt| attempt.ended.as_ref());
        reports.flat_map(|(_, report)| &report.decisions).map(move |text| line(&task.id, text))
    });
    let ever: BTreeSet<String> = attempts.collect();
    let mut decisions = decisions_in(existing, run.feature().as_str());
    decisions.retain(|known| current.contains(known) || !ever.contains(known));
    for line in current {
        if !decisions.contains(&line) {
            decisions.push(line);
        }
    }
    decisions
}

/// Returns the file with this feature's section replaced, or inserted in order of names. Everything else is unchanged.
pub fn replace_section(existing: &[u8], feature: &str, new_text: &str) -> Vec<u8> {
    let pieces = pieces(existing);
    let is_ours = |piece: &&(Option<&str>, &[u8])| piece.0 == Some(feature);
    let place = pieces
        .iter()
        .position(|piece| is_ours(&piece))
        .or_else(|| pieces.iter().position(|(name, _)| name.is_some_and(|name| name > feature)));
    let (before, after) = pieces.split_at(place.unwrap_or(pieces.len()));
    let mut file: Vec<u8> = before.iter().flat_map(|(_, piece)| *piece).copied().collect();
    while !file.is_empty() && !file.ends_with(b"\n\n") {
        file.push(b'\n');
    }
    file.extend(new_text.trim_end().bytes());
    file.push(b'\n');
    for (index, (_, piece)) in after.iter().filter(|piece| !is_ours(piece)).enumerate() {
        if index == 0 {
            file.push(b'\n');
        }
        file.extend(*piece);
    }
    file
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::Event;
    use proptest::prelude::*;

    use super::super::support::Story;
    use super::*;

    #[test]
    fn a_section_in_the_form_of_the_specification() {
        let decisions = vec!["2026-01-26: Using SQLite".to_string()];
        insta::assert_snapshot!(render_section(&StateSection::of(&Story::stuck().view(), decisions)));
    }

    #[test]
    fn a_completed_feature() {
        let mut story = Story::eventful();
        story.answers(|effect| Event::Closed { effect });
        insta::assert_snapshot!(render_section(&StateSection::of(&story.view(), Vec::new())));
    }

    #[test]
    fn sections_are_sorted_and_read_back() {
        let section = |feature: &str| StateSection {
            feature: feature.to_string(),
            ..StateSection::of(&Story::new().view(), vec!["one\n  with a second line".to_string(), "two".to_string()])
        };
        let put = |text: &[u8], feature: &str| replace_section(text, feature, &render_section(&section(feature)));
        let text = put(&put(b"", "b"), "a");
        let found = pieces(&text);
        assert_eq!(found.iter().map(|(name, _)| name.unwrap()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(found[1].1, render_section(&section("b")).as_bytes());
        assert_eq!(decisions_in(&text, "b"), ["one\n  with a second line", "two"]);
        assert_eq!(decisions_in(&text, "c"), Vec::<String>::new());
    }

    #[test]
    fn a_decision_cannot_end_its_section() {
        let decisions = vec!["use\n# MAHABHARATHA State: other\n## Blockers".to_string()];
        let text = render_section(&StateSection::of(&Story::new().view(), decisions));
        assert_eq!(pieces(text.as_bytes()).len(), 1);
        assert_eq!(decisions_in(text.as_bytes(), "tables").len(), 1);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_preserved() {
        let notes = b"caf\xe9\n\n# \xff\xfe\n";
        let section = b"# MAHABHARATHA State: a\n## Decisions\n- caf\xe9\n- caf\xc3\xa9\n";
        let file = [&notes[..], section].concat();
        assert_eq!(decisions_in(&file, "a"), ["caf\u{e9}", "caf\u{e9}"]);
        let replaced = replace_section(&file, "a", "# MAHABHARATHA State: a\nnew\n");
        assert_eq!(replaced, [&notes[..], b"\n# MAHABHARATHA State: a\nnew\n"].concat());
    }

    fn replaced(file: &str, feature: &str, new_text: &str) -> String {
        String::from_utf8(replace_section(file.as_bytes(), feature, new_text)).unwrap()
    }

    #[test]
    fn text_around_the_sections_is_preserved() {
        let file = "My notes.\n\n# MAHABHARATHA State: b\nold\n# More notes\nkept";
        let first = replaced(file, "a", "# MAHABHARATHA State: a\nnew");
        assert_eq!(
            first,
            "My notes.\n\n# MAHABHARATHA State: a\nnew\n\n# MAHABHARATHA State: b\nold\n# More notes\nkept"
        );
        let changed = replaced(file, "b", "# MAHABHARATHA State: b\nnew");
        assert_eq!(changed, "My notes.\n\n# MAHABHARATHA State: b\nnew\n\n# More notes\nkept");
        let second = replaced(&first, "c", "# MAHABHARATHA State: c\n");
        assert_eq!(second, first + "\n\n# MAHABHARATHA State: c\n");
    }

    #[test]
    fn a_duplicate_section_is_removed() {
        let file = "# MAHABHARATHA State: a\n1\n# MAHABHARATHA State: b\r\nb\r\n# MAHABHARATHA State: a\n2\n";
        let text = replaced(file, "a", "# MAHABHARATHA State: a\n3\n");
        assert_eq!(text, "# MAHABHARATHA State: a\n3\n\n# MAHABHARATHA State: b\r\nb\r\n");
    }

    fn file() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            Just("# MAHABHARATHA State: a".to_string()),
            Just("# MAHABHARATHA State: b ".to_string()),
            Just("# MAHABHARATHA State: d\r".to_string()),
            Just("# Of a person".to_string()),
            "[#a \\r]{0,6}",
        ];
        (prop::collection::vec(line, 0..12), any::<bool>())
            .prop_map(|(lines, ended)| lines.join("\n") + if ended { "\n" } else { "" })
    }

    fn others(text: &str, feature: &str) -> Vec<String> {
        let all = pieces(text.as_bytes()).into_iter().filter(|(name, _)| *name != Some(feature));
        all.map(|(_, text)| decode(text)).collect()
    }

    proptest! {
        #[test]
        fn other_sections_are_not_touched(file in file(), feature in "[abcd]") {
            let new = format!("{HEADING}{feature}\nnew\n");
            let after = replaced(&file, &feature, &new);
            let ours = pieces(after.as_bytes()).into_iter().filter(|(name, _)| *name == Some(feature.as_str()));
            prop_assert_eq!(ours.map(|(_, text)| decode(text.trim_ascii_end())).collect::<Vec<_>>(), [new.trim_end()]);
            prop_assert_eq!(replaced(&after, &feature, &new), after.clone(), "settles");
            let (before, after) = (others(&file, &feature), others(&after, &feature));
            prop_assert_eq!(before.len(), after.len());
            for (before, after) in before.iter().zip(&after) {
                // Only a piece that our section now follows may gain line breaks at its end.
                prop_assert!(after == before || after.strip_prefix(before.as_str()).is_some_and(|added| added.trim_matches('\n').is_empty()));
            }
        }
    }
}
