use super::*;

struct Level5 {
    base: Oid,
    staging: Oid,
    commits: Vec<TaskCommit>,
}

/// Stages tasks A to E, which each write their file; D's file is bad.
fn level(lab: &Lab, integration: &Integration) -> Level5 {
    let base = lab.oid("trunk");
    let tasks = ["A", "B", "C", "D", "E"].map(|id| {
        let text = if id == "D" { "bad" } else { "good" };
        lab.writes(id, &base, &format!("{}.txt", id.to_lowercase()), text)
    });
    let (staging, commits) = integration.staged(&base, &tasks);
    Level5 { base, staging, commits }
}

fn failed(level: &Level5, command: &str, output: &str) -> GateFailure {
    GateFailure {
        gate: "g".into(),
        command: command.into(),
        output: output.into(),
        cause: None,
        denied: false,
        staging: level.staging.clone(),
        task: None,
        clean: false,
    }
}

fn blamed(integration: &Integration, level: &Level5, failure: &GateFailure) -> (Option<TaskId>, String) {
    let Blame { task, why } = done(integration.blame(&level.base, failure, &level.commits).unwrap());
    (task, why)
}

#[test]
fn the_owner_of_the_only_named_file_is_blamed() {
    let lab = Lab::new();
    let integration = lab.integration();
    let level = level(&lab, &integration);
    let output = format!("{}:3: trailing space\ntool.sh is fine", lab.staging("c.txt").display());
    let (task_id, why) = blamed(&integration, &level, &failed(&level, "false", &output));
    assert_eq!((task_id, why.as_str()), (Some(task("C")), "the output names c.txt"));
    assert_eq!(lab.ran(), [""; 0], "nothing was tried");
}

#[test]
fn commits_are_bisected_if_several_tasks_or_none_are_named() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let level = level(&lab, &integration);
    let command = "! grep -q bad *.txt";
    integration.gates = vec![gate("g", command)];
    for output in ["a.txt and b.txt", "something is wrong"] {
        let before = lab.ran().len();
        let (task_id, why) = blamed(&integration, &level, &failed(&level, command, output));
        assert_eq!(task_id, Some(task("D")), "{why}");
        assert!(lab.ran().len() - before <= 3, "⌈log₂ 5⌉ is 3: {:?}", lab.ran());
    }
}

#[test]
fn bisection_finds_every_task() {
    let lab = Lab::new();
    let integration = lab.integration();
    let level = level(&lab, &integration);
    for (id, file) in [("A", "a"), ("B", "b"), ("C", "c"), ("E", "e")] {
        let before = lab.ran().len();
        let command = format!("! grep -q good {file}.txt");
        assert_eq!(blamed(&integration, &level, &failed(&level, &command, "")).0, Some(task(id)));
        assert!(lab.ran().len() - before <= 3);
    }
}

#[test]
fn a_verification_is_bisected_with_its_task_in_the_environment() {
    let lab = Lab::new();
    let integration = lab.integration();
    let level = level(&lab, &integration);
    let command = "test \"$MAHABHARATHA_TASK_ID\" = A && ! grep -q bad d.txt";
    let failure = GateFailure { task: Some(task("A")), ..failed(&level, command, "") };
    assert_eq!(blamed(&integration, &level, &failure).0, Some(task("D")));
}

#[test]
fn the_only_task_is_blamed_without_running_the_gate() {
    let lab = Lab::new();
    let integration = lab.integration();
    let mut level = level(&lab, &integration);
    level.commits.truncate(1);
    assert_eq!(blamed(&integration, &level, &failed(&level, "false", "")).0, Some(task("A")));
    level.commits.clear();
    assert_eq!(blamed(&integration, &level, &failed(&level, "false", "")).0, None);
    assert_eq!(lab.ran(), [""; 0]);
}

#[test]
fn no_task_is_blamed_for_a_failure_of_the_base() {
    let lab = Lab::new();
    let integration = lab.integration();
    let level = level(&lab, &integration);
    lab.write("person.txt", "bad");
    lab.commit("a person's");
    let (task_id, why) = blamed(&integration, &level, &failed(&level, "! grep -q bad person.txt", ""));
    assert_eq!(task_id, None);
    assert!(why.contains("trunk itself"), "{why}");
    // If the base is green, the level is bisected together with it.
    let (task_id, why) = blamed(&integration, &level, &failed(&level, "test -e person.txt && ! grep -q bad d.txt", ""));
    assert_eq!(task_id, Some(task("D")), "{why}");
}

#[test]
fn the_reason_is_reported_if_bisection_is_impossible() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let level = level(&lab, &integration);
    lab.write("a.txt", "a conflict");
    lab.commit("a person's");
    let (task_id, why) = blamed(&integration, &level, &failed(&level, "! grep -q bad d.txt", ""));
    assert_eq!(task_id, None);
    assert!(why.contains("conflicts with trunk"), "{why}");

    integration.prepare = Some("! grep -q good b.txt".into());
    let (task_id, why) = blamed(&integration, &level, &failed(&level, "! grep -q bad d.txt", ""));
    assert_eq!((task_id, why.contains("conflicts")), (None, true), "{why}");
}

#[test]
fn a_failed_prepare_is_bisected_like_a_gate() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let level = level(&lab, &integration);
    integration.prepare = Some("! grep -q good b.txt".into());
    let failure = failure(integration.gated(&lab, &level.base, &level.staging, &[]));
    assert_eq!(blamed(&integration, &level, &failure).0, Some(task("B")));
    // If `merge.prepare` fails during bisection, other gates cannot be bisected.
    let (task_id, why) = blamed(&integration, &level, &failed(&level, "! grep -q bad d.txt", ""));
    assert_eq!(task_id, None);
    assert!(why.contains("merge.prepare"), "{why}");
}

#[test]
fn bisection_can_be_cancelled() {
    let lab = Lab::new();
    let integration = lab.integration();
    let level = level(&lab, &integration);
    integration.cancel.cancel(Duration::ZERO);
    let outcome = integration.blame(&level.base, &failed(&level, "false", ""), &level.commits).unwrap();
    assert_eq!(outcome, Outcome::Cancelled);
}
