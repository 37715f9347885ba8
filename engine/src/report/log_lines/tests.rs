use mahabharatha_core::ids::{Level, Time, WorkerId};
use mahabharatha_core::run::event::{
    Accepted, Command, FailCause, GateFailure, Intent, JobEnd, JobReport, Note, Obstacle, Policy,
};
use mahabharatha_core::run::{Event, Run};
use serde_json::json;

use super::super::support::{Story, failed, failure, id, oid, policy};
use super::{LogLines, Severity};

fn report(end: JobEnd, ran_ms: u64) -> JobReport {
    JobReport::new(end, ran_ms)
}

#[test]
fn a_run_with_detours() {
    let mut story = Story::eventful();
    story.after(1.0).answers(|effect| Event::Closed { effect });
    insta::assert_snapshot!(story.told());
}

#[test]
fn blocked_waiting_and_resting_tasks() {
    let mut story = Story::new();
    story.base_is_green().starts("TASK-001").starts("TASK-002").after(9.0);
    story.ends("TASK-001", failed(FailCause::Missing, "src/a.rs is not there", &[]));
    story.ends("TASK-002", JobEnd::Checkpoint { note: "half of it stands\nthe rest does not".to_string() });
    story.starts("TASK-002").ends("TASK-002", failed(FailCause::Verification, "no", &[]));
    story.after(5.0).happens(Event::Woke).starts("TASK-001").ends("TASK-001", failed(FailCause::Timeout, "", &[]));
    story
        .after(10.0)
        .happens(Event::Woke)
        .starts("TASK-001")
        .ends("TASK-001", failed(FailCause::Stalled, "quiet", &[]));
    story.starts("TASK-002").ends("TASK-002", JobEnd::Escalated { reason: "which colour?".to_string() });
    insta::assert_snapshot!(story.told());
}

#[test]
fn a_gate_that_fails_is_blamed_and_fixed() {
    let mut story = Story::unattended();
    story.base_is_green().starts("TASK-001").starts("TASK-002").after(3.0).done("TASK-001").done("TASK-002").staged(1);
    story.answers(|effect| Event::GateFailed { effect, level: Level(1), failure: failure("lint"), passed: Vec::new() });
    let why = "src/a.rs is named in the output".to_string();
    story.answers(|effect| Event::Blamed { effect, level: Level(1), task: Some(id("TASK-001")), why });
    story.starts("TASK-001").after(2.0).ends("TASK-001", failed(FailCause::Verification, "worse", &[]));
    story.starts("TASK-001").after(2.0).done("TASK-001").gates_pass(1);
    story.not_landed(1, Obstacle::BaseMoved).gates_pass(1).lands(1);
    insta::assert_snapshot!(story.told());
}

/// Returns what a run with one task told of the gates `test`, which passes, and `lint`, which fails and blocks nothing.
fn told_of_gates(red_before: bool) -> String {
    let mut policy = Policy { allow_red_base: true, ..policy() };
    policy.accepted.set("quality_gates.lint.command", "cargo clippy");
    let mut story = Story::of(policy, &[json!({"id": "TASK-001", "title": "Parse", "level": 1})]);
    let reported = |level| Event::Noted { level, note: Note::OnlyReported { failure: failure("lint") } };
    if red_before {
        story.answers(|effect| Event::BaseChecked { effect, red: vec![failure("lint")] });
    } else {
        story.happens(reported(None)).base_is_green();
    }
    story.done("TASK-001").staged(1).happens(reported(Some(Level(1)))).gates_pass(1);
    let told = story.told();
    told.lines().filter(|line| line.contains("passed")).collect::<Vec<_>>().join("\n")
}

