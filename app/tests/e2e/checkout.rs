//! The user's checkout comes along when the base moves, or the run waits; nothing in it is lost.

use serde_json::json;

use crate::support::{HELD, Ran, Repo, simple, task, with};

/// One held task that makes `a.txt`, `ignored.txt` and `deep/b.txt` and changes the last line of `owned.txt`; and a
/// second level.
fn ready() -> Repo {
    let repo = Repo::new();
    repo.write(".gitignore", "ignored.txt\n");
    repo.write("owned.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    repo.write("unrelated.txt", "old\n");
    repo.commit("ready");
    let make = format!(
        "{HELD} echo A > a.txt; echo A > ignored.txt; mkdir deep; echo A > deep/b.txt; sed -i 's/^9$/nine/' owned.txt"
    );
    let files = json!({ "create": ["a.txt", "ignored.txt", "deep/b.txt"], "modify": ["owned.txt"] });
    repo.graph("x", &[with(task("A", 1, "a.txt", &make), json!({ "files": files })), simple("C", 2, "c.txt")]);
    repo
}

/// Runs, doing something to the checkout while the agent is at work.
fn run_while(repo: &Repo, change: impl FnOnce()) -> Ran {
    let run = repo.run_until_held("x");
    change();
    repo.let_go_on("x", run)
}

fn paused(repo: &Repo, ran: Ran, file: &str) {
    let at = format!("the checkout at {} is in the way", repo.path().display());
    ran.code(9).says(&at).says(file).says("hint: Fix that, then `mahabharatha run x`.").does_not_say("completed:");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "ready");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "mahabharatha/x/staging"]), "feat(A): Make a.txt");
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("is in the way") && state.contains(file), "{state}");
    assert_eq!(repo.status()["status"], "paused");
}

fn goes_on(repo: &Repo) {
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 2: x");
    assert_eq!(repo.read("deep/b.txt"), "A\n");
    assert!(repo.read("owned.txt").ends_with("8\nnine\n"));
    assert_eq!(repo.task("A")["attempt"], 1, "nothing is done twice");
}

#[test]
fn changes_in_other_files_stay_and_the_run_lands() {
    let repo = ready();
    repo.write(".gsd/PROJECT.md", "a person's notes\n");
    run_while(&repo, || {
        repo.write("unrelated.txt", "mine\n");
        repo.write("new.txt", "mine\n");
        repo.write("staged.txt", "mine\n");
        repo.git(&["add", "staged.txt"]);
    })
    .code(0);
    assert_eq!(repo.read("unrelated.txt"), "mine\n");
    let status = repo.git(&["status", "--porcelain", "--", ":!.gsd"]);
    assert_eq!(status.lines().collect::<Vec<_>>(), ["A  staged.txt", " M unrelated.txt", "?? new.txt"], "{status}");
    assert_eq!(repo.read("c.txt"), "C\n");
}

#[test]
fn changes_in_an_owned_file_pause_the_run_until_they_are_stashed() {
    let repo = ready();
    let mine = "one\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let ran = run_while(&repo, || repo.write("owned.txt", mine));
    paused(&repo, ran, "(owned.txt)");
    assert_eq!(repo.read("owned.txt"), mine);
    assert!(!repo.exists("a.txt"));
    repo.run(&["run"]).code(9).says("(owned.txt)");
    repo.git(&["stash", "-q"]);
    goes_on(&repo);
    repo.git(&["stash", "pop", "-q"]);
    assert_eq!(repo.read("owned.txt"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
}

#[test]
fn changes_in_an_owned_file_may_be_committed_as_well() {
    let repo = ready();
    let ran = run_while(&repo, || {
        repo.write("owned.txt", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
        repo.git(&["add", "owned.txt"]);
    });
    paused(&repo, ran, "(owned.txt)");
    repo.git(&["commit", "-q", "-m", "mine"]);
    goes_on(&repo);
    assert!(repo.read("owned.txt").starts_with("one\n"));
}

#[test]
fn changes_that_a_flag_hides_from_git_are_not_overwritten() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let repo = ready();
        let ran = run_while(&repo, || {
            repo.git(&["update-index", flag, "owned.txt"]);
            repo.write("owned.txt", "mine\n");
        });
        paused(&repo, ran, "(owned.txt)");
        assert_eq!(repo.read("owned.txt"), "mine\n", "{flag}");
    }
}

#[test]
fn a_warning_comes_before_the_first_launch_where_an_owned_file_is_dirty() {
    let repo = ready();
    repo.write("owned.txt", "mine\n");
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["run"]).code(9).says("you have uncommitted changes in files that tasks own: owned.txt.");
    assert_eq!(repo.read("owned.txt"), "mine\n");
}

