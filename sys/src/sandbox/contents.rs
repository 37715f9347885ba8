//! What programs left in the private directories of a sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::container::ENDED;
use super::{LAYOUT, Layout};

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
    /// Lists what is in the directory of a sandbox with this layout, except for mount points. `home` is the home
    /// directory as programs inside see it. `None` if something cannot be listed.
    pub(super) fn list(dir: &Path, layout: &Layout, home: &Path) -> Option<Contents> {
        let mount_points = mount_points(layout, home);
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
                if metadata.is_symlink() || !mount_points.contains(&path) {
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

/// Returns the paths that are created in the private home and `/tmp` for mounts below them.
fn mount_points(layout: &Layout, home: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for (private, place) in [("home", home), ("tmp", Path::new("/tmp"))] {
        let below = layout.mounts.iter().filter_map(|mount| mount.to.strip_prefix(place).ok());
        for path in below.flat_map(Path::ancestors).filter(|path| !path.as_os_str().is_empty()) {
            found.insert(Path::new(private).join(path));
        }
    }
    found
}

/// Whether an overlay needs the directory for itself.
fn is_overlay_workdir(path: &Path) -> bool {
    let mut parts = path.iter();
    let begins_so = parts.next().is_some_and(|part| part == "caches") && parts.next().is_some();
    begins_so && parts.next().is_some_and(|part| part == "work" || part == "merged") && parts.next().is_none()
}
