//! Seccomp: system calls that neither bubblewrap nor Landlock keeps from reaching outside.
//!
//! The user's keyrings belong to no namespace, so keys are out of reach for every program. Under Landlock, which has no
//! process namespace, programs change limits, priority and scheduling of no process but themselves.

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

/// Calls that read or change keys, on this architecture and, for 32-bit programs, on i386 and Arm.
const KEY_CALLS: [libc::c_long; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
const KEY_CALLS_OF_32_BIT: [u32; 6] = [286, 287, 288, 309, 310, 311];

/// Calls that change another process, with the position of the argument that names it: 0 is the caller.
const PROCESS_CALLS: [(libc::c_long, u32); 7] = [
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// Returns the filter for a sandbox, in the form that the kernel and bubblewrap read; `None` where there is none.
pub fn filter(isolation: Isolation) -> Option<Vec<libc::sock_filter>> {
    let native = NATIVE?;
    let mut foreign = vec![step(LOAD, NUMBER)];
    KEY_CALLS_OF_32_BIT.iter().for_each(|number| foreign.extend([unless_equal(*number, 1), step(RETURN, REFUSE)]));
    foreign.push(step(RETURN, libc::SECCOMP_RET_ALLOW));

    let mut program = vec![step(LOAD, ARCHITECTURE), if_equal(native, foreign.len() as u8)];
    program.extend(foreign);
    program.push(step(LOAD, NUMBER));
    if cfg!(target_arch = "x86_64") {
        program.push(step(AND, NOT_X32));
    }
    for number in KEY_CALLS {
        program.extend([unless_equal(number as u32, 1), step(RETURN, REFUSE)]);
    }
    if isolation == Isolation::Landlock {
        for (number, argument) in PROCESS_CALLS {
            program.extend([
                unless_equal(number as u32, 4),
                step(LOAD, FIRST_ARGUMENT + argument * ARGUMENT_BYTES),
                if_equal(0, 1),
                step(RETURN, REFUSE),
                step(RETURN, libc::SECCOMP_RET_ALLOW),
            ]);
        }
    }
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
    Some(program)
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
