//! The Agent Client Protocol: JSON-RPC, one message a line, with the agent as the server. Agents read and write files by
//! themselves; what they ask permission for is answered by the paths that the task owns.

use std::path::Path;

use mahabharatha_core::graph::OwnedPath;
use serde_json::{Value, json};

use super::{Parser, Said, Scope, number_at, price_at, status_in, sum_at, text_at};

const PROTOCOL_VERSION: u32 = 1;
/// Ids of our requests.
const INITIALIZE: u64 = 1;
const NEW_SESSION: u64 = 2;
const PROMPT: u64 = 3;
const SELECT_MODEL: u64 = 4;
const METHOD_NOT_FOUND: i64 = -32601;
/// Reports as usage of a turn only that of its last step.
const REPORTS_LAST_STEP: &str = "OpenCode";

pub struct Acp {
    scope: Scope,
    session: String,
    /// The message of which pieces arrive.
    message: String,
    reports_turn: bool,
    /// Cost of the session so far.
    usd: f64,
}

/// Returns the line that begins the conversation.
pub fn begin() -> String {
    let capabilities = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
    let client = json!({ "name": "mahabharatha", "version": env!("CARGO_PKG_VERSION") });
    let params =
        json!({ "protocolVersion": PROTOCOL_VERSION, "clientInfo": client, "clientCapabilities": capabilities });
    request(INITIALIZE, "initialize", params)
}

