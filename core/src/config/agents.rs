//! Agents: the shipped profiles, and those of the configuration, which override and extend them.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decode::{minutes, variable_name};
use super::read::{self, Table};
use super::yaml;
use crate::spec::{Effort, TaskSpec};

/// The shipped profiles, in the form of `agents:` in the configuration.
const SHIPPED: &str = include_str!("agents.yaml");

/// Failed attempts after which another agent takes over.
const FALLBACK_AFTER: u32 = 2;

/// Variables that tell every coding agent how to reach its service.
const REACH: [&str; 9] = [
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

/// A profile: how an agent is called, and what it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentConfig {
    /// Name of the shipped profile that it extends.
    pub kind: String,
    /// How the program is spoken to and its output is read.
    pub format: Format,
    /// The program and its first arguments. If empty, the agent runs the task's own `run`.
    pub command: Vec<String>,
    /// Further arguments for a task, with placeholders.
    pub args: Vec<String>,
    /// Further arguments for a question, during which the agent may only read; if empty, those for a task.
    pub ask: Vec<String>,
    pub model: Option<String>,
    pub effort: Option<Effort>,
    /// Models to use, comma-separated, while `model` is overloaded or unavailable.
    pub fallback_model: Option<String>,
    /// How the paths that a task owns become the agent's own rules.
    pub paths: PathRules,
    /// Variables of the caller that this agent gets.
    pub env: Vec<String>,
    /// Variables that are set for this agent, with placeholders.
    pub set: BTreeMap<String, String>,
    /// Files of the agent's private home.
    pub files: BTreeMap<String, String>,
    /// Files below the user's home that hold the agent's login.
    pub login: Vec<String>,
    /// `stall_minutes`: in place of `workers.stall_minutes`.
    pub stall: Option<Duration>,
    /// Provider of the models, as traces name it.
    pub provider: Option<String>,
    /// The agent that takes over after failed attempts, or while this agent's service is out of quota.
    pub fallback: Option<String>,
    /// Failed attempts at a task after which it takes over.
    pub fallback_after: u32,
}

/// How tasks are given to agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routing {
    /// How the agent of a task's first attempt is chosen; none for the one that the task or the configuration names.
    pub route: Option<RoutePolicy>,
    /// Agents that take over from one another after a failed attempt, the cheapest first.
    pub escalate: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutePolicy {
    /// By the cost of earlier attempts at similar tasks.
    CheapestThatPasses,
}

/// What an agent's output looks like, and so how it is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Any text; the exit code is the result.
    Command,
    /// Claude Code, with messages in both directions.
    Claude,
    /// Claude Code's output format, as other agents print it.
    ClaudeStream,
    Codex,
    Opencode,
    Gemini,
    Copilot,
    Pi,
    /// Any text, with the errors of the API in it.
    Text,
    /// The Agent Client Protocol, on standard input and output.
    Acp,
}

impl Format {
    pub const ALL: [(&'static str, Format); 10] = [
        ("command", Format::Command),
        ("claude", Format::Claude),
        ("claude-stream", Format::ClaudeStream),
        ("codex", Format::Codex),
        ("opencode", Format::Opencode),
        ("gemini", Format::Gemini),
        ("copilot", Format::Copilot),
        ("pi", Format::Pi),
        ("text", Format::Text),
        ("acp", Format::Acp),
    ];

    pub fn as_str(self) -> &'static str {
        Format::ALL.iter().find(|(_, format)| *format == self).map_or("", |(word, _)| word)
    }
}

/// The agent's own rules about which files it may write. The worker checks in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathRules {
    None,
    /// A permissions profile, which the kernel enforces.
    Codex,
    /// Permissions of the tools that edit files.
    Opencode,
    /// A policy for the tools that edit files.
    Gemini,
}

const PATH_RULES: [(&str, PathRules); 4] = [
    ("none", PathRules::None),
    ("codex", PathRules::Codex),
    ("opencode", PathRules::Opencode),
    ("gemini", PathRules::Gemini),
];

impl AgentConfig {
    fn blank() -> AgentConfig {
        AgentConfig {
            kind: String::new(),
            format: Format::Command,
            command: Vec::new(),
            args: Vec::new(),
            ask: Vec::new(),
            model: None,
            effort: None,
            fallback_model: None,
            paths: PathRules::None,
            env: Vec::new(),
            set: BTreeMap::new(),
            files: BTreeMap::new(),
            login: Vec::new(),
            stall: None,
            provider: None,
            fallback: None,
            fallback_after: FALLBACK_AFTER,
        }
    }

