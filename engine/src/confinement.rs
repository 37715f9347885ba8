//! Sandboxes for everything that executes what a repository or an agent wrote: agents, verifications, gates.
//!
//! Used by `agent`, `worker` and `host`. Without a sandbox in force the same calls run programs with the user's rights.

use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{Isolation, Sandbox as Config, SandboxMode};
use mahabharatha_core::ids::Oid;
use mahabharatha_sys::bounded::{self, INDEX_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{Git, Identity, Pinned, PrivateCopy};
use mahabharatha_sys::proc;
use mahabharatha_sys::sandbox::{self, Sandbox, Workplace};
use serde::{Deserialize, Serialize};

use crate::containers::Containers;

/// How programs of a run are confined.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confinement {
    pub isolation: Isolation,
    /// Further paths that programs may read.
    pub read: Vec<PathBuf>,
    /// Further paths that programs may write.
    pub write: Vec<PathBuf>,
    /// Whether verifications and gates may use the network.
    pub network: bool,
    /// Directories of the user's checkout that programs which may read it do not see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<PathBuf>,
    /// Containers in which programs run, where they are the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<Containers>,
}

/// A worktree and what git shows of it inside a sandbox.
pub struct Confined<'a> {
    /// Directory for the private files of the sandbox.
    pub dir: PathBuf,
    pub worktree: &'a Path,
    /// The user's main checkout, at whose path the worktree appears.
    pub root: &'a Path,
    pub common_dir: &'a Path,
    pub spec_dir: &'a Path,
    pub head: &'a Oid,
    pub branch: Option<&'a str>,
    /// The index with which git starts inside.
    pub index: &'a Path,
    pub identity: &'a Identity,
    /// The slot whose container is used, and the ports that it publishes.
    pub slot: String,
    pub ports: &'a [u16],
}

impl Confinement {
    /// Combines the configuration with the isolation that is in force.
    pub fn new(config: &Config, isolation: Isolation) -> Confinement {
        let expand = |paths: &[String]| paths.iter().map(|path| proc::expand_home(path)).collect();
        let (read, write) = (expand(&config.read), expand(&config.write));
        Confinement { isolation, read, write, network: config.network, hidden: Vec::new(), containers: None }
    }

    /// Returns the confinement that the configuration asks for; fails if this machine does not have it.
    pub fn choose(config: &Config) -> Result<Confinement> {
        Ok(Confinement::new(config, sandbox::choose(config.mode)?))
    }

    /// Returns the same confinement in these containers, if there are any.
    pub fn with_containers(self, containers: Option<Containers>) -> Confinement {
        Confinement { containers, ..self }
    }

    /// Returns the user's git settings with filters that run in a sandbox, because they read what agents wrote.
    pub fn confine_filters(&self, pinned: Pinned) -> Result<Pinned> {
        if self.isolation == Isolation::Off || !pinned.has_filters() {
            return Ok(pinned);
        }
        let isolation = match self.isolation {
            // Git runs outside of the containers.
            Isolation::Container => sandbox::choose(SandboxMode::Auto)?,
            isolation => isolation,
        };
        if isolation == Isolation::Off {
            let message = "git's filters cannot be confined: git runs outside the containers, and neither \
                bubblewrap nor Landlock works here";
            return Err(Error::new(Kind::Preflight, message)
                .hint("Install bubblewrap, or remove the filter from your git configuration."));
        }
        let launcher = sandbox::filter_launcher(isolation, &self.read);
        Ok(pinned.with_filters_through(&launcher.map_err(Error::caused("cannot confine git's filters"))?))
    }

    /// Creates a new sandbox for a worktree. Where paths cannot be mapped, the worktree's `.git` file leads to the
    /// sandbox's git directory until the caller restores it.
    pub fn sandbox(&self, confined: &Confined<'_>) -> Result<Sandbox> {
        let place = Workplace { worktree: confined.worktree, appears_at: confined.root, writable: true };
        let mut sandbox = match &self.containers {
            Some(containers) => {
                containers.record()?;
                let container = containers.container(&confined.slot, confined.ports);
                Sandbox::in_container(&confined.dir, container, place)?
            }
            None => Sandbox::create(&confined.dir, self.isolation, place)?,
        };
        if self.isolation == Isolation::Off {
            return Ok(sandbox);
        }
        let has_specs = confined.spec_dir.is_dir() && bounded::check_place(confined.spec_dir).is_ok();
        match &self.containers {
            Some(containers) => {
                if bounded::check_below(confined.root, &containers.rules).is_ok() {
                    sandbox.read_at(&containers.rules, Path::new("/rules"));
                }
                if has_specs {
                    sandbox.read_at(confined.spec_dir, &containers.specs());
                }
                sandbox.set_variable("MAHABHARATHA_SPEC_DIR", &containers.specs());
            }
            None if has_specs => sandbox.read(confined.spec_dir),
            None => {}
        }
        self.read.iter().for_each(|path| sandbox.read(path));
        self.write.iter().for_each(|path| sandbox.write(path));
        add_git(&mut sandbox, confined)?;
        Ok(sandbox)
    }

