//! Tests of integration with real git in temporary repositories.

mod blame;
mod clean;
mod gate;
mod land;
mod plant;
mod stage;
mod together;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use mahabharatha_core::ids::Feature;
use mahabharatha_core::run::event::{Candidate, GateFailure, GatePass, Obstacle, TaskCommit};
use mahabharatha_sys::git::Pinned;
use mahabharatha_sys::proc::base_env;
use mahabharatha_sys::store::locks::IntegrationLock;
use mahabharatha_testing::git as git_in;
use tempfile::TempDir;

use super::*;

const LEVEL: Level = Level(1);

/// A repository on the branch `trunk` with one commit, and the feature `x`.
struct Lab {
    _dir: TempDir,
    root: PathBuf,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("re pö");
        fs::create_dir_all(root.join("dir/deep ü")).unwrap();
        let lab = Lab { _dir: dir, root, notes: Arc::default() };
        lab.git(&["init", "-q", "-b", "trunk"]);
        for name in ["a.txt", "b.txt", "c.txt", "dir/f", "dir/deep ü/g.txt", "tool.sh"] {
            lab.write(name, &format!("{name}\n"));
        }
        lab.write(".gitignore", "ignored\nbuild/\n.mahabharatha\n");
        symlink("a.txt", lab.root.join("link")).unwrap();
        lab.commit("start");
        lab
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    fn git(&self, args: &[&str]) -> String {
        git_in(&self.root, args)
    }

    fn oid(&self, revision: &str) -> Oid {
        Oid::new(self.git(&["rev-parse", revision])).unwrap()
    }

    /// Commits everything in the user's checkout, as the user would.
    fn commit(&self, message: &str) -> Oid {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.oid("HEAD")
    }

    /// Creates the commit that a worker would make on `base`.
    fn task_commit(&self, id: &str, base: &Oid, work: impl FnOnce(&Path)) -> TaskCommit {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("work");
        let path = dir.to_str().unwrap();
        self.git(&["worktree", "add", "-q", "--detach", path, base.as_str()]);
        work(&dir);
        git_in(&dir, &["add", "-A", "-f"]);
        let message = format!("feat({id}): do {id}\n\nMahabharatha-Feature: x\nMahabharatha-Task: {id}");
        git_in(&dir, &["commit", "-q", "--allow-empty", "--author=Wörker <w@x>", "-m", &message]);
        let commit = Oid::new(git_in(&dir, &["rev-parse", "HEAD"])).unwrap();
        self.git(&["worktree", "remove", "--force", path]);
        TaskCommit { task: task(id), commit }
    }

    /// Creates the commit of a task that writes one file.
    fn writes(&self, id: &str, base: &Oid, name: &str, text: &str) -> TaskCommit {
        self.task_commit(id, base, |dir| {
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::write(dir.join(name), text).unwrap();
        })
    }

    /// Removes an object from the repository, as a damaged disk would.
    fn lose(&self, object: &Oid) {
        let packs = fs::read_dir(self.root.join(".git/objects/pack")).into_iter().flatten().flatten();
        let unpacked = self.root.join(".git/unpacked");
        for pack in packs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "pack")) {
            fs::rename(pack, &unpacked).unwrap();
            let mut unpack = Command::new("git");
            unpack.args(["unpack-objects", "-q"]).current_dir(&self.root).stdin(fs::File::open(&unpacked).unwrap());
            assert!(unpack.status().unwrap().success());
        }
        let (dir, name) = object.as_str().split_at(2);
        fs::remove_file(self.root.join(".git/objects").join(dir).join(name)).unwrap();
    }

    fn project(&self) -> Project {
        Project::find(&self.root).unwrap()
    }

    /// Returns an integration where tasks A, B, … own `a.txt`, `b.txt`, … and the directory of their name.
    fn integration(&self) -> Integration {
        let project = self.project();
        let feature = Feature::new("x").unwrap();
        let paths = project.feature(&feature);
        let repository = project.git();
        let pinned = repository.settings().unwrap().pinned().unwrap();
        let notes = Arc::clone(&self.notes);
        Integration {
            objects: self.objects(&pinned),
            pinned,
            repository,
            identity: Identity { name: "Us".into(), email: "us@x".into() },
            base_branch: "refs/heads/trunk".into(),
            target: MergeTarget::Base,
            prepare: None,
            setup: None,
            warm: None,
            gates: Vec::new(),
            caches: Vec::new(),
            owners: ["A", "B", "C", "D", "E"].into_iter().map(|id| (task(id), owned_by(id))).collect(),
            env: base_env(&[]),
            confinement: Confinement::default(),
            cancel: Cancel::default(),
            known: KnownFiles::default(),
            allowed_secrets: Vec::new(),
            max_log_bytes: 10 << 20,
            redactor: Redactor::default(),
            report: Box::new(move |note| notes.lock().unwrap().push(note)),
            project,
            paths,
        }
    }

    fn objects(&self, pinned: &Pinned) -> Git {
        let project = self.project();
        Git::objects(&project.shared_dir().join("x/git"), project.common_dir(), pinned).unwrap()
    }

    fn lock(&self) -> IntegrationLock {
        IntegrationLock::wait(&self.project().shared_dir()).unwrap()
    }

    fn staging(&self, name: &str) -> PathBuf {
        self.root.join(".mahabharatha/worktrees/x/staging").join(name)
    }

    /// Returns the commands that were run, in order, by their logs.
    fn ran(&self) -> Vec<String> {
        let logs = fs::read_dir(self.root.join(".mahabharatha/logs/x/gates")).into_iter().flatten().flatten();
        let first_record = |path: PathBuf| -> serde_json::Value {
            serde_json::from_str(fs::read_to_string(path).unwrap().lines().next().unwrap()).unwrap()
        };
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let started = logs.map(|entry| first_record(entry.path()));
        let mut started: Vec<(String, String)> =
            started.map(|record| (text(&record["ts"]), text(&record["gate"]))).collect();
        started.sort();
        started.into_iter().map(|(_, gate)| gate).collect()
    }
}

