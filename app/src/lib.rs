//! The command line: arguments in, text out; the screen, which it opens on a terminal; the page and the MCP server, which it serves.

pub mod cli;
mod mcp;
mod observe;
mod screen;
mod serve;
