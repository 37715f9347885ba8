//! What containers and images use of the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Engine, api};
use crate::error::Result;

/// What a running container uses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    /// Of one processor, over the last second.
    pub cpu_percent: f64,
}

/// Images on this machine, and where the engine has its data.
#[derive(Debug, PartialEq, Eq)]
pub struct Storage {
    pub root: PathBuf,
    pub images: usize,
    /// Counts layers that images share more than once.
    pub image_bytes: u64,
}

impl Engine {
    /// Returns what these containers use, of those that run, as far as the engine answers in time.
    pub fn usage(&self, containers: Vec<String>, limit: Duration) -> BTreeMap<String, Usage> {
        let (sender, receiver) = mpsc::channel();
        for name in containers {
            let (sender, engine) = (sender.clone(), self.clone());
            // Left behind if the engine does not answer: nothing waits for it.
            thread::spawn(move || {
                let found = engine.get(&format!("/containers/{name}/stats?stream=false")).ok().flatten();
                let _ = sender.send((name, found.as_ref().and_then(usage)));
            });
        }
        drop(sender);
        let deadline = Instant::now() + limit;
        let next = || receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
        std::iter::from_fn(next).filter_map(|(name, usage)| Some((name, usage?))).collect()
    }

    /// Returns what the engine stores; of images those with these labels.
    pub fn storage(&self, labels: &BTreeMap<String, String>) -> Result<Storage> {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let filters = api::escaped(&json!({ "label": labels }).to_string());
        let images = self.expect("GET", &format!("/images/json?filters={filters}"), None)?;
        let images = images.as_array().map(Vec::as_slice).unwrap_or_default();
        let info = self.expect("GET", "/info", None)?;
        Ok(Storage {
            root: info["DockerRootDir"].as_str().unwrap_or_default().into(),
            images: images.len(),
            image_bytes: images.iter().filter_map(|image| image["Size"].as_u64()).sum(),
        })
    }
}

/// Reads the engine's statistics; `None` if the container does not run.
fn usage(found: &Value) -> Option<Usage> {
    let memory = &found["memory_stats"];
    let used = memory["usage"].as_u64()?;
    // What the kernel can drop at once does not count: by its name in cgroups of version 1 and 2.
    let droppable = ["total_inactive_file", "inactive_file"].iter().find_map(|key| memory["stats"][key].as_u64());
    let (now, before) = (&found["cpu_stats"], &found["precpu_stats"]);
    let passed = |path: &str| Some(now.pointer(path)?.as_f64()? - before.pointer(path)?.as_f64()?);
    let busy = passed("/cpu_usage/total_usage").unwrap_or_default();
    let (all, processors) = (passed("/system_cpu_usage").unwrap_or_default(), now["online_cpus"].as_f64());
    let share = if all > 0.0 { busy / all * processors.unwrap_or(1.0) } else { 0.0 };
    Some(Usage {
        memory_bytes: used.saturating_sub(droppable.unwrap_or_default()),
        memory_limit_bytes: memory["limit"].as_u64().unwrap_or_default(),
        cpu_percent: (share * 1000.0).round() / 10.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_as_the_client_shows_them() {
        let found = json!({
            "memory_stats": { "usage": 300, "limit": 1000, "stats": { "inactive_file": 100 } },
            "cpu_stats": { "cpu_usage": { "total_usage": 600 }, "system_cpu_usage": 5000, "online_cpus": 2 },
            "precpu_stats": { "cpu_usage": { "total_usage": 100 }, "system_cpu_usage": 4000 },
        });
        let expected = Usage { memory_bytes: 200, memory_limit_bytes: 1000, cpu_percent: 100.0 };
        assert_eq!(usage(&found), Some(expected));
        assert_eq!(usage(&json!({ "memory_stats": {} })), None);
    }
}
