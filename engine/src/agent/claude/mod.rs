//! Drives Claude Code over its JSON streams on stdin and stdout.
//!
//! The client reads neither the user's nor the project's settings and hooks: its permissions come from a file of ours,
//! and a tool call that is not allowed is denied without a prompt. Interpreters and build tools can still write
//! anywhere, so the worker must check the whole worktree afterwards.

mod ask;
mod client;
mod permissions;
mod stream;
#[cfg(test)]
mod tests;
mod window;
mod wire;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mahabharatha_core::config::{AgentConfig, Isolation};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::excerpt::last_words;
use mahabharatha_core::markdown::bound_text;
use mahabharatha_core::spec::{Effort, TaskSpec};
use serde_json::{Value, json};

use super::login::Logins;
use super::protocol::{LAST_ANSWER, UNATTENDED};
use super::{Agent, AgentOutcome, AgentSpec, Session, Terms};
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::proc::{self, Cmd, Ended, Feed};
use mahabharatha_sys::sandbox::Sandbox;
use stream::{Conversation, cancel, listener};

pub use ask::{answer, command_for};
pub use client::check;
pub use wire::Usage;

/// The secrets among the client's variables, which the client gets but the commands that it runs do not.
const SECRETS: &str = "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN";

/// Turns off background work, memory between attempts, and parts of requests that a worker does not need.
const QUIET_ENV: [(&str, &str); 7] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1"),
    ("CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT", "1"),
    // The header differs in every session and precedes the shared prefix, so it would defeat the prompt cache.
    ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
    ("DISABLE_AUTOUPDATER", "1"),
];

