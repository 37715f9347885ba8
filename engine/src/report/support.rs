//! Scripted runs for tests: events as a host would send them, and their log lines and stream.

use std::time::Duration;

use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Attempt, Feature, Level, Oid, TaskId, Time};
use mahabharatha_core::run::event::{
    Accepted, Amend, Backoff, BackoffStrategy, Candidate, CleanGates, Command, FailCause, GateFailure, GatePass,
    Intent, JobEnd, JobReport, Obstacle, Policy, Schedule, Setup,
};
use mahabharatha_core::run::{Effect, EffectId, Event, Roster, Run};
use mahabharatha_core::spec::GraphFile;
use mahabharatha_core::view::RunView;
use serde_json::{Value, json};

use super::log_lines::{Line, LogLines};
use super::stream::Stream;

/// 2026-01-26T10:30:00Z.
pub const START: Time = Time(1_769_423_400_000);

pub struct Story {
    pub run: Run,
    pub now: Time,
    pub lines: Vec<Line>,
    /// Lines of the stream for programs.
    pub streamed: Vec<String>,
    stream: Stream,
    log_lines: LogLines,
}

pub fn oid(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

pub fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

pub fn policy() -> Policy {
    let mut accepted = Accepted::default();
    accepted.set("quality_gates.test.command", "cargo test");
    Policy {
        workers: 2,
        max_attempts: 3,
        backoff: Backoff { strategy: BackoffStrategy::Exponential, base_ms: 5_000, max_ms: 60_000 },
        remediation_attempts: 2,
        has_gates: true,
        allow_red_base: false,
        max_usd: Some(20.0),
        max_usd_per_task: None,
        onto_staging: false,
        approval: false,
        clean_gates: CleanGates::Last,
        waits_for_limits: true,
        accepted,
        amend: Amend::Ask,
        isolation: Isolation::Off,
        schedule: Schedule::Levels,
        roster: Roster::default(),
    }
}

pub fn failure(gate: &str) -> GateFailure {
    let (gate, command) = (gate.to_string(), "cargo clippy".to_string());
    GateFailure {
        gate,
        command,
        output: "error: unused variable `x`".to_string(),
        cause: None,
        denied: false,
        staging: oid('5'),
        task: None,
        clean: false,
    }
}

pub fn failed(cause: FailCause, feedback: &str, strays: &[&str]) -> JobEnd {
    let strays = strays.iter().map(|path| path.to_string()).collect();
    JobEnd::Failed { cause, feedback: feedback.to_string(), strays }
}

fn tasks() -> Vec<Value> {
    vec![
        json!({"id": "TASK-001", "title": "Parse the configuration", "level": 1}),
        json!({"id": "TASK-002", "title": "Render tables | columns", "level": 1}),
        json!({"id": "TASK-003", "title": "Wire it together", "level": 2, "dependencies": ["TASK-001", "TASK-002"]}),
    ]
}

impl Story {
    /// Two tasks on level 1, two on level 2, the last of which waits for the user.
    pub fn new() -> Self {
        let mut tasks = tasks();
        tasks.push(json!({"id": "TASK-004", "title": "Look at it", "level": 2, "foreground": true}));
        Story::of(policy(), &tasks)
    }

    /// Without the task that waits for the user.
    pub fn unattended() -> Self {
        Story::of(policy(), &tasks())
    }

    pub fn of(policy: Policy, tasks: &[Value]) -> Self {
        let graph = GraphFile::parse(&json!({"feature": "tables", "tasks": tasks}).to_string()).unwrap();
        let setup = Setup {
            feature: Feature::new("tables").unwrap(),
            graph,
            base_branch: "refs/heads/main".to_string(),
            start: oid('0'),
            git_config: Vec::new(),
            policy,
            planning: Cost::default(),
        };
        let run = Run::start(START, &setup).unwrap();
        let mut log_lines = LogLines::default();
        let lines = log_lines.tell(&Event::Started(Box::new(setup)), &run);
        let (stream, first) = Stream::open(&run);
        Story { run, now: START, lines, log_lines, stream, streamed: vec![first] }
    }

    pub fn view(&self) -> RunView {
        RunView::of(&self.run)
    }

    pub fn after(&mut self, seconds: f64) -> &mut Self {
        self.now = self.now + Duration::from_secs_f64(seconds);
        self
    }

    /// Applies one event, then reports every requested worktree as ready.
    pub fn happens(&mut self, event: Event) -> &mut Self {
        self.run.step(self.now, &event);
        self.lines.extend(self.log_lines.tell(&event, &self.run));
        self.streamed.extend(self.stream.lines(&event, &self.run));
        let asked = self.run.outstanding().find_map(|(id, effect)| match effect {
            Effect::PrepareSlot { worker } => Some((id, *worker)),
            _ => None,
        });
        match asked {
            Some((effect, worker)) => self.happens(Event::SlotReady { effect, worker }),
            None => self,
        }
    }

    /// Answers the outstanding effect that is not a job; if there is none, sends a late answer.
    pub fn answers(&mut self, event: impl FnOnce(EffectId) -> Event) -> &mut Self {
        let asked = self.run.outstanding().find(|(_, effect)| !matches!(effect, Effect::RunJob(_)));
        let effect = asked.map_or(EffectId(u64::MAX), |(id, _)| id);
        self.happens(event(effect))
    }

    pub fn base_is_green(&mut self) -> &mut Self {
        self.answers(|effect| Event::BaseChecked { effect, red: Vec::new() })
    }

    pub fn attempt(&self, task: &str) -> (EffectId, Attempt) {
        let under_way = self.run.outstanding().find_map(|(effect, job)| match job {
            Effect::RunJob(job) if job.task == id(task) => Some((effect, job.attempt)),
            _ => None,
        });
        under_way.unwrap_or_else(|| panic!("{task} is not under way"))
    }

    pub fn starts(&mut self, task: &str) -> &mut Self {
        let (effect, attempt) = self.attempt(task);
        self.happens(Event::JobStarted { effect, task: id(task), attempt, pid: 4_000 + attempt.0 })
    }

    pub fn ends(&mut self, task: &str, end: JobEnd) -> &mut Self {
        let wip = (!matches!(end, JobEnd::Done { .. } | JobEnd::Died { .. })).then(|| oid('f'));
        self.ends_with(task, JobReport { wip, cost_usd: Some(0.25), tokens: 1_500, ..JobReport::new(end, 9_000) })
    }

    pub fn ends_with(&mut self, task: &str, report: JobReport) -> &mut Self {
        let (effect, attempt) = self.attempt(task);
        self.happens(Event::JobEnded { effect, task: id(task), attempt, report })
    }

    pub fn done(&mut self, task: &str) -> &mut Self {
        self.ends(task, JobEnd::Done { commit: oid('a') })
    }

    pub fn staged(&mut self, level: u32) -> &mut Self {
        let commits = self.run.outstanding().find_map(|(_, effect)| match effect {
            Effect::Stage { tasks, .. } => Some(tasks.clone()),
            _ => None,
        });
        self.answers(|effect| Event::Staged {
            effect,
            level: Level(level),
            staging: oid('5'),
            commits: commits.unwrap(),
        })
    }

    pub fn gates_pass(&mut self, level: u32) -> &mut Self {
        let candidate = Candidate { base: oid('0'), staging: oid('5'), tree: oid('7') };
        let passed = vec![GatePass { command: "cargo test".to_string(), tree: oid('7'), task: None, clean: false }];
        self.answers(|effect| Event::GatesPassed { effect, level: Level(level), candidate, passed })
    }

    pub fn lands(&mut self, level: u32) -> &mut Self {
        self.answers(|effect| Event::Landed { effect, level: Level(level), commit: oid('c') })
    }

    pub fn merges(&mut self, level: u32) -> &mut Self {
        self.staged(level).gates_pass(level).after(1.0).lands(level)
    }

    pub fn not_landed(&mut self, level: u32, obstacle: Obstacle) -> &mut Self {
        self.answers(|effect| Event::NotLanded { effect, level: Level(level), obstacle })
    }

    pub fn asked(&mut self, command: Command) -> &mut Self {
        let request = format!("request {}", self.lines.len());
        self.happens(Event::Asked { request, command })
    }

    pub fn resumes(&mut self) -> &mut Self {
        self.happens(Event::Resumed { policy: policy(), intent: Intent::Complete, planning: self.run.planning() })
    }

    /// A whole run with a failure, strays and a retry; ends before `Closed`.
    pub fn eventful() -> Self {
        let mut story = Story::unattended();
        story.after(2.0).base_is_green().starts("TASK-001").starts("TASK-002");
        story.after(12.0).done("TASK-001");
        story.after(3.0).ends("TASK-002", failed(FailCause::Strays, "Undo these:\nsrc/lib.rs", &["src/lib.rs"]));
        story.after(5.0).happens(Event::Woke).starts("TASK-002");
        story.after(7.0).done("TASK-002").merges(1);
        story.after(1.0).starts("TASK-003");
        story.after(4.0).ends("TASK-003", failed(FailCause::Verification, "assertion failed\nleft: 1", &[]));
        story.after(5.0).happens(Event::Woke).starts("TASK-003");
        story.after(4.0).done("TASK-003").merges(2);
        story
    }

    /// A level with a blocked task and one that waits for its next attempt.
    pub fn stuck() -> Self {
        let mut story = Story::unattended();
        story.after(2.0).base_is_green().starts("TASK-001").starts("TASK-002");
        story
            .after(8.0)
            .ends("TASK-001", JobEnd::Blocked { reason: "The API <v2> is not there\nsee docs".to_string() });
        story.after(1.0).ends("TASK-002", failed(FailCause::Verification, "test columns ... FAILED\nmore", &[]));
        story
    }

    /// Returns all log lines so far.
    pub fn told(&self) -> String {
        let lines = self.lines.iter().map(|line| format!("{:<5} {}", format!("{:?}", line.severity), line.text));
        lines.collect::<Vec<_>>().join("\n")
    }
}