impl Integration {
    fn staged(&self, base: &Oid, tasks: &[TaskCommit]) -> (Oid, Vec<TaskCommit>) {
        self.stage(LEVEL, base, tasks).unwrap().unwrap()
    }

    fn gated(&self, lab: &Lab, base: &Oid, staging: &Oid, passed: &[GatePass]) -> Gated {
        let call = GateCall { passed, ..call(base, staging) };
        done(self.gate(&lab.lock(), call).unwrap())
    }

    fn candidate_of(&self, lab: &Lab, base: &Oid, staging: &Oid) -> Candidate {
        match self.gated(lab, base, staging, &[]) {
            Gated::Passed { candidate, .. } => candidate,
            other => panic!("{other:?}"),
        }
    }

    fn landed(&self, lab: &Lab, candidate: &Candidate) -> Result<Oid, Obstacle> {
        self.land(&lab.lock(), LEVEL, candidate).unwrap()
    }

    /// Stages and gates a level with one task that writes `a.txt`.
    fn ready(&self, lab: &Lab, text: &str) -> Candidate {
        let base = lab.oid("trunk");
        let (staging, _) = self.staged(&base, &[lab.writes("A", &base, "a.txt", text)]);
        self.candidate_of(lab, &base, &staging)
    }
}

fn call<'a>(base: &'a Oid, staging: &'a Oid) -> GateCall<'a> {
    GateCall { level: LEVEL, base, staging, passed: &[], ignore: &[], verify: &[], clean: false }
}

/// Runs the test in its own process, which adopts orphans as the program does. In a shared process it would also end
/// the processes of other tests.
fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "INTEGRATION_TEST_ALONE";
    if let Some(mark) = std::env::var_os(ALONE) {
        mahabharatha_sys::proc::become_subreaper().unwrap();
        test();
        return fs::write(mark, "").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let name = format!("host::integrate::tests::{name}");
    let test = std::env::current_exe().unwrap();
    let status = Command::new(test).args([&name, "--exact", "--nocapture"]).env(ALONE, &mark).status().unwrap();
    assert!(status.success() && mark.exists(), "{name} failed, or is no test");
}

fn is_dead(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

fn task(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

fn owned_by(id: &str) -> Vec<OwnedPath> {
    let name = id.to_lowercase();
    let file = OwnedPath { path: format!("{name}.txt"), directory: false, create: false };
    let directory = OwnedPath { path: format!("{name} ünd mehr"), directory: true, create: true };
    vec![file, directory]
}

fn owns(path: &str) -> Vec<OwnedPath> {
    let directory = path.ends_with('/');
    vec![OwnedPath { path: path.trim_end_matches('/').into(), directory, create: false }]
}

fn gate(name: &str, command: &str) -> Gate {
    Gate {
        name: name.into(),
        command: command.into(),
        timeout: Duration::from_secs(60),
        required: true,
        security: false,
        sarif: None,
    }
}

fn done<T>(outcome: Outcome<T>) -> T {
    match outcome {
        Outcome::Done(value) => value,
        Outcome::Cancelled => panic!("cancelled"),
    }
}

fn failure(gated: Gated) -> GateFailure {
    match gated {
        Gated::Failed { failure, .. } => failure,
        other => panic!("{other:?}"),
    }
}

fn obstacle(gated: Gated) -> Obstacle {
    match gated {
        Gated::Blocked(obstacle) => obstacle,
        other => panic!("{other:?}"),
    }
}

fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
