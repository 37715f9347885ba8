//! The part of the prompt that all workers of a feature share. If the budget is too small, the most important sections
//! are kept.

use std::fmt::Write as _;

use super::{CHARS_PER_TOKEN, Document, PromptInput};
use crate::markdown::{self, Section};

const RULES: &str = "\
You are one of several workers that build this feature in parallel, each in its own worktree. Your task \
follows below.

- Change only the files that your task owns. Any other change is removed and fails the attempt; \
build output and lock files are excluded automatically.
- Stay in your worktree, and do not change anything in git (no commits, no branches, nothing in `.git`): when you finish, \
your files are verified and committed for you.
- Run the verification command before you finish, and fix what fails.
- Start no subagents. Use the network only to install packages.
- If the task cannot be done as written, finish by saying what blocks it. If it needs a file that you do not own, leave the \
file alone and end with a line `NEEDS: path — why` for each: it may be granted to you, or its owner is told.

You must:
- Never hardcode secrets, API keys or credentials. What looks like one is not committed.
- Validate all user input at system boundaries.
- Use parameterized queries for all database operations.
- Escape output in HTML and template contexts.
- Use no more access to files and network than needed.

You must not:
- Disable security linters, static analysis or other checks.
- Suppress security warnings without a written reason.
- Use eval(), exec() or other dynamic code execution.
- Store sensitive data in logs or error messages.
";

/// Words in a heading that tell how important its section is to a worker.
const BINDING: &[&str] =
    &["constraint", "acceptance", "criteria", "interface", "contract", "decision", "convention", "rule", "standard"];
const USEFUL: &[&str] = &[
    "requirement",
    "story",
    "stories",
    "problem",
    "goal",
    "architecture",
    "component",
    "structure",
    "model",
    "schema",
    "api",
    "flow",
    "security",
    "error",
    "verification",
    "stack",
    "technology",
];
const BACKGROUND: &[&str] = &[
    "out of scope",
    "non-goal",
    "background",
    "history",
    "glossary",
    "reference",
    "appendix",
    "related",
    "alternative",
    "timeline",
    "milestone",
    "open question",
    "changelog",
    "version",
    "risk",
];

/// Minimum characters for the names of the sections that were left out.
const MIN_NAMES_CHARS: usize = 400;

/// A document in the prompt, and which of its sections are kept.
struct Part<'a> {
    name: &'static str,
    heading: &'static str,
    path: Option<&'a str>,
    /// True if everything is below one heading, the document's own title.
    titled: bool,
    sections: Vec<Section>,
    kept: Vec<bool>,
}

pub fn write(input: &PromptInput<'_>) -> (String, Vec<String>) {
    let mut parts = parts(input);
    let budget = (input.budget_tokens as usize).saturating_mul(CHARS_PER_TOKEN);
    // An eighth of the budget is for the names of the sections that do not fit; a few names are always listed.
    let for_names = budget / 8;
    if !keep(&mut parts, budget) {
        keep(&mut parts, budget - for_names);
    }
    let mut text = format!("# Feature Context: {}\n\n## How You Work\n\n{RULES}\n", input.feature);
    for part in parts.iter().filter(|part| part.kept.contains(&true)) {
        let _ = writeln!(text, "## {}\n", part.heading);
        for (section, _) in part.sections.iter().zip(&part.kept).filter(|(_, kept)| **kept) {
            let _ = writeln!(text, "{}\n", section.text);
        }
    }
    let left_out: Vec<(&Part<'_>, Vec<String>)> =
        parts.iter().map(|part| (part, part.cut())).filter(|(_, cut)| !cut.is_empty()).collect();
    if !left_out.is_empty() {
        let _ = writeln!(text, "Left out for length: {}.\n", name_left_out(&left_out, for_names.max(MIN_NAMES_CHARS)));
    }
    (text, left_out.into_iter().flat_map(|(_, cut)| cut).collect())
}

fn parts<'a>(input: &PromptInput<'a>) -> Vec<Part<'a>> {
    let documents = [
        ("Project", "Project Constraints", input.project),
        ("Requirements", "Requirements Summary", input.requirements),
        ("Design", "Design Decisions", input.design),
    ];
    let mut parts: Vec<Part<'a>> = documents
        .into_iter()
        .filter_map(|(name, heading, document)| document.map(|document| Part::of_document(name, heading, document)))
        .collect();
    let decision = |decision: &String| {
        let line = markdown::one_line(decision);
        Section { text: format!("- {line}"), titles: vec![line] }
    };
    parts.push(Part::new("Decisions", "Decisions So Far", None, input.decisions.iter().map(decision).collect()));
    parts
}

