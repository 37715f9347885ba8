use proptest::prelude::*;

use super::*;
use crate::severity::Severity;

const DEMO: &str = include_str!("../../../../app/assets/demo/requirements.md");

#[test]
fn the_demo_requirements_round_trip_byte_for_byte() {
    let read = Requirements::parse(DEMO);
    assert_eq!(read.feature, "statistics");
    assert_eq!(read.stories[0].title, "A person can describe a list of numbers");
    assert_eq!(read.stories[0].benefit, "I need no other program");
    assert_eq!(read.stories[0].criteria.len(), 3);
    assert_eq!(read.stories[0].verification, "sh tests/run.sh");
    assert_eq!(read.constraints, ["POSIX sh only; whole numbers"]);
    assert!(read.dependencies.is_empty() && read.notes.is_empty());
    assert_eq!(read.to_markdown(), DEMO);
    assert_eq!(read.check(), []);
}

#[test]
fn other_spellings_of_the_sections_are_understood() {
    let text = "\u{feff}# Login\r\n\r\n## Problem\r\nPeople cannot log in.\r\n## Stories\r\nSome words.\r\n### Log in\r\n\
        As a: user\r\n**I want:** to log in\r\n**Acceptance criteria**\r\n* [x] prints `ok`\r\n  at once\r\n- another one here\r\n\
        **Verification:** `make test`\r\n## Design ideas\r\n### A\r\ncookies\r\n## Constraints\r\nNone\r\n";
    let read = Requirements::parse(text);
    assert_eq!((read.feature.as_str(), read.problem.as_str()), ("Login", "People cannot log in."));
    let story = &read.stories[0];
    assert_eq!((story.title.as_str(), story.role.as_str(), story.capability.as_str()), ("Log in", "user", "to log in"));
    assert_eq!(story.criteria, ["prints `ok` at once", "another one here"]);
    assert_eq!(story.verification, "make test");
    let notes = [("Notes", "Some words."), ("Design ideas", "### A\ncookies")];
    assert_eq!(read.notes, notes.map(|(title, text)| (title.to_owned(), text.to_owned())));
    assert!(read.constraints.is_empty());
    assert_eq!(Requirements::parse(&read.to_markdown()), read);
}

#[test]
fn everything_that_is_missing_is_reported() {
    let codes =
        |requirements: &Requirements| -> Vec<&str> { requirements.check().iter().map(|gap| gap.code).collect() };
    assert_eq!(codes(&Requirements::default()), ["no_problem", "no_stories"]);
    let mut read = Requirements::parse(DEMO);
    read.stories.push(Story::default());
    read.open_questions.push("which colour?".to_owned());
    let bare =
        ["incomplete_story", "incomplete_story", "incomplete_story", "no_criteria", "no_verification", "open_question"];
    assert_eq!(codes(&read), bare);
    let template = Requirements::template("x", "");
    assert_eq!(template.check().iter().filter(|gap| gap.code == "placeholder").count(), PLACEHOLDERS.len());
    assert!(template.check().iter().all(|gap| gap.severity == Severity::Error));
    assert!(!Requirements::template("x", "Why.").to_markdown().contains(PLACEHOLDERS[0]));
}

#[test]
fn a_vague_criterion_is_reported_by_its_id() {
    let mut read = Requirements::parse(DEMO);
    read.stories[0].criteria = [
        "It is fast",
        "It answers within 200 ms, which is fast",
        "It works as expected by users",
        "Errors",
        "`x --help` is simple",
        "Every unknown option is refused",
    ]
    .map(str::to_owned)
    .to_vec();
    let vague: Vec<String> = read.check().into_iter().filter_map(|gap| gap.place).collect();
    assert_eq!(vague, ["AC-1.1", "AC-1.3", "AC-1.4"]);
    assert_eq!(read.criteria().nth(1).unwrap().id, "AC-1.2");
}

fn line() -> impl Strategy<Value = String> {
    "[a-zA-Z#`{][a-zA-Z0-9 #`*:{}-]{0,20}[a-z]".prop_map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn a_title_may_end_in_hash_signs() {
    let mut read = Requirements::parse("# Feature: C#\n");
    assert_eq!(read.feature, "C#");
    assert_eq!(Requirements::parse("# Feature: C ##\n").feature, "C");
    read.feature = "C # #".to_owned();
    assert!(read.to_markdown().starts_with("# Feature: C\n"));
}

proptest! {
    #[test]
    fn requirements_round_trip_through_markdown(
        problem in proptest::collection::vec(line(), 1..4),
        title in "[a-z]{3,9}",
        capability in line(),
        criteria in proptest::collection::vec("[a-z`][a-z0-9 `#]{1,20}[a-z]", 1..4),
        command in proptest::collection::vec("[a-z#`]{1,9}", 1..3),
        dependencies in proptest::collection::vec("[a-z]{5,9}", 0..3),
    ) {
        let one = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let requirements = Requirements {
            feature: "x".to_owned(),
            // Avoid open fences: closing one adds a line.
            problem: problem.join("\n").replace("```", "``"),
            stories: vec![Story {
                title,
                capability: one(&capability),
                criteria: criteria.iter().map(one).collect(),
                verification: command.join("\n"),
                ..Story::default()
            }],
            dependencies,
            ..Requirements::default()
        };
        prop_assert_eq!(Requirements::parse(&requirements.to_markdown()), requirements);
    }

    #[test]
    fn any_text_is_read_and_what_is_written_stays_the_same(text in "[\\PC\n#*`>-]{0,400}") {
        let once = Requirements::parse(&text).to_markdown();
        let twice = Requirements::parse(&once).to_markdown();
        prop_assert_eq!(Requirements::parse(&twice).to_markdown(), twice);
    }
}
