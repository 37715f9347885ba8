//! The page's server and a client for it, over plain sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::Repo;

/// After this long without an answer a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// `mahabharatha serve`, ended with the test at the latest.
pub struct Page {
    child: Child,
    pub port: u16,
    pub token: String,
}

pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// A stream of server-sent events.
pub struct Events {
    reader: BufReader<TcpStream>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Event {
    pub id: String,
    pub event: String,
    pub data: String,
}

impl Page {
    pub fn start(repo: &Repo, args: &[&str]) -> Page {
        let mut command = repo.command(&[&["serve", "--json"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        let url = said["url"].as_str().unwrap();
        let port = said["port"].as_u64().unwrap() as u16;
        let token = url.strip_prefix(&format!("http://127.0.0.1:{port}/")).and_then(|rest| rest.strip_suffix('/'));
        Page { child, port, token: token.unwrap().to_string() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The path of an address below the token.
    pub fn path(&self, path: &str) -> String {
        format!("/{}/{path}", self.token)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request as it stands, and reads until the server closes the connection.
    pub fn send(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a request need not read all of it.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::parse(&String::from_utf8_lossy(&answer))
    }

    /// Requests a whole path with these headers.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        self.send(
            format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                .as_bytes(),
        )
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", &self.path(path), &[("Host", &self.host())], "")
    }

    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    pub fn act(&self, feature: &str, action: &Value) -> Answer {
        let path = self.path(&format!("api/features/{feature}/actions"));
        let headers = [("Host", self.host()), ("Origin", format!("http://{}", self.host()))];
        let [host, origin] = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.request("POST", &path, &[host, origin, ("Content-Type", "application/json")], &action.to_string())
    }

    /// Opens a stream of events; `last` is the id of the last event of an earlier one.
    pub fn events(&self, path: &str, last: Option<&str>) -> Events {
        let mut stream = self.connect();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        // In HTTP/1.0 the body has no chunks.
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n{last}\r\n", self.path(path), self.host());
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let head: Vec<String> = (&mut reader).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert!(head.iter().any(|line| line.eq_ignore_ascii_case("content-type: text/event-stream")), "{head:?}");
        Events { reader }
    }

    /// Sends a signal and returns the exit code.
    pub fn end_by(mut self, signal: &str) -> Option<i32> {
        let pid = self.pid().to_string();
        assert!(std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_lowercase(), value.trim().to_string())
        };
        Answer { status, headers: lines.map(header).collect(), body: body.to_string() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }
}

/// Waits for each event; ends when the server closes the stream.
impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut found = Event::default();
        let mut line = String::new();
        while self.reader.read_line(&mut line).expect("an event within a minute") > 0 {
            match line.trim_end().split_once(':') {
                Some(("id", value)) => found.id = value.trim().to_string(),
                Some(("event", value)) => found.event = value.trim().to_string(),
                Some(("data", value)) => found.data.push_str(value.trim()),
                Some(_) => {}
                None if found == Event::default() => {}
                None => return Some(found),
            }
            line.clear();
        }
        None
    }
}

impl Event {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}
