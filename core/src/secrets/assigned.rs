//! Random values that are assigned to a name which says that it is a secret: `api_key = "…"`, `"password": "…"`.

use super::tokens::is_placeholder;
use super::{Hit, masked};

pub const RULES: [&str; 3] = ["assigned-secret", "aws-secret-access-key", "heroku-key"];

/// Longer lines are taken as generated and not searched.
const MAX_LINE_BYTES: usize = 1000;
/// Maximum number of `=` and `:` per line that are tried as assignments.
const MAX_ASSIGNMENTS: usize = 20;
const VALUE_CHARS: std::ops::RangeInclusive<usize> = 16..=512;
/// Minimum entropy of a random value, in bits per character. Text and names have less, or no digits between letters.
const MIN_ENTROPY: f64 = 3.5;
/// The same for hexadecimal digits, which have at most 4.
const MIN_HEX_ENTROPY: f64 = 3.0;
/// Minimum number of changes between letters and digits.
const MIN_CHANGES: usize = 3;

/// Parts of names of secrets, without separators.
const SECRET_NAMES: [&str; 16] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authkey",
    "masterkey",
    "token",
    "credential",
    "clientkey",
    "apitoken",
    "authorization",
];
/// Parts of names that resemble names of secrets but are harmless.
const OTHER_NAMES: [&str; 22] = [
    "address",
    "contract",
    "public",
    "hash",
    "digest",
    "checksum",
    "integrity",
    "fingerprint",
    "sha1",
    "sha256",
    "sha512",
    "md5",
    "tokeniz",
    "tokentype",
    "csrf",
    "xsrf",
    "cancellation",
    "placeholder",
    "secretname",
    "secretarn",
    "keyid",
    "tokenurl",
];
/// Endings of names for locations, identifiers and sizes.
const OTHER_ENDINGS: [&str; 12] =
    ["id", "url", "uri", "path", "file", "name", "field", "header", "prefix", "count", "length", "endpoint"];

/// Finds values in one line; `plain_values` if they may be unquoted.
pub fn find(line: &str, plain_values: bool) -> impl Iterator<Item = Hit<'_>> {
    let line = if line.len() > MAX_LINE_BYTES { "" } else { line };
    line.match_indices(['=', ':']).take(MAX_ASSIGNMENTS).filter_map(move |(at, _)| {
        let before = &line[..at];
        // An unquoted value follows the first `=` or `:` and is not part of another value.
        let is_first = !before.contains(['"', '\'', '`']) && !before.contains(": ") && !before.contains("= ");
        let name = name_before(before)?;
        let value = value_after(&line[at + 1..], plain_values && is_first)?;
        let rule = rule_for(&name, value)?;
        Some(Hit { rule, masked: masked("", value.chars().count()), secret: value })
    })
}

/// Tells whether a variable's name says that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = plain_name(name);
    let is_secret = SECRET_NAMES.iter().any(|part| name.contains(part)) && !is_other_name(&name);
    is_secret || ["key", "pwd", "pass"].iter().any(|end| name.ends_with(end))
}

/// Returns the rule that the value breaks under this name, which is in lower case and without separators.
fn rule_for(name: &str, value: &str) -> Option<&'static str> {
    let is_key_name = SECRET_NAMES.iter().any(|part| name.contains(part)) && !is_other_name(name);
    if name.contains("heroku") && name.contains("key") && is_uuid(value) {
        return Some("heroku-key");
    }
    if !is_key_name || !VALUE_CHARS.contains(&value.chars().count()) || is_reference(value) || !is_random(value) {
        return None;
    }
    let is_aws = name.contains("aws") && name.contains("secret") && value.len() == 40;
    Some(if is_aws { "aws-secret-access-key" } else { "assigned-secret" })
}

fn is_other_name(name: &str) -> bool {
    OTHER_NAMES.iter().any(|part| name.contains(part)) || OTHER_ENDINGS.iter().any(|end| name.ends_with(end))
}

/// Returns the name that ends before the sign, in lower case and without separators.
fn name_before(text: &str) -> Option<String> {
    // `:=`, `=>`, `==` and `!=` are treated alike; a type may come between name and value.
    let text = text.trim_end_matches(['=', ':', ' ', '\t', '"', '\'', '`', ']', '?', '!']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = text.rsplit(|c| !is_name(c)).next()?;
    let last = name.rsplit('.').find(|part| !part.is_empty())?;
    let is_type = ["string", "str", "const", "static", "String"].contains(&last);
    let name =
        if is_type { text.rsplit([' ', ':', '&']).find(|word| !word.is_empty() && *word != last)? } else { last };
    Some(plain_name(name))
}

/// Returns a name in lower case and without separators.
fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the value that begins after the sign: a string literal, or a plain word where the file has those.
fn value_after(text: &str, plain_values: bool) -> Option<&str> {
    let text = text.trim_start_matches(['=', '>', ' ', '\t']);
    let text =
        ["b\"", "r\"", "f\"", "@\"", "u\""].iter().find(|start| text.starts_with(**start)).map_or(text, |_| &text[1..]);
    let value = match text.chars().next()? {
        quote @ ('"' | '\'' | '`') => {
            let end = text[1..].find(quote)?;
            &text[1..1 + end]
        }
        _ if plain_values => text.split(['\t', ',', ';', '#']).next()?.trim_end(),
        _ => return None,
    };
    let value = ["Bearer ", "Basic ", "token "].iter().find_map(|scheme| value.strip_prefix(scheme)).unwrap_or(value);
    (!value.contains([' ', '\t'])).then_some(value)
}

/// Tells whether the value refers to a secret or is a placeholder, instead of being one.
fn is_reference(value: &str) -> bool {
    let marks = ["${", "{{", "$(", "%(", "://", "arn:aws", "process.env", "environ", "getenv", "vault:", "secretref"];
    let lower = value.to_ascii_lowercase();
    is_placeholder(value)
        || is_uuid(value)
        || value.starts_with(['$', '%', '<', '{', '(', '[', '/', '~', '.', '&', '*', '!', '@', '#'])
        || value.contains(['(', ')', '<', '>', '{', '}', '\\'])
        || marks.iter().any(|mark| lower.contains(mark))
        || ["sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "enc[", "data:"]
            .iter()
            .any(|start| lower.starts_with(start))
}

fn is_uuid(value: &str) -> bool {
    let lengths: Vec<usize> = value.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && value.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Tells whether the value looks drawn at random, not written by a person.
fn is_random(value: &str) -> bool {
    let classes: Vec<bool> = value.chars().filter(char::is_ascii_alphanumeric).map(|c| c.is_ascii_digit()).collect();
    let adjacent = value.as_bytes().windows(2).filter(|pair| pair.iter().all(u8::is_ascii_alphanumeric));
    let changes = adjacent.filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    let is_hex = value.chars().all(|c| c.is_ascii_hexdigit());
    let least = if is_hex { MIN_HEX_ENTROPY } else { MIN_ENTROPY };
    // Half of the characters at least carry information: not the separators of a path or a domain.
    changes >= MIN_CHANGES && classes.len() * 2 > value.len() && entropy(value) >= least
}

/// Returns the Shannon entropy in bits per character.
fn entropy(text: &str) -> f64 {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    let total = characters.len() as f64;
    let share = |same: &[char]| same.len() as f64 / total;
    characters.chunk_by(|a, b| a == b).map(|same| -share(same) * share(same).log2()).sum()
}
