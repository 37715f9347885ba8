//! The engine's HTTP API on its Unix socket. A call takes milliseconds, one through the client's program a tenth of a second.
//! Paths have no version: both Docker and Podman then answer by their own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Time limit for an answer to begin, and for each part of it to arrive.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum size of an answer, and of a line in its head.
const MAX_BODY_BYTES: u64 = 64 << 20;
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What the engine answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    body: Vec<u8>,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the body; `Null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns what the engine says about an error.
    pub fn message(&self) -> String {
        let said = self.json()["message"].as_str().map(str::to_owned);
        said.unwrap_or_else(|| format!("HTTP status {} {}", self.status, String::from_utf8_lossy(&self.body).trim()))
    }
}

/// Sends a request and reads the answer.
pub(super) fn call(socket: &Path, method: &str, target: &str, body: Option<&Value>) -> io::Result<Answer> {
    let mut stream = send(socket, method, target, body, "Connection: close")?;
    let head = Head::read(&mut stream)?;
    Ok(Answer { status: head.status, body: head.body(&mut stream)? })
}

/// Sends a request whose connection becomes a stream in both directions. The answer is an error unless it did.
pub(super) fn open_stream(
    socket: &Path,
    target: &str,
    body: &Value,
) -> io::Result<Result<BufReader<UnixStream>, Answer>> {
    let mut stream = send(socket, "POST", target, Some(body), "Connection: Upgrade\r\nUpgrade: tcp")?;
    let head = Head::read(&mut stream)?;
    // 101 from the engines; 200 with a stream from one that does not know upgrades.
    if head.status == 101 || (head.status == 200 && head.length.is_none() && !head.chunked) {
        // A program may be silent for as long as it likes.
        stream.get_ref().set_read_timeout(None)?;
        return Ok(Ok(stream));
    }
    Ok(Err(Answer { status: head.status, body: head.body(&mut stream)? }))
}

fn send(
    socket: &Path,
    method: &str,
    target: &str,
    body: Option<&Value>,
    connection: &str,
) -> io::Result<BufReader<UnixStream>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: engine\r\n{connection}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    Ok(BufReader::new(stream))
}

/// The part of an answer's head that tells how to read the rest.
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
}

impl Head {
    fn read(reader: &mut impl BufRead) -> io::Result<Head> {
        let first = line(reader)?;
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        let mut head = Head { status: status.ok_or_else(malformed)?, length: None, chunked: false };
        loop {
            let line = line(reader)?;
            let Some((name, value)) = line.split_once(':') else {
                return if line.is_empty() { Ok(head) } else { Err(malformed()) };
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = Some(value.trim().parse().map_err(|_| malformed())?),
                "transfer-encoding" => head.chunked = value.trim().eq_ignore_ascii_case("chunked"),
                _ => {}
            }
        }
    }

    fn body(&self, reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        match (self.status, self.chunked, self.length) {
            (204 | 304, _, _) => {}
            (_, true, _) => loop {
                let line = line(reader)?;
                let size = line.split(';').next().and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
                match size.ok_or_else(malformed)? {
                    0 => break,
                    size => read_exactly(reader, size, &mut body)?,
                }
                if !self::line(reader)?.is_empty() {
                    return Err(malformed());
                }
            },
            (_, false, Some(length)) => read_exactly(reader, length, &mut body)?,
            (_, false, None) => drop(reader.take(MAX_BODY_BYTES).read_to_end(&mut body)?),
        }
        Ok(body)
    }
}

/// Reads a line and returns it without its end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).map(str::to_owned).ok_or_else(malformed)
}

/// Reads exactly `count` bytes into `body`; fails if `body` would exceed `MAX_BODY_BYTES`.
fn read_exactly(reader: &mut impl BufRead, count: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if count > MAX_BODY_BYTES.saturating_sub(body.len() as u64) {
        return Err(io::Error::other("the answer is too long"));
    }
    if reader.take(count).read_to_end(body)? as u64 != count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn malformed() -> io::Error {
    io::Error::other("the answer is not HTTP")
}

/// Escapes text for a path or a query.
pub(super) fn escaped(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte);
    let escape = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Answer> {
        let mut reader = text.as_bytes();
        let head = Head::read(&mut reader)?;
        Ok(Answer { status: head.status, body: head.body(&mut reader)? })
    }

    #[test]
    fn answers_end_by_length_by_chunks_or_with_the_connection() {
        let body = |text: &str| String::from_utf8(read(text).unwrap().body).unwrap();
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest"), "{}");
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\nA\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(body(chunks), "{}0123456789");
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\nall"), "all");
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n"), "");
    }

    #[test]
    fn what_is_no_answer_or_too_long_is_an_error() {
        for text in [
            "",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&format!("HTTP/1.1 200 OK\r\n{}", "x".repeat(1 << 20))).is_err());
    }

    #[test]
    fn errors_say_what_the_engine_said_and_names_cannot_leave_their_place() {
        assert_eq!(
            read("HTTP/1.1 404 N\r\n\r\n{\"message\":\"No such container\"}").unwrap().message(),
            "No such container"
        );
        assert_eq!(read("HTTP/1.1 500 N\r\n\r\nbroken\n").unwrap().message(), "HTTP status 500 broken");
        assert_eq!(escaped("a/b:1 x?y#z\r\n"), "a/b:1%20x%3Fy%23z%0D%0A");
    }
}
