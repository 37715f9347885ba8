//! Lets one process start or resume a run: takes the feature's lock, checks, journals, drives the run and reports.
//!
//! Called by the commands that run features or tasks. No process may drive a run without holding the feature's lock.

pub mod attach;
mod base_gates;
pub mod caller;
mod changed_config;
mod changed_graph;
mod checks;
pub mod claims;
pub mod cleanup;
pub mod control;
pub mod diagnosis;
pub mod diff;
pub mod ended;
pub mod follow_up;
pub mod live;
mod options;
pub mod review;
mod saved_work;
pub mod stop;
pub mod undo;
mod worktrees;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::SystemTime;

use jiff::Timestamp;
use mahabharatha_core::config::{Config, Isolation, LauncherKind, SandboxMode};
use mahabharatha_core::graph::TaskGraph;
use mahabharatha_core::ids::{Oid, TaskId, Time};
use mahabharatha_core::plan::{Plan, worker_assignments};
use mahabharatha_core::run::event::{Event, Intent, Note, Policy, Setup};
use mahabharatha_core::run::{End, Roster, Run, drive, record, record_start, replay};
use mahabharatha_core::spec::GraphFile;
use mahabharatha_core::view::RunView;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc;
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::sandbox;
use mahabharatha_sys::store::atomic::{sweep, sweep_of, write_atomic};
use mahabharatha_sys::store::journal::{Journal, Record};
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::store::log_file;
use mahabharatha_sys::store::ports::PortLease;
use mahabharatha_sys::store::projection;
use mahabharatha_sys::ui::Ui;

use self::checks::{check_intent, check_target};
use crate::claude::tasks::{self, Mirror, TaskList};
use crate::containers::Containers;
use crate::history::{self, Assumptions};
use crate::host::{self, Context, LocalHost, Settings};
use crate::lease::{self, Lease};
use crate::preflight::{self, CheckStatus, Ground, WARM};
use crate::report::notify::{Channels, Notifier};
use crate::report::{Display, Opening, Reporter, files};
use crate::specs;

pub use self::base_gates::{check_gates, check_gates_without_feature};
pub use self::options::{Options, Outcome};
pub use self::saved_work::saved_work;

/// Returns the commit that a run starts from. Until the run has begun work this is the current tip of the base branch,
/// which may have gained commits, such as one that makes its gates pass.
pub fn start_commit(project: &Project, run: Option<&Run>) -> Result<Oid> {
    let Some(run) = run else { return project.head_commit() };
    let tip = if run.has_begun() { None } else { project.git().resolve_ref(&run.setup().base_branch)? };
    Ok(tip.unwrap_or_else(|| run.setup().start.clone()))
}

/// Rebuilds the run from the records of its journal; none if there are no records.
pub fn rebuild(paths: &FeaturePaths, records: &[Record]) -> Result<Option<Run>> {
    replay(records.iter().map(|record| (record.at, &record.event))).map_err(|why| {
        Error::new(Kind::Invalid, format!("{}: {why}", paths.journal().display())).hint(format!(
            "It was changed by hand, or belongs to another version of this program: put a good copy in its place, or \
                 `mahabharatha debug --repair -f {}`, which keeps the original.",
            paths.feature()
        ))
    })
}

/// Takes the feature's lock, starts or resumes its run, and drives it as far as the options ask.
pub fn run(project: &Project, paths: &FeaturePaths, ui: &Arc<Ui>, options: &Options) -> Result<Outcome> {
    try_run(project, paths, ui, options).map_err(paused)
}

/// Turns a lack of disk space into a pause: the run is resumed once there is space.
pub fn paused(error: Error) -> Error {
    if error.kind() == Kind::OutOfSpace { error.with_kind(Kind::Paused) } else { error }
}

