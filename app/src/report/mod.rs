//! What people and programs are shown of a run.

mod columns;
pub mod completion_md;
pub mod failure;
pub mod logs;
mod markdown;
pub mod narrate;
pub mod progress;
pub mod projection;
pub mod state_md;
pub mod status;
#[cfg(test)]
mod support;
mod text;
mod timeline;

use std::time::Duration;

/// As people say it: `0.4s`, `12s`, `2m 34s`, `1h 05m`.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => match duration.subsec_millis() / 100 {
            0 => format!("{seconds}s"),
            tenths => format!("{seconds}.{tenths}s"),
        },
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let text = |ms| human_duration(Duration::from_millis(ms));
        let all = [0, 99, 430, 5_000, 9_990, 12_900, 154_000, 241_000, 3_900_000, 97_200_000].map(text);
        assert_eq!(all, ["0s", "0s", "0.4s", "5s", "9.9s", "12s", "2m 34s", "4m 01s", "1h 05m", "1d 03h"]);
    }
}
