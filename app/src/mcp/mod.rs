//! The MCP server: a program that speaks the Model Context Protocol on standard input and output takes part in a run, as a
//! session of Claude Code does in task mode.
//!
//! ```text
//! client ─ stdin ─▶ server ─▶ tools: a call becomes a command line ─▶ calls: `mahabharatha … --json` ─▶ answer ─ stdout ─▶ client
//!                     └─────▶ resources: documents of the features
//! ```
//!
//! Each call runs in a process of its own, because a command owns its process: it is cancelled by a signal, becomes the
//! parent of every orphan below it and kills what is left at its end. Two of them in one process would end each other's
//! programs. So a tool does what its command does, a long call holds up no other one, and nothing but the protocol can get
//! onto standard output.
//!
//! Called by the `mcp` command. Must never do anything by itself: only the commands act.

mod answer;
mod calls;
mod resources;
mod server;
mod tools;

pub use answer::Errors;
pub use server::{Options, serve};
pub use tools::words;
