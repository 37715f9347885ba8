//! `demo`: a complete run of an example project, without network, key or installed agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mahabharatha_core::run::End;
use mahabharatha_core::run::event::Intent;
use mahabharatha_engine::session::{self, Options, Outcome};
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{self, FirstCommit, Git, Identity};
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::ui::Ui;

use super::Global;
use super::exit::ExitCode;
use super::finish::{Driver, finish};

const FEATURE: &str = "statistics";

/// Files of the example project.
const FILES: [(&str, &str); 9] = [
    ("README.md", include_str!("../../assets/demo/readme.md")),
    ("tests/run.sh", include_str!("../../assets/demo/run-tests.sh")),
    ("tools/scripted-agent.sh", include_str!("../../assets/demo/scripted-agent.sh")),
    (".mahabharatha/config.yaml", include_str!("../../assets/demo/config.yaml")),
    (".gsd/PROJECT.md", include_str!("../../assets/demo/project.md")),
    (".gsd/.current-feature", "statistics\n"),
    (".gsd/specs/statistics/requirements.md", include_str!("../../assets/demo/requirements.md")),
    (".gsd/specs/statistics/design.md", include_str!("../../assets/demo/design.md")),
    (".gsd/specs/statistics/task-graph.json", include_str!("../../assets/demo/task-graph.json")),
];

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Make the project here, and leave it there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &DemoArgs) -> Result<ExitCode> {
    let temporary = match &args.keep {
        Some(_) => None,
        None => Some(
            tempfile::tempdir()
                .map_err(|error| Error::new(Kind::Failed, format!("no temporary directory: {error}")))?,
        ),
    };
    let dir = match (&args.keep, &temporary) {
        (Some(dir), _) => global.directory.join(dir),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => unreachable!("one of the two is there"),
    };
    let project = make_project(&dir)?;
    let dir = project.root().to_owned();
    let feature = project.which_feature(Some(FEATURE), |_| None)?;
    ui.note(&format!(
        "An example project is in {}: a spec of twelve tasks on three levels, two of which go wrong at first.",
        dir.display()
    ));
    ui.note("$ mahabharatha run statistics");
    let options = Options::new(Intent::Complete);
    let place = Place::new(project, feature);
    let code = match session::run(&place.project, &place.paths, ui, &options)? {
        Outcome::AlreadyCompleted | Outcome::Open => ExitCode::Done,
        Outcome::Ended(End::Completed) => ExitCode::Done,
        Outcome::Ended(End::Stopped) => return Err(stopped(args.keep.is_some().then_some(&*dir))),
        Outcome::Ended(end) => finish(&place, ui, &end, Driver::Run)?,
    };
    ui.note(&format!(
        "\n$ cat {} (here without its timeline, a Mermaid chart)",
        place.paths.completion().strip_prefix(&dir).unwrap_or(Path::new("COMPLETION.md")).display()
    ));
    let report = bounded::read_to_string(&place.paths.completion(), LARGE_FILE_BYTES)
        .map_err(io("read", &place.paths.completion()))?;
    ui.data(&without_section(&report, "## Timeline"));
    ui.note("\n$ git log --graph --oneline");
    ui.data(&log(&place.project)?);
    if args.keep.is_some() {
        ui.note(&format!("\nThe project stays in {}.", dir.display()));
    }
    ui.note(
        "\nNext: in a project of yours, `mahabharatha init`, then `mahabharatha plan FEATURE`, `design` and `run`.",
    );
    Ok(code)
}

/// Returns the error of a demo that was stopped; `kept` is where its project stays.
fn stopped(kept: Option<&Path>) -> Error {
    let Some(dir) = kept else {
        return Error::new(Kind::Stopped, "the demo was stopped, and its project removed")
            .hint("`mahabharatha demo --keep DIR` keeps it.");
    };
    let dir = shell_word(&dir.to_string_lossy());
    Error::new(Kind::Stopped, "the demo was stopped; its project and its work are kept")
        .hint(format!("Go on with: mahabharatha -C {dir} run {FEATURE}"))
}

/// Returns a document without the section under this heading.
fn without_section(document: &str, heading: &str) -> String {
    let Some((before, section)) = document.split_once(&format!("\n{heading}\n")) else { return document.to_owned() };
    let after = section.find("\n## ").map_or("", |at| &section[at + 1..]);
    format!("{before}\n{after}")
}

fn make_project(dir: &Path) -> Result<Project> {
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::new(Kind::Usage, format!("{} is not empty", dir.display())).hint("Name a new directory."));
    }
    for (name, text) in FILES {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(io("create", parent))?;
        fs::write(&path, text).map_err(io("write", &path))?;
    }
    // Git runs in this directory, where a relative path would be wrong.
    let dir = &dir.canonicalize().map_err(io("find", dir))?;
    let by = &Identity::default();
    let first = FirstCommit { branch: "main", message: "The example project", by, paths: None };
    git::init(dir, &dir.join(".git"), &first)?;
    Project::find(dir)
}

fn log(project: &Project) -> Result<String> {
    let git = Git::repository(project.common_dir());
    let output = git.run(["log", "--graph", "--oneline", "--no-decorate", "--topo-order", "main"])?;
    Ok(String::from_utf8_lossy(&output.bytes).into_owned())
}
