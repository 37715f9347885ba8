//! The command line: one file per command, with its arguments and `run`. No other module may depend on this one.

mod agents;
mod answer;
mod attach;
mod cleanup;
mod complete;
mod confine;
mod debug;
mod demo;
mod design;
mod detach;
mod diff;
mod doctor;
mod estimate;
mod examples;
mod exit;
mod finish;
mod git;
mod help;
mod hook;
mod init;
mod install;
mod list;
mod logs;
mod man;
mod mcp;
mod merge;
mod notify;
mod on_screen;
mod pause;
mod place;
mod plan;
mod quick;
mod record;
mod reference;
mod retry;
mod review;
mod run;
mod sandbox;
mod scale;
mod schema;
mod selection;
mod serve;
mod skip;
mod status;
mod status_line;
mod stop;
mod task;
mod undo;
mod validate;
mod validate_commands;
mod watchdog;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::RangedI64ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use mahabharatha_core::config::WORKERS;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::proc::{self, shell_word};
use mahabharatha_sys::ui::{Color, Flags, Style, Ui};

use exit::ExitCode;

/// Name and alias of the command that runs a feature.
const KURUKSHETRA: &str = "kurukshetra";
const RUN: &str = "run";

/// Turns a written spec into verified, merged code with many coding agents at once.
#[derive(Debug, Parser)]
#[command(
    name = "mahabharatha",
    version = env!("BUILD_VERSION"),
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Where to begin: `mahabharatha demo` shows the whole way. In your project, or in an empty directory: \
                  init, plan <feature>, design, run."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Work as if started in this directory
    #[arg(short = 'C', global = true, value_name = "DIR", default_value = ".", hide_default_value = true)]
    directory: PathBuf,
    /// The feature [default: ZERG_FEATURE, MAHABHARATHA_FEATURE, .gsd/.current-feature, the newest state, the only spec]
    #[arg(short, long, global = true, value_name = "NAME")]
    feature: Option<String>,
    /// Print data as JSON on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Answer every question with yes
    #[arg(short, long, global = true)]
    yes: bool,
    /// When to use colour; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    color: Color,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a new project in an empty directory, or prepare an existing one for runs
    #[command(after_help = examples::INIT)]
    Init(init::InitArgs),
    /// Write a feature's requirements, and approve them
    #[command(after_help = examples::PLAN)]
    Plan(plan::PlanArgs),
    /// Design a feature: its architecture and a valid task graph
    #[command(after_help = examples::DESIGN)]
    Design(design::DesignArgs),
    /// Plan, design and run a small feature from one sentence, with one approval
    #[command(after_help = examples::QUICK)]
    Quick(quick::QuickArgs),
    /// Run a feature's task graph, or resume it
    #[command(visible_alias = "run", after_help = examples::RUN)]
    Kurukshetra(run::RunArgs),
    /// Estimate a feature's time and cost, and compare them with its run
    Estimate(estimate::EstimateArgs),
    /// List all features: state, progress, cost and age
    List(list::ListArgs),
    /// Show a feature's progress
    #[command(after_help = examples::STATUS)]
    Status(status::StatusArgs),
    /// Show the logs of workers, tasks and gates
    #[command(after_help = examples::LOGS)]
    Logs(logs::LogsArgs),
    /// Show what a task, a level or the feature changed
    Diff(diff::DiffArgs),
    /// Follow a run in the background or in another terminal
    Attach(attach::AttachArgs),
    /// Show all features in a browser: graph, timeline, tasks, diffs, live
    #[command(after_help = examples::SERVE)]
    Serve(serve::ServeArgs),
    /// Set the number of workers, even during a run
    Scale(scale::ScaleArgs),
    /// Pause a run: launch and merge nothing until `resume`; running agents finish
    Pause(pause::PauseArgs),
    /// Continue a paused run
    Resume(pause::PauseArgs),
    /// Review completed tasks: accept them, or send them back with a comment
    Review(review::ReviewArgs),
    /// Stop a run; its work is kept and can be resumed
    #[command(after_help = examples::STOP)]
    Stop(stop::StopArgs),
    /// Retry tasks that are blocked, skipped or not merged yet, and answer agents
    #[command(after_help = examples::RETRY)]
    Retry(retry::RetryArgs),
    /// Skip tasks, and the tasks that depend on them
    #[command(after_help = examples::SKIP)]
    Skip(skip::SkipArgs),
    /// Merge a level whose tasks are completed, or retry a failed merge
    #[command(after_help = examples::MERGE)]
    Merge(merge::MergeArgs),
    /// Ship merged work: push it, open a pull request
    Git(git::GitArgs),
    /// Undo a feature: revert its merged levels
    Undo(undo::UndoArgs),
    /// Remove what runs left in the repository; never unmerged or unsaved work
    #[command(after_help = examples::CLEANUP)]
    Cleanup(cleanup::CleanupArgs),
    /// Show blockers, failed attempts and saved work; repair a damaged journal
    #[command(after_help = examples::DEBUG)]
    Debug(debug::DebugArgs),
    /// List the agents that tasks can use: installed or not, version, login, model
    Agents(agents::AgentsArgs),
    /// Check everything that a run needs
    Doctor(doctor::DoctorArgs),
    /// Run a command, or a shell, in the sandbox exactly as a verification would run
    #[command(after_help = examples::SANDBOX)]
    Sandbox(sandbox::SandboxArgs),
    /// Do tasks in a session of a coding agent, while this program verifies and merges
    Task(task::TaskArgs),
    /// Let an MCP client do tasks and control runs, over stdin and stdout
    Mcp(mcp::McpArgs),
    /// Install or remove the slash commands, agents and hooks for Claude Code
    Install(install::InstallArgs),
    /// Check slash commands and agents: references, aliases, and every call in them
    ValidateCommands(validate_commands::ValidateCommandsArgs),
    /// Show a whole run on an example project: no network, no API key, no agent needed
    Demo(demo::DemoArgs),
    /// Kills the agent if the command that asked it is killed; started by `plan` and `design`
    #[command(hide = true)]
    Watchdog(watchdog::WatchdogArgs),
    /// What Claude Code's hooks call
    #[command(hide = true)]
    Hook(hook::HookArgs),
    /// Send a test notice through every configured channel
    #[command(after_help = examples::NOTIFY)]
    Notify(notify::NotifyArgs),
    /// Print the JSON Schema of a file or of output, for editors and programs
    #[command(after_help = examples::SCHEMA)]
    Schema(schema::SchemaArgs),
    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions { shell: clap_complete::Shell },
    /// Print the manual page, or that of a command; write all of them to a directory
    #[command(after_help = examples::MAN)]
    Man(man::ManArgs),
    /// Show the help of a command, or a page of the documentation
    Help(help::HelpArgs),
}

