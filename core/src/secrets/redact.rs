//! Takes secrets out of what programs and agents print.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::blocks::is_base64;
use super::{assigned, blocks, jwt, tokens, urls};

/// Shortest value of an environment variable that is looked for: shorter ones are words of any text.
const MIN_VALUE_CHARS: usize = 8;
/// Most lines of a private key.
const MAX_KEY_LINES: usize = 200;
/// Fewest base64 characters in a row on a line of a private key, except on its last one.
const MIN_KEY_RUN: usize = 16;
const KEY_END: &str = "-----END ";
/// How an escape of a terminal begins, and how that is written in string literals.
const ESCAPES: [&str; 6] = ["\x1b[", "\\x1b[", "\\x1B[", "\\u001b[", "\\u001B[", "\\033["];

/// Replaces secrets by `[redacted: <rule>]`. It knows the lines before, so each stream of lines needs a clone of its own.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Names and values of secret variables.
    variables: Arc<[(String, String)]>,
    /// Lines of a private key that may follow.
    key_lines: usize,
}

impl Redactor {
    /// Makes one that also knows the values of those variables whose names say that they are secret.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Redactor {
        let secret = variables.into_iter().filter(|(name, _)| assigned::is_secret_name(name));
        let lines = secret.flat_map(|(name, value)| {
            let lines: Vec<String> = value.lines().map(|line| line.trim().to_owned()).collect();
            lines.into_iter().map(move |line| (name.clone(), line))
        });
        let mut variables: Vec<_> = lines.filter(|(_, line)| line.chars().count() >= MIN_VALUE_CHARS).collect();
        // Where one value contains another, the whole of it goes.
        variables.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Redactor { variables: variables.into(), key_lines: 0 }
    }

    /// Returns a text of its own without secrets.
    pub fn redacted(&self, text: &str) -> String {
        self.clone().redact(text).into_owned()
    }

    /// Returns the next lines of a stream without secrets.
    pub fn redact<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if !text.contains('\n') {
            return self.redact_line(text);
        }
        let mut lines: Vec<Cow<'_, str>> = Vec::new();
        for line in text.split('\n') {
            if self.key_lines == 0 && headless_key(line).is_some() {
                hide_key_above(&mut lines);
            }
            lines.push(self.redact_line(line));
        }
        match lines.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
            true => Cow::Borrowed(text),
            false => Cow::Owned(lines.join("\n")),
        }
    }

    fn redact_line<'t>(&mut self, line: &'t str) -> Cow<'t, str> {
        // Who reads the line may remove escapes, which puts together what they keep apart.
        let plain = without_escapes(line);
        if let Some(key) = self.private_key(&plain) {
            let mut found = self.find(&plain);
            found.push((key, Cow::Borrowed(blocks::RULES[0])));
            return Cow::Owned(replaced(&plain, found));
        }
        let found = self.find(line);
        let text = if found.is_empty() { Cow::Borrowed(line) } else { Cow::Owned(replaced(line, found)) };
        let Cow::Owned(plain) = without_escapes(&text) else { return text };
        let found = self.find(&plain);
        if found.is_empty() { text } else { Cow::Owned(replaced(&plain, found)) }
    }

    /// Returns where secrets are in a line, and the rules that found them, apart from private keys.
    fn find<'s>(&self, line: &str) -> Vec<(Range<usize>, Cow<'s, str>)> {
        let mut found: Vec<(Range<usize>, Cow<'_, str>)> = Vec::new();
        for (name, value) in self.variables.iter() {
            let places = line.match_indices(value.as_str());
            found.extend(places.map(|(at, value)| (at..at + value.len(), format!("environment {name}").into())));
        }
        let hits = tokens::find(line).into_iter().chain(jwt::find(line)).chain(urls::find(line, true));
        let hits = hits.chain(assigned::find(line, true));
        found.extend(hits.map(|hit| (place_in(line, hit.secret), hit.rule.into())));
        found
    }

    /// Returns the part of the line that belongs to a private key.
    fn private_key(&mut self, line: &str) -> Option<Range<usize>> {
        if let Some(start) = line.contains("-----BEGIN ").then(|| blocks::header_end(line)).flatten() {
            let end = line[start..].find(KEY_END).map(|end| start + end);
            self.key_lines = if end.is_none() { MAX_KEY_LINES } else { 0 };
            let end = end.unwrap_or(line.len());
            // A header alone shows nothing: programs that read keys print it.
            return (blocks::longest_run(&line[start..end]) >= MIN_KEY_RUN).then_some(start..end);
        }
        if self.key_lines == 0 {
            return headless_key(line).filter(|key| blocks::longest_run(&line[key.clone()]) >= MIN_KEY_RUN);
        }
        self.key_lines -= 1;
        if let Some(end) = line.find(KEY_END) {
            self.key_lines = 0;
            return (end > 0).then_some(0..end);
        }
        // Headers of an encrypted key, and the empty line after them, are shown.
        let is_header = line.trim().is_empty() || line.contains(": ");
        if blocks::longest_run(line) < MIN_KEY_RUN && is_header {
            return None;
        }
        if line.trim().contains(char::is_whitespace) {
            self.key_lines = 0;
            return None;
        }
        Some(0..line.len())
    }
}

