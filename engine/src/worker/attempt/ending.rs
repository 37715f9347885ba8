//! How an attempt ends without a verification, and what the next attempt is told of it.

use std::time::Duration;

use mahabharatha_core::excerpt::few;
use mahabharatha_core::run::event::{FailCause, JobEnd, Reason};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::Git;

use super::super::guard::Planted;
use super::super::log::Severity;
use super::super::ownership::Changes;
use super::{AgentEnd, Attempt};
use crate::agent::AgentOutcome;

impl Attempt<'_> {
    /// Returns how the attempt ends, or `None` if it is ready for verification.
    pub(super) fn end_before_verification(
        &mut self,
        agent_end: AgentEnd,
        git: &Git,
        planted: &Planted,
        changes: &Changes,
    ) -> Result<Option<JobEnd>> {
        let strays: Vec<String> =
            planted.strays.iter().cloned().chain(changes.strays.iter().map(|stray| stray.path.to_string())).collect();
        if !strays.is_empty() {
            self.log.write(Severity::Warn, "strays", &strays.join(", "));
        }
        let answered = |outcome: &AgentOutcome| !matches!(outcome, AgentOutcome::Done | AgentOutcome::Failed(_));
        let why = match agent_end {
            AgentEnd::Cancelled => return Ok(Some(JobEnd::Cancelled)),
            AgentEnd::Finished(outcome) if planted.strays.is_empty() && answered(&outcome) => {
                return Ok(self.end_by_answer(outcome, &strays));
            }
            end => self.why_it_failed(end, git, planted, changes)?,
        };
        Ok(why.map(|(cause, feedback)| {
            let feedback = if strays.is_empty() || cause == FailCause::Strays {
                feedback
            } else {
                format!("{feedback}\n\n{}", self.stray_feedback(planted, changes))
            };
            JobEnd::Failed { cause, feedback, strays }
        }))
    }

    /// Returns the end that the agent asked for instead of a verification; none if it is done or has failed.
    fn end_by_answer(&mut self, outcome: AgentOutcome, strays: &[String]) -> Option<JobEnd> {
        self.warnings.extend(strays.iter().map(|path| format!("{path} is not owned by the task and is not committed")));
        self.reason = match outcome {
            AgentOutcome::Unserved { reason, .. } => reason,
            AgentOutcome::OverBudget(_) => Some(Reason::TaskBudget),
            _ => None,
        };
        Some(match outcome {
            AgentOutcome::Checkpoint(note) => JobEnd::Checkpoint { note },
            AgentOutcome::Escalated(reason) => JobEnd::Escalated { reason },
            AgentOutcome::Unserved { why, until, .. } => JobEnd::Unserved { why, until },
            AgentOutcome::OverBudget(reason) | AgentOutcome::Blocked(reason) => JobEnd::Blocked { reason },
            AgentOutcome::Done | AgentOutcome::Failed(_) => return None,
        })
    }

    /// Returns the cause of a failure and what the next attempt is told of it; none if there is nothing to object to.
    fn why_it_failed(
        &self,
        end: AgentEnd,
        git: &Git,
        planted: &Planted,
        changes: &Changes,
    ) -> Result<Option<(FailCause, String)>> {
        let stopped = |why: &str, limit: Duration, words: Option<String>| {
            let words = words.map(|words| format!(" Its last words: {words}")).unwrap_or_default();
            format!("The agent was ended because it had {why} {:.0} s.{words}", limit.as_secs_f64())
        };
        let limits = &self.spec.limits;
        Ok(Some(match end {
            AgentEnd::Cancelled => return Ok(None),
            AgentEnd::TimedOut(words) => (FailCause::Timeout, stopped("not finished within", limits.attempt(), words)),
            AgentEnd::Stalled(words) => {
                (FailCause::Stalled, stopped("written and changed nothing for", limits.stall(), words))
            }
            AgentEnd::Finished(AgentOutcome::Failed(feedback)) => (FailCause::Agent, feedback),
            AgentEnd::Finished(_) if !planted.strays.is_empty() || !changes.strays.is_empty() => {
                (FailCause::Strays, self.stray_feedback(planted, changes))
            }
            AgentEnd::Finished(_) => {
                let missing = self.missing(git, changes)?;
                if missing.is_empty() {
                    return Ok(None);
                }
                (FailCause::Missing, format!("The task did not create these files: {}.", missing.join(", ")))
            }
        }))
    }

    pub(super) fn stray_feedback(&self, planted: &Planted, changes: &Changes) -> String {
        let all = planted.strays.iter().cloned().chain(changes.strays.iter().map(|stray| stray.path.to_string()));
        let named = few(&all.collect::<Vec<_>>());
        let mut text =
            format!("The attempt changed what the task does not own: {named}\n\nThese changes will not be merged:\n");
        for name in &planted.strays {
            text.push_str(&format!("- {name} (put back)\n"));
        }
        for stray in &changes.strays {
            let why = if stray.why.is_empty() { String::new() } else { format!(" ({})", stray.why) };
            text.push_str(&format!("- {}{why}\n", stray.path));
        }
        text.push_str("The task owns only:\n");
        for owned in &self.spec.owned {
            text.push_str(&format!("- {}{}\n", owned.path, if owned.directory { "/" } else { "" }));
        }
        text
    }
}
