//! Parses the whole file: a heading, a metadata list, the block and sections of prose.

use super::block::{Block, error};
use super::prose::{Prose, task_tag};
use super::text::{bullet, is_none, normalized, read_line};
use super::{CHECKPOINT, FAILURE, METADATA, SPECIFICATION};
use crate::spec::SpecError;

pub(super) struct Document<'t> {
    /// The task's id in the first heading.
    pub heading: Option<String>,
    metadata: Vec<(Key, String)>,
    pub block: Block,
    /// Heading and text, in order.
    pub sections: Vec<(&'t str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Level,
    Dependencies,
    Files,
    Creates,
    Modifies,
    Reads,
    Tokens,
    Minutes,
    Verification,
    Timeout,
    Agent,
    Model,
    Effort,
    FallbackModel,
    FollowUp,
}

impl Key {
    /// Parses a key in the usual spellings, without emphasis.
    fn read(words: &str) -> Option<Key> {
        Some(match words.to_ascii_lowercase().as_str() {
            "level" => Key::Level,
            "dependencies" | "depends" | "depends on" => Key::Dependencies,
            "files" | "files (exclusive)" | "exclusive files" => Key::Files,
            "creates" | "create" => Key::Creates,
            "modifies" | "modify" => Key::Modifies,
            "reads" | "read" => Key::Reads,
            "estimated tokens" | "estimate tokens" | "tokens" => Key::Tokens,
            "estimated minutes" | "estimate minutes" | "minutes" => Key::Minutes,
            "verification" | "verify" => Key::Verification,
            "verification timeout" | "timeout" => Key::Timeout,
            "agent" => Key::Agent,
            "model" => Key::Model,
            "effort" => Key::Effort,
            "fallback model" => Key::FallbackModel,
            "follow-up" => Key::FollowUp,
            _ => return None,
        })
    }
}

impl<'t> Document<'t> {
    pub fn read(text: &'t str) -> Result<Document<'t>, SpecError> {
        let Some(start) = lines(text, 0).find_map(|(at, line)| Some(at + task_tag(line)?)) else {
            let message = "there is no <task …> block; write one with at least <name>, <level> and <files>";
            return Err(SpecError { message: message.to_owned(), at: None });
        };
        let block = Block::read(text, start)?;
        let mut prose = Prose::default();
        for (_, line) in lines(&text[..start], 0) {
            prose.add(line);
        }
        let metadata = metadata(&prose);
        prose.end_section();
        for (at, line) in lines(text, block.end) {
            if !prose.in_fence() && task_tag(line).is_some() {
                return Err(error(text, at, "a second <task>; each file holds one task"));
            }
            prose.add(line);
        }
        let heading = prose.title.and_then(|title| title.strip_prefix("Task:")).map(read_line);
        let sections = prose.sections.into_iter().map(|(name, lines)| (name, normalized(&lines.join("\n"))));
        let has_content = |(name, text): &(&str, String)| {
            !is_called(name, METADATA) && !is_called(name, SPECIFICATION) && !is_none(text)
        };
        Ok(Document { heading, metadata, block, sections: sections.filter(has_content).collect() })
    }

    pub fn metadata(&self, key: Key) -> Option<&str> {
        self.metadata.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// Returns true if a heading has this name, or its short form: "Interface" for "Interface Contract".
pub(super) fn is_called(heading: &str, name: &str) -> bool {
    let short = name.split(' ').next().filter(|_| !matches!(name, FAILURE | CHECKPOINT));
    heading.eq_ignore_ascii_case(name) || short.is_some_and(|short| heading.eq_ignore_ascii_case(short))
}

/// Iterates over the lines of `text` from `start` on, each with its byte offset.
fn lines(text: &str, start: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut at = start;
    text[start..].split('\n').map(move |line| {
        let here = at;
        at += line.len() + 1;
        (here, line.strip_suffix('\r').unwrap_or(line))
    })
}

fn metadata(prose: &Prose) -> Vec<(Key, String)> {
    let section = prose.sections.iter().filter(|(name, _)| is_called(name, METADATA)).flat_map(|(_, lines)| lines);
    let mut found: Vec<(Key, String)> = Vec::new();
    for line in prose.loose.iter().chain(section) {
        if let Some((key, value)) = entry(line) {
            found.push((key, value.to_owned()));
        } else if let (Some((_, value)), true) = (found.last_mut(), line.starts_with([' ', '\t'])) {
            // A list below its key.
            value.push('\n');
            value.push_str(line);
        }
    }
    found
}

/// Parses `- **Key:** value`; the bullet and the emphasis are optional.
fn entry(line: &str) -> Option<(Key, &str)> {
    let line = line.trim_matches([' ', '\t']);
    let (words, value) = bullet(line).unwrap_or(line).split_once(':')?;
    let bold = words.starts_with("**") && !words.ends_with("**");
    let value = if bold { value.strip_prefix("**").unwrap_or(value) } else { value };
    Some((Key::read(words.trim_matches(['*', ' ']))?, value.trim_matches([' ', '\t'])))
}
