//! Reads a journal up to its first invalid record, and reports what is wrong there.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::Path;

use mahabharatha_core::ids::{Feature, Time};
use mahabharatha_core::run::event::{Event, Setup};
use serde::Deserialize;
use serde_json::Value;

use super::{Header, MAX_BYTES, Record, VERSION, too_large};
use crate::error::{Error, Kind, Result, io};

/// The content of a journal up to its first problem.
pub(super) struct Content {
    /// The feature in the header, if the header is valid.
    pub feature: Option<Feature>,
    pub records: Vec<Record>,
    /// Length of the valid part.
    pub length: u64,
    /// A torn record after the valid part: its write did not complete.
    pub torn: Vec<u8>,
    pub problem: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// Written by a newer version, but not damaged; `what` says how that shows.
    Newer { what: String },
    Damaged {
        /// Line number, counted from 1.
        line: u64,
        /// Offset at which the line starts.
        byte: u64,
        what: String,
    },
}

impl Content {
    /// Returns the content if the journal is valid, else an error that says where the valid part ends and what to do.
    pub fn validated(self, path: &Path) -> Result<Content> {
        match self.problem {
            None => Ok(self),
            Some(Problem::Newer { what }) => Err(newer(path, &what)),
            Some(Problem::Damaged { line, byte, what }) => {
                let error = Error::new(Kind::Invalid, format!("the journal {} is damaged", path.display()))
                    .detail(format!("line {line}, byte {byte}: {what}"));
                let (error, then) = match line {
                    1 => (error, "adds a header if the rest is valid"),
                    _ => {
                        let valid = format!("the {byte} bytes before it ({} lines) are valid", line - 1);
                        (error.detail(valid), "truncates it after the valid part, and reports what is lost")
                    }
                };
                let feature = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
                Err(error.hint(format!(
                    "Restore it from a backup; without one, `mahabharatha debug --repair -f {feature}` saves a copy of \
                     the journal and {then}."
                )))
            }
        }
    }
}

pub(super) fn newer(path: &Path, what: &str) -> Error {
    Error::new(Kind::Invalid, format!("the journal {} cannot be read: {what}", path.display()))
        .hint("It was written by a newer mahabharatha and is not damaged: use that version or a later one.")
}

pub(super) fn foreign(path: &Path, of: Option<&Feature>, wanted: &Feature) -> Error {
    let of = of.map(Feature::as_str).unwrap_or_default();
    Error::new(Kind::Invalid, format!("{} is the journal of {of}, not of {wanted}", path.display()))
        .hint("Move it back to the directory of its feature.")
}

/// Reads the journal up to its first problem. Fails only if the file cannot be read.
pub(super) fn read_all(file: &File, path: &Path) -> Result<Content> {
    let mut content = Content { feature: None, records: Vec::new(), length: 0, torn: Vec::new(), problem: None };
    check_size(file, path)?;
    let mut lines = Lines { reader: BufReader::new(file), path, number: 0, start: 0, end: 0 };
    let first = lines.next_line()?;
    match first.as_deref().map_or_else(|| Err(lines.damage("the file is empty")), |bytes| lines.header(bytes)) {
        Ok(header) => content.feature = Some(header.feature),
        Err(problem) => {
            content.problem = Some(problem);
            return Ok(content);
        }
    }
    content.length = lines.end;
    read_records(&mut lines, 0, &mut content)?;
    Ok(content)
}

/// Reads the records after the first `records`, which end at the byte `length`.
pub(super) fn read_more(file: &File, path: &Path, records: u64, length: u64) -> Result<Content> {
    check_size(file, path)?;
    let mut content = Content { feature: None, records: Vec::new(), length, torn: Vec::new(), problem: None };
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(length)).map_err(io("read", path))?;
    // The header is a line too.
    let mut lines = Lines { reader, path, number: records + 1, start: length, end: length };
    read_records(&mut lines, records, &mut content)?;
    Ok(content)
}