    /// Returns the shipped profiles by name.
    pub fn shipped() -> &'static BTreeMap<String, AgentConfig> {
        static PROFILES: LazyLock<BTreeMap<String, AgentConfig>> = LazyLock::new(|| {
            let document = yaml::parse(SHIPPED).expect("a test parses the shipped profiles");
            let mut problems = Vec::new();
            let profiles = read::document(document.as_deref(), &mut problems, shipped);
            assert!(problems.is_empty(), "a test reads the shipped profiles: {problems:?}");
            profiles
        });
        &PROFILES
    }

    /// Tells whether the agent asks a model, unlike a command of the user, which decides by itself what it does.
    pub fn is_coding_agent(&self) -> bool {
        self.format != Format::Command
    }

    /// Returns the model that it is asked to use for a task; none for its own default.
    pub fn model_for<'a>(&'a self, task: &'a TaskSpec) -> Option<&'a str> {
        task.model.as_deref().or(self.model.as_deref()).filter(|_| self.takes("{model}"))
    }

    /// Returns the effort that it is asked to make for a task; none for its own default.
    pub fn effort_for(&self, task: &TaskSpec) -> Option<Effort> {
        let effort = task.effort.as_deref().and_then(Effort::read).or(self.effort);
        effort.filter(|_| self.takes("{effort}"))
    }

    /// Returns the variables of the caller that log the agent in: keys, tokens, and switches to another way, such as
    /// `GOOGLE_GENAI_USE_VERTEXAI`.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let is_key = |name: &&str| name.ends_with("KEY") || name.ends_with("TOKEN") || name.contains("_USE_");
        self.env.iter().map(String::as_str).filter(is_key)
    }

    /// Returns the arguments for a question.
    pub fn ask_args(&self) -> &[String] {
        if self.ask.is_empty() { &self.args } else { &self.ask }
    }

    /// Returns the program with all arguments, for people.
    pub fn whole_command(&self) -> Vec<String> {
        [self.command.as_slice(), &self.args].concat()
    }

    /// Tells whether its command line or its variables have a place for a value.
    pub fn has_place_for(&self, placeholder: &str) -> bool {
        let has = |words: &[String]| words.iter().any(|word| word.contains(placeholder));
        has(&self.args) || self.set.values().any(|value| value.contains(placeholder))
    }

    /// Tells whether it can be given a value.
    fn takes(&self, placeholder: &str) -> bool {
        match self.format {
            Format::Claude => true,
            // By a request of the protocol.
            Format::Acp if placeholder == "{model}" => true,
            _ => self.has_place_for(placeholder),
        }
    }
}

/// Reads the shipped profiles, of which each may extend one above it.
fn shipped(root: &mut Table<'_>) -> BTreeMap<String, AgentConfig> {
    let mut all: BTreeMap<String, AgentConfig> = BTreeMap::new();
    root.table("agents", |t| {
        t.others(|t, name| {
            let base = t.text("kind").and_then(|kind| all.get(&kind).cloned()).unwrap_or_else(AgentConfig::blank);
            let agent = AgentConfig { kind: name.to_owned(), ..agent(t, base) };
            all.insert(name.to_owned(), agent);
        })
    });
    all
}

/// Returns the shipped agents and those of the configuration, each of which extends a shipped one, and how tasks are routed
/// to them.
pub(super) fn agents(t: &mut Table<'_>) -> (BTreeMap<String, AgentConfig>, Routing) {
    let shipped = AgentConfig::shipped();
    let names: Vec<String> = t.names().into_iter().chain(shipped.keys().cloned()).collect();
    let routing = routing(t, &names);
    let given = t.others(|t, name| {
        let base = base(t, name, shipped).unwrap_or_else(AgentConfig::blank);
        let agent = agent(t, base);
        if agent.fallback.as_ref().is_some_and(|fallback| fallback == name || !names.contains(fallback)) {
            t.reject("fallback", "the name of another agent");
        }
        let is_followed = routing.escalate.split_last().is_some_and(|(_, steps)| steps.iter().any(|step| step == name));
        if agent.fallback.is_some() && is_followed {
            t.reject("fallback", "left out: the next agent of `agents.escalate` takes over");
        }
        agent
    });
    (shipped.clone().into_iter().chain(given).collect(), routing)
}

