//! Runs the parsers on recorded streams of the real programs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mahabharatha_core::config::Format;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::run::event::Reason;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::proc::{Ended, Exit, Feed};
use proptest::prelude::*;
use serde_json::Value;

use super::super::profile::{Heard, listener};
use super::super::{AgentEvent, AgentOutcome};
use super::*;

fn stream(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agent/format/streams").join(name)).unwrap()
}

fn scope() -> Scope {
    let owned = OwnedPath { path: "hello.txt".into(), directory: false, create: true };
    Scope { worktree: PathBuf::from("/home/u/repo"), owned: vec![owned], model: None, prompt: "do it".to_owned() }
}

/// Returns the agent and its events after it has printed this.
fn after(format: Format, output: &str) -> (Arc<Mutex<Heard>>, Vec<AgentEvent>) {
    let (heard, events) = (Arc::new(Mutex::new(Heard::default())), Arc::new(Mutex::new(Vec::new())));
    let sink = Arc::clone(&events);
    heard.lock().unwrap().begin(
        format,
        scope(),
        Feed::default(),
        Redactor::default(),
        Box::new(move |event| sink.lock().unwrap().push(event)),
    );
    let mut listener = listener(Arc::clone(&heard));
    // In pieces that ignore line ends, as from a pipe.
    output.as_bytes().chunks(97).for_each(|piece| listener.write_all(piece).unwrap());
    drop(listener);
    let events = std::mem::take(&mut *events.lock().unwrap());
    (heard, events)
}

fn ended(status: Exit) -> Ended {
    let (stdout, stderr) = (Vec::new(), b"oops".to_vec());
    let duration = Duration::from_secs(1);
    Ended { status, timed_out: false, cancelled: false, left_others: false, stdout, stderr, truncated: false, duration }
}

fn outcome(format: Format, output: &str, status: Exit) -> AgentOutcome {
    after(format, output).0.lock().unwrap().outcome(&ended(status))
}

/// Returns the agent's part of a recorded conversation.
fn said_by_agent(name: &str) -> String {
    let lines = stream(name).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    let own = lines.into_iter().filter(|line| line["dir"] == "<" && line.get("m").is_some());
    own.map(|line| format!("{}\n", line["m"])).collect()
}

const STREAMS: [(Format, &str, Option<u64>); 6] = [
    (Format::Codex, "codex", Some(2270)),
    (Format::Opencode, "opencode", Some(2270)),
    (Format::Gemini, "gemini", Some(2270)),
    (Format::ClaudeStream, "qwen", Some(2270)),
    (Format::Copilot, "copilot", None),
    (Format::Pi, "pi", Some(2270)),
];

#[test]
fn a_file_is_written_and_the_tokens_are_exact() {
    for (format, name, tokens) in STREAMS {
        let (heard, events) = after(format, &stream(&format!("{name}.jsonl")));
        let heard = heard.lock().unwrap();
        assert_eq!(heard.outcome(&ended(Exit::Code(0))), AgentOutcome::Done, "{name}");
        assert_eq!(heard.answer(), "Wrote hello.txt. Done.", "{name}");
        assert_eq!(heard.cost().map(|cost| cost.tokens()), tokens, "{name}");
        let shown: Vec<String> = events.iter().map(|event| format!("{}: {event}", event.name())).collect();
        assert!(shown.contains(&"text: I will write the file.".to_owned()), "{name}: {shown:?}");
        let is_use = |line: &String| line.starts_with("tool_use: editing hello.txt") || line.contains("hello.txt' <<");
        assert!(shown.iter().any(is_use), "{name}: {shown:?}");
        assert_eq!(shown.last().unwrap(), "finished: Wrote hello.txt. Done.", "{name}");
    }
}

#[test]
fn prices_are_known_where_the_agent_reports_them() {
    let usd = |format, name: &str| after(format, &stream(name)).0.lock().unwrap().cost().unwrap().usd();
    assert_eq!(usd(Format::Codex, "codex.jsonl"), None);
    assert_eq!(usd(Format::Opencode, "opencode.jsonl"), Some(0.0011 + 0.00124));
    assert!(usd(Format::Pi, "pi.jsonl").is_some_and(|usd| (usd - 0.00234).abs() < 1e-9));
}

