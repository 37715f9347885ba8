//! Reads git configuration: the user's settings, which are read once before any agent starts, and single files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::objects::escaped;
use super::{Call, Git, GitError, Result, executable};
use crate::bounded;
use crate::proc::{Cmd, Exit, base_env};

/// Settings that affect what is checked out or committed; their values at the start of a run apply to all of it.
const PINNED_KEYS: [&str; 7] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
    "extensions.objectformat",
];

/// Repository extensions that we support, or that do not matter for our private git directory.
const KNOWN_EXTENSIONS: [&str; 5] = ["objectformat", "worktreeconfig", "noop", "preciousobjects", "relativeworktrees"];

/// Keys that git does not know: the hooks path, and the contents of the ignore and attribute files.
const HOOKS_PATH: &str = "mahabharatha.hookspath";
pub(super) const EXCLUDES_FILE: &str = "mahabharatha.excludesfile";
pub(super) const INFO_EXCLUDE: &str = "mahabharatha.infoexclude";
pub(super) const ATTRIBUTES_FILE: &str = "mahabharatha.attributesfile";
pub(super) const INFO_ATTRIBUTES: &str = "mahabharatha.infoattributes";
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The only user settings that apply in `Git::objects`: filters, line endings, modes, object format, ignore and
/// attribute files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pinned(pub Vec<(String, String)>);

/// Author and committer of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

impl Identity {
    /// Returns the identity as a part of a configuration file.
    pub fn settings(&self) -> String {
        format!("[user]\n\tname = \"{}\"\n\temail = \"{}\"\n", escaped(&self.name), escaped(&self.email))
    }
}

impl Default for Identity {
    fn default() -> Self {
        Identity { name: "mahabharatha".into(), email: "mahabharatha@localhost".into() }
    }
}

impl Pinned {
    /// Returns the configured hooks directory, if it is not git's default.
    pub fn hooks_path(&self) -> Option<&str> {
        self.get(HOOKS_PATH)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Returns the environment variables that tell git where the user's configuration is.
pub(super) fn user_environment() -> BTreeMap<OsString, OsString> {
    base_env(&["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"].map(String::from))
}

/// All settings in effect for a repository, including the user's and the system's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    git_dir: PathBuf,
    /// A key may occur more than once; the last one wins.
    all: Vec<(String, String)>,
}

impl Settings {
    fn get(&self, key: &str) -> Option<&str> {
        self.all.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a key, in order.
    pub(super) fn values(&self, key: &str) -> Vec<String> {
        self.all.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }

    /// Returns the names in `<section>.<name>.<key>`, each once.
    pub(super) fn subsections(&self, section: &str) -> BTreeSet<String> {
        let below = self.all.iter().filter_map(|(key, _)| key.strip_prefix(section)?.strip_prefix('.'));
        below.filter_map(|rest| rest.rsplit_once('.')).map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the settings that must not change during a run. Fails if the repository uses an unsupported extension.
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
            if let Some(text) = path.map(|path| read_text(&path)).transpose()?.flatten() {
                pinned.push((key.into(), text));
            }
        }
        Ok(Pinned(pinned))
    }

    /// Returns the user's identity from environment or configuration, with defaults for what is missing.
    pub fn identity(&self) -> Identity {
        let unknown = Identity::default();
        Identity { name: self.name().unwrap_or(unknown.name), email: self.email().unwrap_or(unknown.email) }
    }

    /// Returns the user's identity only if both name and email are set.
    pub fn known_identity(&self) -> Option<Identity> {
        Some(Identity { name: self.name()?, email: self.email()? })
    }

    /// Returns the user's `init.defaultBranch`.
    pub fn default_branch(&self) -> Option<&str> {
        self.get("init.defaultbranch").filter(|branch| !branch.is_empty())
    }

    /// Returns the settings of a sparse checkout; none if the checkout is not sparse.
    pub(super) fn sparse_checkout(&self) -> Vec<(String, String)> {
        let is_set = |key| self.get(key).is_some_and(|value| matches!(value, "true" | "yes" | "on" | "1"));
        if !is_set("core.sparsecheckout") {
            return Vec::new();
        }
        let cone = is_set("core.sparsecheckoutcone");
        let settings =
            [("core.sparseCheckout", "true"), ("core.sparseCheckoutCone", if cone { "true" } else { "false" })];
        settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn name(&self) -> Option<String> {
        self.variable_or_setting("GIT_AUTHOR_NAME", "user.name")
    }

    fn email(&self) -> Option<String> {
        self.variable_or_setting("GIT_AUTHOR_EMAIL", "user.email")
    }

    fn variable_or_setting(&self, variable: &str, key: &str) -> Option<String> {
        let value = std::env::var(variable).ok().or_else(|| self.get(key).map(str::to_owned));
        value.map(|text| clean(&text)).filter(|text| !text.is_empty())
    }
}

/// Returns the user's settings for a directory outside any repository.
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

    /// Returns the names of the filter drivers that the repository's own configuration defines.
    pub fn own_filters(&self) -> Result<Vec<String>> {
        let reader = Git { user_config: true, ..self.clone() };
        let output = reader.call(Call::new(["config", "--list", "--show-scope", "-z", "--includes"]))?;
        let parts: Vec<&[u8]> = output.parts().collect();
        let own = parts.chunks_exact(2).filter(|pair| matches!(pair[0], b"local" | b"worktree"));
        let names = own.filter_map(|pair| {
            let (key, _) = split_setting(pair[1]);
            Some(key.strip_prefix("filter.")?.rsplit_once('.')?.0.to_owned())
        });
        Ok(names.collect::<BTreeSet<String>>().into_iter().collect())
    }

    /// Returns the settings in one file, without following includes. None of them takes effect.
    pub fn read_config_file(&self, path: &Path) -> Result<Vec<(String, String)>> {
        let args = [OsStr::new("config"), "--file".as_ref(), path.as_os_str()];
        let options = ["--no-includes", "--list", "-z"].map(OsStr::new);
        let output = self.call(Call::new(args.into_iter().chain(options)))?;
        Ok(output.parts().map(split_setting).collect())
    }

    /// Sets a key in this file to exactly these values.
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

/// Removes the characters that end a name or an address in a commit.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect::<String>().trim().to_owned()
}

pub(super) fn split_setting(part: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(part);
    // A key without a value means true.
    let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
    (key.to_owned(), value.to_owned())
}

fn check_extension(name: &str, value: &str) -> Result<()> {
    let known = KNOWN_EXTENSIONS.contains(&name) || (name == "refstorage" && value == "files");
    if known {
        return Ok(());
    }
    Err(GitError::Unsupported(match name {
        "refstorage" if value == "reftable" => super::refs::REFTABLE.into(),
        "partialclone" => "it is a partial clone, and missing objects cannot be fetched during a task; fetch them all \
                           and remove the filter (`git fetch --refetch --no-filter`, \
                           `git config --unset extensions.partialClone`)"
            .into(),
        _ => format!("it uses the unknown extension extensions.{name} = {value}"),
    }))
}

/// Returns the file that git would read: the configured one, else the default in the user's configuration directory.
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

/// Returns the text of a file that git would read; `None` if there is none, or nothing in it.
fn read_text(path: &Path) -> Result<Option<String>> {
    match bounded::read(path, MAX_FILE_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.trim().is_empty())),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            Err(GitError::Unsupported(format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display())))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(GitError::file("cannot read", path, error)),
        Err(_) => Ok(None),
    }
}
