//! Patches between two trees, and a place for objects that must not get into the repository.

use std::fs;
use std::path::Path;

use mahabharatha_core::ids::Oid;

use super::{Call, Change, Git, GitError, Output, Result};

/// A file of git's patch begins with a line like this; no line inside of a file's patch does.
const FILE_START: &[u8] = b"diff --git ";

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch {
    pub change: Change,
    /// Lines added and deleted; `None` for a binary file.
    pub lines: Option<(u64, u64)>,
    /// The file's part of git's patch, byte for byte.
    pub patch: Vec<u8>,
}

impl Git {
    /// Returns the changes from `old` to `new`. The patches of all files after another are what `git apply` takes.
    /// Neither external diff programs nor text conversions are run.
    pub fn patches(&self, old: &Oid, new: &Oid) -> Result<Vec<FilePatch>> {
        let diff = |format: &[&str]| {
            let plain = ["--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-indent-heuristic"];
            let whole = ["--full-index", "--ignore-submodules=none", "--submodule=short"];
            let args = ["diff-tree", "-r"].iter().chain(&plain).chain(&whole).chain(format);
            self.call(Call::new(args.copied().chain([old.as_str(), new.as_str()])))
        };
        let output = diff(&["-p", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"])?;
        let counted = diff(&["--numstat", "-z"])?;
        let (mut parts, mut counts) = (file_parts(&output.bytes).into_iter(), counted.parts());
        let missing = |output: &Output| output.unexpected("not every changed file is in it");
        let mut files = Vec::new();
        for change in self.diff_tree(old, new)? {
            let mut patch = parts.next().ok_or_else(|| missing(&output))?.to_vec();
            if change.status == 'T' {
                // A file that became a symbolic link: one is deleted, the other added.
                patch.extend_from_slice(parts.next().ok_or_else(|| missing(&output))?);
            }
            let line = counts.next().ok_or_else(|| missing(&counted))?;
            files.push(FilePatch { change, lines: line_counts(line), patch });
        }
        Ok(files)
    }

    /// Writes new objects into a directory of their own, which must not exist, instead of the repository.
    pub fn with_scratch_objects(mut self, dir: &Path) -> Result<Git> {
        let alternates: String = self.object_dirs().iter().map(|dir| format!("{}\n", dir.display())).collect();
        let write = || {
            fs::create_dir_all(dir.join("info"))?;
            fs::write(dir.join("info/alternates"), alternates)
        };
        write().map_err(|error| GitError::file("cannot write", dir, error))?;
        self.objects = Some(dir.to_owned());
        Ok(self)
    }
}

/// Splits a patch into its files.
fn file_parts(patch: &[u8]) -> Vec<&[u8]> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in patch.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(FILE_START) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &patch[start..end]).collect()
}

/// `<added>\t<deleted>\t<path>`, with `-` for a binary file.
fn line_counts(part: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = part.split(|&byte| byte == b'\t').map(|field| std::str::from_utf8(field).ok()?.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