#[test]
fn gates_whose_failure_is_only_reported_are_not_counted_as_passed() {
    insta::assert_snapshot!(told_of_gates(false), @r"
    Info  main: 1 of 2 gates passed, lint failed and is not required
    Info  level 1: 1 of 2 gates passed, lint failed and is not required
    ");
    insta::assert_snapshot!(told_of_gates(true), @"Info  level 1: 1 of 2 gates passed, lint failed and was red on main before");
}

#[test]
fn tasks_without_a_verification_are_not_said_to_have_passed_it() {
    let told = |command: &str| {
        let policy = Policy { accepted: Accepted::default(), has_gates: false, ..policy() };
        let task = |id: &str, command: &str| {
            let file = format!("{id}.txt");
            json!({"id": id, "title": id, "level": 1, "files": {"create": [file]}, "verification": {"command": command}})
        };
        let mut story = Story::of(policy, &[task("TASK-001", "true"), task("TASK-002", command)]);
        story.happens(Event::Woke).done("TASK-001").done("TASK-002").staged(1).gates_pass(1);
        story.lines.into_iter().map(|line| line.text).find(|text| text.contains("merged tree")).unwrap()
    };
    assert_eq!(told("true"), "level 1: every task passed its verification on the merged tree");
    let one = "level 1: 1 of 2 tasks passed its verification on the merged tree, TASK-002 has no verification";
    assert_eq!(told(" "), one);
    assert_eq!(told("# nothing\n"), one);
}

#[test]
fn an_unfixable_gate_ends_the_run() {
    let mut story = Story::unattended();
    story.base_is_green().starts("TASK-001").starts("TASK-002").done("TASK-001").done("TASK-002").staged(1);
    story.answers(|effect| Event::GateFailed { effect, level: Level(1), failure: failure("lint"), passed: Vec::new() });
    let why = "it is red with and without each task".to_string();
    story.answers(|effect| Event::Blamed { effect, level: Level(1), task: None, why });
    insta::assert_snapshot!(story.told());
}

/// Returns a story with the level staged, before its gates or after them.
fn integrating(gated: bool) -> Story {
    let mut story = Story::unattended();
    story.base_is_green().done("TASK-001").done("TASK-002").staged(1);
    if gated {
        story.gates_pass(1);
    }
    story.lines.clear();
    story
}

#[test]
fn obstacles_to_landing_are_named() {
    let (files, worktree) = (vec!["src/a.rs".to_string()], "/w/staging".to_string());
    let why = "it has changes".to_string();
    let obstacles = [
        Obstacle::Conflict { files: files.clone(), worktree: worktree.clone() },
        Obstacle::CheckoutInTheWay { files, worktree, why },
        Obstacle::BaseRewritten { was: oid('b'), now: None },
        Obstacle::Forged { objects: vec![".git/objects/ab/cd (src/a.rs)".to_string()] },
    ];
    let told = obstacles.map(|obstacle| {
        // A conflict appears when the base is merged in, the others when the level lands.
        let mut story = integrating(!matches!(obstacle, Obstacle::Conflict { .. }));
        story.not_landed(1, obstacle).told()
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn the_breaker_logs_its_state() {
    let mut story = Story::unattended();
    story.base_is_green();
    for _ in 0..3 {
        let died = report(JobEnd::Died { started: false }, 100);
        story.ends_with("TASK-001", died).after(5.0).happens(Event::Woke);
    }
    story.after(60.0).happens(Event::Woke).starts("TASK-001").after(3.0).done("TASK-001");
    insta::assert_snapshot!(story.told());
}

#[test]
fn a_run_waits_for_the_usage_limit_to_reset() {
    let mut story = Story::unattended();
    let until = Some(Time(story.base_is_green().now.0 + 3_600_000));
    let limit = || JobEnd::Unserved { why: "usage limit reached".to_string(), until };
    story.ends("TASK-001", limit()).ends("TASK-002", limit());
    story.after(3_600.0).happens(Event::Woke).starts("TASK-001").after(3.0).done("TASK-001");
    insta::assert_snapshot!(story.told());
}

#[test]
fn a_resumed_run_reports_an_earlier_usage_limit() {
    let mut story = Story::unattended();
    let until = Some(Time(story.base_is_green().now.0 + 3_600_000));
    story.ends("TASK-001", JobEnd::Unserved { why: "usage limit reached".to_string(), until }).done("TASK-002");
    story.asked(Command::Stop { force: false, grace_ms: 10_000, worker: None });
    story.after(60.0).resumes().after(3_600.0).happens(Event::Woke);
    insta::assert_snapshot!(story.told());
}

#[test]
fn commands_of_the_user_are_answered() {
    let mut story = Story::unattended();
    story.base_is_green().starts("TASK-001").starts("TASK-002");
    let skip = |tasks: &[&str]| Command::Skip {
        tasks: tasks.iter().map(|task| id(task)).collect(),
        reason: "not\nneeded".to_string(),
        keep_dependents: false,
    };
    story.asked(Command::Retry { tasks: vec![id("TASK-003"), id("TASK-009")], budget: None, note: None });
    story.asked(skip(&["TASK-001"]));
    story.asked(Command::Stop { force: false, grace_ms: 0, worker: Some(WorkerId(1)) });
    story.ends("TASK-002", JobEnd::Cancelled);
    story.asked(Command::Stop { force: false, grace_ms: 10_000, worker: None });
    story.ends("TASK-001", failed(FailCause::Agent, "exit 1", &[]));
    story.after(60.0).resumes();
    insta::assert_snapshot!(story.told());
}

#[test]
fn only_newly_granted_files_and_notified_owners_are_named() {
    let owner = json!({"id": "T-1", "title": "t", "level": 1, "files": {"modify": ["src/lib.rs"]}});
    let mut story = Story::of(policy(), &[owner, json!({"id": "T-2", "title": "t", "level": 1})]);
    let asks = |words: &str| JobEnd::Blocked { reason: words.to_string() };
    story.base_is_green().starts("T-1").starts("T-2").ends("T-2", asks("NEEDS: extra.rs"));
    story.asked(Command::Grant { task: id("T-2"), paths: vec!["extra.rs".to_string()] });
    story.starts("T-2").ends("T-2", asks("NEEDS: src/lib.rs — a type\nNEEDS: lib — also\nNEEDS: extra.rs — again"));
    let told = story.told();
    assert!(told.contains("T-1 is told that T-2 needs src/lib.rs"), "{told}");
    assert!(!told.contains("is told that T-2 needs lib") && !told.contains("which no task owns"), "{told}");
}

#[test]
fn a_level_that_is_skipped_whole_has_nothing_to_merge() {
    let mut story = Story::unattended();
    story.asked(Command::Skip {
        tasks: vec![id("TASK-001"), id("TASK-002")],
        reason: "later".to_string(),
        keep_dependents: true,
    });
    story.base_is_green();
    insta::assert_snapshot!(story.told());
}

#[test]
fn red_gates_on_the_base_stop_the_run_or_are_only_reported() {
    let red = |effect| Event::BaseChecked { effect, red: vec![failure("lint")] };
    let mut strict = Story::unattended();
    strict.answers(red);
    let mut lenient = policy();
    lenient.allow_red_base = true;
    let mut lenient = Story::of(lenient, &[serde_json::json!({"id": "A", "title": "a", "level": 0})]);
    lenient.answers(red);
    insta::assert_snapshot!(format!("{}\n\n{}", strict.told(), lenient.told()));
}

#[test]
fn late_and_repeated_events_are_not_logged() {
    let mut story = Story::unattended();
    story.base_is_green().starts("TASK-001");
    let (effect, _) = story.attempt("TASK-001");
    story.done("TASK-001");
    let told = story.lines.len();
    story.base_is_green();
    let late = |attempt| Event::JobEnded {
        effect,
        task: id("TASK-001"),
        attempt: mahabharatha_core::ids::Attempt(attempt),
        report: report(JobEnd::Done { commit: oid('a') }, 9_000),
    };
    story.happens(late(1)).happens(late(2)).lands(1).gates_pass(1).answers(|effect| Event::Closed { effect });
    let attempt = mahabharatha_core::ids::Attempt(1);
    story.happens(Event::JobStarted { effect, task: id("TASK-001"), attempt, pid: 1 });
    story.starts("TASK-002").starts("TASK-002");
    assert_eq!(story.lines.len(), told + 1, "{}", story.told());
    let asked = || Event::Asked {
        request: "once".to_string(),
        command: Command::Stop { force: true, grace_ms: 0, worker: None },
    };
    story.happens(asked()).ends("TASK-002", JobEnd::Cancelled);
    let told = story.lines.len();
    story.happens(asked()).happens(Event::Woke);
    assert_eq!(story.lines.len(), told, "{}", story.told());
}

#[test]
fn hostile_text_stays_on_its_line() {
    let mut story = Story::unattended();
    story.base_is_green().starts("TASK-001");
    let reason = "\x1b[2J\r\nall done\n\u{202e}".to_string();
    story.ends("TASK-001", JobEnd::Blocked { reason });
    let texts: Vec<&str> = story.lines.iter().map(|line| line.text.as_str()).collect();
    let hint = "TASK-001: answer it: `mahabharatha retry -f tables TASK-001 --note \"…\"`";
    assert_eq!(texts[texts.len() - 2..], ["TASK-001 is blocked: all done \u{fffd}", hint]);
}

#[test]
fn a_resumed_run_logs_its_state_but_not_past_events() {
    let mut story = Story::unattended();
    story.base_is_green().starts("TASK-001").done("TASK-002");
    let mut run: Run = story.run.clone();
    let resumed = Event::Resumed { policy: policy(), intent: Intent::Complete, planning: story.run.planning() };
    run.step(story.now, &resumed);
    let mut log_lines = LogLines::of(&run);
    let told: Vec<String> = log_lines.tell(&resumed, &run).into_iter().map(|line| line.text).collect();
    assert_eq!(
        told,
        [
            "tables resumed: 1 of 3 tasks done, level 1",
            "TASK-001 was under way (attempt 1)",
            "no sandbox is in force: agents, verifications and gates run with your rights",
            "level 1: 1 of 2 tasks, 1 worker",
        ]
    );
    run.step(story.now, &Event::Woke);
    assert_eq!(log_lines.tell(&Event::Woke, &run), []);
    let failure: GateFailure = failure("lint");
    assert_eq!(
        log_lines.tell(&Event::BaseChecked { effect: mahabharatha_core::run::EffectId(0), red: vec![failure] }, &run),
        []
    );
    // Only that there is no sandbox is a warning.
    let warnings = story.lines.iter().filter(|line| line.severity != Severity::Info).count();
    assert_eq!(warnings, 1);
}
