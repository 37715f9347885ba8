//! Asks an agent a question while a feature is planned or a project is set up. The agent must not change any file.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_core::config::{AgentConfig, Config};
use mahabharatha_core::cost::Cost;
use mahabharatha_core::prompt::Document;
use mahabharatha_engine::agent::{self, Asked};
use mahabharatha_engine::confinement::Confinement;
use mahabharatha_engine::report::text::amount;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc;
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::costs::Question;
use mahabharatha_sys::ui::Ui;
use serde_json::Value;

use super::documents::read_document;
use super::signals;

/// Role in which an agent is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    ProductOwner,
    Architect,
    Scout,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::ProductOwner => "product-owner",
            Role::Architect => "architect",
            Role::Scout => "scout",
        }
    }

    /// Returns the command that asks in this role.
    fn phase(self) -> &'static str {
        match self {
            Role::ProductOwner => "plan",
            Role::Architect => "design",
            Role::Scout => "init",
        }
    }
}

pub struct Asker<'a> {
    role: Role,
    name: String,
    agent: &'a AgentConfig,
    config: &'a Config,
    root: &'a Path,
    /// None outside a repository.
    project: Option<&'a Project>,
    /// None when the question is about the project and not about a feature.
    paths: Option<&'a FeaturePaths>,
    confinement: Confinement,
    /// Cost of the feature's run so far.
    run_cost: Cost,
    /// Cost of this asker's own questions so far.
    cost: Cell<Cost>,
}

impl<'a> Asker<'a> {
    /// Returns the named agent, or an error that says why it cannot be asked.
    pub fn named(
        name: &str,
        role: Role,
        config: &'a Config,
        project: &'a Project,
        paths: &'a FeaturePaths,
    ) -> Result<Self> {
        let asker = Asker::about_project(name, role, config, project.root(), Some(project))?;
        Ok(Asker { paths: Some(paths), ..asker })
    }

    /// Like `named`, but without a feature and possibly outside a repository.
    pub fn about_project(
        name: &str,
        role: Role,
        config: &'a Config,
        root: &'a Path,
        project: Option<&'a Project>,
    ) -> Result<Self> {
        let agent = agent::named(config, name)?;
        if agent.command.is_empty() {
            return Err(Error::new(Kind::Invalid, format!("the agent {name} has no command configured"))
                .hint(format!("Set agents.{name}.command in .mahabharatha/config.yaml.")));
        }
        agent::check(root, root, name, agent)
            .map_err(|problem| Error::new(Kind::Preflight, format!("{name}: {}", problem.what)).hint(problem.hint))?;
        let (name, run_cost, cost) = (name.to_owned(), Cost::default(), Cell::default());
        let mut confinement = Confinement::choose(&config.sandbox)?;
        if let (Some(project), Some(dir)) = (project, &config.worktrees.dir) {
            confinement.hidden.push(project.worktrees_dir(Some(dir)));
        }
        Ok(Asker { role, name, agent, config, root, project, paths: None, confinement, run_cost, cost })
    }

    /// Returns the default agent if it can be kept from writing, or the reason why there is none.
    pub fn default_one(
        role: Role,
        config: &'a Config,
        project: &'a Project,
        paths: &'a FeaturePaths,
    ) -> Result<Self, Error> {
        let name = config.agent.as_str();
        match config.agent(name) {
            Some(agent) if !agent.is_coding_agent() && !agent.command.is_empty() => {
                let message = format!(
                    "the default agent {name} is a custom command, which could write files, so it must be named explicitly"
                );
                Err(Error::new(Kind::Usage, message).hint(format!("Pass --agent {name}.")))
            }
            _ => Asker::named(name, role, config, project, paths),
        }
    }

    /// Counts the cost of the feature's run against the feature's budget too.
    pub fn after_run(self, run_cost: Cost) -> Self {
        Asker { run_cost, ..self }
    }

