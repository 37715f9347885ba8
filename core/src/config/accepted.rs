//! Chooses the settings that decide what a run executes and what it believes.

use super::{AgentConfig, Config, ContainerEngine, Gate, Gates, Launcher, Merge, MergeApproval, Sandbox, Worktrees};
use crate::run::event::{Accepted, Amend};
use crate::secrets::Allowed;

impl Config {
    /// Returns the settings that may not change under a run unless the user accepts it.
    pub fn accepted(&self) -> Accepted {
        // Every key is named, so that the compiler asks where a new one belongs.
        #[rustfmt::skip]
        let Config {
            launcher, quality_gates, gates, agent, agents, routing: _, env, merge, ownership, sandbox, secrets, worktrees, notify,
            project: _, run: _, workers: _, ports: _, retry: _, plugins: _, budget: _, resources: _, claude_tasks: _, cleanup: _, logs: _, security: _,
        } = self;
        let mut accepted = Accepted::default();
        let Launcher { kind, engine, network } = launcher;
        accepted.set("launcher.type", kind);
        if *engine != ContainerEngine::Auto {
            accepted.set("launcher.engine", engine);
        }
        if network != "bridge" {
            accepted.set("launcher.network", network);
        }
        for Gate { name, command, required, security: _, sarif: _, timeout: _ } in quality_gates {
            accepted.set(format!("quality_gates.{name}.command"), command);
            accepted.set(format!("quality_gates.{name}.required"), required);
        }
        let Gates { clean, caches } = gates;
        accepted.set("gates.clean", clean);
        accepted.set("gates.caches", caches);
        accepted.set("agent", agent);
        for (name, config) in agents {
            // Shipped profiles come with the program: only the default agent's and those that were changed are listed.
            let is_used = name == agent || name == "command";
            if is_used || AgentConfig::shipped().get(name) != Some(config) {
                accept_agent(&mut accepted, name, config);
            }
        }
        accepted.set("env.pass", &env.pass);
        let Merge { target, prepare, approval, remediation_attempts: _ } = merge;
        accepted.set("merge.target", target);
        if let Some(prepare) = prepare {
            accepted.set("merge.prepare", prepare);
        }
        if *approval != MergeApproval::None {
            accepted.set("merge.approval", approval);
        }
        accepted.set("ownership.generated", ownership.generated.added().collect::<Vec<_>>());
        if ownership.amend == Amend::Auto {
            accepted.set("ownership.amend", ownership.amend);
        }
        if ownership.sequential {
            accepted.set("ownership.sequential", ownership.sequential);
        }
        let allowed = |allowed: &Allowed| format!("{} {}", allowed.path, allowed.rule.as_deref().unwrap_or("*"));
        accepted.set("secrets.allow", secrets.allow.iter().map(allowed).collect::<Vec<_>>());
        let Sandbox { mode, read, write, network } = sandbox;
        accepted.set("sandbox.mode", mode);
        accepted.set("sandbox.read", read);
        accepted.set("sandbox.write", write);
        accepted.set("sandbox.network", network);
        let Worktrees { dir, setup, setup_inputs, warm: _, warm_limit: _ } = worktrees;
        if let Some(dir) = dir {
            accepted.set("worktrees.dir", dir);
        }
        if let Some(setup) = setup {
            accepted.set("worktrees.setup", setup);
            accepted.set("worktrees.setup_inputs", setup_inputs.patterns());
        }
        if let Some(command) = &notify.command {
            accepted.set("notify.command", command);
        }
        accepted
    }
}

