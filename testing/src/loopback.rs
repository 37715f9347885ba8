//! A small HTTP server on loopback, on which the scripted model APIs answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

pub struct Request {
    pub method: String,
    /// The path without its query.
    pub path: String,
    pub body: Vec<u8>,
}

pub enum Response {
    Whole {
        status: u16,
        kind: &'static str,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// The connection breaks after half of this stream of events.
    Half(String),
    /// Nothing, until the client closes the connection.
    Never,
}

impl Response {
    pub fn json(status: u16, body: &serde_json::Value) -> Response {
        Response::Whole { status, kind: "application/json", headers: Vec::new(), body: body.to_string() }
    }

    pub fn events(body: String) -> Response {
        Response::Whole { status: 200, kind: "text/event-stream", headers: Vec::new(), body }
    }
}

/// Listens until the test process ends, and returns the port. The answer may block; every connection has its own thread.
pub fn listen(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let _ = serve(stream, &*answer);
            });
        }
    });
    port
}

/// One connection, request after request.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&Request) -> Response) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut reader)? {
        match answer(&request) {
            Response::Whole { status, kind, headers, body } => {
                let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                write_head(&mut stream, status, kind, body.len(), &extra)?;
                stream.write_all(body.as_bytes())?;
            }
            Response::Half(body) => {
                write_head(&mut stream, 200, "text/event-stream", body.len(), "")?;
                return stream.write_all(&body.as_bytes()[..body.len() / 2]);
            }
            Response::Never => {
                io::copy(&mut reader, &mut io::sink())?;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns nothing once the client has closed the connection.
fn read_request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
        is_chunked |= name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked");
    }
    let body = if is_chunked { read_chunks(reader)? } else { read_bytes(reader, length)? };
    let mut words = first.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().and_then(|path| path.split('?').next()).unwrap_or_default().to_owned();
    Ok(Some(Request { method, path, body }))
}

fn read_bytes(reader: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        body.extend(read_bytes(reader, size)?);
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn write_head(stream: &mut TcpStream, status: u16, kind: &str, length: usize, extra: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{extra}\r\n");
    stream.write_all(head.as_bytes())
}
