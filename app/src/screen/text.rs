//! Lines of text that fit the screen. What comes from agents, repositories and specs is cleaned here.

use std::time::Duration;

use mahabharatha_core::cost::Cost;
use mahabharatha_engine::report::human_duration;
use mahabharatha_sys::ui::{clean, fit, one_line, width};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// A line that is built from left to right.
#[derive(Debug, Clone, Default)]
pub struct Row(pub Vec<Span<'static>>);

impl Row {
    pub fn new() -> Row {
        Row::default()
    }

    /// Adds text as one line, without control characters.
    pub fn add(mut self, style: Style, text: &str) -> Row {
        self.0.push(Span::styled(spaced(text), style));
        self
    }

    pub fn plain(self, text: &str) -> Row {
        self.add(Style::new(), text)
    }

    /// Adds text that fills exactly this many columns.
    pub fn cell(self, style: Style, text: &str, columns: usize) -> Row {
        let text = fit(&spaced(text), columns);
        let gap = columns.saturating_sub(width(&text));
        self.add(style, &format!("{text}{}", " ".repeat(gap)))
    }

    /// Adds text at the right end of this many columns.
    pub fn right_cell(self, style: Style, text: &str, columns: usize) -> Row {
        let text = fit(&spaced(text), columns);
        let gap = columns.saturating_sub(width(&text));
        self.add(style, &format!("{}{text}", " ".repeat(gap)))
    }

    pub fn join(mut self, other: Row) -> Row {
        self.0.extend(other.0);
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|span| width(&span.content)).sum()
    }

    /// Cuts the line to this many columns.
    pub fn fit(self, columns: usize) -> Line<'static> {
        let mut left = columns;
        let mut spans = Vec::new();
        let rest = self.width() > columns;
        for span in self.0 {
            let text = if rest && width(&span.content) > left { fit(&span.content, left) } else { span.content.into() };
            left = left.saturating_sub(width(&text));
            spans.push(Span::styled(text, span.style));
            if left == 0 {
                break;
            }
        }
        Line::from(spans)
    }

    /// Puts another line at the right end, if both fit, else cuts this one.
    pub fn against(self, right: Row, columns: usize) -> Line<'static> {
        let wanted = right.width();
        if wanted + 2 > columns {
            return self.fit(columns);
        }
        let mut line = self.fit(columns - wanted - 1);
        let gap = columns.saturating_sub(line.width() + wanted);
        line.spans.push(Span::raw(" ".repeat(gap)));
        line.spans.extend(right.0);
        line
    }
}

/// Cleans text for one line but keeps its spaces, which align columns.
fn spaced(text: &str) -> String {
    if text.chars().any(|c| c.is_control()) { one_line(text) } else { clean(text) }
}

/// Returns a rule across the screen with a label in it.
pub fn rule(style: Style, label: &str, columns: usize) -> Line<'static> {
    let label = match label {
        "" => String::new(),
        label => format!("── {} ", spaced(label)),
    };
    let label = fit(&label, columns);
    let rest = "─".repeat(columns.saturating_sub(width(&label)));
    Line::styled(label + &rest, style)
}

/// Breaks text into lines at spaces; words that are too long are cut into pieces.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    for paragraph in clean(text).lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let mut word = word.to_string();
            if !line.is_empty() && width(&line) + 1 + width(&word) > columns {
                lines.push(std::mem::take(&mut line));
            }
            while width(&word) > columns {
                let at = cut_at(&word, columns);
                lines.push(word[..at].to_string());
                word.drain(..at);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

/// Breaks one line of output into pieces that fit, with its spaces.
pub fn pieces(line: &str, columns: usize) -> Vec<String> {
    let mut rest = line.replace('\t', "    ");
    let mut pieces = Vec::new();
    while width(&rest) > columns.max(1) {
        let at = cut_at(&rest, columns.max(1));
        pieces.push(rest[..at].to_string());
        rest.drain(..at);
    }
    pieces.push(rest);
    pieces
}

/// Returns the byte at which this many columns end; always after the first character.
fn cut_at(text: &str, columns: usize) -> usize {
    let mut used = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > columns && end > 0 {
            break;
        }
        end = at + c.len_utf8();
    }
    end
}

/// Formats a duration that is shown as a running clock: no tenths.
pub fn clock(duration: Duration) -> String {
    human_duration(if duration.as_secs() > 0 { Duration::from_secs(duration.as_secs()) } else { duration })
}

/// Formats a number with separators: `1,000`.
pub fn number(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of tokens: `950`, `12 k`, `3.1 M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{} k", count / 1_000),
        _ => format!("{:.1} M", count as f64 / 1e6),
    }
}

/// Formats a cost: `$4.87`, `$4.87+` if a part is unknown, `$?` if all is.
pub fn usd(cost: Cost) -> String {
    match (cost.usd(), cost.known_usd()) {
        (Some(usd), _) => format!("${usd:.2}"),
        (None, 0.0) => "$?".to_string(),
        (None, known) => format!("${known:.2}+"),
    }
}

/// Returns the first lines; the last of them ends in `…` if others are left out.
pub fn first_lines(mut lines: Vec<String>, most: usize) -> Vec<String> {
    if lines.len() > most {
        lines.truncate(most);
        lines.iter_mut().last().into_iter().for_each(|last| last.push_str(" …"));
    }
    lines
}

/// Formats the number of the latest attempt: `2/3`; without the limit where a user allowed more, nothing before the first.
pub fn tries(attempt: u32, most: u32) -> String {
    match attempt {
        0 => String::new(),
        _ if attempt > most => attempt.to_string(),
        _ => format!("{attempt}/{most}"),
    }
}

/// Formats a list of names: `A`, `A and B`, `A, B and 3 more`.
pub fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let count = all.len();
    let shown: Vec<&str> = all.take(if count > most { most } else { count }).collect();
    match (shown.as_slice(), count - shown.len()) {
        ([one], 0) => (*one).to_string(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (some, more) => format!("{} and {more} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &Line<'_>) -> String {
        line.spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn lines_fit_and_control_characters_do_not_pass() {
        let row = Row::new().plain("a\x1b[31mb\u{202e}c\n").plain("漢字漢字");
        assert_eq!(shown(&row.clone().fit(100)), "ab\u{fffd}c漢字漢字");
        assert_eq!(shown(&row.fit(7)), "ab\u{fffd}c漢…");
        let line = Row::new().plain("left").against(Row::new().plain("right"), 12);
        assert_eq!(shown(&line), "left   right");
        assert_eq!(shown(&Row::new().plain("left").against(Row::new().plain("right"), 6)), "left");
        let cells = Row::new().cell(Style::new(), "abcdef", 4).right_cell(Style::new(), "x", 3);
        assert_eq!(shown(&cells.fit(80)), "abc…  x");
    }

    #[test]
    fn text_is_wrapped_at_spaces() {
        assert_eq!(wrap("one two  three\n\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(pieces("ab\tcd", 5), ["ab   ", " cd"]);
    }

    #[test]
    fn numbers_and_names() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([950, 12_345, 3_140_000].map(tokens), ["950", "12 k", "3.1 M"]);
        assert_eq!(names(["A"].into_iter(), 2), "A");
        assert_eq!(names(["A", "B"].into_iter(), 2), "A and B");
        assert_eq!(names(["A", "B", "C"].into_iter(), 2), "A, B and 1 more");
    }
}
