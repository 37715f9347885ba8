//! Parses handwritten requirements. Parsing never fails: text that belongs to no known section is kept as a note.

use super::{Requirements, Story};
use crate::markdown::{Fence, heading};

/// The section that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Problem,
    Stories,
    Story,
    Criteria,
    Verification,
    Constraints,
    OutOfScope,
    Dependencies,
    OpenQuestions,
    Note,
}

impl Requirements {
    pub fn parse(text: &str) -> Requirements {
        let mut reader = Reader { found: Requirements::default(), place: Place::Problem, loose: String::new() };
        let mut fence = Fence::default();
        for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines() {
            let inside = fence.is_open();
            fence.read(line);
            match heading(line).filter(|_| !inside) {
                Some((level @ 1..=3, title)) => reader.heading(level, title),
                _ => reader.line(line, inside || fence.is_open()),
            }
        }
        reader.finish()
    }
}

struct Reader {
    found: Requirements,
    place: Place,
    /// Text before the first section.
    loose: String,
}

impl Reader {
    fn heading(&mut self, level: usize, title: &str) {
        match (level, self.place) {
            (1, _) => {
                self.found.feature = title.strip_prefix("Feature:").unwrap_or(title).trim().to_owned();
                self.place = Place::Problem;
            }
            (3, Place::Stories | Place::Story | Place::Criteria | Place::Verification) => {
                self.found.stories.push(Story { title: story_title(title).to_owned(), ..Story::default() });
                self.place = Place::Story;
            }
            (3, _) => self.line(&format!("### {title}"), false),
            _ => {
                self.place = match title.to_lowercase().as_str() {
                    "problem statement" | "problem" => Place::Problem,
                    "user stories" | "stories" => Place::Stories,
                    "constraints" => Place::Constraints,
                    "out of scope" => Place::OutOfScope,
                    "dependencies" => Place::Dependencies,
                    "open questions" => Place::OpenQuestions,
                    _ => {
                        self.found.notes.push((title.to_owned(), String::new()));
                        Place::Note
                    }
                };
            }
        }
    }

    fn line(&mut self, line: &str, fenced: bool) {
        match self.place {
            Place::Problem => push_line(&mut self.found.problem, line),
            Place::Stories => push_line(&mut self.loose, line),
            Place::Note => match self.found.notes.last_mut() {
                Some((_, text)) => push_line(text, line),
                None => push_line(&mut self.loose, line),
            },
            Place::Constraints => push_item(&mut self.found.constraints, line),
            Place::OutOfScope => push_item(&mut self.found.out_of_scope, line),
            Place::Dependencies => push_item(&mut self.found.dependencies, line),
            Place::OpenQuestions => push_item(&mut self.found.open_questions, line),
            Place::Story | Place::Criteria | Place::Verification => self.story_line(line, fenced),
        }
    }

    fn story_line(&mut self, line: &str, fenced: bool) {
        let Some(story) = self.found.stories.last_mut() else { return push_line(&mut self.loose, line) };
        let trimmed = line.trim();
        if !fenced {
            if is_label(trimmed, "acceptance criteria") {
                self.place = Place::Criteria;
                return;
            }
            if let Some(rest) = label(trimmed, "verification") {
                self.place = Place::Verification;
                return push_line(&mut story.verification, rest.trim().trim_matches('`'));
            }
        }
        match self.place {
            Place::Criteria => push_item(&mut story.criteria, line),
            Place::Verification if is_fence(trimmed) => {}
            Place::Verification if fenced => push_line(&mut story.verification, line),
            Place::Verification => push_line(&mut story.verification, trimmed.trim_matches('`')),
            _ => match [("as a", 0), ("as an", 0), ("i want", 1), ("so that", 2)]
                .iter()
                .find_map(|(name, field)| Some((field, label(trimmed, name)?)))
            {
                Some((0, rest)) => story.role = rest.trim().to_owned(),
                Some((1, rest)) => story.capability = rest.trim().to_owned(),
                Some((_, rest)) => story.benefit = rest.trim().to_owned(),
                None => push_line(&mut story.text, line),
            },
        }
    }

    fn finish(self) -> Requirements {
        let Reader { found: mut all, loose, .. } = self;
        all.problem = text(&all.problem);
        for story in &mut all.stories {
            story.text = text(&story.text);
            story.verification = story.verification.trim_matches('\n').trim_end().to_owned();
            tidy(&mut story.criteria);
        }
        for list in [&mut all.constraints, &mut all.out_of_scope, &mut all.dependencies, &mut all.open_questions] {
            tidy(list);
        }
        for (_, note) in &mut all.notes {
            *note = text(note);
        }
        let loose = text(&loose);
        if !loose.is_empty() {
            all.notes.insert(0, ("Notes".to_owned(), loose));
        }
        all
    }
}

/// Strips the prefix `Story 1:`.
fn story_title(title: &str) -> &str {
    let rest = title.strip_prefix("Story").map(str::trim_start).unwrap_or_default();
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match after.strip_prefix([':', '.']) {
        Some(name) if after.len() < rest.len() => name.trim(),
        _ => title,
    }
}

/// Returns the text after `**Name**`, `**Name:**` or `Name:`.
fn label<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let (bold, inner) = match line.strip_prefix("**") {
        Some(inner) => (true, inner),
        None => (false, line),
    };
    let start = inner.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name))?;
    let rest = &inner[start.len()..];
    if bold {
        let rest = rest.strip_prefix(':').unwrap_or(rest).strip_prefix("**")?;
        Some(rest.strip_prefix(':').unwrap_or(rest))
    } else {
        rest.strip_prefix(':')
    }
}

fn is_label(line: &str, name: &str) -> bool {
    label(line, name).is_some_and(|rest| rest.trim().is_empty())
}

fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Adds a line of a list: a bullet starts an item, an indented line continues it.
fn push_item(items: &mut Vec<String>, line: &str) {
    let trimmed = line.trim();
    let bullet = ["- [ ]", "- [x]", "- [X]", "* [ ]", "* [x]", "-", "*", "+"]
        .iter()
        .find_map(|mark| trimmed.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with(' ')));
    match (bullet, items.last_mut()) {
        (Some(item), _) => items.push(item.trim().to_owned()),
        (None, _) if trimmed.is_empty() => {}
        (None, Some(last)) if line.starts_with([' ', '\t']) => {
            last.push(' ');
            last.push_str(trimmed);
        }
        (None, _) => items.push(trimmed.to_owned()),
    }
}

fn tidy(items: &mut Vec<String>) {
    items.retain(|item| !item.is_empty() && !item.eq_ignore_ascii_case("none") && !item.eq_ignore_ascii_case("none."));
}

/// Undoes the escaping of lines that look like headings, and trims the text.
fn text(lines: &str) -> String {
    let plain: Vec<&str> =
        lines.lines().map(|line| if line.starts_with("\\#") { &line[1..] } else { line.trim_end() }).collect();
    plain.join("\n").trim_matches('\n').to_owned()
}
