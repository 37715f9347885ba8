//! A session with our helper in a container, which starts one program after the other: the engine takes a tenth of a
//! second and much of a processor to start a single one.
//!
//! Each program has a process of ours outside (`confine`). Between two of them the session is parked in a pair of sockets
//! that both inherit, from which the next process takes it.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::exec::Demultiplexed;
use super::inside::Ended;
use super::{Container, helper, user};
use crate::channel::{self, Kind};
use crate::error::{Error, Result};
use crate::proc::Program;

/// Maximum length of the id of a container.
const ID_BYTES: usize = 256;
/// Maximum number of bytes of input passed on at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Parking places of this process, by the names of containers.
static PARKING: Mutex<BTreeMap<String, Parking>> = Mutex::new(BTreeMap::new());

/// A session with the helper in a container.
pub struct Session {
    /// The engine's id of the container.
    container: String,
    output: Demultiplexed,
    input: Requests,
}

/// Sends requests to the helper, until the session is parked.
#[derive(Clone)]
pub struct Requests(Arc<Mutex<Option<UnixStream>>>);

impl Session {
    /// Starts the helper in a container that runs.
    pub fn open(container: &Container, id: &str) -> Result<Session> {
        let words = helper::words(helper::COMMAND).map_err(Error::caused("cannot find the files of this program"))?;
        let stream = container.exec(&words, Some(user()))?;
        let input = stream.get_ref().try_clone().map_err(|error| container.engine.lost(&error))?;
        Ok(Session::of(id, stream, input))
    }

    fn of(id: &str, stream: BufReader<UnixStream>, input: UnixStream) -> Session {
        let input = Requests(Arc::new(Mutex::new(Some(input))));
        Session { container: id.to_owned(), output: Demultiplexed::new(stream), input }
    }

    /// Returns what sends requests from other threads.
    pub fn requests(&self) -> Requests {
        self.input.clone()
    }

    /// Runs a program and passes its streams on. Returns its exit code when everything that it started has ended. Of an
    /// error, the kind `Other` is a problem that the helper names; any other means that helper, container or engine is gone.
    pub fn run(
        &mut self,
        program: &Program,
        mut input: impl Read + Send + 'static,
        mut out: impl Write,
        mut err: impl Write,
    ) -> io::Result<i32> {
        self.input.send(Kind::Start, &serde_json::to_vec(program)?)?;
        let requests = self.requests();
        let feed = move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            while let Ok(count @ 1..) = input.read(&mut buffer) {
                requests.send(Kind::Input, &buffer[..count])?;
            }
            requests.send(Kind::EndOfInput, &[])
        };
        thread::Builder::new().name("stdin".into()).spawn(feed)?;
        loop {
            let (kind, bytes) = channel::read(&mut self.output).map_err(|error| self.output.explain(&error))?;
            // What cannot be written is dropped, so that the program is not blocked.
            let _ = match kind {
                Kind::Output => out.write_all(&bytes).and_then(|()| out.flush()),
                Kind::Errors => err.write_all(&bytes).and_then(|()| err.flush()),
                Kind::Ended => {
                    let Ended { code, problem } = serde_json::from_slice(&bytes)?;
                    return problem.map_or(Ok(code), |problem| Err(io::Error::other(problem)));
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
        }
    }
}

impl Requests {
    /// Asks the helper to send SIGTERM to everything that runs. A stopped program handles it when it continues.
    pub fn terminate(&self) {
        // If this fails, the container is removed after the grace period.
        let _ = self.send(Kind::Terminate, &[]);
    }

    fn send(&self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.as_mut().map_or(Err(io::ErrorKind::NotConnected.into()), |stream| channel::write(stream, kind, bytes))
    }
}

/// A place for a session between two programs.
pub struct Parking {
    entrance: UnixStream,
    exit: UnixStream,
}

impl Parking {
    /// Returns this process's parking place of a container, for a process that inherits it.
    pub fn of(container: &str) -> io::Result<[OwnedFd; 2]> {
        let mut places = PARKING.lock().unwrap_or_else(PoisonError::into_inner);
        if !places.contains_key(container) {
            let (entrance, exit) = UnixStream::pair()?;
            places.insert(container.to_owned(), Parking { entrance, exit });
        }
        let Parking { entrance, exit } = &places[container];
        Ok([entrance.try_clone()?.into(), exit.try_clone()?.into()])
    }