fn try_run(project: &Project, paths: &FeaturePaths, ui: &Arc<Ui>, options: &Options) -> Result<Outcome> {
    // The lock makes a directory for the feature: a mistyped name must not leave one behind.
    if !paths.dir().exists() && !specs::has_graph(paths)? {
        return Err(specs::no_graph(paths));
    }
    let lock = lock(paths, options.lease.as_ref())?;
    crash::point(|| "session with the lock");
    host::jobs::end_escaped(&paths.planning_mark());
    refuse_another_session(paths, options.lease.as_ref())?;
    host::jobs::end_trials(paths)?;
    lease::end_expired(paths.dir())?;
    let config = specs::load_config(project)?;
    if let Err(error) = host::jobs::remove_containers(paths) {
        ui.warn(&error.to_string());
    }
    let (isolation, containers) = choose_isolation(project, paths, &config, options, ui)?;
    // Created before anything is shown: neither the start of a run nor its effects wait for a reader.
    let display = Display::start(ui, options.streams);
    let session = Session { project, paths, ui, display, options, config, isolation, containers };
    paths.take_over_setup_costs(project)?;
    projection::make_home(&project.home(), &project.shared_dir())?;
    for dir in [paths.dir(), paths.specs(), &paths.task_files()] {
        sweep(dir);
    }
    sweep_of(&paths.projection());
    session.remove_old_logs();
    let (mut journal, records) = Journal::open_for_append(&lock, paths.feature())?;
    crash::point(|| "session with the journal open");
    let begun = match rebuild(paths, &records)? {
        None => session.start(&mut journal)?,
        Some(run) => {
            undo::refuse_undone(paths, &run)?;
            let start = start_commit(project, Some(&run))?;
            let changed = changed_graph::find(&session, &run, &start)?;
            if changed.is_none() && run.ended() == Some(&End::Completed) {
                // The process that completed it may have been killed before it had written this.
                files::write_state(project, paths, &run)?;
                if let Some((lost, next)) = diagnosis::merge_lost(project, &run)? {
                    return Err(Error::new(Kind::Failed, lost).hint(next));
                }
                return Ok(Outcome::AlreadyCompleted);
            }
            session.resume(&mut journal, run, start, changed)?
        }
    };
    drop(records);
    if let Some(lease) = &options.lease {
        lease.write(paths.dir())?;
    }
    let leases = project.lease_ports(&session.config.ports, begun.run.workers().len() as u32)?;
    crash::point(|| "session with its ports");
    write_plan(paths, &begun.run, &leases)?;
    crash::point(|| "session with its plan");
    let (_, end) = session.drive(journal, begun, leases, Vec::new())?;
    drop(lock);
    Ok(end.map_or(Outcome::Open, Outcome::Ended))
}

/// Takes the feature's lock. Waits for it if an earlier call of the same session, which its client may have moved to
/// the background, holds it.
pub fn lock(paths: &FeaturePaths, own: Option<&Lease>) -> Result<FeatureLock> {
    let drives = || own.and_then(|own| Lease::of(paths.dir(), &own.session)).is_some_and(|lease| lease.drives);
    match FeatureLock::try_acquire(paths.dir(), &paths.holder_file())? {
        Ok(lock) => Ok(lock),
        Err(_) if drives() => {
            let lock = FeatureLock::wait(paths.dir(), &paths.holder_file())?;
            let run = rebuild(paths, &Journal::read(&paths.journal())?)?;
            if !drives() || run.is_some_and(|run| run.ended() == Some(&End::Stopped)) {
                return Err(Error::new(Kind::Stopped, format!("{} was stopped meanwhile", paths.feature())));
            }
            Ok(lock)
        }
        Err(holder) => Err(holder.refusal(paths.feature())),
    }
}

/// Fails if another session drives the run.
fn refuse_another_session(paths: &FeaturePaths, own: Option<&Lease>) -> Result<()> {
    match Lease::driving(paths.dir()) {
        Some(other) if own.is_none_or(|own| own.session != other.session) => Err(other.refusal(paths.feature())),
        _ => Ok(()),
    }
}

/// Returns how programs are confined, and the containers for that if workers run in containers. What was asked for and
/// cannot be had is an error.
fn choose_isolation(
    project: &Project,
    paths: &FeaturePaths,
    config: &Config,
    options: &Options,
    ui: &Ui,
) -> Result<(Isolation, Option<Containers>)> {
    match options.launcher.unwrap_or(config.launcher.kind) {
        LauncherKind::Subprocess => Ok((sandbox::choose(options.sandbox.unwrap_or(config.sandbox.mode))?, None)),
        LauncherKind::Container if options.sandbox.is_some() => {
            Err(Error::new(Kind::Usage, "--sandbox cannot be combined with containers, which are the sandbox")
                .hint("Leave it out, or use --mode subprocess."))
        }
        LauncherKind::Container => {
            let isolation = Isolation::Container;
            Ok((isolation, prepare_containers(project, paths, config, isolation, ui)?))
        }
    }
}

