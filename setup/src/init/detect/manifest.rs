//! Reads the manifests of package managers: names, descriptions and dependencies.

use mahabharatha_sys::ui::{fit, one_line};
use serde_json::Value;
use toml::Table;

use super::markup;
use super::tree::{Tree, depth, dir_of, file_name};

/// How many manifests are read, those nearest to the root first.
const MAX_MANIFESTS: usize = 2_000;
/// Longest name or version that is kept, in characters.
const MAX_NAME_CHARS: usize = 80;
const MAX_DESCRIPTION_CHARS: usize = 300;

#[derive(Debug)]
pub struct Manifest {
    pub path: String,
    /// The directory that it describes; empty for the root.
    pub dir: String,
    pub content: Content,
}

#[derive(Debug)]
pub enum Content {
    Npm(Value),
    Composer(Value),
    Python(Table),
    Pipfile(Table),
    Requirements(String),
    Cargo(Table),
    Go(String),
    Maven(String),
    Gradle(String),
    DotNet(String),
    Gemfile(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub version: Option<String>,
}

/// Reads all manifests, those nearest to the root first.
pub fn read_all(tree: &Tree) -> Vec<Manifest> {
    let mut paths: Vec<&str> =
        tree.files().iter().map(|entry| entry.path.as_str()).filter(|path| is_manifest(path)).collect();
    paths.sort_by_key(|path| (depth(path), *path));
    if paths.len() > MAX_MANIFESTS {
        tree.note(format!("found {} manifests; only the {MAX_MANIFESTS} nearest to the root were read", paths.len()));
        paths.truncate(MAX_MANIFESTS);
    }
    let read = |path: &str| {
        let content = parse(path, tree.read(path)?, tree)?;
        Some(Manifest { path: path.to_owned(), dir: described_dir(path).to_owned(), content })
    };
    paths.into_iter().filter_map(read).collect()
}

fn is_manifest(path: &str) -> bool {
    let name = file_name(path);
    matches!(
        name,
        "package.json"
            | "composer.json"
            | "pyproject.toml"
            | "Pipfile"
            | "Cargo.toml"
            | "go.mod"
            | "pom.xml"
            | "build.gradle"
            | "build.gradle.kts"
            | "Gemfile"
    ) || is_requirements(path)
        || [".csproj", ".fsproj", ".vbproj"].iter().any(|ending| name.ends_with(ending))
}

fn is_requirements(path: &str) -> bool {
    let name = file_name(path);
    name.ends_with(".txt") && (name.starts_with("requirements") || file_name(dir_of(path)) == "requirements")
}

/// Returns the directory that a manifest describes. A list in a folder named `requirements` describes the folder's
/// parent.
fn described_dir(path: &str) -> &str {
    let dir = dir_of(path);
    if is_requirements(path) && file_name(dir) == "requirements" { dir_of(dir) } else { dir }
}

fn parse(path: &str, text: String, tree: &Tree) -> Option<Content> {
    let json = |text: &str| match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(value) => Some(value),
        Err(error) => {
            tree.note(format!("{path} is not valid JSON: {error}"));
            None
        }
    };
    let toml = |text: &str| match text.parse::<Table>() {
        Ok(table) => Some(table),
        Err(error) => {
            tree.note(format!("{path} is not valid TOML: {}", one_line(error.message())));
            None
        }
    };
    Some(match file_name(path) {
        "package.json" => Content::Npm(json(&text)?),
        "composer.json" => Content::Composer(json(&text)?),
        "pyproject.toml" => Content::Python(toml(&text)?),
        "Pipfile" => Content::Pipfile(toml(&text)?),
        "Cargo.toml" => Content::Cargo(toml(&text)?),
        "go.mod" => Content::Go(text),
        "pom.xml" => Content::Maven(markup::without_comments(&text)),
        "build.gradle" | "build.gradle.kts" => Content::Gradle(text),
        "Gemfile" => Content::Gemfile(text),
        _ if is_requirements(path) => Content::Requirements(text),
        _ => Content::DotNet(markup::without_comments(&text)),
    })
}

