use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Project, attempt, cache, or_say_so};

const WEB: [&str; 2] = ["fastapi", "flask"];
const CLI: [&str; 2] = ["typer", "click"];

#[test]
fn python_scaffolds_are_checked_tested_and_run() {
    let projects: Vec<Project> =
        WEB.into_iter().chain(CLI).map(|framework| Project::new("python", framework)).collect();
    let Some(bin) = or_say_so("the Python scaffolds", install(&projects)) else { return };
    let mypy_cache = cache("mypy");
    for project in &projects {
        project.run(bin.join("ruff"), &["check"]);
        project.run(bin.join("ruff"), &["format", "--check"]);
        project.run(bin.join("mypy"), &["--cache-dir", mypy_cache.to_str().unwrap()]);
        project.run(bin.join("pytest"), &["-q"]);
        if WEB.iter().any(|framework| project.slug.ends_with(framework)) {
            project.assert_serves(project.command(bin.join(&project.slug), &[]));
        } else {
            assert_eq!(project.run(bin.join(&project.slug), &["greet", "Ada"]), "Hello, Ada!\n");
            let module = project.module();
            assert_eq!(project.run(bin.join("python"), &["-m", &module, "greet", "--shout", "Ada"]), "HELLO, ADA!\n");
        }
        project.assert_clean("none");
    }
}

/// All of them into one environment, with what they themselves ask for.
fn install(projects: &[Project]) -> Result<PathBuf, String> {
    let bin = environment(&cache("python"))?;
    let mut install = Command::new(bin.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-build-isolation"]);
    for project in projects {
        let path = project.path().to_str().unwrap();
        install.args(["--editable", path, "--group", &format!("{path}/pyproject.toml:dev")]);
    }
    attempt(&mut install).map(|_| bin)
}

/// With a pip that knows dependency groups, and what builds the packages.
pub fn environment(dir: &Path) -> Result<PathBuf, String> {
    let bin = dir.join("bin");
    let ready = dir.join("ready");
    if !ready.exists() {
        attempt(Command::new("python3").args(["-m", "venv", "--clear"]).arg(dir))?;
        let tools = ["-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1", "hatchling~=1.33", "editables"];
        attempt(Command::new(bin.join("python")).args(tools))?;
        std::fs::write(ready, "").map_err(|error| error.to_string())?;
    }
    Ok(bin)
}
