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

const READ: &str = "file-read* file-map-executable process-exec";
const EVERYTHING: &str = "file-read* file-write* file-map-executable process-exec";

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
const NETWORK: &str = r#"(allow system-socket)
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

/// Files and directories of the system with secrets.
const SECRET: [&str; 5] = ["/etc/master.passwd", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/Library/Keychains"];

/// Runs the program as the layout says and returns its exit code.
pub fn run(layout: &Layout, dir: &Path, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    let file = dir.join(PROFILE);
    fs::write(&file, profile(layout, |path| path.canonicalize().ok())?)?;
    std::env::set_current_dir(&layout.workdir)?;
    let mut words = vec!["-f".into(), file.into(), program.to_owned()];
    words.extend(args.iter().cloned());
    let inside = Attended::start(OsStr::new(PROGRAM), &words)?;
    let terminate = inside.terminator();
    signals::listen(move |_, _| terminate())?;
    inside.wait()
}

/// Returns the profile for a layout, whose mounts are sorted with parents first. `real` resolves a path; what does not
/// exist is left out.
fn profile(layout: &Layout, real: impl Fn(&Path) -> Option<PathBuf>) -> io::Result<String> {
    let mut profile = Profile { text: BASE.to_owned(), above: BTreeSet::new() };
    let resolve = |paths: &[&str]| paths.iter().filter_map(|path| real(Path::new(path))).collect::<BTreeSet<_>>();
    for path in resolve(&MACOS) {
        profile.allow(READ, &path)?;
    }
    for path in resolve(&SECRET) {
        profile.rule("deny", EVERYTHING, "subpath", &path)?;
    }
    for mount in &layout.mounts {
        let Some(path) = real(&mount.from) else { continue };
        if mount.access == Access::Write {
            profile.allow(EVERYTHING, &path)?;
            profile.allow_sockets(&path)?;
        } else {
            profile.allow(READ, &path)?;
            // It may be in a writable directory.
            profile.rule("deny", "file-write*", "subpath", &path)?;
        }
    }
    for path in layout.hidden.iter().filter_map(|path| real(path)) {
        profile.rule("deny", EVERYTHING, "subpath", &path)?;
    }
    for path in LINKS.map(PathBuf::from).into_iter().chain(profile.above.clone()) {
        profile.rule("allow", "file-read-metadata", "literal", &path)?;
    }
    if layout.network {
        profile.text.push_str(NETWORK);
    }
    Ok(profile.text)
}

struct Profile {
    text: String,
    /// Directories above those that are allowed, on the way to which programs ask for them.
    above: BTreeSet<PathBuf>,
}

impl Profile {
    fn allow(&mut self, operations: &str, path: &Path) -> io::Result<()> {
        self.above.extend(path.ancestors().skip(1).map(Path::to_owned));
        self.rule("allow", operations, "subpath", path)
    }

    fn rule(&mut self, verdict: &str, operations: &str, filter: &str, path: &Path) -> io::Result<()> {
        writeln!(self.text, "({verdict} {operations} ({filter} {}))", quoted(path)?).map_err(io::Error::other)
    }

    /// Lets programs inside meet at sockets in a directory that they write.
    fn allow_sockets(&mut self, path: &Path) -> io::Result<()> {
        let path = quoted(path)?;
        let ends = [("bind", "local"), ("inbound", "local"), ("outbound", "remote")];
        ends.iter().try_for_each(|(operation, end)| {
            writeln!(self.text, "(allow network-{operation} ({end} unix-socket (subpath {path})))")
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

    fn layout(network: bool) -> Layout {
        let mount = |path: &str, access| Mount { from: path.into(), to: path.into(), access };
        Layout {
            mounts: vec![
                mount("/Users/me/.rustup", Access::Read),
                mount("/tmp/project/w1", Access::Write),
                mount("/state/sandbox/home", Access::Write),
                mount("/tmp/project/w1/specs", Access::Read),
                mount("/missing", Access::Read),
            ],
            hidden: vec!["/tmp/project/w1/.mahabharatha".into()],
            network,
            ..Layout::new(Isolation::SandboxExec, Path::new("/tmp/project/w1"))
        }
    }

    /// Resolves the links that every macOS has.
    fn real(path: &Path) -> Option<PathBuf> {
        let is_link = |link: &&str| path.starts_with(link);
        match ["/etc", "/tmp", "/var"].iter().find(is_link) {
            Some(_) => Some(Path::new("/private").join(path.strip_prefix("/").ok()?)),
            None => (path != Path::new("/missing")).then(|| path.to_owned()),
        }
    }

    #[test]
    fn the_profile_shows_the_layout_and_nothing_else() {
        insta::assert_snapshot!(profile(&layout(true), real).unwrap());
    }

    #[test]
    fn without_network_only_sockets_in_writable_directories_are_left() {
        let text = profile(&layout(false), real).unwrap();
        assert!(
            text.lines().filter(|line| line.contains("network")).all(|line| line.contains("unix-socket")),
            "{text}"
        );
        assert!(!text.contains("(allow system-socket)") && !text.contains("mDNSResponder"), "{text}");
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
