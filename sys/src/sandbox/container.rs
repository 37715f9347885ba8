//! A worker's container as a sandbox. The container outlives a program: its private directories stay mounted and are
//! emptied after each program, and its root is read-only. Only what an image declares as a volume is shared by programs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use super::{Access, FAILURE, GIT_LINK, LAYOUT, Layout, PRIVATE, Sandbox, Workplace, private_dirs::make_private};
use crate::bounded::{self, SMALL_FILE_BYTES};
use crate::container::{Bind, Container, Parking, Session};
use crate::crash;
use crate::error::{self, Error, Result};
use crate::proc::{MARKER, Program};
use crate::raw;
use crate::signals;
use crate::store::tree;

/// File in which `confine` reports that no program runs in the container any more.
pub(super) const ENDED: &str = "ended";
/// Its content if a program was killed for lack of memory.
const OUT_OF_MEMORY: &str = "out of memory";
/// File that says that the private directories are empty.
const EMPTIED: &str = "emptied";
/// Exit code of a program that was killed.
const KILLED: i32 = 128 + 9;
/// Second place of the worktree, where devcontainers have it.
const WORKSPACE: &str = "/workspace";
/// Private directories, and where they are inside. `{}` is the directory for files of ours.
const WRITABLE: [(&str, &str); 5] =
    [("home", "{}/home"), ("git", "{}/git"), ("tmp", "/tmp"), ("var-tmp", "/var/tmp"), ("shm", "/dev/shm")];
/// Directory for files that a program is given.
const GIVEN: &str = "given";

/// Copy of this program, if its file is gone.
const HELPER: &str = "helper";

/// A file of the user of which a program has a copy.
#[derive(Debug)]
pub struct Lent {
    path: PathBuf,
    /// Where the copy is.
    place: PathBuf,
    /// What was in it at first.
    bytes: Vec<u8>,
}

impl Sandbox {
    /// Creates a sandbox in a container, whose private files are in `dir`.
    pub fn in_container(dir: &Path, container: Container, place: Workplace<'_>) -> Result<Sandbox> {
        let layout =
            Layout { container: Some(container), ..Layout::new(super::Isolation::Container, place.appears_at) };
        let home = Path::new(PRIVATE).join("home");
        let mut sandbox = Sandbox::of(dir, home, layout);
        for (part, to) in WRITABLE {
            make_private(&dir.join(part))?;
            sandbox.mount(&dir.join(part), Path::new(&to.replace("{}", PRIVATE)), Access::Write);
        }
        make_private(&dir.join(GIVEN))?;
        sandbox.mount(&dir.join(GIVEN), &Path::new(PRIVATE).join(GIVEN), Access::Read);
        for to in [place.appears_at, Path::new(WORKSPACE)] {
            sandbox.mount(place.worktree, to, Access::Write);
        }
        let container = sandbox.layout.container.as_ref();
        let helper = container.map(|container| container.helper_files(&dir.join(HELPER))).transpose();
        let helper = helper.map_err(error::io("read", dir))?.unwrap_or_default();
        helper.iter().for_each(|(file, place)| sandbox.mount(file, place, Access::Read));
        if let Some(container) = &sandbox.layout.container {
            end_earlier(dir, container)?;
        }
        for file in [LAYOUT, FAILURE, ENDED] {
            tree::remove(&dir.join(file))?;
        }
        sandbox.clear_after_kill()?;
        Ok(sandbox)
    }

    /// Removes the container and empties the private directories, unless the last sandbox has left them empty.
    fn clear_after_kill(&self) -> Result<()> {
        let emptied = self.dir.join(EMPTIED);
        if emptied.exists() {
            return fs::remove_file(&emptied).map_err(error::io("remove", &emptied));
        }
        if let Some(container) = &self.layout.container {
            container.remove()?;
        }
        for part in WRITABLE.iter().map(|(part, _)| *part).chain([GIVEN]) {
            tree::empty_except(&self.dir.join(part), &[], &[])?;
        }
        Ok(())
    }

    /// Empties the private directories after a program. If that moved a mounted directory away, the container is removed.
    pub(super) fn clear(&self, container: &Container) -> Result<()> {
        if self.empty_around_mounts()? {
            container.remove()?;
        }
        crash::point(|| "container's directories emptied");
        let emptied = self.dir.join(EMPTIED);
        fs::write(&emptied, "").map_err(error::io("write", &emptied))
    }

