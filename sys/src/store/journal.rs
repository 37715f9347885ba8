//! The journal of a run: every event exactly once, in order, on disk before it is acted on.

mod copy;
mod follow;
mod read;
mod repair;

use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::{Feature, Time};
use mahabharatha_core::run::event::Event;
use serde::{Deserialize, Serialize};

use self::copy::PrivateCopy;
pub use self::follow::{Follower, News};
use self::read::{foreign, read_all};
pub use self::repair::{Examined, Health, Repair, Repaired, examine};
use super::atomic::write_atomic;
use super::locks::FeatureLock;
use super::{fault, state_file};
use crate::bounded;
use crate::crash;
use crate::error::{Error, Kind, Result, io};

const VERSION: u32 = 1;

pub const FILE_NAME: &str = "events.jsonl";
/// Maximum size of a journal, far more than a run writes.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    journal: u32,
    feature: Feature,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub seq: u64,
    pub at: Time,
    pub event: Event,
}

/// A journal open for appending. Only the holder of the feature's lock can have one.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    next_seq: u64,
    /// Set when a partly written record could not be removed: nothing may be appended after it.
    poisoned: bool,
    /// What we wrote to the file, and its fingerprint after the last write: agents can write to the file as well.
    copy: PrivateCopy,
    fingerprint: Option<Fingerprint>,
    tampered_copy: Option<PathBuf>,
}

/// File metadata that changes whenever a program writes to the file or replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Fingerprint {
    fn of(path: &Path) -> Option<Fingerprint> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Fingerprint { inode: found.ino(), length: found.size(), changed: (found.ctime(), found.ctime_nsec()) })
    }
}

impl mahabharatha_core::run::Journal for Journal {
    type Error = Error;

    fn append(&mut self, now: Time, event: &Event) -> Result<()> {
        Journal::append(self, now, event)
    }
}

impl Journal {
    /// Opens the journal beside the lock and reads its records, or creates a new journal.
    /// Moves a torn record at the end to a file of its own: it was never acted on.
    pub fn open_for_append(lock: &FeatureLock, feature: &Feature) -> Result<(Journal, Vec<Record>)> {
        let path = lock.dir().join(FILE_NAME);
        if !path.exists() {
            write_atomic(&path, &line(&Header { journal: VERSION, feature: feature.clone() }))?;
        }
        let mut file = state_file::open(&path).map_err(io("open", &path))?;
        let content = read_all(&file, &path)?.validated(&path)?;
        if content.feature.as_ref() != Some(feature) {
            return Err(foreign(&path, content.feature.as_ref(), feature));
        }
        if !content.torn.is_empty() {
            save_torn(&path, &content.torn)?;
            file.set_len(content.length).and_then(|()| file.sync_all()).map_err(io("truncate", &path))?;
        }
        file.seek(SeekFrom::Start(content.length)).map_err(io("open", &path))?;
        let next_seq = content.records.len() as u64 + 1;
        let fingerprint = Fingerprint::of(&path);
        let copy = PrivateCopy::new(lock.dir(), &read_bytes(&path)?).map_err(io("copy", &path))?;
        let journal = Journal { file, path, next_seq, poisoned: false, copy, fingerprint, tampered_copy: None };
        Ok((journal, content.records))
    }

    /// Returns all records of the journal, without changing it; none if there is no journal.
    pub fn read(path: &Path) -> Result<Vec<Record>> {
        match bounded::open(path) {
            Ok(file) => Ok(read_all(&file, path)?.validated(path)?.records),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(io("open", path)(error)),
        }
    }

    /// Appends the event and returns once it is on disk. After an error the event is not in the journal.
    pub fn append(&mut self, at: Time, event: &Event) -> Result<()> {
        if self.poisoned {
            return Err(Error::new(Kind::Failed, format!("{} could not be written", self.path.display()))
                .hint("Fix the disk, then run the same command again: it removes the partly written record."));
        }
        if self.fingerprint.is_none() || Fingerprint::of(&self.path) != self.fingerprint {
            self.restore()?;
        }
        crash::point(|| format!("append {} before", crash::label(event)));
        let bytes = line(&RecordRef { seq: self.next_seq, at, event });
        if let Err(error) = self.write(&bytes) {
            self.poisoned = self.remove_torn_end().is_err();
            return Err(io("write", &self.path)(error));
        }
        self.next_seq += 1;
        self.copy.keep(&bytes);
        self.fingerprint = Fingerprint::of(&self.path).filter(|found| self.is_ours(found));
        if self.fingerprint.is_none() {
            // Replaced in this moment: the file at its path has not got the event.
            self.restore().inspect_err(|_| self.poisoned = true)?;
        }
        crash::point(|| format!("append {} after", crash::label(event)));
        Ok(())
    }

