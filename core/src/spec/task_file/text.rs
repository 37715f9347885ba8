//! Reads and writes texts, lists and commands inside the format. Whatever is written is read back unchanged.

/// Separators in a list of paths, and in a list of ids (which contain no spaces).
pub(super) const PATH_SEPARATORS: &[char] = &[',', '\n'];
pub(super) const ID_SEPARATORS: &[char] = &[',', '\n', ' ', '\t'];
/// Separator in a list with one item per line.
pub(super) const LINE_SEPARATORS: &[char] = &['\n'];

const BLANK: &[char] = &[' ', '\t', '\r', '\n'];
const BLANK_IN_LINE: &[char] = &[' ', '\t'];

/// Normalizes a text to what the format preserves: no blank lines around it, no trailing space, no carriage returns.
pub(super) fn normalized(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text = text.trim_end_matches(BLANK);
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        if !line.trim_matches(BLANK).is_empty() {
            break;
        }
        rest = after;
    }
    rest.to_owned()
}

/// Returns true for an empty text or a usual word for "none".
pub(super) fn is_none(text: &str) -> bool {
    matches!(text.trim_matches(BLANK).to_ascii_lowercase().as_str(), "" | "none" | "(none)" | "n/a" | "-" | "–" | "—")
}

/// Returns the character that a reference at the start of `text` stands for, and the reference's length.
fn reference_at(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let c = match text.get(1..end)? {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        number => {
            let number = number.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((c, end + 1))
}

pub(super) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        let (c, length) = reference_at(&rest[at..]).unwrap_or(('&', 1));
        text.push(c);
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    text
}

fn reference(c: char) -> String {
    format!("&#{};", u32::from(c))
}

/// Escapes only what would be read as a tag, a reference or a separator, so that commands stay readable.
fn escape(text: &str, separators: &[char]) -> String {
    let mut raw = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        if rest.starts_with("</") || rest.starts_with("<!") {
            raw.push_str("&lt;");
        } else if c == '&' && reference_at(rest).is_some() {
            raw.push_str("&amp;");
        } else if separators.contains(&c) || c.is_control() && c != '\n' && c != '\t' {
            raw.push_str(&reference(c));
        } else {
            raw.push(c);
        }
    }
    raw
}

/// Writes the first and the last character as references, so that nothing is trimmed or read as markup.
fn guarded(text: &str, separators: &[char]) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(reference).unwrap_or_default();
    let last = chars.next_back().map(reference).unwrap_or_default();
    format!("{first}{}{last}", escape(chars.as_str(), separators))
}

pub(super) fn attribute(text: &str) -> String {
    escape(text, &['"', '\n', '\t'])
}

/// Writes any text on one line.
pub(super) fn write_line(text: &str) -> String {
    let raw = escape(text, &['\n']);
    if read_line(&raw) == text { raw } else { guarded(text, &['\n']) }
}

pub(super) fn read_line(raw: &str) -> String {
    let lines: Vec<&str> =
        raw.split('\n').map(|line| line.trim_matches(BLANK)).filter(|line| !line.is_empty()).collect();
    unescape(&lines.join(" "))
}

pub(super) fn write_list<'t>(items: impl IntoIterator<Item = &'t String>, separators: &[char]) -> String {
    let write = |item: &String| {
        let raw = escape(item, separators);
        if item_of(&raw) == raw && !is_none(&raw) { raw } else { guarded(item, separators) }
    };
    items.into_iter().filter(|item| !item.is_empty()).map(write).collect::<Vec<_>>().join(", ")
}

pub(super) fn read_list(raw: &str, separators: &[char]) -> Vec<String> {
    raw.split(separators).map(item_of).filter(|item| !is_none(item)).map(unescape).collect()
}

