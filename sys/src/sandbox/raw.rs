//! System calls for which no safe wrapper exists. The only module with `unsafe` code.

#![allow(unsafe_code, reason = "each call takes plain numbers and touches no memory of ours")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Closes every descriptor but standard input, output and error when the next program is executed.
pub fn close_inherited_on_exec() -> io::Result<()> {
    // SAFETY: the flag only marks descriptors; none is closed while this program runs.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
}

/// Leaves the caller's session keyring, whose keys the program could read, for a new and empty one.
pub fn leave_session_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring; no other argument is read.
    match check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) }) {
        // A kernel, or a container's system call filter, without keyrings has none to leak.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(()),
        result => result,
    }
}

/// Takes over a descriptor that this process inherited. Call it once for each, before any other is opened.
pub fn take_inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asks for the flags of a descriptor, which need not be open.
    check(unsafe { libc::syscall(libc::SYS_fcntl, descriptor, libc::F_GETFD) })?;
    // SAFETY: it is open, and nothing else in this process knows of it: it was inherited for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
