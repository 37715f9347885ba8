//! Runs untrusted programs confined: they write one worktree and private directories, and read the system, toolchains and
//! what they are shown.
//!
//! Used for everything that executes what a repository or an agent wrote. `Sandbox::confine` turns a command into a call
//! of our hidden command `confine`, which starts it in bubblewrap, under Landlock or by `sandbox-exec`. Nothing that was
//! written inside is to be believed.

mod confine;
mod container;
mod denial;
mod filter;
mod places;
mod private_dirs;
mod probe;
mod sandbox_exec;
mod series;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(target_os = "macos", path = "macos.rs")]
mod system;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Not;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use mahabharatha_core::config::Isolation;
use serde::{Deserialize, Serialize};

use crate::bounded::{self, SMALL_FILE_BYTES};
use crate::container::{Container, Parking};
use crate::error::{Error, Result, io};
use crate::proc::{self, Cmd};
use crate::store::tree;

pub use crate::container::HELPER_COMMAND;
pub use confine::{confine, serve_inside};
pub use container::end_earlier;
pub use denial::{is_personal, is_withheld};
pub use filter::{FILTER_COMMAND, filter_launcher, run_filter};
pub use places::is_system;
pub use private_dirs::Contents;
pub use probe::{available, choose, why_weaker};
pub use series::COMMAND as SERIES_COMMAND;
use series::Series;
pub use series::server::serve as serve_series;

/// Directory inside a bubblewrap sandbox or a container for files of ours.
const PRIVATE: &str = "/run/mahabharatha";
/// File that appears as the worktree's `.git`.
const GIT_LINK: &str = "dotgit";
/// Directory with those of the package caches' overlays.
const CACHES: &str = "caches";
/// Directories of an overlay: where it is mounted, what was changed, and what the kernel needs.
const MERGED: &str = "merged";
const UPPER: &str = "upper";
const WORK: &str = "work";
/// File that describes the sandbox to `confine`.
const LAYOUT: &str = "layout.json";
/// File in which `confine` reports that the sandbox could not be set up.
const FAILURE: &str = "failure";

/// What a confined program sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Layout {
    isolation: Isolation,
    mounts: Vec<Mount>,
    /// Directories that appear empty.
    hidden: Vec<PathBuf>,
    workdir: PathBuf,
    network: bool,
    /// The container in which the program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    container: Option<Container>,
    /// Descriptors of `confine` that lead to a session in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parking: Option<[RawFd; 2]>,
    /// Whether the program is the server of a series.
    #[serde(default, skip_serializing_if = "Not::not")]
    is_server: bool,
}

