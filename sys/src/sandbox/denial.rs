//! Recognises in a program's output that the sandbox kept it from a file.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use mahabharatha_core::config::Isolation;

use super::{Access, Layout, places};
use crate::proc::is_program;

/// Words by which programs say that a file cannot be read or is not there, in lower case.
const NOT_FOUND: [&str; 7] = [
    "no such file or directory",
    "enoent",
    "permission denied",
    "eacces",
    "directory nonexistent",
    "can't cd to",
    ": not found",
];
/// Words by which programs say that a file cannot be written.
const NOT_WRITABLE: [&str; 2] = ["read-only file system", "erofs"];
/// The same where the sandbox has no file systems of its own.
const MAY_NOT_WRITE: [&str; 2] = ["permission denied", "eacces"];
/// Words by which programs say that `sandbox-exec` denied an access.
const DENIED: [&str; 2] = ["operation not permitted", "eperm"];
/// Words that show that a missing file was to be written.
const WRITES: [&str; 3] = ["cannot create", "cannot touch", "directory nonexistent"];
/// Lines of output that are examined, from its end.
const MAX_LINES: usize = 400;
/// Directories of the kernel and of running services, which are never proposed.
const LIVE: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/var/run"];
/// Directories of the system in which a project may have files, next to directories of programs.
const SHARED: [&str; 2] = ["/opt", "/usr/local"];
/// Directories with programs, libraries and settings of the system, by which a file in them could take control.
const OF_PROGRAMS: [&str; 8] = ["bin", "etc", "lib", "lib32", "lib64", "libexec", "sbin", "share"];
/// Places in a home directory with logins, keys, and files that the user's shell runs.
const PERSONAL: [&str; 24] = [
    ".aws",
    ".azure",
    ".bash_profile",
    ".bashrc",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/gcloud",
    ".config/gh",
    ".config/systemd",
    ".docker",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".profile",
    ".pypirc",
    ".ssh",
];

/// Those of `PERSONAL` in which package managers look for registries, so that a project may need them.
const REGISTRIES: [&str; 4] = [".cargo/credentials.toml", ".netrc", ".npmrc", ".pypirc"];
/// How an explanation begins.
const DOES_NOT: &str = "The sandbox does not ";
/// The same for what may hold a login.
const HIDES: &str = "The sandbox hides ";

/// What the sandbox kept a program from.
enum Denial {
    /// An existing path is not visible.
    Hidden(PathBuf),
    /// A path does not exist, and its directory is not visible.
    BelowHidden(PathBuf),
    /// A path cannot be written.
    ReadOnly(PathBuf),
}

/// How a path appears inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    ReadOnly,
    /// Writable, or private to the sandbox.
    Writable,
}

/// The user's home directory, and the one that the program has.
#[derive(Debug, Clone, Copy)]
pub struct Homes<'a> {
    pub own: &'a Path,
    pub private: &'a Path,
}

impl Homes<'_> {
    /// Returns the user's path that a path of the program stands for, where the private home has a path of its own and
    /// lacks it.
    fn own_path(&self, path: PathBuf) -> PathBuf {
        let below = path.strip_prefix(self.private).ok().filter(|_| self.own != self.private && !path.exists());
        let own = below.map(|below| self.own.join(below));
        let lacks_dir = || path.parent().is_some_and(|parent| !parent.exists());
        own.filter(|own| own.exists() || lacks_dir()).unwrap_or(path)
    }
}

/// Says which file the sandbox kept a program from, and what to add to the configuration.
pub fn explain(layout: &Layout, homes: Homes<'_>, output: &str) -> Option<String> {
    if layout.isolation == Isolation::Off {
        return None;
    }
    output.lines().rev().take(MAX_LINES).find_map(|line| {
        let writes = has(&line.to_lowercase(), &WRITES);
        denial(layout, homes, line).map(|denial| denial.text(homes.own, writes))
    })
}

/// Tells whether a text says what a sandbox denied, as `explain` does.
pub fn is_withheld(text: &str) -> bool {
    [DOES_NOT, HIDES].iter().any(|words| text.starts_with(words))
}

/// Tells whether a path may hold logins or keys of the user, or lead to some.
pub fn is_personal(path: &Path, home: &Path) -> bool {
    PERSONAL.iter().map(|name| home.join(name)).any(|place| path.starts_with(&place) || place.starts_with(path))
}

