//! Compares a work tree with the index and HEAD.

use super::{Call, Git, RepoPath, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusEntry {
    pub path: RepoPath,
    pub found: Found,
}

/// State of a file in the work tree, compared with the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Content, mode or type differ.
    Changed,
    Deleted,
    Untracked,
    /// A nested repository, or another directory that git does not descend into.
    UntrackedDirectory,
    /// A file, or a directory whose content is not listed.
    Ignored,
}

impl Git {
    /// Returns the files of the work tree that differ from the index; ignored ones by their shortest matching path.
    /// HEAD should be at the commit that the index was read from, else git compares the index with HEAD needlessly.
    pub fn status(&self) -> Result<Vec<StatusEntry>> {
        self.status_by("0", |states| states.get(1).copied())
    }

    /// Returns the files of `status` and those whose index entry differs from HEAD. Also lets git write the index if it is no
    /// younger than some files: each call would compare the contents of those again.
    pub fn status_and_staged(&self) -> Result<Vec<StatusEntry>> {
        self.status_by("1", |states| states.iter().copied().find(|state| *state != b'.'))
    }

    /// Runs `git status`. `state` picks the state that counts from two: index against HEAD, work tree against index.
    /// `writes_index` is "1" if git may write the index.
    fn status_by(&self, writes_index: &str, state: impl Fn(&[u8]) -> Option<u8>) -> Result<Vec<StatusEntry>> {
        let call = Call::new([
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=all",
            "--ignored=matching",
            "--no-renames",
            "--ignore-submodules=all",
        ]);
        let output = self.call(call.env("GIT_OPTIONAL_LOCKS", writes_index))?;
        output
            .parts()
            .filter_map(|part| match part.first() {
                Some(b'1') => changed(part, &state).map(Ok),
                Some(b'u') => unmerged(part).map(Ok),
                Some(b'?') => Some(Ok(untracked(&part[2..]))),
                Some(b'!') => Some(Ok(StatusEntry { path: RepoPath::new(trimmed(&part[2..])), found: Found::Ignored })),
                _ => Some(Err(output.unreadable(part))),
            })
            .collect()
    }

    /// Updates what the index knows of unchanged files: size and times.
    pub fn refresh_index(&self) -> Result<()> {
        // Fails if a file differs from the index.
        self.ask(Call::new(["update-index", "-q", "--refresh"])).map(drop)
    }

    /// Tells whether these files and directories of the work tree have the contents that the index has.
    pub fn has_contents(&self, paths: &[&str]) -> Result<bool> {
        if paths.is_empty() {
            return Ok(true);
        }
        // Unlike `git diff`, this looks at no other file.
        let args =
            ["status", "--porcelain=v2", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all"];
        let output = self.call(Call::new(args.into_iter().chain(["--"]).chain(paths.iter().copied())))?;
        let is_same = |part: &[u8]| part.first() == Some(&b'1') && part.get(3) == Some(&b'.');
        Ok(output.parts().all(is_same))
    }

    /// Returns those of the paths that git ignores. Files in the index are not ignored.
    pub fn ignored(&self, paths: &[RepoPath]) -> Result<Vec<RepoPath>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        // check-ignore cannot take literal pathspecs; a leading `./` keeps them from being read as magic.
        let input: Vec<u8> = paths.iter().flat_map(|path| [b"./", path.as_bytes(), b"\0"].concat()).collect();
        let call = Call::new(["check-ignore", "-z", "--stdin"]).env("GIT_LITERAL_PATHSPECS", "0").input(input);
        let answer = self.ask(call)?;
        let plain = |part: &[u8]| RepoPath::new(part.strip_prefix(b"./").unwrap_or(part));
        Ok(answer.iter().flat_map(|output| output.parts()).map(plain).collect())
    }
}

/// `1 <XY> <sub> <mH> <mI> <mW> <hH> <hI> <path>`: X is the index against HEAD, Y the work tree against the index.
fn changed(part: &[u8], state: impl Fn(&[u8]) -> Option<u8>) -> Option<StatusEntry> {
    let mut fields = part.splitn(9, |&byte| byte == b' ');
    let states = fields.nth(1)?;
    let path = RepoPath::new(fields.nth(6)?);
    match state(states)? {
        b'.' => None,
        b'D' => Some(StatusEntry { path, found: Found::Deleted }),
        _ => Some(StatusEntry { path, found: Found::Changed }),
    }
}

/// `u <XY> <sub> <m1> <m2> <m3> <mW> <h1> <h2> <h3> <path>`: an unmerged file.
fn unmerged(part: &[u8]) -> Option<StatusEntry> {
    let path = part.splitn(11, |&byte| byte == b' ').nth(10)?;
    Some(StatusEntry { path: RepoPath::new(path), found: Found::Changed })
}

fn untracked(path: &[u8]) -> StatusEntry {
    let found = if path.ends_with(b"/") { Found::UntrackedDirectory } else { Found::Untracked };
    StatusEntry { path: RepoPath::new(trimmed(path)), found }
}

fn trimmed(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
