//! What happens in an attempt, line by line, for people and for `logs`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use mahabharatha_sys::proc::Lines;
use serde_json::json;

use super::job_spec::JobSpec;

/// A longer line of output is cut.
const MAX_LINE: usize = 4096;
/// What a program may write into the log, in lines and in bytes.
const MAX_LINES: u32 = 20_000;
const MAX_BYTES: usize = 2 << 20;

/// Writes each event into the worker's log and the task's. A log that cannot be written stops no work.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    files: Vec<File>,
    worker: u32,
    task: String,
    attempt: u32,
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
        let files = [&spec.logs.worker, &spec.logs.task].into_iter().filter_map(|path| append(path).ok()).collect();
        Log(Arc::new(Inner {
            files,
            worker: spec.job.worker.0,
            task: spec.job.task.to_string(),
            attempt: spec.job.attempt.0,
        }))
    }

    pub fn write(&self, level: Severity, event: &str, message: &str) {
        let line = json!({
            "ts": Timestamp::now(),
            "level": level.as_str(),
            "worker": self.0.worker,
            "task": self.0.task,
            "attempt": self.0.attempt,
            "event": event,
            "message": message,
        });
        let line = format!("{line}\n");
        for mut file in &self.0.files {
            let _ = file.write_all(line.as_bytes());
        }
    }

    pub fn info(&self, event: &str, message: &str) {
        self.write(Severity::Info, event, message);
    }

    /// A place for a program's output, which becomes one event for each line.
    pub fn lines(&self, event: &'static str) -> impl Write + Send + 'static {
        let (log, mut lines, mut bytes) = (self.clone(), MAX_LINES, MAX_BYTES);
        Lines::new(MAX_LINE, move |line| {
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
        fs::create_dir_all(dir)?;
    }
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a program says, in whatever pieces it comes, as the log file has it.
    fn logged(pieces: &[Vec<u8>]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/worker-0.jsonl");
        let files = vec![append(&path).unwrap()];
        let log = Log(Arc::new(Inner { files, worker: 0, task: "A".to_owned(), attempt: 1 }));
        let mut lines = log.lines("output");
        pieces.iter().for_each(|piece| lines.write_all(piece).unwrap());
        drop(lines);
        fs::read_to_string(path).unwrap()
    }

    proptest! {
        #[test]
        fn whatever_a_program_says_becomes_one_record_for_each_line(
            pieces in prop::collection::vec(prop_oneof![any::<Vec<u8>>(), Just(b"\n".to_vec()), Just(b"text\r\n".to_vec())], 0..20)
        ) {
            let whole = pieces.concat();
            let text = logged(&pieces);
            prop_assert_eq!(text.lines().count(), logged(std::slice::from_ref(&whole)).lines().count());
            for line in text.lines() {
                let record: serde_json::Value = serde_json::from_str(line).unwrap();
                prop_assert!(record["message"].as_str().is_some_and(|message| !message.trim().is_empty()));
            }
        }
    }

    #[test]
    fn output_without_end_takes_a_bounded_log() {
        let long = logged(&vec![vec![b'x'; 1 << 20]; 8]);
        assert_eq!(long.lines().count(), 1);
        assert!(long.len() < 2 * MAX_LINE);
        let many = logged(&vec![b"line\n".repeat(1_000); 40]);
        assert_eq!(many.lines().count() as u32, MAX_LINES + 1);
        assert!(many.lines().last().unwrap().contains("more output than the log takes"));
    }
}
