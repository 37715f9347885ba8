//! A program that this process stays beside, for systems that do not kill a process with its parent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, kill_process_group};

use super::{helper, tree};

/// Interval between checks whether our parent has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Our exit code if our parent has ended.
const ABANDONED: i32 = 128 + 9;

/// A program in a process group of its own, in our session.
pub struct Attended(Child);

impl Attended {
    /// Starts the program. When our parent ends, the program, everything in our session and this process are ended.
    /// This process must lead the session.
    pub fn start(program: &OsStr, args: &[OsString]) -> io::Result<Attended> {
        let parent = getppid();
        let mut command = Command::new(program);
        // A group of its own: a signal to ours reaches only us, and we pass it on once.
        command.args(args).process_group(0);
        let child = tree::spawn_registered(&mut command)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot run {}: {error}", program.display())))?;
        thread::Builder::new().name("parent".into()).spawn(move || {
            while getppid() == parent {
                thread::sleep(POLL_INTERVAL);
            }
            tree::end_descendants(Duration::ZERO);
            tree::end_session();
            std::process::exit(ABANDONED);
        })?;
        Ok(Attended(child))
    }

    /// Returns a function that sends SIGTERM to the program's group.
    pub fn terminator(&self) -> impl Fn() + Send + 'static {
        let group = Pid::from_raw(self.0.id().cast_signed());
        move || {
            let _ = group.map(|group| kill_process_group(group, Signal::TERM));
        }
    }

    /// Waits for the program, ends what it left in our session and returns its exit code.
    pub fn wait(self) -> io::Result<i32> {
        let code = helper::wait(self.0)?;
        if tree::end_session() {
            Ok(code)
        } else {
            Err(io::Error::other("the program left processes that cannot be ended"))
        }
    }
}
