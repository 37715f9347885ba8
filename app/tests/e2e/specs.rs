//! Graphs and task files: written, imported, checked.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};

/// A task file as a person writes one, in the form of the specification.
fn hand_written(id: &str, level: u32, depends: &str, files: &str, verify: &str) -> String {
    format!(
        "# Task: {id}

## Metadata
- **Level:** {level}
- **Dependencies:** {depends}
- **Files (exclusive):** {files}
- **Estimated tokens:** 2000

## Specification

<task type=\"auto\" id=\"{id}\">
  <name>Write {files}</name>
  <level>{level}</level>
  <depends>{depends}</depends>
  <files>{files}</files>

  <context>
    What to know.
  </context>

  <action>
    What to do.
  </action>

  <verify>
    {verify}
  </verify>

  <done>
    When it is there.
  </done>
</task>

## Interface Contract
fn it() -> &'static str

## Security Requirements
No secret in it.
"
    )
}

fn codes(problems: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    problems["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (text(&problem["code"]), text(&problem["task"])))
        .collect()
}

#[test]
fn task_files_are_written_from_the_graph_at_the_start_of_a_run() {
    let repo = Repo::new();
    let full = with(
        simple("A-1", 1, "a.txt"),
        json!({
            "description": "Say who you are.", "context": "A file.", "action": "Write it.", "done": "It is written.",
            "interface": "one line", "security": "nothing private", "estimate_tokens": 900,
            "acceptance_criteria": ["it has one line"],
        }),
    );
    repo.graph("x", &[full, with(simple("B-1", 2, "b.txt"), json!({ "dependencies": ["A-1"] }))]);
    repo.run(&["run"]).code(0);
    insta::assert_snapshot!(repo.read(".gsd/specs/x/tasks/A-1.md"));
    assert!(repo.read(".gsd/specs/x/tasks/B-1.md").contains("<depends>A-1</depends>"));

    // What was written says the same as the graph that it was written from.
    let before: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    std::fs::create_dir_all(repo.join(".gsd/specs/y/tasks")).unwrap();
    for file in ["A-1.md", "B-1.md"] {
        std::fs::copy(
            repo.join(&format!(".gsd/specs/x/tasks/{file}")),
            repo.join(&format!(".gsd/specs/y/tasks/{file}")),
        )
        .unwrap();
    }
    repo.git(&["rm", "-q", "a.txt", "b.txt"]);
    repo.commit("as before");
    repo.run(&["run", "y"]).code(0);
    let after: Value = serde_json::from_str(&repo.read(".gsd/specs/y/task-graph.json")).unwrap();
    assert_eq!(after["tasks"], before["tasks"]);
}

#[test]
fn hand_written_task_files_are_imported_where_there_is_no_graph() {
    let repo = Repo::new();
    repo.config("agent: scribe\nagents: { scribe: { kind: command, command: [./scribe.sh] } }\n");
    repo.program(
        "scribe.sh",
        "case $MAHABHARATHA_TASK_ID in\n\
         L0-001) mkdir -p src && echo one > src/one.txt && echo changed >> README.md ;;\n\
         *) cat src/one.txt > src/two.txt ;;\nesac\n",
    );
    let specs = ".gsd/specs/x/tasks";
    repo.write(".gsd/.current-feature", "x\n");
    let first = hand_written("L0-001", 0, "none", "src/one.txt, README.md", "grep -q one src/one.txt");
    repo.write(&format!("{specs}/L0-001.md"), &first);
    repo.write(
        &format!("{specs}/L1-001.md"),
        &hand_written("L1-001", 1, "L0-001", "src/two.txt", "cmp src/one.txt src/two.txt"),
    );
    repo.run(&["design", "--validate-only"]).code(0).says("2 tasks on 2 levels");
    assert!(!repo.exists(".gsd/specs/x/task-graph.json"), "to look at it changes nothing");

    repo.run(&["run"]).code(0).says("x is completed");
    let tree = repo.tree("main");
    assert_eq!((tree["src/two.txt"].as_str(), tree["README.md"].as_str()), ("one", "hello\nchanged"));
    let graph: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    // What is there at the start is modified, the rest created.
    assert_eq!(graph["tasks"][0]["files"]["create"], json!(["src/one.txt"]));
    assert_eq!(graph["tasks"][0]["files"]["modify"], json!(["README.md"]));
    assert_eq!(graph["tasks"][0]["interface"], "fn it() -> &'static str");
    assert_eq!(graph["tasks"][1]["dependencies"], json!(["L0-001"]));
    // From now on the graph counts, and the run's own work is not in its way.
    repo.run(&["design", "--validate-only"]).code(0);
}

#[test]
fn every_problem_is_listed_with_its_code() {
    let repo = Repo::new();
    std::os::unix::fs::symlink("/", repo.join("out")).unwrap();
    repo.commit("a link");
    let owns = |id: &str, level: u32, create: &[&str], modify: &[&str], dependencies: &[&str]| {
        with(
            task(id, level, "x", "true"),
            json!({ "files": { "create": create, "modify": modify, "read": [] }, "dependencies": dependencies }),
        )
    };
    repo.graph(
        "x",
        &[
            owns("bad id", 1, &["0"], &[], &[]),
            owns("TWICE", 1, &["1"], &[], &[]),
            owns("TWICE", 1, &["2"], &[], &[]),
            owns("LONELY", 2, &["3"], &[], &["NOBODY"]),
            owns("SAME", 2, &["4"], &[], &["LONELY"]),
            owns("HIGHER", 2, &["5"], &[], &["TOP"]),
            owns("TOP", 3, &["6"], &[], &["HIGHER"]),
            owns("EXACT", 1, &["a/b.txt", "dir/"], &[], &[]),
            owns("DOT", 1, &["a/./b.txt"], &[], &[]),
            owns("SLASH", 1, &["a//b.txt"], &[], &[]),
            owns("CASE", 1, &["A/B.txt"], &[], &[]),
            owns("BELOW", 1, &["dir/file"], &[], &[]),
            owns("ABSOLUTE", 1, &["/etc/x"], &[], &[]),
            owns("ESCAPING", 1, &["../x"], &[], &[]),
            owns("GIT", 1, &[".git/hooks/x"], &[], &[]),
            owns("OURS", 1, &[".mahabharatha/x"], &[], &[]),
            owns("SPECS", 1, &[".gsd/x"], &[], &[]),
            owns("LINK", 1, &["out/x"], &[], &[]),
            owns("EXISTS", 1, &["README.md"], &[], &[]),
            owns("MISSING", 1, &[], &["nowhere.txt"], &[]),
            with(owns("UNCHECKED", 1, &["7"], &[], &[]), json!({ "verification": { "command": "" } })),
        ],
    );
    let text = repo.read(".gsd/specs/x/task-graph.json").replace("\"total_tasks\": 21", "\"total_tasks\": 2");
    repo.write(".gsd/specs/x/task-graph.json", &text);

    let before = repo.everything();
    let found = repo.run(&["design", "--validate-only", "--json"]).code(6).json();
    assert_eq!(repo.everything(), before, "to check changes nothing");
    for problem in found["problems"].as_array().unwrap() {
        for key in ["code", "task", "path", "message", "severity"] {
            assert!(problem.get(key).is_some(), "{key} in {problem}");
        }
    }
    let expected = [
        ("bad_task_id", "bad id"),
        ("duplicate_task_id", "TWICE"),
        ("unknown_dependency", "LONELY"),
        ("dependency_level", "SAME"),
        ("dependency_level", "HIGHER"),
        ("dependency_cycle", "HIGHER"),
        ("path_owned_twice", "DOT"),
        ("path_owned_twice", "SLASH"),
        ("path_owned_twice", "CASE"),
        ("path_owned_twice", "BELOW"),
        ("path_absolute", "ABSOLUTE"),
        ("path_outside", "ESCAPING"),
        ("path_reserved", "GIT"),
        ("path_reserved", "OURS"),
        ("path_reserved", "SPECS"),
        ("path_through_symlink", "LINK"),
        ("create_exists", "EXISTS"),
        ("modify_missing", "MISSING"),
        ("empty_verification", "UNCHECKED"),
        ("total_tasks", ""),
    ];
    let expected = expected.map(|(code, task)| (code.to_string(), task.to_string()));
    assert_eq!(codes(&found), BTreeSet::from(expected));
    let cycle = found["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "dependency_cycle");
    assert!(cycle.unwrap()["message"].as_str().unwrap().contains("`HIGHER` → `TOP` → `HIGHER`"));

    // For people the same, one a line; and a run refuses with all of them.
    let listed = repo.run(&["design", "--validate-only"]).code(6);
    assert_eq!(listed.stdout.lines().count(), found["problems"].as_array().unwrap().len());
    let refused = repo.run(&["run"]).code(6).says("--validate-only");
    for (code, task) in expected_errors(&found) {
        assert!(refused.stderr.contains(&format!("[{code}] {task}")), "{code} {task} is not in {}", refused.stderr);
    }
    assert_eq!(repo.refs(), [""; 0]);
}

fn expected_errors(found: &Value) -> BTreeSet<(String, String)> {
    let mut errors = found.clone();
    errors["problems"].as_array_mut().unwrap().retain(|problem| problem["severity"] == "error");
    codes(&errors)
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_line_and_column() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let graph = ".gsd/specs/x/task-graph.json";
    repo.write(graph, "{\n  \"feature\": \"x\",\n  \"tasks\": [ { \"id\": 7 } ]\n}\n");
    let place = format!("{}:3:22: tasks[0].id:", repo.join(graph).display());
    for args in [&["design", "--validate-only"][..], &["run"], &["run", "--dry-run"]] {
        repo.run(args).code(6).says(&place).says("mahabharatha help task-graph");
    }
    let problem = repo.run(&["design", "--validate-only", "--json"]).code(6).json()["problems"][0].clone();
    assert_eq!((&problem["code"], &problem["line"], &problem["column"]), (&json!("unreadable"), &json!(3), &json!(22)));
    assert_eq!(problem["path"], repo.join(graph).display().to_string());

    repo.write(graph, "{ \"feature\": \"x\", ");
    repo.run(&["run"]).code(6).says(":1:");
    std::fs::write(repo.join(graph), [0xff, 0xfe]).unwrap();
    repo.run(&["run"]).code(6).says("not UTF-8");

    // The same of task files, all of them at once.
    std::fs::remove_file(repo.join(graph)).unwrap();
    repo.run(&["design", "--validate-only", "--json"]).code(6).says("no_graph");
    repo.run(&["run"]).code(6).says("x has no task graph").says("tasks/*.md").says("mahabharatha plan x");
    repo.write(".gsd/specs/x/tasks/A.md", "# Task: A\n\nnothing\n");
    let broken = hand_written("B", 1, "none", "b.txt", "true").replace("<level>1</level>", "<level>one</level>");
    repo.write(".gsd/specs/x/tasks/B.md", &broken);
    let refused = repo.run(&["run"]).code(6).says("tasks/A.md").says("tasks/B.md:");
    assert!(!refused.stderr.contains("panicked"));
    let problems = repo.run(&["design", "--validate-only", "--json"]).code(6).json();
    assert!(problems["problems"].as_array().unwrap().len() >= 2, "{problems}");
}

#[test]
fn a_resumed_run_does_not_trip_over_its_own_work() {
    let repo = Repo::new();
    repo.graph(
        "x",
        &[simple("A", 1, "a.txt"), with(simple("B", 2, "b.txt"), json!({ "run": "test -e go && echo b > b.txt" }))],
    );
    repo.run(&["run"]).code(3);
    assert_eq!(repo.read("a.txt"), "A\n", "level 1 is merged, so a.txt exists now");
    repo.run(&["design", "--validate-only"]).code(0);
    repo.run(&["run", "--dry-run"]).code(0);
    // A task that comes later is held against the same commit.
    let mut tasks = vec![simple("A", 1, "a.txt"), simple("B", 2, "b.txt")];
    tasks.push(with(
        simple("C", 3, "README.md"),
        json!({ "files": { "create": ["README.md"] }, "verification": { "command": "true" } }),
    ));
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(6).says("[create_exists] C");
    tasks.pop();
    repo.graph("x", &tasks);
    repo.run(&["retry", "--all"]).code(0);
    repo.run(&["run"]).code(0).says("B was changed").says("x is completed");
}

#[test]
fn unknown_fields_of_a_graph_survive() {
    let repo = Repo::new();
    let graph = json!({ "feature": "x", "mine": { "deep": [1, 2.50, null] }, "tasks": [
        with(simple("A", 1, "a.txt"), json!({ "owner": "me", "files": { "create": ["a.txt"], "why": "because" } })),
    ]});
    repo.graph("x", &[]);
    repo.write(".gsd/specs/x/task-graph.json", &graph.to_string());
    repo.run(&["run"]).code(0);
    let after: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    assert_eq!(after, graph);
}

#[test]
fn fields_that_nothing_reads_are_warned_about_with_the_nearest_name() {
    let repo = Repo::new();
    let fields = json!({ "depends_on": ["A"], "runn": "true", "files": { "create": ["b.txt"], "reads": [] } });
    repo.graph("x", &[simple("A", 1, "a.txt"), with(simple("B", 2, "b.txt"), fields)]);
    let found = repo.run(&["design", "--validate-only", "--json"]).code(0).json();
    let problems = found["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 3, "{found}");
    assert!(problems.iter().all(|one| one["code"] == "unknown_field" && one["severity"] == "warning"), "{found}");
    for args in [&["design", "--validate-only"][..], &["doctor"], &["run", "--dry-run"], &["run"]] {
        let mut ran = repo.run(args).code(0);
        for name in ["dependencies", "run", "files.read"] {
            ran = ran.says(&format!("did you mean `{name}`?"));
        }
    }
}
