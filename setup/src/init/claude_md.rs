//! Writes our part of `CLAUDE.md`: what every agent should know about the project. The rest of the file is the user's.

use std::fs;
use std::path::Path;

use mahabharatha_engine::report::markdown::code;
use mahabharatha_sys::bounded;

use super::detect::{Kind, Survey};
use super::place::NewFile;

pub const PATH: &str = "CLAUDE.md";
const OPENING: &str =
    "<!-- mahabharatha: written by `mahabharatha init`; what is outside of these two marks is yours -->";
const CLOSING: &str = "<!-- /mahabharatha -->";
const MAX_BYTES: u64 = 1 << 20;
const MAX_CHECKS: usize = 10;

/// Returns the file, or a warning that says why it was not changed.
pub fn file(root: &Path, survey: &Survey, has_rules: bool, is_there: impl Fn(&str) -> bool) -> Result<NewFile, String> {
    let (path, ours) = (root.join(PATH), part(survey, has_rules, is_there));
    let Ok(found) = fs::symlink_metadata(&path) else { return Ok(NewFile::merged(PATH, ours)) };
    if !found.is_file() || found.len() > MAX_BYTES {
        return Err(left_alone("it is a symlink, not a regular file or too long", &ours));
    }
    let existing = bounded::read_to_string(&path, MAX_BYTES).map_err(|error| left_alone(&error.to_string(), &ours))?;
    let merged = merged(&existing, &ours);
    let merged = merged.ok_or_else(|| left_alone("it has only one of the two mahabharatha markers", &ours))?;
    Ok(NewFile::merged(PATH, merged))
}

fn left_alone(why: &str, ours: &str) -> String {
    let lines: Vec<&str> = ours.lines().filter(|line| line.starts_with("- ")).collect();
    format!("{PATH} was not changed: {why}; add to it: {}", lines.join(" "))
}

fn part(survey: &Survey, has_rules: bool, is_there: impl Fn(&str) -> bool) -> String {
    let checks = survey.quality.commands.iter().take(MAX_CHECKS).map(|check| check.here(&is_there));
    let checks: Vec<String> = checks.map(|check| code(&check.command)).collect();
    let checks = if checks.is_empty() { String::new() } else { format!("- Checks: {}\n", checks.join(", ")) };
    let install = survey.quality.prepare.iter().filter(|command| command.kind == Kind::Install);
    let set_up: Vec<String> = install.map(|command| code(&command.command)).collect();
    // Workers start in a fresh checkout.
    let set_up =
        if set_up.is_empty() { String::new() } else { format!("- In a fresh checkout first: {}\n", set_up.join(", ")) };
    let rules = if has_rules { "- Security rules: `.claude/rules/`.\n" } else { "" };
    format!(
        "{OPENING}\n\
         - Project description: `.gsd/`. Feature specs: `.gsd/specs/`.\n\
         {rules}{set_up}{checks}{CLOSING}\n"
    )
}

/// Puts our part in its old place, or at the end, where one newline separates it so that `without_ours` can restore the
/// file. Returns None if one marker is there without the other.
fn merged(existing: &str, ours: &str) -> Option<String> {
    match (existing.split_once(OPENING), existing.contains(CLOSING)) {
        (Some((before, after)), _) => {
            let (_, after) = after.split_once(CLOSING)?;
            Some(format!("{before}{ours}{}", after.strip_prefix('\n').unwrap_or(after)))
        }
        (None, true) => None,
        (None, false) => Some(format!("{existing}\n{ours}")),
    }
}

/// Returns true if the file contains only our part, so `init` created it.
pub fn is_ours_alone(text: &str) -> bool {
    text.starts_with(OPENING) && without_ours(text).is_some_and(|left| left.trim().is_empty())
}

/// Returns the user's text as it was before our part was added, or None if our part is not in it.
pub fn without_ours(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(OPENING)?;
    let (_, after) = rest.split_once(CLOSING)?;
    let after = after.strip_prefix('\n').unwrap_or(after);
    Some(match before.strip_suffix('\n') {
        Some(before) if after.is_empty() => before.to_owned(),
        _ => format!("{before}{after}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(text: &str) -> String {
        format!("{OPENING}\n{text}\n{CLOSING}\n")
    }

    #[test]
    fn removal_restores_the_file_whatever_it_ended_in() {
        for theirs in ["# Mine", "# Mine\n", "# Mine\n\n\n", "# Mine\r\n", " ", "\n", ""] {
            let both = merged(&merged(theirs, &ours("one")).unwrap(), &ours("two")).unwrap();
            assert_eq!(without_ours(&both).as_deref(), Some(theirs));
            assert!(!is_ours_alone(&both), "{both:?}");
        }
        assert!(is_ours_alone(&ours("one")) && !is_ours_alone(&format!("{}mine", ours("one"))));
    }

    #[test]
    fn user_text_around_our_part_is_kept() {
        let first = merged("# Mine\n", &ours("one")).unwrap();
        assert_eq!(first, format!("# Mine\n\n{}", ours("one")));
        assert_eq!(without_ours(&format!("a\n{}b\n", ours("one"))).unwrap(), "a\nb\n");
        assert_eq!((without_ours("# Mine\n"), without_ours(OPENING)), (None, None));
        assert_eq!(merged(&first, &ours("one")).unwrap(), first, "twice changes nothing");
        let moved = format!("{}# After\n", first.replace("# Mine", "# Before"));
        assert_eq!(merged(&moved, &ours("two")).unwrap(), format!("# Before\n\n{}# After\n", ours("two")));
        assert_eq!(merged(&format!("{OPENING}\nopen"), &ours("x")), None);
        assert_eq!(merged(&format!("{CLOSING}\nx"), &ours("x")), None);
    }
}
