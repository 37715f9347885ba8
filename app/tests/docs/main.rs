//! The documents say what the code does: they are read with its own parsers and held against its sources.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod book;
mod sessions;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mahabharatha_core::config::{Config, ConfigProblem};
use mahabharatha_core::graph::{EntryKind, Problem, Rules, StartTree, TaskGraph};
use mahabharatha_core::spec::{GraphFile, parse_task_file, write_task_file};
use serde_json::{Value, json};

const NO_EFFECT: &str = "*No effect in this version*";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository").to_owned()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.flatten().map(|entry| entry.path()).collect()
}

/// The sources below a directory, without their unit tests.
fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(dir)];
    while let Some(dir) = open.pop() {
        for path in entries(&dir) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let code = read(&path).split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                found.push((path, code));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {dir}");
    found
}

/// The texts in quotes, as far as they stand on one line.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    code.lines().flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// The fenced examples in a language.
fn examples(text: &str, language: &str) -> Vec<String> {
    let opening = format!("\n```{language}\n");
    let bodies = text.split(opening.as_str()).skip(1);
    let found: Vec<String> =
        bodies.map(|body| body.split_once("\n```").expect("the fence is closed").0.to_owned() + "\n").collect();
    assert!(!found.is_empty(), "no example in {language}");
    found
}

/// The rows below the tables' headers whose first cell is code, cell by cell.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let table_lines = text.lines().filter(|line| line.starts_with("| `"));
    table_lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The part of a document below a heading, up to the next of the same depth.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let (_, below) = text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let depth = heading.split(' ').next().unwrap_or_default();
    below.split(&format!("\n{depth} ")).next().unwrap_or(below)
}

fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

fn first_cells(text: &str) -> BTreeSet<String> {
    rows(text).iter().filter_map(|row| code(row[0])).map(str::to_owned).collect()
}

/// Checks a graph in a repository that holds what its tasks modify.
fn check(file: &GraphFile) -> Vec<Problem> {
    let modified = file.tasks.iter().flat_map(|task| &task.files.modify);
    let existing = |path: &String| match path.strip_suffix('/') {
        Some(directory) => format!("{directory}/file"),
        None => path.clone(),
    };
    let start = StartTree { entries: modified.map(|path| (existing(path), EntryKind::File)).collect() };
    TaskGraph::check(file, Some(&start), Rules::default()).1
}

fn documented_graph() -> GraphFile {
    GraphFile::parse(&examples(&read("docs/task-graph.md"), "json")[0]).expect("a test says that it is valid")
}

#[test]
fn every_graph_shown_is_valid() {
    for document in ["docs/task-graph.md", "docs/agents.md", "docs/tour.md"] {
        for example in examples(&read(document), "json").iter().filter(|example| example.contains("\"tasks\"")) {
            let graph = GraphFile::parse(example).unwrap_or_else(|error| panic!("{document}: {error}\n{example}"));
            assert_eq!(check(&graph), [], "{document}\n{example}");
        }
    }
}

#[test]
fn the_report_shown_is_what_the_check_reports() {
    let mut graph = documented_graph();
    graph.tasks[1].files.create.push("./bin/hello.sh".to_owned());
    let shown: Value = serde_json::from_str(&examples(&read("docs/task-graph.md"), "json")[1]).unwrap();
    assert_eq!(shown, json!({ "problems": check(&graph) }));
}

#[test]
fn the_task_files_shown_are_those_of_the_graph() {
    let graph = documented_graph();
    let files = examples(&read("docs/task-graph.md"), "markdown");
    let [written, by_hand] = files.as_slice() else { panic!("{} task files", files.len()) };
    assert_eq!(*written, write_task_file(&graph.tasks[2], None));
    assert_eq!(parse_task_file(written, |_| true).as_ref(), Ok(&*graph.tasks[2]));

    let mut expected = (*graph.tasks[0]).clone();
    expected.acceptance_criteria.truncate(1);
    expected.estimate_minutes = None;
    expected.verification.timeout_seconds = 300;
    assert_eq!(parse_task_file(by_hand, |_| false), Ok(expected));
}