/// Prepares the containers of a run whose programs run in some.
fn prepare_containers(
    project: &Project,
    paths: &FeaturePaths,
    config: &Config,
    isolation: Isolation,
    ui: &Ui,
) -> Result<Option<Containers>> {
    let prepare = || Containers::prepare(project, paths.feature(), config, |what| ui.note(&what));
    (isolation == Isolation::Container).then(prepare).transpose()
}

/// What a process works with while it holds the feature's lock.
struct Session<'a> {
    project: &'a Project,
    paths: &'a FeaturePaths,
    ui: &'a Ui,
    display: Display,
    options: &'a Options,
    config: Config,
    isolation: Isolation,
    containers: Option<Containers>,
}

/// A run that this process is about to drive, and what has happened in it so far.
struct Begun {
    run: Run,
    opening: Opening,
}

impl Begun {
    /// Records an event before the run is driven.
    fn note(&mut self, journal: &mut Journal, event: &Event) -> Result<()> {
        record(&mut self.run, journal, now(), event)?;
        self.opening.tell(event, &self.run);
        Ok(())
    }
}

impl Session<'_> {
    fn start(&self, journal: &mut Journal) -> Result<Begun> {
        let Session { project, paths, options, ref display, .. } = *self;
        let start = project.head_commit()?;
        let tree = specs::start_tree(&project.git(), &start)?;
        let file = specs::load_graph(paths, &tree)?;
        let (graph, problems) = specs::valid_graph(paths, &file, Some(&tree), self.config.graph_rules())?;
        specs::warnings(&problems).for_each(|warning| display.warn(warning));
        check_intent(options.intent, &graph, None)?;
        let ground = self.ground(&graph, None);
        self.check(&ground)?;
        worktrees::settle(project, paths, None, &self.config)?;
        self.warn_of_cost(&graph);
        let policy = Policy { roster: self.roster(&graph), ..self.policy(None) };
        let setup = setup(&ground, file, project.head_branch()?, start, policy)?;
        let mut run = Run::start(now(), &setup).map_err(|why| Error::new(Kind::Invalid, why))?;
        let mut opening = Opening::default();
        let started = record_start(&run, journal)?;
        if options.intent != Intent::Complete {
            let event = self.resumed(options.intent, None, &graph)?;
            record(&mut run, journal, now(), &event)?;
        }
        opening.tell(&started, &run);
        Ok(Begun { run, opening })
    }

    fn resume(
        &self,
        journal: &mut Journal,
        run: Run,
        start: Oid,
        changed: Option<(GraphFile, TaskGraph)>,
    ) -> Result<Begun> {
        let graph = changed.as_ref().map_or(&**run.graph(), |(_, graph)| graph);
        check_intent(self.options.intent, graph, Some(&run))?;
        check_target(&run, &self.policy(Some(&run)))?;
        changed_config::check(&run, &self.config, self.options.accept_config, &self.display)?;
        self.check(&self.ground(graph, Some(&run)))?;
        worktrees::settle(self.project, self.paths, Some(&run), &self.config)?;
        let resumed = self.resumed(self.options.intent, Some(&run), graph)?;
        let mut events = Vec::new();
        if start != run.setup().start {
            let git_config = self.project.pinned_config()?.0;
            events.push(Event::Started(Box::new(Setup { start, git_config, ..run.setup().clone() })));
        }
        events.extend(changed.map(|(file, _)| Event::Replanned { graph: Box::new(file) }));
        events.push(resumed);
        let opening = Opening::of(&run);
        let mut begun = Begun { run, opening };
        for event in &events {
            begun.note(journal, event)?;
        }
        if begun.run.ended() == Some(&End::Blocked) {
            for task in self.marked_done(&begun.run) {
                begun.note(journal, &tasks::adopt(task))?;
            }
        }
        Ok(begun)
    }

    /// Runs the preflight checks, and says what new worktrees get from the main checkout.
    fn check(&self, ground: &Ground<'_>) -> Result<()> {
        let report = preflight::check(ground)?;
        report.conclude(|warning| self.display.warn(warning))?;
        if self.options.sandbox.unwrap_or(self.config.sandbox.mode) == SandboxMode::Auto
            && let Some(weaker) = sandbox::why_weaker(self.isolation)
        {
            self.display.warn(format!("the sandbox is {weaker}; `mahabharatha help security` says what each stops"));
        }
        let warm = report.checks.iter().filter(|check| check.name == WARM && check.status == CheckStatus::Ok);
        warm.for_each(|check| self.display.note(check.message.clone()));
        Ok(())
    }

    /// Returns the tasks that the user marked as done in the feature's task list. During a run the list's mirror
    /// reports them.
    fn marked_done(&self, run: &Run) -> Vec<TaskId> {
        let list = self.config.claude_tasks.enabled.then(|| TaskList::of(self.project, self.paths.feature()).ok());
        let claims = list.flatten().and_then(|list| list.claims(&RunView::of(run), run.graph()).ok());
        claims.unwrap_or_default()
    }

    fn ground<'a>(&'a self, graph: &'a TaskGraph, run: Option<&Run>) -> Ground<'a> {
        let Session { project, paths, ref config, options, .. } = *self;
        let (agent, workers) = (options.agent.as_deref(), self.policy(run).workers);
        let (launches, isolation, containers) =
            (!options.intent.is_session(), self.isolation, self.containers.as_ref());
        Ground {
            project,
            paths,
            config,
            graph,
            launches,
            agent,
            workers,
            isolation,
            containers,
            resumed: run.is_some(),
            executes: true,
        }
    }

    /// Warns if the run is likely to reach its budget before its end.
    fn warn_of_cost(&self, graph: &TaskGraph) {
        let Policy { workers, max_usd: Some(budget), .. } = self.policy(None) else { return };
        let feature = self.paths.feature();
        let history = history::load(self.project, feature, None).history;
        let assumptions = Assumptions { workers, agent: self.options.agent.clone(), model: None };
        let cost = history::estimate(graph, &self.config, &history, &assumptions).total.cost;
        let planned = self.paths.planning_cost().unwrap_or_default().known_usd();
        if let Some(p90) = cost.p90_usd.map(|p90| p90 + planned).filter(|p90| *p90 > budget) {
            self.display.warn(format!(
                "by earlier runs this one may cost {p90:.2} USD (P90), more than its budget of {budget:.2} USD, at which \
                 it pauses; see `mahabharatha estimate {feature}`"
            ));
        }
    }

    /// Removes logs of the feature that are older than the configuration keeps them.
    fn remove_old_logs(&self) {
        let Some(time) = self.config.logs.keep.and_then(|keep| SystemTime::now().checked_sub(keep)) else { return };
        for dir in ["workers", "tasks", "gates"].map(|dir| self.paths.logs().join(dir)) {
            if let Err(error) = log_file::remove_older(&dir, time) {
                self.display.warn(format!("old logs in {} are not removed: {error}", dir.display()));
            }
        }
    }

    /// Returns the event by which this process takes over the run.
    fn resumed(&self, intent: Intent, run: Option<&Run>, graph: &TaskGraph) -> Result<Event> {
        let planning = self.paths.planning_cost()?;
        let policy = Policy { roster: self.roster(graph), ..self.policy(run) };
        Ok(Event::Resumed { policy, intent, planning })
    }

    /// Returns which agents make the attempts, by the configuration and the history.
    fn roster(&self, graph: &TaskGraph) -> Roster {
        history::assign(self.project, &self.config, graph, self.options.agent.as_deref()).roster
    }

    /// Returns the policy of this process. A number of workers set by `scale` holds unless the user gives another one.
    fn policy(&self, run: Option<&Run>) -> Policy {
        let Options { workers, schedule, allow_red_base, max_cost, no_wait, intent, .. } = *self.options;
        let workers = workers.or_else(|| run?.scaled());
        let policy = self.config.policy(self.isolation, workers, allow_red_base, max_cost);
        let schedule = schedule.unwrap_or(policy.schedule);
        let policy = Policy { waits_for_limits: !no_wait, schedule, ..policy };
        if intent.is_session() { claims::policy(policy) } else { policy }
    }

    /// Applies the requested events, then drives the run to its end; for a session, only until nothing is in progress
    /// but the tasks that sessions hold. Returns none if the run has not ended.
    fn drive(
        self,
        journal: Journal,
        begun: Begun,
        leases: Vec<PortLease>,
        asked: Vec<Event>,
    ) -> Result<(Run, Option<End>)> {
        let Session { project, paths, ui, display, options, config, containers, .. } = self;
        let Begun { mut run, opening } = begun;
        become_subreaper()?;
        host::cleanup::remove_stale_locks(project, paths);
        host::cleanup::remove_half_made_worktrees(project, paths)?;
        let (warn, warn_of_notices) = (display.warnings(), display.warnings());
        let channels = Channels::of(project, &config);
        let reporter = Arc::new(Reporter::start(project, paths, &run, display, opening));
        match channels {
            Ok(Some(channels)) => reporter.notify(Notifier::start(channels, &run, warn_of_notices)),
            Ok(None) => {}
            Err(error) => warn(format!("notify.command: {error}")),
        }
        let list = config.claude_tasks.enabled.then(|| TaskList::of(project, paths.feature()));
        let settings = Settings { config, agent: options.agent.clone(), ports: leases, containers };
        let context = Context::new(project, paths, &run, settings)?;
        let mut host = LocalHost::new(context, run.updated_at())?;
        match list {
            Some(Ok(list)) => reporter.mirror(Mirror::start(list, &run, warn, host.sender())),
            Some(Err(error)) => warn(error.to_string()),
            None => {}
        }
        let mut recorder = Recorder { journal, reporter: Arc::clone(&reporter), events: host.sender() };
        let end = match options.intent {
            Intent::Session(None) => {
                let drives = options.lease.as_ref().is_some_and(|lease| lease.drives);
                claims::take_part(&mut run, &mut recorder, &mut host, asked, drives).map(|()| run.ended().cloned())
            }
            _ => drive(&mut run, &mut recorder, &mut host).map(Some),
        };
        crash::point(|| "session at the end");
        if end.is_err() {
            host.cancel_all();
        }
        host.finish();
        // What is ours now was left behind by workers. The command that tells the last notice was not.
        proc::end_orphans();
        let removed = host::jobs::remove_containers(paths);
        let is_read = reporter.finish();
        // No process of the run may outlive the command.
        proc::end_descendants(std::time::Duration::ZERO);
        if let Err(error) = removed {
            ui.warn(&error.to_string());
        }
        crash::point(|| "session with its files written");
        let end = end?;
        if !is_read && end == Some(End::Stopped) {
            // A stopped run ends without waiting for the reader of its last lines.
            ui.close();
        }
        Ok((run, end))
    }
}

