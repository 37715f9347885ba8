//! `COMPLETION.md`: the result of a finished feature and how the run reached it.

use std::collections::BTreeSet;
use std::fmt;

use mahabharatha_core::config::Isolation;
use mahabharatha_core::estimate::{self, Actual, Estimate};
use mahabharatha_core::excerpt::key_lines;
use mahabharatha_core::graph::TracedCriterion;
use mahabharatha_core::ids::Level;
use mahabharatha_core::run::event::{GateFailure, VERIFICATION};
use mahabharatha_core::secrets::Suppression;
use mahabharatha_core::view::{AttemptView, LevelView, RunView, Stamp, SuppressedSecret, TaskView, merged_phrase};
use mahabharatha_sys::git::short_branch;

use super::estimate::{agents_table, comparison_table};
use super::human_duration;
use super::markdown::{block, code, inline, table};
use super::text::{amount, count, feature_cost, few, gate_gist, has_or_have, headline, outcome, report_lines, worked};
use super::timeline::timeline;

/// Most lines quoted from the output of a failed attempt or gate.
const MAX_QUOTED_LINES: usize = 8;
/// Most changed files that are listed by name.
const MAX_LISTED_FILES: usize = 100;

/// Result of the last run of a gate, or of a task's verification on the merged tree, at a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateResult {
    pub name: String,
    pub command: String,
    pub level: Level,
    pub status: GateStatus,
    /// It ran in a clean checkout.
    pub clean: bool,
}

impl GateResult {
    fn is_verification(&self) -> bool {
        self.name.starts_with(VERIFICATION)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateStatus {
    Passed,
    Failed,
    NotRequired,
    /// Failed before the run began, which the policy allowed.
    RedBefore,
}

/// One run of a gate that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedGate {
    /// `None`: on the base, before the first level.
    pub level: Option<Level>,
    pub failure: GateFailure,
    /// It passed at the same level afterwards.
    pub passed_later: bool,
}

/// Change to a file by the run's commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// Lines added and removed; `None` for a binary file.
    pub lines: Option<(u64, u64)>,
}

/// Input of the report, besides the run itself.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    pub gates: Vec<GateResult>,
    /// Whether the configuration has quality gates.
    pub has_gates: bool,
    /// Completed tasks that have no verification.
    pub unverified: usize,
    /// Every failed run of a gate, oldest first.
    pub failed_gates: Vec<FailedGate>,
    /// Commits that the run added to the base branch, one line each, newest first.
    pub commits: Vec<String>,
    pub changes: Vec<FileChange>,
    pub criteria: Vec<TracedCriterion>,
    /// What the run was expected to take, by the history before it, and what it took.
    pub estimate: Option<(Estimate, Actual)>,
    /// What the attempts of each agent and model came to in this repository, this run included.
    pub agents: Vec<estimate::Tally>,
}

pub fn render_completion(view: &RunView, findings: &Findings) -> String {
    let Findings { gates, failed_gates, commits, changes, criteria, estimate, agents, .. } = findings;
    let compared = estimate.as_ref().map(|(estimate, actual)| comparison_table(estimate, actual));
    let served = criteria.iter().map(|criterion| acceptance(view, criterion));
    let sections = [
        format!("# Completion: {}\n\n{}", view.feature, facts(view)),
        format!("## Verification Checklist\n\n{}", checklist(view, findings)),
        format!("## Acceptance Criteria\n\n{}", list(served, "None were given.")),
        format!("## Levels\n\n{}", levels(view)),
        format!("## Estimate\n\n{}", compared.as_deref().unwrap_or("There is none.\n")),
        format!("## Tasks\n\n{}", tasks(view)),
        format!("## Agents\n\n{}", if agents.is_empty() { "None.\n".to_string() } else { agents_table(agents) }),
        format!("## Quality Gates\n\n{}", gate_table(gates)),
        format!("## Failed Gates\n\n{}", list(failed_gates.iter().map(failed_gate), "No gate failed.")),
        format!("## Suppressed Secrets\n\n{}", list(view.suppressed_secrets.iter().map(suppressed_secret), "None.")),
        format!("## Changes\n\n{}", diffstat(changes)),
        format!("## Commits\n\n{}", list(commits.iter().map(|commit| code(commit)), "None.")),
        format!("## Timeline\n\n{}", timeline(view)),
        format!("## Skipped\n\n{}", list(view.tasks.iter().filter_map(skipped), "Nothing.")),
        format!(
            "## Failed Attempts and Fixes\n\n{}",
            list(view.tasks.iter().flat_map(detours), "Every attempt succeeded.")
        ),
    ];
    sections.join("\n")
}

