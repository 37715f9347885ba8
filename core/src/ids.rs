//! Names and numbers that cannot hold a bad value.

use std::fmt;
use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

/// Why a text is not the name it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a valid {what}: {rule}")]
pub struct BadName {
    pub what: &'static str,
    pub value: String,
    pub rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String")]
        #[schemars(with = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
                let value = text.into();
                let valid: fn(&str) -> bool = $valid;
                if valid(&value) {
                    Ok(Self(value.into()))
                } else {
                    Err(BadName { what: $what, value, rule: $rule })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(value: String) -> Result<Self, BadName> {
                Self::new(value)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.as_str().to_owned()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name!(
    /// A piece of work with its own spec, graph, journal and branches.
    Feature,
    "feature name",
    "use 1 to 64 of a-z, 0-9 and '-', beginning with a letter or digit",
    |text| {
        text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    }
);

name!(
    /// A task's name, safe as part of a file name and of a git ref.
    TaskId,
    "task id",
    "use 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', beginning with a letter, without '..', a final '.' or '.lock'",
    |text| {
        text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
            && !text.contains("..")
            && !text.ends_with('.')
            && !text.ends_with(".lock")
    }
);

name!(
    /// The name of a git object.
    Oid,
    "object name",
    "use 40 or 64 hexadecimal digits",
    |text| matches!(text.len(), 40 | 64) && text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
);

impl Oid {
    /// The first digits, as people read them.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// Tasks that land together, in one merge commit, after the level below.
    Level
);
number!(
    /// A slot that runs one job at a time, counted from 0.
    WorkerId
);
number!(
    /// Number of an attempt at a task, from 1.
    Attempt
);

/// Milliseconds since 1970, as the host told them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// How long after `earlier`; nothing where the clock went back.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

/// As RFC 3339 in UTC, to the second.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days since 0000-03-01, so that the leap day is the last of its year; an era is 400 years.
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_lower_case_and_cannot_leave_their_directory() {
        for good in ["x", "epic1", "user-auth", "0"] {
            assert!(Feature::new(good).is_ok(), "{good}");
        }
        for bad in ["", "../x", "X", "-x", "a_b", "a/b", "a.b", "ä", &"x".repeat(65)] {
            assert!(Feature::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn task_ids_are_legal_in_refs_and_file_names() {
        for good in ["TASK-001", "L0-001", "a", "a.b_c"] {
            assert!(TaskId::new(good).is_ok(), "{good}");
        }
        for bad in ["", "0a", "a..b", "a.", "a.lock", "a/b", "a b", "-a", &"x".repeat(65)] {
            assert!(TaskId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn time_reads_as_rfc_3339() {
        let text = |seconds: i64| Time(seconds * 1000).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(1_769_423_400), "2026-01-26T10:30:00Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn time_that_goes_back_is_no_time() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }
}
