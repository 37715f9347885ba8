//! Passes commands from other processes (clients) to the process that holds the feature, and returns its answers.
//!
//! A client keeps its command file locked while it waits: the command of a client that has exited is never executed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use mahabharatha_core::run::effect::Answer;
use mahabharatha_core::run::event::{Command, RequestId};
use notify::RecommendedWatcher;

use super::atomic::{TEMPORARY, make_dir, write_projected};
use super::fault;
use super::locks::{FeatureLock, OsLock, held_by_another, lock_file};
use super::watch::on_change;
use crate::bounded::{self, LARGE_FILE_BYTES};
use crate::error::{Error, Result, io};

const COMMAND: &str = ".json";
const ANSWER: &str = ".answer.json";

/// The holder's end of the spool.
pub struct Spool {
    dir: PathBuf,
    _watcher: RecommendedWatcher,
}

impl Spool {
    /// Calls `deliver` once for every waiting or arriving command, from this thread or the watcher's.
    pub fn watch(feature_dir: &Path, deliver: impl FnMut(RequestId, Command) + Send + 'static) -> Result<Spool> {
        let dir = spool_dir(feature_dir);
        make_dir(&dir)?;
        let inbox = Arc::new(Mutex::new(Inbox { dir: dir.clone(), seen: BTreeSet::new(), deliver }));
        let noticed = Arc::clone(&inbox);
        let watcher = on_change(&dir, move || noticed.lock().unwrap_or_else(PoisonError::into_inner).scan())?;
        inbox.lock().unwrap_or_else(PoisonError::into_inner).scan();
        Ok(Spool { dir, _watcher: watcher })
    }

    /// Sends the answer to the client. If the client has exited, the answer stays unread.
    pub fn answer(&self, request: &RequestId, answer: &Answer) -> Result<()> {
        write_answer(&self.dir, request, answer)
    }
}

struct Inbox<F> {
    dir: PathBuf,
    /// Delivered commands whose files still exist.
    seen: BTreeSet<RequestId>,
    deliver: F,
}

impl<F: FnMut(RequestId, Command)> Inbox<F> {
    /// Scans the whole directory, so that no change is missed; it holds only a few files.
    fn scan(&mut self) {
        let names: BTreeSet<String> = fs::read_dir(&self.dir)
            .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
            .unwrap_or_default();
        self.seen.retain(|request| names.contains(&format!("{request}{COMMAND}")));
        for name in &names {
            if let Some(request) = name.strip_suffix(ANSWER) {
                if !names.contains(&format!("{request}{COMMAND}")) {
                    remove(&self.dir.join(name));
                }
            } else if let Some(request) = name.strip_suffix(COMMAND)
                && !name.starts_with(TEMPORARY)
                && !names.contains(&format!("{request}{ANSWER}"))
                && !self.seen.contains(request)
            {
                self.take(request);
            }
        }
    }

    fn take(&mut self, request: &str) {
        let path = self.dir.join(format!("{request}{COMMAND}"));
        let Ok(file) = bounded::open(&path) else { return };
        if !held_by_another(&file, &path).unwrap_or(false) {
            remove(&path);
            return;
        }
        self.seen.insert(request.to_owned());
        match serde_json::from_reader(BufReader::new(file.take(LARGE_FILE_BYTES))) {
            Ok(command) => (self.deliver)(request.to_owned(), command),
            Err(error) => {
                let message = Some(format!("the command is invalid: {error}"));
                // Without an answer the client keeps waiting for the lock, and then executes the command itself.
                let _ = write_answer(&self.dir, request, &Answer { message, ..Answer::default() });
            }
        }
    }
}

/// Outcome of sending a command.
#[derive(Debug)]
pub enum Asked {
    Answered(Answer),
    /// No other process holds the feature any more: the client holds it now and executes the command itself. It uses
    /// the same request id, in case the previous holder died after it had journaled the command.
    TookLock {
        lock: FeatureLock,
        request: RequestId,
    },
}

