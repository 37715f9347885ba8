//! The command line: arguments in, text out; the screen, which it opens on a terminal; and the page, which it serves.

pub mod cli;
mod observe;
mod screen;
mod serve;
