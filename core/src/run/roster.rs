//! Which agent makes an attempt: the task's own, or the one that takes over from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;

/// The agents of a run by name, and which one takes over from which. The default roster leaves the choice to the
/// configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Agent of the tasks that are not in `tasks`; empty for the one that the configuration names.
    pub default: String,
    /// Agents of single tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<TaskId, String>,
    /// The agent that takes over from another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next: BTreeMap<String, Successor>,
}

/// Takes over from another agent after its failed attempts, and while its API refuses service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Successor {
    pub agent: String,
    /// Number of failed attempts.
    pub after: u32,
}

impl Roster {
    /// Whether the configuration alone names the agents.
    pub fn is_empty(&self) -> bool {
        *self == Roster::default()
    }

    /// Returns the agent of a task's first attempt.
    pub fn first(&self, task: &TaskId) -> &str {
        self.tasks.get(task).unwrap_or(&self.default)
    }

    /// Returns the agent of a task's next attempt; none while the API of that agent refuses service.
    pub(super) fn agent(&self, task: &TaskId, failures: u32, is_served: impl Fn(&str) -> bool) -> Option<&str> {
        self.follow(self.first(task), failures, is_served)
    }

    /// Returns the agent that works while the API of this one refuses service; none if there is none.
    pub(super) fn substitute<'a>(&'a self, agent: &'a str, is_served: impl Fn(&str) -> bool) -> Option<&'a str> {
        self.follow(agent, 0, is_served)
    }

    fn follow<'a>(&'a self, first: &'a str, failures: u32, is_served: impl Fn(&str) -> bool) -> Option<&'a str> {
        let (mut agent, mut failures) = (first, failures);
        // Two agents may stand in for one another.
        for _ in 0..self.next.len() {
            let Some(next) = self.next.get(agent) else { break };
            if failures < next.after && is_served(agent) {
                break;
            }
            failures = failures.saturating_sub(next.after);
            agent = &next.agent;
        }
        is_served(agent).then_some(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster() -> Roster {
        let next = |agent: &str, after| Successor { agent: agent.to_string(), after };
        Roster {
            default: "small".to_string(),
            tasks: [(TaskId::new("OWN").unwrap(), "other".to_string())].into(),
            next: [("small".to_string(), next("middle", 2)), ("middle".to_string(), next("large", 1))].into(),
        }
    }

    fn agents(task: &str, is_served: impl Fn(&str) -> bool + Copy) -> Vec<Option<String>> {
        let (roster, task) = (roster(), TaskId::new(task).unwrap());
        (0..5).map(|failures| roster.agent(&task, failures, is_served).map(str::to_owned)).collect()
    }

    #[test]
    fn failed_attempts_lead_to_the_next_agent() {
        let expected = ["small", "small", "middle", "large", "large"].map(|agent| Some(agent.to_string()));
        assert_eq!(agents("T", |_| true), expected);
        assert_eq!(agents("OWN", |_| true), vec![Some("other".to_string()); 5]);
    }

    #[test]
    fn an_agent_that_is_not_served_is_passed_over() {
        let expected = ["middle", "middle", "middle", "large", "large"].map(|agent| Some(agent.to_string()));
        assert_eq!(agents("T", |agent| agent != "small"), expected);
        assert_eq!(agents("T", |agent| agent == "small")[2..], vec![None; 3]);
        assert_eq!(agents("OWN", |_| false), vec![None; 5]);
    }

    #[test]
    fn a_cycle_ends() {
        let mut roster = roster();
        roster.next.insert("large".to_string(), Successor { agent: "small".to_string(), after: 0 });
        assert!(roster.agent(&TaskId::new("T").unwrap(), 9, |_| true).is_some());
        assert_eq!(roster.agent(&TaskId::new("T").unwrap(), 9, |_| false), None);
    }
}
