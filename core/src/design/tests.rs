use serde_json::json;

use super::*;
use crate::graph::{EntryKind, Rules, Severity, StartTree, TaskGraph, trace};
use crate::plan::Plan;
use crate::prompt::architect::{ArchitectInput, architect};
use crate::spec::Requirements;

fn feature() -> Feature {
    Feature::new("shop").unwrap()
}

fn proposal() -> Proposal {
    let task = |id: &str, level: u32, modify: &str, dependencies: &[&str], criterion: &str| {
        json!({
            "id": id, "title": format!("Make \"{id}\" [#1] | <b>"), "level": level, "estimate_minutes": 10,
            "files": { "create": [format!("tests/{id}.sh")], "modify": [modify], "read": [] },
            "dependencies": dependencies, "verification": { "command": format!("sh tests/{id}.sh") },
            "acceptance_criteria": [criterion], "interface": "## As in\n`book.sh`",
        })
    };
    let option = json!({ "name": "SQLite", "pros": "one file", "cons": "one writer" });
    let value = json!({
        "design": {
            "summary": "A shop.\n# Not a heading of ours\n", "goals": ["sells"], "non_goals": ["pays"],
            "architecture": "```\na --> b", "components": [{ "name": "book", "responsibility": "a | b", "files": ["book.sh"] }],
            "data_flow": "in, out",
            "decisions": [{ "title": "Store", "context": "c", "options": [option], "decision": "SQLite", "rationale": "small" }],
            "risks": [{ "risk": "none sold", "probability": "Low", "impact": "High", "mitigation": "ads" }],
            "testing": ["by hand"],
            "stubs": [{ "path": "./book.sh", "content": "sell() { :; }\n", "purpose": "what is sold" }],
            "stub_check": { "command": "sh -n book.sh" },
        },
        "tasks": [task("L0-001", 0, "book.sh", &[], "AC-1.1"), task("L1-001", 1, "cart.sh", &["L0-001"], "other")],
    });
    Proposal::read(value, &feature()).unwrap()
}

fn start() -> StartTree {
    StartTree { entries: [("cart.sh".to_owned(), EntryKind::File), ("link".to_owned(), EntryKind::File)].into() }
}

#[test]
fn a_design_document_has_every_section_and_embedded_text_stays_inside_its_own() {
    let Proposal { design, graph: file } = proposal();
    let (tree, problems) = design.with_stubs(&start());
    assert_eq!(problems, []);
    let (graph, problems) = TaskGraph::check(&file, Some(&tree), Rules::default());
    let graph = graph.unwrap_or_else(|| panic!("{problems:?}"));
    let requirements =
        Requirements::parse("## User Stories\n### Story 1: a\n**Acceptance Criteria:**\n- sells | 1\n- sells 2\n");
    let (criteria, _) = trace(&requirements, &file);
    let plan = Plan::new(&graph, 2);
    let page = Page {
        design: &design,
        graph: &graph,
        plan: &plan,
        criteria: &criteria,
        created: "2026-02-11",
        author: "claude",
        approval: "approved",
    };
    insta::assert_snapshot!(design_document(&page));
    insta::assert_snapshot!(serde_json::to_string_pretty(&design_manifest(&graph)).unwrap());
}

#[test]
fn stubs_never_replace_existing_paths() {
    let stub = |path: &str| Stub { path: path.to_owned(), ..Stub::default() };
    let paths = ["cart.sh", "link/x", "../x", ".gsd/x", "dir/", "new.sh", "New.sh", "a/new.sh"];
    let design = Design { stubs: paths.map(stub).to_vec(), ..Design::default() };
    let (tree, problems) = design.with_stubs(&start());
    let codes: Vec<(&str, &str)> =
        problems.iter().map(|problem| (problem.code, problem.path.as_deref().unwrap())).collect();
    let expected = [
        ("stub_exists", "cart.sh"),
        ("stub_exists", "link/x"),
        ("path_outside", "../x"),
        ("path_reserved", ".gsd/x"),
        ("bad_stub", "dir/"),
        ("stub_exists", "New.sh"),
    ];
    assert_eq!(codes, expected);
    assert_eq!(tree.entries.len(), 4);
}

#[test]
fn a_skeleton_is_a_valid_graph_that_no_run_starts() {
    let Proposal { graph: file, .. } = skeleton(&feature());
    let (graph, problems) = TaskGraph::check(&file, Some(&start()), Rules::default());
    assert!(problems.iter().all(|problem| problem.severity == Severity::Warning), "{problems:?}");
    let graph = graph.unwrap();
    assert_eq!(graph.levels().len(), 5);
    assert!(graph.tasks().iter().all(|task| task.spec.foreground));
    for (_, purpose) in LEVELS {
        assert!(graph.tasks().iter().any(|task| task.spec.description.as_ref().unwrap().contains(purpose)));
    }
    let named: Vec<_> = unfilled(&file).into_iter().map(|problem| (problem.code, problem.task.unwrap())).collect();
    assert_eq!(named, ["L0-001", "L1-001", "L2-001", "L3-001", "L4-001"].map(|id| ("unfilled_task", id.to_owned())));
    let mut task = file.tasks[0].clone();
    task.title = "Routes by {id}".to_owned();
    (task.context, task.action, task.done) = (None, Some("Write it.".to_owned()), None);
    (task.acceptance_criteria, task.files.create) = (Vec::new(), vec!["routes.rs".to_owned()]);
    let filled = GraphFile { tasks: vec![task.clone()], ..file.clone() };
    assert_eq!(unfilled(&filled), []);
    task.files.create.push("path/to/level-0".to_owned());
    let left = unfilled(&GraphFile { tasks: vec![task], ..file });
    assert_eq!(left[0].message, "still has placeholders: path/to/level-0");
}

#[test]
fn the_architect_prompt_has_the_levels_the_criteria_and_the_problems() {
    let feature = feature();
    let requirements = "## User Stories\n### Story 1: a\n**Acceptance Criteria:**\n- prints 1\n";
    let problems = ["[file_conflict] two tasks own a".to_owned()];
    let rules = Rules::default();
    let rejected = Some(("{}", &problems[..]));
    let input = ArchitectInput { feature: &feature, requirements, documents: &[], rules, rejected };
    let text = architect(&input);
    for part in
        ["Level 0, Foundations", "Level 4, Verification", "AC-1.1: prints 1", "two tasks own a", "\"stub_check\""]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let in_order = architect(&ArchitectInput { rules: Rules { sequential: true }, ..input });
    for (text, expected) in [(text, (true, false)), (in_order, (false, true))] {
        assert_eq!(
            (text.contains("one owner in the whole graph"), text.contains("one depends on the other")),
            expected
        );
    }
}

#[test]
fn an_unreadable_answer_is_reported_with_its_path() {
    let read = |value| Proposal::read(value, &feature()).unwrap_err();
    assert!(read(json!({})).contains("missing field `tasks`"));
    assert!(
        read(json!({ "tasks": [{ "id": "A", "title": "t", "level": "1" }] }))
            .starts_with("tasks[0].level: invalid type")
    );
    assert!(read(json!({ "design": { "stubs": 1 }, "tasks": [] })).starts_with("design.stubs: invalid type"));
}
