//! File operations for worktrees that hostile code may have written to. They never follow a symbolic link.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::store::atomic::{make_projected_dir, write_projected};
pub use mahabharatha_sys::store::tree::{link_on_the_way, remove, walk};

/// Returns why a symbolic link at `path` must not be committed, or `None` if it may be.
pub fn bad_link(root: &Path, path: &Path, target: &Path) -> Option<&'static str> {
    let mut place: Vec<&OsStr> = path.parent().into_iter().flat_map(|parent| parent.iter()).collect();
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return Some("a symbolic link to an absolute path"),
            Component::ParentDir if place.pop().is_none() => return Some("a symbolic link that leads out"),
            Component::ParentDir | Component::CurDir => {}
            Component::Normal(name) => place.push(name),
        }
    }
    if place.first().is_some_and(|name| is_dot_git(name)) {
        return Some("a symbolic link into .git");
    }
    // It may still lead out of the repository through other links.
    match (fs::canonicalize(root), fs::canonicalize(root.join(path))) {
        (Ok(root), Ok(end)) if !end.starts_with(&root) => Some("a symbolic link that leads out"),
        (Ok(root), Ok(end)) if end.starts_with(root.join(".git")) => Some("a symbolic link into .git"),
        _ => None,
    }
}

/// Compares without case, as case-insensitive file systems do.
pub fn is_dot_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Moves whatever is at `path` into the quarantine; does nothing if the path does not exist.
pub fn displace(path: &Path, quarantine: &Path, name: &str) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    make_projected_dir(quarantine)?;
    let name = name.replace('/', "%");
    let place = (0..)
        .map(|n| quarantine.join(if n == 0 { name.clone() } else { format!("{name}.{n}") }))
        .find(|place| fs::symlink_metadata(place).is_err())
        .unwrap_or_else(|| quarantine.join(&name));
    if fs::rename(path, &place).is_err() {
        // On another file system, or not permitted: what matters is that it is gone from `path`.
        remove(path)?;
    }
    Ok(())
}

/// Empties a worktree, except for its `.git` file.
pub fn wipe(worktree: &Path) -> Result<()> {
    let _ = fs::set_permissions(worktree, Permissions::from_mode(0o755));
    let entries = fs::read_dir(worktree).map_err(io("read", worktree))?;
    for entry in entries.flatten().filter(|entry| entry.file_name() != ".git") {
        remove(&entry.path())?;
    }
    Ok(())
}

/// Makes a file hold exactly `text`; moves anything at `path` that is not a regular file into the quarantine.
pub fn ensure(path: &Path, text: &str, quarantine: &Path) -> Result<()> {
    let regular = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    if regular && bounded::read(path, SMALL_FILE_BYTES).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(());
    }
    if !regular {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        displace(path, quarantine, &name)?;
    }
    write_projected(path, text.as_bytes())
}

/// Refuses a place for a worktree that is reached through a symbolic link below the project, or below `worktrees_dir`
/// where that is elsewhere.
pub fn check_worktree(root: &Path, worktrees_dir: &Path, worktree: &Path) -> Result<()> {
    check_inside(if worktrees_dir.starts_with(root) { root } else { worktrees_dir }, worktree)
}

/// Refuses a directory that is not below `root`, or is reached through a symbolic link below it.
fn check_inside(root: &Path, dir: &Path) -> Result<()> {
    let refuse = |why: String| Err(Error::new(Kind::Failed, why));
    let Some(relative) = dir.strip_prefix(root).ok().filter(|relative| !relative.as_os_str().is_empty()) else {
        return refuse(format!("{} is not a place for a worktree: it is not below {}", dir.display(), root.display()));
    };
    match link_on_the_way(root, &relative.join("x")) {
        Some(link) => refuse(format!("{} is a symbolic link; remove it", root.join(link).display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_links_must_stay_inside_the_worktree() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        let bad = |path: &str, target: &str| {
            let place = root.join(path);
            let _ = fs::remove_file(&place);
            std::os::unix::fs::symlink(target, &place).unwrap();
            bad_link(&root, Path::new(path), Path::new(target))
        };
        for (path, target) in [("l", "a"), ("a/l", "../a/b"), ("a/b/l", "../../missing"), ("l", "./a/../a")] {
            assert_eq!(bad(path, target), None, "{path} -> {target}");
        }
        for (path, target) in [
            ("l", "/etc/passwd"),
            ("l", "../x"),
            ("a/l", "../../x"),
            ("l", ".git/config"),
            ("a/l", "../.GIT/hooks"),
            ("a/b/l", "../../../root/a"),
        ] {
            assert!(bad(path, target).is_some(), "{path} -> {target}");
        }
        // `up` is a link, so `..` after it does not lead where it seems to.
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        std::os::unix::fs::symlink("..", root.join("a/up")).unwrap();
        assert!(bad("a/l", "up/../x/..").is_none(), "dangling");
        assert!(bad("a/l", "up/..").is_some(), "resolves out of the repository");
    }

    #[test]
    fn an_unwritable_directory_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let stubborn = dir.path().join("d");
        fs::create_dir_all(stubborn.join("e")).unwrap();
        fs::write(stubborn.join("e/f"), "").unwrap();
        fs::set_permissions(stubborn.join("e"), Permissions::from_mode(0o000)).unwrap();
        remove(&stubborn).unwrap();
        assert!(!stubborn.exists());
    }

    #[test]
    fn a_directory_behind_a_symbolic_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("real/w")).unwrap();
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        assert!(check_inside(&root, &root.join("real/w")).is_ok());
        assert!(check_inside(&root, &root.join("real/not-there-yet")).is_ok());
        for bad in [root.join("link"), root.join("link/tmp"), root.clone(), dir.path().to_owned()] {
            assert!(check_inside(&root, &bad).is_err(), "{}", bad.display());
        }
    }
}
