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

/// Formats a table for a terminal of `limit` columns; without a limit nothing is cut. `shrinking` may be cut. A table that is still
/// too wide continues below, with its first named column repeated. A continuation whose other columns are all empty is
/// left out.
pub fn columns(head: &[&str], rows: &[Vec<Cell>], shrinking: &[usize], limit: Option<usize>, paint: Paint) -> String {
    let mut widths: Vec<usize> = head.iter().map(|title| width(title)).collect();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            widths[index] = widths[index].max(width(&cell.text));
        }
    }
    let titles: Vec<Cell> = head.iter().map(|title| styled(Style::Strong, title)).collect();
    let lines: Vec<&[Cell]> = std::iter::once(&titles[..]).chain(rows.iter().map(Vec::as_slice)).collect();
    let key = 1 + head.iter().position(|title| !title.is_empty()).unwrap_or(0);
    let parts = parts(&widths, key, shrinking, limit.unwrap_or(usize::MAX));
    let part = |shown: &Vec<usize>| {
        let mut cut: Vec<usize> = shown.iter().map(|&index| widths[index]).collect();
        let may_shrink: Vec<usize> = (0..shown.len()).filter(|&at| shrinking.contains(&shown[at])).collect();
        if let Some(limit) = limit {
            shrink(&mut cut, &may_shrink, limit);
        }
        lines.iter().map(|row| line(row, shown, &cut, paint)).collect::<String>()
    };
    let is_empty = |shown: &[usize]| {
        let mut cells = rows.iter().flat_map(|row| shown.iter().skip(key).filter_map(|&index| row.get(index)));
        cells.all(|cell| cell.text.is_empty())
    };
    let (first, rest) = parts.split_at(1);
    let shown = first.iter().chain(rest.iter().filter(|shown| !is_empty(shown)));
    shown.map(part).collect::<Vec<_>>().join("\n")
}

/// Divides the columns among as few tables as possible that fit; each begins with the first `key` columns.
fn parts(widths: &[usize], key: usize, shrinking: &[usize], limit: usize) -> Vec<Vec<usize>> {
    let least = |index: usize| if shrinking.contains(&index) { widths[index].min(MIN_WIDTH) } else { widths[index] };
    let needed = |shown: &[usize]| shown.iter().map(|&index| least(index) + GAP).sum::<usize>().saturating_sub(GAP);
    let lead: Vec<usize> = (0..key.min(widths.len())).collect();
    let mut parts = vec![lead.clone()];
    for index in key..widths.len() {
        let Some(part) = parts.last_mut() else { break };
        part.push(index);
        if needed(part) > limit && part.len() > key + 1 {
            part.pop();
            parts.push(lead.iter().copied().chain([index]).collect());
        }
    }
    parts
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

/// Formats the shown cells of a row.
fn line(row: &[Cell], shown: &[usize], widths: &[usize], paint: Paint) -> String {
    let mut text = String::new();
    let mut padding = 0;
    for (cell, &columns) in shown.iter().filter_map(|&index| row.get(index)).zip(widths) {
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

    #[test]
    fn a_table_that_cannot_shrink_enough_continues_below() {
        let rows = [vec![cell("*"), cell("login"), cell("3h 20m"), cell("1.20 USD"), cell("a note")]];
        let text = columns(&["", "Feature", "Work", "Cost", "Note"], &rows, &[4], Some(24), Paint::OFF);
        let empty = [vec![cell("*"), cell("login"), cell("3h 20m"), cell("1.20 USD"), cell("")]];
        let shorter = columns(&["", "Feature", "Work", "Cost", "Note"], &empty, &[4], Some(24), Paint::OFF);
        assert_eq!(shorter, text.split("\n\n").take(2).collect::<Vec<_>>().join("\n\n") + "\n");
        insta::assert_snapshot!(text, @r"
           Feature  Work
        *  login    3h 20m

           Feature  Cost
        *  login    1.20 USD

           Feature  Note
        *  login    a note
        ");
    }

    proptest! {
        #[test]
        fn a_table_fits_the_width(limit in 18usize..100) {
            prop_assert!(table(Some(limit)).lines().all(|line| width(line) <= limit));
        }
    }
}
