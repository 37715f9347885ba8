//! What an attempt is given: its prompt, its environment, its ports, the files that git ignores.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::{Repo, simple, with};

/// An agent that keeps every prompt it gets, then does what `script` says.
fn keeping_prompts(repo: &Repo, script: &str) {
    let keep = "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-$MAHABHARATHA_TASK_ID-$MAHABHARATHA_ATTEMPT\"\n";
    repo.program("agent.sh", &format!("{keep}{script}"));
    repo.config(
        "agent: mine\nagents: { mine: { kind: command, command: [./agent.sh] } }\n\
         retry: { base_seconds: 0, max_seconds: 0 }\n\
         plugins: { context_engineering: { task_context_budget_tokens: 260 } }\n",
    );
}

#[track_caller]
fn assert_prompt(repo: &Repo, name: &str, file: &str) {
    let root = repo.path().display().to_string();
    let prompt = repo.read(&format!(".gsd/specs/x/{file}")).replace(&root, "[project]");
    insta::with_settings!({ filters => vec![(r"\b[0-9a-f]{40}\b", "[commit]"), (r"for you:\*\* \d+", "for you:** [port]")] }, {
        insta::assert_snapshot!(name, prompt);
    });
}

#[test]
fn prompts_hold_the_specs_the_task_and_what_came_before() {
    let repo = Repo::new();
    // The specs are this person's own business: git does not know them.
    repo.write(".gitignore", ".gsd/\nagent.sh\n");
    repo.commit("ignore");
    repo.write(
        ".gsd/PROJECT.md",
        "# The Abacus\n\n## Constraints\n\n- POSIX shell only.\n- No network.\n\n## History\n\nIt began long ago.\n",
    );
    repo.write(
        ".gsd/specs/x/REQUIREMENTS.md",
        "# Feature: x\n\n## Problem Statement\n\nNobody can count.\n\n## Acceptance Criteria\n\n- [ ] It counts.\n",
    );
    let long = "A sentence that says little and takes up room. ".repeat(30);
    repo.write(
        ".gsd/specs/x/design.md",
        &format!("# Design\n\n## Interfaces\n\n`count NUMBER…` prints how many.\n\n## Alternatives\n\n{long}\n"),
    );
    repo.write(
        ".gsd/STATE.md",
        "# MAHABHARATHA State: x\n\n## Decisions\n- 2026-01-26: no floating point\n\n## Blockers\n",
    );
    keeping_prompts(
        &repo,
        "case $MAHABHARATHA_ATTEMPT in\n\
         1) echo wrong > count.sh ;;\n\
         2) echo half > count.sh; echo stray > other.txt; printf 'Half of it is there.\\nThe rest follows.' ; exit 2 ;;\n\
         3) test \"$(cat count.sh)\" = half || exit 9; test ! -e other.txt || exit 9; echo right > count.sh ;;\n\
         esac\n",
    );
    let task = with(
        simple("COUNT", 1, "count.sh"),
        json!({
            "title": "Count numbers", "description": "The number of arguments.", "context": "A function in a file.",
            "action": "Write it, then try it.", "interface": "count() { … }", "security": "Do not use eval.",
            "acceptance_criteria": ["count 7 7 is 2", "count is 0"], "done": "It counts.",
            "files": { "create": ["count.sh"], "modify": [], "read": ["README.md"] },
            "verification": { "command": "cat count.sh; grep -q right count.sh", "timeout_seconds": 20 },
        }),
    );
    repo.graph("x", &[task]);
    repo.run(&["run"]).code(0);

    assert_prompt(&repo, "the_first_prompt", "prompt-COUNT-1");
    assert_prompt(&repo, "the_prompt_after_a_failure", "prompt-COUNT-2");
    assert_prompt(&repo, "the_prompt_after_a_checkpoint", "prompt-COUNT-3");
    assert_eq!(repo.tree("main")["count.sh"], "right");
    // A checkpoint is no failure.
    let attempts = repo.task("COUNT")["attempts"].clone();
    let outcomes: Vec<&str> =
        attempts.as_array().unwrap().iter().map(|each| each["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["failed", "checkpoint", "done"]);
}

#[test]
fn ignored_files_that_workers_need_come_by_worktreeinclude() {
    let repo = Repo::new();
    repo.write(".gitignore", ".env\nsecrets/\n*.log\n");
    repo.write(".worktreeinclude", "# what workers need\n.env\nsecrets/*\n!secrets/root.key\nREADME.md\n");
    repo.commit("ignore");
    repo.write(".env", "DATABASE=here\n");
    repo.write("secrets/api.key", "k\n");
    repo.write("secrets/root.key", "never\n");
    repo.write("big.log", "not asked for\n");
    repo.write("README.md", "changed by the person, not committed\n");
    let script =
        "cat .env secrets/api.key > a.txt; test ! -e secrets/root.key -a ! -e big.log; grep -q hello README.md";
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": script }))]);
    repo.run(&["run"]).code(0);
    let tree = repo.tree("main");
    assert_eq!(tree["a.txt"], "DATABASE=here\nk");
    assert!(!tree.contains_key(".env") && !tree.contains_key("secrets/api.key"), "{tree:?}");
}

/// `KEY=value` lines.
fn env_in(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn children_get_what_they_need_and_no_secret() {
    let repo = Repo::new();
    let out = tempfile::tempdir().unwrap();
    let kept = |what: &str| out.path().join(what);
    // A filter is what git itself runs, a hook what it must not run.
    repo.program("filter.sh", &format!("env > '{}'; cat\n", kept("git").display()));
    repo.git(&["config", "filter.watch.clean", &format!("'{}'", repo.join("filter.sh").display())]);
    repo.write(".gitattributes", "*.txt filter=watch\n");
    repo.commit("filter");
    repo.program("agent.sh", &format!("env > '{}'; echo a > a.txt\n", kept("agent").display()));
    repo.config(&format!(
        "agent: mine\nagents: {{ mine: {{ kind: command, command: [./agent.sh], env: [AGENT_TOKEN] }} }}\n\
         env: {{ pass: [ALLOWED] }}\nports: {{ range_start: 49500, range_end: 49600, per_worker: 2 }}\n\
         quality_gates: [ {{ name: look, command: \"env > '{}'\" }} ]\n\
         merge: {{ prepare: \"env > '{}'\" }}\n",
        kept("gate").display(),
        kept("prepare").display()
    ));
    // Once where it was made, and once more where everything has come together.
    let verify = format!("env > '{}'\"$MAHABHARATHA_WORKER_ID\"; test -e a.txt", kept("verification").display());
    let task = with(simple("A", 1, "a.txt"), json!({ "verification": { "command": verify, "timeout_seconds": 20 } }));
    repo.graph("x", &[task]);
    let env = [
        ("MY_SECRET", "hush"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("GIT_DIR", "/nowhere"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_0", "/nowhere"),
        ("ALLOWED", "passed"),
        ("AGENT_TOKEN", "for the agent"),
        ("LC_TIME", "C"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("USER", "somebody"),
    ];
    repo.run_with(&["run"], &env).code(0);

    let read =
        |what: &str| env_in(&std::fs::read_to_string(kept(what)).unwrap_or_else(|error| panic!("{what}: {error}")));
    for what in ["agent", "verification0", "verification", "gate", "prepare", "git"] {
        let env = read(what);
        assert!(!env.values().any(|value| value == "hush"), "{what}: {env:?}");
        assert_ne!(env.get("GIT_DIR").map(String::as_str), Some("/nowhere"), "{what}");
        assert_eq!(env["LC_TIME"], "C", "{what}");
        assert_eq!(env["USER"], "somebody", "{what}");
        assert_eq!(env["HOME"], repo.home().to_str().unwrap(), "{what}");
        let is_agents = what == "agent";
        assert_eq!(env.contains_key("AGENT_TOKEN"), is_agents, "{what} sees the agent's token: {env:?}");
        if what == "git" {
            continue;
        }
        let slot = if matches!(what, "agent" | "verification0") { "worker-0" } else { "staging" };
        let worktree = repo.join(&format!(".mahabharatha/worktrees/x/{slot}"));
        let (worktree, branch) = (worktree.to_str().unwrap(), format!("mahabharatha/x/{slot}"));
        let specs = repo.join(".gsd/specs/x");
        let mut expected = vec![
            ("ALLOWED", "passed"),
            ("PWD", worktree),
            ("MAHABHARATHA_FEATURE", "x"),
            ("MAHABHARATHA_WORKTREE", worktree),
            ("MAHABHARATHA_BRANCH", &branch),
            ("MAHABHARATHA_SPEC_DIR", specs.to_str().unwrap()),
        ];
        if what != "gate" && what != "prepare" {
            expected.push(("MAHABHARATHA_TASK_ID", "A"));
        }
        if slot == "worker-0" {
            let of_workers =
                [("MAHABHARATHA_WORKER_ID", "0"), ("MAHABHARATHA_ATTEMPT", "1"), ("CLAUDE_CODE_TASK_LIST_ID", "x")];
            expected.extend(of_workers);
        }
        for (key, value) in expected {
            assert_eq!(env.get(key).map(String::as_str), Some(value), "{key} of the {what}");
        }
        let ports: Vec<u16> = env["MAHABHARATHA_PORTS"].split(',').map(|port| port.parse().unwrap()).collect();
        assert_eq!((ports.len(), ports[0].to_string()), (2, env["MAHABHARATHA_PORT"].clone()));
        assert!(ports.iter().all(|port| (49500..=49600).contains(port)), "{ports:?}");
    }
}

#[test]
fn workers_that_live_at_once_have_ports_of_their_own_whatever_their_feature() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\nports: { range_start: 49700, range_end: 49800 }\n");
    // All four are there at the same time: each waits until it has seen the others.
    let meet = "env | grep MAHABHARATHA_ > \"$MAHABHARATHA_SPEC_DIR/../env-$MAHABHARATHA_TASK_ID\"; \
                while [ $(ls \"$MAHABHARATHA_SPEC_DIR\"/../env-* | wc -l) -lt 4 ]; do sleep 0.05; done";
    let meeting = |id: &str| {
        let file = format!("{id}.txt");
        with(simple(id, 1, &file), json!({ "run": format!("{meet}; echo {id} > {file}") }))
    };
    repo.graph("x", &[meeting("A"), meeting("B")]);
    repo.graph("y", &[meeting("C"), meeting("D")]);
    let other = repo.spawn(&["run", "x"]);
    repo.run(&["run", "y"]).code(0);
    other.wait().code(0);
    let mut ports: Vec<String> = ["A", "B", "C", "D"]
        .iter()
        .map(|id| env_in(&repo.read(&format!(".gsd/specs/env-{id}")))["MAHABHARATHA_PORT"].clone())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 4, "{ports:?}");
}
