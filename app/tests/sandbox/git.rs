//! Git inside works as people expect, on a private git directory, and the repository stays as it was.

use crate::support::Repo;

/// Each is run in a sandbox and must succeed.
const WORKS: [&str; 9] = [
    "test -z \"$(git status --porcelain)\"",
    "git diff-files --quiet",
    "test \"$(git rev-parse --show-toplevel)\" = \"$PWD\"",
    "git log --oneline | grep -q first && git blame README.md | grep -q hello && git tag | grep -q v1",
    "echo more >> README.md && git diff | grep -q +more && git add -A && git commit -qm work && git log -1 --stat | grep -q README",
    "echo s >> README.md && git stash -q && git diff --quiet && git stash pop -q && ! git diff --quiet",
    "git checkout -qb t1 && echo z > z && git add z && git commit -qm z && git checkout -q - && git merge -q t1 && git gc -q && git fsck --no-dangling",
    "d=$(mktemp -d) && cd \"$d\" && git init -q && git commit -q --allow-empty -m x && test $(git log --oneline | wc -l) = 1",
    "printf '#!/bin/sh\\ntouch RAN\\n' > \"$(git rev-parse --git-path hooks/pre-commit)\" && chmod +x \"$(git rev-parse --git-path hooks/pre-commit)\" && git commit -q --allow-empty -m h && test -e RAN",
];

fn works(repo: &Repo) {
    repo.git(&["tag", "-a", "-m", "annotated", "v1"]);
    let before = repo.everything();
    for script in WORKS {
        repo.run(&["sandbox", "--", script]).code(0);
    }
    assert_eq!(repo.everything(), before);
}

#[test]
fn git_works_in_bubblewrap() {
    let repo = Repo::new();
    repo.config("sandbox: bwrap\n");
    repo.commit("second");
    works(&repo);
}

#[test]
fn git_works_under_landlock() {
    let repo = Repo::new();
    repo.config("sandbox: landlock\n");
    repo.commit("second");
    works(&repo);
}

#[test]
fn git_works_with_other_hashes() {
    let repo = Repo::sha256();
    repo.config("sandbox: bwrap\n");
    repo.commit("second");
    works(&repo);
}

#[test]
fn a_name_with_special_characters_is_the_same_inside() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {sandbox}\n"));
        repo.commit("second");
        let name = r#"A "quoted" \name # ; [core]"#;
        repo.git(&["config", "user.name", name]);
        let show = "git config user.name && cd \"$(mktemp -d)\" && git init -q && git config user.name";
        repo.run(&["sandbox", "--", show]).code(0).says(&format!("{name}\n{name}\n"));
    }
}
