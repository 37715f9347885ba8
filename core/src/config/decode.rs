//! Decodes the YAML tree into a `Config`: every key with its default and its rule.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::agents::agents;
use super::read::{self, Table};
use super::{
    AgentConfig, Budget, ClaudeTasks, Cleanup, Config, ConfigProblem, ContainerEngine, ContextEngineering, Env, Gate,
    Gates, Generated, Launcher, LauncherKind, Logs, Merge, MergeApproval, MergeTarget, NoticeKind, Notify, Ownership,
    Plugins, Ports, Project, Resources, Retry, RunConfig, Sandbox, SandboxMode, Secrets, Security, SetupInputs,
    Workers, Worktrees, yaml,
};
use crate::names::nearest;
use crate::run::event::{Amend, BackoffStrategy, CleanGates, PREPARE, SETUP, Schedule, VERIFICATION};
use crate::secrets::{self, Allowed};

/// Allowed number of workers.
pub const WORKERS: RangeInclusive<u32> = 1..=500;

const WEEK_MINUTES: f64 = 7.0 * 24.0 * 60.0;
/// Least memory that container engines accept as a limit.
const MIN_MEMORY_BYTES: u64 = 6 << 20;
const DAY_SECONDS: u32 = 24 * 60 * 60;

impl Config {
    /// Returns the JSON Schema of the file. It is made by the reader, so that it names the same keys and types. Rules
    /// that a schema cannot tell, such as a default agent that must exist, are the reader's alone.
    pub fn schema() -> serde_json::Value {
        read::schema(config)
    }

    /// Parses the file. The error lists every problem, in the order of the file.
    pub fn parse(text: &str) -> Result<Config, Vec<ConfigProblem>> {
        let document = yaml::parse(text)
            .map_err(|error| vec![ConfigProblem { at: error.at, key: String::new(), message: error.message }])?;
        let mut problems = Vec::new();
        let config = read::document(document.as_deref(), &mut problems, config);
        if problems.is_empty() {
            return Ok(config);
        }
        problems.sort_by_key(|problem| problem.at);
        Err(problems)
    }
}

fn config(root: &mut Table<'_>) -> Config {
    let (agents, routing) = root.table("agents", agents);
    Config {
        project: root.table("project", |t| Project { name: t.text("name"), description: t.text("description") }),
        run: root.table("run", |t| RunConfig {
            schedule: t
                .word("schedule", &[("levels", Schedule::Levels), ("dependencies", Schedule::Dependencies)])
                .unwrap_or_default(),
        }),
        workers: root.table("workers", workers),
        launcher: root.table("launcher", launcher),
        resources: root.table("resources", resources),
        quality_gates: quality_gates(root),
        gates: root.table("gates", gates),
        ports: root.table("ports", ports),
        retry: root.table("retry", retry),
        plugins: root.table("plugins", plugins),
        agent: default_agent(root, &agents),
        agents,
        routing,
        env: root.table("env", |t| Env { pass: t.texts("pass", variable_name) }),
        merge: root.table("merge", merge),
        budget: root.table("budget", budget),
        ownership: root.table("ownership", ownership),
        claude_tasks: root.table("claude_tasks", |t| ClaudeTasks {
            enabled: t.flag("enabled", true),
            worker_tools: t.flag("worker_tools", false),
        }),
        cleanup: root.table("cleanup", |t| Cleanup {
            on_completion: t.flag("on_completion", true),
            keep_worktrees: t.flag("keep_worktrees", false),
        }),
        logs: root.table("logs", logs),
        worktrees: root.table("worktrees", worktrees),
        security: root.table("security", |t| Security { rules_repository: t.text("rules_repository") }),
        sandbox: sandbox(root),
        secrets: root.table("secrets", |t| Secrets { allow: t.tables("allow", allowed_secret) }),
        notify: root.table("notify", |t| Notify {
            bell: t.flag("bell", false),
            desktop: t.flag("desktop", false),
            command: t.text("command"),
            on: t.words("on", &NoticeKind::ALL).unwrap_or_else(|| NoticeKind::ALL.map(|(_, kind)| kind).to_vec()),
        }),
    }
}

