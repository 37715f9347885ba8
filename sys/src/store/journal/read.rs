//! Reading a journal as far as it is good, and saying what is wrong where it is not.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use mahabharatha_core::ids::Feature;
use mahabharatha_core::run::event::Event;
use serde::Deserialize;
use serde_json::Value;

use super::{Header, Record, VERSION};
use crate::error::{Error, ExitCode, Result, io};

/// What a journal holds up to the first thing that is wrong with it.
pub(super) struct Content {
    /// Of the header, where there is a good one.
    pub feature: Option<Feature>,
    pub records: Vec<Record>,
    /// Where the good part ends.
    pub length: u64,
    /// What follows it: a record whose writing was cut short.
    pub torn: Vec<u8>,
    pub trouble: Option<Trouble>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing is wrong with it, but a newer program wrote it; this says by what that shows.
    Newer { what: String },
    Damaged {
        /// Counted from 1, and the byte that it starts at.
        line: u64,
        byte: u64,
        what: String,
    },
}

impl Content {
    /// The content of a journal that has no trouble, else an error that says where the good part ends and how to go on.
    pub fn whole(self, path: &Path) -> Result<Content> {
        match self.trouble {
            None => Ok(self),
            Some(Trouble::Newer { what }) => Err(newer(path, &what)),
            Some(Trouble::Damaged { line, byte, what }) => {
                let error = Error::new(ExitCode::Invalid, format!("the journal {} is damaged", path.display()))
                    .detail(format!("line {line}, byte {byte}: {what}"));
                let (error, then) = match line {
                    1 => (error, "puts a header in its place if the rest is good"),
                    _ => {
                        let good = format!("the {byte} bytes before it, {} lines, are good", line - 1);
                        (error.detail(good), "cuts it where the good part ends, and tells what is then forgotten")
                    }
                };
                let feature = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
                Err(error.hint(format!(
                    "Put a good copy in its place. If there is none: `mahabharatha debug --repair -f {feature}` keeps \
                     the original beside it and {then}."
                )))
            }
        }
    }
}

pub(super) fn newer(path: &Path, what: &str) -> Error {
    Error::new(ExitCode::Invalid, format!("the journal {} cannot be read: {what}", path.display()))
        .hint("It was written by a newer mahabharatha and is not damaged: use that one, or a newer one still.")
}

pub(super) fn foreign(path: &Path, of: Option<&Feature>, wanted: &Feature) -> Error {
    let of = of.map(Feature::as_str).unwrap_or_default();
    Error::new(ExitCode::Invalid, format!("{} is the journal of {of}, not of {wanted}", path.display()))
        .hint("Move it back to the directory of the feature that it belongs to.")
}

/// Only a disk that cannot be read is an error.
pub(super) fn read_all(file: &File, path: &Path) -> Result<Content> {
    let mut content = Content { feature: None, records: Vec::new(), length: 0, torn: Vec::new(), trouble: None };
    let mut lines = Lines { reader: BufReader::new(file), path, number: 0, start: 0, end: 0 };
    let first = lines.next_line()?;
    match first.as_deref().map_or_else(|| Err(lines.damage("the file is empty")), |bytes| lines.header(bytes)) {
        Ok(header) => content.feature = Some(header.feature),
        Err(trouble) => {
            content.trouble = Some(trouble);
            return Ok(content);
        }
    }
    content.length = lines.end;
    while let Some(bytes) = lines.next_line()? {
        let torn = !bytes.ends_with(b"\n") || (bytes.contains(&0) && lines.at_end()?);
        if torn {
            content.torn = bytes;
            break;
        }
        match lines.record(&bytes, content.records.len() as u64 + 1) {
            Ok(record) => content.records.push(record),
            Err(trouble) => {
                content.trouble = Some(trouble);
                break;
            }
        }
        content.length = lines.end;
    }
    Ok(content)
}

struct Lines<'a> {
    reader: BufReader<&'a File>,
    path: &'a Path,
    /// Of the line that was read last, counted from 1, and the bytes that it starts and ends at.
    number: u64,
    start: u64,
    end: u64,
}

impl Lines<'_> {
    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = self.reader.read_until(b'\n', &mut bytes).map_err(io("read", self.path))?;
        self.number += 1;
        self.start = self.end;
        self.end += read as u64;
        Ok((read > 0).then_some(bytes))
    }

    /// Zeros at the very end are a block that was allotted when the power went, before the record reached it.
    fn at_end(&mut self) -> Result<bool> {
        self.reader.fill_buf().map(<[u8]>::is_empty).map_err(io("read", self.path))
    }

    fn header(&self, bytes: &[u8]) -> Result<Header, Trouble> {
        #[derive(Deserialize)]
        struct AnyVersion {
            journal: u32,
        }
        match serde_json::from_slice::<AnyVersion>(bytes) {
            Ok(AnyVersion { journal }) if journal > VERSION => Err(Trouble::Newer {
                what: format!("it has version {journal}, and this program reads up to {VERSION}"),
            }),
            _ => serde_json::from_slice(bytes).map_err(|error| self.damage(&format!("not a header: {error}"))),
        }
    }

    fn record(&self, bytes: &[u8], expected: u64) -> Result<Record, Trouble> {
        let record: Record = serde_json::from_slice(bytes).map_err(|error| {
            self.unknown_event(bytes, expected).unwrap_or_else(|| self.damage(&format!("not a record: {error}")))
        })?;
        if record.seq != expected {
            return Err(self.damage(&format!("record {expected} was expected here, and this is {}", record.seq)));
        }
        Ok(record)
    }

    /// A good record of something that this program has no word for.
    fn unknown_event(&self, bytes: &[u8], expected: u64) -> Option<Trouble> {
        let record: Value = serde_json::from_slice(bytes).ok()?;
        let name = record["event"]["event"].as_str().filter(|_| record["seq"] == expected)?;
        let unknown = serde_json::from_value::<Event>(record["event"].clone()).err()?.to_string();
        let what = format!("line {} tells of the event {name:?}, which this program does not know", self.number);
        unknown.starts_with("unknown variant").then_some(Trouble::Newer { what })
    }

    fn damage(&self, what: &str) -> Trouble {
        Trouble::Damaged { line: self.number, byte: self.start, what: what.to_owned() }
    }
}
