//! Reads the logs of workers, tasks and gates: one record per line, merged by time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use mahabharatha_sys::bounded;
use mahabharatha_sys::store::log_file;
use mahabharatha_sys::ui::{Paint, Style, clean};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogRecord {
    pub ts: Timestamp,
    pub level: LogLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// What a gate ran on: a level, `base`, or `blame` for a part of a level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Number of the gate's run there, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// Kind of record: `agent_started`, `output`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// How a gate's run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<GateEnd>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateEnd {
    Passed,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    #[default]
    Debug,
    Info,
    Warn,
    Error,
}

impl LogRecord {
    /// Returns the record as a line of the file, with its line break.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|line| line + "\n")
    }
}

/// Filter options of `logs`.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    pub worker: Option<u32>,
    pub task: Option<String>,
    pub gate: Option<String>,
    pub since: Option<Timestamp>,
    /// Lowest level shown.
    pub level: LogLevel,
    /// Text that the message must contain, ignoring case.
    pub search: Option<String>,
}

impl LogFilter {
    pub fn accepts(&self, record: &LogRecord) -> bool {
        let found = |text: &String| record.message.to_lowercase().contains(&text.to_lowercase());
        self.worker.is_none_or(|worker| record.worker == Some(worker))
            && self.task.as_ref().is_none_or(|task| record.task.as_ref() == Some(task))
            && self.gate.as_ref().is_none_or(|gate| record.gate.as_ref() == Some(gate))
            && self.since.is_none_or(|since| record.ts >= since)
            && record.level >= self.level
            && self.search.as_ref().is_none_or(found)
    }
}

/// Parses a time or an age: `2026-01-26T10:30:00Z`, `2026-01-26 10:30`, `90s`, `10m`, `2h`, `1d`.
pub fn parse_since(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let text = text.trim();
    let ago = |span: Span| now.to_zoned(zone.clone()).checked_sub(span.abs()).ok().map(|time| time.timestamp());
    let found = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok().map(|time| time.timestamp()))
        .or_else(|| text.parse::<Span>().ok().and_then(ago));
    found.ok_or_else(|| {
        format!("{text:?} is no time: give one such as 2026-01-26T10:30:00Z, or how long ago, such as 10m, 2h or 1d")
    })
}

/// Longest line that is read; ours are far shorter.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Bytes of all logs together that are read, the newest ones.
const MAX_BYTES: u64 = 32 << 20;

/// Records that were read, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Logs {
    pub records: Vec<LogRecord>,
    /// Number of lines that are not valid records.
    pub unreadable: usize,
    /// Files that were not read, or not as a whole, with the reason.
    pub incomplete: Vec<String>,
}

/// Reads the records in a feature's log directory that the filter accepts; none if the directory does not exist.
pub fn read_logs(directory: &Path, filter: &LogFilter) -> io::Result<Logs> {
    let mut workers = Logs::default();
    let mut tasks = Logs::default();
    // Each run of a gate has a log of its own.
    let of_workers = [log_file::list(&directory.join("workers"))?, log_file::list(&directory.join("gates"))?].concat();
    let of_tasks = log_file::list(&directory.join("tasks"))?;
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let share = share_of_each(of_workers.iter().chain(&of_tasks).map(length).collect());
    for (paths, logs) in [(of_workers, &mut workers), (of_tasks, &mut tasks)] {
        for path in paths {
            read_newest(&path, share, filter, logs);
        }
    }
    Ok(Logs {
        records: merge(workers.records, tasks.records),
        unreadable: workers.unreadable + tasks.unreadable,
        incomplete: [workers.incomplete, tasks.incomplete].concat(),
    })
}

/// Reads what was added to the logs of workers and gates since the last call. Every record is in exactly one of them.
pub struct Tail {
    directory: PathBuf,
    filter: LogFilter,
    /// Bytes read of each file, by its number: a rotated file keeps that.
    read: BTreeMap<u64, u64>,
}

impl Tail {
    pub fn new(directory: &Path, filter: LogFilter) -> Tail {
        Tail { directory: directory.to_owned(), filter, read: BTreeMap::new() }
    }

