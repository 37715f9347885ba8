//! `list`: one line per feature.

use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::Time;
use mahabharatha_core::view::Stamp;
use mahabharatha_sys::ui::Paint;
use serde::Serialize;

use super::columns::{Cell, cell, columns};
use super::human_duration;
use super::status::status_cell;
use super::text::{amount, headline};

/// One feature.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Listed {
    pub feature: String,
    /// Status of the run; without a run `empty`, `planned`, `designed` or `invalid`.
    pub status: &'static str,
    /// A user stopped the run.
    #[serde(rename = "stopped", skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// What people read in place of the status.
    #[serde(skip)]
    pub word: Option<&'static str>,
    pub total: usize,
    pub completed: usize,
    pub blocked: usize,
    pub skipped: usize,
    #[serde(flatten)]
    pub cost: Cost,
    /// When the run began; without one, when the oldest file of the spec was written.
    pub created_at: Option<Stamp>,
    /// When the run last changed; without one, when the newest file of the spec was written.
    pub updated_at: Option<Stamp>,
    /// The first blocker.
    pub problem: Option<String>,
    /// Commands that name no feature act on this one.
    #[serde(rename = "current")]
    pub is_current: bool,
}

pub fn list_text(listed: &[Listed], now: Time, limit: Option<usize>, paint: Paint) -> String {
    let since = |stamp: Option<Stamp>| stamp.map(|stamp| human_duration(now.since(stamp.0))).unwrap_or_default();
    let row = |one: &Listed| -> Vec<Cell> {
        vec![
            cell(if one.is_current { "*" } else { "" }),
            cell(&one.feature),
            status_cell(one.word.unwrap_or(one.status)),
            cell(if one.total == 0 { String::new() } else { format!("{}/{}", one.completed, one.total) }),
            cell(if one.cost.is_zero() { String::new() } else { amount(one.cost) }),
            cell(since(one.created_at)),
            cell(one.updated_at.map(|_| format!("{} ago", since(one.updated_at))).unwrap_or_default()),
            cell(one.problem.as_deref().map(headline).unwrap_or_default()),
        ]
    };
    let rows: Vec<Vec<Cell>> = listed.iter().map(row).collect();
    columns(&["", "Feature", "Status", "Done", "Cost", "Age", "Last change", "Problem"], &rows, &[7], limit, paint)
}

#[cfg(test)]
mod tests {
    use mahabharatha_sys::ui::width;

    use super::*;

    #[test]
    fn every_feature_is_one_line() {
        let at = |seconds: i64| Some(Stamp(Time(seconds * 1_000)));
        let run = Listed {
            feature: "login".to_string(),
            status: "blocked",
            total: 8,
            completed: 3,
            blocked: 1,
            cost: Cost::of(Some(1.2), 10),
            created_at: at(0),
            updated_at: at(3_600),
            problem: Some("A-1: no such API".to_string()),
            is_current: true,
            ..Listed::default()
        };
        let planned = Listed { feature: "search".to_string(), status: "planned", ..Listed::default() };
        let listed = [run, planned];
        let text = |columns| list_text(&listed, Time(7_500_000), Some(columns), Paint::OFF);
        insta::assert_snapshot!(text(80));
        assert!(text(50).lines().all(|line| width(line) <= 50), "{}", text(50));
    }
}
