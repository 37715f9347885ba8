//! Every scaffold, made by the real program, then checked, tested and started with the real tools of its language. What
//! the tools fetch is kept under `target/scaffolds`, so that a second run is quick.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bench;
mod go;
mod python;
mod rust;
mod typescript;
mod whole_way;