/// Runs the program on a graph in a new repository, and gives back what `show` prints there afterwards.
fn after_a_run(graph: &str, config: &str, show: &str) -> String {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program)
            .args(args)
            .current_dir(dir.path())
            .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .env("HOME", home.path())
            .env_remove("CLAUDE_CONFIG_DIR")
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {}\n{said}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let feature = GraphFile::parse(graph).expect("a test says that it is valid").feature;
    let files = [
        (".gsd/specs/".to_owned() + &feature + "/task-graph.json", graph),
        (".mahabharatha/config.yaml".to_owned(), config),
        ("README.md".to_owned(), "A colour.\n"),
        ("src/api/names".to_owned(), "color\n"),
    ];
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("it has a directory")).expect("a directory in a new repository");
        fs::write(path, text).expect("a file in a new repository");
    }
    run("git", &["init", "--quiet", "--initial-branch=main"]);
    run("git", &["config", "user.name", "A Person"]);
    run("git", &["config", "user.email", "person@example.com"]);
    run("git", &["add", "--all"]);
    run("git", &["commit", "--quiet", "--message=first"]);
    run(env!("CARGO_BIN_EXE_mahabharatha"), &["run", &feature]);
    run("sh", &["-c", show])
}

#[test]
fn the_graphs_shown_can_be_run() {
    let agent = "case $MAHABHARATHA_TASK_ID in \
        HELLO) mkdir -p bin && echo 'echo \"Hello, ${1:-world}!\"' > bin/hello.sh ;; \
        README) echo 'See bin/hello.sh and bin/bye.sh.' >> README.md ;; \
        *) exit 1 ;; esac";
    let config = format!("agent: mine\nagents: {{ mine: {{ kind: command, command: {} }} }}\n", json!(agent));
    let greeting = &examples(&read("docs/task-graph.md"), "json")[0];
    let shown = after_a_run(greeting, &config, "sh bin/hello.sh Ada; sh bin/bye.sh Ada; cat README.md");
    assert_eq!(shown, "Hello, Ada!\nGoodbye, Ada!\nA colour.\nSee bin/hello.sh and bin/bye.sh.\n");

    let rename = &examples(&read("docs/agents.md"), "json")[0];
    assert_eq!(after_a_run(rename, "", "cat src/api/names"), "colour\n");
}

#[test]
fn every_field_of_the_graph_is_documented() {
    let source = read("core/src/spec/graph_file.rs");
    let fields = |name: &str| -> BTreeSet<String> {
        let (_, body) = source.split_once(&format!("pub struct {name} {{")).unwrap();
        let lines = body.split('}').next().unwrap().lines();
        let names = lines.filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
        names.map(|(name, _)| name.to_owned()).filter(|name| name != "extra").collect()
    };
    let mut known = fields("GraphFile");
    known.extend(fields("TaskSpec").into_iter().filter(|name| name != "files" && name != "verification"));
    known.extend(fields("FileLists").iter().map(|name| format!("files.{name}")));
    known.extend(fields("Verification").iter().map(|name| format!("verification.{name}")));
    assert_eq!(first_cells(section(&read("docs/task-graph.md"), "## Fields")), known);
}

#[test]
fn every_problem_code_is_documented() {
    let is_code = |text: &&str| text.contains('_') && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (path, code) in sources("core/src").into_iter().filter(|(path, _)| {
        let path = path.to_string_lossy();
        path.contains("/graph/") || path.ends_with("/spec/path.rs") || path.ends_with("/design/stubs.rs")
    }) {
        let before = known.len();
        known.extend(literals(&code).filter(is_code).filter(|text| *text != "snake_case").map(str::to_owned));
        assert!(known.len() > before || !path.ends_with("spec/path.rs"), "no codes in {}", path.display());
    }
    for (_, code) in sources("engine/src") {
        let codes = code.lines().filter_map(|line| line.trim().strip_prefix("code: \"")?.split('"').next());
        known.extend(codes.map(str::to_owned));
    }
    let text = read("docs/task-graph.md");
    let documented = section(&text, "## Problem codes");
    assert_eq!(first_cells(documented), known);
    for row in rows(documented) {
        assert!(row.len() == 4 && matches!(row[1], "error" | "warning"), "{row:?}");
    }
}

