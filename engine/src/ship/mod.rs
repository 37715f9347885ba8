//! `git ship`: takes the merged work of a feature, or the current branch, to a branch of a remote and a pull request.
//!
//! Called by `cli/git`. Must never force a push.

mod pull_request;
mod text;
pub mod watch;

use mahabharatha_core::ids::{Feature, Oid};
use mahabharatha_core::run::{LevelStatus, Run};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Git, GitError, Pushed, Remote, running_transport, short_branch, shown_url};
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::project::{Place, Project};
use serde::Serialize;

use crate::session::control;
use crate::session::undo::refuse_undone;

pub use pull_request::{GitHub, PullRequest};
use text::Text;

/// Most commits that are listed.
const MAX_COMMITS: usize = 500;
/// Branches below this are those of runs; a shipment never has such a name.
const OUR_BRANCHES: &str = "mahabharatha/";

/// What the user asked `git ship` for.
#[derive(Debug, Clone, Default)]
pub struct ShipOptions {
    pub remote: Option<String>,
    pub branch: Option<String>,
    pub base: Option<String>,
    /// Ship the merged levels of a feature whose other levels are not merged.
    pub partial: bool,
}

/// A commit that goes to a branch of a remote, with the text of its pull request.
#[derive(Debug)]
pub struct Shipment {
    pub feature: Option<Feature>,
    pub remote: String,
    url: String,
    pub branch: String,
    /// The branch that the pull request is for; `None` if it is not known.
    pub base: Option<String>,
    pub commit: Oid,
    pub title: String,
    pub body: String,
    /// Every commit that the base lacks, newest first.
    pub commits: Vec<ShippedCommit>,
    /// Whether the base of the remote is known here; otherwise the commits are those since the run began.
    pub knows_base: bool,
}

#[derive(Debug, Serialize)]
pub struct ShippedCommit {
    pub commit: Oid,
    pub subject: String,
    /// Whether the feature's run, or its design, made the commit.
    pub of_feature: bool,
}

impl Shipment {
    /// Ships the merged levels of a feature.
    pub fn of_feature(place: &Place, options: &ShipOptions) -> Result<Shipment> {
        let run = control::read_run(place)?;
        refuse_undone(&place.paths, &run)?;
        let commit = merged_commit(&run, options.partial)?;
        let base = options.base.clone().unwrap_or_else(|| short_branch(&run.setup().base_branch).to_owned());
        let branch = options.branch.clone().unwrap_or_else(|| format!("feat/{}", place.feature));
        if branch == base {
            return Err(Error::new(
                Kind::Usage,
                format!("{branch} is the base; a feature is shipped on a branch of its own"),
            )
            .hint("Name another one with --branch."));
        }
        let target = Target { git: place.project.git(), branch, base: Some(base), commit };
        let (remote, url) = target.remote(options.remote.as_deref())?;
        target.check_names()?;
        let (commits, knows_base) = target.commits(&remote, Some((&place.feature, &run.setup().start)))?;
        let Text { title, body } = text::of_feature(place, &run)?;
        let Target { branch, base, commit, .. } = target;
        let feature = Some(place.feature.clone());
        Ok(Shipment { feature, remote, url, branch, base, commit, title, body, commits, knows_base })
    }

    /// Fails if there has been no run of the feature, or if it was undone.
    pub fn check_run(place: &Place) -> Result<()> {
        refuse_undone(&place.paths, &control::read_run(place)?)
    }

    /// Ships the branch that is checked out.
    pub fn of_branch(project: &Project, options: &ShipOptions) -> Result<Shipment> {
        let head = project.head_branch()?;
        let commit = project.head_commit()?;
        let branch = options.branch.clone().unwrap_or_else(|| short_branch(&head).to_owned());
        let git = project.git();
        let mut target = Target { git, branch, base: options.base.clone(), commit };
        let (remote, url) = target.remote(options.remote.as_deref())?;
        target.base = target.base.or(target.git.default_branch(&remote)?);
        target.check_names()?;
        let (commits, knows_base) = target.commits(&remote, None)?;
        let Text { title, body } = text::of_commits(&commits);
        let Target { branch, base, commit, .. } = target;
        Ok(Shipment { feature: None, remote, url, branch, base, commit, title, body, commits, knows_base })
    }