pub fn main() -> std::process::ExitCode {
    if let Some(code) = confine::run_if_called().or_else(complete::run_if_called) {
        return code;
    }
    worker::run_if_called();
    proc::limit_memory_pools();
    let cli = match parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done };
            if code == ExitCode::Usage && std::env::args_os().any(|argument| argument == "--json") {
                Ui::new(Flags::default()).print_json_error(&exit::error_json(&usage_error(&error)));
            } else if std::env::args_os().any(|argument| argument.to_string_lossy().chars().any(char::is_control)) {
                Ui::new(Flags::default()).tell(Style::Plain, error.render().to_string().trim_end());
            } else {
                // clap prints help and usage errors, with colours, and arguments unchanged.
                let _ = error.print();
            }
            return code.into();
        }
    };
    let ui = Arc::new(cli.global.ui());
    let result = dispatch(&cli.global, &ui, cli.command)
        .and_then(|code| ui.finish().map(|()| code).map_err(Error::caused("cannot write the output")));
    match result {
        Ok(code) => code.into(),
        Err(error) => {
            if ui.json() {
                ui.print_json_error(&exit::error_json(&error));
            } else {
                ui.print_error(error.message(), error.details(), error.what_to_do());
            }
            ExitCode::from(error.kind()).into()
        }
    }
}

/// Parses a command line. Usage and help show the name of a command as it was typed: clap itself knows only the first.
fn parse(words: Vec<OsString>) -> std::result::Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let typed = words.iter().skip(1).find(|word| *word == RUN || *word == KURUKSHETRA);
    if typed.is_some_and(|word| *word == RUN) {
        let usage = format!("{} {RUN} [OPTIONS] [FEATURE]", called_as());
        command = command.mut_subcommand(KURUKSHETRA, |run| run.override_usage(usage));
    }
    let found = command.try_get_matches_from_mut(words.clone());
    let mut matches = found.map_err(|error| with_separator(error, &command, &words))?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Adds to a usage error how `sandbox` takes a command: clap names `--` only for arguments that begin with a dash.
