//! Reads what a request to a model API says of the attempt: the worker's prompt begins with such facts.

use serde_json::Value;

/// Adds every text in a message of any dialect.
pub(crate) fn collect_texts(content: &Value, texts: &mut Vec<String>) {
    match content {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(blocks) => blocks.iter().for_each(|block| collect_texts(block, texts)),
        Value::Object(block) => {
            for key in ["text", "content", "parts", "output"] {
                block.get(key).into_iter().for_each(|inner| collect_texts(inner, texts));
            }
        }
        _ => {}
    }
}

/// Returns the first word of a fact; empty if the text does not have it.
pub(crate) fn fact(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("- **{name}:** "))).unwrap_or_default();
    line.trim_start_matches('`').split(['`', ' ', ',']).next().unwrap_or_default().to_owned()
}

/// Returns the attempt's directory, which may have spaces in its name.
pub(crate) fn worktree(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("- **Worktree:** `")).unwrap_or_default();
    line.trim_end_matches('`').to_owned()
}
