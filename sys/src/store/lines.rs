//! Files of JSON lines to which several processes may append: costs, and verdicts of reviews.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;

use super::atomic::make_dir;
use super::{fault, state_file};
use crate::error::{Error, Result, io};

/// Appends the value as a line, in one write, and returns once it is on disk. If a crash cut the last line off, the value
/// gets a line of its own all the same.
pub fn append_line(path: &Path, value: &impl Serialize) -> Result<()> {
    if let Some(dir) = path.parent() {
        make_dir(dir)?;
    }
    let what = || format!("cannot write to {}", path.display());
    let mut line = serde_json::to_vec(value).map_err(|error| Error::caused(what())(error))?;
    line.push(b'\n');
    let mut write = || {
        fault::disk()?;
        let mut file = state_file::open_to_append(path)?;
        if ends_in_torn_line(&mut file)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line)?;
        file.sync_data()
    };
    write().map_err(io("write", path))
}

fn ends_in_torn_line(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_after_a_torn_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/lines.jsonl");
        append_line(&path, &"first").unwrap();
        let torn = std::fs::read_to_string(&path).unwrap() + "\"cut o";
        std::fs::write(&path, torn).unwrap();
        append_line(&path, &"second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\"first\"\n\"cut o\n\"second\"\n");
    }
}
