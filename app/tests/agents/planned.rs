//! From an idea to merged code with an agent that has no structured output.

use serde_json::{Value, json};

use crate::bench::{Bench, task, works};
use crate::known;
use crate::model_api::{Ask, Turn, Usage};
use crate::support::with;

const USAGE: Usage = Usage { input: 900, cache_creation: 0, cache_read: 80, output: 7 };

fn requirements() -> Value {
    let story = json!({
        "title": "A visitor reads", "role": "visitor", "capability": "to read", "benefit": "I know",
        "criteria": ["`A-1.txt` exists"], "verification": "test -e A-1.txt",
    });
    json!({ "requirements": { "problem": "There is nothing to read.", "stories": [story] } })
}

fn design() -> Value {
    let more = json!({ "action": "Write it.", "acceptance_criteria": ["AC-1.1"] });
    json!({
        "design": {
            "summary": "One file.", "goals": ["text"], "non_goals": [], "architecture": "A file.", "decisions": [],
            "risks": [], "testing": ["by hand"], "stubs": [],
        },
        "tasks": [with(task("A-1"), more)],
    })
}

fn answers(ask: &Ask) -> Turn {
    let said = |value: Value| Turn::says(&format!("Here it is.\n\n```json\n{value}\n```\n"));
    let turn = match ask.text() {
        text if text.contains("You are a product owner") => said(requirements()),
        text if text.contains("You are a software architect") => said(design()),
        _ => works(ask),
    };
    turn.using(USAGE)
}

#[test]
fn an_idea_becomes_merged_code() {
    let Some(bench) = Bench::new(&known::CODEX, |ask, _| answers(ask)) else { return };
    bench
        .run(&["plan", "reading", "--describe", "Something to read."])
        .code(0)
        .says("asking codex as the product-owner");
    bench.run(&["plan", "reading", "--approve"]).code(0);
    bench.run(&["design", "reading", "--commit"]).code(0).says("asking codex as the architect");
    let planned = bench.repo.status()["planning"]["tokens"].clone();
    assert_eq!(planned, 2 * USAGE.total());
    bench.run(&["run"]).code(0);
    assert_eq!(bench.repo.tree("main")["A-1.txt"], "A-1");
    assert_eq!(bench.repo.status()["tokens"], 4 * USAGE.total());
}
