//! The slash commands and agents as the client takes them.

use serde_json::json;

use crate::client::Bench;
use crate::messages_api::{Api, Reply, bash};

/// Requirements that lack nothing.
pub const REQUIREMENTS: &str = "# Feature: greet

## Problem Statement
People are not greeted.

## User Stories

### Story 1: A visitor is greeted
**As a** visitor
**I want** a greeting
**So that** I feel welcome

**Acceptance Criteria:**
- [ ] greet.sh prints hello

**Verification:**
```bash
sh greet.sh | grep -x hello
```
";

/// Every slash command.
pub const NAMES: [&str; 15] = [
    "init",
    "plan",
    "design",
    "kurukshetra",
    "status",
    "worker",
    "merge",
    "stop",
    "retry",
    "cleanup",
    "debug",
    "logs",
    "estimate",
    "review",
    "git",
];

#[test]
fn every_command_is_known_under_both_names_and_nothing_else_is_a_command() {
    let api = Api::start(|_| Reply::says("Understood."));
    let Some(bench) = Bench::installed(api, "") else { return };
    let lines: Vec<String> =
        ["mahabharatha", "z"].iter().flat_map(|prefix| NAMES.map(|name| format!("/{prefix}:{name} one two"))).collect();
    let talk = bench.talk(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let listed = |name: &str| {
        let all = talk.init()[name].as_array().unwrap().iter();
        all.map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut ours: Vec<String> = listed("slash_commands").into_iter().filter(|name| name.contains(':')).collect();
    ours.sort();
    let mut expected: Vec<String> =
        lines.iter().map(|line| line.split(' ').next().unwrap().trim_start_matches('/').to_owned()).collect();
    expected.sort();
    assert_eq!(ours, expected);
    for agent in ["scout", "product-owner", "architect", "worker", "gatekeeper"] {
        assert!(listed("agents").contains(&agent.to_owned()), "{agent}");
    }
    let asked = bench.api.asked();
    assert_eq!(asked.len(), lines.len());
    for (ask, line) in asked.iter().zip(&lines) {
        let last = ask.last();
        let name = line.split([':', ' ']).nth(1).unwrap();
        let heading = format!("# {}{}\n", name[..1].to_uppercase(), &name[1..]);
        assert!(last.contains(&heading) && last.contains("Arguments: one two"), "{line}: {last}");
        assert!(last.contains("FEATURE=${ZERG_FEATURE:-$(cat .gsd/.current-feature 2>/dev/null)}"), "{last}");
    }
}

#[test]
fn agents_have_their_models_and_no_more_tools_than_they_need() {
    let agents = ["scout", "product-owner", "architect", "worker", "gatekeeper"];
    let api = Api::start(move |ask| match (ask.is_main(), ask.turn()) {
        (true, 0) => Reply::of(
            agents
                .map(|name| json!({ "description": name, "prompt": format!("For {name}."), "subagent_type": name }))
                .map(|input| crate::messages_api::tool_use("Agent", input))
                .into(),
        ),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.talk(&["Go."]);
    let asked = bench.api.asked();
    for (name, model, tools) in [
        ("scout", "haiku", &["Glob", "Grep", "Read"][..]),
        ("product-owner", "sonnet", &["Glob", "Grep", "Read"]),
        ("architect", "sonnet", &["Glob", "Grep", "Read"]),
        ("worker", "sonnet", &["Bash", "Edit", "Glob", "Grep", "Read", "Write"]),
        ("gatekeeper", "sonnet", &["Bash", "Glob", "Grep", "Read"]),
    ] {
        let ask = asked.iter().find(|ask| !ask.is_main() && ask.text().contains(&format!("For {name}."))).unwrap();
        assert!(ask.body["model"].as_str().unwrap().contains(model), "{name}");
        // With Bash the client offers no Glob and Grep of their own.
        for tool in ask.tools() {
            assert!(tools.contains(&tool.as_str()), "{name} has {tool}");
        }
    }
}

#[test]
fn a_plan_stops_at_the_approval_and_says_so_before_anything_else() {
    let api = Api::start(|ask| match ask.turn() {
        0 => {
            let path = ask.cwd().join(".mahabharatha/drafts/greet.md");
            Reply::uses("Write", json!({ "file_path": path, "content": REQUIREMENTS }))
        }
        1 => bash("mahabharatha plan greet --from .mahabharatha/drafts/greet.md --agent none"),
        2 => Reply::uses(
            "AskUserQuestion",
            json!({ "questions": [{
                "question": "Do you approve these requirements?", "header": "Approval", "multiSelect": false,
                "options": [
                    { "label": "Approve", "description": "Lock requirements and stop. You will run /mahabharatha:design separately." },
                    { "label": "Request changes", "description": "Describe what needs to change" },
                ],
            }] }),
        ),
        3 => {
            // What the command says is to be printed, word by word.
            let text = ask.text();
            let banner = text.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap_or_default();
            let call = json!({ "command": "mahabharatha plan greet --approve", "description": "approve" });
            Reply::of(vec![json!({ "type": "text", "text": banner }), crate::messages_api::tool_use("Bash", call)])
        }
        _ => Reply::says("The requirements are locked."),
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    let talk = bench.talk(&["/mahabharatha:plan greet people"]);
    let course = talk.course();
    let at = course.iter().position(|said| said.contains("⛔ PLANNING COMPLETE")).unwrap();
    assert_eq!(course[..at], ["→ Write", "→ Bash", "→ AskUserQuestion"]);
    assert_eq!(course[at + 1..], ["→ Bash", "The requirements are locked."]);
    assert_eq!(talk.errors(), [""; 0]);
    assert!(bench.repo.read(".gsd/specs/greet/requirements.md").contains("greet.sh prints hello"));
    assert!(bench.repo.exists(".gsd/specs/greet/approval.json"));
    let seen = bench.repo.git(&["status", "--porcelain", "-uall"]);
    assert!(!seen.contains("drafts"), "{seen}");
    assert_eq!(talk.asked.len(), 1, "nothing but the question needed the person: {:?}", talk.asked);
}
