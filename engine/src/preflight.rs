//! Checks that must pass before the first agent is started. Called at the start of a run and by `doctor`.
//! Every failed check tells the user what to do.

mod space;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mahabharatha_core::config::{AgentConfig, Config, Isolation};
use mahabharatha_core::estimate::substitutes;
use mahabharatha_core::graph::{Rules, TaskGraph};
use mahabharatha_core::run::event::{Event, SETUP};
use mahabharatha_sys::container::Engine;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::{Git, short_branch};
use mahabharatha_sys::proc::{self, dotted};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::sandbox;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use rustix::fs::StatVfs;
use serde::Serialize;

use crate::agent;
use crate::containers::{self, Containers, FoundImage};
pub use space::WARM;

/// Oldest supported git: `merge-tree --write-tree` came with 2.38, its `--merge-base` and fixes with 2.40.
const MIN_GIT_VERSION: [u32; 3] = [2, 40, 0];
/// Free disk space that a run needs at least.
const MIN_FREE_BYTES: u64 = 200 << 20;

#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub status: CheckStatus,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Ok,
    Warning,
    Failed,
}

#[derive(Debug, Default)]
pub struct Report {
    pub checks: Vec<Check>,
}

impl Report {
    pub fn ok(&mut self, name: &'static str, message: impl Into<String>) {
        self.checks.push(Check { name, status: CheckStatus::Ok, message: message.into(), hint: None });
    }

    pub fn warn(&mut self, name: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let (message, hint) = (message.into(), Some(hint.into()));
        self.checks.push(Check { name, status: CheckStatus::Warning, message, hint });
    }

    pub fn fail(&mut self, name: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let (message, hint) = (message.into(), Some(hint.into()));
        self.checks.push(Check { name, status: CheckStatus::Failed, message, hint });
    }

    /// Turns a preflight or validation error into a failed check; returns any other error.
    pub fn fail_with(&mut self, name: &'static str, error: Error) -> Result<()> {
        if !matches!(error.kind(), Kind::Preflight | Kind::Invalid) {
            return Err(error);
        }
        let message = [&[format!("{}.", error.message())], error.details()].concat().join("\n  ");
        self.checks.push(Check {
            name,
            status: CheckStatus::Failed,
            message,
            hint: error.what_to_do().map(str::to_owned),
        });
        Ok(())
    }

    fn with(&self, status: CheckStatus) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.status == status)
    }

    pub fn failed(&self) -> bool {
        self.with(CheckStatus::Failed).next().is_some()
    }

    /// Passes on the warnings and returns the failures as one error.
    pub fn conclude(&self, warn: impl Fn(String)) -> Result<()> {
        for check in self.with(CheckStatus::Warning) {
            warn(format!("{} {}", check.message, check.hint.as_deref().unwrap_or_default()));
        }
        let mut failed = self.with(CheckStatus::Failed).peekable();
        if failed.peek().is_none() {
            return Ok(());
        }
        Err(failed.fold(
            Error::new(Kind::Preflight, "a preflight check failed; nothing was started"),
            |error, check| {
                error.detail(format!("{}: {} {}", check.name, check.message, check.hint.as_deref().unwrap_or_default()))
            },
        ))
    }
}

/// The project, feature and settings that the checks look at.
pub struct Ground<'a> {
    pub project: &'a Project,
    pub paths: &'a FeaturePaths,
    pub config: &'a Config,
    pub graph: &'a TaskGraph,
    /// Whether agents are launched, rather than a session doing the work.
    pub launches: bool,
    /// The agent that the user asked for.
    pub agent: Option<&'a str>,
    pub workers: u32,
    /// The sandbox that is in force.
    pub isolation: Isolation,
    /// The containers that programs run in, if they are prepared.
    pub containers: Option<&'a Containers>,
    /// Whether the run has begun already, so that existing branches and changes may be its own.
    pub resumed: bool,
    /// Whether the checks may execute programs that the repository or its configuration names. A run does so anyway.
    pub executes: bool,
}

/// Checks the machine and the feature.
pub fn check(ground: &Ground<'_>) -> Result<Report> {
    let mut report = check_machine(ground.project)?;
    check_worktrees(&mut report, ground.project, ground.config)?;
    check_ground(&mut report, ground)?;
    Ok(report)
}

