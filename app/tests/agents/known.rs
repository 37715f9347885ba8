//! The agents that are tested, and how a user leads each to another service.

use crate::bench::Agent;
use crate::stopped::leaves_nothing;
use crate::table::passes;

/// A coding agent that offers the model tools, says how many tokens it uses, and is not installed by `./test`.
const FOUND: Agent = Agent {
    name: "",
    program: "",
    is_pinned: false,
    tells_tokens: true,
    has_tools: true,
    config: |_| String::new(),
    model: "",
    env: &[],
    address: None,
    leaves_out: &[],
};

/// More of it is tested in `app/tests/claude/`.
const CLAUDE: Agent = Agent {
    name: "claude",
    program: "claude",
    is_pinned: true,
    config: |_| "env: [CLAUDE_CODE_MAX_RETRIES]\n".to_owned(),
    env: &[("ANTHROPIC_API_KEY", "sk-scripted"), ("CLAUDE_CODE_MAX_RETRIES", "2")],
    address: Some(("ANTHROPIC_BASE_URL", "")),
    ..FOUND
};

pub const CODEX: Agent = Agent {
    name: "codex",
    program: "codex",
    is_pinned: true,
    config: |url| {
        format!(
            r#"env: [SCRIPTED_KEY]
files:
  .codex/config.toml: |
    model = "gpt-5"
    model_provider = "scripted"
    check_for_update_on_startup = false
    [analytics]
    enabled = false
    [model_providers.scripted]
    name = "scripted"
    base_url = "{url}/v1"
    env_key = "SCRIPTED_KEY"
    wire_api = "responses"
    request_max_retries = 2
    stream_max_retries = 2
"#
        )
    },
    env: &[("SCRIPTED_KEY", "sk-scripted")],
    ..FOUND
};

const OPENCODE: Agent = Agent {
    name: "opencode",
    program: "opencode",
    is_pinned: true,
    config: |url| {
        format!(
            r#"model: scripted/model-2
set: {{ OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1" }}
files:
  opencode.json: |
    {{ "autoupdate": false, "share": "disabled", "model": "scripted/model-1", "small_model": "scripted/model-1",
      "provider": {{ "scripted": {{ "npm": "@ai-sdk/openai-compatible", "options": {{ "baseURL": "{url}/v1", "apiKey": "sk-scripted" }},
      "models": {{
        "model-1": {{ "tool_call": true, "limit": {{ "context": 200000, "output": 8192 }} }},
        "model-2": {{ "tool_call": true, "limit": {{ "context": 200000, "output": 8192 }} }} }} }} }} }}
"#
        )
    },
    model: "model-2",
    ..FOUND
};

const GEMINI: Agent = Agent {
    name: "gemini",
    program: "gemini",
    is_pinned: true,
    config: |_| {
        r#"model: gemini-2.5-flash
files:
  .gemini/settings.json: |
    { "privacy": { "usageStatisticsEnabled": false }, "general": { "enableAutoUpdate": false, "maxAttempts": 3 } }
"#
        .to_owned()
    },
    model: "gemini-2.5-flash",
    env: &[("GEMINI_API_KEY", "sk-scripted")],
    address: Some(("GOOGLE_GEMINI_BASE_URL", "")),
    ..FOUND
};

const QWEN: Agent = Agent {
    name: "qwen",
    program: "qwen",
    config: |_| "model: model-1\n".to_owned(),
    model: "model-1",
    env: &[("OPENAI_API_KEY", "sk-scripted")],
    address: Some(("OPENAI_BASE_URL", "/v1")),
    ..FOUND
};

const COPILOT: Agent = Agent {
    name: "copilot",
    program: "copilot",
    tells_tokens: false,
    config: |_| "model: gpt-5\n".to_owned(),
    model: "gpt-5",
    env: &[
        ("COPILOT_PROVIDER_TYPE", "openai"),
        ("COPILOT_PROVIDER_API_KEY", "sk-scripted"),
        ("COPILOT_MODEL", "gpt-5"),
        ("COPILOT_OFFLINE", "true"),
    ],
    address: Some(("COPILOT_PROVIDER_BASE_URL", "/v1")),
    ..FOUND
};

const PI: Agent = Agent {
    name: "pi",
    program: "pi",
    config: |url| {
        format!(
            r#"model: scripted/model-1
files:
  .pi/agent/settings.json: '{{ "retry": {{ "maxRetries": 2, "baseDelayMs": 200 }} }}'
  .pi/agent/models.json: |
    {{ "providers": {{ "scripted": {{ "baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "sk-scripted",
      "models": [{{ "id": "model-1", "name": "Model 1", "contextWindow": 200000, "maxTokens": 8192, "input": ["text"],
        "reasoning": false, "cost": {{ "input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0 }} }}] }} }} }}
"#
        )
    },
    model: "model-1",
    ..FOUND
};

const AIDER: Agent = Agent {
    name: "aider",
    program: "aider",
    tells_tokens: false,
    has_tools: false,
    config: |_| "model: openai/model-1\n".to_owned(),
    model: "model-1",
    env: &[("OPENAI_API_KEY", "sk-scripted")],
    address: Some(("OPENAI_API_BASE", "/v1")),
    // The model cannot run commands.
    leaves_out: &["SHELL"],
    ..FOUND
};

/// What the protocol changes is how a prompt gets in, and how errors and tokens come out.
const NOT_BY_ACP: &[&str] = &["LONG", "SHELL", "OUTSIDE", "LIMIT", "BROKEN", "CUT"];
/// It reports the tokens of the last step only.
const OPENCODE_ACP: Agent = Agent { name: "opencode-acp", tells_tokens: false, leaves_out: NOT_BY_ACP, ..OPENCODE };
const GEMINI_ACP: Agent = Agent { name: "gemini-acp", leaves_out: NOT_BY_ACP, ..GEMINI };

mod cases {
    use super::*;

    #[test]
    fn claude() {
        passes(&CLAUDE);
    }

    #[test]
    fn codex() {
        passes(&CODEX);
    }

    #[test]
    fn opencode() {
        passes(&OPENCODE);
    }

    #[test]
    fn gemini() {
        passes(&GEMINI);
    }

    #[test]
    fn qwen() {
        passes(&QWEN);
    }

    #[test]
    fn copilot() {
        passes(&COPILOT);
    }

    #[test]
    fn pi() {
        passes(&PI);
    }

    #[test]
    fn aider() {
        passes(&AIDER);
    }

    #[test]
    fn opencode_by_acp() {
        passes(&OPENCODE_ACP);
    }

    #[test]
    fn gemini_by_acp() {
        passes(&GEMINI_ACP);
    }
}

mod stopped {
    use super::*;

    #[test]
    fn codex() {
        leaves_nothing(&CODEX);
    }

    #[test]
    fn opencode() {
        leaves_nothing(&OPENCODE);
    }

    #[test]
    fn gemini() {
        leaves_nothing(&GEMINI);
    }

    #[test]
    fn qwen() {
        leaves_nothing(&QWEN);
    }

    #[test]
    fn copilot() {
        leaves_nothing(&COPILOT);
    }

    #[test]
    fn pi() {
        leaves_nothing(&PI);
    }

    #[test]
    fn aider() {
        leaves_nothing(&AIDER);
    }
}
