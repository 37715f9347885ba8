//! `--only`, `--without` and `--minimal`: which groups of files `init` and `install` write.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::claude::groups::{Group, Selection};
use crate::error::{Error, ExitCode, Result};

/// The groups of `init`.
#[derive(Debug, Args)]
pub struct InitSelection {
    /// Write only these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parser(), conflicts_with_all = ["without", "minimal"])]
    only: Vec<Group>,
    /// Write everything but these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parser(), conflicts_with = "minimal")]
    without: Vec<Group>,
    /// Write only what a run needs: the group config
    #[arg(long)]
    minimal: bool,
}

/// The groups of `install`. Where it removes, also those of `init`.
#[derive(Debug, Args)]
pub struct InstallSelection {
    /// Write or remove only these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parser(), conflicts_with_all = ["without", "minimal"])]
    only: Vec<Group>,
    /// Write or remove everything but these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = parser(), conflicts_with = "minimal")]
    without: Vec<Group>,
    /// Leave settings.json alone: only the groups commands and agents
    #[arg(long)]
    minimal: bool,
}

fn parser() -> impl TypedValueParser<Value = Group> {
    let words: Vec<&'static str> = Group::INIT.iter().map(|group| group.word()).collect();
    PossibleValuesParser::new(words).try_map(|word| Group::parse(&word).ok_or("not a group"))
}

impl InitSelection {
    pub fn selection(&self, status_line: bool) -> Selection {
        match self.minimal {
            true => Selection::new([Group::Config]),
            false => chosen(&self.only, &self.without, status_line),
        }
    }
}

impl InstallSelection {
    pub fn selection(&self, status_line: bool) -> Result<Selection> {
        let of_init = |group: &&Group| !Group::INSTALL.contains(group);
        if let Some(group) = self.only.iter().chain(&self.without).find(of_init) {
            let message = format!("install does not write the group {}", group.word());
            return Err(Error::new(ExitCode::Usage, message).hint(format!(
                "`mahabharatha init --force --only {0}` writes it, `mahabharatha install --remove --only {0}` removes it.",
                group.word()
            )));
        }
        Ok(match self.minimal {
            true => Selection::new([Group::Commands, Group::Agents]),
            false => chosen(&self.only, &self.without, status_line),
        })
    }

    /// What to remove: everything, unless the user chooses.
    pub fn removal(&self) -> Selection {
        match self.minimal {
            true => Selection::new([Group::Commands, Group::Agents]),
            false => chosen(&self.only, &self.without, true),
        }
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
