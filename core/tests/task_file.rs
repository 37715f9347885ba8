//! Task files: written for people, read from people.

use mahabharatha_core::spec::{
    FileLists, GraphFile, SpecError, TaskSpec, Verification, import_tasks, parse_task_file, write_task_file,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn parse(text: &str) -> Result<TaskSpec, SpecError> {
    parse_task_file(text, |path| matches!(path, "src/old.rs" | "docs"))
}

fn full() -> TaskSpec {
    let task = json!({
        "id": "L1-002", "title": "Add the `Store` type", "level": 1,
        "files": { "create": ["src/store.rs"], "modify": ["src/old.rs", "docs/"], "read": ["src/types.rs"] },
        "dependencies": ["L0-001", "L0-002"],
        "verification": { "command": "cargo test store && grep -q 'struct Store<T>' src/store.rs", "timeout_seconds": 30 },
        "description": "A typed store.", "context": "Read `src/types.rs` first.",
        "action": "1. Write it.\n2. Test it:\n\n   ```sh\n   cargo test\n   ```", "done": "All green.",
        "interface": "```rust\n# [derive]\npub struct Store<T>;\n```", "security": "- No `unsafe`.",
        "acceptance_criteria": ["Stores", "Loads & <restores>"],
        "estimate_minutes": 2.5, "estimate_tokens": 1200, "agent": "mine", "model": "opus", "effort": "high",
        "fallback_model": "sonnet", "run": "./gen.sh > src/store.rs",
        "notes": "Ask Ada.",
    });
    serde_json::from_value(task).expect("the test's own task is well-formed")
}

#[test]
fn a_task_is_written_in_the_known_form() {
    let expected = r#"# Task: L1-002

## Metadata
- **Level:** 1
- **Dependencies:** L0-001, L0-002
- **Files (exclusive):** src/store.rs, src/old.rs, docs/
- **Estimated tokens:** 1200
- **Estimated minutes:** 2.5
- **Creates:** src/store.rs
- **Modifies:** src/old.rs, docs/
- **Reads:** src/types.rs
- **Verification timeout:** 30 seconds
- **Agent:** mine
- **Model:** opus
- **Effort:** high
- **Fallback model:** sonnet

## Specification

<task type="auto" id="L1-002">
  <name>Add the `Store` type</name>
  <level>1</level>
  <depends>L0-001, L0-002</depends>
  <files>src/store.rs, src/old.rs, docs/</files>

  <description>
    A typed store.
  </description>

  <context>
    Read `src/types.rs` first.
  </context>

  <action>
    1. Write it.
    2. Test it:

       ```sh
       cargo test
       ```
  </action>

  <run>
    ./gen.sh > src/store.rs
  </run>

  <verify>
    cargo test store && grep -q 'struct Store<T>' src/store.rs
  </verify>

  <done>
    All green.
  </done>

  <notes>
    Ask Ada.
  </notes>
</task>

## Acceptance Criteria

- [ ] Stores
- [ ] Loads & <restores>

## Interface Contract

```rust
# [derive]
pub struct Store<T>;
```

## Security Requirements

- No `unsafe`.

## Failure Analysis

The test failed.

\## Security Requirements
None.
"#;
    let written = write_task_file(&full(), Some("The test failed.\n\n## Security Requirements\nNone.\n"));
    assert_eq!(written, expected);
    assert_eq!(parse(&written), Ok(full()));
    assert_eq!(parse(&written.replace('\n', "\r\n")), Ok(full()));
}

#[test]
fn the_least_task_is_written_and_read() {
    let task = parse("<task id=\"A\"><level>0</level></task>").unwrap();
    assert_eq!((task.title.as_str(), task.verification.timeout_seconds, task.foreground), ("A", 300, false));
    let written = write_task_file(&task, None);
    assert!(
        written.contains("- **Dependencies:** none\n- **Files (exclusive):** none\n- **Estimated tokens:** unknown\n")
    );
    assert_eq!(parse(&written), Ok(task));
}

#[test]
fn a_hand_written_file_is_understood() {
    let text = r#"# Task: L0-001

Some words nobody needs.

## Metadata
- **Level:** 3
- **Dependencies:** nobody
- **Reads:**
  - `src/a.rs`
  - src/b.rs
- **Estimated tokens:** ~1,200

## Specification

```xml
<!-- the block -->
<task id='L0-001'
      type=auto>
  <!-- <name>Old</name> -->
  <level> L0 </level>
  <name>
    A name on
    two lines
  </name>
  <files>
    - `src/new.rs`
    - ./src/old.rs
    - docs/**
  </files>
  <depends>none</depends>
  <action>Use <T> and a < b && c.
    - one </name>
      - two
  </action>
  <verify>
    ```bash
    cargo test && test 1 -lt 2 > log
    ```
  </verify>
  <hints>Look &lt;there&gt;</hints>
  <done/>
</task>
```

## Notes:
Mind the gap.

## Interface Contract
```python
# Interface
def f(): ...
```

## security requirements
None

## Acceptance Criteria
- [ ] it works
  on two lines
* [x] it is fast

## Failure analysis
## Security Requirements
"#;
    let task = parse(text).unwrap();
    let expected = json!({
        "id": "L0-001", "title": "A name on two lines", "level": 0,
        "files": { "create": ["src/new.rs"], "modify": ["./src/old.rs", "docs/**"], "read": ["src/a.rs", "src/b.rs"] },
        "dependencies": [], "verification": { "command": "cargo test && test 1 -lt 2 > log", "timeout_seconds": 300 },
        "context": "## Notes\n\nMind the gap.", "action": "Use <T> and a < b && c.\n- one </name>\n  - two",
        "interface": "```python\n# Interface\ndef f(): ...\n```",
        "acceptance_criteria": ["it works on two lines", "it is fast"],
        "estimate_tokens": 1200, "hints": "Look <there>",
    });
    assert_eq!(serde_json::to_value(task).unwrap(), expected);
}

#[test]
fn the_metadata_says_what_the_block_does_not() {
    let text = "- **Level**: 2\n* Depends on: A, B\n- Files (exclusive): `src/old.rs`, x\n- Verification: `make`\n- Timeout: 9s\n- Estimated minutes: 1.5 or so\n- Tokens: 2k\n\n<task id=\"C\" type=\"checkpoint:human-verify\"></task>";
    let task = parse(text).unwrap();
    assert_eq!((task.level, task.dependencies, task.foreground), (2, vec!["A".to_owned(), "B".to_owned()], true));
    assert_eq!((task.files.create, task.files.modify), (vec!["x".to_owned()], vec!["src/old.rs".to_owned()]));
    assert_eq!((task.verification.command.as_str(), task.verification.timeout_seconds), ("make", 9));
    assert_eq!((task.estimate_minutes, task.estimate_tokens), (Some(1.5), Some(2000)));
}

#[test]
fn words_around_the_block_are_context() {
    let text =
        "- Creates: a\n\n## Overview\nFirst.\n```xml\n<task id=A><level>0</level></task>\n```\n\n## Failure\nLast.";
    let task = parse(text).unwrap();
    assert_eq!(task.context.as_deref(), Some("## Overview\n\nFirst.\n\n## Failure\n\nLast."));
    assert_eq!(task.files.create, ["a"]);
}

#[test]
fn the_names_of_the_graph_are_understood_in_the_block() {
    let text = "<task id=A><level>1</level><title>T</title><dependencies>B</dependencies><verification>make</verification><interface>I</interface><security>S</security></task>";
    let task = parse(text).unwrap();
    assert_eq!(
        (task.title.as_str(), task.verification.command.as_str(), task.dependencies),
        ("T", "make", vec!["B".to_owned()])
    );
    assert_eq!((task.interface.as_deref(), task.security.as_deref()), (Some("I"), Some("S")));
    assert_eq!(task.extra, Map::new());
}

#[test]
fn no_element_takes_the_place_of_a_field() {
    let fields = serde_json::to_value(TaskSpec { foreground: true, ..full() }).unwrap();
    for name in fields.as_object().unwrap().keys().filter(|name| !["files", "level"].contains(&name.as_str())) {
        let text = format!("<task id=A><level>0</level><{name}>x</{name}></task>");
        let Ok(task) = parse(&text) else { continue };
        let graph = GraphFile {
            feature: "x".into(),
            total_tasks: None,
            max_parallelization: None,
            tasks: vec![task.into()],
            extra: Map::new(),
        };
        assert_eq!(GraphFile::parse(&graph.to_json()), Ok(graph), "{name}");
    }
}

#[test]
fn a_file_added_by_hand_is_sorted_by_the_start_commit() {
    let written = write_task_file(&full(), None).replace("<files>src/store.rs", "<files>more.rs, src/store.rs");
    let files = parse(&written).unwrap().files;
    assert_eq!(
        (files.create, files.modify),
        (vec!["more.rs".into(), "src/store.rs".into()], vec!["src/old.rs".into(), "docs/".into()])
    );
}

#[test]
fn errors_name_the_place() {
    for (text, expected) in [
        ("# Task: A\n", "there is no <task …> block; write one with at least <name>, <level> and <files>"),
        ("x\n  <task id=\"A\">\n", "line 2, column 3: this <task> is never closed; </task> is missing"),
        ("<task id=\"A\n", "line 1, column 1: this tag is never finished; > is missing"),
        (
            "<task><level>1</level></task>",
            "line 1, column 1: the <task> has no id; write <task type=\"auto\" id=\"…\">",
        ),
        ("<task id=A></task>", "line 1, column 1: the <task> has no level; write <level>0</level>"),
        (
            "<task id=A>\n é <level>\n  one</level></task>",
            "line 3, column 3: the level must be a whole number from 0, not \"one\"",
        ),
        ("<task id=A>\n é <action>x</task>", "line 2, column 4: <action> is never closed; </action> is missing"),
        ("<task id=A><done/>\n<done/></task>", "line 2, column 1: <done> occurs twice in one task"),
        (
            "<task id=A><level>1</level>\n<agent>x</agent></task>",
            "line 2, column 8: <agent> has its place in the metadata list or in a section, not in the <task>",
        ),
        ("<task id=A>\n<!-- </task>", "line 2, column 1: this comment is never closed"),
        ("<task id=A>\n<task id=B></task>", "line 2, column 1: a <task> inside a <task>; </task> is missing before it"),
        (
            "<task id=A><level>1</level></task>\n\n<task id=B></task>",
            "line 3, column 1: a second <task>; each file holds one task",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn all_files_are_imported_or_all_errors_told() {
    let file = |name: &str, text: &str| (format!("{name}.md"), text.to_owned());
    let good = [
        file("B", "<task id=B><level>1</level><files>new</files><depends>A</depends></task>"),
        file("A", "<task id=A><level>0</level><files>src/old.rs</files></task>"),
    ];
    let graph = import_tasks("x", &good, |path| path == "src/old.rs").unwrap();
    assert_eq!((graph.feature.as_str(), graph.total_tasks), ("x", Some(2)));
    assert_eq!(graph.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    assert_eq!(graph.tasks[0].files.modify, ["src/old.rs"]);
    assert_eq!(GraphFile::parse(&graph.to_json()), Ok(graph));

    let bad = [file("D", "nothing"), good[0].clone(), file("C", "<task")];
    let errors = import_tasks("x", &bad, |_| false).unwrap_err();
    assert_eq!(errors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["C.md", "D.md"]);
}

/// Texts that look like the form itself.
fn awkward() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("</action>"),
        Just("</task>"),
        Just("\n<task id=\"X\">\n"),
        Just("\n## Security Requirements\n"),
        Just("\n# Task: Y\n"),
        Just("- **Level:** 9"),
        Just("```"),
        Just("\n~~~\n"),
        Just("<files>"),
        Just("<!--"),
        Just("-->"),
        Just("&lt;"),
        Just("&"),
        Just(" "),
        Just("\n"),
        Just("\t"),
        Just(","),
        Just("none"),
        Just("`"),
        Just("\""),
        Just("\u{1b}"),
        Just("\\"),
        Just("é"),
        Just("x"),
    ];
    prop_oneof![3 => vec(piece, 0..8).prop_map(|pieces| pieces.concat()), 1 => any::<String>()]
}

fn some_lines() -> impl Strategy<Value = Vec<String>> {
    vec(awkward(), 0..4)
}

prop_compose! {
    fn any_texts()(texts in vec(option::of(awkward()), 12)) -> Vec<Option<String>> { texts }
}

prop_compose! {
    fn any_task()(
        id in awkward().prop_filter("a task without an id is no task", |id| !id.is_empty()),
        title in awkward(),
        level in any::<u32>(),
        lists in (some_lines(), some_lines(), some_lines(), some_lines(), some_lines()),
        texts in any_texts(),
        command in awkward(),
        timeout_seconds in any::<u64>(),
        estimate_minutes in option::of(0.0..1e9f64),
        estimate_tokens in any::<Option<u64>>(),
        foreground in any::<bool>(),
        note in awkward(),
    ) -> TaskSpec {
        let [description, context, action, done, interface, security, agent, model, run, effort, fallback_model, follow_up] =
            <[Option<String>; 12]>::try_from(texts).expect("twelve were asked for");
        let (create, modify, read, dependencies, acceptance_criteria) = lists;
        TaskSpec {
            id, title, level, dependencies, description, context, action, done, interface, security, acceptance_criteria,
            estimate_minutes, estimate_tokens, agent, model, effort, fallback_model, foreground, follow_up, run,
            files: FileLists { create, modify, read, extra: Map::new() },
            verification: Verification { command, timeout_seconds, extra: Map::new() },
            extra: Map::from_iter([("note".to_owned(), Value::from(note))]),
        }
    }
}

/// Without blank lines around it and space at its end.
fn carried(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text = text.trim_end_matches([' ', '\t', '\r', '\n']);
    let blank = |line: &&str| line.trim_matches([' ', '\t', '\r']).is_empty();
    let leading = text.split('\n').take_while(blank).count();
    text.split('\n').skip(leading).collect::<Vec<_>>().join("\n")
}

/// What the form can carry of a task.
fn as_carried(mut task: TaskSpec) -> TaskSpec {
    let text = |text: Option<String>| text.map(|text| carried(&text)).filter(|text| !text.is_empty());
    let prose = |prose: Option<String>| {
        let visible = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
        let prose = prose.map(|prose| carried(&prose.replace("\r\n", "\n").chars().map(visible).collect::<String>()));
        prose.filter(|prose| {
            !["", "none", "-"].contains(&prose.trim_matches([' ', '\t', '\r', '\n']).to_lowercase().as_str())
        })
    };
    let list = |list: Vec<String>| list.into_iter().filter(|item| !item.is_empty()).collect::<Vec<_>>();
    let note = task.extra["note"].as_str().map(str::to_owned);
    task.title = Some(task.title).filter(|title| !title.is_empty()).unwrap_or_else(|| task.id.clone());
    task.files = FileLists {
        create: list(task.files.create),
        modify: list(task.files.modify),
        read: list(task.files.read),
        extra: Map::new(),
    };
    task.dependencies = list(task.dependencies);
    task.acceptance_criteria = list(task.acceptance_criteria);
    task.verification.command = carried(&task.verification.command);
    task.extra = text(note).map(|note| ("note".to_owned(), Value::from(note))).into_iter().collect();
    TaskSpec {
        description: text(task.description),
        context: text(task.context),
        action: text(task.action),
        done: text(task.done),
        run: text(task.run),
        interface: prose(task.interface),
        security: prose(task.security),
        agent: task.agent.filter(|agent| !agent.is_empty()),
        model: task.model.filter(|model| !model.is_empty()),
        effort: task.effort.filter(|effort| !effort.is_empty()),
        fallback_model: task.fallback_model.filter(|model| !model.is_empty()),
        follow_up: task.follow_up.filter(|text| !text.is_empty()),
        ..task
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(task in any_task(), failure in option::of(awkward())) {
        let written = write_task_file(&task, failure.as_deref());
        prop_assert_eq!(parse(&written), Ok(as_carried(task)), "{}", written);
    }

    #[test]
    fn a_second_round_changes_nothing(task in any_task()) {
        let once = parse(&write_task_file(&task, None)).unwrap();
        prop_assert_eq!(parse(&write_task_file(&once, None)), Ok(once));
    }

    #[test]
    fn no_text_makes_it_panic(task in any_task(), cut in any::<prop::sample::Index>(), noise in awkward(), text in any::<String>()) {
        let written = write_task_file(&task, None);
        let places: Vec<usize> = written.char_indices().map(|(at, _)| at).collect();
        let at = *cut.get(&places);
        let _ = parse(&written[..at]);
        let _ = parse(&written[at..]);
        let _ = parse(&format!("{}{noise}{}", &written[..at], &written[at..]));
        let _ = parse(&text);
        let _ = parse(&format!("<task {text}"));
        let _ = parse(&format!("<task id=a>{text}</task>"));
    }
}
