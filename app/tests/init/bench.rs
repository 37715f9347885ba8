//! A project, and the program run on it with nothing on PATH but itself, git and a shell, and none of our variables: so
//! nothing of this machine decides.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ran, Repo};

pub struct Bench {
    pub repo: Repo,
    programs: tempfile::TempDir,
}

impl Bench {
    /// A repository with these files and no commit.
    pub fn new(files: &[(&str, &str)]) -> Bench {
        let bench = Bench::without_git(files);
        bench.repo.git(&["init", "-q", "-b", "main"]);
        bench.repo.git(&["config", "user.name", "Test"]);
        bench.repo.git(&["config", "user.email", "test@example.com"]);
        bench
    }

    pub fn without_git(files: &[(&str, &str)]) -> Bench {
        let bench = Bench { repo: Repo::empty(), programs: tempfile::tempdir().unwrap() };
        for program in ["git", "sh"] {
            symlink(found(program), bench.programs.path().join(program)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_mahabharatha"), bench.programs.path().join("mahabharatha")).unwrap();
        for (path, text) in files {
            bench.repo.write(path, text);
        }
        bench
    }

    /// Puts a program of this name on PATH.
    pub fn program(&self, name: &str) {
        symlink(found("true"), self.programs.path().join(name)).unwrap();
    }

    pub fn without_program(&self, name: &str) {
        std::fs::remove_file(self.programs.path().join(name)).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.repo.command(args);
        command.env("PATH", self.programs.path());
        let set: Vec<OsString> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        for (name, _) in std::env::vars_os().filter(|(name, _)| !set.contains(name)) {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }
}

fn found(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path: &PathBuf| Path::exists(path)).unwrap()
}
