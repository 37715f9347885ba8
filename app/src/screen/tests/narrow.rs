//! What small screens still show.

use super::*;

#[test]
fn a_low_screen_names_the_problem_whose_row_a_filter_hides() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    let (low, headline) = ((50, 12), " ? CLEANUP asks");
    shown.press_at(low, &[Key::Char('n')]);
    assert!(!shown.at(low).contains(headline), "its row says it: {}", shown.at(low));
    shown.press_at(low, &[Key::Char('/')]);
    shown.press_at(low, &typed("zzzz"));
    let text = shown.at(low);
    let line = text.lines().position(|line| line.starts_with(headline)).unwrap_or_else(|| panic!("{text}"));
    assert!(text.lines().nth(line + 1).unwrap().contains("mahabharatha retry"), "{text}");
}

#[test]
fn the_attempts_of_a_task_fit_a_narrow_screen() {
    let sample = midrun();
    let mut shown = Shown::new(&sample, true);
    let page = TaskPage { task: "CSV".to_string(), tab: Tab::Overview, attempt: None, scroll: Scroll::Start };
    shown.state.page = Page::Task(page);
    let text = shown.at((50, 12));
    assert!(text.lines().nth(1).unwrap().ends_with("4 log  1✗ [2✓]"), "{text}");
}
