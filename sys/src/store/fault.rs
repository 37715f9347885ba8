//! Simulates a full disk for tests. Does nothing in builds without debug assertions.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};

/// Environment variable that names a file whose first line is `once N` or `from N`: the writes of the store that fail,
/// counted over all processes that have the variable. Each write appends a dot; without the file no write fails.
const VARIABLE: &str = "MAHABHARATHA_TEST_FULL_DISK";

/// Fails if the next write is to fail. Must be called before every write of the store.
pub fn disk() -> io::Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    match std::env::var_os(VARIABLE).map(|path| OpenOptions::new().read(true).append(true).open(path)) {
        Some(Ok(file)) => count(file),
        _ => Ok(()),
    }
}

fn count(mut file: std::fs::File) -> io::Result<()> {
    // Only one process counts at a time; the lock is released when the file is closed.
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    file.write_all(b".")?;
    let Some((instruction, dots)) = text.split_once('\n') else { return Ok(()) };
    let (mode, number) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let number: usize = number.parse().unwrap_or(usize::MAX);
    let this = dots.len() + 1;
    let full = if mode == "once" { this == number } else { this >= number };
    if full { Err(rustix::io::Errno::NOSPC.into()) } else { Ok(()) }
}
