//! Which files of a build context a `.dockerignore` keeps from the builder.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The patterns of a `.dockerignore`, of which the last one that matches decides.
pub struct Ignored {
    patterns: Vec<Pattern>,
}

struct Pattern {
    keeps: bool,
    /// Matches the path itself, or a directory above it.
    matcher: Gitignore,
}

impl Ignored {
    /// Reads the patterns. One that cannot be understood ignores nothing.
    pub fn read(text: &str) -> Ignored {
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::trim);
        Ignored { patterns: lines.filter(|line| !line.is_empty()).filter_map(Pattern::read).collect() }
    }

    pub fn is_ignored(&self, path: &Path) -> bool {
        let last = self.patterns.iter().rev().find(|pattern| pattern.matches(path));
        last.is_some_and(|pattern| !pattern.keeps)
    }

    /// Returns whether nothing below an ignored directory can be kept.
    pub fn keeps_nothing(&self) -> bool {
        !self.patterns.iter().any(|pattern| pattern.keeps)
    }
}

impl Pattern {
    fn read(line: &str) -> Option<Pattern> {
        let (keeps, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest.trim()));
        let path = line.trim_start_matches("./").trim_matches('/');
        // Unlike in a `.gitignore`, a pattern begins at the top, and has nothing else that is special.
        let pattern = format!("/{}", path.replace('{', "[{]").replace('}', "[}]"));
        let mut builder = GitignoreBuilder::new("");
        builder.add_line(None, &pattern).ok()?;
        let matcher = builder.build().ok().filter(|matcher| matcher.num_ignores() == 1 && !path.is_empty())?;
        Some(Pattern { keeps, matcher })
    }

    fn matches(&self, path: &Path) -> bool {
        path.ancestors()
            .filter(|part| !part.as_os_str().is_empty())
            .any(|part| self.matcher.matched(part, true).is_ignore())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let text = "# build\n/target\n**/*.log\nnode_modules/\ndocs\n!docs/kept.md\n\n a b \n*.{x}\n";
        let ignored = Ignored::read(text);
        for path in ["target/debug/x", "a.log", "deep/down/b.log", "node_modules/p/i.js", "docs/a.md", "a b", "f.{x}"] {
            assert!(ignored.is_ignored(Path::new(path)), "{path}");
        }
        for path in ["src/target/x", "docs/kept.md", "logs", "sub/node_modules/x", "f.x", "# build"] {
            assert!(!ignored.is_ignored(Path::new(path)), "{path}");
        }
        assert!(!ignored.keeps_nothing() && Ignored::read("a\n").keeps_nothing());
        assert!(!Ignored::read("").is_ignored(Path::new("a")));
    }
}