    pub fn config(&self) -> &Config {
        self.config
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cost(&self) -> Cost {
        self.cost.get()
    }

    /// Returns the answer, or the reason why it is invalid, worded for the agent.
    pub fn ask(&self, ui: &Ui, prompt: &str, schema: &Value) -> Result<Result<Value, String>> {
        ui.note(&format!("asking {} as the {} …", self.name, self.role.as_str()));
        let pass = [self.config.env.pass.as_slice(), &self.agent.env].concat();
        let mut env = proc::base_env(&pass);
        env.insert("MAHABHARATHA_ROLE".into(), self.role.as_str().into());
        if let Some(paths) = self.paths {
            env.insert("MAHABHARATHA_FEATURE".into(), paths.feature().as_str().into());
            env.insert("MAHABHARATHA_SPEC_DIR".into(), paths.specs().into());
        }
        let max_usd = self.budget()?;
        let before = self.changed_files()?;
        let question = self.note()?;
        let answer = agent::ask(&Asked {
            agent: self.agent,
            name: &self.name,
            root: self.root,
            prompt,
            schema,
            env,
            mark: proc::own_mark(&self.paths.map_or_else(|| self.root.to_owned(), FeaturePaths::planning_mark)),
            timeout: self.config.workers.timeout,
            max_usd,
            confinement: &self.confinement,
        });
        signals::wait_if_exiting();
        self.count(ui, question, answer.cost);
        // If the budget ran out meanwhile, that is why the agent failed: report the budget instead.
        let value = answer.value.or_else(|error| self.budget().and(Err(error)))?;
        let after = self.changed_files()?;
        let changed: Vec<&str> = after.difference(&before).map(String::as_str).collect();
        if !changed.is_empty() {
            ui.warn(&format!(
                "files in your checkout changed while {} was answering: {}",
                self.name,
                changed.join(", ")
            ));
        }
        Ok(value)
    }

    /// Records a question in the cost file before it is asked. Returns None outside a repository.
    fn note(&self) -> Result<Option<Question>> {
        let path = match (self.paths, self.project) {
            (Some(paths), Some(project)) => {
                paths.take_over_setup_costs(project)?;
                Some(paths.planning_costs())
            }
            (Some(paths), None) => Some(paths.planning_costs()),
            (None, Some(project)) => Some(project.setup_costs()),
            (None, None) => Project::locate(self.root)?.as_ref().map(Project::setup_costs),
        };
        path.map(|path| Question::record(&path, self.role.phase(), &self.name)).transpose()
    }

    fn count(&self, ui: &Ui, question: Option<Question>, cost: Cost) {
        self.cost.set(self.cost.get() + cost);
        let _whole = signals::uninterrupted();
        // The user may have created the repository in the meantime.
        let question = question.map_or_else(|| self.note(), |question| Ok(Some(question)));
        if let Err(error) = question.and_then(|question| question.map_or(Ok(()), |question| question.cost(cost))) {
            // Only warn: the answer has arrived and is paid for.
            ui.warn(&error.to_string());
        }
    }

    fn changed_files(&self) -> Result<BTreeSet<String>> {
        Ok(self.project.map(Project::changed_files).transpose()?.unwrap_or_default().into_iter().collect())
    }

    /// Returns the maximum cost of the next question, or an error if the budget is used up.
    fn budget(&self) -> Result<Option<f64>> {
        let budget = &self.config.budget;
        let left = |key, limit: Option<f64>, spent: Cost| {
            let Some(limit) = limit else { return Ok(None) };
            match limit - spent.known_usd() {
                left if left > 0.0 => Ok(Some(left)),
                _ => Err(used_up(key, limit, spent)),
            }
        };
        let own = left("max_usd_per_task", budget.max_usd_per_task, self.cost.get())?;
        let feature = match self.paths {
            None => None,
            Some(paths) => {
                let setup = self.project.map(Project::setup_cost).transpose()?.unwrap_or_default();
                left("max_usd", budget.max_usd, paths.planning_cost()? + setup + self.run_cost)?
            }
        };
        Ok(own.into_iter().chain(feature).reduce(f64::min))
    }

    /// Returns the documents in which the project describes itself, leaving out any that cannot be read.
    pub fn project_documents(&self) -> Vec<(String, String)> {
        [".gsd/PROJECT.md", ".gsd/INFRASTRUCTURE.md", "CLAUDE.md"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), read_document(&self.root.join(name)).ok()??)))
            .filter(|(_, text)| !text.trim().is_empty())
            .collect()
    }
}

fn used_up(key: &str, limit: f64, spent: Cost) -> Error {
    let message = format!("the budget of {limit:.2} USD is used up: {} was spent", amount(spent));
    Error::new(Kind::Paused, message).hint(format!("Raise budget.{key} in .mahabharatha/config.yaml."))
}

pub fn as_documents(documents: &[(String, String)]) -> Vec<Document<'_>> {
    documents.iter().map(|(path, text)| Document { path, text }).collect()
}