#[test]
fn files_that_git_does_not_track_are_not_overwritten() {
    let repo = ready();
    let ran = run_while(&repo, || {
        repo.write("a.txt", "mine\n");
        repo.write("ignored.txt", "mine\n");
        repo.write("deep", "a file where a directory has to be\n");
    });
    paused(&repo, ran, "(a.txt, deep, ignored.txt)");
    assert_eq!(repo.read("owned.txt").lines().last(), Some("9"));
    for (next, left) in [("a.txt", "(deep, ignored.txt)"), ("deep", "(ignored.txt)")] {
        std::fs::rename(repo.join(next), repo.join(&format!("{next}.mine"))).unwrap();
        repo.run(&["run"]).code(9).says(left);
    }
    assert_eq!((repo.read("a.txt.mine").as_str(), repo.read("ignored.txt").as_str()), ("mine\n", "mine\n"));
    std::fs::remove_file(repo.join("ignored.txt")).unwrap();
    goes_on(&repo);
}

#[test]
fn files_that_are_already_as_they_are_to_become_are_no_obstacle() {
    let repo = ready();
    run_while(&repo, || {
        repo.write("a.txt", "A\n");
        repo.write("ignored.txt", "A\n");
        repo.write("deep/b.txt", "A\n");
        repo.git(&["add", "deep/b.txt"]);
        repo.write("owned.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    })
    .code(0);
    assert_eq!(repo.git(&["status", "--porcelain", "--", ":!.gsd"]), "");
}

#[test]
fn a_lock_that_a_killed_git_left_is_named() {
    let repo = ready();
    let ran = run_while(&repo, || repo.write(".git/index.lock", ""));
    let ran = ran.says("another git command is at work there, or was killed: if none runs, remove the file");
    paused(&repo, ran, &repo.join(".git/index.lock").display().to_string());
    assert!(repo.exists(".git/index.lock"), "it may be somebody's");
    std::fs::remove_file(repo.join(".git/index.lock")).unwrap();
    goes_on(&repo);
}

#[test]
fn a_run_waits_for_a_users_unfinished_merge() {
    let repo = ready();
    let ran = run_while(&repo, || {
        repo.git(&["switch", "-q", "-c", "other"]);
        repo.write("unrelated.txt", "other\n");
        repo.git(&["commit", "-q", "-a", "-m", "other"]);
        repo.git(&["switch", "-q", "main"]);
        repo.git(&["merge", "-q", "--no-commit", "--no-ff", "other"]);
    });
    paused(&repo, ran, "a merge of main is under way there: finish it or abort it");
    repo.git(&["commit", "-q", "-m", "merged"]);
    goes_on(&repo);
    assert_eq!(repo.read("unrelated.txt"), "other\n");
}

#[test]
fn with_staging_as_the_target_base_and_checkout_stay_as_they_are() {
    let repo = ready();
    repo.config("merge: { target: staging }\nquality_gates: [{ name: whole, command: 'test -e README.md' }]\n");
    repo.git(&["commit", "-q", "-a", "-m", "config"]);
    let before = repo.git(&["rev-parse", "main"]);
    let ran = run_while(&repo, || repo.write("a.txt", "mine\n")).code(0);
    ran.says("level 2 merged into mahabharatha/x/staging").does_not_say("merged into main");
    assert_eq!(repo.git(&["rev-parse", "main"]), before);
    assert_eq!(repo.read("a.txt"), "mine\n");
    let log = repo.git(&["log", "--first-parent", "--format=%s", "mahabharatha/x/staging", "-3"]);
    assert_eq!(log, "Level 2: x\nLevel 1: x\nconfig");
    assert_eq!(repo.git(&["show", "mahabharatha/x/staging:c.txt"]), "C");
    assert_eq!(repo.refs(), ["refs/heads/mahabharatha/x/staging"]);
    assert!(!repo.exists(".mahabharatha/worktrees"));
    let report = repo.read(".gsd/specs/x/COMPLETION.md");
    assert!(report.contains("- [x] All levels merged to `mahabharatha/x/staging` (2 of 2)"), "{report}");
    assert!(report.contains("- **Merged into:** `mahabharatha/x/staging`, not into the base"), "{report}");
    // Nothing but a person takes it away.
    repo.run(&["cleanup"]).code(0).says("it is not merged");
    assert_eq!(repo.refs(), ["refs/heads/mahabharatha/x/staging"]);
}

#[test]
fn a_checkout_that_is_dirtied_late_in_the_run_pauses_it_at_the_level_that_it_is_in_the_way_of() {
    let repo = Repo::new();
    repo.write(".gitignore", ".env\n");
    repo.commit("ready");
    let late = with(task("B", 2, ".env", &format!("{HELD} echo B > .env")), json!({ "files": { "create": [".env"] } }));
    repo.graph("x", &[simple("A", 1, "a.txt"), late, simple("C", 3, "c.txt")]);
    run_while(&repo, || repo.write(".env", "SECRET=mine\n")).code(9).says("is in the way").says("(.env)");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 1: x");
    assert_eq!((repo.read(".env").as_str(), repo.read("a.txt").as_str()), ("SECRET=mine\n", "A\n"));
    std::fs::rename(repo.join(".env"), repo.join(".env.mine")).unwrap();
    repo.run(&["run"]).code(0);
    assert_eq!((repo.read(".env").as_str(), repo.read(".env.mine").as_str()), ("B\n", "SECRET=mine\n"));
    assert_eq!(repo.task("B")["attempt"], 1);
}
