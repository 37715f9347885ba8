//! Comments that allow a finding, and what is wrong with those that do not.

use super::Redactor;

/// Comment that allows a finding on the same line or on the line below. A reason must follow.
pub const ALLOW_COMMENT: &str = "mahabharatha:allow-secret";
/// Minimum number of letters in a reason.
const MIN_REASON_LETTERS: usize = 6;
/// How many blank lines may lie between a finding and a comment above it that is reported as misplaced.
const MAX_BLANK_LINES: usize = 5;

/// Tells whether a text says enough to count as a reason.
pub fn is_reason(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).count() >= MIN_REASON_LETTERS
}

/// What a line that was meant as an allow comment says.
enum Comment {
    Reason(String),
    /// There is no reason.
    Bare,
    /// Its reason is too short.
    Short,
    Misspelt,
}

/// Returns the reason in an allow comment on this line or on the line above; otherwise what is wrong with a comment there,
/// if there is one. Quotes nothing of the file, which may be the secret.
pub(super) fn reason_at(lines: &[&str], index: usize) -> Result<String, Option<String>> {
    let beside = read(lines[index]);
    let above = index.checked_sub(1).and_then(|above| read(lines[above]));
    let problem = match (beside, above) {
        (Some(Comment::Reason(reason)), _) | (_, Some(Comment::Reason(reason))) => return Ok(reason),
        (Some(comment), _) => comment.problem("beside it"),
        (None, Some(comment)) => comment.problem("above it"),
        (None, None) => {
            let near = lines[..index].iter().enumerate().rev().take(MAX_BLANK_LINES + 1);
            let line = near.skip_while(|(_, line)| line.trim().is_empty()).map(|(at, line)| (at + 1, line)).next();
            let line = line.filter(|(_, text)| read(text).is_some()).map(|(line, _)| line);
            return Err(line.map(|line| format!("the comment on line {line} is not on the line directly above it")));
        }
    };
    Err(Some(format!("{problem}: {ALLOW_COMMENT} <why this is no secret>")))
}

impl Comment {
    fn problem(&self, place: &str) -> String {
        match self {
            Comment::Reason(_) | Comment::Bare => format!("the comment {place} gives no reason"),
            Comment::Short => format!("the reason in the comment {place} has fewer than {MIN_REASON_LETTERS} letters"),
            Comment::Misspelt => format!("the comment {place} is misspelt"),
        }
    }
}

/// Reads a line; none if it has nothing like an allow comment.
fn read(line: &str) -> Option<Comment> {
    let Some((_, text)) = line.split_once(ALLOW_COMMENT) else {
        return is_misspelt(line).then_some(Comment::Misspelt);
    };
    let text = text.trim().trim_end_matches(['*', '/', '-', '>', '#', '}', '%', ')', '"', '\'']).trim();
    Some(match is_reason(text) {
        true => {
            Comment::Reason(Redactor::default().redacted(text).chars().filter(|c| !c.is_control()).take(200).collect())
        }
        false if text.contains(char::is_alphabetic) => Comment::Short,
        false => Comment::Bare,
    })
}

/// Tells whether a line has the words of the comment in another spelling, such as `mahabharatha: allow secret`.
fn is_misspelt(line: &str) -> bool {
    let line = line.to_lowercase();
    let between = |text: &'_ str| text.trim_start_matches([' ', '\t', ':', '-', '_']).len();
    line.match_indices("mahabharatha").any(|(at, name)| {
        let rest = &line[at + name.len()..];
        let rest = &rest[rest.len() - between(rest)..];
        rest.strip_prefix("allow").is_some_and(|rest| rest[rest.len() - between(rest)..].starts_with("secret"))
    })
}
