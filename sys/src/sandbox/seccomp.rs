//! Seccomp: system calls that neither bubblewrap nor Landlock keeps from reaching outside.
//!
//! The user's keyrings belong to no namespace, so no program may use keys. No program may take a lease on a file either: with
//! one on a file that it can only read, it would make programs outside wait. Under Landlock, which has no
//! process namespace, programs change limits, priority and scheduling only of themselves and their process group.

use std::io;

use mahabharatha_core::config::Isolation;

/// Offsets in the data that the kernel shows to the filter.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "big") { 20 } else { 16 };
const ARGUMENT_BYTES: u32 = 8;

/// Instructions of the filter's virtual machine.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// The bit that numbers of the x32 interface have beside those of x86-64.
const NOT_X32: u32 = !0x4000_0000;

/// Audit number of the architecture that this program is built for; of no other one is a filter known.
const NATIVE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};

/// The calls that are refused, by their numbers on one architecture.
struct Calls {
    /// Calls that read or change keys.
    keys: [u32; 3],
    /// Calls that take a lease, if that is their second argument.
    of_file: [u32; 2],
    /// Calls that change the process that the first argument names, where 0 is the caller.
    of_process: [u32; 5],
    /// Calls that change the processes that the first two arguments name, with the first argument that means all
    /// processes of a user. Otherwise, 0 as the second argument is the caller, or its process group.
    of_several: [(u32, u32); 2],
}

/// Values of the first argument that mean all processes of a user.
const PRIO_USER: u32 = 2;
const IOPRIO_WHO_USER: u32 = 3;
/// Values of the second argument that take a lease: `F_SETLEASE`, `F_SETDELEG`.
const LEASES: [u32; 2] = [1024, 1040];

const NATIVE_CALLS: Calls = Calls {
    keys: [libc::SYS_add_key as u32, libc::SYS_request_key as u32, libc::SYS_keyctl as u32],
    of_file: [libc::SYS_fcntl as u32; 2],
    of_process: [
        libc::SYS_prlimit64 as u32,
        libc::SYS_sched_setaffinity as u32,
        libc::SYS_sched_setscheduler as u32,
        libc::SYS_sched_setparam as u32,
        libc::SYS_sched_setattr as u32,
    ],
    of_several: [(libc::SYS_setpriority as u32, PRIO_USER), (libc::SYS_ioprio_set as u32, IOPRIO_WHO_USER)],
};

/// The calls of 32-bit programs, which 64-bit programs can make too: those of 32-bit Arm or of i386.
const CALLS_OF_32_BIT: Calls = if cfg!(target_arch = "aarch64") {
    Calls {
        keys: [309, 310, 311],
        of_file: [55, 221],
        of_process: [369, 241, 156, 154, 380],
        of_several: [(97, PRIO_USER), (314, IOPRIO_WHO_USER)],
    }
} else {
    Calls {
        keys: [286, 287, 288],
        of_file: [55, 221],
        of_process: [340, 241, 156, 154, 351],
        of_several: [(97, PRIO_USER), (289, IOPRIO_WHO_USER)],
    }
};

/// Returns the filter for a sandbox, in the form that the kernel and bubblewrap read.
pub fn filter(isolation: Isolation) -> io::Result<Vec<libc::sock_filter>> {
    let unknown =
        || io::Error::new(io::ErrorKind::Unsupported, "no filter of system calls is known for this processor");
    let native = NATIVE.ok_or_else(unknown)?;
    let foreign = decide(&CALLS_OF_32_BIT, isolation);
    let mut program = vec![step(LOAD, ARCHITECTURE), if_equal(native, 1 + foreign.len() as u8)];
    program.push(step(LOAD, NUMBER));
    program.extend(foreign);
    program.push(step(LOAD, NUMBER));
    if cfg!(target_arch = "x86_64") {
        program.push(step(AND, NOT_X32));
    }
    program.extend(decide(&NATIVE_CALLS, isolation));
    Ok(program)
}