/// Checks what depends on the feature: repository, branches, agents, ports, disk, uncommitted changes, other features.
pub fn check_ground(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    check_repository(report, ground)?;
    check_branches(report, ground)?;
    if let Some(containers) = ground.containers {
        check_image(report, ground, containers)?;
    }
    if ground.launches {
        check_agents(report, ground)?;
    }
    check_ports(report, ground)?;
    space::check_space(report, ground)?;
    check_dirty(report, ground)?;
    check_other_features(report, ground)
}

/// Checks what does not depend on a feature: git and disk space.
pub fn check_machine(project: &Project) -> Result<Report> {
    let mut report = Report::default();
    match Git::version() {
        Ok(version) if version >= MIN_GIT_VERSION => report.ok("git", format!("version {}", dotted(version))),
        Ok(version) => report.fail(
            "git",
            format!("version {} is too old.", dotted(version)),
            format!("Install {} or newer.", dotted(MIN_GIT_VERSION)),
        ),
        Err(error) => report.fail("git", error.to_string(), "Install git and put it on PATH."),
    }
    match rustix::fs::statvfs(project.root()) {
        Ok(space) => {
            let free = free_bytes(&space);
            if free < MIN_FREE_BYTES {
                report.fail("disk", format!("only {} MB are free.", free >> 20), "Free some space first.");
            } else {
                report.ok("disk", format!("{} MB free", free >> 20));
            }
        }
        Err(error) => {
            report.warn("disk", format!("the free space is unknown ({error})."), "Make sure there is enough.")
        }
    }
    Ok(report)
}

fn free_bytes(space: &StatVfs) -> u64 {
    space.f_bavail.saturating_mul(space.f_frsize)
}

/// Checks the directory that `worktrees.dir` names.
pub fn check_worktrees(report: &mut Report, project: &Project, config: &Config) -> Result<()> {
    let Some(setting) = &config.worktrees.dir else { return Ok(()) };
    let dir = project.worktrees_dir(Some(setting));
    if sandbox::is_system(&dir) {
        let message = format!("worktrees.dir: {} belongs to the system, which every sandbox shows.", dir.display());
        report.fail("worktrees", message, "Name another directory, such as one beside the repository.");
        return Ok(());
    }
    if let Some((key, path)) = shown_to_all(config, &dir) {
        let message = format!(
            "worktrees.dir: {} is below {path} of sandbox.{key}, so that every agent could {key} the worktrees of all others.",
            dir.display()
        );
        report.fail("worktrees", message, "Name another directory, or take the path out of the sandbox's list.");
        return Ok(());
    }
    match project.check_worktrees_dir(&dir) {
        Ok(()) => report.ok("worktrees", format!("in {}", dir.display())),
        Err(error) => report.fail_with("worktrees", error)?,
    }
    Ok(())
}

/// Returns the path of `sandbox.read` or `sandbox.write` that the directory is in, with the key.
fn shown_to_all<'a>(config: &'a Config, dir: &Path) -> Option<(&'static str, &'a str)> {
    let resolved = |path: PathBuf| {
        let there = path.ancestors().find_map(|part| Some((part.canonicalize().ok()?, path.strip_prefix(part).ok()?)));
        there.map_or_else(|| path.clone(), |(part, rest)| part.join(rest))
    };
    let dir = resolved(dir.to_owned());
    let lists = [("write", &config.sandbox.write), ("read", &config.sandbox.read)];
    let mut paths = lists.into_iter().flat_map(|(key, paths)| paths.iter().map(move |path| (key, path.as_str())));
    paths.find(|(_, path)| dir.starts_with(resolved(proc::expand_home(path))))
}

/// Warns if no sandbox is in force. For `doctor`: a run says so by itself.
pub fn check_sandbox(report: &mut Report, isolation: Isolation) {
    match isolation {
        Isolation::Off => report.warn(
            "sandbox",
            "no sandbox is in force: agents, verifications and gates run with your rights.",
            "`mahabharatha help security` says what that means, and how to get one.",
        ),
        isolation => report.ok("sandbox", format!("agents, verifications and gates run in {isolation}")),
    }
}

