//! Filters of the user's git, such as those that clean notebooks. They run on files that agents wrote, and may find code
//! beside them (`python3 -m …`, `./tools/clean.sh`), so they run in a sandbox.

use super::Pinned;
use crate::proc::shell_word;

/// The keys of a filter that hold a command.
const COMMANDS: [&str; 3] = ["clean", "smudge", "process"];

impl Pinned {
    /// Tells whether the user has filters that run code which an agent could have written.
    pub fn has_filters(&self) -> bool {
        self.0.iter().any(|(key, value)| is_filter(key, value))
    }

    /// Returns the same settings with filters that are started by this program and its arguments, which get the filter's
    /// command after `--`, and the name of the file.
    pub fn with_filters_through(self, launcher: &[String]) -> Pinned {
        let launcher = launcher.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        let confined = |(key, value): (String, String)| {
            let value = if is_filter(&key, &value) { confined(&launcher, &key, &value) } else { value };
            (key, value)
        };
        Pinned(self.0.into_iter().map(confined).collect())
    }
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
}