    /// Returns the feature's log directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn read_on(&mut self) -> io::Result<Logs> {
        let mut logs = Logs::default();
        let dirs = ["workers", "gates"].map(|dir| self.directory.join(dir));
        let [workers, gates] = dirs.map(|dir| log_file::list(&dir));
        for path in workers?.into_iter().chain(gates?) {
            // A file that cannot be read now may be readable later.
            let Ok(file) = bounded::open(&path) else { continue };
            let found = file.metadata()?;
            let from = self.read.entry(found.ino()).or_default();
            if *from > found.len() {
                // Another file that got the number of a removed one.
                *from = 0;
            }
            read_from(file, from, MAX_BYTES, &self.filter, &mut logs)?;
        }
        logs.records.sort_by_key(|record| record.ts);
        Ok(logs)
    }
}

/// Reads what was added to one log since the last call, from its last bytes on.
pub struct LogTail {
    log: PathBuf,
    max_bytes: u64,
    /// Bytes read so far.
    pub read: u64,
}

impl LogTail {
    pub fn new(log: PathBuf, max_bytes: u64) -> LogTail {
        LogTail { log, max_bytes, read: 0 }
    }

    /// Returns the new records; none if the log cannot be read.
    pub fn read_on(&mut self) -> Vec<LogRecord> {
        let mut logs = Logs::default();
        let mut read = || -> io::Result<()> {
            let file = bounded::open(&self.log)?;
            if self.read > file.metadata()?.len() {
                // A new file, since the log was rotated.
                self.read = 0;
            }
            read_from(file, &mut self.read, self.max_bytes, &LogFilter::default(), &mut logs)
        };
        // What was read before an error counts.
        let _ = read();
        logs.records
    }
}

/// Reads the whole lines of a file from a place on, and moves it; at most the last `max_bytes`.
fn read_from(mut file: File, from: &mut u64, max_bytes: u64, filter: &LogFilter, logs: &mut Logs) -> io::Result<()> {
    let skipped = file.metadata()?.len().saturating_sub(max_bytes);
    let mut in_line = skipped > *from;
    *from = (*from).max(skipped);
    file.seek(SeekFrom::Start(*from))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        match bounded::read_line(&mut reader, MAX_LINE_BYTES, &mut line) {
            Ok(true) if in_line && line.ends_with(b"\n") => in_line = false,
            Ok(true) if line.ends_with(b"\n") => take_line(&line, filter, logs),
            // A line without a line break is still being written.
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
            Err(error) => return Err(error),
        }
        *from += line.len() as u64;
    }
}

/// Returns how much of each file may be read: as much as possible, so that all together stay within the limit.
fn share_of_each(mut lengths: Vec<u64>) -> u64 {
    lengths.sort_unstable();
    let mut left = MAX_BYTES;
    for (index, length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - index) as u64;
        if *length > share {
            return share;
        }
        left -= length;
    }
    MAX_BYTES
}

