//! Protects the files in `.git` that the user's next git command would execute or trust: hooks, configuration, links
//! between worktrees. After an attempt without a sandbox they must be as they were before it. From a sandbox nothing reaches
//! them: what changes there was changed by a person.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Isolation;
use mahabharatha_core::run::effect::Performer;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::Git;
use mahabharatha_sys::store::atomic::{make_dir, write_projected, write_with_permissions};
use mahabharatha_sys::store::state_file;
use serde::{Deserialize, Serialize};

use super::files;
use super::guard_config::{self, ChangedFile};
use super::job_spec::JobSpec;

/// Largest hook that is restored; a larger one is compared by inode, size and change time only.
const MAX_HOOK_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Entry {
    Absent,
    File {
        mode: u32,
        #[serde(with = "bytes_as_text")]
        bytes: Vec<u8>,
    },
    Large {
        inode: u64,
        size: u64,
        changed: (i64, i64),
    },
    Link(String),
    /// A directory in place of a file, a socket, …
    Other,
}

impl Entry {
    fn read(path: &Path) -> Entry {
        let Ok(found) = fs::symlink_metadata(path) else { return Entry::Absent };
        if found.is_symlink() {
            return Entry::Link(fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned());
        }
        if !found.is_file() {
            return Entry::Other;
        }
        match bounded::read(path, MAX_HOOK_BYTES) {
            Ok(bytes) => Entry::File { mode: found.mode() & 0o777, bytes },
            _ => Entry::Large { inode: found.ino(), size: found.size(), changed: (found.ctime(), found.ctime_nsec()) },
        }
    }
}

/// State of the guarded files at the start of an attempt, stored in case its worker is killed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Snapshot(Vec<(String, Entry)>);

/// State of all guarded files at one time; empty where the sandbox keeps programs from them.
pub struct Guard<'a> {
    spec: &'a JobSpec,
    entries: BTreeMap<PathBuf, Entry>,
    /// Files that the user may change as well, so changes only cause a warning. Compared by change time, which programs
    /// cannot set.
    warn_only: BTreeMap<PathBuf, Option<Stamp>>,
}

/// Inode, size and change time.
type Stamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

