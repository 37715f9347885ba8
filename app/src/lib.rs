//! The command line: arguments in, text out; and the screen, which it opens on a terminal.

pub mod cli;
mod observe;
mod screen;
