//! A repository in a temporary directory, a graph in it, and the real program run on it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Once};

use serde_json::{Value, json};

use crate::phrase::assert_contains;

pub struct Repo {
    // Dropped first, so that nothing is left running when the directory goes.
    _marker: Survivors,
    dir: tempfile::TempDir,
    /// The person's, as the program sees it.
    home: tempfile::TempDir,
    /// Variables that every command of the program gets.
    env: Vec<(&'static str, String)>,
}

/// Fails the test if a process still works in the repository when the test is over.
struct Survivors(PathBuf);

impl Drop for Survivors {
    fn drop(&mut self) {
        let survivors = processes_in(&self.0);
        for (pid, _) in &survivors {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        if !std::thread::panicking() {
            assert!(survivors.is_empty(), "processes left behind: {survivors:?}");
        }
    }
}

/// Has what the test starts receive SIGHUP, also where the test itself was started by `nohup`: a signal that is ignored stays
/// ignored in children, one that has a handler is reset.
fn receive_hangups() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::default()).unwrap();
    });
}

/// Processes whose working directory lies below `dir`, with their command lines.
pub fn processes_in(dir: &Path) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(cwd) = fs::read_link(entry.path().join("cwd")) else { continue };
        if cwd.starts_with(dir) && pid != std::process::id() {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if command.is_empty() {
                // It is just exiting.
                continue;
            }
            found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    found
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    #[track_caller]
    pub fn of(output: Output) -> Ran {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = output.status.code().unwrap_or(-1);
        Ran { code, stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr }
    }

    /// Asserts the exit code, showing what was said where it is another.
    #[track_caller]
    pub fn code(self, expected: i32) -> Ran {
        assert_eq!(self.code, expected, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Ran {
        assert_contains(&format!("{}{}", self.stdout, self.stderr), text);
        self
    }

    #[track_caller]
    pub fn does_not_say(self, text: &str) -> Ran {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert!(!all.contains(text), "{text:?} is in\n{all}");
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {}", self.stdout))
    }
}

impl Repo {
    /// With one commit on `main` and a configuration that wastes no time.
    pub fn new() -> Repo {
        Repo::init(&[])
    }

    pub fn sha256() -> Repo {
        Repo::init(&["--object-format=sha256"])
    }

    /// Only a place for one.
    pub fn empty() -> Repo {
        receive_hangups();
        let dir = tempfile::Builder::new().prefix("mbh test ü").tempdir().unwrap();
        Repo {
            _marker: Survivors(dir.path().canonicalize().unwrap()),
            dir,
            home: tempfile::tempdir().unwrap(),
            env: Vec::new(),
        }
    }

    fn init(options: &[&str]) -> Repo {
        let repo = Repo::empty();
        repo.git(&[&["init", "-q", "-b", "main"], options].concat());
        repo.git(&["config", "user.name", "A Person"]);
        repo.git(&["config", "user.email", "person@example.com"]);
        repo.write("README.md", "hello\n");
        repo.config("");
        repo.commit("first");
        repo
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A shell script that can be run.
    pub fn program(&self, path: &str, script: &str) {
        self.write(path, &format!("#!/bin/sh\n{script}"));
        fs::set_permissions(self.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        let path = self.join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.join(path)).is_ok()
    }

    /// Adds to the test's configuration: no waiting between attempts, the `command` agent.
    pub fn config(&self, added: &str) {
        let base = "agent: command\nretry: { base_seconds: 0, max_seconds: 0 }\n";
        let text = if added.contains("retry:") || added.contains("agent:") {
            added.to_string()
        } else {
            format!("{base}{added}")
        };
        // Its agents tell the test how far they are by files outside of their worktrees.
        let sandbox = if text.contains("sandbox:") { "" } else { "sandbox: off\n" };
        let text = format!("{sandbox}{text}");
        self.write(".mahabharatha/config.yaml", &text);
    }

    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.path(), args)
    }

    #[track_caller]
    pub fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        // Git's own upkeep would go on in the background after the command.
        let output =
            Command::new("git").args(["-c", "maintenance.auto=false"]).args(args).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    /// Writes the graph of a feature and makes it the current one.
    pub fn graph(&self, feature: &str, tasks: &[Value]) {
        let graph = json!({ "feature": feature, "total_tasks": tasks.len(), "tasks": tasks });
        self.write(&format!(".gsd/specs/{feature}/task-graph.json"), &serde_json::to_string_pretty(&graph).unwrap());
        self.write(".gsd/.current-feature", feature);
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::program());
        command.args(args).current_dir(self.path()).stdin(Stdio::null()).env("HOME", self.home());
        for variable in [
            "ZERG_FEATURE",
            "MAHABHARATHA_FEATURE",
            "NO_COLOR",
            "CLAUDE_CODE_TASK_LIST_ID",
            "CLAUDE_CONFIG_DIR",
            "COLUMNS",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDECODE",
        ] {
            command.env_remove(variable);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Sets a variable for every command of the program.
    pub fn with_env(mut self, name: &'static str, value: &str) -> Repo {
        self.env.push((name, value.to_owned()));
        self
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        Ran::of(self.command(args).envs(env.iter().copied()).output().unwrap())
    }

    /// In the background; ended with the test at the latest.
    pub fn spawn(&self, args: &[&str]) -> Background {
        Background::start(self.command(args))
    }

    pub fn status(&self) -> Value {
        self.run(&["status", "--json"]).code(0).json()
    }

    pub fn task_status(&self, task: &str) -> String {
        self.task(task)["status"].as_str().unwrap().to_string()
    }

    pub fn task(&self, task: &str) -> Value {
        let status = self.status();
        status["tasks"].as_array().unwrap().iter().find(|entry| entry["id"] == task).unwrap().clone()
    }

    /// Every commit subject on a branch, newest first.
    pub fn subjects(&self, branch: &str) -> Vec<String> {
        self.git(&["log", "--format=%s", branch]).lines().map(str::to_string).collect()
    }

    /// The files of a commit, with their contents.
    pub fn tree(&self, commit: &str) -> BTreeMap<String, String> {
        let names = self.git(&["ls-tree", "-r", "-z", "--name-only", commit]);
        let names = names.split('\0').filter(|name| !name.is_empty());
        names.map(|name| (name.to_string(), self.git(&["show", &format!("{commit}:{name}")]))).collect()
    }

    /// Everything below the repository's directory, `.git` included: modes, contents, where links lead.
    pub fn everything(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.path()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let (path, of) = (entry.path(), entry.metadata().unwrap());
                let content = match of.file_type() {
                    kind if kind.is_dir() => {
                        open.push(path.clone());
                        Vec::new()
                    }
                    kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                    _ => fs::read(&path).unwrap(),
                };
                found.insert(path, (of.mode(), content));
            }
        }
        found
    }

    /// Refs of ours that are there.
    pub fn refs(&self) -> Vec<String> {
        let refs = self.git(&["for-each-ref", "--format=%(refname)", "refs/mahabharatha", "refs/heads/mahabharatha"]);
        refs.lines().map(str::to_string).collect()
    }

    /// Waits until a file is there; agents make one to say how far they are.
    #[track_caller]
    pub fn wait_for(&self, path: &str) {
        self.wait_until(path, || self.exists(path));
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..3_000 {
            if holds() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("waited a minute in vain for: {what}");
    }
}

/// Says what cannot be tested here; on CI that is a failure.
#[track_caller]
pub fn pass_over(why: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "{why}");
    eprintln!("NOT TESTED: {why}");
}

