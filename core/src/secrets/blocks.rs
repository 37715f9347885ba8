//! Private keys: in lines of their own, or in one string of JSON or source code.

use super::Hit;

pub const RULES: [&str; 2] = ["private-key", "gcp-service-account-key"];

const HEADER: &str = "-----BEGIN ";
/// Maximum distance of the key itself from its header, in lines.
const MAX_HEADER_LINES: usize = 5;
/// Fewest base64 characters in a row that count as the key itself.
const MIN_KEY_CHARS: usize = 40;

/// Finds a key that begins on the first of these lines, if a line of it is new. A header alone is not a key: programs
/// that read keys contain it.
pub fn find<'l>(lines: &[&'l str], is_new: impl Fn(&str) -> bool) -> Option<Hit<'l>> {
    let (&first, rest) = lines.split_first()?;
    let after = &first[header_end(first)?..];
    let below = rest.iter().take(MAX_HEADER_LINES).take_while(|line| header_end(line).is_none());
    let key_line = match longest_run(after) >= MIN_KEY_CHARS {
        true => first,
        false => below.copied().find(|line| longest_run(line) >= MIN_KEY_CHARS)?,
    };
    let rule = if first.contains("\"private_key\"") { RULES[1] } else { RULES[0] };
    let hit = || Hit { rule, masked: format!("{HEADER}…"), secret: key_line };
    (is_new(first) || is_new(key_line)).then(hit)
}

/// Returns where the header of a private key ends on the line.
pub(super) fn header_end(line: &str) -> Option<usize> {
    let label = line.find(HEADER)? + HEADER.len();
    let end = label + line[label..].find("-----")?;
    line[label..end].contains("PRIVATE KEY").then_some(end + "-----".len())
}

/// Returns the length of the longest run of base64 characters. `\n` in a string literal ends a run.
pub(super) fn longest_run(text: &str) -> usize {
    text.replace("\\n", "\n").split(|c| !is_base64(c)).map(str::len).max().unwrap_or(0)
}

pub(super) fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')
}
