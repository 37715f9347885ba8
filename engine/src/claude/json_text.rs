//! Edits JSON text in place: adds and removes single values, and leaves every other byte as the user wrote it.

use std::ops::Range;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value};

/// One step into a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    Key(&'a str),
    At(usize),
}

/// The text of a valid JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText {
    text: String,
    indent: String,
    newline: &'static str,
}

/// A member of an object or an element of an array.
struct Child {
    key: Option<String>,
    /// Start of its key, or of its value in an array.
    start: usize,
    value: Range<usize>,
}

impl JsonText {
    /// Parses a document; blank text counts as an empty object.
    pub fn parse(text: &str) -> serde_json::Result<JsonText> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        serde_json::from_str::<Value>(text)?;
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Ok(JsonText { text: text.to_owned(), indent: indent_of(text).to_owned(), newline })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).expect("edits keep the document valid")
    }

    /// Adds a member at the end of the object at `path`, or an element at the end of the array there.
    pub fn add(&mut self, path: &[Step<'_>], key: Option<&str>, value: &Value) {
        let Some(container) = self.find(path) else { return };
        let children = self.children(&container);
        let line_indent = match children.last() {
            Some(last) if self.starts_its_line(last.start) => self.indent_at(last.start).to_owned(),
            _ => format!("{}{}", self.indent_at(container.start), self.indent),
        };
        let key = key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
        let line = format!("{}{line_indent}", self.newline);
        let entry = format!("{line}{key}{}", self.pretty(value).replace('\n', &line));
        match children.last() {
            Some(last) => self.text.insert_str(last.value.end, &format!(",{entry}")),
            None => {
                let closing = self.closing_line(&container);
                self.text.insert_str(container.end - 1, &closing);
                self.text.insert_str(container.start + 1, &entry);
            }
        }
    }

    /// Removes the value at `path`, with its key and one comma.
    pub fn remove(&mut self, path: &[Step<'_>]) {
        let Some((last, above)) = path.split_last() else { return };
        let Some(container) = self.find(above) else { return };
        let children = self.children(&container);
        let Some(at) = position(&children, *last) else { return };
        let range = match (at.checked_sub(1).map(|before| &children[before]), children.get(at + 1)) {
            (_, Some(next)) => children[at].start..next.start,
            (Some(before), None) => before.value.end..children[at].value.end,
            (None, None) => {
                let (end, closing) = (container.end - 1, self.closing_line(&container));
                if self.text[children[at].value.end..end].ends_with(&closing) {
                    self.text.replace_range(end - closing.len()..end, "");
                }
                container.start + 1..children[at].value.end
            }
        };
        self.text.replace_range(range, "");
    }

    /// Removes the value at `path` if it is an empty object or array; returns whether it was.
    pub fn remove_if_empty(&mut self, path: &[Step<'_>]) -> bool {
        let is_empty = self
            .find(path)
            .is_some_and(|range| self.text[range.clone()].starts_with(['{', '[']) && self.children(&range).is_empty());
        if is_empty {
            self.remove(path);
        }
        is_empty
    }

    fn find(&self, path: &[Step<'_>]) -> Option<Range<usize>> {
        let start = skip_space(self.text.as_bytes(), 0);
        let mut range = start..value_end(self.text.as_bytes(), start);
        for step in path {
            let children = self.children(&range);
            range = children[position(&children, *step)?].value.clone();
        }
        Some(range)
    }

    fn children(&self, container: &Range<usize>) -> Vec<Child> {
        let bytes = self.text.as_bytes();
        let is_object = bytes[container.start] == b'{';
        let mut children = Vec::new();
        if !is_object && bytes[container.start] != b'[' {
            return children;
        }
        let mut at = skip_space(bytes, container.start + 1);
        while at < container.end - 1 {
            let start = at;
            let mut key = None;
            if is_object {
                let end = string_end(bytes, at);
                key = serde_json::from_str(&self.text[at..end]).ok();
                at = skip_space(bytes, skip_space(bytes, end) + 1);
            }
            let value = at..value_end(bytes, at);
            at = skip_space(bytes, value.end);
            if bytes[at] == b',' {
                at = skip_space(bytes, at + 1);
            }
            children.push(Child { key, start, value });
        }
        children
    }

    /// Returns the text that `add` inserts before the closing bracket of an empty container, after any existing spaces.
    fn closing_line(&self, container: &Range<usize>) -> String {
        format!("{}{}", self.newline, self.indent_at(container.start))
    }

    fn starts_its_line(&self, at: usize) -> bool {
        self.text[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty())
    }

    /// Returns the indentation of the line at a position.
    fn indent_at(&self, at: usize) -> &str {
        let line = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let text = &self.text[line..];
        &text[..text.len() - text.trim_start_matches([' ', '\t']).len()]
    }

    fn pretty(&self, value: &Value) -> String {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.indent.as_bytes());
        value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter)).expect("JSON is written to memory");
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }
}

/// Returns the index of a child; of two members with the same key the last one counts, as in most JSON parsers.
fn position(children: &[Child], step: Step<'_>) -> Option<usize> {
    match step {
        Step::Key(key) => children.iter().rposition(|child| child.key.as_deref() == Some(key)),
        Step::At(at) => (at < children.len()).then_some(at),
    }
}