/// Keeps the sections that fit into the budget, by rank and then by position. Returns true if all of them fit.
fn keep(parts: &mut [Part<'_>], budget: usize) -> bool {
    let mut order: Vec<(u8, usize, usize)> = Vec::new();
    for (part_index, part) in parts.iter_mut().enumerate() {
        part.kept.fill(false);
        // Position before document, so that a long document does not crowd out the others.
        order.extend((0..part.sections.len()).map(|index| (part.rank(index), index, part_index)));
    }
    order.sort_unstable();
    let mut left = budget;
    let mut all = true;
    let mut begun = vec![false; parts.len()];
    for (_, index, part_index) in order {
        let part = &mut parts[part_index];
        let heading = if begun[part_index] { 0 } else { part.heading.len() + "## \n\n".len() };
        let cost = heading + part.sections[index].text.chars().count() + "\n\n".len();
        if cost <= left {
            left -= cost;
            begun[part_index] = true;
            part.kept[index] = true;
        } else {
            all = false;
        }
    }
    parts.iter_mut().for_each(Part::drop_bare_headings);
    all
}

impl<'a> Part<'a> {
    fn of_document(name: &'static str, heading: &'static str, document: Document<'a>) -> Self {
        Part::new(name, heading, Some(document.path), markdown::sections(document.text, 2))
    }

    fn new(name: &'static str, heading: &'static str, path: Option<&'a str>, sections: Vec<Section>) -> Self {
        let mut outermost = sections.iter().filter_map(|section| section.titles.first());
        let first = outermost.next();
        let titled = sections.len() > 1 && outermost.all(|title| Some(title) == first);
        Part { name, heading, path, titled, kept: vec![false; sections.len()], sections }
    }

    /// Returns the headings of a section, without the document's own title.
    fn titles(&self, index: usize) -> &[String] {
        let titles = &self.sections[index].titles;
        if self.titled { titles.get(1..).unwrap_or_default() } else { titles }
    }

    /// Returns the importance of a section; lower is more important.
    fn rank(&self, index: usize) -> u8 {
        let titles = self.titles(index);
        if titles.is_empty() {
            return 0;
        }
        // Of the project document, workers mainly need the constraints; decisions are binding.
        let default = match self.name {
            "Project" => 4,
            "Decisions" => 1,
            _ => 3,
        };
        titles.iter().rev().find_map(|title| importance(title)).unwrap_or(default)
    }

    /// Returns the names of the sections that were left out. If a section and everything below it are left out, only
    /// the section is named.
    fn cut(&self) -> Vec<String> {
        if !self.kept.contains(&true) {
            return if self.sections.is_empty() { Vec::new() } else { vec![self.name.to_owned()] };
        }
        let mut names = Vec::new();
        let mut index = 0;
        while index < self.sections.len() {
            let below = self.below(index);
            if !self.kept[index] {
                names.push(self.name_of(index));
            }
            let gone = !self.kept[index] && !self.kept[index..below].contains(&true);
            index = if gone { below } else { index + 1 };
        }
        names
    }

    /// Drops a heading without text of its own if everything below it was dropped.
    fn drop_bare_headings(&mut self) {
        for index in (0..self.sections.len()).rev() {
            let below = self.below(index);
            let bare = below > index + 1 && !self.sections[index].text.contains('\n');
            if bare && !self.kept[index + 1..below].contains(&true) {
                self.kept[index] = false;
            }
        }
    }

    /// Returns the index after the last section below this one.
    fn below(&self, index: usize) -> usize {
        let titles = &self.sections[index].titles;
        let deeper = |section: &&Section| !titles.is_empty() && section.titles.len() > titles.len();
        index + 1 + self.sections[index + 1..].iter().take_while(deeper).count()
    }

    fn name_of(&self, index: usize) -> String {
        let titles = self.titles(index);
        let own = if titles.is_empty() { "beginning".to_owned() } else { titles.join(" › ") };
        format!("{} › {own}", self.name)
    }
}

fn importance(title: &str) -> Option<u8> {
    let title = title.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| title.contains(word));
    if has(BACKGROUND) {
        Some(4)
    } else if has(BINDING) {
        Some(1)
    } else if has(USEFUL) {
        Some(2)
    } else {
        None
    }
}

/// Lists the names within `max_chars`, then how many more there are, and the path to read them at.
fn name_left_out(left_out: &[(&Part<'_>, Vec<String>)], max_chars: usize) -> String {
    let each = max_chars / left_out.len().max(1);
    let name_part = |(part, cut): &(&Part<'_>, Vec<String>)| {
        let mut names = String::new();
        let mut shown = 0;
        for name in cut {
            let name = markdown::bound_text(name, 80);
            if cut.len() > 1 && names.chars().count() + name.chars().count() > each {
                break;
            }
            names.push_str(if shown > 0 { ", " } else { "" });
            names.push_str(&name);
            shown += 1;
        }
        let more = match (shown, cut.len() - shown) {
            (_, 0) => String::new(),
            (0, more) => format!("{more} sections of {}", part.name),
            (_, more) => format!(" and {more} more"),
        };
        let place = part.path.map_or_else(String::new, |path| format!(" (see {path})"));
        format!("{names}{more}{place}")
    };
    left_out.iter().map(name_part).collect::<Vec<_>>().join("; ")
}