fn workers(t: &mut Table<'_>) -> Workers {
    Workers {
        count: t.whole("count", *WORKERS.start(), *WORKERS.end(), 5),
        timeout: minutes(t, "timeout_minutes").unwrap_or(Duration::from_secs(60 * 60)),
        context_threshold: t
            .number("context_threshold", "a number above 0 and at most 1", |part| part > 0.0 && part <= 1.0)
            .unwrap_or(0.7),
        stall: minutes(t, "stall_minutes").unwrap_or(Duration::from_secs(10 * 60)),
    }
}

pub(super) fn minutes(t: &mut Table<'_>, key: &'static str) -> Option<Duration> {
    let rule = "a number of minutes above 0 and at most a week (10080)";
    let minutes = t.number(key, rule, |minutes| minutes > 0.0 && minutes <= WEEK_MINUTES);
    minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0))
}

fn launcher(t: &mut Table<'_>) -> Launcher {
    let kinds = [("subprocess", LauncherKind::Subprocess), ("container", LauncherKind::Container)];
    let engines =
        [("auto", ContainerEngine::Auto), ("docker", ContainerEngine::Docker), ("podman", ContainerEngine::Podman)];
    let network = t.text("network").unwrap_or_else(|| "bridge".to_owned());
    // `host` and `container:…` would share the network of others.
    let is_name = network.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if !is_name || network.starts_with(['-', '.']) || network == "host" {
        t.reject("network", "`none`, `bridge` or the name of a network");
    }
    Launcher {
        kind: t.word("type", &kinds).unwrap_or(LauncherKind::Subprocess),
        engine: t.word("engine", &engines).unwrap_or(ContainerEngine::Auto),
        network,
    }
}

fn resources(t: &mut Table<'_>) -> Resources {
    let memory = t.text("memory").unwrap_or_else(|| "4g".to_owned());
    let bytes = bytes(&memory).filter(|bytes| *bytes >= MIN_MEMORY_BYTES);
    if bytes.is_none() {
        t.reject("memory", "an amount of at least 6m, such as `512m` or `4g`");
    }
    Resources {
        cpus: t.number("cpus", "a number above 0 and at most 1024", |cpus| cpus > 0.0 && cpus <= 1024.0).unwrap_or(2.0),
        memory: bytes.unwrap_or(MIN_MEMORY_BYTES),
        pids: t.whole("pids", 8, 4_000_000, 512),
    }
}

/// Reads an amount of memory such as `512m`, `4g` or `4GB`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_suffix('b').unwrap_or(&text);
    let (number, shift) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 10),
        'm' => (&text[..text.len() - 1], 20),
        'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn quality_gates(root: &mut Table<'_>) -> Vec<Gate> {
    let mut names = BTreeSet::new();
    root.tables("quality_gates", |t| {
        let name = t.required_text("name").unwrap_or_default();
        if !name.is_empty() && !names.insert(name.clone()) {
            t.reject("name", "a name that no other gate has");
        }
        if is_reserved_name(&name) {
            t.reject(
                "name",
                "a name other than worktrees.setup and merge.prepare that does not begin with `verify `: the program \
                 reports its own commands under these names",
            );
        }
        let sarif = t.text("sarif");
        if sarif.as_deref().is_some_and(|path| path.starts_with('/') || path.split('/').any(|part| part == "..")) {
            t.reject("sarif", "a path inside of the repository");
        }
        Gate {
            name,
            command: t.required_text("command").unwrap_or_default(),
            timeout: Duration::from_secs(t.whole("timeout", 1, DAY_SECONDS, 300).into()),
            required: t.flag("required", true),
            security: t.flag("security", false),
            sarif,
        }
    })
}

/// Whether the program runs and reports another command under this name, like a gate.
fn is_reserved_name(name: &str) -> bool {
    [SETUP, PREPARE].contains(&name) || name.starts_with(VERIFICATION)
}

fn gates(t: &mut Table<'_>) -> Gates {
    let when = [("last", CleanGates::Last), ("every", CleanGates::Every), ("never", CleanGates::Never)];
    Gates {
        clean: t.word("clean", &when).unwrap_or(CleanGates::Last),
        caches: t.texts("caches", |pattern| {
            let is_plain = !pattern.starts_with(['!', '#']) && !pattern.contains(char::is_control);
            let names_something = !pattern.trim_matches(['/', ' ']).is_empty();
            let rule = "a pattern of .gitignore that names something, without `!`";
            if is_plain && names_something { Ok(()) } else { Err(rule.to_owned()) }
        }),
    }
}

