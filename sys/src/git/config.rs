//! What counts of the user's configuration, read once before anything is launched.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Call, Git, GitError, Result, executable};
use crate::proc::{Cmd, Exit, base_env};

/// Settings that change what is checked out or committed; those in effect at the start stay in effect.
const PINNED_KEYS: [&str; 7] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
    "extensions.objectformat",
];

/// Understood, or of no consequence for a git directory of ours.
const KNOWN_EXTENSIONS: [&str; 5] = ["objectformat", "worktreeconfig", "noop", "preciousobjects", "relativeworktrees"];

/// Not settings of ours, but known: files by their text, and where hooks are, under keys that git does not know.
const HOOKS_PATH: &str = "mahabharatha.hookspath";
pub(super) const EXCLUDES_FILE: &str = "mahabharatha.excludesfile";
pub(super) const INFO_EXCLUDE: &str = "mahabharatha.infoexclude";
pub(super) const ATTRIBUTES_FILE: &str = "mahabharatha.attributesfile";
pub(super) const INFO_ATTRIBUTES: &str = "mahabharatha.infoattributes";
const MAX_FILE: u64 = 1 << 20;

/// What `Git::objects` lets count: filters, line ends, modes, object format, ignore and attribute files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pinned(pub Vec<(String, String)>);

/// Who a commit is by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

impl Default for Identity {
    fn default() -> Self {
        Identity { name: "mahabharatha".into(), email: "mahabharatha@localhost".into() }
    }
}

impl Pinned {
    /// Where the user's hooks are, if not where git has them.
    pub fn hooks_path(&self) -> Option<&str> {
        self.get(HOOKS_PATH)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Where the user says that their configuration is.
pub(super) fn user_environment() -> BTreeMap<OsString, OsString> {
    base_env(&["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"].map(String::from))
}

/// Everything that is configured for a repository, the user's and the system's included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    git_dir: PathBuf,
    /// A key may occur more than once; the last counts.
    all: Vec<(String, String)>,
}

impl Settings {
    fn get(&self, key: &str) -> Option<&str> {
        self.all.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// What must stay as it is now for the whole run. An error for a repository that we cannot read on our own.
    pub fn pinned(&self) -> Result<Pinned> {
        let mut pinned = Vec::new();
        for (key, value) in &self.all {
            if let Some(extension) = key.strip_prefix("extensions.") {
                check_extension(extension, value)?;
            }
            if PINNED_KEYS.contains(&key.as_str()) || key.starts_with("filter.") || key.starts_with("lfs.") {
                pinned.push((key.clone(), value.clone()));
            }
        }
        if self.get("lfs.storage").is_none() {
            pinned.push(("lfs.storage".into(), self.git_dir.join("lfs").to_string_lossy().into_owned()));
        }
        pinned.extend(self.get("core.hookspath").map(|path| (HOOKS_PATH.to_owned(), path.to_owned())));
        for (key, path) in [
            (EXCLUDES_FILE, user_file(self.get("core.excludesfile"), "ignore")),
            (ATTRIBUTES_FILE, user_file(self.get("core.attributesfile"), "attributes")),
            (INFO_EXCLUDE, Some(self.git_dir.join("info/exclude"))),
            (INFO_ATTRIBUTES, Some(self.git_dir.join("info/attributes"))),
        ] {
            if let Some(text) = path.map(|path| read_bounded(&path)).transpose()?.flatten() {
                pinned.push((key.into(), text));
            }
        }
        Ok(Pinned(pinned))
    }

    /// Who the user is, by environment or configuration.
    pub fn identity(&self) -> Identity {
        let unknown = Identity::default();
        Identity { name: self.name().unwrap_or(unknown.name), email: self.email().unwrap_or(unknown.email) }
    }

    /// As `identity`, where the user has said both.
    pub fn known_identity(&self) -> Option<Identity> {
        Some(Identity { name: self.name()?, email: self.email()? })
    }

    /// What the user calls the first branch of a repository.
    pub fn default_branch(&self) -> Option<&str> {
        self.get("init.defaultbranch").filter(|branch| !branch.is_empty())
    }

    fn name(&self) -> Option<String> {
        self.said("GIT_AUTHOR_NAME", "user.name")
    }

    fn email(&self) -> Option<String> {
        self.said("GIT_AUTHOR_EMAIL", "user.email")
    }

    fn said(&self, variable: &str, key: &str) -> Option<String> {
        let said = std::env::var(variable).ok().or_else(|| self.get(key).map(str::to_owned));
        said.map(|text| clean(&text)).filter(|text| !text.is_empty())
    }
}

/// What the user has configured for a directory that is in no repository.
pub fn user_settings(dir: &Path) -> Result<Settings> {
    let call = Call::new(["config", "--list", "-z", "--includes"]);
    let cmd = Cmd::new(executable()?).args(&call.args).cwd(dir).envs(user_environment()).env("LC_ALL", "C");
    let output = call.finish(cmd.run())?;
    Ok(Settings { git_dir: dir.to_owned(), all: output.parts().map(split_setting).collect() })
}

impl Git {
    pub fn settings(&self) -> Result<Settings> {
        let reader = Git { user_config: true, ..self.clone() };
        let output = reader.call(Call::new(["config", "--list", "-z", "--includes"]))?;
        Ok(Settings { git_dir: self.git_dir.clone(), all: output.parts().map(split_setting).collect() })
    }

