//! Fetches a copy of a remote repository, for `init`. Runs nothing that the remote could choose.

use std::path::Path;
use std::time::Duration;

use super::{Call, GitError, Result, config, executable};
use crate::proc::{Cmd, base_env};

/// Time after which the remote counts as unreachable.
const CLONE_TIMEOUT: Duration = Duration::from_secs(60);
/// Environment variables that the user's own git would use to reach the remote.
const FETCH_VARIABLES: [&str; 12] = [
    "ALL_PROXY",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Checks out the newest commit of a repository, without its history, into a directory that does not exist yet. Asks
/// for no password, runs no hook and creates no symbolic link.
pub fn shallow_clone(url: &str, into: &Path) -> Result<()> {
    let settings = [
        "core.hooksPath=/dev/null",
        "core.symlinks=false",
        "core.fsmonitor=false",
        "gc.auto=0",
        "maintenance.auto=false",
    ];
    let mut call = Call::new(settings.iter().flat_map(|setting| ["-c", setting]));
    let options = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--template=", "--", url];
    call.args.extend(["clone"].iter().chain(&options).map(Into::into));
    call.args.push(into.into());
    let cmd = Cmd::new(executable()?)
        .args(&call.args)
        .envs(config::user_environment())
        .envs(base_env(&FETCH_VARIABLES.map(String::from)))
        .timeout(CLONE_TIMEOUT);
    // Allow only protocols that fetch, and nothing that runs a program chosen by the remote.
    let safe_environment = [
        ("GIT_ALLOW_PROTOCOL", "file:git:https:ssh"),
        ("GIT_ASKPASS", "false"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("LC_ALL", "C"),
        ("SSH_ASKPASS", "false"),
        ("SSH_ASKPASS_REQUIRE", "force"),
    ];
    let ended = safe_environment.into_iter().fold(cmd, |cmd, (key, value)| cmd.env(key, value)).run();
    match ended {
        Ok(ended) if ended.timed_out => {
            Err(GitError::NoAnswer { url: url.to_owned(), seconds: CLONE_TIMEOUT.as_secs() })
        }
        ended => call.finish(ended).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::git;

    #[test]
    fn a_repository_is_copied_and_a_url_that_runs_something_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a.md"), "rules").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("link.md")).unwrap();
        let by = git::Identity::default();
        git::init(
            &from,
            &from.join(".git"),
            &git::FirstCommit { branch: "main", message: "first", by: &by, paths: None },
        )
        .unwrap();
        shallow_clone(&format!("file://{}", from.display()), &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a.md")).unwrap(), "rules");
        assert!(fs::symlink_metadata(to.join("link.md")).unwrap().is_file());

        let mark = dir.path().join("mark");
        for url in [format!("ext::touch {}", mark.display()), "--upload-pack=touch".to_owned(), "nowhere".to_owned()] {
            shallow_clone(&url, &dir.path().join("other")).unwrap_err();
        }
        assert!(!mark.exists());
    }
}