    /// Returns the remote's URL without user name and password.
    pub fn shown_url(&self) -> String {
        shown_url(&self.url)
    }

    /// Returns the pull requests of the remote.
    pub fn github(&self) -> Result<GitHub> {
        GitHub::of(&self.remote, &self.url)
    }

    /// Sets the branch of the remote. Returns whether that changed it.
    pub fn push(&self, project: &Project) -> Result<bool> {
        let dir = tempfile::Builder::new().prefix("mahabharatha-ship-").tempdir();
        let dir = dir.map_err(Error::caused("cannot create a temporary directory"))?;
        let git = Git::objects(&dir.path().join("git"), project.common_dir(), &project.pinned_config()?)?;
        let Shipment { remote, branch, .. } = self;
        match git.push(&self.url, &self.commit, branch) {
            Ok(Pushed::Done) => Ok(true),
            Ok(Pushed::UpToDate) => Ok(false),
            Ok(Pushed::Moved) => Err(Error::new(
                Kind::Invalid,
                format!("{branch} on {remote} has commits that are not in what would be shipped; nothing was pushed"),
            )
            .hint(format!(
                "Look at them: git fetch {} {} && git log {}..FETCH_HEAD. Then merge them into the base \
                 branch and ship again, or ship to another branch: --branch NAME.",
                shell_word(remote),
                shell_word(branch),
                self.commit.short()
            ))),
            Ok(Pushed::Refused(said)) => {
                let error = Error::new(Kind::Failed, format!("{remote} refused the push to {branch}"));
                Err(said.lines().fold(error, Error::detail))
            }
            Err(error @ GitError::Interrupted { .. }) => Err(Error::from(error)
                .hint(format!("See whether it arrived: git ls-remote {remote} {branch}. The same command goes on."))),
            Err(error) => {
                Err(Error::from(error)
                    .hint(format!("Check that `git push {remote}` works without asking for a password.")))
            }
        }
    }
}

/// Returns the commit of the last merged level; fails if a level is not merged, or if none landed with a commit.
fn merged_commit(run: &Run, partial: bool) -> Result<Oid> {
    let feature = run.feature();
    let merged = run.levels().iter().map_while(|level| match &level.status {
        LevelStatus::Merged { commit, landed, .. } => Some((commit, *landed)),
        _ => None,
    });
    let merged: Vec<(&Oid, bool)> = merged.collect();
    // Without a landed level this is the start of the run, with commits of the user only.
    let last = merged.last().filter(|_| merged.iter().any(|(_, landed)| *landed));
    let refused = |message: String, hint: String| Err(Error::new(Kind::Invalid, message).hint(hint));
    match (last, run.levels().get(merged.len())) {
        (Some((commit, _)), None) => Ok((*commit).clone()),
        (Some((commit, _)), Some(_)) if partial => Ok((*commit).clone()),
        (Some(_), Some(level)) => refused(
            format!("level {} of {feature} is not merged", level.level),
            format!("Finish it: mahabharatha run {feature}. Or ship the merged levels alone: --partial."),
        ),
        (None, Some(_)) => refused(
            format!("no level of {feature} is merged, so there is nothing to ship"),
            format!("Run it first: mahabharatha run {feature}"),
        ),
        (None, None) => refused(
            format!("nothing of {feature} was merged, so there is nothing to ship"),
            format!("`mahabharatha status {feature}` shows what became of its tasks."),
        ),
    }
}

/// Returns whether a URL is a path that git reads from its working directory: no transport, no `host:path`, not absolute.
fn is_relative(url: &str) -> bool {
    let before_slash = url.split('/').next().unwrap_or_default();
    !url.starts_with('/') && !before_slash.contains(':')
}

