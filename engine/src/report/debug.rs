//! `debug`: the state of a feature's files and processes, its blockers, its saved work, and possible causes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mahabharatha_core::excerpt::key_lines;
use mahabharatha_core::view::{AttemptView, Blocker, TaskView};
use mahabharatha_sys::ui::{Paint, Style, clean, one_line};
use serde::Serialize;

use super::hypotheses::Hypothesis;
use super::moments::Moment;
use super::text::{body_of, count, headline, outcome};

/// Most lines shown of an attempt's output.
const MAX_LINES: usize = 6;
/// Most moments shown of the timeline.
const MAX_MOMENTS: usize = 15;
/// Most lines shown of an attempt's output when the user asks about a single task.
const MAX_LINES_OF_ONE_TASK: usize = 60;

/// Everything found out about a feature.
#[derive(Debug, Serialize)]
pub struct Findings {
    pub feature: String,
    /// Status of the run in one word; `None` if the journal has no readable run.
    pub status: Option<&'static str>,
    /// The status in a word for people.
    #[serde(skip)]
    pub word: Option<&'static str>,
    pub journal: JournalState,
    pub lock: LockState,
    pub sessions: Vec<SessionState>,
    /// `current`, `outdated`, `missing`, `unreadable` or `in use`.
    pub projection: &'static str,
    /// Error message of a test write, if the disk is full.
    pub lack_of_space: Option<String>,
    pub workers: Vec<Alive>,
    /// The branch that levels land on; none if there is no readable run.
    pub base: Option<BaseState>,
    pub worktrees: Vec<WorktreeState>,
    /// What happened when, oldest first.
    pub timeline: Vec<Moment>,
    pub wip: Vec<KeptWork>,
    /// Completed tasks that are not merged and whose commits the repository no longer has in full.
    pub lost: Vec<LostWork>,
    pub tasks: Vec<TroubledTask>,
    pub blockers: Vec<Blocker>,
    /// Changes to the configuration that the user has to accept before the run goes on.
    #[serde(skip)]
    pub config_changes: Vec<String>,
    pub hypotheses: Vec<Hypothesis>,
}

