//! The command line of bubblewrap. Without any one of these options an attack works; `app/tests/sandbox/cases.rs` has them.

use std::ffi::OsString;
use std::path::Path;

use super::places::SYSTEM;
use super::{Access, Layout, MERGED, SECRET, name_servers};

/// Separate namespaces, no capabilities, no terminal of the caller; killed with the caller.
const PROCESS: [&str; 10] = [
    "--unshare-user",
    "--disable-userns",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
];

/// Root could otherwise change settings of the kernel, and who may read what it shows, for the whole machine.
const PROCESSES: [&str; 4] = ["--proc", "/proc", "--remount-ro", "/proc"];

/// Devices without the machine's disks, and empty directories in place of those with sockets and data.
const FRESH: [&str; 10] =
    ["--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/run", "--tmpfs", "/var", "--dir", "/var/tmp"];

/// The server of a series is the first process, which no other can signal, and sees what programs leave in message queues.
const SERVER: [&str; 3] = ["--as-pid-1", "--mqueue", "/dev/mqueue"];

/// Returns the options for a layout. Overlays are mounted already, in their own directories.
pub fn options(layout: &Layout) -> Vec<OsString> {
    let mut options = Options(Vec::new());
    options.add(PROCESS);
    options.add(["--tmpfs", "/"]);
    SYSTEM.iter().for_each(|dir| options.system(Path::new(dir)));
    SECRET.iter().for_each(|path| options.hide(Path::new(path)));
    options.add(PROCESSES);
    options.add(FRESH);
    if layout.is_server {
        options.add(SERVER);
    }
    if let Some(file) = name_servers() {
        options.bind("--ro-bind", &file, &file);
    }
    for mount in &layout.mounts {
        match &mount.access {
            Access::Read => options.bind("--ro-bind", &mount.from, &mount.to),
            Access::Write => options.bind("--bind", &mount.from, &mount.to),
            Access::Overlay(changes) => options.bind("--bind", &changes.join(MERGED), &mount.to),
        }
    }
    layout.hidden.iter().for_each(|dir| options.hide(dir));
    if !layout.network {
        options.add(["--unshare-net"]);
    }
    // Last: mount points are created before.
    options.add(["--remount-ro", "/", "--chdir"]);
    options.0.push(layout.workdir.clone().into());
    options.0
}

struct Options(Vec<OsString>);

impl Options {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(OsString::from));
    }

    fn bind(&mut self, option: &str, from: &Path, to: &Path) {
        self.0.extend([option.into(), from.into(), to.into()]);
    }

    /// Shows a directory of the system as it is: a directory, or a link to one.
    fn system(&mut self, dir: &Path) {
        match std::fs::read_link(dir) {
            Ok(target) => self.bind("--symlink", &target, dir),
            Err(_) if dir.is_dir() => self.bind("--ro-bind", dir, dir),
            Err(_) => {}
        }
    }

    fn hide(&mut self, path: &Path) {
        if path.is_dir() {
            self.0.extend(["--tmpfs".into(), path.into()]);
        } else if path.exists() {
            self.bind("--ro-bind", Path::new("/dev/null"), path);
        }
    }
}