fn check_size(file: &File, path: &Path) -> Result<()> {
    let length = file.metadata().map_err(io("read", path))?.len();
    if length > MAX_BYTES {
        return Err(too_large(path)(std::io::Error::new(ErrorKind::FileTooLarge, format!("it has {length} bytes"))));
    }
    Ok(())
}

/// Reads records up to the first problem, the first of which follows the one with the number `after`.
fn read_records(lines: &mut Lines<'_>, after: u64, content: &mut Content) -> Result<()> {
    while let Some(bytes) = lines.next_line()? {
        let torn = !bytes.ends_with(b"\n") || (bytes.contains(&0) && lines.at_end()?);
        if torn {
            content.torn = bytes;
            break;
        }
        match lines.record(&bytes, after + content.records.len() as u64 + 1) {
            Ok(record) => content.records.push(record),
            Err(problem) => {
                content.problem = Some(problem);
                break;
            }
        }
        content.length = lines.end;
    }
    Ok(())
}

struct Lines<'a> {
    reader: BufReader<&'a File>,
    path: &'a Path,
    /// Number of the last line read, counted from 1.
    number: u64,
    /// Offsets at which that line starts and ends.
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

    /// Tells whether the last line read ends the file. Zeros there are a block that the file system had allocated, but
    /// not written, when the power failed.
    fn at_end(&mut self) -> Result<bool> {
        self.reader.fill_buf().map(<[u8]>::is_empty).map_err(io("read", self.path))
    }

    fn header(&self, bytes: &[u8]) -> Result<Header, Problem> {
        #[derive(Deserialize)]
        struct AnyVersion {
            journal: u32,
        }
        match serde_json::from_slice::<AnyVersion>(bytes) {
            Ok(AnyVersion { journal }) if journal > VERSION => Err(Problem::Newer {
                what: format!("it has version {journal}, but this program reads only up to {VERSION}"),
            }),
            _ => serde_json::from_slice(bytes).map_err(|error| self.damage(&format!("not a header: {error}"))),
        }
    }

    fn record(&self, bytes: &[u8], expected: u64) -> Result<Record, Problem> {
        let record = read_record(bytes).map_err(|error| {
            self.unknown_event(bytes, expected).unwrap_or_else(|| self.damage(&format!("not a record: {error}")))
        })?;
        if record.seq != expected {
            return Err(self.damage(&format!("expected record {expected}, found {}", record.seq)));
        }
        Ok(record)
    }

    /// Returns a problem if the line is a valid record of an event that this program does not know.
    fn unknown_event(&self, bytes: &[u8], expected: u64) -> Option<Problem> {
        let record: Value = serde_json::from_slice(bytes).ok()?;
        let name = record["event"]["event"].as_str().filter(|_| record["seq"] == expected)?;
        let unknown = serde_json::from_value::<Event>(record["event"].clone()).err()?.to_string();
        let what = format!("line {} has the unknown event {name:?}", self.number);
        unknown.starts_with("unknown variant").then_some(Problem::Newer { what })
    }

    fn damage(&self, what: &str) -> Problem {
        Problem::Damaged { line: self.number, byte: self.start, what: what.to_owned() }
    }
}

/// Reads a record. The record of a start may hold thousands of tasks, and `serde` copies them when it reads an enum whose
/// tag is a field among others. Reading a type of its own avoids that.
fn read_record(bytes: &[u8]) -> serde_json::Result<Record> {
    #[derive(Deserialize)]
    struct StartRecord {
        seq: u64,
        at: Time,
        event: Box<Setup>,
    }
    if is_start(bytes)
        && let Ok(StartRecord { seq, at, event }) = serde_json::from_slice(bytes)
    {
        return Ok(Record { seq, at, event: Event::Started(event) });
    }
    serde_json::from_slice(bytes)
}

/// Tells whether the record is that of a start, as we write it.
fn is_start(bytes: &[u8]) -> bool {
    const KIND: &[u8] = br#""event":{"event":"started","#;
    // The number and the time of a record come before it.
    bytes[..bytes.len().min(100)].windows(KIND.len()).any(|window| window == KIND)
}
