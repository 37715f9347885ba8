//! Waiting until something in a directory changes, without looking again and again.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::atomic::make_dir;
use super::locks::{lock_file, wait_until_free};
use crate::error::{Error, ExitCode, Result};

pub struct Changes {
    changed: Receiver<()>,
    watcher: RecommendedWatcher,
}

/// Watches a directory and all below it, from now on, so that no change after the call is missed.
pub fn changes(dir: &Path) -> Result<Changes> {
    make_dir(dir)?;
    let (sender, changed) = mpsc::channel();
    let watcher = watch(dir, RecursiveMode::Recursive, move || {
        let _ = sender.send(());
    })?;
    Ok(Changes { changed, watcher })
}

/// Watches the directory of a feature, what its workers do, and the going of its holder, which changes no file.
pub fn feature_changes(dir: &Path) -> Result<Changes> {
    let (sender, changed) = mpsc::channel();
    let (noticed, left) = (sender.clone(), sender);
    let slots = dir.join("slots");
    make_dir(&slots)?;
    let mut watcher = watch(dir, RecursiveMode::NonRecursive, move || {
        let _ = noticed.send(());
    })?;
    watcher.watch(&slots, RecursiveMode::NonRecursive).map_err(|error| cannot_watch(&slots, &error))?;
    let lock = lock_file(dir);
    thread::spawn(move || {
        if wait_until_free(&lock).is_ok() {
            let _ = left.send(());
        }
    });
    Ok(Changes { changed, watcher })
}

impl Changes {
    /// Another directory, as far as it can be watched; also one that was made in the place of another.
    pub fn watch_too(&mut self, dir: &Path) {
        let _ = self.watcher.watch(dir, RecursiveMode::NonRecursive);
    }

    /// Returns after a change, or after this time; several changes at once count as one.
    pub fn wait(&self, at_most: Option<Duration>) {
        let _ = match at_most {
            Some(time) => self.changed.recv_timeout(time).ok(),
            None => self.changed.recv().ok(),
        };
        while self.changed.try_recv().is_ok() {}
    }
}

/// Calls whenever something in the directory itself changed.
pub fn on_change(dir: &Path, call: impl FnMut() + Send + 'static) -> Result<RecommendedWatcher> {
    watch(dir, RecursiveMode::NonRecursive, call)
}

fn watch(dir: &Path, mode: RecursiveMode, mut call: impl FnMut() + Send + 'static) -> Result<RecommendedWatcher> {
    let noticed = move |event: notify::Result<notify::Event>| {
        // To look at a file is an access: it must not make us look again.
        if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
            call();
        }
    };
    notify::recommended_watcher(noticed)
        .and_then(|mut watcher| watcher.watch(dir, mode).map(|()| watcher))
        .map_err(|error| cannot_watch(dir, &error))
}

fn cannot_watch(dir: &Path, error: &notify::Error) -> Error {
    Error::new(ExitCode::Failed, format!("cannot watch {}: {error}", dir.display())).hint(
        "Where the limit is reached, raise it (sysctl fs.inotify.max_user_instances, fs.inotify.max_user_watches).",
    )
}