fn indent_of(text: &str) -> &str {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    indented.map_or("  ", |line| &line[..line.len() - line.trim_start().len()])
}

fn skip_space(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn value_end(bytes: &[u8], start: usize) -> usize {
    match bytes[start] {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => {
            let (mut at, mut depth) = (start, 0_usize);
            loop {
                match bytes[at] {
                    b'"' => {
                        at = string_end(bytes, at);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
        }
        _ => {
            let rest = bytes[start..].iter();
            start + rest.take_while(|byte| !byte.is_ascii_whitespace() && !b",]}".contains(byte)).count()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{At, Key};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn values_are_added_in_the_style_of_the_text_and_nothing_else_changes() {
        let mut text = JsonText::parse("{\n\t\"z\": 1.50,\n\t\"list\": [1,  2],\n\t\"o\": { }\n}").unwrap();
        text.add(&[], Some("new"), &json!({ "a": [true] }));
        text.add(&[Key("list")], None, &json!("}\",["));
        text.add(&[Key("o")], Some("k"), &json!(null));
        assert_eq!(
            text.text(),
            "{\n\t\"z\": 1.50,\n\t\"list\": [1,  2,\n\t\t\"}\\\",[\"],\n\t\"o\": {\n\t\t\"k\": null \n\t},\n\t\"new\": {\n\t\t\"a\": [\n\t\t\ttrue\n\t\t]\n\t}\n}"
        );
        text.remove(&[Key("list"), At(0)]);
        text.remove(&[Key("z")]);
        text.remove(&[Key("nowhere"), At(3)]);
        assert_eq!(text.value(), json!({ "list": [2, "}\",["], "o": { "k": null }, "new": { "a": [true] } }));
        assert!(!text.remove_if_empty(&[Key("o")]));
        text.remove(&[Key("o"), Key("k")]);
        assert!(text.remove_if_empty(&[Key("o")]));
        assert_eq!(JsonText::parse(" \n").unwrap().text(), "{}\n");
        assert!(JsonText::parse("{,}").is_err());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[\\\\\"{}\\[\\],: \na-z]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"]{1,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Collects the paths of every object and list, in the order of the text.
    fn containers<'a>(value: &'a Value, path: &[Step<'a>], found: &mut Vec<Vec<Step<'a>>>) {
        let children: Vec<(Step<'a>, &'a Value)> = match value {
            Value::Object(members) => members.iter().map(|(key, value)| (Key(key), value)).collect(),
            Value::Array(elements) => elements.iter().enumerate().map(|(at, value)| (At(at), value)).collect(),
            _ => return,
        };
        found.push(path.to_owned());
        for (step, child) in children {
            containers(child, &[path, &[step]].concat(), found);
        }
    }

    /// Inserts these spaces, in turn, around every structural character of compact JSON.
    fn spaced(compact: &str, spaces: &[&str]) -> String {
        let mut spaces = spaces.iter().copied().cycle();
        let (mut text, mut in_string, mut escaped) = (String::new(), false, false);
        for c in compact.chars() {
            let around = !in_string && "{}[],:".contains(c);
            text.extend(spaces.next().filter(|_| around));
            text.push(c);
            text.extend(spaces.next().filter(|_| around));
            in_string ^= c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
        }
        text
    }

    fn documents() -> impl Strategy<Value = String> {
        let members = prop::collection::btree_map("[a-z]{1,3}", values(), 0..4);
        let object = members.prop_map(|members| Value::Object(members.into_iter().collect()));
        let space = prop::sample::select(vec!["", " ", "\t", "\n", "\n  ", "\n\t", "\r\n", "\r\n    ", " \n\n "]);
        (object, 0..4, prop::collection::vec(space, 1..12)).prop_map(|(object, style, spaces)| match style {
            0 => object.to_string(),
            1 => format!("{object:#}\n"),
            2 => format!("{object:#}\n").replace('\n', "\r\n"),
            _ => spaced(&object.to_string(), &spaces),
        })
    }

    proptest! {
        #[test]
        fn adding_and_removing_a_value_restores_the_text(
            old in documents(), new in values(), place in any::<prop::sample::Index>()
        ) {
            let mut text = JsonText::parse(&old).unwrap();
            let before = text.value();
            let mut paths = Vec::new();
            containers(&before, &[], &mut paths);
            let path = place.get(&paths);
            let mut expected = before.clone();
            let container = path.iter().fold(&mut expected, |value, step| match step {
                Key(key) => &mut value[*key],
                At(at) => &mut value[*at],
            });
            let (key, step) = match container {
                Value::Array(elements) => {
                    elements.push(new.clone());
                    (None, At(elements.len() - 1))
                }
                object => {
                    object["NEW"] = new.clone();
                    (Some("NEW"), Key("NEW"))
                }
            };
            text.add(path, key, &new);
            prop_assert_eq!(text.value(), expected);
            if old.contains("\r\n") && !old.replace("\r\n", "").contains('\n') {
                prop_assert!(!text.text().replace("\r\n", "").contains('\n'), "line ends are mixed: {:?}", text.text());
            }
            text.remove(&[path.as_slice(), &[step]].concat());
            prop_assert_eq!(text.text(), old);
        }
    }
}
