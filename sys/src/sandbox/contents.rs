//! What programs left in the private directories of a sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{LAYOUT, Layout};
use crate::store::tree;

/// Everything in the private directories, with what tells that it was touched.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents(BTreeMap<PathBuf, Touched>);

#[derive(Debug, PartialEq, Eq)]
enum Touched {
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
    /// directory as programs inside see it.
    pub(super) fn list(dir: &Path, layout: &Layout, home: &Path) -> Contents {
        let mount_points = mount_points(layout, home);
        let mut found = BTreeMap::new();
        tree::walk(dir, |path, entry| {
            let Ok(metadata) = entry.metadata() else { return false };
            if is_of_the_kernel(path) || path == Path::new(LAYOUT) {
                return false;
            }
            if !mount_points.contains(path) {
                found.insert(path.to_owned(), Touched::new(&metadata));
            }
            true
        });
        Contents(found)
    }
}

impl Touched {
    fn new(found: &Metadata) -> Touched {
        match found.is_dir() {
            true => Touched::Directory { mode: found.mode() },
            false => {
                let changed = (found.ctime(), found.ctime_nsec());
                Touched::File { inode: found.ino(), size: found.size(), changed }
            }
        }
    }
}

/// Returns the paths that bubblewrap creates in the private home and `/tmp` for mounts below them.
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

/// Whether the path is one that an overlay needs for itself.
fn is_of_the_kernel(path: &Path) -> bool {
    path.starts_with("caches") && (path.ends_with("work") || path.ends_with("merged"))
}
