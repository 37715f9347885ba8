//! Reads, compares and creates many commits with one git call each.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use mahabharatha_core::ids::Oid;

use super::trees::{SUBMODULE_MODE, change};
use super::{Call, Change, Git, GitError, RepoPath, Result};

/// Held while commits are stacked.
static STACKING: Mutex<()> = Mutex::new(());

/// The header fields and message of a commit, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitText {
    pub parents: Vec<Oid>,
    /// `Name <email> <seconds> <zone>`
    pub author: Vec<u8>,
    pub committer: Vec<u8>,
    pub message: Vec<u8>,
}

/// A commit to create on top of another.
pub struct NewCommit<'a> {
    pub text: &'a CommitText,
    pub changes: &'a [Change],
}

impl Git {
    pub fn read_commits(&self, commits: &[Oid]) -> Result<Vec<CommitText>> {
        let output = self.call(Call::new(["cat-file", "--batch"]).input(lines(commits)))?;
        let mut rest = output.bytes.as_slice();
        let mut texts = Vec::new();
        for commit in commits {
            let (text, after) = next_commit(rest)
                .ok_or_else(|| output.unexpected(&format!("no commit {commit}: {}", String::from_utf8_lossy(rest))))?;
            texts.push(text);
            rest = after;
        }
        Ok(texts)
    }

    /// Returns the changes of each commit against its parent, file by file, without rename detection.
    pub fn diff_commits(&self, commits: &[Oid]) -> Result<Vec<Vec<Change>>> {
        let args = ["diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--full-index", "--always", "--root"];
        let output = self.call(Call::new(args).input(lines(commits)))?;
        let mut parts = output.parts().peekable();
        let mut all = Vec::new();
        for commit in commits {
            if parts.next() != Some(commit.as_str().as_bytes()) {
                return Err(output.unexpected(&format!("no diff of {commit}")));
            }
            let mut changes = Vec::new();
            while let Some(fields) = parts.next_if(|part| part.starts_with(b":")) {
                let parsed = parts.next().and_then(|path| change(fields, path));
                changes.push(parsed.ok_or_else(|| output.unreadable(fields))?);
            }
            all.push(changes);
        }
        Ok(all)
    }

    /// Returns the commits that cannot be read in full: the repository lacks the commit, its trees or the files that it
    /// changes.
    pub fn lost(&self, commits: &[Oid]) -> Result<Vec<Oid>> {
        let mut lost = Vec::new();
        if !self.are_whole(commits)? {
            for commit in commits {
                if !self.are_whole(std::slice::from_ref(commit))? {
                    lost.push(commit.clone());
                }
            }
        }
        Ok(lost)
    }

