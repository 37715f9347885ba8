//! A session of the client as a person has one: with the project's settings, commands, agents and hooks, and questions asked.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::claude_client;
use crate::client::Bench;

/// What was said in a session.
#[derive(Default)]
pub struct Talk {
    pub events: Vec<Value>,
    /// Uses of tools that the person was asked about. Questions are answered with "Approve", all else is refused.
    pub asked: Vec<Value>,
}

impl Talk {
    /// Texts that the model said to the person, in order, with `→ Tool` for every use of a tool by the session itself.
    pub fn course(&self) -> Vec<String> {
        let own =
            self.events.iter().filter(|event| event["type"] == "assistant" && event["parent_tool_use_id"].is_null());
        let blocks = own.flat_map(|event| event["message"]["content"].as_array().cloned().unwrap_or_default());
        blocks
            .map(|block| match block["type"].as_str() {
                Some("tool_use") => format!("→ {}", block["name"].as_str().unwrap_or_default()),
                _ => block["text"].as_str().unwrap_or_default().to_owned(),
            })
            .collect()
    }

    /// What tools gave, subagents' too.
    pub fn results(&self) -> Vec<String> {
        self.tool_results().map(|block| block["content"].to_string()).collect()
    }

    /// Those of them that were errors.
    pub fn errors(&self) -> Vec<String> {
        let errors = self.tool_results().filter(|block| block["is_error"] == true);
        errors.map(|block| block["content"].to_string()).collect()
    }

    fn tool_results(&self) -> impl Iterator<Item = &Value> {
        let users = self.events.iter().filter(|event| event["type"] == "user");
        let blocks = users.filter_map(|event| event["message"]["content"].as_array()).flatten();
        blocks.filter(|block| block["type"] == "tool_result")
    }

    pub fn init(&self) -> &Value {
        self.events.iter().find(|event| event["subtype"] == "init").unwrap()
    }
}

impl Bench {
    /// A bench whose project has commands, agents and hooks installed and committed.
    pub fn installed(api: crate::messages_api::Api, config: &str) -> Option<Bench> {
        let bench = Bench::new(api, config)?;
        bench.run(&["install"]).code(0);
        bench.repo.commit("commands");
        Some(bench)
    }

    /// What the person types, one after the other, each when the last is answered.
    pub fn talk(&self, lines: &[&str]) -> Talk {
        self.talk_with(&[("PATH", &path_to_the_program())], lines)
    }

    /// In an environment with these beside the usual ones.
    pub fn talk_with(&self, env: &[(&str, &str)], lines: &[&str]) -> Talk {
        self.talk_in(&self.repo.path(), env, lines)
    }

    /// In another directory than the repository.
    pub fn talk_in(&self, dir: &Path, env: &[(&str, &str)], lines: &[&str]) -> Talk {
        self.talk_by(dir, &[], env, lines)
    }

    /// With these arguments for the client.
    pub fn talk_by(&self, dir: &Path, args: &[&str], env: &[(&str, &str)], lines: &[&str]) -> Talk {
        let outer = self.command(&[]);
        let mut client = Command::new("timeout");
        client.args(["--kill-after=5", "240"]).arg(claude_client::program().unwrap());
        client.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        client.args(["--permission-prompt-tool", "stdio"]).args(args).current_dir(dir).env_clear();
        client.envs(outer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        client.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").envs(env.iter().copied());
        let mut child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut send = |value: Value| writeln!(stdin, "{value}").unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut talk = Talk::default();
        for line in lines {
            send(json!({ "type": "user", "message": { "role": "user", "content": line } }));
            loop {
                let event = output.next().expect("the client ended before it answered").unwrap();
                let event: Value = serde_json::from_str(&event).unwrap();
                if event["type"] == "control_request" {
                    send(json!({ "type": "control_response", "response": {
                        "subtype": "success", "request_id": event["request_id"], "response": talk.answer(&event["request"]),
                    } }));
                }
                let is_over = event["type"] == "result";
                talk.events.push(event);
                if is_over {
                    break;
                }
            }
        }
        drop(stdin);
        for event in output {
            talk.events.push(serde_json::from_str(&event.unwrap()).unwrap());
        }
        assert!(child.wait().unwrap().success());
        talk
    }
}

/// A PATH on which the program is.
pub fn path_to_the_program() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_mahabharatha")).parent().unwrap();
    format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default())
}

impl Talk {
    fn answer(&mut self, request: &Value) -> Value {
        self.asked.push(request.clone());
        if request["tool_name"] != "AskUserQuestion" {
            return json!({ "behavior": "deny", "message": "the person says no" });
        }
        let mut input = request["input"].clone();
        let questions = input["questions"].as_array().unwrap().iter();
        let answers = questions.map(|question| (question["question"].as_str().unwrap().to_owned(), json!("Approve")));
        input["answers"] = Value::Object(answers.collect());
        json!({ "behavior": "allow", "updatedInput": input })
    }
}