/// Returns the line without the escapes of a terminal, as they are or as they stand in string literals.
fn without_escapes(line: &str) -> Cow<'_, str> {
    if !ESCAPES.iter().any(|escape| line.contains(escape)) {
        return Cow::Borrowed(line);
    }
    let (mut plain, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find(['\x1b', '\\']) {
        let (before, found) = rest.split_at(at);
        plain.push_str(before);
        rest = if let Some(escape) = ESCAPES.iter().find(|escape| found.starts_with(**escape)) {
            let numbers =
                found[escape.len()..].trim_start_matches(|c: char| c.is_ascii_digit() || ";:?<=>".contains(c));
            // The last character says what the escape does.
            let mut after = numbers.chars();
            after.next();
            after.as_str()
        } else {
            plain.push_str(&found[..1]);
            &found[1..]
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the part of the line before the end of a private key whose beginning is missing: it was cut off.
fn headless_key(line: &str) -> Option<Range<usize>> {
    let end = line.find(KEY_END).filter(|end| line[*end..].contains("PRIVATE KEY"))?;
    // In a string literal, lines end with `\n`.
    let is_key = |c: char| is_base64(c) || c == '\\';
    Some(line[..end].trim_end_matches(is_key).len()..end)
}

/// Replaces the lines at the end that belong to a private key.
fn hide_key_above(lines: &mut [Cow<'_, str>]) {
    let is_key = |line: &str| !line.trim().is_empty() && line.trim().chars().all(is_base64);
    for line in lines.iter_mut().rev().take(MAX_KEY_LINES).take_while(|line| is_key(line)) {
        *line = Cow::Owned(format!("[redacted: {}]", blocks::RULES[0]));
    }
}

/// Returns where a part of the line is.
fn place_in(line: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - line.as_ptr() as usize;
    start..start + part.len()
}

/// Replaces these parts of the line; of those that overlap, the one that begins first.
fn replaced(line: &str, mut found: Vec<(Range<usize>, Cow<'_, str>)>) -> String {
    found.sort_by_key(|(place, _)| (place.start, std::cmp::Reverse(place.end)));
    let (mut text, mut shown) = (String::with_capacity(line.len()), 0);
    for (place, rule) in found {
        if place.start >= shown {
            text.push_str(&line[shown..place.start]);
            text.push_str(&format!("[redacted: {rule}]"));
        }
        shown = shown.max(place.end);
    }
    text.push_str(&line[shown..]);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redacted(text: &str) -> String {
        Redactor::default().redact(text).into_owned()
    }

    fn token() -> String {
        format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
    }

    #[test]
    fn escapes_hide_no_secret() {
        let token = token();
        let (first, rest) = token.split_at(12);
        for escape in ["\x1b[32m", "\\u001b[1;32m", "\\033[0m", "\\n", "%3D"] {
            assert!(!redacted(&format!("key: {escape}{token} end")).contains(rest), "{escape}");
        }
        let variables = [("MY_TOKEN".to_owned(), token.clone())];
        for escape in ["\x1b[32m", "\\u001b[K"] {
            let text = Redactor::new(variables.clone()).redacted(&format!("{first}{escape}{rest}"));
            assert!(!text.contains(rest), "{text}");
        }
        assert_eq!(redacted("\x1b[32mok\x1b[0m"), "\x1b[32mok\x1b[0m");
        assert_eq!(without_escapes("a\\b\x1b[1;2mc\x1bd\\u001b[Ké\x1b[ü\x1b["), "a\\bc\x1bdé");
        assert_eq!(redacted("postgres://app:s3cr3tPw9@db/x"), "postgres://app:[redacted: database-url]@db/x");
    }

    #[test]
    fn a_private_key_hides_no_other_secret_beside_it() {
        let key = "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\\n-----END PRIVATE KEY-----\\n";
        let text = redacted(&format!("{{\"private_key\":\"{key}\",\"token\":\"{}\"}}", token()));
        assert!(!text.contains("MIIEvQ") && !text.contains(&token()), "{text}");
    }

    #[test]
    fn only_the_secret_is_replaced() {
        let token = token();
        assert_eq!(
            redacted(&format!("use {token}, and {token}.")),
            "use [redacted: github-token], and [redacted: github-token]."
        );
        assert_eq!(
            redacted("db: postgres://app:s3cr3tPw9@db.acme.com/x"),
            "db: postgres://app:[redacted: database-url]@db.acme.com/x"
        );
        assert_eq!(
            redacted("API_KEY=k9Xw2Lm8Qz4Rt7Vb1Nc5 ok"),
            "API_KEY=k9Xw2Lm8Qz4Rt7Vb1Nc5 ok",
            "a value has no spaces"
        );
        assert_eq!(redacted("export API_KEY=k9Xw2Lm8Qz4Rt7Vb1Nc5"), "export API_KEY=[redacted: assigned-secret]");
        assert_eq!(
            redacted("{\"password\": \"k9Xw2Lm8Qz4Rt7Vb1Nc5\"}"),
            "{\"password\": \"[redacted: assigned-secret]\"}"
        );
        let harmless = "error[E0308]: mismatched types --> src/main.rs:3:5\nsee https://example.com/a?b=c";
        assert!(matches!(Redactor::default().redact(harmless), Cow::Borrowed(_)));
    }

    #[test]
    fn values_of_secret_variables_are_replaced() {
        let variables = [
            ("MY_TOKEN", "plain words here"),
            ("DB_PASS", "short"),
            ("SSH_AUTH_SOCK", "/run/agent.sock"),
            ("OTHER_KEY", "words here"),
        ];
        let mut redactor = Redactor::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(
            redactor.redact("plain words here, words here, short /run/agent.sock"),
            "[redacted: environment MY_TOKEN], [redacted: environment OTHER_KEY], short /run/agent.sock"
        );
    }

    #[test]
    fn a_private_key_is_replaced_line_by_line() {
        let line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ";
        let (begin, end) = (format!("-----BEGIN {} KEY-----", "PRIVATE"), format!("-----END {} KEY-----", "PRIVATE"));
        let mut redactor = Redactor::default();
        let lines = ["before", &begin, line, "QUFB", &end, line];
        let shown: Vec<String> = lines.iter().map(|line| redactor.redact(line).into_owned()).collect();
        let hidden = "[redacted: private-key]";
        assert_eq!(shown, ["before", &begin, hidden, hidden, &end, line]);
        assert_eq!(redacted(&lines.join("\n")), shown.join("\n"));
        assert_eq!(redacted(&format!("\"{begin}\\n{line}\\n{end}\"")), format!("\"{begin}{hidden}{end}\""));
        assert_eq!(
            redacted(&format!("expected {begin}\nbut found nothing\n{line}")),
            format!("expected {begin}\nbut found nothing\n{line}")
        );
    }

    #[test]
    fn a_private_key_without_its_beginning_is_replaced() {
        let (line, end) = ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ", format!("-----END {} KEY-----", "PRIVATE"));
        let hidden = "[redacted: private-key]";
        assert_eq!(
            redacted(&format!("[… 9 bytes left out …]\nQUFB\n{line}\nQUFB\n{end}\nQUFB")),
            format!("[… 9 bytes left out …]\n{hidden}\n{hidden}\n{hidden}\n{end}\nQUFB")
        );
        assert_eq!(redacted(&format!("{line}\\nQUFB\\n{end}\"")), format!("{hidden}{end}\""));
        let harmless = format!("the file has\n{end}");
        assert_eq!(redacted(&harmless), harmless);
    }

    proptest! {
        #[test]
        fn any_text_around_a_secret_stays(before in "[ a-zäöü.\u{1f600}]{0,40}", after in "[ .,;äöü]{0,20}") {
            let text = format!("{before} {} {after}", token());
            prop_assert_eq!(redacted(&text), format!("{before} [redacted: github-token] {after}"));
        }

        #[test]
        fn no_text_makes_it_fail(text in any::<String>()) {
            redacted(&text);
        }
    }
}
