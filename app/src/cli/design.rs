//! `design`: turns approved requirements into a valid task graph.

use std::path::PathBuf;

use clap::Args;
use mahabharatha_core::config::Config;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::design::{Design, Proposal, skeleton, stubs_fail, too_late, unreadable};
use mahabharatha_core::graph::{Problem, StartTree};
use mahabharatha_core::plan::Plan;
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::{GraphFile, Requirements};
use mahabharatha_engine::claude::tasks::Phase;
use mahabharatha_engine::confinement::Confinement;
use mahabharatha_engine::host::jobs;
use mahabharatha_engine::report::files::{self, Checkpoint};
use mahabharatha_engine::report::plan::render_plan;
use mahabharatha_engine::report::text::{branch_name, cost_phrase, count};
use mahabharatha_engine::report::{extended, human_duration};
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::specs;
use mahabharatha_setup::planning::{
    self, ApprovalStatus, Asker, Commit, DesignFiles, Designed, Provenance, Role, ScratchCheckout, Source,
};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;
use serde_json::json;

use super::exit::ExitCode;
use super::{Global, plan, validate};

#[derive(Debug, Args)]
pub struct DesignArgs {
    /// The feature to design
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Agent that designs it, or none for a skeleton [default: the configured agent]
    #[arg(long, value_name = "NAME|none", conflicts_with = "from_graph")]
    agent: Option<String>,
    /// Use this graph instead of asking an agent; - reads standard input
    #[arg(long, value_name = "FILE")]
    from_graph: Option<PathBuf>,
    /// Check the graph and list every problem; change nothing
    #[arg(long, conflicts_with_all = ["agent", "from_graph", "commit", "no_commit", "force"])]
    validate_only: bool,
    /// Let this Claude Code session design the feature: its next calls and its drafts need no permission; changes nothing
    #[arg(long, conflicts_with_all = ["agent", "from_graph", "validate_only", "commit", "no_commit", "force"])]
    begin: bool,
    /// Commit the design and its stubs, once their check passed
    #[arg(long, conflicts_with = "no_commit")]
    commit: bool,
    /// Do not commit
    #[arg(long)]
    no_commit: bool,
    /// Also if the requirements are not approved, or if a run has begun
    #[arg(long)]
    force: bool,
}

pub fn run(global: &Global, ui: &Ui, args: &DesignArgs) -> Result<ExitCode> {
    if args.validate_only {
        return validate::run(&global.known_place(args.feature.as_deref())?, ui);
    }
    let place = global.place(args.feature.as_deref())?;
    if args.begin {
        check_requirements(&place, planning::approval_status(&place.project, &place.paths)?)?;
        return plan::begin(&place, ui);
    }
    let _lock = FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())?
        .map_err(|holder| holder.refusal(&place.feature))?;
    jobs::end_escaped(&place.paths.planning_mark());
    let config = specs::load_config(&place.project)?;
    planning::exit_on_signals(ExitCode::Stopped as i32)?;
    let designing = Designing::new(&place, ui, args, &config)?;
    let mut code = ExitCode::Done;
    let drawn = planning::show_in_task_list(ui, &place.project, &place.feature, Phase::Design, || {
        match designing.draw_up(global)? {
            Ok((designed, author, cost)) => {
                designing.finish(&designed, &author, cost)?;
                Ok(!args.asks_for_form())
            }
            Err(problems) => {
                code = ExitCode::Invalid;
                designing.refuse(&problems).map(|()| false)
            }
        }
    });
    // A failed design has a cost too.
    let shown = control::show_planning_cost(&place);
    drawn.and(shown).map(|()| code)
}

impl DesignArgs {
    pub(super) fn feature(&self) -> Option<&str> {
        self.feature.as_deref()
    }

    /// Tells whether a session that designs the feature itself may make this call: it asks no agent and forces nothing.
    pub(super) fn is_for_sessions(&self) -> bool {
        (self.begin || self.validate_only || self.from_graph.is_some()) && !self.force
    }

    fn asks_for_form(&self) -> bool {
        self.agent.as_deref() == Some("none")
    }
}

/// Whether to commit the design.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Committing {
    Yes,
    No,
    Asked,
}

struct Designing<'a> {
    place: &'a Place,
    ui: &'a Ui,
    args: &'a DesignArgs,
    config: &'a Config,
    committing: Committing,
    approval_status: ApprovalStatus,
    requirements: String,
    start: StartTree,
    /// The run of the feature, if it has begun.
    begun: Option<Run>,
    run_cost: Cost,
}

type Drawn = (Designed, String, Cost);