#[test]
fn a_refused_key_is_reported_whatever_the_exit_code() {
    // As the programs exited: pi with 0, gemini with 401 modulo 256.
    let codes = [1, 1, 145, 1, 1, 0];
    for ((format, name, _), code) in STREAMS.into_iter().zip(codes) {
        let outcome = outcome(format, &stream(&format!("{name}.error-401.jsonl")), Exit::Code(code));
        let AgentOutcome::Unserved { why, reason, until: None } = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(reason, Some(Reason::ApiAccess), "{name}");
        assert!(why.starts_with("the API refuses access (") && why.contains("401"), "{name}: {why}");
    }
}

#[test]
fn success_needs_the_last_event_and_the_exit_code() {
    for (format, name, _) in STREAMS {
        let whole = stream(&format!("{name}.jsonl"));
        assert!(matches!(outcome(format, &whole, Exit::Code(1)), AgentOutcome::Failed(_)), "{name}");
        assert!(matches!(outcome(format, &whole, Exit::Signal(15)), AgentOutcome::Failed(_)), "{name}");
        // A stream that is cut off, with an exit code of 0, as gemini when it is interrupted.
        let lines: Vec<&str> = whole.lines().collect();
        let cut = lines[..lines.len() - 1].join("\n");
        let outcome = outcome(format, &cut, Exit::Code(0));
        assert!(
            matches!(&outcome, AgentOutcome::Failed(why) if why.contains("before it was done")),
            "{name}: {outcome:?}"
        );
    }
}

#[test]
fn retries_are_shown_and_are_no_error() {
    let recovered = format!(
        "{}\n{}",
        r#"{"type":"error","message":"Reconnecting... 1/5 (unexpected status 429 Too Many Requests)"}"#,
        stream("codex.jsonl")
    );
    let (heard, events) = after(Format::Codex, &recovered);
    assert_eq!(events[0].doing().unwrap(), "waiting for the API, retry 1");
    assert_eq!(heard.lock().unwrap().outcome(&ended(Exit::Code(0))), AgentOutcome::Done);
}

#[test]
fn limits_and_failures_of_the_service_are_distinguished() {
    let failed = |message: &str| {
        let line = serde_json::json!({ "type": "turn.failed", "error": { "message": message } });
        outcome(Format::Codex, &line.to_string(), Exit::Code(1))
    };
    let reason = |message: &str| match failed(message) {
        AgentOutcome::Unserved { reason, .. } => Some(reason),
        _ => None,
    };
    assert_eq!(reason("exceeded retry limit, last status: 429 Too Many Requests"), Some(Some(Reason::ApiLimit)));
    assert_eq!(reason("You've hit your usage limit. Try again later."), Some(Some(Reason::ApiLimit)));
    assert_eq!(reason("unexpected status 500 Internal Server Error"), Some(None));
    assert_eq!(reason("unexpected status 400 Bad Request"), None);
    assert_eq!(reason("stream disconnected before completion"), Some(None));
    assert!(matches!(failed("no such model"), AgentOutcome::Failed(why) if why.contains("no such model")));
}

#[test]
fn the_last_answer_can_block_the_task() {
    let answer = |text: &str| {
        let item = serde_json::json!({ "type": "item.completed", "item": { "type": "agent_message", "text": text } });
        outcome(Format::Codex, &format!("{item}\n{{\"type\":\"turn.completed\"}}"), Exit::Code(0))
    };
    assert_eq!(answer("BLOCKED: no net"), AgentOutcome::Blocked("no net".into()));
    assert_eq!(answer("ESCALATE: which?"), AgentOutcome::Escalated("which?".into()));
}

#[test]
fn errors_in_plain_text_count() {
    let aider = |output: &str| outcome(Format::Text, output, Exit::Code(0));
    assert_eq!(aider(&stream("aider.txt")), AgentOutcome::Done);
    assert_eq!(aider("I looked.\nBLOCKED: there is no file\n"), AgentOutcome::Blocked("there is no file".into()));
    let refused = "litellm.AuthenticationError: AuthenticationError: OpenAIException - no key\nThe API provider is not able to authenticate you.\n";
    assert!(matches!(aider(refused), AgentOutcome::Unserved { reason: Some(Reason::ApiAccess), .. }));
    let limited = "litellm.RateLimitError: slow down\nRetrying in 0.2 seconds...\n";
    assert!(matches!(aider(limited), AgentOutcome::Unserved { reason: Some(Reason::ApiLimit), .. }));
    assert_eq!(aider(&format!("{limited}Fine.\nTokens: 1k sent, 5 received.\n")), AgentOutcome::Done);
    assert!(matches!(outcome(Format::Text, "x", Exit::Code(1)), AgentOutcome::Failed(_)));
}

