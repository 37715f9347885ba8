//! The only module that calls `gh`, the GitHub CLI, with the user's own login.
//!
//! Called by `engine/ship`, and by `plan --issue`. Must never see or keep the user's token: `gh` has it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::interrupt;
use crate::proc::{self, Cmd, Exit, NETWORK_VARIABLES, bounded_text, find_program};

/// Variable that names the repository.
const REPOSITORY: &str = "GH_REPO";
const GH_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum output of a call. Larger output is an error, never silently cut.
const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// Bytes of an error message that are shown, from its beginning and its end.
const SHOWN_MESSAGE: (usize, usize) = (1000, 1000);

/// The user's `gh`.
#[derive(Debug, Clone)]
pub struct Gh {
    program: PathBuf,
    dir: PathBuf,
}

impl Gh {
    /// Finds `gh` on PATH, to be called in a directory. In a repository it runs git with the repository's configuration.
    pub fn find(dir: impl Into<PathBuf>) -> Result<Gh> {
        let program = find_program("gh")
            .ok_or_else(|| Error::new(Kind::Preflight, "gh, the GitHub CLI, was not found on PATH"))?;
        Ok(Gh { program, dir: dir.into() })
    }

    /// Finds `gh` to be called outside of any repository: it learns of this one only what its arguments say.
    pub fn outside() -> Result<Gh> {
        Gh::find(Path::new("/"))
    }

    /// Calls `gh` and returns what it printed; fails with its message.
    pub fn call(&self, args: &[&str], input: Option<&str>) -> Result<String> {
        let name = args.iter().take_while(|arg| !arg.starts_with('-')).take(2).copied().collect::<Vec<_>>().join(" ");
        let pass: Vec<String> = NETWORK_VARIABLES.iter().chain([&REPOSITORY]).map(|name| (*name).to_owned()).collect();
        let cmd = Cmd::new(&self.program).args(args).cwd(&self.dir).envs(proc::base_env(&pass));
        let cmd = cmd.env("GH_PROMPT_DISABLED", "1").env("NO_COLOR", "1");
        let cmd = cmd.stdin(input.unwrap_or_default()).timeout(GH_TIMEOUT).keep(MAX_OUTPUT_BYTES, 0);
        let ended = interrupt::run(cmd).map_err(Error::caused(format_args!("cannot run gh {name}")))?;
        let ended = ended.ok_or_else(|| Error::new(Kind::Stopped, format!("gh {name} was interrupted")))?;
        if ended.timed_out || ended.status != Exit::Code(0) {
            let how = if ended.timed_out { "no answer in time".to_owned() } else { ended.status.to_string() };
            let said = bounded_text(&ended.stderr, SHOWN_MESSAGE);
            let error = Error::new(Kind::Failed, format!("gh {name} failed: {how}"));
            let error = said.trim().lines().fold(error, |error, line| error.detail(line));
            return Err(error.hint("Check that `gh auth status` works here; log in with `gh auth login`."));
        }
        if ended.truncated {
            return Err(Error::new(Kind::Failed, format!("gh {name} printed more than {} MB", MAX_OUTPUT_BYTES >> 20)));
        }
        String::from_utf8(ended.stdout)
            .map_err(|_| Error::new(Kind::Failed, format!("gh {name} printed something that is not UTF-8")))
    }
}

/// Returns the repository that `gh` takes from the environment instead of from a remote.
pub fn repository_from_environment() -> Option<String> {
    std::env::var(REPOSITORY).ok().filter(|name| !name.trim().is_empty())
}

/// Returns `HOST/OWNER/NAME` of a remote's URL, as `gh --repo` takes it.
pub fn repository_of(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("https" | "http" | "ssh" | "git", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            (host.split(':').next()?, path)
        }
        Some(_) => return None,
        None => {
            let (host, path) = url.split_once(':')?;
            (host.rsplit_once('@').map_or(host, |(_, host)| host), path)
        }
    };
    let path = path.trim_matches('/');
    let (owner, name) = path.strip_suffix(".git").unwrap_or(path).split_once('/')?;
    let is_plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    [host, owner, name].into_iter().all(is_plain).then(|| format!("{host}/{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_its_url() {
        for url in [
            "https://github.com/o/r.git",
            "https://me:token@github.com/o/r",
            "git@github.com:o/r.git",
            "ssh://git@github.com:22/o/r.git",
        ] {
            assert_eq!(repository_of(url).as_deref(), Some("github.com/o/r"), "{url}");
        }
        for url in
            ["/srv/git/r.git", "../r", "file:///srv/o/r", "https://gitlab.com/a/b/c", "ext::sh x/y", "git@h:-o/r"]
        {
            assert_eq!(repository_of(url), None, "{url}");
        }
    }
}
