//! One table of cases that every agent passes: one run, with one task for each case.

use std::path::Path;

use serde_json::{Value, json};

use crate::bench::{Agent, Bench, task};
use crate::model_api::{Ask, Turn, Usage};
use crate::support::{Ran, with};

struct Case {
    id: &'static str,
    /// What the model does other than writing the task's file and saying that it is done. The directory is outside of the
    /// project.
    model: fn(&Ask, &Path) -> Option<Turn>,
    /// What must hold after the run; every task must be done by then.
    holds: fn(&Seen<'_>),
}

/// What a run left behind of a case.
struct Seen<'a> {
    bench: &'a Bench,
    ran: &'a Ran,
    id: &'static str,
    task: Value,
}

/// Figures that cannot be confused with any others.
const FIRST: Usage = Usage { input: 10_000, cache_creation: 0, cache_read: 2_000, output: 300 };
const SECOND: Usage = Usage { input: 40_000, cache_creation: 0, cache_read: 5_000, output: 600 };

/// The end of a prompt that is longer than one argument of a program may be.
const LAST_LINE: &str = "the last line of a long description";

const CASES: [Case; 9] = [
    Case {
        id: "WRITE",
        model: |ask, _| match ask.turn {
            0 => Some(Turn::writes(&ask.file("WRITE.txt"), "WRITE\n").using(FIRST)),
            _ => Some(Turn::says("Done.").using(SECOND)),
        },
        holds: |seen| {
            seen.outcomes(&["done"]);
            seen.tokens(FIRST.total() + SECOND.total());
            seen.asked_for_its_model();
        },
    },
    Case {
        id: "LONG",
        model: |_, _| None,
        holds: |seen| {
            seen.outcomes(&["done"]);
            assert!(seen.bench.api.asked_about(seen.id)[0].text().contains(LAST_LINE));
        },
    },
    Case {
        id: "SHELL",
        model: |ask, _| (ask.turn == 0).then(|| Turn::runs("echo SHELL > SHELL.txt")),
        holds: |seen| seen.outcomes(&["done"]),
    },
    // Refused by the agent's own rules, or found afterwards; then the next attempt does not try.
    Case {
        id: "UNOWNED",
        model: |ask, _| {
            let other = || Turn::writes(&ask.file("other.txt"), "mine now\n");
            match (ask.attempt().as_str(), ask.turn) {
                // Without tools, there is only one turn.
                ("1", 0) if !ask.has_tools() => Some(crate::bench::works(ask).and(other())),
                ("1", 1) => Some(other()),
                _ => None,
            }
        },
        holds: |seen| seen.is_done_within(2),
    },
    Case {
        id: "OUTSIDE",
        model: |ask, outside| {
            let writes = || Turn::writes(&format!("{}/written", outside.display()), "mine now\n");
            match (ask.attempt().as_str(), ask.turn) {
                ("1", 0) if !ask.has_tools() => Some(crate::bench::works(ask).and(writes())),
                _ if !ask.has_tools() => None,
                ("1", 1) => Some(writes()),
                ("1", 2) => Some(Turn::runs(&format!("echo mine now > {}/echoed", outside.display()))),
                _ => None,
            }
        },
        holds: |seen| {
            seen.is_done_within(2);
            assert_eq!(seen.bench.outside.path().read_dir().unwrap().count(), 0);
        },
    },
    Case {
        id: "LOGIN",
        model: |ask, _| (ask.attempt() == "1").then(|| Turn::fails(401)),
        holds: |seen| {
            seen.outcomes(&["unserved", "done"]);
            seen.says("401");
        },
    },
    Case {
        id: "LIMIT",
        model: |ask, _| (ask.turn == 0 && ask.tries < 2).then_some(Turn::Fails { status: 429, retry_after: Some(1) }),
        holds: |seen| seen.outcomes(&["done"]),
    },
    Case {
        id: "BROKEN",
        // With a time, because agents that wait by themselves wait for minutes.
        model: |ask, _| (ask.attempt() == "1").then_some(Turn::Fails { status: 503, retry_after: Some(1) }),
        holds: |seen| seen.is_done_within(2),
    },
    Case {
        id: "CUT",
        model: |ask, _| (ask.turn == 0 && ask.tries == 0).then_some(Turn::Cut),
        holds: |seen| seen.is_done_within(2),
    },
];

impl Seen<'_> {
    fn attempts(&self) -> &[Value] {
        self.task["attempts"].as_array().unwrap()
    }

    fn outcomes(&self, expected: &[&str]) {
        let outcomes: Vec<&str> = self.attempts().iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, expected, "{:#}", self.task);
    }

    fn is_done_within(&self, attempts: usize) {
        assert!(self.attempts().len() <= attempts, "{:#}", self.task);
    }

    /// Titles and the like may come from another model.
    fn asked_for_its_model(&self) {
        let agent = self.bench.agent;
        let asked = self.bench.api.asked_about(self.id).into_iter().filter(|ask| ask.has_tools() || !agent.has_tools);
        let models: Vec<String> = asked.map(|ask| ask.model).collect();
        assert!(agent.model.is_empty() || models.iter().all(|model| model == agent.model), "{models:?}");
    }

    /// Of every agent that says what it uses.
    fn tokens(&self, expected: u64) {
        let expected = if self.bench.agent.tells_tokens { expected } else { 0 };
        assert_eq!(self.task["tokens"], expected, "{:#}", self.task);
    }

    /// The first attempt's report says this, and so does the run.
    fn says(&self, text: &str) {
        assert!(self.attempts()[0]["detail"].as_str().unwrap().contains(text), "{:#}", self.task);
        let said = self.ran.stderr.lines().any(|line| line.contains(self.id) && line.contains(text));
        assert!(said, "{}", self.ran.stderr);
    }
}

/// What the model does in the case that the task is about.
fn model(ask: &Ask, outside: &Path) -> Turn {
    let case = CASES.iter().find(|case| case.id == ask.task());
    case.and_then(|case| (case.model)(ask, outside)).unwrap_or_else(|| crate::bench::works(ask))
}

pub fn passes(agent: &'static Agent) {
    let Some(bench) = Bench::new(agent, model) else { return };
    let cases: Vec<&Case> = CASES.iter().filter(|case| !agent.leaves_out.contains(&case.id)).collect();
    let described = |case: &&Case| match case.id {
        "LONG" => {
            let lines = "A line of a long description.\n".repeat(6_000);
            with(task(case.id), json!({ "description": format!("{lines}{LAST_LINE}\n") }))
        }
        id => task(id),
    };
    bench.repo.graph("x", &cases.iter().map(described).collect::<Vec<_>>());
    let ran = bench.run(&["run"]).code(0);
    for case in &cases {
        let seen = Seen { bench: &bench, ran: &ran, id: case.id, task: bench.repo.task(case.id) };
        (case.holds)(&seen);
    }
    let mut files: Vec<String> = cases.iter().map(|case| format!("{}.txt", case.id)).collect();
    files.sort();
    let landed: Vec<String> = bench.repo.tree("main").into_keys().filter(|name| name.ends_with(".txt")).collect();
    assert_eq!(landed, files);
}
