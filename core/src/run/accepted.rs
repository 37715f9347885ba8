//! Settings that a run keeps as the user accepted them, because they decide what it executes and what it believes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::state::Run;

/// Accepted settings: their keys, and their values as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Accepted(BTreeMap<String, String>);

impl Accepted {
    pub fn set(&mut self, key: impl Into<String>, value: impl Serialize) {
        let value = serde_json::to_string(&value).expect("texts, lists and words can be written as JSON");
        self.0.insert(key.into(), value);
    }

    /// Returns the quality gates: their names and commands.
    pub fn gates(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix("quality_gates.")?.strip_suffix(".command")?;
            Some((name, serde_json::from_str(value).ok()?))
        })
    }

    /// Returns the differences as lines of a diff.
    pub fn diff(&self, new: &Accepted) -> Vec<String> {
        let keys: BTreeSet<&String> = self.0.keys().chain(new.0.keys()).collect();
        let mut lines = Vec::new();
        for key in keys {
            let (old, new) = (self.0.get(key), new.0.get(key));
            if old != new {
                lines.extend(old.map(|value| format!("- {key}: {value}")));
                lines.extend(new.map(|value| format!("+ {key}: {value}")));
            }
        }
        lines
    }
}

impl Run {
    /// Returns how settings differ from those that the user accepted for this run, as a diff. Before the run has begun
    /// work nothing depends on them.
    pub fn unaccepted(&self, settings: &Accepted) -> Vec<String> {
        if self.has_begun() { self.policy.accepted.diff(settings) } else { Vec::new() }
    }
}
