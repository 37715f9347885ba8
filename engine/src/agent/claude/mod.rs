//! Claude Code, driven by its stream of JSON both ways.
//!
//! The client's own settings, those of the project and its hooks are not read: what it may do stands in a file of ours,
//! and a refusal needs nobody to give it. Interpreters and build tools can still write anywhere, which is why the worker
//! looks at the whole tree afterwards.

mod ask;
mod client;
mod permissions;
mod stream;
#[cfg(test)]
mod tests;
mod window;
mod wire;

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mahabharatha_core::cost::Cost;
use mahabharatha_core::prompt::bound_text;
use mahabharatha_core::spec::{Effort, TaskSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Agent, Said, Session};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::proc::{Cmd, Ended, Feed};
use stream::{Conversation, interrupt, listener};

pub use ask::{answer, command_for};
pub use client::check;

/// Variables of the caller that the client gets: how it reaches its service, and as whom.
pub const OWN_ENV: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CONFIG_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Those of them that are secrets: the client gets them, the commands that it runs do not.
const SECRETS: &str = "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN";

/// Nothing in the background, nothing remembered between attempts, no word more than needed in each request.
const QUIET: [(&str, &str); 7] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1"),
    ("CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT", "1"),
    // It differs from session to session and stands before everything that could be shared.
    ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
    ("DISABLE_AUTOUPDATER", "1"),
];

/// An attempt that takes more turns goes round in circles.
const MAX_TURNS: &str = "100";
/// What the project's CLAUDE.md may add to the prompt, in characters.
const MAX_MEMORY: usize = 40_000;

const PROTOCOL: &str = "\
# You Are a Worker

Nobody sits at the keyboard: no question is answered, and a tool call that is refused stays refused. Write your files with \
Write and Edit; run one plain command at a time.

When you are done, answer with a sentence or two on what you did. If the task cannot be done as it is written, begin your \
last answer with `BLOCKED:` and say what is in the way. If a person must choose between ways to do it, begin it with \
`ESCALATE:` and put the question. A line of it that begins with `DECISION:` is passed on to the tasks after yours: a choice that \
they must know of.

";

/// What the configuration says about this agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Models to use while the first one is overloaded or not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<String>,
    /// What is left of the task's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    /// The part of the context window at which it is asked to stop.
    pub context_threshold: f64,
    /// Whether it gets the tools that read and change the feature's task list.
    pub task_tools: bool,
    /// The project's build and test commands.
    #[serde(default)]
    pub commands: Vec<String>,
}

pub struct Claude {
    program: Vec<String>,
    terms: Terms,
    conversation: Arc<Mutex<Conversation>>,
}

