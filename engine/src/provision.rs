//! Makes worktrees ready to work: tells when `worktrees.setup` is due in one, and records what it ran on; `warm` fills new
//! ones with copies of what the main checkout has built.
//!
//! Used by `worker` for slots and by `host` for staging. Records lie where no confined program sees them.

pub mod warm;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mahabharatha_core::config::{SetupInputs, Worktrees};
use mahabharatha_core::excerpt::few;
use mahabharatha_core::ids::Oid;
pub use mahabharatha_core::run::event::SETUP;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{Found, Git, StatusEntry};
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::store::atomic::write_projected;
use mahabharatha_sys::store::tree;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Time limit of the command, which the configuration cannot set.
pub const SETUP_TIMEOUT: Duration = Duration::from_secs(1800);
/// Most ignored files and directories whose disappearance makes setup due again.
const MAX_MADE: usize = 200;

/// `worktrees.setup` and its inputs, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub command: String,
    /// Patterns of the inputs; none for the known lock files.
    pub inputs: Vec<String>,
}

/// What setup last succeeded on in a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    command: String,
    /// The committed inputs, by path.
    inputs: BTreeMap<String, Oid>,
    directory: Directory,
    /// Ignored files and directories that were there afterwards.
    #[serde(default)]
    made: Vec<PathBuf>,
}

/// Identifies the directory of a worktree: another one at its path was not made ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Directory {
    inode: u64,
    /// Time of creation in milliseconds, where the file system has it.
    created: Option<u64>,
}

impl Directory {
    fn of(worktree: &Path) -> Result<Directory> {
        let found = fs::symlink_metadata(worktree).map_err(io("read", worktree))?;
        let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|time| time.as_millis() as u64);
        Ok(Directory { inode: found.ino(), created: found.created().ok().and_then(since_epoch) })
    }
}

/// Reads a record of ours; none if there is none that can be read.
fn read_record<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&bounded::read(file, LARGE_FILE_BYTES).ok()?).ok()
}

/// A setup that has to run in a worktree.
pub struct Due {
    file: PathBuf,
    record: Record,
}

impl Setup {
    pub fn of(config: &Worktrees) -> Option<Setup> {
        let inputs = config.setup_inputs.patterns().to_vec();
        config.setup.clone().map(|command| Setup { command, inputs })
    }

    /// Returns whether a change of this file makes setup due.
    pub fn depends_on(&self) -> Result<impl Fn(&str) -> bool> {
        let inputs = SetupInputs::new(self.inputs.clone())
            .map_err(|error| Error::new(Kind::Invalid, format!("worktrees.setup_inputs: {error}")))?;
        Ok(move |path: &str| inputs.contains(path))
    }

    /// Returns the setup that is due in a worktree with the files of `tree`; none if it ran on the same inputs there. `file`
    /// is the worktree's record.
    pub fn due(&self, git: &Git, tree: &Oid, worktree: &Path, file: &Path) -> Result<Option<Due>> {
        let is_input = self.depends_on()?;
        let entries = git.ls_tree(tree)?.into_iter();
        let inputs = entries
            .filter_map(|entry| Some((entry.path.as_str().filter(|path| is_input(path))?.to_owned(), entry.oid)))
            .collect();
        let directory = Directory::of(worktree)?;
        let record = Record { command: self.command.clone(), inputs, directory, made: Vec::new() };
        let known = read_record::<Record>(file);
        let is_known = known.is_some_and(|known| {
            let is_whole = known.made.iter().all(|path| fs::symlink_metadata(worktree.join(path)).is_ok());
            is_whole && Record { made: Vec::new(), ..known } == record
        });
        Ok((!is_known).then(|| Due { file: file.to_owned(), record }))
    }
}

impl Due {
    /// Forgets what setup ran on before: from now on the worktree may be half set up.
    pub fn begin(&self) -> Result<()> {
        forget(&self.file)
    }

    /// Records that setup succeeded. `status` is that of the worktree afterwards.
    pub fn done(self, status: &[StatusEntry]) -> Result<()> {
        let made = status.iter().filter(|entry| entry.found == Found::Ignored);
        // JSON can hold no other paths.
        let made = made.filter_map(|entry| entry.path.as_str()).take(MAX_MADE).map(PathBuf::from).collect();
        let record = serde_json::to_vec(&Record { made, ..self.record });
        let record = record.map_err(Error::caused("cannot record the setup of a worktree"))?;
        write_projected(&self.file, &record)
    }
}

/// Makes setup due again.
pub fn forget(file: &Path) -> Result<()> {
    tree::remove(file)
}

/// Names what setup changed that git does not ignore, by the first part of each path.
pub fn strays(status: &[StatusEntry]) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in status.iter().filter(|entry| entry.found != Found::Ignored) {
        let path = entry.path.to_string();
        let (first, below) = path.split_once('/').map_or((path.as_str(), false), |(first, _)| (first, true));
        *counts.entry(if below { format!("{first}/") } else { first.to_owned() }).or_default() += 1;
    }
    let named: Vec<String> = counts
        .into_iter()
        .map(|(name, count)| if count > 1 { format!("{name} ({count} files)") } else { name })
        .collect();
    (!named.is_empty()).then(|| {
        let names = few(&named);
        format!(
            "{SETUP} changed what git does not ignore, so that was taken back: {names}. Add what it needs to .gitignore"
        )
    })
}

/// Returns the command with which the user can try the setup.
pub fn try_it(command: &str) -> String {
    format!("mahabharatha sandbox -- {}", shell_word(command))
}