/// Strips a bullet, a checkbox and quotes from an item.
fn item_of(raw: &str) -> &str {
    let item = raw.trim_matches(BLANK);
    let item = bullet(item).unwrap_or(item);
    let item = ["[ ] ", "[x] ", "[X] "].iter().find_map(|tick| item.strip_prefix(tick)).unwrap_or(item);
    let item = item.trim_matches(BLANK);
    // Only quotes around the whole item, not two quoted words at its ends.
    let unquoted = |quote: &char| item.strip_prefix(*quote)?.strip_suffix(*quote).filter(|rest| !rest.contains(*quote));
    ['`', '"', '\''].iter().find_map(unquoted).unwrap_or(item)
}

/// Returns the text after a bullet.
pub(super) fn bullet(line: &str) -> Option<&str> {
    ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .map(|rest| rest.trim_start_matches(BLANK_IN_LINE))
}

/// Writes a text of any number of lines, each indented.
pub(super) fn write_text(text: &str, indent: &str) -> String {
    indented(&escape_lines(&normalized(text)), indent)
}

pub(super) fn read_text(raw: &str) -> String {
    match cdata(raw) {
        Some(plain) => dedent(plain),
        None => unescape(&dedent(raw)),
    }
}

/// Writes a shell command. It is escaped if it would be read as fenced or quoted.
pub(super) fn write_command(command: &str, indent: &str) -> String {
    let mut raw = escape_lines(&normalized(command));
    if unwrapped(&raw) != raw {
        let first = raw.remove(0);
        raw.insert_str(0, &reference(first));
    }
    indented(&raw, indent)
}

pub(super) fn read_command(raw: &str) -> String {
    match cdata(raw) {
        Some(plain) => dedent(plain),
        None => unescape(&unwrapped(&dedent(raw))),
    }
}

fn escape_lines(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let shift = !common_indent(text.split('\n')).is_empty();
    for (number, line) in text.split('\n').enumerate() {
        let blank = !line.is_empty() && line.trim_matches(BLANK_IN_LINE).is_empty();
        let mut chars = line.chars();
        lines.push(match chars.next() {
            Some(first) if blank || shift && number == 0 => reference(first) + &escape(chars.as_str(), &[]),
            _ => escape(line, &[]),
        });
    }
    lines.join("\n")
}

fn indented(raw: &str, indent: &str) -> String {
    let lines = raw.split('\n').map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") });
    lines.collect::<Vec<_>>().join("\n")
}

fn common_indent<'t>(lines: impl Iterator<Item = &'t str>) -> &'t str {
    let indent = |line: &'t str| &line[..line.len() - line.trim_start_matches(BLANK_IN_LINE).len()];
    let shared = |a: &'t str, b: &'t str| {
        let length = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        &a[..length]
    };
    lines.filter(|line| !line.trim_matches(BLANK).is_empty()).map(indent).reduce(shared).unwrap_or_default()
}

/// Strips the indentation that all lines share. Text right after the tag has none.
fn dedent(raw: &str) -> String {
    let (first, rest) = raw.split_once('\n').unwrap_or((raw, ""));
    let first = first.trim_matches(BLANK);
    let common = common_indent(rest.split('\n'));
    let line = |line: &str| match line.trim_matches(BLANK).is_empty() {
        true => String::new(),
        false => line[common.len()..].to_owned(),
    };
    let lines: Vec<String> = rest.split('\n').map(line).collect();
    normalized(&format!("{first}\n{}", lines.join("\n")))
}

fn cdata(raw: &str) -> Option<&str> {
    raw.trim_matches(BLANK).strip_prefix("<![CDATA[")?.strip_suffix("]]>")
}

