//! Writes `.mahabharatha/config.yaml` from the survey. The gates are the project's own commands.

use std::collections::BTreeSet;
use std::fmt::Write;

use mahabharatha_core::config::{AgentConfig, Config, Format};
use mahabharatha_sys::ui::one_line;

use super::detect::{self, Command, Kind, Survey};
use super::machine;

pub const PATH: &str = ".mahabharatha/config.yaml";

/// For editors, which complete and check the configuration by it. It belongs to the program's version, so git ignores it.
pub const SCHEMA_PATH: &str = ".mahabharatha/config.schema.json";

const HEAD: &str = "\
# yaml-language-server: $schema=config.schema.json
# How mahabharatha works on this project; `mahabharatha doctor` checks it.
# Written by `mahabharatha init` from what it found. Edit it as you like.
";

/// A security check whose program may not be installed.
struct SecurityGate {
    name: &'static str,
    program: &'static str,
    command: String,
}

/// Returns the text of the file. `is_there` tells whether a program is installed, `is_set` whether a variable is set,
/// `exists` whether there is a file; `~/` is the home directory.
pub fn text(
    survey: &Survey,
    is_there: impl Fn(&str) -> bool,
    is_set: impl Fn(&str) -> bool,
    exists: impl Fn(&str) -> bool,
) -> String {
    let mut text = String::from(HEAD);
    text += &project(survey);
    text += &agent(&is_there, &is_set, &exists);
    let (present, absent): (Vec<_>, Vec<_>) =
        security_gates(survey).into_iter().partition(|gate| is_there(gate.program));
    let mut names = BTreeSet::new();
    let gates = quality_gates(survey, &is_there, &mut names);
    let mut suggestions = preferred_gates(survey, &is_there, &mut names);
    suggestions.extend(absent.iter().map(|gate| shown(gate, "#")));
    text.push_str(
        "\n# Every gate must pass on the merged work before a level lands, and on the base before a run starts.\n",
    );
    if survey.quality.commands.is_empty() && present.is_empty() {
        text.push_str(
            "# None were found. Add yours, for example: { name: test, command: ./run-tests, timeout: 900 }\nquality_gates: []\n",
        );
    } else {
        text.push_str("quality_gates:\n");
        text += &gates;
        text += &present.iter().map(|gate| shown(gate, "")).collect::<String>();
    }
    if !suggestions.is_empty() {
        text.push_str("  # Recommended: install the program, then uncomment:\n");
        text += &suggestions.concat();
    }
    text += &prepare(survey);
    text += &worktrees(survey);
    text += &variables(survey, is_set);
    text += &sandbox(survey, exists);
    text.push_str(
        "\n# Git URL or directory to take security rules from, instead of the built-in ones. Then run `mahabharatha init --force`.\n\
         security:\n  rules_repository: null\n",
    );
    text
}

/// Proposes an installed coding agent, one that is logged in first. Nothing is written if it is the default one, or if none
/// is installed.
fn agent(is_there: impl Fn(&str) -> bool, is_set: impl Fn(&str) -> bool, exists: impl Fn(&str) -> bool) -> String {
    let default = Config::default().agent;
    let is_installed = |agent: &AgentConfig| agent.command.first().is_some_and(|program| is_there(program));
    let mut found: Vec<(&String, &AgentConfig)> =
        AgentConfig::shipped().iter().filter(|(_, agent)| is_installed(agent) && agent.format != Format::Acp).collect();
    let is_logged_in =
        |agent: &AgentConfig| agent.keys().any(&is_set) || agent.login.iter().any(|file| exists(&format!("~/{file}")));
    found.sort_by_key(|(name, agent)| (!is_logged_in(agent), **name != default));
    match found.first() {
        Some((name, _)) if **name != default => {
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            format!(
                "\n# Coding agents that were found: {}. `mahabharatha agents` tells more.\nagent: {name}\n",
                names.join(", ")
            )
        }
        _ => String::new(),
    }
}

fn project(survey: &Survey) -> String {
    let mut text = String::new();
    for (key, value) in [("name", &survey.name), ("description", &survey.description)] {
        let value = value.as_deref().map(one_line).filter(|value| !value.is_empty());
        if let Some(value) = value {
            let _ = writeln!(text, "  {key}: {}", quoted(&value));
        }
    }
    if text.is_empty() { text } else { format!("\nproject:\n{text}") }
}