impl<'a> Designing<'a> {
    /// Checks everything that could fail before an agent is asked for a design.
    fn new(place: &'a Place, ui: &'a Ui, args: &'a DesignArgs, config: &'a Config) -> Result<Designing<'a>> {
        let approval_status = planning::approval_status(&place.project, &place.paths)?;
        let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
        let start = session::start_commit(&place.project, run.as_ref())?;
        let run_cost = run.as_ref().map(Run::attempts_cost).unwrap_or_default();
        let begun = run.filter(Run::has_begun);
        if !args.force {
            check_requirements(place, approval_status)?;
            check_not_begun(place, begun.as_ref())?;
        }
        let committing = committing(ui, args)?;
        if committing != Committing::No {
            check_committable(place)?;
        }
        let requirements = planning::read_document(&place.paths.requirements())?.unwrap_or_default();
        let start = specs::start_tree(&place.project.git(), &start)?;
        Ok(Designing { place, ui, args, config, committing, approval_status, requirements, start, begun, run_cost })
    }

    /// Returns a valid design with its author and cost, or all its problems.
    fn draw_up(&self, global: &Global) -> Result<Result<Drawn, Vec<Problem>>> {
        let Place { project, feature, paths } = self.place;
        let identity = project.identity()?.name;
        let requirements = Requirements::parse(&self.requirements);
        if let Some(path) = &self.args.from_graph {
            let text = planning::read_source(&Source::File(path.clone()), &global.directory, project, self.ui)?;
            let design = Design::of_requirements(&requirements);
            let graph = GraphFile::parse(&text).map_err(|error| format!("{}: {error}", path.display()));
            let proposal = graph.map(|graph| Proposal { design, graph });
            let cost = planning::count_session(paths, "design")?;
            return Ok(self.judge(proposal)?.map(|designed| (designed, identity, cost)));
        }
        if self.args.asks_for_form() {
            let form = planning::form(&self.start, &requirements, skeleton(feature));
            return Ok(form
                .and_then(|form| self.check_replannable(form))
                .map(|form| (form, identity, Cost::default())));
        }
        let asker = match self.args.agent.as_deref() {
            Some(name) => Asker::named(name, Role::Architect, self.config, project, paths)?,
            None => Asker::default_one(Role::Architect, self.config, project, paths)
                .map_err(|error| error.detail("other ways: --agent NAME, --from-graph FILE, --agent none"))?,
        };
        let asker = asker.after_run(self.run_cost);
        let judge = |proposal| self.judge(proposal);
        let drawn = planning::ask_architect(self.ui, &asker, feature, &self.requirements, judge)?;
        Ok(drawn.map(|designed| (designed, asker.name().to_owned(), asker.cost())))
    }

    fn judge(&self, proposal: Result<Proposal, String>) -> Result<Result<Designed, Vec<Problem>>> {
        let Place { project, paths, .. } = self.place;
        let proposal = match proposal {
            Ok(proposal) => proposal,
            Err(why) => return Ok(Err(vec![unreadable(why)])),
        };
        let requirements = Requirements::parse(&self.requirements);
        let judged = planning::judge(project, paths, &self.start, &requirements, proposal);
        let designed = match judged.and_then(|designed| self.check_replannable(designed)) {
            Ok(designed) => designed,
            Err(problems) => return Ok(Err(problems)),
        };
        Ok(match self.check_stubs(&designed.design)? {
            Ok(()) => Ok(designed),
            Err(output) => Err(vec![stubs_fail(output)]),
        })
    }

    /// Returns the design if a run that has begun can continue with it.
    fn check_replannable(&self, designed: Designed) -> Result<Designed, Vec<Problem>> {
        let Some(run) = &self.begun else { return Ok(designed) };
        let mut reasons = run.cannot_replan(&designed.file);
        let stubs = designed.design.stub_files();
        reasons
            .extend(stubs.map(|(path, _)| format!("the run has begun without the stub {path}; a task may create it")));
        if reasons.is_empty() { Ok(designed) } else { Err(reasons.into_iter().map(too_late).collect()) }
    }

    /// Checks the stubs. The command comes from the design, so it runs only if the user or a flag allows it.
    fn check_stubs(&self, design: &Design) -> Result<Result<(), String>> {
        let Some(check) = design.stub_check.as_ref().filter(|_| !design.stubs.is_empty()) else { return Ok(Ok(())) };
        let wanted = match self.committing {
            Committing::Yes => true,
            Committing::No => false,
            Committing::Asked => {
                let stubs = count(design.stubs.len(), "stub");
                self.confirm(&format!("Check the {stubs} with `{}`?", check.command))?
            }
        };
        if !wanted {
            self.ui.warn(&format!("the stubs are not checked; this does it: {}", check.command));
            return Ok(Ok(()));
        }
        self.ui.note(&format!("checking the stubs: {}", check.command));
        let env = proc::base_env(&self.config.env.pass);
        let mark = proc::own_mark(&self.place.paths.planning_mark());
        let Place { project, paths, .. } = &self.place;
        let scratch = ScratchCheckout::open(project)?;
        let confinement = Confinement::choose(&self.config.sandbox)?;
        let sandbox = scratch.sandbox(project, paths.specs(), &confinement)?;
        scratch.check_stubs(&sandbox, check, design.stub_files(), env, &mark)
    }

    fn confirm(&self, question: &str) -> Result<bool> {
        match self.ui.confirm(question, "--commit or --no-commit") {
            Ok(yes) => Ok(yes),
            // Do not fail: the design exists and may have cost money.
            Err(unanswered) if unanswered.ended => {
                self.ui.warn("no answer, which counts as no");
                Ok(false)
            }
            Err(unanswered) => Err(Error::new(Kind::Usage, unanswered.to_string())),
        }
    }

    fn refuse(&self, problems: &[Problem]) -> Result<()> {
        if self.ui.json() {
            validate::print_json(self.ui, problems);
            return Ok(());
        }
        let error = Error::new(Kind::Invalid, "the design is invalid; nothing was written");
        let error = problems.iter().fold(error, |error, problem| error.detail(specs::problem_line(problem)));
        Err(error.hint("`mahabharatha help task-graph` tells the form of a graph, and what to do about each problem."))
    }

    fn finish(&self, designed: &Designed, author: &str, cost: Cost) -> Result<()> {
        let Place { project, feature, paths } = self.place;
        if planning::read_document(&paths.requirements())?.unwrap_or_default() != self.requirements {
            self.ui.warn("the requirements changed meanwhile; the design follows the old requirements");
        }
        let plan = Plan::new(&designed.graph, self.config.workers.count);
        for warning in &designed.warnings {
            self.ui.warn(&specs::problem_line(warning));
        }
        let form = self.args.asks_for_form();
        if !self.ui.json() && !form {
            let tasks: Vec<_> = designed.graph.tasks().iter().collect();
            let commands = super::run::commands(self.config, &tasks, None)?;
            self.ui.data(&render_plan(&plan, &designed.graph, &commands, self.ui.columns().unwrap_or(100)));
        }
        let approval = planning::approval_line(paths, self.approval_status);
        let keep_document = self.args.from_graph.is_some();
        let provenance = Provenance { author, approval: &approval, keep_document };
        let collected = planning::collect_files(project, paths, designed, &plan, &provenance)?;
        let commit = self.commit(designed, &collected)?;
        self.write(&collected, commit.as_ref())?;
        if self.committing == Committing::Yes {
            planning::end_in_session(paths)?;
        }
        let size = if form { "a form, to be filled in".to_owned() } else { validate::size(&designed.graph) };
        if let Err(error) = files::write_checkpoint(project, paths, &Checkpoint { phase: "Design", status: &size }) {
            // Only a warning: everything important is written.
            self.ui.warn(&error.to_string());
        }
        self.tell(designed, &plan, &collected, commit.as_ref(), cost);
        let (design, graph) = (paths.design(), paths.graph());
        self.ui.note(&if form {
            format!(
                "Fill in {} and {}, then: mahabharatha design {feature} --from-graph {}",
                design.display(),
                graph.display(),
                graph.display()
            )
        } else {
            format!("Next: mahabharatha run {feature} --dry-run, then mahabharatha run {feature}")
        });
        Ok(())
    }

    /// Creates the commit with all files, not yet on the branch; `None` if the user wants none.
    fn commit(&self, designed: &Designed, collected: &DesignFiles) -> Result<Option<Commit>> {
        let Place { project, feature, .. } = self.place;
        let stubs = count(designed.design.stubs.len(), "stub");
        let wanted = match self.committing {
            Committing::Yes => true,
            Committing::No => false,
            Committing::Asked => {
                let branch = project.head_branch()?;
                self.confirm(&format!("Commit the design and {stubs} to {}?", branch_name(&branch)))?
            }
        };
        if !wanted {
            return Ok(None);
        }
        let files = planning::to_commit(project, &self.place.paths, &collected.files)?;
        if files.is_empty() {
            self.ui.note("Git ignores the specs, so there is nothing to commit.");
            return Ok(None);
        }
        let message = format!("design({feature}): {}\n", validate::size(&designed.graph));
        let commit = ScratchCheckout::open(project)?.commit(project, &files, &message)?;
        if commit.is_none() {
            self.ui.note("All of it is committed already.");
        }
        Ok(commit)
    }

    /// Writes the files and moves the branch, all of it or nothing.
    fn write(&self, collected: &DesignFiles, commit: Option<&Commit>) -> Result<()> {
        let _whole = planning::uninterrupted();
        let applied = collected.files.apply()?;
        if let Some(commit) = commit
            && let Err(error) = commit.land(&self.place.project)
        {
            drop(applied);
            commit.unstage();
            return Err(error);
        }
        applied.keep();
        Ok(())
    }

    fn tell(&self, designed: &Designed, plan: &Plan, collected: &DesignFiles, commit: Option<&Commit>, cost: Cost) {
        let Place { feature, paths, .. } = self.place;
        let width = planning::width(&designed.graph);
        let stubs: Vec<String> = designed.design.stub_files().map(|(path, _)| path).collect();
        if self.ui.json() {
            let data = json!({
                "feature": feature.as_str(), "design": paths.design(), "graph": paths.graph(), "stubs": stubs,
                "kept": collected.kept, "commit": commit.map(|commit| &commit.commit), "problems": designed.warnings,
                "criteria": designed.criteria, "width": width, "plan": plan,
            });
            self.ui.data(&serde_json::to_string_pretty(&extended(data, cost)).expect("it has string keys only"));
            return;
        }
        let cost = cost_phrase(cost).map(|cost| format!(" ({cost})")).unwrap_or_default();
        if !self.args.asks_for_form() {
            self.ui.note(&format!(
                "{feature}: {}, at most {width} at once; critical path {}; {} worth having{cost}",
                validate::size(&designed.graph),
                human_duration(plan.critical_path.length),
                match plan.best_workers {
                    1 => "1 worker is".to_owned(),
                    more => format!("{more} workers are"),
                }
            ));
        }
        for kept in &collected.kept {
            self.ui.note(&format!("The previous version is in {}.", kept.display()));
        }
        match commit {
            Some(commit) => {
                self.ui.note(&format!("Committed to {} ({}).", branch_name(&commit.branch), commit.commit.short()));
            }
            None if stubs.is_empty() => self.ui.note(&format!("Written to {}.", paths.specs().display())),
            None => self.ui.warn(&format!("a run begins when these stubs are committed: {}", stubs.join(", "))),
        }
    }
}

