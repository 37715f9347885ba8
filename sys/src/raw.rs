//! System calls for which no safe wrapper exists. The only module with `unsafe` code.

#![allow(unsafe_code, reason = "each call takes plain numbers and touches no memory of ours")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Closes every descriptor but standard input, output and error when the next program is executed.
#[cfg(target_os = "linux")]
pub fn close_inherited_on_exec() -> io::Result<()> {
    // SAFETY: the flag only marks descriptors; none is closed while this program runs.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
}

/// Closes every descriptor but standard input, output and error when the next program is executed.
#[cfg(target_os = "macos")]
pub fn close_inherited_on_exec() -> io::Result<()> {
    let open: Vec<RawFd> = std::fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in open {
        // SAFETY: the flag only marks the descriptor, which need not be open.
        match check(unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) }) {
            // That of the listing itself, which is closed by now.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Has the kernel apply this filter to every system call of this process and of those that it starts.
#[cfg(target_os = "linux")]
pub fn filter_system_calls(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: no argument but the first is read.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the kernel copies the filter, which outlives the call, and checks it.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) })
}

/// Leaves the caller's session keyring, whose keys the program could read, for a new and empty one.
#[cfg(target_os = "linux")]
pub fn leave_session_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring; no other argument is read.
    match check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) }) {
        // A kernel, or a container's system call filter, without keyrings has none to leak.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(()),
        result => result,
    }
}

/// Returns the priority of this process for the disk.
#[cfg(target_os = "linux")]
pub fn disk_priority() -> libc::c_long {
    const OF_PROCESS: libc::c_int = 1;
    // SAFETY: takes two numbers; 0 is this process.
    unsafe { libc::syscall(libc::SYS_ioprio_get, OF_PROCESS, 0) }
}

/// Lets all threads allocate from two pools. By default there are eight for each core, and each keeps what was freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn limit_memory_pools() {
    // SAFETY: sets a number in the allocator. If that fails, everything works as before.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// Other allocators have no such pools.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn limit_memory_pools() {}

/// Takes over a descriptor that this process inherited. Call it once for each, before any other is opened.
pub fn take_inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asks for the flags of a descriptor, which need not be open.
    check(unsafe { libc::fcntl(descriptor, libc::F_GETFD) })?;
    // SAFETY: it is open, and nothing else in this process knows of it: it was inherited for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn check(result: impl Into<libc::c_long>) -> io::Result<()> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