impl Manifest {
    /// Returns the name and the description, if the manifest has them.
    pub fn named(&self) -> (Option<String>, Option<String>) {
        let word =
            |text: Option<&str>| text.map(|text| fit(&one_line(text), MAX_NAME_CHARS)).filter(|text| !text.is_empty());
        let sentence = |text: Option<&str>| {
            text.map(|text| fit(&one_line(text), MAX_DESCRIPTION_CHARS)).filter(|text| !text.is_empty())
        };
        match &self.content {
            Content::Npm(json) | Content::Composer(json) => {
                (word(json["name"].as_str()), sentence(json["description"].as_str()))
            }
            Content::Python(toml) => {
                let of = |key| at(toml, &["project", key]).or(at(toml, &["tool", "poetry", key]));
                (word(of("name").and_then(toml::Value::as_str)), sentence(of("description").and_then(|v| v.as_str())))
            }
            Content::Cargo(toml) => {
                let of = |key| at(toml, &["package", key]).and_then(toml::Value::as_str);
                (word(of("name")), sentence(of("description")))
            }
            Content::Go(text) => {
                let module = text.lines().find_map(|line| line.trim().strip_prefix("module ")).map(str::trim);
                (word(module.and_then(|module| module.rsplit('/').next())), None)
            }
            Content::Maven(text) => {
                let own = markup::without_element(text, "parent");
                (word(markup::text_of(&own, "artifactId")), sentence(markup::text_of(&own, "description")))
            }
            _ => (None, None),
        }
    }

    pub fn dependencies(&self) -> Vec<Dependency> {
        match &self.content {
            Content::Npm(json) => dependencies_in_objects(
                json,
                &["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"],
            ),
            Content::Composer(json) => dependencies_in_objects(json, &["require", "require-dev"]),
            Content::Python(toml) => pyproject_dependencies(toml),
            Content::Pipfile(toml) => dependencies_in_tables([at(toml, &["packages"]), at(toml, &["dev-packages"])]),
            Content::Requirements(text) => text.lines().filter_map(requirement).collect(),
            Content::Cargo(toml) => dependencies_in_tables(
                [&["dependencies"][..], &["dev-dependencies"], &["build-dependencies"], &["workspace", "dependencies"]]
                    .map(|keys| at(toml, keys)),
            ),
            Content::Go(text) => text.lines().filter_map(go_requirement).collect(),
            Content::Maven(text) => markup::maven_artifacts(text),
            Content::Gradle(text) => markup::gradle_artifacts(text),
            Content::DotNet(text) => markup::package_references(text),
            Content::Gemfile(text) => text.lines().filter_map(gem).collect(),
        }
    }

    pub fn depends_on(&self, name: &str) -> bool {
        self.dependencies().iter().any(|dependency| dependency.name == name)
    }
}

impl Dependency {
    pub fn new(name: &str, version: Option<&str>) -> Dependency {
        let version =
            version.map(|version| fit(&one_line(version), MAX_NAME_CHARS)).filter(|version| !version.is_empty());
        Dependency { name: name.trim().to_owned(), version }
    }
}

/// Looks up a nested key in a table.
pub fn at<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t toml::Value> {
    let (first, rest) = keys.split_first()?;
    let mut value = table.get(*first)?;
    for key in rest {
        value = value.as_table()?.get(*key)?;
    }
    Some(value)
}

fn dependencies_in_objects(json: &Value, keys: &[&str]) -> Vec<Dependency> {
    let objects = keys.iter().filter_map(|key| json[*key].as_object());
    objects.flatten().map(|(name, version)| Dependency::new(name, version.as_str())).collect()
}

fn dependencies_in_tables<'t>(tables: impl IntoIterator<Item = Option<&'t toml::Value>>) -> Vec<Dependency> {
    let entries = tables.into_iter().flatten().filter_map(toml::Value::as_table).flatten();
    entries
        .map(|(name, value)| {
            let version = value.as_str().or_else(|| value.as_table()?.get("version")?.as_str());
            Dependency::new(name, version.filter(|version| *version != "*"))
        })
        .collect()
}