/// Sends a command to the holder of the feature, and waits for the answer or for the lock, whichever comes first.
/// If the answer comes first, the thread that still waits for the lock releases it as soon as it gets it.
pub fn ask(feature_dir: &Path, holder_file: &Path, command: &Command) -> Result<Asked> {
    enum News {
        Change,
        Lock(Result<OsLock>),
    }
    let dir = spool_dir(feature_dir);
    let (sender, news) = mpsc::channel();
    let (_watcher, posted) = loop {
        make_dir(&dir)?;
        let changes = sender.clone();
        let watched = on_change(&dir, move || drop(changes.send(News::Change)));
        match watched.and_then(|watcher| Ok((watcher, Posted::post(&dir, command)?))) {
            // The cleanup of the run that just ended has removed the directory.
            Err(error) if !dir.exists() || is_not_found(&error) => {}
            done => break done?,
        }
    };
    let lock_path = lock_file(feature_dir);
    thread::spawn(move || sender.send(News::Lock(OsLock::wait(&lock_path))));
    loop {
        let next = news.recv().expect("the watcher keeps a sender");
        if let Some(answer) = posted.answer()? {
            return Ok(Asked::Answered(answer));
        }
        if let News::Lock(lock) = next {
            let lock = FeatureLock::enter(lock?, feature_dir, holder_file)?;
            return Ok(Asked::TookLock { lock, request: posted.request.clone() });
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::NotFound)
}

/// A command in the spool; removed when dropped.
struct Posted {
    request: RequestId,
    path: PathBuf,
    answer: PathBuf,
    /// Locked as long as the client waits.
    _file: File,
}

impl Posted {
    fn post(dir: &Path, command: &Command) -> Result<Posted> {
        let request = new_request();
        let path = dir.join(format!("{request}{COMMAND}"));
        let mut file =
            tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir).map_err(io("create a file in", dir))?;
        let text = serde_json::to_vec(command).expect("commands have string keys only, so JSON can hold them");
        file.as_file()
            .lock()
            .and_then(|()| fault::disk())
            .and_then(|()| file.write_all(&text))
            .map_err(io("write", &path))?;
        let file = file.persist(&path).map_err(|error| io("write", &path)(error.error))?;
        let answer = dir.join(format!("{request}{ANSWER}"));
        Ok(Posted { request, path, answer, _file: file })
    }

    fn answer(&self) -> Result<Option<Answer>> {
        let Ok(text) = bounded::read(&self.answer, LARGE_FILE_BYTES) else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            Error::caused(format_args!("{} is not a valid answer", self.answer.display()))(error)
                .hint("The run may use another version of mahabharatha: use the same version for both.")
        })
    }
}

impl Drop for Posted {
    /// Removes the command first: the holder deletes an answer without a command as left over.
    fn drop(&mut self) {
        remove(&self.path);
        remove(&self.answer);
    }
}

