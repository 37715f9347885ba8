//! Causes in the feature's files and processes.

use mahabharatha_core::run::{End, Run};
use mahabharatha_sys::proc::shell_word;

use super::super::debug::{Findings, LockState};
use super::{Hypothesis, run_again};

pub(super) fn about_state(findings: &Findings) -> Vec<Hypothesis> {
    let feature = &findings.feature;
    let mut found = Vec::new();
    if let Some(error) = &findings.lack_of_space {
        let full = Hypothesis::new("disk_full", "The disk is full.", run_again(feature));
        found.push(full.shown_by([error.clone()]).next(format!("Free some space, then `{}`.", run_again(feature))));
    }
    found.extend(about_journal(findings));
    found.extend(about_lock(findings).filter(|_| !is_under_way(findings)));
    if !findings.lock.held && findings.sessions.is_empty() && !findings.workers.is_empty() {
        let next = format!("`mahabharatha run {feature}` takes them over, `mahabharatha stop -f {feature}` ends them.");
        let cause = "The orchestrator died; its workers are still running.";
        let alive = findings.workers.iter().map(|worker| match worker.pid {
            Some(pid) => format!("{} is at work, process {pid}", worker.job),
            None => format!("{} is at work", worker.job),
        });
        found.push(Hypothesis::new("driver_gone", cause, run_again(feature)).shown_by(alive).next(next));
    }
    if matches!(findings.projection, "outdated" | "unreadable" | "missing") && findings.status.is_some() {
        found.push(
            Hypothesis::new(
                "projection_outdated",
                "The projection does not match the journal: it was edited or removed, or a run was killed.",
                format!("mahabharatha debug --repair -f {feature}"),
            )
            .shown_by([format!("it is {}", findings.projection)])
            .next("Nothing depends on it; the next run writes it again, and so does `mahabharatha debug --repair`."),
        );
    }
    found.extend(about_lost_work(findings));
    found.extend(about_worktrees(findings));
    found
}

/// Tells whether a process drives the run at this moment.
fn is_under_way(findings: &Findings) -> bool {
    findings.lock.held && findings.status == Some("running")
}

/// Says that the run is under way, which explains why no other process can drive it.
pub(super) fn about_run_under_way(findings: &Findings, others: &[Hypothesis]) -> Option<Hypothesis> {
    let lock = about_lock(findings).filter(|_| is_under_way(findings))?;
    let process = findings.lock.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let is_fine = others.is_empty() && findings.blockers.is_empty();
    let cause = match is_fine {
        true => format!("The run is under way{process}; nothing is wrong with it."),
        false => format!("The run is under way{process}, and no other process can drive it meanwhile (exit 8)."),
    };
    Some(Hypothesis { cause, ..lock })
}

/// Covers a run that stands still because the user wanted that, or changed the configuration.
pub(super) fn about_standstill(findings: &Findings, run: &Run) -> Vec<Hypothesis> {
    if findings.lock.held || !findings.sessions.is_empty() {
        return Vec::new();
    }
    let again = run_again(&findings.feature);
    let mut found = Vec::new();
    if !findings.config_changes.is_empty() {
        let accept = format!("{again} --accept-config");
        let next = format!("Put .mahabharatha/config.yaml back, or accept the change: `{accept}`.");
        let changed = Hypothesis::new("config_changed", "The configuration changed since the run began.", accept);
        found.push(changed.shown_by(findings.config_changes.iter().cloned()).next(next));
    }
    let cause = match run.ended() {
        Some(End::Stopped) => "It was stopped.".to_owned(),
        Some(End::LevelMerged { level }) => format!("It stopped after level {level}, as it was told to."),
        _ => return found,
    };
    let since = run.ended_at().map(|at| format!("nothing has driven it since {at}"));
    let stopped = Hypothesis::new("stopped", cause, again.clone()).next(format!("`{again}` continues it."));
    found.push(stopped.shown_by(since));
    found
}

