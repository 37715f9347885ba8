//! Subagents of a Claude Code session: which attempt each one works on, whether it is still running, and where its
//! transcript is.
//!
//! The hooks record this, one file per subagent in the job's directory; `task complete` reads it. A subagent belongs to
//! the attempt whose prompt it requested or was given, otherwise to the one whose worktree it wrote in first, and is
//! kept out of all other worktrees while that attempt is held.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use mahabharatha_core::run::effect::Performer;
use mahabharatha_sys::bounded::{self, SMALL_FILE_BYTES};
use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::store::atomic::{make_projected_dir, write_projected};
use mahabharatha_sys::store::state_file;
use serde::{Deserialize, Serialize};

use super::{FENCE, JobSpec, occupants, read_result};
use crate::agent::claude::Usage;

/// Directory in a job's directory with one file for each subagent.
const SUBAGENTS: &str = "subagents";
/// Transcripts are read up to this size: many times what fits into a context window.
const MAX_TRANSCRIPT_BYTES: u64 = 128 << 20;
/// Longest line of a transcript; the rest after a longer one is not read.
const MAX_LINE_BYTES: u64 = 32 << 20;
/// Directory in a feature's directory with one file for each subagent whose launch named no task.
const LAUNCHED: &str = "launched";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// It is running in the background. For a subagent in the foreground the session waits anyway.
    working: bool,
    /// The client's own log of the subagent, known once it has stopped.
    #[serde(default)]
    transcript: Option<PathBuf>,
}

/// Claude Code session and the features that it holds.
pub struct Session<'a> {
    pub id: &'a str,
    /// Directories of the features.
    pub features: &'a [PathBuf],
}

impl Session<'_> {
    /// Records that a subagent requested the prompt of a task that the session holds.
    pub fn begins(&self, agent: &str, asked: &PromptCall) -> Result<()> {
        self.jobs_of(asked)?.iter().try_for_each(|job_dir| self.enters(agent, job_dir).map(drop))
    }

    /// Records that a subagent was launched in the background, for the task whose prompt it will request. If that is
    /// unknown, its task is the first one whose worktree it enters.
    pub fn launches(&self, agent: &str, asked: Option<&PromptCall>) -> Result<()> {
        if !is_file_name(agent) {
            return Ok(());
        }
        let jobs = asked.map(|asked| self.jobs_of(asked)).transpose()?.unwrap_or_default();
        if jobs.is_empty() {
            let launched = |dir: &PathBuf| write_projected(&dir.join(LAUNCHED).join(agent), b"");
            return self.features.iter().try_for_each(launched);
        }
        for job_dir in &jobs {
            let record = read(job_dir, agent).unwrap_or_default();
            // A short-lived subagent may have stopped already.
            if record.transcript.is_none() {
                write(job_dir, agent, &Record { working: true, ..record })?;
            }
        }
        Ok(())
    }

    /// Records that a subagent works on a job. If it belongs to another job, returns that job's spec instead.
    pub fn enters(&self, agent: &str, job_dir: &Path) -> Result<Option<JobSpec>> {
        if !is_file_name(agent) {
            return Ok(None);
        }
        if let Some(record) = read(job_dir, agent) {
            if record.transcript.is_some() && !record.working {
                // The session sent it another message after it had stopped.
                write(job_dir, agent, &Record { working: true, ..record })?;
            }
            return Ok(None);
        }
        let belongs = |job_dir: &Path| read(job_dir, agent).is_some() && !job_dir.join(FENCE).exists();
        if let Some((_, own)) = self.jobs()?.into_iter().find(|(job_dir, _)| belongs(job_dir)) {
            return Ok(Some(own));
        }
        // Its launch may be recorded concurrently and must not be overwritten.
        let working = self.features.iter().any(|dir| dir.join(LAUNCHED).join(agent).exists());
        create(job_dir, agent, &Record { working, transcript: None })?;
        Ok(None)
    }

    /// Records that a subagent has stopped.
    pub fn stops(&self, agent: &str, transcript: &Path) -> Result<()> {
        for feature_dir in self.features.iter().filter(|_| is_file_name(agent)) {
            let _ = fs::remove_file(feature_dir.join(LAUNCHED).join(agent));
        }
        for (job_dir, _) in self.jobs()? {
            if read(&job_dir, agent).is_some() {
                write(&job_dir, agent, &Record { working: false, transcript: Some(transcript.to_owned()) })?;
            }
        }
        Ok(())
    }

    /// Records that only these subagents are running: the others ended without notice.
    pub fn runs_only(&self, agents: &[String]) -> Result<()> {
        for (job_dir, _) in self.jobs()? {
            for (agent, record) in records(&job_dir).into_iter().filter(|(agent, _)| !agents.contains(agent)) {
                if record.working {
                    write(&job_dir, &agent, &Record { working: false, ..record })?;
                }
            }
        }
        Ok(())
    }

    /// Returns the features in which the session holds no attempt.
    pub fn idle_features(&self) -> Result<Vec<PathBuf>> {
        let busy = self.jobs()?;
        let is_idle = |dir: &&PathBuf| !busy.iter().any(|(job_dir, _)| job_dir.starts_with(dir));
        Ok(self.features.iter().filter(is_idle).cloned().collect())
    }

    fn jobs_of(&self, asked: &PromptCall) -> Result<Vec<PathBuf>> {
        let is_meant = |spec: &JobSpec| {
            let of_feature = asked.feature.as_ref().is_none_or(|feature| spec.feature.as_str() == feature);
            of_feature && spec.job.task.as_str() == asked.task
        };
        let jobs = self.jobs()?.into_iter().filter(|(_, spec)| is_meant(spec));
        Ok(jobs.map(|(job_dir, _)| job_dir).collect())
    }

    /// Returns the jobs that the session holds.
    fn jobs(&self) -> Result<Vec<(PathBuf, JobSpec)>> {
        let mut jobs = Vec::new();
        for feature_dir in self.features {
            let of_sessions = jobs_of_sessions(feature_dir)?.into_iter();
            jobs.extend(of_sessions.filter(|(_, _, session)| session == self.id).map(|(dir, spec, _)| (dir, spec)));
        }
        Ok(jobs)
    }
}

