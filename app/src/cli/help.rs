//! `help`: the help of a command, or a page of the documentation that is built into the program.

use std::ffi::OsString;

use clap::{Args, CommandFactory};
use mahabharatha_core::names::nearest;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::{Cli, called_as};

/// Name, summary and text of each page.
const TOPICS: &[(&str, &str, &str)] = &[
    ("tour", "the first ten minutes", include_str!("../../../docs/tour.md")),
    ("concepts", "how a feature becomes merged code", include_str!("../../../docs/concepts.md")),
    ("setup", "what `init` finds in a project and writes", include_str!("../../../docs/init.md")),
    ("scaffolds", "`init` in an empty directory", include_str!("../../../docs/scaffolds.md")),
    ("planning", "`plan`, `design` and `quick`", include_str!("../../../docs/planning.md")),
    ("task-graph", "every field of a task graph, every problem code", include_str!("../../../docs/task-graph.md")),
    ("config", "every key of .mahabharatha/config.yaml", include_str!("../../../docs/config.md")),
    ("coding-agents", "profiles of agents, and how attempts end", include_str!("../../../docs/agents.md")),
    ("screen", "`run`, `attach` and `status --watch` on a terminal", include_str!("../../../docs/screen.md")),
    ("page", "`serve`: all features in a browser", include_str!("../../../docs/page.md")),
    ("runs", "`run --detach`, `attach`, `scale`, `pause`, approval", include_str!("../../../docs/runs.md")),
    ("answers", "answering agents, granting them files", include_str!("../../../docs/answers.md")),
    ("claude-code", "slash commands, hooks, task mode", include_str!("../../../docs/claude-code.md")),
    ("mcp-server", "`mcp`: any MCP client takes part in a run", include_str!("../../../docs/mcp.md")),
    ("estimates", "how `estimate` finds time and cost", include_str!("../../../docs/estimates.md")),
    ("shipping", "`git ship` and `undo`: pull requests, reverts", include_str!("../../../docs/shipping.md")),
    ("reviewing", "`diff`, `review` and `logs`", include_str!("../../../docs/review.md")),
    (
        "troubleshooting",
        "every cause that `debug` names, with its code and command",
        include_str!("../../../docs/troubleshooting.md"),
    ),
    ("json", "events and errors for programs", include_str!("../../../docs/json.md")),
    ("integrations", "schemas, JUnit, traces, notices, shells", include_str!("../../../docs/integrations.md")),
    ("security", "what agents can reach; sandboxes", include_str!("../../../docs/security.md")),
    ("worktrees", "worktrees that are ready to work", include_str!("../../../docs/worktrees.md")),
    ("containers", "workers in containers", include_str!("../../../docs/containers.md")),
    ("reliability", "what you can rely on", include_str!("../../../docs/reliability.md")),
    ("performance", "what a run costs, beside the alternatives", include_str!("../../../docs/performance.md")),
];

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command or a topic; without one, all of them are listed
    topic: Vec<String>,
}

/// Returns the error for a word that is none of the known commands and topics.
fn unknown(word: &str, known: &[&str]) -> Error {
    let hint = match nearest(word, known) {
        Some(known) => format!("Did you mean `{known}`?"),
        None => {
            let topics: Vec<&str> = TOPICS.iter().map(|(name, ..)| *name).collect();
            format!("`mahabharatha help` lists the commands; the topics are: {}.", topics.join(", "))
        }
    };
    Error::new(Kind::Usage, format!("there is no command and no topic {word}")).hint(hint)
}

pub fn run(ui: &Ui, args: &HelpArgs) -> Result<ExitCode> {
    let words: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    if let Some((topic, others)) = words.split_first()
        && let Some((name, _, page)) = TOPICS.iter().find(|(name, ..)| name == topic)
    {
        if let Some(word) = others.first() {
            return Err(Error::new(Kind::Usage, format!("the topic {name} has no part {word}"))
                .hint(format!("The whole page: mahabharatha help {name}")));
        }
        ui.data(page);
        return Ok(ExitCode::Done);
    }
    let command = Cli::command();
    if let Some(first) = words.first()
        && command.find_subcommand(first).is_none()
    {
        let commands = command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
        let known: Vec<&str> = commands.chain(TOPICS.iter().map(|(name, ..)| *name)).collect();
        return Err(unknown(first, &known));
    }
    let line = [called_as()].into_iter().chain(words.iter().copied()).chain(["--help"]);
    match super::parse(line.map(OsString::from).collect()) {
        Err(help) if !help.use_stderr() => {
            // clap prints it, with colours.
            let _ = help.print();
        }
        Err(wrong) => return Err(super::usage_error(&wrong)),
        Ok(_) => {}
    }
    if words.is_empty() {
        let topics: String = TOPICS.iter().map(|(name, about, _)| format!("  {name:<15} {about}\n")).collect();
        ui.data(&format!("\nTopics (mahabharatha help <topic>):\n{topics}"));
    }
    Ok(ExitCode::Done)
}
