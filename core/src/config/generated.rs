//! Files that tools generate: they may change while a task runs, no task owns them, and they are never committed with a
//! task.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Written by package managers from a manifest.
const LOCK_FILES: &[&str] = &[
    ".terraform.lock.hcl",
    "Cargo.lock",
    "Cartfile.resolved",
    "Gemfile.lock",
    "MODULE.bazel.lock",
    "Package.resolved",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "bun.lockb",
    "cabal.project.freeze",
    "composer.lock",
    "conan.lock",
    "deno.lock",
    "flake.lock",
    "go.sum",
    "go.work.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "packages.lock.json",
    "pdm.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "pylock.toml",
    "rebar.lock",
    "shard.lock",
    "stack.yaml.lock",
    "uv.lock",
    "yarn.lock",
];

/// Names that contain nothing but output. `dist`, `build`, `out`, `bin`, `vendor` and `coverage` are often source, so
/// only the configuration can add them.
const BUILD_OUTPUT: &[&str] = &[
    "*.class",
    "*.egg-info",
    "*.o",
    "*.profraw",
    "*.pyc",
    "*.pyo",
    "*.tsbuildinfo",
    ".DS_Store",
    ".aider.tags.cache.*",
    ".coverage",
    ".coverage.*",
    ".dart_tool",
    ".eggs",
    ".eslintcache",
    ".gradle",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".nyc_output",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    ".zig-cache",
    "Thumbs.db",
    "__pycache__",
    "htmlcov",
    "node_modules",
    "target",
    "zig-out",
];

/// Tells generated files from handwritten ones.
#[derive(Debug, Clone, Default)]
pub struct Generated {
    added: Vec<String>,
    matcher: GlobSet,
}

impl Generated {
    /// Combines the built-in patterns with `added` ones. A pattern without a `/` matches at any depth; one that matches
    /// a directory also matches everything below it.
    pub fn new(added: Vec<String>) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for pattern in &added {
            for form in forms(pattern) {
                set.add(glob(&form)?);
            }
        }
        Ok(Generated { matcher: set.build()?, added })
    }

    /// Checks that `pattern` is a valid glob.
    pub fn check(pattern: &str) -> Result<(), globset::Error> {
        forms(pattern).iter().try_for_each(|form| glob(form).map(drop))
    }

    /// Returns the patterns that were added to the built-in ones.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.added.iter().map(String::as_str)
    }

    /// `path` is relative to the repository's root, separated by `/`.
    pub fn is_generated(&self, path: &str) -> bool {
        is_lock_file(path) || path.split('/').any(is_build_output) || self.matcher.is_match(path)
    }
}

/// Matches the built-in names without globs, because compiling them would cost every worker milliseconds.
fn is_build_output(name: &str) -> bool {
    BUILD_OUTPUT.iter().any(|pattern| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(suffix), _) => name.ends_with(suffix),
        (_, Some(prefix)) => name.starts_with(prefix),
        _ => name == *pattern,
    })
}

impl PartialEq for Generated {
    fn eq(&self, other: &Self) -> bool {
        self.added == other.added
    }
}

/// Returns true if a package manager writes this file, so that `merge.prepare` can regenerate it.
pub fn is_lock_file(path: &str) -> bool {
    LOCK_FILES.contains(&path.rsplit('/').next().unwrap_or(path))
}

pub(super) fn glob(form: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(form).literal_separator(true).build()
}

/// Returns the patterns for the path itself and for everything below it.
pub(super) fn forms(pattern: &str) -> [String; 2] {
    let bare = pattern.trim_end_matches('/');
    let rooted = match bare.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if bare.contains('/') => bare.to_owned(),
        None => format!("**/{bare}"),
    };
    [format!("{rooted}/**"), rooted]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_and_build_output_are_generated_at_any_depth() {
        let generated = Generated::default();
        for path in [
            "Cargo.lock",
            "a/b/Cargo.lock",
            "node_modules/x/index.js",
            "web/node_modules",
            "src/__pycache__/m.cpython-312.pyc",
            "m.pyc",
            "target/debug/x",
            ".aider.tags.cache.v4/cache.db",
            ".coverage.host.1",
        ] {
            assert!(generated.is_generated(path), "{path}");
        }
        for path in
            ["Cargo.lock.rs", "src/targets.rs", "dist/index.js", "build/mod.rs", "node_modules.md", "src/lock.rs"]
        {
            assert!(!generated.is_generated(path), "{path}");
        }
    }

    #[test]
    fn added_patterns_extend_the_built_in_ones() {
        let added = vec!["dist".to_owned(), "gen/".to_owned(), "/out/*.js".to_owned(), "**/*.g.dart".to_owned()];
        let generated = Generated::new(added).unwrap();
        for path in ["a/dist/x", "gen/a/b", "out/x.js", "lib/m.g.dart", "uv.lock"] {
            assert!(generated.is_generated(path), "{path}");
        }
        for path in ["a/out/x.js", "out/a/x.js", "generator/x"] {
            assert!(!generated.is_generated(path), "{path}");
        }
        assert!(generated.added().any(|pattern| pattern == "gen/"));
        assert!(Generated::check("a{").is_err());
    }

    #[test]
    fn lock_files_are_known_by_name() {
        assert!(is_lock_file("crates/x/Cargo.lock"));
        assert!(is_lock_file("go.sum"));
        assert!(!is_lock_file("target"));
        assert!(!is_lock_file("Cargo.lock/x"));
    }
}
