//! The only module that runs git: the command line tool, with a fixed safe configuration and explicit paths.
//!
//! An agent may have written anything into the repository's `.git`. So nothing that could be planted there (hooks,
//! fsmonitor, pagers, aliases, external programs) is run, replacement objects are ignored, and calls that read files of
//! a worktree use a private git directory with pinned settings (`Git::objects`).

mod batch;
mod blobs;
mod checkout;
mod config;
mod copy;
mod damaged;
mod discover;
mod error;
mod filters;
mod merge;
mod objects;
mod patch;
mod path;
mod private_copy;
mod push;
mod ref_files;
mod refs;
mod rehash;
mod status;
mod trees;
mod worktrees;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::crash;
use crate::proc::{Cmd, Ended, Exit, absolute_path, base_env, find_program};

pub use batch::{CommitText, NewCommit};
pub use config::{Identity, Pinned, Settings, user_settings};
pub use copy::shallow_clone;
pub use discover::{FirstCommit, Found as Discovered, discover, init};
pub use error::{Cause, GitError, Result};
pub use merge::{IndexInput, Merged, Stage};
pub use patch::FilePatch;
pub use path::RepoPath;
pub use private_copy::PrivateCopy;
pub use push::{Pushed, Remote, running_transport, shown_url};
pub use refs::{Logged, RefChange, Worktree, short_branch};
pub use status::{Found, StatusEntry};
pub use trees::{Change, EntryType, SUBMODULE_MODE, TreeEntry};

/// Maximum output of a git call. Larger output is an error, never silently cut.
const MAX_OUTPUT_BYTES: usize = 1 << 30;

/// Settings for every call, which override all other configuration.
const SAFE_CONFIG: [(&str, &str); 45] = [
    ("core.hooksPath", "/dev/null"),
    // Since git 2.54 hooks may also be defined in the configuration.
    ("hook.reference-transaction.enabled", "false"),
    ("hook.post-checkout.enabled", "false"),
    ("hook.post-index-change.enabled", "false"),
    ("hook.post-merge.enabled", "false"),
    ("hook.pre-merge-commit.enabled", "false"),
    ("hook.prepare-commit-msg.enabled", "false"),
    ("hook.commit-msg.enabled", "false"),
    // For a signed commit `git log` would run the configured program.
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.alternateRefsCommand", "false"),
    ("core.splitIndex", "false"),
    ("core.sparseCheckout", "false"),
    ("core.commitGraph", "false"),
    ("core.quotePath", "false"),
    // Sync objects and refs to disk before anything relies on them.
    ("core.fsync", "objects,reference"),
    // The user's git, or that of another feature, locks a ref only for a moment.
    ("core.filesRefLockTimeout", "3000"),
    ("core.packedRefsTimeout", "3000"),
    ("index.sparse", "false"),
    ("diff.external", ""),
    ("diff.renames", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("merge.renames", "false"),
    ("status.renames", "false"),
    ("submodule.recurse", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("receive.autogc", "false"),
    ("rerere.enabled", "false"),
    ("advice.detachedHead", "false"),
    // Grafts are turned off by naming an empty graft file.
    ("advice.graftFileDeprecated", "false"),
];

/// Runs git on one git directory, optionally with a work tree and an index.
#[derive(Debug, Clone)]
pub struct Git {
    git_dir: PathBuf,
    work_tree: Option<PathBuf>,
    index: Option<PathBuf>,
    /// The repository's object directory, set only for a private git directory.
    objects: Option<PathBuf>,
    /// Settings that override `SAFE_CONFIG`.
    overrides: Vec<(String, String)>,
    /// Applies the user's configuration instead of `SAFE_CONFIG`; only for reading that configuration.
    user_config: bool,
    time_limit: Option<Duration>,
}

impl Git {
    /// Works on the repository itself: refs, worktrees, configuration and history.
    pub fn repository(common_dir: impl Into<PathBuf>) -> Self {
        Git {
            git_dir: common_dir.into(),
            work_tree: None,
            index: None,
            objects: None,
            overrides: Vec::new(),
            user_config: false,
            time_limit: None,
        }
    }

    /// Ends every call that takes longer. Needed where an agent works: git waits for ever for a named pipe.
    pub fn within(mut self, time_limit: Duration) -> Self {
        self.time_limit = Some(time_limit);
        self
    }

    pub fn work_tree(mut self, dir: impl Into<PathBuf>) -> Self {
        self.work_tree = Some(dir.into());
        self
    }

    pub fn index(mut self, file: impl Into<PathBuf>) -> Self {
        self.index = Some(file.into());
        self
    }

    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Returns git's version, such as `[2, 47, 3]`.
    pub fn version() -> Result<[u32; 3]> {
        let call = Call::new(["version"]);
        let ended = Cmd::new(executable()?).arg("version").envs(base_env(&[])).run();
        let text = call.finish(ended)?.text()?;
        let mut numbers = text.trim_start_matches(|c: char| !c.is_ascii_digit()).split('.').map_while(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => Ok([major, minor, numbers.next().unwrap_or(0)]),
            _ => Err(call.unexpected(&text)),
        }
    }

    /// Runs any other git command; fails unless git succeeds.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Result<Output> {
        self.call(Call::new(args))
    }

    fn call(&self, call: Call) -> Result<Output> {
        let ended = self.execute(&call)?;
        call.finish(ended)
    }

    /// Like `call`; `None` if the output is longer than `limit` bytes.
    fn call_within(&self, call: Call, limit: usize) -> Result<Option<Output>> {
        let ended = start(self.command(&call)?.keep(limit, 0), &call);
        if matches!(&ended, Ok(ended) if ended.success() && ended.truncated) {
            return Ok(None);
        }
        call.finish(ended).map(Some)
    }

    fn execute(&self, call: &Call) -> Result<std::io::Result<Ended>> {
        Ok(start(self.command(call)?, call))
    }

    /// Runs a git command for which exit code 1 means "no"; returns `None` then.
    fn ask(&self, call: Call) -> Result<Option<Output>> {
        let ended = self.execute(&call)?;
        if matches!(&ended, Ok(Ended { status: Exit::Code(1), .. })) {
            return Ok(None);
        }
        call.finish(ended).map(Some)
    }

    fn command(&self, call: &Call) -> Result<Cmd> {
        let mut cmd = Cmd::new(executable()?).arg("--no-pager").envs(base_env(&[])).env("PATH", absolute_path());
        cmd = cmd.arg(with_prefix("--git-dir=", &self.git_dir));
        cmd = match &self.work_tree {
            Some(dir) => cmd.arg(with_prefix("--work-tree=", dir)).cwd(dir),
            None => cmd.cwd(&self.git_dir),
        };
        for (key, value) in [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_GRAFT_FILE", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_EDITOR", "false"),
            ("GIT_ASKPASS", "false"),
        ] {
            cmd = cmd.env(key, value);
        }
        if let Some(index) = &self.index {
            cmd = cmd.env("GIT_INDEX_FILE", index);
        }
        if let Some(objects) = &self.objects {
            cmd = cmd.env("GIT_OBJECT_DIRECTORY", objects);
        }
        if self.user_config {
            cmd = cmd.envs(config::user_environment());
        } else {
            cmd = cmd.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            let overrides = self.overrides.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let settings: Vec<(&str, &str)> = SAFE_CONFIG.into_iter().chain(overrides).collect();
            cmd = cmd.env("GIT_CONFIG_COUNT", settings.len().to_string());
            for (index, (key, value)) in settings.into_iter().enumerate() {
                cmd = cmd.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value);
            }
        }
        for (key, value) in &call.env {
            cmd = cmd.env(key, value);
        }
        if let Some(limit) = self.time_limit {
            cmd = cmd.timeout(limit);
        }
        if let Some(input) = &call.input {
            cmd = cmd.stdin(input.clone());
        }
        Ok(cmd.args(&call.args).keep(MAX_OUTPUT_BYTES, 0))
    }
}

