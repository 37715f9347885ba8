//! A run with one worker that a test tells step by step.

use mahabharatha_core::config::Isolation;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::ids::{Feature, Level, Oid, TaskId, Time, WorkerId};
use mahabharatha_core::run::effect::Job;
use mahabharatha_core::run::event::{
    Accepted, Amend, Backoff, BackoffStrategy, Candidate, CleanGates, Command, Event, GateFailure, Intent, JobEnd,
    JobReport, Policy, Schedule, Setup,
};
use mahabharatha_core::run::{Effect, EffectId, Roster, Run};
use mahabharatha_core::spec::GraphFile;

pub fn id(task: &str) -> TaskId {
    TaskId::new(task).unwrap()
}

pub fn oid(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

pub fn graph(tasks: &[(&str, u32)]) -> GraphFile {
    let task = |(id, level): &(&str, u32)| {
        let files = format!(r#"{{"create":["{id}.rs"]}}"#);
        format!(r#"{{"id":"{id}","title":"T","level":{level},"files":{files},"verification":{{"command":"true"}}}}"#)
    };
    let tasks: Vec<String> = tasks.iter().map(task).collect();
    serde_json::from_str(&format!(r#"{{"feature":"f","tasks":[{}]}}"#, tasks.join(","))).unwrap()
}

/// A run with one worker, and the current time.
pub struct Story {
    pub run: Run,
    pub now: Time,
}

impl Story {
    pub fn of(tasks: &[(&str, u32)]) -> Story {
        Story::with(tasks, |policy| policy)
    }

    /// Starts a run with a changed policy.
    pub fn with(tasks: &[(&str, u32)], changed: impl FnOnce(Policy) -> Policy) -> Story {
        let policy = Policy {
            workers: 1,
            max_attempts: 2,
            backoff: Backoff { strategy: BackoffStrategy::Fixed, base_ms: 0, max_ms: 0 },
            remediation_attempts: 1,
            has_gates: false,
            allow_red_base: false,
            max_usd: Some(5.0),
            max_usd_per_task: None,
            onto_staging: false,
            clean_gates: CleanGates::Last,
            waits_for_limits: true,
            accepted: Accepted::default(),
            amend: Amend::Ask,
            isolation: Isolation::Off,
            approval: false,
            schedule: Schedule::Levels,
            roster: Roster::default(),
        };
        let setup = Setup {
            feature: Feature::new("f").unwrap(),
            graph: graph(tasks),
            base_branch: "refs/heads/main".to_string(),
            start: oid('0'),
            git_config: Vec::new(),
            policy: changed(policy),
            planning: Cost::default(),
        };
        let mut story = Story { run: Run::start(Time(0), &setup).unwrap(), now: Time(0) };
        story.slot_ready();
        story
    }

    pub fn happens(&mut self, event: Event) -> &mut Story {
        self.now = Time(self.now.0 + 1_000);
        self.run.step(self.now, &event);
        self
    }

    pub fn resumed(&mut self) -> &mut Story {
        let policy = self.run.policy().clone();
        let planning = self.run.planning();
        self.happens(Event::Resumed { policy, intent: Intent::Complete, planning });
        let prepares = |(_, effect): (EffectId, &Effect)| matches!(effect, Effect::PrepareSlot { .. });
        if self.run.outstanding().any(prepares) {
            self.slot_ready();
        }
        self
    }

    pub fn slot_ready(&mut self) -> &mut Story {
        self.answers(|effect| Event::SlotReady { effect, worker: WorkerId(0) })
    }

    /// Returns the only outstanding effect.
    pub fn under_way(&self) -> (EffectId, Effect) {
        let all: Vec<_> = self.run.outstanding().collect();
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].0, all[0].1.clone())
    }

    pub fn job(&self) -> Job {
        match self.under_way().1 {
            Effect::RunJob(job) => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn ends(&mut self, end: JobEnd) -> &mut Story {
        self.reports(JobReport::new(end, 500))
    }

    pub fn reports(&mut self, report: JobReport) -> &mut Story {
        let Job { effect, task, attempt, .. } = self.job();
        self.happens(Event::JobEnded { effect, task, attempt, report })
    }

    pub fn done(&mut self, commit: char) -> &mut Story {
        self.ends(JobEnd::Done { commit: oid(commit) })
    }

    /// Answers the effect under way.
    pub fn answers(&mut self, event: impl FnOnce(EffectId) -> Event) -> &mut Story {
        let (effect, _) = self.under_way();
        self.happens(event(effect))
    }

    pub fn staged(&mut self, level: u32) -> &mut Story {
        let Effect::Stage { tasks, .. } = self.under_way().1 else { panic!() };
        self.answers(|effect| Event::Staged { effect, level: Level(level), staging: oid('5'), commits: tasks })
    }

    pub fn gates_pass(&mut self, level: u32, base: char) -> &mut Story {
        let candidate = Candidate { base: oid(base), staging: oid('5'), tree: oid('7') };
        self.answers(|effect| Event::GatesPassed { effect, level: Level(level), candidate, passed: Vec::new() })
    }

    pub fn gate_fails(&mut self, level: u32, task: &str) -> &mut Story {
        let [gate, command, output] = ["lint", "lint", "lint"].map(str::to_string);
        let failure = GateFailure {
            gate,
            command,
            output,
            cause: None,
            denied: false,
            staging: oid('5'),
            task: Some(id(task)),
            clean: false,
        };
        self.answers(|effect| Event::GateFailed { effect, level: Level(level), failure, passed: Vec::new() })
    }

    pub fn merges(&mut self, level: u32) -> &mut Story {
        self.staged(level).gates_pass(level, '0');
        self.answers(|effect| Event::Landed { effect, level: Level(level), commit: oid('c') })
    }

    /// Returns whether the run carries the command out.
    pub fn asks(&mut self, command: Command) -> bool {
        let request = format!("r{}", self.now.0);
        self.happens(Event::Asked { request: request.clone(), command });
        self.run.answer(&request).is_some_and(|answer| !answer.declined)
    }
}