fn quality_gates(survey: &Survey, is_there: impl Fn(&str) -> bool, names: &mut BTreeSet<String>) -> String {
    let mut text = String::new();
    for command in survey.quality.commands.iter().map(|command| command.here(&is_there)) {
        let name = gate_name(&command, names);
        let timeout = if command.kind == Kind::Test { 900 } else { 300 };
        let coverage = survey.quality.coverage.as_ref();
        if let Some(coverage) = coverage.filter(|of| command.kind == Kind::Test && of.dir == command.dir) {
            let _ = writeln!(text, "  # {} requires a coverage of {} %.", one_line(&coverage.from), coverage.percent);
        }
        let _ = write!(
            text,
            "  - name: {}\n    command: {}\n    timeout: {timeout}\n",
            quoted(&name),
            quoted(&command.command)
        );
        names.insert(name);
    }
    text
}

/// Returns, as commented-out suggestions, the project's own commands whose program is not installed here and which a
/// fallback replaces.
fn preferred_gates(survey: &Survey, is_there: impl Fn(&str) -> bool, names: &mut BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for command in survey.quality.commands.iter().filter(|command| command.here(&is_there).command != command.command) {
        let name = gate_name(command, names);
        found.push(format!("  #- name: {}\n  #  command: {}\n", quoted(&name), quoted(&command.command)));
        names.insert(name);
    }
    found
}

/// Builds a unique name from the kind of check, the directory if it is not the root, and if needed the program called.
fn gate_name(command: &Command, taken: &BTreeSet<String>) -> String {
    let kind = match command.kind {
        Kind::Lint => "lint",
        Kind::Format => "format",
        Kind::TypeCheck => "typecheck",
        Kind::Test => "test",
        Kind::Install => "install",
        Kind::Lock => "lock",
    };
    let name = if command.dir.is_empty() { kind.to_owned() } else { format!("{kind} {}", one_line(&command.dir)) };
    let call = command.command.rsplit(" && ").next().unwrap_or_default().split(' ').next().unwrap_or_default();
    let numbered = (2..).map(|number| format!("{name} {number}"));
    let mut candidates = [name.clone(), format!("{name} by {}", one_line(call))].into_iter().chain(numbered);
    candidates.find(|name| !taken.contains(name)).unwrap_or(name)
}

fn security_gates(survey: &Survey) -> Vec<SecurityGate> {
    let manager = |name: &str| survey.stack.managers.iter().find(|manager| manager.name == name);
    let gate = |name, program, command: &str| SecurityGate { name, program, command: command.to_owned() };
    let mut gates = vec![
        gate(
            "secrets",
            "gitleaks",
            "gitleaks detect --no-git --redact --no-banner --report-format sarif --report-path /dev/stdout",
        ),
        gate("semgrep", "semgrep", "semgrep scan --config auto --error --quiet --sarif"),
    ];
    for (name, program, command) in
        [("npm audit", "npm", "npm audit --audit-level=high"), ("pnpm audit", "pnpm", "pnpm audit --audit-level high")]
    {
        if manager(program).is_some_and(|manager| manager.from == "package.json") {
            gates.push(gate(name, program, command));
        }
    }
    let python = ["uv", "poetry", "pdm", "pip"].into_iter().find_map(manager).map(|manager| manager.from.as_str());
    match python {
        Some("pyproject.toml") => gates.push(gate("pip-audit", "pip-audit", "pip-audit .")),
        Some(list) if list.ends_with(".txt") => {
            gates.push(gate("pip-audit", "pip-audit", &format!("pip-audit -r {}", detect::for_shell(list))));
        }
        _ => {}
    }
    if manager("Cargo").is_some_and(|cargo| cargo.from == "Cargo.toml") {
        gates.push(gate("cargo audit", "cargo-audit", "cargo audit"));
    }
    if survey.security.watched_by.iter().any(|found| found.what == "cargo-deny") {
        gates.push(gate("cargo deny", "cargo-deny", "cargo deny check"));
    }
    gates
}

/// Formats a security gate. It is not required, because an advisory published overnight is not the fault of the work
/// being merged.
fn shown(gate: &SecurityGate, sign: &str) -> String {
    let fields = [
        format!("- name: {}", quoted(gate.name)),
        format!("  command: {}", quoted(&gate.command)),
        "  security: true".to_owned(),
        "  required: false    # only reported; true makes a failure block the merge".to_owned(),
    ];
    fields.iter().map(|field| format!("  {sign}{field}\n")).collect()
}

