//! What the user can do about a task that is blocked because its last attempt failed.

use crate::ids::TaskId;
use crate::names::{argument_list, wip_ref};
use crate::run::event::{FailCause, JobEnd, JobReport};
use crate::run::{AttemptRecord, Run, TaskState, TaskStatus};
use crate::secrets::{allow_entry, for_people};

/// Most findings for which an entry of the configuration is written out.
const MAX_ENTRIES: usize = 3;

/// Returns what resolves the failure, and the commands for it, the most likely first.
pub(super) fn way_out(run: &Run, task: &TaskId, state: &TaskState) -> (String, Vec<String>) {
    let feature = run.feature();
    let retry = format!("mahabharatha retry -f {feature} {task}");
    let report = last_report(state);
    let over_budget = matches!(state.status, TaskStatus::Blocked { over_budget: true, .. });
    match report.map(|report| (report, &report.end)).filter(|_| !over_budget) {
        Some((report, JobEnd::Failed { cause: FailCause::Secrets, .. })) if !report.secrets.is_empty() => {
            (about_secrets(run, task, state, report), vec![retry])
        }
        Some((_, JobEnd::Failed { cause: FailCause::Strays, strays, .. })) if !strays.is_empty() => {
            let paths = argument_list(strays.iter().map(String::as_str));
            let grant = format!("mahabharatha task grant -f {feature} {task} {paths}");
            let text = format!(
                "if it may change them: `{grant} && mahabharatha run {feature}`; otherwise let the task that owns them do it, \
                 then `{retry}`"
            );
            (text, vec![grant, retry])
        }
        _ => {
            let text = format!("fix the cause (`mahabharatha debug -f {feature} {task}` says how), then `{retry}`");
            (text, vec![retry])
        }
    }
}

/// Returns what to do about secrets that an attempt would commit: whether they are any, only the user can tell.
pub(super) fn about_secrets(run: &Run, task: &TaskId, state: &TaskState, report: &JobReport) -> String {
    let feature = run.feature();
    let retry = format!("mahabharatha retry -f {feature} {task}");
    let mut entries: Vec<String> = report.secrets.iter().map(allow_entry).collect();
    entries.dedup();
    let more = if entries.len() > MAX_ENTRIES { ", …" } else { "" };
    entries.truncate(MAX_ENTRIES);
    let kept: Vec<String> = state.attempts.iter().filter_map(|record| kept_as(run, task, record)).collect();
    let remove = match kept.as_slice() {
        [] => String::new(),
        [only] => format!(", and remove the attempt that is kept: `git update-ref -d {only}`"),
        [first, ..] => {
            let all = first.rsplit_once('/').map_or(first.as_str(), |(all, _)| all);
            format!(
                ", and remove the attempts that are kept: `git for-each-ref --format='delete %(refname)' {all} | git \
                 update-ref --stdin`"
            )
        }
    };
    format!(
        "if it is no secret: add `secrets: {{ allow: [{}{more}] }}` with a reason to .mahabharatha/config.yaml, then \
         `{retry} && mahabharatha run {feature} --accept-config`; if it is one: revoke it if it is in use, let the task read \
         it from the environment or a file that git ignores (`{retry} --note \"…\"`){remove}",
        entries.join(", ")
    )
}

/// Returns the report of the latest attempt that has ended.
pub(super) fn last_report(state: &TaskState) -> Option<&JobReport> {
    state.attempts.iter().rev().find_map(|record| record.ended.as_ref()).map(|(_, report)| report)
}

/// Returns a reason of an attempt for people, who need to know other things than the agent.
pub(in crate::view) fn told(run: &Run, task: &TaskId, record: Option<&AttemptRecord>, text: &str) -> String {
    for_people(text, record.and_then(|record| kept_as(run, task, record)).as_deref())
}

/// Returns the ref under which an attempt is saved, if it is.
fn kept_as(run: &Run, task: &TaskId, record: &AttemptRecord) -> Option<String> {
    record.ended.as_ref()?.1.wip.as_ref()?;
    Some(wip_ref(run.feature().as_str(), task.as_str(), record.attempt.0))
}
