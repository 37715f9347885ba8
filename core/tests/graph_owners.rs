//! Several owners of one path: follow-ups, and `ownership.sequential`.

use std::collections::BTreeSet;

use mahabharatha_core::graph::{EntryKind, OwnedPath, Problem, Rules, StartTree, Task, TaskGraph};
use mahabharatha_core::spec::{FileLists, GraphFile, TaskSpec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const IN_ORDER: Rules = Rules { sequential: true };

/// Reads tasks written as id, level, dependencies, what they create and what they modify.
fn graph(tasks: &[(&str, u32, &str, &str, &str)]) -> GraphFile {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let task = |(id, level, dependencies, create, modify): &(&str, u32, &str, &str, &str)| -> Value {
        json!({
            "id": id, "title": "t", "level": level, "dependencies": words(dependencies),
            "files": { "create": words(create), "modify": words(modify) }, "verification": { "command": "true" },
        })
    };
    let tasks: Vec<Value> = tasks.iter().map(task).collect();
    GraphFile::parse(&json!({ "feature": "x", "tasks": tasks }).to_string()).expect("a graph that can be read")
}

fn tree(paths: &[&str]) -> StartTree {
    StartTree { entries: paths.iter().map(|path| ((*path).to_owned(), EntryKind::File)).collect() }
}

fn problems(file: &GraphFile, rules: Rules) -> Vec<Problem> {
    let (graph, problems) = TaskGraph::check(file, Some(&tree(&["old", "lib/old"])), rules);
    assert_eq!(graph.is_some(), problems.is_empty(), "{problems:?}");
    problems
}

fn codes(file: &GraphFile, rules: Rules) -> Vec<&'static str> {
    problems(file, rules).iter().map(|problem| problem.code).collect()
}

#[test]
fn paths_touch_if_one_is_the_other_or_above_it_in_any_spelling() {
    let touch = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|path| OwnedPath::read(path).expect("a good path"));
        assert_eq!(one.touches(&other), other.touches(&one), "{one:?} {other:?}");
        one.touches(&other)
    };
    for (one, other) in
        [("src/a.rs", "SRC/A.rs"), ("src", "src/a.rs"), ("src/a.rs", "Src/"), ("Ä/x", "ä"), ("É", "e\u{301}/x")]
    {
        assert!(touch(one, other), "{one} {other}");
    }
    for (one, other) in [("src", "srcs/a"), ("src/a.rs", "src/a.rsx"), ("a", "b"), ("ä/x", "a/x"), ("ab/c", "a")] {
        assert!(!touch(one, other), "{one} {other}");
    }
}

#[test]
fn tasks_that_depend_on_each_other_may_own_a_path_in_turn() {
    for tasks in [
        [("A", 1, "", "new", ""), ("B", 2, "A", "", "new"), ("C", 3, "B", "", "new")],
        [("C", 3, "B", "", "new"), ("B", 2, "A", "", "new"), ("A", 1, "", "new", "")],
        [("A", 1, "", "", "old"), ("B", 2, "A", "other", ""), ("C", 3, "B", "", "old")],
        [("A", 1, "", "d/", ""), ("B", 2, "A", "", "d/x"), ("C", 3, "B", "d/y", "d/x")],
        [("A", 1, "", "d/x", ""), ("B", 2, "A", "", "d/"), ("C", 3, "B", "", "d/sub/")],
        [("A", 1, "", "", "lib/"), ("B", 2, "A", "", "lib/new"), ("C", 3, "B A", "", "lib/**")],
        [("A", 1, "", "d/", ""), ("B", 2, "A", "d/sub/", ""), ("C", 3, "B", "", "d/sub/x")],
    ] {
        assert_eq!(codes(&graph(&tasks), IN_ORDER), [""; 0], "{tasks:?}");
        let found = problems(&graph(&tasks), Rules::default());
        assert!(!found.is_empty(), "{tasks:?}");
        for problem in found {
            assert_eq!(problem.code, "path_owned_twice", "{tasks:?}");
            assert!(problem.message.contains("`ownership.sequential: true`"), "{}", problem.message);
        }
    }
}

