//! Log of an attempt, one JSON record per line, read by users and by `logs`.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::proc::{Lines, base_env};
use mahabharatha_sys::store::atomic::make_projected_dir;
use mahabharatha_sys::store::log_file::LogFile;
use serde_json::{Map, Value, json};

use super::job_spec::JobSpec;

/// Longer lines of output are cut.
const MAX_LINE_BYTES: usize = 4096;
/// Bytes beyond which a line is cut before secrets are looked for.
const MAX_RAW_LINE_BYTES: usize = 2 * MAX_LINE_BYTES;
/// Most bytes before that cut that are never written: they may be half of a secret, which is not recognised as one.
const UNCLEAR_BYTES: usize = 1024;
/// Most lines and bytes that one program may write into the log.
const MAX_LINES: u32 = 20_000;
const MAX_BYTES: usize = 2 << 20;

/// Writes each event into the worker's log and the task's log, without secrets. Write errors are ignored, so they never
/// stop an attempt.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    files: Vec<Mutex<LogFile>>,
    redactor: Redactor,
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
        let passed = [spec.env_pass.as_slice(), &spec.agent.profile.env].concat();
        Log::to(&[&spec.logs.worker, &spec.logs.task], origin, spec.logs.max_bytes, redactor(&passed))
    }

    /// Opens these log files; `origin` is an object whose fields are added to every record.
    pub fn to(paths: &[&Path], origin: Value, max_bytes: u64, redactor: Redactor) -> Log {
        let files = paths.iter().filter_map(|path| open(path, max_bytes).ok()).map(Mutex::new).collect();
        let origin = origin.as_object().cloned().unwrap_or_default();
        Log(Arc::new(Inner { files, redactor, origin }))
    }

    /// Returns what takes secrets out of everything that the attempt's programs print.
    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    pub fn write(&self, level: Severity, event: &str, message: &str) {
        self.write_with(level, event, message, []);
    }

    /// Writes a record that has these fields too.
    pub fn write_with<const N: usize>(&self, level: Severity, event: &str, message: &str, fields: [(&str, Value); N]) {
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        self.write_redacted(level, event, &self.redactor().redacted(message), fields.into_iter().collect());
    }

    fn write_redacted(&self, level: Severity, event: &str, message: &str, fields: Map<String, Value>) {
        let mut record =
            Map::from_iter([("ts".to_owned(), json!(Timestamp::now())), ("level".to_owned(), json!(level.as_str()))]);
        record.extend(self.0.origin.clone());
        record.extend(fields);
        record.extend([("event".to_owned(), json!(event)), ("message".to_owned(), json!(message))]);
        let line = format!("{}\n", Value::Object(record));
        for file in &self.0.files {
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).append(line.as_bytes());
        }
    }

    pub fn info(&self, event: &str, message: &str) {
        self.write(Severity::Info, event, message);
    }

    /// Returns a writer for a program's output that logs one event per line.
    pub fn lines(&self, event: &'static str) -> impl Write + Send + 'static {
        let (log, mut lines, mut bytes) = (self.clone(), MAX_LINES, MAX_BYTES);
        let mut redactor = self.redactor().clone();
        Lines::new(MAX_RAW_LINE_BYTES, move |line| {
            let text = String::from_utf8_lossy(line);
            if lines == 0 || bytes == 0 || text.trim().is_empty() {
                return;
            }
            let text = redactor.redact(text.trim_end());
            let clear = if line.len() == MAX_RAW_LINE_BYTES { clear_bytes(&text) } else { text.len() };
            let end = (0..=clear.min(MAX_LINE_BYTES)).rev().find(|end| text.is_char_boundary(*end));
            let text = &text[..end.unwrap_or(0)];
            log.write_redacted(Severity::Debug, event, text, Map::new());
            (lines, bytes) = (lines - 1, bytes.saturating_sub(text.len().max(1)));
            if lines == 0 || bytes == 0 {
                log.write(Severity::Warn, event, "[… there is more output than the log takes …]");
            }
        })
    }
}

/// Returns how much of a redacted line that was cut at its end is surely no part of a secret.
fn clear_bytes(text: &str) -> usize {
    let last_mark = text.rfind("[redacted: ");
    let after_mark = last_mark.and_then(|mark| Some(mark + text[mark..].find(']')? + 1));
    text.len().saturating_sub(UNCLEAR_BYTES).max(after_mark.unwrap_or_default())
}

/// Returns what takes secrets out of texts, also the values of passed variables with secret names.
pub fn redactor(passed: &[String]) -> Redactor {
    let variables =
        base_env(passed).into_iter().filter(|(name, _)| passed.iter().any(|passed| name == passed.as_str()));
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    Redactor::new(variables.map(|(name, value)| (text(name), text(value))))
}

fn open(path: &Path, max_bytes: u64) -> io::Result<LogFile> {
    if let Some(dir) = path.parent() {
        make_projected_dir(dir).map_err(io::Error::other)?;
    }
    LogFile::at(path, max_bytes)
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
        let origin = json!({ "worker": 0, "task": "A", "attempt": 1 });
        let log = Log::to(&[&path], origin, u64::MAX, Redactor::default());
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
    fn a_secret_at_the_end_of_a_long_line_is_not_shown_if_others_made_it_short() {
        let token = format!("{}.{} ", "ya29", "a1B2c3D4e5F6g7H8".repeat(32));
        // Of the last one that is read, there are too few characters to recognise it.
        let before = MAX_RAW_LINE_BYTES - 40;
        let line = format!("{}{}\n", ".".repeat(before % token.len()), token.repeat(before / token.len() + 2));
        let text = logged(&[line.into_bytes()]);
        assert!(text.contains("[redacted: google-oauth-token]") && !text.contains("ya29"), "{text}");
    }

    #[test]
    fn a_secret_is_not_cut_in_half_but_replaced() {
        let token = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let text = logged(&[format!("{} {token}\n", "x".repeat(MAX_LINE_BYTES - 20)).into_bytes()]);
        assert!(!text.contains("ghp_") && text.contains("[redacted: github"), "{text}");
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