impl Layout {
    fn new(isolation: Isolation, workdir: &Path) -> Layout {
        Layout {
            isolation,
            mounts: Vec::new(),
            hidden: Vec::new(),
            workdir: workdir.to_owned(),
            network: true,
            container: None,
            parking: None,
            is_server: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mount {
    from: PathBuf,
    to: PathBuf,
    access: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Access {
    Read,
    Write,
    /// Changes go to this directory and are thrown away with it.
    Overlay(PathBuf),
}

/// A sandbox. Its private directories are new and empty.
#[derive(Debug)]
pub struct Sandbox {
    /// Directory of ours, not visible inside except for its parts that are mounted.
    dir: PathBuf,
    home: PathBuf,
    layout: Layout,
    /// Variables whose value is another one inside.
    variables: Vec<(&'static str, PathBuf)>,
    /// Files of the user that the program has copies of: theirs, and the copy.
    lent: Vec<container::Lent>,
    /// Where further programs run, if that has begun.
    series: Option<Series>,
}

/// The directory in which a confined program works.
#[derive(Debug, Clone, Copy)]
pub struct Workplace<'a> {
    pub worktree: &'a Path,
    /// Path at which the worktree appears inside, where paths can be mapped.
    pub appears_at: &'a Path,
    pub writable: bool,
}

impl Sandbox {
    /// Creates a sandbox whose private files are in `dir`, which is emptied first.
    pub fn create(dir: &Path, isolation: Isolation, place: Workplace<'_>) -> Result<Sandbox> {
        let workdir = if isolation == Isolation::Bwrap { place.appears_at } else { place.worktree };
        let layout = Layout::new(isolation, workdir);
        let home = proc::home().unwrap_or_else(|| "/nonexistent".into());
        let home = home.canonicalize().unwrap_or(home);
        let mut sandbox = Sandbox::of(dir, home, layout);
        if isolation == Isolation::Off {
            return Ok(sandbox);
        }
        for (part, place) in [("home", sandbox.home()), ("tmp", sandbox.tmp())] {
            sandbox.mount(&dir.join(part), &place, Access::Write);
        }
        // What lies in the checkout comes from the worktree.
        let mut toolchains = places::toolchains(&sandbox.home);
        toolchains.retain(|path| !path.starts_with(place.appears_at));
        toolchains.iter().for_each(|path| sandbox.read(path));
        let mut caches = places::caches(&sandbox.home);
        if isolation.keeps_paths() {
            // Npm fails if it cannot write to its cache; without one it makes a new one.
            caches.retain(|path| !path.ends_with("_cacache"));
        }
        for (number, path) in caches.iter().enumerate() {
            sandbox.cache(path, number);
        }
        let access = if place.writable { Access::Write } else { Access::Read };
        sandbox.mount(place.worktree, workdir, access);
        sandbox.create_dirs()?;
        for path in toolchains.iter().chain(&caches) {
            sandbox.link_below_home(path)?;
        }
        Ok(sandbox)
    }

    fn of(dir: &Path, home: PathBuf, layout: Layout) -> Sandbox {
        Sandbox { dir: dir.to_owned(), home, layout, variables: Vec::new(), lent: Vec::new(), series: None }
    }

    /// Tells how the program is confined.
    pub fn isolation(&self) -> Isolation {
        self.layout.isolation
    }

    /// Returns the working directory as the program sees it.
    pub fn workdir(&self) -> &Path {
        &self.layout.workdir
    }

    /// Returns the home directory as the program sees it.
    pub fn home(&self) -> PathBuf {
        if self.layout.isolation.keeps_paths() { self.dir.join("home") } else { self.home.clone() }
    }

    /// Returns the directory for temporary files as the program sees it.
    fn tmp(&self) -> PathBuf {
        if self.layout.isolation.keeps_paths() { self.dir.join("tmp") } else { "/tmp".into() }
    }

    /// Returns the private home directory as we see it, to put files into it; only where there is a sandbox.
    pub fn private_home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// Cuts the program off from the network.
    pub fn without_network(&mut self) {
        self.layout.network = false;
    }

    /// Sets a variable of the program to a path as it is inside.
    pub fn set_variable(&mut self, name: &'static str, path: &Path) {
        self.variables.push((name, path.to_owned()));
    }

    /// Makes a path readable, at another path where paths can be mapped.
    pub fn read_at(&mut self, path: &Path, inside: &Path) {
        self.mount(path, inside, Access::Read);
    }

    /// Makes a path readable, at its own path.
    pub fn read(&mut self, path: &Path) {
        self.mount(path, &self.place_of(path), Access::Read);
    }

    /// Makes a path writable, at its own path.
    pub fn write(&mut self, path: &Path) {
        self.mount(path, &self.place_of(path), Access::Write);
    }

    /// Returns where a path appears: in a container the user's home directory is another one.
    fn place_of(&self, path: &Path) -> PathBuf {
        let below = proc::home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned));
        match below {
            Some(below) if self.layout.isolation == Isolation::Container => self.home.join(below),
            _ => path.to_owned(),
        }
    }

    /// Returns the path inside of something that was mounted.
    pub fn inside(&self, path: &Path) -> PathBuf {
        let mount = self.layout.mounts.iter().find(|mount| mount.from == path);
        mount.map_or_else(|| path.to_owned(), |mount| mount.to.clone())
    }

    /// Makes a file or directory of the user writable, which appears in the program's home as `name`.
    pub fn lend(&mut self, path: &Path, name: &Path) -> Result<()> {
        match self.layout.isolation {
            Isolation::Off => Ok(()),
            Isolation::Bwrap => {
                let place = self.home.join(name);
                self.mount(path, &place, Access::Write);
                Ok(())
            }
            Isolation::Landlock | Isolation::SandboxExec => {
                self.mount(path, path, Access::Write);
                self.link_in_home(path, name)
            }
            Isolation::Container => self.lend_copy(path, name),
        }
    }

    /// Makes git in the worktree use this directory, which the program may write. Where paths cannot be mapped, this
    /// replaces the worktree's `.git` file.
    pub fn use_git(&mut self, git_dir: &Path, worktree: &Path) -> Result<()> {
        let link = |dir: &Path| format!("gitdir: {}\n", dir.display());
        match self.layout.isolation {
            Isolation::Off => Ok(()),
            Isolation::Bwrap => {
                let (inside, file) = (Path::new(PRIVATE).join("git"), self.dir.join(GIT_LINK));
                fs::write(&file, link(&inside)).map_err(io("write", &file))?;
                let place = self.layout.workdir.join(".git");
                self.mount(git_dir, &inside, Access::Write);
                self.mount(&file, &place, Access::Read);
                Ok(())
            }
            Isolation::Landlock | Isolation::SandboxExec => {
                self.mount(git_dir, git_dir, Access::Write);
                let place = worktree.join(".git");
                tree::remove(&place)?;
                fs::write(&place, link(git_dir)).map_err(io("write", &place))
            }
            Isolation::Container => self.link_git(),
        }
    }

    /// Lets a directory appear empty. Under Landlock the names in it can still be listed, under `sandbox-exec` it cannot
    /// be read.
    pub fn hide(&mut self, dir: &Path) {
        self.layout.hidden.push(dir.to_owned());
    }

    /// Shows a file or directory of ours read-only and returns its path inside.
    pub fn show(&mut self, from: &Path, name: &str) -> PathBuf {
        let maps = matches!(self.layout.isolation, Isolation::Bwrap | Isolation::Container);
        let to = if maps { Path::new(PRIVATE).join(name) } else { from.to_owned() };
        self.mount(from, &to, Access::Read);
        to
    }

    /// Like `show`, for a file or directory that only this program needs.
    pub fn give(&mut self, from: &Path, name: &str) -> Result<PathBuf> {
        match self.layout.isolation {
            Isolation::Container => self.give_copy(from, name),
            _ => Ok(self.show(from, name)),
        }
    }

    /// Makes a program visible with the files next to it and returns its path inside. `main` is the user's checkout, of
    /// which only the program itself is shown. In a container programs are those of its image, except for files of the
    /// checkout.
    pub fn show_program(&mut self, program: &Path, main: &Path) -> Result<PathBuf> {
        let Ok(found) = program.canonicalize() else { return Ok(program.to_owned()) };
        let in_container = self.layout.isolation == Isolation::Container;
        let is_there = if in_container { !found.starts_with(main) } else { self.is_visible(&found) };
        if self.layout.isolation == Isolation::Off || is_there {
            return Ok(program.to_owned());
        }
        match places::package(&found).filter(|dir| !self.home.starts_with(dir) && !main.starts_with(dir)) {
            Some(dir) if !found.starts_with(main) => {
                self.read(&dir);
                Ok(found)
            }
            _ => {
                let name = found.file_name().unwrap_or(OsStr::new("program")).to_owned();
                self.give(&found, &Path::new("agent").join(name).to_string_lossy())
            }
        }
    }

    fn is_visible(&self, path: &Path) -> bool {
        is_system(path) || self.layout.mounts.iter().any(|mount| mount.from == mount.to && path.starts_with(&mount.to))
    }

    /// Makes a package cache of the user usable without letting anything in it be changed.
    fn cache(&mut self, path: &Path, number: usize) {
        if self.layout.isolation.keeps_paths() {
            self.read(path);
        } else {
            self.mount(path, path, Access::Overlay(self.dir.join(CACHES).join(number.to_string())));
        }
    }

    /// Lets a path of the user's home appear in the private one, where tools such as rustup look for it. Needed where paths
    /// cannot be mapped.
    fn link_below_home(&self, path: &Path) -> Result<()> {
        match path.strip_prefix(&self.home) {
            Ok(below) if self.layout.isolation.keeps_paths() => self.link_in_home(path, below),
            _ => Ok(()),
        }
    }

    /// Lets a file of the user's home that is shown appear in the private one too. No directory: where paths cannot be
    /// mapped, what we write for an agent in its home would go there. No logins of agents for the same reason.
    pub fn link_file_of_home(&self, path: &Path) -> Result<()> {
        let is_ours = is_personal(path, &self.home) && !denial::is_registry(path, &self.home);
        if path.is_file() && !is_ours { self.link_below_home(path) } else { Ok(()) }
    }

    /// Links a path from the private home, unless something appears there already.
    fn link_in_home(&self, target: &Path, below: &Path) -> Result<()> {
        let link = self.dir.join("home").join(below);
        if link.exists() {
            return Ok(());
        }
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent).map_err(io("create", parent))?;
        }
        std::os::unix::fs::symlink(target, &link).map_err(io("create", &link))
    }

