//! Runs for tests: events as a host would send them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::observe::Data;
use mahabharatha_core::config::{Config, Isolation};
use mahabharatha_core::ids::{Feature, Level, Oid, TaskId, Time};
use mahabharatha_core::run::event::{Candidate, FailCause, JobEnd, JobReport, Setup};
use mahabharatha_core::run::{Effect, EffectId, Event, Run};
use mahabharatha_core::spec::GraphFile;
use mahabharatha_core::view::RunView;
use mahabharatha_engine::report::gate_runs::GateRunView;
use mahabharatha_engine::report::running_gate::{GateProgress, RunningGate};
use mahabharatha_engine::report::status::Doing;
use serde_json::{Value, json};

/// 2026-01-26T10:30:00Z.
pub const START: Time = Time(1_769_423_400_000);
pub const QUESTION: &str = "Do the 30 days count from the creation of the export or from its last download? AC-3.2 \
    says only \"deleted after 30 days\". I assumed creation; counting from the last download needs a new column \
    last_download_at, which belongs to SCHEMA.";

pub struct Sample {
    pub run: Run,
    pub now: Time,
}

pub fn task(id: &str, title: &str, level: u32, needs: &[&str]) -> Value {
    json!({ "id": id, "title": title, "level": level, "dependencies": needs, "files": { "create": [format!("src/{id}.rs")] },
            "acceptance_criteria": ["AC-3.2 files are deleted after 30 days"], "estimate_minutes": 5,
            "verification": { "command": format!("cargo nextest run {}", id.to_lowercase()) } })
}

