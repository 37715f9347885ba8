use std::time::Duration;

use serde_json::{Value, json};

use super::history::Sample;
use super::*;
use crate::graph::Rules;
use crate::ids::Time;
use crate::spec::GraphFile;

fn graph(tasks: &[(&str, u32, f64)]) -> TaskGraph {
    let task = |(id, level, minutes): &(&str, u32, f64)| {
        json!({
            "id": id, "title": id, "level": level, "estimate_minutes": minutes,
            "files": { "create": [format!("{id}.txt")] },
        })
    };
    let tasks: Vec<Value> = tasks.iter().map(task).collect();
    let file = GraphFile::parse(&json!({ "feature": "x", "tasks": tasks }).to_string()).unwrap();
    TaskGraph::check(&file, None, Rules::default()).0.unwrap()
}

fn by(agent: &str, model: &str) -> By {
    By { agent: agent.to_string(), model: Some(model.to_string()) }
}

fn sample(by: &By, minutes: f64, took: f64, cost_usd: Option<f64>) -> Sample {
    let of = |minutes: f64| Duration::from_secs_f64(minutes * 60.0);
    Sample { by: by.clone(), estimate: of(minutes), took: of(took), cost_usd, at: Time(7) }
}

fn history(samples: Vec<Sample>) -> History {
    History { samples, ..History::default() }
}

fn minutes(duration: Option<Duration>) -> Option<f64> {
    duration.map(|duration| duration.as_secs_f64() / 60.0)
}

#[test]
fn without_a_history_there_are_only_the_estimates() {
    let graph = graph(&[("a", 1, 10.0), ("b", 1, 4.0), ("c", 1, 6.0), ("d", 2, 5.0)]);
    let estimate = Estimate::new(&graph, 2, |_| by("a", "m"), &History::default());
    assert!(!estimate.has_history());
    let Figures { work, critical_path, wall, cost } = estimate.total;
    assert_eq!((work.as_secs() / 60, critical_path.as_secs() / 60, wall.plain.as_secs() / 60), (25, 10, 15));
    assert_eq!((wall.p50, wall.p90, cost.p50_usd, cost.p90_usd), (None, None, None, None));
    let first = &estimate.levels[0].figures;
    assert_eq!((first.work.as_secs() / 60, first.critical_path.as_secs() / 60), (20, 10));
    let walls: Vec<_> = estimate.by_workers.iter().map(|by| (by.workers, by.wall.plain.as_secs() / 60)).collect();
    assert_eq!(walls, [(1, 25), (2, 15), (3, 15)]);
    assert_eq!(estimate.best_workers, 2);
    assert_eq!(estimate.pools[0].basis, Basis::None);
}