fn ports(t: &mut Table<'_>) -> Ports {
    let port = |t: &mut Table<'_>, key, default| u16::try_from(t.whole(key, 1, 65535, default)).unwrap_or(u16::MAX);
    let before = t.problem_count();
    let ports = Ports {
        range_start: port(t, "range_start", 49152),
        range_end: port(t, "range_end", 65535),
        per_worker: t.whole("per_worker", 0, 100, 1),
    };
    if t.problem_count() == before && ports.range_start > ports.range_end {
        t.reject("range_start", &format!("at most range_end, which is {}", ports.range_end));
    }
    ports
}

fn retry(t: &mut Table<'_>) -> Retry {
    let seconds = |t: &mut Table<'_>, key, default: f64| {
        let rule = "a number of seconds from 0 to 86400";
        let seconds = t.number(key, rule, |seconds| (0.0..=f64::from(DAY_SECONDS)).contains(&seconds));
        Duration::from_secs_f64(seconds.unwrap_or(default))
    };
    let strategies = [
        ("exponential", BackoffStrategy::Exponential),
        ("linear", BackoffStrategy::Linear),
        ("fixed", BackoffStrategy::Fixed),
    ];
    Retry {
        max_attempts: t.whole("max_attempts", 1, 100, 3),
        strategy: t.word("strategy", &strategies).unwrap_or(BackoffStrategy::Exponential),
        base: seconds(t, "base_seconds", 5.0),
        max: seconds(t, "max_seconds", 60.0),
    }
}

fn plugins(t: &mut Table<'_>) -> Plugins {
    Plugins {
        context_engineering: t.table("context_engineering", |t| ContextEngineering {
            enabled: t.flag("enabled", true),
            command_splitting: t.flag("command_splitting", true),
            security_rule_filtering: t.flag("security_rule_filtering", true),
            task_context_budget_tokens: t.whole("task_context_budget_tokens", 0, 1_000_000, 4000),
        }),
    }
}

fn merge(t: &mut Table<'_>) -> Merge {
    let targets = [("base", MergeTarget::Base), ("staging", MergeTarget::Staging)];
    Merge {
        target: t.word("target", &targets).unwrap_or(MergeTarget::Base),
        remediation_attempts: t.whole("remediation_attempts", 0, 100, 2),
        prepare: t.text("prepare"),
        approval: t
            .word("approval", &[("none", MergeApproval::None), ("level", MergeApproval::Level)])
            .unwrap_or(MergeApproval::None),
    }
}

fn logs(t: &mut Table<'_>) -> Logs {
    let days = t.whole("keep_days", 0, 3650, 30);
    Logs {
        max_bytes: u64::from(t.whole("max_mb", 1, 1000, 10)) << 20,
        keep: (days > 0).then(|| Duration::from_secs(u64::from(days) * u64::from(DAY_SECONDS))),
    }
}

fn budget(t: &mut Table<'_>) -> Budget {
    Budget {
        max_usd: t.number("max_usd", "a number of dollars, 0 or more", |usd| usd >= 0.0),
        max_usd_per_task: t.number("max_usd_per_task", "a number of dollars above 0", |usd| usd > 0.0),
    }
}

fn ownership(t: &mut Table<'_>) -> Ownership {
    let patterns = t.texts("generated", |pattern| {
        if pattern.trim_matches('/').is_empty() {
            return Err("a glob that names something".to_owned());
        }
        Generated::check(pattern).map_err(|error| format!("a valid glob ({})", error.kind()))
    });
    let generated = Generated::new(patterns).unwrap_or_else(|error| {
        t.reject("generated", &format!("globs that can be used together ({error})"));
        Generated::default()
    });
    let amend = t.word("amend", &[("ask", Amend::Ask), ("auto", Amend::Auto)]).unwrap_or_default();
    Ownership { generated, amend, sequential: t.flag("sequential", false) }
}