/// Reads the last `share` bytes of a log.
fn read_newest(path: &Path, share: u64, filter: &LogFilter, logs: &mut Logs) {
    let mut read = || -> io::Result<()> {
        let mut file = bounded::open(path)?;
        let skipped = file.metadata()?.len().saturating_sub(share);
        file.seek(SeekFrom::Start(skipped))?;
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        let (mut in_line, mut too_long) = (skipped > 0, None);
        loop {
            match bounded::read_line(&mut reader, MAX_LINE_BYTES, &mut line) {
                Ok(false) => break,
                Ok(true) if in_line => in_line = false,
                Ok(true) => take_line(&line, filter, logs),
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    in_line = !line.ends_with(b"\n");
                    too_long = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if skipped > 0 {
            logs.incomplete.push(format!("{}: only the last {} KB are read", path.display(), share >> 10));
        }
        too_long.map_or(Ok(()), Err)
    };
    if let Err(error) = read() {
        logs.incomplete.push(format!("{}: {error}", path.display()));
    }
}

fn take_line(line: &[u8], filter: &LogFilter, logs: &mut Logs) {
    match serde_json::from_slice::<LogRecord>(line) {
        Ok(record) if filter.accepts(&record) => logs.records.push(record),
        Ok(_) => {}
        Err(_) => logs.unreadable += usize::from(!line.trim_ascii().is_empty()),
    }
}

/// Returns the whole records in the first bytes of one log file; none if it cannot be read.
pub fn first_records(log: &Path, bytes: u64) -> Vec<LogRecord> {
    part_of(log, 0, bytes)
}

/// Returns the whole records in the last bytes of one log file; none if it cannot be read.
pub fn last_records(log: &Path, bytes: u64) -> Vec<LogRecord> {
    let length = bounded::open(log).and_then(|file| file.metadata()).map_or(0, |found| found.len());
    part_of(log, length.saturating_sub(bytes), bytes)
}

fn part_of(log: &Path, from: u64, bytes: u64) -> Vec<LogRecord> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = bounded::open(log)?;
        file.seek(SeekFrom::Start(from))?;
        let mut part = Vec::new();
        file.take(bytes).read_to_end(&mut part)?;
        Ok(part)
    };
    let part = read().unwrap_or_default();
    part.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Merges by time; a record that is in both a worker's and a task's log is taken once.
fn merge(workers: Vec<LogRecord>, tasks: Vec<LogRecord>) -> Vec<LogRecord> {
    let mut seen: BTreeMap<&LogRecord, usize> = BTreeMap::new();
    for record in &workers {
        *seen.entry(record).or_default() += 1;
    }
    let mut new = Vec::new();
    for record in &tasks {
        match seen.get_mut(record) {
            Some(left) if *left > 0 => *left -= 1,
            _ => new.push(record.clone()),
        }
    }
    let mut merged = workers;
    merged.extend(new);
    merged.sort_by_key(|record| record.ts);
    merged
}

/// Formats a record: `01-26 10:30:00 WARN  worker 0 TASK-001 (attempt 2): agent ended: the message`.
pub fn render_record(record: &LogRecord, zone: &TimeZone, paint: Paint) -> String {
    let time = record.ts.to_zoned(zone.clone()).strftime("%m-%d %H:%M:%S").to_string();
    let (name, style) = match record.level {
        LogLevel::Debug => ("DEBUG", Style::Dim),
        LogLevel::Info => ("INFO", Style::Plain),
        LogLevel::Warn => ("WARN", Style::Warn),
        LogLevel::Error => ("ERROR", Style::Bad),
    };
    let mut origin = Vec::new();
    origin.extend(record.worker.map(|worker| format!("worker {worker}")));
    origin.extend(record.task.as_deref().map(mahabharatha_sys::ui::one_line));
    origin.extend(record.attempt.map(|attempt| format!("(attempt {attempt})")));
    origin.extend(record.gate.as_deref().map(|gate| format!("gate {}", mahabharatha_sys::ui::one_line(gate))));
    origin.extend(record.at.as_deref().zip(record.run).map(|(at, run)| format!("({}, run {run})", on(at))));
    let mut origin = if origin.is_empty() { String::new() } else { format!("{}: ", origin.join(" ")) };
    origin.extend(record.event.as_deref().map(|event| mahabharatha_sys::ui::one_line(event).replace('_', " ") + ": "));
    let message = clean(&record.message).trim_end().replace('\n', "\n    ");
    format!("{} {} {origin}{message}", paint.apply(Style::Dim, &time), paint.apply(style, &format!("{name:<5}")))
}

/// Formats what a gate ran on.
fn on(at: &str) -> String {
    if at.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("level {at}")
    } else {
        mahabharatha_sys::ui::one_line(at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn record(second: i64, worker: u32, task: &str, level: LogLevel, message: &str) -> LogRecord {
        let ts = Timestamp::from_second(1_769_423_400 + second).unwrap();
        let (worker, task) = (Some(worker), Some(task.to_string()));
        let event = (second == 9).then(|| "agent_ended".to_string());
        let (gate, at, run) = (None, None, None);
        let (attempt, status, message) = (Some(1), None, message.to_string());
        LogRecord { ts, level, worker, task, attempt, gate, at, run, event, status, message }
    }

    fn sample() -> Vec<LogRecord> {
        vec![
            record(0, 0, "TASK-001", LogLevel::Info, "started"),
            record(5, 1, "TASK-002", LogLevel::Debug, "prompt of 900 tokens"),
            record(7, 0, "TASK-001", LogLevel::Warn, "changed src/b.rs,\nwhich it does not own \x1b[2J"),
            record(9, 1, "TASK-002", LogLevel::Error, "Verification FAILED"),
        ]
    }

    #[test]
    fn filters_narrow_what_is_shown() {
        let texts = |filter: LogFilter| -> Vec<i64> {
            sample().iter().filter(|record| filter.accepts(record)).map(|record| record.ts.as_second() % 60).collect()
        };
        assert_eq!(texts(LogFilter::default()), [0, 5, 7, 9]);
        assert_eq!(texts(LogFilter { worker: Some(1), ..Default::default() }), [5, 9]);
        assert_eq!(texts(LogFilter { task: Some("TASK-001".to_string()), ..Default::default() }), [0, 7]);
        assert_eq!(texts(LogFilter { gate: Some("lint".to_string()), ..Default::default() }), [0_i64; 0]);
        assert_eq!(texts(LogFilter { since: Some(sample()[2].ts), ..Default::default() }), [7, 9]);
        assert_eq!(texts(LogFilter { level: LogLevel::Warn, ..Default::default() }), [7, 9]);
        assert_eq!(texts(LogFilter { search: Some("failed".to_string()), ..Default::default() }), [9]);
    }

    #[test]
    fn since_is_a_time_or_an_age() {
        let now: Timestamp = "2026-01-26T10:30:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let at = |text: &str| parse_since(text, now, &zone).map(|time| time.to_string());
        assert_eq!(at("2026-01-26T09:00:00Z").unwrap(), "2026-01-26T09:00:00Z");
        assert_eq!(at("2026-01-26 09:00").unwrap(), "2026-01-26T08:00:00Z");
        assert_eq!(at("2026-01-25").unwrap(), "2026-01-24T23:00:00Z");
        assert_eq!(at(" 10m ").unwrap(), "2026-01-26T10:20:00Z");
        assert_eq!(at("1d 2h").unwrap(), "2026-01-25T08:30:00Z");
        for bad in ["", "soon", "10", "99999999999999y"] {
            assert!(at(bad).is_err_and(|error| error.contains("10m")), "{bad}");
        }
    }

    #[test]
    fn files_are_merged_by_time_and_nothing_is_shown_twice() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, records: &[&LogRecord], tail: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let lines: String = records.iter().map(|record| record.to_line().unwrap()).collect();
            fs::write(path, lines + tail).unwrap();
        };
        let all = sample();
        let twice = record(7, 0, "TASK-001", LogLevel::Info, "again");
        write("workers/worker-0.jsonl", &[&all[0], &all[2], &twice, &twice], "{\"ts\": torn");
        write("workers/worker-1.jsonl", &[&all[1]], "\n");
        write("workers/notes.txt", &[], "not a log");
        write("tasks/TASK-001.jsonl", &[&all[0], &all[2], &twice, &twice, &twice], "");
        write("tasks/TASK-002.jsonl", &[&all[1], &all[3]], "");
        let logs = read_logs(dir.path(), &LogFilter::default()).unwrap();
        assert_eq!(logs.records, [&all[0], &all[1], &all[2], &twice, &twice, &twice, &all[3]].map(Clone::clone));
        assert_eq!(logs.unreadable, 1);
        assert_eq!(read_logs(&dir.path().join("none"), &LogFilter::default()).unwrap(), Logs::default());
    }

    #[test]
    fn endless_lines_pipes_and_links_are_reported_and_the_rest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join(".mahabharatha/logs/x");
        let workers = logs.join("workers");
        fs::create_dir_all(&workers).unwrap();
        let line = sample()[0].to_line().unwrap();
        let after = [b"\n", line.as_bytes()].concat();
        fs::write(workers.join("worker-0.jsonl"), &line).unwrap();
        File::create(workers.join("worker-1.jsonl")).unwrap().set_len(4 << 30).unwrap();
        let status = std::process::Command::new("mkfifo").arg(workers.join("worker-2.jsonl")).status().unwrap();
        assert!(status.success());
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), &line).unwrap();
        std::os::unix::fs::symlink(outside.path(), workers.join("worker-3.jsonl")).unwrap();
        let read = read_logs(&logs, &LogFilter::default()).unwrap();
        assert_eq!((read.records, read.unreadable), (vec![sample()[0].clone()], 0));
        let told = read.incomplete.join("\n");
        fs::OpenOptions::new().append(true).open(workers.join("worker-1.jsonl")).unwrap().write_all(&after).unwrap();
        assert_eq!(
            read_logs(&logs, &LogFilter::default()).unwrap().records.len(),
            2,
            "a record after the endless line"
        );
        for what in
            ["worker-1.jsonl: a line is longer", "worker-2.jsonl: not a regular", "worker-3.jsonl: it leads out"]
        {
            assert!(told.contains(what), "{what}: {told}");
        }
        assert_eq!(Tail::new(&logs, LogFilter::default()).read_on().unwrap().records.len(), 2);
    }

    #[test]
    fn long_logs_share_what_may_be_read() {
        assert_eq!(share_of_each(vec![]), MAX_BYTES);
        assert_eq!(share_of_each(vec![1, 2, 3]), MAX_BYTES);
        assert_eq!(share_of_each(vec![u64::MAX, 10, u64::MAX]), (MAX_BYTES - 10) / 2);
    }

    #[test]
    fn a_tail_shows_every_record_once_even_late_ones() {
        let dir = tempfile::tempdir().unwrap();
        let all = sample();
        let append = |worker: u32, text: &str| {
            let path = dir.path().join(format!("workers/worker-{worker}.jsonl"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mut tail = Tail::new(dir.path(), LogFilter::default());
        assert_eq!(tail.read_on().unwrap(), Logs::default());
        append(1, &all[3].to_line().unwrap());
        let (begin, end) = all[2].to_line().map(|line| (line[..20].to_string(), line[20..].to_string())).unwrap();
        append(0, &begin);
        assert_eq!(tail.read_on().unwrap().records, [all[3].clone()]);
        // Older than what was shown already; its line was incomplete then. Meanwhile the log was rotated.
        append(0, &end);
        let of_worker = |name: &str| dir.path().join(format!("workers/{name}"));
        fs::rename(of_worker("worker-0.jsonl"), of_worker("worker-0.jsonl.1")).unwrap();
        append(0, &all[0].to_line().unwrap());
        let records = vec![all[0].clone(), all[2].clone()];
        assert_eq!(tail.read_on().unwrap(), Logs { records, ..Logs::default() });
        assert_eq!(tail.read_on().unwrap(), Logs::default());
    }

    #[test]
    fn the_tail_of_a_log_continues_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (log, all) = (dir.path().join("A.jsonl"), sample());
        let lines: Vec<String> = all.iter().map(|record| record.to_line().unwrap()).collect();
        let mut tail = LogTail::new(log.clone(), 1 << 20);
        assert_eq!(tail.read_on(), []);
        fs::write(&log, format!("{}{}", lines[0], &lines[1][..9])).unwrap();
        assert_eq!((tail.read_on(), tail.read), (vec![all[0].clone()], lines[0].len() as u64));
        fs::write(&log, lines[..2].concat()).unwrap();
        assert_eq!(tail.read_on(), [all[1].clone()]);
        fs::write(&log, &lines[2]).unwrap();
        assert_eq!(tail.read_on(), [all[2].clone()], "rotated");
        let mut end = LogTail::new(log.clone(), lines[3].len() as u64 + 5);
        fs::write(&log, lines.concat()).unwrap();
        assert_eq!(end.read_on(), [all[3].clone()]);
    }

    #[test]
    fn records_are_formatted_for_users() {
        let lines: Vec<String> =
            sample().iter().map(|record| render_record(record, &TimeZone::UTC, Paint::OFF)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        01-26 10:30:00 INFO  worker 0 TASK-001 (attempt 1): started
        01-26 10:30:05 DEBUG worker 1 TASK-002 (attempt 1): prompt of 900 tokens
        01-26 10:30:07 WARN  worker 0 TASK-001 (attempt 1): changed src/b.rs,
            which it does not own
        01-26 10:30:09 ERROR worker 1 TASK-002 (attempt 1): agent ended: Verification FAILED
        ");
    }

    #[test]
    fn a_record_is_one_line_of_json() {
        let line = sample()[2].to_line().unwrap();
        insta::assert_snapshot!(line, @r#"{"ts":"2026-01-26T10:30:07Z","level":"warn","worker":0,"task":"TASK-001","attempt":1,"message":"changed src/b.rs,\nwhich it does not own \u001b[2J"}"#);
        assert_eq!(serde_json::from_str::<LogRecord>(&line).unwrap(), sample()[2]);
    }
}
