//! Scans what a commit would add for secrets.

use std::collections::BTreeMap;

use mahabharatha_core::ids::Oid;
use mahabharatha_core::secrets::{self, Allowed, Finding, Suppression};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Change, Git, RepoPath};

/// Maximum size of a scanned file. Larger ones are rarely written by hand; they are reported as skipped.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Size at which a batch of files is read from git.
const BATCH_BYTES: u64 = 32 << 20;
/// Bytes at the start of a file in which a NUL marks it as binary, as in git.
const BINARY_PROBE_BYTES: usize = 8000;

/// Result of scanning a commit.
#[derive(Debug, Default)]
pub struct SecretScan {
    pub findings: Vec<Finding>,
    pub suppressions: Vec<Suppression>,
    /// Files that are too large to be scanned.
    pub skipped: Vec<String>,
    /// Mode and content of the files that the commit adds or changes, if all of them are small.
    pub contents: Contents,
}

/// Mode and content of files by their path.
pub type Contents = BTreeMap<RepoPath, (u32, Vec<u8>)>;

/// A changed file with the objects before and after, and their size.
struct Candidate {
    path: String,
    old: Option<Oid>,
    new: Oid,
    bytes: u64,
}

/// Scans the lines that `tree` adds to `base`; both may be commits.
pub fn scan(git: &Git, base: &Oid, tree: &Oid, allowed: &[Allowed]) -> Result<SecretScan> {
    let changes: Vec<Change> = git.diff_tree(base, tree)?.into_iter().filter(is_file).collect();
    let mut scan = SecretScan::default();
    let oids: Vec<&Oid> = changes.iter().flat_map(|change| change.new.iter().chain(&change.old)).collect();
    // One call is enough unless there is much to read.
    if let Some(contents) = git.read_blobs_within(&oids, MAX_FILE_BYTES as usize)? {
        scan_contents(changes, contents, allowed, &mut scan);
        return Ok(scan);
    }
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for candidate in candidates(git, changes, &mut scan.skipped)? {
        bytes += candidate.bytes;
        batch.push(candidate);
        if bytes >= BATCH_BYTES {
            scan_batch(git, &std::mem::take(&mut batch), allowed, &mut scan)?;
            bytes = 0;
        }
    }
    scan_batch(git, &batch, allowed, &mut scan)?;
    Ok(scan)
}

/// Scans files with contents that were read at once, each followed by what it was before.
fn scan_contents(changes: Vec<Change>, contents: Vec<Vec<u8>>, allowed: &[Allowed], scan: &mut SecretScan) {
    let mut contents = contents.into_iter();
    for Change { path, old, new_mode, .. } in changes {
        let new = contents.next().unwrap_or_default();
        let old = old.and_then(|_| contents.next()).unwrap_or_default();
        scan_file(&path.to_string(), &old, &new, allowed, scan);
        scan.contents.insert(path, (new_mode, new));
    }
}

fn is_file(change: &Change) -> bool {
    change.new.is_some() && change.new_mode & 0o170_000 == 0o100_000
}

/// Returns the files that are small enough to be scanned. A file that was too large before counts as new.
fn candidates(git: &Git, changes: Vec<Change>, skipped: &mut Vec<String>) -> Result<Vec<Candidate>> {
    let oids: Vec<&Oid> = changes.iter().flat_map(|change| change.new.iter().chain(&change.old)).collect();
    let mut sizes = git.blob_sizes(&oids)?.into_iter();
    let mut found = Vec::new();
    for Change { path, old, new, .. } in changes {
        let (Some(new), Some(bytes)) = (new, sizes.next()) else { continue };
        let old_bytes = old.as_ref().and_then(|_| sizes.next()).unwrap_or_default();
        if bytes > MAX_FILE_BYTES {
            skipped.push(path.to_string());
            continue;
        }
        let old = old.filter(|_| old_bytes <= MAX_FILE_BYTES);
        found.push(Candidate {
            path: path.to_string(),
            bytes: bytes + old.as_ref().map_or(0, |_| old_bytes),
            old,
            new,
        });
    }
    Ok(found)
}

fn scan_batch(git: &Git, batch: &[Candidate], allowed: &[Allowed], scan: &mut SecretScan) -> Result<()> {
    let oids: Vec<&Oid> = batch.iter().flat_map(|file| [&file.new].into_iter().chain(&file.old)).collect();
    let mut contents = git.read_blobs(&oids)?.into_iter();
    for file in batch {
        let new = contents.next().unwrap_or_default();
        let old = file.old.as_ref().and_then(|_| contents.next()).unwrap_or_default();
        scan_file(&file.path, &old, &new, allowed, scan);
    }
    Ok(())
}

fn scan_file(path: &str, old: &[u8], new: &[u8], allowed: &[Allowed], scan: &mut SecretScan) {
    if new.iter().take(BINARY_PROBE_BYTES).any(|&byte| byte == 0) {
        return;
    }
    let found = secrets::scan(path, &String::from_utf8_lossy(old), &String::from_utf8_lossy(new), allowed);
    scan.findings.extend(found.findings);
    scan.suppressions.extend(found.suppressions);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use mahabharatha_core::secrets::{ALLOW_COMMENT, feedback};

    use super::*;

    fn git(dir: &Path, args: &[&str]) -> String {
        let settings = ["-c", "user.name=T", "-c", "user.email=t@t"];
        let output = Command::new("git").args(settings).args(args).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(dir: &Path) -> Oid {
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-q", "--allow-empty", "-m", "x"]);
        Oid::new(git(dir, &["rev-parse", "HEAD"])).unwrap()
    }

    #[test]
    fn added_lines_of_text_files_are_scanned() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "-q"]);
        let key = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write("old.ts", &format!("const old = \"{key}\";\n"));
        write("gone.ts", &format!("const gone = \"{key}\";\n"));
        let base = commit(root);
        write("old.ts", &format!("const old = \"{key}\";\nconst more = \"{key}\";\n"));
        fs::remove_file(root.join("gone.ts")).unwrap();
        write("binary", &format!("\0{key}"));
        write("large", &format!("{key}\n{}", "x".repeat(MAX_FILE_BYTES as usize)));
        write("allowed.ts", &format!("// {ALLOW_COMMENT} revoked long ago\nconst k = \"{key}\";\n"));
        std::os::unix::fs::symlink(&key, root.join("link")).unwrap();
        // More than one batch, before the files with a secret.
        for number in 0..=BATCH_BYTES / MAX_FILE_BYTES {
            write(&format!("a-{number}"), &"\0".repeat(MAX_FILE_BYTES as usize));
        }
        let tree = commit(root);
        let found = scan(&Git::repository(root.join(".git")), &base, &tree, &[]).unwrap();
        let named: Vec<String> = found.findings.iter().map(Finding::to_string).collect();
        assert_eq!(named, ["old.ts:2: github-token (ghp_…, 40 characters)"]);
        assert_eq!(found.skipped, ["large"]);
        assert_eq!(found.suppressions.len(), 1);
        assert!(!feedback(&found.findings).contains(&key[4..]), "{}", feedback(&found.findings));
    }
}
