//! Reads typed values from a YAML tree and collects every problem on the way, not only the first.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use super::ConfigProblem;
use super::shape::{Shape, text_shape};
use super::yaml::{Key, Node, Place, Value};
use crate::names::nearest;

/// A mapping that is being read. Keys that were never asked for are reported as unknown.
pub struct Table<'a> {
    path: String,
    at: Option<Place>,
    entries: &'a [(Key, Rc<Node>)],
    asked: Vec<&'static str>,
    /// Whether the keys that were not asked for are names that the user chose.
    has_others: bool,
    problems: &'a mut Vec<ConfigProblem>,
    /// What is asked for, only while a schema is made.
    shape: Option<Shape>,
}

/// Returns the JSON Schema of a document, by having an empty one read.
pub fn schema<T>(read: impl FnOnce(&mut Table<'_>) -> T) -> serde_json::Value {
    shape_of(read).to_schema()
}

/// Finds out what a mapping's reader asks for.
fn shape_of<T>(read: impl FnOnce(&mut Table<'_>) -> T) -> Shape {
    let mut problems = Vec::new();
    let mut table = Table {
        path: String::new(),
        at: None,
        entries: &[],
        asked: Vec::new(),
        has_others: false,
        problems: &mut problems,
        shape: Some(Shape::default()),
    };
    read(&mut table);
    table.shape.unwrap_or_default()
}

/// Reads the whole document.
pub fn document<T>(
    node: Option<&Node>,
    problems: &mut Vec<ConfigProblem>,
    read: impl FnOnce(&mut Table<'_>) -> T,
) -> T {
    read_table(String::new(), node, problems, read)
}

/// Reads a missing node like an empty mapping, so that each default is written only once.
fn read_table<T>(
    path: String,
    node: Option<&Node>,
    problems: &mut Vec<ConfigProblem>,
    read: impl FnOnce(&mut Table<'_>) -> T,
) -> T {
    let entries: &[(Key, Rc<Node>)] = match node.map(|node| &node.value) {
        Some(Value::Map(entries)) => entries,
        _ => &[],
    };
    report_duplicates(&path, entries, problems);
    let wrong = node.filter(|node| !node.is_null() && !matches!(node.value, Value::Map(_)));
    let wrong = wrong.map(|node| must_be(&path, node, "a mapping (lines of `key: value`)"));
    let before = problems.len();
    let at = node.map(|node| node.at);
    let mut table = Table { path, at, entries, asked: Vec::new(), has_others: false, problems, shape: None };
    let value = read(&mut table);
    table.report_unknown();
    if let Some(wrong) = wrong {
        // Drop the problems inside it: they follow from the wrong type.
        problems.truncate(before);
        problems.push(wrong);
    }
    value
}

impl<'a> Table<'a> {
    pub fn table<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Table<'_>) -> T) -> T {
        if let Some(shape) = &mut self.shape {
            let mut value = None;
            let inner = shape_of(|table| value = Some(read(table)));
            shape.add(key, inner.to_schema());
            return value.expect("its shape was found by reading it");
        }
        let node = self.get(key);
        read_table(self.path_of(key), node, self.problems, read)
    }

    /// Reads a list of mappings.
    pub fn tables<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Table<'_>) -> T) -> Vec<T> {
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "array", "items": shape_of(&mut read).to_schema() }));
        }
        let items = self.items(key);
        items.into_iter().map(|(path, node)| read_table(path, Some(node), self.problems, &mut read)).collect()
    }

    /// Reads the keys that were not asked for, as mappings under names that the user chose.
    pub fn others<T>(&mut self, mut read: impl FnMut(&mut Table<'_>, &str) -> T) -> Vec<(String, T)> {
        if let Some(shape) = &mut self.shape {
            shape.set_others(shape_of(|table| read(table, "")).to_schema());
        }
        self.has_others = true;
        let others = self.entries.iter().filter(|(name, _)| !self.asked.contains(&name.text.as_str()));
        let read_one = |(name, node): &(Key, Rc<Node>)| {
            let path = join(&self.path, &name.text);
            (name.text.clone(), read_table(path, Some(node), self.problems, |table| read(table, &name.text)))
        };
        others.map(read_one).collect()
    }

    pub fn whole(&mut self, key: &'static str, min: u32, max: u32, default: u32) -> u32 {
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "integer", "minimum": min, "maximum": max, "default": default }));
        }
        let rule = format!("a whole number from {min} to {max}");
        self.plain(key, &rule, |text| text.parse().ok().filter(|number| (min..=max).contains(number)))
            .unwrap_or(default)
    }

    /// Reads a number, with or without a fraction, that satisfies `is_valid`.
    pub fn number(&mut self, key: &'static str, rule: &str, is_valid: fn(f64) -> bool) -> Option<f64> {
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "number", "$comment": rule }));
        }
        self.plain(key, rule, |text| text.parse().ok().filter(|&number: &f64| number.is_finite() && is_valid(number)))
    }

    pub fn flag(&mut self, key: &'static str, default: bool) -> bool {
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "boolean", "default": default }));
        }
        let parse = |text: &str| match text {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        };
        self.plain(key, "true or false", parse).unwrap_or(default)
    }

    /// Reads one of a few words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        if let Some(shape) = &mut self.shape {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            shape.add(key, json!({ "enum": words }));
        }
        let node = self.get(key)?;
        let found = words.iter().find(|(word, _)| scalar(node) == Some(word));
        if found.is_none() {
            let rule = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
            self.problem(key, node, &rule);
        }
        found.map(|&(_, value)| value)
    }

    /// Reads a list of a few words.
    pub fn words<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<Vec<T>> {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "array", "items": { "enum": known } }));
        }
        self.get(key)?;
        let mut values = Vec::new();
        for (path, node) in self.items(key) {
            match words.iter().find(|(word, _)| scalar(node) == Some(word)) {
                Some((_, value)) => values.push(*value),
                None => self.problems.push(must_be(&path, node, &format!("one of {}", known.join(", ")))),
            }
        }
        Some(values)
    }

    /// Reads one of a few words where the value may also be a list or a mapping; none if it is one of these.
    pub fn word_alone<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<Option<T>> {
        let is_word = self.shape.is_some() || self.get(key).is_some_and(|node| scalar(node).is_some());
        let word = is_word.then(|| self.word(key, words))?;
        self.get(key).map(|_| word)
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        if let Some(shape) = &mut self.shape {
            shape.add(key, text_shape());
        }
        let node = self.get(key)?;
        self.text_of(&self.path_of(key), node)
    }

    pub fn required_text(&mut self, key: &'static str) -> Option<String> {
        if let Some(shape) = &mut self.shape {
            shape.add(key, text_shape());
            shape.require(key);
        }
        if self.get(key).is_none() {
            self.missing(key);
            return None;
        }
        self.text(key)
    }

    /// Reads a list of texts that all satisfy `check`, whose error says what they must be.
    pub fn texts(&mut self, key: &'static str, check: impl Fn(&str) -> Result<(), String>) -> Vec<String> {
        self.note_texts(key);
        let mut texts = Vec::new();
        for (path, node) in self.items(key) {
            let Some(text) = self.text_of(&path, node) else { continue };
            match check(&text) {
                Ok(()) => texts.push(text),
                Err(rule) => self.problems.push(must_be(&path, node, &rule)),
            }
        }
        texts
    }

    /// Returns all keys of the mapping.
    pub fn names(&self) -> Vec<String> {
        self.entries.iter().map(|(name, _)| name.text.clone()).collect()
    }

    /// Reads a mapping from user-chosen names, which all satisfy `check`, to texts.
    pub fn named_texts(
        &mut self,
        key: &'static str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Vec<(String, String)> {
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "object", "additionalProperties": text_shape() }));
        }
        let Some(node) = self.get(key) else { return Vec::new() };
        let Value::Map(entries) = &node.value else {
            self.problem(key, node, "a mapping from names to texts");
            return Vec::new();
        };
        let path = self.path_of(key);
        report_duplicates(&path, entries, self.problems);
        let mut texts = Vec::new();
        for (name, node) in entries {
            let path = join(&path, &name.text);
            if let Err(rule) = check(&name.text) {
                let message = format!("{} must be {rule}", clip(&path));
                self.problems.push(ConfigProblem { at: Some(name.at), key: path, message });
            } else if let Some(text) = self.text_of(&path, node) {
                texts.push((name.text.clone(), text));
            }
        }
        texts
    }

    fn note_texts(&mut self, key: &'static str) {
        if let Some(shape) = &mut self.shape {
            shape.add(key, json!({ "type": "array", "items": text_shape() }));
        }
    }

    /// Returns the number of items if the value is a list of texts.
    pub fn list_length(&mut self, key: &'static str) -> Option<usize> {
        self.note_texts(key);
        match &self.get(key)?.value {
            Value::List(items) => Some(items.len()),
            _ => None,
        }
    }

    pub fn contains(&mut self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the number of problems so far. If it has not changed, everything read in between was valid.
    pub fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// Reports a value that is invalid for a reason beyond its type.
    pub fn reject(&mut self, key: &'static str, rule: &str) {
        match self.get(key) {
            Some(node) => self.problem(key, node, rule),
            None => self.problem_here(key, &format!("must be {rule}")),
        }
    }

    /// Adds a hint to the problem that was reported last.
    pub fn hint(&mut self, hint: Option<String>) {
        if let (Some(problem), Some(hint)) = (self.problems.last_mut(), hint) {
            problem.message.push_str(&format!("; {hint}"));
        }
    }

    pub fn missing(&mut self, key: &'static str) {
        self.problem_here(key, "is missing");
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        let entry = self.entries.iter().find(|(name, _)| name.text == key);
        entry.map(|(_, node)| &**node).filter(|node| !node.is_null())
    }

    fn plain<T>(&mut self, key: &'static str, rule: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let node = self.get(key)?;
        let value = match &node.value {
            Value::Scalar { text, plain: true } => parse(text),
            _ => None,
        };
        if value.is_none() {
            self.problem(key, node, rule);
        }
        value
    }

    /// Reads any scalar as text, so that the command `true` needs no quotes.
    fn text_of(&mut self, path: &str, node: &Node) -> Option<String> {
        let rule = match scalar(node) {
            Some(text) if text.contains('\0') => "text without a NUL character",
            Some(text) if !text.trim().is_empty() => return Some(text.to_owned()),
            _ => "a non-empty text",
        };
        self.problems.push(must_be(path, node, rule));
        None
    }

    fn items(&mut self, key: &'static str) -> Vec<(String, &'a Node)> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let Value::List(items) = &node.value else {
            self.problem(key, node, "a list");
            return Vec::new();
        };
        let path = self.path_of(key);
        items.iter().enumerate().map(|(index, node)| (format!("{path}[{index}]"), &**node)).collect()
    }

    fn problem(&mut self, key: &str, node: &Node, rule: &str) {
        self.problems.push(must_be(&self.path_of(key), node, rule));
    }

    fn problem_here(&mut self, key: &str, what: &str) {
        let path = self.path_of(key);
        self.problems.push(ConfigProblem { at: self.at, message: format!("{path} {what}"), key: path });
    }

    fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    fn report_unknown(self) {
        let is_unknown = |key: &Key| !self.has_others && !self.asked.contains(&key.text.as_str());
        for (key, _) in self.entries.iter().filter(|(key, _)| is_unknown(key)) {
            let path = join(&self.path, &key.text);
            let hint = match nearest(&key.text, &self.asked) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known keys here: {}", self.asked.join(", ")),
            };
            let message = format!("unknown key {}; {hint}", clip(&path));
            self.problems.push(ConfigProblem { at: Some(key.at), key: path, message });
        }
    }
}

