//! `--only`, `--without` and `--minimal`: choose the groups of files that `init` and `install` write.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use mahabharatha_engine::claude::groups::{Group, Selection};

/// The choice of groups. Each command has a `--minimal` of its own.
#[derive(Debug, Args)]
pub struct GroupArgs {
    /// Only these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parser(), conflicts_with_all = ["without", "minimal"])]
    only: Vec<Group>,
    /// All groups except these
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parser(), conflicts_with = "minimal")]
    without: Vec<Group>,
}

fn parser() -> impl TypedValueParser<Value = Group> {
    let words: Vec<&'static str> = Group::INIT.iter().map(|group| group.word()).collect();
    PossibleValuesParser::new(words).try_map(|word| Group::parse(&word).ok_or("not a group"))
}

impl GroupArgs {
    /// Returns the chosen groups; by default all, with the status line only if requested.
    pub fn selection(&self, status_line: bool) -> Selection {
        chosen(&self.only, &self.without, status_line)
    }

    /// Returns the groups to remove; by default all, including the status line.
    pub fn removal(&self) -> Selection {
        chosen(&self.only, &self.without, self.only.is_empty())
    }

    pub fn is_given(&self) -> bool {
        !self.only.is_empty() || !self.without.is_empty()
    }

    /// Returns the first group given that is not among these.
    pub fn other_than(&self, groups: &[Group]) -> Option<Group> {
        self.only.iter().chain(&self.without).copied().find(|group| !groups.contains(group))
    }
}

fn chosen(only: &[Group], without: &[Group], status_line: bool) -> Selection {
    let usual = if status_line { Selection::all() } else { Selection::usual() };
    let wanted = |group: &Group| match only {
        [] => usual.has(*group) && !without.contains(group),
        only => only.contains(group) || status_line && *group == Group::StatusLine,
    };
    Selection::new(Group::INIT.into_iter().filter(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_chosen_groups_are_removed() {
        let removal =
            |only: &[Group], without: &[Group]| GroupArgs { only: only.to_vec(), without: without.to_vec() }.removal();
        assert_eq!(removal(&[], &[]), Selection::all());
        assert_eq!(removal(&[Group::Hooks], &[]), Selection::new([Group::Hooks]));
        assert!(!removal(&[], &[Group::StatusLine]).has(Group::StatusLine));
    }

    #[test]
    fn flags_choose_the_groups() {
        let of = |only: &[Group], without: &[Group], status_line| chosen(only, without, status_line);
        assert_eq!(of(&[], &[], true), Selection::all());
        assert!(!of(&[], &[], false).has(Group::StatusLine) && of(&[], &[], false).has(Group::Rules));
        assert!(!of(&[], &[Group::Rules], false).has(Group::Rules));
        assert_eq!(of(&[Group::Rules], &[], false), Selection::new([Group::Rules]));
        assert_eq!(of(&[Group::Rules], &[], true), Selection::new([Group::Rules, Group::StatusLine]));
        assert_eq!(of(&[Group::StatusLine], &[], false), Selection::new([Group::StatusLine]));
    }
}