fn oid(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

impl Sample {
    /// Starts a run with this many workers, a budget and a gate.
    pub fn start(feature: &str, workers: u32, tasks: &[Value]) -> Sample {
        let graph = GraphFile::parse(&json!({ "feature": feature, "tasks": tasks }).to_string()).unwrap();
        let budget = if tasks.len() > 100 { 150 } else { 12 };
        let gates = "quality_gates: [ { name: test, command: cargo test } ]";
        let config = Config::parse(&format!("budget: {{ max_usd: {budget} }}\n{gates}\n")).unwrap();
        let setup = Setup {
            feature: Feature::new(feature).unwrap(),
            graph,
            base_branch: "refs/heads/main".to_string(),
            start: oid('0'),
            git_config: Vec::new(),
            policy: config.policy(Isolation::Off, Some(workers), false, None),
            planning: Default::default(),
        };
        let mut sample = Sample { run: Run::start(START, &setup).unwrap(), now: START };
        sample.answers(|effect| Event::BaseChecked { effect, red: Vec::new() });
        sample
    }

    pub fn after(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now + Duration::from_secs(seconds);
        self
    }

    pub fn happens(&mut self, event: &Event) -> &mut Self {
        self.run.step(self.now, event);
        let asked = self.run.outstanding().find_map(|(effect, asked)| match asked {
            Effect::PrepareSlot { worker } => Some(Event::SlotReady { effect, worker: *worker }),
            _ => None,
        });
        match asked {
            Some(ready) => self.happens(&ready),
            None => self,
        }
    }

    /// Answers what is outstanding beside jobs.
    pub fn answers(&mut self, event: impl FnOnce(EffectId) -> Event) -> &mut Self {
        let asked = self.run.outstanding().find(|(_, effect)| !matches!(effect, Effect::RunJob(_)));
        let effect = asked.map(|(id, _)| id).unwrap();
        self.happens(&event(effect))
    }

    pub fn ends(&mut self, task: &str, end: JobEnd) -> &mut Self {
        let task = TaskId::new(task).unwrap();
        let job = self.run.outstanding().find_map(|(effect, asked)| match asked {
            Effect::RunJob(job) if job.task == task => Some((effect, job.attempt)),
            _ => None,
        });
        let (effect, attempt) = job.unwrap_or_else(|| panic!("{task} does not run"));
        let report = JobReport { cost_usd: Some(0.09), tokens: 190_000, ..JobReport::new(end, 9_000) };
        self.happens(&Event::JobEnded { effect, task, attempt, report })
    }

    pub fn done(&mut self, task: &str) -> &mut Self {
        self.ends(task, JobEnd::Done { commit: oid('a') })
    }

    pub fn fails(&mut self, task: &str, feedback: &str) -> &mut Self {
        self.ends(
            task,
            JobEnd::Failed { cause: FailCause::Verification, feedback: feedback.to_string(), strays: Vec::new() },
        )
    }

    pub fn asks(&mut self, task: &str, question: &str) -> &mut Self {
        self.ends(task, JobEnd::Blocked { reason: question.to_string() })
    }

    /// Completes all tasks that run, until the level is staged.
    pub fn finish_level(&mut self) -> &mut Self {
        loop {
            let running: Vec<String> = self.running();
            if running.is_empty() {
                return self;
            }
            for task in running {
                self.after(20).done(&task);
            }
        }
    }

    pub fn running(&self) -> Vec<String> {
        let job = |(_, effect): (EffectId, &Effect)| match effect {
            Effect::RunJob(job) => Some(job.task.to_string()),
            _ => None,
        };
        self.run.outstanding().filter_map(job).collect()
    }

    pub fn staged(&mut self, level: u32) -> &mut Self {
        let tasks = self.run.outstanding().find_map(|(_, effect)| match effect {
            Effect::Stage { tasks, .. } => Some(tasks.clone()),
            _ => None,
        });
        let commits = tasks.unwrap();
        self.answers(|effect| Event::Staged { effect, level: Level(level), staging: oid('5'), commits })
    }

    pub fn merges(&mut self, level: u32) -> &mut Self {
        let candidate = Candidate { base: oid('0'), staging: oid('5'), tree: oid('7') };
        self.staged(level).after(30);
        self.answers(|effect| Event::GatesPassed { effect, level: Level(level), candidate, passed: Vec::new() });
        self.after(1).answers(|effect| Event::Landed { effect, level: Level(level), commit: oid('c') })
    }

    /// Returns what a screen would show of it.
    pub fn data(&self, driven: bool) -> Data {
        let view = RunView::of(&self.run);
        let view = if driven { view } else { view.undriven(|_, _| false) };
        let mut doing = BTreeMap::new();
        for worker in view.workers.iter().filter(|worker| worker.status == "running") {
            let verifies = worker.id % 3 == 2;
            let phase = if verifies { "verifying" } else { "agent" };
            let what = if verifies { String::new() } else { format!("editing src/part{}.rs", worker.id) };
            let (agent, model) = ("claude".to_string(), Some("sonnet".to_string()));
            doing.insert(worker.id, Doing { phase, since: self.now, agent, model, what, tokens: 12_000 });
        }
        let runs_gate = self.run.outstanding().any(|(_, effect)| matches!(effect, Effect::Gate { .. }));
        let level = view.level.map(|level| level.to_string()).unwrap_or_default();
        let gate = runs_gate.then(|| GateProgress {
            running: RunningGate {
                gate: "test".to_string(),
                command: "cargo nextest run".to_string(),
                at: level.clone(),
                started_at: self.now,
                pid: 1,
                log: PathBuf::new(),
            },
            elapsed: Duration::from_secs(77),
            last_line: Some("812 of 1,104 tests".to_string()),
        });
        let merged = view.levels.iter().filter_map(|level| Some((level.level, level.merged_at?)));
        let gates = merged.map(|(level, at)| gate_run(level, at.0)).collect();
        let mut data = Data::new(view, driven);
        (data.doing, data.gate, data.gates) = (doing, gate, gates);
        data
    }
}

fn gate_run(level: Level, merged_at: Time) -> GateRunView {
    use mahabharatha_core::view::Stamp;
    GateRunView {
        gate: "test".to_string(),
        at: level.to_string(),
        run: 1,
        task: None,
        command: "cargo nextest run".to_string(),
        status: "passed",
        started_at: Stamp(Time(merged_at.0 - 31_000)),
        ended_at: Some(Stamp(Time(merged_at.0 - 1_000))),
        log: PathBuf::from("/log"),
    }
}

/// A run with a question, a blocked task and agents at work.
pub fn midrun() -> Sample {
    let tasks = [
        task("SCHEMA", "Tables for exports", 1, &[]),
        task("MODEL", "Export job and its states", 1, &[]),
        task("CSV", "Write invoices as CSV", 1, &[]),
        task("STORE", "Keep finished files", 2, &["SCHEMA"]),
        task("CLEANUP", "Delete files after 30 days", 2, &["SCHEMA", "MODEL"]),
        task("UI-STATUS", "Show progress and download", 2, &["MODEL"]),
        task("EMAIL", "Mail a link when it is ready", 2, &["MODEL"]),
        task("LOAD", "10,000 invoices in one export", 2, &["CSV"]),
        task("E2E", "Export from click to file", 3, &["CLEANUP", "EMAIL"]),
        task("DOCS", "Explain exports", 3, &["CLEANUP"]),
    ];
    let mut sample = Sample::start("invoice-export", 4, &tasks);
    sample.after(200).done("SCHEMA").done("MODEL").after(10).fails("CSV", "csv::quotes failed: left a, right b");
    sample.after(60).happens(&Event::Woke).after(100).done("CSV").merges(1);
    sample.after(120).done("STORE").after(30).asks("CLEANUP", QUESTION).after(254);
    sample
}

/// The same run at its end.
pub fn completed() -> Sample {
    let tasks = [
        task("SUM", "Add numbers up", 1, &[]),
        task("COUNT", "Count numbers", 1, &[]),
        task("MEDIAN", "Take the median", 2, &["SUM"]),
        task("USAGE", "Explain how to use it", 2, &["SUM", "COUNT"]),
    ];
    let mut sample = Sample::start("statistics", 2, &tasks);
    sample.finish_level().merges(1).after(30).fails("MEDIAN", "The verification failed with exit code 1");
    sample.after(60).happens(&Event::Woke).finish_level().merges(2);
    sample.answers(|effect| Event::Closed { effect });
    sample
}

/// A thousand tasks on eight levels, most of them done or waiting.
pub fn thousand() -> Sample {
    let mut tasks = Vec::new();
    for (level, count) in [170, 160, 150, 140, 130, 110, 80, 60].into_iter().enumerate() {
        for number in 0..count {
            tasks.push(task(&format!("L{}-{number:03}", level + 1), "Port journal lines", level as u32 + 1, &[]));
        }
    }
    let mut sample = Sample::start("ledger-rewrite", 20, &tasks);
    for level in 1..=3 {
        sample.finish_level().merges(level);
    }
    for task in sample.running().into_iter().take(5) {
        sample.after(3).done(&task);
    }
    let running = sample.running();
    sample.asks(
        &running[0],
        "Tax codes before 1999 have no amount in euro. Convert them at the fixed rate, or leave them?",
    );
    sample.asks(&running[1], "NEEDS: src/shared/money.rs — rounding is shared with FX").after(90);
    sample
}
