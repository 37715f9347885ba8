use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mahabharatha_core::ids::Time;
use mahabharatha_core::run::event::Reason;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::proc::Exit;
use proptest::prelude::*;
use serde_json::json;

use super::super::AgentEvent;
use super::*;

/// Returns a conversation after these lines of output, and all its events.
fn after(lines: &[Value]) -> (Arc<Mutex<Conversation>>, Vec<AgentEvent>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let mut conversation = Conversation::new(Feed::default(), 0.7);
    conversation.begin(Path::new("/w"), Redactor::default(), Box::new(move |event| sink.lock().unwrap().push(event)));
    let conversation = Arc::new(Mutex::new(conversation));
    let mut listener = listener(Arc::clone(&conversation));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // In pieces that ignore line ends, as from a pipe.
    for piece in text.as_bytes().chunks(7) {
        listener.write_all(piece).unwrap();
    }
    let events = events.lock().unwrap().clone();
    (conversation, events)
}

fn outcome(lines: &[Value], status: Exit) -> AgentOutcome {
    after(lines).0.lock().unwrap().agent_outcome(&ended(status))
}

fn ended(status: Exit) -> Ended {
    let (stdout, stderr) = (Vec::new(), b"oops".to_vec());
    let duration = Duration::from_secs(1);
    Ended { status, timed_out: false, cancelled: false, left_others: false, stdout, stderr, truncated: false, duration }
}

fn result(fields: Value) -> Value {
    let mut result = json!({
        "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed", "result": "Done.",
        "total_cost_usd": 0.5, "modelUsage": { "m": { "inputTokens": 7, "cacheReadInputTokens": 3, "outputTokens": 1 } },
    });
    for (key, value) in fields.as_object().unwrap() {
        result[key] = value.clone();
    }
    result
}

fn uses(tool: &str, input: Value, context: u64) -> Value {
    json!({ "type": "assistant", "parent_tool_use_id": null, "message": {
        "id": format!("msg_{context}"), "usage": { "input_tokens": 1, "cache_read_input_tokens": context - 1 },
        "content": [{ "type": "tool_use", "id": "t1", "name": tool, "input": input }] } })
}

#[test]
fn session_ids_are_uuids_and_differ() {
    let (one, other) = (session_id(), session_id());
    assert_ne!(one, other);
    let lengths: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
    assert!(one.split('-').nth(2).is_some_and(|part| part.starts_with('4')));
    assert!(one.split('-').nth(3).is_some_and(|part| part.starts_with(['8', '9', 'a', 'b'])), "{one}");
}

#[test]
fn only_a_last_result_that_is_successful_in_every_field_is_a_success() {
    let ok = Exit::Code(0);
    assert_eq!(outcome(&[result(json!({}))], ok), AgentOutcome::Done);
    assert!(matches!(outcome(&[], ok), AgentOutcome::Failed(why) if why.contains("no result") && why.contains("oops")));
    assert!(matches!(outcome(&[result(json!({}))], Exit::Code(1)), AgentOutcome::Failed(_)));
    assert!(matches!(outcome(&[result(json!({}))], Exit::Signal(9)), AgentOutcome::Failed(_)));
    for not_quite in [
        json!({ "is_error": true, "subtype": "error_during_execution" }),
        json!({ "subtype": "error_max_turns" }),
        json!({ "terminal_reason": "hook_stopped" }),
        json!({ "terminal_reason": null }),
        json!({ "is_error": true, "api_error_status": 400 }),
    ] {
        assert!(matches!(outcome(&[result(not_quite.clone())], ok), AgentOutcome::Failed(_)), "{not_quite}");
        assert_eq!(outcome(&[result(not_quite.clone()), result(json!({}))], ok), AgentOutcome::Done);
        assert!(matches!(outcome(&[result(json!({})), result(not_quite)], ok), AgentOutcome::Failed(_)));
    }
    assert_eq!(outcome(&[result(json!({ "result": "BLOCKED: no net" }))], ok), AgentOutcome::Blocked("no net".into()));
    assert!(matches!(
        outcome(&[result(json!({ "subtype": "error_max_budget_usd" }))], Exit::Code(1)),
        AgentOutcome::OverBudget(_)
    ));
}

