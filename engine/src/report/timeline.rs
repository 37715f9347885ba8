//! Timeline of a run as a mermaid Gantt chart.

use jiff::Timestamp;
use mahabharatha_core::ids::Time;
use mahabharatha_core::view::{AttemptView, RunView, TaskView};
use mahabharatha_sys::ui::{fit, one_line};

const MAX_LABEL_COLUMNS: usize = 60;

/// Returns a chart with one bar per attempt and one section per level.
pub fn timeline(view: &RunView) -> String {
    let mut text = String::from("```mermaid\ngantt\n");
    text.push_str(&format!("    title {} (UTC)\n", label(&view.feature)));
    text.push_str("    dateFormat YYYY-MM-DD HH:mm:ss.SSS\n    axisFormat %H:%M:%S\n    todayMarker off\n");
    for level in &view.levels {
        text.push_str(&format!("    section Level {}\n", level.level));
        for task in view.tasks.iter().filter(|task| task.level == level.level) {
            for attempt in &task.attempts {
                text.push_str(&bar(task, attempt, view.updated_at.0));
            }
        }
        if let Some(merged) = level.merged_at {
            text.push_str(&format!("    merged :milestone, {}, 0ms\n", moment(merged.0)));
        }
    }
    text.push_str("```\n");
    text
}

fn bar(task: &TaskView, attempt: &AttemptView, now: Time) -> String {
    let kind = match attempt.outcome {
        "done" => "done, ",
        "running" => "active, ",
        "checkpoint" | "cancelled" => "",
        _ => "crit, ",
    };
    let number = if attempt.attempt > 1 { format!(" (attempt {})", attempt.attempt) } else { String::new() };
    let lasted = match (attempt.ended_at, attempt.outcome) {
        (Some(ended), _) => ended.0.since(attempt.started_at.0),
        (None, "running") => now.since(attempt.started_at.0),
        (None, _) => std::time::Duration::ZERO,
    };
    // The worker comes first, because a task may be named like a keyword of the chart's language.
    let name = fit(&label(&format!("{} {}", task.id, task.title)), MAX_LABEL_COLUMNS);
    let start = moment(attempt.started_at.0);
    format!("    w{} {name}{number} :{kind}{start}, {}ms\n", attempt.worker, lasted.as_millis().max(1))
}

/// Removes characters that have a meaning in a chart.
fn label(text: &str) -> String {
    let is_sign = |c: char| matches!(c, ':' | ';' | '#' | '%' | '{' | '}' | '<' | '>' | '"' | '`' | '\\' | '&');
    one_line(&one_line(text).replace(is_sign, " "))
}

fn moment(time: Time) -> String {
    // A time outside the calendar cannot be drawn correctly anyway.
    let timestamp = Timestamp::from_millisecond(time.0).unwrap_or_default();
    timestamp.strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::support::{Story, policy};
    use super::*;

    /// Parses a line as mermaid does: text up to the first colon, then data.
    fn reads_as_a_bar(line: &str) -> bool {
        let Some((text, data)) = line.split_once(':') else { return false };
        let parts: Vec<&str> = data.split(", ").collect();
        let is_moment = |text: &str| {
            text.len() == "2026-01-26 10:30:00.000".len()
                && text.chars().all(|c| c.is_ascii_digit() || " -:.".contains(c))
        };
        let is_length = |text: &str| text.strip_suffix("ms").is_some_and(|number| number.parse::<u64>().is_ok());
        text.trim_start().starts_with("w0 ")
            && !line.contains(['#', ';', '%', '`'])
            && matches!(parts.as_slice(), ["done", moment, length] if is_moment(moment) && is_length(length))
    }

    proptest! {
        #[test]
        fn every_title_can_be_drawn(title in "[!-~]([ -~]|\\PC){0,30}", id in "(gantt|section|title|click|TASK)-[a-z0-9]{1,4}") {
            let mut story = Story::of(policy(), &[json!({"id": id, "title": title, "level": 1})]);
            story.base_is_green().after(3.0).done(&id);
            let chart = timeline(&story.view());
            let bars: Vec<&str> = chart.lines().skip_while(|line| !line.contains("section Level")).skip(1).collect();
            prop_assert!(matches!(bars.as_slice(), [bar, "```"] if reads_as_a_bar(bar)), "{}", chart);
        }
    }
}
