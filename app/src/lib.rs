//! The command line: arguments in, text out.

pub mod cli;
