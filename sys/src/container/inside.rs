//! Our helper in a container: starts programs one after the other, as it is told on its standard input.
//!
//! It runs as the same user as the programs, so the kernel is told to let none of them trace it or look into it. A program
//! can only kill it or stop it, which ends the attempt. No program is told to have ended before every process that it
//! started has ended too.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::channel::{self, Kind};
use crate::proc::{self, Program, Relayed};

/// Exit codes of a program that cannot be started, as a shell gives them.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// Maximum number of bytes passed on at once.
const CHUNK_BYTES: usize = 64 << 10;

/// How a program ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub code: i32,
    /// Why the helper can start no further program, or does not know how this one ended.
    pub problem: Option<String>,
}

/// The program that runs now.
#[derive(Default)]
struct Current {
    input: Option<Sender<Vec<u8>>>,
    terminated: bool,
}

type Shared<T> = Arc<Mutex<T>>;

/// Starts the programs that `requests` asks for until it ends, and answers on `answers`.
pub fn serve(requests: impl Read + Send + 'static, answers: impl Write + Send) -> io::Result<()> {
    proc::refuse_tracing()?;
    proc::become_subreaper()?;
    let standing = proc::own_standing()?;
    let current = Shared::<Current>::default();
    let answers = Mutex::new(answers);
    let (sender, programs) = mpsc::channel();
    let receiver = Arc::clone(&current);
    thread::Builder::new().name("requests".into()).spawn(move || receive(requests, &receiver, &sender))?;
    while let Ok((program, input)) = programs.recv() {
        let ended = if proc::own_standing()? == standing {
            run(&program, input, &current, &answers)
        } else {
            Err(io::Error::other("a program changed the limits or the priority of the helper"))
        };
        let ended = ended.map_or_else(|error| Ended { code: 1, problem: Some(error.to_string()) }, as_code);
        *lock(&current) = Current::default();
        channel::write(&mut *lock(&answers), Kind::Ended, &serde_json::to_vec(&ended)?)?;
    }
    Ok(())
}

fn as_code(code: i32) -> Ended {
    Ended { code, problem: None }
}

/// Reads requests until the session ends, then kills all programs.
fn receive(mut requests: impl Read, current: &Mutex<Current>, programs: &Sender<(Program, Receiver<Vec<u8>>)>) {
    while let Ok((kind, bytes)) = channel::read(&mut requests) {
        match kind {
            Kind::Start => {
                let Ok(program) = serde_json::from_slice(&bytes) else { break };
                let (sender, input) = mpsc::channel();
                *lock(current) = Current { input: Some(sender), terminated: false };
                if programs.send((program, input)).is_err() {
                    break;
                }
            }
            Kind::Input => {
                // Fails when the program has closed it.
                let _ = lock(current).input.as_ref().map(|input| input.send(bytes));
            }
            Kind::EndOfInput => lock(current).input = None,
            Kind::Terminate => {
                lock(current).terminated = true;
                proc::terminate_descendants();
            }
            Kind::Output | Kind::Errors | Kind::Ended => break,
        }
    }
    lock(current).input = None;
    proc::end_descendants(Duration::ZERO);
}

/// Runs a program and returns its exit code when everything that it started has ended.
fn run(
    program: &Program,
    input: Receiver<Vec<u8>>,
    current: &Mutex<Current>,
    answers: &Mutex<impl Write + Send>,
) -> io::Result<i32> {
    let mut started = match Relayed::start(program) {
        Ok(started) => started,
        Err(error) => {
            let text = format!("cannot run {program}: {error}\n");
            channel::write(&mut *lock(answers), Kind::Errors, text.as_bytes())?;
            return Ok(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE });
        }
    };
    if lock(current).terminated {
        proc::terminate_descendants();
    }
    let (to, out, err) = started.streams();
    thread::scope(|scope| {
        scope.spawn(|| to.map(|mut to| input.into_iter().try_for_each(|bytes| to.write_all(&bytes))));
        scope.spawn(|| out.map(|out| pass(out, Kind::Output, answers)));
        scope.spawn(|| err.map(|err| pass(err, Kind::Errors, answers)));
        let code = started.wait();
        let all_ended = proc::end_descendants(Duration::ZERO);
        lock(current).input = None;
        // With them the streams end, for which the scope waits.
        if all_ended { code } else { Err(io::Error::other("processes that cannot be ended are left")) }
    })
}

/// Passes on what a program writes until the stream ends.
fn pass(mut from: impl Read, kind: Kind, answers: &Mutex<impl Write>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // A failed write means that the session has ended: `receive` then kills the program.
        let _ = channel::write(&mut *lock(answers), kind, &buffer[..count]);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
