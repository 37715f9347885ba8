//! Copies ignored files that workers need (such as `.env`) and that `.worktreeinclude` names.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::GitignoreBuilder;
use mahabharatha_core::config::Generated;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Git, RepoPath};
use mahabharatha_sys::project::is_worktrees_dir;

use super::files;
use super::job_spec::JobSpec;

const FILE: &str = ".worktreeinclude";
/// Larger than any list written by hand; every pattern costs time.
const MAX_LIST_BYTES: u64 = 256 << 10;
const MAX_VISITED: usize = 500_000;
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 1 << 30;

/// Copies the named files from the main checkout, only those that git ignores there and does not track in the worktree.
/// The index of `git` must hold the base commit.
pub fn include(spec: &JobSpec, git: &Git) -> Result<Vec<String>> {
    let list = spec.root.join(FILE);
    if !fs::symlink_metadata(&list).is_ok_and(|found| found.is_file()) {
        return Ok(Vec::new());
    }
    let (wanted, mut warnings) = wanted_files(&spec.root);
    let ignored: BTreeSet<RepoPath> = git.clone().work_tree(&spec.root).ignored(&wanted)?.into_iter().collect();
    let mut room = MAX_BYTES;
    for path in wanted.iter().filter(|path| ignored.contains(path)) {
        match copy(spec, path.as_path(), &mut room) {
            Ok(true) => {}
            Ok(false) => warnings.push(format!("{FILE}: {path} is not copied, it is no plain file or too large")),
            Err(error) => warnings.push(format!("{FILE}: {path} is not copied: {error}")),
        }
    }
    Ok(warnings)
}

/// Returns the files that the list names, and warnings about the list.
pub fn wanted_files(root: &Path) -> (Vec<RepoPath>, Vec<String>) {
    let mut warnings = Vec::new();
    let text = match bounded::read_to_string(&root.join(FILE), MAX_LIST_BYTES) {
        Ok(text) => text,
        Err(error) => {
            warnings.push(match error.kind() {
                ErrorKind::FileTooLarge => format!("{FILE} is not read: it is longer than {} KB", MAX_LIST_BYTES >> 10),
                _ => format!("{FILE} is not read: {error}"),
            });
            return (Vec::new(), warnings);
        }
    };
    let mut builder = GitignoreBuilder::new(root);
    let lines = text.trim_start_matches('\u{feff}').lines();
    let errors: Vec<_> = lines.filter_map(|line| builder.add_line(None, line).err()).collect();
    warnings.extend(errors.first().map(|error| format!("{FILE}: {error}")));
    let matcher = match builder.build() {
        Ok(matcher) => matcher,
        Err(error) => {
            warnings.push(format!("{FILE}: {error}"));
            return (Vec::new(), warnings);
        }
    };
    // Caches are large, so they are entered only if the list names them.
    let generated = Generated::default();
    let (mut found, mut visited) = (Vec::new(), 0);
    files::walk(root, |path, entry| {
        visited += 1;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let matched = matcher.matched_path_or_any_parents(path, is_dir).is_ignore();
        if matched && !is_dir && found.len() < MAX_FILES {
            found.push(RepoPath::new(path.as_os_str().as_bytes()));
        }
        let ours = files::is_dot_git(&entry.file_name())
            || path == Path::new(".mahabharatha")
            || (is_dir && is_worktrees_dir(&entry.path()));
        // Another repository or a submodule, for whose files git refuses to say whether it ignores them.
        let another = is_dir && fs::symlink_metadata(entry.path().join(".git")).is_ok();
        let wanted = matched || !path.to_str().is_some_and(|text| generated.is_generated(text));
        visited < MAX_VISITED && !ours && !another && wanted
    });
    if visited >= MAX_VISITED || found.len() >= MAX_FILES {
        warnings.push(format!("{FILE}: there are too many files, so some were not looked at"));
    }
    (found, warnings)
}

fn copy(spec: &JobSpec, path: &Path, room: &mut u64) -> std::io::Result<bool> {
    let (from, to) = (spec.root.join(path), spec.worktree.join(path));
    let found = fs::symlink_metadata(&from)?;
    if found.is_symlink() {
        let target = fs::read_link(&from)?;
        if files::bad_link(&spec.root, path, &target).is_some() {
            return Ok(false);
        }
    } else if !found.is_file() || found.len() > *room {
        return Ok(false);
    }
    if files::link_on_the_way(&spec.worktree, path).is_some() {
        return Ok(false);
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if fs::symlink_metadata(&to).is_ok_and(|there| !there.is_dir()) {
        fs::remove_file(&to)?;
    }
    if found.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
    } else {
        *room -= found.len();
        fs::copy(&from, &to)?;
    }
    Ok(true)
}
