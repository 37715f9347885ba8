//! `man`: the manual page, with commands and exit codes, and a page for each command; the reference of the documentation.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::{Arg, Args, Command, CommandFactory};
use mahabharatha_core::names::suggestion;
use mahabharatha_engine::report::schema;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::store::atomic::write_atomic;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::{Cli, Global, reference};

pub const EXIT_CODES: [(ExitCode, &str); 11] = [
    (ExitCode::Done, "done"),
    (ExitCode::Failed, "failed for another reason"),
    (ExitCode::Usage, "wrong usage"),
    (ExitCode::Blocked, "only blocked or waiting tasks remain"),
    (ExitCode::Gate, "a required gate failed"),
    (ExitCode::Conflict, "merge conflict"),
    (ExitCode::Invalid, "invalid spec, graph, configuration or state; every problem is listed"),
    (ExitCode::Preflight, "a preflight check failed"),
    (ExitCode::Held, "another run or session holds this feature"),
    (ExitCode::Paused, "budget or quota reached, or the run paused; resumable"),
    (ExitCode::Stopped, "stopped by Ctrl-C, SIGTERM, SIGHUP or stop; resumable"),
];

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page to print, such as `run` or `task claim`; without one, the page of the whole program
    #[arg(conflicts_with = "dir")]
    command: Vec<String>,
    /// Write all pages as files to this directory, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write the documentation's pages of all commands and configuration keys, as Markdown, to this directory
    #[arg(long, value_name = "DIR", hide = true, conflicts_with_all = ["command", "dir"])]
    reference: Option<PathBuf>,
}

pub fn run(global: &Global, ui: &Ui, args: &ManArgs) -> Result<ExitCode> {
    let mut program = Cli::command();
    program.build();
    if let Some(dir) = &args.dir {
        let mut pages = vec![("mahabharatha.1".to_owned(), page(&program))];
        collect_pages(&program, &mut pages);
        return write_pages(ui, &global.directory.join(dir), &pages);
    }
    if let Some(dir) = &args.reference {
        let pages = [
            ("commands.md".to_owned(), reference::commands(&program)),
            ("config-keys.md".to_owned(), reference::config_keys(&schema::config())),
        ];
        return write_pages(ui, &global.directory.join(dir), &pages);
    }
    let mut command = &program;
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| unknown(command, word))?;
    }
    ui.data(&if args.command.is_empty() { page(command) } else { command_page(command) });
    Ok(ExitCode::Done)
}

/// Writes pages under their file names.
fn write_pages(ui: &Ui, dir: &Path, pages: &[(String, String)]) -> Result<ExitCode> {
    fs::create_dir_all(dir).map_err(io("write", dir))?;
    for (name, page) in pages {
        write_atomic(&dir.join(name), page.as_bytes())?;
    }
    ui.note(&format!("{} pages are in {}", pages.len(), dir.display()));
    Ok(ExitCode::Done)
}

fn unknown(command: &Command, word: &str) -> Error {
    let known: Vec<&str> = visible(command).map(Command::get_name).collect();
    let name = command.get_bin_name().unwrap_or("mahabharatha");
    Error::new(Kind::Usage, format!("{name} has no command {word}")).hint(suggestion(word, "commands", &known))
}

/// Returns the commands below this one that people call.
pub fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

/// Adds the page of each command below this one, with its file name.
fn collect_pages(command: &Command, pages: &mut Vec<(String, String)>) {
    for sub in visible(command) {
        pages.push((format!("{}.1", page_name(sub)), command_page(sub)));
        collect_pages(sub, pages);
    }
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn command_page(command: &Command) -> String {
    let mut bytes = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = clap_mangen::Man::new(command.clone()).render(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned() + &exit_status() + ".SH \"SEE ALSO\"\nmahabharatha(1)\n"
}

fn exit_status() -> String {
    let row = |(code, meaning): &(ExitCode, &str)| format!(".TP\n\\fB{}\\fR\n{}\n", *code as u8, escaped(meaning));
    format!(".SH \"EXIT STATUS\"\n{}", EXIT_CODES.iter().map(row).collect::<String>())
}

/// Returns the page of the whole program.
fn page(command: &Command) -> String {
    let mut bytes = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    // Writing to a Vec cannot fail.
    let _ = man.render_title(&mut bytes);
    let _ = man.render_name_section(&mut bytes);
    let _ = man.render_synopsis_section(&mut bytes);
    let _ = man.render_options_section(&mut bytes);
    let mut page = String::from_utf8_lossy(&bytes).into_owned();
    page.push_str(".SH COMMANDS\n");
    visible(command).for_each(|sub| write_command(&mut page, sub));
    page + &exit_status()
}

fn write_command(page: &mut String, command: &Command) {
    let names: Vec<&str> = [command.get_name()].into_iter().chain(command.get_visible_aliases()).collect();
    page.push_str(&format!(".SS \"{}\"\n{}\n", escaped(&names.join(", ")), text(command.get_about())));
    let own = command.get_arguments().filter(|arg| !arg.is_global_set() && !arg.is_hide_set());
    for arg in own.filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
        page.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(&usage(arg)), text(arg.get_help())));
    }
}

/// Formats an argument: `-w, --workers <N>`, `<FEATURE>`.
pub fn usage(arg: &Arg) -> String {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let names = arg.get_value_names().unwrap_or_default();
    let takes_value = arg.get_num_args().is_some_and(|count| count.takes_values());
    let value = names.first().filter(|_| takes_value).map(|name| format!("<{name}>"));
    [flags.join(", "), value.unwrap_or_default()].join(" ").trim().to_string()
}

fn text(styled: Option<&StyledStr>) -> String {
    escaped(&styled.map(ToString::to_string).unwrap_or_default())
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
