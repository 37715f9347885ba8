//! The private directories of a sandbox, and what programs left in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Isolation;

use super::container::ENDED;
use super::{Access, CACHES, LAYOUT, MERGED, Sandbox, UPPER, WORK};
use crate::error::{Result, io};
use crate::store::tree;

impl Sandbox {
    /// Creates the private directories, in place of those of an earlier sandbox. None is used again: a program in another
    /// sandbox may have got an open descriptor of it.
    pub(super) fn create_dirs(&self) -> Result<()> {
        tree::remove(&self.dir)?;
        for part in ["home", "tmp"] {
            make_private(&self.dir.join(part))?;
        }
        let overlays = self.layout.mounts.iter().filter_map(|mount| match &mount.access {
            Access::Overlay(changes) => Some(changes),
            _ => None,
        });
        for changes in overlays {
            [MERGED, UPPER, WORK].iter().try_for_each(|part| make_private(&changes.join(part)))?;
        }
        Ok(())
    }

    /// Returns where a path inside is created in the private directories, relative to `dir`: in both if one appears in the
    /// other.
    fn mount_points(&self, inside: &Path) -> Vec<PathBuf> {
        let places = [("home", self.home()), ("tmp", self.tmp())];
        let in_place = |(part, place): &(&str, PathBuf)| Some(Path::new(part).join(inside.strip_prefix(place).ok()?));
        places.iter().filter_map(in_place).collect()
    }

    /// Returns what is in the private directories. As long as this is what it was before the first command, the sandbox
    /// is as good as new. `None` where a command may leave traces elsewhere, or if something cannot be listed.
    pub fn contents(&self) -> Option<Contents> {
        if !matches!(self.layout.isolation, Isolation::Bwrap | Isolation::Container) {
            return None;
        }
        let mount_points = self.layout.mounts.iter().flat_map(|mount| self.mount_points(&mount.to)).collect();
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

/// Permissions that bubblewrap gives to mount points and to the directories that it creates on the way to them.
const MOUNT_POINT_MODES: [u32; 2] = [0o755, 0o700];

/// Everything in the private directories.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents(BTreeMap<PathBuf, Fingerprint>);

/// What tells that a file or directory was touched.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fingerprint {
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
                    // The kernel sets some on the directories of overlays.
                    let is_of_kernel = |name: &[u8]| path.starts_with(CACHES) && name.starts_with(b"user.overlay.");
                    if !tree::attributes(&dir.join(&path))?.iter().all(|name| is_of_kernel(name)) {
                        return None;
                    }
                    open.push(path.clone());
                }
                let is_part = place.as_os_str().is_empty();
                // Bubblewrap creates those that are missing.
                let leads_to_mount = || !is_part && mount_points.iter().any(|point| point.starts_with(&path));
                let is_as_created = metadata.is_file() || MOUNT_POINT_MODES.contains(&(metadata.mode() & 0o7777));
                if metadata.is_symlink() || !leads_to_mount() || !is_as_created {
                    found.insert(path, Fingerprint::new(&metadata));
                }
            }
        }
        Some(Contents(found))
    }
}

impl Fingerprint {
    pub fn new(found: &Metadata) -> Fingerprint {
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
    use std::fs::File;
    use std::os::fd::AsRawFd;
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
        // As a program in another sandbox could get it through a socket.
        let home = File::open(dir.join("home")).unwrap();
        fs::write(dir.join("home/.bashrc"), "left").unwrap();
        fs::create_dir_all(dir.join("home/bin/more")).unwrap();
        fs::set_permissions(dir.join("home"), Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(dir.join("tmp"), Permissions::from_mode(0o0)).unwrap();
        fs::create_dir_all(dir.join("git/refs")).unwrap();
        symlink(&worktree, dir.join("git/hooks")).unwrap();
        drop(first);
        assert!(!dir.exists());

        // The process that ran the program may have been killed.
        fs::create_dir_all(dir.join("tmp")).unwrap();
        fs::write(dir.join("tmp/left"), "").unwrap();
        fs::write(dir.join(LAYOUT), "left").unwrap();
        let second = create();
        assert_eq!(contents(&dir), new);
        fs::write(format!("/proc/self/fd/{}/planted", home.as_raw_fd()), "").unwrap_err();
        drop(second);

        tree::remove(&dir).unwrap();
        symlink(&worktree, &dir).unwrap();
        let third = create();
        assert_eq!(contents(&dir), new);
        drop(third);
        assert_eq!(fs::read(&kept).unwrap(), b"kept");
    }

    #[test]
    fn a_sandbox_is_not_as_new_once_a_program_gave_attributes_to_a_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Workplace { worktree: scratch.path(), appears_at: Path::new("/tmp/project"), writable: true };
        let sandbox = Sandbox::create(&scratch.path().join("sandbox"), Isolation::Bwrap, place).unwrap();
        assert!(sandbox.contents().is_some());
        let set = |name| rustix::fs::setxattr(sandbox.private_home(), name, b"x", rustix::fs::XattrFlags::empty());
        match set("user.left") {
            Err(rustix::io::Errno::NOTSUP) => eprintln!("no extended attributes here"),
            result => {
                result.unwrap();
                assert_eq!(sandbox.contents(), None);
            }
        }
    }
}
