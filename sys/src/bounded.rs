//! Reads files that a repository, an agent or another program may have written: never a device or a pipe, never more
//! than a limit, and nothing that a symbolic link leads to out of the project.

use std::fs::File;
use std::io::{BufRead, Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

/// Maximum size of files that hold a name or a path.
pub const SMALL_FILE_BYTES: u64 = 64 << 10;
/// Maximum size of documents and settings.
pub const LARGE_FILE_BYTES: u64 = 64 << 20;
/// Maximum size of git indexes.
pub const INDEX_BYTES: u64 = 1 << 30;

/// Directories of ours in a project. What is named below one of them stays in the directory that holds it: a
/// repository may come with links that lead elsewhere.
const OURS: [&str; 2] = [".gsd", ".mahabharatha"];

/// Opens a regular file for reading. Fails at once on a pipe without a writer, instead of blocking.
pub fn open(path: &Path) -> Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        () if !kind.is_file() => return Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
        () => {}
    }
    match project_of(path) {
        Some(root) => check_inside(&root, &place_of(&file)?).map(|()| file),
        None => Ok(file),
    }
}

/// Opens a regular file for reading, unless a symbolic link leads out of `root`.
pub fn open_inside(root: &Path, path: &Path) -> Result<File> {
    let file = open(path)?;
    check_inside(root, &place_of(&file)?).map(|()| file)
}

pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    read_file(open(path)?, limit)
}

pub fn read_to_string(path: &Path, limit: u64) -> Result<String> {
    text(read(path, limit)?)
}

/// Reads a text file, unless a symbolic link leads out of `root`.
pub fn read_inside(root: &Path, path: &Path, limit: u64) -> Result<String> {
    text(read_file(open_inside(root, path)?, limit)?)
}

/// Refuses an existing path that is outside of `root`, or leads there through a symbolic link.
pub fn check_below(root: &Path, path: &Path) -> Result<()> {
    check_inside(root, &path.canonicalize()?)
}

/// Refuses a place below a directory of ours that is out of the project, because of a symbolic link on the way. The
/// place itself and its directories need not exist yet.
pub fn check_place(path: &Path) -> Result<()> {
    let Some(root) = project_of(path) else { return Ok(()) };
    let is_link = |part: &Path| std::fs::symlink_metadata(part).is_ok_and(|found| found.is_symlink());
    let goes_back = path.components().any(|part| part == Component::ParentDir);
    if !goes_back && !path.ancestors().take_while(|part| *part != root).any(is_link) {
        return Ok(());
    }
    let there = path.ancestors().find_map(|part| part.canonicalize().ok());
    check_inside(&root, &there.unwrap_or_default())
}

/// Returns the directory that a path of ours must not leave.
fn project_of(path: &Path) -> Option<PathBuf> {
    let is_ours = |part: &Path| part.file_name().is_some_and(|name| OURS.iter().any(|ours| name == *ours));
    path.ancestors().filter(|part| is_ours(part)).last()?.parent().map(|root| Path::new(".").join(root))
}

/// Returns where an open file is. Asked after opening, so that a link that is changed meanwhile makes no difference.
#[cfg(target_os = "linux")]
fn place_of(file: &File) -> Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns where an open file is.
#[cfg(target_os = "macos")]
fn place_of(file: &File) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Ok(std::ffi::OsString::from_vec(rustix::fs::getpath(file)?.into_bytes()).into())
}

fn check_inside(root: &Path, place: &Path) -> Result<()> {
    // An open file's place has no links in it, so if it begins like the root, neither has the root.
    if place.starts_with(root) || place.starts_with(root.canonicalize()?) {
        return Ok(());
    }
    let why = format!("it leads out of {} through a symbolic link, which is not followed", root.display());
    Err(Error::new(ErrorKind::InvalidInput, why))
}

fn read_file(file: File, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = file.metadata()?.len();
    if length <= limit {
        // The file may have grown since.
        file.take(limit + 1).read_to_end(&mut bytes)?;
    }
    if length.max(bytes.len() as u64) > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Replaces `line` with the next line, including its end. Returns `false` at the end of the input; a line that is
/// longer than `limit` is an error.
pub fn read_line(reader: &mut impl BufRead, limit: u64, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    let length = reader.take(limit + 1).read_until(b'\n', line)?;
    if length as u64 > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("a line is longer than {limit} bytes")));
    }
    Ok(length > 0)
}

/// Opens a directory, to sync or lock it. Never blocks on a pipe.
pub fn open_dir(path: &Path) -> Result<File> {
    File::options().read(true).custom_flags(OFlags::DIRECTORY.bits().cast_signed()).open(path)
}

/// Tells whether a file cannot be read because of what it is, and not because of the system.
pub fn is_unfit(error: &Error) -> bool {
    use ErrorKind::{FileTooLarge, InvalidData, InvalidInput, IsADirectory};
    matches!(error.kind(), FileTooLarge | InvalidData | InvalidInput | IsADirectory)
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        fs::write(&file, "12345").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(read(&file, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(&pipe, 4).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(read(Path::new("/dev/zero"), 4).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(read(dir.path(), 4).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(&dir.path().join("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_sparse_file_is_refused_without_reading_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(read(&path, 1 << 41).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_line_is_read_up_to_the_limit() {
        let (mut input, mut line) = (&b"123\n4567\n89"[..], Vec::new());
        assert!(read_line(&mut input, 4, &mut line).unwrap());
        assert_eq!(line, b"123\n");
        assert_eq!(read_line(&mut input, 4, &mut line).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let mut input = &b"89"[..];
        assert!(read_line(&mut input, 4, &mut line).unwrap());
        assert_eq!(line, b"89");
        assert!(!read_line(&mut input, 4, &mut line).unwrap());
    }

    #[test]
    fn links_out_of_the_project_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("project"), dir.path().join("outside"));
        let specs = root.join(".gsd/specs");
        fs::create_dir_all(&specs).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in [outside.join("secret"), root.join("inside")] {
            fs::write(file, "text").unwrap();
        }
        symlink(outside.join("secret"), specs.join("file")).unwrap();
        symlink(&outside, specs.join("dir")).unwrap();
        symlink("../../inside", specs.join("relative")).unwrap();
        symlink(root.join("inside"), specs.join("absolute")).unwrap();
        for bad in ["file", "dir/secret"] {
            let error = read(&specs.join(bad), 9).unwrap_err();
            assert!(error.to_string().contains("symbolic link"), "{bad}: {error}");
            assert!(read_inside(&root, &specs.join(bad), 9).is_err());
        }
        for good in ["relative", "absolute"] {
            assert_eq!(read_to_string(&specs.join(good), 9).unwrap(), "text", "{good}");
            assert!(read_inside(&specs, &specs.join(good), 9).is_err());
        }
        for good in ["", "new", "new/and/newer", "relative"] {
            check_place(&specs.join(good)).unwrap();
        }
        for bad in ["dir", "dir/new", "file", "../../../outside/new"] {
            check_place(&specs.join(bad)).unwrap_err();
        }
        // A path that is not ours may lead anywhere, such as a file that the user names.
        symlink(outside.join("secret"), root.join("link")).unwrap();
        assert_eq!(read_to_string(&root.join("link"), 9).unwrap(), "text");
    }
}
