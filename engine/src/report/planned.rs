//! Text of `status` for a feature that has not been run yet.

use mahabharatha_core::view::{PlannedView, TaskView};
use mahabharatha_sys::ui::{Paint, Style, one_line};

use super::columns::{cell, columns};
use super::text::{cost_phrase, count, few};

/// Formats the status. `requirements`: status of the requirements, if there are any. `next`: the command that follows.
pub fn planned_text(
    view: &PlannedView,
    requirements: Option<&str>,
    next: &str,
    limit: Option<usize>,
    paint: Paint,
) -> String {
    // As in `list`.
    let status = if view.blockers.is_empty() { view.status } else { "invalid" };
    let mut facts = vec![format!("{status}, not run yet")];
    if !view.tasks.is_empty() {
        let (tasks, levels) = (count(view.tasks.len(), "task"), count(view.levels.len(), "level"));
        facts.push(format!("{tasks} on {levels}"));
    }
    facts.extend(requirements.map(|approval_status| format!("the requirements are {approval_status}")));
    facts.extend(cost_phrase(view.cost));
    let mut parts = vec![format!("{}: {}\n", paint.apply(Style::Strong, &view.feature), facts.join("; "))];
    if !view.tasks.is_empty() {
        let rows: Vec<_> = view.tasks.iter().map(row).collect();
        parts.push(columns(&["Level", "Task", "Title", "Status", "Needs"], &rows, &[2, 4], limit, paint));
    }
    if view.blockers.is_empty() {
        parts.push(format!("Next: {next}\n"));
    }
    for blocker in view.blockers.iter() {
        let what = paint.apply(Style::Bad, &one_line(&blocker.to_string()));
        parts.push(format!("{what}\n  {}\n", one_line(&blocker.resolution)));
    }
    parts.join("\n")
}

fn row(task: &TaskView) -> Vec<super::columns::Cell> {
    let needs: Vec<String> = task.dependencies.iter().map(ToString::to_string).collect();
    vec![cell(task.level), cell(&task.id), cell(&task.title), cell(task.status), cell(few(&needs))]
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::cost::Cost;
    use mahabharatha_core::view::{Blocker, Draft};

    use super::super::support::Story;
    use super::*;

    fn shown(view: &PlannedView, requirements: Option<&str>, next: &str) -> String {
        planned_text(view, requirements, next, Some(80), Paint::OFF)
    }

    #[test]
    fn a_design_is_shown_with_its_tasks() {
        let story = Story::unattended();
        let view = PlannedView::of("tables", Draft::Design(story.run.graph()), Cost::of(Some(0.4), 2_000));
        insta::assert_snapshot!(shown(&view, Some("approved"), "mahabharatha run tables"), @r"
        tables: designed, not run yet; 3 tasks on 2 levels; the requirements are approved; 0.40 USD, 2000 tokens

        Level  Task      Title                    Status   Needs
        1      TASK-001  Parse the configuration  pending
        1      TASK-002  Render tables | columns  pending
        2      TASK-003  Wire it together         pending  TASK-001, TASK-002

        Next: mahabharatha run tables
        ");
    }

    #[test]
    fn without_a_design_only_a_summary_and_blockers_are_shown() {
        let mut view = PlannedView::of("tables", Draft::Unfinished, Cost::unknown());
        assert_eq!(
            shown(&view, Some("a draft"), "mahabharatha plan tables --approve"),
            "tables: planned, not run yet; the requirements are a draft; cost unknown\n\nNext: mahabharatha plan tables --approve\n"
        );
        let (cause, resolution) = ("it is not valid".to_string(), "fix it".to_string());
        view.blockers.push(Blocker::new("design", "design", cause, resolution));
        assert_eq!(
            shown(&view, None, ""),
            "tables: invalid, not run yet; cost unknown\n\ndesign: it is not valid\n  fix it\n"
        );
    }
}