fn request(id: u64, method: &str, params: Value) -> String {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

impl Acp {
    pub fn new(scope: Scope) -> Acp {
        Acp { scope, session: String::new(), message: String::new(), reports_turn: true, usd: 0.0 }
    }

    fn flush(&mut self, said: &mut Vec<Said>) {
        if !self.message.trim().is_empty() {
            said.push(Said::Text(std::mem::take(&mut self.message)));
        }
        self.message.clear();
    }

    /// Handles the answer to one of our requests.
    fn answered(&mut self, id: u64, answer: &Value, said: &mut Vec<Said>) {
        if let Some(error) = answer.get("error") {
            self.flush(said);
            let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
            // Some agents put the cause there.
            let details = error.get("data").map(Value::to_string).unwrap_or_default();
            let message = format!("{} {details}", text_at(error, "/message")).trim().to_owned();
            said.push(Said::Error { status: code.or_else(|| status_in(&message)), message });
            said.push(Said::End { ok: false });
            return;
        }
        let result = &answer["result"];
        match id {
            INITIALIZE => {
                self.reports_turn = text_at(result, "/agentInfo/name") != REPORTS_LAST_STEP;
                let params = json!({ "cwd": self.scope.worktree, "mcpServers": [] });
                said.push(Said::Send(request(NEW_SESSION, "session/new", params)));
            }
            NEW_SESSION => {
                self.session = text_at(result, "/sessionId").to_owned();
                let current = text_at(result, "/models/currentModelId");
                let current = (!current.is_empty()).then(|| current.to_owned());
                let model = self.scope.model.clone().or(current);
                said.push(Said::Session { id: self.session.clone(), model });
                let cancel =
                    json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": self.session } });
                said.push(Said::StopWith(format!("{cancel}\n")));
                match &self.scope.model {
                    Some(model) => self.select(model, result, said),
                    None => self.prompt(said),
                }
            }
            SELECT_MODEL => self.prompt(said),
            PROMPT => {
                self.flush(said);
                let quota = ["/_meta/quota/token_count/input_tokens", "/_meta/quota/token_count/output_tokens"];
                let turn = if self.reports_turn { number_at(result, "/usage/totalTokens") } else { 0 };
                match sum_at(result, &quota).max(turn) {
                    0 => {}
                    tokens => said.push(Said::Usage { tokens, usd: None }),
                }
                said.push(Said::End { ok: text_at(result, "/stopReason") == "end_turn" });
            }
            _ => {}
        }
    }

    /// Chooses the model in the way that a new session offers.
    fn select(&self, model: &str, session: &Value, said: &mut Vec<Said>) {
        let mut options = session["configOptions"].as_array().into_iter().flatten();
        let option = options.find(|option| text_at(option, "/category") == "model");
        let (method, params) = match option {
            Some(option) => {
                let params = json!({ "sessionId": self.session, "configId": option["id"], "value": model });
                ("session/set_config_option", params)
            }
            None if session["models"].is_object() => {
                ("session/set_model", json!({ "sessionId": self.session, "modelId": model }))
            }
            None => {
                let message = format!("it offers no choice of a model, and `model` is set to {model}");
                said.extend([Said::Error { status: None, message }, Said::End { ok: false }]);
                return;
            }
        };
        said.push(Said::Send(request(SELECT_MODEL, method, params)));
    }

    fn prompt(&self, said: &mut Vec<Said>) {
        let prompt = json!([{ "type": "text", "text": self.scope.prompt }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        said.push(Said::Send(request(PROMPT, "session/prompt", params)));
    }

    /// Handles a request of the agent.
    fn asked(&self, id: &Value, method: &str, params: &Value, said: &mut Vec<Said>) {
        let answer = if method == "session/request_permission" {
            let call = &params["toolCall"];
            let allowed = self.allows(call);
            if !allowed {
                said.push(Said::ToolEnd { id: text_at(call, "/toolCallId").to_owned(), denied: true });
            }
            let wanted = if allowed { "allow_once" } else { "reject_once" };
            let options = params["options"].as_array();
            let option = options.into_iter().flatten().find(|option| text_at(option, "/kind") == wanted);
            let outcome = match option {
                Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
                None => json!({ "outcome": "cancelled" }),
            };
            json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } })
        } else {
            let error = json!({ "code": METHOD_NOT_FOUND, "message": "method not found" });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        };
        said.push(Said::Send(format!("{answer}\n")));
    }

    /// Tells whether a tool call is allowed: changes of files only where the task owns all of them.
    fn allows(&self, call: &Value) -> bool {
        if !matches!(text_at(call, "/kind"), "edit" | "delete" | "move") {
            return true;
        }
        let locations: Vec<&str> =
            call["locations"].as_array().into_iter().flatten().map(|place| text_at(place, "/path")).collect();
        let raw = ["/rawInput/filePath", "/rawInput/file_path", "/rawInput/fileName", "/rawInput/path"];
        let raw: Vec<&str> = raw.iter().map(|pointer| text_at(call, pointer)).filter(|path| !path.is_empty()).collect();
        let paths = if locations.is_empty() { raw } else { locations };
        !paths.is_empty() && paths.iter().all(|path| self.owns(Path::new(path)))
    }

    fn owns(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.scope.worktree).ok().or_else(|| path.is_relative().then_some(path));
        let covers = |owned: &OwnedPath, path: &Path| {
            path == Path::new(&owned.path) || owned.directory && path.starts_with(&owned.path)
        };
        below.is_some_and(|path| {
            let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            is_plain && self.scope.owned.iter().any(|owned| covers(owned, path))
        })
    }

    fn updated(&mut self, update: &Value, said: &mut Vec<Said>) {
        let kind = text_at(update, "/sessionUpdate");
        if kind == "agent_message_chunk" {
            self.message.push_str(text_at(update, "/content/text"));
            match number_at(update, "/_meta/usage/totalTokens") {
                0 => {}
                tokens => said.push(Said::Usage { tokens, usd: None }),
            }
            return;
        }
        let id = || text_at(update, "/toolCallId").to_owned();
        match kind {
            "tool_call" => {
                self.flush(said);
                let mut input = update["rawInput"].clone();
                if let (Some(input), Some(path)) = (input.as_object_mut(), update.pointer("/locations/0/path")) {
                    input.insert("path".to_owned(), path.clone());
                }
                said.push(Said::ToolStart { id: id(), tool: text_at(update, "/kind").to_owned(), input });
            }
            "tool_call_update" if matches!(text_at(update, "/status"), "completed" | "failed") => {
                said.push(Said::ToolEnd { id: id(), denied: false });
            }
            "usage_update" => {
                if let Some(total) = price_at(update, "/cost/amount").filter(|total| *total > self.usd) {
                    said.push(Said::Usage { tokens: 0, usd: Some(total - self.usd) });
                    self.usd = total;
                }
            }
            _ => {}
        }
    }
}

impl Parser for Acp {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        match (message.get("id"), message["method"].as_str()) {
            (Some(id), Some(method)) => self.asked(id, method, &message["params"], said),
            (None, Some("session/update")) => self.updated(&message["params"]["update"], said),
            (Some(id), None) => self.answered(id.as_u64().unwrap_or_default(), &message, said),
            _ => {}
        }
    }

    fn end(&mut self, said: &mut Vec<Said>) {
        self.flush(said);
    }
}
