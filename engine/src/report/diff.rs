//! `diff`: changed files as a patch for people, as a table of counts, and as JSON.

use mahabharatha_sys::git::FilePatch;
use mahabharatha_sys::ui::{Paint, Style, escape};
use serde_json::{Value, json};

use super::text::count;

/// Most lines shown of one file, and of all files together.
const MAX_FILE_LINES: usize = 2_000;
const MAX_LINES: usize = 20_000;
/// Characters shown of a line.
const MAX_LINE_CHARS: usize = 1_000;
/// Widest bar of `stat`, in columns.
const MAX_BAR: u64 = 40;

/// Returns the whole patch as git wrote it.
pub fn patch_bytes(files: &[FilePatch]) -> Vec<u8> {
    files.iter().flat_map(|file| file.patch.iter().copied()).collect()
}

/// Returns the patch for a terminal: coloured, control characters visible, and not endless.
pub fn patch_text(files: &[FilePatch], paint: Paint) -> String {
    let mut text = String::new();
    let mut left = MAX_LINES;
    for (index, file) in files.iter().enumerate() {
        if left == 0 {
            let rest = count(files.len() - index, "file");
            text.push_str(&cut(&format!("{rest} more, {}", summary(&files[index..])), paint));
            break;
        }
        let room = left.min(MAX_FILE_LINES);
        left -= file_text(file, room, paint, &mut text);
    }
    text
}

/// Appends a file's patch with at most this many lines; returns how many it has.
fn file_text(file: &FilePatch, room: usize, paint: Paint, text: &mut String) -> usize {
    let patch = String::from_utf8_lossy(&file.patch);
    let mut in_hunk = false;
    let mut shown = 0;
    let mut lines = patch.split_terminator('\n');
    while let Some(line) = lines.next() {
        if line == "GIT binary patch" {
            text.push_str(&paint.apply(Style::Dim, "binary file"));
            text.push('\n');
            return shown + 1;
        }
        if shown == room {
            let rest = lines.count() + 1;
            text.push_str(&cut(&format!("{} more of {}", count(rest, "line"), file.change.path), paint));
            return shown;
        }
        in_hunk = (in_hunk || line.starts_with("@@ ")) && !line.starts_with("diff --git ");
        let style = match line.as_bytes().first() {
            Some(b'+') if in_hunk => Style::Good,
            Some(b'-') if in_hunk => Style::Bad,
            Some(b'@') if in_hunk => Style::Dim,
            Some(_) if !in_hunk => Style::Strong,
            _ => Style::Plain,
        };
        text.push_str(&paint.apply(style, &shortened(line)));
        text.push('\n');
        shown += 1;
    }
    shown
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => escape(&line[..end]) + "…",
        None => escape(line),
    }
}

fn cut(what: &str, paint: Paint) -> String {
    let line = format!("… {what}; all of it: write the output into a file or a pipe");
    paint.apply(Style::Warn, &line) + "\n"
}

/// Returns one line for each file with its counts, and a summary.
pub fn stat_text(files: &[FilePatch], paint: Paint) -> String {
    let names: Vec<String> = files.iter().map(|file| escape(&file.change.path.to_string())).collect();
    let widest = names.iter().map(|name| mahabharatha_sys::ui::width(name)).max().unwrap_or(0);
    let most = files.iter().filter_map(|file| file.lines).map(|(added, deleted)| added + deleted).max().unwrap_or(0);
    let mut text = String::new();
    for (file, name) in files.iter().zip(names) {
        let gap = " ".repeat(widest - mahabharatha_sys::ui::width(&name));
        let counted = match file.lines {
            None => "binary".to_owned(),
            Some((added, deleted)) => {
                let bar = |lines: u64| if most <= MAX_BAR { lines } else { (lines * MAX_BAR).div_ceil(most) } as usize;
                let (plus, minus) = ("+".repeat(bar(added)), "-".repeat(bar(deleted)));
                format!("{:>6} {}{}", added + deleted, paint.apply(Style::Good, &plus), paint.apply(Style::Bad, &minus))
            }
        };
        text.push_str(&format!("{} {name}{gap} | {counted}\n", file.change.status));
    }
    text + &summary(files) + "\n"
}

/// `3 files, 10 lines added, 2 lines deleted`
pub fn summary(files: &[FilePatch]) -> String {
    let counts = files.iter().filter_map(|file| file.lines);
    let (added, deleted) = counts.fold((0, 0), |(added, deleted), lines| (added + lines.0, deleted + lines.1));
    format!(
        "{}, {} added, {} deleted",
        count(files.len(), "file"),
        count(added as usize, "line"),
        count(deleted as usize, "line")
    )
}

/// Returns the files for programs. A patch that is not UTF-8 is shown with replacement characters and is not `exact`.
pub fn files_json(files: &[FilePatch]) -> Value {
    let mode = |mode: u32| (mode != 0).then(|| format!("{mode:06o}"));
    let file = |file: &FilePatch| {
        let status = match file.change.status {
            'A' => "added",
            'D' => "deleted",
            'T' => "type_changed",
            _ => "modified",
        };
        json!({
            "path": file.change.path.to_string(),
            "status": status,
            "old_mode": mode(file.change.old_mode),
            "new_mode": mode(file.change.new_mode),
            "binary": file.lines.is_none(),
            "added": file.lines.map(|lines| lines.0),
            "deleted": file.lines.map(|lines| lines.1),
            "patch": String::from_utf8_lossy(&file.patch),
            "exact": std::str::from_utf8(&file.patch).is_ok(),
        })
    };
    files.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use mahabharatha_sys::git::{Change, RepoPath};

    use super::*;

    fn file(path: &str, patch: &str, lines: Option<(u64, u64)>) -> FilePatch {
        let change = Change {
            path: RepoPath::from(path),
            old_mode: 0o100_644,
            new_mode: 0o100_644,
            old: None,
            new: None,
            status: 'M',
        };
        FilePatch { change, lines, patch: patch.as_bytes().to_vec() }
    }

    #[test]
    fn control_characters_are_shown_and_long_files_are_cut() {
        let head = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n";
        let text = patch_text(&[file("x", &format!("{head}-a\x1b[2J\n+b\r\n"), Some((1, 1)))], Paint::OFF);
        assert_eq!(text, format!("{head}-a␛[2J\n+b␍\n"));
        let long = file("long", &format!("{head}{}", "+x\n".repeat(3 * MAX_FILE_LINES)), Some((6_000, 0)));
        let text = patch_text(std::slice::from_ref(&long), Paint::OFF);
        assert_eq!(text.lines().count(), MAX_FILE_LINES + 1);
        assert!(text.lines().last().unwrap().starts_with("… 4004 lines more of long"), "{text}");
        let many = vec![long; 15];
        let text = patch_text(&many, Paint::OFF);
        assert!(text.lines().last().unwrap().starts_with("… 5 files more, 5 files, 30000 lines added"), "{text}");
        let binary = file("b", "diff --git a/b b/b\nGIT binary patch\nliteral 3\nKcmZ\n\n", None);
        assert_eq!(patch_text(&[binary], Paint::OFF), "diff --git a/b b/b\nbinary file\n");
    }

    #[test]
    fn counts_are_drawn_to_scale() {
        let files = [file("a", "", Some((100, 0))), file("bin/b", "", None), file("ü", "", Some((1, 1)))];
        insta::assert_snapshot!(stat_text(&files, Paint::OFF), @r"
        M a     |    100 ++++++++++++++++++++++++++++++++++++++++
        M bin/b | binary
        M ü     |      2 +-
        3 files, 101 lines added, 1 line deleted
        ");
    }
}
