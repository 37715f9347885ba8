//! Diagnoses and repairs a journal, for `debug` and `debug --repair`. Must never delete the original.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Feature;
use serde::Serialize;
use serde_json::Value;

use super::read::{Problem, foreign, newer, read_all};
use super::{FILE_NAME, Header, Record, VERSION, line, read_bytes};
use crate::bounded;
use crate::error::{Error, Kind, Result, io};
use crate::store::atomic::{sync_dir, write_atomic};
use crate::store::locks::FeatureLock;
use crate::store::state_file;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Missing,
    Good,
    /// The last bytes are a torn record that was never acted on; the next run removes them.
    Torn {
        bytes: u64,
    },
    Damaged {
        line: u64,
        byte: u64,
        what: String,
    },
    /// Written by a newer version, but not damaged.
    Newer {
        what: String,
    },
    Foreign {
        feature: Feature,
    },
}

/// Health and readable records of a journal.
#[derive(Debug)]
pub struct Examined {
    pub health: Health,
    pub records: Vec<Record>,
    /// Length of the valid part, including the header.
    pub good_bytes: u64,
    pub bytes: u64,
}

pub fn examine(path: &Path, feature: &Feature) -> Result<Examined> {
    let file = match bounded::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Examined { health: Health::Missing, records: Vec::new(), good_bytes: 0, bytes: 0 });
        }
        Err(error) => return Err(io("open", path)(error)),
    };
    let bytes = file.metadata().map_err(io("read", path))?.len();
    let content = read_all(&file, path)?;
    let health = match (content.problem, content.feature) {
        (Some(Problem::Newer { what }), _) => Health::Newer { what },
        (_, Some(of)) if of != *feature => Health::Foreign { feature: of },
        (Some(Problem::Damaged { line, byte, what }), _) => Health::Damaged { line, byte, what },
        (None, _) if !content.torn.is_empty() => Health::Torn { bytes: content.torn.len() as u64 },
        (None, _) => Health::Good,
    };
    Ok(Examined { health, records: content.records, good_bytes: content.length, bytes })
}

/// Outcome of a repair: what it keeps and what it drops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// Path of the copy of the original journal; `None` until the repair is applied.
    pub original: Option<PathBuf>,
    pub records_kept: usize,
    pub lines_dropped: usize,
    pub bytes_dropped: usize,
    /// Number of dropped lines by event name.
    pub events_dropped: BTreeMap<String, usize>,
    pub header_replaced: bool,
}

/// A planned repair.
#[derive(Debug)]
#[must_use]
pub struct Repair {
    path: PathBuf,
    old: Vec<u8>,
    new: Vec<u8>,
    pub outcome: Repaired,
}

impl Repair {
    /// Plans how to make a damaged journal valid; `None` if there is nothing to repair. At most `keep` records stay.
    pub fn plan(lock: &FeatureLock, feature: &Feature, keep: usize) -> Result<Option<Repair>> {
        let path = lock.dir().join(FILE_NAME);
        let examined = examine(&path, feature)?;
        match &examined.health {
            Health::Newer { what } => return Err(newer(&path, what)),
            Health::Foreign { feature: of } => return Err(foreign(&path, Some(of), feature)),
            Health::Missing => return Ok(None),
            Health::Good | Health::Torn { .. } if keep >= examined.records.len() => return Ok(None),
            Health::Good | Health::Torn { .. } | Health::Damaged { .. } => {}
        }
        let old = read_bytes(&path)?;
        let lines: Vec<&[u8]> = old.split_inclusive(|&byte| byte == b'\n').collect();
        let header_replaced = matches!(examined.health, Health::Damaged { line: 1, .. });
        // Only the header may be missing.
        let headless = lines.first().is_none_or(|first| is_record(first, 1));
        let (header, body) = lines.split_at(usize::from(!headless));
        let kept = body.iter().zip(1..).take(keep).take_while(|(line, seq)| is_record(line, *seq)).count();
        let mut dropped = if header_replaced { header.to_vec() } else { Vec::new() };
        dropped.extend(&body[kept..]);
        let mut new = line(&Header { journal: VERSION, feature: feature.clone() });
        new.extend(body[..kept].concat());
        let mut outcome = Repaired {
            original: None,
            records_kept: kept,
            lines_dropped: dropped.len(),
            bytes_dropped: dropped.iter().map(|line| line.len()).sum(),
            events_dropped: BTreeMap::new(),
            header_replaced,
        };
        for line in dropped {
            *outcome.events_dropped.entry(event_name(line)).or_default() += 1;
        }
        Ok(Some(Repair { path, new, outcome, old }))
    }

    /// Saves a copy of the original, then replaces the journal. The lock keeps others from writing to it.
    pub fn apply(self, _lock: &FeatureLock) -> Result<Repaired> {
        let original = Some(keep_original(&self.path, &self.old)?);
        write_atomic(&self.path, &self.new)?;
        Ok(Repaired { original, ..self.outcome })
    }
}

fn is_record(line: &[u8], seq: u64) -> bool {
    line.ends_with(b"\n") && serde_json::from_slice::<Record>(line).is_ok_and(|record| record.seq == seq)
}

fn event_name(line: &[u8]) -> String {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    let known = value["event"]["event"].as_str().map(|name| name.chars().take(40).collect());
    known.unwrap_or_else(|| "unreadable".to_owned())
}

/// Saves the original under an unused name. It is on disk before anything is changed.
fn keep_original(path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    for number in 1.. {
        let place =
            path.with_extension(if number == 1 { "jsonl.damaged".into() } else { format!("jsonl.damaged-{number}") });
        match state_file::create_new(&place) {
            Ok(mut file) => {
                file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io("write", &place))?;
                path.parent().map_or(Ok(()), sync_dir)?;
                return Ok(place);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io("write", &place)(error)),
        }
    }
    Err(Error::new(Kind::Failed, format!("found no unused name for a copy of {}", path.display())))
}
