//! Where `init` works: the main checkout, or a directory that is in no repository.

use std::path::{Path, PathBuf};

use super::mode::{self, Mode};
use crate::error::{Error, ExitCode, Result};
use crate::git::Git;
use crate::project::Project;

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
    let Some(project) = Project::locate(&dir)? else { return Ok(dir) };
    let root = project.root().to_owned();
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
