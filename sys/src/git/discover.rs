//! Where the repository is that a directory belongs to.

use std::path::{Path, PathBuf};

use super::{Call, GitError, Identity, RepoPath, Result, config, executable, with_prefix};
use crate::proc::{Cmd, Exit};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The checkout that the directory lies in; none in a bare repository or inside of a git directory.
    pub top: Option<PathBuf>,
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
}

impl Found {
    /// Whether the directory lies in the checkout that the repository was made with.
    pub fn is_main(&self) -> bool {
        self.git_dir == self.common_dir
    }
}

/// Asks git as the user would, so that the user's `safe.directory` counts; nothing is executed by the asking.
pub fn discover(start: &Path) -> Result<Found> {
    let ask = |what: &[&str]| {
        let call = Call::new([&["rev-parse", "--path-format=absolute"], what].concat());
        let cmd = Cmd::new(executable()?).args(&call.args).cwd(start).envs(config::user_environment());
        call.finish(cmd.env("LC_ALL", "C").run())
    };
    let output = match ask(&["--git-dir", "--git-common-dir", "--show-toplevel"]) {
        Err(GitError::Failed { stderr, .. }) if stderr.contains("must be run in a work tree") => {
            ask(&["--git-dir", "--git-common-dir"])?
        }
        answer => answer?,
    };
    let mut lines = output.bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut path = || lines.next().map(|line| RepoPath::new(line).as_path().to_owned());
    match (path(), path(), path()) {
        (Some(git_dir), Some(common_dir), top) => Ok(Found { top, git_dir, common_dir }),
        _ => Err(output.unexpected("fewer paths than were asked for")),
    }
}

/// The first commit of a repository.
pub struct First<'a> {
    pub branch: &'a str,
    pub message: &'a str,
    pub by: &'a Identity,
    /// What goes in, whether git would ignore it or not; none: everything.
    pub paths: Option<&'a [String]>,
}

/// Makes a repository of the directory, with its first commit. Its git directory may still be moved to where it belongs.
pub fn init(dir: &Path, git_dir: &Path, first: &First<'_>) -> Result<()> {
    let run = |call: Call| {
        let cmd = Cmd::new(executable()?).arg(with_prefix("--git-dir=", git_dir)).arg(with_prefix("--work-tree=", dir));
        let cmd = cmd.args(&call.args).cwd(dir).envs(config::user_environment()).env("LC_ALL", "C");
        let cmd = cmd.env("GIT_LITERAL_PATHSPECS", "1").stdin(call.input.clone().unwrap_or_default());
        call.finish(cmd.run()).map(drop)
    };
    let Identity { name, email } = first.by;
    let (name, email) = (format!("user.name={name}"), format!("user.email={email}"));
    run(Call::new(["init", "--quiet", "--template=", "--initial-branch", first.branch]))?;
    run(match first.paths {
        None => Call::new(["add", "--all"]),
        Some(paths) => {
            Call::new(["add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"]).input(paths.join("\0"))
        }
    })?;
    let as_theirs = ["-c", &name, "-c", &email, "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"];
    let as_theirs = as_theirs.into_iter().chain(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    run(Call::new(as_theirs.chain(["commit", "--quiet", "--message", first.message])))?;
    match run(Call::new(["config", "--unset", "core.worktree"])) {
        // It was not set, since the git directory is in its place.
        Err(GitError::Failed { status: Exit::Code(5), .. }) => Ok(()),
        unset => unset,
    }
}
