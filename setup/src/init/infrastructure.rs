//! Writes `.gsd/INFRASTRUCTURE.md`: the survey, for users and agents. Names and texts from the project are not trusted,
//! so they are always escaped.

use mahabharatha_core::prompt::scout::ScoutNotes;
use mahabharatha_engine::report::markdown::{code, inline, table};

use super::detect::{Architecture, Kind, Quality, Security, Stack, Survey};

pub const PATH: &str = ".gsd/INFRASTRUCTURE.md";

pub fn text(survey: &Survey) -> String {
    let mut text = String::from(
        "# Infrastructure\n\nWhat `mahabharatha init` found by reading the project. `mahabharatha init --force` updates it.\n",
    );
    if let Some(name) = &survey.name {
        text += &format!("\n**{}**", inline(name));
        if let Some(description) = &survey.description {
            text += &format!(": {}", inline(description));
        }
        text.push('\n');
    }
    text += &stack(&survey.stack);
    text += &architecture(&survey.architecture);
    text += &quality(&survey.quality);
    text += &security(&survey.security);
    if !survey.notes.is_empty() {
        text += &format!("\n## Notes\n\n{}", list(survey.notes.iter().map(|note| inline(note))));
    }
    text
}

/// Formats the agent's notes as a section that they cannot break out of: no line starts with the agent's text.
pub fn notes_section(agent: &str, notes: &ScoutNotes) -> String {
    let mut text =
        format!("\n## Scout notes\n\nWritten by the agent {} after reading the project. Not verified.\n", code(agent));
    if !notes.summary.is_empty() {
        text += &format!("\nSummary: {}\n", inline(&notes.summary));
    }
    let kinds = [("architecture", &notes.architecture), ("quality", &notes.quality), ("security", &notes.security)];
    let rows: Vec<Vec<String>> = kinds
        .into_iter()
        .flat_map(|(about, notes)| notes.iter().map(move |note| vec![about.to_owned(), inline(note)]))
        .collect();
    if !rows.is_empty() {
        text += &format!("\n{}", table(&["about", "note"], &rows));
    }
    text
}

fn stack(stack: &Stack) -> String {
    let languages = stack
        .languages
        .iter()
        .map(|language| vec![inline(language.name), language.files.to_string(), language.lines.to_string()]);
    let frameworks = stack.frameworks.iter().map(|framework| {
        let version = framework.version.as_deref().map(code).unwrap_or_default();
        vec![inline(framework.name), version, code(&framework.from)]
    });
    let managers = stack.managers.iter().map(|manager| vec![inline(manager.name), code(&manager.from)]);
    let toolchains = stack.toolchains.iter().map(|toolchain| {
        let version = toolchain.version.as_deref().map(code).unwrap_or_default();
        vec![inline(toolchain.tool.name()), version, code(&toolchain.from)]
    });
    format!(
        "\n## Stack\n{}{}{}{}",
        part("Languages", &["language", "files", "lines"], languages.collect()),
        part("Frameworks", &["framework", "version", "named in"], frameworks.collect()),
        part("Package managers", &["manager", "from"], managers.collect()),
        part("Toolchains", &["toolchain", "version", "from"], toolchains.collect()),
    )
}

fn architecture(found: &Architecture) -> String {
    let entry_points = found.entry_points.iter().map(|entry| vec![code(&entry.path), inline(&entry.what)]);
    let directories = found.directories.iter().map(|dir| {
        let language = dir.language.map(inline).unwrap_or_default();
        vec![code(&format!("{}/", dir.path)), dir.files.to_string(), dir.lines.to_string(), language]
    });
    let members = found.members.iter().map(|member| {
        vec![code(&member.path), member.name.as_deref().map(inline).unwrap_or_default(), inline(member.of)]
    });
    format!(
        "\n## Architecture\n{}{}{}",
        part("Entry points", &["path", "what"], entry_points.collect()),
        part("Directories", &["directory", "files", "lines", "mostly"], directories.collect()),
        part("Members", &["path", "name", "of"], members.collect()),
    )
}

fn quality(found: &Quality) -> String {
    let commands = found.commands.iter().chain(&found.prepare).map(|command| {
        let what = match command.kind {
            Kind::Lint => "lint",
            Kind::Format => "format",
            Kind::TypeCheck => "type check",
            Kind::Test => "test",
            Kind::Install => "install",
            Kind::Lock => "lock",
        };
        vec![what.to_owned(), code(&command.command), code(&command.from)]
    });
    let coverage = match &found.coverage {
        Some(coverage) => format!("At least {} %, from {}.\n", coverage.percent, code(&coverage.from)),
        None => NONE.to_owned(),
    };
    let ci = found.ci.iter().map(|ci| {
        let commands: Vec<String> = ci.commands.iter().map(|command| code(command)).collect();
        vec![inline(ci.system), code(&ci.file), commands.join(", ")]
    });
    format!(
        "\n## Quality\n{}\n### Coverage threshold\n\n{coverage}{}",
        part("Commands", &["what", "command", "from"], commands.collect()),
        part("CI", &["system", "file", "commands"], ci.collect()),
    )
}

fn security(found: &Security) -> String {
    let paths = |title: &str, paths: &[String]| {
        let listed = if paths.is_empty() { NONE.to_owned() } else { list(paths.iter().map(|path| code(path))) };
        format!("\n### {title}\n\n{listed}")
    };
    let secrets = found.secrets.iter().map(|found| vec![inline(found.what), code(&found.file)]);
    let watched_by = found.watched_by.iter().map(|found| vec![inline(found.what), code(&found.file)]);
    format!(
        "\n## Security\n{}{}{}{}{}{}",
        paths("Lock files", &found.lock_files),
        paths("Manifests without a lock file", &found.unlocked),
        paths("Container files", &found.containers),
        part("Secrets", &["what", "file"], secrets.collect()),
        paths("Files that look like secrets and are not ignored", &found.suspicious),
        part("Watched by", &["what", "file"], watched_by.collect()),
    )
}

const NONE: &str = "None found.\n";

fn part(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> String {
    let body = if rows.is_empty() { NONE.to_owned() } else { table(head, &rows) };
    format!("\n### {title}\n\n{body}")
}

fn list(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| format!("- {line}\n")).collect()
}