fn check_requirements(place: &Place, approval_status: ApprovalStatus) -> Result<()> {
    let Place { feature, paths, .. } = place;
    let (message, hint) = match approval_status {
        ApprovalStatus::Approved => return Ok(()),
        ApprovalStatus::Missing => (
            format!("{feature} has no requirements"),
            format!("Write them first: mahabharatha plan {feature}. Or design without: --force."),
        ),
        ApprovalStatus::Draft | ApprovalStatus::Changed => (
            format!("the requirements of {feature} are {approval_status}: {}", paths.requirements().display()),
            format!("Approve them first: mahabharatha plan {feature} --approve. Or design without: --force."),
        ),
    };
    Err(Error::new(Kind::Invalid, message).hint(hint))
}

/// Refuses to change the graph of a run that has begun.
fn check_not_begun(place: &Place, begun: Option<&Run>) -> Result<()> {
    if begun.is_none() {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, format!("a run of {} with the current graph has begun", place.feature))
        .hint("Plan what is new as another feature, or change what is not done yet: --force."))
}

fn committing(ui: &Ui, args: &DesignArgs) -> Result<Committing> {
    // A form is not committed unless the user asks for it.
    if args.no_commit || (args.asks_for_form() && !args.commit) {
        return Ok(Committing::No);
    }
    if args.commit || ui.yes() {
        return Ok(Committing::Yes);
    }
    if ui.can_ask() {
        return Ok(Committing::Asked);
    }
    let message = "\"Commit the design?\" cannot be asked without a terminal; answer it with --commit or --no-commit";
    Err(Error::new(Kind::Usage, message))
}

fn check_committable(place: &Place) -> Result<()> {
    let project = &place.project;
    project.head_branch()?;
    if project.checkout() != project.root() {
        let message = "the specs are in the main checkout, and are committed from there";
        return Err(Error::new(Kind::Usage, message).hint(format!(
            "Go there, or name it: -C {}. Or leave committing: --no-commit.",
            project.root().display()
        )));
    }
    match project.operations_in_progress().first() {
        None => Ok(()),
        Some((what, finish)) => Err(Error::new(Kind::Preflight, format!("{what} is under way"))
            .hint(format!("Finish it: `{finish}`, or leave committing to later: --no-commit."))),
    }
}
