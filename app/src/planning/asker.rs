//! The agent that is asked while a feature is planned or a project set up, and never to change anything.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use mahabharatha_core::config::{AgentConfig, AgentKind, Config};
use mahabharatha_core::prompt::Document;
use serde_json::Value;

use super::documents::read_document;
use super::signals;
use crate::agent::{self, Asked, Spent, claude};
use crate::error::{Error, ExitCode, Result};
use crate::proc;
use crate::project::{FeaturePaths, Project};
use crate::ui::Ui;

/// As whom an agent is asked.
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
}

pub struct Asker<'a> {
    role: Role,
    name: String,
    agent: &'a AgentConfig,
    config: &'a Config,
    root: &'a Path,
    /// None where there is no repository.
    project: Option<&'a Project>,
    /// None where it is asked about the project, and not about a feature.
    paths: Option<&'a FeaturePaths>,
    spent: Cell<Spent>,
}

impl<'a> Asker<'a> {
    /// The agent that was named, or an error that says why it cannot be asked.
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

    /// As `named`, where there is no feature, and perhaps no repository.
    pub fn about_project(
        name: &str,
        role: Role,
        config: &'a Config,
        root: &'a Path,
        project: Option<&'a Project>,
    ) -> Result<Self> {
        let agent = config.agent(name).ok_or_else(|| {
            let known: Vec<&str> = config.agents.keys().map(String::as_str).collect();
            Error::new(ExitCode::Usage, format!("there is no agent {name:?}"))
                .hint(format!("Name one of agents: in .mahabharatha/config.yaml ({}), or none.", known.join(", ")))
        })?;
        match (agent.kind, agent.command.first()) {
            (AgentKind::Claude, _) => {
                claude::check(root, &agent.command, &agent.env).map_err(|trouble| {
                    Error::new(ExitCode::Preflight, format!("{name}: {}", trouble.what)).hint(trouble.hint)
                })?;
            }
            (AgentKind::Command, None) => {
                return Err(Error::new(ExitCode::Invalid, format!("the agent {name} has no command to ask"))
                    .hint(format!("Set agents.{name}.command in .mahabharatha/config.yaml.")));
            }
            (AgentKind::Command, Some(program)) => {
                if agent::find_program(root, program).is_none() {
                    return Err(Error::new(
                        ExitCode::Preflight,
                        format!("{name}: {program} is no program that can be run"),
                    )
                    .hint(format!("Put it there, executable, or change agents.{name}.command.")));
                }
            }
        }
        Ok(Asker { role, name: name.to_owned(), agent, config, root, project, paths: None, spent: Cell::default() })
    }

    /// The default agent, where that is one that can be kept from writing; or why there is none.
    pub fn default_one(
        role: Role,
        config: &'a Config,
        project: &'a Project,
        paths: &'a FeaturePaths,
    ) -> Result<Self, Error> {
        let name = config.agent.as_str();
        match config.agent(name) {
            Some(agent) if agent.kind == AgentKind::Command && !agent.command.is_empty() => {
                let message = format!("{name} is a command, which might write, and is asked only where it is named");
                Err(Error::new(ExitCode::Usage, message).hint(format!("Name it: --agent {name}")))
            }
            _ => Asker::named(name, role, config, project, paths),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn spent(&self) -> Spent {
        self.spent.get()
    }

    /// The answer, or why it is none, for the agent to read.
    pub fn ask(&self, ui: &Ui, prompt: &str, schema: &Value) -> Result<Result<Value, String>> {
        ui.note(&format!("asking {} as the {} …", self.name, self.role.as_str()));
        let mut pass = [self.config.env.pass.as_slice(), &self.agent.env].concat();
        if self.agent.kind == AgentKind::Claude {
            pass.extend(claude::OWN_ENV.iter().map(|name| (*name).to_owned()));
        }
        let mut env = proc::base_env(&pass);
        env.insert("MAHABHARATHA_ROLE".into(), self.role.as_str().into());
        if let Some(paths) = self.paths {
            env.insert("MAHABHARATHA_FEATURE".into(), paths.feature().as_str().into());
            env.insert("MAHABHARATHA_SPEC_DIR".into(), paths.specs().into());
        }
        let max_usd = self.budget()?;
        let before = self.changed_files()?;
        let answer = agent::ask(&Asked {
            agent: self.agent,
            name: &self.name,
            root: self.root,
            prompt,
            schema,
            env,
            mark: proc::own_mark(&self.paths.map_or_else(|| self.root.to_owned(), FeaturePaths::asked)),
            timeout: self.config.workers.timeout,
            max_usd,
        });
        signals::let_end();
        let answer = answer?;
        let after = self.changed_files()?;
        let changed: Vec<&str> = after.difference(&before).map(String::as_str).collect();
        if !changed.is_empty() {
            ui.warn(&format!("files changed in your checkout while {} was asked: {}", self.name, changed.join(", ")));
        }
        let (spent, more) = (self.spent.get(), answer.spent);
        self.spent.set(Spent { cost_usd: spent.cost_usd + more.cost_usd, tokens: spent.tokens + more.tokens });
        Ok(answer.value)
    }

    fn changed_files(&self) -> Result<BTreeSet<String>> {
        Ok(self.project.map(Project::changed_files).transpose()?.unwrap_or_default().into_iter().collect())
    }

    /// What is left of it after what was asked before.
    fn budget(&self) -> Result<Option<f64>> {
        let Some(limit) = self.config.budget.max_usd_per_task else { return Ok(None) };
        let left = limit - self.spent.get().cost_usd;
        if left > 0.0 {
            return Ok(Some(left));
        }
        Err(Error::new(ExitCode::Paused, format!("{} has used up its budget of {limit} USD", self.name))
            .hint("Raise budget.max_usd_per_task in .mahabharatha/config.yaml."))
    }

    /// What the project says about itself; what cannot be read is left out.
    pub fn project_documents(&self) -> Vec<(String, String)> {
        [".gsd/PROJECT.md", ".gsd/INFRASTRUCTURE.md", "CLAUDE.md"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), read_document(&self.root.join(name)).ok()??)))
            .filter(|(_, text)| !text.trim().is_empty())
            .collect()
    }
}

pub fn as_documents(documents: &[(String, String)]) -> Vec<Document<'_>> {
    documents.iter().map(|(path, text)| Document { path, text }).collect()
}
