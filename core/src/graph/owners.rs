//! Checks who owns which path: one task, or several of which each depends on those before it.

use std::collections::{BTreeMap, BTreeSet};

use super::Severity::{Error, Warning};
use super::Task;
use super::claims::Claim;
use super::lists::Lists;
use super::nested::touching;
use super::report::{Report, shown};
use crate::spec::GraphFile;
use crate::spec::path::ancestors;

/// Most pairs of claims on one path whose order is looked at. A graph with more of them is a mistake or an attack.
const MAX_SHARING_PAIRS: usize = 10_000;

/// What the configuration allows in a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// Several tasks may own a path if dependencies order them.
    pub sequential: bool,
}

impl Rules {
    /// The rules for a graph that a run has accepted, so that it can be replayed whatever the configuration says now. The
    /// order of the owners is what keeps two tasks from changing a path at once.
    pub const ACCEPTED: Rules = Rules { sequential: true };
}

/// Returns for each of the tasks, sorted by level, the last one before it that owns one of its paths, too.
pub(super) fn owner_below(tasks: &[Task]) -> Vec<Option<usize>> {
    let all: Vec<(usize, &str)> = tasks
        .iter()
        .enumerate()
        .flat_map(|(index, task)| task.owned.iter().map(move |owned| (index, owned.path.as_str())))
        .collect();
    let shared: Vec<(usize, &str)> =
        touching(all.iter().map(|(_, path)| *path)).into_iter().map(|at| all[at]).collect();
    let mut owners: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &(index, path) in &shared {
        owners.entry(path).or_default().push(index);
    }
    let mut below = vec![None; tasks.len()];
    for (index, path) in shared {
        for path in ancestors(path).chain([path]) {
            for &other in owners.get(path).into_iter().flatten().filter(|other| **other != index) {
                let above = &mut below[index.max(other)];
                *above = (*above).max(Some(index.min(other)));
            }
        }
    }
    below
}

/// Two tasks' claims on one path, or of which one lies in the other's directory.
struct Clash {
    /// Index of the claim that is reported.
    claim: usize,
    /// Index of the other claim: on the same path, or on a directory above.
    other: usize,
    /// Whether both tasks may own the path if one depends on the other.
    may_share: bool,
}

/// Reports every path that two tasks own and may not. Returns the claims (by index) on what a task that comes before
/// makes.
pub(super) fn check(
    report: &mut Report,
    file: &GraphFile,
    claims: &[Claim],
    needs: &Lists,
    rules: Rules,
) -> BTreeSet<usize> {
    let shared = touching(claims.iter().map(|claim| &*claim.folded));
    check_same_tasks(report, shared.iter().map(|&index| &claims[index]));
    let Some(clashes) = find_clashes(report, file, claims, &shared, rules) else { return BTreeSet::new() };
    let level = |claim: usize| file.tasks[claims[claim].task].level;
    let in_order = |clash: &Clash| match level(clash.other) <= level(clash.claim) {
        true => (clash.other, clash.claim),
        false => (clash.claim, clash.other),
    };
    let pairs: Vec<(usize, usize)> = clashes.iter().map(in_order).collect();
    let tasks: Vec<(usize, usize)> = pairs.iter().map(|&(a, b)| (claims[a].task, claims[b].task)).collect();
    let ordered = depend(file, needs, &tasks);
    let mut made = BTreeSet::new();
    for ((clash, (first, then)), is_ordered) in clashes.iter().zip(pairs).zip(ordered) {
        let (claim, other) = (&claims[clash.claim], &claims[clash.other]);
        if !clash.may_share || !is_ordered {
            report_clash(report, file, (other, claim), clash.may_share, is_ordered);
        } else if is_made_twice(&claims[first], &claims[then]) {
            let message =
                format!("is created by {}, which comes before; list it under `modify`", name(file, &claims[first]));
            report.path(Error, "created_twice", claims[then].task, claims[then].listed, &message);
        }
        if is_ordered && (claims[first].owned.create || claims[first].owned.directory) {
            made.insert(then);
        }
        if is_ordered && !clash.may_share {
            // Refused already; with other settings one of them may make it for the other.
            made.extend([first, then]);
        }
    }
    made
}

/// The claims on one path.
#[derive(Default)]
struct Group {
    /// The first claim of each task, by index.
    claims: Vec<usize>,
    /// The first claim on it as a file.
    file: Option<usize>,
}

/// Returns the claims on each path, of those with these indices.
fn group<'c>(claims: &'c [Claim], shared: &[usize]) -> BTreeMap<&'c str, Group> {
    let mut groups: BTreeMap<&'c str, Group> = BTreeMap::new();
    for &index in shared {
        let claim = &claims[index];
        let group = groups.entry(&claim.folded).or_default();
        group.file = group.file.or((!claim.owned.directory).then_some(index));
        if group.claims.last().is_none_or(|last| claims[*last].task != claim.task) {
            group.claims.push(index);
        }
    }
    groups
}