/// A small disk of its own, gone with the test.
pub struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    pub fn new(size: &str) -> Option<Disk> {
        let dir = tempfile::tempdir().unwrap();
        Disk::mount(dir.path(), &format!("size={size}")).then_some(Disk { dir })
    }

    /// Whether that worked; else the test is passed over.
    pub fn mount(at: &Path, options: &str) -> bool {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
        if mount.as_ref().is_ok_and(|output| output.status.success()) {
            return true;
        }
        pass_over(&format!("no file system can be mounted here, which takes root: {mount:?}"));
        false
    }

    /// Whether anything can be mounted, told as above.
    pub fn may_mount() -> bool {
        Disk::new("1m").is_some()
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// A directory that nobody can write to while this lives.
pub struct Unwritable(pub PathBuf);

impl Unwritable {
    pub fn new(dir: &Path) -> Option<Unwritable> {
        fs::create_dir_all(dir).unwrap();
        // Root writes wherever the file system lets it.
        Disk::mount(dir, "ro").then(|| Unwritable(dir.to_owned()))
    }
}

impl Drop for Unwritable {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

pub struct Background {
    child: Option<Child>,
}

impl Background {
    pub fn start(mut command: Command) -> Background {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Background::spawn(command)
    }

    /// With its input and output as the command has them.
    pub fn spawn(mut command: Command) -> Background {
        Background { child: Some(command.spawn().unwrap()) }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub fn wait(mut self) -> Ran {
        Ran::of(self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A task that creates `file` by running `run`; verified by the file being there.
pub fn task(id: &str, level: u32, file: &str, run: &str) -> Value {
    json!({
        "id": id, "title": format!("Make {file}"), "level": level,
        "files": { "create": [file], "modify": [], "read": [] },
        "dependencies": [], "run": run,
        "verification": { "command": format!("test -e '{file}'"), "timeout_seconds": 30 },
    })
}

/// A task that writes its own id into `file`.
pub fn simple(id: &str, level: u32, file: &str) -> Value {
    let dir = Path::new(file).parent().unwrap().display().to_string();
    let dir = if dir.is_empty() { ".".to_string() } else { dir };
    task(id, level, file, &format!("mkdir -p '{dir}' && echo {id} > '{file}'"))
}

/// The same task with other fields.
pub fn with(mut task: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

/// What holds an agent up: it says that it is there, and goes on when the test says so.
pub const HELD: &str =
    "touch \"$MAHABHARATHA_SPEC_DIR/held\"; while [ ! -e \"$MAHABHARATHA_SPEC_DIR/go\" ]; do sleep 0.02; done;";

impl Repo {
    /// Starts a run and waits until an agent that is `HELD` has begun.
    pub fn run_until_held(&self, feature: &str) -> Background {
        let run = self.spawn(&["run"]);
        self.wait_for(&format!(".gsd/specs/{feature}/held"));
        run
    }

    /// Lets the agent that is `HELD` go on, and the run end.
    pub fn let_go_on(&self, feature: &str, run: Background) -> Ran {
        self.write(&format!(".gsd/specs/{feature}/go"), "");
        run.wait()
    }

    pub fn git_fails(&self, args: &[&str]) -> bool {
        !Command::new("git").args(args).current_dir(self.path()).output().unwrap().status.success()
    }
}

/// One that was ended may stay listed until the system's first process has taken note.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
