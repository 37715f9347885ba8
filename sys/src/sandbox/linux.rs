//! Linux: bubblewrap and Landlock.

mod bwrap;
mod landlock;
mod seccomp;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mahabharatha_core::config::Isolation;
use rustix::fs::{MemfdFlags, StatVfsMountFlags, memfd_create, statvfs};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount};
use rustix::process::{Signal, getgid, getuid};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::{Access, Layout, MERGED, UPPER, WORK, places};
use crate::proc::{Supervised, exec};
use crate::raw::filter_system_calls;
pub use crate::raw::leave_session_keyring;
use crate::signals;
use crate::store::tree;

/// The sandboxes of this system, the strongest first.
pub const SANDBOXES: [Isolation; 2] = [Isolation::Bwrap, Isolation::Landlock];

/// Files and directories of the system with secrets, which root could read.
const SECRET: [&str; 22] = [
    "/etc/NetworkManager/system-connections",
    "/etc/docker",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/openvpn",
    "/etc/pki/tls/private",
    "/etc/ppp",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/swanctl",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
];

/// Devices of the machine that bubblewrap shows, and that root could change.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Runs the program in bubblewrap, or becomes it under Landlock.
pub fn run(layout: &Layout, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    if layout.isolation == Isolation::Bwrap {
        return in_bwrap(layout, program, args);
    }
    std::env::set_current_dir(&layout.workdir)?;
    drop_capabilities();
    landlock::restrict(layout)?;
    filter_system_calls(&mut seccomp::filter(layout.isolation)?)?;
    Err(exec(program, args))
}

/// Has this process, and the program that it becomes, killed when the thread that started it ends.
pub fn die_with_caller() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

fn in_bwrap(layout: &Layout, program: &OsStr, args: &[OsString]) -> io::Result<i32> {
    prepare_mounts(layout)?;
    // A new user namespace may have cleared it.
    die_with_caller()?;
    landlock::restrict_scope()?;
    let mut words = bwrap::options(layout);
    // Bubblewrap reads it from this descriptor, which it closes.
    let filter = in_memory(&seccomp::bytes(&seccomp::filter(layout.isolation)?))?;
    words.extend(["--seccomp".into(), filter.as_raw_fd().to_string().into()]);
    words.extend([OsString::from("--"), program.to_owned()]);
    words.extend(args.iter().cloned());
    let inside = Arc::new(Supervised::start(OsStr::new("bwrap"), &words)?);
    let target = Arc::clone(&inside);
    // Bubblewrap would kill everything at once; the program inside gets the signal instead, and its grace period.
    signals::listen(move |_, _| target.terminate()).map_err(io::Error::other)?;
    inside.wait()
}

/// Returns a file in memory that the next program inherits.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("filter", MemfdFlags::empty())?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Mounts what bubblewrap before 0.11 cannot, in a mount namespace of our own: overlays, and for root devices whose
/// permissions cannot be changed.
fn prepare_mounts(layout: &Layout) -> io::Result<()> {
    let overlays = layout.mounts.iter().filter_map(|mount| match &mount.access {
        Access::Overlay(changes) => Some((&mount.from, changes)),
        _ => None,
    });
    let overlays: Vec<(&PathBuf, &PathBuf)> = overlays.collect();
    let owns_devices = getuid().is_root();
    if overlays.is_empty() && !owns_devices {
        return Ok(());
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    #[expect(deprecated, reason = "the only safe form; this process has one thread and shares no descriptors")]
    rustix::thread::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    if owns_devices {
        DEVICES.iter().try_for_each(|device| mount_read_only(Path::new(device)))?;
    }
    for (from, changes) in overlays {
        let work = changes.join(WORK);
        // An earlier mount leaves marks in it, which forbid another one.
        tree::empty_except(&work, &[], &[]).map_err(io::Error::other)?;
        let option = |key: &str, path: &Path| [key, "=", &escaped(path)].concat();
        let options = [
            option("lowerdir", from),
            option("upperdir", &changes.join(UPPER)),
            option("workdir", &work),
            "userxattr".to_owned(),
            // The changes are thrown away: without this, the end of every sandbox would write out the whole disk's cache.
            "volatile".to_owned(),
        ];
        let options = std::ffi::CString::new(options.join(","))?;
        mount("overlay", changes.join(MERGED), "overlay", MountFlags::empty(), options.as_c_str())?;
    }
    Ok(())
}

/// Mounts a device on itself so that only its permissions and times cannot be changed: reading and writing goes on.
fn mount_read_only(device: &Path) -> io::Result<()> {
    if !device.exists() {
        return Ok(());
    }
    mount_bind(device, device)?;
    // The kernel refuses to drop flags that the file system has outside.
    let has = statvfs(device)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(found, _)| has.contains(*found)).map(|(_, flag)| flag);
    Ok(mount_remount(device, kept.fold(MountFlags::BIND | MountFlags::RDONLY, |all, flag| all | flag), c"")?)
}

/// Escapes a path for the options of an overlay.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "\\\\").replace(',', "\\,").replace(':', "\\:")
}

/// Drops the capabilities that root would get back with the next program, such as reading any process's environment.
fn drop_capabilities() {
    for capability in CapabilitySet::all().iter() {
        // Fails without the right to drop them, in which case there are none to get back.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
}

/// Returns the file that holds the name servers, if `/etc/resolv.conf` is a link to a place outside of `/etc`.
fn name_servers() -> Option<PathBuf> {
    Path::new("/etc/resolv.conf").canonicalize().ok().filter(|path| !places::is_system(path))
}
