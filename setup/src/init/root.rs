//! Finds the directory that `init` works in: the main checkout, or a directory outside any repository.

use std::path::{Path, PathBuf};

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Project;

use super::mode::{self, Mode};

pub fn find(dir: &Path) -> Result<PathBuf> {
    // Nothing works without git, so fail before anything is written.
    Git::version()?;
    let dir = dir.canonicalize().map_err(|error| {
        Error::new(Kind::Usage, format!("cannot use the directory {}: {error}", dir.display()))
            .hint("Name an existing directory: -C <dir>.")
    })?;
    if !dir.is_dir() {
        return Err(Error::new(Kind::Usage, format!("{} is not a directory", dir.display()))
            .hint("Name an existing directory: -C <dir>."));
    }
    let project = Project::locate(&dir)?;
    let root = project.as_ref().map_or(dir.as_path(), |project| project.root()).to_owned();
    if is_home(&root) {
        let message = format!("{} is your home directory, whose .claude applies to all your projects", root.display());
        return Err(Error::new(Kind::Usage, message)
            .hint("Nothing was written; run init in a project's directory, or name one with -C <dir>."));
    }
    if dir != root && mode::of(&dir)?.0 == Mode::Inception {
        let (dir, root) = (dir.display(), root.display());
        return Err(Error::new(Kind::Usage, format!("{dir} is empty, but inside the repository {root}")).hint(
            format!(
                "To set up that repository, use -C '{root}'; for a new project, use a directory outside any repository."
            ),
        ));
    }
    Ok(root)
}

/// Returns true for a home directory that a person uses. A $HOME that was only set, as for a service, has none of these
/// files.
fn is_home(dir: &Path) -> bool {
    let home = proc::home().and_then(|home| home.canonicalize().ok());
    let settings = [".profile", ".bashrc", ".bash_profile", ".zshrc", ".ssh", ".claude.json"];
    home.is_some_and(|home| home == dir) && settings.iter().any(|name| dir.join(name).exists())
}
