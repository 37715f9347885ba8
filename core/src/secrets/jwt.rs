//! JSON Web Tokens.

use super::{Hit, leading, masked};

pub const RULE: &str = "jwt";

const MAX_BYTES: usize = 4096;

/// Finds `<header>.<payload>.<signature>`, each in base64; header and payload are JSON objects.
pub fn find(line: &str) -> impl Iterator<Item = Hit<'_>> {
    line.match_indices("eyJ").filter_map(|(at, _)| {
        let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let token = leading(&line[at..], MAX_BYTES, is_token).trim_end_matches('.');
        let parts: Vec<&str> = token.split('.').collect();
        let [header, payload, signature] = parts[..] else { return None };
        // The payload that the site jwt.io shows begins with `{"sub":"1234567890`.
        let is_example = payload.starts_with("eyJzdWIiOiIxMjM0NTY3ODkw");
        let is_long = header.len() >= 16 && payload.len() >= 16 && signature.len() >= 32;
        let is_token = is_long && payload.starts_with("eyJ") && !is_example;
        is_token.then(|| Hit { rule: RULE, masked: masked("eyJ", token.len()), secret: token })
    })
}
