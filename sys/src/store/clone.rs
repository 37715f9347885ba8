//! Copies directory trees with their modes and modification times, by reflink where the file system can share blocks.
//!
//! Symbolic links are copied as links and never followed; hard links become files of their own, so that no copy shares
//! anything with its source that a program could change.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::reflink;

/// Most threads that copy files at the same time.
const MAX_THREADS: usize = 8;
/// Items that a thread takes at once: neighbours lie in one directory, in which only one file can be created at a time.
const ITEMS_AT_ONCE: usize = 32;
/// Largest file that is copied by one read and one write, which for small files takes less time than asking the kernel to.
const SMALL_BYTES: u64 = 64 << 10;
/// Largest file whose contents are compared.
const MAX_COMPARED_BYTES: u64 = 64 << 20;

/// How the contents of files get into a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Blocks are shared until one side writes to them.
    Reflink,
    Copy,
}

/// The contents of a directory at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    dirs: Vec<Entry>,
    files: Vec<Entry>,
    links: Vec<(PathBuf, PathBuf)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: PathBuf,
    mode: u32,
    inode: u64,
    size: u64,
    blocks: u64,
    modified: (i64, i64),
}

impl Listing {
    /// Lists the directory, without sockets and other special files.
    pub fn of(dir: &Path) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let mut open = vec![PathBuf::new()];
        while let Some(place) = open.pop() {
            for entry in fs::read_dir(dir.join(&place))? {
                let entry = entry?;
                let (path, found) = (place.join(entry.file_name()), entry.metadata()?);
                if found.is_symlink() {
                    let target = fs::read_link(entry.path())?;
                    listing.links.push((path, target));
                    continue;
                }
                let item = Entry {
                    path: path.clone(),
                    mode: found.mode() & 0o777,
                    inode: found.ino(),
                    size: if found.is_file() { found.len() } else { 0 },
                    blocks: found.blocks(),
                    modified: (found.mtime(), found.mtime_nsec()),
                };
                if found.is_dir() {
                    open.push(path);
                    listing.dirs.push(item);
                } else if found.is_file() {
                    listing.files.push(item);
                }
            }
        }
        listing.files.sort_by(|one, other| one.path.cmp(&other.path));
        listing.dirs.sort_by(|one, other| one.path.cmp(&other.path));
        listing.links.sort();
        Ok(listing)
    }

    /// Returns the disk space of a copy that shares no blocks.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| (file.blocks * 512).max(file.size.min(4096))).sum()
    }

    pub fn file_count(&self) -> usize {
        self.files.len()
    }
}

/// Tells whether files below `from` can be copied into the directory `into` by reflink.
pub fn can_reflink(from: &Path, listing: &Listing, into: &Path) -> bool {
    let Some(file) = listing.files.iter().find(|file| file.size > 0) else { return false };
    let source = open_source(&from.join(&file.path));
    source.is_ok_and(|source| reflink::works(&source, into))
}

/// Copies what was listed of `from` to `to`, which must not exist. Fails if `from` has changed since or meanwhile.
/// After a failure the caller removes what was copied.
pub fn copy(from: &Path, listing: &Listing, to: &Path, method: Method) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for dir in &listing.dirs {
        DirBuilder::new().mode(0o700).create(to.join(&dir.path))?;
    }
    in_parallel(&listing.files, |file| copy_file(&from.join(&file.path), &to.join(&file.path), file, method))?;
    for (path, target) in &listing.links {
        symlink(target, to.join(path))?;
    }
    // Deepest first: a directory changes when something is created in it.
    for dir in listing.dirs.iter().rev() {
        let (source, place) = (fs::symlink_metadata(from.join(&dir.path))?, to.join(&dir.path));
        fs::set_permissions(&place, Permissions::from_mode(dir.mode | 0o700))?;
        set_modified(&place, source.modified()?)?;
    }
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    if Listing::of(from)? != *listing {
        return Err(changed());
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, listed: &Entry, method: Method) -> io::Result<()> {
    let mut source = open_source(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        return Err(changed());
    }
    let target = match method {
        Method::Reflink => reflink::create(&source, to)?,
        Method::Copy => {
            let mut target = OpenOptions::new().write(true).create_new(true).mode(listed.mode).open(to)?;
            if listed.size > SMALL_BYTES {
                io::copy(&mut source, &mut target)?;
            } else {
                copy_small(&mut source, &mut target, listed.size)?;
            }
            target
        }
    };
    // A shared copy is only the user's so far; of another one the umask may have taken bits away.
    if target.metadata()?.mode() & 0o777 != listed.mode {
        target.set_permissions(Permissions::from_mode(listed.mode))?;
    }
    target.set_times(FileTimes::new().set_modified(found.modified()?))
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "it changed while it was copied")
}

fn copy_small(source: &mut File, target: &mut File, size: u64) -> io::Result<()> {
    // One byte more, which a file that has grown fills.
    let mut bytes = vec![0; size as usize + 1];
    match source.read(&mut bytes)? {
        read if read as u64 == size => target.write_all(&bytes[..read]),
        _ => Err(changed()),
    }
}