    /// What one file says, without what it includes. Nothing in it takes effect.
    pub fn read_config_file(&self, path: &Path) -> Result<Vec<(String, String)>> {
        let args = [OsStr::new("config"), "--file".as_ref(), path.as_os_str()];
        let options = ["--no-includes", "--list", "-z"].map(OsStr::new);
        let output = self.call(Call::new(args.into_iter().chain(options)))?;
        Ok(output.parts().map(split_setting).collect())
    }

    /// Makes a key in this file have exactly these values.
    pub fn set_config_file(&self, path: &Path, key: &str, values: &[String]) -> Result<()> {
        let file = [OsStr::new("config"), "--file".as_ref(), path.as_os_str()];
        let unset = Call::new(file.into_iter().chain(["--unset-all", key].map(OsStr::new)));
        match self.call(unset) {
            Err(GitError::Failed { status: Exit::Code(5), .. }) => {}
            other => drop(other?),
        }
        for value in values {
            self.call(Call::new(file.into_iter().chain(["--add", key, value].map(OsStr::new))))?;
        }
        Ok(())
    }
}

/// Names and addresses end at these characters in a commit.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect::<String>().trim().to_owned()
}

pub(super) fn split_setting(part: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(part);
    // A key without a value is a truth.
    let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
    (key.to_owned(), value.to_owned())
}

fn check_extension(name: &str, value: &str) -> Result<()> {
    let known = KNOWN_EXTENSIONS.contains(&name) || (name == "refstorage" && value == "files");
    if known {
        return Ok(());
    }
    Err(GitError::Unsupported(match name {
        "partialclone" => "it is a partial clone, whose missing objects would have to be fetched in the middle of a \
                           task; fetch them all and remove the filter (`git fetch --refetch --no-filter`, \
                           `git config --unset extensions.partialClone`)"
            .into(),
        _ => format!("its configuration has the unknown extension extensions.{name} = {value}"),
    }))
}

/// The file that git would read: as configured, else in the user's configuration directory.
fn user_file(configured: Option<&str>, default_name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match configured {
        Some("") => None,
        Some(path) => match (path.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        },
        None => {
            let config = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
            config.or_else(|| home.map(|home| home.join(".config"))).map(|dir| dir.join("git").join(default_name))
        }
    }
}

fn read_bounded(path: &Path) -> Result<Option<String>> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > MAX_FILE => {
            Err(GitError::Unsupported(format!("{} is larger than {MAX_FILE} bytes", path.display())))
        }
        Ok(found) if found.is_file() => {
            let bytes = std::fs::read(path).map_err(|error| GitError::file("cannot read", path, error))?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.trim().is_empty()))
        }
        _ => Ok(None),
    }
}