fn quiet_env() -> BTreeMap<OsString, OsString> {
    QUIET_ENV.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// An attempt that needs more turns is not making progress.
const MAX_TURNS: &str = "100";
/// Characters of the project's CLAUDE.md that go into the prompt.
const MAX_MEMORY_CHARS: usize = 40_000;

/// How the client's tools are to be used.
const TOOLS: &str = "Write your files with Write and Edit; run one plain command at a time.";

pub struct Claude {
    profile: AgentConfig,
    terms: Terms,
    conversation: Arc<Mutex<Conversation>>,
    logins: Mutex<Logins>,
}

impl Claude {
    pub fn new(spec: &AgentSpec) -> Claude {
        let conversation = Conversation::new(Feed::default(), spec.terms.context_threshold);
        let (profile, terms) = (spec.profile.clone(), spec.terms.clone());
        Claude { profile, terms, conversation: Arc::new(Mutex::new(conversation)), logins: Mutex::default() }
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the options for model, effort and fallback; the task's own values override the configuration. Each is
    /// one word (`--option=value`), so that a value from a spec cannot be taken for an option.
    fn model_options(&self, task: &TaskSpec) -> Vec<String> {
        let fallback = task.fallback_model.as_deref().or(self.profile.fallback_model.as_deref());
        let options = [
            ("--model", self.profile.model_for(task)),
            ("--effort", self.profile.effort_for(task).map(Effort::as_str)),
            ("--fallback-model", fallback),
        ];
        options.into_iter().filter_map(|(option, value)| Some(format!("{option}={}", value?))).collect()
    }

    /// Writes settings, system prompt and shell wrapper for the client into `dir`.
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

/// Variable that names the task list.
pub const TASK_LIST: &str = "CLAUDE_CODE_TASK_LIST_ID";
const SETTINGS: &str = "settings.json";
const SYSTEM_PROMPT: &str = "system-prompt.md";
const SHELL: &str = "shell";

impl Agent for Claude {
    fn command(&self, session: Session<'_>) -> Result<Cmd> {
        let dir = session.job_dir.join("claude");
        self.write_files(&dir, &session)?;
        let shown = session.sandbox.give(&dir, "claude")?;
        *self.logins.lock().unwrap_or_else(PoisonError::into_inner) = lend(session.sandbox, &self.profile)?;
        if let Some(id) = session.env.get(OsStr::new(TASK_LIST)).filter(|_| self.terms.task_tools) {
            lend_task_list(session.sandbox, id)?;
        }
        let (program, args) =
            self.profile.command.split_first().map_or(("claude", &[][..]), |(first, rest)| (first, rest));
        let mut cmd = super::program(session.sandbox, session.root, program, args)?
            .args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
            .args(["--session-id", &session_id(), "--permission-mode", "dontAsk"])
            .args(["--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"])
            .args(["--exclude-dynamic-system-prompt-sections", "--max-turns", MAX_TURNS])
            .args(["--tools", permissions::tools(self.terms.task_tools)])
            .args(self.model_options(session.task))
            .arg("--settings")
            .arg(shown.join(SETTINGS))
            .arg("--append-system-prompt-file")
            .arg(shown.join(SYSTEM_PROMPT));
        if let Some(usd) = self.terms.max_usd {
            cmd = cmd.args(["--max-budget-usd", &usd.to_string()]);
        }
        let mut conversation = self.conversation();
        conversation.begin(session.sandbox.workdir(), session.redactor, session.events);
        let feed = conversation.feed();
        drop(conversation);
        feed.give(user_message(&session.prompt.own));
        feed.stop_with(cancel());
        // The client splits the prefix at the last ` -`, so the path may contain any characters.
        let mut shell = shown.join(SHELL).into_os_string();
        shell.push(" -c");
        Ok(cmd
            .envs(quiet_env())
            .envs(session.env)
            .envs(environment(session.sandbox))
            .env("CLAUDE_CODE_SHELL_PREFIX", shell)
            .stdin_from(feed)
            .listen(listener(Arc::clone(&self.conversation))))
    }

    /// Hashes what decides a cache hit: a request starts with tools and system prompt, and each model and effort has
    /// its own cache.
    fn shared_prefix(&self, session: &Session<'_>) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        (&self.profile.command, self.model_options(session.task), self.terms.task_tools).hash(&mut hasher);
        system_prompt(session).hash(&mut hasher);
        Some(format!("{:016x}", hasher.finish()))
    }

    fn outcome(&self, ended: &Ended) -> AgentOutcome {
        self.conversation().agent_outcome(ended)
    }

    fn clean_up(&self) {
        std::mem::take(&mut *self.logins.lock().unwrap_or_else(PoisonError::into_inner)).take_back();
    }

    fn reported_cost(&self) -> Option<Cost> {
        Some(self.conversation().cost())
    }

    fn last_words(&self, _ended: &Ended) -> Option<String> {
        last_words(self.conversation().answer())
    }

    fn decisions(&self, _ended: &Ended) -> Vec<String> {
        super::decisions_in(self.conversation().answer())
    }
}

/// Lends a confined client the user's login.
pub fn lend(sandbox: &mut Sandbox, profile: &AgentConfig) -> Result<Logins> {
    // Without a sandbox the client uses the user's own directory.
    if sandbox.isolation() == Isolation::Off {
        return Ok(Logins::default());
    }
    let home = sandbox.private_home();
    Logins::lend(sandbox, profile, &home)
}

/// Makes one of the user's task lists available in the sandbox, for reading and writing.
fn lend_task_list(sandbox: &mut Sandbox, id: &OsStr) -> Result<()> {
    let name = Path::new("tasks").join(id);
    match config_dir().map(|dir| dir.join(&name)).filter(|list| list.is_dir()) {
        Some(list) => sandbox.lend(&list, &Path::new(".claude").join(name)),
        None => Ok(()),
    }
}

/// Returns variables that lead the client to its private directory.
pub fn environment(sandbox: &Sandbox) -> BTreeMap<OsString, OsString> {
    let dir = (sandbox.isolation() != Isolation::Off).then(|| sandbox.home().join(".claude"));
    dir.into_iter().map(|dir| ("CLAUDE_CONFIG_DIR".into(), dir.into())).collect()
}

/// Returns the user's directory of the client, found in the same way as the client does.
pub fn config_dir() -> Option<PathBuf> {
    let configured = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    configured.or_else(|| proc::home().map(|home| home.join(".claude")))
}

fn user_message(text: &str) -> String {
    let message: Value = json!({ "type": "user", "message": { "role": "user", "content": text } });
    format!("{message}\n")
}

/// Returns the system prompt, byte for byte the same for all workers of a feature so that the service can cache it;
/// decisions made during the run come last.
fn system_prompt(session: &Session<'_>) -> String {
    let mut text = format!("{UNATTENDED} {TOOLS}\n\n{LAST_ANSWER}\n\n");
    for name in ["CLAUDE.md", ".claude/CLAUDE.md"] {
        if let Some(memory) = memory(session.worktree, name) {
            text.push_str(&format!("# The Project's {name}\n\n{}\n\n", bound_text(memory.trim(), MAX_MEMORY_CHARS)));
        }
    }
    text + &session.prompt.shared
}

/// Reads a CLAUDE.md. A symlink may only lead to a file inside the worktree, because the contents are sent to the
/// service.
fn memory(worktree: &Path, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    // A character has at most four bytes.
    bounded::open_inside(worktree, &worktree.join(name))
        .ok()?
        .take(4 * MAX_MEMORY_CHARS as u64 + 4)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a random UUID.
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
