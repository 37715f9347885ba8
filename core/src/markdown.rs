//! The little Markdown that is needed to cut a text at safe places and to embed it in another.

const FENCE_CHARS: [char; 2] = ['`', '~'];

/// A heading with the text up to the next one, or the text before the first heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The headings above it and its own, outermost first; empty before the first heading.
    pub titles: Vec<String>,
    pub text: String,
}

/// Splits the text at headings outside code fences. Headings are moved `deeper` levels down, so that they fit below
/// ours, and an unclosed fence is closed.
pub fn sections(text: &str, deeper: usize) -> Vec<Section> {
    let mut sections = vec![Section { titles: Vec::new(), text: String::new() }];
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut fence = Fence::default();
    for line in text.lines() {
        let in_fence = fence.is_open();
        fence.read(line);
        match heading(line).filter(|_| !in_fence) {
            Some((level, title)) => {
                open.retain(|(above, _)| *above < level);
                open.push((level, title.to_owned()));
                let titles = open.iter().map(|(_, title)| title.clone()).collect();
                let marks = "#".repeat((level + deeper).min(6));
                sections.push(Section { titles, text: format!("{marks} {title}\n") });
            }
            None => {
                let section = sections.last_mut().expect("begins with one section and only grows");
                section.text.push_str(line);
                section.text.push('\n');
            }
        }
    }
    if let Some(end) = fence.end() {
        let section = sections.last_mut().expect("begins with one section and only grows");
        section.text.push_str(&end);
        section.text.push('\n');
    }
    for section in &mut sections {
        section.text = section.text.trim_matches('\n').to_owned();
    }
    sections.retain(|section| !section.text.trim().is_empty());
    sections
}

/// Embeds a whole text in another, with its headings moved `deeper` levels down.
pub fn embed(text: &str, deeper: usize) -> String {
    let sections = sections(text, deeper);
    sections.iter().map(|section| section.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// Returns the document without its front matter.
pub fn without_front_matter(text: &str) -> &str {
    let end = text.strip_prefix("---\n").and_then(|fields| fields.split_once("\n---\n"));
    end.map_or(text, |(_, document)| document)
}

/// Puts untrusted text in a code fence that it cannot close.
pub fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Formats a word or path as inline code.
pub fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    if longest == 0 { format!("`{text}`") } else { format!("{ticks} {text} {ticks}") }
}

/// Joins the words of a text with single spaces.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts a text that is too long to its head and its (larger) tail, with the number of characters left out in between.
/// The result never has more than `max_chars`.
pub fn bound_text(text: &str, max_chars: usize) -> String {
    let total = text.chars().count();
    if total <= max_chars {
        return text.to_owned();
    }
    let marker = |left_out: usize| format!("\n… {left_out} characters left out …\n");
    let kept = max_chars.saturating_sub(marker(total).chars().count());
    if kept == 0 {
        return text.chars().take(max_chars).collect();
    }
    // The tail is larger because tools report failures at the end.
    let head = kept / 3;
    let tail = kept - head;
    let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    format!("{}{}{}", &text[..byte(head)], marker(total - kept), &text[byte(total - tail)..])
}

pub fn heading(line: &str) -> Option<(usize, &str)> {
    let unindented = line.trim_start_matches(' ');
    let title = unindented.trim_start_matches('#');
    let level = unindented.len() - title.len();
    let valid = line.len() - unindented.len() <= 3
        && (1..=6).contains(&level)
        && (title.is_empty() || title.starts_with([' ', '\t']));
    valid.then(|| (level, without_closing_marks(title.trim())))
}

/// Turns `C ##` into `C`, but keeps `C#`.
fn without_closing_marks(title: &str) -> &str {
    let bare = title.trim_end_matches('#');
    if bare.is_empty() || bare.ends_with([' ', '\t']) { bare.trim_end() } else { title }
}

/// Returns a single-line title that is parsed back as the same title when written as a heading.
pub fn title_line(text: &str) -> String {
    let line = one_line(text);
    let mut title = line.as_str();
    while without_closing_marks(title).len() < title.len() {
        title = without_closing_marks(title);
    }
    title.to_owned()
}

/// Tracks whether the lines read so far leave a code fence open.
#[derive(Debug, Default)]
pub struct Fence(Option<(char, usize)>);

impl Fence {
    pub fn read(&mut self, line: &str) {
        let line = line.trim();
        let Some(mark) = line.chars().next().filter(|c| FENCE_CHARS.contains(c)) else { return };
        let rest = line.trim_start_matches(mark);
        let length = line.len() - rest.len();
        match self.0 {
            None if length >= 3 && !(mark == '`' && rest.contains('`')) => self.0 = Some((mark, length)),
            Some((open, minimum)) if open == mark && length >= minimum && rest.is_empty() => self.0 = None,
            _ => {}
        }
    }

    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    pub fn end(&self) -> Option<String> {
        self.0.map(|(mark, length)| mark.to_string().repeat(length))
    }
}
