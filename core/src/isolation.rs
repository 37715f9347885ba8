//! Names the sandbox that is in force.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The sandbox that is in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    Bwrap,
    Landlock,
    /// `sandbox-exec` of macOS.
    #[serde(rename = "sandbox-exec")]
    SandboxExec,
    /// A container for each worker.
    Container,
    /// None: programs have the user's rights.
    #[default]
    Off,
}

impl Isolation {
    /// Whether programs see a worktree at the path of the main checkout.
    pub fn maps_paths(self) -> bool {
        self == Isolation::Bwrap
    }

    /// Whether a sandbox only restricts access: every path inside leads to the same file outside.
    pub fn keeps_paths(self) -> bool {
        matches!(self, Isolation::Landlock | Isolation::SandboxExec)
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::Bwrap => "bwrap",
            Isolation::Landlock => "landlock",
            Isolation::SandboxExec => "sandbox-exec",
            Isolation::Container => "container",
            Isolation::Off => "off",
        })
    }
}