    /// Empties the private directories. What other paths are mounted on stays: removing it would unmount them. Returns
    /// whether a program put something else in their place.
    fn empty_around_mounts(&self) -> Result<bool> {
        let mut was_changed = false;
        let parts = WRITABLE.iter().map(|(part, to)| (*part, to.replace("{}", PRIVATE)));
        for (part, to) in parts.chain([(GIVEN, format!("{PRIVATE}/{GIVEN}"))]) {
            let mounted = |is_dir: bool| -> Vec<&Path> {
                let mounts = self.layout.mounts.iter().filter(|mount| mount.from.is_dir() == is_dir);
                let below = mounts.filter_map(|mount| mount.to.strip_prefix(&to).ok());
                below.filter(|path| !path.as_os_str().is_empty()).collect()
            };
            was_changed |= tree::empty_except(&self.dir.join(part), &mounted(true), &mounted(false))?;
        }
        Ok(was_changed)
    }

    /// Starts the container, so that the first program does not wait for it.
    pub fn start_container(&self) -> Result<()> {
        let layout = self.sorted_layout();
        self.make_mount_points()?;
        layout.running_container().map_or(Ok(()), |container| container.ensure(&binds(&layout)).map(drop))
    }

    /// Creates what paths are mounted on in private directories. The engine would do so as root, and only root could remove it.
    pub(super) fn make_mount_points(&self) -> Result<()> {
        for mount in self.layout.mounts.iter().filter(|mount| mount.from.exists()) {
            for (part, to) in WRITABLE.map(|(part, to)| (part, to.replace("{}", PRIVATE))) {
                let below = mount.to.strip_prefix(&to).ok().filter(|path| !path.as_os_str().is_empty());
                let Some(place) = below.map(|below| self.dir.join(part).join(below)) else { continue };
                let dir = if mount.from.is_dir() { Some(place.as_path()) } else { place.parent() };
                dir.map_or(Ok(()), fs::create_dir_all).map_err(error::io("create", &place))?;
                if !mount.from.is_dir() && !place.exists() {
                    fs::write(&place, "").map_err(error::io("create", &place))?;
                }
            }
        }
        Ok(())
    }

    /// Makes git inside use the private directory, by a `.git` file over that of the worktree.
    pub(super) fn link_git(&mut self) -> Result<()> {
        let (file, text) = (self.dir.join(GIT_LINK), format!("gitdir: {PRIVATE}/git\n"));
        // It stays as it is: a file that is replaced would no longer be the mounted one.
        if bounded::read(&file, SMALL_FILE_BYTES).ok().as_deref() != Some(text.as_bytes()) {
            fs::write(&file, &text).map_err(error::io("write", &file))?;
        }
        for place in [self.layout.workdir.clone(), PathBuf::from(WORKSPACE)] {
            self.mount(&file, &place.join(".git"), Access::Read);
        }
        Ok(())
    }

    /// Copies a file or directory of ours to where programs can read it and returns its path inside.
    pub(super) fn give_copy(&self, from: &Path, name: &str) -> Result<PathBuf> {
        let place = self.dir.join(GIVEN).join(name);
        copy(from, &place).map_err(error::io("copy", from))?;
        Ok(Path::new(PRIVATE).join(GIVEN).join(name))
    }

    /// Copies a file of the user into the program's home. What the program makes of it is taken back when it has ended.
    pub(super) fn lend_copy(&mut self, path: &Path, name: &Path) -> Result<()> {
        let place = self.dir.join("home").join(name);
        copy(path, &place).map_err(error::io("copy", path))?;
        let bytes = bounded::read(&place, SMALL_FILE_BYTES).map_err(error::io("read", &place))?;
        self.lent.push(Lent { path: path.to_owned(), place, bytes });
        Ok(())
    }

    /// Makes sure that no program runs in the container any more: kills it unless `confine` saw that.
    pub(super) fn end_inside(&self, container: &Container) -> Result<()> {
        end_inside(&self.dir, container)
    }

    /// Writes back what the program made of the files that it was lent.
    pub(super) fn take_back(&self) {
        for Lent { path, place, bytes: lent } in &self.lent {
            // In place, since other workers use the same file. Its owner checks what it is.
            if let Ok(now) = bounded::read_inside(&self.dir.join("home"), place, SMALL_FILE_BYTES)
                && now.as_bytes() != *lent
            {
                let _ = fs::write(path, now);
            }
        }
    }

