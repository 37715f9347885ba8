//! Pushes commits to a remote with the user's own credentials.
//!
//! An agent may have written to the repository's configuration where no sandbox kept it from that. So a push runs in a
//! private git directory: of the repository's configuration only the remote's URL is read, as data. Credential helpers,
//! proxies and the ssh command come from the user's and the system's configuration. No hook runs.

use std::time::Duration;

use mahabharatha_core::ids::Oid;

use super::{Call, Git, GitError, Result, config, executable, with_prefix};
use crate::interrupt;
use crate::proc::{Cmd, Exit, NETWORK_VARIABLES, base_env};

/// Time after which the remote counts as unreachable.
const PUSH_TIMEOUT: Duration = Duration::from_secs(600);
/// Transports that run no program which the URL chooses.
const TRANSPORTS: &str = "file:git:http:https:ssh";
/// Name of the remote in the private git directory.
const REMOTE: &str = "mahabharatha-ship";

const PUSH_CONFIG: [(&str, &str); 10] = [
    ("core.hooksPath", "/dev/null"),
    // Since git 2.54 hooks may also be defined in the configuration.
    ("hook.pre-push.enabled", "false"),
    ("hook.reference-transaction.enabled", "false"),
    ("core.fsmonitor", "false"),
    ("push.gpgSign", "false"),
    ("push.followTags", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.useForceIfIncludes", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// A remote of the repository, as its configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub name: String,
    /// The URLs that `git push` would push to.
    pub urls: Vec<String>,
}

/// What became of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    Done,
    UpToDate,
    /// The branch has commits that the pushed commit does not contain.
    Moved,
    /// The remote refused it, with its words.
    Refused(String),
}

impl Git {
    /// Returns the remotes of the repository with the URLs that are pushed to.
    pub fn remotes(&self) -> Result<Vec<Remote>> {
        let settings = self.settings()?;
        let urls_of = |name: &str| {
            let pushed = settings.values(&format!("remote.{name}.pushurl"));
            if pushed.is_empty() { settings.values(&format!("remote.{name}.url")) } else { pushed }
        };
        let names = settings.subsections("remote");
        let remotes = names.into_iter().map(|name| Remote { urls: urls_of(&name), name });
        Ok(remotes.filter(|remote| !remote.urls.is_empty()).collect())
    }

    /// Returns whether a branch may have this name.
    pub fn is_branch_name(&self, name: &str) -> Result<bool> {
        let full = format!("refs/heads/{name}");
        Ok(!name.starts_with('-') && self.ask(Call::new(["check-ref-format", &full]))?.is_some())
    }

    /// Sets a branch of a remote to a commit; never forces it. Must be called on a private git directory.
    pub fn push(&self, url: &str, commit: &Oid, branch: &str) -> Result<Pushed> {
        assert!(self.objects.is_some(), "a push runs in a private git directory");
        let refspec = format!("{commit}:refs/heads/{branch}");
        let call = Call::new(["push", "--porcelain", "--no-verify", "--no-force", REMOTE, &refspec]);
        let mut cmd = Cmd::new(executable()?)
            .arg(with_prefix("--git-dir=", &self.git_dir))
            .args(&call.args)
            .cwd(&self.git_dir)
            .envs(config::user_environment())
            .envs(base_env(&NETWORK_VARIABLES.map(String::from)))
            .timeout(PUSH_TIMEOUT);
        if let Some(objects) = &self.objects {
            cmd = cmd.env("GIT_OBJECT_DIRECTORY", objects);
        }
        // The URL may hold a password, so it is not an argument, which every user of the machine could see.
        let (url_key, count) = (format!("remote.{REMOTE}.url"), PUSH_CONFIG.len() + 1);
        let settings = PUSH_CONFIG.into_iter().chain([(url_key.as_str(), url)]).enumerate();
        cmd = settings.fold(cmd.env("GIT_CONFIG_COUNT", count.to_string()), |cmd, (index, (key, value))| {
            cmd.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value)
        });
        for (key, value) in [
            ("GIT_ALLOW_PROTOCOL", TRANSPORTS),
            ("GIT_ASKPASS", "false"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("LC_ALL", "C"),
            ("SSH_ASKPASS", "false"),
            ("SSH_ASKPASS_REQUIRE", "force"),
        ] {
            cmd = cmd.env(key, value);
        }
        let ended = interrupt::run(cmd).map_err(GitError::Start)?;
        let ended = ended.ok_or_else(|| GitError::Interrupted { url: shown_url(url) })?;
        if ended.timed_out {
            return Err(GitError::NoAnswer { url: shown_url(url), seconds: PUSH_TIMEOUT.as_secs() });
        }
        let output = String::from_utf8_lossy(&ended.stdout).into_owned();
        match (ended.status, outcome(&output)) {
            (Exit::Code(0), Some(('=', _))) => Ok(Pushed::UpToDate),
            (Exit::Code(0), Some((' ' | '*', _))) => Ok(Pushed::Done),
            (Exit::Code(1), Some(('!', summary))) if is_moved(summary) => Ok(Pushed::Moved),
            (Exit::Code(1), Some(('!', summary))) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                Ok(Pushed::Refused(format!("{}\n{summary}", said.trim()).trim().to_owned()))
            }
            (Exit::Code(0), _) => Err(call.unexpected(&output)),
            (status, _) => Err(GitError::failed(&call.args, status, &ended.stderr)),
        }
    }
}