/// Returns the pairs of claims on one path by different tasks, found among those with the indices in `shared`. A claim
/// that may not share its path is in one such pair only. Returns none, and says so, if there are too many to look at.
fn find_clashes(
    report: &mut Report,
    file: &GraphFile,
    claims: &[Claim],
    shared: &[usize],
    rules: Rules,
) -> Option<Vec<Clash>> {
    let groups = group(claims, shared);
    let (mut clashes, mut sharing) = (Vec::new(), 0);
    for &index in shared {
        let claim = &claims[index];
        let same = groups[&*claim.folded].claims.iter().take_while(|&&other| other < index);
        let above = || ancestors(&claim.folded).filter_map(|directory| groups.get(directory));
        let file_above = above().find_map(|group| group.file);
        if let Some(above) = file_above.map(|above| &claims[above]) {
            let message = format!("is below {}, which {} owns as a file", shown(above.listed), name(file, above));
            report.path(Error, "path_below_file", claim.task, claim.listed, &message);
        }
        let above = above().filter(|_| file_above.is_none()).flat_map(|group| &group.claims);
        for &other in same.chain(above).filter(|&&other| claims[other].task != claim.task) {
            let may_share = may_share(file, &claims[other], claim, rules);
            clashes.push(Clash { claim: index, other, may_share });
            if !may_share {
                break;
            }
            sharing += 1;
            if sharing > MAX_SHARING_PAIRS {
                let message = format!("more than {MAX_SHARING_PAIRS} pairs of tasks own the same path");
                report.whole(Error, "too_many_owners", message);
                return None;
            }
        }
    }
    Some(clashes)
}

/// Returns whether two claims, of which `other` is on the same path or on a directory above, may stand if one task
/// depends on the other: paths must be spelled alike, and a follow-up may change what was merged before it in any case.
fn may_share(file: &GraphFile, other: &Claim, claim: &Claim, rules: Rules) -> bool {
    let level = |claim: &Claim| file.tasks[claim.task].level;
    let later = if level(other) > level(claim) { other } else { claim };
    (rules.sequential || file.tasks[later.task].follow_up.is_some()) && is_within(claim, other)
}

/// Returns whether the claim is on the other's path or on something in the other's directory, spelled alike.
fn is_within(claim: &Claim, other: &Claim) -> bool {
    let (claim, other) = (&claim.owned, &other.owned);
    other.directory && other.covers(&claim.path) || other.path == claim.path && other.directory == claim.directory
}

/// Returns whether a task is to create what a task before it has created.
fn is_made_twice(first: &Claim, then: &Claim) -> bool {
    let (first, then) = (&first.owned, &then.owned);
    first.create && then.create && (first.path == then.path || then.covers(&first.path))
}

/// Returns for each pair of tasks whether the second depends on the first, directly or not.
fn depend(file: &GraphFile, needs: &Lists, pairs: &[(usize, usize)]) -> Vec<bool> {
    let mut found = vec![false; pairs.len()];
    if pairs.is_empty() {
        return found;
    }
    let mut firsts: Vec<usize> = pairs.iter().map(|(first, _)| *first).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let level = |task: usize| file.tasks[task].level;
    let mut by_level: Vec<usize> = (0..file.tasks.len()).collect();
    by_level.sort_by_key(|task| level(*task));
    for firsts in firsts.chunks(u64::BITS as usize) {
        // For each task a bit for each of `firsts` that it is or depends on.
        let mut before = vec![0_u64; file.tasks.len()];
        for &task in &by_level {
            let itself = firsts.binary_search(&task).map_or(0, |bit| 1 << bit);
            let lower = needs.get(task).iter().filter(|need| level(**need) < level(task));
            before[task] = lower.fold(itself, |bits, need| bits | before[*need]);
        }
        for (found, (first, then)) in found.iter_mut().zip(pairs) {
            if let Ok(bit) = firsts.binary_search(first) {
                *found = first != then && before[*then] >> bit & 1 == 1;
            }
        }
    }
    found
}

/// Reports paths that one task lists twice.
fn check_same_tasks<'c, 'f: 'c>(report: &mut Report, claims: impl Iterator<Item = &'c Claim<'f>>) {
    let mut spelled: BTreeMap<(usize, &str), &Claim> = BTreeMap::new();
    for claim in claims {
        let earlier = *spelled.entry((claim.task, claim.owned.path.as_str())).or_insert(claim);
        if std::ptr::eq(earlier, claim) {
            continue;
        }
        let (severity, code, message) = if earlier.owned.directory != claim.owned.directory {
            (Error, "path_below_file", "is listed both as a file and as a directory")
        } else if earlier.owned.create != claim.owned.create {
            (Error, "create_and_modify", "is listed under both `create` and `modify`; it can only be one of them")
        } else {
            (Warning, "path_listed_twice", "is listed twice")
        };
        report.path(severity, code, claim.task, claim.listed, message);
    }
}

fn report_clash(report: &mut Report, file: &GraphFile, of: (&Claim, &Claim), may_share: bool, is_ordered: bool) {
    let (other, claim) = of;
    let owner = name(file, other);
    let owned = if other.owned.path == claim.owned.path {
        format!("is also owned by {owner}")
    } else if other.folded == claim.folded {
        let listed = shown(other.listed);
        format!("is also owned by {owner} as {listed}, which some file systems treat as the same path")
    } else {
        format!("is also owned by {owner} through {}", shown(other.listed))
    };
    let (code, rule) = match may_share {
        true => {
            ("owners_not_ordered", ", and neither depends on the other; add a dependency, or give it to one of them")
        }
        false if is_ordered && is_within(claim, other) => (
            "path_owned_twice",
            "; every file has one owner, unless `ownership.sequential: true` lets tasks own it that depend on each other, \
             as these do",
        ),
        false => ("path_owned_twice", "; every file has one owner"),
    };
    report.path(Error, code, claim.task, claim.listed, &(owned + rule));
}

fn name(file: &GraphFile, claim: &Claim) -> String {
    shown(&file.tasks[claim.task].id)
}
