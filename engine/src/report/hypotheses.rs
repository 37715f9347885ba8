//! Likely causes of a feature's problems, derived from the findings of `debug`, each with what to do next.

use mahabharatha_core::run::event::FailCause;
use mahabharatha_core::view::AttemptView;
use mahabharatha_sys::ui::clean;
use serde::Serialize;

use super::debug::{Findings, TroubledTask};
use super::text::{few, headline};

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Hypothesis {
    /// What may be wrong, in one sentence.
    pub cause: String,
    /// What to do about it, or how to find out.
    pub next: String,
}

fn because(cause: impl Into<String>, next: impl Into<String>) -> Hypothesis {
    Hypothesis { cause: cause.into(), next: next.into() }
}

/// Returns the likely causes, most urgent first.
pub fn hypotheses(findings: &Findings) -> Vec<Hypothesis> {
    let mut found = about_state(findings);
    found.extend(about_all_tasks(findings));
    let blocked = findings.tasks.iter().filter(|task| task.status == "blocked");
    found.extend(blocked.map(about_task));
    found.extend(about_other_blockers(findings));
    found
}

/// Covers the blockers that are not blocked tasks: a level, a task that waits for the user, the run as a whole.
fn about_other_blockers(findings: &Findings) -> impl Iterator<Item = Hypothesis> {
    let is_blocked = |id: &str| findings.tasks.iter().any(|task| task.id == id && task.status == "blocked");
    let others = findings.blockers.iter().filter(move |blocker| !is_blocked(&blocker.what));
    others.map(|blocker| because(format!("{}: {}", blocker.what, headline(&blocker.cause)), blocker.resolution.clone()))
}

fn about_state(findings: &Findings) -> Vec<Hypothesis> {
    let Findings { feature, journal, lock, .. } = findings;
    let mut found = Vec::new();
    if findings.lack_of_space.is_some() {
        found.push(because("The disk is full.", format!("Free some space, then `mahabharatha run {feature}`.")));
    }
    match journal.health {
        "damaged" | "inconsistent" => found.push(because(
            "The journal was damaged: by the disk, by a copy that was not whole, or by an editor.",
            format!(
                "Put a good copy in its place, or `mahabharatha debug --repair -f {feature}`; the original is kept."
            ),
        )),
        "torn" => found.push(because(
            "The last record was cut short by a crash or a full disk. It was never acted on.",
            format!("`mahabharatha run {feature}` cuts it off, keeps it aside and goes on."),
        )),
        "newer" => found.push(because(
            "A newer mahabharatha wrote this journal.",
            "Use that one; nothing has to be repaired.".to_owned(),
        )),
        "foreign" => found
            .push(because("This is the journal of another feature.", "Move it back to where it belongs.".to_owned())),
        _ => {}
    }
    if !lock.held && findings.sessions.is_empty() && !findings.workers.is_empty() {
        found.push(because(
            "The process that drove the run died; its workers go on.",
            format!("`mahabharatha run {feature}` takes them over, `mahabharatha stop -f {feature}` ends them."),
        ));
    }
    if matches!(findings.projection, "outdated" | "unreadable" | "missing") && findings.status.is_some() {
        found.push(because(
            "The projection is not what the journal says: it was edited or removed, or a run was killed.",
            "Nothing depends on it; the next run writes it again, and so does `mahabharatha debug --repair`."
                .to_owned(),
        ));
    }
    for lost in &findings.lost {
        found.push(because(
            format!(
                "The work of {} is lost: the repository does not have all objects of its commit {}. Git removed them \
                 (`git gc`), or the disk is damaged.",
                lost.task, lost.commit
            ),
            format!(
                "`mahabharatha retry {} -f {feature}` rebuilds it, then `mahabharatha run {feature}`. `git fsck` tells \
                 whether more is missing.",
                lost.task
            ),
        ));
    }
    for worktree in findings.worktrees.iter().filter(|worktree| !worktree.files || !worktree.known_to_git) {
        let left = worktree.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("left-"));
        if !left {
            let cause = format!("The worktree {} was removed by hand.", worktree.path.display());
            found.push(because(cause, "The next run creates it again.".to_owned()));
        }
    }
    found
}

