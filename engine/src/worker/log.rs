//! Log of an attempt, one JSON record per line, read by users and by `logs`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use mahabharatha_sys::proc::Lines;
use mahabharatha_sys::store::atomic::make_projected_dir;
use mahabharatha_sys::store::state_file;
use serde_json::{Map, Value, json};

use super::job_spec::JobSpec;

/// Longer lines of output are cut.
const MAX_LINE_BYTES: usize = 4096;
/// Most lines and bytes that one program may write into the log.
const MAX_LINES: u32 = 20_000;
const MAX_BYTES: usize = 2 << 20;

/// Writes each event into the worker's log and the task's log. Write errors are ignored, so they never stop an attempt.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    files: Vec<File>,
    /// Fields in every record that name the worker, task and attempt.
    origin: Map<String, Value>,
}

#[derive(Debug, Clone, Copy)]
pub enum Severity {
    Debug,
    Info,
    Warn,
    Error,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "debug",
            Severity::Info => "info",
            Severity::Warn => "warn",
            Severity::Error => "error",
        }
    }
}

impl Log {
    pub fn open(spec: &JobSpec) -> Log {
        let job = &spec.job;
        let origin = json!({ "worker": job.worker.0, "task": job.task, "attempt": job.attempt.0 });
        Log::to(&[&spec.logs.worker, &spec.logs.task], origin)
    }

    /// Opens these log files; `origin` is an object whose fields are added to every record.
    pub fn to(paths: &[&Path], origin: Value) -> Log {
        let files = paths.iter().filter_map(|path| append(path).ok()).collect();
        let origin = origin.as_object().cloned().unwrap_or_default();
        Log(Arc::new(Inner { files, origin }))
    }

    pub fn write(&self, level: Severity, event: &str, message: &str) {
        let mut record =
            Map::from_iter([("ts".to_owned(), json!(Timestamp::now())), ("level".to_owned(), json!(level.as_str()))]);
        record.extend(self.0.origin.clone());
        record.extend([("event".to_owned(), json!(event)), ("message".to_owned(), json!(message))]);
        let line = format!("{}\n", Value::Object(record));
        for mut file in &self.0.files {
            let _ = file.write_all(line.as_bytes());
        }
    }

    pub fn info(&self, event: &str, message: &str) {
        self.write(Severity::Info, event, message);
    }

    /// Returns a writer for a program's output that logs one event per line.
    pub fn lines(&self, event: &'static str) -> impl Write + Send + 'static {
        let (log, mut lines, mut bytes) = (self.clone(), MAX_LINES, MAX_BYTES);
        Lines::new(MAX_LINE_BYTES, move |line| {
            let text = String::from_utf8_lossy(line);
            if lines == 0 || bytes == 0 || text.trim().is_empty() {
                return;
            }
            log.write(Severity::Debug, event, text.trim_end());
            (lines, bytes) = (lines - 1, bytes.saturating_sub(line.len()));
            if lines == 0 || bytes == 0 {
                log.write(Severity::Warn, event, "[… there is more output than the log takes …]");
            }
        })
    }
}

fn append(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        make_projected_dir(dir).map_err(io::Error::other)?;
    }
    state_file::open_to_append(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    /// Writes a program's output in these pieces and returns the log file's text.
    fn logged(pieces: &[Vec<u8>]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/worker-0.jsonl");
        let log = Log::to(&[&path], json!({ "worker": 0, "task": "A", "attempt": 1 }));
        let mut lines = log.lines("output");
        pieces.iter().for_each(|piece| lines.write_all(piece).unwrap());
        drop(lines);
        fs::read_to_string(path).unwrap()
    }

    proptest! {
        #[test]
        fn any_output_becomes_one_record_per_line(
            pieces in prop::collection::vec(prop_oneof![any::<Vec<u8>>(), Just(b"\n".to_vec()), Just(b"text\r\n".to_vec())], 0..20)
        ) {
            let whole = pieces.concat();
            let text = logged(&pieces);
            prop_assert_eq!(text.lines().count(), logged(std::slice::from_ref(&whole)).lines().count());
            for line in text.lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                prop_assert!(record["message"].as_str().is_some_and(|message| !message.trim().is_empty()));
            }
        }
    }

    #[test]
    fn endless_output_takes_bounded_log_space() {
        let long = logged(&vec![vec![b'x'; 1 << 20]; 8]);
        assert_eq!(long.lines().count(), 1);
        assert!(long.len() < 2 * MAX_LINE_BYTES);
        let many = logged(&vec![b"line\n".repeat(1_000); 40]);
        assert_eq!(many.lines().count() as u32, MAX_LINES + 1);
        assert!(many.lines().last().unwrap().contains("more output than the log takes"));
    }
}
