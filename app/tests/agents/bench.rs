//! A repository whose agent is a real coding agent, which talks to a scripted API.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::coding_agents;
use crate::model_api::{Api, Ask, Turn};
use crate::support::{Background, Ran, Repo};

/// A coding agent, and what a test must know of it.
pub struct Agent {
    /// The name of its profile.
    pub name: &'static str,
    pub program: &'static str,
    /// Whether CI installs it. Other agents are tested where they are found.
    pub is_pinned: bool,
    /// Whether it says how many tokens it used.
    pub tells_tokens: bool,
    /// Whether it offers the model tools.
    pub has_tools: bool,
    /// The keys under its name in the configuration that lead it to the API at this address.
    pub config: fn(&str) -> String,
    /// The model that the API must be asked for; empty for the agent's own default.
    pub model: &'static str,
    /// Variables of the user.
    pub env: &'static [(&'static str, &'static str)],
    /// The variable with the address of the API, and the path that is added to it.
    pub address: Option<(&'static str, &'static str)>,
    /// The cases of the table that do not apply to it.
    pub leaves_out: &'static [&'static str],
}

pub struct Bench {
    pub repo: Repo,
    pub api: Api,
    pub agent: &'static Agent,
    /// A directory that no agent may write to.
    pub outside: tempfile::TempDir,
    path: OsString,
}

impl Bench {
    /// Returns nothing where the agent is not installed; the test says so, and for a pinned agent CI fails.
    pub fn new(agent: &'static Agent, model: impl Fn(&Ask, &Path) -> Turn + Send + Sync + 'static) -> Option<Bench> {
        let Some(program) = coding_agents::program(agent.program) else {
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!(in_ci && agent.is_pinned), "{} is not installed", agent.program);
            eprintln!("NOT TESTED: {} is not installed", agent.name);
            return None;
        };
        let outside = tempfile::tempdir().unwrap();
        let beyond = outside.path().to_owned();
        // Without tools an agent asks for the title of the session and the like, unless it never offers any.
        let api = Api::start(move |ask| match ask.has_tools() || !agent.has_tools {
            true => model(ask, &beyond),
            false => Turn::says("A title"),
        });
        let repo = Repo::new();
        let of_agent: String = (agent.config)(&api.url()).lines().map(|line| format!("    {line}\n")).collect();
        repo.config(&format!(
            "agent: {name}\nagents:\n  {name}:\n{of_agent}retry: {{ base_seconds: 0, max_seconds: 0 }}\n\
             workers: {{ count: 3 }}\nsandbox: bwrap\n",
            name = agent.name
        ));
        repo.commit("configured");
        let own = program.parent().unwrap().to_owned();
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&others))).unwrap();
        Some(Bench { repo, api, agent, outside, path })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.repo.command(args);
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.repo.home())
            .envs(std::env::var_os("TMPDIR").map(|dir| ("TMPDIR", dir)))
            .envs(self.agent.env.iter().copied())
            .envs(self.agent.address.map(|(name, path)| (name, self.api.url() + path)));
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn spawn(&self, args: &[&str]) -> Background {
        Background::start(self.command(args))
    }
}

/// A task that creates a file of its name.
pub fn task(id: &str) -> Value {
    json!({
        "id": id, "title": format!("Make {id}.txt"), "level": 1,
        "files": { "create": [format!("{id}.txt")], "modify": [], "read": [] }, "dependencies": [],
        "verification": { "command": format!("grep -q {id} {id}.txt"), "timeout_seconds": 30 },
    })
}

/// Writes the task's file, then says that it is done.
pub fn works(ask: &Ask) -> Turn {
    let id = ask.task();
    match ask.turn {
        0 => Turn::writes(&ask.file(&format!("{id}.txt")), &format!("{id}\n")),
        _ => Turn::says("Done."),
    }
}