fn has(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

/// Returns what the sandbox denied, going by a line of output.
fn denial(layout: &Layout, homes: Homes<'_>, line: &str) -> Option<Denial> {
    let lower = line.to_lowercase();
    let is_denied = layout.isolation == Isolation::SandboxExec && has(&lower, &DENIED);
    let not_writable =
        has(&lower, &NOT_WRITABLE) || layout.isolation != Isolation::Bwrap && has(&lower, &MAY_NOT_WRITE);
    let paths: Vec<PathBuf> = paths_in(layout, line).into_iter().map(|path| homes.own_path(path)).collect();
    let found = paths.iter().find_map(|path| hidden(layout, path)).filter(|_| is_denied || has(&lower, &NOT_FOUND));
    found.or_else(|| {
        let read_only = paths.into_iter().find(|path| is_read_only(layout, path));
        read_only.filter(|_| is_denied || not_writable).map(Denial::ReadOnly)
    })
}

fn hidden(layout: &Layout, path: &Path) -> Option<Denial> {
    let parent = path.parent()?;
    match path.exists() {
        true => (seen(layout, path) == Seen::No).then(|| Denial::Hidden(path.to_owned())),
        false => (parent.exists() && seen(layout, parent) == Seen::No).then(|| Denial::BelowHidden(path.to_owned())),
    }
}

fn is_read_only(layout: &Layout, path: &Path) -> bool {
    let place = if path.exists() { Some(path) } else { path.parent() };
    place.is_some_and(|place| place.exists() && seen(layout, place) == Seen::ReadOnly)
}

/// Returns how a path of the user's appears inside.
fn seen(layout: &Layout, path: &Path) -> Seen {
    let mounts = layout.mounts.iter().filter(|mount| path.starts_with(&mount.to));
    match mounts.max_by_key(|mount| mount.to.components().count()) {
        // The private home and temporary directories hide the user's, except for what is mounted in them.
        Some(mount) if mount.from != mount.to => match path.strip_prefix(&mount.to) {
            Ok(below) if below.as_os_str().is_empty() || mount.from.join(below).exists() => Seen::Writable,
            _ => Seen::No,
        },
        Some(mount) if mount.access == Access::Read => Seen::ReadOnly,
        Some(_) => Seen::Writable,
        None if places::is_system(path) => Seen::ReadOnly,
        // A directory in which something is mounted is there, without its other content.
        None if layout.mounts.iter().any(|mount| mount.to.starts_with(path)) => Seen::ReadOnly,
        None if layout.isolation == Isolation::Bwrap && path == Path::new("/var") => Seen::Writable,
        None => Seen::No,
    }
}

impl Denial {
    fn text(&self, home: &Path, writes: bool) -> String {
        let (what, path, key) = match self {
            Denial::Hidden(path) => ("show", path, if writes { "write" } else { "read" }),
            Denial::BelowHidden(path) => ("show the directory of", path, "write"),
            Denial::ReadOnly(path) => ("let anything write", path, "write"),
        };
        if key == "read" && is_login(path, home) {
            return login_text(path, home);
        }
        // A file of a toolchain needs those beside it.
        let whole = places::toolchain_around(path).filter(|_| key == "read").filter(|dir| !is_off_limits(dir, home));
        let (shown, setting) = (path.display(), whole.unwrap_or(path).display());
        let advice = match (is_off_limits(path, home), path.exists()) {
            (true, _) => "Use another path, such as one in the worktree or in $TMPDIR.".to_owned(),
            (false, exists) => {
                let create = if exists { "" } else { "create it and " };
                format!("If the project needs it, {create}add {setting} to sandbox.{key} in .mahabharatha/config.yaml.")
            }
        };
        format!("{DOES_NOT}{what} {shown}. {advice}")
    }
}

/// Tells whether it is a file or directory of the user with logins, and nothing else that must stay closed.
fn is_login(path: &Path, home: &Path) -> bool {
    !home.starts_with(path) && PERSONAL.iter().any(|name| path.starts_with(home.join(name)))
}

/// Tells whether it is a file of settings that package managers read.
pub fn is_registry(path: &Path, home: &Path) -> bool {
    REGISTRIES.iter().any(|name| path == home.join(name))
}

/// Says that a login is hidden. Only settings that package managers read are proposed.
fn login_text(path: &Path, home: &Path) -> String {
    let below = path.strip_prefix(home).unwrap_or(path);
    let shown = format!("~/{}", below.display());
    if path.is_file() && is_registry(path, home) {
        return format!(
            "{HIDES}{shown}, because it may hold a login. If every agent may see it, add it to sandbox.read yourself \
             (mahabharatha help security)."
        );
    }
    format!("{HIDES}{shown}, because it may hold a login. Change what reads it.")
}

/// Tells whether opening the path would weaken the sandbox: the system's programs and services, whole homes and top-level
/// directories, logins. What a program prints, which may be an agent, must not lead the user to open these.
fn is_off_limits(path: &Path, home: &Path) -> bool {
    // Links lead elsewhere, also those of a directory.
    let real = path.canonicalize().ok().or_else(|| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)));
    [Some(path.to_owned()), real].into_iter().flatten().any(|path| {
        let is_whole = path.components().count() <= 2 || home.starts_with(&path);
        let is_live = LIVE.iter().any(|dir| path.starts_with(dir));
        let shared = SHARED.iter().find_map(|dir| path.strip_prefix(dir).ok());
        let is_system = match shared {
            Some(below) => {
                let is_of_programs = |part: Component<'_>| OF_PROGRAMS.iter().any(|name| part.as_os_str() == *name);
                below.as_os_str().is_empty() || below.components().any(is_of_programs)
            }
            None => places::is_system(&path),
        };
        let is_service = fs::metadata(&path)
            .map(|found| found.file_type())
            .is_ok_and(|kind| kind.is_socket() || kind.is_char_device() || kind.is_block_device());
        is_whole
            || is_live
            || is_personal(&path, home)
            || is_system
            || is_service
            || shared.is_some() && is_program(&path)
    })
}