/// Lists a criterion with its tasks. Only verification shows that a task is done, so nothing is ticked here.
fn acceptance(view: &RunView, criterion: &TracedCriterion) -> String {
    let task = |id: &String| {
        let task = view.tasks.iter().find(|task| task.id.as_str() == id);
        format!("{id} {}", task.map_or("is not in the graph", |task| task.status))
    };
    let tasks: Vec<String> = criterion.tasks.iter().map(task).collect();
    let tasks = if tasks.is_empty() { "no task names it".to_string() } else { tasks.join(", ") };
    let id = if criterion.id.is_empty() { String::new() } else { format!("{}: ", criterion.id) };
    format!("{id}{} ({tasks})", inline(&criterion.criterion))
}

fn failed_gate(failed: &FailedGate) -> String {
    let FailedGate { level, failure, passed_later } = failed;
    let at = level.map_or("On the base".to_string(), |level| format!("Level {level}"));
    let later = if *passed_later { "; passed later" } else { "" };
    let lines = key_lines(failure.output_and_end().0, MAX_QUOTED_LINES).0;
    let quoted = if lines.len() > 1 { indented_block(&lines) } else { String::new() };
    format!("{at}, {}: {}{later}{quoted}", inline(&failure.gate), inline(&gate_gist(failure)))
}

/// Formats a code block below a list item.
fn indented_block(lines: &[String]) -> String {
    let block = block(&lines.join("\n"));
    format!("\n\n{}", block.trim_end().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))
}

fn diffstat(changes: &[FileChange]) -> String {
    let sum = |of: fn((u64, u64)) -> u64| changes.iter().filter_map(|change| change.lines).map(of).sum::<u64>();
    let added = count(sum(|it| it.0) as usize, "line");
    let head = format!("{}, {added} added, {} removed.\n", count(changes.len(), "file"), sum(|it| it.1));
    let row = |change: &FileChange| {
        let (added, removed) =
            change.lines.map_or(("binary".to_string(), String::new()), |(a, r)| (a.to_string(), r.to_string()));
        vec![code(&change.path), added, removed]
    };
    let rows: Vec<Vec<String>> = changes.iter().take(MAX_LISTED_FILES).map(row).collect();
    let more = changes.len().saturating_sub(MAX_LISTED_FILES);
    let more = if more > 0 { format!("\nAnd {} more.\n", count(more, "file")) } else { String::new() };
    if rows.is_empty() { head } else { format!("{head}\n{}{more}", table(&["File", "Added", "Removed"], &rows)) }
}

fn of_status(view: &RunView, status: &str) -> usize {
    view.tasks.iter().filter(|task| task.status == status).count()
}

fn facts(view: &RunView) -> String {
    let attempts: usize = view.tasks.iter().map(|task| task.attempts.len()).sum();
    let (completed, skipped) = (of_status(view, "completed"), of_status(view, "skipped"));
    let tasks = format!("{completed} of {} completed, {skipped} skipped", view.tasks.len());
    let took = human_duration(view.elapsed);
    let stamp = |stamp: Stamp| stamp.0.to_string();
    let mut facts = vec![
        ("Base branch", code(short_branch(&view.base_branch))),
        ("Started", stamp(view.started_at)),
        ("Finished", stamp(view.updated_at)),
        ("Duration", took),
        ("Tasks", tasks),
        ("Attempts", attempts.to_string()),
        ("Sandbox", sandbox(view.sandbox)),
    ];
    facts.extend(feature_cost(view).map(|cost| ("Cost", cost)));
    if view.landing_branch != view.base_branch {
        facts.insert(1, ("Merged into", format!("{}, not into the base", code(short_branch(&view.landing_branch)))));
    }
    facts.iter().map(|(name, value)| format!("- **{name}:** {value}\n")).collect()
}