/// Returns a new request id. Ids sort by time, so that commands are delivered in the order in which they were sent.
fn new_request() -> RequestId {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = jiff::Timestamp::now().as_millisecond();
    format!("{now:013}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn write_answer(dir: &Path, request: &str, answer: &Answer) -> Result<()> {
    let text = serde_json::to_vec(answer).expect("answers have string keys only, so JSON can hold them");
    write_projected(&dir.join(format!("{request}{ANSWER}")), &text)
}

fn spool_dir(feature_dir: &Path) -> PathBuf {
    feature_dir.join("spool")
}

/// Removes a file; on failure the next scan tries again.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use mahabharatha_core::ids::TaskId;

    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        feature: PathBuf,
        holder_file: PathBuf,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        Place { feature: dir.path().join("x"), holder_file: dir.path().join("none/.lock"), _dir: dir }
    }

    impl Place {
        fn lock(&self) -> FeatureLock {
            FeatureLock::wait(&self.feature, &self.holder_file).unwrap()
        }

        fn ask_in_background(&self, command: Command) -> thread::JoinHandle<Asked> {
            let (feature, holder_file) = (self.feature.clone(), self.holder_file.clone());
            thread::spawn(move || ask(&feature, &holder_file, &command).unwrap())
        }

        fn watch(&self) -> (Spool, mpsc::Receiver<(RequestId, Command)>) {
            let (sender, receiver) = mpsc::channel();
            let spool = Spool::watch(&self.feature, move |request, command| {
                let _ = sender.send((request, command));
            });
            (spool.unwrap(), receiver)
        }

        fn spooled(&self) -> Vec<String> {
            let entries = fs::read_dir(spool_dir(&self.feature)).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    fn retry() -> Command {
        Command::Retry { tasks: vec![TaskId::new("TASK-001").unwrap()], budget: None, note: None }
    }

    fn answer() -> Answer {
        Answer { accepted: vec![TaskId::new("TASK-001").unwrap()], ..Answer::default() }
    }

    #[test]
    fn the_holder_gets_the_command_and_answers() {
        let place = place();
        let _lock = place.lock();
        let (spool, commands) = place.watch();
        let asker = place.ask_in_background(retry());
        let (request, command) = commands.recv().unwrap();
        assert_eq!(command, retry());
        spool.answer(&request, &answer()).unwrap();
        assert!(matches!(asker.join().unwrap(), Asked::Answered(got) if got == answer()));
        assert_eq!(place.spooled(), [""; 0]);
    }

    #[test]
    fn a_waiting_command_is_delivered_once() {
        let place = place();
        let _lock = place.lock();
        let askers = [place.ask_in_background(retry()), place.ask_in_background(retry())];
        let (first, commands) = place.watch();
        let mut requests = [commands.recv().unwrap().0, commands.recv().unwrap().0];
        requests.sort();
        assert_ne!(requests[0], requests[1]);
        for request in &requests {
            first.answer(request, &answer()).unwrap();
        }
        for asker in askers {
            assert!(matches!(asker.join().unwrap(), Asked::Answered(_)));
        }
        drop(first);
        assert!(commands.recv().is_err(), "nothing is delivered twice");
    }

    #[test]
    fn without_a_holder_the_client_takes_the_lock() {
        let place = place();
        let Asked::TookLock { lock, request } = ask(&place.feature, &place.holder_file, &retry()).unwrap() else {
            panic!("a holder answered")
        };
        assert!(!request.is_empty());
        assert_eq!(place.spooled(), [""; 0]);
        assert!(FeatureLock::try_acquire(&place.feature, &place.holder_file).unwrap().is_err());
        drop(lock);
    }

    #[test]
    fn a_client_gets_the_lock_if_the_holder_exits_without_an_answer() {
        let place = place();
        let lock = place.lock();
        let (spool, commands) = place.watch();
        let asker = place.ask_in_background(retry());
        let (asked, _) = commands.recv().unwrap();
        drop(spool);
        drop(lock);
        assert!(matches!(asker.join().unwrap(), Asked::TookLock { request, .. } if request == asked));
    }

    #[test]
    fn an_answer_wins_over_the_lock() {
        let place = place();
        let lock = place.lock();
        let asker = place.ask_in_background(retry());
        let (spool, commands) = place.watch();
        let (request, _) = commands.recv().unwrap();
        spool.answer(&request, &answer()).unwrap();
        drop(lock);
        assert!(matches!(asker.join().unwrap(), Asked::Answered(_)));
        // The thread that was waiting for the lock has released it.
        drop(place.lock());
    }

    #[test]
    fn a_directory_that_cleanup_removes_meanwhile_is_made_again() {
        let place = place();
        let dir = spool_dir(&place.feature);
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Bounded: on a slow disk the remover could otherwise keep every writer out.
                for _ in 0..20_000 {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    let _ = fs::remove_dir_all(&dir);
                }
            });
            let failed: Vec<_> =
                (0..200).filter_map(|_| ask(&place.feature, &place.holder_file, &retry()).err()).collect();
            is_done.store(true, Ordering::Relaxed);
            assert!(failed.is_empty(), "{failed:?}");
        });
    }

    #[test]
    fn the_command_of_a_client_that_has_exited_is_not_executed() {
        let place = place();
        let dir = spool_dir(&place.feature);
        make_dir(&dir).unwrap();
        let stop = serde_json::to_vec(&Command::Stop { force: true, grace_ms: 0, worker: None }).unwrap();
        fs::write(dir.join("0000000000000-1-0.json"), stop).unwrap();
        fs::write(dir.join("0000000000000-2-0.answer.json"), "{}").unwrap();
        let (spool, commands) = place.watch();
        assert_eq!(place.spooled(), [""; 0]);
        drop(spool);
        assert!(commands.recv().is_err());
    }

    #[test]
    fn an_invalid_command_gets_an_error_answer() {
        let place = place();
        let dir = spool_dir(&place.feature);
        make_dir(&dir).unwrap();
        let file = File::create(dir.join("1.json")).unwrap();
        file.lock().unwrap();
        let (_spool, _commands) = place.watch();
        let answer: Answer = serde_json::from_slice(&fs::read(dir.join("1.answer.json")).unwrap()).unwrap();
        assert!(answer.message.unwrap().contains("is invalid"));
    }
}
