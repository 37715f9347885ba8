//! Agents by their profiles: stand-ins that print what the real programs print.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Repo, with};
use crate::task_mode::plain;

/// Returns a recorded stream of the real program.
fn stream(name: &str) -> String {
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src/agent/format/streams");
    fs::read_to_string(streams.join(name)).unwrap()
}

/// A repository whose agent is a stand-in for a shipped one: it says its version, or does what the script says.
fn with_stand_in(agent: &str, script: &str) -> Repo {
    let repo = Repo::new();
    let added =
        format!("agent: {agent}\nagents: {{ {agent}: {{ command: [./stand-in] }} }}\nretry: {{ max_attempts: 1 }}\n");
    repo.config(&added);
    repo.program("stand-in", &format!("case \"$*\" in *--version*) echo 'stand-in 1.2.3'; exit;; esac\n{script}"));
    repo.commit("a stand-in");
    repo.graph("x", &[plain("A", 1, "hello.txt")]);
    repo
}

/// Prints the stream after having read the prompt, and exits with this code.
fn says(stream: &str, code: u8) -> String {
    format!("cat > \"$HOME/prompt.txt\"\n{{ cat <<'THE_END'\n{stream}\nTHE_END\n}}\nexit {code}\n")
}

const AGENTS: [(&str, &str, u64); 6] = [
    ("codex", "codex", 2270),
    ("opencode", "opencode", 2270),
    ("gemini", "gemini", 2270),
    ("qwen", "qwen", 2270),
    ("copilot", "copilot", 0),
    ("pi", "pi", 2270),
];

#[test]
fn each_agent_is_done_when_its_stream_says_so() {
    for (agent, name, tokens) in AGENTS {
        let writes = format!("echo hello > hello.txt\n{}", says(&stream(&format!("{name}.jsonl")), 0));
        let repo = with_stand_in(agent, &writes);
        repo.run(&["run"]).code(0);
        let task = repo.task("A");
        assert_eq!((task["status"].as_str(), task["tokens"].as_u64()), (Some("completed"), Some(tokens)), "{agent}");
        assert_eq!(repo.git(&["show", "HEAD:hello.txt"]), "hello", "{agent}");
        repo.run(&["logs", "--task", "A"]).code(0).says("I will write the file.");
    }
}

#[test]
fn an_agent_that_exits_with_0_and_did_not_finish_has_failed() {
    let cut = |name: &str| {
        let whole = stream(&format!("{name}.jsonl"));
        whole.lines().take(whole.lines().count() - 1).collect::<Vec<_>>().join("\n")
    };
    for (agent, name, _) in AGENTS {
        let repo = with_stand_in(agent, &format!("echo hello > hello.txt\n{}", says(&cut(name), 0)));
        repo.run(&["run"]).code(3).says("before it was done");
        assert_eq!(repo.task_status("A"), "blocked", "{agent}");
    }
}

#[test]
fn a_refused_or_missing_login_and_a_lost_connection_are_shown_and_use_up_no_attempt() {
    let lost = r#"{"type":"result","status":"error","error":{"type":"Error","message":"[API Error: terminated]"}}"#;
    let no_login = "cat > /dev/null\necho 'Please set an Auth method' >&2\nexit 41\n";
    for (agent, script, pause) in [
        ("pi", says(&stream("pi.error-401.jsonl"), 0), "the API refuses access (401 scripted failure 401)"),
        ("gemini", says(lost, 0), "the connection to the API was lost ([API Error: terminated])"),
        ("gemini", no_login.to_owned(), "the agent has no login (Please set an Auth method)"),
    ] {
        let repo = with_stand_in(agent, &script);
        let run = repo.spawn(&["run"]);
        repo.wait_until("the run waits for the API", || repo.status()["pause"].to_string().contains(pause));
        repo.run(&["stop"]).code(0);
        run.wait();
        assert_eq!(repo.task("A")["failures"].as_u64().unwrap_or_default(), 0);
    }
}

#[test]
fn an_agent_gets_its_private_home_and_its_rules() {
    let script = format!(
        "cp \"$CODEX_HOME/config.toml\" hello.txt; echo \"$*\" >> hello.txt; echo \"$CODEX_HOME\" >> hello.txt; cat >> hello.txt\n{}",
        says(&stream("codex.jsonl"), 0)
    );
    let repo = with_stand_in("codex", &script);
    repo.run(&["run"]).code(0);
    let text = repo.git(&["show", "HEAD:hello.txt"]);
    for part in
        ["analytics = { enabled = false }", "exec --json", "/.codex", "# You Are a Worker", "begin your last answer"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('{') || !text.contains("{model}"), "{text}");
}