fn unwrapped(raw: &str) -> String {
    if is_none(raw) {
        return String::new();
    }
    if let Some((opening, rest)) = raw.split_once('\n')
        && let Some((inside, closing)) = rest.rsplit_once('\n')
        && ["```", "~~~"].iter().any(|fence| opening.starts_with(fence) && closing.trim_matches(BLANK) == *fence)
    {
        return dedent(&format!("\n{inside}"));
    }
    match raw.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(inside) if !inside.is_empty() && !inside.contains(['`', '\n']) => inside.to_owned(),
        _ => raw.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_write_lists_in_many_ways() {
        for raw in [
            "a.rs, b c.rs",
            "\n  - `a.rs`\n  - b c.rs\n",
            "a.rs\nb c.rs",
            "* 'a.rs',\n* \"b c.rs\"",
            "none, a.rs, b c.rs,",
        ] {
            assert_eq!(read_list(raw, PATH_SEPARATORS), ["a.rs", "b c.rs"], "{raw:?}");
        }
        assert_eq!(
            read_list("L0-001 L0-002,L0-003\n- L0-004", ID_SEPARATORS),
            ["L0-001", "L0-002", "L0-003", "L0-004"]
        );
        for raw in ["", " ", "none", "None", "N/A", "-", "`none`", "- none"] {
            assert_eq!(read_list(raw, PATH_SEPARATORS), [""; 0], "{raw:?}");
        }
    }

    #[test]
    fn people_write_commands_in_many_ways() {
        for raw in [
            "cargo test && a < b > c",
            "\n    cargo test && a < b > c\n  ",
            "`cargo test && a < b > c`",
            "\n  ```bash\n  cargo test && a < b > c\n  ```\n",
            "cargo test &amp;&amp; a &lt; b &gt; c",
            " <![CDATA[cargo test && a < b > c]]>",
        ] {
            assert_eq!(read_command(raw), "cargo test && a < b > c", "{raw:?}");
        }
        assert_eq!(read_command("none"), "");
    }

    #[test]
    fn shared_indentation_is_not_part_of_the_text() {
        assert_eq!(read_text("\n    if x:\n        y\n\n    z\n  "), "if x:\n    y\n\nz");
        assert_eq!(read_text("Do:\n    - a\n      - b\n"), "Do:\n- a\n  - b");
        assert_eq!(read_text("\r\n  a\r\n  b\r\n"), "a\nb");
    }

    #[test]
    fn commands_stay_readable() {
        let command = "cd x && test \"$(a | b)\" > /dev/null 2>&1 && echo <<EOF";
        assert_eq!(write_command(command, ""), command);
        assert_eq!(write_text("</action> &lt; <T>", ""), "&lt;/action> &amp;lt; <T>");
    }

    #[test]
    fn text_that_looks_like_cdata_round_trips() {
        let text = "<![CDATA[a &lt; b]]>";
        assert_eq!(read_text(&write_text(text, "")), text);
        assert_eq!(read_command(&write_command(text, "")), text);
    }

    fn awkward() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just(" "),
            Just("\t"),
            Just("\n"),
            Just("\r"),
            Just("\r\n"),
            Just(","),
            Just("`"),
            Just("```"),
            Just("- "),
            Just("none"),
            Just("[x] "),
            Just("</"),
            Just("<!"),
            Just("<![CDATA["),
            Just("]]>"),
            Just("&"),
            Just("lt;"),
            Just("&#32;"),
            Just("#"),
            Just("x"),
            Just("\u{1b}"),
            Just("\0"),
            Just("\""),
            Just("'"),
            Just("é"),
            Just("\u{2028}"),
            Just(";"),
        ];
        prop_oneof![proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()), any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn everything_written_is_read_back_unchanged(text in awkward(), other in awkward()) {
            prop_assert_eq!(read_line(&write_line(&text)), text.clone());
            prop_assert_eq!(unescape(&attribute(&text)), text.clone());
            prop_assert_eq!(read_text(&format!("\n{}\n  ", write_text(&text, "    "))), normalized(&text));
            prop_assert_eq!(read_command(&format!("\n{}\n  ", write_command(&text, "    "))), normalized(&text));
            let items: Vec<String> = [text, other].into_iter().filter(|item| !item.is_empty()).collect();
            for separators in [PATH_SEPARATORS, ID_SEPARATORS] {
                prop_assert_eq!(read_list(&write_list(&items, separators), separators), items.clone());
            }
        }

        #[test]
        fn nothing_written_can_close_the_element(text in awkward()) {
            for raw in [write_line(&text), attribute(&text), write_text(&text, "  "), write_command(&text, "  ")] {
                prop_assert!(!raw.contains("</"), "{raw}");
            }
        }
    }
}