    fn mount(&mut self, from: &Path, to: &Path, access: Access) {
        if self.layout.isolation != Isolation::Off {
            self.layout.mounts.retain(|mount| mount.to != to);
            self.layout.mounts.push(Mount { from: from.to_owned(), to: to.to_owned(), access });
        }
    }

    /// Turns the command into one that runs confined. Its environment is what the program may know.
    pub fn confine(&self, cmd: Cmd) -> Result<Cmd> {
        if self.layout.isolation == Isolation::Off {
            return Ok(cmd.cwd(&self.layout.workdir));
        }
        // Of an earlier program in this sandbox.
        tree::remove_file(&self.dir.join(FAILURE))?;
        if self.layout.isolation == Isolation::Container {
            self.make_mount_points()?;
            tree::remove_file(&self.dir.join(container::ENDED))?;
        }
        let cmd = cmd.env("HOME", self.home()).env("TMPDIR", self.tmp());
        let cmd = self.variables.iter().fold(cmd, |cmd, (name, path)| cmd.env(name, path));
        if let Some(series) = &self.series {
            let requests = series.requests().map_err(Error::caused("cannot copy a descriptor"))?;
            return Ok(cmd.cwd(&self.layout.workdir).served_by(requests));
        }
        self.clear_mount_points()?;
        let mut layout = self.sorted_layout();
        let parking = layout.container.as_ref().map(|container| Parking::of(&container.name)).transpose();
        let parking = parking.map_err(Error::caused("cannot create a pair of sockets"))?;
        layout.parking = parking.as_ref().map(|ends| ends.each_ref().map(AsRawFd::as_raw_fd));
        let file = self.dir.join(LAYOUT);
        let text = serde_json::to_vec(&layout).map_err(Error::caused("cannot describe the sandbox"))?;
        fs::write(&file, text).map_err(io("write", &file))?;
        let launcher = proc::own_program().map_err(Error::caused("cannot find the path of this executable"))?;
        let args = [OsString::from("confine"), file.into(), "--".into()];
        let cmd = parking.into_iter().flatten().fold(cmd.cwd(&self.dir), Cmd::pass_on);
        Ok(cmd.through(launcher, args))
    }

