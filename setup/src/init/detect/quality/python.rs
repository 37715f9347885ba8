//! Finds the commands of a Python project.

use super::shared::{command, evidence};
use super::{Command, Coverage, Kind};
use crate::init::detect::manifest::{Content, Manifest, at};
use crate::init::detect::package;
use crate::init::detect::tree::{Tree, dir_of, join};

/// A directory with a Python project, whatever manifests it has.
struct Place<'t> {
    tree: &'t Tree,
    dir: &'t str,
    pyproject: Option<&'t toml::Table>,
    manifests: Vec<&'t Manifest>,
    run: &'static str,
}

pub fn commands(tree: &Tree, dir: &str, manifests: &[&Manifest], coverage: Option<&Coverage>) -> Vec<Command> {
    let pyproject = manifests.iter().find_map(|manifest| match &manifest.content {
        Content::Python(toml) => Some(toml),
        _ => None,
    });
    let (manager, run) = package::python_manager(tree, dir, pyproject);
    let place = Place { tree, dir, pyproject, manifests: manifests.to_vec(), run };
    let mut found: Vec<Command> = place.checks().into_iter().chain(place.test(coverage)).collect();
    if !found.is_empty() {
        found.extend(place.install(manager));
    }
    found
}

impl Place<'_> {
    fn command(&self, kind: Kind, text: &str, from: String) -> Command {
        command(kind, self.dir, format!("{}{text}", self.run), from)
    }

    /// Returns the file that shows that the tool is used: its table in `pyproject.toml`, its own settings file, or a
    /// manifest that depends on it.
    fn uses(&self, tool: &str, files: &[&str]) -> Option<String> {
        let table = self.pyproject.and_then(|toml| at(toml, &["tool", tool])).map(|_| join(self.dir, "pyproject.toml"));
        let file = || evidence(self.tree, self.dir, files);
        table.or_else(file).or_else(|| self.installs(tool))
    }

    fn installs(&self, tool: &str) -> Option<String> {
        self.manifests.iter().find(|manifest| manifest.depends_on(tool)).map(|manifest| manifest.path.clone())
    }

    fn section(&self, file: &str, section: &str) -> Option<String> {
        let path = join(self.dir, file);
        let text = self.tree.read(&path)?;
        text.lines().any(|line| line.trim() == format!("[{section}]")).then_some(path)
    }

    fn checks(&self) -> Vec<Command> {
        let mut found = Vec::new();
        let flake8 = || self.uses("flake8", &[".flake8"]).or_else(|| self.section("setup.cfg", "flake8"));
        if let Some(from) = self.uses("ruff", &["ruff.toml", ".ruff.toml"]) {
            found.push(self.command(Kind::Lint, "ruff check .", from));
        } else if let Some(from) = flake8() {
            found.push(self.command(Kind::Lint, "flake8", from));
        }
        let ruff_format = self.pyproject.and_then(|toml| at(toml, &["tool", "ruff", "format"]));
        if ruff_format.is_some() {
            let from = join(self.dir, "pyproject.toml");
            found.push(self.command(Kind::Format, "ruff format --check .", from));
        } else if let Some(from) = self.uses("black", &[]) {
            found.push(self.command(Kind::Format, "black --check .", from));
        }
        let mypy = self.uses("mypy", &["mypy.ini", ".mypy.ini"]).or_else(|| self.section("setup.cfg", "mypy"));
        if let Some(from) = mypy {
            // The files to check may be configured; an argument would override that.
            let named = self.pyproject.and_then(|toml| at(toml, &["tool", "mypy", "files"])).is_some();
            found.push(self.command(Kind::TypeCheck, if named { "mypy" } else { "mypy ." }, from));
        } else if let Some(from) = self.uses("pyright", &["pyrightconfig.json"]) {
            found.push(self.command(Kind::TypeCheck, "pyright", from));
        }
        found
    }

    fn test(&self, coverage: Option<&Coverage>) -> Option<Command> {
        let pytest = self.uses("pytest", &["pytest.ini", "conftest.py", "tests/conftest.py"]);
        let pytest = pytest.or_else(|| self.section("setup.cfg", "tool:pytest"));
        let threshold = coverage.filter(|coverage| coverage.dir == self.dir);
        if let Some(from) = pytest {
            let command = match threshold {
                Some(coverage) if self.installs("pytest-cov").is_some() => {
                    format!("pytest --cov --cov-fail-under={}", coverage.percent)
                }
                Some(coverage) if self.installs("coverage").is_some() => {
                    let report = format!("{}coverage report --fail-under={}", self.run, coverage.percent);
                    format!("coverage run -m pytest && {report}")
                }
                _ => "pytest".to_owned(),
            };
            return Some(self.command(Kind::Test, &command, from));
        }
        if let Some(manage) = evidence(self.tree, self.dir, &["manage.py"]) {
            return Some(self.command(Kind::Test, "python3 manage.py test", manage));
        }
        if let Some(tox) = evidence(self.tree, self.dir, &["tox.ini"]) {
            return Some(self.command(Kind::Test, "tox", tox));
        }
        let is_test = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let dir = dir_of(path);
            name.starts_with("test_") && name.ends_with(".py") && (dir == join(self.dir, "tests") || dir == self.dir)
        };
        let test = self.tree.files().iter().find(|entry| is_test(&entry.path))?;
        let start = dir_of(test.path.strip_prefix(self.dir).unwrap_or(&test.path).trim_start_matches('/'));
        let where_from = if start.is_empty() { String::new() } else { format!(" -s {start}") };
        Some(self.command(Kind::Test, &format!("python3 -m unittest discover{where_from}"), test.path.clone()))
    }

    fn install(&self, manager: &str) -> Option<Command> {
        let from = self.manifests.first().map(|manifest| manifest.path.clone())?;
        let text = match manager {
            "uv" => "uv sync",
            "poetry" => "poetry install",
            "pdm" => "pdm install",
            "pipenv" => "pipenv install --dev",
            // Only the user can say into which environment pip should install.
            _ => return None,
        };
        Some(command(Kind::Install, self.dir, text, from))
    }
}
