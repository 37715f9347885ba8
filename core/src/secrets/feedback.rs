//! What agents and people are told about findings.

use globset::escape;

use super::{ALLOW_COMMENT, Finding};
use crate::excerpt::few;

/// Begins the part of the feedback that is only for the agent.
const ADVICE: &str = "The change is not merged. Read the value from the environment or from a file that git ignores. ";

/// Tells the agent what was found, and what to do about it.
pub fn feedback(findings: &[Finding]) -> String {
    let all: Vec<String> = findings.iter().map(Finding::to_string).collect();
    let list: String = all.iter().map(|finding| format!("- {finding}\n")).collect();
    format!(
        "The change adds what looks like a secret: {}\n\n{list}\n\
         {ADVICE}In examples use values that cannot be mistaken, such as ones with the word EXAMPLE. If it is no secret, \
         say why in a comment on the same line or the line above: `{ALLOW_COMMENT} <reason>`. The user sees every such \
         comment.\n",
        few(&all)
    )
}

/// Replaces what feedback says only to the agent by what a person needs to know; any other text stays as it is. `kept`: the
/// ref that the attempt is saved under.
pub fn for_people(feedback: &str, kept: Option<&str>) -> String {
    let Some((findings, _)) = feedback.split_once(ADVICE) else { return feedback.to_owned() };
    let kept = kept.map(|kept| format!(" The attempt is kept in this repository only, as {kept}.")).unwrap_or_default();
    format!("{findings}It is not merged.{kept}\n")
}

/// Returns the entry of `secrets.allow` that allows a finding, without the reason, which the user has to give.
pub fn allow_entry(finding: &Finding) -> String {
    let path = escape(&finding.path);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    // A JSON string is also one in YAML.
    let path =
        if path.chars().all(plain) && !path.starts_with('-') { path } else { serde_json::json!(path).to_string() };
    format!("{{ path: {path}, rule: {}, reason: … }}", finding.rule)
}
