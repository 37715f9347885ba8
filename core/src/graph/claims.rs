//! Checks which task claims which path: no path is claimed twice, and each claim fits the commit that the run starts
//! from.

use std::collections::BTreeMap;

use super::Severity::{Error, Warning};
use super::report::{Report, shown};
use super::{EntryKind, OwnedPath, StartTree};
use crate::spec::GraphFile;
use crate::spec::path::{ListedPath, ancestors, folded};

pub(super) struct Claim<'f> {
    /// Index of the task in the file; for a duplicate id, the index of the first task with it.
    pub task: usize,
    listed: &'f str,
    pub owned: OwnedPath,
    pub folded: String,
}

/// Returns every valid claim, in the order of the file, and reports the invalid ones.
pub(super) fn read<'f>(report: &mut Report, file: &'f GraphFile, first: &BTreeMap<&str, usize>) -> Vec<Claim<'f>> {
    let mut claims = Vec::new();
    for (index, task) in file.tasks.iter().enumerate() {
        let create = task.files.create.iter().map(|listed| (listed, true));
        let modify = task.files.modify.iter().map(|listed| (listed, false));
        for (listed, create) in create.chain(modify) {
            match ListedPath::read(listed) {
                Ok(ListedPath { path, directory }) => {
                    let folded = folded(&path);
                    let task = first.get(task.id.as_str()).copied().unwrap_or(index);
                    claims.push(Claim { task, listed, owned: OwnedPath { path, directory, create }, folded });
                }
                Err(bad) => report.path(Error, bad.code, index, listed, bad.why),
            }
        }
    }
    claims
}

/// The claims on one path, as far as conflict detection needs them.
struct Group {
    first: usize,
    /// The first claim by another task.
    other: Option<usize>,
    file: Option<usize>,
}

impl Group {
    fn not_of(&self, task: usize, claims: &[&Claim]) -> Option<usize> {
        if claims[self.first].task == task { self.other } else { Some(self.first) }
    }
}

/// Checks that no path has two owners. A follow-up comes after what is merged, so its paths are compared with those of
/// its own level only, on which there are no other tasks.
pub(super) fn check_conflicts(report: &mut Report, file: &GraphFile, claims: &[Claim]) {
    let mut levels: BTreeMap<Option<u32>, Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        let task = &file.tasks[claim.task];
        levels.entry(task.follow_up.as_ref().map(|_| task.level)).or_default().push(claim);
    }
    for (index, task) in file.tasks.iter().enumerate().filter(|(_, task)| task.follow_up.is_some()) {
        if let Some(other) = file.tasks.iter().find(|other| other.level == task.level && other.follow_up.is_none()) {
            let message = format!("is a follow-up on the level of {}; give it a level of its own", shown(&other.id));
            report.task(Error, "follow_up_level", index, message);
        }
    }
    levels.values().for_each(|claims| check_owners(report, file, claims));
}

fn check_owners(report: &mut Report, file: &GraphFile, claims: &[&Claim]) {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    let mut spelled: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for (index, claim) in claims.iter().enumerate() {
        if let Some(&earlier) = spelled.get(&(claim.task, claim.owned.path.as_str())) {
            check_same_task(report, claims[earlier], claim);
        } else {
            spelled.insert((claim.task, &claim.owned.path), index);
        }
        let new_file = (!claim.owned.directory).then_some(index);
        let group = groups.entry(&claim.folded).or_insert(Group { first: index, other: None, file: None });
        group.file = group.file.or(new_file);
        if claims[group.first].task != claim.task {
            group.other = group.other.or(Some(index));
            report_conflict(report, file, claims[group.first], claim);
        }
    }
    for claim in claims {
        for group in ancestors(&claim.folded).filter_map(|directory| groups.get(directory)) {
            if let Some(above) = group.file {
                let above = claims[above];
                let message = format!("is below {}, which {} owns as a file", shown(above.listed), name(file, above));
                report.path(Error, "path_below_file", claim.task, claim.listed, &message);
                break;
            }
            if let Some(conflicting) = group.not_of(claim.task, claims) {
                report_conflict(report, file, claims[conflicting], claim);
                break;
            }
        }
    }
}

/// Reports two claims of one task on the same path.
fn check_same_task(report: &mut Report, earlier: &Claim, claim: &Claim) {
    let (a, b) = (&earlier.owned, &claim.owned);
    let (severity, code, message) = if a.directory != b.directory {
        (Error, "path_below_file", "is listed both as a file and as a directory")
    } else if a.create != b.create {
        (Error, "create_and_modify", "is listed under both `create` and `modify`; it can only be one of them")
    } else {
        (Warning, "path_listed_twice", "is listed twice")
    };
    report.path(severity, code, claim.task, claim.listed, message);
}

