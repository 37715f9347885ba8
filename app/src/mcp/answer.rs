//! Turns what a command printed into the answer of its tool.
//!
//! All of it is untrusted text: escape sequences are removed.

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{Ended, Exit};
use mahabharatha_sys::ui::clean;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::calls::MAX_ANSWER_BYTES;
use super::tools::{Output, ToolSpec};

/// Most records of the log in one answer.
const MAX_RECORDS: usize = 200;
/// Events of a merge that say what became of it; the others repeat the status.
const TOLD_EVENTS: [&str; 3] = ["level", "gate_failed", "log"];

/// How the command line shows errors.
#[derive(Debug, Clone, Copy)]
pub struct Errors {
    /// Returns an error as a command prints it with `--json`.
    pub json: fn(&Error) -> Value,
    /// Returns the kind of problem that an exit code stands for.
    pub kind_of: fn(i32) -> Kind,
}

/// Returns the answer to a call: data, and the error if the command failed or was refused.
pub fn answer(tool: &ToolSpec, ended: Result<Ended>, errors: Errors) -> CallToolResult {
    let ended = match ended {
        Ok(ended) if ended.cancelled => return refused((errors.json)(&Error::new(Kind::Stopped, "cancelled"))),
        Ok(ended) => ended,
        Err(error) => return refused((errors.json)(&error)),
    };
    let (notes, error) = split_error(&String::from_utf8_lossy(&ended.stderr));
    let data = read_data(tool.output, &ended);
    if ended.status == Exit::Code(0) {
        return match data {
            Ok(data) => accepted(tool.output, data, &notes),
            Err(error) => refused((errors.json)(&error)),
        };
    }
    let data = data.unwrap_or_default();
    let error = error.or_else(|| data["end"]["error"].is_object().then(|| data["end"]["error"].clone()));
    let error = error.unwrap_or_else(|| {
        let message = if tool.refusal.is_empty() { "the command failed" } else { tool.refusal };
        (errors.json)(&match ended.status {
            Exit::Code(code) => Error::new((errors.kind_of)(code), message),
            Exit::Signal(_) => Error::new(Kind::Failed, message).detail(format!("it ended with {}", ended.status)),
        })
    });
    let mut result = refused(error.clone());
    if let Value::Object(mut fields) = data {
        result.content.push(text(&pretty(&Value::Object(fields.clone()))));
        fields.insert("error".to_owned(), error);
        result.structured_content = Some(cleaned(Value::Object(fields)));
    }
    result.content.extend((!notes.is_empty()).then(|| text(&notes)));
    result
}

fn accepted(output: Output, data: Value, notes: &str) -> CallToolResult {
    let shown = match (output, data["prompt"].as_str()) {
        (Output::Prompt, Some(prompt)) => prompt.to_owned(),
        _ => pretty(&data),
    };
    let notes = (!notes.is_empty()).then(|| text(notes));
    let mut result = CallToolResult::success([text(&shown)].into_iter().chain(notes).collect());
    result.structured_content = Some(cleaned(data));
    result
}

