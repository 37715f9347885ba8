//! The call of an agent: its command line and environment, with placeholders filled in, and the files of its private home.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{AgentConfig, Format, Isolation};
use mahabharatha_core::spec::Effort;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::proc::{Cmd, Feed};
use mahabharatha_sys::sandbox::Sandbox;

use super::super::check::login_name;
use super::super::format;
use super::super::login::Logins;
use super::rules::Rules;

const PROMPT: &str = "{prompt}";
const PROMPT_FILE: &str = "{prompt_file}";
const RULES: &str = "{rules}";

/// One call of an agent.
pub struct Call<'a> {
    pub profile: &'a AgentConfig,
    /// Arguments after the program's own, with placeholders.
    pub args: &'a [String],
    pub model: Option<&'a str>,
    pub effort: Option<Effort>,
    /// The main checkout.
    pub root: &'a Path,
    /// Directory for files of this call.
    pub dir: &'a Path,
    pub prompt: &'a str,
    pub rules: &'a Rules,
}

/// A command that is ready to run, and what it was lent.
pub struct Called {
    pub cmd: Cmd,
    /// Variables that the profile sets. They override those of the user.
    pub set: BTreeMap<OsString, OsString>,
    pub feed: Feed,
    pub logins: Logins,
}

impl Call<'_> {
    /// Builds the command, and prepares the agent's private home: below the sandbox's, or below `dir` without a sandbox.
    pub fn prepare(&self, sandbox: &mut Sandbox) -> Result<Called> {
        let Call { profile, prompt, .. } = self;
        if let Some(model) = self.model.filter(|model| model.starts_with('-')) {
            return Err(Error::new(Kind::Invalid, format!("{model:?} is no name of a model"))
                .hint("A model's name cannot begin with a dash."));
        }
        let (home, host_home) = homes(sandbox, self.dir);
        let logins = Logins::lend(sandbox, profile, &host_home)?;
        let mut values = BTreeMap::from([
            ("{home}", home.display().to_string()),
            ("{worktree}", sandbox.workdir().display().to_string()),
        ]);
        for (name, text) in profile.files.iter().chain(&self.rules.files) {
            write_private(&host_home.join(name), &filled(text, &values))?;
        }
        values.extend(self.model.map(|model| ("{model}", model.to_owned())));
        values.extend(self.effort.map(|effort| ("{effort}", effort.as_str().to_owned())));
        values.extend(login_name(profile).map(|name| ("{login}", name)));
        let uses = |placeholder: &str| self.args.iter().any(|word| word.contains(placeholder));
        if uses(PROMPT_FILE) {
            write_private(&host_home.join("prompt.md"), prompt)?;
            values.insert(PROMPT_FILE, home.join("prompt.md").display().to_string());
        }
        if uses(PROMPT) {
            values.insert(PROMPT, (*prompt).to_owned());
        }
        let feed = Feed::default();
        if profile.format == Format::Acp {
            feed.give(format::begin());
        } else {
            if !uses(PROMPT) && !uses(PROMPT_FILE) {
                feed.give(*prompt);
            }
            feed.close();
        }
        let (program, first) = profile.command.split_first().ok_or_else(|| {
            Error::new(Kind::Invalid, "the agent has no command")
                .hint("Set its `command` in .mahabharatha/config.yaml.")
        })?;
        let cmd = super::super::program(sandbox, self.root, program, first)?;
        let rules: Vec<String> = self.rules.args.iter().map(|word| filled(word, &values)).collect();
        let cmd = cmd.args(words(self.args, &values, &rules)).stdin_from(feed.clone());
        let set = profile.set.iter().chain(&self.rules.set);
        let set = set.filter_map(|(name, value)| Some((name.into(), fill(value, &values)?.into()))).collect();
        Ok(Called { cmd, set, feed, logins })
    }

    /// Returns the model that the agent is asked for by its protocol, because its command line has no place for one.
    pub fn model_by_protocol(&self) -> Option<String> {
        self.model.filter(|_| !self.profile.has_place_for("{model}")).map(str::to_owned)
    }
}

/// Returns the agent's private home as it sees it and as we do.
fn homes(sandbox: &Sandbox, dir: &Path) -> (PathBuf, PathBuf) {
    match sandbox.isolation() {
        Isolation::Off => (dir.join("home"), dir.join("home")),
        _ => (sandbox.home(), sandbox.private_home()),
    }
}

/// Writes a file that only the user can read.
fn write_private(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io("create", parent))?;
    }
    mahabharatha_sys::store::atomic::write_with_permissions(
        path,
        text.as_bytes(),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
}

/// Fills in the arguments. A word with a value that is not set is left out, together with an option before it that takes
/// this word (`-m {model}`).
fn words(args: &[String], values: &BTreeMap<&str, String>, rules: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in args {
        if word == RULES {
            words.extend_from_slice(rules);
        } else if let Some(word) = fill(word, values) {
            words.push(word);
        } else if words.last().is_some_and(|option| option.starts_with('-') && !option.contains('=')) {
            words.pop();
        }
    }
    words
}

/// Fills in a text; none if a value in it is not set.
fn fill(text: &str, values: &BTreeMap<&str, String>) -> Option<String> {
    let known = ["{model}", "{effort}", "{login}"];
    let is_unset = known.iter().any(|name| text.contains(name) && !values.contains_key(name));
    (!is_unset).then(|| filled(text, values))
}

/// Replaces each placeholder once, so that a value is never searched for placeholders.
fn filled(text: &str, values: &BTreeMap<&str, String>) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        done.push_str(before);
        match values.iter().find(|(name, _)| from.starts_with(**name)) {
            Some((name, value)) => {
                done.push_str(value);
                rest = &from[name.len()..];
            }
            None => {
                done.push('{');
                rest = &from[1..];
            }
        }
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_once() {
        let values = BTreeMap::from([("{home}", "/h{model}".to_owned()), ("{model}", "m".to_owned())]);
        assert_eq!(filled(r#"{"a": "{home}/x{model}", "b": {}}"#, &values), r#"{"a": "/h{model}/xm", "b": {}}"#);
    }

    #[test]
    fn an_option_without_its_value_is_left_out() {
        let args = ["run", "-m", "{model}", "--effort={effort}", "{rules}", "-"].map(str::to_owned);
        let rules = ["-c".to_owned(), "x=1".to_owned()];
        assert_eq!(words(&args, &BTreeMap::new(), &rules), ["run", "-c", "x=1", "-"]);
        let values = BTreeMap::from([("{model}", "gpt".to_owned())]);
        assert_eq!(words(&args, &values, &[]), ["run", "-m", "gpt", "-"]);
    }
}
