//! Files on which the result of `worktrees.setup` depends.

use globset::{GlobSet, GlobSetBuilder};

use super::generated::{forms, glob, is_lock_file};

/// Tells which files of the repository make a worktree's setup due again when they change.
#[derive(Debug, Clone, Default)]
pub struct SetupInputs {
    patterns: Vec<String>,
    matcher: GlobSet,
}

impl SetupInputs {
    /// Takes the patterns in place of the default, the known lock files. They match as those of `Generated` do.
    pub fn new(patterns: Vec<String>) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for form in patterns.iter().flat_map(|pattern| forms(pattern)) {
            set.add(glob(&form)?);
        }
        Ok(SetupInputs { matcher: set.build()?, patterns })
    }

    /// Returns the configured patterns; none for the default.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// `path` is relative to the repository's root, separated by `/`.
    pub fn contains(&self, path: &str) -> bool {
        if self.patterns.is_empty() { is_lock_file(path) } else { self.matcher.is_match(path) }
    }
}

impl PartialEq for SetupInputs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_replace_the_known_lock_files() {
        let default = SetupInputs::default();
        assert!(default.contains("web/package-lock.json") && !default.contains("package.json"));
        let own = SetupInputs::new(vec!["requirements*.txt".to_owned(), "/vendor/".to_owned()]).unwrap();
        for path in ["requirements.txt", "a/requirements-dev.txt", "vendor/x/y"] {
            assert!(own.contains(path), "{path}");
        }
        assert!(!own.contains("a/vendor/x") && !own.contains("Cargo.lock"));
    }
}