    /// Creates a new sandbox for a verification or a gate, which may have no network.
    pub fn sandbox_of_check(&self, confined: &Confined<'_>) -> Result<Sandbox> {
        let mut sandbox = self.sandbox(confined)?;
        if !self.network {
            sandbox.without_network();
        }
        Ok(sandbox)
    }

    /// Creates a new sandbox for a check in a copy of the files that is no worktree of the repository: git works there
    /// without a sandbox too.
    pub fn sandbox_of_copy(&self, confined: &Confined<'_>) -> Result<Sandbox> {
        let sandbox = self.sandbox_of_check(confined)?;
        if self.isolation == Isolation::Off {
            let dir = confined.dir.join("git");
            let objects = Git::repository(confined.common_dir).object_dirs();
            write_git_dir(&dir, confined.worktree, &objects, confined)?;
            let link = confined.worktree.join(".git");
            fs::write(&link, format!("gitdir: {}\n", dir.display())).map_err(io("write", &link))?;
        }
        Ok(sandbox)
    }

    /// Creates a new sandbox for a program that may only read the user's checkout.
    pub fn reading(&self, dir: &Path, root: &Path) -> Result<Sandbox> {
        let place = Workplace { worktree: root, appears_at: root, writable: false };
        let mut sandbox = Sandbox::create(dir, self.isolation, place)?;
        // Both hold the state of runs, and git's configuration may hold tokens.
        sandbox.hide(&root.join(".git"));
        sandbox.hide(&root.join(".mahabharatha"));
        self.hidden.iter().filter(|dir| dir.starts_with(root)).for_each(|dir| sandbox.hide(dir));
        self.read.iter().for_each(|path| sandbox.read(path));
        Ok(sandbox)
    }
}

/// Gives the sandbox a git directory of its own over the repository's objects.
fn add_git(sandbox: &mut Sandbox, confined: &Confined<'_>) -> Result<()> {
    let repository = Git::repository(confined.common_dir);
    let dirs = repository.object_dirs();
    let objects: Vec<PathBuf> =
        dirs.iter().enumerate().map(|(number, dir)| sandbox.show(dir, &format!("objects/{number}"))).collect();
    let dir = sandbox.dir().join("git");
    let workdir = sandbox.workdir().to_owned();
    write_git_dir(&dir, &workdir, &objects, confined)?;
    let file = sandbox.private_home().join(".gitconfig");
    fs::write(&file, confined.identity.settings()).map_err(io("write", &file))?;
    sandbox.use_git(&dir, confined.worktree)
}

/// Writes a git directory for `workdir`, the worktree as programs see it.
fn write_git_dir(dir: &Path, workdir: &Path, objects: &[PathBuf], confined: &Confined<'_>) -> Result<()> {
    let Confined { head, branch, index, identity, .. } = *confined;
    let bytes = bounded::read(index, INDEX_BYTES).map_err(io("read", index))?;
    let written = fs::metadata(index).and_then(|found| found.modified()).map_err(io("read", index))?;
    let index = (&bytes[..], written);
    let copy = PrivateCopy { dir, worktree: workdir, objects, head, branch, index, identity };
    Ok(Git::repository(confined.common_dir).private_copy(&copy)?)
}

/// Returns the error of a sandbox that could not be set up.
pub fn failure(sandbox: &Sandbox) -> Option<Error> {
    let why = sandbox.failure()?;
    if sandbox.isolation() == Isolation::Container {
        return Some(Error::new(Kind::Failed, why).hint("`mahabharatha doctor` checks the container engine."));
    }
    Some(
        Error::new(Kind::Failed, format!("the sandbox ({}) could not be set up: {why}", sandbox.isolation()))
            .hint("`mahabharatha doctor` tries the sandbox; docs: `mahabharatha help security`."),
    )
}
