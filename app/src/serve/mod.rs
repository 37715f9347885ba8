//! The page: all features of the project in a browser, live.
//!
//! ```text
//!             server ─ one connection each ─▶ guard: token, Host, Origin; headers ─▶ routes
//! journal, slots, logs ─ live: one feed for each feature ─▶ Snapshot ─▶ events ─▶ connections
//! ```
//!
//! It only looks on. Actions call the same functions as the commands (`observe/action`), and only with `--allow-actions`.

mod actions;
mod assets;
mod diff;
mod events;
mod guard;
mod live;
mod output;
mod problem;
mod routes;
mod server;
mod shared;
mod syntax;
mod task;

pub use server::{Options, Server};