    /// Tells whether it is the file that we write to, and no longer than what we wrote.
    fn is_ours(&self, found: &Fingerprint) -> bool {
        let is_our_file = self.file.metadata().is_ok_and(|ours| ours.ino() == found.inode);
        is_our_file && found.length == self.copy.length()
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        fault::disk()?;
        self.copy.write(bytes)?;
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    /// Returns where the content of a tampered journal was saved, if tampering was found since the last call.
    pub fn take_tampered_copy(&mut self) -> Option<PathBuf> {
        self.tampered_copy.take()
    }

    /// Restores the content that we wrote, if another program changed the file: a resumed run must not trust what an
    /// agent wrote.
    fn restore(&mut self) -> Result<()> {
        let aside = self.path.with_extension("jsonl.changed");
        let own = self.copy.read().map_err(io("restore", &self.path))?;
        let found = bounded::read(&self.path, MAX_BYTES);
        // A link is replaced, whatever it leads to.
        let is_file = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_file());
        let is_same = is_file && matches!(&found, Ok(found) if *found == own);
        if !is_same {
            match found {
                Ok(found) => write_atomic(&aside, &found)?,
                Err(error) if error.kind() == ErrorKind::NotFound => write_atomic(&aside, b"")?,
                // A directory, a pipe, a file that is too large.
                Err(_) => {
                    let _ = fs::remove_dir_all(&aside);
                    fs::rename(&self.path, &aside).map_err(io("move", &self.path))?;
                }
            }
            write_atomic(&self.path, &own)?;
            self.tampered_copy = Some(aside);
        }
        // It may be another file than ours, also with the same content.
        self.file = state_file::open(&self.path).map_err(io("open", &self.path))?;
        self.file.seek(SeekFrom::Start(self.copy.length())).map_err(io("open", &self.path))?;
        Ok(())
    }

    fn remove_torn_end(&mut self) -> std::io::Result<()> {
        self.file.set_len(self.copy.length())?;
        self.file.seek(SeekFrom::Start(self.copy.length()))?;
        self.file.sync_data()
    }
}

/// Borrowed form of `Record` for writing, which avoids cloning the event.
#[derive(Serialize)]
struct RecordRef<'a> {
    seq: u64,
    at: Time,
    event: &'a Event,
}

/// Reads a whole journal as it is.
fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    bounded::read(path, MAX_BYTES).map_err(too_large(path))
}

