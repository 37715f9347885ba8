//! Landlock: access rules that the kernel applies to this process and everything it starts.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::places::SYSTEM;
use super::{Access, Layout, SECRET, name_servers};

/// The oldest kernel interface that isolates signals and abstract sockets (Linux 6.12).
const INTERFACE: ABI = ABI::V6;
/// Directories of the kernel that programs read.
const KERNEL: [&str; 2] = ["/proc", "/sys/devices/system/cpu"];
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm"];

/// Keeps this process from sending signals to processes outside, and from their abstract sockets.
pub fn restrict_scope() -> io::Result<()> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(INTERFACE))
        .and_then(Ruleset::create)
        .and_then(RulesetCreated::restrict_self);
    ruleset.map(drop).map_err(io::Error::other)
}

/// Restricts this process to the layout.
pub fn restrict(layout: &Layout) -> io::Result<()> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(INTERFACE))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(INTERFACE)))
        .map_err(io::Error::other)?;
    if !layout.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(INTERFACE)).map_err(io::Error::other)?;
    }
    let mut rules = ruleset.create().map_err(io::Error::other)?;
    let secret: Vec<PathBuf> = SECRET.iter().map(PathBuf::from).collect();
    for dir in SYSTEM.iter().chain(&KERNEL).map(Path::new) {
        for path in without(dir, &secret) {
            rules = allow(rules, &path, Access::Read)?;
        }
    }
    if let Some(file) = name_servers() {
        rules = allow(rules, &file, Access::Read)?;
    }
    for device in DEVICES {
        rules = allow(rules, Path::new(device), Access::Write)?;
    }
    for mount in &layout.mounts {
        let access = if mount.access == Access::Write { Access::Write } else { Access::Read };
        if layout.hidden.iter().any(|path| path.starts_with(&mount.from)) {
            // A rule covers everything below a directory: hidden names can be listed, but their files not be read.
            let Ok(place) = PathFd::new(&mount.from) else { continue };
            rules = rules.add_rule(PathBeneath::new(place, AccessFs::ReadDir)).map_err(io::Error::other)?;
        }
        for path in without(&mount.from, &layout.hidden) {
            rules = allow(rules, &path, access.clone())?;
        }
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        status => Err(io::Error::other(format!("the kernel enforces Landlock rules only in part ({status:?})"))),
    }
}

/// Returns the directory, or all in it but the hidden ones: a rule cannot make an exception below a directory. Links are
/// left out, because a rule would allow what they lead to; that is readable if it is allowed itself.
fn without(dir: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if !hidden.iter().any(|path| path.starts_with(dir)) {
        return vec![dir.to_owned()];
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    entries
        .map(|entry| entry.path())
        .filter(|path| !hidden.contains(path))
        .flat_map(|path| without(&path, hidden))
        .collect()
}

fn allow(rules: RulesetCreated, path: &Path, access: Access) -> io::Result<RulesetCreated> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let rights = if access == Access::Write { AccessFs::from_all(INTERFACE) } else { AccessFs::from_read(INTERFACE) };
    let rights = if path.is_dir() { rights } else { rights & AccessFs::from_file(INTERFACE) };
    rules.add_rule(PathBeneath::new(place, rights)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_directories_are_left_out_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["a", "b/c/hidden", "b/d", "hidden"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::os::unix::fs::symlink("/", at("link")).unwrap();
        let mut shown = without(dir.path(), &[at("hidden"), at("b/c/hidden")]);
        shown.sort();
        assert_eq!(shown, [at("a"), at("b/d")]);
        assert_eq!(without(&at("b"), &[at("hidden")]), [at("b")]);
    }
}
