//! Surveys the stack: languages, frameworks, package managers, toolchains.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::manifest::{Content, Manifest};
use super::package;
use super::toolchain::{self, Toolchain};
use super::tree::Tree;

#[derive(Debug, Serialize)]
pub struct Stack {
    /// Sorted by lines, most first.
    pub languages: Vec<Language>,
    pub frameworks: Vec<Framework>,
    pub managers: Vec<Manager>,
    pub toolchains: Vec<Toolchain>,
    #[serde(skip)]
    pub databases: Vec<Database>,
}

/// A database server that a project may reach by a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Postgres,
    MySql,
    Redis,
}

impl Database {
    /// Returns the directory of the server's socket.
    pub fn sockets(self) -> &'static str {
        match self {
            Database::Postgres => "/var/run/postgresql",
            Database::MySql => "/run/mysqld",
            Database::Redis => "/run/redis",
        }
    }

    /// Tells whether a package of this name is a client of the database.
    fn is_client(self, package: &str) -> bool {
        let (parts, whole): (&[&str], &[&str]) = match self {
            Database::Postgres => (&["postgres", "psycopg", "asyncpg", "pgx", "lib/pq"], &["pg"]),
            Database::MySql => (&["mysql", "mariadb"], &[]),
            Database::Redis => (&["redis"], &[]),
        };
        let package = package.to_ascii_lowercase();
        whole.contains(&package.as_str()) || parts.iter().any(|part| package.contains(part))
    }

    /// Returns the name of the server's container image.
    fn image(self) -> &'static str {
        match self {
            Database::Postgres => "postgres",
            Database::MySql => "mysql",
            Database::Redis => "redis",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Language {
    pub name: &'static str,
    pub files: u64,
    pub lines: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Framework {
    pub name: &'static str,
    pub version: Option<String>,
    /// The manifest that names it.
    pub from: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Manager {
    pub name: &'static str,
    pub from: String,
}

/// Frameworks by package name, sorted. Names differ enough between ecosystems for one list.
const FRAMEWORKS: &[(&str, &str)] = &[
    ("@angular/core", "Angular"),
    ("@nestjs/core", "NestJS"),
    ("@remix-run/react", "Remix"),
    ("@sveltejs/kit", "SvelteKit"),
    ("Microsoft.EntityFrameworkCore", "Entity Framework Core"),
    ("Microsoft.NET.Sdk.BlazorWebAssembly", "Blazor"),
    ("Microsoft.NET.Sdk.Web", "ASP.NET Core"),
    ("NUnit", "NUnit"),
    ("actix-web", "Actix Web"),
    ("aiohttp", "aiohttp"),
    ("astro", "Astro"),
    ("axum", "axum"),
    ("celery", "Celery"),
    ("clap", "clap"),
    ("click", "Click"),
    ("commander", "Commander"),
    ("cypress", "Cypress"),
    ("diesel", "Diesel"),
    ("django", "Django"),
    ("djangorestframework", "Django REST framework"),
    ("electron", "Electron"),
    ("express", "Express"),
    ("fastapi", "FastAPI"),
    ("fastify", "Fastify"),
    ("flask", "Flask"),
    ("github.com/gin-gonic/gin", "Gin"),
    ("github.com/gofiber/fiber/v2", "Fiber"),
    ("github.com/gorilla/mux", "gorilla/mux"),
    ("github.com/labstack/echo/v4", "Echo"),
    ("github.com/labstack/echo/v5", "Echo"),
    ("github.com/spf13/cobra", "Cobra"),
    ("google.golang.org/grpc", "gRPC"),
    ("hono", "Hono"),
    ("jest", "Jest"),
    ("junit-jupiter", "JUnit"),
    ("koa", "Koa"),
    ("ktor-server", "Ktor"),
    ("laravel/framework", "Laravel"),
    ("next", "Next.js"),
    ("nuxt", "Nuxt"),
    ("org.springframework.boot", "Spring Boot"),
    ("pydantic", "Pydantic"),
    ("pytest", "pytest"),
    ("quarkus-core", "Quarkus"),
    ("rails", "Ruby on Rails"),
    ("react", "React"),
    ("react-native", "React Native"),
    ("rocket", "Rocket"),
    ("rspec", "RSpec"),
    ("rspec-rails", "RSpec"),
    ("sinatra", "Sinatra"),
    ("spring-boot-starter-parent", "Spring Boot"),
    ("spring-boot-starter-web", "Spring Boot"),
    ("sqlalchemy", "SQLAlchemy"),
    ("sqlx", "SQLx"),
    ("starlette", "Starlette"),
    ("svelte", "Svelte"),
    ("symfony/framework-bundle", "Symfony"),
    ("tailwindcss", "Tailwind CSS"),
    ("tauri", "Tauri"),
    ("tokio", "Tokio"),
    ("typer", "Typer"),
    ("vite", "Vite"),
    ("vitest", "Vitest"),
    ("vue", "Vue"),
    ("xunit", "xUnit"),
];

pub fn survey(tree: &Tree, manifests: &[Manifest]) -> Stack {
    Stack {
        languages: languages(tree),
        frameworks: frameworks(manifests),
        managers: managers(tree, manifests),
        toolchains: toolchain::found(tree, manifests),
        databases: databases(tree, manifests),
    }
}

/// Returns the databases that a manifest or a compose file names.
fn databases(tree: &Tree, manifests: &[Manifest]) -> Vec<Database> {
    let packages: Vec<String> =
        manifests.iter().flat_map(Manifest::dependencies).map(|dependency| dependency.name).collect();
    let compose = ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
    let compose: String =
        compose.into_iter().filter(|path| tree.has(path)).filter_map(|path| tree.read(path)).collect();
    let is_used = |database: &Database| {
        packages.iter().any(|package| database.is_client(package)) || compose.contains(database.image())
    };
    [Database::Postgres, Database::MySql, Database::Redis].into_iter().filter(is_used).collect()
}

fn languages(tree: &Tree) -> Vec<Language> {
    let mut counted: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (language, entry) in tree.files().iter().filter_map(|entry| Some((entry.language?, entry))) {
        let (files, lines) = counted.entry(language).or_default();
        *files += 1;
        *lines += entry.lines;
    }
    let mut found: Vec<Language> =
        counted.into_iter().map(|(name, (files, lines))| Language { name, files, lines }).collect();
    found.sort_by_key(|language| (std::cmp::Reverse(language.lines), language.name));
    found
}

/// Returns each framework once per version, with the manifest nearest to the root.
fn frameworks(manifests: &[Manifest]) -> Vec<Framework> {
    let mut found: BTreeMap<(&str, Option<String>), &str> = BTreeMap::new();
    for manifest in manifests {
        for dependency in manifest.dependencies() {
            if let Ok(at) = FRAMEWORKS.binary_search_by(|(package, _)| package.cmp(&dependency.name.as_str())) {
                found.entry((FRAMEWORKS[at].1, dependency.version)).or_insert(&manifest.path);
            }
        }
    }
    let versioned: BTreeSet<&str> =
        found.keys().filter(|(_, version)| version.is_some()).map(|(name, _)| *name).collect();
    let is_redundant = |name: &str, version: &Option<String>| version.is_none() && versioned.contains(name);
    let mut frameworks: Vec<Framework> = found
        .iter()
        .filter(|((name, version), _)| !is_redundant(name, version))
        .map(|((name, version), from)| Framework { name, version: version.clone(), from: (*from).to_owned() })
        .collect();
    frameworks.sort();
    frameworks
}

fn managers(tree: &Tree, manifests: &[Manifest]) -> Vec<Manager> {
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    for manifest in manifests {
        let name = match &manifest.content {
            Content::Npm(_) => package::npm_manager(tree, manifest),
            Content::Composer(_) => "Composer",
            Content::Python(toml) => package::python_manager(tree, &manifest.dir, Some(toml)).0,
            Content::Pipfile(_) => "pipenv",
            Content::Requirements(_) => "pip",
            Content::Cargo(_) => "Cargo",
            Content::Go(_) => "Go modules",
            Content::Maven(_) => "Maven",
            Content::Gradle(_) => "Gradle",
            Content::DotNet(_) => "NuGet",
            Content::Gemfile(_) => "Bundler",
        };
        found.entry(name).or_insert(&manifest.path);
    }
    found.into_iter().map(|(name, from)| Manager { name, from: from.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framework_list_is_sorted() {
        assert!(FRAMEWORKS.is_sorted_by_key(|(package, _)| package));
    }

    #[test]
    fn each_major_version_of_a_go_framework_is_known() {
        for version in [4, 5] {
            let text = format!("module x\n\nrequire github.com/labstack/echo/v{version} v{version}.1.0\n");
            let manifest = Manifest { path: "go.mod".to_owned(), dir: String::new(), content: Content::Go(text) };
            let found: Vec<&str> = frameworks(&[manifest]).iter().map(|framework| framework.name).collect();
            assert_eq!(found, ["Echo"], "v{version}");
        }
    }
}
