//! A scratch checkout in a temporary directory, where a design is tried and committed before the user's checkout is
//! touched.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::design::StubCheck;
use mahabharatha_core::ids::Oid;
use mahabharatha_engine::confinement::{Confined, Confinement};
use mahabharatha_sys::error::{Error, Result, io};
use mahabharatha_sys::git::{EntryType, Git, RepoPath};
use mahabharatha_sys::proc::{self, Cmd, bounded_text};
use mahabharatha_sys::project::Project;
use mahabharatha_sys::sandbox::Sandbox;
use tempfile::TempDir;

use super::signals;

/// Bytes of the check's output that are shown, from its beginning and its end.
const SHOWN_OUTPUT: (usize, usize) = (2 * 1024, 6 * 1024);

pub struct ScratchCheckout {
    dir: TempDir,
    git: Git,
    head: Oid,
}

impl ScratchCheckout {
    /// Creates a scratch checkout of the commit that is checked out.
    pub fn open(project: &Project) -> Result<ScratchCheckout> {
        let failed = Error::caused("cannot create a temporary directory");
        let dir = tempfile::Builder::new().prefix("mahabharatha-design-").tempdir().map_err(failed)?;
        signals::remove_on_exit(dir.path());
        let (private, tree) = (dir.path().join("git"), dir.path().join("tree"));
        fs::create_dir(&tree).map_err(io("create the directory", &tree))?;
        let objects = Git::objects(&private, project.common_dir(), &project.pinned_config()?)?;
        let git = objects.work_tree(&tree).index(private.join("index"));
        let head = project.head_commit()?;
        git.read_tree(&head)?;
        Ok(ScratchCheckout { dir, git, head })
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn put(&self, path: &Path, bytes: Option<&[u8]>) -> Result<()> {
        let path = self.tree().join(path);
        let Some(bytes) = bytes else {
            let _ = fs::remove_file(&path);
            return Ok(());
        };
        let parent = path.parent().unwrap_or(&path);
        fs::create_dir_all(parent).map_err(io("create the directory", parent))?;
        fs::write(&path, bytes).map_err(io("write", &path))
    }

    /// Writes all committed files.
    pub fn check_out(&self) -> Result<()> {
        let files = self.git.ls_tree(&self.head)?.into_iter().filter(|entry| entry.kind != EntryType::Submodule);
        let files: Vec<RepoPath> = files.map(|entry| entry.path).collect();
        self.git.checkout_index(&files)?;
        // Records the files' times, so that git inside a sandbox need not read them all.
        self.git.run(["update-index", "-q", "--refresh"])?;
        Ok(())
    }

    /// Creates a sandbox for a command in the checkout.
    pub fn sandbox(&self, project: &Project, specs: &Path, confinement: &Confinement) -> Result<Sandbox> {
        confinement.sandbox_of_copy(&Confined {
            dir: self.dir.path().join("sandbox"),
            worktree: &self.tree(),
            root: project.root(),
            common_dir: project.common_dir(),
            spec_dir: specs,
            head: &self.head,
            branch: None,
            index: &self.dir.path().join("git/index"),
            identity: &project.identity()?,
            slot: String::new(),
            ports: &[],
        })
    }

    /// Runs the check on all committed files plus the stubs, confined. Returns its output if it failed.
    pub fn check_stubs<'s>(
        &self,
        sandbox: &Sandbox,
        check: &StubCheck,
        stubs: impl Iterator<Item = (String, &'s str)>,
        env: BTreeMap<OsString, OsString>,
        mark: &Path,
    ) -> Result<Result<(), String>> {
        self.check_out()?;
        for (path, content) in stubs {
            self.put(Path::new(&path), Some(content.as_bytes()))?;
        }
        let failed = |error: std::io::Error| Error::caused("cannot check the stubs")(error);
        proc::become_subreaper().map_err(failed)?;
        let timeout = Duration::from_secs(check.timeout_seconds);
        let cmd = Cmd::shell(&check.command).envs(env).watched(mark).timeout(timeout).merged();
        let ended = sandbox.confine(cmd)?.run();
        proc::end_descendants(Duration::ZERO);
        signals::wait_if_exiting();
        let ended = ended.map_err(failed)?;
        if ended.success() {
            return Ok(Ok(()));
        }
        let how =
            if ended.timed_out { format!("timed out after {timeout:?}") } else { format!("failed: {}", ended.status) };
        Ok(Err(format!("`{}` {how}\n{}", check.command, bounded_text(&ended.stdout, SHOWN_OUTPUT).trim())))
    }

    /// Commits these files on top of HEAD, without moving any ref. Returns None if HEAD already has them like that.
    pub fn commit(
        self,
        project: &Project,
        files: &[(PathBuf, Option<Vec<u8>>)],
        message: &str,
    ) -> Result<Option<Commit>> {
        for (path, bytes) in files {
            self.put(path, bytes.as_deref())?;
        }
        let paths: Vec<RepoPath> =
            files.iter().map(|(path, _)| RepoPath::new(path.as_os_str().as_encoded_bytes())).collect();
        self.git.update_index(&paths)?;
        let tree = self.git.write_tree()?;
        if self.git.diff_tree(&self.head, &tree)?.is_empty() {
            return Ok(None);
        }
        let commit = self.git.commit_tree(&tree, std::slice::from_ref(&self.head), message, &project.identity()?)?;
        self.git.take_shared_index(project.git_dir())?;
        let index = project.git_dir().join("index");
        let checkout = self.git.clone().work_tree(project.checkout()).index(index);
        let branch = project.head_branch()?;
        Ok(Some(Commit { commit, head: self.head, branch, paths, checkout, _scratch: self.dir }))
    }
}

/// A commit that is not on the branch yet.
pub struct Commit {
    pub commit: Oid,
    head: Oid,
    pub branch: String,
    paths: Vec<RepoPath>,
    /// The user's checkout and its index, with the pinned git settings.
    checkout: Git,
    /// Keeps the git directory with the commit's objects alive.
    _scratch: TempDir,
}

impl Commit {
    /// Adds the files, which are already in the checkout, to its index, and then moves the branch. If the process is
    /// killed in between, the files are left staged.
    pub fn land(&self, project: &Project) -> Result<()> {
        let hint = "Another git command may be running: try again when it has finished.";
        self.checkout.update_index(&self.paths).map_err(|error| Error::from(error).hint(hint))?;
        Ok(project.git().update_ref(&self.branch, &self.commit, Some(&self.head))?)
    }

    /// Restores the index after a failed landing, once the files are restored.
    pub fn unstage(&self) {
        // Ignore errors: at worst, the files stay staged.
        let _ = self.checkout.update_index(&self.paths);
    }
}