#[test]
fn no_secret_leaves_the_conversation() {
    let token = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let text = json!({ "type": "assistant", "parent_tool_use_id": null, "message": { "id": "m", "usage": { "input_tokens": 1 },
        "content": [{ "type": "text", "text": format!("I use {token}") }] } });
    // The description of a command is cut in the middle of the token.
    let command = format!("{} {token}", "x".repeat(180));
    let lines = [
        text,
        uses("Bash", json!({ "command": command }), 2),
        uses("Read", json!({ "file_path": format!("/w/{token}") }), 3),
        result(json!({ "result": format!("BLOCKED: {token} is refused\nDECISION: use {token}"), "errors": [&token] })),
    ];
    let (conversation, events) = after(&lines);
    let conversation = conversation.lock().unwrap();
    let said = (conversation.agent_outcome(&ended(Exit::Code(0))), conversation.answer(), events);
    assert!(!format!("{said:?}").contains("ghp_"), "{said:?}");
    assert!(matches!(&said.0, AgentOutcome::Blocked(why) if why.starts_with("[redacted: github-token] is refused")));
}

#[test]
fn an_unavailable_api_is_distinguished_from_a_rejected_request() {
    let retry = |status: Value, error: &str| json!({ "type": "system", "subtype": "api_retry", "attempt": 3, "max_retries": 10, "error_status": status, "error": error });
    let failed = |status: Value| result(json!({ "is_error": true, "api_error_status": status, "result": "words" }));
    let gives_up = |error: &str| json!({ "type": "assistant", "error": error, "message": { "id": "x", "content": [], "usage": { "input_tokens": 0 } } });
    for (lines, why, reason) in [
        (vec![gives_up("rate_limit"), failed(json!(429))], "the API limit is reached (words)", Some(Reason::ApiLimit)),
        (
            vec![retry(json!(529), "overloaded"), gives_up("server_error"), failed(json!(null))],
            "the API is overloaded or down (words)",
            None,
        ),
        (vec![gives_up("server_error"), failed(json!(500))], "the API is overloaded or down (words)", None),
        (
            vec![retry(json!(null), "unknown"), gives_up("server_error"), failed(json!(null))],
            "the API cannot be reached (words)",
            None,
        ),
        (
            vec![gives_up("billing_error"), failed(json!(400))],
            "the API refuses access (words)",
            Some(Reason::ApiAccess),
        ),
        (vec![failed(json!(401))], "the API refuses access (words)", Some(Reason::ApiAccess)),
    ] {
        assert_eq!(outcome(&lines, Exit::Code(1)), AgentOutcome::Unserved { why: why.into(), reason, until: None });
    }
    let limit =
        json!({ "type": "rate_limit_event", "rate_limit_info": { "status": "rejected", "resetsAt": 1_794_789_989 } });
    let lines = [limit, gives_up("rate_limit"), failed(json!(429))];
    let until = Some(Time(1_794_789_989_000));
    assert!(matches!(outcome(&lines, Exit::Code(1)), AgentOutcome::Unserved { until: found, .. } if found == until));
    // A limit that is over or implausibly long does not set a time to try again.
    let limit = |resets_at: f64| json!({ "type": "rate_limit_event", "rate_limit_info": { "status": "rejected", "resetsAt": resets_at } });
    let over = [limit(1_794_789_989.0), uses("Bash", json!({}), 1), gives_up("overloaded"), failed(json!(529))];
    let beyond = [limit(1e15), gives_up("rate_limit"), failed(json!(429))];
    let other = [limit(1_794_789_989.0), gives_up("overloaded"), failed(json!(529))];
    for lines in [&over[..], &beyond, &other] {
        let outcome = outcome(lines, Exit::Code(1));
        assert!(matches!(outcome, AgentOutcome::Unserved { until: None, .. }), "{outcome:?}");
    }
    let (_, events) = after(&[retry(json!(500), "server_error")]);
    assert_eq!(events[0].doing().unwrap(), "waiting for the API, retry 3 of 10");
    let refused = [gives_up("invalid_request"), failed(json!(400))];
    assert!(matches!(outcome(&refused, Exit::Code(1)), AgentOutcome::Failed(_)));
}