/// Decides about a call whose number is loaded.
fn decide(calls: &Calls, isolation: Isolation) -> Vec<libc::sock_filter> {
    let mut program = Vec::new();
    for number in calls.keys {
        program.extend([unless_equal(number, 1), step(RETURN, REFUSE)]);
    }
    for number in calls.of_file {
        let refuse = |lease| [unless_equal(lease, 1), step(RETURN, REFUSE)];
        let mut own = vec![step(LOAD, FIRST_ARGUMENT + ARGUMENT_BYTES)];
        own.extend(LEASES.into_iter().flat_map(refuse));
        own.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
        program.push(unless_equal(number, own.len() as u8));
        program.extend(own);
    }
    if isolation == Isolation::Landlock {
        for number in calls.of_process {
            let own = allow_only_zero(FIRST_ARGUMENT);
            program.push(unless_equal(number, own.len() as u8));
            program.extend(own);
        }
        for (number, of_user) in calls.of_several {
            let mut own = vec![step(LOAD, FIRST_ARGUMENT), unless_equal(of_user, 1), step(RETURN, REFUSE)];
            own.extend(allow_only_zero(FIRST_ARGUMENT + ARGUMENT_BYTES));
            program.push(unless_equal(number, own.len() as u8));
            program.extend(own);
        }
    }
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
    program
}

/// Allows the call if this argument is 0, and otherwise refuses it.
fn allow_only_zero(argument: u32) -> [libc::sock_filter; 4] {
    [step(LOAD, argument), if_equal(0, 1), step(RETURN, REFUSE), step(RETURN, libc::SECCOMP_RET_ALLOW)]
}

/// Returns the filter as the bytes of its instructions.
pub fn bytes(filter: &[libc::sock_filter]) -> Vec<u8> {
    let bytes = |step: &libc::sock_filter| {
        let [code, k] = [step.code.to_ne_bytes().to_vec(), step.k.to_ne_bytes().to_vec()];
        [code, vec![step.jt, step.jf], k].concat()
    };
    filter.iter().flat_map(bytes).collect()
}

fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Skips steps if the loaded value is this one.
fn if_equal(value: u32, skipped: u8) -> libc::sock_filter {
    libc::sock_filter { code: JUMP_IF_EQUAL, jt: skipped, jf: 0, k: value }
}

/// Skips steps unless the loaded value is this one.
fn unless_equal(value: u32, skipped: u8) -> libc::sock_filter {
    libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: skipped, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    const FOREIGN: u32 = if cfg!(target_arch = "aarch64") { ARM } else { I386 };

    /// Runs the filter as the kernel does; returns whether it allows the call.
    fn allows(isolation: Isolation, architecture: u32, number: u32, arguments: [u32; 2]) -> bool {
        let program = filter(isolation).unwrap();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        FIRST_ARGUMENT => arguments[0],
                        _ => arguments[1],
                    }
                }
                AND => loaded &= step.k,
                JUMP_IF_EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                RETURN => return step.k == libc::SECCOMP_RET_ALLOW,
                code => panic!("{code}"),
            }
        }
    }

    fn sides() -> [(u32, &'static Calls); 2] {
        [(NATIVE.unwrap(), &NATIVE_CALLS), (FOREIGN, &CALLS_OF_32_BIT)]
    }

    #[test]
    fn calls_for_keys_are_refused() {
        for isolation in [Isolation::Bwrap, Isolation::Landlock] {
            for (architecture, calls) in sides() {
                for number in calls.keys {
                    assert!(!allows(isolation, architecture, number, [1, 1]), "{architecture:x} {number}");
                }
            }
        }
    }

    #[test]
    fn leases_are_refused() {
        for isolation in [Isolation::Bwrap, Isolation::Landlock] {
            for (architecture, calls) in sides() {
                for number in calls.of_file {
                    assert!(LEASES.iter().all(|lease| !allows(isolation, architecture, number, [7, *lease])));
                    assert!([0, 4, 1025].iter().all(|other| allows(isolation, architecture, number, [7, *other])));
                }
            }
        }
    }

    #[test]
    fn under_landlock_a_program_changes_no_process_but_its_own() {
        for (architecture, calls) in sides() {
            let under_landlock = |number, arguments| allows(Isolation::Landlock, architecture, number, arguments);
            for number in calls.of_process {
                assert!(under_landlock(number, [0, 7]) && !under_landlock(number, [7, 0]), "{number}");
                assert!(allows(Isolation::Bwrap, architecture, number, [7, 0]), "{number}");
            }
            for (number, of_user) in calls.of_several {
                assert!(under_landlock(number, [of_user - 1, 0]) && !under_landlock(number, [of_user - 1, 7]));
                assert!(!under_landlock(number, [of_user, 0]), "0 is the caller's user");
            }
        }
    }

    #[test]
    fn other_calls_of_32_bit_programs_are_allowed() {
        // ppoll, unshare and set_robust_list of i386 are the key calls of Arm, whose getsockname, getpeername and socketpair
        // are the key calls of i386.
        let others = if FOREIGN == I386 { 309..=311 } else { 286..=288 };
        for number in others {
            assert!(allows(Isolation::Landlock, FOREIGN, number, [7, 7]), "{number}");
        }
    }
}
