//! Google's `generateContent`.

use serde_json::{Value, json};

use super::{Answer, data};

fn chunk(model: &str, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({ "responseId": "scripted", "modelVersion": model, "candidates": [candidate] })
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "text": text }))
}

fn last(answer: &Answer, model: &str, said: &str) -> Value {
    let calls = answer
        .calls
        .iter()
        .map(|call| json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.input } }));
    let parts: Vec<Value> = text(said).into_iter().chain(calls).collect();
    let (read, used) = (answer.usage.input + answer.usage.cache_read, answer.usage);
    let mut whole = chunk(model, &parts, Some("STOP"));
    whole["usageMetadata"] = json!({
        "promptTokenCount": read, "cachedContentTokenCount": used.cache_read, "candidatesTokenCount": used.output,
        "totalTokenCount": read + used.output,
    });
    whole
}

pub fn whole(answer: &Answer, model: &str) -> Value {
    last(answer, model, &answer.text)
}

pub fn stream(answer: &Answer, model: &str) -> String {
    let (first, second) = answer.halves();
    let begun = text(first).map(|part| data(&chunk(model, &[part], None)));
    begun.unwrap_or_default() + &data(&last(answer, model, second))
}
