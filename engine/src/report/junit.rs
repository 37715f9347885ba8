//! A run as a JUnit file, for services that show test results: verifications of tasks, and gates.

use std::collections::BTreeMap;
use std::fmt::Write;

use mahabharatha_core::config::Gate;
use mahabharatha_core::ids::Level;
use mahabharatha_core::run::event::{GateFailure, GatePass, Note, verification_name};
use mahabharatha_core::run::{Event, Run};
use mahabharatha_core::view::{AttemptView, RunView, TaskView};

/// Most characters of an output; the logs have all of it.
const MAX_OUTPUT: usize = 16 * 1024;

struct Case {
    name: String,
    seconds: f64,
    result: Outcome,
}

enum Outcome {
    Passed,
    Failed {
        message: String,
        output: String,
    },
    /// Neither passed nor failed: not reached, skipped, or not required.
    Skipped {
        message: String,
    },
}

/// Returns the file. `error` is the reason for which the command that ran it failed.
pub fn junit<'e>(
    run: Option<&Run>,
    events: impl Iterator<Item = &'e Event>,
    gates: &[Gate],
    error: Option<&str>,
) -> String {
    let view = run.map(RunView::of);
    let result = match error {
        None => Outcome::Passed,
        Some(error) => Outcome::Failed { message: error.to_owned(), output: String::new() },
    };
    let seconds = view.as_ref().map(|view| view.elapsed.as_secs_f64()).unwrap_or_default();
    let mut suites = vec![("run".to_owned(), vec![Case { name: "run".to_owned(), seconds, result }])];
    suites.extend(run.zip(view.as_ref()).map(|(run, view)| {
        let cases = view.tasks.iter().map(|task| verification(task, run)).collect();
        ("verifications".to_owned(), cases)
    }));
    suites.extend(gate_suites(events, gates));
    let name = view.as_ref().map_or("mahabharatha", |view| view.feature.as_str());
    let suites: String = suites.iter().map(|(name, cases)| suite(name, cases)).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\">\n{suites}</testsuites>\n",
        escaped(name)
    )
}

fn verification(task: &TaskView, run: &Run) -> Case {
    let spec = run.graph().task(&task.id).map(|task| &task.spec);
    let is_verified = spec.is_some_and(|spec| !spec.verification.is_blank());
    let latest = task.attempts.last();
    let reason = || task.reason.clone().unwrap_or_else(|| task.status.to_owned());
    let result = match task.status {
        "completed" if is_verified => Outcome::Passed,
        "completed" => Outcome::Skipped { message: "completed without a verification".to_owned() },
        "blocked" => Outcome::Failed {
            message: reason(),
            output: latest.and_then(|attempt| attempt.detail.clone()).unwrap_or_default(),
        },
        _ => Outcome::Skipped { message: reason() },
    };
    let seconds = latest.map(|attempt: &AttemptView| attempt.elapsed.as_secs_f64()).unwrap_or_default();
    Case { name: format!("{}: {}", task.id, task.title), seconds, result }
}

/// Returns a suite for the base and for each level, with the results of its latest tree alone.
fn gate_suites<'e>(events: impl Iterator<Item = &'e Event>, gates: &[Gate]) -> Vec<(String, Vec<Case>)> {
    let mut suites: BTreeMap<Option<Level>, BTreeMap<String, Outcome>> = BTreeMap::new();
    // All passes so far: on a tree that it has passed on, a gate is not run again.
    let mut known: Vec<&GatePass> = Vec::new();
    // Failures since the level was last staged or gated that were only reported.
    let mut reported: BTreeMap<Level, Vec<&GateFailure>> = BTreeMap::new();
    for event in events {
        let (level, tree, passed, failed): (_, _, &[GatePass], &[GateFailure]) = match event {
            Event::BaseChecked { red, .. } => (None, None, &[], red),
            Event::Staged { level, .. } => {
                reported.remove(level);
                (Some(level), None, &[], &[])
            }
            Event::GatesPassed { level, candidate, passed, .. } => (Some(level), Some(&candidate.tree), passed, &[]),
            Event::GateFailed { level, failure, passed, .. } => {
                (Some(level), passed.first().map(|pass| &pass.tree), passed, std::slice::from_ref(failure))
            }
            Event::Noted { level: Some(level), note: Note::OnlyReported { failure } } => {
                reported.entry(*level).or_default().push(failure);
                continue;
            }
            _ => continue,
        };
        known.extend(passed);
        let passes = known.iter().filter(|pass| Some(&pass.tree) == tree);
        let passes = passes.flat_map(|pass| names_of(pass, gates)).map(|name| (name, Outcome::Passed));
        let reported = level.and_then(|level| reported.remove(level)).unwrap_or_default();
        let reported = reported.into_iter().map(|failure| (failure.gate.clone(), outcome_of(failure, false)));
        let failures = failed.iter().map(|failure| (failure.gate.clone(), outcome_of(failure, true)));
        suites.insert(level.copied(), passes.chain(reported).chain(failures).collect());
    }
    suites.retain(|_, results| !results.is_empty());
    let name =
        |level: Option<Level>| level.map_or("gates on the base".to_owned(), |level| format!("gates of level {level}"));
    let case = |(name, result)| Case { name, seconds: 0.0, result };
    suites.into_iter().map(|(level, results)| (name(level), results.into_iter().map(case).collect())).collect()
}