/// Returns the absolute paths in a line of output, without those in the worktree and the program that prints the line.
fn paths_in(layout: &Layout, line: &str) -> Vec<PathBuf> {
    let line = line.trim_start();
    let line = match line.split_once(':') {
        Some((program, rest)) if complains(layout, Path::new(program)) => rest,
        _ => line,
    };
    let words = line.split(|c: char| c.is_whitespace() || c.is_control() || "'\"`‘’“”:,;()[]<>=\\".contains(c));
    let paths = words.filter(|word| word.len() > 1 && word.starts_with('/'));
    let paths = paths.map(|word| PathBuf::from(word.trim_end_matches('.')));
    let is_plain = |path: &PathBuf| {
        let is_kernels = ["/dev", "/proc", "/sys"].iter().any(|dir| path.starts_with(dir));
        !is_kernels && !path.starts_with(&layout.workdir) && !path.components().any(|part| part == Component::ParentDir)
    };
    paths.filter(is_plain).collect()
}

/// Tells whether a path is that of a program that is visible inside, which begins its messages with its own path.
fn complains(layout: &Layout, path: &Path) -> bool {
    path.is_absolute() && seen(layout, path) != Seen::No && is_program(path)
}

#[cfg(test)]
mod tests {
    use super::super::Mount;
    use super::*;

    /// A layout with a private home over the directory, in which `seen` is visible.
    fn layout(home: &Path) -> Layout {
        let mount = |from: &Path, to: &Path, access| Mount { from: from.to_owned(), to: to.to_owned(), access };
        Layout {
            mounts: vec![
                mount(Path::new("/private/home"), home, Access::Write),
                mount(&home.join("seen"), &home.join("seen"), Access::Read),
            ],
            ..Layout::new(Isolation::Bwrap, Path::new("/checkout"))
        }
    }

