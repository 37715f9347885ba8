//! Types of the client's output stream. Unknown lines, blocks and fields are ignored.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    System(System),
    Assistant {
        message: Message,
        /// Set on a message that the client itself wrote because the service gave none.
        error: Option<String>,
        parent_tool_use_id: Option<String>,
    },
    User {
        message: Message,
    },
    RateLimitEvent {
        rate_limit_info: RateLimit,
    },
    /// Answer to one of our control requests.
    ControlResponse {
        response: ControlAnswer,
    },
    Result(Outcome),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum System {
    Init {
        session_id: String,
        model: String,
    },
    ApiRetry {
        attempt: u64,
        max_retries: u64,
        error_status: Option<u16>,
        error: Option<String>,
    },
    CompactBoundary {
        compact_metadata: Compaction,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub struct ControlAnswer {
    #[serde(default)]
    pub request_id: String,
    /// `None` if the client refused the request.
    pub response: Option<ContextUsage>,
}

#[derive(Deserialize)]
pub struct ContextUsage {
    #[serde(rename = "maxTokens")]
    pub max_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub struct Compaction {
    #[serde(default)]
    pub pre_tokens: u64,
}

#[derive(Deserialize)]
pub struct Message {
    #[serde(default)]
    pub id: String,
    pub content: Content,
    #[serde(default)]
    pub usage: Usage,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Content {
    Blocks(Vec<Block>),
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Map<String, Value>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        content: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub output_tokens: u64,
}

impl Usage {
    /// Returns the number of tokens in the model's context.
    pub fn context(&self) -> u64 {
        self.input_tokens.saturating_add(self.cache_creation_input_tokens).saturating_add(self.cache_read_input_tokens)
    }

    pub fn total(&self) -> u64 {
        self.context().saturating_add(self.output_tokens)
    }
}

#[derive(Deserialize)]
pub struct RateLimit {
    pub status: String,
    /// Seconds since the Unix epoch.
    #[serde(rename = "resetsAt")]
    pub resets_at: Option<f64>,
}

#[derive(Deserialize)]
pub struct Outcome {
    #[serde(default)]
    pub subtype: String,
    #[serde(default)]
    pub is_error: bool,
    pub terminal_reason: Option<String>,
    pub api_error_status: Option<u16>,
    #[serde(default)]
    pub result: String,
    #[serde(default)]
    pub errors: Vec<String>,
    /// The answer to a prompt that came with a JSON schema.
    pub structured_output: Option<Value>,
    #[serde(default)]
    pub num_turns: u64,
    pub total_cost_usd: Option<f64>,
    #[serde(default, rename = "modelUsage")]
    pub model_usage: std::collections::BTreeMap<String, ModelUsage>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
}

impl Outcome {
    /// Returns whether the service rejected a request for exceeding the context window.
    pub fn is_overflow(&self) -> bool {
        let too_long = self.api_error_status == Some(400) && self.result.to_lowercase().contains("prompt is too long");
        let reason = self.terminal_reason.as_deref() == Some("prompt_too_long");
        self.is_error && (reason || too_long || self.api_error_status == Some(413))
    }

    pub fn tokens(&self) -> u64 {
        let of = |usage: &ModelUsage| {
            [usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens]
                .into_iter()
                .fold(usage.input_tokens, u64::saturating_add)
        };
        self.model_usage.values().map(of).fold(0, u64::saturating_add)
    }
}