/// Where a commit goes.
struct Target {
    git: Git,
    branch: String,
    base: Option<String>,
    commit: Oid,
}

impl Target {
    /// Returns name and URL of the remote: the named one, `origin`, or the only one.
    fn remote(&self, named: Option<&str>) -> Result<(String, String)> {
        let remotes = self.git.remotes()?;
        let names: Vec<&str> = remotes.iter().map(|remote| remote.name.as_str()).collect();
        let find = |name: &str| remotes.iter().find(|remote| remote.name == name);
        let remote = match (named, &remotes[..]) {
            (Some(name), _) => find(name).ok_or_else(|| {
                let known = if names.is_empty() {
                    "There is none.".to_owned()
                } else {
                    format!("There are: {}.", names.join(", "))
                };
                Error::new(Kind::Usage, format!("there is no remote {name}")).hint(known)
            })?,
            (None, [only]) => only,
            (None, []) => {
                return Err(Error::new(Kind::Invalid, "this repository has no remote to ship to")
                    .hint("Add one: git remote add origin URL."));
            }
            (None, _) => find("origin").ok_or_else(|| {
                Error::new(Kind::Usage, format!("there are several remotes: {}", names.join(", ")))
                    .hint("Name one with --remote.")
            })?,
        };
        let Remote { name, urls } = remote;
        let [url] = &urls[..] else {
            return Err(Error::new(Kind::Invalid, format!("{name} has {} URLs to push to", urls.len()))
                .hint("Name a remote with one URL: --remote NAME."));
        };
        if let Some(transport) = running_transport(url) {
            return Err(Error::new(Kind::Invalid, format!("the URL of {name} runs a program: {transport}"))
                .detail(shown_url(url))
                .hint("Only file, git, http, https and ssh are used."));
        }
        if is_relative(url) {
            // It would be looked for from our private git directory, where another repository may be.
            return Err(Error::new(Kind::Invalid, format!("the URL of {name} is a relative path"))
                .detail(shown_url(url))
                .hint(format!("Make it absolute: git remote set-url {} PATH.", shell_word(name))));
        }
        Ok((name.clone(), url.clone()))
    }

    fn check_names(&self) -> Result<()> {
        for name in [Some(&self.branch), self.base.as_ref()].into_iter().flatten() {
            if !self.git.is_branch_name(name)? {
                return Err(Error::new(Kind::Usage, format!("{name:?} is not a name for a branch")));
            }
        }
        if self.branch.starts_with(OUR_BRANCHES) {
            return Err(Error::new(Kind::Usage, format!("{} is a branch of a run, which is not shipped", self.branch))
                .hint("Name another one with --branch."));
        }
        Ok(())
    }

    /// Returns the commits that the base lacks, and whether the base of the remote is known here.
    fn commits(&self, remote: &str, feature: Option<(&Feature, &Oid)>) -> Result<(Vec<ShippedCommit>, bool)> {
        let base = self.base.as_ref().filter(|base| feature.is_some() || **base != self.branch);
        let known =
            base.map(|base| self.git.resolve_ref(&format!("refs/remotes/{remote}/{base}"))).transpose()?.flatten();
        let from = known.as_ref().or(feature.map(|(_, start)| start));
        let commits = self.git.log(from, &self.commit, MAX_COMMITS)?;
        if commits.is_empty() {
            let base = base.map_or("the base", String::as_str);
            return Err(Error::new(
                Kind::Invalid,
                format!("there is nothing to ship: {base} on {remote} has all of it"),
            ));
        }
        let is_of = |subject: &str, by: &str| {
            feature.is_some_and(|(feature, _)| {
                by == feature.as_str() || subject.starts_with(&format!("design({feature}): "))
            })
        };
        let shipped = commits.into_iter().map(|logged| ShippedCommit {
            of_feature: is_of(&logged.subject, &logged.feature),
            commit: logged.commit,
            subject: logged.subject,
        });
        Ok((shipped.collect(), known.is_some()))
    }
}