/// Converts an error of reading a journal. One that is too large was not written by us.
fn too_large(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |error| {
        let is_too_large = error.kind() == ErrorKind::FileTooLarge;
        let error = io("read", path)(error);
        if is_too_large {
            error.hint("No run writes such a journal: move it away, or restore it from a backup.")
        } else {
            error
        }
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("headers and events have string keys only, so JSON can hold them");
    bytes.push(b'\n');
    bytes
}

fn save_torn(path: &Path, torn: &[u8]) -> Result<()> {
    let aside = path.with_extension("jsonl.torn");
    let mut file = state_file::open_to_append(&aside).map_err(io("open", &aside))?;
    file.write_all(torn).and_then(|()| file.write_all(b"\n")).map_err(io("write", &aside))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mahabharatha_core::ids::WorkerId;
    use mahabharatha_core::run::EffectId;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        lock: FeatureLock,
        feature: Feature,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let lock = FeatureLock::wait(&dir.path().join("x"), &dir.path().join("none/.lock")).unwrap();
            Place { dir, lock, feature: Feature::new("x").unwrap() }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("x").join(FILE_NAME)
        }

        fn open(&self) -> Result<(Journal, Vec<Record>)> {
            Journal::open_for_append(&self.lock, &self.feature)
        }

        /// Creates and closes a journal with this many records.
        fn with(records: u32) -> Self {
            let place = Self::new();
            let (mut journal, before) = place.open().unwrap();
            assert!(before.is_empty());
            for number in 0..records {
                journal.append(Time(number.into()), &event(number)).unwrap();
            }
            place
        }
    }

    fn event(number: u32) -> Event {
        Event::SlotReady { effect: EffectId(7), worker: WorkerId(number) }
    }

    #[test]
    fn appended_records_are_read_again() {
        let place = Place::with(3);
        let (mut journal, records) = place.open().unwrap();
        assert_eq!(records.len(), 3);
        assert_eq!(records[2], Record { seq: 3, at: Time(2), event: event(2) });
        journal.append(Time(9), &Event::Woke).unwrap();
        let all = Journal::read(&place.path()).unwrap();
        assert_eq!(all[..3], records);
        assert_eq!(all[3].event, Event::Woke);
        let text = fs::read_to_string(place.path()).unwrap();
        assert_eq!(text.lines().next(), Some(r#"{"journal":1,"feature":"x"}"#));
        assert_eq!(
            text.lines().nth(1),
            Some(r#"{"seq":1,"at":0,"event":{"event":"slot_ready","effect":7,"worker":0}}"#)
        );
    }

    #[test]
    fn a_replaced_journal_continues_in_the_new_file() {
        let place = Place::with(1);
        let (mut journal, _) = place.open().unwrap();
        for number in 1..3 {
            // A copy with the same content is another file.
            let copy = place.dir.path().join("copy");
            fs::copy(place.path(), &copy).unwrap();
            fs::rename(&copy, place.path()).unwrap();
            journal.append(Time(number), &event(7)).unwrap();
            assert_eq!(Journal::read(&place.path()).unwrap().len() as i64, number + 1);
            assert_eq!(journal.take_tampered_copy(), None);
        }
        fs::remove_file(place.path()).unwrap();
        journal.append(Time(3), &Event::Woke).unwrap();
        assert_eq!(Journal::read(&place.path()).unwrap().len(), 4);
        assert!(journal.take_tampered_copy().is_some());
        drop(journal);
        assert_eq!(place.open().unwrap().1.len(), 4);
    }

    #[test]
    fn a_missing_journal_has_no_records() {
        assert_eq!(Journal::read(Path::new("/nowhere/events.jsonl")).unwrap(), []);
    }

    #[test]
    fn a_torn_record_is_removed_and_saved() {
        let place = Place::with(2);
        let whole = fs::read(place.path()).unwrap();
        let second = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
        for cut in second + 1..whole.len() {
            fs::write(place.path(), &whole[..cut]).unwrap();
            assert_eq!(Journal::read(&place.path()).unwrap().len(), 1, "cut at {cut}");
            assert_eq!(fs::read(place.path()).unwrap().len(), cut, "reading changes nothing");
            let (mut journal, records) = place.open().unwrap();
            assert_eq!(records.len(), 1, "cut at {cut}");
            journal.append(Time(5), &Event::Woke).unwrap();
            assert_eq!(Journal::read(&place.path()).unwrap()[1], Record { seq: 2, at: Time(5), event: Event::Woke });
        }
        let aside = fs::read_to_string(place.path().with_extension("jsonl.torn")).unwrap();
        assert_eq!(aside.lines().count(), whole.len() - second - 1);
    }

    #[test]
    fn a_block_of_zeros_at_the_end_is_a_torn_record() {
        let place = Place::with(1);
        let good = fs::read(place.path()).unwrap();
        for tail in [&b"\0\0\0\0"[..], b"{\"seq\":2,\0\0\0\0}\n"] {
            fs::write(place.path(), [&good, tail].concat()).unwrap();
            assert_eq!(place.open().unwrap().1.len(), 1);
            assert_eq!(fs::read(place.path()).unwrap(), good);
        }
    }

    #[test]
    fn damage_is_an_error_that_names_line_and_byte_and_changes_nothing() {
        let good = fs::read_to_string(Place::with(3).path()).unwrap();
        let lines: Vec<&str> = good.lines().collect();
        let to_third = good.len() - lines[3].len() - 1;
        let cases = [
            ("garbage in the middle", good.replace(r#""seq":3"#, r#""seq":}"#) + lines[3] + "\n", to_third, 4),
            ("a gap", good.replace(r#""seq":3"#, r#""seq":4"#), to_third, 4),
            ("zeros in the middle", good.replace(r#""seq":3"#, "\0\0") + lines[3] + "\n", to_third, 4),
            ("a record of another shape", good.replace(r#""worker":2"#, r#""worker":"2""#), to_third, 4),
            ("no header", good.replace(r#""journal""#, r#""x""#), 0, 1),
            ("nothing", String::new(), 0, 1),
        ];
        for (name, text, offset, line) in cases {
            let place = Place::new();
            fs::write(place.path(), &text).unwrap();
            for error in [place.open().unwrap_err(), Journal::read(&place.path()).unwrap_err()] {
                assert_eq!(error.kind(), Kind::Invalid, "{name}");
                assert!(error.message().contains(place.path().to_str().unwrap()), "{name}: {error}");
                assert!(error.details()[0].starts_with(&format!("line {line}, byte {offset}: ")), "{name}: {error}");
                assert!(error.what_to_do().unwrap().contains("debug --repair -f x"), "{name}: {error}");
            }
            assert_eq!(fs::read_to_string(place.path()).unwrap(), text, "{name}");
        }
    }

    #[test]
    fn a_journal_of_a_newer_version_or_another_feature_is_refused() {
        let place = Place::new();
        fs::write(place.path(), "{\"journal\":2,\"more\":true}\n").unwrap();
        assert!(place.open().unwrap_err().message().contains("version 2"));
        let known = fs::read_to_string(Place::with(2).path()).unwrap();
        let unknown = known.replace(r#""slot_ready","effect":7,"worker":1"#, r#""slept""#);
        fs::write(place.path(), &unknown).unwrap();
        let error = place.open().unwrap_err();
        assert!(error.message().contains("line 3 has the unknown event \"slept\""), "{error}");
        assert!(error.what_to_do().unwrap().contains("newer mahabharatha"), "{error}");
        fs::write(place.path(), "{\"journal\":1,\"feature\":\"y\"}\n").unwrap();
        assert!(place.open().unwrap_err().message().contains("journal of y"));
    }

    #[test]
    fn nothing_is_appended_after_a_torn_record_that_could_not_be_removed() {
        let place = Place::with(1);
        let (mut journal, _) = place.open().unwrap();
        journal.file = File::open(place.path()).unwrap();
        assert!(journal.append(Time(0), &Event::Woke).unwrap_err().message().contains("cannot write"));
        assert!(journal.poisoned);
        journal.append(Time(0), &Event::Woke).unwrap_err();
        assert_eq!(Journal::read(&place.path()).unwrap().len(), 1);
    }

    /// Runs itself again in a process whose files are limited to one block, as on a full disk.
    #[test]
    fn a_record_that_does_not_fit_on_the_disk_leaves_the_journal_whole() {
        const AGAIN: &str = "JOURNAL_TEST_ON_A_FULL_DISK";
        if std::env::var_os(AGAIN).is_none() {
            // Output goes through a pipe: the limit would apply to a file.
            let output = std::process::Command::new("sh")
                .args(["-c", r#"trap '' XFSZ; ulimit -f 1; exec "$0" "$@""#])
                .arg(std::env::current_exe().unwrap())
                .args(["a_record_that_does_not_fit_on_the_disk", "--nocapture"])
                .env(AGAIN, "1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let place = Place::with(0);
        let (mut journal, _) = place.open().unwrap();
        let mut written = 0;
        while journal.append(Time(0), &event(written)).is_ok() {
            written += 1;
        }
        assert!(written > 0 && !journal.poisoned);
        assert_eq!(fs::metadata(place.path()).unwrap().len(), journal.copy.length(), "the torn record is gone");
        assert_eq!(place.open().unwrap().1.len() as u32, written);
        assert!(!place.path().with_extension("jsonl.torn").exists());
    }
}
