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
    /// Returns the chosen groups, by default the usual ones, and those that another flag asks for.
    pub fn selection(&self, also: &[Group]) -> Selection {
        chosen(&self.only, &self.without, also)
    }

    /// Returns the groups to remove; by default all, also those on request.
    pub fn removal(&self) -> Selection {
        let also = if self.only.is_empty() { &Group::ON_REQUEST[..] } else { &[] };
        chosen(&self.only, &self.without, also)
    }

    pub fn is_given(&self) -> bool {
        !self.only.is_empty() || !self.without.is_empty()
    }

    /// Returns the first group given that is not among these.
    pub fn other_than(&self, groups: &[Group]) -> Option<Group> {
        self.only.iter().chain(&self.without).copied().find(|group| !groups.contains(group))
    }
}

fn chosen(only: &[Group], without: &[Group], also: &[Group]) -> Selection {
    let usual = Selection::usual();
    let is_chosen = |group: &Group| if only.is_empty() { usual.has(*group) } else { only.contains(group) };
    let wanted = |group: &Group| !without.contains(group) && (also.contains(group) || is_chosen(group));
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
        let of = |only: &[Group], without: &[Group], also: &[Group]| chosen(only, without, also);
        assert_eq!(of(&[], &[], &Group::ON_REQUEST), Selection::all());
        assert_eq!(of(&[], &[], &[]), Selection::usual());
        assert!(!of(&[], &[], &[Group::Mcp]).has(Group::StatusLine) && of(&[], &[], &[Group::Mcp]).has(Group::Rules));
        assert!(!of(&[], &[Group::Rules], &[]).has(Group::Rules));
        assert_eq!(of(&[Group::Rules], &[], &[]), Selection::new([Group::Rules]));
        let with_line = Selection::new([Group::Rules, Group::StatusLine]);
        assert_eq!(of(&[Group::Rules], &[], &[Group::StatusLine]), with_line);
        assert_eq!(of(&[Group::Mcp], &[], &[]), Selection::new([Group::Mcp]));
    }
}
