use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::graph::Rules;
use crate::spec::GraphFile;

/// Builds a graph from `(id, level, minutes, dependencies)`.
fn graph(tasks: &[(&str, u32, f64, &[&str])]) -> TaskGraph {
    let tasks: Vec<Value> = tasks
        .iter()
        .map(|(id, level, minutes, dependencies)| {
            json!({
                "id": id, "title": id, "level": level, "estimate_minutes": minutes, "dependencies": dependencies,
                "files": { "create": [format!("{id}.txt")] },
            })
        })
        .collect();
    checked(json!({ "feature": "x", "tasks": tasks }))
}

fn checked(file: Value) -> TaskGraph {
    let file = GraphFile::parse(&file.to_string()).unwrap();
    let (graph, problems) = TaskGraph::check(&file, None, Rules::default());
    graph.unwrap_or_else(|| panic!("{problems:?}"))
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

#[test]
fn the_free_worker_takes_the_longest_remaining_task() {
    let graph = graph(&[("a", 1, 2.0, &[]), ("b", 1, 5.0, &[]), ("c", 1, 3.0, &[]), ("d", 1, 3.0, &[])]);
    let plan = Plan::new(&graph, 2);
    let rows: Vec<String> = plan.levels[0]
        .assignments
        .iter()
        .map(|a| format!("{} w{} {}-{}", a.task, a.worker, a.start.as_secs() / 60, a.end.as_secs() / 60))
        .collect();
    assert_eq!(rows, ["b w0 0-5", "c w1 0-3", "d w1 3-6", "a w0 5-7"]);
    assert_eq!((plan.total, plan.work), (minutes(7), minutes(13)));
    assert_eq!(plan.lower_bound, Duration::from_secs(390));
    assert_eq!(plan.best_workers, 3);
    let totals: Vec<_> = plan.alternatives.iter().map(|a| (a.workers, a.total)).collect();
    assert_eq!(totals, [(1, minutes(13)), (2, minutes(7)), (3, minutes(5))]);
}

#[test]
fn by_dependencies_nothing_waits_for_a_level() {
    let graph = graph(&[
        ("a", 1, 2.0, &[]),
        ("slow", 1, 10.0, &[]),
        ("b", 2, 9.0, &["a"]),
        ("c", 3, 1.0, &["b"]),
        ("d", 2, 1.0, &["slow"]),
    ]);
    let times = |workers| {
        let ScheduleTimes { levels, dependencies } = Plan::new(&graph, workers).schedules;
        [levels, dependencies].map(|time| time.as_secs() / 60)
    };
    assert_eq!([1, 2, 3].map(times), [[23, 23], [20, 12], [20, 12]]);
}

#[test]
fn the_critical_path_is_the_longest_chain_of_dependencies() {
    let graph = graph(&[
        ("a", 1, 9.0, &[]),
        ("b", 1, 4.0, &[]),
        ("c", 2, 8.0, &["b"]),
        ("d", 2, 1.0, &["a"]),
        ("e", 5, 1.0, &["c", "d"]),
    ]);
    let plan = Plan::new(&graph, 9);
    let path: Vec<&str> = plan.critical_path.tasks.iter().map(TaskId::as_str).collect();
    assert_eq!(path, ["b", "c", "e"]);
    assert_eq!(plan.critical_path.length, minutes(13));
    assert_eq!(plan.lower_bound, minutes(13));
    assert_eq!(plan.total, minutes(18), "levels wait for each other");
    assert_eq!(plan.levels.iter().map(|level| level.level.0).collect::<Vec<_>>(), [1, 2, 5]);
}

#[test]
fn an_estimate_comes_from_minutes_then_tokens_then_the_default() {
    let estimate_of = |fields: Value| {
        let mut spec = json!({ "id": "a", "title": "a", "level": 0 });
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let id = TaskId::new("a").unwrap();
        let spec = serde_json::from_value(spec).unwrap();
        estimate(&Task { id, level: Level(0), dependencies: Vec::new(), owned: Vec::new(), spec })
    };
    assert_eq!(estimate_of(json!({ "estimate_minutes": 0.5, "estimate_tokens": 9000 })), Duration::from_secs(30));
    assert_eq!(estimate_of(json!({ "estimate_tokens": 2500 })), Duration::from_secs(150));
    for none in [json!({}), json!({ "estimate_minutes": -1 }), json!({ "estimate_tokens": 0 })] {
        assert_eq!(estimate_of(none), DEFAULT_ESTIMATE);
    }
    for absurd in [json!({ "estimate_minutes": 1e300 }), json!({ "estimate_tokens": u64::MAX })] {
        assert_eq!(estimate_of(absurd), MAX_ESTIMATE);
    }
    assert_eq!(estimate_of(json!({ "estimate_minutes": 1e-9 })), Duration::from_millis(1));
}

#[test]
fn foreground_tasks_are_listed_but_not_assigned() {
    let graph = checked(json!({ "feature": "x", "tasks": [
        { "id": "a", "title": "a", "level": 0, "foreground": true, "estimate_minutes": 60,
          "files": { "create": ["a.txt"] } },
        { "id": "b", "title": "b", "level": 0, "estimate_minutes": 1, "files": { "create": ["b.txt"] } },
    ] }));
    let plan = Plan::new(&graph, 2);
    assert_eq!(plan.levels[0].foreground, [TaskId::new("a").unwrap()]);
    assert_eq!(plan.levels[0].assignments.len(), 1);
    assert_eq!((plan.total, plan.work, plan.best_workers), (minutes(1), minutes(1), 1));
}

#[test]
fn assignments_name_branch_worktree_and_ports() {
    let graph = graph(&[("a", 1, 2.0, &[]), ("b", 2, 0.5, &["a"])]);
    let (plan, ports) = (Plan::new(&graph, 2), [vec![5000, 5001]]);
    let file = worker_assignments(&plan, &graph, &ports, ".mahabharatha/worktrees/x");
    insta::assert_snapshot!(serde_json::to_string_pretty(&file).unwrap(), @r#"
    {
      "feature": "x",
      "note": "The plan, by estimates. In the run a worker that is free takes the longest task that is left in the level, so another worker may do it.",
      "workers": [
        {
          "id": 0,
          "branch": "mahabharatha/x/worker-0",
          "worktree": ".mahabharatha/worktrees/x/worker-0",
          "ports": [
            5000,
            5001
          ],
          "tasks": [
            {
              "id": "a",
              "level": 1,
              "estimate_minutes": 2.0
            },
            {
              "id": "b",
              "level": 2,
              "estimate_minutes": 0.5
            }
          ]
        },
        {
          "id": 1,
          "branch": "mahabharatha/x/worker-1",
          "worktree": ".mahabharatha/worktrees/x/worker-1",
          "ports": [],
          "tasks": []
        }
      ],
      "foreground": []
    }
    "#);
}

#[test]
fn a_plan_as_json_counts_in_seconds() {
    let plan = Plan::new(&graph(&[("a", 1, 2.0, &[])]), 3);
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan).unwrap(), @r#"
    {
      "workers": 3,
      "levels": [
        {
          "level": 1,
          "assignments": [
            {
              "task": "a",
              "worker": 0,
              "start_seconds": 0.0,
              "end_seconds": 120.0
            }
          ],
          "foreground": [],
          "makespan_seconds": 120.0
        }
      ],
      "total_seconds": 120.0,
      "critical_path": {
        "tasks": [
          "a"
        ],
        "length_seconds": 120.0
      },
      "work_seconds": 120.0,
      "lower_bound_seconds": 120.0,
      "schedules": {
        "levels_seconds": 120.0,
        "dependencies_seconds": 120.0
      },
      "best_workers": 1,
      "alternatives": [
        {
          "workers": 1,
          "total_seconds": 120.0
        },
        {
          "workers": 3,
          "total_seconds": 120.0
        }
      ]
    }
    "#);
}

prop_compose! {
    /// Up to 30 tasks on up to 4 levels, each depending on some tasks of lower levels.
    fn any_graph()(tasks in prop::collection::vec((0u32..4, 1u32..200, any::<u64>(), prop::bool::weighted(0.1)), 1..30))
        -> TaskGraph
    {
        let file: Vec<Value> = tasks.iter().enumerate().map(|(index, &(level, minutes, picks, foreground))| {
            let below = tasks.iter().enumerate().filter(|(_, other)| other.0 < level);
            let dependencies: Vec<String> =
                below.filter(|(other, _)| picks >> other & 3 == 0).map(|(other, _)| format!("T{other}")).collect();
            json!({
                "id": format!("T{index}"), "title": "t", "level": level, "estimate_minutes": f64::from(minutes) / 10.0,
                "dependencies": dependencies, "foreground": foreground,
                "files": { "create": [format!("{index}.txt")] },
            })
        }).collect();
        checked(json!({ "feature": "x", "tasks": file }))
    }
}

/// Returns the shortest time, by trying all assignments.
fn optimum(lengths: &[u32], loads: &mut Vec<u64>) -> u64 {
    let Some((&first, rest)) = lengths.split_first() else { return loads.iter().max().copied().unwrap_or(0) };
    let mut best = u64::MAX;
    for worker in 0..loads.len() {
        loads[worker] += u64::from(first);
        best = best.min(optimum(rest, loads));
        loads[worker] -= u64::from(first);
    }
    best
}

proptest! {
    #[test]
    fn plans_are_consistent(graph in any_graph(), workers in 1u32..9) {
        let plan = Plan::new(&graph, workers);
        prop_assert_eq!(&plan, &Plan::new(&graph, workers));

        let mut seen: Vec<&TaskId> = plan.levels.iter().flat_map(|level| &level.foreground).collect();
        for level in &plan.levels {
            let mut free = vec![Duration::ZERO; workers as usize];
            for planned in &level.assignments {
                let task = graph.task(&planned.task).unwrap();
                let free = &mut free[planned.worker.0 as usize];
                prop_assert_eq!(task.level, level.level);
                prop_assert!(planned.start == *free, "no overlap and no gap on a worker");
                prop_assert_eq!(planned.end - planned.start, estimate(task));
                *free = planned.end;
                seen.push(&planned.task);
            }
            let makespan = free.iter().max().copied().unwrap_or_default();
            prop_assert_eq!(level.makespan, makespan);
            // No worker is idle before the last task starts, so it starts no later than the evenly shared work ends.
            let work: Duration = level.assignments.iter().map(|a| a.end - a.start).sum();
            let last = level.assignments.iter().filter(|a| a.end == makespan).map(|a| a.end - a.start).min();
            prop_assert!(makespan <= work / workers + last.unwrap_or_default());
        }
        seen.sort();
        let mut all: Vec<&TaskId> = graph.tasks().iter().map(|task| &task.id).collect();
        all.sort();
        prop_assert_eq!(seen, all, "every task exactly once");
        prop_assert!(plan.levels.is_sorted_by(|a, b| a.level < b.level));
        prop_assert!(plan.total >= plan.lower_bound);
        prop_assert_eq!(plan.total, total_with(&graph, workers));
    }

    #[test]
    fn longest_first_stays_within_four_thirds_of_the_optimum(
        lengths in prop::collection::vec(1u32..50, 1..7), workers in 1u32..4,
    ) {
        let names: Vec<String> = (0..lengths.len()).map(|index| format!("T{index}")).collect();
        let tasks: Vec<(&str, u32, f64, &[&str])> =
            names.iter().zip(&lengths).map(|(name, &length)| (name.as_str(), 0, f64::from(length), &[][..])).collect();
        let total = total_with(&graph(&tasks), workers).as_secs() / 60;
        let optimum = optimum(&lengths, &mut vec![0; workers as usize]);
        prop_assert!(total >= optimum && total * 3 <= optimum * 4, "{total} against {optimum}");
    }

    #[test]
    fn more_workers_never_take_longer_and_the_best_number_is_the_smallest(graph in any_graph()) {
        let totals: Vec<Duration> = (1..32).map(|workers| total_with(&graph, workers)).collect();
        prop_assert!(totals.is_sorted_by(|a, b| a >= b));
        let least = totals.iter().position(|total| total == totals.last().unwrap()).unwrap();
        prop_assert_eq!(Plan::new(&graph, 1).best_workers as usize, least + 1);
    }

    #[test]
    fn the_critical_path_is_a_chain(graph in any_graph()) {
        let path = Plan::new(&graph, 1).critical_path;
        for pair in path.tasks.windows(2) {
            prop_assert!(graph.task(&pair[1]).unwrap().dependencies.contains(&pair[0]));
        }
        let length: Duration = path.tasks.iter().map(|id| scheduled(graph.task(id).unwrap())).sum();
        prop_assert_eq!(length, path.length);
    }
}