/// Warns about gates and preparing commands whose program is not installed. Only a warning, because it looks at the first word only.
pub fn check_programs(report: &mut Report, config: &Config) {
    let gates = config.quality_gates.iter().map(|gate| (gate.name.as_str(), gate.command.as_str()));
    let prepare = config.merge.prepare.iter().map(|command| ("merge.prepare", command.as_str()));
    let setup = config.worktrees.setup.iter().map(|command| (SETUP, command.as_str()));
    for (name, command) in gates.chain(prepare).chain(setup) {
        let missing = proc::leading_program(command).filter(|program| proc::find_program(program).is_none());
        if let Some(program) = missing {
            report.warn(
                "gates",
                format!("{name} calls {program}, which was not found on PATH."),
                "Install it, or change the command in .mahabharatha/config.yaml.",
            );
        }
    }
}

/// Checks for unfinished git operations, which would be mixed up with landing levels, and for a usable HEAD and
/// configuration.
fn check_repository(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    let project = ground.project;
    for (what, finish) in project.operations_in_progress() {
        report.fail("repository", format!("{what} is under way."), format!("Finish it: `{finish}`."));
    }
    if let Err(error) = project.pinned_config() {
        report.fail_with("repository", error)?;
    }
    // During an unfinished operation HEAD may be detached.
    if !ground.resumed && !report.failed() {
        match project.head_branch() {
            Ok(branch) => report.ok("repository", format!("levels land on {}", short_branch(&branch))),
            Err(error) => report.fail_with("repository", error)?,
        }
    }
    Ok(())
}

/// Checks for branches in the way of ours: git cannot create `a/b` if a branch `a` exists.
fn check_branches(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    let (git, staging) = (ground.project.git(), ground.paths.staging_branch());
    let short = |name: &str| short_branch(name).to_owned();
    let feature = staging.trim_end_matches("staging");
    let ours = git.for_each_ref(&["refs/heads/mahabharatha"])?.into_iter().map(|(name, _)| name);
    let (below, others): (Vec<String>, Vec<String>) = ours.partition(|name| name.starts_with(feature));
    for name in others.iter().filter(|name| feature.starts_with(&format!("{name}/"))).map(|name| short(name)) {
        report.fail(
            "branches",
            format!("the branch {name} is in the way of {}.", short(&staging)),
            format!("Rename it: `git branch -m {} <other name>`.", proc::shell_word(&name)),
        );
    }
    if !ground.resumed && !below.is_empty() {
        let names: Vec<String> = below.iter().map(|name| short(name)).collect();
        report.fail(
            "branches",
            format!("branches of an earlier run, or of yours, are in the way: {}.", names.join(", ")),
            "Rename what you need, delete the rest: `git branch -D …`.",
        );
    }
    Ok(())
}

/// Checks that there is a command for each task, and returns the agents that have one.
pub fn check_commands<'a>(
    report: &mut Report,
    config: &'a Config,
    graph: &'a TaskGraph,
    agent: Option<&'a str>,
) -> Result<BTreeSet<&'a str>> {
    let mut seen = BTreeSet::new();
    for task in graph.tasks().iter().filter(|task| !task.spec.foreground) {
        let (name, agent) = agent::choose(config, &task.spec, agent)?;
        let without_run = agent.command.is_empty() && task.spec.run.is_none();
        if without_run {
            report.fail(
                "agent",
                format!("{}: the agent {name} has no command, and the task has no `run`.", task.id),
                format!("Set agents.{name}.command, or give the task a `run`."),
            );
        } else {
            seen.insert(name);
        }
    }
    Ok(seen)
}

fn check_agents(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    let seen = check_commands(report, ground.config, ground.graph, ground.agent)?;
    if ground.isolation != Isolation::Container {
        for name in substitutes(ground.config, seen) {
            let Some(agent) = ground.config.agent(&name) else { continue };
            check_agent(report, ground.project, &name, agent, ground.executes);
        }
    }
    Ok(())
}