/// A call of `mahabharatha task prompt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCall {
    pub task: String,
    pub feature: Option<String>,
}

/// Returns the sessions that hold an unfinished attempt of a feature.
pub fn sessions_at_work(feature_dir: &Path) -> Result<Vec<String>> {
    let is_open = |dir: &Path| !dir.join(FENCE).exists() && matches!(read_result(dir), Ok(None));
    let open = jobs_of_sessions(feature_dir)?.into_iter().filter(|(dir, ..)| is_open(dir));
    Ok(open.map(|(_, _, session)| session).collect())
}

/// Returns the attempts in a feature's slots that sessions perform, each with its session.
fn jobs_of_sessions(feature_dir: &Path) -> Result<Vec<(PathBuf, JobSpec, String)>> {
    let specs = occupants(feature_dir)?.into_iter().filter_map(|dir| JobSpec::read(&dir).ok().map(|spec| (dir, spec)));
    let of_session = |(dir, spec): (PathBuf, JobSpec)| match spec.job.performer.clone() {
        Performer::Session(session) => Some((dir, spec, session)),
        Performer::Agent(_) | Performer::Reported { .. } => None,
    };
    Ok(specs.filter_map(of_session).collect())
}

/// Returns the subagents that are still working on a job in the background.
pub fn working(job_dir: &Path) -> Vec<String> {
    records(job_dir).into_iter().filter(|(_, record)| record.working).map(|(agent, _)| agent).collect()
}

/// Returns the tokens that subagents used on a job, according to their transcripts.
pub fn tokens(job_dir: &Path) -> u64 {
    let transcripts = records(job_dir).into_iter().filter_map(|(_, record)| record.transcript);
    transcripts.filter_map(|path| bounded::open(&path).ok()).map(tokens_in).fold(0, u64::saturating_add)
}

/// Sums the tokens in a transcript. Each block of a message is a line; the last one has the final numbers.
fn tokens_in(transcript: impl Read) -> u64 {
    let mut messages: BTreeMap<String, u64> = BTreeMap::new();
    let (mut reader, mut line) = (BufReader::new(transcript.take(MAX_TRANSCRIPT_BYTES)), Vec::new());
    while bounded::read_line(&mut reader, MAX_LINE_BYTES, &mut line).unwrap_or(false) {
        if let Ok(Line { kind, message: Some(message) }) = serde_json::from_slice(&line)
            && kind == "assistant"
        {
            messages.insert(message.id, message.usage.total());
        }
    }
    messages.into_values().fold(0, u64::saturating_add)
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: String,
    #[serde(default)]
    usage: Usage,
}

fn records(job_dir: &Path) -> Vec<(String, Record)> {
    let entries = fs::read_dir(job_dir.join(SUBAGENTS)).into_iter().flatten().flatten();
    let agents = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_file_name(name));
    agents.filter_map(|agent| read(job_dir, &agent).map(|record| (agent, record))).collect()
}

fn read(job_dir: &Path, agent: &str) -> Option<Record> {
    let path = job_dir.join(SUBAGENTS).join(Some(agent).filter(|agent| is_file_name(agent))?);
    serde_json::from_slice(&bounded::read(&path, SMALL_FILE_BYTES).ok()?).ok()
}

fn write(job_dir: &Path, agent: &str, record: &Record) -> Result<()> {
    let text = serde_json::to_vec(record).expect("a record has string keys only");
    write_projected(&job_dir.join(SUBAGENTS).join(agent), &text)
}

/// Creates a record, unless one exists.
fn create(job_dir: &Path, agent: &str, record: &Record) -> Result<()> {
    let dir = job_dir.join(SUBAGENTS);
    let path = dir.join(agent);
    make_projected_dir(&dir)?;
    let text = serde_json::to_vec(record).expect("a record has string keys only");
    match state_file::create_new(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        file => file.and_then(|mut file| file.write_all(&text)).map_err(io("write", &path)),
    }
}

fn is_file_name(agent: &str) -> bool {
    (1..=128).contains(&agent.len()) && agent.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_once_for_each_message() {
        let line = |kind: &str, id: &str, output: u64| {
            let usage = serde_json::json!({ "input_tokens": 100, "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 1000, "output_tokens": output });
            serde_json::json!({ "type": kind, "message": { "id": id, "usage": usage } }).to_string() + "\n"
        };
        let transcript = [
            line("assistant", "m1", 1),
            line("assistant", "m1", 7),
            "not JSON\n".to_owned(),
            line("user", "m2", 5),
            "{\"type\":\"attachment\"}\n".to_owned(),
            line("assistant", "m3", 3),
        ];
        assert_eq!(tokens_in(transcript.concat().as_bytes()), 1117 + 1113);
        assert_eq!(tokens_in(&b""[..]), 0);
    }

    #[test]
    fn a_subagent_name_cannot_leave_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let features = [dir.path().to_owned()];
        let session = Session { id: "s", features: &features };
        for name in ["", "../x", "a/b", &"x".repeat(129)] {
            assert_eq!(session.enters(name, dir.path()).unwrap(), None, "{name}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        session.enters("agent-1", dir.path()).unwrap();
        assert_eq!(records(dir.path()).len(), 1);
    }
}
