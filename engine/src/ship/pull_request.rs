//! Pull requests on GitHub, through the user's `gh`.

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::shown_url;
use mahabharatha_sys::github::{Gh, repository_from_environment, repository_of};
use serde::{Deserialize, Serialize};

use super::Shipment;

/// The repository on GitHub that a remote names.
pub struct GitHub {
    pub(super) gh: Gh,
    /// As `gh --repo` takes it.
    pub(super) repository: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    pub number: u64,
    pub url: String,
}

impl GitHub {
    pub(super) fn of(remote: &str, url: &str) -> Result<GitHub> {
        let gh = Gh::outside().map_err(|error| {
            error.hint("Install it and log in with `gh auth login`, or push alone with --push and open the pull request yourself.")
        })?;
        let repository = repository_from_environment().or_else(|| repository_of(url)).ok_or_else(|| {
            Error::new(Kind::Invalid, format!("{remote} is not a repository on GitHub: {}", shown_url(url)))
                .hint("Name the repository: GH_REPO=OWNER/NAME. Or push alone with --push.")
        })?;
        Ok(GitHub { gh, repository })
    }

    /// Returns the open pull request of a branch.
    pub fn find(&self, branch: &str) -> Result<Option<PullRequest>> {
        let args =
            ["pr", "list", "--repo", &self.repository, "--head", branch, "--state", "open", "--json", "number,url"];
        let found: Vec<PullRequest> = self.json(&args)?;
        Ok(found.into_iter().next())
    }

    /// Opens a pull request and returns it.
    pub fn open(&self, shipment: &Shipment, draft: bool) -> Result<PullRequest> {
        let args = create_args(&self.repository, shipment, draft);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let printed = self.gh.call(&args, Some(&shipment.body))?;
        let url = printed.lines().map(str::trim).rfind(|line| line.starts_with("https://"));
        let number = url.and_then(|url| url.rsplit_once('/')?.1.parse().ok());
        match (url, number) {
            (Some(url), Some(number)) => Ok(PullRequest { number, url: url.to_owned() }),
            _ => Err(Error::new(Kind::Failed, "gh pr create did not print the pull request's address")
                .detail(printed.trim())),
        }
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, args: &[&str]) -> Result<T> {
        let printed = self.gh.call(args, None)?;
        serde_json::from_str(&printed).map_err(|error| {
            Error::new(Kind::Failed, format!("gh {} printed unexpected output: {error}", args[..2].join(" ")))
        })
    }
}

/// Returns the arguments with which `gh` opens the pull request; the body is its input.
pub(super) fn create_args(repository: &str, shipment: &Shipment, draft: bool) -> Vec<String> {
    let Shipment { branch, base, title, .. } = shipment;
    let mut args: Vec<String> =
        ["pr", "create", "--repo", repository, "--head", branch, "--title", title].map(str::to_owned).into();
    args.extend(base.iter().flat_map(|base| ["--base".to_owned(), base.clone()]));
    args.extend(["--body-file", "-"].map(str::to_owned));
    args.extend(draft.then(|| "--draft".to_owned()));
    args
}

impl Shipment {
    /// Returns the commands that ship this, for the user to read.
    pub fn commands(&self, draft: bool) -> Vec<Vec<String>> {
        let push = ["git", "push", &self.remote, &format!("{}:refs/heads/{}", self.commit, self.branch)];
        let repository = repository_from_environment().or_else(|| repository_of(&self.url));
        let repository = repository.unwrap_or_else(|| "OWNER/NAME".to_owned());
        let open = [vec!["gh".to_owned()], create_args(&repository, self, draft)].concat();
        vec![push.map(str::to_owned).into(), open]
    }
}
