//! What a process of ours in a sandbox or a container needs that starts programs there, one after the other: programs with
//! streams that it passes on or was given, and facts about its own process.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::{Deserialize, Serialize};

use super::{system, tree};

/// Exit code of a program that was killed: this and the number of the signal.
const KILLED: i32 = 128;

/// A program to start for another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments.
    pub words: Vec<OsString>,
    /// Variables that it has besides those of the process that starts it.
    pub env: Vec<(OsString, OsString)>,
    pub workdir: PathBuf,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.words.first().map(OsString::as_os_str).unwrap_or_default();
        write!(f, "{} in {}", name.display(), self.workdir.display())
    }
}

impl Program {
    /// Returns the command. Fails without words.
    fn command(&self) -> io::Result<Command> {
        let (program, args) = self.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(args).envs(self.env.iter().map(|(key, value)| (key, value))).current_dir(&self.workdir);
        Ok(command)
    }

    /// Runs the program with these streams until it has ended itself, and returns its exit code.
    pub fn run(&self, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<i32> {
        let mut command = self.command()?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let child = tree::spawn_registered(&mut command)?;
        // It has descriptors of the streams.
        drop(command);
        wait(child)
    }
}

/// A program whose streams the caller passes on.
pub struct Relayed(Child);

impl Relayed {
    /// Starts a program.
    pub fn start(program: &Program) -> io::Result<Relayed> {
        let mut command = program.command()?;
        // A group of its own: what the program sends to its group must not reach us.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        tree::spawn_registered(&mut command).map(Relayed)
    }

    /// Returns standard input, output and error; each only once.
    pub fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take())
    }

    /// Waits for the program itself and returns its exit code.
    pub fn wait(self) -> io::Result<i32> {
        wait(self.0)
    }
}

/// Waits for a child and returns its exit code.
pub(super) fn wait(mut child: Child) -> io::Result<i32> {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // Without reaping it: that is done under the lock of our children, which may not be held for long.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
    }
    let status = tree::reap(&mut child)?;
    Ok(status.code().unwrap_or_else(|| KILLED + status.signal().unwrap_or_default()))
}

/// Returns what other processes of the same user can change of this one and programs started by it inherit: limits,
/// priority, also for the disk, processors, and how readily the kernel kills it.
pub fn own_standing() -> io::Result<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}"));
    let (stat, status) = (read("stat")?, read("status")?);
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // Priority and niceness; real-time priority and policy.
    let scheduling = after_name.split_ascii_whitespace().enumerate().filter(|(n, _)| [15, 16, 37, 38].contains(n));
    let scheduling: Vec<&str> = scheduling.map(|(_, field)| field).collect();
    let allowed = status.lines().filter(|line| line.contains("_allowed")).collect::<Vec<_>>().join("\n");
    Ok([read("limits")?, read("oom_score_adj")?, allowed, scheduling.join(" "), system::disk_priority()].join("\n"))
}

/// Returns the files that the dynamic linker has loaded for this process: libraries, and the linker itself.
pub fn loaded_files() -> io::Result<Vec<PathBuf>> {
    let own = super::own_program()?.canonicalize()?;
    let maps = fs::read("/proc/self/maps")?;
    let mut files: Vec<PathBuf> = maps.split(|byte| *byte == b'\n').filter_map(executable_file).collect();
    files.sort();
    files.dedup();
    files.retain(|file| *file != own && file.exists());
    Ok(files)
}

/// Returns the file of a line of `maps`, if it may be executed from there.
fn executable_file(line: &[u8]) -> Option<PathBuf> {
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    let permissions = line.split(|byte| *byte == b' ').nth(1)?;
    permissions.contains(&b'x').then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_executed_count_as_loaded() {
        let file = |line: &str| executable_file(line.as_bytes());
        let line = "7f1 r-xp 00028000 08:01 42                         /usr/lib/libc.so.6";
        assert_eq!(file(line), Some("/usr/lib/libc.so.6".into()));
        assert_eq!(file(&line.replace("r-xp", "r--p")), None);
        assert_eq!(file("7ffd r-xp 00000000 00:00 0                          [vdso]"), None);
        assert_eq!(file(""), None);
    }

    #[test]
    fn what_is_inherited_is_the_same_until_it_is_changed() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let before = own_standing().unwrap();
        assert_eq!(own_standing().unwrap(), before);
        for part in ["Max open files", "Cpus_allowed"] {
            assert!(before.contains(part), "{before}");
        }
        let was = getrlimit(Resource::Core);
        setrlimit(Resource::Core, Rlimit { current: Some(4096), ..was }).unwrap();
        let changed = own_standing().unwrap();
        setrlimit(Resource::Core, was).unwrap();
        assert_ne!(changed, before);
    }
}
