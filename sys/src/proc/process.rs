//! A program that runs for us: as our child, or for a server of ours that runs it where we cannot.

use std::io::{self, PipeReader};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::helper::Program;
use super::id::ProcessId;
use super::{Exit, system, tree};
use crate::channel::{self, Kind};

/// What a request to a server is sent with.
pub const REQUEST: [u8; 1] = [1];

/// Is killed with everything that it started if it is dropped before it was reaped.
pub(super) struct Process {
    place: Place,
    is_reaped: bool,
}

enum Place {
    /// With a descriptor that is readable when it has ended.
    Child { child: Child, id: ProcessId, ended: OwnedFd },
    /// The connection to the server. The server kills everything that the program started when we close our side, and
    /// answers when nothing of it is left.
    Server(UnixStream),
}

impl Process {
    fn new(place: Place) -> Process {
        Process { place, is_reaped: false }
    }

    pub fn of_child(mut child: Child) -> io::Result<Process> {
        let pid = child.id();
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, start: 0, boot: 0 });
        match system::end_event(pid).map_or_else(|| end_told_by_thread(pid).map(OwnedFd::from), Ok) {
            Ok(ended) => Ok(Process::new(Place::Child { child, id, ended })),
            Err(error) => {
                tree::end_process(id);
                let _ = tree::reap(&mut child);
                Err(error)
            }
        }
    }

    /// Has a server run the program with these streams.
    pub fn request(server: &OwnedFd, program: &Program, streams: [BorrowedFd<'_>; 3]) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let [stdin, stdout, stderr] = streams;
        channel::send_descriptors(server, &REQUEST, &[stdin, stdout, stderr, theirs.as_fd()], true)?;
        channel::write(&mut &ours, Kind::Start, &serde_json::to_vec(program)?)?;
        Ok(Process::new(Place::Server(ours)))
    }

    /// Returns the process with which the program ends: itself, or this one if a server runs it.
    pub fn id(&self) -> ProcessId {
        match &self.place {
            Place::Child { id, .. } => *id,
            Place::Server(_) => ProcessId::own(),
        }
    }

    pub fn terminate(&self) {
        match &self.place {
            Place::Child { .. } => {
                self.signal_group(Signal::TERM);
                // A stopped process does not handle SIGTERM until it continues.
                self.signal_group(Signal::CONT);
            }
            // If this fails, the server has ended, and with it the program.
            Place::Server(server) => drop(channel::write(&mut &*server, Kind::Terminate, &[])),
        }
    }

    /// Kills the program with everything that it started.
    pub fn kill(&self) {
        match &self.place {
            Place::Child { id, .. } => drop(tree::end_process(*id)),
            Place::Server(server) => drop(server.shutdown(Shutdown::Write)),
        }
    }

    /// Kills what the program has left in its group.
    pub fn kill_group(&self) {
        self.signal_group(Signal::KILL);
    }

    /// Waits until the program has ended and returns how.
    pub fn reap(&mut self) -> io::Result<Exit> {
        self.is_reaped = true;
        match &mut self.place {
            Place::Child { child, .. } => Ok(tree::reap(child)?.into()),
            Place::Server(server) => {
                let (Kind::Ended, answer) = channel::read(server)? else {
                    return Err(io::ErrorKind::InvalidData.into());
                };
                let code = serde_json::from_slice::<Result<i32, String>>(&answer)?;
                code.map(Exit::Code).map_err(io::Error::other)
            }
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Place::Child { id, .. } = &self.place
            && let Some(pid) = Pid::from_raw(id.pid.cast_signed())
        {
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// Is readable when the program has ended, or a server has answered.
impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.place {
            Place::Child { ended, .. } => ended.as_fd(),
            Place::Server(server) => server.as_fd(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            self.kill_group();
            let _ = self.reap();
        }
    }
}

/// Returns a pipe whose other end is closed when the child has ended.
fn end_told_by_thread(pid: u32) -> io::Result<PipeReader> {
    let (ended, open) = io::pipe()?;
    // Waits without reaping, so that neither pid nor group can be reused while we still need them.
    std::thread::Builder::new().name(format!("wait-{pid}")).stack_size(64 * 1024).spawn(move || {
        if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        }
        drop(open);
    })?;
    Ok(ended)
}
