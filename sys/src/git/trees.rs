//! Reads, compares and writes trees, the index and commits.

use mahabharatha_core::ids::Oid;

use super::{Call, Git, Identity, RepoPath, Result};

/// File mode of a submodule, whose commit is in another repository.
pub const SUBMODULE_MODE: u32 = 0o160000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub mode: u32,
    pub kind: EntryType,
    pub oid: Oid,
    pub path: RepoPath,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryType {
    File,
    Symlink,
    Submodule,
}

impl EntryType {
    fn of(mode: u32) -> Self {
        match mode & 0o170000 {
            0o120000 => EntryType::Symlink,
            SUBMODULE_MODE => EntryType::Submodule,
            _ => EntryType::File,
        }
    }
}

/// A difference between two trees. A side on which the file does not exist has mode 0 and no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: RepoPath,
    pub old_mode: u32,
    pub new_mode: u32,
    pub old: Option<Oid>,
    pub new: Option<Oid>,
    /// Git's status letter: `A`, `D`, `M` or `T`.
    pub status: char,
}

impl Git {
    /// Lists all files of a commit or tree.
    pub fn ls_tree(&self, tree: &Oid) -> Result<Vec<TreeEntry>> {
        let output = self.call(Call::new(["ls-tree", "-r", "-z", "--full-tree", tree.as_str()]))?;
        output.parts().map(|part| tree_entry(part).ok_or_else(|| output.unreadable(part))).collect()
    }

    /// Returns the changes from `old` to `new`, file by file, without rename detection.
    pub fn diff_tree(&self, old: &Oid, new: &Oid) -> Result<Vec<Change>> {
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old.as_str(), new.as_str()];
        let output = self.call(Call::new(args))?;
        let mut parts = output.parts();
        let mut changes = Vec::new();
        while let Some(fields) = parts.next() {
            let path = parts.next().ok_or_else(|| output.unreadable(fields))?;
            changes.push(change(fields, path).ok_or_else(|| output.unreadable(fields))?);
        }
        Ok(changes)
    }

    /// Fills the index from a tree, without touching the work tree.
    pub fn read_tree(&self, tree: &Oid) -> Result<()> {
        self.call(Call::new(["read-tree", tree.as_str()])).map(drop)
    }

    /// Writes the index as a tree.
    pub fn write_tree(&self) -> Result<Oid> {
        self.call(Call::new(["write-tree"]))?.oid()
    }

    /// Updates the index with these files of the work tree, through the pinned filters; removes those that are gone.
    pub fn update_index<'a>(&self, paths: impl IntoIterator<Item = &'a RepoPath>) -> Result<()> {
        let input = joined(paths);
        if input.is_empty() {
            return Ok(());
        }
        self.call(Call::new(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]).input(input)).map(drop)
    }

    /// Writes these files from the index to the work tree.
    pub fn checkout_index<'a>(&self, paths: impl IntoIterator<Item = &'a RepoPath>) -> Result<()> {
        let input = joined(paths);
        if input.is_empty() {
            return Ok(());
        }
        self.call(Call::new(["checkout-index", "--force", "--quiet", "-z", "--stdin"]).input(input)).map(drop)
    }

    pub fn commit_tree(&self, tree: &Oid, parents: &[Oid], message: &str, by: &Identity) -> Result<Oid> {
        let mut args = vec!["commit-tree", tree.as_str()];
        for parent in parents {
            args.extend(["-p", parent.as_str()]);
        }
        let call = Call::new(args)
            .env("GIT_AUTHOR_NAME", &by.name)
            .env("GIT_AUTHOR_EMAIL", &by.email)
            .env("GIT_COMMITTER_NAME", &by.name)
            .env("GIT_COMMITTER_EMAIL", &by.email)
            .input(message);
        self.call(call)?.oid()
    }
}

pub(super) fn joined<'a>(paths: impl IntoIterator<Item = &'a RepoPath>) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(path.as_bytes());
        input.push(0);
    }
    input
}

/// `<mode> <type> <oid>\t<path>`
fn tree_entry(part: &[u8]) -> Option<TreeEntry> {
    let tab = part.iter().position(|&byte| byte == b'\t')?;
    let mut fields = std::str::from_utf8(&part[..tab]).ok()?.split(' ');
    let mode = u32::from_str_radix(fields.next()?, 8).ok()?;
    let oid = Oid::new(fields.nth(1)?).ok()?;
    Some(TreeEntry { mode, kind: EntryType::of(mode), oid, path: RepoPath::new(&part[tab + 1..]) })
}

/// `:<mode> <mode> <oid> <oid> <status>`
pub(super) fn change(fields: &[u8], path: &[u8]) -> Option<Change> {
    let text = std::str::from_utf8(fields).ok()?.strip_prefix(':')?;
    let fields: Vec<&str> = text.split(' ').collect();
    let [old_mode, new_mode, old, new, status] = fields[..] else { return None };
    let oid = |text: &str| {
        if text.bytes().all(|byte| byte == b'0') { Some(None) } else { Oid::new(text).ok().map(Some) }
    };
    Some(Change {
        path: RepoPath::new(path),
        old_mode: u32::from_str_radix(old_mode, 8).ok()?,
        new_mode: u32::from_str_radix(new_mode, 8).ok()?,
        old: oid(old)?,
        new: oid(new)?,
        status: status.chars().next()?,
    })
}
