//! Removes from a project what `init` and `install` wrote, except what the user has changed.

use std::fs;
use std::path::{Component, Path, PathBuf};

use mahabharatha_engine::claude::commands::Home;
use mahabharatha_engine::claude::groups::{Group, Selection};
use mahabharatha_engine::claude::install::{self, Plan};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES, SMALL_FILE_BYTES};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::projection;

use super::record::{self, Record};
use super::{IGNORE, claude_md, devcontainer};

/// Plans the removal; the caller must hold the lock. Files of runs (`.mahabharatha/state` and the like) are left to
/// `cleanup`, and the scaffold of a new project belongs to the user.
pub fn plan(root: &Path, selection: &Selection) -> Result<Plan> {
    let mut plan = install::plan_removal(&Home::of_project(root), selection)?;
    let mut record = Record::read(root);
    for path in record.paths() {
        let group = Group::of_project_file(&path);
        if group == Group::Scaffold || !selection.has(group) || path == IGNORE {
            continue;
        }
        match plain_file(root, &path)? {
            Some(found) if record.wrote(&path, &found) => plan.remove(group, &path)?,
            // Our part of this file is between two markers.
            Some(found) if path == claude_md::PATH => remove_our_part(&mut plan, group, &path, &found)?,
            Some(_) => plan.keep(group, &path),
            None => {}
        }
        record.forget(&path);
    }
    for (group, path) in [(Group::ClaudeMd, claude_md::PATH), (Group::Devcontainer, devcontainer::SETTINGS)] {
        if !selection.has(group) || plan.files.iter().any(|file| file.is(path)) {
            continue;
        }
        if let Some(found) = plain_file(root, path)? {
            remove_our_part(&mut plan, group, path, &found)?;
        }
    }
    finish(root, &mut plan, &record, selection)?;
    Ok(plan)
}

/// Removes the record when every group is removed, and the `.gitignore` beside it when nothing is left to ignore.
fn finish(root: &Path, plan: &mut Plan, record: &Record, selection: &Selection) -> Result<()> {
    let path = root.join(record::PATH);
    if path.is_file() {
        if selection.is_all() {
            plan.remove(Group::Record, record::PATH)?;
        } else if record.text() != bounded::read_to_string(&path, LARGE_FILE_BYTES).map_err(io("read", &path))? {
            plan.rewrite(Group::Record, record::PATH, record.text())?;
        }
    }
    let (ignore, home) = (root.join(IGNORE), root.join(".mahabharatha"));
    let is_ours = bounded::read_to_string(&ignore, SMALL_FILE_BYTES).is_ok_and(|text| text == projection::IGNORE);
    let left = fs::read_dir(&home).into_iter().flatten().flatten();
    let is_last = left.map(|entry| entry.path()).all(|path| path == ignore || plan.removes(&path));
    if is_ours && is_last && selection.has(Group::Config) {
        plan.remove(Group::Config, IGNORE)?;
    }
    Ok(())
}

/// Removes our part of a file, or the whole file if we created it.
fn remove_our_part(plan: &mut Plan, group: Group, path: &str, found: &[u8]) -> Result<()> {
    let Ok(text) = std::str::from_utf8(found) else { return Ok(()) };
    let left = match path {
        claude_md::PATH if claude_md::is_ours_alone(text) => return plan.remove(group, path),
        claude_md::PATH => claude_md::without_ours(text),
        _ => devcontainer::without_ours(text),
    };
    match left {
        Some(left) => plan.rewrite(group, path, left),
        None => Ok(()),
    }
}

/// Returns the contents of a regular file in the project that is reached without symlinks. The path is not trusted: a
/// forged record could name any file.
fn plain_file(root: &Path, path: &str) -> Result<Option<Vec<u8>>> {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    if !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(None);
    }
    let is_plain_dir = |length: usize| {
        let dir = root.join(parts[..length].iter().collect::<PathBuf>());
        fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir())
    };
    let file = root.join(path);
    if !(1..parts.len()).all(is_plain_dir) || !fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    bounded::read(&file, LARGE_FILE_BYTES).map(Some).map_err(io("read", &file))
}
