//! Programs in a container: their streams and how they end.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Container, State, api};
use crate::error::{Error, Kind, Result};

/// Number that a frame of standard error begins with; frames of standard output have others.
const STDERR: u8 = 2;
/// Poll interval for the end of a program that has closed its output.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes kept of the output of a program of ours.
const OUTPUT_BYTES: u64 = 64 << 10;

/// A program to run in a container.
#[derive(Debug, Default)]
pub struct Program {
    /// Program and arguments.
    pub words: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub workdir: Option<OsString>,
    /// User and group; those of the container's first process if there are none.
    pub user: Option<String>,
}

/// A program that was started.
pub struct Exec<'a> {
    container: &'a Container,
    id: String,
    stream: BufReader<UnixStream>,
}

impl Container {
    /// Starts a program. Its variables are part of the request, so that no value is on a command line.
    pub fn exec(&self, program: &Program) -> Result<Exec<'_>> {
        let lossy = |text: &OsString| text.to_string_lossy().into_owned();
        let words: Vec<String> = program.words.iter().map(lossy).collect();
        let env: Vec<String> = program.env.iter().map(|(key, value)| lossy(key) + "=" + &lossy(value)).collect();
        let mut request =
            json!({ "AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Cmd": words, "Env": env });
        let options = [("WorkingDir", program.workdir.as_ref().map(lossy)), ("User", program.user.clone())];
        for (key, value) in options.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            request[key] = value.into();
        }
        self.start_exec(&request).map_err(|error| self.why_refused(error))
    }

    fn start_exec(&self, request: &Value) -> Result<Exec<'_>> {
        let created = self.engine.expect("POST", &format!("/containers/{}/exec", self.name), Some(request))?;
        let id = created["Id"].as_str().unwrap_or_default().to_owned();
        let start = json!({ "Detach": false, "Tty": false });
        let stream = self.engine.open_stream(&format!("/exec/{}/start", api::escaped(&id)), &start)?;
        Ok(Exec { container: self, id, stream })
    }

    /// Says why a program could not be started: the container may have ended since it was found running.
    fn why_refused(&self, error: Error) -> Error {
        match self.state() {
            Ok(State::Missing | State::Ended { .. }) => self.why_ended(),
            Ok(State::Running { .. }) | Err(_) => error,
        }
    }

    /// Runs a program of ours, without input, and returns the beginning of what it printed.
    pub(super) fn output_of(&self, program: &Program) -> Result<String> {
        let mut output = Capture(Vec::new());
        self.exec(program)?.pass(io::empty(), &mut output, io::sink())?;
        Ok(String::from_utf8_lossy(&output.0).into_owned())
    }
}

impl Exec<'_> {
    /// Passes the streams on until the program has ended and returns its exit code. Fails if the container or the engine
    /// went away meanwhile.
    pub fn pass(
        mut self,
        mut input: impl Read + Send + 'static,
        mut out: impl Write,
        mut err: impl Write,
    ) -> Result<i32> {
        let lost = |error: io::Error| self.container.engine.lost(&error);
        let mut to = self.stream.get_ref().try_clone().map_err(lost)?;
        let feed = move || {
            // Fails when the program has ended, or does not want to read.
            let _ = io::copy(&mut input, &mut to).and_then(|_| to.shutdown(Shutdown::Write));
        };
        thread::Builder::new().name("stdin".into()).spawn(feed).map_err(lost)?;
        // However the stream ends, the engine knows how the program did.
        while let Ok((kind, length)) = frame(&mut self.stream) {
            let to: &mut dyn Write = if kind == STDERR { &mut err } else { &mut out };
            copy(&mut self.stream, length, to);
        }
        self.exit_code()
    }

    /// Waits until the program has ended; it may have closed its output before.
    fn exit_code(&self) -> Result<i32> {
        loop {
            let found = self.container.engine.get(&format!("/exec/{}/json", api::escaped(&self.id)))?;
            let found = found.unwrap_or_default();
            match (&found["Running"], &found["ExitCode"]) {
                (Value::Bool(false), Value::Number(code)) => {
                    return Ok(code.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(1));
                }
                (Value::Bool(true), _) if matches!(self.container.state()?, State::Running { .. }) => {
                    thread::sleep(END_POLL_INTERVAL);
                }
                _ => {
                    let name = &self.container.name;
                    return Err(Error::new(Kind::Failed, format!("the engine lost a program in the container {name}")));
                }
            }
        }
    }
}

/// Reads the head of the next piece of output: of which stream it is, and its length.
fn frame(stream: &mut impl Read) -> io::Result<(u8, u64)> {
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    let [kind, _, _, _, a, b, c, d] = head;
    Ok((kind, u64::from(u32::from_be_bytes([a, b, c, d]))))
}

/// Copies `length` bytes. If they cannot be written, drops the rest, so that the program is not blocked.
fn copy(from: &mut impl Read, length: u64, to: &mut dyn Write) {
    let mut piece = from.take(length);
    if io::copy(&mut piece, to).and_then(|_| to.flush()).is_err() {
        let _ = io::copy(&mut piece, &mut io::sink());
    }
}

/// Keeps the beginning of what is written.
struct Capture(Vec<u8>);

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (OUTPUT_BYTES as usize).saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