/// Returns the commands to run before the gates, since staging has only what git tracks.
fn prepare(survey: &Survey) -> String {
    let Some(call) = joined(&survey.quality.prepare) else { return String::new() };
    format!(
        "\n# Runs before the gates in a fresh checkout: installs what they need, and updates lock files for changed manifests.\n\
         merge:\n  prepare: {}\n",
        quoted(&call)
    )
}

/// Returns the command that makes each worktree ready, since it has only what git tracks.
fn worktrees(survey: &Survey) -> String {
    let Some(call) = joined(&survey.quality.setup) else { return String::new() };
    format!(
        "\n# Runs in each worktree before its first task, and again when a lock file has changed: installs what tasks need.\n\
         worktrees:\n  setup: {}\n",
        quoted(&call)
    )
}

/// Joins commands into one that runs them in order; `None` if there are none.
fn joined(commands: &[Command]) -> Option<String> {
    let calls: Vec<&str> = commands.iter().map(|command| command.command.as_str()).collect();
    match calls.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        many => Some(many.iter().map(|call| format!("({call})")).collect::<Vec<_>>().join(" && ")),
    }
}

/// Returns the `env.pass` setting. Child processes see only a few common variables of the user and the ones listed
/// here.
fn variables(survey: &Survey, is_set: impl Fn(&str) -> bool) -> String {
    let (passed, withheld) = (machine::variables(survey, &is_set), machine::proxy_variables(&is_set));
    if passed.is_empty() && withheld.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n# Variables of yours that agents, gates and other commands see, besides PATH, HOME and the like.\n",
    );
    if !withheld.is_empty() {
        let names = withheld.join(", ");
        let _ =
            writeln!(text, "# Left out, since they may hold a password: {names}. Add them if the network needs them.");
    }
    let _ = writeln!(text, "env:\n  pass: [{}]", passed.join(", "));
    text
}

/// Returns the paths that the project may need in the sandbox, commented out: only the user may show them to agents.
fn sandbox(survey: &Survey, exists: impl Fn(&str) -> bool) -> String {
    let (read, write) = (machine::registry_files(survey, &exists), machine::database_sockets(survey, &exists));
    if read.is_empty() && write.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n# Paths that the sandbox does not show. Uncomment what the project's commands need.\n#sandbox:\n",
    );
    if !read.is_empty() {
        let _ =
            writeln!(text, "#  read: [{}]    # may hold credentials, which agents could then read", read.join(", "));
    }
    if !write.is_empty() {
        let _ = writeln!(text, "#  write: [{}]    # agents could then use your databases", write.join(", "));
    }
    text
}