#[derive(Debug, Serialize)]
pub struct JournalState {
    pub path: PathBuf,
    /// `good`, `missing`, `torn`, `damaged`, `newer`, `foreign` or `inconsistent`.
    pub health: &'static str,
    pub problem: Option<String>,
    pub records: usize,
    /// Length of the part that can be read.
    pub good_bytes: u64,
    pub bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct LockState {
    pub held: bool,
    pub pid: Option<u32>,
    /// The holder in words, for the user.
    pub holder: Option<String>,
    /// The file that shows the holder to the user exists, although the feature is not held.
    pub stale_sign: bool,
}

/// Live session that holds tasks.
#[derive(Debug, Serialize)]
pub struct SessionState {
    pub session: String,
    /// It runs the feature's tasks level by level.
    pub drives: bool,
}

/// Worker that is running now.
#[derive(Debug, Serialize)]
pub struct Alive {
    /// `<task>.<attempt>`
    pub job: String,
    pub pid: Option<u32>,
}

#[derive(Debug, Serialize)]
pub struct WorktreeState {
    pub path: PathBuf,
    /// A live worker works in it, so nothing is to be said of it.
    #[serde(skip)]
    pub in_use: bool,
    /// Its files exist.
    pub files: bool,
    pub known_to_git: bool,
    /// The branch that is checked out in it, as a full ref name.
    pub branch: Option<String>,
    /// Why its branch does not fit.
    pub problem: Option<String>,
    /// Its branch is at the commit that attempts of the current level start from.
    pub at_level_base: bool,
    /// Why it must not be removed.
    pub precious: Option<String>,
}

/// The branch that levels land on.
#[derive(Debug, Serialize)]
pub struct BaseState {
    pub branch: String,
    pub commit: Option<String>,
    /// Why it does not fit the run.
    pub problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct KeptWork {
    pub name: String,
    pub commit: String,
    pub task: String,
}

#[derive(Debug, Serialize)]
pub struct LostWork {
    pub task: String,
    pub commit: String,
}

/// Task that is blocked or had a failed attempt or a warning.
#[derive(Debug, Serialize)]
pub struct TroubledTask {
    pub id: String,
    pub status: &'static str,
    pub reason: Option<String>,
    /// What the agent asked that blocked the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    pub verification: String,
    pub attempts: Vec<AttemptView>,
    /// Commands that show what attempts saved, by attempt.
    #[serde(skip)]
    pub work: BTreeMap<u32, String>,
}

impl Findings {
    /// Tells whether the feature has a journal without a run: `run` was refused before it began one.
    pub fn is_not_run_yet(&self) -> bool {
        self.status.is_none() && self.journal.health == "good" && self.journal.records == 0
    }
}

impl TroubledTask {
    /// Tells whether there is anything to report about a task.
    pub fn is_troubled(task: &TaskView) -> bool {
        let went_wrong =
            |attempt: &AttemptView| !matches!(attempt.outcome, "done" | "running") || !attempt.warnings.is_empty();
        task.status == "blocked" || task.attempts.iter().any(went_wrong)
    }
}

/// Formats the findings. `one`: the user asked about a single task, so show more of its output. `next`: the command that
/// follows; given if the feature has not run yet.
pub fn render(findings: &Findings, one: bool, next: Option<&str>, paint: Paint) -> String {
    let feature = paint.apply(Style::Strong, &findings.feature);
    let mut text = match (findings.word, next) {
        (Some(word), _) => format!("{feature}: {word}\n"),
        (None, Some(next)) => format!("{feature}: not run yet; next: {next}\n"),
        (None, None) => format!("{feature}: cannot be told, since its journal tells of no run\n"),
    };
    text.push_str(&state_of_files(findings));
    text.push_str(&timeline(findings, one, paint));
    for task in &findings.tasks {
        text.push_str(&about_task(findings, task, one, paint));
    }
    let heading = |title: &str| format!("\n{}\n", paint.apply(Style::Strong, title));
    if !findings.wip.is_empty() {
        text.push_str(&heading("Work that is kept and not merged"));
        for kept in &findings.wip {
            text.push_str(&format!("  git show {}  ({:.10})\n", one_line(&kept.name), kept.commit));
        }
    }
    if !findings.blockers.is_empty() {
        text.push_str(&heading("Blockers"));
        for blocker in &findings.blockers {
            let Blocker { what, cause, resolution, .. } = blocker;
            text.push_str(&format!("  {}: {}\n    {resolution}\n", one_line(what), headline(cause)));
        }
    }
    if next.is_some() && findings.hypotheses.is_empty() {
        return text;
    }
    text.push_str(&heading("Likely causes"));
    for hypothesis in &findings.hypotheses {
        text.push_str(&format!("  {} [{}]\n", hypothesis.cause, hypothesis.code));
        for line in &hypothesis.evidence {
            text.push_str(&format!("    | {}\n", one_line(line)));
        }
        text.push_str(&format!("    {}\n", hypothesis.next.replace('\n', "\n    ")));
    }
    if findings.hypotheses.is_empty() {
        text.push_str("  No problem was found.\n");
    }
    text
}

fn state_of_files(findings: &Findings) -> String {
    let Findings { journal, lock, .. } = findings;
    let mut text =
        format!("  journal: {}, {} ({})\n", journal.health, count(journal.records, "record"), journal.path.display());
    if let Some(problem) = &journal.problem {
        text.push_str(&format!("    {}\n", one_line(problem)));
        text.push_str(&format!("    {} of its {} bytes are good\n", journal.good_bytes, journal.bytes));
    }
    let holder = lock.holder.as_deref().map_or("free".to_owned(), |holder| format!("held by {holder}"));
    let stale = if lock.stale_sign { "; the file .lock names a process that has exited" } else { "" };
    text.push_str(&format!("  lock: {holder}{stale}\n  projection: {}\n", findings.projection));
    text.push_str(&format!("  disk: {}\n", findings.lack_of_space.as_deref().unwrap_or("has room")));
    for SessionState { session, drives } in &findings.sessions {
        text.push_str(&format!("  session {session}: {}\n", if *drives { "runs the tasks" } else { "holds tasks" }));
    }
    for worker in &findings.workers {
        let pid = worker.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
        text.push_str(&format!("  worker at work: {}{pid}\n", one_line(&worker.job)));
    }
    if let Some(BaseState { branch, problem, .. }) = &findings.base {
        text.push_str(&format!("  branch {}: {}\n", one_line(branch), problem.as_deref().unwrap_or("fits the run")));
    }
    for worktree in findings.worktrees.iter().filter(|worktree| !worktree.in_use) {
        let state = match (worktree.files, worktree.known_to_git, &worktree.precious) {
            (false, _, _) => "its files are gone".to_owned(),
            (true, false, None) => "git does not know it".to_owned(),
            (true, _, Some(why)) => why.clone(),
            (true, true, None) => worktree.problem.clone().unwrap_or_else(|| "ok".to_owned()),
        };
        text.push_str(&format!("  worktree: {}: {state}\n", worktree.path.display()));
    }
    text
}

fn timeline(findings: &Findings, one: bool, paint: Paint) -> String {
    let moments = &findings.timeline;
    let earlier = moments.len().saturating_sub(if one { MAX_LINES_OF_ONE_TASK } else { MAX_MOMENTS });
    if moments.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", paint.apply(Style::Strong, "Timeline"));
    if earlier > 0 {
        text.push_str(&format!("  … {} before\n", count(earlier, "line")));
    }
    let lines = moments[earlier..].iter().map(|moment| format!("  {}  {}\n", moment.at.0, one_line(&moment.text)));
    text.extend(lines);
    text
}

fn about_task(findings: &Findings, task: &TroubledTask, one: bool, paint: Paint) -> String {
    let mut text = format!("\n{}: {}", paint.apply(Style::Strong, &task.id), task.status);
    text.push_str(&task.reason.as_deref().map(|reason| format!(": {}", headline(reason))).unwrap_or_default());
    let verification = clean(task.verification.trim()).replace('\n', "\n               ");
    text.push_str(&format!("\n  verified by: {verification}\n"));
    for attempt in &task.attempts {
        let strays = if attempt.strays.is_empty() { String::new() } else { format!(": {}", attempt.strays.join(", ")) };
        let told = outcome(attempt.outcome, attempt.cause);
        text.push_str(&format!("  attempt {}: {told}{}\n", attempt.attempt, one_line(&strays)));
        for warning in &attempt.warnings {
            text.push_str(&format!("    {}\n", headline(warning)));
        }
        text.push_str(&output_lines(attempt.detail.as_deref().unwrap_or_default(), one));
        if let Some(show) = task.work.get(&attempt.attempt) {
            text.push_str(&format!("    its work: {show}\n"));
        }
    }
    text.push_str(&format!("  its log: mahabharatha logs -f {} --task {}\n", findings.feature, task.id));
    text
}

/// Formats the summary and the key lines of an attempt's report; with `one`, its last lines instead.
fn output_lines(detail: &str, one: bool) -> String {
    let mut lines: Vec<String> = detail.split("\n\n").next().into_iter().map(headline).collect();
    let others = if one {
        let body: Vec<String> = clean(detail)
            .lines()
            .skip(1)
            .map(|line| line.trim_end().to_string())
            .filter(|line| !line.is_empty())
            .collect();
        let cut = body.len().saturating_sub(MAX_LINES_OF_ONE_TASK);
        lines.extend_from_slice(&body[cut..]);
        cut
    } else {
        let (key, others) = key_lines(body_of(detail), MAX_LINES);
        lines.extend(key.iter().map(|line| clean(line)));
        others
    };
    if detail.trim().is_empty() {
        return String::new();
    }
    let more = (others > 0).then(|| format!("    | … {} more\n", count(others, "line")));
    lines.iter().map(|line| format!("    | {line}\n")).chain(more).collect()
}
