//! A disk that is full when a test wants it so. Only builds with debug assertions have it.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};

/// Names a file that begins with `once N` or `from N` and a line end: which writes of the store fail for lack of room, over all
/// processes that have it in their environment. Each write adds a dot; without the file nothing fails.
const VARIABLE: &str = "MAHABHARATHA_TEST_FULL_DISK";

/// To be asked before anything of the store is written.
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
    // Counted by one at a time; freed when the file is closed.
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    file.write_all(b".")?;
    let Some((orders, dots)) = text.split_once('\n') else { return Ok(()) };
    let (mode, number) = orders.split_once(' ').unwrap_or((orders, ""));
    let number: usize = number.parse().unwrap_or(usize::MAX);
    let this = dots.len() + 1;
    let full = if mode == "once" { this == number } else { this >= number };
    if full { Err(rustix::io::Errno::NOSPC.into()) } else { Ok(()) }
}