/// Quotes any text as a YAML scalar.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '/' | '=' | '&' | '|');
    let is_word =
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_plain) && !text.ends_with(' ');
    // Plain words that YAML reads as another type.
    let is_special =
        ["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_word && !is_special {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(quoted, "\\U{:08x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mahabharatha_core::config::Config;
    use proptest::prelude::*;

    use super::*;

    fn survey(files: &[(&str, &str)]) -> Survey {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        detect::survey(dir.path(), |_| false).unwrap()
    }

    #[test]
    fn installed_programs_become_gates_and_missing_ones_suggestions() {
        let survey =
            survey(&[("Cargo.toml", "[package]\nname = 'x'\n[lints.clippy]\nall = 'warn'\n"), ("src/lib.rs", "")]);
        let with = text(&survey, |program| program == "cargo-audit", |_| false, |_| false);
        let gates: Vec<_> =
            Config::parse(&with).unwrap().quality_gates.into_iter().map(|gate| (gate.name, gate.required)).collect();
        let expected = [("lint", true), ("test", true), ("cargo audit", false)];
        assert_eq!(gates, expected.map(|(name, required)| (name.to_owned(), required)));
        assert!(with.contains("  #- name: secrets\n  #  command: gitleaks"), "{with}");
        // A user who uncomments the suggestions gets valid gates.
        let all = Config::parse(&with.replace("\n  #- ", "\n  - ").replace("\n  #  ", "\n    ")).unwrap();
        assert_eq!(all.quality_gates.len(), 5);
    }

    #[test]
    fn a_missing_linter_is_replaced_by_a_fallback_and_suggested() {
        let manifest = "module x\n\nrequire example.com/y v1.0.0\n";
        let survey = survey(&[("a/go.mod", manifest), ("a/.golangci.yml", "version: '2'\n")]);
        let commands = |text: &str| -> Vec<String> {
            Config::parse(text).unwrap().quality_gates.into_iter().map(|gate| gate.command).collect()
        };
        let without = text(&survey, |program| program == "go", |_| false, |_| false);
        assert_eq!(commands(&without), ["cd a && go vet ./...", "cd a && go test ./..."]);
        assert!(
            without.contains("  #- name: lint a by golangci-lint\n  #  command: cd a && golangci-lint run\n"),
            "{without}"
        );
        assert_eq!(Config::parse(&without).unwrap().merge.prepare.as_deref(), Some("cd a && go get -t ./..."));
        let with = text(&survey, |_| true, |_| false, |_| false);
        assert_eq!(commands(&with)[0], "cd a && golangci-lint run");
        assert!(!with.contains("#- "), "{with}");
    }

    #[test]
    fn go_install_is_skipped_without_requirements_or_with_a_vendor_directory() {
        let prepare = |files: &[(&str, &str)]| {
            Config::parse(&text(&survey(files), |_| true, |_| false, |_| false)).unwrap().merge.prepare
        };
        let manifest = ("go.mod", "module x\n\nrequire (\n\texample.com/y v1.0.0\n)\n");
        assert_eq!(prepare(&[("go.mod", "module x\n\ngo 1.26\n")]), None);
        assert_eq!(prepare(&[manifest, ("vendor/modules.txt", "# example.com/y v1.0.0\n")]), None);
        assert!(prepare(&[manifest]).is_some());
    }

    #[test]
    fn worktrees_are_set_up_where_a_lock_file_is_committed() {
        let setup = |files: &[(&str, &str)]| {
            Config::parse(&text(&survey(files), |_| true, |_| false, |_| false)).unwrap().worktrees.setup
        };
        let npm = ("package.json", r#"{"scripts": {"test": "jest"}}"#);
        let uv = ("py/pyproject.toml", "[project]\nname = 'x'\ndependencies = ['pytest']\n[tool.uv]\n");
        assert_eq!(setup(&[npm]), None);
        assert_eq!(setup(&[npm, ("package-lock.json", "{}"), (".gitignore", "package-lock.json\n")]), None);
        assert_eq!(setup(&[npm, ("package-lock.json", "{}")]).as_deref(), Some("npm ci"));
        let both = [npm, ("pnpm-lock.yaml", ""), uv, ("py/uv.lock", "")];
        let expected = "(pnpm install --frozen-lockfile) && (cd py && uv sync --frozen)";
        assert_eq!(setup(&both).as_deref(), Some(expected));
        assert_eq!(setup(&[("Cargo.toml", "[package]\nname = 'x'"), ("Cargo.lock", ""), ("src/lib.rs", "")]), None);
    }

    #[test]
    fn toolchain_variables_are_passed_to_the_gates() {
        let survey = survey(&[("Cargo.toml", "[package]\nname = 'x'\n"), ("src/lib.rs", "")]);
        let set = ["RUSTUP_HOME", "GOPATH", "JAVA_HOME", "SSL_CERT_FILE", "HTTPS_PROXY"];
        let text = text(&survey, |_| true, |name| set.contains(&name), |_| false);
        assert_eq!(Config::parse(&text).unwrap().env.pass, ["RUSTUP_HOME", "SSL_CERT_FILE"]);
        assert!(text.contains("since they may hold a password: HTTPS_PROXY."), "{text}");
    }

    #[test]
    fn what_the_sandbox_hides_is_proposed_as_a_comment() {
        let manifest = r#"{"dependencies": {"pg": "8", "ioredis": "5"}}"#;
        let survey = survey(&[("package.json", manifest), ("compose.yaml", "services: {db: {image: 'mysql:8'}}")]);
        let there = ["~/.npmrc", "~/.cargo/config.toml", "/var/run/postgresql", "/run/mysqld"];
        let text = text(&survey, |_| true, |_| false, |path| there.contains(&path));
        let block = "#sandbox:\n\
                     #  read: [~/.npmrc]    # may hold credentials, which agents could then read\n\
                     #  write: [/var/run/postgresql, /run/mysqld]    # agents could then use your databases\n";
        assert!(text.contains(block), "{text}");
        assert_eq!(Config::parse(&text).unwrap().sandbox.read, [] as [&str; 0]);
        let sandbox =
            Config::parse(&block.replace('#', "").replace("    may", "  # may").replace("    agents", "  # agents"));
        let sandbox = sandbox.unwrap().sandbox;
        assert_eq!((sandbox.read, sandbox.write.len()), (vec!["~/.npmrc".to_owned()], 2));
    }

    #[test]
    fn nothing_is_proposed_for_other_stacks_or_without_the_file() {
        let all = |files: &[(&str, &str)]| text(&survey(files), |_| true, |_| false, |_| true);
        let cargo = all(&[("Cargo.toml", "[package]\nname = 'x'\n"), ("src/lib.rs", "")]);
        assert!(cargo.contains("#  read: [~/.cargo/config.toml]") && !cargo.contains("#  write:"), "{cargo}");
        let go = all(&[("go.mod", "module x\n\nrequire github.com/jackc/pgx/v5 v5.0.0\n")]);
        assert!(go.contains("#  read: [~/.config/go/env]") && go.contains("#  write: [/var/run/postgresql]"), "{go}");
        assert!(!all(&[("notes.txt", "postgres")]).contains("sandbox:"));
        let without = text(&survey(&[("package.json", "{}")]), |_| true, |_| false, |_| false);
        assert!(!without.contains("sandbox:"), "{without}");
    }

    #[test]
    fn a_config_without_gates_is_valid() {
        let text = text(&survey(&[("notes.txt", "x")]), |_| false, |_| false, |_| false);
        assert_eq!(Config::parse(&text).unwrap().quality_gates, []);
    }

    #[test]
    fn gates_of_the_same_kind_get_unique_names() {
        let survey = survey(&[
            ("package.json", r#"{"scripts": {"test": "jest"}}"#),
            ("Cargo.toml", "[package]\nname = 'x'"),
            ("go.mod", "module x\n"),
        ]);
        let config = Config::parse(&text(&survey, |_| false, |_| false, |_| false)).unwrap();
        let names: Vec<_> = config.quality_gates.iter().map(|gate| gate.name.as_str()).collect();
        assert_eq!(names, ["lint", "test", "test by cargo", "test by go"]);
        assert_eq!(config.merge.prepare.as_deref(), Some("(npm install) && (cargo update --workspace)"));
        assert_eq!(config.env.pass, [] as [&str; 0]);
    }

    #[test]
    fn characters_that_yaml_does_not_allow_are_escaped() {
        for c in ['\u{fffe}', '\u{ffff}', '\u{feff}', '\u{2028}', '\u{85}', '\u{7f}'] {
            let mut survey = survey(&[]);
            survey.name = Some(format!("a{c}b"));
            let config = Config::parse(&text(&survey, |_| false, |_| false, |_| false)).unwrap();
            assert_eq!(config.project.name, Some(one_line(&format!("a{c}b"))), "{:x}", c as u32);
        }
    }

    proptest! {
        #[test]
        fn any_project_name_gives_a_valid_config(name in any::<String>(), dir in "[^/\0]{1,20}") {
            let mut survey = survey(&[]);
            survey.name = Some(name.clone());
            let command = format!("cd '{dir}' && x");
            survey.quality.commands.push(Command { kind: Kind::Test, command: command.clone(), dir, from: String::new(), otherwise: None });
            let text = text(&survey, |_| true, |_| true, |_| false);
            let config = Config::parse(&text).map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
            prop_assert_eq!(config.project.name, Some(one_line(&name)).filter(|name| !name.is_empty()));
            prop_assert_eq!(&config.quality_gates[0].command, &command);
        }
    }

    #[test]
    fn an_installed_agent_is_proposed() {
        let propose = |installed: &[&str], set: &[&str]| {
            agent(|program| installed.contains(&program), |name| set.contains(&name), |_| false)
        };
        assert_eq!(propose(&[], &[]), "");
        assert_eq!(propose(&["claude", "codex"], &[]), "");
        let text = propose(&["codex", "gemini"], &["GEMINI_API_KEY"]);
        assert!(text.ends_with("agent: gemini\n") && text.contains("found: gemini, codex."), "{text}");
        assert_eq!(Config::parse(&text).unwrap().agent, "gemini");
    }
}
