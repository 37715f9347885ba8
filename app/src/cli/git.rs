//! `git ship`: pushes the merged work of a feature, or the current branch, and opens a pull request for it.

mod watch;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use mahabharatha_engine::ship::{GitHub, PullRequest, ShipOptions, Shipment};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::interrupt;
use mahabharatha_sys::proc::shell_line;
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::Global;
use super::exit::ExitCode;
use watch::Watch;

#[derive(Debug, Args)]
pub struct GitArgs {
    #[command(subcommand)]
    command: GitCommand,
}

#[derive(Debug, Subcommand)]
enum GitCommand {
    /// Push the merged work of a feature, and open a pull request for it
    #[command(after_help = super::examples::SHIP)]
    Ship(ShipArgs),
}

#[derive(Debug, Args)]
pub struct ShipArgs {
    /// Push, and open a pull request through gh
    #[arg(long)]
    pr: bool,
    /// Open the pull request as a draft; implies --pr
    #[arg(long)]
    draft: bool,
    /// Push only
    #[arg(long, conflicts_with_all = ["pr", "draft"])]
    push: bool,
    /// The remote [default: origin, or the only one]
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// The branch on the remote [default: feat/FEATURE; without a feature, the current branch]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The branch that the pull request is for [default: the base of the run, or the remote's default branch]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Ship the merged levels although others are not merged yet
    #[arg(long)]
    partial: bool,
    /// Watch the pull request: turn failed checks and review comments into tasks, run them and push the result;
    /// implies --pr
    #[arg(long, conflicts_with_all = ["push", "dry_run", "partial"])]
    watch: bool,
    /// Seconds between two checks of the pull request
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    /// Show what it would do; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &GitArgs) -> Result<ExitCode> {
    let GitCommand::Ship(args) = &args.command;
    let options = ShipOptions {
        remote: args.remote.clone(),
        branch: args.branch.clone(),
        base: args.base.clone(),
        partial: args.partial,
    };
    if args.acts() {
        interrupt::listen()?;
    }
    let project = global.project()?;
    let has_feature = global.names_a_feature() || !project.known_features().is_empty();
    if !has_feature {
        if args.watch {
            return Err(Error::new(Kind::Usage, "--watch needs a feature: it adds tasks to the feature's graph"));
        }
        let shipment = Shipment::of_branch(&project, &options)?;
        return ship(&project, ui, args, &shipment).map(|_| ExitCode::Done);
    }
    let place = global.known_place(None)?;
    let interval = Duration::from_secs(args.interval);
    let watch = Watch { place: &place, ui, options: &options, interval };
    if args.watch {
        Shipment::check_run(&place)?;
        watch.run()?;
    }
    let lock = args.acts().then(|| hold(&place)).transpose()?;
    let shipment = Shipment::of_feature(&place, &options)?;
    let shipped = ship(&project, ui, args, &shipment)?;
    drop(lock);
    match shipped {
        Some((github, pull_request)) if args.watch => watch.watch(&github, pull_request.number, shipment),
        _ => Ok(ExitCode::Done),
    }
}

/// Keeps a run from moving what is shipped.
fn hold(place: &Place) -> Result<FeatureLock> {
    FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())?
        .map_err(|holder| holder.refusal(&place.feature))
}

/// What was shipped.
struct Shipped {
    pushed: bool,
    /// Whether the pull request is new.
    created: bool,
    pull_request: Option<(GitHub, PullRequest)>,
}

/// Ships it, or shows what that would do. Returns the pull request, if there is one.
fn ship(project: &Project, ui: &Ui, args: &ShipArgs, shipment: &Shipment) -> Result<Option<(GitHub, PullRequest)>> {
    if !ui.json() {
        tell(ui, shipment);
    }
    if !args.acts() {
        show(ui, args, shipment);
        return Ok(None);
    }
    let shipped = act(project, args, shipment)?;
    report(ui, args, shipment, &shipped);
    Ok(shipped.pull_request)
}

