use std::time::Duration;

use super::*;
use crate::spec::Effort;

fn problems(yaml: &str) -> Vec<String> {
    match Config::parse(yaml) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn an_empty_config_means_the_defaults() {
    for silent in ["", "\n", "# nothing\n", "---\n", "null\n", "workers:\nagents:\n", "budget: {}\n"] {
        assert_eq!(Config::parse(silent), Ok(Config::default()), "{silent:?}");
    }
    let config = Config::default();
    assert_eq!(config.project, Project { name: None, description: None });
    assert_eq!(config.workers.count, 5);
    assert_eq!(config.workers.timeout, Duration::from_secs(3600));
    assert_eq!(config.workers.context_threshold, 0.7);
    assert_eq!(config.workers.stall, Duration::from_secs(600));
    assert_eq!(config.launcher.kind, LauncherKind::Subprocess);
    assert_eq!(config.quality_gates, []);
    assert_eq!(config.gates, Gates { clean: CleanGates::Last, caches: Vec::new() });
    assert_eq!(config.ports, Ports { range_start: 49152, range_end: 65535, per_worker: 1 });
    assert_eq!(config.retry.max_attempts, 3);
    assert_eq!(config.retry.strategy, BackoffStrategy::Exponential);
    assert_eq!((config.retry.base, config.retry.max), (Duration::from_secs(5), Duration::from_secs(60)));
    let context = &config.plugins.context_engineering;
    assert!(context.enabled && context.command_splitting && context.security_rule_filtering);
    assert_eq!(context.task_context_budget_tokens, 4000);
    assert_eq!(config.agent, "claude");
    let claude = config.agent("claude").unwrap();
    assert_eq!((claude.format, claude.model.as_deref()), (Format::Claude, Some("sonnet")));
    assert_eq!(claude.command, ["claude"]);
    let command = config.agent("command").unwrap();
    assert_eq!((command.format, command.command.len()), (Format::Command, 0));
    assert_eq!(
        config.merge,
        Merge { target: MergeTarget::Base, remediation_attempts: 2, prepare: None, approval: MergeApproval::None }
    );
    assert_eq!(config.run, RunConfig { schedule: Schedule::Levels });
    assert_eq!(config.budget, Budget { max_usd: None, max_usd_per_task: None });
    assert_eq!((config.logs.max_bytes, config.logs.keep), (10 << 20, Some(Duration::from_secs(30 * 24 * 60 * 60))));
    assert!(config.claude_tasks.enabled && !config.claude_tasks.worker_tools && config.cleanup.on_completion);
    assert_eq!(config.security.rules_repository, None);
}

const EVERY_KEY: &str = r#"
project:
  name: my-project
  description: Project description
workers: { count: 8, timeout_minutes: 0.5, context_threshold: 1, stall_minutes: 2 }
launcher:
  type: container
quality_gates:
  - name: lint
    command: "ruff check ."
    timeout: 120
  - { name: nothing, command: true, required: false }
  - { name: scan, command: scan, security: true, sarif: out/scan.sarif }
gates: { clean: every, caches: [node_modules/, "*.cache"] }
ports: { range_start: 5000, range_end: 5000, per_worker: 2 }
retry: { max_attempts: 1, strategy: linear, base_seconds: 0, max_seconds: 0.25 }
plugins:
  context_engineering:
    enabled: false
    command_splitting: false
    security_rule_filtering: false
    task_context_budget_tokens: 2000
agent: mine
agents:
  claude: { model: opus, effort: xhigh, fallback_model: "sonnet,haiku" }
  mine: { kind: command, command: ["./agent.sh", -v], env: [MY_TOKEN] }
  shell: { kind: command, command: "cat > prompt && ./go" }
env: { pass: [SSH_AUTH_SOCK] }
merge: { target: staging, remediation_attempts: 0, prepare: "cargo generate-lockfile", approval: level }
run: { schedule: dependencies }
budget: { max_usd: 20, max_usd_per_task: 2.5 }
ownership: { generated: ["**/*.gen.rs"] }
claude_tasks: { enabled: false, worker_tools: true }
cleanup: { on_completion: false }
logs: { max_mb: 3, keep_days: 0 }
security: { rules_repository: "https://example.org/rules" }
secrets: { allow: [ { path: "docs/**", rule: jwt, reason: made up for the manual }, { path: a.ts, reason: revoked in 2024 } ] }
"#;

#[test]
fn every_key_is_read() {
    let config = Config::parse(EVERY_KEY).unwrap();
    assert_eq!(config.project.name.as_deref(), Some("my-project"));
    assert_eq!(config.project.description.as_deref(), Some("Project description"));
    assert_eq!(config.workers.count, 8);
    assert_eq!(config.workers.timeout, Duration::from_secs(30));
    assert_eq!(config.workers.context_threshold, 1.0);
    assert_eq!(config.workers.stall, Duration::from_secs(120));
    assert_eq!(config.launcher.kind, LauncherKind::Container);
    let gate = |name: &str, command: &str, seconds, required| Gate {
        name: name.to_owned(),
        command: command.to_owned(),
        timeout: Duration::from_secs(seconds),
        required,
        security: false,
        sarif: None,
    };
    let scan = Gate { security: true, sarif: Some("out/scan.sarif".to_owned()), ..gate("scan", "scan", 300, true) };
    let gates = [gate("lint", "ruff check .", 120, true), gate("nothing", "true", 300, false), scan];
    assert_eq!(config.quality_gates, gates);
    let caches = vec!["node_modules/".to_owned(), "*.cache".to_owned()];
    assert_eq!(config.gates, Gates { clean: CleanGates::Every, caches });
    assert_eq!(config.ports, Ports { range_start: 5000, range_end: 5000, per_worker: 2 });
    let retry = Retry {
        max_attempts: 1,
        strategy: BackoffStrategy::Linear,
        base: Duration::ZERO,
        max: Duration::from_millis(250),
    };
    assert_eq!(config.retry, retry);
    let context = ContextEngineering {
        enabled: false,
        command_splitting: false,
        security_rule_filtering: false,
        task_context_budget_tokens: 2000,
    };
    assert_eq!(config.plugins.context_engineering, context);
    assert_eq!(config.agent, "mine");
    assert!(["claude", "codex", "command", "mine", "shell"].iter().all(|name| config.agent(name).is_some()));
    assert_eq!(config.agents["claude"].model.as_deref(), Some("opus"));
    assert_eq!(config.agents["claude"].effort, Some(Effort::Xhigh));
    assert_eq!(config.agents["claude"].fallback_model.as_deref(), Some("sonnet,haiku"));
    assert_eq!(config.agents["claude"].command, ["claude"]);
    assert_eq!(config.agents["mine"].command, ["./agent.sh", "-v"]);
    assert_eq!(config.agents["mine"].env, ["MY_TOKEN"]);
    assert_eq!(config.agents["shell"].command, ["sh", "-c", "cat > prompt && ./go"]);
    assert_eq!(config.env.pass, ["SSH_AUTH_SOCK"]);
    let prepare = Some("cargo generate-lockfile".to_owned());
    assert_eq!(
        config.merge,
        Merge { target: MergeTarget::Staging, remediation_attempts: 0, prepare, approval: MergeApproval::Level }
    );
    assert_eq!(config.run, RunConfig { schedule: Schedule::Dependencies });
    assert_eq!(config.budget, Budget { max_usd: Some(20.0), max_usd_per_task: Some(2.5) });
    assert!(config.ownership.generated.is_generated("src/x.gen.rs"));
    assert!(config.ownership.generated.is_generated("Cargo.lock"));
    assert_eq!((config.logs.max_bytes, config.logs.keep), (3 << 20, None));
    assert!(!config.claude_tasks.enabled && config.claude_tasks.worker_tools && !config.cleanup.on_completion);
    assert_eq!(config.security.rules_repository.as_deref(), Some("https://example.org/rules"));
}

#[test]
fn every_problem_is_reported_at_once_with_its_position() {
    let yaml = r#"wrokers: { count: 3 }
workers:
  count: five
  cuont: 5
  context_threshold: 0
  timeout_minutes: -1
quality_gates:
  - { name: lint, command: "" }
  - { name: lint, command: x, timeout: 0 }
  - { command: y, xyzzy: 1 }
  - just text
ports: { range_start: 70000, range_end: 10 }
retry: { strategy: quadratic, base_seconds: .inf, max_attempts: 2.5 }
agent: nobody
agents:
  mine: { kind: command, command: [] }
  bare: {}
  odd: { kind: robot, model: [] }
  cmd: { kind: command, model: opus, effort: low, fallback_model: haiku }
  hard: { kind: claude, effort: extreme }
env: { pass: [A=B, ""] }
merge: 5
ownership: { generated: ["a[", "/"] }
claude_tasks: { enabled: yes }
gates: { clean: sometimes, caches: ["!keep", "/"] }
budget: { max_usd: -0.5, max_usd_per_task: 0 }
cleanup: { on_completion: true, on_completion: false }
"#;
    insta::assert_snapshot!(problems(yaml).join("\n"), @r#"
    line 1, column 1: unknown key wrokers; did you mean `workers`?
    line 3, column 10: workers.count must be a whole number from 1 to 500, found "five"
    line 4, column 3: unknown key workers.cuont; did you mean `count`?
    line 5, column 22: workers.context_threshold must be a number above 0 and at most 1, found 0
    line 6, column 20: workers.timeout_minutes must be a number of minutes above 0 and at most a week (10080), found -1
    line 8, column 28: quality_gates[0].command must be a non-empty text, found ""
    line 9, column 13: quality_gates[1].name must be a name that no other gate has, found "lint"
    line 9, column 40: quality_gates[1].timeout must be a whole number from 1 to 86400, found 0
    line 10, column 5: quality_gates[2].name is missing
    line 10, column 19: unknown key quality_gates[2].xyzzy; known keys here: name, sarif, command, timeout, required, security
    line 11, column 5: quality_gates[3] must be a mapping (lines of `key: value`), found "just text"
    line 12, column 23: ports.range_start must be a whole number from 1 to 65535, found 70000
    line 13, column 20: retry.strategy must be `exponential` or `linear` or `fixed`, found "quadratic"
    line 13, column 45: retry.base_seconds must be a number of seconds from 0 to 86400, found ".inf"
    line 13, column 65: retry.max_attempts must be a whole number from 1 to 100, found 2.5
    line 14, column 8: agent must be one of agents (aider, bare, claude, cmd, codex, command, copilot, gemini, gemini-acp, hard, mine, odd, opencode, opencode-acp, pi, qwen), found "nobody"
    line 16, column 35: agents.mine.command must be a program and its arguments, found an empty list
    line 17, column 9: agents.bare.kind is missing
    line 18, column 16: agents.odd.kind must be `aider` or `claude` or `codex` or `command` or `copilot` or `gemini` or `gemini-acp` or `opencode` or `opencode-acp` or `pi` or `qwen`, found "robot"
    line 18, column 30: agents.odd.model must be a non-empty text, found an empty list
    line 19, column 32: agents.cmd.model must be left out for kind `command`, whose command names the model, found "opus"
    line 19, column 46: agents.cmd.effort must be left out for kind `command`, whose command names the model, found "low"
    line 19, column 67: agents.cmd.fallback_model must be left out for kind `command`, whose command names the model, found "haiku"
    line 20, column 33: agents.hard.effort must be `low` or `medium` or `high` or `xhigh` or `max`, found "extreme"
    line 21, column 15: env.pass[0] must be the name of an environment variable, found "A=B"
    line 21, column 20: env.pass[1] must be a non-empty text, found ""
    line 22, column 8: merge must be a mapping (lines of `key: value`), found 5
    line 23, column 26: ownership.generated[0] must be a valid glob (unclosed character class; missing ']'), found "a["
    line 23, column 32: ownership.generated[1] must be a glob that names something, found "/"
    line 24, column 26: claude_tasks.enabled must be true or false, found "yes"
    line 25, column 17: gates.clean must be `last` or `every` or `never`, found "sometimes"
    line 25, column 37: gates.caches[0] must be a pattern of .gitignore that names something, without `!`, found "!keep"
    line 25, column 46: gates.caches[1] must be a pattern of .gitignore that names something, without `!`, found "/"
    line 26, column 20: budget.max_usd must be a number of dollars, 0 or more, found -0.5
    line 26, column 44: budget.max_usd_per_task must be a number of dollars above 0, found 0
    line 27, column 33: cleanup.on_completion is given twice; the first is on line 27
    "#);
}

#[test]
fn a_syntax_error_names_its_position() {
    insta::assert_snapshot!(problems("workers:\n  count: [1, 2\n").join("\n"), @"line 2, column 10: not valid YAML: unclosed bracket '['");
    insta::assert_snapshot!(problems("- a\n- b\n").join("\n"), @"line 1, column 1: the file must be a mapping (lines of `key: value`), found a list");
    insta::assert_snapshot!(problems("a: 1\n---\nb: 2\n").join("\n"), @"line 3, column 1: there must be only one YAML document, but a second one starts here");
    insta::assert_snapshot!(problems("agent: !env X\n").join("\n"), @"line 1, column 13: tags (words that start with '!') are not supported; quote the text or remove the tag");
    insta::assert_snapshot!(problems("? [a]\n: b\n").join("\n"), @"line 1, column 3: a key must be a plain word");
    insta::assert_snapshot!(problems("env: { pass: *nobody }\n").join("\n"), @"line 1, column 14: not valid YAML: while parsing node, found unknown anchor");
}

#[test]
fn the_port_range_must_not_be_reversed() {
    insta::assert_snapshot!(problems("ports: { range_start: 11, range_end: 10 }\n").join("\n"), @"line 1, column 23: ports.range_start must be at most range_end, which is 10, found 11");
    insta::assert_snapshot!(problems("ports: { range_end: 10 }\n").join("\n"), @"line 1, column 8: ports.range_start must be at most range_end, which is 10");
}

#[test]
fn messages_are_short_and_harmless_to_a_terminal() {
    let yaml = format!("\"\\e[31m\": 1\nmerge: {{ prepare: \"a\\0b\" }}\nagent: {}\n", "x".repeat(1000));
    insta::assert_snapshot!(problems(&yaml).join("\n"), @r#"
    line 1, column 1: unknown key �[31m; known keys here: agents, project, run, workers, launcher, resources, quality_gates, gates, ports, retry, plugins, agent, env, merge, budget, ownership, claude_tasks, cleanup, logs, worktrees, security, sandbox, secrets, notify
    line 2, column 19: merge.prepare must be text without a NUL character, found "a�b"
    line 3, column 8: agent must be one of agents (aider, claude, codex, command, copilot, gemini, gemini-acp, opencode, opencode-acp, pi, qwen), found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    "#);
}

#[test]
fn aliases_are_expanded_up_to_a_limit() {
    let config =
        Config::parse("env: { pass: &names [A, B] }\nagents: { x: { kind: command, env: *names } }\n").unwrap();
    assert_eq!(config.agents["x"].env, ["A", "B"]);

    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let ten = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{ten}]\n"));
    }
    insta::assert_snapshot!(problems(&bomb).join("\n"), @"line 4, column 45: the file has more than 10000 values, with aliases expanded");
    insta::assert_snapshot!(problems("a: &a [*a]\n").join("\n"), @"line 1, column 8: this alias is inside the value that it refers to");
    assert_eq!(problems(&format!("a: {}\n", "[".repeat(100_000))).len(), 1);
}

#[test]
fn the_command_line_overrides_the_configuration() {
    let config = Config::parse("retry: { base_seconds: 0.5, max_seconds: 0 }\nbudget: { max_usd: 3 }\n").unwrap();
    let policy = config.policy(Isolation::Off, None, false, None);
    assert_eq!((policy.workers, policy.max_usd, policy.has_gates), (5, Some(3.0), false));
    assert_eq!((policy.backoff.base_ms, policy.backoff.max_ms), (500, 0));
    assert_eq!((policy.max_attempts, policy.remediation_attempts, policy.allow_red_base), (3, 2, false));

    let gated = Config::parse("quality_gates: [{ name: a, command: b }]\n").unwrap();
    let policy = gated.policy(Isolation::Off, Some(9), true, Some(1.0));
    assert_eq!((policy.workers, policy.max_usd), (9, Some(1.0)));
    assert!(policy.has_gates && policy.allow_red_base);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", yaml in "(workers|count|agents|: |\n|  |- |\\[|\\{|&a |\\*a|5|!){0,40}") {
        let _ = Config::parse(&text);
        let _ = Config::parse(&yaml);
    }
}

#[test]
fn a_secret_is_allowed_by_a_known_rule_and_a_reason() {
    let allowed = Config::parse(EVERY_KEY).unwrap().secrets.allow;
    assert_eq!(allowed[0].rule.as_deref(), Some("jwt"));
    assert_eq!((allowed[1].path.as_str(), allowed[1].rule.as_deref()), ("a.ts", None));
    let problems = |entry: &str| -> Vec<String> {
        let problems = Config::parse(&format!("secrets: {{ allow: [ {entry} ] }}\n")).unwrap_err();
        problems.into_iter().map(|problem| problem.message).collect()
    };
    assert_eq!(problems("{}"), ["secrets.allow[0].path is missing", "secrets.allow[0].reason is missing"]);
    let wrong = problems("{ path: '[', rule: github-tokn, reason: ok }");
    assert!(wrong[0].contains("a valid glob"), "{wrong:?}");
    let unknown =
        "secrets.allow[0].rule must be a rule of the secret scan, found \"github-tokn\"; did you mean `github-token`?";
    assert_eq!(wrong[1], unknown);
    assert!(wrong[2].contains("says why this is no secret"), "{wrong:?}");
}

#[test]
fn limits_of_containers_are_amounts() {
    let memory =
        |text: &str| Config::parse(&format!("resources: {{ memory: {text} }}")).map(|config| config.resources.memory);
    for (text, bytes) in [("512m", 512 << 20), ("4g", 4 << 30), ("4GB", 4 << 30), ("65536k", 64 << 20)] {
        assert_eq!(memory(text), Ok(bytes), "{text}");
    }
    for bad in ["4x", "1m", "m", "-1g", "99999999999999g"] {
        assert!(memory(bad).is_err(), "{bad}");
    }
    let network = |name: &str| Config::parse(&format!("launcher: {{ network: '{name}' }}")).is_ok();
    assert!(network("none") && network("my_net-1") && !network("host") && !network("container:x") && !network("--x"));
}

#[test]
fn a_shipped_agent_needs_no_more_than_its_name() {
    for name in
        ["claude", "codex", "opencode", "gemini", "qwen", "copilot", "pi", "aider", "opencode-acp", "gemini-acp"]
    {
        let config = Config::parse(&format!("agent: {name}\n")).unwrap();
        let agent = config.agent(name).unwrap();
        assert!(agent.is_coding_agent() && !agent.command.is_empty() && agent.kind == name, "{name}");
        assert!(agent.format == Format::Claude || !agent.args.is_empty(), "{name}");
    }
}

#[test]
fn single_keys_of_a_profile_are_overridden_and_extended() {
    let config = Config::parse(
        r#"
agents:
  codex: { model: gpt-9, env: [MY_KEY], set: { X: "1" }, files: { .codex/config.toml: "a = 1" }, stall_minutes: 2 }
  mine: { kind: codex, command: [/opt/codex, --oss], effort: high }
  other: { kind: command, command: [droid], args: [exec, "--model={model}", "{prompt}"], format: text, model: m }
"#,
    )
    .unwrap();
    let (shipped, codex) = (&AgentConfig::shipped()["codex"], &config.agents["codex"]);
    assert_eq!((codex.model.as_deref(), codex.stall), (Some("gpt-9"), Some(Duration::from_secs(120))));
    assert_eq!((&codex.args, &codex.login, codex.format), (&shipped.args, &shipped.login, Format::Codex));
    assert!(codex.env.contains(&"MY_KEY".to_owned()) && shipped.env.iter().all(|name| codex.env.contains(name)));
    assert!(codex.env.contains(&"HTTPS_PROXY".to_owned()));
    assert_eq!(codex.files[".codex/config.toml"], "a = 1");
    assert_eq!((codex.set["X"].as_str(), codex.set["CODEX_HOME"].as_str()), ("1", "{home}/.codex"));
    let mine = &config.agents["mine"];
    assert_eq!((mine.kind.as_str(), &mine.args, mine.effort), ("codex", &shipped.args, Some(Effort::High)));
    assert_eq!(mine.command, ["/opt/codex", "--oss"]);
    assert_eq!((config.agents["other"].format, config.agents["other"].model.as_deref()), (Format::Text, Some("m")));
}

#[test]
fn problems_of_a_profile_are_named() {
    let yaml = r#"
agents:
  codx: {}
  a: { kind: codx }
  b: { kind: gemini, effort: high, fallback_model: x }
  c: { kind: codex, files: { ../x: y, /etc/x: y, .codex: { } }, set: { "A-B": c }, login: [a/../b], paths: all }
  d: { kind: command, format: xml, fallback: nobody }
  e: { kind: pi, fallback: f, fallback_after: 0 }
  f: { kind: pi, fallback: e }
"#;
    insta::assert_snapshot!(problems(yaml).join("\n"));
}

#[test]
fn a_task_chooses_model_and_effort_where_the_agent_takes_them() {
    let config = Config::parse("agents: { codex: { model: a } }").unwrap();
    let task: TaskSpec = serde_json::from_value(serde_json::json!({
        "id": "T", "title": "t", "level": 1, "files": {}, "verification": { "command": "" }, "model": "b", "effort": "low"
    }))
    .unwrap();
    let of = |name: &str| (config.agents[name].model_for(&task), config.agents[name].effort_for(&task));
    assert_eq!(of("codex"), (Some("b"), Some(Effort::Low)));
    assert_eq!(of("gemini"), (Some("b"), None));
    assert_eq!(of("opencode-acp"), (Some("b"), None));
    assert_eq!(of("command"), (None, None));
}

#[test]
fn no_gate_has_the_name_of_a_command_of_the_program() {
    for name in ["worktrees.setup", "merge.prepare", "verify A-1"] {
        let found = problems(&format!("quality_gates: [{{ name: \"{name}\", command: \"true\" }}]"));
        assert!(
            found.len() == 1 && found[0].contains("the program reports its own commands under these names"),
            "{found:?}"
        );
    }
    assert_eq!(problems("quality_gates: [{ name: verify, command: \"true\" }]"), Vec::<String>::new());
}
