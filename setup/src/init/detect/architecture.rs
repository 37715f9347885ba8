//! Surveys the architecture: entry points, directories, and the members of a monorepo.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use mahabharatha_sys::ui::{fit, one_line};
use serde::Serialize;

use super::manifest::{Content, Manifest, at};
use super::markup;
use super::tree::{Tree, depth, dir_of, file_name, join};

const MAX_ENTRY_POINTS: usize = 60;
const MAX_DIRECTORIES: usize = 80;
const MAX_MEMBERS: usize = 500;
const MAX_PATTERNS: usize = 1_000;

#[derive(Debug, Serialize)]
pub struct Architecture {
    pub entry_points: Vec<EntryPoint>,
    /// Down to a depth of two.
    pub directories: Vec<Directory>,
    pub members: Vec<Member>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EntryPoint {
    /// A file, or the target that a script calls.
    pub path: String,
    pub what: String,
}

#[derive(Debug, Serialize)]
pub struct Directory {
    pub path: String,
    pub files: u64,
    pub lines: u64,
    /// The language with the most lines.
    pub language: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Member {
    pub path: String,
    pub name: Option<String>,
    /// The kind of workspace it belongs to.
    pub of: &'static str,
}

pub fn survey(tree: &Tree, manifests: &[Manifest]) -> Architecture {
    Architecture {
        entry_points: entry_points(tree, manifests),
        directories: directories(tree),
        members: members(tree, manifests),
    }
}

fn entry_points(tree: &Tree, manifests: &[Manifest]) -> Vec<EntryPoint> {
    let mut found = BTreeSet::new();
    let mut add = |path: String, what: &str| {
        found.insert(EntryPoint { path: fit(&one_line(&path), 200), what: fit(&one_line(what), 120) });
    };
    for entry in tree.files() {
        if let Some(what) = known_entry(&entry.path) {
            add(entry.path.clone(), what);
        }
    }
    for manifest in manifests {
        match &manifest.content {
            Content::Npm(json) => {
                for key in ["main", "module"] {
                    if let Some(path) = json[key].as_str() {
                        add(join(&manifest.dir, path.trim_start_matches("./")), &format!("package {key}"));
                    }
                }
                let bins = json["bin"].as_object().into_iter().flatten();
                for (name, path) in bins.filter_map(|(name, path)| Some((name, path.as_str()?))) {
                    add(join(&manifest.dir, path.trim_start_matches("./")), &format!("command {name}"));
                }
                if let Some(path) = json["bin"].as_str() {
                    add(join(&manifest.dir, path.trim_start_matches("./")), "package command");
                }
            }
            Content::Python(toml) => {
                let scripts = [&["project", "scripts"][..], &["tool", "poetry", "scripts"]];
                for (name, target) in scripts.iter().filter_map(|keys| at(toml, keys)?.as_table()).flatten() {
                    add(target.as_str().unwrap_or_default().to_owned(), &format!("command {name}"));
                }
            }
            Content::Cargo(toml) => {
                for bin in toml.get("bin").and_then(toml::Value::as_array).into_iter().flatten() {
                    if let Some(path) = bin.get("path").and_then(toml::Value::as_str) {
                        add(join(&manifest.dir, path), "program");
                    }
                }
            }
            _ => {}
        }
    }
    if found.len() > MAX_ENTRY_POINTS {
        tree.note(format!("found {} entry points; only {MAX_ENTRY_POINTS} are listed", found.len()));
    }
    let mut found: Vec<EntryPoint> = found.into_iter().filter(|entry| !entry.path.is_empty()).collect();
    found.sort_by_key(|entry| depth(&entry.path));
    found.truncate(MAX_ENTRY_POINTS);
    found
}

/// Recognizes an entry point by the conventional file name and place of its ecosystem.
fn known_entry(path: &str) -> Option<&'static str> {
    let (dir, name) = (dir_of(path), file_name(path));
    let in_dir = |wanted: &str| dir == wanted || dir.ends_with(&format!("/{wanted}"));
    Some(match name {
        "main.rs" if in_dir("src") => "program",
        "main.go" => "program",
        "manage.py" => "Django's command line",
        "wsgi.py" => "WSGI application",
        "asgi.py" => "ASGI application",
        "__main__.py" => "program (python -m)",
        "main.py" | "app.py" if depth(path) <= 4 => "program",
        "main.tsx" | "main.jsx" | "main.ts" if in_dir("src") => "program",
        "Program.cs" => "program",
        "Application.java" | "Main.java" => "program",
        "page.tsx" | "page.jsx" if in_dir("app") => "first page of the app directory",
        "index.tsx" | "index.jsx" if in_dir("pages") => "first page",
        "index.html" if depth(path) <= 1 => "page",
        "index.php" if in_dir("public") => "front controller",
        "config.ru" => "Rack application",
        _ if name.ends_with("Application.java") || name.ends_with("Application.kt") => "program",
        _ if in_dir("src/bin") && name.ends_with(".rs") => "program",
        _ => return None,
    })
}

fn directories(tree: &Tree) -> Vec<Directory> {
    let mut counted: BTreeMap<&str, (u64, u64, BTreeMap<&'static str, u64>)> = BTreeMap::new();
    for entry in tree.files() {
        let above = entry.path.match_indices('/').take(2).map(|(at, _)| &entry.path[..at]);
        for dir in above {
            let (files, lines, languages) = counted.entry(dir).or_default();
            *files += 1;
            *lines += entry.lines;
            if let Some(language) = entry.language {
                *languages.entry(language).or_default() += entry.lines;
            }
        }
    }
    let mut found: Vec<Directory> = counted
        .into_iter()
        .map(|(path, (files, lines, languages))| Directory {
            path: path.to_owned(),
            files,
            lines,
            language: languages
                .into_iter()
                .max_by_key(|(name, lines)| (*lines, std::cmp::Reverse(*name)))
                .map(|(name, _)| name),
        })
        .collect();
    if found.len() > MAX_DIRECTORIES {
        tree.note(format!("found {} directories down to a depth of two; only the topmost are listed", found.len()));
        found.sort_by_key(|dir| depth(&dir.path));
        found.truncate(MAX_DIRECTORIES);
        found.sort_by(|one, other| one.path.cmp(&other.path));
    }
    found
}

fn members(tree: &Tree, manifests: &[Manifest]) -> Vec<Member> {
    let mut found = BTreeSet::new();
    for manifest in manifests {
        let (of, patterns) = member_patterns(tree, manifest);
        let Some(matcher) = matcher(tree, manifest, patterns) else { continue };
        let same_kind = |other: &&Manifest| {
            std::mem::discriminant(&other.content) == std::mem::discriminant(&manifest.content)
                && other.path != manifest.path
                && matcher.is_match(&other.dir)
        };
        found.extend(manifests.iter().filter(same_kind).map(|member| Member {
            path: member.dir.clone(),
            name: member.named().0,
            of,
        }));
    }
    found.extend(solution_members(tree));
    if found.len() > MAX_MEMBERS {
        tree.note(format!("found {} members; only {MAX_MEMBERS} are listed", found.len()));
    }
    found.into_iter().take(MAX_MEMBERS).collect()
}

/// Returns the kind of workspace and its members as globs, relative to the manifest's directory.
fn member_patterns(tree: &Tree, manifest: &Manifest) -> (&'static str, Vec<String>) {
    let in_dir = |name: &str| tree.read(&join(&manifest.dir, name));
    let texts = |value: Option<&toml::Value>| -> Vec<String> {
        let list = value.and_then(toml::Value::as_array).into_iter().flatten();
        list.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    };
    match &manifest.content {
        Content::Npm(json) => {
            let list = json["workspaces"].as_array().or_else(|| json["workspaces"]["packages"].as_array());
            let listed = list.into_iter().flatten().filter_map(|value| value.as_str()).map(str::to_owned);
            let pnpm = in_dir("pnpm-workspace.yaml").map(|text| yaml_list(&text, "packages")).unwrap_or_default();
            ("npm workspace", listed.chain(pnpm).collect())
        }
        Content::Cargo(toml) => ("Cargo workspace", texts(at(toml, &["workspace", "members"]))),
        Content::Python(toml) => ("uv workspace", texts(at(toml, &["tool", "uv", "workspace", "members"]))),
        Content::Maven(text) => {
            let modules = markup::text_of(text, "modules").unwrap_or_default();
            ("Maven modules", markup::elements(modules, "module").map(|module| module.trim().to_owned()).collect())
        }
        Content::Gradle(_) => {
            let settings = in_dir("settings.gradle").or_else(|| in_dir("settings.gradle.kts")).unwrap_or_default();
            ("Gradle projects", gradle_includes(&settings))
        }
        Content::Go(_) => {
            let work = if manifest.dir.is_empty() { in_dir("go.work") } else { None };
            ("Go workspace", work.map(|text| go_uses(&text)).unwrap_or_default())
        }
        _ => ("", Vec::new()),
    }
}

fn matcher(tree: &Tree, manifest: &Manifest, patterns: Vec<String>) -> Option<GlobSet> {
    if patterns.is_empty() {
        return None;
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns.iter().take(MAX_PATTERNS).filter(|pattern| !pattern.starts_with('!')) {
        let pattern = join(&manifest.dir, pattern.trim_start_matches("./").trim_end_matches('/'));
        match GlobBuilder::new(&pattern).literal_separator(true).build() {
            Ok(glob) => {
                set.add(glob);
            }
            Err(_) => tree.note(format!("{} has an invalid pattern for its members", manifest.path)),
        }
    }
    set.build().ok()
}

/// Returns the plain entries of a YAML list. Not a YAML parser: it reads only the usual block style.
fn yaml_list(text: &str, key: &str) -> Vec<String> {
    let below = text.lines().skip_while(|line| line.trim_end() != format!("{key}:")).skip(1);
    below
        .map(str::trim)
        .take_while(|line| line.starts_with('-') || line.is_empty() || line.starts_with('#'))
        .filter_map(|line| line.strip_prefix('-'))
        .map(|entry| entry.trim().trim_matches(['"', '\'']).to_owned())
        .collect()
}

/// Parses `include 'app', 'lib:core'`, where `:` separates directories.
fn gradle_includes(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("include"));
    let quoted = lines.flat_map(|line| line.split(['"', '\'']).skip(1).step_by(2));
    quoted.map(|name| name.trim_start_matches(':').replace(':', "/")).collect()
}

/// Parses `use ./a`, or a block of such lines.
fn go_uses(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).map(|line| line.strip_prefix("use ").unwrap_or(line).trim());
    lines.filter(|line| line.starts_with('.')).map(str::to_owned).collect()
}

/// Parses lines like `Project("{…}") = "Name", "src\Name\Name.csproj", "{…}"` of a Visual Studio solution.
fn solution_members(tree: &Tree) -> Vec<Member> {
    let solutions = tree.files().iter().filter(|entry| entry.path.ends_with(".sln") && depth(&entry.path) == 0);
    let mut found = Vec::new();
    for text in solutions.filter_map(|entry| tree.read(&entry.path)) {
        for line in text.lines().filter(|line| line.starts_with("Project(")) {
            let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            let [_, name, path, ..] = quoted.as_slice() else { continue };
            let path = path.replace('\\', "/");
            if tree.has(&path) {
                let name = Some(fit(&one_line(name), 80));
                found.push(Member { path: dir_of(&path).to_owned(), name, of: "solution" });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_every_kind_of_list() {
        let pnpm = "packages:\n  # all of them\n  - 'apps/*'\n  - packages/*\n\nother:\n  - no\n";
        assert_eq!(yaml_list(pnpm, "packages"), ["apps/*", "packages/*"]);
        let gradle = "rootProject.name = 'x'\ninclude 'app', ':lib:core'\ninclude(\"web\")";
        assert_eq!(gradle_includes(gradle), ["app", "lib/core", "web"]);
        assert_eq!(go_uses("go 1.22\nuse ./one\nuse (\n\t./two\n)\n"), ["./one", "./two"]);
    }
}