#[test]
fn only_a_claude_md_inside_the_project_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let worktree = dir.path().join("w");
    fs::create_dir_all(worktree.join(".claude")).unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    fs::write(worktree.join("AGENTS.md"), "use tabs").unwrap();
    let link = |to: &str| {
        let _ = fs::remove_file(worktree.join("CLAUDE.md"));
        std::os::unix::fs::symlink(to, worktree.join("CLAUDE.md")).unwrap();
        memory(&worktree, "CLAUDE.md")
    };
    assert_eq!(link("AGENTS.md").as_deref(), Some("use tabs"));
    for elsewhere in ["../secret", "/dev/zero", ".claude", "CLAUDE.md", "nowhere"] {
        assert_eq!(link(elsewhere), None, "{elsewhere}");
    }
    fs::write(worktree.join(".claude/CLAUDE.md"), [b'x'; 1 << 20]).unwrap();
    assert!(memory(&worktree, ".claude/CLAUDE.md").unwrap().len() < 1 << 19);
}

#[test]
fn events_are_described_for_the_user() {
    let denied = "Permission to use Bash has been denied because";
    let (conversation, events) = after(&[
        json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "m" }),
        json!({ "type": "system", "subtype": "of another version", "x": 1 }),
        json!({ "type": "stream_event" }),
        json!("no object"),
        uses("Edit", json!({ "file_path": "/w/src/x.rs" }), 1_000),
        uses("Bash", json!({ "command": "cargo test\n--all" }), 2_000),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": denied }] } }),
        uses("WebFetch", json!({}), 2_000),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "<tool_use_error>Error: No such tool available: WebFetch. It is disabled.</tool_use_error>" }] } }),
        uses("Read", json!({}), 2_000),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "<tool_use_error>File does not exist.</tool_use_error>" }] } }),
        json!({ "type": "user", "message": { "content": "text" } }),
        json!({ "type": "system", "subtype": "compact_boundary", "compact_metadata": { "pre_tokens": 9 } }),
        result(json!({ "num_turns": 4 })),
    ]);
    let shown: Vec<String> = events.iter().map(|event| format!("{}: {event}", event.name())).collect();
    assert_eq!(
        shown,
        [
            "session: s with m",
            "usage: 1000 tokens, context 0 % full",
            "tool_use: editing src/x.rs",
            "usage: 3000 tokens, context 1 % full",
            "tool_use: running cargo test",
            "tool_denied: running cargo test",
            "tool_use: using WebFetch",
            "tool_denied: using WebFetch",
            "tool_use: reading ",
            "compacted: the context was compacted at 9 tokens",
            "finished: success after 4 turns: Done.",
        ]
    );
    let cost = conversation.lock().unwrap().cost();
    // The client reports fewer tokens than were seen: it forgot those from before the compaction.
    assert_eq!((cost.usd(), cost.tokens()), (Some(0.5), 3_000));
}

fn init(model: &str) -> Value {
    json!({ "type": "system", "subtype": "init", "session_id": "s", "model": model })
}

/// Returns the client's answer to the request for its window.
fn window(max_tokens: u64) -> Value {
    let usage = json!({ "maxTokens": max_tokens, "model": "m", "categories": [] });
    json!({ "type": "control_response", "response": { "subtype": "success", "request_id": "window", "response": usage } })
}

fn asked_to_stop(lines: &[Value]) -> bool {
    after(lines).1.iter().any(|event| matches!(event, AgentEvent::AskedToStop { .. }))
}

#[test]
fn the_window_is_the_one_that_the_client_reports() {
    let asked = |tokens, context| asked_to_stop(&[init("sonnet"), window(tokens), uses("Read", json!({}), context)]);
    assert!(!asked(200_000, 139_999) && asked(200_000, 140_000));
    assert!(!asked(1_000_000, 699_999) && asked(1_000_000, 700_000));
}

#[test]
fn an_answer_during_a_tool_use_takes_effect_at_once() {
    let before = [init("sonnet"), uses("Read", json!({}), 150_000)];
    assert!(!asked_to_stop(&before), "the answer is awaited");
    let with = |answer: Value| asked_to_stop(&[&before[..], &[answer]].concat());
    assert!(with(window(200_000)) && !with(window(1_000_000)));
    let refused = json!({ "subtype": "error", "request_id": "window", "error": "unknown request" });
    assert!(with(json!({ "type": "control_response", "response": refused })), "the assumption is used");
    let ended = json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "" }] } });
    // Between two tool uses a message would start a new turn.
    assert!(!asked_to_stop(&[&before[..], &[ended, window(200_000)]].concat()));
}