    /// Returns an inherited parking place.
    pub fn inherited([entrance, exit]: [OwnedFd; 2]) -> Parking {
        Parking { entrance: entrance.into(), exit: exit.into() }
    }

    /// Takes the session that is parked, if it is in the container with this id.
    pub fn take(&self, container: &str) -> Option<Session> {
        let mut id = [0; ID_BYTES];
        let (length, descriptors) = channel::receive_descriptors(&self.exit, &mut id, false).ok()?;
        let descriptor = descriptors.into_iter().next()?;
        let stream = UnixStream::from(descriptor);
        let input = stream.try_clone().ok()?;
        (&id[..length] == container.as_bytes()).then(|| Session::of(container, BufReader::new(stream), input))
    }

    /// Parks a session whose program has ended. One that cannot be parked is closed, and its helper ends.
    pub fn put(&self, session: Session) {
        let Session { container, output, input } = session;
        // From here on no other thread sends anything.
        let stream = input.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stream) = stream.filter(|_| output.is_drained() && container.len() <= ID_BYTES) {
            // Without it the next program starts a helper of its own.
            let _ = channel::send_descriptors(&self.entrance, container.as_bytes(), &[stream.as_fd()], false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a session, and the engine's end of its stream.
    fn session(id: &str) -> (Session, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let input = ours.try_clone().unwrap();
        (Session::of(id, BufReader::new(ours), input), theirs)
    }

    /// Writes a frame of the helper as the engine passes it on.
    fn answer(engine: &mut UnixStream, kind: Kind, bytes: &[u8]) {
        let mut text = Vec::new();
        channel::write(&mut text, kind, bytes).unwrap();
        // In two pieces: the engine cuts as it likes.
        for piece in text.chunks(3) {
            engine.write_all(&[1, 0, 0, 0]).unwrap();
            engine.write_all(&(piece.len() as u32).to_be_bytes()).unwrap();
            engine.write_all(piece).unwrap();
        }
    }

    fn program() -> Program {
        Program { words: vec!["true".into()], env: Vec::new(), workdir: "/".into() }
    }

    #[test]
    fn a_program_runs_in_a_session_that_was_parked() {
        let parking = Parking::inherited(Parking::of("c").unwrap());
        assert!(parking.take("one").is_none());
        let (first, mut engine) = session("one");
        parking.put(first);
        let mut again = parking.take("one").unwrap();
        assert!(parking.take("one").is_none());
        answer(&mut engine, Kind::Output, b"out");
        answer(&mut engine, Kind::Errors, b"err");
        answer(&mut engine, Kind::Ended, br#"{"code":3}"#);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert_eq!(again.run(&program(), io::empty(), &mut out, &mut err).unwrap(), 3);
        assert_eq!((out.as_slice(), err.as_slice()), (&b"out"[..], &b"err"[..]));
        let (kind, bytes) = channel::read(&mut engine).unwrap();
        assert_eq!((kind, serde_json::from_slice::<Program>(&bytes).unwrap()), (Kind::Start, program()));
    }

    #[test]
    fn a_session_in_another_container_is_not_used() {
        let parking = Parking::inherited(Parking::of("d").unwrap());
        let (first, mut engine) = session("one");
        parking.put(first);
        assert!(parking.take("two").is_none() && parking.take("one").is_none());
        // It is closed, so that the helper ends.
        assert_eq!(engine.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn nothing_that_a_helper_did_not_say_counts_as_an_end() {
        let (mut cut, mut engine) = session("one");
        engine.write_all(&[1, 0, 0, 0, 0, 0, 0, 5, Kind::Ended as u8, 0, 0, 0]).unwrap();
        engine.shutdown(std::net::Shutdown::Write).unwrap();
        let kind = cut.run(&program(), io::empty(), io::sink(), io::sink()).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::UnexpectedEof);
        let (mut refused, mut engine) = session("one");
        answer(&mut engine, Kind::Ended, br#"{"code":0,"problem":"limits"}"#);
        let error = refused.run(&program(), io::empty(), io::sink(), io::sink()).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::Other, "limits".to_owned()));
    }
}
