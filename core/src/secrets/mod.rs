//! Finds secrets in the lines that a commit adds, and takes them out of what is logged and reported: keys in well-known
//! formats, and random values that are assigned to a name such as `api_key`. A finding never contains the secret itself.
//!
//! Called by the worker before a commit, by gates with findings, and by everything that logs output of an agent.

mod assigned;
mod blocks;
mod comment;
mod feedback;
mod jwt;
mod places;
mod redact;
mod tokens;
mod urls;

use std::collections::BTreeSet;
use std::fmt;

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};

pub use comment::{ALLOW_COMMENT, is_reason};
pub use feedback::{allow_entry, feedback, for_people};
use places::Place;
pub use redact::Redactor;

/// Number of findings in one file after which its scan ends.
const MAX_FINDINGS: usize = 50;
/// Maximum number of suppressions in one file, so that a person can review them; further ones are findings.
const MAX_SUPPRESSIONS: usize = 100;
/// Something that looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub path: String,
    /// 1-based.
    pub line: usize,
    pub rule: String,
    /// What may be shown of it: the public prefix of its format and its length.
    pub masked: String,
    /// Why a comment that was meant to allow it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} ({})", self.path, self.line, self.rule, self.masked)?;
        self.comment.iter().try_for_each(|problem| write!(f, "; {problem}"))
    }
}

/// A finding that a comment or the configuration allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Suppression {
    pub path: String,
    pub line: usize,
    pub rule: String,
    pub reason: String,
}

impl fmt::Display for Suppression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.reason)
    }
}

/// An entry of `secrets.allow` in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// Glob of the files that it covers.
    pub path: String,
    /// The only rule that it covers; `None`: all of them.
    pub rule: Option<String>,
    pub reason: String,
}

impl Allowed {
    fn covers(&self, path: &str, rule: &str) -> bool {
        self.rule.as_deref().is_none_or(|own| own == rule)
            && GlobBuilder::new(&self.path)
                .literal_separator(true)
                .build()
                .is_ok_and(|glob| glob.compile_matcher().is_match(path))
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    pub findings: Vec<Finding>,
    pub suppressions: Vec<Suppression>,
}

/// Returns the names of all rules, sorted.
pub fn rules() -> Vec<&'static str> {
    let all = tokens::rules().chain([jwt::RULE]).chain(blocks::RULES).chain(urls::RULES).chain(assigned::RULES);
    all.collect::<BTreeSet<&str>>().into_iter().collect()
}

/// Scans the lines of a file that are in `new` and not in `old`.
pub fn scan(path: &str, old: &str, new: &str, allowed: &[Allowed]) -> Scan {
    let before: BTreeSet<&str> = old.lines().collect();
    let lines: Vec<&str> = new.lines().collect();
    let place = Place::of(path);
    let mut scan = Scan::default();
    for index in 0..lines.len() {
        for Hit { rule, masked, .. } in hits(&lines, index, &before, place) {
            let by_comment = comment::reason_at(&lines, index);
            let by_config = || allowed.iter().find(|allowed| allowed.covers(path, rule));
            let suppressed = match by_comment {
                Ok(reason) => Ok(reason),
                Err(problem) => by_config().map(|allowed| allowed.reason.clone()).ok_or(problem),
            };
            let (path, line, rule) = (path.to_owned(), index + 1, rule.to_owned());
            match suppressed {
                Ok(reason) if scan.suppressions.len() < MAX_SUPPRESSIONS => {
                    scan.suppressions.push(Suppression { path, line, rule, reason });
                }
                Ok(_) => {
                    let comment = Some(format!("its file has {MAX_SUPPRESSIONS} allowed findings already"));
                    scan.findings.push(Finding { path, line, rule, masked, comment });
                }
                Err(comment) => scan.findings.push(Finding { path, line, rule, masked, comment }),
            }
        }
        if scan.findings.len() >= MAX_FINDINGS {
            break;
        }
    }
    scan
}

/// Something that was found on a line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hit<'l> {
    rule: &'static str,
    /// What may be shown of it.
    masked: String,
    /// The part of the line that must not be shown.
    secret: &'l str,
}

/// Returns what was found on one line, each rule once.
fn hits<'l>(lines: &[&'l str], index: usize, before: &BTreeSet<&str>, place: Place) -> Vec<Hit<'l>> {
    let is_new = |line: &str| !before.contains(line);
    let mut hits = Vec::new();
    if !place.test {
        hits.extend(blocks::find(&lines[index..], is_new));
    }
    if is_new(lines[index]) {
        hits.extend(tokens::find(lines[index]));
        // These give too many false findings in tests and generated files.
        if !place.test && !place.generated {
            hits.extend(jwt::find(lines[index]));
            hits.extend(urls::find(lines[index], false));
            if hits.is_empty() {
                hits.extend(assigned::find(lines[index], place.plain_values).next());
            }
        }
    }
    hits.sort();
    hits.dedup_by_key(|hit| hit.rule);
    hits
}

/// Returns the first characters that belong together, at most `max` bytes and one character. Bounded, so that no text
/// takes quadratic time.
fn leading(text: &str, max: usize, belongs: impl Fn(char) -> bool) -> &str {
    let characters = text.char_indices().take_while(|(at, c)| *at <= max && belongs(*c));
    let end = characters.last().map_or(0, |(at, c)| at + c.len_utf8());
    &text[..end]
}

/// Describes a secret without showing more of it than its format's public prefix.
fn masked(prefix: &str, length: usize) -> String {
    match prefix {
        "" => format!("{length} characters"),
        _ => format!("{prefix}…, {length} characters"),
    }
}

#[cfg(test)]
mod tests;
