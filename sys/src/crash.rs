//! Crash points: places where a test can make this process kill itself with SIGKILL. Release builds have none.
//!
//! `MAHABHARATHA_CRASH_TRACE` names a file to which the name of each point is appended as it is passed.
//! `MAHABHARATHA_CRASH_AT` says where to die: a point's name, `<name>#<n>` for its n-th pass, or a bare number that
//! counts the passes of all points. `MAHABHARATHA_CRASH_WITH=parent` also kills the parent process, `git` every running
//! git child, `panic` lets the process panic instead.

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
/// Prefix of the names of crash points in workers.
const WORKER: &str = "worker ";

/// Prefix for this process's crash points, set only in a worker.
static JOB: OnceLock<String> = OnceLock::new();

/// Marks a crash point. The name is computed only if a test asked for crash points.
#[inline]
pub fn point<N: Display>(name: impl FnOnce() -> N) {
    if cfg!(debug_assertions)
        && let Some(plan) = plan()
    {
        plan.pass(format!("{}{}", JOB.get().map_or("", String::as_str), name()));
    }
}

/// Prefixes all further crash points of this process with the job that it is the worker of.
pub fn enter_job(job: impl Display) {
    if cfg!(debug_assertions) {
        let _ = JOB.set(format!("{WORKER}{job} "));
    }
}

/// Returns the crash variables for a worker's environment. `MAHABHARATHA_CRASH_AT` is passed on only if it names a
/// worker's point.
pub fn worker_env() -> BTreeMap<OsString, OsString> {
    let mut env = BTreeMap::new();
    if cfg!(debug_assertions) {
        let variables = [TRACE, AT, WITH].map(|name| (name, std::env::var_os(name)));
        let for_worker = |name: &str, value: &OsString| name != AT || value.to_string_lossy().starts_with(WORKER);
        let set = variables.into_iter().filter_map(|(name, value)| Some((name, value?)));
        env.extend(set.filter(|(name, value)| for_worker(name, value)).map(|(name, value)| (name.into(), value)));
    }
    env
}

/// Labels an event by its kind and subject, so that the label is the same each time a scenario runs.
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
        // Locked until the end, so that no other thread gets past a crash point while this one kills the process.
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
            Some("panic") => panic!("a test asked for this panic"),
            Some("parent") => drop(getppid().map(|parent| kill_process(parent, Signal::KILL))),
            Some("git") => {
                // Varies the delay with the point, so that git is killed at different moments of its work.
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

/// Returns our running git children. Each one leads its own process group.
fn running_git() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tests that kill git children need Linux").flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<String> = lists.flat_map(|list| list.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_git = |pid: &&String| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "git\n");
    pids.iter().filter(is_git).filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