    /// Removes links, and whatever else an earlier program left where something is mounted in the worktree: bubblewrap
    /// follows links when it makes mount points, also out of the worktree.
    fn clear_mount_points(&self) -> Result<()> {
        let workdir = &self.layout.workdir;
        let worktree = self.layout.mounts.iter().find(|mount| mount.to == *workdir && mount.access == Access::Write);
        let Some(worktree) = worktree.filter(|_| self.layout.isolation == Isolation::Bwrap) else { return Ok(()) };
        for mount in &self.layout.mounts {
            let Ok(below) = mount.to.strip_prefix(workdir) else { continue };
            let mut place = worktree.from.clone();
            for (position, part) in below.components().enumerate() {
                place.push(part);
                let Ok(found) = fs::symlink_metadata(&place) else { break };
                let is_last = position + 1 == below.components().count();
                let fits = if is_last && mount.from.is_file() { found.is_file() } else { found.is_dir() };
                if !fits {
                    tree::remove(&place)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the layout with parents first, so that what is below them is mounted over them.
    fn sorted_layout(&self) -> Layout {
        let mut layout = self.layout.clone();
        layout.mounts.sort_by_key(|mount| mount.to.components().count());
        layout
    }

    /// Returns why the sandbox could not be set up or did not last, if the last command failed for that reason. Ends what
    /// still runs in a container.
    pub fn failure(&self) -> Option<String> {
        if let Some(container) = &self.layout.container {
            if let Err(error) = self.end_inside(container) {
                return Some(format!("what runs in {} cannot be ended: {}", container.name, error.message()));
            }
            self.take_back();
        }
        bounded::read_to_string(&self.dir.join(FAILURE), SMALL_FILE_BYTES).ok()
    }

    /// Says which file the sandbox kept a program from, going by its output, and what to add to the configuration.
    pub fn denial(&self, output: &str) -> Option<String> {
        if self.layout.isolation == Isolation::Container {
            return self.memory_failure();
        }
        let homes = denial::Homes { own: &self.home, private: &self.home() };
        denial::explain(&self.layout, homes, output)
    }

    /// Returns the directory for files that only this sandbox needs, which is not visible inside.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Removes the private directories, with everything that the program left in them.
impl Drop for Sandbox {
    fn drop(&mut self) {
        self.end_series();
        if let Some(container) = &self.layout.container {
            // What cannot be ended or removed now is ended or removed before the directory is used again.
            let _ = self.end_inside(container).and_then(|()| self.clear(container));
        } else if self.layout.isolation != Isolation::Off {
            // What cannot be removed now is removed before the directory is used again.
            let _ = tree::remove(&self.dir);
        }
    }
}
