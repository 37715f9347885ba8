//! Registers a staging worktree again that the repository does not know any more, as after the project's directory was
//! renamed or `.git/worktrees` was removed.

use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::tree;

use super::Integration;

impl Integration {
    /// Registers the worktree if its `.git` file shows that it was staging of this repository, or of one that is gone.
    /// Its HEAD, index and unfinished merge stay. Returns whether it was.
    pub(super) fn adopt_staging_worktree(&self, path: &Path) -> Result<bool> {
        let common_dir = self.project.common_dir();
        let Some(recorded) = recorded_admin_dir(path) else { return Ok(false) };
        let Some((repository, name)) = staging_of(&recorded) else { return Ok(false) };
        if repository.exists() && repository.canonicalize().ok() != common_dir.canonicalize().ok() {
            return Ok(false);
        }
        let worktrees = common_dir.join("worktrees");
        // Another feature's staging may have got the name since.
        let own = Some(worktrees.join(name)).filter(|admin| !is_in_use(admin));
        let others = (1..).map(|number| worktrees.join(format!("staging{number}")));
        let Some(admin) = own.or_else(|| others.into_iter().find(|admin| !admin.exists())) else { return Ok(false) };
        fs::create_dir_all(&admin).map_err(io("make", &admin))?;
        write_projected(&admin.join("commondir"), b"../..\n")?;
        if !admin.join("HEAD").is_file() {
            let head = format!("ref: {}\n", self.paths.staging_branch());
            write_projected(&admin.join("HEAD"), head.as_bytes())?;
        }
        let link = path.join(".git");
        tree::remove(&link)?;
        write_projected(&link, format!("gitdir: {}\n", admin.display()).as_bytes())?;
        // From here on git knows the worktree.
        write_projected(&admin.join("gitdir"), format!("{}\n", link.display()).as_bytes())?;
        Ok(true)
    }
}

/// Returns the git directory to which a worktree's `.git` file leads.
fn recorded_admin_dir(worktree: &Path) -> Option<PathBuf> {
    let link = worktree.join(".git");
    if !fs::symlink_metadata(&link).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let text = bounded::read_to_string(&link, SMALL_FILE_BYTES).ok()?;
    Some(worktree.join(text.strip_prefix("gitdir: ")?.trim_end_matches('\n')))
}

/// Splits `REPOSITORY/worktrees/staging`; git adds a number to the name for each further feature.
fn staging_of(admin: &Path) -> Option<(&Path, &str)> {
    let name = admin.file_name()?.to_str()?;
    let is_staging = name.strip_prefix("staging")?.bytes().all(|byte| byte.is_ascii_digit());
    let worktrees = admin.parent().filter(|dir| dir.ends_with("worktrees"))?;
    Some((worktrees.parent()?, name)).filter(|_| is_staging)
}

/// Tells whether a worktree's git directory is that of a worktree whose files are there.
fn is_in_use(admin: &Path) -> bool {
    match bounded::read_to_string(&admin.join("gitdir"), SMALL_FILE_BYTES) {
        Ok(text) => admin.join(text.trim_end_matches('\n')).is_file(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_staging_is_recognized() {
        let split = |path: &str| staging_of(Path::new(path)).map(|(dir, name)| (dir.to_owned(), name.to_owned()));
        assert_eq!(split("/r/.git/worktrees/staging"), Some(("/r/.git".into(), "staging".into())));
        assert_eq!(split("/r/.git/worktrees/staging12"), Some(("/r/.git".into(), "staging12".into())));
        for other in ["/r/.git/worktrees/stagings", "/r/.git/worktrees/x", "/r/.git/modules/staging", "/r/.git", "/"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