/// Returns the answer to a call that is refused, or that failed without data.
pub fn refused(error: Value) -> CallToolResult {
    let details = error["details"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let hint = error["hint"].as_str().map(|hint| format!("hint: {hint}"));
    let message = format!("error: {}", error["message"].as_str().unwrap_or_default());
    let lines: Vec<String> =
        [message].into_iter().chain(details.map(|detail| format!("  {detail}"))).chain(hint).collect();
    let mut result = CallToolResult::error(vec![text(&lines.join("\n"))]);
    result.structured_content = Some(cleaned(json!({ "error": error })));
    result
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::text(clean(text))
}

fn pretty(value: &Value) -> String {
    format!("{:#}", cleaned(value.clone()))
}

/// Separates messages for people from the error, which is the last line on stderr.
fn split_error(stderr: &str) -> (String, Option<Value>) {
    let (before, last) = match stderr.trim_end().rsplit_once('\n') {
        Some((before, last)) => (before, last),
        None => ("", stderr.trim_end()),
    };
    match serde_json::from_str::<Value>(last) {
        Ok(error) if error["message"].is_string() => (before.trim_end().to_owned(), Some(error)),
        _ => (stderr.trim_end().to_owned(), None),
    }
}

fn read_data(output: Output, ended: &Ended) -> Result<Value> {
    let printed = String::from_utf8_lossy(&ended.stdout);
    let lines = || printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    match output {
        Output::Object | Output::Prompt => whole(&printed, ended),
        Output::Records => {
            let records: Vec<Value> = lines().collect();
            let first = records.len().saturating_sub(MAX_RECORDS);
            Ok(json!({ "records": &records[first..], "truncated": ended.truncated || first > 0 }))
        }
        Output::Events if lines().all(|line| line["event"].is_null()) => whole(&printed, ended),
        Output::Events => {
            let is_told = |event: &Value| TOLD_EVENTS.iter().any(|told| event["event"] == *told);
            let events: Vec<Value> = lines().filter(is_told).collect();
            let end = lines().find(|event| event["event"] == "end");
            Ok(json!({ "events": events, "end": end, "truncated": ended.truncated }))
        }
    }
}

/// Reads an answer that is one object.
fn whole(printed: &str, ended: &Ended) -> Result<Value> {
    if ended.truncated {
        let message = format!("the answer has more than {} KiB", MAX_ANSWER_BYTES >> 10);
        return Err(Error::new(Kind::Failed, message)
            .hint("Ask for less, such as a single task, or call the command: `mahabharatha --help` lists all."));
    }
    let unreadable = |_| Error::new(Kind::Failed, "the command printed no answer");
    serde_json::from_str(printed).map_err(unreadable)
}

/// Returns the same data with every text cleaned.
fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(values) => values.into_iter().map(cleaned).collect(),
        Value::Object(fields) => {
            let patch = fields.get("patch").cloned();
            let mut fields: Map<String, Value> =
                fields.into_iter().map(|(key, value)| (clean(&key), cleaned(value))).collect();
            // A cleaned patch is not the one that git wrote.
            if fields.contains_key("exact") && fields.get("patch") != patch.as_ref() {
                fields.insert("exact".to_owned(), json!(false));
            }
            Value::Object(fields)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::mcp::tools::find;

    fn ended(code: i32, stdout: &str, stderr: &str) -> Result<Ended> {
        let (stdout, stderr) = (stdout.as_bytes().to_vec(), stderr.as_bytes().to_vec());
        let (status, duration) = (Exit::Code(code), Duration::ZERO);
        let ended = Ended {
            status,
            timed_out: false,
            cancelled: false,
            stdout,
            stderr,
            left_others: false,
            truncated: false,
            duration,
        };
        Ok(ended)
    }

    fn answered(tool: &str, ended: Result<Ended>) -> Value {
        let json = |error: &Error| json!({ "kind": format!("{:?}", error.kind()), "message": error.message() });
        let kind_of = |code| if code == 3 { Kind::Blocked } else { Kind::Failed };
        json!(answer(find(tool).unwrap(), ended, Errors { json, kind_of }))
    }

    #[test]
    fn an_error_keeps_its_message_hint_and_code() {
        let error = r#"{"code":8,"kind":"held","message":"x is held","details":["by one"],"hint":"Wait."}"#;
        let result = answered("claim", ended(8, "", &format!("a note\n{error}\n")));
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["error"]["kind"], "held");
        assert_eq!(result["content"][0]["text"], "error: x is held\n  by one\nhint: Wait.");
        assert_eq!(result["content"][1]["text"], "a note");
    }

    #[test]
    fn data_that_says_what_is_wrong_is_kept_beside_the_error() {
        let result = answered("verify", ended(1, r#"{"strays":["b"]}"#, ""));
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["strays"], json!(["b"]));
        let error = json!({ "kind": "Failed", "message": "the work does not pass" });
        assert_eq!(result["structuredContent"]["error"], error);
        let result = answered("next", ended(3, r#"{"step":"blocked"}"#, ""));
        assert_eq!(result["structuredContent"]["error"]["kind"], "Blocked");
    }

    #[test]
    fn no_escape_sequence_gets_through() {
        let data = json!({ "a\u{1b}[1m": ["\u{1b}]0;title\u{7}b\u{202e}"], "patch": "+\u{1b}[2J", "exact": true });
        let result = answered("diff", ended(0, &data.to_string(), "\u{1b}[2Jnote"));
        assert!(!result.to_string().contains("\\u001b") && !result.to_string().contains('\u{202e}'), "{result}");
        assert_eq!(result["structuredContent"], json!({ "a": ["␛]0;title␇b\u{fffd}"], "patch": "+", "exact": false }));
        assert_eq!(result["content"][1]["text"], "note");
    }

    #[test]
    fn only_the_latest_records_are_returned() {
        let lines: String = (0..MAX_RECORDS + 5).map(|at| format!("{{\"at\":{at}}}\n")).collect();
        let result = answered("logs", ended(0, &lines, ""));
        let records = result["structuredContent"]["records"].as_array().unwrap();
        assert_eq!((records.len(), &records[0]["at"]), (MAX_RECORDS, &json!(5)));
        assert_eq!(result["structuredContent"]["truncated"], true);
    }
}