/// Tries the image of containers: whether it runs here and has what agents and gates call.
fn check_image(report: &mut Report, ground: &Ground<'_>, containers: &Containers) -> Result<()> {
    let mut named = BTreeSet::new();
    for task in ground.graph.tasks().iter().filter(|task| ground.launches && !task.spec.foreground) {
        named.insert(agent::choose(ground.config, &task.spec, ground.agent)?.0);
    }
    let named = if named.is_empty() { BTreeSet::new() } else { substitutes(ground.config, named) };
    let mut agents: Vec<(String, String)> = Vec::new();
    for name in named {
        let command = ground.config.agent(&name).and_then(|agent| agent.command.first());
        let program = command.filter(|program| !program.contains('/'));
        agents.extend(program.map(|program| (program.clone(), name)));
    }
    let gates = ground.config.quality_gates.iter().filter_map(|gate| proc::leading_program(&gate.command));
    let gates: Vec<String> = gates.map(str::to_owned).collect();
    let programs: BTreeSet<String> =
        ["git".to_owned()].into_iter().chain(agents.iter().map(|(program, _)| program.clone())).chain(gates).collect();
    let programs: Vec<String> = programs.into_iter().collect();
    let missing = match containers.missing_programs(ground.project, &programs) {
        Ok(missing) => missing,
        Err(error) => return report.fail_with("containers", error),
    };
    for program in missing {
        let message = format!("the image {} has no {program}.", containers.image_name);
        let hint = "Install it in .devcontainer/Dockerfile.";
        let agent = agents.iter().find(|(called, _)| *called == program);
        match agent {
            Some((_, name)) => report.fail("agent", format!("{name}: {message}"), hint),
            None if program == "git" => report.fail("containers", message, hint),
            None => report.warn("gates", message, hint),
        }
    }
    report.ok("containers", format!("{}, image {}", containers.engine, containers.image_name));
    Ok(())
}

/// Tells how much space the engine has for images and containers, and how much images of this project take.
fn check_engine_disk(report: &mut Report, project: &Project, engine: &Engine) {
    let Ok(storage) = containers::storage(project, engine) else { return };
    let images = format!("images of this project: {}, {} MB", storage.images, storage.image_bytes >> 20);
    let place = storage.root.display();
    match rustix::fs::statvfs(&storage.root).ok().as_ref().map(free_bytes) {
        Some(free) if free < MIN_FREE_BYTES => report.warn(
            "containers",
            format!("{} MB are free in {place}, where {engine} has its data; {images}.", free >> 20),
            "Make space there, for example with `docker image prune`.",
        ),
        Some(free) => report.ok("containers", format!("{} MB are free in {place}; {images}", free >> 20)),
        // Only root may look there, or it is in a virtual machine.
        None => report.ok("containers", format!("the engine's data is in {place}; {images}")),
    }
}

/// Checks the engine of containers and looks for the image, which a run builds if it is not there. Executes nothing.
pub fn check_containers(report: &mut Report, project: &Project, config: &Config) -> Result<()> {
    let engine = match Engine::find(config.launcher.engine) {
        Ok(engine) => engine,
        Err(error) => return report.fail_with("containers", error),
    };
    report.ok("containers", format!("{engine} {}", engine.version()?));
    check_engine_disk(report, project, &engine);
    match Containers::find_image(project, config, &engine) {
        Err(error) => report.fail_with("containers", error)?,
        Ok(FoundImage { name, id: Some(_), built_in }) => {
            let took = built_in.map(|seconds| format!(", built in {seconds} s")).unwrap_or_default();
            report.ok("containers", format!("the image {name} is there{took}"));
        }
        Ok(FoundImage { name, id: None, .. }) => report.warn(
            "containers",
            format!("the image {name} is not on this machine."),
            "The next run builds or pulls it, which may take minutes.",
        ),
    }
    Ok(())
}

/// Checks the default agent without executing anything of the repository. Failures are only warnings, because without
/// a graph it is unknown whether a task needs it.
pub fn check_default_agent(report: &mut Report, project: &Project, config: &Config) {
    let mut found = Report::default();
    if let Some(agent) = config.agent(&config.agent) {
        check_agent(&mut found, project, &config.agent, agent, false);
    }
    let lenient = |check: Check| match check.status {
        CheckStatus::Failed => Check { status: CheckStatus::Warning, ..check },
        _ => check,
    };
    report.checks.extend(found.checks.into_iter().map(lenient));
}

