//! Chooses the agent of a task's first attempt by what earlier attempts at similar tasks cost.
//!
//! The agents of `agents.escalate` take over from one another, each after a failed attempt. To begin with an agent costs
//! its attempt and, as often as that fails, what it costs to begin with the next one. The route begins where this sum is
//! least. The same history gives the same route.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::history::{By, History};
use super::tally::{Tally, TaskClass, Trial};
use crate::config::{Config, Routing};
use crate::graph::TaskGraph;
use crate::ids::TaskId;
use crate::run::{Roster, Successor};

/// Fewest attempts of an agent from which its cost is estimated.
const MIN_TRIALS: usize = 5;
/// Fewest attempts of an agent at tasks of one class that are preferred to its attempts at all tasks.
const MIN_CLASS_TRIALS: usize = 20;

/// The agent that a task begins with, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    pub agent: String,
    pub reason: String,
}

/// What it costs to begin with an agent.
struct Candidate<'a> {
    agent: &'a str,
    /// Its attempts, on which the other figures rest.
    trials: Tally,
    /// Expected cost of the task until it is accepted.
    expected_usd: f64,
}

/// Returns the agent to begin with. The candidates take over from one another in this order.
fn route(history: &History, class: TaskClass, candidates: &[By]) -> Option<Route> {
    let (first, _) = candidates.split_first()?;
    let begin_with = |by: &By, reason: String| Some(Route { agent: by.agent.clone(), reason });
    let known = history.trials.iter().filter(|trial| trial.by == *first && trial.cost_usd.is_some()).count();
    if known < MIN_TRIALS {
        let reason =
            format!("first of agents.escalate; {known} attempts with a known cost so far, {MIN_TRIALS} are needed");
        return begin_with(first, reason);
    }
    let mut priced: Vec<Candidate<'_>> = Vec::new();
    // From the last one, since each may need all that follow it.
    for by in candidates.iter().rev() {
        let Some(trials) = tally(history, class, by) else { continue };
        let Some(cost) = trials.mean_usd else { continue };
        // As if one more attempt had been made and half passed: a few attempts prove neither 0 nor 100 %.
        let passes = (trials.passed as f64 + 0.5) / (trials.attempts as f64 + 1.0);
        let expected_usd = match priced.last() {
            Some(next) => cost + (1.0 - passes) * next.expected_usd,
            None => cost / passes,
        };
        priced.push(Candidate { agent: &by.agent, trials, expected_usd });
    }
    // Of equals the earlier one in the list, which is the later one here.
    let best = priced.iter().rev().min_by(|a, b| a.expected_usd.total_cmp(&b.expected_usd))?;
    let Tally { attempts, passed, .. } = best.trials;
    let reason =
        format!("expected ${:.2} per accepted task; {passed} of {attempts} attempts passed", best.expected_usd);
    Some(Route { agent: best.agent.to_string(), reason })
}

/// Returns the attempts that tell most about a task of this class; none if there are too few.
fn tally(history: &History, class: TaskClass, by: &By) -> Option<Tally> {
    let own = || history.trials.iter().filter(|trial| trial.by == *by && trial.cost_usd.is_some());
    let like: [fn(TaskClass, &Trial) -> bool; 2] =
        [|class, trial| trial.class == class, |class, trial| trial.class.estimate == class.estimate];
    let alike = like.map(|is_alike| own().filter(|trial| is_alike(class, trial)).collect::<Vec<&Trial>>());
    let enough = alike.into_iter().find(|trials| trials.len() >= MIN_CLASS_TRIALS);
    let trials = enough.unwrap_or_else(|| own().collect());
    (trials.len() >= MIN_TRIALS).then(|| Tally::new(by, trials.into_iter()))
}

/// Which agents make the attempts of a run, and why the routed tasks begin with theirs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assigned {
    pub roster: Roster,
    pub routes: BTreeMap<TaskId, Route>,
}

