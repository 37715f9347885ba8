//! Which attempt a subagent is at: the one whose prompt it asked for, or else whose worktree it wrote in first. Every other
//! worktree is refused to it as long as that attempt is held.

use std::path::{Path, PathBuf};

use mahabharatha_core::run::effect::Doer;

use crate::error::Result;
use crate::store::atomic::write_projected;
use crate::worker::{FENCE, Order, occupants};

/// In the directory of a job: a file for each subagent that is at it.
const SUBAGENTS: &str = "subagents";

/// Notes that a subagent asks what to do for a task that its session holds in one of the features.
pub fn is_told(agent: &str, task: &str, session: &str, features: &[PathBuf]) -> Result<()> {
    let doer = Doer::Session(session.to_owned());
    let is_meant = |order: Order| order.job.task.as_str() == task && order.job.doer == doer;
    for feature_dir in features {
        for job_dir in occupants(feature_dir)? {
            if Order::read(&job_dir).is_ok_and(is_meant) {
                enter(agent, &job_dir, features)?;
            }
        }
    }
    Ok(())
}

/// Notes that a subagent is at a job; or the order that it is at elsewhere in one of the features.
pub fn enter(agent: &str, job_dir: &Path, features: &[PathBuf]) -> Result<Option<Order>> {
    if !is_plain(agent) {
        return Ok(None);
    }
    let mark = job_dir.join(SUBAGENTS).join(agent);
    if mark.exists() {
        return Ok(None);
    }
    for feature_dir in features {
        if let Some(own) = occupants(feature_dir)?.iter().find(|job_dir| is_at(agent, job_dir)) {
            return Order::read(own).map(Some);
        }
    }
    write_projected(&mark, b"")?;
    Ok(None)
}

fn is_at(agent: &str, job_dir: &Path) -> bool {
    job_dir.join(SUBAGENTS).join(agent).exists() && !job_dir.join(FENCE).exists()
}

/// It becomes the name of a file.
fn is_plain(agent: &str) -> bool {
    (1..=128).contains(&agent.len()) && agent.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}
