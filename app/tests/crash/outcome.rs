//! What a completed run has brought about and left behind, in a form that is the same for all runs of the scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::scenario::Scenario;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Of the base branch.
    pub tree: String,
    /// The subjects of its commits, sorted: one `feat` for each task, one `fix`, one commit for each level.
    pub subjects: Vec<String>,
    pub first_parents: Vec<String>,
    pub refs: BTreeSet<String>,
    /// Of the repository and everything in it but git's objects, and of the directory for temporary files.
    pub files: BTreeSet<String>,
    pub worktrees: usize,
    pub checkout: String,
    pub calls: BTreeMap<String, usize>,
    pub status: String,
}

impl Outcome {
    pub fn of(scenario: &Scenario) -> Outcome {
        let repo = &scenario.repo;
        let lines = |args: &[&str]| repo.git(args).lines().map(str::to_owned).collect::<Vec<_>>();
        let mut subjects = lines(&["log", "--format=%s", "main"]);
        subjects.sort();
        let mut files = BTreeSet::new();
        list(&repo.path(), "", &mut files);
        list(&scenario.outside().join("tmp"), "tmp/", &mut files);
        Outcome {
            tree: repo.git(&["rev-parse", "main^{tree}"]),
            subjects,
            first_parents: lines(&["log", "--first-parent", "--format=%s", "main"]),
            refs: lines(&["for-each-ref", "--format=%(refname)"]).iter().map(|name| without_number(name)).collect(),
            files,
            worktrees: lines(&["worktree", "list"]).len(),
            checkout: repo.git(&["status", "--porcelain", "--untracked-files=all"]),
            calls: scenario.calls(),
            status: repo.status()["status"].to_string(),
        }
    }

    /// What is not as expected, line by line.
    pub fn differences(&self, expected: &Outcome) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{what}: {ours}, and not {theirs}"));
            }
        };
        compare("tree", self.tree.clone(), expected.tree.clone());
        compare("commits", self.subjects.join(", "), expected.subjects.join(", "));
        compare("levels", self.first_parents.join(", "), expected.first_parents.join(", "));
        compare("worktrees", self.worktrees.to_string(), expected.worktrees.to_string());
        compare("checkout", self.checkout.clone(), expected.checkout.clone());
        compare("calls", format!("{:?}", self.calls), format!("{:?}", expected.calls));
        compare("status", self.status.clone(), expected.status.clone());
        for (what, ours, theirs) in [("ref", &self.refs, &expected.refs), ("file", &self.files, &expected.files)] {
            found.extend(ours.difference(theirs).map(|name| format!("{what} left behind: {name}")));
            found.extend(theirs.difference(ours).map(|name| format!("{what} missing: {name}")));
        }
        found
    }
}

/// The number of an attempt, or of a run of a gate, depends on how often it was started in vain.
fn without_number(name: &str) -> String {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let gate = name.strip_suffix(".jsonl").filter(|_| name.contains("/gates/")).and_then(|name| name.rsplit_once('.'));
    match (name.rsplit_once('/'), gate) {
        (_, Some((gate, run))) if is_number(run) => format!("{gate}.*.jsonl"),
        (Some((task, attempt)), _) if name.contains("/wip/") && is_number(attempt) => format!("{task}/*"),
        _ => name.to_owned(),
    }
}

fn list(dir: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name.starts_with(".git/mahabharatha/ports/") || name == ".git/mahabharatha/guard" {
            // Which ports were free is chance, and whether a worker met another at the lock that guards `.git`.
            continue;
        }
        let is_object = name.starts_with(".git/objects/") && !name.contains("tmp") && !name.contains("lock");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), &format!("{name}/"), found);
            if !is_object {
                found.insert(format!("{}/", without_number(&name)));
            }
        } else if !is_object {
            found.insert(without_number(&name));
        }
    }
}

/// Processes that have to do with this place: by where they work, what they were called with or what they were given.
pub fn processes_of(scenario: &Scenario) -> Vec<String> {
    let places = [scenario.repo.path(), scenario.outside()].map(|path| path.to_string_lossy().into_owned());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.parse::<u32>().is_err() || name == std::process::id().to_string() {
            continue;
        }
        let read =
            |file: &str| String::from_utf8_lossy(&fs::read(entry.path().join(file)).unwrap_or_default()).into_owned();
        let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default().to_string_lossy().into_owned();
        let command = read("cmdline").replace('\0', " ");
        let known = [cwd, command.clone(), read("environ")];
        if places.iter().any(|place| known.iter().any(|text| text.contains(place.as_str()))) {
            found.push(format!("{name} {command}"));
        }
    }
    found
}
