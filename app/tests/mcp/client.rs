//! The official client of the protocol, which the test tells what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mahabharatha_testing::support::{Repo, pass_over};
use serde_json::{Value, json};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the modules of the client; none if it is not installed, which is said.
fn modules() -> Option<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("target/mcp-client/node_modules");
    if !modules.join("@modelcontextprotocol/sdk").is_dir() {
        pass_over("the MCP server with the official client: `./test` installs it");
        return None;
    }
    Some(modules)
}

pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Answers that came while another one was awaited.
    early: Vec<Value>,
    asked: u64,
    /// What the client said of the server when it had connected.
    pub hello: Value,
}

impl Client {
    /// Connects to a new server in the repository.
    pub fn connect(repo: &Repo) -> Option<Client> {
        Client::connect_with(repo, &["mcp"])
    }

    pub fn connect_with(repo: &Repo, args: &[&str]) -> Option<Client> {
        let modules = modules()?;
        let server = repo.command(args);
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.mjs")).arg(server.get_program());
        command.args(server.get_args()).current_dir(repo.path()).env("MCP_MODULES", modules);
        for (name, value) in server.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in output.map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let stdin = child.stdin.take();
        let hello = lines.recv_timeout(PATIENCE).unwrap();
        Some(Client { child, stdin, lines, early: Vec::new(), asked: 0, hello })
    }

    fn send(&mut self, line: Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Asks without waiting for the answer.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        self.send(json!({ "id": self.asked, "method": method, "params": params }));
        self.asked
    }

    pub fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("callTool", json!({ "name": tool, "arguments": arguments }))
    }

    pub fn cancel(&mut self, id: u64) {
        self.send(json!({ "cancel": id }));
    }

    pub fn answer(&mut self, id: u64) -> Value {
        if let Some(at) = self.early.iter().position(|line| line["id"] == id) {
            return self.early.remove(at);
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap();
            assert!(line["trouble"].is_null(), "{line}");
            if line["id"] == id {
                return line;
            }
            self.early.push(line);
        }
    }

    /// Waits for the result of a method.
    #[track_caller]
    pub fn get(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool, which must do what is asked; returns its data.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.get("callTool", json!({ "name": tool, "arguments": arguments }));
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool, which must refuse; returns its data, with the `error`.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.get("callTool", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let error = &result["structuredContent"]["error"];
        assert!(error["code"].is_u64() && error["kind"].is_string() && error["message"].is_string(), "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("error: ") && text.contains(error["message"].as_str().unwrap()), "{result}");
        result["structuredContent"].clone()
    }

    /// The process of the server.
    pub fn server(&self) -> u32 {
        self.hello["pid"].as_u64().unwrap() as u32
    }

    /// Disconnects as the client does by itself, and waits for its end.
    pub fn disconnect(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Kills the client, so that it cannot end anything in order.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