/// Covers several tasks that failed in the same way, which likely have one common cause.
fn about_all_tasks(findings: &Findings) -> Option<Hypothesis> {
    let blocked: Vec<&TroubledTask> = findings.tasks.iter().filter(|task| task.status == "blocked").collect();
    let last = |task: &&TroubledTask| task.attempts.last().map(|attempt| (attempt.outcome, attempt.cause));
    let first = blocked.first().and_then(last)?;
    if blocked.len() < 2 || !blocked.iter().all(|task| last(task) == Some(first)) {
        return None;
    }
    let names: Vec<String> = blocked.iter().map(|task| task.id.clone()).collect();
    Some(because(
        format!("{} failed in the same way: the cause is likely common to them.", few(&names)),
        "Look at the agent's configuration, its key and network, and at what the tasks share: `mahabharatha doctor`.",
    ))
}

fn about_task(task: &TroubledTask) -> Hypothesis {
    let failed: Vec<&AttemptView> = task.attempts.iter().filter(|attempt| attempt.outcome == "failed").collect();
    let id = &task.id;
    let always = |cause: FailCause| !failed.is_empty() && failed.iter().all(|attempt| attempt.cause == Some(cause));
    let first_detail = failed.first().and_then(|attempt| attempt.detail.as_deref());
    let same_output = failed.len() > 1 && failed.iter().all(|attempt| attempt.detail.as_deref() == first_detail);
    if always(FailCause::Strays) {
        let strays: Vec<String> = failed.last().map(|attempt| attempt.strays.clone()).unwrap_or_default();
        return because(
            format!("{id} cannot be done with the files that it owns: each attempt changed {}.", few(&strays)),
            format!(
                "Give it those files in task-graph.json, or have the task that owns them do it; then `mahabharatha retry {id}`."
            ),
        );
    }
    if always(FailCause::Verification) {
        let command = clean(task.verification.trim());
        let cause = if same_output {
            format!("{id} fails its verification with the same output each time: the command or the spec may be wrong.")
        } else {
            format!("{id} does not pass its verification: the spec may ask for something else than the command checks.")
        };
        return because(cause, format!("Run it on the work that was kept: {command}"));
    }
    if always(FailCause::Secrets) {
        return because(
            format!("Each attempt at {id} adds what looks like a secret: the spec may ask for one."),
            format!(
                "Have the task read it from the environment, or allow it with a reason in `secrets.allow` of \
                 .mahabharatha/config.yaml; then `mahabharatha retry {id}`."
            ),
        );
    }
    if always(FailCause::Timeout) || always(FailCause::Stalled) {
        return because(
            format!("{id} is too large for one attempt, or its agent waits for something."),
            "Divide it, or raise workers.timeout_minutes or workers.stall_minutes; its log shows what it was at.",
        );
    }
    if always(FailCause::Setup) {
        return because(
            format!(
                "{id} could not be carried out: something is wrong with the disk or the repository, not with the task."
            ),
            "Read the output above; `mahabharatha doctor` checks the rest.",
        );
    }
    if task.attempts.iter().any(|attempt| attempt.outcome == "died") {
        return because(
            format!("The workers of {id} were killed: by a user, or by the system because it was out of memory."),
            "Read the system's log (dmesg, journalctl -k); use fewer workers at once.",
        );
    }
    if always(FailCause::Agent) {
        return because(
            format!("The agent of {id} ends with an error before anything is checked."),
            format!("See what it says: mahabharatha logs --task {id}"),
        );
    }
    let reason = task.reason.as_deref().map(headline).unwrap_or_default();
    because(
        format!("{id} is blocked: {reason}"),
        format!(
            "Fix the cause or change the task, then `mahabharatha retry {id}`; or go on without it: `mahabharatha skip {id} \
             --reason TEXT`."
        ),
    )
}
