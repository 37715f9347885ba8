//! The private directories of a sandbox: which there are, what programs left in them, and how they are emptied.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Isolation;

use super::container::ENDED;
use super::{Access, CACHES, GIT, GIT_LINK, GIT_SETTINGS, LAYOUT, MERGED, Sandbox, UPPER, WORK};
use crate::error::{Result, io};
use crate::git::{PRIVATE_COPY_DIRS, PRIVATE_COPY_FILES};
use crate::store::tree;

impl Sandbox {
    /// Creates the private directories, or empties those of an earlier sandbox.
    pub(super) fn renew(&mut self) -> Result<()> {
        if !fs::symlink_metadata(&self.dir).is_ok_and(|found| found.is_dir()) {
            tree::remove(&self.dir)?;
        }
        self.lasting = self.private_dirs();
        make_private(&self.dir)?;
        self.empty()?;
        self.lasting.iter().try_for_each(|path| make_private(&self.dir.join(path)))
    }

    /// Returns the directories that every sandbox in this place needs: private ones, and those on which others are mounted.
    fn private_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = ["home", "tmp"].map(PathBuf::from).to_vec();
        dirs.extend(PRIVATE_COPY_DIRS.iter().map(|dir| Path::new(GIT).join(dir)));
        for mount in &self.layout.mounts {
            if let Access::Overlay(changes) = &mount.access {
                let changes = changes.strip_prefix(&self.dir).unwrap_or(changes);
                dirs.extend([MERGED, UPPER, WORK].map(|part| changes.join(part)));
            }
            if self.layout.isolation.maps_paths() && mount.from.is_dir() {
                dirs.extend(self.mount_point(&mount.to));
            }
        }
        dirs
    }

    /// Returns where a path inside is created in the private directories, relative to `dir`, if it is.
    fn mount_point(&self, inside: &Path) -> Option<PathBuf> {
        let places = [("home", self.home()), ("tmp", self.tmp())];
        places.iter().find_map(|(part, place)| Some(Path::new(part).join(inside.strip_prefix(place).ok()?)))
    }

    /// Empties the private directories. What every sandbox needs stays, without content: some file systems take long to
    /// create files for a while after many were removed.
    pub(super) fn empty(&self) -> Result<()> {
        let of_git: Vec<PathBuf> = PRIVATE_COPY_FILES.iter().map(|file| Path::new(GIT).join(file)).collect();
        let others = [LAYOUT, GIT_LINK, GIT_SETTINGS].map(Path::new);
        let files: Vec<&Path> = of_git.iter().map(PathBuf::as_path).chain(others).collect();
        let dirs: Vec<&Path> = self.lasting.iter().map(PathBuf::as_path).collect();
        tree::empty_except(&self.dir, &dirs, &files).map(drop)
    }

    /// Returns what is in the private directories. As long as this is what it was before the first command, the sandbox
    /// is as good as new. `None` where a command may leave traces elsewhere, or if something cannot be listed.
    pub fn contents(&self) -> Option<Contents> {
        if !matches!(self.layout.isolation, Isolation::Bwrap | Isolation::Container) {
            return None;
        }
        let mount_points = self.layout.mounts.iter().filter_map(|mount| self.mount_point(&mount.to)).collect();
        Contents::list(&self.dir, &mount_points)
    }
}

/// Makes sure that there is a directory which only the user can access, whatever a program made of its permissions.
pub(super) fn make_private(dir: &Path) -> Result<()> {
    const MODE: u32 = 0o700;
    DirBuilder::new().recursive(true).mode(MODE).create(dir).map_err(io("create", dir))?;
    if fs::metadata(dir).is_ok_and(|found| found.mode() & 0o7777 == MODE) {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(MODE)).map_err(io("change the permissions of", dir))
}

/// Everything in the private directories.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents(BTreeMap<PathBuf, Fingerprint>);

/// What tells that a file or directory was touched.
#[derive(Debug, PartialEq, Eq)]
enum Fingerprint {
    Directory {
        mode: u32,
    },
    /// Programs cannot set the change time.
    File {
        inode: u64,
        size: u64,
        changed: (i64, i64),
    },
}

