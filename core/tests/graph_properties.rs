//! What must hold for every graph.

mod support;

use std::collections::BTreeMap;

use mahabharatha_core::graph::{EntryKind, Problem, Rules, Severity, StartTree, Task, TaskGraph};
use mahabharatha_core::ids::{Level, TaskId};
use mahabharatha_core::spec::{FileLists, GraphFile, TaskSpec, Verification};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Map;
use support::{Rng, random_graph};

/// The start commit that a random graph fits on.
fn start_of(file: &GraphFile) -> StartTree {
    let mut start = StartTree::default();
    for listed in file.tasks.iter().flat_map(|task| &task.files.modify) {
        let path = listed.trim_start_matches("./").replace("//", "/");
        let path = match path.strip_suffix('/').or(path.strip_suffix("/**")) {
            Some(directory) => format!("{directory}/below/it.txt"),
            None => path,
        };
        start.entries.insert(path, EntryKind::File);
    }
    start
}

fn problems(file: &GraphFile, start: Option<&StartTree>) -> Vec<Problem> {
    let (graph, problems) = TaskGraph::check(file, start, Rules::default());
    let errors = problems.iter().any(|problem| problem.severity == Severity::Error);
    assert_eq!(graph.is_none(), errors, "errors and only errors withhold the graph: {problems:?}");
    problems
}

fn naive_dependents(tasks: &[Task], id: &TaskId) -> Vec<TaskId> {
    let mut found: Vec<TaskId> = Vec::new();
    for task in tasks {
        if task.dependencies.iter().any(|need| need == id || found.contains(need)) {
            found.push(task.id.clone());
        }
    }
    found
}

/// Spoils a good graph in one way and says which code must tell it.
fn spoil(rng: &mut Rng, file: &mut GraphFile, start: &mut StartTree) -> &'static str {
    let count = file.tasks.len();
    let at = rng.below(count);
    let mut extra = file.tasks[at].clone();
    extra.files = FileLists { create: vec!["extra/file".to_owned()], ..FileLists::default() };
    extra.id = "EXTRA".to_owned();
    let target = &mut file.tasks[at];
    let code = match rng.below(14) {
        0 => {
            extra.id = target.id.clone();
            "duplicate_task_id"
        }
        1 => {
            extra.id = "1 bad".to_owned();
            "bad_task_id"
        }
        2 => {
            extra.dependencies.push("nobody".to_owned());
            "unknown_dependency"
        }
        3 => {
            extra.dependencies.push(target.id.clone());
            "dependency_level"
        }
        4 => {
            extra.dependencies.push(target.id.clone());
            target.dependencies.push(extra.id.clone());
            "dependency_cycle"
        }
        5 => {
            let id = extra.id.clone();
            extra.dependencies.push(id);
            "self_dependency"
        }
        6 => {
            let stolen =
                target.files.create.iter().chain(&target.files.modify).next().expect("every task owns something");
            extra.files.create = vec![stolen.to_uppercase()];
            "path_owned_twice"
        }
        7 => {
            extra.files.create.push("extra/../../x".to_owned());
            "path_outside"
        }
        8 => {
            extra.files.create.push("extra/.git/config".to_owned());
            "path_reserved"
        }
        9 => {
            start.entries.insert("extra/file".to_owned(), EntryKind::File);
            "create_exists"
        }
        10 => {
            extra.files.modify.push("extra/other".to_owned());
            "modify_missing"
        }
        11 => {
            start.entries.insert("extra".to_owned(), EntryKind::Symlink { target: "..".to_owned() });
            "path_through_symlink"
        }
        12 => {
            extra.verification.command.clear();
            "empty_verification"
        }
        _ => {
            extra.files.read.push("never/made".to_owned());
            "read_missing"
        }
    };
    file.total_tasks = None;
    file.tasks.insert(rng.below(count + 1), extra);
    code
}

