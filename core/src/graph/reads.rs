//! Checks that the files a task reads exist when it starts.

use std::collections::BTreeMap;

use super::Severity::Warning;
use super::claims::Claim;
use super::report::{Report, shown};
use super::{EntryKind, StartTree};
use crate::spec::path::{ListedPath, ancestors, folded};
use crate::spec::{GraphFile, TaskSpec};

pub(super) fn check(report: &mut Report, file: &GraphFile, claims: &[Claim], start: Option<&StartTree>) {
    if file.tasks.iter().all(|task| task.files.read.is_empty()) {
        return;
    }
    let makers = Makers::new(file, claims);
    // Cache, since many tasks read the same few paths.
    let mut known: BTreeMap<String, Option<&Claim>> = BTreeMap::new();
    for (index, task) in file.tasks.iter().enumerate() {
        for listed in &task.files.read {
            let path = match ListedPath::read(listed) {
                Ok(ListedPath { path, .. }) => path,
                // A pattern does not name a single file, and tasks may read the specs.
                Err(bad) if matches!(bad.code, "path_glob" | "path_reserved") => continue,
                Err(bad) => {
                    report.path(Warning, bad.code, index, listed, bad.why);
                    continue;
                }
            };
            if start.is_some_and(|start| may_exist(start, &path)) || makers.makes(index, &folded(&path)) {
                continue;
            }
            let maker = *known.entry(folded(&path)).or_insert_with_key(|path| makers.lowest(path));
            if let Some((code, message)) = unreadable(file, task, maker, start.is_some()) {
                report.path(Warning, code, index, listed, &message);
            }
        }
    }
}

/// Returns true if the path exists or may exist. Content behind a symlink or in a submodule cannot be checked.
fn may_exist(start: &StartTree, path: &str) -> bool {
    let beyond =
        |above: &str| matches!(start.entries.get(above), Some(EntryKind::Symlink { .. } | EntryKind::Submodule));
    start.contains(path) || ancestors(path).any(beyond)
}

fn unreadable(
    file: &GraphFile,
    task: &TaskSpec,
    maker: Option<&Claim>,
    start_known: bool,
) -> Option<(&'static str, String)> {
    let Some(claim) = maker else {
        let message = "is listed under `read`, but neither exists at the start commit nor is created by a lower level";
        return start_known.then(|| ("read_missing", message.to_owned()));
    };
    let made_by = &file.tasks[claim.task];
    if made_by.level < task.level || !claim.owned.create && !start_known {
        return None;
    }
    let message = format!(
        "is read on level {}, but is only created by {} on level {}",
        task.level,
        shown(&made_by.id),
        made_by.level
    );
    Some(("read_too_early", message))
}

/// The claims, sorted by path and by task.
struct Makers<'c, 'f> {
    file: &'f GraphFile,
    by_path: Vec<&'c Claim<'f>>,
    by_task: Vec<&'c Claim<'f>>,
}

impl<'c, 'f> Makers<'c, 'f> {
    fn new(file: &'f GraphFile, claims: &'c [Claim<'f>]) -> Self {
        let (mut by_path, mut by_task): (Vec<&Claim>, Vec<&Claim>) = (claims.iter().collect(), claims.iter().collect());
        by_path.sort_by_key(|claim| &*claim.folded);
        by_task.sort_by_key(|claim| claim.task);
        Makers { file, by_path, by_task }
    }

    fn makes(&self, task: usize, path: &str) -> bool {
        let start = self.by_task.partition_point(|claim| claim.task < task);
        self.by_task[start..].iter().take_while(|claim| claim.task == task).any(|claim| touches(claim, path))
    }

    /// Returns the claim of the lowest level on the path, on something below it, or on a directory above it.
    fn lowest(&self, path: &str) -> Option<&'c Claim<'f>> {
        let prefix = format!("{path}/");
        let below = self.from(&prefix).take_while(|claim| claim.folded.starts_with(&prefix));
        let above = ancestors(path).flat_map(|directory| self.on(directory));
        let touching = self.on(path).chain(below).chain(above);
        touching.filter(|claim| touches(claim, path)).min_by_key(|claim| self.file.tasks[claim.task].level)
    }

    fn on<'m>(&'m self, path: &'m str) -> impl Iterator<Item = &'c Claim<'f>> + 'm {
        self.from(path).take_while(move |claim| claim.folded == path)
    }

    /// Returns the claims on this path and on all that sort after it.
    fn from(&self, path: &str) -> impl Iterator<Item = &'c Claim<'f>> + '_ {
        let start = self.by_path.partition_point(|claim| &*claim.folded < path);
        self.by_path[start..].iter().copied()
    }
}

fn touches(claim: &Claim, path: &str) -> bool {
    let lies_in = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    claim.folded == path || lies_in(&claim.folded, path) || claim.owned.directory && lies_in(path, &claim.folded)
}
