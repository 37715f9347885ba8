//! Filters of the user's git, such as those that clean notebooks. They run on files that agents wrote, and may find code
//! beside them (`python3 -m …`, `./tools/clean.sh`), so they run in a sandbox.

use std::collections::BTreeSet;

use super::Pinned;
use crate::proc::shell_word;

/// The keys of a filter that hold a command.
const COMMANDS: [&str; 3] = ["clean", "smudge", "process"];
/// A filter that changes nothing.
const NO_CHANGE: &str = "cat";

impl Pinned {
    /// Tells whether the user has filters that run code which an agent could have written.
    pub fn has_filters(&self) -> bool {
        self.0.iter().any(|(key, value)| is_filter(key, value))
    }

    /// Returns the same settings with filters that are started by this program and its arguments, which get the filter's
    /// command after `--`, and the name of the file. Git fails if one of them does: it would otherwise take a file as it
    /// is if, for example, the filter's program cannot be seen where it is started.
    pub fn with_filters_through(self, launcher: &[String]) -> Pinned {
        let required = self.required_settings();
        let launcher = launcher.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        let confined = |(key, value): (String, String)| {
            let value = if is_filter(&key, &value) { confined(&launcher, &key, &value) } else { value };
            (key, value)
        };
        Pinned(self.0.into_iter().map(confined).chain(required).collect())
    }

    /// Returns the settings that make git fail if a filter fails. Git then also fails if a filter has no command for a
    /// direction, so that such a direction gets one that changes nothing.
    fn required_settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        for driver in self.0.iter().filter(|(key, value)| is_filter(key, value)).filter_map(|(key, _)| driver(key)) {
            let key = |name: &str| format!("filter.{driver}.{name}");
            let commands = match self.get(&key("process")) {
                Some(_) => vec!["process"],
                None => vec!["clean", "smudge"],
            };
            let command = |name: &str| self.get(&key(name)).unwrap_or_default();
            // Git runs no command of the others, or one that is not confined.
            if !commands.iter().any(|name| is_filter(&key(name), command(name))) {
                continue;
            }
            let missing = commands.into_iter().filter(|name| command(name).is_empty());
            settings.extend(missing.map(|name| (key(name), NO_CHANGE.to_owned())));
            settings.push((key("required"), "true".to_owned()));
        }
        settings.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Returns the name of the filter that has this key.
fn driver(key: &str) -> Option<&str> {
    key.strip_prefix("filter.")?.rsplit_once('.').map(|(driver, _)| driver)
}

/// Whether this setting is a filter's command. Those of Git LFS run as they are: they load no code, and need the user's
/// login to fetch files.
fn is_filter(key: &str, value: &str) -> bool {
    let is_command = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'));
    let is_lfs = value.starts_with("git-lfs ") && !value.contains(|c: char| "`$&|;<>()\\\n".contains(c));
    is_command.is_some_and(|(_, name)| COMMANDS.contains(&name)) && !value.trim().is_empty() && !is_lfs
}

/// Returns the command through the launcher, which gets it as a word after `--`, and the name of the file after it.
fn confined(launcher: &str, key: &str, command: &str) -> String {
    if key.ends_with(".process") {
        return format!("{launcher} -- {}", shell_word(command));
    }
    // Git puts the file's name in place of %f, and % in place of %%.
    let mut script = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('%') {
        script += before;
        let (text, skipped) = match after.chars().next() {
            Some('f') => ("\"$1\"", 1),
            Some('%') => ("%%", 1),
            _ => ("%%", 0),
        };
        script += text;
        rest = &after[skipped..];
    }
    format!("{} -- {} %f", launcher.replace('%', "%%"), shell_word(&(script + rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filters_that_may_load_code_are_confined() {
        let settings = [
            ("core.eol", "lf"),
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.lfs.required", "true"),
            ("filter.a.smudge", ""),
            ("filter.nb.clean", "python3 -m strip 100%% '%x' %f"),
            ("filter.odd.smudge", "git-lfs smudge; ./run"),
            ("filter.odd.process", "it's 5%"),
        ];
        let pinned = Pinned(settings.map(|(key, value)| (key.into(), value.into())).into());
        assert!(pinned.has_filters() && !Pinned(pinned.0[..4].to_vec()).has_filters());
        let confined = pinned.clone().with_filters_through(&["/own".into(), "/a b".into()]);
        assert_eq!(confined.0[..4], pinned.0[..4]);
        let after = |index: usize| confined.0[index].1.strip_prefix("/own '/a b' -- ").unwrap();
        assert_eq!(after(4), r#"'python3 -m strip 100%% '\''%%x'\'' "$1"' %f"#);
        assert_eq!(after(5), "'git-lfs smudge; ./run' %f");
        assert_eq!(after(6), r"'it'\''s 5%'");
    }

    #[test]
    fn a_confined_filter_is_required_in_both_directions() {
        let added = |settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            let pinned = Pinned(settings.collect());
            let all = pinned.clone().with_filters_through(&["/own".into()]).0;
            let added: Vec<String> =
                all[pinned.0.len()..].iter().map(|(key, value)| format!("{key} {value}")).collect();
            added.join(", ")
        };
        let clean = ("filter.a.b.clean", "x");
        assert_eq!(added(&[clean]), "filter.a.b.required true, filter.a.b.smudge cat");
        assert_eq!(added(&[clean, ("filter.a.b.smudge", "y")]), "filter.a.b.required true");
        assert_eq!(added(&[("filter.a.b.smudge", ""), clean]), "filter.a.b.required true, filter.a.b.smudge cat");
        assert_eq!(added(&[("filter.a.process", "p")]), "filter.a.required true");
        // Git runs none of these commands, or only one of Git LFS, which is not confined.
        assert_eq!(added(&[clean, ("filter.a.b.clean", "")]), "");
        assert_eq!(added(&[clean, ("filter.a.b.process", "")]), "");
        assert_eq!(added(&[clean, ("filter.a.b.process", "git-lfs filter-process")]), "");
        assert_eq!(added(&[("filter.lfs.clean", "git-lfs clean -- %f")]), "");
    }
}
