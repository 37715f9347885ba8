//! The first process in the sandbox of a series: starts programs one after the other.
//!
//! No program can signal it, since it is the first process of its namespace, nor trace it or look into it. A program counts
//! as ended when every process inside has ended. Once one has left something, the server takes no further program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::super::private_dirs::Fingerprint;
use crate::bounded::{self, SMALL_FILE_BYTES};
use crate::channel::{self, Kind};
use crate::proc::{self, Program, REQUEST};
use crate::store::tree;

/// Where the kernel lists shared memory, semaphores and message queues of the older kind.
const IPC: [&str; 3] = ["/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"];
/// File systems in memory to which programs can write. Those on disk are compared from outside.
const IN_MEMORY: [&str; 3] = ["tmpfs", "mqueue", "devpts"];

/// How often what is left is ended, at most.
const MAX_ROUNDS: u32 = 20;

/// Serves until the other end of standard input is closed, or a program has left something.
pub fn serve() -> io::Result<()> {
    proc::refuse_tracing()?;
    proc::become_subreaper()?;
    let requests = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::options().read(true).open("/dev/null")?)?;
    let mounts = bounded::read(Path::new("/proc/self/mountinfo"), SMALL_FILE_BYTES)?;
    let places: Vec<PathBuf> = mounts.split(|byte| *byte == b'\n').filter_map(writable_in_memory).collect();
    let new = Traces::in_places(&places)?;
    // It is ready.
    (&requests).write_all(&REQUEST)?;
    loop {
        let (_, descriptors) = channel::receive_descriptors(&requests, &mut [0; REQUEST.len()], true)?;
        let Ok([stdin, stdout, stderr, client]) = <[OwnedFd; 4]>::try_from(descriptors) else { return Ok(()) };
        let mut client = UnixStream::from(client);
        let ended = run(&client, [stdin, stdout, stderr]);
        let is_as_new = ended.is_ok() && Traces::in_places(&places).is_ok_and(|traces| traces == new);
        let answer = serde_json::to_vec(&ended.map_err(|error| error.to_string()))?;
        if !is_as_new {
            // First, so that no other program is sent here after the answer.
            requests.shutdown(Shutdown::Both)?;
        }
        // Fails if the client has been killed.
        let _ = channel::write(&mut client, Kind::Ended, &answer);
        if !is_as_new {
            return Ok(());
        }
    }
}

/// Runs the program that the client asks for, and kills it if the client closes the connection. Returns its exit code when everything that it
/// started has ended.
fn run(client: &UnixStream, streams: [OwnedFd; 3]) -> io::Result<i32> {
    let (Kind::Start, program) = channel::read(&mut &*client)? else { return Err(io::ErrorKind::InvalidData.into()) };
    let program: Program = serde_json::from_slice(&program)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok((Kind::Terminate, _)) = channel::read(&mut &*client) {
                proc::terminate_descendants();
            }
            proc::end_descendants(Duration::ZERO);
        });
        let code = program.run(streams);
        // The kernel's word, not that of a listing: everything inside is below this process. What has just lost its parent
        // may become our child after it has ended.
        let all_ended = (0..MAX_ROUNDS).any(|_| proc::end_descendants(Duration::ZERO) && !proc::has_children());
        client.shutdown(Shutdown::Read)?;
        if all_ended { code } else { Err(io::Error::other("processes that cannot be ended are left")) }
    })
}

/// What a program can leave in a sandbox apart from the directories on disk.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    files: BTreeMap<PathBuf, Fingerprint>,
    ipc: Vec<String>,
    /// What programs inherit of this process and can change.
    standing: String,
}

impl Traces {
    /// Returns the traces that there are now, with those in these directories.
    fn in_places(places: &[PathBuf]) -> io::Result<Traces> {
        let mut files = BTreeMap::new();
        for dir in places {
            let metadata = fs::symlink_metadata(dir)?;
            list(dir.clone(), &metadata, metadata.dev(), &mut files)?;
        }
        let ipc = IPC.iter().map(|path| bounded::read_to_string(Path::new(path), SMALL_FILE_BYTES));
        Ok(Traces { files, ipc: ipc.collect::<io::Result<_>>()?, standing: proc::own_standing()? })
    }
}

/// Lists a file or directory, and everything below it that is on this file system.
fn list(
    path: PathBuf,
    metadata: &fs::Metadata,
    device: u64,
    found: &mut BTreeMap<PathBuf, Fingerprint>,
) -> io::Result<()> {
    if metadata.is_dir() {
        if tree::attributes(&path).is_none_or(|names| !names.is_empty()) {
            return Err(io::Error::other("a directory has attributes"));
        }
        for entry in fs::read_dir(&path)? {
            let entry = entry?.path();
            let metadata = fs::symlink_metadata(&entry)?;
            if metadata.dev() == device {
                list(entry, &metadata, device, found)?;
            }
        }
    }
    found.insert(path, Fingerprint::new(metadata));
    Ok(())
}

/// Returns the place of a file system in memory to which programs can write, from a line of `mountinfo`.
fn writable_in_memory(line: &[u8]) -> Option<PathBuf> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let kind = fields.iter().position(|field| *field == b"-").and_then(|dash| fields.get(dash + 1))?;
    let is_writable = fields.get(5)?.split(|byte| *byte == b',').any(|option| option == b"rw");
    let is_in_memory = IN_MEMORY.iter().any(|name| name.as_bytes() == *kind);
    (is_writable && is_in_memory).then(|| unescaped(fields[4]))
}

/// Returns the path that the kernel wrote with spaces and the like as `\040`.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[3..] } else { more };
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writable_file_systems_in_memory_are_looked_at() {
        let place = |options: &str, kind: &str| {
            writable_in_memory(format!("36 35 0:34 / /a\\040b {options} shared:1 - {kind} none rw").as_bytes())
        };
        assert_eq!(place("rw,nosuid", "tmpfs"), Some("/a b".into()));
        assert_eq!(place("rw,nosuid", "mqueue"), Some("/a b".into()));
        assert_eq!(place("rw,nosuid", "devpts"), Some("/a b".into()));
        assert_eq!(place("ro,nosuid", "tmpfs"), None);
        assert_eq!(place("rw,nosuid", "ext4"), None);
        assert_eq!(writable_in_memory(b""), None);
    }
}