#[test]
fn every_cause_that_debug_names_is_documented() {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (_, code) in sources("engine/src/report/hypotheses") {
        let code: String = code.split_whitespace().collect();
        for call in ["Hypothesis::new(\"", "known(\"", "plain(\"", "about_gate(run,failure,\""] {
            known.extend(code.split(call).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    assert!(known.len() > 30, "{known:?}");
    let text = read("docs/troubleshooting.md");
    let rows = rows(section(&text, "## Codes"));
    let documented = rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).map(str::to_owned);
    let mut documented: Vec<String> = documented.collect();
    documented.sort();
    assert_eq!(documented, Vec::from_iter(known), "each code has one row");
}

#[test]
fn every_configuration_shown_is_valid() {
    for document in ["docs/config.md", "docs/agents.md", "docs/worktrees.md"] {
        for example in examples(&read(document), "yaml") {
            Config::parse(&example).unwrap_or_else(|problems| panic!("{document}: {problems:?}\n{example}"));
        }
    }
}

/// A key that is far from all known ones, so that the reader lists those instead of suggesting one.
const PROBE: &str = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";

/// A file with one key, as documents write it (`quality_gates[].name`, `agents.<name>.kind`), and after it what must go
/// with it: of a key that is given twice, the reader takes the first.
fn with_key(key: &str, value: &str) -> String {
    key.rsplit('.').fold(value.to_owned(), |inner, part| match (part.strip_suffix("[]"), part) {
        (Some(list), _) => format!("{list}: [{{{inner}, name: n, command: c}}]"),
        (None, "<name>") => format!("x: {{{inner}, kind: command}}"),
        _ if inner == value => format!("{part}: {inner}"),
        _ => format!("{part}: {{{inner}}}"),
    })
}

fn problems(yaml: &str) -> Vec<ConfigProblem> {
    Config::parse(yaml).err().unwrap_or_default()
}

/// The keys that the reader knows below `prefix`, or nothing where no mapping stands.
fn known_below(prefix: &str) -> Vec<String> {
    let probe = if prefix.is_empty() { PROBE.to_owned() } else { format!("{prefix}.{PROBE}") };
    let found = problems(&with_key(&probe, "0"));
    let told = found.iter().filter(|problem| problem.key.ends_with(PROBE));
    let list = told.filter_map(|problem| problem.message.split_once("known keys here: ")).map(|(_, list)| list).next();
    list.map(|list| list.split(", ").map(str::to_owned).collect()).unwrap_or_default()
}

/// Every key that holds a value, as the reader tells.
fn known_keys() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut open = vec![String::new()];
    while let Some(prefix) = open.pop() {
        for name in known_below(&prefix) {
            let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            let forms = [key.clone(), format!("{key}[]"), format!("{key}.<name>")];
            match forms.into_iter().find(|form| !known_below(form).is_empty()) {
                Some(table) => open.push(table),
                None => {
                    known.insert(key);
                }
            }
        }
    }
    // Beside names that the user chooses no key is unknown, so that none is listed.
    known.extend(["agents.route", "agents.escalate"].map(str::to_owned));
    known
}

#[test]
fn every_key_of_the_configuration_is_documented() {
    let known = known_keys();
    assert!(known.len() > 30 && known.contains("quality_gates[].name") && known.contains("agents.<name>.kind"));
    assert_eq!(first_cells(section(&read("docs/config.md"), "## Keys")), known);
}

#[test]
fn types_and_defaults_of_the_configuration_are_as_documented() {
    let text = read("docs/config.md");
    for row in rows(section(&text, "## Keys")) {
        let [key, kind, default, _] = row.as_slice() else { panic!("{row:?}") };
        let key = code(key).unwrap();
        let wrong = if kind.starts_with("a mapping") { "[]" } else { "{}" };
        let found = problems(&with_key(key, wrong));
        let rule = found.iter().find_map(|problem| problem.message.split_once(" must be ")).map(|(_, rule)| rule);
        let rule = rule.and_then(|rule| rule.split_once(", found ")).map(|(rule, _)| rule);
        let rule = match rule.unwrap_or_else(|| panic!("{key} takes anything: {found:?}")) {
            "a non-empty text" => "text",
            "a list" => "list of ",
            rule => rule,
        };
        assert!(kind.starts_with(rule), "{key}: documented as {kind}, but it must be {rule}");
        match (code(default), *default) {
            (Some(value), _) => {
                let silent = with_key(key, "null");
                assert_eq!(Config::parse(&with_key(key, value)), Config::parse(&silent), "the default of {key}");
            }
            (None, "required") if key != "agents.<name>.kind" => {
                let message = format!("{} is missing", key.replace("[]", "[0]"));
                let empty = problems("quality_gates: [{}]\nsecrets: { allow: [{}] }");
                assert!(empty.iter().any(|problem| problem.message == message), "{message}");
            }
            (None, other) => assert!(matches!(other, "none" | "by kind" | "required"), "{key}: {other}"),
        }
    }
}

#[test]
fn every_rule_of_the_secret_scan_is_documented() {
    let text = read("docs/config.md");
    let section = section(&text, "### secrets");
    for rule in mahabharatha_core::secrets::rules() {
        assert!(section.contains(&format!("`{rule}`")), "{rule}");
    }
}

#[test]
fn keys_without_effect_are_used_by_nothing() {
    let text = read("docs/config.md");
    let rows = rows(section(&text, "## Keys"));
    let marked: Vec<&str> =
        rows.iter().filter(|row| row[3].contains(NO_EFFECT)).filter_map(|row| code(row[0])).collect();
    assert!(!marked.is_empty());
    let sources = ["core/src", "sys/src", "engine/src", "setup/src", "app/src"].into_iter().flat_map(sources);
    for (path, code) in sources.filter(|(path, _)| !path.to_string_lossy().contains("/config/")) {
        for key in &marked {
            let field = key.rsplit('.').next().filter(|field| field.contains('_'));
            let used = code.contains(&format!("config.{key}"))
                || field.is_some_and(|field| code.contains(&format!(".{field}")));
            assert!(!used, "docs/config.md: {key} has no effect, but {} uses it", path.display());
        }
    }
}

#[test]
fn the_environment_is_as_documented() {
    let text = read("docs/config.md");
    let environment = section(&text, "## Environment");
    let in_name = |c: char| c.is_ascii_uppercase() || c == '_';
    let ours = |text: &&str| {
        // What only tests set is not for people.
        text.starts_with("MAHABHARATHA_") && !text.starts_with("MAHABHARATHA_TEST_") && text.chars().all(in_name)
    };
    let (tests, sources): (Vec<_>, Vec<_>) = ["sys/src", "engine/src", "setup/src", "app/src"]
        .into_iter()
        .flat_map(sources)
        .partition(|(path, _)| path.ends_with("crash.rs"));
    let named = |sources: &[(PathBuf, String)]| -> BTreeSet<String> {
        sources.iter().flat_map(|(_, code)| literals(code)).filter(ours).map(str::to_owned).collect()
    };
    let (for_tests, set) = (named(&tests), named(&sources));
    let testing = read("docs/testing.md");
    assert!(for_tests.len() == 3 && for_tests.iter().all(|name| testing.contains(&format!("`{name}"))));
    let documented: BTreeSet<String> =
        first_cells(environment).into_iter().filter(|name| ours(&name.as_str())).collect();
    assert_eq!(documented, set);

    let env = read("sys/src/proc/env.rs");
    let (_, always) = env.split_once("const ALWAYS").unwrap();
    let always = always.split(';').nth(1).unwrap();
    let names: Vec<&str> = literals(always).collect();
    assert!(names.contains(&"PATH"), "{always}");
    for name in names {
        assert!(environment.contains(&format!("`{name}`")), "every child gets {name}");
    }
}

#[test]
fn every_hook_is_documented() {
    let page = read("docs/claude-code.md");
    let rows = page.split("\n## Hooks\n").nth(1).unwrap().lines().filter(|line| line.starts_with("| `"));
    let documented: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let dir = tempfile::tempdir().unwrap();
    let plugin = Command::new(env!("CARGO_BIN_EXE_mahabharatha"))
        .args(["install", "--yes", "--plugin"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(plugin.status.success(), "{}", String::from_utf8_lossy(&plugin.stderr));
    let hooks = fs::read_to_string(dir.path().join("mahabharatha/hooks/hooks.json")).unwrap();
    let hooks: Value = serde_json::from_str(&hooks).unwrap();
    let installed: Vec<&String> = hooks["hooks"].as_object().unwrap().keys().collect();
    assert_eq!(documented, installed);
}

#[test]
fn what_the_way_in_names_is_there() {
    let text = read("CONTRIBUTING.md");
    let named = text.split('`').skip(1).step_by(2);
    let places = ["core/", "sys/", "engine/", "setup/", "app/", "bench/", "docs/", ".ci/", "./test"];
    let paths: Vec<&str> = named
        .filter(|name| places.iter().any(|place| name.starts_with(place)) && !name.contains('<'))
        .filter_map(|name| name.split(' ').next())
        .collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "CONTRIBUTING.md names {path}");
    }
    let sources = sources("core/tests/sim");
    let read: BTreeSet<&str> =
        sources.iter().flat_map(|(_, code)| literals(code)).filter(|text| text.starts_with("SIM_")).collect();
    let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    assert_eq!(words.filter(|word| word.starts_with("SIM_")).collect::<BTreeSet<_>>(), read);
}

/// An installed program has no `docs/`: hints name `mahabharatha help <topic>`.
#[test]
fn no_message_names_a_file_that_a_user_may_lack() {
    for dir in ["app/src", "core/src", "engine/src", "setup/src", "sys/src"] {
        for (path, code) in sources(dir) {
            let is_page = |text: &&str| text.contains("docs/") && text.contains(".md") && !text.contains("../docs/");
            let named: Vec<&str> = literals(&code).filter(is_page).collect();
            assert!(named.is_empty(), "{}: {named:?}", path.display());
        }
    }
}
