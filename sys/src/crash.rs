//! Points at which a test has this process killed, as by SIGKILL. In a release there are none.
//!
//! `MAHABHARATHA_CRASH_TRACE` names a file that gets the name of each point as it is passed. `MAHABHARATHA_CRASH_AT` is
//! where to die: a point's name, `<name>#<n>` for the n-th time, or a bare number for so many points of any name.
//! `MAHABHARATHA_CRASH_WITH=parent` takes the parent along, `git` every git that was started and runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group};
use serde::Serialize;
use serde_json::Value;

const TRACE: &str = "MAHABHARATHA_CRASH_TRACE";
const AT: &str = "MAHABHARATHA_CRASH_AT";
const WITH: &str = "MAHABHARATHA_CRASH_WITH";
/// What the names of points in workers begin with.
const WORKER: &str = "worker ";

/// Set in a worker: what its points are called by.
static JOB: OnceLock<String> = OnceLock::new();

/// A moment at which everything may end. The name is made only where somebody wants to know it.
#[inline]
pub fn point<N: Display>(name: impl FnOnce() -> N) {
    if cfg!(debug_assertions)
        && let Some(plan) = plan()
    {
        plan.pass(format!("{}{}", JOB.get().map_or("", String::as_str), name()));
    }
}

/// From here on this process is the worker of a job, and its points are that job's.
pub fn enter_job(job: impl Display) {
    if cfg!(debug_assertions) {
        let _ = JOB.set(format!("{WORKER}{job} "));
    }
}

/// What a worker needs to know of this; nothing, unless it is a worker's point.
pub fn worker_env() -> BTreeMap<OsString, OsString> {
    let mut env = BTreeMap::new();
    if cfg!(debug_assertions) {
        let variables = [TRACE, AT, WITH].map(|name| (name, std::env::var_os(name)));
        let meant = |name: &str, value: &OsString| name != AT || value.to_string_lossy().starts_with(WORKER);
        let given = variables.into_iter().filter_map(|(name, value)| Some((name, value?)));
        env.extend(given.filter(|(name, value)| meant(name, value)).map(|(name, value)| (name.into(), value)));
    }
    env
}

/// An event by its kind and what it is about, which is the same in each run of the same scenario.
pub fn label(event: &impl Serialize) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    let text = |key: &str| match &value[key] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let known: Vec<String> =
        ["event", "task", "attempt", "level", "worker"].iter().filter_map(|key| text(key)).collect();
    known.join(" ")
}

struct Plan {
    trace: Option<File>,
    at: Option<String>,
    with: Option<String>,
    passed: Mutex<BTreeMap<String, u32>>,
}

fn plan() -> Option<&'static Plan> {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let read = || {
        let variable = |name| std::env::var(name).ok();
        let (trace, at) = (variable(TRACE), variable(AT));
        if trace.is_none() && at.is_none() {
            return None;
        }
        let open = |path| File::options().create(true).append(true).open(path).ok();
        Some(Plan { trace: trace.and_then(open), at, with: variable(WITH), passed: Mutex::default() })
    };
    PLAN.get_or_init(read).as_ref()
}

impl Plan {
    fn pass(&self, name: String) {
        // Held to the end, so that no other thread comes further than the one that dies.
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = passed.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { name } else { format!("{name}#{count}") };
        if let Some(mut trace) = self.trace.as_ref() {
            let _ = trace.write_all(format!("{name}\n").as_bytes());
        }
        let total: u32 = passed.values().sum();
        if self.at.as_ref().is_some_and(|at| *at == name || *at == total.to_string()) {
            self.die(total);
        }
    }

    fn die(&self, total: u32) {
        match self.with.as_deref() {
            Some("parent") => drop(getppid().map(|parent| kill_process(parent, Signal::KILL))),
            Some("git") => {
                // Now one, now another moment of what they do.
                std::thread::sleep(Duration::from_micros(u64::from(total % 8) * 500));
                for git in running_git() {
                    let _ = kill_process_group(git, Signal::KILL);
                }
            }
            _ => {}
        }
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// Each is the head of a group of its own.
fn running_git() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<String> = lists.flat_map(|list| list.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_git = |pid: &&String| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "git\n");
    pids.iter().filter(is_git).filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
