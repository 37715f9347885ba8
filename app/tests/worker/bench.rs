//! A repository with a slot for one worker, and jobs to give it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use mahabharatha_core::config::AgentConfig;
use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::ids::{Attempt, Feature, Oid, TaskId, WorkerId};
use mahabharatha_core::run::effect::{Carry, EffectId, Job, Performer, Purpose};
use mahabharatha_core::run::event::{FailCause, JobEnd, JobReport};
use mahabharatha_core::spec::{FileLists, TaskSpec, Verification};
use mahabharatha_engine::agent::{AgentSpec, Terms};
use mahabharatha_engine::confinement::Confinement;
use mahabharatha_engine::worker::{JobSpec, Limits, Logs, PromptContext, Rules, read_result};
use mahabharatha_sys::git::{Git, Identity};
use tempfile::TempDir;

pub struct Bench {
    dir: TempDir,
    pub base: Oid,
}

/// What a job left.
pub struct Outcome {
    pub code: i32,
    pub report: Option<JobReport>,
    pub job_dir: PathBuf,
}

impl Bench {
    pub fn new() -> Self {
        Self::with_init(&[])
    }

    pub fn with_init(init: &[&str]) -> Self {
        Self::build(init, |_| {})
    }

    /// `fill` may change the repository before its first commit.
    pub fn build(init: &[&str], fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("main checkout");
        fs::create_dir(&root).unwrap();
        git_in(&root, &[&["init", "-q", "-b", "trunk"], init].concat());
        for (path, text) in
            [("README.md", "readme\n"), ("src/own.rs", "own\n"), ("src/other.rs", "other\n"), ("docs/a.md", "a\n")]
        {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        fs::write(root.join(".gitignore"), "/build/\n*.log\n/.mahabharatha/\n/.env*\n").unwrap();
        fill(&root);
        git_in(&root, &["add", "-A"]);
        git_in(&root, &["commit", "-qm", "start"]);
        let base = Oid::new(git_in(&root, &["rev-parse", "HEAD"])).unwrap();
        let bench = Bench { dir, base };
        bench.git(&["worktree", "add", "-q", "--no-checkout", "-b", "mahabharatha/x/worker-0", bench.worktree_text()]);
        bench
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("main checkout")
    }

    pub fn common(&self) -> PathBuf {
        self.root().join(".git")
    }

    pub fn worktree(&self) -> PathBuf {
        self.root().join(".mahabharatha/worktrees/x/worker-0")
    }

    fn worktree_text(&self) -> &'static str {
        ".mahabharatha/worktrees/x/worker-0"
    }

    pub fn admin(&self) -> PathBuf {
        self.common().join("worktrees/worker-0")
    }

