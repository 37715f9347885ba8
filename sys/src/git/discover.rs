//! Finds the repository that a directory belongs to, and creates new ones.

use std::path::{Path, PathBuf};

use super::{Call, Cause, GitError, Identity, RepoPath, Result, config, executable, with_prefix};
use crate::proc::{Cmd, Exit};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The checkout that contains the directory; `None` in a bare repository or inside a git directory.
    pub top: Option<PathBuf>,
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
}

impl Found {
    /// Tells whether the directory is in the main checkout, not in a linked worktree.
    pub fn is_main(&self) -> bool {
        self.git_dir == self.common_dir
    }
}

/// Finds the repository as the user's git would, so that the user's `safe.directory` applies. Runs nothing from the
/// repository.
pub fn discover(start: &Path) -> Result<Found> {
    let ask = |what: &[&str]| {
        let call = Call::new([&["rev-parse", "--path-format=absolute"], what].concat());
        let cmd = Cmd::new(executable()?).args(&call.args).cwd(start).envs(config::user_environment());
        call.finish(cmd.env("LC_ALL", "C").run())
    };
    let output = match ask(&["--git-dir", "--git-common-dir", "--show-toplevel"]) {
        Err(error) if error.cause() == Some(Cause::NoWorkTree) => ask(&["--git-dir", "--git-common-dir"])?,
        answer => answer?,
    };
    let mut lines = output.bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut path = || lines.next().map(|line| RepoPath::new(line).as_path().to_owned());
    match (path(), path(), path()) {
        (Some(git_dir), Some(common_dir), top) => Ok(Found { top, git_dir, common_dir }),
        _ => Err(output.unexpected("fewer paths than expected")),
    }
}

/// The first commit of a new repository.
pub struct FirstCommit<'a> {
    pub branch: &'a str,
    pub message: &'a str,
    pub by: &'a Identity,
    /// Files to commit, even if git would ignore them; `None`: everything that git does not ignore.
    pub paths: Option<&'a [String]>,
}

/// Turns the directory into a repository with a first commit. The git directory may be moved into its place afterwards.
pub fn init(dir: &Path, git_dir: &Path, first: &FirstCommit<'_>) -> Result<()> {
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
    let options = ["-c", &name, "-c", &email, "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"];
    let options = options.into_iter().chain(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    run(Call::new(options.chain(["commit", "--quiet", "--message", first.message])))?;
    match run(Call::new(["config", "--unset", "core.worktree"])) {
        // Was not set, since the git directory is in its default place.
        Err(GitError::Failed { status: Exit::Code(5), .. }) => Ok(()),
        unset => unset,
    }
}