fn act(project: &Project, args: &ShipArgs, shipment: &Shipment) -> Result<Shipped> {
    let (branch, remote) = (&shipment.branch, &shipment.remote);
    if !args.opens() {
        return Ok(Shipped { pushed: shipment.push(project)?, created: false, pull_request: None });
    }
    if shipment.base.as_ref().is_none_or(|base| base == branch) {
        return Err(Error::new(Kind::Usage, format!("there is no branch that {branch} could be merged into"))
            .hint("Switch to a branch of its own, or name the base with --base."));
    }
    // Asked first, so that nothing is pushed if gh is missing or not logged in.
    let github = shipment.github()?;
    let found = github.find(branch)?;
    let pushed = shipment.push(project)?;
    let created = found.is_none();
    let pull_request = match found {
        Some(found) => found,
        None => github.open(shipment, args.draft).map_err(|error| {
            error.detail(format!("{branch} is pushed to {remote}; the same command tries the pull request again"))
        })?,
    };
    Ok(Shipped { pushed, created, pull_request: Some((github, pull_request)) })
}

fn report(ui: &Ui, args: &ShipArgs, shipment: &Shipment, shipped: &Shipped) {
    let (branch, remote, commit) = (&shipment.branch, &shipment.remote, shipment.commit.short());
    let Shipped { pushed, created, pull_request } = shipped;
    let pull_request = pull_request.as_ref().map(|(_, pull_request)| pull_request);
    if ui.json() {
        let mut data = described(args, shipment);
        data["pushed"] = json!(pushed);
        data["pull_request"] =
            json!(pull_request.map(|it| json!({ "number": it.number, "url": it.url, "created": created })));
        print_json(ui, args, &data);
        return;
    }
    ui.note(&match pushed {
        true => format!("Pushed {commit} to {branch} on {remote}."),
        false => format!("{branch} on {remote} is already at {commit}."),
    });
    if let Some(PullRequest { number, url }) = pull_request {
        ui.note(&format!("Pull request {number} {}:", if *created { "is open" } else { "was open already" }));
        ui.data(&format!("{url}\n"));
    }
}

/// Prints the data; while it is watched in one line, since the events of runs follow.
fn print_json(ui: &Ui, args: &ShipArgs, data: &serde_json::Value) {
    let text = if args.watch { data.to_string() } else { format!("{data:#}") };
    ui.data(&text);
}

/// Prints where it goes, and which commits are pushed with it that are not part of the feature.
fn tell(ui: &Ui, shipment: &Shipment) {
    let Shipment { feature, remote, branch, base, commit, commits, .. } = shipment;
    let what = feature.as_ref().map_or_else(|| "the current branch".to_owned(), ToString::to_string);
    ui.note(&format!("{what} at {} goes to {branch} on {remote} ({})", commit.short(), shipment.shown_url()));
    let others: Vec<_> = commits.iter().filter(|commit| feature.is_some() && !commit.of_feature).collect();
    let base = base.as_deref().unwrap_or("the base");
    if !others.is_empty() {
        ui.warn(&format!(
            "these commits are not part of {what} but are pushed with it, because {base} on {remote} lacks them:"
        ));
        others.iter().for_each(|other| ui.note(&format!("  {} {}", other.commit.short(), other.subject)));
    }
    if feature.is_some() && !shipment.knows_base {
        ui.warn(&format!(
            "{remote}/{base} is not known here (git fetch {remote}): only commits since the run began are listed"
        ));
    }
}

/// Shows the commands and the text of the pull request.
fn show(ui: &Ui, args: &ShipArgs, shipment: &Shipment) {
    if ui.json() {
        let mut data = described(args, shipment);
        data["pushed"] = json!(false);
        data["pull_request"] = json!(null);
        print_json(ui, args, &data);
        return;
    }
    for command in shipment.commands(args.draft) {
        ui.data(&format!("{}\n", shell_line(&command)));
    }
    ui.data(&format!("\n{}\n\n{}\n", shipment.title, shipment.body));
    ui.note("Nothing was changed. Push it: --push. Push it and open the pull request: --pr.");
}

fn described(args: &ShipArgs, shipment: &Shipment) -> serde_json::Value {
    let Shipment { feature, remote, branch, base, commit, title, body, commits, knows_base, .. } = shipment;
    json!({
        "feature": feature.as_ref().map(ToString::to_string), "remote": remote, "url": shipment.shown_url(),
        "branch": branch, "base": base, "base_known": knows_base, "commit": commit, "title": title, "body": body,
        "commits": commits, "commands": shipment.commands(args.draft),
    })
}

impl ShipArgs {
    fn acts(&self) -> bool {
        (self.push || self.opens()) && !self.dry_run
    }

    fn opens(&self) -> bool {
        self.pr || self.draft || self.watch
    }
}