/// Makes this process the parent of processes that dying workers leave behind.
fn become_subreaper() -> Result<()> {
    proc::become_subreaper().map_err(Error::caused("cannot adopt the processes of dying workers"))
}

fn setup(ground: &Ground<'_>, graph: GraphFile, base_branch: String, start: Oid, policy: Policy) -> Result<Setup> {
    Ok(Setup {
        feature: ground.paths.feature().clone(),
        graph,
        base_branch,
        start,
        git_config: ground.project.pinned_config()?.0,
        policy,
        planning: ground.paths.planning_cost()?,
    })
}

/// Appends events to the journal, then passes them to the reporter.
struct Recorder {
    journal: Journal,
    reporter: Arc<Reporter>,
    events: Sender<Event>,
}

impl mahabharatha_core::run::Journal for Recorder {
    type Error = Error;

    fn append(&mut self, now: Time, event: &Event) -> Result<()> {
        self.journal.append(now, event)?;
        self.reporter.recorded(now, event);
        if let Some(aside) = self.journal.take_tampered_copy() {
            let note = Note::JournalPutBack { aside: aside.display().to_string() };
            let _ = self.events.send(Event::Noted { level: None, note });
        }
        Ok(())
    }
}

/// Writes the plan for the user: the assignment of tasks to workers.
fn write_plan(paths: &FeaturePaths, run: &Run, leases: &[PortLease]) -> Result<()> {
    let graph = run.graph();
    let plan = Plan::new(graph, run.policy().workers);
    let ports: Vec<Vec<u16>> = leases.iter().map(|lease| lease.ports.clone()).collect();
    let worktrees = paths.worktrees();
    let root = paths.home().parent().unwrap_or(paths.home());
    let worktrees = worktrees.strip_prefix(root).unwrap_or(&worktrees).to_string_lossy();
    let assignments = worker_assignments(&plan, graph, &ports, &worktrees);
    let text = serde_json::to_string_pretty(&assignments).expect("assignments have string keys only") + "\n";
    write_atomic(&paths.assignments(), text.as_bytes())
}

/// Returns the current time.
pub fn now() -> Time {
    Time(Timestamp::now().as_millisecond())
}
