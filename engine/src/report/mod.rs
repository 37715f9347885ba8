//! Output about runs and features for users and programs: terminal text, JSON, logs and report files.
//!
//! Called by `host`, `session` and the commands. Nothing may wait for it, or decide by what it shows.

pub mod agents;
mod columns;
pub mod completion_md;
pub mod debug;
pub mod diff;
mod display;
pub mod estimate;
mod failure;
pub mod files;
pub mod gate_runs;
pub mod hypotheses;
pub mod junit;
pub mod list;
pub mod log_lines;
pub mod logs;
pub mod markdown;
pub mod moments;
mod notice;
pub mod notify;
pub mod placed;
pub mod plan;
pub mod planned;
mod progress;
pub mod projection;
mod reporter;
pub mod review;
pub mod running_gate;
pub mod schema;
pub mod state_md;
pub mod status;
pub mod status_line;
pub mod stream;
#[cfg(test)]
mod support;
pub mod text;
mod timeline;
pub mod trace;

use std::time::Duration;

pub use display::Display;
pub use reporter::{Opening, Reporter};
use serde::Serialize;
use serde_json::{Value, json};

/// Interval at which displays redraw their durations.
pub const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the object with the fields of another object added.
pub fn extended(mut object: Value, fields: impl Serialize) -> Value {
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, json!(fields)) {
        object.extend(fields);
    }
    object
}

/// Formats a duration for users: `0.4s`, `12s`, `2m 34s`, `1h 05m`. Omits a second unit of zero.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let pair = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small:02}{small_unit}"),
    };
    match seconds {
        0..10 => match duration.subsec_millis() / 100 {
            0 => format!("{seconds}s"),
            tenths => format!("{seconds}.{tenths}s"),
        },
        10..60 => format!("{seconds}s"),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let text = |ms| human_duration(Duration::from_millis(ms));
        let all = [0, 99, 430, 5_000, 9_990, 12_900, 60_000, 154_000, 241_000, 3_900_000, 172_800_000].map(text);
        assert_eq!(all, ["0s", "0s", "0.4s", "5s", "9.9s", "12s", "1m", "2m 34s", "4m 01s", "1h 05m", "2d"]);
    }
}