/// Assigns the tasks of a graph to agents, as the configuration and the agent that the user asked for have it.
pub fn assign(config: &Config, graph: &TaskGraph, asked: Option<&str>, history: &History) -> Assigned {
    let next = successors(config);
    let candidates = candidates(config, asked);
    let first = graph.levels().first().copied();
    let mut assigned = Assigned::default();
    let default = asked.unwrap_or(&config.agent);
    for task in graph.tasks() {
        let by = By::of(config, &task.spec, asked);
        let is_routed = task.spec.agent.is_none() && task.spec.model.is_none() && by.agent == default;
        let route =
            candidates.as_ref().filter(|_| is_routed).and_then(|all| route(history, TaskClass::of(task, first), all));
        let agent = route.as_ref().map_or(&by.agent, |route| &route.agent);
        if agent != default {
            assigned.roster.tasks.insert(task.id.clone(), agent.clone());
        }
        assigned.routes.extend(route.map(|route| (task.id.clone(), route)));
    }
    if next.is_empty() && assigned.routes.is_empty() {
        return Assigned::default();
    }
    assigned.roster = Roster { default: default.to_string(), next, ..assigned.roster };
    assigned
}

/// Returns the agents that a route may begin with; none if tasks are not routed.
fn candidates(config: &Config, asked: Option<&str>) -> Option<Vec<By>> {
    let Routing { route, escalate } = &config.routing;
    let by =
        |name: &String| By { agent: name.clone(), model: config.agent(name).and_then(|agent| agent.model.clone()) };
    (route.is_some() && asked.is_none()).then(|| escalate.iter().map(by).collect())
}

/// Returns the agents that may make attempts beside these: those that take over from them, and those that tasks may be
/// routed to.
pub fn substitutes<'a>(config: &'a Config, agents: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let next = successors(config);
    let mut open: Vec<String> = agents.into_iter().map(str::to_owned).collect();
    if config.routing.route.is_some() {
        open.extend(config.routing.escalate.iter().cloned());
    }
    let mut found = BTreeSet::new();
    while let Some(agent) = open.pop() {
        let successor = next.get(&agent).map(|next| next.agent.clone());
        if found.insert(agent) {
            open.extend(successor);
        }
    }
    found
}

