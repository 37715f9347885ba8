//! Lists the agents that a project can use, and which of them are installed. Executes nothing of the repository.

use std::path::Path;

use mahabharatha_core::config::{AgentConfig, Config};
use serde::Serialize;

use super::check::{LoginState, login_state, version};
use super::find_program;

/// An agent as `agents` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedAgent {
    pub name: String,
    /// The shipped profile that it extends.
    pub kind: String,
    pub format: &'static str,
    /// None for the agent's own default.
    pub model: Option<String>,
    pub installed: bool,
    /// None if it is not installed, or does not tell.
    pub version: Option<String>,
    /// The variable or file by which it is logged in; none if that is unknown.
    pub login: Option<String>,
    /// Does tasks that name no agent.
    #[serde(rename = "default")]
    pub is_default: bool,
}

/// Returns all agents with a program. Programs of the repository are not asked for their version.
pub fn list(config: &Config, root: &Path) -> Vec<ListedAgent> {
    let agents = config.agents.iter().filter(|(_, agent)| !agent.command.is_empty());
    // Some take seconds to start.
    std::thread::scope(|scope| {
        let started: Vec<_> =
            agents.map(|(name, agent)| scope.spawn(move || listed(name, agent, root, name == &config.agent))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

fn listed(name: &str, agent: &AgentConfig, root: &Path, is_default: bool) -> ListedAgent {
    let found = agent.command.first().and_then(|program| find_program(root, program));
    let is_shipped = AgentConfig::shipped().get(&agent.kind).is_some_and(|shipped| shipped.command == agent.command);
    let is_elsewhere = found.as_ref().is_some_and(|path| !path.starts_with(root));
    let asks = is_shipped && is_elsewhere && agent.is_coding_agent();
    ListedAgent {
        name: name.to_owned(),
        kind: agent.kind.clone(),
        format: agent.format.as_str(),
        model: agent.model.clone(),
        installed: found.is_some(),
        version: if asks { version(root, Path::new("/"), agent) } else { None },
        login: match login_state(agent) {
            LoginState::Present(by) => Some(by),
            LoginState::Unknown => None,
        },
        is_default,
    }
}
