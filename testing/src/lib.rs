//! What tests of the whole program share: a repository to run it on, agents, a terminal, and
//! scripted model APIs that real coding agents talk to.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::new_without_default, reason = "a repository on the disk is no default value")]

pub mod agents;
pub mod claude_client;
pub mod coding_agents;
pub mod containers;
pub mod loopback;
pub mod messages_api;
pub mod model_api;
pub mod page;
mod phrase;
mod prompt_text;
pub mod support;
pub mod terminal;
pub mod tmux;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the program under test, which cargo builds next to the directory of the tests.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(|deps| deps.parent()).unwrap().join("mahabharatha")
}

/// Runs the user's git in a directory, without settings of the machine, and returns what it printed.
#[track_caller]
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=User", "-c", "user.email=user@x", "-c", "core.quotePath=false"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
