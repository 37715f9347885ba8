//! Finds the likely cause of a command that fails in a worktree although it may pass in the user's checkout: a gate, a
//! verification, `worktrees.setup`.
//!
//! A cause is named only if the output shows it. Nothing is run in the user's checkout.

use std::path::{Component, Path, PathBuf};

use mahabharatha_core::excerpt::missing_program;
use mahabharatha_core::secrets::is_secret_name;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::git::{Git, RepoPath};

/// Lines of output that are examined, from its end.
const MAX_LINES: usize = 400;

/// Words by which programs say that a file is not there.
const NOT_FOUND: [&str; 6] =
    ["No such file or directory", "ENOENT", "not found", "annot find", "does not exist", "annot open"];

/// Words by which programs say that they refuse a path.
const REFUSED: [&str; 6] = ["403", "orbidden", "enied", "EACCES", "efuse", "not allowed"];

/// A directory with installed dependencies, and how programs report that it is missing.
struct Dependencies {
    dir: &'static str,
    /// Directory with its programs.
    programs: &'static str,
    words: &'static [&'static str],
    /// Command that installs it.
    install: &'static str,
}

const DEPENDENCIES: [Dependencies; 2] = [
    Dependencies {
        dir: "node_modules",
        programs: ".bin",
        words: &["Cannot find module", "Cannot find package", "MODULE_NOT_FOUND"],
        install: "npm ci",
    },
    Dependencies {
        dir: ".venv",
        programs: "bin",
        words: &["No module named", "ModuleNotFoundError"],
        install: "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
    },
];

/// The user's checkout and the worktree that the command ran in.
pub struct Places<'a> {
    pub root: &'a Path,
    pub worktree: &'a Path,
    /// The worktree as the command saw it.
    pub workdir: &'a Path,
    /// Git with the base's index, for the rules of what is ignored.
    pub git: &'a Git,
    /// Whether the command ran in an attempt, to which `.worktreeinclude` applies.
    pub is_attempt: bool,
}

/// How programs say that a variable is not set, in lower case.
const NOT_SET: [&str; 14] = [
    "parameter not set",
    "parameter null or not set",
    "unbound variable",
    "undefined variable",
    "keyerror",
    "not set",
    "isn't set",
    "must be set",
    "is unset",
    "not defined",
    "is undefined",
    "is required",
    "is missing",
    "environment variable",
];
/// What a text that names a hidden variable says of it.
const IS_HIDDEN: &str = "is set in your environment, but commands of a run do not see it";

/// Names a variable that the output asks for and that is one of `hidden`: set for the user, and not for the command.
pub fn hidden_variable(output: &str, hidden: &[String]) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = |line: &str| {
        let lower = line.to_lowercase();
        let words = line.split(|c: char| !is_part(c)).filter(|_| NOT_SET.iter().any(|words| lower.contains(words)));
        // A word in lower case may be anything.
        let mut names = words.filter(|word| word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase()));
        names.find_map(|word| hidden.iter().find(|name| name.as_str() == word))
    };
    let name = output.lines().rev().take(MAX_LINES).find_map(named)?;
    Some(match is_secret_name(name) {
        false => format!("{name} {IS_HIDDEN}: add {name} to env.pass in .mahabharatha/config.yaml."),
        true => format!(
            "{name} {IS_HIDDEN}, and its name looks like that of a secret: if every agent may see it too, add {name} to \
             env.pass in .mahabharatha/config.yaml."
        ),
    })
}

/// Tells whether a text names a hidden variable, as `hidden_variable` does.
pub fn is_hidden_variable(text: &str) -> bool {
    text.contains(IS_HIDDEN)
}

