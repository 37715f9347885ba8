//! Escapes untrusted text for Markdown, so that it stays text.

use mahabharatha_sys::ui::{clean, command_line, one_line};

/// Lines kept from the beginning of a long output.
const HEAD_LINES: usize = 20;
/// Lines kept from the end of a long output.
const TAIL_LINES: usize = 40;
const MAX_LINE_COLUMNS: usize = 400;

/// Formats one line of text.
pub fn inline(text: &str) -> String {
    let mut escaped = String::new();
    for c in one_line(text).chars() {
        if matches!(c, '\\' | '<' | '`' | '*' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Formats one line of code.
pub fn code(text: &str) -> String {
    let text = command_line(text);
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(&text, '`') + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Formats output as a code block that its text cannot end; omits the middle of a long output.
pub fn block(text: &str) -> String {
    let cleaned = clean(text);
    let lines: Vec<&str> = cleaned.trim_end().lines().collect();
    let mut kept: Vec<String> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if index < HEAD_LINES || index + TAIL_LINES >= lines.len() {
            kept.push(mahabharatha_sys::ui::fit(line, MAX_LINE_COLUMNS));
        } else if index == HEAD_LINES {
            kept.push(format!("… {} lines left out …", lines.len() - HEAD_LINES - TAIL_LINES));
        }
    }
    let fence = "`".repeat(longest_run(&cleaned, '`').max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", kept.join("\n"))
}

/// Formats a table; the cells must come from `inline` or `code`.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rule: Vec<String> = head.iter().map(|title| "-".repeat(title.len() + 2)).collect();
    let mut text = format!("| {} |\n|{}|\n", head.join(" | "), rule.join("|"));
    for row in rows {
        // Markdown splits a row at `|` before it parses anything else.
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

fn longest_run(text: &str, of: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_output_loses_its_middle_only() {
        let output: String = (1..=100).map(|number| format!("line {number}\n")).collect();
        let block = block(&output);
        assert!(block.contains("line 20\n… 40 lines left out …\nline 61\n"), "{block}");
        assert!(block.ends_with("line 100\n```\n"), "{block}");
        let short: String = (1..=60).map(|number| format!("line {number}\n")).collect();
        assert!(!super::block(&short).contains("left out"));
    }

    #[test]
    fn an_output_cannot_end_its_block() {
        assert_eq!(block("a\n````\n# b"), "`````text\na\n````\n# b\n`````\n");
    }

    #[test]
    fn code_may_hold_backticks_and_bars() {
        assert_eq!(code("echo `date` | cat"), "``echo `date` | cat``");
        assert_eq!(code("`x`"), "`` `x` ``");
        assert_eq!(code(" \n"), "");
        assert_eq!(code("echo  'a   b'\n&& x"), "`echo  'a   b' && x`");
    }

    /// Returns escaped text as a Markdown reader shows it.
    fn unescaped(text: &str) -> String {
        let mut plain = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            plain.push(if c == '\\' { chars.next().unwrap() } else { c });
        }
        plain
    }

    /// Counts the places where a row is split.
    fn bars(row: &str) -> usize {
        row.matches('|').count() - row.matches("\\|").count()
    }

    proptest! {
        #[test]
        fn escaped_text_reads_as_it_was(text in "[ -~\\n\\t|<`*\\\\\\[\\]é]{0,60}") {
            prop_assert_eq!(unescaped(&inline(&text)), one_line(&text));
        }

        #[test]
        fn a_row_has_its_cells_whatever_they_hold(text in any::<String>(), command in "[a-z |`\\n]{0,30}") {
            let rows = [vec![inline(&text), code(&command)]];
            let table = table(&["a", "b"], &rows);
            prop_assert_eq!(table.lines().count(), 3);
            prop_assert_eq!(bars(table.lines().last().unwrap()), 3, "{}", table);
        }

        #[test]
        fn a_block_ends_once(text in "[a`\\n]{0,80}") {
            let block = block(&text);
            let (opening, rest) = block.split_once("text\n").unwrap();
            let inner = rest.strip_suffix(&format!("{opening}\n")).unwrap();
            prop_assert!(!inner.lines().any(|line| line.starts_with(opening)), "{}", block);
        }
    }
}
