//! `sandbox-exec` of macOS: writes a profile for the kernel's sandbox and starts the program with it. Type-checked, never
//! run: only the text of the profile is tested.
//!
//! In a profile the last rule that matches decides. Paths in it are those that the kernel sees, without symbolic links.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::places::MACOS;
use super::{Access, Layout};
use crate::proc::Attended;
use crate::signals;

const PROGRAM: &str = "/usr/bin/sandbox-exec";
/// File beside the layout that holds the profile.
const PROFILE: &str = "profile.sb";

const READ: &str = "file-read* file-map-executable process-exec*";
const EVERYTHING: &str = "file-read* file-write* file-map-executable process-exec*";

/// What every program needs. Terminals are only those that it opens itself; no service leads to the Keychain.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow system-socket (socket-domain AF_UNIX))
(allow file-read* (literal "/") (subpath "/dev/fd"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom")
  (literal "/dev/dtracehelper") (literal "/dev/ptmx"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl
  (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
"#;

/// Internet, names and certificates.
const NETWORK: &str = r#"(allow system-socket
  (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)) (socket-domain AF_ROUTE))
(allow network-outbound (remote ip "*:*"))
(allow network-inbound (local ip "*:*"))
(allow network-bind (local ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.trustd") (global-name "com.apple.trustd.agent"))
"#;

/// Links of the system that programs follow.
const LINKS: [&str; 3] = ["/etc", "/tmp", "/var"];

/// Files and directories of the system with secrets. The volume of the users' data also appears below `/System`.
const SECRET: [&str; 6] =
    ["/etc/master.passwd", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/Library/Keychains", "/System/Volumes/Data"];

/// Runs the program as the layout says and returns its exit code.
pub fn run(layout: &Layout, dir: &Path, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    if !cfg!(target_os = "macos") {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it needs macOS"));
    }
    let file = dir.join(PROFILE);
    fs::write(&file, profile(layout, |path| path.canonicalize().ok())?)?;
    std::env::set_current_dir(&layout.workdir)?;
    let mut words = vec!["-f".into(), file.into(), "--".into(), program.to_owned()];
    words.extend(args.iter().cloned());
    let inside = Attended::start(OsStr::new(PROGRAM), &words)?;
    let terminate = inside.terminator();
    signals::listen(move |_, _| terminate()).map_err(io::Error::other)?;
    inside.wait()
}

/// Returns the profile for a layout, whose mounts are sorted with parents first. `real` resolves a path; what does not
/// exist is left out.
fn profile(layout: &Layout, real: impl Fn(&Path) -> Option<PathBuf>) -> io::Result<String> {
    let mut profile = Profile { text: BASE.to_owned(), passed: BTreeSet::from(LINKS.map(PathBuf::from)) };
    for (path, real) in MACOS.iter().filter_map(|path| Some((path, real(Path::new(path))?))) {
        profile.pass(Path::new(path), &real);
        profile.rule("allow", READ, "subpath", &real)?;
    }
    for path in SECRET.iter().filter_map(|path| real(Path::new(path))) {
        profile.rule("deny", EVERYTHING, "subpath", &path)?;
    }
    for mount in &layout.mounts {
        let Some(path) = real(&mount.from) else { continue };
        profile.pass(&mount.from, &path);
        if mount.access == Access::Write {
            profile.rule("allow", EVERYTHING, "subpath", &path)?;
            profile.sockets("allow", &path)?;
        } else {
            profile.rule("allow", READ, "subpath", &path)?;
            // It may be in a writable directory.
            profile.rule("deny", "file-write*", "subpath", &path)?;
        }
    }
    for path in layout.hidden.iter().filter_map(|path| real(path)) {
        profile.rule("deny", EVERYTHING, "subpath", &path)?;
        profile.sockets("deny", &path)?;
    }
    for path in profile.passed.clone() {
        profile.rule("allow", "file-read-metadata", "literal", &path)?;
    }
    if layout.network {
        profile.text.push_str(NETWORK);
    }
    Ok(profile.text)
}

struct Profile {
    text: String,
    /// Directories and links on the way to what is allowed. Programs ask what they are, but cannot list them.
    passed: BTreeSet<PathBuf>,
}

impl Profile {
    /// Lets programs come to a path that is allowed, also by a link to it.
    fn pass(&mut self, path: &Path, real: &Path) {
        self.passed.extend(real.ancestors().skip(1).map(Path::to_owned));
        if path != real {
            self.passed.extend(path.ancestors().map(Path::to_owned));
        }
    }

    fn rule(&mut self, verdict: &str, operations: &str, filter: &str, path: &Path) -> io::Result<()> {
        writeln!(self.text, "({verdict} {operations} ({filter} {}))", quoted(path)?).map_err(io::Error::other)
    }

    /// Says whether programs may meet at sockets in a directory.
    fn sockets(&mut self, verdict: &str, path: &Path) -> io::Result<()> {
        let path = quoted(path)?;
        let ends = [("bind", "local"), ("inbound", "local"), ("outbound", "remote")];
        ends.iter().try_for_each(|(operation, end)| {
            writeln!(self.text, "({verdict} network-{operation} ({end} unix-socket (subpath {path})))")
                .map_err(io::Error::other)
        })
    }
}

/// Quotes a path for a profile.
fn quoted(path: &Path) -> io::Result<String> {
    match path.to_str().filter(|text| !text.contains(char::is_control)) {
        Some(text) => Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("sandbox-exec cannot be told of {path:?}: the path is not UTF-8 or has control characters"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use mahabharatha_core::config::Isolation;

    use super::super::Mount;
    use super::*;

    /// A home with a toolchain that a link leads to, one worktree, and a checkout whose state is hidden.
    fn layout(network: bool) -> Layout {
        let mount = |path: &str, access| Mount { from: path.into(), to: path.into(), access };
        Layout {
            mounts: vec![
                mount("/missing", Access::Read),
                mount("/Users/me/.nvm", Access::Read),
                mount("/Users/me/shop", Access::Read),
                mount("/tmp/trees/w1", Access::Write),
                mount("/Users/me/state/job/home", Access::Write),
                mount("/tmp/trees/w1/specs", Access::Read),
            ],
            hidden: vec!["/Users/me/shop/.git".into(), "/Users/me/shop/.mahabharatha".into()],
            network,
            ..Layout::new(Isolation::SandboxExec, Path::new("/tmp/trees/w1"))
        }
    }

    /// Resolves the links of the system, and one of the user.
    fn real(path: &Path) -> Option<PathBuf> {
        match path.to_str()? {
            "/missing" => None,
            "/private/var/db/xcode_select_link" => Some("/Library/Developer/CommandLineTools".into()),
            "/Users/me/.nvm" => Some("/Users/me/tools/nvm".into()),
            text if LINKS.iter().any(|link| path.starts_with(link)) => Some(format!("/private{text}").into()),
            text => Some(text.into()),
        }
    }

    /// Tells whether the last rule of a line that matches allows an operation.
    fn allows(profile: &str, operation: &str, path: &str) -> bool {
        let matches = |line: &&str| {
            let (operations, filter) = line.rsplit_once(" (").unwrap_or_default();
            let (kind, place) = filter.trim_end_matches(')').split_once(' ').unwrap_or_default();
            let place = place.trim_matches('"');
            operations.split(' ').any(|other| other == operation)
                && (path == place || kind == "subpath" && Path::new(path).starts_with(place))
        };
        profile.lines().rfind(matches).is_some_and(|line| line.starts_with("(allow "))
    }

    #[test]
    fn the_profile_follows_from_the_layout() {
        insta::assert_snapshot!(profile(&layout(true), real).unwrap());
    }

    #[test]
    fn only_what_is_listed_can_be_read_or_written() {
        let profile = profile(&layout(true), real).unwrap();
        let readable = |path| allows(&profile, "file-read*", path);
        let writable = |path| allows(&profile, "file-write*", path);
        for path in ["/private/tmp/trees/w1/a", "/Users/me/state/job/home/a"] {
            assert!(readable(path) && writable(path), "{path}");
        }
        for path in ["/usr/lib/a", "/Users/me/tools/nvm/a", "/Users/me/shop/a", "/private/tmp/trees/w1/specs/a"] {
            assert!(readable(path) && !writable(path), "{path}");
        }
        for path in [
            "/Users/me",
            "/Users/me/.ssh/id_ed25519",
            "/Users/me/Library/Keychains/login.keychain-db",
            "/Users/me/shop/.git/config",
            "/Users/me/shop/.mahabharatha/state",
            "/Users/me/state/job/layout.json",
            "/private/tmp/trees",
            "/private/tmp/trees/w2/a",
            "/private/tmp/trees/w10",
            "/private/etc/sudoers",
            "/private/var/db/dslocal",
            "/Library/Keychains/System.keychain",
            "/System/Volumes/Data/Users/me/.ssh/id_ed25519",
            "/Volumes/backup",
        ] {
            assert!(!readable(path) && !writable(path), "{path}");
        }
        for path in ["/Users/me", "/Users/me/.nvm", "/var", "/private/var/db/xcode_select_link"] {
            assert!(allows(&profile, "file-read-metadata", path), "{path}");
        }
        assert!(!allows(&profile, "file-read-metadata", "/Users/me/.ssh"));
    }

    #[test]
    fn without_network_only_sockets_in_writable_directories_are_left() {
        let text = profile(&layout(false), real).unwrap();
        let of_network = |line: &&str| line.starts_with("(allow network") || line.starts_with("(allow system-socket");
        for line in text.lines().filter(of_network) {
            assert!(line.contains("unix-socket (subpath") || line.contains("AF_UNIX"), "{line}");
        }
        assert!(!text.contains("mDNSResponder") && !text.contains("com.apple.trustd"), "{text}");
        assert!(profile(&layout(true), real).unwrap().ends_with(NETWORK));
    }

    #[test]
    fn a_path_cannot_end_its_string() {
        assert_eq!(quoted(Path::new(r#"/a"b\c d"#)).unwrap(), r#""/a\"b\\c d""#);
        for bytes in [b"/a\nb".as_slice(), b"/a\xff"] {
            let error = quoted(Path::new(OsStr::from_bytes(bytes))).unwrap_err();
            assert!(error.to_string().contains("/a"), "{error}");
        }
    }
}