fn pyproject_dependencies(toml: &Table) -> Vec<Dependency> {
    let tables = |keys: &[&str]| at(toml, keys).and_then(toml::Value::as_table);
    let arrays = at(toml, &["project", "dependencies"]).into_iter();
    let optional = tables(&["project", "optional-dependencies"]).into_iter().flatten().map(|(_, list)| list);
    let groups = tables(&["dependency-groups"]).into_iter().flatten().map(|(_, list)| list);
    let lists = arrays.chain(optional).chain(groups).filter_map(toml::Value::as_array).flatten();
    let mut found: Vec<Dependency> = lists.filter_map(toml::Value::as_str).filter_map(requirement).collect();
    found.extend(dependencies_in_tables([
        at(toml, &["tool", "poetry", "dependencies"]),
        at(toml, &["tool", "poetry", "dev-dependencies"]),
    ]));
    let groups = tables(&["tool", "poetry", "group"]).into_iter().flatten();
    found.extend(dependencies_in_tables(groups.map(|(_, group)| group.as_table()?.get("dependencies"))));
    found.retain(|dependency| dependency.name != "python");
    found
}

/// Parses a line like `Django>=4.2,<5 ; python_version > "3.8"  # why`.
fn requirement(line: &str) -> Option<Dependency> {
    let line = line.split(['#', ';']).next()?.trim();
    if line.starts_with('-') {
        return None;
    }
    let end = line.find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-'))).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let version = rest.trim_start();
    let version = version.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(version, |(_, after)| after);
    let version = version.trim().strip_prefix('@').map_or(version.trim(), |_| "");
    (!name.is_empty()).then(|| Dependency::new(&name.to_ascii_lowercase().replace(['_', '.'], "-"), Some(version)))
}

/// Parses `require github.com/x/y v1.2.3`, also inside a block. Indirect requirements are skipped.
fn go_requirement(line: &str) -> Option<Dependency> {
    let line = line.trim();
    let line = line.strip_prefix("require ").unwrap_or(line);
    let (name, rest) = line.split_once(' ')?;
    let version = rest.trim().split(' ').next()?;
    let is_requirement = version.starts_with('v') && name.contains('.') && name.contains('/');
    (is_requirement && !rest.contains("// indirect")).then(|| Dependency::new(name, Some(version)))
}

/// Parses `gem "rails", "~> 7.1"`.
fn gem(line: &str) -> Option<Dependency> {
    let rest = line.trim().strip_prefix("gem ")?;
    let mut quoted = rest.split(['"', '\'']).skip(1).step_by(2);
    let name = quoted.next()?;
    let version = quoted.next().filter(|text| text.contains(|c: char| c.is_ascii_digit()));
    Some(Dependency::new(name, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(dependency: Option<Dependency>) -> String {
        dependency.map_or("-".to_owned(), |found| format!("{} {}", found.name, found.version.unwrap_or_default()))
    }

    #[test]
    fn requirements_of_every_form_are_read() {
        let lines = [
            "Django>=4.2,<5  # the web",
            "uvicorn[standard] ~= 0.30 ; python_version > '3.8'",
            "psycopg_binary",
            "-r base.txt",
            "private @ https://example.com/x.whl",
            "# nothing",
            "",
        ];
        let found = lines.map(|line| shown(requirement(line)));
        assert_eq!(found, ["django >=4.2,<5", "uvicorn ~= 0.30", "psycopg-binary ", "-", "private ", "-", "-"]);
        let go = ["require github.com/gin-gonic/gin v1.10.0", "\tgolang.org/x/sys v0.1.0 // indirect", "go 1.22", ")"];
        assert_eq!(go.map(|line| shown(go_requirement(line))), ["github.com/gin-gonic/gin v1.10.0", "-", "-", "-"]);
        let gems = ["gem \"rails\", \"~> 7.1\"", "  gem 'puma', require: false", "group :test do"];
        assert_eq!(gems.map(|line| shown(gem(line))), ["rails ~> 7.1", "puma ", "-"]);
    }

    #[test]
    fn every_list_of_a_pyproject_counts() {
        let toml = r#"
            [project]
            dependencies = ["fastapi==0.115"]
            optional-dependencies = { dev = ["pytest>=8"] }
            [dependency-groups]
            lint = ["ruff", { include-group = "dev" }]
            [tool.poetry.dependencies]
            python = "^3.12"
            flask = { version = "^3", extras = ["async"] }
            [tool.poetry.group.test.dependencies]
            mypy = "*"
        "#;
        let found = pyproject_dependencies(&toml.parse().unwrap()).into_iter().map(|found| shown(Some(found)));
        assert_eq!(found.collect::<Vec<_>>(), ["fastapi ==0.115", "pytest >=8", "ruff ", "flask ^3", "mypy "]);
    }
}
