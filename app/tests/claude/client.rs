//! A repository whose agent is the real client, with a home of its own.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::claude_client;
use crate::messages_api::Api;
use crate::support::{Background, Ran, Repo};

pub struct Bench {
    pub repo: Repo,
    pub api: Api,
    home: tempfile::TempDir,
}

impl Bench {
    /// Nothing where there is no client: that is said, and on CI it is a failure.
    pub fn new(api: Api, config: &str) -> Option<Bench> {
        let Some(program) = claude_client::program() else {
            assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "the Claude Code client is not installed");
            eprintln!("NOT TESTED: the Claude Code client is not installed; ./test does that");
            return None;
        };
        let repo = Repo::new();
        let command = json!(program.to_str().unwrap());
        let agent = format!("agents: {{ claude: {{ command: {command}, env: [CLAUDE_CODE_MAX_RETRIES] }} }}\n");
        repo.config(&format!("{agent}retry: {{ base_seconds: 0, max_seconds: 0 }}\n{config}"));
        repo.commit("configured");
        Some(Bench { repo, api, home: tempfile::tempdir().unwrap() })
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.repo.command(args);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("ANTHROPIC_BASE_URL", self.api.url())
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("CLAUDE_CODE_MAX_RETRIES", "1");
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn spawn(&self, args: &[&str]) -> Background {
        Background::start(self.command(args))
    }

    /// What the task's log holds of these events, in order.
    pub fn events(&self, task: &str, names: &[&str]) -> Vec<String> {
        let log = self.repo.read(&format!(".mahabharatha/logs/x/tasks/{task}.jsonl"));
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let wanted = lines.filter(|line| names.contains(&line["event"].as_str().unwrap()));
        wanted.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether the client runs subagents in the background unless it is told otherwise.
    pub fn has_background_subagents() -> bool {
        let program = claude_client::program().unwrap();
        let output = Command::new(program).arg("--version").output().unwrap();
        !String::from_utf8_lossy(&output.stdout).starts_with("2.1.197 ")
    }

    /// The status of a task in the client's list of a feature.
    pub fn listed(&self, feature: &str, task: &str) -> Value {
        let entries = fs::read_dir(self.home().join(".claude/tasks").join(feature)).unwrap().flatten();
        let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        let mut entries = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        entries.find(|entry| entry["metadata"]["task"] == task).unwrap()["status"].clone()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Whether a text stands in any file below the directory.
    pub fn is_in_files(dir: &Path, text: &str) -> bool {
        let Ok(entries) = fs::read_dir(dir) else { return false };
        entries.flatten().any(|entry| {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                return Bench::is_in_files(&path, text);
            }
            fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        })
    }
}

/// The version of the client under test.
pub fn version() -> String {
    let said = Command::new(claude_client::program().unwrap()).arg("--version").output().unwrap();
    String::from_utf8(said.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

/// The context window of its models in tokens, as the client says.
pub fn window() -> u64 {
    static WINDOW: OnceLock<u64> = OnceLock::new();
    *WINDOW.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let mut client = Command::new(claude_client::program().unwrap())
            .args(["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"])
            .args(["--setting-sources", "", "--strict-mcp-config", "--model", "sonnet"])
            .env_clear()
            .envs([("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"), ("ANTHROPIC_API_KEY", "none")])
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let request = json!({ "subtype": "get_context_usage", "detail": "summary" });
        let request = json!({ "type": "control_request", "request_id": "w", "request": request });
        // The client ends when it has answered, as nothing more is to come.
        client.stdin.take().unwrap().write_all(format!("{request}\n").as_bytes()).unwrap();
        let output = client.wait_with_output().unwrap().stdout;
        let lines =
            std::str::from_utf8(&output).unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut windows = lines.filter_map(|line| line["response"]["response"]["maxTokens"].as_u64());
        windows.next().unwrap()
    })
}

/// A key that must turn up nowhere.
pub const SECRET: &str = "sk-not-a-key-0f5d3a";

/// A task for the client that creates `file`, verified by its first line.
pub fn task(id: &str, level: u32, file: &str) -> Value {
    json!({
        "id": id, "title": format!("Make {file}"), "level": level,
        "files": { "create": [file], "modify": [], "read": [] }, "dependencies": [],
        "verification": { "command": format!("grep -q {id} '{file}'"), "timeout_seconds": 30 },
    })
}
