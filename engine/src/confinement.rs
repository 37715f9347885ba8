//! Sandboxes for everything that executes what a repository or an agent wrote: agents, verifications, gates.
//!
//! Used by `agent`, `worker` and `host`. Without a sandbox in force the same calls run programs with the user's rights.

use std::fmt;
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
        let isolation = sandbox::choose(config.mode)?;
        let refused = || listed(config).find_map(|path| path.refusal(&[]).map(|why| format!("{path} {why}")));
        match refused().filter(|_| isolation != Isolation::Off) {
            Some(what) => Err(Error::new(Kind::Preflight, what).hint(NAME_PARTS)),
            None => Ok(Confinement::new(config, isolation)),
        }
    }

    /// Shows the configured paths in the sandbox, as far as they exist: a colleague's machine may lack some. The user's
    /// checkout, in whose place the worktree is, and the repository's git directory stay hidden. Call it last: a link in the
    /// private home must not lead what we write there to a file of the user.
    fn show_listed(&self, sandbox: &mut Sandbox, confined: &Confined<'_>) -> Result<()> {
        let is_hidden = |path: &Path| confined.root.starts_with(path) || path.starts_with(confined.common_dir);
        let is_shown = |path: &&PathBuf| path.exists() && !is_hidden(path);
        self.read.iter().filter(is_shown).for_each(|path| sandbox.read(path));
        self.write.iter().filter(is_shown).for_each(|path| sandbox.write(path));
        self.read.iter().chain(&self.write).filter(is_shown).try_for_each(|path| sandbox.link_file_of_home(path))
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
        add_git(&mut sandbox, confined)?;
        self.show_listed(&mut sandbox, confined)?;
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
        self.read.iter().filter(|path| path.exists()).for_each(|path| sandbox.read(path));
        Ok(sandbox)
    }
}

/// What to do about a path that is refused.
pub const NAME_PARTS: &str = "Name the files or directories in it that programs need.";

/// Directory inside of bubblewrap and containers for files of ours.
const PRIVATE: &str = "/run/mahabharatha";

/// A path of `sandbox.read` or `sandbox.write`.
#[derive(Debug, Clone)]
pub struct Listed {
    pub path: PathBuf,
    pub writable: bool,
    index: usize,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.writable { "write" } else { "read" };
        write!(f, "sandbox.{key}[{}] in .mahabharatha/config.yaml: {}", self.index, self.path.display())
    }
}

/// Returns the paths that the configuration opens.
pub fn listed(config: &Config) -> impl Iterator<Item = Listed> + '_ {
    let lists = [(false, &config.read), (true, &config.write)];
    lists.into_iter().flat_map(|(writable, paths)| {
        let paths = paths.iter().enumerate();
        paths.map(move |(index, path)| Listed { path: proc::expand_home(path), writable, index })
    })
}

impl Listed {
    /// Says why the path cannot be opened: it contains the user's home, what is private to each sandbox, or one of these
    /// directories of ours.
    pub fn refusal(&self, ours: &[&Path]) -> Option<String> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let path = real(&self.path);
        let contains = |dir: &Path| real(dir).starts_with(&path) || dir.starts_with(&self.path);
        let home = proc::home();
        if path == Path::new("/") {
            return Some("is the whole file system, which no program in a sandbox may see".to_owned());
        }
        if home.as_deref().is_some_and(contains) {
            return Some("contains your whole home directory, and with it your logins".to_owned());
        }
        let ours = [Path::new(PRIVATE)].into_iter().chain(ours.iter().copied()).find(|dir| contains(dir))?;
        Some(format!("contains {}, which every sandbox has for itself", ours.display()))
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