#[test]
fn the_login_of_each_agent_is_shown() {
    let script = format!("cat \"$GEMINI_CLI_SYSTEM_DEFAULTS_PATH\" > hello.txt\n{}", says(&stream("gemini.jsonl"), 0));
    let chosen = |repo: &Repo| {
        repo.run(&["run"]).code(0);
        repo.git(&["show", "HEAD:hello.txt"])
    };
    let repo = with_stand_in("gemini", &script);
    fs::create_dir_all(repo.home().join(".gemini")).unwrap();
    fs::write(repo.home().join(".gemini/oauth_creds.json"), "{}").unwrap();
    assert!(chosen(&repo).contains("oauth-personal"));
    let repo = with_stand_in("gemini", &script).with_env("GEMINI_API_KEY", "x");
    assert!(chosen(&repo).contains("gemini-api-key"));
}

#[test]
fn a_conversation_by_acp_is_allowed_what_the_task_owns() {
    let asks = |path: &str| {
        let options = json!([{ "optionId": "yes", "kind": "allow_once" }, { "optionId": "no", "kind": "reject_once" }]);
        let call = json!({ "toolCallId": "t", "kind": "edit", "locations": [{ "path": path }] });
        json!({ "jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": { "toolCall": call, "options": options } })
    };
    let ask = |path: &str| {
        format!("echo '{}'\nread -r answer\ncase \"$answer\" in *yes*) echo hello > {path};; esac\n", asks(path))
    };
    let answer = |id: u64, result: Value| {
        format!("read -r line\necho '{}'\n", json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    };
    let script = [
        answer(1, json!({ "agentInfo": { "name": "x" } })),
        answer(2, json!({ "sessionId": "s" })),
        "read -r line\ncase \"$line\" in *session/prompt*) ;; *) exit 7;; esac\n".to_owned(),
        ask("hello.txt"),
        ask("other.txt"),
        format!(
            "echo '{}'\ncat > /dev/null\n",
            json!({ "jsonrpc": "2.0", "id": 3, "result": { "stopReason": "end_turn" } })
        ),
    ];
    let repo = with_stand_in("gemini-acp", &script.concat());
    repo.run(&["run"]).code(0);
    assert_eq!(repo.task_status("A"), "completed");
    assert_eq!(repo.task("A")["attempts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn agents_are_listed_with_what_is_known_of_them() {
    let repo = Repo::new();
    repo.config("agent: mine\nagents: { mine: { kind: codex, command: [./stand-in], model: m }, gone: { kind: pi, command: [no-such-program] } }\n");
    repo.program("stand-in", "exit 1\n");
    let listed = repo.run(&["agents", "--json"]).code(0).json();
    let agent = |name: &str| {
        let agents = listed["agents"].as_array().unwrap();
        agents.iter().find(|agent| agent["name"] == name).unwrap().clone()
    };
    let mine = agent("mine");
    assert_eq!((&mine["kind"], &mine["model"], &mine["format"]), (&json!("codex"), &json!("m"), &json!("codex")));
    // A program of the repository is not started.
    assert_eq!((&mine["installed"], &mine["version"], &mine["default"]), (&json!(true), &json!(null), &json!(true)));
    assert_eq!((&agent("gone")["installed"], &agent("gone")["login"]), (&json!(false), &json!(null)));
    repo.run(&["agents"]).code(0).says("Installed").says("codex").says("gemini-acp");
    let repo = repo.with_env("OPENAI_API_KEY", "x");
    let listed = repo.run(&["agents", "--json"]).code(0).json();
    assert!(
        listed["agents"]
            .as_array()
            .unwrap()
            .iter()
            .any(|agent| agent["name"] == "mine" && agent["login"] == "OPENAI_API_KEY")
    );
}

#[test]
fn a_task_names_its_agent_and_model() {
    let script = format!("echo \"$*\" > hello.txt\n{}", says(&stream("codex.jsonl"), 0));
    let repo = with_stand_in("codex", &script);
    repo.config("agents: { codex: { command: [./stand-in] } }\n");
    repo.commit("another default");
    repo.graph(
        "x",
        &[with(plain("A", 1, "hello.txt"), json!({ "agent": "codex", "model": "gpt-x", "effort": "high" }))],
    );
    repo.run(&["run"]).code(0);
    let text = repo.git(&["show", "HEAD:hello.txt"]);
    assert!(text.contains("--model=gpt-x -c model_reasoning_effort=high"), "{text}");
}
