//! Turns approved requirements into a valid task graph, and commits it if the user wants that.

use std::path::{Path, PathBuf};

use mahabharatha_core::config::Config;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::design::{Design, Proposal, skeleton, stubs_fail, too_late, unreadable};
use mahabharatha_core::graph::{Problem, StartTree};
use mahabharatha_core::plan::Plan;
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::{GraphFile, Requirements};
use mahabharatha_engine::agent;
use mahabharatha_engine::claude::tasks::Phase;
use mahabharatha_engine::confinement::Confinement;
use mahabharatha_engine::host::jobs;
use mahabharatha_engine::report::files::{self as report_files, Checkpoint};
use mahabharatha_engine::report::plan::render_plan;
use mahabharatha_engine::report::text::{amount, cost_phrase, count, graph_size};
use mahabharatha_engine::report::{extended, human_duration};
use mahabharatha_engine::session::{self, control, undo};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::git::short_branch;
use mahabharatha_sys::proc;
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::{Authoring, FeatureLock};
use mahabharatha_sys::ui::{Style, Ui};
use serde_json::json;

use super::approval::{ApprovalStatus, approval_line, approval_status, approve};
use super::architect::ask_architect;
use super::asker::{Asker, Role};
use super::client_session::{count_session, end_in_session};
use super::design_files::{self as files, DesignFiles, Designed, Provenance};
use super::documents::read_document;
use super::scratch::{Commit, ScratchCheckout};
use super::signals::uninterrupted;
use super::source::{Source, read_source};
use super::task_list::show_in_task_list;

/// What the user asked `design` for.
pub struct DesignOptions {
    pub author: DesignAuthor,
    /// Whether to commit; without it the user is asked.
    pub commit: Option<bool>,
    /// Also without approved requirements, or if a run has begun.
    pub force: bool,
    /// Ask once for all: requirements, design and the run that follows.
    pub with_run: bool,
}

/// Author of the design.
#[derive(Debug, PartialEq, Eq)]
pub enum DesignAuthor {
    /// The agent of this name, or the configured one.
    Agent(Option<String>),
    /// No author: the graph is in this file.
    Graph(PathBuf),
    /// The user, in a form that is written.
    Form,
}