#[test]
fn an_overflow_after_the_request_to_stop_is_a_checkpoint() {
    let too_long = |status: u16, reason: &str| {
        let text = "Prompt is too long";
        [
            json!({ "type": "assistant", "error": "invalid_request", "parent_tool_use_id": null, "message": {
                "id": "x", "content": [{ "type": "text", "text": text }], "usage": { "input_tokens": 0 } } }),
            result(json!({ "is_error": true, "api_error_status": status, "terminal_reason": reason, "result": text })),
        ]
    };
    let says = json!({ "type": "assistant", "parent_tool_use_id": null, "message": {
        "id": "y", "content": [{ "type": "text", "text": "The parser is half done." }] } });
    let full = [init("sonnet"), window(200_000), says, uses("Read", json!({}), 150_000)];
    let fits = [init("sonnet"), window(1_000_000), uses("Read", json!({}), 150_000)];
    for ending in [too_long(400, "prompt_too_long"), too_long(400, "api_error"), too_long(413, "image_error")] {
        let note = outcome(&[&full[..], &ending].concat(), Exit::Code(1));
        assert!(matches!(&note, AgentOutcome::Checkpoint(note) if note.contains("half done")), "{note:?}");
        assert!(matches!(outcome(&[&fits[..], &ending].concat(), Exit::Code(1)), AgentOutcome::Failed(_)));
    }
    let refused = result(json!({ "is_error": true, "api_error_status": 400, "result": "no such model" }));
    assert!(matches!(outcome(&[&full[..], &[refused]].concat(), Exit::Code(1)), AgentOutcome::Failed(_)));
}

#[test]
fn decisions_are_read_from_the_last_answer() {
    let (conversation, _) =
        after(&[result(json!({ "result": "Done.\nDECISION: bcrypt, not argon\n DECISION:\nNo DECISION: here" }))]);
    assert_eq!(super::super::decisions_in(conversation.lock().unwrap().answer()), ["bcrypt, not argon"]);
}

/// Generates lines of the client with a few bytes changed, or arbitrary bytes.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let lines = [
        result(json!({ "is_error": true, "api_error_status": 429, "permission_denials": [{ "tool_name": "Bash" }] })),
        uses("Bash", json!({ "command": "ls" }), 90_000),
        json!({ "type": "system", "subtype": "init", "model": "m", "session_id": "s", "tools": ["Bash"] }),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "content": "x", "is_error": true }] } }),
        json!({ "type": "rate_limit_event", "rate_limit_info": { "status": "rejected", "resetsAt": 1_760_000_000 } }),
        window(200_000),
    ];
    let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.to_string().into_bytes()).collect();
    let changed = (prop::sample::select(lines), prop::collection::vec((any::<u16>(), any::<u8>(), 0..3_u8), 0..4));
    let changed = changed.prop_map(|(mut line, changes)| {
        for (place, byte, how) in changes {
            let at = usize::from(place) % line.len().max(1);
            match how {
                0 => line.insert(at, byte),
                1 => line[at] = byte,
                _ => line.truncate(at.max(1)),
            }
        }
        line
    });
    prop_oneof![6 => changed, 1 => any::<Vec<u8>>()]
}

proptest! {
    #[test]
    fn any_output_of_the_client_is_handled(lines in prop::collection::vec(any_line(), 0..12), length in 1..200_usize) {
        let mut conversation = Conversation::new(Feed::default(), 0.7);
        conversation.begin(Path::new("/w"), Redactor::default(), Box::new(|_| {}));
        let conversation = Arc::new(Mutex::new(conversation));
        let mut listener = listener(Arc::clone(&conversation));
        for piece in lines.join(&b'\n').chunks(length) {
            listener.write_all(piece).unwrap();
        }
        drop(listener);
        let conversation = conversation.lock().unwrap();
        for status in [Exit::Code(0), Exit::Code(1), Exit::Signal(9)] {
            conversation.agent_outcome(&ended(status));
        }
        prop_assert!(conversation.cost().known_usd().is_finite());
    }
}