fn sandbox(isolation: Isolation) -> String {
    match isolation {
        Isolation::Off => "none: agents, verifications and gates ran with the user's rights".to_owned(),
        isolation => isolation.to_string(),
    }
}

/// Lists each item with its actual value. Ticks only what the data show.
fn checklist(view: &RunView, findings: &Findings) -> String {
    let Findings { gates, has_gates, unverified, .. } = findings;
    let landed_on = code(short_branch(&view.landing_branch));
    let (total, completed, blocked) = (view.tasks.len(), of_status(view, "completed"), of_status(view, "blocked"));
    let merged = view.levels.iter().filter(|level| level.status == "merged").count();
    let is_done = |level: &LevelView| matches!(level.status, "merged" | "skipped");
    let last = view.levels.last();
    let is_merged = last.is_some_and(is_done);
    let of_gates = Tally::of(gates.iter().filter(|gate| !gate.is_verification()));
    let of_verifications = Tally::of(gates.iter().filter(|gate| gate.is_verification()));
    let required = if of_gates.not_required.is_empty() { "" } else { "required " };
    let without = match unverified {
        0 => String::new(),
        _ => format!("; {unverified} of {} {} none", count(completed, "task"), has_or_have(*unverified)),
    };
    let of_last = || gates.iter().filter(|gate| last.is_some_and(|last| last.level == gate.level));
    let at_last = Tally::of(of_last());
    let clean = if at_last.counted > 0 && of_last().all(|gate| gate.clean) { ", in a clean checkout" } else { "" };
    let item =
        |holds: bool, item: &str, value: String| format!("- [{}] {item} ({value})\n", if holds { 'x' } else { ' ' });
    [
        item(completed == total, "All tasks in `completed` status", format!("{completed} of {total}")),
        match has_gates {
            true => item(of_gates.all_passed(), &format!("All {required}quality gates passed"), of_gates.to_string()),
            false => "- Quality gates: none configured\n".to_string(),
        },
        item(
            of_verifications.all_passed(),
            "All verifications passed on the merged tree",
            format!("{of_verifications}{without}"),
        ),
        item(
            merged == view.levels.len(),
            &format!("All levels merged to {landed_on}"),
            match merged == view.levels.len() || !view.levels.iter().all(is_done) {
                true => format!("{merged} of {}", view.levels.len()),
                false => merged_phrase(&view.levels),
            },
        ),
        item(
            is_merged && at_last.all_passed(),
            &format!("Tests pass on {landed_on}"),
            format!("on the tree of the last level{clean}: {at_last}"),
        ),
        item(true, "COMPLETION.md generated", "this file".to_string()),
        item(blocked == 0, "No `blocked` tasks without resolution", format!("{blocked} blocked")),
    ]
    .concat()
}

/// Number of gates that passed.
struct Tally<'a> {
    passed: usize,
    /// How many passed or had to.
    counted: usize,
    failed_unrequired: usize,
    /// Names of those that failed and are not required.
    not_required: BTreeSet<&'a str>,
}

impl<'a> Tally<'a> {
    fn of(gates: impl Iterator<Item = &'a GateResult>) -> Tally<'a> {
        let mut tally = Tally { passed: 0, counted: 0, failed_unrequired: 0, not_required: BTreeSet::new() };
        for gate in gates {
            match gate.status {
                GateStatus::Passed => (tally.passed, tally.counted) = (tally.passed + 1, tally.counted + 1),
                GateStatus::Failed | GateStatus::RedBefore => tally.counted += 1,
                GateStatus::NotRequired => {
                    tally.failed_unrequired += 1;
                    tally.not_required.insert(&gate.name);
                }
            }
        }
        tally
    }

    /// Returns `false` if no gate was run that had to pass.
    fn all_passed(&self) -> bool {
        self.counted > 0 && self.passed == self.counted
    }
}

impl fmt::Display for Tally<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counted + self.failed_unrequired {
            0 => f.write_str("none was run")?,
            all => write!(f, "{} of {all}", self.passed)?,
        }
        if self.not_required.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.not_required.iter().map(|name| inline(name)).collect();
        write!(f, ", {} failed and {} not required", few(&names), if names.len() == 1 { "is" } else { "are" })
    }
}