    /// Says that the last program was killed for lack of memory, if it was.
    pub fn memory_failure(&self) -> Option<String> {
        let container = self.layout.container.as_ref()?;
        let ended = bounded::read_to_string(&self.dir.join(ENDED), SMALL_FILE_BYTES).ok()?;
        (ended == OUT_OF_MEMORY).then(|| container.out_of_memory())
    }
}

impl Layout {
    /// Returns the container as it is for this layout.
    fn running_container(&self) -> Option<Container> {
        let container = self.container.clone()?;
        let network = if self.network { container.network.clone() } else { "none".to_owned() };
        Some(Container { network, ..container })
    }
}

/// Ends an earlier program that may still run in the container: its worker was killed, or the engine did not answer. `dir`
/// has the private files of that sandbox.
pub fn end_earlier(dir: &Path, container: &Container) -> Result<()> {
    if !has_ended(dir) {
        container.engine.wait_until_reachable()?;
    }
    end_inside(dir, container)
}

fn end_inside(dir: &Path, container: &Container) -> Result<()> {
    if has_ended(dir) {
        return Ok(());
    }
    container.remove()?;
    crash::point(|| "container removed with what ran in it");
    let ended = dir.join(ENDED);
    fs::write(&ended, "").map_err(error::io("write", &ended))
}

fn has_ended(dir: &Path) -> bool {
    !dir.join(LAYOUT).exists() || dir.join(ENDED).exists()
}

/// Runs the program in the container and returns its exit code. When this returns, no program runs there.
pub fn run(layout: &Layout, dir: &Path, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    let container = layout.running_container().ok_or_else(|| io::Error::other("no container is named"))?;
    let [entrance, exit] = layout.parking.ok_or_else(|| io::Error::other("no session can be parked"))?;
    let parking = Parking::inherited([raw::take_inherited(entrance)?, raw::take_inherited(exit)?]);
    let id = container.ensure(&binds(layout)).map_err(other)?;
    let session = parking.take(&id).map_or_else(|| Session::open(&container, &id), Ok);
    let mut session = session.map_err(other)?;
    let requests = session.requests();
    signals::listen(move |_, _| requests.terminate()).map_err(io::Error::other)?;
    let own = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map(File::from);
    let (stdout, stderr) = (own(io::stdout().as_fd())?, own(io::stderr().as_fd())?);
    let code = session.run(&inside(layout, program, args), own(io::stdin().as_fd())?, stdout, stderr);
    let out_of_memory = !matches!(code, Ok(0)) && container.ran_out_of_memory();
    let code = code.map_err(|error| other(container.why_lost(&error)));
    if out_of_memory || code.is_err() {
        // Ends what may still run. The next program gets a new container.
        container.remove().map_err(other)?;
    } else {
        parking.put(session);
    }
    fs::write(dir.join(ENDED), if out_of_memory { OUT_OF_MEMORY } else { "" })?;
    code.or_else(|error| if out_of_memory { Ok(KILLED) } else { Err(error) })
}

/// Returns the program as the helper gets it.
fn inside(layout: &Layout, program: &OsStr, args: &[OsString]) -> Program {
    let variables = std::env::vars_os().filter(|(key, value)| is_useful_inside(layout, key, value));
    let words = [program].into_iter().chain(args.iter().map(OsString::as_os_str)).map(OsStr::to_owned).collect();
    Program { words, env: Container::variables(variables), workdir: layout.workdir.clone() }
}

/// Returns whether a variable is useful inside. Paths of this machine's toolchains and certificates are not: a program
/// would take them for the image's.
fn is_useful_inside(layout: &Layout, key: &OsStr, value: &OsStr) -> bool {
    let path = Path::new(value);
    let shows = |mount: &super::Mount| {
        let below = path.strip_prefix(&mount.to);
        below.is_ok_and(|below| below.as_os_str().is_empty() || mount.from.join(below).exists())
    };
    let is_inside = || layout.mounts.iter().any(shows);
    // Our processes are found by this mark.
    key == MARKER || !path.is_absolute() || is_inside() || !path.exists()
}

fn other(error: Error) -> io::Error {
    io::Error::other(error.message().to_owned())
}

/// Returns the paths of the layout that exist, parents first.
fn binds(layout: &Layout) -> Vec<Bind> {
    let existing = layout.mounts.iter().filter(|mount| mount.from.exists());
    let bind = |mount: &super::Mount| Bind {
        from: mount.from.clone(),
        to: mount.to.clone(),
        writable: mount.access == Access::Write,
    };
    existing.map(bind).collect()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