fn any_path() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(
            prop_oneof![Just("a"), Just("A"), Just("."), Just(".."), Just(""), Just(".git"), Just("**"), Just("é")],
            0..5
        )
        .prop_map(|parts| parts.join("/")),
        any::<String>(),
    ]
}

prop_compose! {
    fn any_task()(
        id in prop_oneof![4 => "[ab]{1,2}", 1 => any::<String>()],
        title in prop_oneof![4 => "[ab]{1,2}", 1 => any::<String>()],
        level in prop_oneof![9 => 0..4u32, 1 => any::<u32>()],
        create in vec(any_path(), 0..3),
        modify in vec(any_path(), 0..3),
        read in vec(any_path(), 0..3),
        dependencies in vec("[ab]{1,2}", 0..3),
        command in any::<String>(),
        timeout_seconds in any::<u64>(),
        estimate_minutes in any::<Option<f64>>(),
    ) -> TaskSpec {
        TaskSpec {
            id, title, level, dependencies, estimate_minutes,
            files: FileLists { create, modify, read, extra: Map::new() },
            verification: Verification { command, timeout_seconds, extra: Map::new() },
            ..TaskSpec::clone(&random_graph(&mut Rng::new(0), 1).tasks[0])
        }
    }
}

fn any_tree() -> impl Strategy<Value = StartTree> {
    let kind = prop_oneof![
        Just(EntryKind::File),
        Just(EntryKind::Submodule),
        any_path().prop_map(|target| EntryKind::Symlink { target }),
    ];
    proptest::collection::btree_map(any_path(), kind, 0..5).prop_map(|entries| StartTree { entries })
}

proptest! {
    #[test]
    fn a_good_graph_is_accepted_and_answers_as_a_plain_search_would(seed in any::<u64>()) {
        let file = random_graph(&mut Rng::new(seed), 60);
        let start = start_of(&file);
        let (graph, problems) = TaskGraph::check(&file, Some(&start), Rules::default());
        prop_assert_eq!(&problems, &[]);
        let graph = graph.unwrap();
        prop_assert_eq!(graph.tasks().len(), file.tasks.len());

        let mut by_level: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for task in &file.tasks {
            by_level.entry(task.level).or_default().push(&task.id);
        }
        prop_assert_eq!(graph.levels(), by_level.keys().copied().map(Level).collect::<Vec<_>>());
        let ids: Vec<&str> = graph.tasks().iter().map(|task| task.id.as_str()).collect();
        prop_assert_eq!(ids, by_level.into_values().flatten().collect::<Vec<_>>());

        for (index, task) in graph.tasks().iter().enumerate() {
            prop_assert_eq!(graph.index(&task.id), Some(index));
            prop_assert_eq!(graph.task(&task.id), Some(task));
            prop_assert_eq!(graph.dependents(&task.id), naive_dependents(graph.tasks(), &task.id));
            for owned in &task.owned {
                for path in [owned.path.clone(), format!("{}/x/y", owned.path), format!("{}x", owned.path)] {
                    let naive = graph.tasks().iter().any(|task| task.owned.iter().any(|owned| owned.covers(&path)));
                    prop_assert_eq!(graph.is_owned(&path), naive, "{}", path);
                }
            }
        }
    }

    #[test]
    fn one_injected_problem_is_found(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mut file = random_graph(&mut rng, 30);
        let mut start = start_of(&file);
        let code = spoil(&mut rng, &mut file, &mut start);
        let found = problems(&file, Some(&start));
        prop_assert!(found.iter().any(|problem| problem.code == code), "{code} is not in {found:?}");
    }

    #[test]
    fn whatever_the_file_says_there_is_an_answer(tasks in vec(any_task(), 0..8), feature in any::<String>(), start in any_tree()) {
        let mut file = random_graph(&mut Rng::new(0), 1);
        file.tasks = tasks.into_iter().map(Into::into).collect();
        file.feature = feature;
        problems(&file, Some(&start));
        file.feature = "x".to_owned();
        problems(&file, None);
    }
}
