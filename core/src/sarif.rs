//! Reads SARIF 2.1, the format in which security scanners report findings.

use serde::Deserialize;

use crate::excerpt::{cut, few};
use crate::markdown::one_line;
use crate::secrets::Redactor;

/// Most findings that are shown; an agent fixes the first ones first.
const MAX_SHOWN: usize = 40;
const MAX_MESSAGE_CHARS: usize = 200;

#[derive(Deserialize)]
struct Log {
    runs: Vec<ScanRun>,
}

#[derive(Deserialize)]
struct ScanRun {
    tool: Tool,
    #[serde(default)]
    results: Option<Vec<ScanResult>>,
}

#[derive(Deserialize)]
struct Tool {
    driver: Driver,
}

#[derive(Deserialize)]
struct Driver {
    name: String,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    #[serde(default)]
    default_configuration: Option<Configuration>,
}

#[derive(Deserialize)]
struct Configuration {
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScanResult {
    #[serde(default)]
    rule_id: Option<String>,
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    message: Message,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    suppressions: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize, Default)]
struct Message {
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Option<PhysicalLocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Option<ArtifactLocation>,
    region: Option<Region>,
}

#[derive(Deserialize)]
struct ArtifactLocation {
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: Option<u64>,
}

/// Returns the findings as lines, the severest first, with a first line that counts them; `None` if the text is not SARIF.
/// Never shows the code at the location, which may be a secret. Secrets in messages are taken out before those are cut.
pub fn report(text: &[u8], redactor: &Redactor) -> Option<String> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    if !text.starts_with(b"{") {
        return None;
    }
    let log: Log = serde_json::from_slice(text).ok()?;
    if log.runs.is_empty() {
        return None;
    }
    let tools: Vec<String> = log.runs.iter().map(|run| one_line(&run.tool.driver.name)).collect();
    let mut found: Vec<(u8, String)> = log.runs.iter().flat_map(|run| lines(run, redactor)).collect();
    found.sort_by_key(|(rank, _)| *rank);
    let noun = if found.len() == 1 { "finding" } else { "findings" };
    let mut report = format!("{} {noun} of {}:\n", found.len(), few(&tools));
    for (_, line) in found.iter().take(MAX_SHOWN) {
        report.push_str(line);
        report.push('\n');
    }
    if found.len() > MAX_SHOWN {
        report.push_str(&format!("and {} more\n", found.len() - MAX_SHOWN));
    }
    Some(report)
}

/// Returns a line for each result that is not suppressed, with a rank by severity.
fn lines<'r>(run: &'r ScanRun, redactor: &'r Redactor) -> impl Iterator<Item = (u8, String)> + 'r {
    let results = run.results.iter().flatten().filter(|result| result.suppressions.as_ref().is_none_or(Vec::is_empty));
    results.map(move |result| {
        let rule = result.rule_id.as_deref().unwrap_or("unnamed rule");
        let default = run.tool.driver.rules.iter().find(|known| known.id == rule);
        let default = default.and_then(|known| known.default_configuration.as_ref()?.level.as_deref());
        let level = result.level.as_deref().or(default).unwrap_or("warning");
        let rank = ["error", "warning"].iter().position(|known| *known == level).unwrap_or(2) as u8;
        let message = cut(&redactor.redacted(&one_line(&result.message.text)), MAX_MESSAGE_CHARS);
        (rank, format!("{}: {}: {}: {message}", one_line(level), place(result), one_line(rule)))
    })
}

/// Returns `path:line` of a result.
fn place(result: &ScanResult) -> String {
    let place = result.locations.first().and_then(|location| location.physical_location.as_ref());
    let uri = place.and_then(|place| place.artifact_location.as_ref()?.uri.as_deref()).unwrap_or("no file");
    let path = one_line(uri.strip_prefix("file://").unwrap_or(uri));
    match place.and_then(|place| place.region.as_ref()?.start_line) {
        Some(line) => format!("{path}:{line}"),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(text: &[u8]) -> Option<String> {
        super::report(text, &Redactor::default())
    }

    fn result(rule: &str, level: Option<&str>, line: u64) -> serde_json::Value {
        json!({
            "ruleId": rule, "level": level, "message": { "text": "Do not\n use eval." },
            "locations": [ { "physicalLocation": {
                "artifactLocation": { "uri": "src/a.py" },
                "region": { "startLine": line, "snippet": { "text": "SECRET" } },
            } } ],
        })
    }

    fn log(results: &[serde_json::Value]) -> Vec<u8> {
        let rules = json!([{ "id": "eval", "defaultConfiguration": { "level": "error" } }]);
        let run = json!({ "tool": { "driver": { "name": "semgrep", "rules": rules } }, "results": results });
        json!({ "version": "2.1.0", "$schema": "x", "runs": [run] }).to_string().into_bytes()
    }

    #[test]
    fn findings_are_lines_with_the_severest_first() {
        let mut suppressed = result("eval", None, 3);
        suppressed["suppressions"] = json!([{ "kind": "inSource" }]);
        let results = [result("note", Some("note"), 1), result("other", None, 2), suppressed, result("eval", None, 4)];
        assert_eq!(
            report(&log(&results)).unwrap(),
            "3 findings of semgrep:\n\
             error: src/a.py:4: eval: Do not use eval.\n\
             warning: src/a.py:2: other: Do not use eval.\n\
             note: src/a.py:1: note: Do not use eval.\n"
        );
        assert_eq!(report(&log(&[])).unwrap(), "0 findings of semgrep:\n");
    }

    #[test]
    fn many_findings_are_counted_and_long_messages_cut() {
        let mut long = result("eval", None, 1);
        long["message"]["text"] = json!("x".repeat(5_000));
        let text = report(&log(&vec![long; 100])).unwrap();
        assert!(text.ends_with("and 60 more\n") && text.len() < 12_000, "{}", text.len());
    }

    #[test]
    fn a_secret_in_a_message_is_replaced_before_the_message_is_cut() {
        let mut leak = result("leak", None, 1);
        let token = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        leak["message"]["text"] = json!(format!("{} {token}", "x".repeat(MAX_MESSAGE_CHARS - 20)));
        let text = report(&log(&[leak])).unwrap();
        assert!(text.contains("x [redacted: github") && !text.contains("ghp"), "{text}");
    }

    #[test]
    fn anything_else_is_not_sarif() {
        for text in
            ["", "hello", "{}", "[]", "{\"runs\": 1}", "{\"runs\": []}", "{\"runs\": [{}]}", "{\"runs\": [", "\u{0}"]
        {
            assert_eq!(report(text.as_bytes()), None, "{text}");
        }
        let bare = json!({ "runs": [{ "tool": { "driver": { "name": "t" } }, "results": [{}] }] }).to_string();
        assert!(report(bare.as_bytes()).unwrap().contains("warning: no file: unnamed rule: \n"));
    }
}
