//! Writes `design.md`: the architect's reasoning, and what is derived from the task graph.

use std::fmt::Write;
use std::time::Duration;

use super::{Design, LEVELS};
use crate::graph::{Task, TaskGraph, TracedCriterion};
use crate::markdown::{code, embed, fenced, one_line};
use crate::plan::{Plan, total_with};

/// Input for a design document.
pub struct Page<'a> {
    pub design: &'a Design,
    pub graph: &'a TaskGraph,
    pub plan: &'a Plan,
    pub criteria: &'a [TracedCriterion],
    /// Date like `2026-02-11`.
    pub created: &'a str,
    pub author: &'a str,
    /// Approval status of the requirements, with who approved them and when.
    pub approval: &'a str,
}

pub fn design_document(page: &Page<'_>) -> String {
    let mut text = format!(
        "# Technical Design: {0}\n\n## Metadata\n- **Feature**: {0}\n- **Status**: DRAFT\n- **Created**: {1}\n\
         - **Author**: {2}\n- **Requirements**: {3}\n\n---\n\n",
        page.graph.feature,
        page.created,
        one_line(page.author),
        one_line(page.approval)
    );
    let sections: [fn(&mut String, &Page<'_>); 9] =
        [overview, architecture, interfaces, decisions, implementation, risks, testing, parallel, approval];
    for (index, section) in sections.iter().enumerate() {
        section(&mut text, page);
        if index + 1 < sections.len() {
            text.push_str("---\n\n");
        }
    }
    text
}

fn overview(text: &mut String, page: &Page<'_>) {
    let design = page.design;
    let _ = write!(text, "## 1. Overview\n\n### 1.1 Summary\n\n{}\n\n", prose(&design.summary));
    let _ = write!(text, "### 1.2 Goals\n{}\n### 1.3 Non-Goals\n{}\n", list(&design.goals), list(&design.non_goals));
}

fn architecture(text: &mut String, page: &Page<'_>) {
    let design = page.design;
    let _ = write!(text, "## 2. Architecture\n\n### 2.1 High-Level Design\n\n{}\n\n", prose(&design.architecture));
    let rows = design.components.iter().map(|part| {
        let files: Vec<String> = part.files.iter().map(|file| code(file)).collect();
        vec![one_line(&part.name), one_line(&part.responsibility), files.join(", ")]
    });
    let _ = write!(text, "### 2.2 Component Breakdown\n\n{}\n", table(&["Component", "Responsibility", "Files"], rows));
    let _ = write!(text, "### 2.3 Data Flow\n\n{}\n\n", prose(&design.data_flow));
}

fn interfaces(text: &mut String, page: &Page<'_>) {
    text.push_str("## 3. Detailed Design\n\n### 3.1 Interfaces\n\n");
    let rows = page.design.stubs.iter().map(|stub| vec![code(&stub.path), one_line(&stub.purpose)]);
    let _ = writeln!(text, "{}", table(&["Stub", "Purpose"], rows));
    if let Some(check) = &page.design.stub_check {
        let _ = write!(text, "They compile:\n\n{}\n\n", fenced(&check.command, "bash"));
    }
    let contracts = page.graph.tasks().iter().filter_map(|task| Some((task, task.spec.interface.as_deref()?)));
    for (task, contract) in contracts {
        let _ = write!(text, "**{}**\n\n{}\n\n", task.id, embed(contract, 3));
    }
}

fn decisions(text: &mut String, page: &Page<'_>) {
    text.push_str("## 4. Key Decisions\n\n");
    if page.design.decisions.is_empty() {
        text.push_str("none\n\n");
    }
    for (index, decision) in page.design.decisions.iter().enumerate() {
        let _ = write!(text, "### 4.{} {}\n\n", index + 1, one_line(&decision.title));
        let _ = write!(text, "**Context**: {}\n\n**Options Considered**:\n", prose(&decision.context));
        for (number, option) in decision.options.iter().enumerate() {
            let _ = writeln!(text, "{}. {}", number + 1, one_line(&option.name));
            for (label, words) in [("Pros", &option.pros), ("Cons", &option.cons)] {
                if !words.trim().is_empty() {
                    let _ = writeln!(text, "   - {label}: {}", one_line(words));
                }
            }
        }
        let parts = [
            ("Decision", &decision.decision),
            ("Rationale", &decision.rationale),
            ("Consequences", &decision.consequences),
        ];
        for (label, words) in parts.iter().filter(|(_, words)| !words.trim().is_empty()) {
            let _ = write!(text, "\n**{label}**: {}\n", prose(words));
        }
        text.push('\n');
    }
}

fn implementation(text: &mut String, page: &Page<'_>) {
    text.push_str("## 5. Implementation Plan\n\n### 5.1 Phase Summary\n\n");
    let rows = page.plan.levels.iter().enumerate().map(|(index, level)| {
        let tasks = level.assignments.len() + level.foreground.len();
        let purpose = LEVELS.get(index).map_or("", |(name, _)| name);
        let parallel = if tasks > 1 { "Yes" } else { "No" };
        vec![
            level.level.to_string(),
            purpose.to_owned(),
            tasks.to_string(),
            parallel.to_owned(),
            minutes(level.makespan),
        ]
    });
    let _ = writeln!(text, "{}", table(&["Level", "Purpose", "Tasks", "Parallel", "Est. Time"], rows));
    text.push_str("### 5.2 File Ownership\n\n");
    let rows = page.graph.tasks().iter().flat_map(|task| {
        task.owned.iter().map(|owned| {
            let path = if owned.directory { format!("{}/", owned.path) } else { owned.path.clone() };
            vec![code(&path), task.id.to_string(), if owned.create { "create" } else { "modify" }.to_owned()]
        })
    });
    let _ = writeln!(text, "{}", table(&["File", "Task ID", "Operation"], rows));
    let _ = write!(text, "### 5.3 Dependency Graph\n\n```mermaid\n{}```\n\n", mermaid(page.graph));
}

fn mermaid(graph: &TaskGraph) -> String {
    let mut text = String::from("graph TD\n");
    for (index, task) in graph.tasks().iter().enumerate() {
        let _ = writeln!(text, "    T{index}[\"{}\"]", label(task));
    }
    for (index, task) in graph.tasks().iter().enumerate() {
        for dependency in task.dependencies.iter().filter_map(|id| graph.index(id)) {
            let _ = writeln!(text, "    T{dependency} --> T{index}");
        }
    }
    text
}

/// Escapes a title so that it cannot end the label or start another line.
fn label(task: &Task) -> String {
    let mut label = String::new();
    for c in one_line(&format!("{}: {}", task.id, task.spec.title)).chars() {
        match c {
            '"' | '#' | '<' | '>' | '`' | '[' | ']' => {
                let _ = write!(label, "#{};", u32::from(c));
            }
            c => label.push(c),
        }
    }
    label
}

fn risks(text: &mut String, page: &Page<'_>) {
    let rows = page.design.risks.iter().map(|risk| {
        [&risk.risk, &risk.probability, &risk.impact, &risk.mitigation].map(|cell| one_line(cell)).to_vec()
    });
    let _ =
        write!(text, "## 6. Risk Assessment\n\n{}\n", table(&["Risk", "Probability", "Impact", "Mitigation"], rows));
}

fn testing(text: &mut String, page: &Page<'_>) {
    let _ = write!(text, "## 7. Testing Strategy\n\n### 7.1 Approach\n{}\n", list(&page.design.testing));
    text.push_str("### 7.2 Verification Commands\n");
    for task in page.graph.tasks().iter().filter(|task| !task.spec.verification.is_blank()) {
        let _ = writeln!(text, "- {}: {}", task.id, code(&task.spec.verification.command));
    }
    text.push_str("\n### 7.3 Acceptance Criteria Validation\n\n");
    let rows = page.criteria.iter().map(|one| {
        let tasks = if one.tasks.is_empty() { "**none**".to_owned() } else { one.tasks.join(", ") };
        vec![one.id.clone(), one_line(&one.criterion), tasks]
    });
    let _ = writeln!(text, "{}", table(&["Criterion", "Description", "Tasks"], rows));
}

fn parallel(text: &mut String, page: &Page<'_>) {
    text.push_str("## 8. Parallel Execution Notes\n\n### 8.1 Safe Parallelization\n");
    for level in &page.plan.levels {
        let tasks = level.assignments.len() + level.foreground.len();
        let how = if tasks > 1 { "own disjoint files: fully parallel" } else { "alone" };
        let _ = writeln!(text, "- Level {}: {tasks} task{} {how}", level.level, if tasks == 1 { "" } else { "s" });
    }
    let width = page.plan.levels.iter().map(|level| level.assignments.len()).max().unwrap_or(0).max(1);
    let path: Vec<&str> = page.plan.critical_path.tasks.iter().map(|id| id.as_str()).collect();
    let (alone, best) = (total_with(page.graph, 1), total_with(page.graph, page.plan.best_workers));
    let _ = write!(
        text,
        "- No two tasks of a level own the same file\n- Critical path: {}\n\n### 8.2 Recommended Workers\n- Minimum: 1 worker\n\
         - Optimal: {} (more would not be faster)\n- Maximum: {width} (the widest level)\n\n\
         ### 8.3 Estimated Duration\n- Single worker: {}\n- With {}: {}\n",
        if path.is_empty() { "none".to_owned() } else { path.join(" → ") },
        page.plan.best_workers,
        minutes(alone),
        page.plan.best_workers,
        minutes(best)
    );
    if best > Duration::ZERO {
        let _ = writeln!(text, "- Speedup: {:.1}x", alone.as_secs_f64() / best.as_secs_f64());
    }
    text.push('\n');
}

fn approval(text: &mut String, _page: &Page<'_>) {
    text.push_str(
        "## 9. Approval\n\n| Role | Name | Date | Signature |\n|------|------|------|-----------|\n\
         | Architecture | | | PENDING |\n| Engineering | | | PENDING |\n",
    );
}

fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds > 0.0 && seconds < 60.0 {
        format!("{} s", seconds.ceil())
    } else {
        format!("{} min", (seconds / 60.0).ceil())
    }
}

/// Embeds text written by others, with its headings below ours.
fn prose(text: &str) -> String {
    if text.trim().is_empty() { "none".to_owned() } else { embed(text, 3) }
}

fn list(items: &[String]) -> String {
    let lines = items.iter().map(|item| one_line(item)).filter(|item| !item.is_empty());
    let text: String = lines.map(|item| format!("- {item}\n")).collect();
    if text.is_empty() { "- none\n".to_owned() } else { text }
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
