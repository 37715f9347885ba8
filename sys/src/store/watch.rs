//! Waits for changes in directories without polling.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::atomic::make_dir;
use super::locks::{lock_file, wait_until_free};
use crate::error::{Error, Result};

pub struct Changes {
    sender: Sender<()>,
    changed: Receiver<()>,
    watcher: RecommendedWatcher,
}

/// Watches a directory and everything below it. No change after this call is missed.
pub fn changes(dir: &Path) -> Result<Changes> {
    make_dir(dir)?;
    let (sender, changed) = mpsc::channel();
    let on_file = sender.clone();
    let watcher = watch(dir, RecursiveMode::Recursive, move || {
        let _ = on_file.send(());
    })?;
    Ok(Changes { sender, changed, watcher })
}

/// Watches the directory of a feature, the progress of its workers, and the exit of its holder, which changes no file.
pub fn feature_changes(dir: &Path) -> Result<Changes> {
    let (sender, changed) = mpsc::channel();
    let (on_file, on_exit) = (sender.clone(), sender.clone());
    let slots = dir.join("slots");
    make_dir(&slots)?;
    let mut watcher = watch(dir, RecursiveMode::NonRecursive, move || {
        let _ = on_file.send(());
    })?;
    watcher.watch(&slots, RecursiveMode::NonRecursive).map_err(|error| cannot_watch(&slots, error))?;
    let lock = lock_file(dir);
    thread::spawn(move || {
        if wait_until_free(&lock).is_ok() {
            let _ = on_exit.send(());
        }
    });
    Ok(Changes { sender, changed, watcher })
}

impl Changes {
    /// Returns a callback that ends the wait, as a change does.
    pub fn waker(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        move || {
            let _ = sender.send(());
        }
    }

    /// Also watches another directory, or again one that was replaced. Ignores a directory that cannot be watched.
    pub fn watch_also(&mut self, dir: &Path) {
        let _ = self.watcher.watch(dir, RecursiveMode::NonRecursive);
    }

    /// Blocks until something changes, or for this time; several changes at once count as one. Returns whether there was one.
    pub fn wait(&self, at_most: Option<Duration>) -> bool {
        let change = match at_most {
            Some(time) => self.changed.recv_timeout(time).ok(),
            None => self.changed.recv().ok(),
        };
        while self.changed.try_recv().is_ok() {}
        change.is_some()
    }
}

/// Calls `call` whenever something directly in the directory changes.
pub fn on_change(dir: &Path, call: impl FnMut() + Send + 'static) -> Result<RecommendedWatcher> {
    watch(dir, RecursiveMode::NonRecursive, call)
}

fn watch(dir: &Path, mode: RecursiveMode, mut call: impl FnMut() + Send + 'static) -> Result<RecommendedWatcher> {
    let on_event = move |event: notify::Result<notify::Event>| {
        // Ignore accesses: our own reads must not trigger another round.
        if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
            call();
        }
    };
    notify::recommended_watcher(on_event)
        .and_then(|mut watcher| watcher.watch(dir, mode).map(|()| watcher))
        .map_err(|error| cannot_watch(dir, error))
}

fn cannot_watch(dir: &Path, error: notify::Error) -> Error {
    Error::caused(format_args!("cannot watch {}", dir.display()))(error)
        .hint("If the limit is reached, raise it (sysctl fs.inotify.max_user_instances, fs.inotify.max_user_watches).")
}
