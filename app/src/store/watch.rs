//! Waits until something in a directory changes.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};

use notify::RecommendedWatcher;

use super::spool::on_change;
use crate::error::Result;

pub struct Changes {
    changed: Receiver<()>,
    _watcher: RecommendedWatcher,
}

/// Begins to watch at once, so that no change after the call is missed.
pub fn changes(dir: &Path) -> Result<Changes> {
    let (sender, changed) = mpsc::channel();
    let watcher = on_change(dir, move || drop(sender.send(())))?;
    Ok(Changes { changed, _watcher: watcher })
}

impl Changes {
    /// Returns after a change; several at once count as one.
    pub fn wait(&self) {
        let _ = self.changed.recv();
        while self.changed.try_recv().is_ok() {}
    }
}