fn about_journal(findings: &Findings) -> Option<Hypothesis> {
    let (feature, journal) = (&findings.feature, &findings.journal);
    let run = run_again(feature);
    let found = match journal.health {
        "damaged" | "inconsistent" => {
            let repair = format!("mahabharatha debug --repair -f {feature}");
            let next = format!("Put a good copy in its place, or `{repair}`; the original is kept.");
            let cause = "The journal was damaged: by the disk, by a copy that was not whole, or by an editor.";
            Hypothesis::new("corrupt_state", cause, repair).next(next)
        }
        "torn" => {
            let next = format!("`{run}` cuts it off, keeps it aside and goes on.");
            let cause = "The last record was cut short by a crash or a full disk. It was never acted on.";
            Hypothesis::new("torn_record", cause, run).next(next)
        }
        "newer" => Hypothesis::new("newer_journal", "A newer mahabharatha wrote this journal.", run)
            .next("Use that one; nothing has to be repaired."),
        "foreign" => Hypothesis::new("foreign_journal", "This is the journal of another feature.", run)
            .next("Move it back to where it belongs."),
        _ => return None,
    };
    let path = journal.path.display();
    Some(found.shown_by(journal.problem.iter().map(|problem| format!("{path}: {problem}"))))
}

fn about_lock(findings: &Findings) -> Option<Hypothesis> {
    let LockState { held: true, holder, .. } = &findings.lock else { return None };
    let stop = format!("mahabharatha stop -f {}", findings.feature);
    let next = format!("Let it go on, or `{stop}`; `mahabharatha status --watch` shows what it does.");
    let cause = "A process holds the feature: no other can run it meanwhile (exit 8).";
    let holder = holder.iter().map(|holder| format!("held by {holder}"));
    Some(Hypothesis::new("lock", cause, stop).shown_by(holder).next(next))
}

/// Returns what to do about a branch that lost what the run needs.
pub fn bring_back(branch: &str, feature: &str) -> String {
    format!("Bring back what it lost (`git reflog {}`), then `{}`.", shell_word(branch), run_again(feature))
}

/// Covers a base branch that lost what the run needs, which the run has not met yet.
pub(super) fn about_base(findings: &Findings) -> Option<Hypothesis> {
    let base = findings.base.as_ref()?;
    let problem = base.problem.as_ref()?;
    let cause = format!("The branch {} does not fit the run: {problem}.", base.branch);
    let next = bring_back(&base.branch, &findings.feature);
    Some(Hypothesis::new("base_rewritten", cause, run_again(&findings.feature)).shown_by([problem.clone()]).next(next))
}

fn about_lost_work(findings: &Findings) -> impl Iterator<Item = Hypothesis> {
    let feature = &findings.feature;
    findings.lost.iter().map(move |lost| {
        let task = &lost.task;
        let cause = format!(
            "The work of {task} is lost: the repository does not have all objects of its commit {}. Git removed them \
             (`git gc`), or the disk is damaged.",
            lost.commit
        );
        let next = format!(
            "`mahabharatha retry {task} -f {feature}` rebuilds it, then `mahabharatha run {feature}`. `git fsck` tells whether more is missing."
        );
        let lost = Hypothesis::new("lost_work", cause, super::try_again(feature, task));
        Hypothesis { task: Some(task.clone()), ..lost.next(next) }
    })
}

fn about_worktrees(findings: &Findings) -> impl Iterator<Item = Hypothesis> {
    let is_left =
        |path: &std::path::Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("left-"));
    let stale = findings.worktrees.iter().filter(move |worktree| !is_left(&worktree.path));
    stale.filter_map(|worktree| {
        let path = worktree.path.display();
        let run = run_again(&findings.feature);
        let (cause, evidence) = match (worktree.files, worktree.known_to_git, &worktree.problem) {
            (false, ..) => (format!("The worktree {path} was removed by hand."), "its files are gone".to_owned()),
            (true, false, _) => (
                format!("Git does not know the worktree {path}: its entry was removed (`git worktree prune`)."),
                "it has no entry in the repository".to_owned(),
            ),
            (true, true, Some(problem)) => {
                (format!("The worktree {path} is not on the branch of its worker."), problem.clone())
            }
            (true, true, None) => return None,
        };
        let next = format!("`{run}` makes it again.");
        Some(Hypothesis::new("stale_worktree", cause, run).shown_by([evidence]).next(next))
    })
}
