//! Examples below the help of the main commands. A test parses each of them.

pub const INIT: &str = "Examples:
  mahabharatha init                                       ask what is needed
  mahabharatha init --name tour --language rust --yes     a new project, without questions";
pub const PLAN: &str = "Examples:
  mahabharatha plan login                                 ask what the feature is for
  mahabharatha plan login --from notes.md --approve       take requirements from a file";
pub const DESIGN: &str = "Examples:
  mahabharatha design login                               let an agent make the task graph
  mahabharatha design login --from-graph graph.json       take a task graph from a file
  mahabharatha design login --validate-only --json        list every problem of the graph";
pub const QUICK: &str = "Examples:
  mahabharatha quick \"add a farewell command with tests\"
  mahabharatha quick --issue 12                           what an issue on GitHub asks for";
pub const RUN: &str = "Examples:
  mahabharatha run login --dry-run                        show the plan and every command
  mahabharatha run login --workers 8 --max-cost 20        run, or resume
  mahabharatha run --json                                 one event per line, for programs
  mahabharatha run --junit results.xml                    verifications and gates, for CI services";
pub const ESTIMATE: &str = "Examples:
  mahabharatha estimate login --what-if workers=8,model=opus";
pub const STATUS: &str = "Examples:
  mahabharatha status --watch                             follow the progress
  mahabharatha status login --json                        for programs";
pub const LOGS: &str = "Examples:
  mahabharatha logs --follow                              everything as it happens
  mahabharatha logs --task TASK-001 --level error         what went wrong in a task
  mahabharatha logs --gate test                           the runs of a gate";
pub const DIFF: &str = "Examples:
  mahabharatha diff TASK-001                              what the task changed, or has changed so far
  mahabharatha diff TASK-001 --attempt 1                  what its first attempt left
  mahabharatha diff --level 2 | git apply";
pub const SERVE: &str = "Examples:
  mahabharatha serve --open                               show all features in the browser
  mahabharatha serve --port 8080 --allow-actions          and let the page retry, skip, grant, approve and stop";
pub const SCALE: &str = "Examples:
  mahabharatha scale 2 -f login                           workers above the second finish their tasks first";
pub const REVIEW: &str = "Examples:
  mahabharatha review --level 1
  mahabharatha review --send-back TASK-001 --comment \"also handle an empty list\"";
pub const STOP: &str = "Examples:
  mahabharatha stop                                       let agents save their work, then stop
  mahabharatha stop --worker 2                            stop one worker";
pub const RETRY: &str = "Examples:
  mahabharatha retry TASK-001 TASK-002
  mahabharatha retry TASK-001 --note \"use sqlite\" --run   answer its agent, and go on
  mahabharatha retry --all                                every blocked task";
pub const SKIP: &str = "Examples:
  mahabharatha skip TASK-001 --reason 'done by hand'";
pub const MERGE: &str = "Examples:
  mahabharatha merge --dry-run                            what would be merged, and its gates
  mahabharatha merge --retry                              after a conflict was resolved
  mahabharatha merge --approve=4b825dc642 --level 1       what `status` showed, and nothing else";
pub const MCP: &str =
    "Clients start it themselves: give them this command. `mahabharatha install --mcp` tells Claude Code.

Examples:
  mahabharatha mcp -C ~/shop                              for a client that starts it elsewhere
  mahabharatha mcp -f login                               the feature of calls that name none";
pub const SHIP: &str =
    "Without --push or --pr it shows what it would do. Without a feature it ships the current branch.

Examples:
  mahabharatha git ship --pr --draft";
pub const TASK_GRANT: &str = "Examples:
  mahabharatha task grant TASK-001 src/errors.rs";
pub const CLEANUP: &str = "Examples:
  mahabharatha cleanup --dry-run                          list what would be removed
  mahabharatha cleanup login";
pub const DEBUG: &str = "Examples:
  mahabharatha debug                                      what is blocked, and why
  mahabharatha debug TASK-001                             the failed attempts of a task";
pub const SANDBOX: &str = "Examples:
  mahabharatha sandbox -- cargo test                      as a verification would run it
  mahabharatha sandbox --task TASK-001                    a shell on what its last attempt left";
pub const NOTIFY: &str = "Examples:
  mahabharatha notify --test                              by every channel that notify names";
pub const SCHEMA: &str = "Examples:
  mahabharatha schema config > config.schema.json
  mahabharatha schema events | jq .title";
pub const COMPLETIONS: &str = "Examples:
  source <(mahabharatha completions bash)                 in ~/.bashrc
  source <(mahabharatha completions zsh)                  in ~/.zshrc, after compinit
  mahabharatha completions fish | source                  in ~/.config/fish/config.fish

The scripts belong to this version of the program, so let the shell ask for them rather than save them.";
pub const MAN: &str = "Examples:
  mahabharatha man | man -l -                             read the manual
  mahabharatha man --dir ~/.local/share/man/man1          then: man mahabharatha-run";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{Command, CommandFactory, Parser};

    use crate::cli::Cli;

    /// Returns the arguments of an example: its first column, up to a pipe, without brackets around it.
    fn arguments(line: &str) -> Option<Vec<String>> {
        let (_, call) = line.split_once("mahabharatha ")?;
        let call = call.split("  ").next()?.split(['|', '>']).next()?.trim_end_matches(')');
        let pieces = call.split(['\'', '"']).enumerate();
        let words = pieces.flat_map(|(index, piece)| match index % 2 {
            0 => piece.split_whitespace().map(str::to_owned).collect(),
            _ => vec![piece.to_owned()],
        });
        Some(words.collect())
    }

    /// Parses the examples of a command and of its subcommands; returns their number. `depth`: which word names the command.
    fn check_examples(command: &Command, depth: usize) -> usize {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut count = 0;
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            let words = arguments(line).unwrap_or_else(|| panic!("no call in {line:?}"));
            let names = command.get_name_and_visible_aliases();
            assert!(names.contains(&words[depth].as_str()), "{line:?} is an example of {}", command.get_name());
            let parsed = Cli::try_parse_from(["mahabharatha".to_owned()].into_iter().chain(words));
            assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
            count += 1;
        }
        count + command.get_subcommands().map(|sub| check_examples(sub, depth + 1)).sum::<usize>()
    }

    #[test]
    fn every_example_is_a_valid_call() {
        let count: usize = Cli::command().get_subcommands().map(|command| check_examples(command, 0)).sum();
        assert!(count > 30, "{count} examples");
    }

    #[test]
    fn no_example_is_written_elsewhere() {
        let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli")];
        while let Some(dir) = open.pop() {
            for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    open.push(path);
                } else if !path.ends_with("examples.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let found = text.lines().find(|line| line.contains("Example: ") || line.contains("Examples:"));
                    assert_eq!(found, None, "{}: examples belong into examples.rs", path.display());
                }
            }
        }
    }
}