/// Returns flag and summary of the line `<flag>\t<from>:<to>\t<summary>`.
fn outcome(output: &str) -> Option<(char, &str)> {
    output.lines().find_map(|line| {
        let mut parts = line.splitn(3, '\t');
        let (flag, refs, summary) = (parts.next()?, parts.next()?, parts.next()?);
        (flag.len() == 1 && refs.contains(":refs/heads/")).then(|| flag.chars().next().map(|flag| (flag, summary)))?
    })
}

fn is_moved(summary: &str) -> bool {
    ["fetch first", "non-fast-forward", "needs force"].iter().any(|why| summary.contains(why))
}

/// Returns the transport that a URL names and that would run a program of its choice, such as `ext` in `ext::sh -c …`.
pub fn running_transport(url: &str) -> Option<&str> {
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let by_helper = url.split_once("::").map(|(word, _)| word).filter(|word| is_word(word));
    by_helper.or_else(|| {
        let (word, _) = url.split_once("://").filter(|(word, _)| is_word(word))?;
        (!TRANSPORTS.split(':').any(|known| known == word)).then_some(word)
    })
}

/// Returns the URL without user name and password.
pub fn shown_url(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host_end = rest.find('/').unwrap_or(rest.len());
            let from = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[from..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_runs_a_program_is_recognised() {
        for url in ["https://github.com/o/r", "git@github.com:o/r.git", "/srv/r.git", "file:///r", "ssh://h/r", "../r"]
        {
            assert_eq!(running_transport(url), None, "{url}");
        }
        for (url, transport) in
            [("ext::sh -c x", "ext"), ("fd::3", "fd"), ("foo://h/r", "foo"), ("hg::https://h", "hg")]
        {
            assert_eq!(running_transport(url), Some(transport), "{url}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        assert_eq!(shown_url("https://me:secret@host/o/r@2"), "https://host/o/r@2");
        assert_eq!(shown_url("https://host/o/r"), "https://host/o/r");
        assert_eq!(shown_url("git@host:o/r"), "git@host:o/r");
    }

    #[test]
    fn the_outcome_of_a_push_is_read() {
        let line = "To /r\n!\tabc:refs/heads/x\t[rejected] (fetch first)\nDone\n";
        assert_eq!(outcome(line), Some(('!', "[rejected] (fetch first)")));
        assert!(is_moved("[rejected] (fetch first)") && !is_moved("[remote rejected] (hook declined)"));
        assert_eq!(outcome("To /r\n \tabc:refs/heads/x\ta..b\nDone\n"), Some((' ', "a..b")));
        assert_eq!(outcome("Done\n"), None);
    }
}
