//! Programs that run one after the other in one bubblewrap sandbox: making a sandbox takes longer than many a program runs.
//!
//! The first process inside is a server of ours (`server`). It gets each program with its streams, and answers when nothing
//! of the program is left. When the series is dropped, everything inside is killed.

pub mod server;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Sandbox;
use crate::proc::{Cmd, REQUEST, Running};

/// Argument that makes this program the server.
pub const COMMAND: &str = "serve-series";
/// Maximum time for the sandbox to be set up.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30);

/// A sandbox that waits for programs. It takes one at a time.
pub(super) struct Series {
    requests: UnixStream,
    /// Killed with everything inside when it is dropped.
    _server: Running,
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts a series for the next programs if there is none yet. Returns `false` if it cannot start, or has ended because
    /// a program left something in it.
    pub fn continue_in_series(&mut self) -> bool {
        if self.series.is_none() {
            self.series = self.begin_series().ok();
        }
        self.series.as_ref().is_some_and(Series::is_open)
    }

    /// Tells whether the next program runs in a series.
    pub fn is_in_series(&self) -> bool {
        self.series.is_some()
    }

    /// Ends the series, and every process inside.
    pub fn end_series(&mut self) {
        self.series = None;
    }

    fn begin_series(&mut self) -> io::Result<Series> {
        // Its own network could still keep ports of an earlier program busy.
        if self.layout.isolation != super::Isolation::Bwrap || !self.layout.network {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let program = std::env::current_exe()?.canonicalize()?;
        let inside = self.show(&program, "program");
        let (requests, theirs) = UnixStream::pair()?;
        let output = File::options().write(true).open("/dev/null")?;
        let cmd = Cmd::new(inside).arg(COMMAND).files(OwnedFd::from(theirs).into(), output);
        // For `confine`, which looks for bubblewrap.
        let cmd = std::env::var_os("PATH").into_iter().fold(cmd, |cmd, path| cmd.env("PATH", path));
        self.layout.is_server = true;
        let confined = self.confine(cmd);
        self.layout.is_server = false;
        let mut series = Series { requests, _server: confined.map_err(io::Error::other)?.spawn()? };
        series.requests.set_read_timeout(Some(SETUP_TIMEOUT))?;
        series.requests.read_exact(&mut [0; REQUEST.len()])?;
        Ok(series)
    }
}

impl Series {
    /// Tells whether the server takes another program.
    fn is_open(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.requests, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())).is_ok() && descriptors[0].revents().is_empty()
    }

    /// Returns a descriptor for a request to run a program.
    pub fn requests(&self) -> io::Result<OwnedFd> {
        Ok(self.requests.try_clone()?.into())
    }
}
