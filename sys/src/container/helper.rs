//! The files that our helper in a container consists of: this program and the libraries that it has loaded. With its own
//! dynamic linker it runs in any image of this architecture, whatever libraries the image has.

use std::ffi::OsStr;
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
/// removed or replaced since it was started.
pub fn files(spare: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut program = proc::own_program()?;
    if !std::env::current_exe()?.exists() {
        std::fs::copy(&program, spare)?;
        program = spare.to_owned();
    }
    let libraries = proc::loaded_files()?.into_iter().map(|file| (file.clone(), inside(&file)));
    Ok(libraries.chain([(program, Path::new(DIR).join(PROGRAM))]).collect())
}

/// Returns the words that start the helper in the container.
pub(super) fn words() -> io::Result<Vec<String>> {
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
    words.extend([program, COMMAND.to_owned()]);
    Ok(words)
}

fn inside(file: &Path) -> PathBuf {
    Path::new(DIR).join(file.file_name().unwrap_or(OsStr::new("library")))
}

/// Tells the dynamic linker by its name (`ld-linux-x86-64.so.2`, `ld-musl-x86_64.so.1`, `ld-2.31.so`).
fn is_linker(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld"))
}
