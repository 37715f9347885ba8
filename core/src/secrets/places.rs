//! Classifies files by which findings are likely to be false there.

/// Directories of test data. Keys that are no secrets are common there: certificates of test servers, made-up tokens.
const TEST_DIRECTORIES: [&str; 14] = [
    "test",
    "tests",
    "__tests__",
    "testing",
    "testdata",
    "test-data",
    "test_data",
    "spec",
    "specs",
    "fixtures",
    "__fixtures__",
    "mocks",
    "__mocks__",
    "e2e",
];

/// Endings of files that machines write: bundles, source maps, images, snapshots, lock files.
const GENERATED_ENDINGS: [&str; 20] = [
    ".min.js",
    ".min.css",
    ".bundle.js",
    ".chunk.js",
    ".map",
    ".svg",
    ".snap",
    ".ipynb",
    ".lock",
    ".lockfile",
    ".lock.json",
    ".lock.hcl",
    "-lock.json",
    "-lock.yaml",
    "-shrinkwrap.json",
    ".resolved",
    ".freeze",
    "go.sum",
    "go.work.sum",
    "pylock.toml",
];

/// Endings of files in which values may be unquoted.
const PLAIN_VALUES: [&str; 14] = [
    ".env",
    ".ini",
    ".cfg",
    ".conf",
    ".properties",
    ".toml",
    ".yaml",
    ".yml",
    ".tfvars",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".sh",
    "dockerfile",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Written by a machine: lock files, bundles, images.
    pub generated: bool,
    pub test: bool,
    /// Values may be unquoted.
    pub plain_values: bool,
}

impl Place {
    pub fn of(path: &str) -> Place {
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = name.to_ascii_lowercase();
        let stem = name.split('.').next().unwrap_or_default();
        let is_test_name = stem.starts_with("test_")
            || stem.ends_with("_test")
            || stem.ends_with("_spec")
            || stem == "conftest"
            || name.contains(".test.")
            || name.contains(".spec.");
        Place {
            generated: GENERATED_ENDINGS.iter().any(|ending| name.ends_with(ending)),
            test: is_test_name || dirs.to_ascii_lowercase().split('/').any(|dir| TEST_DIRECTORIES.contains(&dir)),
            plain_values: name.starts_with(".env") || PLAIN_VALUES.iter().any(|ending| name.ends_with(ending)),
        }
    }
}