fn report_conflict(report: &mut Report, file: &GraphFile, other: &Claim, claim: &Claim) {
    let owner = name(file, other);
    let message = if other.owned.path == claim.owned.path {
        format!("is also owned by {owner}; every file has one owner")
    } else if other.folded == claim.folded {
        format!(
            "is also owned by {owner} as {}, which some file systems treat as the same path; every file has one owner",
            shown(other.listed)
        )
    } else {
        format!("is also owned by {owner} through {}; every file has one owner", shown(other.listed))
    };
    report.path(Error, "path_owned_twice", claim.task, claim.listed, &message);
}

fn name(file: &GraphFile, claim: &Claim) -> String {
    shown(&file.tasks[claim.task].id)
}

/// Checks the claims against the start commit: `create` must not exist there, `modify` must, and git must be able to
/// commit the path.
pub(super) fn check_start(report: &mut Report, file: &GraphFile, claims: &[Claim], start: &StartTree) {
    let spellings: BTreeMap<String, &str> = start.entries.keys().map(|path| (folded(path), path.as_str())).collect();
    for claim in claims {
        let is_merged_work = file.tasks[claim.task].follow_up.is_some()
            && !claim.owned.create
            && claims.iter().any(|other| other.task != claim.task && other.owned.overlaps(&claim.owned));
        let found = misplaced(claim, start, &spellings).or_else(|| {
            if is_merged_work {
                None
            } else if claim.owned.directory {
                directory_mismatch(claim, start)
            } else {
                file_mismatch(claim, start, &spellings)
            }
        });
        if let Some((code, message)) = found {
            report.path(Error, code, claim.task, claim.listed, &message);
        } else if let (true, Some(spelled)) = (claim.owned.create, spellings.get(&claim.folded)) {
            let message = format!("differs from {}, which exists, only in case or accents", shown(spelled));
            report.path(Warning, "path_case", claim.task, claim.listed, &message);
        }
    }
}

type Finding = Option<(&'static str, String)>;

/// Returns a finding if the path is below a symlink, a submodule or a file.
fn misplaced(claim: &Claim, start: &StartTree, spellings: &BTreeMap<String, &str>) -> Finding {
    let itself = claim.owned.directory.then_some(claim.folded.as_str());
    for above in itself.into_iter().chain(ancestors(&claim.folded)) {
        let Some(&path) = spellings.get(above) else { continue };
        match start.entries.get(path) {
            Some(EntryKind::Symlink { target }) => {
                let where_to = if start.leads_out(path) { "out of the repository" } else { "elsewhere" };
                let message = format!(
                    "goes through {}, a symlink that leads {where_to} (to {}); list the real path",
                    shown(path),
                    shown(target)
                );
                return Some(("path_through_symlink", message));
            }
            Some(EntryKind::Submodule) => return Some(("path_in_submodule", in_submodule(path))),
            _ => {}
        }
    }
    let file = ancestors(&claim.owned.path).find(|above| start.entries.contains_key(*above))?;
    Some(("path_below_file", format!("is below {}, which is a file at the start commit", shown(file))))
}

fn in_submodule(path: &str) -> String {
    format!("is in the submodule {}; its files belong to another repository", shown(path))
}

fn directory_mismatch(claim: &Claim, start: &StartTree) -> Finding {
    let OwnedPath { path, create, .. } = &claim.owned;
    if start.entries.contains_key(path) {
        return Some((
            "path_not_directory",
            "is a file at the start commit; list it without the trailing `/`".to_owned(),
        ));
    }
    match (create, start.has_below(path)) {
        (true, true) => Some(("create_exists", "exists at the start commit; list it under `modify`".to_owned())),
        (false, false) => {
            let message = "has no files at the start commit; list it under `create`";
            Some(("modify_missing", message.to_owned()))
        }
        _ => None,
    }
}

fn file_mismatch(claim: &Claim, start: &StartTree, spellings: &BTreeMap<String, &str>) -> Finding {
    let OwnedPath { path, create, .. } = &claim.owned;
    match start.entries.get(path) {
        Some(EntryKind::Submodule) => Some(("path_in_submodule", in_submodule(path))),
        Some(_) if *create => Some(("create_exists", "exists at the start commit; list it under `modify`".to_owned())),
        Some(EntryKind::Symlink { target }) if start.leads_out(path) => {
            let message = format!("is a symlink that points out of the repository (to {})", shown(target));
            Some(("path_through_symlink", message))
        }
        Some(_) => None,
        None if start.has_below(path) => {
            let message = "is a directory at the start commit; add a trailing `/` to own everything below it";
            Some(("path_is_directory", message.to_owned()))
        }
        None if *create => None,
        None => {
            let hint = match spellings.get(&claim.folded) {
                Some(spelled) => format!("; but {} does", shown(spelled)),
                None => "; list it under `create`".to_owned(),
            };
            Some(("modify_missing", format!("does not exist at the start commit{hint}")))
        }
    }
}