#[test]
fn a_history_without_spread_scales_the_estimates() {
    let graph = graph(&[("a", 1, 10.0), ("b", 1, 4.0), ("c", 2, 5.0)]);
    let own = by("claude", "sonnet");
    let past = history(vec![sample(&own, 10.0, 20.0, Some(1.0)); MIN_SAMPLES]);
    let estimate = Estimate::new(&graph, 2, |_| own.clone(), &past);
    assert_eq!((minutes(estimate.total.wall.p50), minutes(estimate.total.wall.p90)), (Some(30.0), Some(30.0)));
    let cost = estimate.total.cost.p90_usd.unwrap();
    assert!((cost - 1.9).abs() < 1e-9, "0.1 USD for each of 19 estimated minutes: {cost}");
    assert!((estimate.levels[1].figures.cost.p50_usd.unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(estimate.pools.len(), 1);
    assert_eq!((estimate.pools[0].tasks, estimate.pools[0].samples, estimate.pools[0].cost_samples), (3, 5, 5));

    let merged = History { integrations: vec![(Time(7), Duration::from_secs(60))], ..past };
    let estimate = Estimate::new(&graph, 2, |_| own.clone(), &merged);
    assert_eq!(minutes(estimate.total.wall.p50), Some(32.0), "two levels are merged");
}

#[test]
fn one_history_gives_one_answer_and_spread_shows() {
    let graph = graph(&[("a", 1, 10.0), ("b", 1, 10.0), ("c", 2, 10.0)]);
    let own = by("claude", "sonnet");
    let past = history((1..=10).map(|n| sample(&own, 10.0, f64::from(n), Some(f64::from(n)))).collect());
    let estimate = |workers| Estimate::new(&graph, workers, |_| own.clone(), &past);
    assert_eq!(estimate(2), estimate(2));
    let Wall { p50, p90, .. } = estimate(2).total.wall;
    assert!(p50 < p90, "{p50:?} {p90:?}");
    assert!(minutes(p90).unwrap() <= 20.0 && minutes(p50).unwrap() >= 2.0);
    assert_eq!(estimate(1).total.cost, estimate(2).total.cost, "more workers cost the same");
    assert_eq!(estimate(1).by_workers, estimate(2).by_workers);
}

#[test]
fn samples_come_from_the_nearest_that_has_enough() {
    let graph = graph(&[("a", 1, 10.0)]);
    let (sonnet, opus, other) = (by("claude", "sonnet"), by("claude", "opus"), by("mine", "x"));
    let past = |own: usize, of_agent: usize| {
        let samples = [(&sonnet, own, 10.0), (&opus, of_agent, 20.0), (&other, 9, 30.0)];
        history(samples.iter().flat_map(|(by, n, took)| vec![sample(by, 10.0, *took, None); *n]).collect())
    };
    let found = |own, of_agent| {
        let estimate = Estimate::new(&graph, 1, |_| sonnet.clone(), &past(own, of_agent));
        (estimate.pools[0].basis, estimate.pools[0].samples)
    };
    assert_eq!(found(5, 0), (Basis::AgentAndModel, 5));
    assert_eq!(found(4, 3), (Basis::Agent, 7));
    assert_eq!(found(1, 2), (Basis::All, 12));
    assert_eq!(found(0, 0), (Basis::All, 9));
}

#[test]
fn an_unknown_cost_stays_unknown_whatever_others_cost() {
    let graph = graph(&[("a", 1, 10.0), ("b", 2, 10.0)]);
    let (own, free) = (by("claude", "sonnet"), By { agent: "command".to_string(), model: None });
    let past = history(vec![sample(&free, 10.0, 1.0, Some(0.0)); 9]);
    let of = |task: &Task| if task.id.as_str() == "a" { free.clone() } else { own.clone() };
    let estimate = Estimate::new(&graph, 1, of, &past);
    assert_eq!(estimate.levels[0].figures.cost.p90_usd, Some(0.0), "its agent is known to cost nothing");
    assert_eq!(estimate.levels[1].figures.cost, CostRange { p50_usd: None, p90_usd: None });
    assert_eq!(estimate.total.cost, CostRange { p50_usd: None, p90_usd: None });
    assert!(estimate.total.wall.p90.is_some(), "times are drawn from all");
    let unmeasured = history(vec![sample(&own, 10.0, 1.0, None); 9]);
    assert_eq!(Estimate::new(&graph, 1, |_| own.clone(), &unmeasured).total.cost.p50_usd, None);
}

#[test]
fn the_best_number_of_workers_looks_beyond_a_plateau() {
    let equal = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("t{n}")).collect();
        let tasks: Vec<(&str, u32, f64)> = names.iter().map(|name| (name.as_str(), 1, 10.0)).collect();
        Estimate::new(&graph(&tasks), 1, |_| by("a", "m"), &History::default())
    };
    assert_eq!(equal(8).best_workers, 8, "5 to 7 workers save nothing, 8 save half");
    assert_eq!(equal(1).best_workers, 1);
    let many = equal(100);
    assert!((10..=50).contains(&many.best_workers), "{}", many.best_workers);
    let rows: Vec<u32> = many.by_workers.iter().map(|by| by.workers).collect();
    assert!(rows.len() < 20 && rows.contains(&100) && rows.contains(&many.best_workers), "{rows:?}");
}

#[test]
fn percentiles_are_values_of_the_list() {
    assert_eq!(percentile(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 50), Some(5));
    assert_eq!(percentile(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 90), Some(9));
    assert_eq!((percentile(&[7], 90), percentile::<u8>(&[], 90)), (Some(7), None));
}
