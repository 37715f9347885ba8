//! Refs, history and the list of worktrees of the repository itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::ids::Oid;

use super::{Call, Git, GitError, Identity, Output, RepoPath, Result};

/// Start of the file of a symbolic ref.
pub(super) const SYMBOLIC: &str = "ref: ";
/// Longest chain of symbolic refs, as git limits it.
const MAX_ALIASES: usize = 5;
/// What HEAD names where refs are not kept in files.
const NOT_IN_FILES: &str = "refs/heads/.invalid";
/// Why a repository without refs in files is refused.
pub(super) const REFTABLE: &str = "its refs are in the reftable format, not in files; convert them with \
                                   `git refs migrate --ref-format=files` (git 2.46 or newer), or use a clone made with \
                                   `git clone --ref-format=files`";
/// Where our refs are.
const OUR_REFS: [&str; 2] = ["refs/mahabharatha", "refs/heads/mahabharatha"];

/// Returns the short name of a branch.
pub fn short_branch(full_ref: &str) -> &str {
    full_ref.strip_prefix("refs/heads/").unwrap_or(full_ref)
}

/// One step of a transaction on refs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefChange {
    /// Sets the ref unconditionally.
    Set { name: String, new: Oid },
    /// Sets the ref only if it is at `old`, or with `None` only if it does not exist.
    Swap { name: String, new: Oid, old: Option<Oid> },
    /// Deletes the ref, with `old` only if it is at that commit.
    Delete { name: String, old: Option<Oid> },
}

impl RefChange {
    fn name(&self) -> &str {
        match self {
            RefChange::Set { name, .. } | RefChange::Swap { name, .. } | RefChange::Delete { name, .. } => name,
        }
    }
}

/// A commit of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub commit: Oid,
    pub subject: String,
    /// The feature that its trailer names; empty if there is none.
    pub feature: String,
}

/// A checkout that belongs to the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    pub head: Option<Oid>,
    /// The full ref name; `None` if HEAD is detached.
    pub branch: Option<String>,
    pub bare: bool,
    pub prunable: bool,
}

impl Git {
    /// Returns the object that a revision names.
    pub fn rev_parse(&self, revision: &str) -> Result<Option<Oid>> {
        let call = Call::new(["rev-parse", "--verify", "--quiet", "--end-of-options", revision]);
        self.ask(call)?.map(|output| output.oid()).transpose()
    }