fn worktrees(t: &mut Table<'_>) -> Worktrees {
    let patterns = t.texts("setup_inputs", |pattern| {
        if pattern.trim_matches('/').is_empty() {
            return Err("a glob that names something".to_owned());
        }
        SetupInputs::new(vec![pattern.to_owned()]).map(drop).map_err(|error| format!("a valid glob ({})", error.kind()))
    });
    let setup_inputs = SetupInputs::new(patterns).unwrap_or_else(|error| {
        t.reject("setup_inputs", &format!("globs that can be used together ({error})"));
        SetupInputs::default()
    });
    let warm = t.texts("warm", |path| {
        let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        let is_bad = |part: &&str| matches!(*part, "" | "." | "..") || part.eq_ignore_ascii_case(".git");
        let is_ours = matches!(parts[0], ".mahabharatha" | ".gsd");
        let rule = "a directory inside of the repository, without `..`, not in .git, .mahabharatha or .gsd";
        if is_ours || parts.iter().any(is_bad) { Err(rule.to_owned()) } else { Ok(()) }
    });
    let limit = t.text("warm_limit").unwrap_or_else(|| "2g".to_owned());
    let warm_limit = bytes(&limit);
    if warm_limit.is_none() {
        t.reject("warm_limit", "an amount of bytes, such as `500m` or `2g`");
    }
    Worktrees {
        dir: t.text("dir"),
        setup: t.text("setup"),
        setup_inputs,
        warm: warm.iter().map(|path| path.trim_end_matches('/').to_owned()).collect(),
        warm_limit: warm_limit.unwrap_or_default(),
    }
}

/// Reads the mode alone (`sandbox: off`), or a mapping with it.
fn sandbox(root: &mut Table<'_>) -> Sandbox {
    let modes = [
        ("auto", SandboxMode::Auto),
        ("bwrap", SandboxMode::Bwrap),
        ("landlock", SandboxMode::Landlock),
        ("sandbox-exec", SandboxMode::SandboxExec),
        ("off", SandboxMode::Off),
    ];
    if let Some(mode) = root.word_alone("sandbox", &modes) {
        let mode = mode.unwrap_or(SandboxMode::Auto);
        return Sandbox { mode, read: Vec::new(), write: Vec::new(), network: true };
    }
    root.table("sandbox", |t| Sandbox {
        mode: t.word("mode", &modes).unwrap_or(SandboxMode::Auto),
        read: t.texts("read", full_path),
        write: t.texts("write", full_path),
        network: t.flag("network", true),
    })
}

fn full_path(text: &str) -> Result<(), String> {
    let full = text.starts_with('/') || text.starts_with("~/");
    if full { Ok(()) } else { Err("a path that begins with `/` or `~/`".to_owned()) }
}

fn allowed_secret(t: &mut Table<'_>) -> Allowed {
    let path = t.required_text("path").unwrap_or_default();
    if let Err(error) = Generated::check(&path) {
        t.reject("path", &format!("a valid glob ({})", error.kind()));
    }
    let rule = t.text("rule");
    if let Some(unknown) = rule.as_deref().filter(|rule| !secrets::rules().contains(rule)) {
        t.reject("rule", "a rule of the secret scan");
        t.hint(nearest(unknown, &secrets::rules()).map(|name| format!("did you mean `{name}`?")));
    }
    let reason = t.required_text("reason").unwrap_or_default();
    if !reason.is_empty() && !secrets::is_reason(&reason) {
        t.reject("reason", "a sentence that says why this is no secret");
    }
    Allowed { path, rule, reason }
}

fn default_agent(root: &mut Table<'_>, agents: &BTreeMap<String, AgentConfig>) -> String {
    let name = root.text("agent").unwrap_or_else(|| "claude".to_owned());
    if !agents.contains_key(&name) {
        let known = agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        root.reject("agent", &format!("one of agents ({known})"));
    }
    name
}

pub(super) fn variable_name(text: &str) -> Result<(), String> {
    // A shared directory would make cargo in one worktree run code of another.
    if matches!(text, "CARGO_TARGET_DIR" | "CARGO_BUILD_TARGET_DIR") {
        return Err("a variable that worktrees can share; each has its own `target`".to_owned());
    }
    let valid =
        !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if valid { Ok(()) } else { Err("the name of an environment variable".to_owned()) }
}
