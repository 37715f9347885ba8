//! Signs and colours of states. A state is a sign and a word first, then a colour; hue means state and nothing else.

use std::ffi::OsString;

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub color: bool,
    /// Without it every character becomes ASCII.
    pub unicode: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    Asks,
    Failed,
    Running,
    Verifying,
    Retries,
    Pending,
    Done,
    Skipped,
    Warning,
}

impl Sign {
    /// The states of tasks.
    pub const OF_TASKS: [Sign; 8] = [
        Sign::Asks,
        Sign::Failed,
        Sign::Running,
        Sign::Verifying,
        Sign::Retries,
        Sign::Pending,
        Sign::Done,
        Sign::Skipped,
    ];

    pub fn symbol(self) -> &'static str {
        match self {
            Sign::Asks => "?",
            Sign::Failed => "✗",
            Sign::Running => "▸",
            Sign::Verifying => "◐",
            Sign::Retries => "↻",
            Sign::Pending => "·",
            Sign::Done => "✓",
            Sign::Skipped => "–",
            Sign::Warning => "!",
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Sign::Asks => "asks",
            Sign::Failed => "blocked",
            Sign::Running => "running",
            Sign::Verifying => "verifying",
            Sign::Retries => "retries soon",
            Sign::Pending => "pending",
            Sign::Done => "done",
            Sign::Skipped => "skipped",
            Sign::Warning => "paused",
        }
    }
}

impl Look {
    /// Tells from the locale in the environment whether the terminal shows Unicode.
    pub fn of(color: bool, variable: impl Fn(&'static str) -> Option<OsString>) -> Look {
        let set = |name: &'static str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_string_lossy().to_lowercase();
        Look { color, unicode: locale.contains("utf-8") || locale.contains("utf8") }
    }

    pub fn sign(self, sign: Sign) -> Style {
        match sign {
            Sign::Asks => self.color(Color::Magenta).add_modifier(Modifier::BOLD),
            Sign::Failed => self.color(Color::Red).add_modifier(Modifier::BOLD),
            Sign::Running | Sign::Verifying => self.color(Color::Cyan),
            Sign::Retries => self.color(Color::Yellow),
            Sign::Warning => self.color(Color::Yellow).add_modifier(Modifier::BOLD),
            Sign::Done => self.color(Color::Green),
            Sign::Pending | Sign::Skipped => self.dim(),
        }
    }

    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Style of a line that matches the search.
    pub fn found(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub fn color(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Returns the character as the terminal can show it.
    pub fn to_ascii(self, c: char) -> char {
        if self.unicode || c.is_ascii() { c } else { ascii(c) }
    }
}

fn ascii(c: char) -> char {
    match c {
        '✗' => 'x',
        '▸' | '❯' => '>',
        '◐' | '…' => '~',
        '✓' => '+',
        '↻' => 'r',
        '·' | '░' | '▁' => '.',
        '–' | '—' | '─' | '−' => '-',
        '◆' | '█' | '▇' => '#',
        '◇' => 'o',
        '━' | '▓' | '▅' | '▆' => '=',
        '▒' => '%',
        '▂' | '▃' | '▄' => ':',
        '│' => '|',
        '↑' => '^',
        '↓' => 'v',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn the_locale_says_whether_there_is_unicode() {
        let of = |variables: &[(&str, &str)]| {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(*value))
            };
            Look::of(true, value).unicode
        };
        assert!(of(&[("LANG", "en_US.UTF-8")]) && of(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!of(&[]) && !of(&[("LANG", "C")]) && !of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
        let not_unicode = |_: &str| Some(OsString::from_vec(b"\xff.UTF-8".to_vec()));
        assert!(Look::of(true, not_unicode).unicode);
    }

    #[test]
    fn every_sign_has_an_ascii_form() {
        let look = Look { color: false, unicode: false };
        let signs = Sign::OF_TASKS.iter().chain([&Sign::Warning]);
        let shown: String = signs.flat_map(|sign| sign.symbol().chars()).map(|c| look.to_ascii(c)).collect();
        assert_eq!(shown, "?x>~r.+-!");
    }
}
