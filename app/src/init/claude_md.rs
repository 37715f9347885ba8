//! Our part of `CLAUDE.md`: what every agent should know of the project. The rest of the file is the person's.

use std::fs;
use std::path::Path;

use super::detect::{Kind, Survey};
use super::place::NewFile;
use crate::report::markdown::code;

pub const PATH: &str = "CLAUDE.md";
const OPENING: &str =
    "<!-- mahabharatha: written by `mahabharatha init`; what is outside of these two marks is yours -->";
const CLOSING: &str = "<!-- /mahabharatha -->";
const MAX: u64 = 1 << 20;
const MAX_CHECKS: usize = 10;

/// The file, or why it is left as it is.
pub fn file(root: &Path, survey: &Survey, has_rules: bool, is_there: impl Fn(&str) -> bool) -> Result<NewFile, String> {
    let (path, ours) = (root.join(PATH), part(survey, has_rules, is_there));
    let Ok(found) = fs::symlink_metadata(&path) else { return Ok(NewFile::merged(PATH, ours)) };
    if !found.is_file() || found.len() > MAX {
        return Err(left_alone("it is a link, or no text of a usual length", &ours));
    }
    let theirs = fs::read_to_string(&path).map_err(|error| left_alone(&error.to_string(), &ours))?;
    let merged = merged(&theirs, &ours);
    let merged = merged.ok_or_else(|| left_alone("one of our two marks stands in it without the other", &ours))?;
    Ok(NewFile::merged(PATH, merged))
}

fn left_alone(why: &str, ours: &str) -> String {
    let lines: Vec<&str> = ours.lines().filter(|line| line.starts_with("- ")).collect();
    format!("{PATH} is left as it is: {why}; what it should say: {}", lines.join(" "))
}

fn part(survey: &Survey, has_rules: bool, is_there: impl Fn(&str) -> bool) -> String {
    let checks = survey.quality.commands.iter().take(MAX_CHECKS).map(|check| check.here(&is_there));
    let checks: Vec<String> = checks.map(|check| code(&check.command)).collect();
    let checks = if checks.is_empty() { String::new() } else { format!("- Checks: {}\n", checks.join(", ")) };
    let install = survey.quality.prepare.iter().filter(|command| command.kind == Kind::Install);
    let set_up: Vec<String> = install.map(|command| code(&command.command)).collect();
    // Workers begin in one.
    let set_up =
        if set_up.is_empty() { String::new() } else { format!("- In a fresh checkout first: {}\n", set_up.join(", ")) };
    let rules = if has_rules { "- Security rules: `.claude/rules/`.\n" } else { "" };
    format!(
        "{OPENING}\n\
         - What this project is made of: `.gsd/`. Specs of its features: `.gsd/specs/`.\n\
         {rules}{set_up}{checks}{CLOSING}\n"
    )
}

/// Ours takes its own place again, or goes to the end. None where the marks do not fit.
fn merged(theirs: &str, ours: &str) -> Option<String> {
    match (theirs.split_once(OPENING), theirs.contains(CLOSING)) {
        (Some((before, after)), _) => {
            let (_, after) = after.split_once(CLOSING)?;
            Some(format!("{before}{ours}{}", after.strip_prefix('\n').unwrap_or(after)))
        }
        (None, true) => None,
        (None, false) if theirs.trim().is_empty() => Some(ours.to_owned()),
        (None, false) => Some(format!("{}\n\n{ours}", theirs.trim_end_matches('\n'))),
    }
}

/// The user's text without our part; nothing where our part is not in it.
pub fn without_ours(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(OPENING)?;
    let (_, after) = rest.split_once(CLOSING)?;
    let after = after.strip_prefix('\n').unwrap_or(after);
    Some(match before.strip_suffix("\n\n") {
        Some(before) if after.is_empty() => format!("{before}\n"),
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
    fn what_a_person_wrote_stays_around_ours() {
        let first = merged("# Mine\n", &ours("one")).unwrap();
        assert_eq!(first, format!("# Mine\n\n{}", ours("one")));
        assert_eq!(without_ours(&first).unwrap(), "# Mine\n");
        assert_eq!(without_ours(&format!("a\n{}b\n", ours("one"))).unwrap(), "a\nb\n");
        assert_eq!((without_ours("# Mine\n"), without_ours(OPENING)), (None, None));
        assert_eq!(merged(&first, &ours("one")).unwrap(), first, "twice changes nothing");
        let moved = format!("{}# After\n", first.replace("# Mine", "# Before"));
        assert_eq!(merged(&moved, &ours("two")).unwrap(), format!("# Before\n\n{}# After\n", ours("two")));
        assert_eq!(merged(&format!("{OPENING}\nopen"), &ours("x")), None);
        assert_eq!(merged(&format!("{CLOSING}\nx"), &ours("x")), None);
    }
}
