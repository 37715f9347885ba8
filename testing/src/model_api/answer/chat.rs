//! OpenAI's chat completions.

use serde_json::{Value, json};

use super::{Answer, data};

fn finish(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn calls(answer: &Answer) -> Vec<Value> {
    let calls = answer.calls.iter().enumerate();
    calls
        .map(|(index, call)| {
            let function = json!({ "name": call.name, "arguments": call.input.to_string() });
            json!({ "index": index, "id": call.id, "type": "function", "function": function })
        })
        .collect()
}

fn usage(answer: &Answer) -> Value {
    let (read, used) = (answer.usage.input + answer.usage.cache_read, answer.usage);
    json!({
        "prompt_tokens": read, "prompt_tokens_details": { "cached_tokens": used.cache_read },
        "completion_tokens": used.output, "total_tokens": read + used.output,
    })
}

pub fn whole(answer: &Answer, model: &str) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if !answer.calls.is_empty() {
        message["tool_calls"] = json!(calls(answer));
    }
    json!({
        "id": "chatcmpl-scripted", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(answer) }], "usage": usage(answer),
    })
}

pub fn stream(answer: &Answer, model: &str) -> String {
    let chunk = |choices: Value, usage: Value| {
        data(&json!({
            "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 1, "model": model,
            "choices": choices, "usage": usage,
        }))
    };
    let delta = |delta: Value| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null);
    let (first, second) = answer.halves();
    let mut stream = delta(json!({ "role": "assistant", "content": first }));
    stream += &delta(json!({ "content": second }));
    calls(answer).into_iter().for_each(|call| stream += &delta(json!({ "tool_calls": [call] })));
    stream += &chunk(json!([{ "index": 0, "delta": {}, "finish_reason": finish(answer) }]), Value::Null);
    stream += &chunk(json!([]), usage(answer));
    stream + "data: [DONE]\n\n"
}
