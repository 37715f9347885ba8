//! Parses YAML into a tree with the position of each value, and limits how much aliases may expand to.

use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};

/// Limit for the number of values: far more than a configuration needs.
const MAX_VALUES: usize = 10_000;
const MAX_NESTING: usize = 32;

/// 1-based line and column.
pub type Place = (usize, usize);

#[derive(Debug)]
pub struct Node {
    pub at: Place,
    pub value: Value,
    /// Number of values in it, including itself.
    weight: usize,
}

#[derive(Debug)]
pub enum Value {
    Scalar { text: String, plain: bool },
    List(Vec<Rc<Node>>),
    Map(Vec<(Key, Rc<Node>)>),
}

#[derive(Debug)]
pub struct Key {
    pub at: Place,
    pub text: String,
}

#[derive(Debug)]
pub struct SyntaxError {
    pub at: Option<Place>,
    pub message: String,
}

impl Node {
    pub fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain: true } => matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"),
            _ => false,
        }
    }
}

/// Parses the single document in `text`. Returns None if the text is empty.
pub fn parse(text: &str) -> Result<Option<Rc<Node>>, SyntaxError> {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    };
    let mut builder = Builder {
        events: Parser::new_from_str_with_options(text, options),
        anchors: BTreeMap::new(),
        values: 0,
        last: None,
    };
    let mut document = None;
    while let Some((event, span)) = builder.next()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            _ if document.is_some() => {
                return Err(error(&span, "there must be only one YAML document, but a second one starts here"));
            }
            node => document = Some(builder.node(node, &span)?),
        }
    }
    Ok(document)
}

struct Builder<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Rc<Node>>,
    values: usize,
    last: Option<Span>,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, SyntaxError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                self.last = Some(span);
                Ok(Some((event, span)))
            }
            Some(Err(error)) => Err(SyntaxError {
                at: Some(place(*error.marker())),
                message: format!("not valid YAML: {}", error.info()),
            }),
        }
    }

    fn inner(&mut self) -> Result<(Event<'a>, Span), SyntaxError> {
        self.next()?.ok_or_else(|| SyntaxError {
            at: self.last.map(|span| place(span.start)),
            message: "not valid YAML: the file ends in the middle of a value".to_owned(),
        })
    }

    fn node(&mut self, event: Event<'a>, span: &Span) -> Result<Rc<Node>, SyntaxError> {
        let (value, anchor, tag) = match event {
            Event::Alias(anchor) => return self.alias(anchor, span),
            Event::Scalar(text, style, anchor, tag) => {
                (Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain }, anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (Value::List(self.list()?), anchor, tag),
            Event::MappingStart(_, anchor, tag) => (Value::Map(self.map()?), anchor, tag),
            _ => return Err(error(span, "not valid YAML: a value was expected here")),
        };
        if tag.is_some() {
            return Err(error(
                span,
                "tags (words that start with '!') are not supported; quote the text or remove the tag",
            ));
        }
        self.count(1, span)?;
        let weight = 1 + match &value {
            Value::Scalar { .. } => 0,
            Value::List(items) => items.iter().map(|item| item.weight).sum(),
            Value::Map(entries) => entries.iter().map(|(_, value)| value.weight).sum(),
        };
        let node = Rc::new(Node { at: place(span.start), value, weight });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<Rc<Node>, SyntaxError> {
        let node = self.anchors.get(&anchor).map(Rc::clone);
        let node = node.ok_or_else(|| error(span, "this alias is inside the value that it refers to"))?;
        self.count(node.weight, span)?;
        Ok(node)
    }

    fn list(&mut self) -> Result<Vec<Rc<Node>>, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.inner()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Vec<(Key, Rc<Node>)>, SyntaxError> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.inner()?;
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, ..) => Key { at: place(span.start), text: text.into_owned() },
                _ => return Err(error(&span, "a key must be a plain word")),
            };
            let (event, span) = self.inner()?;
            entries.push((key, self.node(event, &span)?));
        }
    }

    fn count(&mut self, values: usize, span: &Span) -> Result<(), SyntaxError> {
        self.values += values;
        if self.values > MAX_VALUES {
            return Err(error(span, &format!("the file has more than {MAX_VALUES} values, with aliases expanded")));
        }
        Ok(())
    }
}

fn error(span: &Span, message: &str) -> SyntaxError {
    SyntaxError { at: Some(place(span.start)), message: message.to_owned() }
}

fn place(marker: Marker) -> Place {
    (marker.line(), marker.col() + 1)
}
