//! Programs that the engine starts in a container, and their output.

use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::{Container, State, api};
use crate::error::{Error, Result};

/// Number that a frame of standard error begins with; frames of standard output have others.
const STDERR: u8 = 2;
/// Bytes kept of the output of a program of ours.
const OUTPUT_BYTES: u64 = 64 << 10;
/// Bytes kept of what a program of ours wrote to standard error.
const ERROR_BYTES: usize = 4 << 10;

impl Container {
    /// Starts a program of ours; as the user of the container's first process if none is given.
    pub(super) fn exec(&self, words: &[String], user: Option<String>) -> Result<BufReader<UnixStream>> {
        let mut request = json!({ "AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Cmd": words });
        if let Some(user) = user {
            request["User"] = user.into();
        }
        self.start_exec(&request).map_err(|error| self.why_refused(error))
    }

    fn start_exec(&self, request: &Value) -> Result<BufReader<UnixStream>> {
        let created = self.engine.expect("POST", &format!("/containers/{}/exec", self.name), Some(request))?;
        let id = created["Id"].as_str().unwrap_or_default();
        let start = json!({ "Detach": false, "Tty": false });
        self.engine.open_stream(&format!("/exec/{}/start", api::escaped(id)), &start)
    }

    /// Says why a program could not be started: the container may have ended since it was found running.
    fn why_refused(&self, error: Error) -> Error {
        match self.state() {
            Ok(State::Missing | State::Ended { .. }) => self.why_ended(""),
            Ok(State::Running { .. }) | Err(_) => error,
        }
    }

    /// Runs a script of ours, without input, and returns the beginning of what it printed.
    pub(super) fn output_of(&self, script: &str) -> Result<String> {
        let stream = self.exec(&["sh", "-c", script].map(str::to_owned), None)?;
        let mut output = Vec::new();
        // However the stream ends, this is what there is.
        let _ = Demultiplexed::new(stream).take(OUTPUT_BYTES).read_to_end(&mut output);
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

/// Standard output of a program, from the engine's stream of both.
pub(super) struct Demultiplexed {
    stream: BufReader<UnixStream>,
    /// Bytes that are left of the current frame.
    left: u64,
    /// The beginning of standard error.
    errors: Vec<u8>,
}

impl Demultiplexed {
    pub fn new(stream: BufReader<UnixStream>) -> Demultiplexed {
        Demultiplexed { stream, left: 0, errors: Vec::new() }
    }

    /// Tells whether everything that has arrived was read.
    pub fn is_drained(&self) -> bool {
        self.left == 0 && self.stream.buffer().is_empty()
    }

    /// Explains an error by what the program said on standard error.
    pub fn explain(&self, error: &io::Error) -> io::Error {
        let said = String::from_utf8_lossy(&self.errors);
        let said = if said.trim().is_empty() { "it closed its output" } else { said.trim() };
        io::Error::new(error.kind(), said)
    }

    /// Reads the head of the next frame: of which stream it is, and its length. `None` at the end.
    fn next_frame(&mut self) -> io::Result<Option<(u8, u64)>> {
        let mut head = [0; 8];
        match self.stream.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [kind, _, _, _, a, b, c, d] = head;
        Ok(Some((kind, u64::from(u32::from_be_bytes([a, b, c, d])))))
    }
}

impl Read for Demultiplexed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let Some((kind, length)) = self.next_frame()? else { return Ok(0) };
            if kind == STDERR {
                let mut said = Vec::new();
                self.stream.by_ref().take(length).read_to_end(&mut said)?;
                said.truncate(ERROR_BYTES - self.errors.len());
                self.errors.extend(said);
            } else {
                self.left = length;
            }
        }
        let count = self.stream.by_ref().take(self.left).read(buffer)?;
        self.left -= count as u64;
        Ok(count)
    }
}
