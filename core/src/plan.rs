//! (being written)
use crate::spec::TaskSpec;
use std::time::Duration;
/// How long a task will take.
pub fn estimate(task: &TaskSpec) -> Duration {
    Duration::from_secs_f64(task.estimate_minutes.unwrap_or(10.0) * 60.0)
}
