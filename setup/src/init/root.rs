//! Where `init` works: the main checkout, or a directory that is in no repository.

use std::path::{Path, PathBuf};

use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Project;

use super::mode::{self, Mode};

pub fn find(dir: &Path) -> Result<PathBuf> {
    // Nothing works without git, so better said before anything is written.
    Git::version()?;
    let dir = dir.canonicalize().map_err(|error| {
        Error::new(ExitCode::Usage, format!("there is no directory {}: {error}", dir.display()))
            .hint("Name one that is there: -C <dir>.")
    })?;
    if !dir.is_dir() {
        return Err(Error::new(ExitCode::Usage, format!("{} is not a directory", dir.display()))
            .hint("Name one that is there: -C <dir>."));
    }
    let project = Project::locate(&dir)?;
    let root = project.as_ref().map_or(dir.as_path(), |project| project.root()).to_owned();
    if is_home(&root) {
        let message = format!("{} is your home directory, and its .claude is for all your projects", root.display());
        return Err(Error::new(ExitCode::Usage, message)
            .hint("Go into the directory of a project, or name it with -C <dir>. Nothing was written."));
    }
    if dir != root && mode::of(&dir)?.0 == Mode::Inception {
        let (dir, root) = (dir.display(), root.display());
        return Err(Error::new(ExitCode::Usage, format!("{dir} is empty, but in the repository {root}")).hint(
            format!(
                "For that repository: -C '{root}'. For a project of its own: a directory that is in no repository."
            ),
        ));
    }
    Ok(root)
}

/// Where somebody lives: one that was only named so, as for a service, holds none of these.
fn is_home(dir: &Path) -> bool {
    let home = proc::home().and_then(|home| home.canonicalize().ok());
    let settings = [".profile", ".bashrc", ".bash_profile", ".zshrc", ".ssh", ".claude.json"];
    home.is_some_and(|home| home == dir) && settings.iter().any(|name| dir.join(name).exists())
}
