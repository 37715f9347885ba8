//! A Messages API on loopback that answers by a script: what the real client is driven against.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::loopback::{self, Request, Response};
use crate::prompt_text::{self, collect_texts};

/// What the client asked.
#[derive(Debug, Clone)]
pub struct Ask {
    pub body: Value,
    /// The length of the body.
    pub bytes: usize,
}

/// What an answer uses up, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub cache_creation: u64,
    pub cache_read: u64,
    pub output: u64,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input + self.cache_creation + self.cache_read + self.output
    }
}

impl Default for Usage {
    fn default() -> Self {
        Usage { input: 1_000, cache_creation: 0, cache_read: 0, output: 20 }
    }
}

/// What it is answered.
#[derive(Debug, Clone)]
pub enum Reply {
    Message {
        blocks: Vec<Value>,
        usage: Usage,
    },
    Error {
        status: u16,
        kind: &'static str,
        message: &'static str,
        headers: Vec<(&'static str, String)>,
    },
    /// The connection breaks in the middle of an answer.
    Dropped,
}

impl Reply {
    pub fn says(text: &str) -> Reply {
        Reply::of(vec![json!({ "type": "text", "text": text })])
    }

    pub fn of(blocks: Vec<Value>) -> Reply {
        Reply::Message { blocks, usage: Usage::default() }
    }

    pub fn uses(tool: &str, input: Value) -> Reply {
        Reply::of(vec![tool_use(tool, input)])
    }

    /// With so much to read before it.
    pub fn reading(self, tokens: u64) -> Reply {
        self.using(Usage { input: tokens, ..Usage::default() })
    }

    /// With this usage.
    pub fn using(self, usage: Usage) -> Reply {
        match self {
            Reply::Message { blocks, .. } => Reply::Message { blocks, usage },
            other => other,
        }
    }

    pub fn fails(status: u16, kind: &'static str) -> Reply {
        Reply::Error { status, kind, message: "scripted", headers: Vec::new() }
    }
}

pub fn tool_use(tool: &str, input: Value) -> Value {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = format!("toolu_{:024}", COUNT.fetch_add(1, Ordering::Relaxed));
    json!({ "type": "tool_use", "id": id, "name": tool, "input": input })
}

impl Ask {
    fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// How many answers there were before.
    pub fn turn(&self) -> usize {
        self.messages().iter().filter(|message| message["role"] == "assistant").count()
    }

    /// Everything in the request but the model's own messages.
    pub fn text(&self) -> String {
        let mut texts = Vec::new();
        for message in self.messages().iter().filter(|message| message["role"] != "assistant") {
            collect_texts(&message["content"], &mut texts);
        }
        texts.join("\n")
    }

    /// What was said since the model's last answer.
    pub fn last(&self) -> String {
        let mut texts = Vec::new();
        let from = self.messages().iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
        self.messages()[from..].iter().for_each(|message| collect_texts(&message["content"], &mut texts));
        texts.join("\n")
    }

    /// Runs a command with the arguments of the slash command, then repeats what it printed.
    pub fn runs(&self, command: &str) -> Reply {
        let text = self.text();
        let arguments = text.lines().find_map(|line| line.strip_prefix("Arguments: ")).unwrap_or_default();
        match self.turn() {
            0 => bash(&format!("{command} {arguments}")),
            _ => Reply::says(&self.last()),
        }
    }

    /// The tools that the model used in its last answer: id, name and input of each.
    pub fn last_tool_uses(&self) -> Vec<(String, String, Value)> {
        let last = self.messages().iter().rfind(|message| message["role"] == "assistant");
        last.map(uses_in).unwrap_or_default()
    }

    /// All tools that the model used so far: id, name and input of each.
    pub fn tool_uses(&self) -> Vec<(String, String, Value)> {
        self.messages().iter().filter(|message| message["role"] == "assistant").flat_map(uses_in).collect()
    }

    /// What all uses of tools gave, by their ids.
    pub fn tool_results(&self) -> BTreeMap<String, String> {
        let blocks = self.messages().iter().filter_map(|message| message["content"].as_array()).flatten();
        let results = blocks.filter(|block| block["type"] == "tool_result");
        results
            .map(|block| {
                let mut texts = Vec::new();
                collect_texts(&block["content"], &mut texts);
                (block["tool_use_id"].as_str().unwrap_or_default().to_owned(), texts.join("\n"))
            })
            .collect()
    }

    /// Whether the session itself asks, not a subagent of it.
    pub fn is_main(&self) -> bool {
        self.tools().iter().any(|tool| tool == "Agent")
    }

    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
    }