#[test]
fn every_pair_that_is_not_ordered_is_named() {
    let tasks = [("A", 1, "", "new", ""), ("B", 2, "A", "", "new"), ("C", 2, "A", "", "new"), ("D", 3, "B", "", "new")];
    let found = problems(&graph(&tasks), IN_ORDER);
    let named: Vec<_> =
        found.iter().map(|problem| (problem.code, problem.task.as_deref(), problem.path.as_deref())).collect();
    assert_eq!(named, [("owners_not_ordered", Some("C"), Some("new")), ("owners_not_ordered", Some("D"), Some("new"))]);
    assert_eq!(
        found[0].message,
        "`new` is also owned by `B`, and neither depends on the other; add a dependency, or give it to one of them"
    );
    assert!(found[1].message.contains("`C`"), "{}", found[1].message);
    let below = [("A", 1, "", "d/", ""), ("B", 2, "", "d/x", ""), ("C", 3, "", "d/y", "")];
    let found = problems(&graph(&below), IN_ORDER);
    let messages: Vec<&str> = found.iter().map(|problem| problem.message.split(", and").next().unwrap()).collect();
    assert_eq!(messages, ["`d/x` is also owned by `A` through `d/`", "`d/y` is also owned by `A` through `d/`"]);
    // A task without the other's dependency is not before it because of its level.
    assert_eq!(codes(&graph(&[("A", 1, "", "", "old"), ("B", 2, "", "", "old")]), IN_ORDER), ["owners_not_ordered"]);
    let by_default = problems(&graph(&[("A", 1, "", "", "old"), ("B", 2, "", "", "old")]), Rules::default());
    assert_eq!(by_default[0].message, "`old` is also owned by `A`; every file has one owner");
}

#[test]
fn a_path_is_created_once_and_modified_afterwards() {
    let of = |first: (&str, &str), then: (&str, &str)| {
        codes(&graph(&[("B", 2, "A", then.0, then.1), ("A", 1, "", first.0, first.1)]), IN_ORDER)
    };
    assert_eq!(of(("new", ""), ("new", "")), ["created_twice"]);
    assert_eq!(of(("d/", ""), ("d/", "")), ["created_twice"]);
    assert_eq!(of(("d/x", ""), ("d/", "")), ["created_twice"]);
    assert_eq!(of(("d/", ""), ("d/x", "")), [""; 0], "the first may leave it to the second");
    assert_eq!(of(("", "new"), ("new", "")), ["modify_missing"]);
    assert_eq!(of(("", "new"), ("", "new")), ["modify_missing"; 2]);
    assert_eq!(of(("", "old"), ("old", "")), ["create_exists"]);
}

#[test]
fn other_spellings_and_other_kinds_are_never_shared() {
    for (one, other, code) in [
        ("new", "NEW", "path_owned_twice"),
        ("d/", "D/x", "path_owned_twice"),
        ("new", "new/", "path_owned_twice"),
        ("new", "new/x", "path_below_file"),
    ] {
        let found = problems(&graph(&[("A", 1, "", one, ""), ("B", 2, "A", other, "")]), IN_ORDER);
        assert_eq!(found.iter().map(|problem| problem.code).collect::<Vec<_>>(), [code], "{one} {other}");
        assert!(!found[0].message.contains("sequential"), "{}", found[0].message);
    }
}

