//! Events of an agent at work, the same for every kind of agent.

use std::fmt;

use mahabharatha_core::ids::Time;
use mahabharatha_core::markdown::bound_text;

/// Characters of a text that are shown.
const MAX_SHOWN_CHARS: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    Started {
        session: String,
        model: String,
    },
    Text(String),
    /// What the agent is doing, such as `editing src/x.rs`.
    ToolUse(String),
    /// What the agent tried to do and was not permitted to.
    ToolDenied(String),
    Usage {
        /// Total of the attempt so far.
        tokens: u64,
        /// Used part of the context window, in percent, if the agent reports it.
        context: Option<u64>,
    },
    /// The context window is nearly full: the agent was asked to write a checkpoint note and stop.
    AskedToStop {
        context: u64,
    },
    Retrying {
        retry: u64,
        of: Option<u64>,
        why: String,
    },
    RateLimited {
        until: Option<Time>,
    },
    Compacted {
        from: u64,
    },
    Finished(String),
}

impl AgentEvent {
    pub fn name(&self) -> &'static str {
        match self {
            AgentEvent::Started { .. } => "session",
            AgentEvent::Text(_) => "text",
            AgentEvent::ToolUse(_) => "tool_use",
            AgentEvent::ToolDenied(_) => "tool_denied",
            AgentEvent::Usage { .. } => "usage",
            AgentEvent::AskedToStop { .. } => "asked_to_stop",
            AgentEvent::Retrying { .. } => "retrying",
            AgentEvent::RateLimited { .. } => "rate_limited",
            AgentEvent::Compacted { .. } => "compacted",
            AgentEvent::Finished(_) => "finished",
        }
    }

    /// Returns whether the event shows that the service has answered.
    pub fn is_answer(&self) -> bool {
        matches!(self, AgentEvent::Text(_) | AgentEvent::ToolUse(_) | AgentEvent::Usage { .. })
    }

    /// Returns whether the event is worth the user's attention.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            AgentEvent::ToolDenied(_)
                | AgentEvent::AskedToStop { .. }
                | AgentEvent::Retrying { .. }
                | AgentEvent::RateLimited { .. }
                | AgentEvent::Compacted { .. }
        )
    }

    /// Returns what the agent does after this event, or `None` if the event does not change that.
    pub fn doing(&self) -> Option<String> {
        Some(match self {
            AgentEvent::Started { .. } => "starting".to_owned(),
            AgentEvent::ToolUse(doing) => doing.clone(),
            AgentEvent::Retrying { retry, of, .. } => format!("waiting for the API, {}", retry_text(*retry, *of)),
            AgentEvent::AskedToStop { .. } => "writing a checkpoint note".to_owned(),
            AgentEvent::RateLimited { .. } => format!("waiting for the API: {self}"),
            AgentEvent::Compacted { .. } | AgentEvent::Text(_) => "thinking".to_owned(),
            AgentEvent::Finished(_) => "ending".to_owned(),
            AgentEvent::ToolDenied(_) | AgentEvent::Usage { .. } => return None,
        })
    }
}

impl fmt::Display for AgentEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentEvent::Started { session, model } => write!(f, "{session} with {model}"),
            AgentEvent::Text(text)
            | AgentEvent::ToolUse(text)
            | AgentEvent::ToolDenied(text)
            | AgentEvent::Finished(text) => f.write_str(&bound_text(text, MAX_SHOWN_CHARS)),
            AgentEvent::Usage { tokens, context: None } => write!(f, "{tokens} tokens"),
            AgentEvent::Usage { tokens, context: Some(context) } => {
                write!(f, "{tokens} tokens, context {context} % full")
            }
            AgentEvent::AskedToStop { context } => write!(f, "the context is {context} % full"),
            AgentEvent::Retrying { retry, of, why } => write!(f, "{}: {why}", retry_text(*retry, *of)),
            AgentEvent::RateLimited { until: Some(until) } => write!(f, "rate limit reached until {until}"),
            AgentEvent::RateLimited { until: None } => f.write_str("rate limit reached"),
            AgentEvent::Compacted { from } => write!(f, "the context was compacted at {from} tokens"),
        }
    }
}

fn retry_text(retry: u64, of: Option<u64>) -> String {
    of.map_or_else(|| format!("retry {retry}"), |of| format!("retry {retry} of {of}"))
}
