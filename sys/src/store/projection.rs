//! `.mahabharatha/`: files for users and tools to read, generated from the journal. Nothing may depend on them.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::atomic::{sweep, write_atomic, write_projected_by};
use super::locks::WorktreesLock;
use super::state_file::make_private;
use crate::error::{Result, io};

/// The `.gitignore` there: git sees only the configuration; the rest is local to this machine and can be rebuilt.
pub const IGNORE: &str = "*\n!/config.yaml\n";

/// Creates `.mahabharatha/` with its `.gitignore`; an existing `.gitignore` is the user's and stays. `shared` is our
/// directory below the git directory, whose lock keeps out another feature's run that starts at the same time.
pub fn make_home(home: &Path, shared: &Path) -> Result<()> {
    make_private(shared).map_err(io("write", shared))?;
    for dir in ["state", "logs"] {
        // A run goes on without these. What is written there is private in any case.
        let _ = make_private(&home.join(dir));
    }
    let ignore = home.join(".gitignore");
    if ignore.exists() {
        return Ok(());
    }
    let _lock = WorktreesLock::wait(shared)?;
    sweep(home);
    write_atomic(&ignore, IGNORE.as_bytes())
}

/// Replaces the projection; readers see either the old or the new one.
pub fn write_projection(path: &Path, projection: &impl Serialize) -> Result<()> {
    write_projected_by(path, |file| {
        serde_json::to_writer_pretty(&mut *file, projection)?;
        file.write_all(b"\n")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use serde_json::Value;

    use super::*;

    #[test]
    fn git_sees_the_configuration_only() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let output = Command::new("git").arg("-C").arg(dir.path()).args(args).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        git(&["init", "-q"]);
        let home = dir.path().join(".mahabharatha");
        make_home(&home, &dir.path().join(".git/mahabharatha")).unwrap();
        write_projection(&home.join("state/x.json"), &Value::Null).unwrap();
        fs::create_dir_all(home.join("worktrees/x")).unwrap();
        fs::write(home.join("worktrees/x/config.yaml"), "").unwrap();
        assert_eq!(git(&["status", "--porcelain", "-uall"]), "");
        fs::write(home.join("config.yaml"), "").unwrap();
        assert_eq!(git(&["status", "--porcelain", "-uall"]), "?? .mahabharatha/config.yaml\n");
    }

    #[test]
    fn the_users_own_gitignore_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".gitignore"), "mine").unwrap();
        make_home(dir.path(), &dir.path().join("shared")).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(".gitignore")).unwrap(), "mine");
    }

    #[test]
    fn a_projection_is_one_json_document() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/x.json");
        let projection = serde_json::json!({"feature": "x", "tasks": {"TASK-001": {"status": "completed"}}});
        write_projection(&path, &projection).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap(), projection);
    }
}