impl Contents {
    /// Lists what is in the directory of a sandbox, except for mount points and the directories that lead to them. `None`
    /// if something cannot be listed.
    pub(super) fn list(dir: &Path, mount_points: &BTreeSet<PathBuf>) -> Option<Contents> {
        let mut found = BTreeMap::new();
        let mut open = vec![PathBuf::new()];
        while let Some(place) = open.pop() {
            for entry in fs::read_dir(dir.join(&place)).ok()? {
                let entry = entry.ok()?;
                let (path, metadata) = (place.join(entry.file_name()), entry.metadata().ok()?);
                if is_overlay_workdir(&path) || path == Path::new(LAYOUT) || path == Path::new(ENDED) {
                    continue;
                }
                if metadata.is_dir() {
                    open.push(path.clone());
                }
                let is_part = place.as_os_str().is_empty();
                let leads_to_mount = || !is_part && mount_points.iter().any(|point| point.starts_with(&path));
                if metadata.is_symlink() || !leads_to_mount() {
                    found.insert(path, Fingerprint::new(&metadata));
                }
            }
        }
        Some(Contents(found))
    }
}

impl Fingerprint {
    fn new(found: &Metadata) -> Fingerprint {
        match found.is_dir() {
            true => Fingerprint::Directory { mode: found.mode() },
            false => {
                let changed = (found.ctime(), found.ctime_nsec());
                Fingerprint::File { inode: found.ino(), size: found.size(), changed }
            }
        }
    }
}

/// Whether it is the directory that an overlay needs for itself.
fn is_overlay_workdir(path: &Path) -> bool {
    path.ends_with(WORK) && path.parent().and_then(Path::parent) == Some(Path::new(CACHES))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::Workplace;
    use super::*;

    /// Everything below a directory but empty files, with its permissions.
    fn contents(dir: &Path) -> BTreeMap<PathBuf, u32> {
        let mut found = BTreeMap::new();
        tree::walk(dir, |path, entry| {
            let metadata = entry.metadata().unwrap();
            if !metadata.is_file() || metadata.len() > 0 {
                found.insert(path.to_owned(), metadata.mode());
            }
            true
        });
        found
    }

    #[test]
    fn the_next_sandbox_in_a_place_is_as_the_first_was() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, worktree) = (scratch.path().join("sandbox"), scratch.path().join("worktree"));
        fs::create_dir(&worktree).unwrap();
        let place = Workplace { worktree: &worktree, appears_at: Path::new("/tmp/project"), writable: true };
        let create = || Sandbox::create(&dir, Isolation::Bwrap, place).unwrap();

        let kept = worktree.join("kept");
        fs::write(&kept, "kept").unwrap();
        let first = create();
        let new = contents(&dir);
        fs::write(dir.join("home/.bashrc"), "left").unwrap();
        fs::write(dir.join("git/HEAD"), "left").unwrap();
        fs::set_permissions(dir.join("git/HEAD"), Permissions::from_mode(0o0)).unwrap();
        fs::hard_link(dir.join("git/HEAD"), dir.join("git/config")).unwrap();
        symlink(&kept, dir.join("git/index")).unwrap();
        fs::create_dir_all(dir.join("home/bin/more")).unwrap();
        fs::set_permissions(dir.join("home"), Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(dir.join("tmp"), Permissions::from_mode(0o0)).unwrap();
        fs::remove_dir(dir.join("git/hooks")).unwrap();
        symlink(&worktree, dir.join("git/hooks")).unwrap();
        fs::remove_dir_all(dir.join("git/refs")).unwrap();
        fs::write(dir.join("git/refs"), "left").unwrap();
        drop(first);
        let left = contents(&dir);
        assert!(left.keys().all(|path| new.contains_key(path)), "{left:?}");

        // The process that ran the program may have been killed.
        fs::write(dir.join("tmp/left"), "").unwrap();
        let second = create();
        assert_eq!(contents(&dir), new);
        fs::write(dir.join("git/HEAD"), "of the second").unwrap();
        assert_eq!(fs::read(dir.join("git/config")).unwrap_or_default(), b"");
        drop(second);

        tree::remove(&dir).unwrap();
        symlink(&worktree, &dir).unwrap();
        let third = create();
        assert_eq!(contents(&dir), new);
        drop(third);
        assert_eq!(fs::read(&kept).unwrap(), b"kept");
    }
}