impl<'a> Guard<'a> {
    pub fn look(spec: &'a JobSpec) -> Guard<'a> {
        let is_confined = spec.confinement.isolation != Isolation::Off;
        if is_confined && !matches!(spec.job.performer, Performer::Session(_)) {
            return Guard { spec, entries: BTreeMap::new(), warn_only: BTreeMap::new() };
        }
        Guard::look_at_all(spec)
    }

    fn look_at_all(spec: &'a JobSpec) -> Guard<'a> {
        let (common, own) = (&spec.common_dir, &spec.worktree_git_dir);
        let mut paths: BTreeSet<PathBuf> = [
            common.join("config"),
            common.join("config.worktree"),
            common.join("commondir"),
            common.join("info/attributes"),
            common.join("info/grafts"),
            common.join("objects/info/alternates"),
            common.join("hooks"),
            own.join("config.worktree"),
            own.join("commondir"),
            own.join("gitdir"),
            spec.worktree.join(".git"),
        ]
        .into();
        paths.extend(worktree_git_dirs(common).map(|dir| dir.join("commondir")));
        let configured = spec.pinned.hooks_path().map(PathBuf::from).filter(|path| path.is_absolute());
        for dir in [Some(common.join("hooks")), configured].into_iter().flatten() {
            files::walk(&dir, |path, entry| {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_dir && path.extension().is_none_or(|extension| extension != "sample") {
                    paths.insert(dir.join(path));
                }
                is_dir
            });
        }
        let entries = paths.into_iter().map(|path| (path.clone(), Entry::read(&path))).collect();
        let context = &spec.context;
        let warn_only = [
            spec.spec_dir.join("task-graph.json"),
            context.requirements.clone(),
            context.design.clone(),
            context.project.clone(),
            spec.root.join(".mahabharatha/config.yaml"),
            common.join("info/exclude"),
            common.join("shallow"),
        ];
        Guard { spec, entries, warn_only: warn_only.into_iter().map(|path| (path.clone(), stamp(&path))).collect() }
    }

    pub fn snapshot(&self) -> Snapshot {
        let named = |(path, entry): (&PathBuf, &Entry)| Some((path.to_str()?.to_owned(), entry.clone()));
        Snapshot(self.entries.iter().filter_map(named).collect())
    }

    pub fn from_snapshot(spec: &'a JobSpec, snapshot: Snapshot) -> Guard<'a> {
        let entries = snapshot.0.into_iter().map(|(path, entry)| (path.into(), entry)).collect();
        Guard { spec, entries, warn_only: BTreeMap::new() }
    }

    /// Restores what was changed since; moves what the agent planted into the quarantine.
    pub fn restore(&self, git: &Git, job_dir: &Path) -> Result<Planted> {
        if self.entries.is_empty() {
            return Ok(Planted::default());
        }
        let now = Guard::look_at_all(self.spec);
        let changed = self.warn_only.iter().filter(|(path, before)| now.warn_only.get(*path) != Some(*before));
        let changed: Vec<&PathBuf> = changed.map(|(path, _)| path).collect();
        if changed.is_empty() && now.entries == self.entries {
            return Ok(Planted::default());
        }
        let dir = self.spec.common_dir.join("mahabharatha/guard");
        make_dir(&dir)?;
        let path = dir.join("lock");
        let lock = state_file::open(&path).map_err(io("open", &path))?;
        lock.lock().map_err(io("lock", &path))?;
        // Another worker may have restored it while this one waited for the lock.
        let now = Guard::look_at_all(self.spec);
        let quarantine = job_dir.join("quarantine");
        let mut restorer = Restorer { git, repairs: &dir, quarantine, planted: Planted::default() };
        for path in changed {
            restorer.warn_once(path, &shown(self.spec, path), now.warn_only.get(path))?;
        }
        for path in self.entries.keys().chain(now.entries.keys()).collect::<BTreeSet<_>>() {
            let before = self.entries.get(path).unwrap_or(&Entry::Absent);
            let after = now.entries.get(path).unwrap_or(&Entry::Absent);
            if before != after && !self.worktree_came_or_went(path, before, after) {
                restorer.restore(self.spec, path, before, after)?;
            }
        }
        Ok(restorer.planted)
    }

    /// Tells whether a change comes from another worktree being created or removed, perhaps not completely yet.
    fn worktree_came_or_went(&self, path: &Path, before: &Entry, after: &Entry) -> bool {
        let others = |dir: &&Path| {
            dir.starts_with(self.spec.common_dir.join("worktrees")) && **dir != *self.spec.worktree_git_dir
        };
        let Some(dir) = path.parent().filter(others) else { return false };
        match after {
            _ if *before == Entry::Absent => true,
            Entry::File { bytes, .. } => bytes == b"../..\n",
            Entry::Absent => !["HEAD", "gitdir"].iter().all(|name| dir.join(name).exists()),
            _ => false,
        }
    }
}

/// Returns the repository's own directory of each of its worktrees.
fn worktree_git_dirs(common: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Changes that `Guard::restore` found.
#[derive(Debug, Default)]
pub struct Planted {
    /// Could have been executed or trusted by git; restored.
    pub strays: Vec<String>,
    /// Have no effect on the attempt, and may be the user's own changes.
    pub warnings: Vec<String>,
}

pub(super) struct Restorer<'a> {
    pub git: &'a Git,
    /// Directory that records what was restored, so an attempt that began earlier does not take that for a change.
    repairs: &'a Path,
    quarantine: PathBuf,
    pub planted: Planted,
}

impl Restorer<'_> {
    fn restore(&mut self, spec: &JobSpec, path: &Path, before: &Entry, after: &Entry) -> Result<()> {
        let name = shown(spec, path);
        if let (Entry::File { bytes: before, .. }, Entry::File { bytes: after, .. }) = (before, after)
            && path.file_name().is_some_and(|file| file.as_bytes().starts_with(b"config"))
            && guard_config::restore(self, spec, &ChangedFile { path, name: &name, before, after })?
        {
            return Ok(());
        }
        let directory = |entry| matches!(entry, &Entry::Absent | &Entry::Other);
        let nothing_in_it = path.ends_with("hooks") && directory(before) && directory(after);
        if nothing_in_it || self.is_repair(path, before, after) {
            return Ok(());
        }
        files::displace(path, &self.quarantine, &name)?;
        if write_back(path, before)? {
            self.planted.strays.push(name);
        } else {
            self.planted.strays.push(format!("{name} (it was too large to be put back)"));
        }
        self.remember_repair(path, after, before)
    }

    /// Warns of a change once, in whichever of the concurrent attempts ends first.
    fn warn_once(&mut self, path: &Path, name: &str, now: impl Hash) -> Result<()> {
        if !self.is_repair(path, "told", &now) {
            self.planted.warnings.push(format!("{name} was changed while the attempt ran, by a person or the agent"));
            self.remember_repair(path, "told", &now)?;
        }
        Ok(())
    }

    /// Copies the planted text into the quarantine; the file itself stays in place.
    pub(super) fn keep_copy(&self, name: &str, bytes: &[u8]) -> Result<()> {
        make_dir(&self.quarantine)?;
        let place = self.quarantine.join(name.replace('/', "%"));
        write_projected(&place, bytes)
    }

    pub(super) fn is_repair(&self, place: impl Hash, before: impl Hash, after: impl Hash) -> bool {
        self.repairs.join(digest(place, before, after)).exists()
    }

    pub(super) fn remember_repair(&self, place: impl Hash, from: impl Hash, to: impl Hash) -> Result<()> {
        let path = self.repairs.join(digest(place, from, to));
        state_file::open(&path).map(drop).map_err(io("write", &path))
    }
}

fn write_back(path: &Path, entry: &Entry) -> Result<bool> {
    match entry {
        Entry::Absent => {}
        Entry::File { mode, bytes } => {
            write_with_permissions(path, bytes, Permissions::from_mode(*mode))?;
        }
        Entry::Link(target) => std::os::unix::fs::symlink(target, path).map_err(io("write", path))?,
        Entry::Other => fs::create_dir_all(path).map_err(io("make", path))?,
        Entry::Large { .. } => return Ok(false),
    }
    Ok(true)
}

/// Serializes each byte as the character with that code: short for text, and works for any bytes.
mod bytes_as_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&bytes.iter().map(|&byte| char::from(byte)).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.chars().map(|c| u8::try_from(c).map_err(serde::de::Error::custom)).collect()
    }
}

fn digest(place: impl Hash, from: impl Hash, to: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    (place, from, to).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Formats a path for messages, such as `.git/hooks/pre-commit`.
fn shown(spec: &JobSpec, path: &Path) -> String {
    let text = match path.strip_prefix(&spec.common_dir) {
        Ok(rest) => Path::new(".git").join(rest),
        Err(_) => {
            let inside = path.strip_prefix(&spec.worktree).or_else(|_| path.strip_prefix(&spec.root));
            inside.unwrap_or(path).to_owned()
        }
    };
    text.to_string_lossy().into_owned()
}
