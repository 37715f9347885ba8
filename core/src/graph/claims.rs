//! The paths that tasks claim, and whether each fits the commit that the run starts from.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::Severity::{Error, Warning};
use super::index::Index;
use super::report::{Report, shown};
use super::{EntryKind, OwnedPath, StartTree};
use crate::spec::GraphFile;
use crate::spec::path::{ListedPath, ancestors, folded};

pub(super) struct Claim<'f> {
    /// Index of the task in the file; for a duplicate id, the index of the first task with it.
    pub task: usize,
    pub listed: &'f str,
    pub owned: OwnedPath,
    pub folded: Cow<'f, str>,
}

/// Returns every valid claim, in the order of the file, and reports the invalid ones.
pub(super) fn read<'f>(report: &mut Report, file: &'f GraphFile, ids: &Index) -> Vec<Claim<'f>> {
    let mut claims = Vec::new();
    for (index, task) in file.tasks.iter().enumerate() {
        if task.files.create.is_empty() && task.files.modify.is_empty() {
            continue;
        }
        let first = ids.find(&task.id, |task| &file.tasks[task].id).unwrap_or(index);
        let create = task.files.create.iter().map(|listed| (listed, true));
        let modify = task.files.modify.iter().map(|listed| (listed, false));
        for (listed, create) in create.chain(modify) {
            match ListedPath::read(listed) {
                Ok(ListedPath { path, directory }) => {
                    let is_folded = path == *listed && listed.is_ascii() && !listed.contains(char::is_uppercase);
                    let folded = if is_folded { Cow::from(listed) } else { Cow::from(folded(&path)) };
                    claims.push(Claim { task: first, listed, owned: OwnedPath { path, directory, create }, folded });
                }
                Err(bad) => report.path(Error, bad.code, index, listed, bad.why),
            }
        }
    }
    claims
}

/// Checks the claims against the start commit: `create` must not exist there, `modify` must unless an earlier task makes
/// it (`made`, by the index of the claim), and git must be able to commit the path.
pub(super) fn check_start(report: &mut Report, claims: &[Claim], made: &BTreeSet<usize>, start: &StartTree) {
    let spellings = start.spellings();
    for (index, claim) in claims.iter().enumerate() {
        let mismatch = || match claim.owned.directory {
            true => directory_mismatch(claim, start),
            false => file_mismatch(claim, start, &spellings),
        };
        let made_by_then = |(code, _): &(&str, String)| *code == MISSING && made.contains(&index);
        let found = misplaced(claim, start, &spellings).or_else(|| mismatch().filter(|found| !made_by_then(found)));
        if let Some((code, message)) = found {
            report.path(Error, code, claim.task, claim.listed, &message);
        } else if let (true, Some(spelled)) = (claim.owned.create, spellings.get(&*claim.folded)) {
            let message = format!("differs from {}, which exists, only in case or accents", shown(spelled));
            report.path(Warning, "path_case", claim.task, claim.listed, &message);
        }
    }
}

const MISSING: &str = "modify_missing";

pub(super) type Finding = Option<(&'static str, String)>;

/// Returns a finding if the path is below a symlink, a submodule or a file.
fn misplaced(claim: &Claim, start: &StartTree, spellings: &BTreeMap<String, &str>) -> Finding {
    let file = || ancestors(&claim.owned.path).find(|above| start.entries.contains_key(*above));
    elsewhere(&claim.owned, start, spellings).or_else(|| {
        let message = format!("is below {}, which is a file at the start commit", shown(file()?));
        Some(("path_below_file", message))
    })
}

/// Returns a finding if the path is below a symlink or a submodule.
pub(super) fn elsewhere(owned: &OwnedPath, start: &StartTree, spellings: &BTreeMap<String, &str>) -> Finding {
    let folded = folded(&owned.path);
    let itself = owned.directory.then_some(folded.as_str());
    for above in itself.into_iter().chain(ancestors(&folded)) {
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
    None
}

pub(super) fn in_submodule(path: &str) -> String {
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
            Some((MISSING, message.to_owned()))
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
            let hint = match spellings.get(&*claim.folded) {
                Some(spelled) => format!("; but {} does", shown(spelled)),
                None => "; list it under `create`".to_owned(),
            };
            Some((MISSING, format!("does not exist at the start commit{hint}")))
        }
    }
}
