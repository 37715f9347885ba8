//! Keys whose format says what they are: a fixed prefix and a number of characters of a certain set.

use Body::{Alphanumeric, Capitals, Dotted, Hex, Url};

use super::{Hit, leading, masked};

/// Characters after the prefix.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// Letters and digits.
    Alphanumeric,
    /// Capital letters and digits.
    Capitals,
    /// Lower-case hexadecimal digits.
    Hex,
    /// Letters, digits, `_` and `-`.
    Url,
    /// Letters, digits, `_`, `-`, `.` and `=`.
    Dotted,
}

impl Body {
    fn has(self, c: char) -> bool {
        match self {
            Alphanumeric => c.is_ascii_alphanumeric(),
            Capitals => c.is_ascii_uppercase() || c.is_ascii_digit(),
            Hex => c.is_ascii_digit() || ('a'..='f').contains(&c),
            Url => c.is_ascii_alphanumeric() || matches!(c, '_' | '-'),
            Dotted => c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '='),
        }
    }
}

/// Rule, prefix, characters after it, and how many of them at least and at most.
pub(super) type Format = (&'static str, &'static str, Body, usize, usize);

pub(super) const FORMATS: &[Format] = &[
    ("aws-access-key-id", "AKIA", Capitals, 16, 16),
    ("aws-access-key-id", "ASIA", Capitals, 16, 16),
    ("aws-access-key-id", "ABIA", Capitals, 16, 16),
    ("github-token", "ghp_", Alphanumeric, 36, 255),
    ("github-oauth-token", "gho_", Alphanumeric, 36, 255),
    ("github-app-token", "ghu_", Alphanumeric, 36, 255),
    ("github-app-token", "ghs_", Alphanumeric, 36, 255),
    ("github-refresh-token", "ghr_", Alphanumeric, 36, 255),
    ("github-fine-grained-token", "github_pat_", Url, 59, 255),
    ("gitlab-token", "glpat-", Dotted, 20, 255),
    ("gitlab-token", "gldt-", Dotted, 20, 255),
    ("gitlab-token", "glrt-", Dotted, 20, 255),
    ("gitlab-token", "glptt-", Dotted, 40, 255),
    ("slack-token", "xoxb-", Url, 24, 255),
    ("slack-token", "xoxp-", Url, 24, 255),
    ("slack-token", "xoxa-", Url, 24, 255),
    ("slack-token", "xoxr-", Url, 24, 255),
    ("slack-token", "xoxe-", Url, 24, 255),
    ("slack-token", "xapp-1-", Url, 24, 255),
    ("stripe-key", "sk_live_", Alphanumeric, 20, 255),
    ("stripe-key", "rk_live_", Alphanumeric, 20, 255),
    ("stripe-webhook-secret", "whsec_", Alphanumeric, 32, 255),
    ("google-api-key", "AIza", Url, 35, 35),
    ("google-oauth-token", "ya29.", Url, 60, 512),
    ("google-client-secret", "GOCSPX-", Url, 28, 28),
    ("npm-token", "npm_", Alphanumeric, 36, 36),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc", Url, 50, 512),
    ("pypi-token", "pypi-AgENdGVzdC5weXBpLm9yZw", Url, 50, 512),
    ("anthropic-key", "sk-ant-", Url, 80, 255),
    ("openai-key", "sk-proj-", Url, 40, 255),
    ("openai-key", "sk-svcacct-", Url, 40, 255),
    ("openai-key", "sk-admin-", Url, 40, 255),
    ("openai-key", "sk-", Alphanumeric, 48, 51),
    ("sendgrid-key", "SG.", Dotted, 66, 66),
    ("twilio-key", "SK", Hex, 32, 32),
    ("digitalocean-token", "dop_v1_", Hex, 64, 64),
    ("digitalocean-token", "doo_v1_", Hex, 64, 64),
    ("digitalocean-token", "dor_v1_", Hex, 64, 64),
    ("heroku-key", "HRKU-", Url, 36, 80),
    ("databricks-token", "dapi", Hex, 32, 32),
    ("hugging-face-token", "hf_", Alphanumeric, 34, 40),
    ("shopify-token", "shpat_", Hex, 32, 32),
    ("shopify-token", "shpca_", Hex, 32, 32),
    ("shopify-token", "shppa_", Hex, 32, 32),
    ("shopify-token", "shpss_", Hex, 32, 32),
    ("square-token", "sq0atp-", Url, 22, 22),
    ("square-token", "sq0csp-", Url, 43, 43),
    ("linear-key", "lin_api_", Alphanumeric, 40, 40),
    ("atlassian-token", "ATATT3", Dotted, 150, 255),
    ("docker-token", "dckr_pat_", Url, 27, 36),
    ("vault-token", "hvs.", Url, 24, 255),
    ("grafana-token", "glsa_", Url, 41, 41),
    ("sentry-token", "sntrys_", Dotted, 60, 400),
    ("new-relic-key", "NRAK-", Alphanumeric, 27, 27),
    ("postman-key", "PMAK-", Url, 59, 59),
    ("rubygems-key", "rubygems_", Hex, 48, 48),
    ("planetscale-token", "pscale_tkn_", Dotted, 32, 64),
    ("supabase-token", "sbp_", Hex, 40, 40),
    ("groq-key", "gsk_", Alphanumeric, 52, 52),
    ("replicate-token", "r8_", Alphanumeric, 37, 40),
    ("age-secret-key", "AGE-SECRET-KEY-1", Capitals, 58, 58),
];