    /// Returns the commit that a ref, given by its full name, points to; `None` for a symbolic ref. Reads a loose ref
    /// from its file, without starting a process.
    pub fn resolve_ref(&self, name: &str) -> Result<Option<Oid>> {
        if let Some(oid) = self.read_loose(name).and_then(|text| Oid::new(text).ok()) {
            return Ok(Some(oid));
        }
        let format = "--format=%(refname) %(objectname) %(symref)";
        let output = self.call(Call::new(["for-each-ref", format, name]))?;
        let text = output.text()?;
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.strip_suffix(' '));
        found.map(|oid| Oid::new(oid).map_err(|_| output.unexpected(&text))).transpose()
    }

    /// Returns whether a ref is symbolic. Ours never are: following one would move the branch that it names.
    pub fn is_symbolic(&self, name: &str) -> bool {
        let is_link = fs::symlink_metadata(self.git_dir.join(name)).is_ok_and(|found| found.is_symlink());
        is_link || self.read_loose(name).is_some_and(|text| text.starts_with(SYMBOLIC))
    }

    /// Returns the full ref name of the branch that HEAD is on; `None` if HEAD is detached.
    pub fn head_branch(&self) -> Result<Option<String>> {
        match self.read_loose("HEAD").as_deref().and_then(|text| text.strip_prefix(SYMBOLIC)) {
            Some(NOT_IN_FILES) => Err(GitError::Unsupported(REFTABLE.into())),
            Some(branch) => Ok(Some(branch.to_owned())),
            None => self.ask(Call::new(["symbolic-ref", "--quiet", "HEAD"]))?.map(|output| output.text()).transpose(),
        }
    }

    /// Returns the branch that a branch stands for: another one if it is symbolic, an alias that the user made.
    pub fn follow_alias(&self, mut branch: String) -> String {
        for _ in 0..MAX_ALIASES {
            match self.read_loose(&branch).as_deref().and_then(|text| text.strip_prefix(SYMBOLIC)) {
                Some(target) => branch = target.trim().to_owned(),
                None => break,
            }
        }
        branch
    }

    /// Returns the branch that the remote's HEAD was on when it was last fetched.
    pub fn default_branch(&self, remote: &str) -> Result<Option<String>> {
        let head = format!("refs/remotes/{remote}/HEAD");
        let target =
            self.ask(Call::new(["symbolic-ref", "--quiet", &head]))?.map(|output| output.text()).transpose()?;
        Ok(target.and_then(|target| Some(target.strip_prefix(&format!("refs/remotes/{remote}/"))?.to_owned())))
    }

    /// Returns the commits of `to` that `from` does not contain, newest first, at most so many.
    pub fn log(&self, from: Option<&Oid>, to: &Oid, most: usize) -> Result<Vec<Logged>> {
        let format = "--format=%H%x1f%s%x1f%(trailers:key=Mahabharatha-Feature,valueonly,separator=%x2c)";
        let (most, not) = (format!("--max-count={most}"), from.map(|from| format!("^{from}")));
        let args = ["log", "-z", "--topo-order", &most, format, to.as_str()].into_iter().chain(not.as_deref());
        let output = self.call(Call::new(args))?;
        let logged = output.parts().map(|part| {
            let text = String::from_utf8_lossy(part).into_owned();
            let mut fields = text.split('\u{1f}');
            let commit = fields.next().and_then(|commit| Oid::new(commit).ok());
            let commit = commit.ok_or_else(|| output.unexpected(&text))?;
            let mut next = || fields.next().unwrap_or_default().trim().to_owned();
            Ok(Logged { commit, subject: next(), feature: next() })
        });
        logged.collect()
    }

    /// Sets the ref by compare-and-swap: with `None` for `old` it must not exist.
    pub fn update_ref(&self, name: &str, new: &Oid, old: Option<&Oid>) -> Result<()> {
        self.update_refs(&[RefChange::Swap { name: name.into(), new: new.clone(), old: old.cloned() }], "")
    }

    pub fn delete_ref(&self, name: &str, old: Option<&Oid>) -> Result<()> {
        self.update_refs(&[RefChange::Delete { name: name.into(), old: old.cloned() }], "")
    }

    /// Applies all changes in one transaction, or none of them. A symbolic ref is replaced or deleted itself; the ref
    /// that it names stays.
    pub fn update_refs(&self, changes: &[RefChange], reason: &str) -> Result<()> {
        let mut input = Vec::new();
        for change in changes {
            self.check_no_link_above(change.name())?;
            input.extend_from_slice(b"option no-deref\0");
            let line = match change {
                RefChange::Set { name, new } => format!("update {name}\0{new}\0\0"),
                RefChange::Swap { name, new, old: Some(old) } => format!("update {name}\0{new}\0{old}\0"),
                RefChange::Swap { name, new, old: None } => format!("create {name}\0{new}\0"),
                RefChange::Delete { name, old } => {
                    format!("delete {name}\0{}\0", old.as_ref().map_or("", Oid::as_str))
                }
            };
            input.extend_from_slice(line.as_bytes());
        }
        if self.set_in_file(changes) {
            return Ok(());
        }
        let identity = Identity::default();
        let call =
            Call::new(["update-ref", "--stdin", "-z", "-m", if reason.is_empty() { "mahabharatha" } else { reason }])
                .env("GIT_COMMITTER_NAME", identity.name)
                .env("GIT_COMMITTER_EMAIL", identity.email)
                .input(input);
        self.call(call).map(drop)
    }

    /// Refuses a ref of ours in a directory that is a symbolic link: git would write where the link leads.
    fn check_no_link_above(&self, name: &str) -> Result<()> {
        let Some(top) = OUR_REFS.iter().find(|top| name.starts_with(*top)) else { return Ok(()) };
        let above = Path::new(name).ancestors().skip(1).take_while(|dir| dir.starts_with(top));
        let mut places = above.map(|dir| self.git_dir.join(dir));
        match places.find(|place| fs::symlink_metadata(place).is_ok_and(|found| found.is_symlink())) {
            Some(link) => Err(GitError::Link(link.display().to_string())),
            None => Ok(()),
        }
    }

    /// Returns the refs with these names, or below them, and the object that each points to.
    pub fn for_each_ref(&self, names: &[&str]) -> Result<Vec<(String, Oid)>> {
        let output = self.call(Call::new([&["for-each-ref", "--format=%(objectname) %(refname)"], names].concat()))?;
        let text = output.text()?;
        text.lines()
            .map(|line| {
                let (oid, name) = line.split_once(' ').ok_or_else(|| output.unexpected(line))?;
                Ok((name.to_owned(), Oid::new(oid).map_err(|_| output.unexpected(line))?))
            })
            .collect()
    }

    pub fn merge_base(&self, one: &Oid, other: &Oid) -> Result<Option<Oid>> {
        self.ask(Call::new(["merge-base", one.as_str(), other.as_str()]))?.map(|output| output.oid()).transpose()
    }

    pub fn is_ancestor(&self, ancestor: &Oid, of: &Oid) -> Result<bool> {
        if ancestor == of {
            return Ok(true);
        }
        let call = Call::new(["merge-base", "--is-ancestor", ancestor.as_str(), of.as_str()]);
        Ok(self.ask(call)?.is_some())
    }

    /// Runs `git worktree list`, and retries it: git fails while the entry of another worktree is being created. We
    /// create ours under a lock that readers do not take, the user's git without a lock.
    fn list_worktrees(&self) -> Result<Output> {
        let mut retries = 50;
        loop {
            match self.call(Call::new(["worktree", "list", "--porcelain", "-z"])) {
                Err(GitError::Failed { .. }) if retries > 0 => retries -= 1,
                listed => return listed,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns all worktrees, the main one first.
    pub fn worktree_list(&self) -> Result<Vec<Worktree>> {
        let output = self.list_worktrees()?;
        let mut worktrees: Vec<Worktree> = Vec::new();
        for part in output.parts() {
            let (key, value) = match part.iter().position(|&byte| byte == b' ') {
                Some(space) => (&part[..space], &part[space + 1..]),
                None => (part, &b""[..]),
            };
            if key == b"worktree" {
                let path = RepoPath::new(value).as_path().to_owned();
                worktrees.push(Worktree { path, head: None, branch: None, bare: false, prunable: false });
            }
            let Some(worktree) = worktrees.last_mut() else { continue };
            match key {
                b"HEAD" => worktree.head = Oid::new(String::from_utf8_lossy(value)).ok(),
                b"branch" => worktree.branch = Some(String::from_utf8_lossy(value).into_owned()),
                b"bare" => worktree.bare = true,
                b"prunable" => worktree.prunable = true,
                _ => {}
            }
        }
        Ok(worktrees)
    }
}