/// Returns which agent takes over from which.
fn successors(config: &Config) -> BTreeMap<String, Successor> {
    let fallbacks = config.agents.iter().filter_map(|(name, agent)| {
        let fallback = agent.fallback.as_ref()?;
        Some((name.clone(), Successor { agent: fallback.clone(), after: agent.fallback_after }))
    });
    let steps = config.routing.escalate.windows(2).map(|pair| {
        let [from, to] = pair else { unreachable!("windows of two") };
        (from.clone(), Successor { agent: to.clone(), after: 1 })
    });
    fallbacks.chain(steps).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::pool::Random;
    use super::super::tally::Size;
    use super::*;
    use crate::ids::Time;

    const CLASSES: [TaskClass; 3] = [
        TaskClass { estimate: Size::Small, files: Size::Small, is_foundation: false },
        TaskClass { estimate: Size::Medium, files: Size::Medium, is_foundation: false },
        TaskClass { estimate: Size::Large, files: Size::Large, is_foundation: true },
    ];

    /// An agent of a scenario: mean cost of an attempt in cents, and how often of a hundred it passes, by class.
    struct Skill {
        agent: &'static str,
        cents: u64,
        passes: [u64; 3],
    }

    const SCENARIOS: [[Skill; 3]; 4] = [
        // What is simple, the small one can do; what is large, only the large one.
        [
            Skill { agent: "small", cents: 5, passes: [95, 40, 2] },
            Skill { agent: "middle", cents: 20, passes: [97, 85, 30] },
            Skill { agent: "large", cents: 60, passes: [99, 95, 85] },
        ],
        // The small one is good enough for everything.
        [
            Skill { agent: "small", cents: 5, passes: [90, 85, 80] },
            Skill { agent: "middle", cents: 20, passes: [92, 90, 85] },
            Skill { agent: "large", cents: 60, passes: [95, 92, 90] },
        ],
        // The small one is good for nothing, and so costs more in the end.
        [
            Skill { agent: "small", cents: 15, passes: [10, 5, 1] },
            Skill { agent: "middle", cents: 20, passes: [90, 85, 80] },
            Skill { agent: "large", cents: 60, passes: [95, 92, 90] },
        ],
        // All cost the same.
        [
            Skill { agent: "small", cents: 20, passes: [50, 40, 30] },
            Skill { agent: "middle", cents: 20, passes: [80, 70, 60] },
            Skill { agent: "large", cents: 20, passes: [95, 90, 85] },
        ],
    ];

    /// A task and, for each agent, how each of three attempts at it would end.
    struct Outcome {
        class: TaskClass,
        /// By agent: whether each attempt passes, and its cost.
        attempts: [[(bool, f64); 3]; 3],
    }

    fn outcomes(scenario: &[Skill; 3], seed: &str, count: usize) -> Vec<Outcome> {
        let mut random = Random::seeded(seed);
        let percent: Vec<u64> = (0..100).collect();
        let mut draw = || *random.pick(&percent).unwrap();
        let mut outcome = || {
            let class = (draw() % 3) as usize;
            let attempts = [0, 1, 2].map(|agent| {
                [(); 3].map(|()| {
                    let Skill { cents, passes, .. } = &scenario[agent];
                    // Between half and one and a half of the mean.
                    (draw() < passes[class], *cents as f64 / 100.0 * (50 + draw()) as f64 / 100.0)
                })
            });
            Outcome { class: CLASSES[class], attempts }
        };
        (0..count).map(|_| outcome()).collect()
    }

    fn by(skill: &Skill) -> By {
        By { agent: skill.agent.to_string(), model: None }
    }

    fn history(scenario: &[Skill; 3], seen: &[Outcome]) -> History {
        let trial = |class: TaskClass, skill: &Skill, (passed, cost): (bool, f64)| Trial {
            by: by(skill),
            class,
            passed,
            took: Duration::from_secs(60),
            cost_usd: Some(cost),
            at: Time(0),
        };
        let trials = seen.iter().flat_map(|outcome| {
            let first = scenario.iter().zip(&outcome.attempts).map(|(skill, attempts)| (skill, attempts[0]));
            first.map(|(skill, attempt)| trial(outcome.class, skill, attempt)).collect::<Vec<_>>()
        });
        History { trials: trials.collect(), ..History::default() }
    }

    /// Returns the cost per accepted task if each begins with the chosen agent, and each failed attempt is followed by one
    /// of the next agent.
    fn cost(outcomes: &[Outcome], choose: impl Fn(TaskClass) -> usize) -> f64 {
        let (mut paid, mut accepted) = (0.0, 0);
        for Outcome { class, attempts } in outcomes {
            let first = choose(*class);
            let made = (0..3).map(|number| attempts[(first + number).min(2)][number]);
            for (passed, cost) in made {
                paid += cost;
                if passed {
                    accepted += 1;
                    break;
                }
            }
        }
        paid / f64::from(accepted)
    }

    fn routes(scenario: &[Skill; 3], history: &History) -> [&'static str; 3] {
        let agent = |class| route(history, class, &scenario.each_ref().map(by)).unwrap().agent;
        CLASSES.map(|class| scenario.iter().find(|skill| skill.agent == agent(class)).unwrap().agent)
    }

    #[test]
    fn routed_tasks_cost_hardly_more_than_those_that_all_begin_with_the_best_agent() {
        for (number, scenario) in SCENARIOS.iter().enumerate() {
            for seed in 0..10 {
                // Enough of them that chance changes their cost by less than the tolerance.
                let outcomes = outcomes(scenario, &format!("{number} {seed}"), 20_300);
                let (seen, unseen) = outcomes.split_at(300);
                let routes = routes(scenario, &history(scenario, seen));
                let index = |class| CLASSES.iter().position(|other| *other == class).unwrap();
                let choose = |class| scenario.iter().position(|skill| skill.agent == routes[index(class)]).unwrap();
                let routed = cost(unseen, choose);
                let best = (0..3).map(|agent| cost(unseen, |_| agent)).min_by(f64::total_cmp).unwrap();
                assert!(routed <= best * 1.05, "scenario {number}, seed {seed}: {routed} against {best}");
            }
        }
    }

    #[test]
    fn the_same_history_gives_the_same_route() {
        for (scenario, expected) in [(&SCENARIOS[1], ["small"; 3]), (&SCENARIOS[2], ["middle"; 3])] {
            let outcomes = outcomes(scenario, "same", 300);
            let (forward, mut backward) = (history(scenario, &outcomes), history(scenario, &outcomes));
            backward.trials.reverse();
            assert_eq!([routes(scenario, &forward), routes(scenario, &backward)], [expected; 2]);
        }
    }

    #[test]
    fn without_a_history_a_task_begins_with_the_first_agent() {
        let candidates = SCENARIOS[0].each_ref().map(by);
        let begins = route(&History::default(), CLASSES[2], &candidates).unwrap();
        assert_eq!(begins.agent, "small");
        assert!(begins.reason.contains("0 attempts"), "{}", begins.reason);
        assert_eq!(route(&History::default(), CLASSES[2], &[]), None);
    }
}