/// Rules that need more than a prefix and a length.
const OTHERS: [&str; 2] = ["azure-client-secret", "telegram-token"];

/// Words that mark an example value in documentation.
const PLACEHOLDERS: [&str; 14] = [
    "example",
    "xxxx",
    "your",
    "0000000000",
    "1234567890",
    "abcdefghij",
    "placeholder",
    "deadbeef",
    "fake",
    "dummy",
    "sample",
    "redacted",
    "changeme",
    "insecure",
];

pub fn rules() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.0).chain(OTHERS)
}

/// Tells whether a value is a placeholder instead of a real key.
pub fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut kinds: Vec<char> = lower.chars().collect();
    kinds.sort_unstable();
    kinds.dedup();
    PLACEHOLDERS.iter().any(|word| lower.contains(word)) || kinds.len() < 6
}

/// Most digits and separators in the escape of a colour.
const MAX_COLOUR_BYTES: usize = 20;

pub fn find(line: &str) -> Vec<Hit<'_>> {
    let mut hits = Vec::new();
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        if c.is_ascii_alphanumeric() && is_word(previous) && BEGINS_FORMAT[c as usize] && is_after_escape(&line[..at]) {
            previous = ' ';
        }
        if !is_word(previous) && c.is_ascii_alphanumeric() {
            let rest = &line[at..];
            if BEGINS_FORMAT[c as usize] {
                hits.extend(FORMATS.iter().filter_map(|format| of_format(format, previous, rest)));
            }
            hits.extend(azure_client_secret(rest));
            hits.extend(telegram(rest));
        }
        previous = c;
    }
    hits
}

/// Which characters are the first of a format: most words of a log begin with another.
const BEGINS_FORMAT: [bool; 128] = {
    let mut begins = [false; 128];
    let mut index = 0;
    while index < FORMATS.len() {
        begins[FORMATS[index].1.as_bytes()[0] as usize] = true;
        index += 1;
    }
    begins
};

/// Tells whether the text ends with an escape whose last characters only look like those of a word: a colour of a terminal,
/// `\n` in a string literal, `%3D` in a URL.
fn is_after_escape(text: &str) -> bool {
    match text.as_bytes() {
        [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', first, second] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => true,
        [before @ .., b'm'] => {
            let is_number = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
            let digits = before.iter().rev().take(MAX_COLOUR_BYTES).take_while(is_number).count();
            before[..before.len() - digits].ends_with(b"[")
        }
        _ => false,
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn of_format<'l>(format: &Format, previous: char, rest: &'l str) -> Option<Hit<'l>> {
    let (rule, prefix, body, min, max) = *format;
    let after = rest.strip_prefix(prefix)?;
    // A prefix without punctuation may occur by chance in base64, where `/` and `+` do not end a word.
    if prefix.chars().all(char::is_alphanumeric) && matches!(previous, '/' | '+') {
        return None;
    }
    // A period at the end belongs to the sentence.
    let key = leading(after, max, |c| body.has(c)).trim_end_matches('.');
    let length = key.len();
    let ends = !after[length..].starts_with(is_word);
    let is_key = ends && (min..=max).contains(&length) && !is_placeholder(key);
    let length = prefix.len() + length;
    (is_key && is_of_shape(rule, key)).then(|| Hit { rule, masked: masked(prefix, length), secret: &rest[..length] })
}

/// Checks what the format's characters and length do not cover.
fn is_of_shape(rule: &str, key: &str) -> bool {
    match rule {
        "sendgrid-key" => key.as_bytes().get(22) == Some(&b'.') && key.matches('.').count() == 1,
        // `sk-` is also how names begin that are made of words: `sk-loading-spinner`.
        "openai-key" | "hugging-face-token" | "replicate-token" => {
            key.chars().any(|c| c.is_ascii_digit()) && key.chars().any(|c| c.is_ascii_uppercase())
        }
        _ => true,
    }
}

/// Three characters, a digit, `Q~`, 31 to 34 characters.
fn azure_client_secret(rest: &str) -> Option<Hit<'_>> {
    if rest.get(4..6) != Some("Q~") {
        return None;
    }
    let is_body = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '~' | '.' | '-');
    let key = leading(rest, 40, is_body).trim_end_matches('.');
    let has_mark = key.get(4..6) == Some("Q~") && key.as_bytes().get(3).is_some_and(u8::is_ascii_digit);
    let is_secret = has_mark && (37..=40).contains(&key.len());
    is_secret.then(|| Hit { rule: "azure-client-secret", masked: masked("", key.len()), secret: key })
}

/// The number of a bot, and 35 characters that begin with `AA`.
fn telegram(rest: &str) -> Option<Hit<'_>> {
    let number = leading(rest, 10, |c| c.is_ascii_digit());
    let key = leading(rest[number.len()..].strip_prefix(':')?, 35, |c| Url.has(c));
    let is_token = (8..=10).contains(&number.len()) && key.starts_with("AA") && key.len() == 35;
    let secret = &rest[..number.len() + 1 + key.len()];
    let hit = || Hit { rule: "telegram-token", masked: masked("", secret.len()), secret };
    (is_token && !is_placeholder(key)).then(hit)
}