/// Accepts what is called, what it is given, and how its output is read. What is as in the shipped profile comes with the
/// program, not from the repository.
fn accept_agent(accepted: &mut Accepted, name: &str, agent: &AgentConfig) {
    #[rustfmt::skip]
    let AgentConfig {
        kind, format, command, args, ask, paths, env, set, files, login,
        model: _, effort: _, fallback_model: _, stall: _, provider: _, fallback: _, fallback_after: _,
    } = agent;
    let Some(base) = AgentConfig::shipped().get(kind) else { return };
    let key = |key: &str| format!("agents.{name}.{key}");
    accepted.set(key("kind"), kind);
    accepted.set(key("command"), command);
    accepted.set(key("env"), env.iter().filter(|name| !base.env.contains(name)).collect::<Vec<_>>());
    if *format != base.format {
        accepted.set(key("format"), format);
    }
    if *paths != base.paths {
        accepted.set(key("paths"), paths);
    }
    for (word, given, shipped) in [("args", args, &base.args), ("ask", ask, &base.ask), ("login", login, &base.login)] {
        if given != shipped {
            accepted.set(key(word), given);
        }
    }
    for (word, given, shipped) in [("set", set, &base.set), ("files", files, &base.files)] {
        if given != shipped {
            accepted.set(key(word), given);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(yaml: &str) -> Accepted {
        Config::parse(yaml).expect("a valid configuration").accepted()
    }

    #[test]
    fn what_is_executed_or_believed_is_shown_as_a_diff() {
        let gates = "quality_gates: [{ name: lint, command: ruff check . }, { name: test, command: pytest }]\n";
        let old = accepted(&format!("{gates}merge: {{ prepare: uv lock }}\nenv: {{ pass: [A] }}\n"));
        assert_eq!(old.diff(&old), [""; 0]);
        let new =
            accepted("quality_gates: [{ name: test, command: \"true\", required: false }]\nenv: { pass: [A, B] }\n");
        insta::assert_snapshot!(old.diff(&new).join("\n"), @r#"
        - env.pass: ["A"]
        + env.pass: ["A","B"]
        - merge.prepare: "uv lock"
        - quality_gates.lint.command: "ruff check ."
        - quality_gates.lint.required: true
        - quality_gates.test.command: "pytest"
        + quality_gates.test.command: "true"
        - quality_gates.test.required: true
        + quality_gates.test.required: false
        "#);
    }

    #[test]
    fn agents_ownership_and_how_gates_run_belong_to_it() {
        for changed in [
            "agent: command",
            "agents: { claude: { command: ./claude } }",
            "agents: { mine: { kind: command } }",
            "agents: { claude: { env: [TOKEN] } }",
            "merge: { target: staging }",
            "merge: { approval: level }",
            "gates: { clean: never }",
            "gates: { caches: [out] }",
            "ownership: { generated: [\"*.g.rs\"] }",
            "ownership: { amend: auto }",
            "ownership: { sequential: true }",
            "launcher: { type: container }",
            "launcher: { engine: podman }",
            "launcher: { network: none }",
            "secrets: { allow: [{ path: a.txt, reason: an example from the documentation }] }",
            "sandbox: off",
            "sandbox: { read: [/srv] }",
            "sandbox: { write: [/srv] }",
            "sandbox: { network: false }",
            "worktrees: { dir: ../trees }",
            "worktrees: { setup: npm ci }",
            "notify: { command: ./tell }",
        ] {
            assert_ne!(accepted(changed), accepted(""), "{changed}");
        }
    }

    #[test]
    fn other_settings_may_change_at_any_time() {
        for changed in [
            "workers: { count: 9, timeout_minutes: 3 }",
            "retry: { max_attempts: 9 }",
            "budget: { max_usd: 9 }",
            "merge: { remediation_attempts: 9 }",
            "agents: { claude: { model: opus, effort: high } }",
            "claude_tasks: { enabled: false }",
            "cleanup: { on_completion: false }",
            "ports: { per_worker: 3 }",
            "worktrees: { warm: [target], warm_limit: 1g }",
            "resources: { memory: 1g }",
            "notify: { bell: true, on: [failed] }",
        ] {
            assert_eq!(accepted(changed), accepted(""), "{changed}");
        }
    }
}
