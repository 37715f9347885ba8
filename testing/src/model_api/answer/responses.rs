//! OpenAI's responses.

use serde_json::{Value, json};

use super::Answer;

fn items(answer: &Answer) -> Vec<Value> {
    let message = (!answer.text.is_empty()).then(|| {
        let part = json!({ "type": "output_text", "text": answer.text, "annotations": [] });
        json!({ "type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed", "content": [part] })
    });
    let calls = answer.calls.iter().map(|call| match &call.input {
        Value::String(text) => json!({
            "type": "custom_tool_call", "id": format!("ct_{}", call.id), "call_id": call.id, "name": call.name,
            "input": text, "status": "completed",
        }),
        input => json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name,
            "arguments": input.to_string(), "status": "completed",
        }),
    });
    message.into_iter().chain(calls).collect()
}

pub fn whole(answer: &Answer, model: &str) -> Value {
    let (read, used) = (answer.usage.input + answer.usage.cache_read, answer.usage);
    let usage = json!({
        "input_tokens": read, "input_tokens_details": { "cached_tokens": used.cache_read },
        "output_tokens": used.output, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": read + used.output,
    });
    json!({
        "id": "resp_scripted", "object": "response", "created_at": 1, "model": model, "status": "completed",
        "output": items(answer), "usage": usage,
    })
}

pub fn stream(answer: &Answer, model: &str) -> String {
    let whole = whole(answer, model);
    let started =
        json!({ "id": whole["id"], "object": "response", "model": model, "status": "in_progress", "output": [] });
    let mut events = vec![json!({ "type": "response.created", "response": started })];
    for (index, item) in items(answer).into_iter().enumerate() {
        if item["type"] == "message" {
            let mut begun = item.clone();
            begun["content"] = json!([]);
            events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
            let (first, second) = answer.halves();
            events.extend([first, second].map(|delta| {
                json!({
                    "type": "response.output_text.delta", "output_index": index, "content_index": 0,
                    "item_id": item["id"], "delta": delta,
                })
            }));
        }
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    events.push(json!({ "type": "response.completed", "response": whole }));
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect()
}
