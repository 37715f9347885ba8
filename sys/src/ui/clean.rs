//! Makes untrusted text safe for a terminal: it cannot move the cursor, set a title, or change the text direction.

use mahabharatha_core::excerpt::control_sequence;
use unicode_width::UnicodeWidthStr;

/// Removes escape sequences and replaces control characters. Keeps line breaks and tabs.
pub fn clean(text: &str) -> String {
    filter(text, |_| false)
}

/// Cleans text but keeps colors: for text that was cleaned before and then colored by us.
pub(super) fn clean_but_colors(text: &str) -> String {
    filter(text, |sequence| {
        sequence
            .strip_prefix("\x1b[")
            .and_then(|rest| rest.strip_suffix('m'))
            .is_some_and(|parameters| parameters.chars().all(|c| c.is_ascii_digit() || c == ';'))
    })
}

/// Escapes what JSON allows unescaped in strings but a terminal may obey. Does not change the value of the JSON.
pub(super) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let mut rest = json;
    loop {
        let (plain, other) = split_plain(rest);
        escaped.push_str(plain);
        let Some(c) = other.chars().next() else { return escaped };
        match c.is_control() || turns_direction(c) {
            true => escaped.push_str(&format!("\\u{:04x}", c as u32)),
            false => escaped.push(c),
        }
        rest = &other[c.len_utf8()..];
    }
}

/// Shows every control character and escape sequence as visible text, so that a person sees what a file contains. Keeps
/// line breaks and tabs.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => escaped.push('␍'),
            _ if turns_direction(c) || ('\u{80}'..='\u{9f}').contains(&c) => {
                escaped.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            _ => escaped.push(visible(c)),
        }
    }
    escaped
}

/// Cleans text and replaces every run of whitespace, including line breaks, with one space.
pub fn one_line(text: &str) -> String {
    if is_plain(text) && !text.starts_with(' ') && !text.ends_with(' ') && !text.contains("  ") {
        return text.to_owned();
    }
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cleans a command and replaces line breaks and tabs with one space each, so that it fits on a line and its other spaces
/// stay: in quotes they are part of what it does.
pub fn command_line(command: &str) -> String {
    clean(command.trim()).replace(['\n', '\t'], " ")
}

/// Cuts text to a number of columns, ending in `…` if something was cut.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    // Measure the whole prefix each time, since some characters change the width of the one before them. Limit the
    // number of prefixes, since a text may have any number of characters without width.
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).take(4 * columns);
    let fitted = ends.map(|end| &text[..end]).filter(|part| width(part) < columns).last().unwrap_or_default();
    if columns > 0 { format!("{fitted}…") } else { String::new() }
}

/// Returns the width of the text in terminal columns.
pub fn width(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.width() }
}

/// Returns true for what most texts are, so that large tables are quick: printable ASCII on one line.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Drops control sequences such as colors, except those that `keep` accepts. Shows every other control character as a
/// visible symbol, so that an unterminated sequence cannot swallow what follows it.
fn filter(text: &str, keep: impl Fn(&str) -> bool) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (plain, other) = split_plain(rest);
        cleaned.push_str(plain);
        rest = other;
        let Some(c) = rest.chars().next() else { return cleaned };
        let length = control_sequence(rest);
        if length > 0 {
            if keep(&rest[..length]) {
                cleaned.push_str(&rest[..length]);
            }
            rest = &rest[length..];
            continue;
        }
        if let Some(after) = rest.strip_prefix("\r\n") {
            cleaned.push('\n');
            rest = after;
            continue;
        }
        cleaned.push(visible(c));
        rest = &rest[c.len_utf8()..];
    }
}

/// Splits text after the printable ASCII, line breaks and tabs at its start, which no function here changes.
fn split_plain(text: &str) -> (&str, &str) {
    let is_other = |byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    text.split_at(text.bytes().position(is_other).unwrap_or(text.len()))
}

fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        // A lone carriage return would overwrite the text before it.
        '\r' => '\n',
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}' => char::REPLACEMENT_CHARACTER,
        _ if turns_direction(c) => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

fn turns_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_harmless(text: &str) -> bool {
        text.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control() && !turns_direction(c))
    }

    #[test]
    fn colors_are_removed_and_other_control_characters_shown() {
        assert_eq!(clean("\x1b[1;31mred\x1b[0m\r\nnext\rlast"), "red\nnext\nlast");
        assert_eq!(clean("\x1b]0;owned\x07 and on"), "␛]0;owned␇ and on");
        assert_eq!(clean("a\x1b[2Jb\x1b[1;1Hc"), "abc");
        assert_eq!(clean("cut \x1b[31"), "cut ␛[31");
        assert_eq!(clean("\u{9b}31m \u{202e}txt\x7f"), "\u{fffd}31m \u{fffd}txt␡");
    }

    #[test]
    fn escaped_text_shows_what_is_there() {
        assert_eq!(escape("a\x1b[2J\tb\r\n\u{202e}\u{9b}x"), "a␛[2J\tb␍\n<U+202E><U+009B>x");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("  a\n\tb \r c\u{2028}d "), "a b c d");
    }

    #[test]
    fn the_spaces_of_a_command_stay() {
        let command = "test   -e a\t&&\r\necho  'a   b'\x1b[31m\n";
        assert_eq!(command_line(command), "test   -e a && echo  'a   b'");
    }

    #[test]
    fn text_is_cut_by_columns_not_by_bytes() {
        assert_eq!(fit("schön", 5), "schön");
        assert_eq!(fit("schöner", 5), "schö…");
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("ab", 1), "…");
        assert_eq!(fit("ab", 0), "");
        assert_eq!(fit("a0\u{fe0f}b", 3), "a0…", "as an emoji the digit takes two columns");
    }

    /// Generates text with many control characters and fragments of sequences.
    fn nasty() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            (0u8..32).prop_map(|byte| char::from(byte).to_string()),
            (0x7fu32..0xa0).prop_map(|code| char::from_u32(code).unwrap().to_string()),
            Just("\x1b[".to_string()),
            Just("\x1b]".to_string()),
            Just("31;1m".to_string()),
            Just("\u{202e}".to_string()),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn cleaned_text_is_harmless_and_stays_as_it_is(text in nasty()) {
            let cleaned = clean(&text);
            prop_assert!(is_harmless(&cleaned), "{cleaned:?}");
            prop_assert!(is_harmless(&escape(&text)), "{:?}", escape(&text));
            prop_assert_eq!(clean(&cleaned), cleaned.clone());
            prop_assert!(!one_line(&text).contains(['\n', '\t']));
        }

        #[test]
        fn clean_but_colors_keeps_only_colors(text in nasty()) {
            let passed = clean_but_colors(&text);
            prop_assert!(is_harmless(&anstream::adapter::strip_str(&passed).to_string()), "{passed:?}");
            for (at, _) in passed.match_indices('\x1b') {
                let length = control_sequence(&passed[at..]);
                prop_assert!(length > 0 && passed[at..at + length].ends_with('m'), "{passed:?}");
            }
        }

        #[test]
        fn escaped_json_is_harmless_and_keeps_its_value(text in nasty()) {
            let json = serde_json::json!({ &text: [&text] });
            let escaped = escape_json(&format!("{json:#}"));
            prop_assert!(is_harmless(&escaped), "{escaped:?}");
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), json);
        }

        #[test]
        fn harmless_text_is_not_changed(text in "[^\\p{C}]{0,60}") {
            prop_assert_eq!(clean(&text), text);
        }

        #[test]
        fn fitted_text_fits(text in "\\PC{0,60}", columns in 0usize..40) {
            prop_assert!(width(&fit(&text, columns)) <= columns);
        }
    }
}