fn with_separator(mut error: clap::Error, command: &clap::Command, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(unexpected)) = error.get(ContextKind::InvalidArg) else { return error };
    let subcommand = words.iter().skip(1).find(|word| command.find_subcommand(word).is_some());
    let at = words.iter().rposition(|word| word.to_str() == Some(unexpected));
    let (Some(at), true) = (at, subcommand.is_some_and(|name| name == "sandbox")) else { return error };
    if error.kind() != ErrorKind::UnknownArgument || unexpected.starts_with('-') {
        return error;
    }
    let line = |words: &[OsString]| {
        let words: Vec<String> = words.iter().map(|word| shell_word(&word.to_string_lossy())).collect();
        words.join(" ")
    };
    let tip = format!("to run a command, use '{} {} -- {}'", called_as(), line(&words[1..at]), line(&words[at..]));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Converts a usage error of clap.
fn usage_error(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or("wrong usage").trim_start_matches("error: ").to_string();
    let (hints, details): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("For more information"));
    let hint = hints.first().copied().unwrap_or("For more information, try '--help'.");
    details.into_iter().fold(Error::new(Kind::Usage, message), Error::detail).hint(hint)
}

fn dispatch(global: &Global, ui: &Arc<Ui>, command: Command) -> Result<ExitCode> {
    match command {
        Command::Init(args) => init::run(global, ui, &args),
        Command::Kurukshetra(args) => run::run(global, ui, &args),
        Command::Estimate(args) => estimate::run(global, ui, &args),
        Command::Quick(args) => quick::run(global, ui, &args),
        Command::List(args) => list::run(global, ui, &args),
        Command::Status(args) => status::run(global, ui, &args),
        Command::Logs(args) => logs::run(global, ui, &args),
        Command::Diff(args) => diff::run(global, ui, &args),
        Command::Attach(args) => attach::run(global, ui, &args),
        Command::Serve(args) => serve::run(global, ui, &args),
        Command::Scale(args) => scale::run(global, ui, &args),
        Command::Pause(args) => pause::pause(global, ui, &args),
        Command::Resume(args) => pause::resume(global, ui, &args),
        Command::Review(args) => review::run(global, ui, &args),
        Command::Stop(args) => stop::run(global, ui, &args),
        Command::Retry(args) => retry::run(global, ui, &args),
        Command::Skip(args) => skip::run(global, ui, &args),
        Command::Merge(args) => merge::run(global, ui, &args),
        Command::Git(args) => git::run(global, ui, &args),
        Command::Undo(args) => undo::run(global, ui, &args),
        Command::Cleanup(args) => cleanup::run(global, ui, &args),
        Command::Debug(args) => debug::run(global, ui, &args),
        Command::Plan(args) => plan::run(global, ui, &args),
        Command::Design(args) => design::run(global, ui, &args),
        Command::Doctor(args) => doctor::run(global, ui, &args),
        Command::Agents(args) => agents::run(global, ui, &args),
        Command::ValidateCommands(args) => validate_commands::run(global, ui, &args),
        Command::Install(args) => install::run(global, ui, &args),
        Command::Demo(args) => demo::run(global, ui, &args),
        Command::Task(args) => task::run(global, ui, &args),
        Command::Mcp(args) => mcp::run(global, &args),
        Command::Sandbox(args) => sandbox::run(global, ui, &args).map(|never| match never {}),
        Command::Watchdog(args) => watchdog::run(ui, &args),
        Command::Hook(args) => hook::run(global, ui, &args),
        Command::Notify(args) => notify::run(global, ui, &args),
        Command::Schema(args) => schema::run(ui, &args),
        Command::Completions { shell } => {
            ui.data(&complete::script(shell));
            Ok(ExitCode::Done)
        }
        Command::Help(args) => help::run(ui, &args),
        Command::Man(args) => man::run(global, ui, &args),
    }
}

/// Returns the parser of a number of workers, with the range of `workers.count`.
fn worker_count() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(i64::from(*WORKERS.start())..=i64::from(*WORKERS.end()))
}

/// Returns the name that the program was called by, `mahabharatha` or `mbh`.
fn called_as() -> &'static str {
    let program = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    if program.file_name().is_some_and(|name| name == "mbh") { "mbh" } else { "mahabharatha" }
}

impl Global {
    fn ui(&self) -> Ui {
        let Global { json, quiet, verbose, yes, color, .. } = *self;
        Ui::new(Flags { json, quiet, verbose, yes, color })
    }
}