    /// The directory that the session works in, as the client says.
    pub fn cwd(&self) -> PathBuf {
        let all = self.system() + &self.text();
        let line = all
            .lines()
            .find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("Primary working directory: "));
        PathBuf::from(line.unwrap_or_default())
    }

    /// How many bytes two requests share at their beginning, in the order in which the service looks for what it has seen
    /// before.
    pub fn shared_with(&self, other: &Ask) -> usize {
        let cached = |ask: &Ask| ["tools", "system", "messages"].map(|part| ask.body[part].to_string()).concat();
        cached(self).bytes().zip(cached(other).bytes()).take_while(|(one, other)| one == other).count()
    }

    /// How many bytes the client adds about the machine and the directory, as a message of the system or as a reminder before
    /// what the user says. We control neither their content nor their position.
    pub fn bytes_of_client(&self) -> usize {
        let (of_system, others): (Vec<&Value>, Vec<&Value>) =
            self.messages().iter().partition(|message| message["role"] == "system");
        let blocks = others.into_iter().filter_map(|message| message["content"].as_array()).flatten();
        let is_reminder =
            |block: &&Value| block["text"].as_str().is_some_and(|text| text.starts_with("<system-reminder>"));
        of_system.into_iter().chain(blocks.filter(is_reminder)).map(|part| part.to_string().len()).sum()
    }

    pub fn system(&self) -> String {
        let mut texts = Vec::new();
        collect_texts(&self.body["system"], &mut texts);
        texts.join("\n")
    }

    pub fn task(&self) -> String {
        prompt_text::fact(&self.text(), "Task")
    }

    pub fn attempt(&self) -> String {
        prompt_text::fact(&self.text(), "Attempt")
    }

    pub fn worktree(&self) -> String {
        prompt_text::worktree(&self.text())
    }

    pub fn file(&self, path: &str) -> String {
        format!("{}/{path}", self.worktree())
    }

    /// A Write of a file in the worktree.
    pub fn write(&self, path: &str, content: &str) -> Reply {
        Reply::uses("Write", json!({ "file_path": self.file(path), "content": content }))
    }
}

fn uses_in(message: &Value) -> Vec<(String, String, Value)> {
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let uses = blocks.iter().filter(|block| block["type"] == "tool_use");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    uses.map(|block| (text(&block["id"]), text(&block["name"]), block["input"].clone())).collect()
}

pub fn bash(command: &str) -> Reply {
    Reply::uses("Bash", json!({ "command": command, "description": "scripted" }))
}

pub struct Api {
    port: u16,
    asked: Arc<Mutex<Vec<Ask>>>,
    served: Arc<Mutex<Vec<(Ask, Usage)>>>,
}

impl Api {
    /// Listens until the test process ends. The script may block; every connection has its own thread.
    pub fn start(script: impl Fn(&Ask) -> Reply + Send + Sync + 'static) -> Api {
        let (asked, served) = (Arc::<Mutex<Vec<Ask>>>::default(), Arc::<Mutex<Vec<(Ask, Usage)>>>::default());
        let (asks, serves) = (Arc::clone(&asked), Arc::clone(&served));
        let port = loopback::listen(move |request| match read(request) {
            Ok(ask) => {
                asks.lock().unwrap().push(ask.clone());
                let reply = script(&ask);
                if let Reply::Message { usage, .. } = &reply {
                    serves.lock().unwrap().push((ask.clone(), *usage));
                }
                write(&ask, reply)
            }
            Err(response) => response,
        });
        Api { port, asked, served }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn asked(&self) -> Vec<Ask> {
        self.asked.lock().unwrap().clone()
    }

    /// The requests that were answered whole, with what each answer used up.
    pub fn served(&self) -> Vec<(Ask, Usage)> {
        self.served.lock().unwrap().clone()
    }

    /// The requests about a task.
    pub fn asked_about(&self, task: &str) -> Vec<Ask> {
        self.asked().into_iter().filter(|ask| ask.task() == task).collect()
    }
}

/// What the client asks; else the answer to a request that the script does not decide.
fn read(request: &Request) -> Result<Ask, Response> {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/messages") => {
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            Ok(Ask { body, bytes: request.body.len() })
        }
        // Clients before 2.1.325 count when they are asked for the context's size.
        ("POST", "/v1/messages/count_tokens") => Err(Response::json(200, &json!({ "input_tokens": 1 }))),
        _ => Err(Response::json(404, &json!({}))),
    }
}

fn write(ask: &Ask, reply: Reply) -> Response {
    match reply {
        Reply::Message { blocks, usage } => match ask.body["stream"].as_bool() {
            Some(true) => Response::events(events(&ask.body, &blocks, usage)),
            // After a stream that broke, the client may ask for the answer in one piece.
            _ => Response::json(200, &whole(&ask.body, &blocks, usage)),
        },
        Reply::Error { status, kind, message, headers } => {
            let body = json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string();
            Response::Whole { status, kind: "application/json", headers, body }
        }
        Reply::Dropped => {
            Response::Half(events(&ask.body, &[json!({ "type": "text", "text": "half" })], Usage::default()))
        }
    }
}

/// The message in one piece.
pub(crate) fn whole(asked: &Value, blocks: &[Value], usage: Usage) -> Value {
    let uses_tools = blocks.iter().any(|block| block["type"] == "tool_use");
    let stop = if uses_tools { "tool_use" } else { "end_turn" };
    let Usage { input, cache_creation, cache_read, output } = usage;
    let usage = json!({
        "input_tokens": input, "cache_creation_input_tokens": cache_creation, "cache_read_input_tokens": cache_read,
        "output_tokens": output,
    });
    let id = tool_use("", Value::Null)["id"].as_str().unwrap_or_default().replace("toolu", "msg");
    json!({
        "id": id, "type": "message", "role": "assistant", "model": asked["model"], "content": blocks,
        "stop_reason": stop, "stop_sequence": null, "usage": usage,
    })
}

/// The message as the stream of events that the service sends.
pub(crate) fn events(asked: &Value, blocks: &[Value], usage: Usage) -> String {
    let mut message = whole(asked, blocks, usage);
    let stop = std::mem::take(&mut message["stop_reason"]);
    message["content"] = json!([]);
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = if block["type"] == "text" {
            (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": block["text"] }))
        } else {
            let start = json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} });
            (start, json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }))
        };
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": usage.output } }));
    events.push(json!({ "type": "message_stop" }));
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect()
}