/// Gives each file of `to` the modification time of the same file in `from`, if their contents are the same. Returns how
/// many got it.
pub fn take_times(from: &Path, to: &Path, paths: &[PathBuf]) -> usize {
    let taken = AtomicUsize::new(0);
    let _ = in_parallel(paths, |path| {
        if same_contents(&from.join(path), &to.join(path)).unwrap_or(false)
            && let Ok(modified) = fs::symlink_metadata(from.join(path)).and_then(|found| found.modified())
            && set_modified(&to.join(path), modified).is_ok()
        {
            taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    taken.into_inner()
}

/// Tells whether both are regular files with the same bytes, and the first did not change meanwhile.
fn same_contents(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut first, mut second) = (open_source(one)?, open_source(other)?);
    let (before, there) = (first.metadata()?, second.metadata()?);
    if !before.is_file() || !there.is_file() || before.len() != there.len() || before.len() > MAX_COMPARED_BYTES {
        return Ok(false);
    }
    let read = |file: &mut File| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(before.len() as usize);
        file.take(MAX_COMPARED_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let same = read(&mut first)? == read(&mut second)?;
    Ok(same && fs::symlink_metadata(one)?.modified()? == before.modified()?)
}

fn open_source(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

fn set_modified(path: &Path, time: SystemTime) -> io::Result<()> {
    open_source(path)?.set_times(FileTimes::new().set_modified(time))
}

/// Calls `act` for each item on a few threads; returns the first error.
fn in_parallel<T: Sync>(items: &[T], act: impl Fn(&T) -> io::Result<()> + Sync) -> io::Result<()> {
    let chunks: Vec<&[T]> = items.chunks(ITEMS_AT_ONCE).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(chunks.len().max(1));
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        while let Some(items) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            items.iter().try_for_each(&act)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended =
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
        ended.fold(Ok(()), io::Result::and)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_modes_times_and_links_and_shares_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/tool"), "x").unwrap();
        fs::hard_link(from.join("a/tool"), from.join("a/b/again")).unwrap();
        fs::set_permissions(from.join("a/tool"), Permissions::from_mode(0o755)).unwrap();
        symlink("/etc/passwd", from.join("out")).unwrap();
        symlink("a/tool", from.join("in")).unwrap();
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_234_567_890);
        for path in ["a/tool", "a/b", "a"] {
            set_modified(&from.join(path), old).unwrap();
        }
        let listing = Listing::of(&from).unwrap();
        assert_eq!(listing.file_count(), 2);
        copy(&from, &listing, &to, Method::Copy).unwrap();
        let copied = Listing::of(&to).unwrap();
        let seen = |listing: &Listing| -> Vec<_> {
            let all = listing.files.iter().chain(&listing.dirs);
            all.map(|entry| (entry.path.clone(), entry.mode, entry.size, entry.modified)).collect()
        };
        assert_eq!(seen(&copied), seen(&listing));
        assert_eq!(copied.links, listing.links);
        fs::write(to.join("a/tool"), "changed").unwrap();
        assert_eq!(fs::read(from.join("a/tool")).unwrap(), b"x");
        assert_eq!(fs::read(to.join("a/b/again")).unwrap(), b"x");
    }

    #[test]
    fn files_of_every_size_and_mode_are_copied_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        let sizes = [0, 1, SMALL_BYTES, SMALL_BYTES + 1, 3 * SMALL_BYTES];
        let modes = [0o400, 0o444, 0o600, 0o664, 0o777];
        let contents = |size: u64| -> Vec<u8> { (0..size).map(|at| (at % 251) as u8).collect() };
        for (size, mode) in sizes.into_iter().zip(modes) {
            let file = from.join(size.to_string());
            fs::write(&file, contents(size)).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        }
        copy(&from, &Listing::of(&from).unwrap(), &to, Method::Copy).unwrap();
        for (size, mode) in sizes.into_iter().zip(modes) {
            let file = to.join(size.to_string());
            assert!(fs::read(&file).unwrap() == contents(size), "{size}");
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, mode, "{size}");
        }
    }

    #[test]
    fn a_file_that_grows_or_shrinks_while_it_is_copied_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("from"), "abc").unwrap();
        for (listed, is_taken) in [(2, false), (3, true), (4, false)] {
            let mut source = open_source(&dir.path().join("from")).unwrap();
            let mut target = tempfile::tempfile_in(dir.path()).unwrap();
            assert_eq!(copy_small(&mut source, &mut target, listed).is_ok(), is_taken, "{listed}");
        }
    }

    #[test]
    fn a_source_that_changes_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a"), "1").unwrap();
        let listing = Listing::of(&from).unwrap();
        fs::write(from.join("b"), "2").unwrap();
        assert!(copy(&from, &listing, &dir.path().join("to"), Method::Copy).is_err());
    }

    #[test]
    fn times_are_taken_from_files_with_the_same_contents() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for (place, text) in [(&from, "1"), (&to, "2")] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("same"), "same").unwrap();
            fs::write(place.join("other"), text).unwrap();
        }
        symlink("same", from.join("link")).unwrap();
        fs::write(to.join("link"), "same").unwrap();
        let old = SystemTime::UNIX_EPOCH;
        for name in ["same", "other"] {
            set_modified(&from.join(name), old).unwrap();
        }
        let paths: Vec<PathBuf> = ["same", "other", "link", "gone"].iter().map(PathBuf::from).collect();
        assert_eq!(take_times(&from, &to, &paths), 1);
        let modified = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        assert!(modified("same") == old && modified("other") != old && modified("link") != old);
    }
}
