//! Surveys security: lock files, container files, how secrets are handled, and which security tools are in use.

use serde::Serialize;

use mahabharatha_core::config::is_lock_file;

use super::manifest::{Content, Manifest};
use super::package::at_or_above;
use super::tree::{Tree, depth, dir_of, file_name};

const MAX_LISTED: usize = 100;

#[derive(Debug, Serialize)]
pub struct Security {
    pub lock_files: Vec<String>,
    /// Manifests without a lock file.
    pub unlocked: Vec<String>,
    pub containers: Vec<String>,
    /// How secrets are provided, or kept out of git.
    pub secrets: Vec<Found>,
    /// Security tools and policies that the project uses.
    pub watched_by: Vec<Found>,
    /// Files that git does not ignore and whose names suggest a secret.
    pub suspicious: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Found {
    pub what: &'static str,
    pub file: String,
}

pub fn survey(tree: &Tree, manifests: &[Manifest]) -> Security {
    let paths = || tree.files().iter().map(|entry| entry.path.as_str());
    let list = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        paths().filter(|path| wanted(path)).take(MAX_LISTED).map(str::to_owned).collect()
    };
    let mut secrets: Vec<Found> = ignored_secrets(tree).into_iter().collect();
    secrets.extend(paths().filter_map(|path| Some(Found { what: secrets_by(path)?, file: path.to_owned() })));
    secrets.truncate(MAX_LISTED);
    let watched = paths().filter_map(|path| Some(Found { what: watcher(path)?, file: path.to_owned() }));
    Security {
        lock_files: list(&is_lock_file),
        unlocked: unlocked(tree, manifests),
        containers: list(&is_container_file),
        secrets,
        watched_by: watched.take(MAX_LISTED).collect(),
        suspicious: list(&looks_secret),
    }
}

/// Reports whether the project's `.gitignore` excludes `.env`.
fn ignored_secrets(tree: &Tree) -> Option<Found> {
    let text = tree.read(".gitignore")?;
    let ignores = text.lines().any(|line| matches!(line.trim(), ".env" | "/.env" | ".env*" | "*.env" | "**/.env"));
    ignores.then(|| Found { what: ".env is kept out of git", file: ".gitignore".to_owned() })
}

fn secrets_by(path: &str) -> Option<&'static str> {
    let name = file_name(path);
    Some(match name {
        ".env.example" | ".env.sample" | ".env.template" | ".env.dist" => "example of the environment",
        ".sops.yaml" => "secrets encrypted by SOPS",
        "credentials.yml.enc" => "encrypted credentials",
        "appsettings.json" => "settings of the application",
        _ => return None,
    })
}

fn watcher(path: &str) -> Option<&'static str> {
    Some(match (dir_of(path), file_name(path)) {
        (_, ".gitleaks.toml") => "gitleaks",
        (_, ".secrets.baseline") => "detect-secrets",
        ("", ".pre-commit-config.yaml") => "pre-commit",
        (".github", "dependabot.yml" | "dependabot.yaml") => "Dependabot",
        ("" | ".github", "renovate.json" | "renovate.json5") => "Renovate",
        ("", ".snyk") => "Snyk",
        ("", "deny.toml") => "cargo-deny",
        (_, ".semgrep.yml" | ".semgrep.yaml") => "Semgrep",
        ("" | ".github" | "docs", "SECURITY.md") => "policy for reports",
        ("" | ".github" | "docs", "CODEOWNERS") => "code owners",
        (".github/workflows", name) if name.contains("codeql") => "CodeQL",
        _ => return None,
    })
}

fn is_container_file(path: &str) -> bool {
    let name = file_name(path);
    let lower = name.to_ascii_lowercase();
    matches!(name, "Dockerfile" | "Containerfile" | ".dockerignore")
        || name.starts_with("Dockerfile.")
        || lower.ends_with(".dockerfile")
        || ((lower.starts_with("docker-compose") || lower.starts_with("compose"))
            && (lower.ends_with(".yml") || lower.ends_with(".yaml")))
        || path.ends_with(".devcontainer/devcontainer.json")
        || name == "Chart.yaml"
}

fn looks_secret(path: &str) -> bool {
    let name = file_name(path);
    matches!(name, ".env" | ".env.local" | ".env.production" | "id_rsa" | "id_ed25519" | ".npmrc.auth" | ".pypirc")
        || [".pem", ".p12", ".pfx", ".key", ".keystore", ".jks"].iter().any(|ending| name.ends_with(ending))
}

/// Returns the manifests without a lock file. Only looks near the root, because libraries further down need none.
fn unlocked(tree: &Tree, manifests: &[Manifest]) -> Vec<String> {
    let is_open = |manifest: &&Manifest| {
        let locks = locks_of(&manifest.content);
        let is_locked = || at_or_above(&manifest.dir).any(|dir| tree.first_in(dir, locks).is_some());
        !locks.is_empty() && !manifest.dependencies().is_empty() && !is_locked()
    };
    let near = manifests.iter().filter(|manifest| depth(&manifest.path) <= 2);
    near.filter(is_open).map(|manifest| manifest.path.clone()).take(MAX_LISTED).collect()
}

/// Returns the lock files that pin a manifest's versions; empty where lock files are not customary.
fn locks_of(content: &Content) -> &'static [&'static str] {
    match content {
        Content::Npm(_) => {
            &["package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "npm-shrinkwrap.json"]
        }
        Content::Python(_) => &["uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "requirements.txt"],
        Content::Pipfile(_) => &["Pipfile.lock"],
        Content::Cargo(_) => &["Cargo.lock"],
        Content::Go(_) => &["go.sum"],
        Content::Gemfile(_) => &["Gemfile.lock"],
        Content::Composer(_) => &["composer.lock"],
        Content::Requirements(_) | Content::Maven(_) | Content::Gradle(_) | Content::DotNet(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_files_and_secrets_are_recognized_by_name() {
        for path in ["Dockerfile", "a/Dockerfile.dev", "web.dockerfile", "docker-compose.override.yml", "compose.yaml"]
        {
            assert!(is_container_file(path), "{path}");
        }
        assert!(!is_container_file("compose.md") && !is_container_file("src/Dockerfile/readme"));
        assert!(looks_secret("a/server.key") && looks_secret(".env") && !looks_secret(".env.example"));
    }
}
