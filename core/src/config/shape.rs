//! The shape of a mapping as JSON Schema: its keys and their types, as the reader asks for them.

use serde_json::{Map, Value, json};

#[derive(Debug, Default)]
pub struct Shape {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
    /// Schema of the keys that are not in `properties`; none if there may be no others.
    others: Option<Value>,
}

/// Returns the schema of what is read as text: any single value, so that the command `true` needs no quotes.
pub fn text_shape() -> Value {
    json!({ "type": ["string", "number", "boolean"], "minLength": 1 })
}

impl Shape {
    /// Adds a key. One that is asked for in two ways may be either.
    pub fn add(&mut self, key: &str, schema: Value) {
        let Some(known) = self.properties.get_mut(key) else {
            self.properties.insert(key.to_owned(), schema);
            return;
        };
        // What is asked for twice in one way, as a list whose length is looked at, is the same.
        let is_known = *known == schema || known["anyOf"].as_array().is_some_and(|forms| forms.contains(&schema));
        if !is_known {
            *known = json!({ "anyOf": [known.take(), schema] });
        }
    }

    pub fn set_others(&mut self, schema: Value) {
        self.others = Some(schema);
    }

    pub fn require(&mut self, key: &'static str) {
        self.required.push(key);
    }

    /// Returns the schema of the mapping; a key without a value counts as left out.
    pub fn to_schema(&self) -> Value {
        let optional = |key: &str| !self.required.contains(&key);
        let properties: Map<String, Value> = self
            .properties
            .iter()
            .map(|(key, schema)| (key.clone(), if optional(key) { nullable(schema.clone()) } else { schema.clone() }))
            .collect();
        let others = self.others.clone().unwrap_or(Value::Bool(false));
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": others });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }
}

fn nullable(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").cloned() {
        let mut kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind]);
        kinds.push(json!("null"));
        schema["type"] = json!(kinds);
    }
    for (key, null) in [("enum", Value::Null), ("anyOf", json!({ "type": "null" }))] {
        schema.get_mut(key).and_then(Value::as_array_mut).into_iter().for_each(|forms| forms.push(null.clone()));
    }
    schema
}
