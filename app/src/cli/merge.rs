//! `merge`: merges a level whose tasks are completed, or retries a failed merge. Must never launch an agent.

use std::sync::Arc;

use clap::Args;
use mahabharatha_core::ids::Level;
use mahabharatha_core::run::event::Intent;
use mahabharatha_core::run::{LevelStatus, Run, TaskStatus};
use mahabharatha_core::view::{RunView, merged_phrase};
use mahabharatha_engine::lease::Lease;
use mahabharatha_engine::session::{self, Options, Outcome, caller, claims, control, undo};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;
use super::finish::{Driver, end_stream, finish};

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The level to merge [default: the lowest that is not merged]
    #[arg(long, value_name = "N")]
    level: Option<u32>,
    /// Retry a failed merge, for example after you resolved a conflict
    #[arg(long)]
    retry: bool,
    /// Approve the level that waits for it (merge.approval), then merge it; with TREE, as `status` shows it, only if that
    /// tree or staging commit still waits
    #[arg(
        long,
        value_name = "TREE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "dry_run"
    )]
    approve: Option<String>,
    /// Show what would be merged; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Merge with a configuration that changed since the run began
    #[arg(long)]
    accept_config: bool,
    /// The calling session [default: CLAUDE_CODE_SESSION_ID, else this login session]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl MergeArgs {
    /// Tells whether only the user may decide on the call: it names another session, accepts a configuration or approves a level.
    pub fn needs_user(&self) -> bool {
        self.session.is_some() || self.accept_config || self.approve.is_some()
    }
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &MergeArgs) -> Result<ExitCode> {
    let result = try_merge(global, ui, args);
    end_stream(ui, ui.json() && !args.dry_run, &result);
    result
}

fn try_merge(global: &Global, ui: &Arc<Ui>, args: &MergeArgs) -> Result<ExitCode> {
    let place = global.known_place(None)?;
    let session = caller::session_name(args.session.as_deref());
    let lease = Lease::driving(place.paths.dir());
    let own = lease.as_ref().filter(|lease| lease.session == session);
    if let Some(shown) = &args.approve {
        ui.note(&control::approve(&place, args.level.map(Level), shown)?);
        if let Some(other) = lease.as_ref().filter(|_| own.is_none()) {
            ui.note(&format!("session {} merges it with: mahabharatha merge -f {}", other.session, place.feature));
            return Ok(ExitCode::Done);
        }
    }
    if !args.dry_run && FeatureLock::holder(place.paths.dir())?.is_some() {
        drop(session::lock(&place.paths, own)?);
    }
    if let Some(other) = lease.as_ref().filter(|_| !args.dry_run && own.is_none()) {
        return Err(other.refusal(&place.feature));
    }
    let run = control::read_run(&place)?;
    undo::refuse_undone(&place.paths, &run)?;
    if let Some(level) = args.level.map(Level).filter(|level| !run.graph().levels().contains(level)) {
        return Err(control::no_such_level(run.graph(), level));
    }
    let Some(current) = run.current_level() else {
        ui.note(&format!("{}: {}", place.feature, merged_phrase(&RunView::of(&run).levels)));
        return Ok(ExitCode::Done);
    };
    let level = args.level.map_or(current.level, Level);
    let is_merged = |status: &LevelStatus| matches!(status, LevelStatus::Merged { .. });
    if run.levels().iter().any(|other| other.level == level && is_merged(&other.status)) {
        ui.note(&format!("{}: {}", place.feature, run.merged_level_phrase(level)));
        return Ok(ExitCode::Done);
    }
    if level != current.level {
        return Err(Error::new(
            Kind::Invalid,
            format!("level {level} cannot be merged: level {} is next", current.level),
        ));
    }
    let failed = matches!(current.status, LevelStatus::Failed { .. });
    if args.retry && !failed && current.open > 0 {
        return Err(Error::new(
            Kind::Invalid,
            format!("the merge of level {level} did not fail: it has not been tried"),
        ));
    }
    check_complete(&run, level)?;
    if args.dry_run {
        return dry_run(&place, ui, &run, level);
    }
    let driver = if lease.is_some() { Driver::Session } else { Driver::Run };
    let options = match lease {
        Some(lease) => claims::options(&lease, Intent::Session(Some(level))),
        None => Options::new(Intent::Merge(level)),
    };
    let options = Options { streams: ui.json(), accept_config: args.accept_config, ..options };
    match session::run(&place.project, &place.paths, ui, &options)? {
        Outcome::AlreadyCompleted | Outcome::Open => Ok(ExitCode::Done),
        Outcome::Ended(end) => finish(&place, ui, &end, driver),
    }
}

fn check_complete(run: &Run, level: Level) -> Result<()> {
    let open: Vec<String> = tasks_of(run, level).filter(|(_, state)| state.is_open()).map(|(id, _)| id).collect();
    if open.is_empty() {
        return Ok(());
    }
    Err(Error::new(Kind::Blocked, format!("level {level} cannot be merged: these tasks are not completed"))
        .detail(open.join(", "))
        .hint("Run, retry or skip them first."))
}

fn tasks_of(run: &Run, level: Level) -> impl Iterator<Item = (String, &mahabharatha_core::run::TaskState)> {
    let tasks = run.graph().tasks().iter().zip(run.tasks());
    tasks.filter(move |(task, _)| task.level == level).map(|(task, state)| (task.id.to_string(), state))
}

fn dry_run(place: &Place, ui: &Ui, run: &Run, level: Level) -> Result<ExitCode> {
    let commits: Vec<(String, String)> = tasks_of(run, level)
        .filter_map(|(id, state)| match &state.status {
            TaskStatus::Completed { commit, .. } => Some((id, commit.to_string())),
            _ => None,
        })
        .collect();
    let config = specs::load_config(&place.project)?;
    let gates: Vec<&str> = config.quality_gates.iter().map(|gate| gate.name.as_str()).collect();
    let target = run.landing_branch();
    let target = short_branch(&target);
    if ui.json() {
        let tasks: Vec<_> =
            commits.iter().map(|(task, commit)| serde_json::json!({"task": task, "commit": commit})).collect();
        ui.data(&serde_json::json!({"level": level, "into": target, "tasks": tasks, "gates": gates}).to_string());
        return Ok(ExitCode::Done);
    }
    ui.data(&format!("level {level} would be merged into {target}:\n"));
    for (task, commit) in commits {
        ui.data(&format!("  {task} {}\n", &commit[..10]));
    }
    let gates = if gates.is_empty() { "no gates".to_string() } else { format!("gates: {}", gates.join(", ")) };
    ui.data(&format!("{gates}\n"));
    Ok(ExitCode::Done)
}
