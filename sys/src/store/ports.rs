//! Leases ports to workers: free when probed, and never leased to two live workers of any feature.
//!
//! Each port has a lock file. The orchestrator and the worker that uses the port hold a shared lock on it; leasing it
//! needs the exclusive lock. So a port becomes free when its last holder exits, even by a crash.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;

use super::atomic::make_dir;
use super::state_file;
use crate::error::{Error, Kind, Result, io};

/// The ports of one worker, leased until this is dropped.
#[derive(Debug)]
pub struct PortLease {
    pub ports: Vec<u16>,
    locks: Vec<File>,
}

/// Leases `per_worker` ports from the range for each worker.
pub fn lease(
    dir: &Path,
    range: std::ops::RangeInclusive<u16>,
    workers: u32,
    per_worker: u16,
) -> Result<Vec<PortLease>> {
    make_dir(dir)?;
    let mut candidates = range.clone();
    let mut leases = Vec::new();
    for _ in 0..workers {
        let mut lease = PortLease { ports: Vec::new(), locks: Vec::new() };
        while lease.ports.len() < usize::from(per_worker) {
            let Some(port) = candidates.next() else {
                return Err(Error::new(
                    Kind::Preflight,
                    format!("too few free ports from {} to {}", range.start(), range.end()),
                )
                .hint(
                    "Widen ports.range_start and ports.range_end in .mahabharatha/config.yaml, or use fewer workers.",
                ));
            };
            if let Some(lock) = take(dir, port)? {
                lease.ports.push(port);
                lease.locks.push(lock);
            }
        }
        leases.push(lease);
    }
    Ok(leases)
}

/// Acquires a shared lock on a port that the orchestrator has leased.
pub fn share(dir: &Path, port: u16) -> Result<File> {
    make_dir(dir)?;
    let path = dir.join(port.to_string());
    let file = open(&path)?;
    file.lock_shared().map_err(io("lock", &path))?;
    Ok(file)
}

fn take(dir: &Path, port: u16) -> Result<Option<File>> {
    let path = dir.join(port.to_string());
    let file = open(&path)?;
    if file.try_lock().is_err() || TcpListener::bind(("127.0.0.1", port)).is_err() {
        return Ok(None);
    }
    // Changing an exclusive lock into a shared one is not atomic: another process may get the port in between.
    Ok(file.try_lock_shared().is_ok().then_some(file))
}

fn open(path: &Path) -> Result<File> {
    state_file::open(path).map_err(io("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_leased_twice() {
        let dir = tempfile::tempdir().unwrap();
        let first = lease(dir.path(), 45_100..=45_199, 3, 2).unwrap();
        let second = lease(dir.path(), 45_100..=45_199, 3, 2).unwrap();
        let mut all: Vec<u16> = first.iter().chain(&second).flat_map(|lease| lease.ports.clone()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12);
    }

    #[test]
    fn a_port_stays_leased_while_a_worker_shares_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = lease(dir.path(), 45_200..=45_299, 1, 1).unwrap();
        let port = held[0].ports[0];
        let worker = share(dir.path(), port).unwrap();
        drop(held);
        assert_ne!(lease(dir.path(), 45_200..=45_299, 1, 1).unwrap()[0].ports[0], port);
        drop(worker);
        assert_eq!(lease(dir.path(), 45_200..=45_299, 1, 1).unwrap()[0].ports[0], port);
    }

    #[test]
    fn a_port_in_use_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        assert!(lease(dir.path(), port..=port, 1, 1).is_err());
        drop(server);
        assert_eq!(lease(dir.path(), port..=port, 1, 1).unwrap()[0].ports, [port]);
    }
}
