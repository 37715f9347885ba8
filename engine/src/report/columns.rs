//! Tables for a terminal, with aligned columns cut to the available width.

use mahabharatha_sys::ui::{Paint, Style, fit, one_line, width};

const GAP: usize = 2;
/// Columns are not shrunk below this width.
const MIN_WIDTH: usize = 8;

pub struct Cell {
    text: String,
    style: Style,
}

pub fn cell(text: impl ToString) -> Cell {
    styled(Style::Plain, text)
}

pub fn styled(style: Style, text: impl ToString) -> Cell {
    Cell { text: one_line(&text.to_string()), style }
}

/// Formats a table for a terminal of `limit` columns; without a limit nothing is cut. `shrinking` may be cut.
pub fn columns(head: &[&str], rows: &[Vec<Cell>], shrinking: &[usize], limit: Option<usize>, paint: Paint) -> String {
    let mut widths: Vec<usize> = head.iter().map(|title| width(title)).collect();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            widths[index] = widths[index].max(width(&cell.text));
        }
    }
    if let Some(limit) = limit {
        shrink(&mut widths, shrinking, limit);
    }
    let titles: Vec<Cell> = head.iter().map(|title| styled(Style::Strong, title)).collect();
    let lines = std::iter::once(&titles).chain(rows).map(|row| line(row, &widths, paint));
    lines.collect()
}

/// Narrows the widest of the shrinking columns until the table fits.
fn shrink(widths: &mut [usize], shrinking: &[usize], limit: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(limit);
    while excess > 0 {
        let widest = shrinking.iter().copied().max_by_key(|&index| widths[index]);
        let Some(widest) = widest.filter(|&index| widths[index] > MIN_WIDTH) else { return };
        widths[widest] -= 1;
        excess -= 1;
    }
}

fn line(row: &[Cell], widths: &[usize], paint: Paint) -> String {
    let mut text = String::new();
    let mut padding = 0;
    for (cell, &columns) in row.iter().zip(widths) {
        let fitted = fit(&cell.text, columns);
        let used = width(&fitted);
        if used > 0 {
            text.push_str(&" ".repeat(padding));
            text.push_str(&paint.apply(cell.style, &fitted));
            padding = 0;
        }
        padding += columns - used + GAP;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(limit: Option<usize>) -> String {
        let rows = [
            vec![cell("TASK-1"), cell("a title that is rather long"), cell("")],
            vec![cell("T-2"), cell("漢字"), cell("a note\nthat is long too")],
        ];
        columns(&["Task", "Title", "Note"], &rows, &[1, 2], limit, Paint::OFF)
    }

    #[test]
    fn columns_are_aligned_and_no_line_ends_in_spaces() {
        insta::assert_snapshot!(table(None), @r"
        Task    Title                        Note
        TASK-1  a title that is rather long
        T-2     漢字                         a note that is long too
        ");
    }

    #[test]
    fn wide_columns_are_cut_first() {
        insta::assert_snapshot!(table(Some(40)), @r"
        Task    Title            Note
        TASK-1  a title that i…
        T-2     漢字             a note that is…
        ");
    }

    proptest! {
        #[test]
        fn a_table_fits_the_width(limit in 30usize..100) {
            prop_assert!(table(Some(limit)).lines().all(|line| width(line) <= limit));
        }
    }
}
