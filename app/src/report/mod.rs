//! What people read about a run.

pub mod plan;

use std::time::Duration;

/// The two largest units: `2m 34s`, `1h 05m`. Below a second milliseconds; a second unit of nothing is left out.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let pair = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small:02}{small_unit}"),
    };
    match seconds {
        0 if duration.is_zero() => "0s".to_owned(),
        0 => format!("{}ms", duration.as_millis().max(1)),
        1..60 => format!("{seconds}s"),
        60..3600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3600..86400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => pair(seconds / 86400, "d", seconds % 86400 / 3600, "h"),
    }
}

/// A text from outside as it can be shown on a terminal: nothing in it acts, nothing hides.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let turns_direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns_direction {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_in_two_units() {
        let human = |milliseconds| human_duration(Duration::from_millis(milliseconds));
        let shown = [0, 240, 1_000, 59_999, 60_000, 154_000, 241_000, 3_600_000, 3_900_000, 90_000_000, 172_800_000];
        let expected = ["0s", "240ms", "1s", "59s", "1m", "2m 34s", "4m 01s", "1h", "1h 05m", "1d 01h", "2d"];
        assert_eq!(shown.map(human), expected);
        assert_eq!(human_duration(Duration::from_nanos(1)), "1ms");
    }

    #[test]
    fn text_from_outside_cannot_act_on_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\tä\u{202e}x"), "a\\u{1b}[2Jb\\tä\\u{202e}x");
    }
}