fn routing(t: &mut Table<'_>, agents: &[String]) -> Routing {
    let route = t.word("route", &[("cheapest-that-passes", RoutePolicy::CheapestThatPasses)]);
    let escalate = t.texts("escalate", |name| match agents.iter().any(|agent| agent == name) {
        true => Ok(()),
        false => Err("the name of an agent".to_owned()),
    });
    let is_repeated = escalate.iter().enumerate().any(|(index, name)| escalate[..index].contains(name));
    if is_repeated || escalate.len() == 1 {
        t.reject("escalate", "two or more different agents, the cheapest first");
    }
    if route.is_some() && escalate.is_empty() {
        t.reject("escalate", "the agents to choose from, the cheapest first, since `agents.route` is set");
    }
    Routing { route, escalate }
}

/// Returns the profile that an agent extends: the one that `kind` names, else the one of its own name.
fn base(t: &mut Table<'_>, name: &str, shipped: &BTreeMap<String, AgentConfig>) -> Option<AgentConfig> {
    let kinds: Vec<(&str, &AgentConfig)> = shipped.iter().map(|(name, agent)| (name.as_str(), agent)).collect();
    let is_given = t.contains("kind");
    let base = t.word("kind", &kinds).or_else(|| shipped.get(name).filter(|_| !is_given));
    if base.is_none() && !is_given {
        t.missing("kind");
    }
    base.cloned()
}

fn agent(t: &mut Table<'_>, mut agent: AgentConfig) -> AgentConfig {
    agent.format = t.word("format", &Format::ALL).unwrap_or(agent.format);
    if let Some(length) = t.list_length("command") {
        agent.command = t.texts("command", |_| Ok(()));
        if length == 0 {
            t.reject("command", "a program and its arguments");
        }
    } else if let Some(command) = t.text("command") {
        agent.command = match agent.format {
            Format::Command => vec!["sh".to_owned(), "-c".to_owned(), command],
            _ => vec![command],
        };
    }
    for (key, words) in [("args", &mut agent.args), ("ask", &mut agent.ask)] {
        let given = t.texts(key, |_| Ok(()));
        if t.contains(key) {
            *words = given;
        }
    }
    agent.paths = t.word("paths", &PATH_RULES).unwrap_or(agent.paths);
    agent.set.extend(t.named_texts("set", variable_name));
    agent.files.extend(t.named_texts("files", path_in_home));
    let login = t.texts("login", path_in_home);
    if t.contains("login") {
        agent.login = login;
    }
    agent.stall = minutes(t, "stall_minutes").or(agent.stall);
    agent.provider = t.text("provider").or(agent.provider);
    agent.fallback = t.text("fallback").or(agent.fallback);
    agent.fallback_after = t.whole("fallback_after", 1, 100, agent.fallback_after);
    let model = t.text("model");
    let effort = t.word("effort", &Effort::ALL.map(|effort| (effort.as_str(), effort)));
    let fallback_model = t.text("fallback_model");
    let given = [
        ("model", model.is_some(), agent.takes("{model}")),
        ("effort", effort.is_some(), agent.takes("{effort}")),
        ("fallback_model", fallback_model.is_some(), agent.takes("{fallback_model}")),
    ];
    for (key, _, _) in given.into_iter().filter(|(_, given, takes)| *given && !takes) {
        match agent.format {
            Format::Command => t.reject(key, "left out for kind `command`, whose command names the model"),
            _ => t.reject(key, &format!("left out: `args` has no `{{{key}}}`")),
        }
    }
    agent.model = model.or(agent.model);
    agent.effort = effort.or(agent.effort);
    agent.fallback_model = fallback_model.or(agent.fallback_model);
    let passed = t.texts("env", variable_name);
    agent.env.extend(passed.into_iter().filter(|name| !agent.env.contains(name)).collect::<Vec<_>>());
    if agent.is_coding_agent() {
        let reach = REACH.iter().filter(|name| !agent.env.iter().any(|known| known == *name));
        agent.env.extend(reach.map(|name| (*name).to_owned()).collect::<Vec<_>>());
    }
    agent
}

fn path_in_home(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_bad = parts.iter().any(|part| matches!(*part, "" | "." | ".."));
    if is_bad { Err("a path below the home directory, without `..`".to_owned()) } else { Ok(()) }
}