#[test]
fn cached_input_is_counted_once() {
    let said = |usage: &str| format!(r#"{{"type":"assistant","message":{{"content":[],"usage":{usage}}}}}"#);
    let tokens = |usage: &str| after(Format::ClaudeStream, &said(usage)).0.lock().unwrap().cost().unwrap().tokens();
    assert_eq!(tokens(r#"{"input_tokens":12,"cache_read_input_tokens":2,"output_tokens":3,"total_tokens":15}"#), 15);
    assert_eq!(tokens(r#"{"input_tokens":10,"cache_read_input_tokens":2,"output_tokens":3}"#), 15);
}

#[test]
fn a_conversation_by_acp_ends_with_its_turn() {
    // Opencode reports the tokens of its last step only, so they do not count.
    for (name, tokens) in [("acp-gemini", 2270), ("acp-opencode", 0), ("acp-qwen", 2270), ("acp-copilot", 2270)] {
        let said = said_by_agent(&format!("{name}.jsonl"));
        // The recording asked for a mode in between.
        let said = said.replace("\"id\":4,", "\"id\":3,").replace("{\"id\":4", "{\"id\":3");
        let (heard, events) = after(Format::Acp, &said);
        let heard = heard.lock().unwrap();
        assert_eq!(heard.outcome(&ended(Exit::Code(0))), AgentOutcome::Done, "{name}");
        assert!(heard.answer().ends_with("Wrote hello.txt. Done."), "{name}: {}", heard.answer());
        assert_eq!(heard.cost().map_or(0, |cost| cost.tokens()), tokens, "{name}");
        assert!(events.iter().any(|event| matches!(event, AgentEvent::ToolUse(_))), "{name}: {events:?}");
    }
}

/// Returns what the client answers to the lines of an agent.
fn answers(lines: &[Value]) -> Vec<Said> {
    let mut parser = parser(Format::Acp, scope()).unwrap();
    let mut said = Vec::new();
    lines.iter().for_each(|line| parser.line(&line.to_string(), &mut said));
    said
}

#[test]
fn acp_answers_by_owned_paths() {
    let asks = |kind: &str, path: &str| {
        let options = serde_json::json!([{ "optionId": "yes", "kind": "allow_once" }, { "optionId": "no", "kind": "reject_once" }]);
        let call = serde_json::json!({ "toolCallId": "t", "kind": kind, "locations": [{ "path": path }] });
        let params = serde_json::json!({ "toolCall": call, "options": options });
        let request = serde_json::json!({ "id": 0, "method": "session/request_permission", "params": params });
        let said = answers(&[request]);
        said.iter().any(|said| matches!(said, Said::Send(line) if line.contains("\"optionId\":\"yes\"")))
    };
    assert!(asks("edit", "/home/u/repo/hello.txt") && asks("edit", "hello.txt") && asks("execute", "/"));
    for not_owned in ["/home/u/repo/other.txt", "/home/u/repo/../repo/hello.txt", "/etc/passwd", "../hello.txt", ""] {
        assert!(!asks("edit", not_owned) && !asks("delete", not_owned), "{not_owned}");
    }
    let unknown = serde_json::json!({ "id": 7, "method": "fs/write_text_file", "params": { "path": "/etc/passwd" } });
    assert!(
        matches!(&answers(&[unknown])[..], [Said::Send(line)] if line.contains("-32601") && line.contains("\"id\":7"))
    );
}

#[test]
fn acp_begins_a_session_and_sends_the_prompt() {
    let begun = serde_json::json!({ "id": 1, "result": { "agentInfo": { "name": "x" } } });
    let session = serde_json::json!({ "id": 2, "result": { "sessionId": "s-1" } });
    let said = answers(&[begun, session]);
    let sent: Vec<&String> =
        said.iter().filter_map(|said| if let Said::Send(line) = said { Some(line) } else { None }).collect();
    assert!(sent[0].contains("session/new") && sent[0].contains("\"cwd\":\"/home/u/repo\""), "{sent:?}");
    assert!(sent[1].contains("session/prompt") && sent[1].contains("do it"), "{sent:?}");
    assert!(
        said.iter().any(
            |said| matches!(said, Said::StopWith(line) if line.contains("session/cancel") && line.contains("s-1"))
        )
    );
    let refused = serde_json::json!({ "id": 3, "error": { "code": -32603, "message": "Internal error", "data": { "details": "401 no key" } } });
    let outcome = outcome(Format::Acp, &refused.to_string(), Exit::Code(0));
    assert!(matches!(outcome, AgentOutcome::Unserved { reason: Some(Reason::ApiAccess), .. }), "{outcome:?}");
}

#[test]
fn acp_chooses_the_model_in_the_way_that_the_session_offers() {
    let sent = |session: Value| {
        let mut parser = parser(Format::Acp, Scope { model: Some("m-2".to_owned()), ..scope() }).unwrap();
        let mut said = Vec::new();
        let new = serde_json::json!({ "id": 2, "result": session });
        parser.line(&new.to_string(), &mut said);
        parser.line(r#"{"id":4,"result":{}}"#, &mut said);
        said
    };
    let has = |said: &[Said], words: [&str; 2]| {
        let is_it = |said: &Said| matches!(said, Said::Send(line) if words.iter().all(|word| line.contains(word)));
        said.iter().any(is_it)
    };
    let options = serde_json::json!([{ "id": "mode", "category": "mode" }, { "id": "llm", "category": "model" }]);
    let said = sent(serde_json::json!({ "sessionId": "s", "configOptions": options, "models": {} }));
    assert!(has(&said, ["session/set_config_option", r#""configId":"llm","value":"m-2""#]), "{said:?}");
    assert!(has(&said, ["session/prompt", "do it"]), "{said:?}");
    let said = sent(serde_json::json!({ "sessionId": "s", "models": { "currentModelId": "m-1" } }));
    assert!(has(&said, ["session/set_model", r#""modelId":"m-2""#]), "{said:?}");
    let said = sent(serde_json::json!({ "sessionId": "s" }));
    let refused = |said: &Said| matches!(said, Said::Error { message, .. } if message.contains("no choice of a model"));
    assert!(said.iter().any(refused), "{said:?}");
}

#[test]
fn an_agent_without_a_login_has_not_failed() {
    let ended_with = |stderr: &str| Ended { stderr: stderr.as_bytes().to_vec(), ..ended(Exit::Code(41)) };
    let of = |output: &str, stderr: &str| after(Format::Gemini, output).0.lock().unwrap().outcome(&ended_with(stderr));
    for stderr in [
        "YOLO mode is enabled.\nPlease set an Auth method in your settings.json or specify GEMINI_API_KEY\n",
        "Invalid auth method selected.\n",
        "No API key found for anthropic.\n",
        "Error: No authentication information found.\n",
    ] {
        let outcome = of("", stderr);
        let is_refused = matches!(&outcome, AgentOutcome::Unserved { why, reason: Some(Reason::ApiAccess), .. } if why.contains("has no login"));
        assert!(is_refused, "{outcome:?}");
    }
    // It worked, so these are words about something else.
    let failed = of(&stream("gemini.jsonl"), "Invalid auth method selected.\n");
    assert!(matches!(failed, AgentOutcome::Failed(_)), "{failed:?}");
    let qwen = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"No auth type is selected."}}"#;
    let outcome = outcome(Format::ClaudeStream, qwen, Exit::Code(1));
    assert!(matches!(outcome, AgentOutcome::Unserved { reason: Some(Reason::ApiAccess), .. }), "{outcome:?}");
}

proptest! {
    #[test]
    fn any_output_is_handled(which in 0..6_usize, place in any::<usize>(), byte in any::<u8>(), rest in any::<Vec<u8>>()) {
        let (format, name, _) = STREAMS[which];
        let mut output = stream(&format!("{name}.jsonl")).into_bytes();
        let at = place % output.len();
        output[at] = byte;
        output.splice(at..at, rest);
        let output = String::from_utf8_lossy(&output).into_owned();
        for format in [format, Format::Acp, Format::Text] {
            outcome(format, &output, Exit::Code(0));
        }
    }
}
