//! What happens in an agent while it works, whoever made the agent.

use std::fmt;

use mahabharatha_core::ids::Time;
use mahabharatha_core::prompt::bound_text;

/// A longer text is cut where it is shown.
const LONGEST: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    Started {
        session: String,
        model: String,
    },
    Text(String),
    /// What it does now, such as `editing src/x.rs`.
    ToolUse(String),
    /// What it may not do.
    ToolDenied(String),
    Usage {
        /// Of the whole attempt so far.
        tokens: u64,
        /// How much of the context window is full, in percent.
        context: u64,
    },
    /// The context is full enough: it is to write down where it stands, and to end.
    AskedToStop {
        context: u64,
    },
    Retrying {
        retry: u64,
        of: u64,
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

    /// Whether the service has answered.
    pub fn is_answer(&self) -> bool {
        matches!(self, AgentEvent::Text(_) | AgentEvent::ToolUse(_) | AgentEvent::Usage { .. })
    }

    /// Whether a person should look at it.
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

    /// What the agent does from now on, where the event tells.
    pub fn doing(&self) -> Option<String> {
        Some(match self {
            AgentEvent::Started { .. } => "starting".to_owned(),
            AgentEvent::ToolUse(doing) => doing.clone(),
            AgentEvent::Retrying { retry, of, .. } => format!("waiting for the API, retry {retry} of {of}"),
            AgentEvent::AskedToStop { .. } => "writing down where it stands".to_owned(),
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
            | AgentEvent::Finished(text) => f.write_str(&bound_text(text, LONGEST)),
            AgentEvent::Usage { tokens, context } => write!(f, "{tokens} tokens, context {context} % full"),
            AgentEvent::AskedToStop { context } => write!(f, "the context is {context} % full"),
            AgentEvent::Retrying { retry, of, why } => write!(f, "retry {retry} of {of}: {why}"),
            AgentEvent::RateLimited { until: Some(until) } => write!(f, "the limit is reached until {until}"),
            AgentEvent::RateLimited { until: None } => f.write_str("the limit is reached"),
            AgentEvent::Compacted { from } => write!(f, "the context was summed up at {from} tokens"),
        }
    }
}
