//! The only module that connects over TCP: one POST over plain HTTP, within a time limit.
//!
//! Called by `engine/report` to send a trace. Nothing else may connect with it, and it must never wait beyond its limit.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Most bytes read of an answer.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// An address such as `http://localhost:4318/v1/traces`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    host: String,
    port: u16,
    path: String,
}

impl HttpUrl {
    /// Parses the address; the error says what it must be.
    pub fn parse(text: &str) -> Result<HttpUrl, &'static str> {
        let text = text.trim();
        let rest = text.strip_prefix("http://").ok_or("it must begin with http://")?;
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        if authority.contains('@') || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err("it must be a plain address without a user name");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| "its port must be a number")?)
            }
            _ => (authority, 80),
        };
        if host.is_empty() {
            return Err("it must name a host");
        }
        Ok(HttpUrl { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Returns the address with a path below its own.
    pub fn join(&self, path: &str) -> HttpUrl {
        let above = self.path.trim_end_matches('/');
        let path = if above.is_empty() { path.to_owned() } else { format!("{above}/{path}") };
        HttpUrl { path, ..self.clone() }
    }
}

/// Posts JSON and returns once it was accepted; the error says why it was not. Gives up after `limit`, whatever hangs.
pub fn post_json(url: &HttpUrl, body: String, limit: Duration) -> Result<(), String> {
    let (sender, answer) = mpsc::channel();
    let url = url.clone();
    // A name may take longer to resolve than any limit that sockets have.
    thread::spawn(move || drop(sender.send(try_post(&url, &body, limit))));
    answer.recv_timeout(limit).unwrap_or_else(|_| Err(format!("no answer within {} seconds", limit.as_secs())))
}

fn try_post(url: &HttpUrl, body: &str, limit: Duration) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let host = url.host.trim_matches(['[', ']']);
    let mut last = format!("{host} has no address");
    for address in (host, url.port).to_socket_addrs().map_err(text)? {
        let mut stream = match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => stream,
            Err(error) => {
                last = error.to_string();
                continue;
            }
        };
        stream.set_read_timeout(Some(limit)).and_then(|()| stream.set_write_timeout(Some(limit))).map_err(text)?;
        let request = format!(
            "POST /{} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            url.path,
            url.host,
            url.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(text)?;
        let mut answer = Vec::new();
        // A server that closes early may have answered all the same.
        let _ = stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer);
        return accepted(&answer);
    }
    Err(last)
}

fn accepted(answer: &[u8]) -> Result<(), String> {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let code = line.strip_prefix("HTTP/").and_then(|rest| rest.split_whitespace().nth(1));
    match code {
        Some(code) if code.starts_with('2') => Ok(()),
        Some(code) => Err(format!("it answered {}", code.chars().take(3).collect::<String>())),
        None => Err("it did not answer in HTTP".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::net::TcpListener;

    use super::*;

    fn answering(answer: &'static str) -> (HttpUrl, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = HttpUrl::parse(&format!("http://{}/base/", listener.local_addr().unwrap())).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            first
        });
        (url, server)
    }

    #[test]
    fn what_the_server_answers_decides() {
        for (answer, result) in [
            ("HTTP/1.1 200 OK\r\n\r\n{}", Ok(())),
            ("HTTP/1.1 503 Busy\r\n\r\n", Err("it answered 503".to_owned())),
            ("SSH-2.0\r\n", Err("it did not answer in HTTP".to_owned())),
            ("", Err("it did not answer in HTTP".to_owned())),
        ] {
            let (url, server) = answering(answer);
            assert_eq!(post_json(&url.join("v1/traces"), "{}".to_owned(), Duration::from_secs(20)), result);
            assert_eq!(server.join().unwrap(), "POST /base/v1/traces HTTP/1.1\r\n");
        }
    }

    #[test]
    fn a_server_that_hangs_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = HttpUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        assert!(post_json(&url, "{}".to_owned(), Duration::from_millis(100)).is_err());
    }

    #[test]
    fn only_plain_addresses_are_taken() {
        let url = |host: &str, port, path: &str| Ok(HttpUrl { host: host.to_owned(), port, path: path.to_owned() });
        assert_eq!(HttpUrl::parse("http://localhost:4318"), url("localhost", 4318, ""));
        assert_eq!(HttpUrl::parse(" http://[::1]:4318/a/b "), url("[::1]", 4318, "a/b"));
        assert_eq!(HttpUrl::parse("http://host"), url("host", 80, ""));
        for bad in [
            "https://host",
            "host:4318",
            "http://",
            "http://u:p@host",
            "http://host:port",
            "http://h/a b",
            "http://h\r\nX: y",
        ] {
            assert!(HttpUrl::parse(bad).is_err(), "{bad}");
        }
    }
}