/// Runs the command of a git call.
fn start(command: Cmd, call: &Call) -> std::io::Result<Ended> {
    let running = command.spawn()?;
    crash::point(|| format!("git {}", call.subcommand().display()));
    running.wait()
}

/// Arguments, environment and input of one git call.
struct Call {
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    input: Option<Vec<u8>>,
}

impl Call {
    fn new<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Self {
        Call { args: args.into_iter().map(|arg| arg.as_ref().to_owned()).collect(), env: Vec::new(), input: None }
    }

    fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    fn env(mut self, key: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((key, value.into()));
        self
    }

    /// Returns the git subcommand, skipping `-c` settings before it.
    fn subcommand(&self) -> &OsStr {
        let mut args = self.args.iter();
        while args.as_slice().first().is_some_and(|arg| arg == "-c") {
            args.nth(1);
        }
        args.next().map_or(OsStr::new(""), OsString::as_os_str)
    }

    fn finish(&self, ended: std::io::Result<Ended>) -> Result<Output> {
        let ended = ended.map_err(GitError::Start)?;
        if ended.timed_out {
            return Err(GitError::timed_out(&self.args, ended.duration));
        }
        if !ended.success() {
            return Err(GitError::failed(&self.args, ended.status, &ended.stderr));
        }
        if ended.truncated {
            return Err(self.unexpected("too much output"));
        }
        Ok(Output { args: self.args.clone(), bytes: ended.stdout })
    }

    fn unexpected(&self, output: &str) -> GitError {
        GitError::unexpected(&self.args, output)
    }
}

/// Standard output of a git call.
pub struct Output {
    args: Vec<OsString>,
    pub bytes: Vec<u8>,
}

impl Output {
    /// Returns the output as text, without the final line break.
    pub fn text(&self) -> Result<String> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(_) => Err(self.unexpected("not UTF-8")),
        }
    }

    fn unexpected(&self, output: &str) -> GitError {
        GitError::unexpected(&self.args, output)
    }

    /// Returns the error for a part of the output that cannot be read.
    fn unreadable(&self, part: &[u8]) -> GitError {
        self.unexpected(&String::from_utf8_lossy(part))
    }

    fn oid(&self) -> Result<mahabharatha_core::ids::Oid> {
        let text = self.text()?;
        mahabharatha_core::ids::Oid::new(text.clone()).map_err(|_| self.unexpected(&text))
    }

    /// Splits the output of a `-z` listing.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.bytes.strip_suffix(b"\0").unwrap_or(&self.bytes);
        bytes.split(|&byte| byte == 0).filter(|_| !self.bytes.is_empty())
    }
}

/// Returns the path of git. Looked up once in our own PATH, so that a later change of PATH has no effect.
fn executable() -> Result<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find_program("git")).as_deref().ok_or(GitError::Missing)
}

fn with_prefix(prefix: &str, path: &Path) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(path);
    text
}

#[cfg(test)]
mod tests;