fn report_duplicates(path: &str, entries: &[(Key, Rc<Node>)], problems: &mut Vec<ConfigProblem>) {
    let mut first: BTreeMap<&str, Place> = BTreeMap::new();
    for (key, _) in entries {
        match first.get(key.text.as_str()) {
            None => {
                first.insert(&key.text, key.at);
            }
            Some((line, _)) => {
                let path = join(path, &key.text);
                let message = format!("{} is given twice; the first is on line {line}", clip(&path));
                problems.push(ConfigProblem { at: Some(key.at), key: path, message });
            }
        }
    }
}

fn must_be(path: &str, node: &Node, rule: &str) -> ConfigProblem {
    let subject = if path.is_empty() { "the file" } else { path };
    let message = format!("{subject} must be {rule}, found {}", describe(node));
    ConfigProblem { at: Some(node.at), key: path.to_owned(), message }
}

fn describe(node: &Node) -> String {
    match &node.value {
        Value::Scalar { .. } if node.is_null() => "nothing".to_owned(),
        Value::Scalar { text, plain: true } if text.parse::<f64>().is_ok() => clip(text),
        Value::Scalar { text, .. } => format!("{:?}", clip(text)),
        Value::List(items) if items.is_empty() => "an empty list".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    }
}

/// Shortens a text to fit into one line of a message, and makes it safe for a terminal.
fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        clipped.push('…');
    }
    clipped
}

fn scalar(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } if !node.is_null() => Some(text),
        _ => None,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
