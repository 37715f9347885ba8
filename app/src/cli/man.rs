//! `man`: the manual page, with commands and exit codes.

use clap::builder::StyledStr;
use clap::{Arg, Command};

use super::exit::ExitCode;

const EXIT_CODES: [(ExitCode, &str); 11] = [
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

pub fn page(mut command: Command) -> String {
    command.build();
    let mut bytes = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    // Writing to a Vec cannot fail.
    let _ = man.render_title(&mut bytes);
    let _ = man.render_name_section(&mut bytes);
    let _ = man.render_synopsis_section(&mut bytes);
    let _ = man.render_options_section(&mut bytes);
    let mut page = String::from_utf8_lossy(&bytes).into_owned();
    page.push_str(".SH COMMANDS\n");
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        write_command(&mut page, sub);
    }
    page.push_str(".SH \"EXIT STATUS\"\n");
    for (code, meaning) in EXIT_CODES {
        page.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", code as u8, escaped(meaning)));
    }
    page
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
fn usage(arg: &Arg) -> String {
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
