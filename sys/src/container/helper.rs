//! The files that our helper in a container consists of: this program and the libraries that it has loaded. With its own
//! dynamic linker it runs in any image of this architecture, whatever libraries the image has.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::proc;

/// Argument that makes this program the helper.
pub const COMMAND: &str = "inside";
/// Directory of the files in the container.
const DIR: &str = "/run/mahabharatha/helper";
/// Name of this program there.
const PROGRAM: &str = "mahabharatha";

/// Returns the files, and where they are in the container. `spare` is where a copy of this program is made if its file was
/// removed or replaced since it was started. If `copies` is given, the files are copied to that directory, because the engine
/// does not see them where they are.
pub fn files(spare: &Path, copies: Option<&Path>) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut program = proc::own_program()?;
    if !std::env::current_exe()?.exists() {
        fs::copy(&program, spare)?;
        program = spare.to_owned();
    }
    let libraries = proc::loaded_files()?.into_iter().map(|file| (file.clone(), inside(&file)));
    let files = libraries.chain([(program, Path::new(DIR).join(PROGRAM))]);
    let Some(copies) = copies else { return Ok(files.collect()) };
    fs::create_dir_all(copies)?;
    files.map(|(file, to)| Ok((copied(&file, &copies.join(to.file_name().unwrap_or_default()))?, to))).collect()
}

/// Copies a file, unless the copy is up to date. Never writes to a copy that may be in use.
fn copied(file: &Path, copy: &Path) -> io::Result<PathBuf> {
    let (of_file, of_copy) = (fs::metadata(file)?, fs::metadata(copy));
    let is_current = |found: &fs::Metadata| {
        let newer = found.modified().ok().zip(of_file.modified().ok()).is_some_and(|(copy, file)| copy >= file);
        newer && found.len() == of_file.len()
    };
    if !of_copy.as_ref().is_ok_and(is_current) {
        let dir = copy.parent().unwrap_or(Path::new("."));
        let temporary = tempfile::NamedTempFile::new_in(dir)?;
        fs::copy(file, temporary.path())?;
        temporary.persist(copy).map_err(|error| error.error)?;
    }
    Ok(copy.to_owned())
}

/// Returns the words that start this program in the container with an argument: as the helper, or only to see if it runs.
pub(super) fn words(argument: &str) -> io::Result<Vec<String>> {
    let program = format!("{DIR}/{PROGRAM}");
    let text = |file: &PathBuf| inside(file).to_string_lossy().into_owned();
    let files = proc::loaded_files()?.into_iter();
    let (linkers, libraries): (Vec<PathBuf>, Vec<PathBuf>) = files.partition(|file| is_linker(file));
    let mut words = Vec::new();
    // A static program has none.
    if let Some(linker) = linkers.first() {
        let libraries: Vec<String> = libraries.iter().map(text).collect();
        words.extend([text(linker), "--preload".to_owned(), libraries.join(":")]);
    }
    words.extend([program, argument.to_owned()]);
    Ok(words)
}

fn inside(file: &Path) -> PathBuf {
    Path::new(DIR).join(file.file_name().unwrap_or(OsStr::new("library")))
}

/// Tells the dynamic linker by its name (`ld-linux-x86-64.so.2`, `ld-musl-x86_64.so.1`, `ld-2.31.so`).
fn is_linker(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld"))
}
