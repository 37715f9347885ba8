//! Finds the commands that install what a lock file names, into the worktree, without changing the lock file.
//!
//! Not for Go and Cargo: they download into the home directory, of which every confined program has a new one, above the
//! user's own caches.

use super::shared::within;
use super::{Command, Kind};
use crate::init::detect::tree::{Tree, join};

/// What installs, the lock files of which one must be there, and the command that installs what it names.
const LOCKED: [(&str, &[&str], &str); 9] = [
    ("npm install", &["package-lock.json", "npm-shrinkwrap.json"], "npm ci"),
    ("pnpm install", &["pnpm-lock.yaml"], "pnpm install --frozen-lockfile"),
    ("yarn install", &["yarn.lock"], "yarn install --frozen-lockfile"),
    ("bun install", &["bun.lock", "bun.lockb"], "bun install --frozen-lockfile"),
    ("uv sync", &["uv.lock"], "uv sync --frozen"),
    // These would install into the home directory, but use an environment of the project that is there.
    ("poetry install", &["poetry.lock"], "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install"),
    ("pipenv install --dev", &["Pipfile.lock"], "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev"),
    ("pdm install", &["pdm.lock"], "pdm sync"),
    ("bundle install", &["Gemfile.lock"], "bundle config set --local path vendor/bundle && bundle install"),
];

/// Returns, for each command that installs, the one for its lock file, if git does not ignore that.
pub fn locked(tree: &Tree, install: &[Command]) -> Vec<Command> {
    let ignored = tree.read(".gitignore").unwrap_or_default();
    let is_ignored = |name: &str| ignored.lines().any(|line| line.trim().trim_start_matches('/') == name);
    let mut found = Vec::new();
    for command in install.iter().filter(|command| command.kind == Kind::Install) {
        let lock = LOCKED.iter().find_map(|(general, locks, locked)| {
            let is_it = command.command == within(&command.dir, *general);
            let is_there = |name: &&&str| tree.has_anywhere(&join(&command.dir, name)) && !is_ignored(name);
            let lock = locks.iter().filter(|_| is_it).find(is_there)?;
            Some((join(&command.dir, lock), within(&command.dir, *locked)))
        });
        found.extend(lock.map(|(from, text)| Command { command: text, from, ..command.clone() }));
    }
    found
}
