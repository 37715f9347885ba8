//! Splits Markdown into sections, and escapes text so that it cannot end its section.

use super::text::normalized;

#[derive(Default)]
pub(super) struct Prose<'t> {
    pub title: Option<&'t str>,
    /// Lines outside any section.
    pub loose: Vec<String>,
    pub sections: Vec<(&'t str, Vec<String>)>,
    in_section: bool,
    fence: Option<Fence>,
}

impl<'t> Prose<'t> {
    pub fn add(&mut self, line: &'t str) {
        if let Some(fence) = &self.fence {
            if fence.closes_at(line) {
                self.fence = None;
            }
            return self.keep(line.to_owned());
        }
        self.fence = Fence::opened_by(line);
        match heading(line) {
            Some((1, title)) if self.title.is_none() => {
                self.title = Some(title);
                self.in_section = false;
            }
            Some((_, name)) => {
                self.sections.push((name, Vec::new()));
                self.in_section = true;
            }
            None => self.keep(unescaped(line)),
        }
    }

    fn keep(&mut self, line: String) {
        match self.sections.last_mut() {
            Some((_, lines)) if self.in_section => lines.push(line),
            _ => self.loose.push(line),
        }
    }

    /// Ends the section that contains the block. A fence around the block does not belong to the section.
    pub fn end_section(&mut self) {
        if let (Some(_), Some((_, lines))) = (&self.fence, self.sections.last_mut()) {
            lines.truncate(lines.iter().rposition(|line| Fence::opened_by(line).is_some()).unwrap_or(lines.len()));
        }
        self.in_section = false;
    }

    pub fn in_fence(&self) -> bool {
        self.fence.is_some()
    }
}

/// Escapes a text so that no line of it is read as a heading, a task or an open fence.
pub(super) fn write_prose(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let plain = |c: char| if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    let text = normalized(&text.chars().map(plain).collect::<String>());
    let lines: Vec<&str> = text.split('\n').collect();
    let end_of_fences = open_fence(&lines).unwrap_or(lines.len());
    let mut fence: Option<Fence> = None;
    let mut written = Vec::with_capacity(lines.len());
    for (number, &line) in lines.iter().enumerate() {
        if let Some(open) = &fence {
            if open.closes_at(line) {
                fence = None;
            }
            written.push(line.to_owned());
            continue;
        }
        if number < end_of_fences {
            fence = Fence::opened_by(line);
        }
        let keep = fence.is_some() || !needs_escape(line);
        written.push(if keep { line.to_owned() } else { escaped(line) });
    }
    written.join("\n")
}

/// Returns the line that opens a fence which is never closed.
fn open_fence(lines: &[&str]) -> Option<usize> {
    let mut open: Option<(usize, Fence)> = None;
    for (number, line) in lines.iter().enumerate() {
        open = match open {
            Some((_, fence)) if fence.closes_at(line) => None,
            Some(open) => Some(open),
            None => Fence::opened_by(line).map(|fence| (number, fence)),
        };
    }
    open.map(|(number, _)| number)
}

struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Fence> {
        let text = at_margin(line)?;
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some(Fence { mark, length })
    }

    fn closes_at(&self, line: &str) -> bool {
        at_margin(line).is_some_and(|text| {
            let rest = text.trim_start_matches(self.mark);
            text.len() - rest.len() >= self.length && rest.trim_matches([' ', '\t']).is_empty()
        })
    }
}

/// Strips the indentation. Returns None if it makes the line code.
fn at_margin(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len() <= 3).then_some(text)
}

/// Returns the depth (1 or 2) and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = at_margin(line)?;
    let words = text.trim_start_matches('#');
    let depth = text.len() - words.len();
    let is_heading = matches!(depth, 1 | 2) && (words.is_empty() || words.starts_with([' ', '\t']));
    is_heading.then(|| (depth, words.trim_matches([' ', '\t', '*', '#']).trim_end_matches(':')))
}

/// Returns the indentation of a line that starts with `<task`.
pub(super) fn task_tag(line: &str) -> Option<usize> {
    let tag = line.trim_start_matches([' ', '\t']);
    let rest = tag.strip_prefix("<task")?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '>', '/'])).then(|| line.len() - tag.len())
}

fn is_markup(line: &str) -> bool {
    heading(line).is_some() || task_tag(line).is_some() || Fence::opened_by(line).is_some()
}

fn split_indent(line: &str) -> (&str, &str) {
    line.split_at(line.len() - line.trim_start_matches([' ', '\t']).len())
}

fn needs_escape(line: &str) -> bool {
    let (indent, rest) = split_indent(line);
    is_markup(&format!("{indent}{}", rest.trim_start_matches('\\')))
}

fn escaped(line: &str) -> String {
    let (indent, rest) = split_indent(line);
    format!("{indent}\\{rest}")
}

fn unescaped(line: &str) -> String {
    let (indent, rest) = split_indent(line);
    match rest.strip_prefix('\\') {
        Some(unescaped) if needs_escape(line) => format!("{indent}{unescaped}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(&str, String)> {
        let mut prose = Prose::default();
        text.split('\n').for_each(|line| prose.add(line));
        prose.sections.into_iter().map(|(name, lines)| (name, normalized(&lines.join("\n")))).collect()
    }

    #[test]
    fn headings_in_code_are_code() {
        let text = "## A\n```python\n# comment\n## more\n```\n    # indented\n### deeper\n## B\n~~~\n```\n# x\n~~~\ny";
        let a = "```python\n# comment\n## more\n```\n    # indented\n### deeper";
        assert_eq!(read(text), [("A", a.to_owned()), ("B", "~~~\n```\n# x\n~~~\ny".to_owned())]);
        assert_eq!(
            read("## A\n```x``` is no fence\n## B"),
            [("A", "```x``` is no fence".into()), ("B", String::new())]
        );
    }

    #[test]
    fn readable_text_is_written_as_it_is() {
        let text = "```ts\n# not a heading\n```\n\n### Errors\n- `a`";
        assert_eq!(write_prose(text), text);
        assert_eq!(write_prose("## Other\n<task id=\"x\">"), "\\## Other\n\\<task id=\"x\">");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_text_ends_its_section(pieces in proptest::collection::vec(
            prop_oneof![
                Just("#"), Just("##"), Just(" "), Just("\t"), Just("\n"), Just("\n"), Just("```"), Just("~~~"), Just("~~~~"), Just("`"),
                Just("\\"), Just("<task "), Just("x"), Just("\n# H\n"), Just("    "), Just("\n```\n"),
            ],
            0..14,
        )) {
            let text = pieces.concat();
            let document = format!("## A\n\n{}\n\n## B\n\nb\n", write_prose(&text));
            prop_assert_eq!(read(&document), [("A", normalized(&text)), ("B", "b".to_owned())]);
            prop_assert!(!write_prose(&text).lines().any(|line| task_tag(line).is_some()) || text.contains("```") || text.contains("~~~"));
        }
    }
}