fn levels(view: &RunView) -> String {
    let row = |level: &LevelView| {
        vec![
            level.level.to_string(),
            level.status.to_string(),
            format!("{} of {}", level.completed, level.total),
            level.commit.as_ref().map(|commit| code(commit.short())).unwrap_or_default(),
            level.merged_at.map(|at| at.0.to_string()).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = view.levels.iter().map(row).collect();
    table(&["Level", "Status", "Completed", "Commit", "Merged at"], &rows)
}

fn tasks(view: &RunView) -> String {
    let row = |task: &TaskView| {
        vec![
            task.id.to_string(),
            inline(&task.title),
            task.level.to_string(),
            task.status.to_string(),
            task.attempts.len().to_string(),
            human_duration(worked(view, task, view.updated_at.0)),
            if task.cost.is_zero() { String::new() } else { amount(task.cost) },
            task.commit.as_ref().map(|commit| code(commit.short())).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = view.tasks.iter().map(row).collect();
    table(&["Task", "Title", "Level", "Status", "Attempts", "Duration", "Cost", "Commit"], &rows)
}

fn gate_table(gates: &[GateResult]) -> String {
    if gates.is_empty() {
        return "None was run.\n".to_string();
    }
    let row = |gate: &GateResult| {
        let status = match gate.status {
            GateStatus::Passed => "passed",
            GateStatus::Failed => "failed",
            GateStatus::NotRequired => "failed; it is not required",
            GateStatus::RedBefore => "failed, as it did before the run",
        };
        vec![gate.level.to_string(), inline(&gate.name), code(&gate.command), status.to_string()]
    };
    let rows: Vec<Vec<String>> = gates.iter().map(row).collect();
    table(&["Level", "Gate", "Command", "Result"], &rows)
}

fn list(items: impl Iterator<Item = String>, nothing: &str) -> String {
    let text: String = items.map(|item| format!("- {item}\n")).collect();
    if text.is_empty() { format!("{nothing}\n") } else { text }
}

fn skipped(task: &TaskView) -> Option<String> {
    let reason = task.reason.as_deref().map(headline).unwrap_or_default();
    (task.status == "skipped").then(|| format!("{}: {}", task.id, inline(&reason)))
}

fn suppressed_secret(SuppressedSecret { task, suppression }: &SuppressedSecret) -> String {
    let Suppression { path, line, rule, reason } = suppression;
    format!("{task}: {}: {}: {}", code(&format!("{path}:{line}")), inline(rule), inline(&headline(reason)))
}

/// Lists failed and cancelled attempts, strays, fixes and warnings.
fn detours(task: &TaskView) -> Vec<String> {
    let mut detours = Vec::new();
    for attempt in &task.attempts {
        let who = format!("{}, attempt {}", task.id, attempt.attempt);
        if attempt.outcome != "done" {
            let told = outcome(attempt.outcome, attempt.cause);
            detours.push(format!("{who}: {told}{}{}", details(attempt), quoted(attempt).unwrap_or_default()));
        } else if attempt.fix {
            detours.push(format!("{who}: fixed what made a gate fail"));
        }
        detours.extend(attempt.warnings.iter().map(|warning| format!("{who}: {}", inline(&headline(warning)))));
    }
    detours
}

/// Formats the key lines of a failed attempt's output as a block below its item.
fn quoted(attempt: &AttemptView) -> Option<String> {
    let lines = report_lines(attempt.detail.as_deref().filter(|_| attempt.strays.is_empty())?, MAX_QUOTED_LINES);
    (lines.len() > 1).then(|| indented_block(&lines))
}

fn details(attempt: &AttemptView) -> String {
    let mut text = String::new();
    if !attempt.strays.is_empty() {
        text.push_str(&format!(": {}", inline(&few(&attempt.strays))));
    } else if let Some(detail) = &attempt.detail {
        text.push_str(&format!(": {}", inline(&headline(detail))));
    }
    if let Some(wip) = &attempt.wip {
        text.push_str(&format!(" (work kept as {})", code(wip.short())));
    }
    text
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::event::Command;

    use super::super::support::{Story, failure, id};
    use super::*;

    fn gate(level: u32, status: GateStatus) -> GateResult {
        let (name, command) = ("test".to_string(), "cargo test | tee log".to_string());
        GateResult { name, command, level: Level(level), status, clean: level == 2 }
    }

    #[test]
    fn a_run_with_detours() {
        let gates = [gate(1, GateStatus::Passed), gate(2, GateStatus::Passed)];
        let commits = vec!["cccccccccc Level 2: tables".to_string(), "dddddddddd Level 1: tables".to_string()];
        let output = "running\ntest a ... FAILED\n  left: 1\n\n[exit code 1]".to_string();
        let failure = GateFailure { output, ..failure("test") };
        let failed_gates = vec![
            FailedGate {
                level: None,
                failure: GateFailure { output: String::new(), ..failure.clone() },
                passed_later: false,
            },
            FailedGate { level: Some(Level(1)), failure, passed_later: true },
        ];
        let change = |path: &str, lines| FileChange { path: path.to_string(), lines };
        let changes = vec![change("src/a.rs", Some((12, 3))), change("logo.png", None)];
        let served = |id: &str, criterion: &str, tasks: &[&str]| TracedCriterion {
            id: id.to_string(),
            criterion: criterion.to_string(),
            tasks: tasks.iter().map(|task| task.to_string()).collect(),
        };
        let criteria = vec![served("AC-1.1", "It <counts>", &["TASK-001"]), served("", "It is fast", &[])];
        let findings = Findings {
            gates: gates.to_vec(),
            has_gates: true,
            failed_gates,
            commits,
            changes,
            criteria,
            ..Findings::default()
        };
        insta::assert_snapshot!(render_completion(&Story::eventful().view(), &findings));
    }

    fn render(view: &RunView, gates: &[GateResult]) -> String {
        render_completion(view, &Findings { gates: gates.to_vec(), has_gates: true, ..Findings::default() })
    }

    fn ticked(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("- [x] ")).collect()
    }

    #[test]
    fn only_what_holds_is_ticked() {
        let mut story = Story::stuck();
        story.asked(Command::Skip {
            tasks: vec![id("TASK-003")],
            reason: "no time".to_string(),
            keep_dependents: false,
        });
        let text = render(&story.view(), &[]);
        assert_eq!(ticked(&text), ["COMPLETION.md generated (this file)"]);
        assert!(text.contains("- TASK-003: no time\n"), "{text}");
        let view = Story::eventful().view();
        let mut gates = vec![gate(1, GateStatus::Passed), gate(2, GateStatus::RedBefore)];
        let red = render(&view, &gates);
        assert!(red.contains("- [ ] All quality gates passed (1 of 2)"), "{red}");
        let tests = "- [ ] Tests pass on `main` (on the tree of the last level, in a clean checkout: 0 of 1)";
        assert!(red.contains(tests), "{red}");
        let untested = render(&view, &gates[..1]);
        assert!(
            untested.contains("- [ ] Tests pass on `main` (on the tree of the last level: none was run)"),
            "{untested}"
        );
        assert_eq!(ticked(&untested).len(), 5, "{untested}");
        gates[1].status = GateStatus::Passed;
        gates.push(gate(2, GateStatus::NotRequired));
        let not_required = render(&view, &gates);
        assert!(
            not_required.contains("- [x] All required quality gates passed (2 of 3, test failed and is not required)")
        );
        assert!(not_required.contains("| failed; it is not required |"), "{not_required}");
    }

    #[test]
    fn verifications_are_not_counted_as_gates() {
        let view = Story::eventful().view();
        let verification = GateResult { name: "verify TASK-001".to_string(), ..gate(2, GateStatus::Passed) };
        let text = render(&view, &[gate(2, GateStatus::Failed), verification.clone()]);
        assert!(text.contains("- [ ] All quality gates passed (0 of 1)\n"), "{text}");
        assert!(text.contains("- [x] All verifications passed on the merged tree (1 of 1)\n"), "{text}");
        let findings = Findings { gates: vec![verification], unverified: 2, ..Findings::default() };
        let text = render_completion(&view, &findings);
        let some = "- [x] All verifications passed on the merged tree (1 of 1; 2 of 3 tasks have none)\n";
        assert!(text.contains(some), "{text}");
        assert!(text.contains("- Quality gates: none configured\n"), "{text}");
    }
}