impl Claude {
    pub fn new(program: &[String], terms: &Terms) -> Claude {
        let conversation = Conversation::new(Feed::default(), terms.context_threshold);
        Claude { program: program.to_vec(), terms: terms.clone(), conversation: Arc::new(Mutex::new(conversation)) }
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the options that name model, effort and fallback; the task's own go before those of the configuration. Each is
    /// one word, so that what a spec names cannot be taken for an option.
    fn model_options(&self, task: &TaskSpec) -> Vec<String> {
        let terms = &self.terms;
        let effort = task.effort.as_deref().and_then(Effort::read).or(terms.effort).map(Effort::as_str);
        let options = [
            ("--model", task.model.as_deref().or(terms.model.as_deref())),
            ("--effort", effort),
            ("--fallback-model", task.fallback_model.as_deref().or(terms.fallback_model.as_deref())),
        ];
        options.into_iter().filter_map(|(option, value)| Some(format!("{option}={}", value?))).collect()
    }

    /// The files that the client is pointed to, in a directory of its own.
    fn write_files(&self, dir: &Path, session: &Session<'_>) -> Result<()> {
        fs::create_dir_all(dir).map_err(io("create", dir))?;
        let settings = permissions::settings(session, &self.terms.commands);
        let shell = format!("#!/bin/sh\nunset {SECRETS}\nexec \"${{SHELL:-/bin/sh}}\" \"$@\"\n");
        for (name, text, mode) in [
            (SETTINGS, settings.to_string(), 0o600),
            (SYSTEM_PROMPT, system_prompt(session), 0o600),
            (SHELL, shell, 0o700),
        ] {
            let path = dir.join(name);
            fs::write(&path, text).map_err(io("write", &path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(io("set the mode of", &path))?;
        }
        Ok(())
    }
}

const SETTINGS: &str = "settings.json";
const SYSTEM_PROMPT: &str = "system-prompt.md";
const SHELL: &str = "shell";

impl Agent for Claude {
    fn command(&self, session: Session<'_>) -> Result<Cmd> {
        let dir = session.job_dir.join("claude");
        self.write_files(&dir, &session)?;
        let (program, args) = self.program.split_first().map_or(("claude", &[][..]), |(first, rest)| (first, rest));
        let mut cmd = super::program(session.root, program, args)
            .args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
            .args(["--session-id", &session_id(), "--permission-mode", "dontAsk"])
            .args(["--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"])
            .args(["--exclude-dynamic-system-prompt-sections", "--max-turns", MAX_TURNS])
            .args(["--tools", permissions::tools(self.terms.task_tools)])
            .args(self.model_options(session.task))
            .arg("--settings")
            .arg(dir.join(SETTINGS))
            .arg("--append-system-prompt-file")
            .arg(dir.join(SYSTEM_PROMPT));
        if let Some(usd) = self.terms.max_usd {
            cmd = cmd.args(["--max-budget-usd", &usd.to_string()]);
        }
        let mut conversation = self.conversation();
        conversation.begin(session.worktree, session.tell);
        let feed = conversation.feed();
        drop(conversation);
        feed.give(user_message(&session.prompt.own));
        // The client splits it at the last ` -`, so that a path may hold anything.
        let mut shell = dir.join(SHELL).into_os_string();
        shell.push(" -c");
        let quiet = QUIET.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Ok(cmd
            .cwd(session.worktree)
            .envs(quiet)
            .envs(session.env)
            .env("CLAUDE_CODE_SHELL_PREFIX", shell)
            .fed_by(feed)
            .last_words(interrupt())
            .listen(listener(Arc::clone(&self.conversation))))
    }

    /// The tools come first in a request, then the system prompt; model and effort select the cache.
    fn shared_prefix(&self, session: &Session<'_>) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        (&self.program, self.model_options(session.task), self.terms.task_tools).hash(&mut hasher);
        system_prompt(session).hash(&mut hasher);
        Some(format!("{:016x}", hasher.finish()))
    }

    fn said(&self, ended: &Ended) -> Said {
        self.conversation().said(ended)
    }

    fn reported_cost(&self) -> Option<Cost> {
        Some(self.conversation().cost())
    }

    fn decisions(&self, _ended: &Ended) -> Vec<String> {
        super::decisions_in(self.conversation().answer())
    }
}

fn user_message(text: &str) -> String {
    let message: Value = json!({ "type": "user", "message": { "role": "user", "content": text } });
    format!("{message}\n")
}

/// The same for all workers of a feature, byte by byte, so that the service's cache can serve it; what is decided on the way
/// comes last.
fn system_prompt(session: &Session<'_>) -> String {
    let mut text = PROTOCOL.to_owned();
    for name in ["CLAUDE.md", ".claude/CLAUDE.md"] {
        if let Some(memory) = memory(session.worktree, name) {
            text.push_str(&format!("# The Project's {name}\n\n{}\n\n", bound_text(memory.trim(), MAX_MEMORY)));
        }
    }
    text + &session.prompt.shared
}

/// It may be a link to another file of the project, but to nothing else: what it leads to goes to the service.
fn memory(worktree: &Path, name: &str) -> Option<String> {
    let (root, path) = (worktree.canonicalize().ok()?, worktree.join(name).canonicalize().ok()?);
    if !path.starts_with(root) || !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // A character is four bytes at most.
    File::open(path).ok()?.take(4 * MAX_MEMORY as u64 + 4).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A random UUID.
fn session_id() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}
