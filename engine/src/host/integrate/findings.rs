//! Findings of security scanners: what a failed gate shows, if its tool reports in SARIF.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use mahabharatha_core::sarif;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::bounded;
use mahabharatha_sys::proc::{Ended, bounded_text};

use super::command::{OUTPUT_BYTES, SarifSource};
use super::worktree::StagingWorktree;

/// Largest report that is read.
pub(super) const MAX_SARIF_BYTES: usize = 8 << 20;
/// Bytes of other output that follow the findings.
const OTHER_OUTPUT_BYTES: (usize, usize) = (0, 2 << 10);

/// The file in which a gate leaves its findings, as it was before the gate ran.
pub(super) struct FindingsFile {
    root: PathBuf,
    path: PathBuf,
    before: Option<(u64, i64, i64)>,
}

impl FindingsFile {
    pub fn before(worktree: &StagingWorktree, source: &SarifSource) -> Option<FindingsFile> {
        let SarifSource::File(path) = source else { return None };
        let (root, path) = (worktree.path.clone(), worktree.path.join(path));
        let before = fs::symlink_metadata(&path).ok().map(|found| stamp(&found));
        Some(FindingsFile { root, path, before })
    }

    /// Returns the findings, unless the file is missing, left over from an earlier run, or outside of the worktree.
    fn report(&self, redactor: &Redactor) -> Option<String> {
        let found = fs::symlink_metadata(&self.path).ok()?;
        let is_inside = self.path.canonicalize().ok()?.starts_with(self.root.canonicalize().ok()?);
        if !found.is_file() || !is_inside || Some(stamp(&found)) == self.before {
            return None;
        }
        sarif::report(&bounded::read(&self.path, MAX_SARIF_BYTES as u64).ok()?, redactor)
    }
}

/// Returns the inode and change time, which differ after the file was written; programs cannot set the change time.
fn stamp(found: &Metadata) -> (u64, i64, i64) {
    (found.ino(), found.ctime(), found.ctime_nsec())
}

/// Returns what to show of the output of a gate that failed, without secrets: its findings first, if there is a report of
/// them.
pub(super) fn shown_output(
    ended: &Ended,
    source: &SarifSource,
    file: Option<&FindingsFile>,
    redactor: &Redactor,
) -> String {
    let with_findings = |report: Option<String>, other: &[u8]| Some(report? + &bounded_text(other, OTHER_OUTPUT_BYTES));
    let shown = match source {
        SarifSource::None => None,
        SarifSource::File(_) => with_findings(file.and_then(|file| file.report(redactor)), &ended.stdout),
        SarifSource::Output => with_findings(sarif::report(&ended.stdout, redactor), &ended.stderr)
            .or_else(|| Some(bounded_text(&[&ended.stdout[..], &ended.stderr].concat(), OUTPUT_BYTES))),
    };
    redactor.redacted(&shown.unwrap_or_else(|| String::from_utf8_lossy(&ended.stdout).into_owned()))
}