fn check_agent(report: &mut Report, project: &Project, name: &str, agent: &AgentConfig, executes: bool) {
    if agent.command.is_empty() {
        return report.ok("agent", format!("{name} can be started"));
    }
    let why_not_started = if executes { None } else { chosen_by_repository(project, &agent.command) };
    let is_there = agent.command.first().is_some_and(|program| agent::find_program(project.root(), program).is_some());
    if let Some(why) = why_not_started.filter(|_| is_there && agent.is_coding_agent()) {
        return report.warn(
            "agent",
            format!("{name} was not started: {why}."),
            "Its version and login are checked when a run starts.",
        );
    }
    let cwd = if executes { project.root() } else { Path::new("/") };
    match agent::check(project.root(), cwd, name, agent) {
        Ok(found) => {
            let colon = if agent.is_coding_agent() { ":" } else { "" };
            report.ok("agent", format!("{name}{colon} {}", found.what));
            if let Some(note) = found.note {
                report.warn("agent", format!("{name}: {}.", note.what), note.hint);
            }
        }
        Err(problem) => report.fail("agent", format!("{name}: {}.", problem.what), problem.hint),
    }
}

/// Returns why starting this client would execute something that the repository chose; `None` for an installed program
/// without arguments.
fn chosen_by_repository(project: &Project, command: &[String]) -> Option<String> {
    let [program, arguments @ ..] = command else { return None };
    if !arguments.is_empty() {
        return Some(format!("the repository's configuration gives {program} arguments"));
    }
    let is_inside = |path: &Path| path.starts_with(project.root()) || path.starts_with(project.checkout());
    let found = agent::find_program(project.root(), program).and_then(|path| path.canonicalize().ok());
    let is_relative = program.contains('/') && Path::new(program).is_relative();
    (is_relative || found.is_some_and(|path| is_inside(&path)))
        .then(|| format!("{program} is a file of the repository"))
}

/// Checks that the workers' ports can be leased; they are released again on return.
fn check_ports(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    match ground.project.lease_ports(&ground.config.ports, ground.workers) {
        Ok(leases) => {
            let ports = leases.iter().map(|lease| lease.ports.len()).sum::<usize>();
            report.ok("ports", format!("{ports} free for the workers"));
            Ok(())
        }
        // A run can go on when there is space again.
        Err(error) if matches!(error.kind(), Kind::OutOfSpace) => Err(error),
        // Whatever else the reason, such as a repository that can only be read, no run could start.
        Err(error) => report.fail_with("ports", error.with_kind(Kind::Preflight)),
    }
}

/// Warns about uncommitted changes in files that tasks own: they will be in the way when the level lands.
fn check_dirty(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    if ground.resumed {
        return Ok(());
    }
    let filters = if ground.executes { Vec::new() } else { ground.project.own_filters()? };
    if !filters.is_empty() {
        report.warn(
            "checkout",
            format!("uncommitted changes were not looked for: git would run the filter {}.", filters.join(", ")),
            "The repository's own git configuration defines it. `git status` lists the changes.",
        );
        return Ok(());
    }
    let changed = ground.project.changed_files()?.into_iter();
    let dirty: Vec<String> = changed.filter(|path| ground.graph.is_owned(path)).collect();
    if !dirty.is_empty() {
        report.warn(
            "checkout",
            format!("you have uncommitted changes in files that tasks own: {}.", dirty.join(", ")),
            "They are safe, but the run will pause when it would have to change them. Commit or stash them.",
        );
    }
    Ok(())
}

/// Warns about running features that own the same files: the second to land may conflict.
fn check_other_features(report: &mut Report, ground: &Ground<'_>) -> Result<()> {
    for feature in ground.project.features()? {
        let paths = ground.project.feature(&feature);
        if feature == *ground.paths.feature() || FeatureLock::holder(paths.dir())?.is_none() {
            continue;
        }
        let Ok(records) = Journal::read(&paths.journal()) else { continue };
        let Some(Event::Started(setup)) = records.into_iter().next().map(|record| record.event) else { continue };
        let (Some(other), _) = TaskGraph::check(&setup.graph, None, Rules::ACCEPTED) else { continue };
        let shared: Vec<&str> = other
            .tasks()
            .iter()
            .flat_map(|task| &task.owned)
            .filter(|owned| ground.graph.tasks().iter().flat_map(|task| &task.owned).any(|mine| mine.overlaps(owned)))
            .map(|owned| owned.path.as_str())
            .collect();
        if !shared.is_empty() {
            report.warn(
                "features",
                format!("{feature}, which runs now, owns the same files: {}.", shared.join(", ")),
                "The one that lands second may conflict.",
            );
        }
    }
    Ok(())
}