#[test]
fn a_follow_up_owns_what_the_tasks_that_it_depends_on_own() {
    let with = |level: u32, dependencies: &str, create: &str, modify: &str| {
        let tasks = [("A", 1, "", "a d/", ""), ("F", level, dependencies, create, modify), ("G", 3, "A F", "", "a")];
        let mut file = graph(&tasks);
        file.tasks[1].follow_up = Some("x".to_owned());
        file.tasks[2].follow_up = Some("y".to_owned());
        codes(&file, Rules::default())
    };
    assert_eq!(with(2, "A", "", "a d/x old"), [""; 0]);
    assert_eq!(with(2, "", "", "d/x"), ["owners_not_ordered", "modify_missing"]);
    assert_eq!(with(2, "A", "", "nowhere"), ["modify_missing"]);
    assert_eq!(with(2, "A", "old", ""), ["create_exists"]);
    assert_eq!(with(2, "A", "a", ""), ["created_twice"]);
    let mut file = graph(&[("A", 1, "", "a", ""), ("F", 2, "A", "", "a"), ("B", 3, "F", "", "a")]);
    file.tasks[1].follow_up = Some("x".to_owned());
    assert_eq!(codes(&file, Rules::default()), ["path_owned_twice"], "only the follow-up may");
}

#[test]
fn too_many_owners_are_refused() {
    let ids: Vec<String> = (0..200).map(|index| format!("T{index}")).collect();
    let tasks: Vec<_> = ids.iter().map(|id| (id.as_str(), 1, "", "", "old")).collect();
    assert_eq!(codes(&graph(&tasks), IN_ORDER), ["too_many_owners"]);
    assert_eq!(codes(&graph(&tasks), Rules::default()).len(), 199);
}

/// Returns whether a task depends on another, by a plain search.
fn depends(tasks: &[Task], task: &Task, on: &Task) -> bool {
    let mut open = vec![task];
    let mut seen = BTreeSet::new();
    while let Some(task) = open.pop() {
        if task.id == on.id {
            return true;
        }
        let needs = tasks.iter().filter(|need| task.dependencies.contains(&need.id));
        open.extend(needs.filter(|need| seen.insert(&need.id)));
    }
    false
}

prop_compose! {
    fn any_file()(tasks in proptest::collection::vec((0..100u32, proptest::collection::vec(0..12usize, 0..4), 0..6usize), 1..80)) -> GraphFile {
        let template = graph(&[("T", 0, "", "", "")]).tasks.remove(0);
        let paths = ["lib/", "lib/old", "old"];
        let tasks: Vec<TaskSpec> = tasks.iter().enumerate().map(|(index, (level, needs, path))| TaskSpec {
            id: format!("T{index}"),
            level: index as u32 * 100 + level,
            dependencies: needs.iter().filter_map(|back| Some(format!("T{}", index.checked_sub(back + 1)?))).collect(),
            files: FileLists {
                modify: paths.get(*path).map(|path| (*path).to_owned()).into_iter().collect(),
                create: vec![format!("own/{index}")],
                ..FileLists::default()
            },
            extra: Map::new(),
            ..TaskSpec::clone(&template)
        }).collect();
        GraphFile { tasks: tasks.into_iter().map(Into::into).collect(), ..graph(&[]) }
    }
}

proptest! {
    #[test]
    fn a_graph_is_accepted_if_and_only_if_all_owners_of_a_path_are_ordered(file in any_file()) {
        let graph = TaskGraph::check(&file, Some(&tree(&["old", "lib/old"])), IN_ORDER).0;
        // Without paths, to have the tasks of a graph that is refused.
        let mut bare = file.clone();
        bare.tasks.iter_mut().for_each(|task| task.files.modify.clear());
        let bare = TaskGraph::check(&bare, None, IN_ORDER).0.unwrap();
        let listed = |task: &Task| file.tasks.iter().find(|spec| spec.id == task.id.as_str()).unwrap().files.modify.clone();
        let shared = |a: &Task, b: &Task| listed(a).iter().any(|a| listed(b).iter().any(|b| {
            a == b || a.ends_with('/') && b.starts_with(a.as_str()) || b.ends_with('/') && a.starts_with(b.as_str())
        }));
        let tasks = bare.tasks();
        let is_ordered = tasks.iter().enumerate().all(|(index, task)| {
            tasks[..index].iter().all(|other| !shared(task, other) || depends(tasks, task, other))
        });
        prop_assert_eq!(graph.is_some(), is_ordered);
    }
}
