//! What all workers of a feature read, the most important sections first in line for the budget.

use std::fmt::Write as _;

use super::markdown::{self, Section};
use super::{CHARS_PER_TOKEN, Document, PromptInput};

const RULES: &str = "\
You are one of several workers that build this feature at the same time, each in a worktree of its own. Your task \
follows below.

- Change only the files that your task lists for you. Whatever else you change is taken out and the attempt fails; \
build output and lock files are left out by themselves.
- Stay in your worktree, and leave git alone (no commits, no branches, nothing in `.git`): when you end, your files \
are verified and committed for you.
- Run the verification command before you end, and mend what fails.
- Start no subagents. Use the network to install packages only.
- Write no secret into code or logs, and check what comes in from outside.
- If the task cannot be done as it is written, or needs a file that is not yours, end by saying what is in the way.
";

/// Words in a heading that tell what its section is worth to somebody who writes the code.
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
const ASIDE: &[&str] = &[
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

const FEW_NAMES: usize = 400;

/// What becomes of a document in the prompt.
struct Part<'a> {
    name: &'static str,
    heading: &'static str,
    path: Option<&'a str>,
    /// Everything stands below one heading, the document's own title.
    titled: bool,
    sections: Vec<Section>,
    kept: Vec<bool>,
}

pub fn write(input: &PromptInput<'_>) -> (String, Vec<String>) {
    let mut parts = parts(input);
    let budget = (input.budget_tokens as usize).saturating_mul(CHARS_PER_TOKEN);
    // A fraction of the budget goes to the names of what it has no room for; a few names are always told.
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
        let _ = writeln!(text, "Left out for length: {}.\n", name_left_out(&left_out, for_names.max(FEW_NAMES)));
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

/// Keeps what the budget has room for, by rank, then by place. Whether that is everything.
fn keep(parts: &mut [Part<'_>], budget: usize) -> bool {
    let mut order: Vec<(u8, usize, usize)> = Vec::new();
    for (part_index, part) in parts.iter_mut().enumerate() {
        part.kept.fill(false);
        // By place before document, so that a long document does not starve the others.
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

    /// The headings of a section, without the document's own title.
    fn titles(&self, index: usize) -> &[String] {
        let titles = &self.sections[index].titles;
        if self.titled { titles.get(1..).unwrap_or_default() } else { titles }
    }

    /// The lower, the more a section is worth.
    fn rank(&self, index: usize) -> u8 {
        let titles = self.titles(index);
        if titles.is_empty() {
            return 0;
        }
        // Of the project, constraints are what a worker needs; a decision binds.
        let usual = match self.name {
            "Project" => 4,
            "Decisions" => 1,
            _ => 3,
        };
        titles.iter().rev().find_map(|title| worth(title)).unwrap_or(usual)
    }

    /// The names of what was not kept; the sections below one that went with it are not named again.
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

    /// A heading with nothing of its own goes with what stood below it.
    fn drop_bare_headings(&mut self) {
        for index in (0..self.sections.len()).rev() {
            let below = self.below(index);
            let bare = below > index + 1 && !self.sections[index].text.contains('\n');
            if bare && !self.kept[index + 1..below].contains(&true) {
                self.kept[index] = false;
            }
        }
    }

    /// The end of what stands below a section.
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

fn worth(title: &str) -> Option<u8> {
    let title = title.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| title.contains(word));
    if has(ASIDE) {
        Some(4)
    } else if has(BINDING) {
        Some(1)
    } else if has(USEFUL) {
        Some(2)
    } else {
        None
    }
}

/// The names within `max_chars`, then how many more there are, and where all of it can be read.
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
        let place = part
            .path
            .map_or_else(String::new, |path| format!(" ({path} has {})", if cut.len() == 1 { "it" } else { "them" }));
        format!("{names}{more}{place}")
    };
    left_out.iter().map(name_part).collect::<Vec<_>>().join("; ")
}
