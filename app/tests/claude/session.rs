//! A session of the client as a person has one: with the project's settings, commands, agents and hooks, and questions asked.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use mahabharatha_testing::tmux::Tmux;
use serde_json::{Value, json};

use crate::claude_client;
use crate::client::{Bench, SECRET};
use crate::support::Background;

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
        let mut client = self.session_command(dir, env);
        client.args(args);
        talk(client, lines, |_| true)
    }

    /// One line, and the turns that follow by themselves until the model says these words; questions are answered in all.
    pub fn talk_until(&self, last: &str, env: &[(&str, &str)], line: &str) -> Talk {
        talk(self.session_command(&self.repo.path(), env), &[line], |result| result["result"] == last)
    }

    /// The client as a program that is talked to.
    fn session_command(&self, dir: &Path, env: &[(&str, &str)]) -> Command {
        let mut client = Command::new("timeout");
        client.args(["--kill-after=5", "240"]).arg(claude_client::program().unwrap());
        client.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        client.args(["--permission-prompt-tool", "stdio"]).current_dir(dir);
        client.env_clear().envs(self.session_env()).envs(env.iter().copied());
        client
    }
}

/// Says each line when the last is answered, by a result that is the end of it.
fn talk(mut client: Command, lines: &[&str], is_end: impl Fn(&Value) -> bool) -> Talk {
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
            let is_over = event["type"] == "result" && is_end(&event);
            talk.events.push(event);
            if is_over {
                break;
            }
        }
    }
    drop(stdin);
    for event in output {
        let event: Value = serde_json::from_str(&event.unwrap()).unwrap();
        if event["type"] == "control_request" {
            talk.asked.push(event["request"].clone());
        }
        talk.events.push(event);
    }
    assert!(child.wait().unwrap().success());
    talk
}

impl Bench {
    /// The environment of a session, without a PATH to the program.
    fn session_env(&self) -> Vec<(OsString, OsString)> {
        let outer = self.command(&[]);
        let of_bench = outer.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        of_bench.chain([("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into())]).collect()
    }

    /// A session that does what one line says and can be killed.
    pub fn start_session(&self, line: &str) -> Background {
        let mut client = Command::new(claude_client::program().unwrap());
        client.args(["-p", line, "--permission-mode", "default"]).current_dir(self.repo.path()).stdin(Stdio::null());
        client.env_clear().envs(self.session_env()).env("PATH", path_to_the_program());
        Background::start(client)
    }

    /// A session in a terminal, as a person has one who has been through the client's first questions.
    pub fn open_terminal(&self) -> Tmux {
        let project = json!({ "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true });
        let settings = json!({
            "hasCompletedOnboarding": true, "theme": "dark", "lastOnboardingVersion": "99.0.0",
            "customApiKeyResponses": { "approved": [SECRET], "rejected": [] },
            "projects": { self.repo.path().to_str().unwrap(): project },
        });
        std::fs::write(self.home().join(".claude.json"), settings.to_string()).unwrap();
        let mut words = vec!["env".to_owned(), "-i".to_owned(), "TERM=xterm-256color".to_owned()];
        for (name, value) in self.session_env().iter().filter(|(name, _)| name != "PATH") {
            words.push(format!("{}={}", name.to_str().unwrap(), value.to_str().unwrap()));
        }
        words.push(format!("PATH={}", path_to_the_program()));
        words.push(claude_client::program().unwrap().to_str().unwrap().to_owned());
        words.extend(["--permission-mode", "default"].map(str::to_owned));
        Tmux::open(&self.repo, &words)
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
