//! A git directory for confined programs: git works there as people expect, on the repository's objects, and nothing
//! done in it reaches the repository or is ever read by us.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mahabharatha_core::ids::Oid;

use super::objects::escaped;
use super::{Call, Git, GitError, Identity, Result};
use crate::bounded::{self, LARGE_FILE_BYTES, SMALL_FILE_BYTES};

/// Maximum number of object directories that are followed through alternates.
const MAX_ALTERNATES: usize = 20;

/// What a private copy is made of.
pub struct PrivateCopy<'a> {
    /// Where it is created; it must not exist.
    pub dir: &'a Path,
    /// The worktree, as programs inside see it.
    pub worktree: &'a Path,
    /// The directories of objects, as programs inside see them.
    pub objects: &'a [PathBuf],
    pub head: &'a Oid,
    /// The branch that HEAD is on, as a full ref name; without it HEAD is detached.
    pub branch: Option<&'a str>,
    /// Contents and modification time of the index.
    pub index: (&'a [u8], SystemTime),
    pub identity: &'a Identity,
}

impl Git {
    /// Returns the directories of objects that the repository uses, its own first.
    pub fn object_dirs(&self) -> Vec<PathBuf> {
        let mut found = vec![self.objects.clone().unwrap_or_else(|| self.git_dir.join("objects"))];
        let mut next = 0;
        while next < found.len() && found.len() < MAX_ALTERNATES {
            let dir = found[next].clone();
            let text = bounded::read_to_string(&dir.join("info/alternates"), SMALL_FILE_BYTES).unwrap_or_default();
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let line = line.strip_prefix('"').map_or_else(|| line.into(), unquoted);
                if let Ok(other) = dir.join(line).canonicalize()
                    && !found.contains(&other)
                {
                    found.push(other);
                }
            }
            next += 1;
        }
        found
    }

    /// Creates a private copy of the repository: refs, HEAD and index, but neither objects nor configuration.
    pub fn private_copy(&self, copy: &PrivateCopy<'_>) -> Result<()> {
        let refs = self.packed_refs(copy)?;
        let shallow = bounded::read(&self.git_dir.join("shallow"), LARGE_FILE_BYTES).ok();
        // Specs of the main checkout are visible inside also where git does not track them.
        let exclude = bounded::read(&self.git_dir.join("info/exclude"), LARGE_FILE_BYTES).unwrap_or_default();
        let exclude = [exclude.as_slice(), b"\n/.gsd/\n"].concat();
        let write = || -> io::Result<()> {
            // Git creates the others when it needs them; each file takes time, since every program has a copy of its own.
            for dir in ["objects/info", "refs", "info", "hooks"] {
                fs::create_dir_all(copy.dir.join(dir))?;
            }
            let objects: String = copy.objects.iter().map(|dir| format!("{}\n", dir.display())).collect();
            fs::write(copy.dir.join("objects/info/alternates"), objects)?;
            fs::write(copy.dir.join("packed-refs"), &refs)?;
            let head = match copy.branch {
                Some(branch) => format!("ref: {branch}\n"),
                None => format!("{}\n", copy.head),
            };
            fs::write(copy.dir.join("HEAD"), head)?;
            fs::write(copy.dir.join("config"), config(copy))?;
            for (name, bytes) in [("shallow", shallow), ("info/exclude", Some(exclude))] {
                if let Some(bytes) = bytes {
                    fs::write(copy.dir.join(name), bytes)?;
                }
            }
            let index = copy.dir.join("index");
            fs::write(&index, copy.index.0)?;
            // Git compares it with the times of files: with another time it would read every file again.
            File::options().write(true).open(&index)?.set_modified(copy.index.1)
        };
        write().map_err(|error| GitError::file("cannot write", copy.dir, error))
    }

    /// Returns the refs that programs inside see: branches, tags and remotes, of our own branches only the one of HEAD.
    fn packed_refs(&self, copy: &PrivateCopy<'_>) -> Result<Vec<u8>> {
        let dirs = ["refs/heads", "refs/remotes", "refs/tags"];
        let text = match self.refs_in_files(&dirs) {
            Some(refs) => refs.iter().map(|(name, found)| found.line(name)).collect(),
            None => {
                let format = "--format=%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)";
                let output =
                    self.call(Call::new(["for-each-ref", "--sort=refname", format].into_iter().chain(dirs)))?;
                String::from_utf8_lossy(&output.bytes).into_owned()
            }
        };
        let own = |line: &str| copy.branch.is_some_and(|branch| line.ends_with(&format!(" {branch}")));
        let lines = text.lines().filter(|line| !line.contains(" refs/heads/mahabharatha/") || own(line));
        // Other programs than git rely on this header.
        let mut refs = String::from("# pack-refs with: peeled fully-peeled sorted \n");
        lines.for_each(|line| refs.extend([line, "\n"]));
        Ok(refs.into_bytes())
    }
}

/// Returns the path that git wrote between quotes; `text` follows the first one.
fn unquoted(text: &str) -> PathBuf {
    let mut path = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        path.push(match bytes.next().unwrap_or_default() {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            first @ b'0'..=b'3' => {
                let mut digit = || bytes.next().unwrap_or(b'0').wrapping_sub(b'0') & 7;
                ((first - b'0') << 6) | (digit() << 3) | digit()
            }
            other => other,
        });
    }
    OsString::from_vec(path).into()
}

fn config(copy: &PrivateCopy<'_>) -> String {
    let sha256 = copy.head.as_str().len() == 64;
    let worktree = escaped(&copy.worktree.to_string_lossy());
    let user = copy.identity.settings();
    let format = if sha256 { "[extensions]\n\tobjectFormat = sha256\n" } else { "" };
    format!(
        "[core]\n\trepositoryformatversion = {}\n\tbare = false\n\tfilemode = true\n\tlogallrefupdates = true\n\
         \tworktree = \"{worktree}\"\n[gc]\n\tauto = 0\n{user}{format}",
        u8::from(sha256)
    )
}
