//! Parses the `<task>` block: handwritten tags with raw `<`, `>` and `&` in between. Deliberately more lenient than
//! XML.

use super::read::canonical_name;
use super::text::unescape;
use crate::spec::SpecError;

#[derive(Debug)]
pub(super) struct Block {
    attributes: Vec<(String, String)>,
    pub elements: Vec<Element>,
    /// Byte offset of `<task`.
    pub start: usize,
    /// Byte offset of the text after `</task>`.
    pub end: usize,
}

#[derive(Debug)]
pub(super) struct Element {
    pub name: String,
    /// The text between the tags, not unescaped.
    pub raw: String,
    /// Byte offset of `raw` in the document.
    pub at: usize,
}

impl Block {
    pub fn read(text: &str, start: usize) -> Result<Block, SpecError> {
        let opening = Tag::read(text, start)?;
        let mut block = Block { attributes: opening.attributes, elements: Vec::new(), start, end: opening.end };
        if opening.closed {
            return Ok(block);
        }
        while let Some(at) = text[block.end..].find('<').map(|offset| block.end + offset) {
            let rest = &text[at..];
            if let Some(length) = closing_length(rest, "task") {
                block.end = at + length;
                return Ok(block);
            } else if rest.starts_with("<!--") {
                let Some(length) = rest.find("-->") else {
                    return Err(error(text, at, "this comment is never closed"));
                };
                block.end = at + length;
            } else if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
                let element = Element::read(text, at, &mut block.end)?;
                if block.element(&element.name).is_some() {
                    return Err(error(text, at, &format!("<{}> occurs twice in one task", element.name)));
                }
                block.elements.push(element);
            } else {
                block.end = at + 1;
            }
        }
        Err(error(text, start, "this <task> is never closed; </task> is missing"))
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn element(&self, name: &str) -> Option<&Element> {
        self.elements.iter().find(|element| element.name == name)
    }
}

impl Element {
    fn read(text: &str, at: usize, end: &mut usize) -> Result<Element, SpecError> {
        let tag = Tag::read(text, at)?;
        let name = canonical_name(&tag.name.to_ascii_lowercase()).to_owned();
        if name == "task" {
            return Err(error(text, at, "a <task> inside a <task>; </task> is missing before it"));
        }
        *end = tag.end;
        if tag.closed {
            return Ok(Element { name, raw: String::new(), at: tag.end });
        }
        let body = &text[tag.end..];
        let found = body.match_indices("</").find_map(|(to, _)| Some((to, closing_length(&body[to..], &tag.name)?)));
        let Some((to, length)) = found else {
            return Err(error(text, at, &format!("<{0}> is never closed; </{0}> is missing", tag.name)));
        };
        *end = tag.end + to + length;
        Ok(Element { name, raw: body[..to].to_owned(), at: tag.end })
    }
}

/// Returns the length of `</name>` at the start of `text`.
fn closing_length(text: &str, name: &str) -> Option<usize> {
    let rest = text.strip_prefix("</")?.strip_prefix(name)?.trim_start();
    Some(text.len() - rest.strip_prefix('>')?.len())
}

struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
    /// Self-closing, as in `<name/>`.
    closed: bool,
    end: usize,
}

impl Tag {
    fn read(text: &str, start: usize) -> Result<Tag, SpecError> {
        let unfinished = || error(text, start, "this tag is never finished; > is missing");
        let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
        let after_name = text[start + 1..].trim_start_matches(in_name);
        let name = text[start + 1..text.len() - after_name.len()].to_owned();
        let mut tag = Tag { name, attributes: Vec::new(), closed: false, end: start };
        let mut rest = after_name;
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('>') {
                tag.end = text.len() - after.len();
                return Ok(tag);
            }
            if let Some(after) = rest.strip_prefix("/>") {
                tag.end = text.len() - after.len();
                tag.closed = true;
                return Ok(tag);
            }
            let length = rest.find(|c: char| c == '=' || c == '>' || c.is_whitespace()).ok_or_else(unfinished)?;
            let (name, after) = rest.split_at(length);
            let (value, after) = match after.trim_start().strip_prefix('=') {
                Some(value) => value_of(value.trim_start()).ok_or_else(unfinished)?,
                None => ("", after),
            };
            tag.attributes.push((name.to_ascii_lowercase(), unescape(value)));
            rest = after;
        }
    }
}

/// Returns an attribute's value (quoted, or up to a space) and the rest.
fn value_of(text: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote);
        }
    }
    let end = text.find(|c: char| c == '>' || c.is_whitespace())?;
    Some(text.split_at(end))
}

/// Builds an error at a byte offset.
pub(super) fn error(text: &str, at: usize, message: &str) -> SpecError {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    SpecError { message: message.to_owned(), at: Some((line, column)) }
}