/// Returns the names of the gates that passed, which the journal knows by their command.
fn names_of(pass: &GatePass, gates: &[Gate]) -> Vec<String> {
    if let Some(task) = &pass.task {
        return vec![verification_name(task)];
    }
    let same = gates.iter().filter(|gate| gate.command == pass.command);
    let names: Vec<String> = same.map(|gate| gate.name.clone()).collect();
    if names.is_empty() { vec![pass.command.clone()] } else { names }
}

fn outcome_of(failure: &GateFailure, required: bool) -> Outcome {
    if required {
        Outcome::Failed { message: failure.command.clone(), output: failure.output.clone() }
    } else {
        Outcome::Skipped { message: format!("failed, but only reported: {}", failure.command) }
    }
}

fn suite(name: &str, cases: &[Case]) -> String {
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.result)).count();
    let (failures, skipped) = (
        count(|result| matches!(result, Outcome::Failed { .. })),
        count(|result| matches!(result, Outcome::Skipped { .. })),
    );
    let mut text = format!(
        "  <testsuite name=\"{0}\" tests=\"{1}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n",
        escaped(name),
        cases.len()
    );
    for case in cases {
        let inside = match &case.result {
            Outcome::Passed => String::new(),
            Outcome::Failed { message, output } => {
                let output: String = output.chars().take(MAX_OUTPUT).collect();
                format!("<failure message=\"{}\">{}</failure>", escaped(message), escaped(&output))
            }
            Outcome::Skipped { message } => format!("<skipped message=\"{}\"/>", escaped(message)),
        };
        let _ = writeln!(
            text,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">{inside}</testcase>",
            escaped(name),
            escaped(&case.name),
            case.seconds
        );
    }
    text + "  </testsuite>\n"
}

/// Escapes text for XML and leaves out the characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // In an attribute they would become spaces.
            '\n' | '\t' => {
                let _ = write!(escaped, "&#{};", c as u32);
            }
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::EffectId;

    use super::super::support::failure;
    use super::*;

    #[test]
    fn a_run_without_a_journal_has_its_error() {
        insta::assert_snapshot!(junit(None, [].iter(), &[], Some("no <feature>\u{1b}[2J & \"nothing\"\u{ffff}")), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="mahabharatha">
          <testsuite name="run" tests="1" failures="1" errors="0" skipped="0">
            <testcase classname="run" name="run" time="0.000"><failure message="no &lt;feature&gt;[2J &amp; &quot;nothing&quot;"></failure></testcase>
          </testsuite>
        </testsuites>
        "#);
    }

    #[test]
    fn the_latest_result_of_a_gate_counts() {
        let red = Event::BaseChecked { effect: EffectId(0), red: vec![failure("lint")] };
        let green = Event::BaseChecked { effect: EffectId(0), red: Vec::new() };
        let failures = |events: &[Event]| junit(None, events.iter(), &[], None).matches("<failure").count();
        assert_eq!(failures(std::slice::from_ref(&red)), 1);
        assert_eq!(failures(&[red, green]), 0);
    }

    #[test]
    fn the_base_comes_first_and_levels_in_order() {
        let of = |level| Event::GateFailed {
            effect: EffectId(0),
            level: Level(level),
            failure: failure("lint"),
            passed: Vec::new(),
        };
        let base = Event::BaseChecked { effect: EffectId(0), red: vec![failure("lint")] };
        let suites = gate_suites([of(10), of(2), base].iter(), &[]);
        let names: Vec<&str> = suites.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gates on the base", "gates of level 2", "gates of level 10"]);
    }
}
