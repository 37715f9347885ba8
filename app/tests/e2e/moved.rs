//! A repository that was renamed between two runs, or lost what git knows of worktrees: staging is registered again.

use std::fs;
use std::path::Path;

use crate::support::{Repo, simple, task};

const STAGING: &str = ".mahabharatha/worktrees/x/staging";

/// A run whose second level is blocked, so that its worktrees stay.
fn half_way() -> Repo {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), task("B", 2, "b.txt", "[ -e ../../../../.git/go ] && echo B > b.txt")]);
    repo.run(&["run"]).code(3);
    repo.write(".git/go", "");
    repo.run(&["retry", "B"]).code(0);
    repo
}

#[test]
fn staging_of_a_renamed_repository_is_registered_again() {
    let repo = half_way();
    // As if the repository had been at `/gone` until now.
    repo.write(&format!("{STAGING}/.git"), "gitdir: /gone/.git/worktrees/staging\n");
    repo.write(".git/worktrees/staging/gitdir", &format!("/gone/{STAGING}/.git\n"));
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("b.txt"), "B\n");
    repo.git(&["fsck", "--no-progress"]);
}

#[test]
fn staging_that_git_no_longer_knows_is_registered_again() {
    let repo = half_way();
    fs::remove_dir_all(repo.join(".git/worktrees")).unwrap();
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("b.txt"), "B\n");
}

#[test]
fn a_directory_of_another_repository_is_not_taken_for_staging() {
    let (repo, other) = (half_way(), Repo::new());
    fs::remove_dir_all(repo.join(".git/worktrees")).unwrap();
    let links = [format!("{}/.git/worktrees/staging", other.path().display()), "/gone/.git/worktrees/mine".to_owned()];
    for link in links.map(|dir| format!("gitdir: {dir}\n")) {
        repo.write(&format!("{STAGING}/.git"), &link);
        repo.run(&["run"]).code(1).says("staging is not empty, and not a worktree of this repository");
        assert_eq!(repo.read(&format!("{STAGING}/.git")), link);
    }
    assert!(!Path::new("/gone").exists());
}