impl Places<'_> {
    /// Returns an ignored file that the user's checkout has, the worktree lacks and the output asks for.
    pub fn missing_ignored_file(&self, output: &str) -> Result<Option<String>> {
        let lines: Vec<&str> = output.lines().rev().take(MAX_LINES).collect();
        let installed = DEPENDENCIES.iter().filter(|kind| {
            let programs = self.root.join(kind.dir).join(kind.programs);
            let tells = |line: &&str| {
                let says = kind.words.iter().any(|word| line.contains(word));
                says || missing_program(line).is_some_and(|name| programs.join(name).exists())
            };
            self.is_only_in_checkout(Path::new(kind.dir)) && lines.iter().any(tells)
        });
        let not_found = lines.iter().filter(|line| NOT_FOUND.iter().any(|word| line.contains(word)));
        let named = not_found.flat_map(|line| self.paths_in(line)).filter(|path| self.is_only_in_checkout(path));
        let found = installed.map(|kind| PathBuf::from(kind.dir)).chain(named.map(|path| self.topmost(&path)));
        let paths: Vec<RepoPath> = found.map(|path| RepoPath::new(path.as_os_str().as_encoded_bytes())).collect();
        let ignored = self.git.clone().work_tree(self.root).ignored(&paths)?;
        Ok(paths.iter().find(|path| ignored.contains(path)).map(|path| self.text(path)))
    }

    /// Names the path of the worktree if it is in a directory that some programs refuse, and the output shows it.
    pub fn unusual_path(&self, output: &str) -> Option<String> {
        let is_hidden = self.workdir.starts_with(self.root.join(".mahabharatha"));
        let workdir = self.workdir.to_string_lossy();
        let refuses = |line: &str| line.contains(&*workdir) && REFUSED.iter().any(|word| line.contains(word));
        (is_hidden && output.lines().any(refuses)).then(|| {
            format!(
                "the path of the worktree, {}, which is not that of your checkout; some programs refuse directories that begin \
                 with a dot. `worktrees.dir` in .mahabharatha/config.yaml puts worktrees elsewhere.",
                self.workdir.display()
            )
        })
    }

    fn is_only_in_checkout(&self, path: &Path) -> bool {
        self.root.join(path).symlink_metadata().is_ok() && self.worktree.join(path).symlink_metadata().is_err()
    }

    /// Returns the outermost part of the path that the worktree lacks.
    fn topmost(&self, path: &Path) -> PathBuf {
        let missing = path.ancestors().take_while(|part| self.worktree.join(part).symlink_metadata().is_err());
        missing.last().unwrap_or(path).to_owned()
    }

    /// Returns the paths in a line of output, relative to the checkout.
    fn paths_in(&self, line: &str) -> Vec<PathBuf> {
        // The path of the checkout may contain spaces.
        let line = line.replace(&format!("{}/", self.workdir.display()), "./");
        let words = line.split(|c: char| c.is_whitespace() || "'\"`‘’“”:,;()[]<>=".contains(c));
        // A word alone may be anything, such as a name in a program.
        let words = words.map(|word| word.trim_end_matches('.')).filter(|word| word.contains(['/', '.']));
        let paths = words.map(|word| {
            let parts = Path::new(word).components();
            parts.filter(|part| *part != Component::CurDir).collect::<PathBuf>()
        });
        let is_inside = |path: &PathBuf| {
            !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
        };
        paths.filter(is_inside).collect()
    }

    fn text(&self, path: &RepoPath) -> String {
        let what = format!("{path} is in your checkout, but git ignores it, so no worktree has it.");
        let setup = "`worktrees.setup` in .mahabharatha/config.yaml";
        match DEPENDENCIES.iter().find(|kind| path.as_str() == Some(kind.dir)) {
            Some(Dependencies { install, .. }) => format!("{what} Let {setup} install it, for example `{install}`."),
            // It may hold a secret, so nothing proposes to commit it.
            None if self.is_attempt => {
                format!("{what} Name it in .worktreeinclude, and let {setup} create it for gates, which get no copy.")
            }
            None => format!("{what} Let {setup} create it. For attempts, .worktreeinclude can name it instead."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_set_but_not_passed_is_named() {
        let hidden = ["DATABASE_URL", "API_TOKEN", "CI"].map(str::to_owned);
        for line in [
            "sh: 1: DATABASE_URL: parameter not set or null",
            "bash: line 1: DATABASE_URL: parameter null or not set",
            "x.sh: line 3: DATABASE_URL: unbound variable",
            "DATABASE_URL is not set",
            "Error: DATABASE_URL must be set\nmore",
            "KeyError: 'DATABASE_URL'",
            "Missing required environment variable: DATABASE_URL",
            "environment variable not found: `DATABASE_URL`",
        ] {
            let text = hidden_variable(line, &hidden).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                text,
                "DATABASE_URL is set in your environment, but commands of a run do not see it: add DATABASE_URL to \
                 env.pass in .mahabharatha/config.yaml."
            );
            assert!(is_hidden_variable(&text));
        }
        let text = hidden_variable("API_TOKEN is not set", &hidden).unwrap();
        assert!(text.contains("if every agent may see it too"), "{text}");
        for other in
            ["connecting to DATABASE_URL", "OTHER_URL is not set", "database_url is not set", "CIRCLE is not set"]
        {
            assert_eq!(hidden_variable(other, &hidden), None, "{other}");
        }
    }
}