    /// Explains a line in which `~` stands for a home directory with the files `hidden` and `seen`.
    fn explain(line: &str) -> Option<String> {
        let dir = tempfile::Builder::new().prefix("home").tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for name in ["project", ".ssh", ".pyenv/libexec"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in ["hidden", "seen", ".ssh/config", ".npmrc", ".pyenv/libexec/pyenv"] {
            fs::write(home.join(name), "").unwrap();
        }
        let shown = home.display().to_string();
        let homes = Homes { own: &home, private: &home };
        super::explain(&layout(&home), homes, &line.replace('~', &shown)).map(|text| text.replace(&shown, "~"))
    }

    fn setting(key: &str, path: &str) -> String {
        format!("add {path} to sandbox.{key} in .mahabharatha/config.yaml.")
    }

    #[test]
    fn a_hidden_file_is_named_with_the_setting_that_shows_it() {
        for (line, key, path) in [
            ("some test\ncat: '~/hidden': No such file or directory\nmore", "read", "~/hidden"),
            ("open ~/seen: Read-only file system (os error 30)", "write", "~/seen"),
            ("/bin/sh: 1: cd: can't cd to ~/project", "read", "~/project"),
            ("/bin/sh: 1: cannot create ~/project/out: Directory nonexistent", "write", "~/project/out"),
            ("FileNotFoundError: [Errno 2] No such file or directory: '~/project/out'", "write", "~/project/out"),
            ("zsh: no such file or directory: ~/hidden", "read", "~/hidden"),
            ("Error: ENOENT: no such file or directory, open '~/project/out'", "write", "~/project/out"),
        ] {
            let text = explain(line).unwrap_or_else(|| panic!("{line}"));
            assert!(text.ends_with(&setting(key, path)), "{line}: {text}");
        }
        for other in [
            "cat: ~/missing: No such file or directory",
            "cat: ~/missing/more: No such file or directory",
            "cat: /checkout/a: No such file or directory",
            "cat: /proc/self/missing: No such file or directory",
            "~/hidden is a file",
            "",
        ] {
            assert_eq!(explain(other), None, "{other}");
        }
    }

    #[test]
    fn the_program_that_complains_is_not_what_the_sandbox_denied() {
        let text = explain("/bin/sh: 1: cannot create /usr/local/nc: Read-only file system").unwrap();
        assert_eq!(
            text,
            format!(
                "The sandbox does not let anything write /usr/local/nc. If the project needs it, create it and {}",
                setting("write", "/usr/local/nc")
            )
        );
        assert_eq!(explain("/bin/sh: 1: Read-only file system"), None);
        assert_eq!(explain("/bin/sh: Read-only file system: /checkout/a"), None);
    }

    #[test]
    fn a_hidden_login_is_named_as_one() {
        assert_eq!(
            explain("cat: ~/.npmrc: No such file or directory").unwrap(),
            "The sandbox hides ~/.npmrc, because it may hold a login. If every agent may see it, add it to sandbox.read \
             yourself (mahabharatha help security)."
        );
        assert_eq!(
            explain("cat: ~/.ssh/config: No such file or directory").unwrap(),
            "The sandbox hides ~/.ssh/config, because it may hold a login. Change what reads it."
        );
        let text = explain("sh: 1: cannot create ~/.npmrc: Directory nonexistent").unwrap();
        assert!(text.ends_with("Use another path, such as one in the worktree or in $TMPDIR."), "{text}");
    }

    #[test]
    fn of_a_toolchain_the_whole_directory_is_proposed() {
        let text = explain("~/.pyenv/shims/python: 8: exec: ~/.pyenv/libexec/pyenv: not found").unwrap();
        assert!(text.starts_with("The sandbox does not show ~/.pyenv/libexec/pyenv. "), "{text}");
        assert!(text.ends_with(&setting("read", "~/.pyenv")), "{text}");
    }

    #[test]
    fn a_path_in_the_private_home_stands_for_one_of_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let (own, private) = (dir.path().join("own"), dir.path().join("private"));
        fs::create_dir_all(own.join("share")).unwrap();
        fs::create_dir_all(private.join("made")).unwrap();
        fs::write(own.join("share/x"), "").unwrap();
        let mount = Mount { from: private.clone(), to: private.clone(), access: Access::Write };
        let layout = Layout { mounts: vec![mount], ..Layout::new(Isolation::Landlock, Path::new("/checkout")) };
        let explain = |path: &str| {
            let line = format!("cat: {}/{path}: No such file or directory", private.display());
            super::explain(&layout, Homes { own: &own, private: &private }, &line)
        };
        let named = own.join("share/x").display().to_string();
        let text = explain("share/x").unwrap();
        assert_eq!(
            text,
            format!("The sandbox does not show {named}. If the project needs it, {}", setting("read", &named))
        );
        let text = explain("share/new").unwrap();
        assert!(text.contains(&own.join("share/new").display().to_string()), "{text}");
        for other in ["new", "made/new", "nowhere/new"] {
            assert_eq!(explain(other), None, "{other}");
        }
    }

    #[test]
    fn what_would_weaken_the_sandbox_is_never_proposed() {
        for line in [
            "touch: cannot touch '/bin/sh': Read-only file system",
            "touch: cannot touch '/usr/local/bin/tool': Read-only file system",
            "touch: cannot touch '/usr/bin/new': Read-only file system",
            "touch: cannot touch '/etc/passwd': Read-only file system",
            "cp: cannot create '/opt/x/lib/a.so': Read-only file system",
            "cat: ~/.ssh/config: No such file or directory",
            "ls: ~/.ssh: No such file or directory",
            "sh: can't cd to /root/..: no such file or directory: /root",
            "ls: cannot open '/boot': No such file or directory",
        ] {
            let Some(text) = explain(line) else { continue };
            assert!(is_withheld(&text) && !text.contains(" to sandbox."), "{line}: {text}");
        }
        let text = explain("touch: cannot touch '/bin/sh': Read-only file system").unwrap();
        let other = "Use another path, such as one in the worktree or in $TMPDIR.";
        assert_eq!(text, format!("The sandbox does not let anything write /bin/sh. {other}"));
    }
}