    /// Outside of everything that a task may touch.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn git(&self, args: &[&str]) -> String {
        git_in(&self.root(), args)
    }

    pub fn git_fails(&self, args: &[&str]) -> bool {
        !command_in(&self.root(), args).output().unwrap().status.success()
    }

    /// A job spec for attempt 1 at TASK-1, which may change `src/own.rs`; its agent runs `script`.
    pub fn spec(&self, script: &str) -> JobSpec {
        let owned = OwnedPath { path: "src/own.rs".into(), directory: false, create: false };
        JobSpec {
            hidden_variables: Vec::new(),
            feature: Feature::new("x").unwrap(),
            job: Job {
                effect: EffectId(0),
                task: TaskId::new("TASK-1").unwrap(),
                attempt: Attempt(1),
                worker: WorkerId(0),
                base: self.base.clone(),
                on: Vec::new(),
                purpose: Purpose::Build,
                performer: Performer::Agent(String::new()),
                carry: Carry::default(),
                notes: Vec::new(),
                max_usd: None,
            },
            task: TaskSpec {
                id: "TASK-1".into(),
                title: "Own it".into(),
                level: 1,
                files: FileLists::default(),
                dependencies: Vec::new(),
                verification: Verification::default(),
                description: None,
                context: None,
                action: None,
                done: None,
                interface: None,
                security: None,
                acceptance_criteria: Vec::new(),
                estimate_minutes: None,
                estimate_tokens: None,
                agent: None,
                model: None,
                effort: None,
                fallback_model: None,
                foreground: false,
                follow_up: None,
                run: Some(script.into()),
                extra: Default::default(),
            },
            owned: vec![owned],
            root: self.root(),
            common_dir: self.common(),
            worktree: self.worktree(),
            worktree_git_dir: self.admin(),
            branch: "refs/heads/mahabharatha/x/worker-0".into(),
            spec_dir: self.root().join(".gsd/specs/x"),
            pinned: Git::repository(self.common()).settings().unwrap().pinned().unwrap(),
            identity: Identity::default(),
            confinement: Confinement::default(),
            agent: AgentSpec {
                name: "command".to_owned(),
                profile: AgentConfig::shipped()["command"].clone(),
                terms: Terms::default(),
            },
            env_pass: Vec::new(),
            ports: Vec::new(),
            task_list_id: None,
            limits: Limits { attempt_ms: 60_000, stall_ms: 60_000, grace_ms: 200 },
            setup: None,
            warm: None,
            generated: Vec::new(),
            allowed_secrets: Vec::new(),
            context: PromptContext {
                project: self.root().join(".gsd/PROJECT.md"),
                requirements: self.root().join(".gsd/specs/x/requirements.md"),
                design: self.root().join(".gsd/specs/x/design.md"),
                decisions: Vec::new(),
                max_attempts: 3,
                budget_tokens: Some(4000),
                rules: Rules::All,
            },
            logs: Logs {
                worker: self.outside("worker-0.jsonl"),
                task: self.outside("TASK-1.jsonl"),
                max_bytes: 10 << 20,
            },
        }
    }

    pub fn job_dir(&self, spec: &JobSpec) -> PathBuf {
        let job = &spec.job;
        self.common().join(format!("mahabharatha/x/jobs/{}.{}", job.task, job.attempt))
    }

    pub fn spawn(&self, spec: &JobSpec) -> Child {
        self.command(spec).spawn().unwrap()
    }

    pub fn command(&self, spec: &JobSpec) -> Command {
        let job_dir = self.job_dir(spec);
        fs::create_dir_all(&job_dir).unwrap();
        spec.write(&job_dir).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mahabharatha"));
        command.args(["worker", spec.job.task.as_str(), "--job-dir"]).arg(&job_dir);
        command.stdin(spec.as_input(&job_dir).unwrap());
        command
    }

    pub fn run(&self, spec: &JobSpec) -> Outcome {
        self.finish(spec, self.spawn(spec))
    }

    pub fn finish(&self, spec: &JobSpec, mut child: Child) -> Outcome {
        let status = child.wait().unwrap();
        let job_dir = self.job_dir(spec);
        Outcome { code: status.code().unwrap_or(-1), report: read_result(&job_dir).unwrap(), job_dir }
    }

    /// A file in a commit.
    pub fn show(&self, commit: &Oid, path: &str) -> Option<String> {
        let output = command_in(&self.root(), &["show", &format!("{commit}:{path}")]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn has_ref(&self, name: &str) -> bool {
        !self.git_fails(&["show-ref", "--verify", "--quiet", name])
    }
}

impl Outcome {
    pub fn end(&self) -> &JobEnd {
        match &self.report {
            Some(report) => &report.end,
            None => panic!("no result: {}", fs::read_to_string(self.job_dir.join("error.txt")).unwrap_or_default()),
        }
    }

    pub fn commit(&self) -> &Oid {
        match self.end() {
            JobEnd::Done { commit } => commit,
            other => panic!("not done: {other:#?}"),
        }
    }

    pub fn failure(&self) -> (FailCause, &str, &[String]) {
        match self.end() {
            JobEnd::Failed { cause, feedback, strays } => (*cause, feedback, strays),
            other => panic!("not failed: {other:#?}"),
        }
    }

    pub fn wip(&self) -> &Oid {
        self.report.as_ref().and_then(|report| report.wip.as_ref()).expect("work was kept")
    }

    pub fn warnings(&self) -> String {
        self.report.as_ref().map(|report| report.warnings.join("\n")).unwrap_or_default()
    }
}

pub fn file(path: &str) -> OwnedPath {
    OwnedPath { path: path.into(), directory: false, create: false }
}

pub fn created(path: &str) -> OwnedPath {
    OwnedPath { create: true, ..file(path) }
}

pub fn directory(path: &str) -> OwnedPath {
    OwnedPath { directory: true, ..file(path) }
}

pub fn verification(command: &str) -> Verification {
    Verification { command: command.into(), timeout_seconds: 60, extra: Default::default() }
}

pub fn wait_until(mut condition: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("waited a minute in vain");
}

pub fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command_in(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).envs(clean_git());
    command
}

fn clean_git() -> BTreeMap<&'static str, &'static str> {
    [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
    ]
    .into()
}

pub fn git_in(dir: &Path, args: &[&str]) -> String {
    let output = command_in(dir, args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