/// Designs a feature; relative paths start at `directory`. Returns whether the user wants it committed, or the problems of
/// a design that is not valid.
pub fn design(place: &Place, ui: &Ui, directory: &Path, options: &DesignOptions) -> Result<Result<bool, Vec<Problem>>> {
    let lock = FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())?
        .map_err(|holder| holder.refusal(&place.feature))?;
    lock.announce(Authoring::Design)?;
    jobs::end_escaped(&place.paths.planning_mark());
    let config = specs::load_config(&place.project)?;
    let designing = Designing::new(place, ui, options, &config)?;
    let work = || match designing.draw_up(directory)? {
        Ok((designed, author, cost)) => designing.finish(&designed, &author, cost).map(Ok),
        Err(problems) => Ok(Err(problems)),
    };
    let is_completed = |drawn: &Result<bool, _>| drawn.is_ok() && options.author != DesignAuthor::Form;
    let drawn = show_in_task_list(ui, place, Phase::Design, work, is_completed);
    // A failed design has a cost too.
    let shown = control::show_planning_cost(place);
    drawn.and_then(|drawn| shown.map(|()| drawn))
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
    options: &'a DesignOptions,
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
    fn new(place: &'a Place, ui: &'a Ui, options: &'a DesignOptions, config: &'a Config) -> Result<Designing<'a>> {
        let approval_status = approval_status(&place.project, &place.paths)?;
        let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
        let start = session::start_commit(&place.project, run.as_ref())?;
        let run_cost = run.as_ref().map(Run::attempts_cost).unwrap_or_default();
        let begun = run.filter(Run::has_begun);
        check_not_begun(place, begun.as_ref(), options.force)?;
        if !options.force && !options.with_run {
            check_requirements(place, approval_status)?;
        }
        let committing = committing(ui, options)?;
        if committing != Committing::No {
            check_committable(place)?;
        }
        let requirements = read_document(&place.paths.requirements())?.unwrap_or_default();
        let start = specs::start_tree(&place.project.git(), &start)?;
        Ok(Designing { place, ui, options, config, committing, approval_status, requirements, start, begun, run_cost })
    }

    /// Returns a valid design with its author and cost, or all its problems.
    fn draw_up(&self, directory: &Path) -> Result<Result<Drawn, Vec<Problem>>> {
        let Place { project, feature, paths } = self.place;
        let identity = project.identity()?.name;
        let requirements = Requirements::parse(&self.requirements);
        let asker = match &self.options.author {
            DesignAuthor::Graph(path) => {
                let text = read_source(&Source::File(path.clone()), directory, project, self.ui)?;
                let design = Design::of_requirements(&requirements);
                let graph = GraphFile::parse(&text).map_err(|error| format!("{}: {error}", path.display()));
                let proposal = graph.map(|graph| Proposal { design, graph });
                let cost = count_session(paths, "design")?;
                return Ok(self.check(proposal)?.map(|designed| (designed, identity, cost)));
            }
            DesignAuthor::Form => {
                let form = files::form(&self.start, &requirements, skeleton(feature));
                let form = form.and_then(|form| self.check_replannable(form));
                return Ok(form.map(|form| (form, identity, Cost::default())));
            }
            DesignAuthor::Agent(Some(name)) => Asker::named(name, Role::Architect, self.config, project, paths)?,
            DesignAuthor::Agent(None) => Asker::default_one(Role::Architect, self.config, project, paths)
                .map_err(|error| error.detail("other ways: --agent NAME, --from-graph FILE, --agent none"))?,
        };
        let asker = asker.after_run(self.run_cost);
        let check = |proposal| self.check(proposal);
        let drawn = ask_architect(self.ui, &asker, feature, &self.requirements, check)?;
        Ok(drawn.map(|designed| (designed, asker.name().to_owned(), asker.cost())))
    }

    fn check(&self, proposal: Result<Proposal, String>) -> Result<Result<Designed, Vec<Problem>>> {
        let proposal = match proposal {
            Ok(proposal) => proposal,
            Err(why) => return Ok(Err(vec![unreadable(why)])),
        };
        let requirements = Requirements::parse(&self.requirements);
        let checked = files::check(self.place, &self.start, self.config.graph_rules(), &requirements, proposal);
        let designed = match checked.and_then(|designed| self.check_replannable(designed)) {
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
        match self.ui.confirm(question, if self.options.with_run { "--yes" } else { "--commit or --no-commit" }) {
            Ok(yes) => Ok(yes),
            // Do not fail: the design exists and may have cost money.
            Err(unanswered) if unanswered.ended => {
                self.ui.warn("no answer, which counts as no");
                Ok(false)
            }
            Err(unanswered) => Err(Error::new(Kind::Usage, unanswered.to_string())),
        }
    }

    /// Shows the design, writes it, and commits it if the user wants that.
    fn finish(&self, designed: &Designed, author: &str, cost: Cost) -> Result<bool> {
        let Place { project, feature, paths } = self.place;
        if read_document(&paths.requirements())?.unwrap_or_default() != self.requirements {
            self.ui.warn("the requirements changed meanwhile; the design follows the old requirements");
        }
        let plan = Plan::new(&designed.graph, self.config.workers.count);
        for warning in &designed.warnings {
            self.ui.warn(&specs::problem_line(warning));
        }
        let is_form = self.options.author == DesignAuthor::Form;
        if !self.ui.json() && !is_form {
            let tasks: Vec<_> = designed.graph.tasks().iter().collect();
            let commands = agent::commands(self.config, &tasks, None)?;
            self.ui.data(&render_plan(&plan, &designed.graph, &commands, self.ui.columns().unwrap_or(100)));
        }
        // Approved before the files are made, since the document says who approved the requirements.
        let approved_now = self.options.with_run && self.is_wanted(designed)?;
        let status = if approved_now { ApprovalStatus::Approved } else { self.approval_status };
        let approval = approval_line(paths, status);
        let keep_document = matches!(self.options.author, DesignAuthor::Graph(_));
        let provenance = Provenance { author, approval: &approval, keep_document };
        let collected = files::collect_files(project, paths, designed, &plan, &provenance)?;
        let wanted = if self.options.with_run { approved_now } else { self.is_wanted(designed)? };
        let commit = if wanted { self.commit(designed, &collected)? } else { None };
        self.write(&collected, commit.as_ref())?;
        if self.committing == Committing::Yes {
            end_in_session(paths)?;
        }
        let size = if is_form { "a form, to be filled in".to_owned() } else { graph_size(&designed.graph) };
        if let Err(error) =
            report_files::write_checkpoint(project, paths, &Checkpoint { phase: "Design", status: &size })
        {
            // Only a warning: everything important is written.
            self.ui.warn(&error.to_string());
        }
        self.tell(designed, &plan, &collected, commit.as_ref(), cost);
        let (design, graph) = (paths.design(), paths.graph());
        if self.options.with_run {
            return Ok(wanted);
        }
        self.ui.note(&if is_form {
            format!(
                "Fill in {} and {}, then: mahabharatha design {feature} --from-graph {}",
                design.display(),
                graph.display(),
                graph.display()
            )
        } else {
            format!("Next: mahabharatha run {feature} --dry-run, then mahabharatha run {feature}")
        });
        Ok(wanted)
    }

    /// Returns whether the user wants the design committed. If a run is to follow, that approves the requirements too.
    fn is_wanted(&self, designed: &Designed) -> Result<bool> {
        let Place { project, paths, .. } = self.place;
        if self.options.with_run {
            self.show_whole(designed);
        }
        let wanted = match self.committing {
            Committing::Yes => true,
            Committing::No => false,
            Committing::Asked => {
                let stubs = count(designed.design.stubs.len(), "stub");
                let branch = project.head_branch()?;
                let branch = short_branch(&branch);
                if self.options.with_run {
                    self.confirm(&format!("Approve this, commit the design and {stubs} to {branch}, and run it?"))?
                } else {
                    self.confirm(&format!("Commit the design and {stubs} to {branch}?"))?
                }
            }
        };
        if wanted && self.options.with_run {
            if read_document(&paths.requirements())?.unwrap_or_default() != self.requirements {
                return Err(Error::new(Kind::Invalid, "the requirements were changed after they were shown"));
            }
            approve(project, paths)?;
        }
        Ok(wanted)
    }

    /// Shows what the user approves besides the plan: the requirements, the files of each task.
    fn show_whole(&self, designed: &Designed) {
        let tell = |text: &str| match self.ui.yes() {
            true => self.ui.note(text),
            // The user must see what to approve, even with `--quiet`.
            false => self.ui.tell(Style::Plain, text),
        };
        tell(&format!("\n{}\nFiles:\n", self.requirements.trim()));
        for task in designed.graph.tasks() {
            let files = &task.spec.files;
            let files: Vec<&str> = files.create.iter().chain(&files.modify).map(String::as_str).collect();
            tell(&format!("  {}  {}", task.id, files.join(", ")));
        }
        if let Ok(planning) = self.place.paths.planning_cost() {
            let limit = self.config.budget.max_usd.map(|usd| format!("; limit {usd:.2} USD")).unwrap_or_default();
            tell(&format!("\nCost of planning: {}{limit}", amount(planning)));
        }
    }

    /// Creates the commit with all files, not yet on the branch; `None` if there is nothing to commit.
    fn commit(&self, designed: &Designed, collected: &DesignFiles) -> Result<Option<Commit>> {
        let Place { project, feature, .. } = self.place;
        let files = files::to_commit(project, &self.place.paths, &collected.files)?;
        if files.is_empty() {
            self.ui.note("Git ignores the specs, so there is nothing to commit.");
            return Ok(None);
        }
        let message = format!("design({feature}): {}\n", graph_size(&designed.graph));
        let commit = ScratchCheckout::open(project)?.commit(project, &files, &message)?;
        if commit.is_none() {
            self.ui.note("All of it is committed already.");
        }
        Ok(commit)
    }

    /// Writes the files and moves the branch, all of it or nothing.
    fn write(&self, collected: &DesignFiles, commit: Option<&Commit>) -> Result<()> {
        let _whole = uninterrupted();
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
        let width = files::width(&designed.graph);
        let stubs: Vec<String> = designed.design.stub_files().map(|(path, _)| path).collect();
        if self.ui.json() && self.options.with_run {
            return;
        }
        if self.ui.json() {
            let data = json!({
                "feature": feature.as_str(), "design": paths.design(), "graph": paths.graph(), "stubs": stubs,
                "kept": collected.kept, "commit": commit.map(|commit| &commit.commit), "problems": designed.warnings,
                "criteria": designed.criteria, "width": width, "plan": plan,
            });
            self.ui.pretty(&extended(data, cost));
            return;
        }
        let cost = cost_phrase(cost).map(|cost| format!(" ({cost})")).unwrap_or_default();
        if self.options.author != DesignAuthor::Form {
            self.ui.note(&format!(
                "{feature}: {}, at most {width} at once; critical path {}; {} worth having{cost}",
                graph_size(&designed.graph),
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
                self.ui.note(&format!("Committed to {} ({}).", short_branch(&commit.branch), commit.commit.short()));
            }
            None if stubs.is_empty() => self.ui.note(&format!("Written to {}.", paths.specs().display())),
            None => self.ui.warn(&format!("a run begins when these stubs are committed: {}", stubs.join(", "))),
        }
    }
}

/// Refuses to design from requirements that the user has not approved.
pub fn check_requirements(place: &Place, approval_status: ApprovalStatus) -> Result<()> {
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

/// Refuses to change the graph of a run that has begun, unless forced, and that of an undone feature.
fn check_not_begun(place: &Place, begun: Option<&Run>, force: bool) -> Result<()> {
    let Some(run) = begun else { return Ok(()) };
    undo::refuse_undone(&place.paths, run)?;
    if force {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, format!("a run of {} with the current graph has begun", place.feature))
        .hint("Plan what is new as another feature, or change what is not done yet: --force."))
}

fn committing(ui: &Ui, options: &DesignOptions) -> Result<Committing> {
    match options.commit {
        Some(true) => Ok(Committing::Yes),
        Some(false) => Ok(Committing::No),
        // A form is not committed unless the user asks for it.
        None if options.author == DesignAuthor::Form => Ok(Committing::No),
        None if ui.yes() => Ok(Committing::Yes),
        None if ui.can_ask() => Ok(Committing::Asked),
        None => {
            let question = "\"Commit the design?\" cannot be asked without a terminal";
            Err(Error::new(Kind::Usage, format!("{question}; answer it with --commit or --no-commit")))
        }
    }
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
