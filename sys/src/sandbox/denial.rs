//! Recognises in a program's output that the sandbox kept it from a file.

use std::path::{Path, PathBuf};

use mahabharatha_core::config::Isolation;

use super::{Access, Layout, places};

/// Words by which programs say that a file cannot be read or is not there.
const NOT_FOUND: [&str; 4] = ["No such file or directory", "ENOENT", "Permission denied", "EACCES"];
/// Words by which programs say that a file cannot be written.
const NOT_WRITABLE: [&str; 4] = ["Read-only file system", "EROFS", "Permission denied", "EACCES"];
/// Words by which programs say that `sandbox-exec` denied an access.
const DENIED: [&str; 2] = ["Operation not permitted", "EPERM"];
/// Lines of output that are examined, from its end.
const MAX_LINES: usize = 400;

/// Says which file the sandbox kept a program from, and what to add to the configuration.
pub fn explain(layout: &Layout, output: &str) -> Option<String> {
    if layout.isolation == Isolation::Off {
        return None;
    }
    output.lines().rev().take(MAX_LINES).find_map(|line| {
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        let is_denied = layout.isolation == Isolation::SandboxExec && has(&DENIED);
        let says = |words: &[&str]| is_denied || has(words);
        let paths = || paths_in(line).filter(|path| !path.starts_with(&layout.workdir));
        let unseen = |path: &PathBuf| access(layout, path).is_none() && path.exists();
        let read_only =
            |path: &PathBuf| access(layout, path) == Some(&Access::Read) || is_new_below_a_seen_one(layout, path);
        if let Some(path) = says(&NOT_FOUND).then(|| paths().find(unseen)).flatten() {
            return Some(text("show", &path, "read"));
        }
        says(&NOT_WRITABLE)
            .then(|| paths().find(read_only))
            .flatten()
            .map(|path| text("let anything write", &path, "write"))
    })
}

fn text(verb: &str, path: &Path, key: &str) -> String {
    let path = path.display();
    format!(
        "The sandbox does not {verb} {path}. If the project needs it, add it in .mahabharatha/config.yaml: `sandbox: {{ {key}: [\"{path}\"] }}`."
    )
}

/// Returns how a path is visible inside; `None` if it is not.
fn access<'a>(layout: &'a Layout, path: &Path) -> Option<&'a Access> {
    let mounts = layout.mounts.iter().filter(|mount| path.starts_with(&mount.to));
    let nearest = mounts.max_by_key(|mount| mount.to.components().count());
    match nearest {
        // The private home and temporary directories hide the user's, except for what is mounted in them.
        Some(mount) if mount.from != mount.to => None,
        Some(mount) => Some(&mount.access),
        None => places::is_system(path).then_some(&Access::Read),
    }
}

fn is_new_below_a_seen_one(layout: &Layout, path: &Path) -> bool {
    !path.exists() && path.parent().is_some_and(|parent| access(layout, parent) == Some(&Access::Read))
}

/// Returns the absolute paths in a line of output.
fn paths_in(line: &str) -> impl Iterator<Item = PathBuf> {
    let words = line.split(|c: char| c.is_whitespace() || "'\"`‘’“”:,;()[]<>=".contains(c));
    words.filter(|word| word.len() > 1 && word.starts_with('/')).map(|word| PathBuf::from(word.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::super::Mount;
    use super::*;

    /// A layout with a private home over the directory, in which `seen` is visible.
    fn layout(home: &Path) -> Layout {
        let mount = |from: &Path, to: &Path, access| Mount { from: from.to_owned(), to: to.to_owned(), access };
        Layout {
            mounts: vec![
                mount(Path::new("/private/home"), home, Access::Write),
                mount(&home.join("seen"), &home.join("seen"), Access::Read),
            ],
            ..Layout::new(Isolation::Bwrap, Path::new("/checkout"))
        }
    }

    #[test]
    fn a_hidden_file_is_named_with_the_setting_that_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        for name in ["hidden", "seen"] {
            std::fs::write(home.join(name), "").unwrap();
        }
        let explain = |line: &str| explain(&layout(home), &line.replace('~', &home.display().to_string()));
        let hidden = explain("some test\ncat: '~/hidden': No such file or directory\nmore").unwrap();
        assert!(hidden.contains("/hidden") && hidden.contains("read: ["), "{hidden}");
        let written = explain("open ~/seen: Read-only file system (os error 30)").unwrap();
        assert!(written.contains("/seen") && written.contains("write: ["), "{written}");
        for other in [
            "cat: ~/missing: No such file or directory",
            "cat: /checkout/a: No such file or directory",
            "~/hidden is a file",
            "",
        ] {
            assert_eq!(explain(other), None, "{other}");
        }
    }
}