    fn are_whole(&self, commits: &[Oid]) -> Result<bool> {
        if !self.exist(commits)? {
            return Ok(false);
        }
        let changes = match self.diff_commits(commits) {
            Ok(changes) => changes,
            Err(GitError::Failed { .. } | GitError::Unexpected { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let files = changes.into_iter().flatten().filter(|change| change.new_mode != SUBMODULE_MODE);
        self.exist(&files.filter_map(|change| change.new).collect::<Vec<_>>())
    }

    /// Returns whether the repository has all of the objects.
    fn exist(&self, objects: &[Oid]) -> Result<bool> {
        let output = self.call(Call::new(["cat-file", "--batch-check"]).input(lines(objects)))?;
        Ok(!output.text()?.lines().any(|line| line.ends_with(" missing")))
    }

    /// Returns the changes of the index against a commit.
    pub fn diff_cached(&self, from: &Oid) -> Result<Vec<Change>> {
        let args = ["diff-index", "--cached", "--raw", "-z", "--no-renames", "--full-index", from.as_str()];
        let output = self.call(Call::new(args))?;
        let mut parts = output.parts();
        let mut changes = Vec::new();
        while let Some(fields) = parts.next() {
            let parsed = parts.next().and_then(|path| change(fields, path));
            changes.push(parsed.ok_or_else(|| output.unreadable(fields))?);
        }
        Ok(changes)
    }

    /// Creates the commits on top of each other, starting at `base`, each with exactly its changes. Updates no ref of
    /// the repository. The same input yields the same commits.
    pub fn stack_commits(&self, base: &Oid, commits: &[NewCommit]) -> Result<Vec<Oid>> {
        let mut input = b"feature done\n".to_vec();
        for (index, commit) in commits.iter().enumerate() {
            write_commit(&mut input, commit, (index == 0).then_some(base));
        }
        input.extend_from_slice(b"done\n");
        // Two that make the same objects at once would write the same pack, and one would fail.
        let _one_at_a_time = STACKING.lock().unwrap_or_else(PoisonError::into_inner);
        // Write one pack, so that a single file is synced instead of one per object.
        let args = ["-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--force", "--date-format=raw"];
        let output = self.call(Call::new(args).input(input))?;
        let created: Vec<Oid> = output.text()?.lines().filter_map(|line| Oid::new(line).ok()).collect();
        if created.len() == commits.len() { Ok(created) } else { Err(output.unexpected(&output.text()?)) }
    }
}

fn lines(oids: &[Oid]) -> String {
    oids.iter().map(|oid| format!("{oid}\n")).collect()
}

pub(super) fn oid(bytes: &[u8]) -> Option<Oid> {
    Oid::new(std::str::from_utf8(bytes).ok()?).ok()
}

/// Parses `<oid> commit <size>\n<content>\n`; returns the commit and the remaining bytes.
fn next_commit(bytes: &[u8]) -> Option<(CommitText, &[u8])> {
    let (head, rest) = split_at_line(bytes)?;
    let head = std::str::from_utf8(head).ok()?;
    let size: usize = head.split_once(" commit ")?.1.parse().ok()?;
    let (content, rest) = rest.split_at_checked(size)?;
    Some((parse_commit(content)?, rest.strip_prefix(b"\n")?))
}

fn parse_commit(mut content: &[u8]) -> Option<CommitText> {
    let (mut parents, mut author, mut committer) = (Vec::new(), None, None);
    loop {
        let (line, rest) = split_at_line(content)?;
        content = rest;
        if line.is_empty() {
            break;
        } else if let Some(parent) = line.strip_prefix(b"parent ") {
            parents.push(oid(parent)?);
        } else if let Some(text) = line.strip_prefix(b"author ") {
            author.get_or_insert(text.to_vec());
        } else if let Some(text) = line.strip_prefix(b"committer ") {
            committer.get_or_insert(text.to_vec());
        }
    }
    Some(CommitText { parents, author: author?, committer: committer?, message: content.to_vec() })
}

fn split_at_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Writes one commit in fast-import format, and a request for its object name.
fn write_commit(input: &mut Vec<u8>, commit: &NewCommit, on: Option<&Oid>) {
    let text = commit.text;
    input.extend_from_slice(b"commit refs/stack\nmark :1\nauthor ");
    input.extend_from_slice(&text.author);
    input.extend_from_slice(b"\ncommitter ");
    input.extend_from_slice(&text.committer);
    let _ = write!(input, "\ndata {}\n", text.message.len());
    input.extend_from_slice(&text.message);
    input.push(b'\n');
    if let Some(base) = on {
        let _ = writeln!(input, "from {base}");
    }
    // Deletions first: a file may replace a directory.
    for change in commit.changes.iter().filter(|change| change.new.is_none()) {
        input.extend_from_slice(b"D ");
        write_quoted(input, &change.path);
    }
    for change in commit.changes {
        if let Some(new) = &change.new {
            let _ = write!(input, "M {:06o} {new} ", change.new_mode);
            write_quoted(input, &change.path);
        }
    }
    input.extend_from_slice(b"get-mark :1\n");
}

fn write_quoted(input: &mut Vec<u8>, path: &RepoPath) {
    input.push(b'"');
    for &byte in path.as_bytes() {
        match byte {
            b'"' | b'\\' => input.extend_from_slice(&[b'\\', byte]),
            b'\n' => input.extend_from_slice(b"\\n"),
            _ => input.push(byte),
        }
    }
    input.extend_from_slice(b"\"\n");
}
