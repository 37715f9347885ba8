//! The base branch is not ours alone: people commit on it, rewrite it, and have it checked out.

use serde_json::{Value, json};

use crate::support::{HELD, Ran, Repo, simple, task, with};

fn commit(repo: &Repo, path: &str, text: &str, message: &str) -> String {
    repo.write(path, text);
    repo.git(&["add", "--", path]);
    repo.git(&["commit", "-q", "-m", message]);
    repo.git(&["rev-parse", "HEAD"])
}

/// Two levels; the task of the first is held, then changes `owned.txt` and makes `a.txt`.
fn two_levels() -> Repo {
    let repo = Repo::new();
    commit(&repo, "owned.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "owned");
    repo.graph("x", &two_levels_of_tasks());
    repo
}

fn two_levels_of_tasks() -> [Value; 2] {
    let change = format!("{HELD} echo A > a.txt; sed -i 's/^9$/nine/' owned.txt");
    let first =
        with(task("A", 1, "a.txt", &change), json!({ "files": { "create": ["a.txt"], "modify": ["owned.txt"] } }));
    [first, simple("B", 2, "b.txt")]
}

fn is_on_main(repo: &Repo, commit: &str) -> bool {
    !repo.git_fails(&["merge-base", "--is-ancestor", commit, "main"])
}

/// What lies under `refs/mahabharatha` and ours of the branches, by the last parts of their names.
fn has_ref(repo: &Repo, part: &str) -> bool {
    repo.refs().iter().any(|name| name.contains(part))
}

#[test]
fn a_users_commit_while_agents_work_is_merged_in_and_gated_with_the_level() {
    let repo = two_levels();
    repo.config("quality_gates: [{ name: both, command: '! test -e a.txt || test -e theirs.txt' }]\n");
    let run = repo.run_until_held("x");
    let theirs = commit(&repo, "theirs.txt", "theirs\n", "theirs");
    repo.let_go_on("x", run).code(0);
    assert!(is_on_main(&repo, &theirs));
    assert_eq!(repo.git(&["log", "--first-parent", "--format=%s", "main", "-3"]), "Level 2: x\nLevel 1: x\ntheirs");
    assert_eq!((repo.read("theirs.txt").as_str(), repo.read("a.txt").as_str()), ("theirs\n", "A\n"));
    assert_eq!(repo.read("owned.txt"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_eq!(repo.git(&["status", "--porcelain", "--", ":!.gsd", ":!.mahabharatha"]), "");
}

#[test]
fn a_users_commit_while_the_gates_run_repeats_them() {
    let repo = Repo::new();
    // Waits on the level, the first time, until the test has committed.
    let gate = "echo \"$(ls)\" >> ../../../../.git/seen; test ! -e a.txt || { touch ../../../../.git/gating; \
                while [ ! -e ../../../../.git/go ]; do sleep 0.02; done; }";
    repo.config(&format!("quality_gates: {}\n", json!([{ "name": "slow", "command": gate }])));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let run = repo.spawn(&["run"]);
    repo.wait_for(".git/gating");
    let theirs = commit(&repo, "theirs.txt", "theirs\n", "theirs");
    repo.write(".git/go", "");
    run.wait().code(0).says("main moved while level 1 was gated: it is merged in and gated again");
    assert!(is_on_main(&repo, &theirs));
    assert_eq!(repo.git(&["log", "-1", "--format=%P", "main"]).split(' ').next(), Some(theirs.as_str()));
    assert!(repo.read(".git/seen").ends_with("README.md\na.txt\ntheirs.txt\n"), "{}", repo.read(".git/seen"));
}

#[test]
fn a_base_that_moves_again_and_again_pauses_the_run() {
    let repo = Repo::new();
    repo.git(&["switch", "-q", "-c", "work"]);
    // Every run of the gate on the level puts another commit onto the base, which is checked out nowhere then.
    repo.write(
        ".git/move.sh",
        "export GIT_INDEX_FILE=../../../../.git/moves.index\n\
         touch ../../../../.git/moves; echo x >> ../../../../.git/moves\n\
         git read-tree work\n\
         git update-index --add --cacheinfo 100644,$(git hash-object -w ../../../../.git/moves),moves\n\
         git update-ref refs/heads/work $(git -c user.name=P -c user.email=p@x commit-tree -m moved -p work $(git write-tree))\n",
    );
    let gate = "test ! -e a.txt || sh ../../../../.git/move.sh";
    repo.config(&format!("quality_gates: {}\n", json!([{ "name": "mover", "command": gate }])));
    repo.graph("x", &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt"))]);
    let run = repo.run_until_held("x");
    repo.git(&["switch", "-q", "main"]);
    repo.let_go_on("x", run).code(9).says("the base branch moved 3 times while level 1 was gated");
    let moved = repo.subjects("work").iter().filter(|subject| *subject == "moved").count();
    assert_eq!(moved, 4);
    repo.config("");
    repo.run(&["run", "--accept-config"]).code(0);
    assert_eq!(repo.subjects("work")[0], "Level 1: x");
    assert_eq!(repo.subjects("work").iter().filter(|subject| *subject == "moved").count(), 4);
}

fn conflicted() -> (Repo, Ran) {
    let repo = two_levels();
    let run = repo.run_until_held("x");
    commit(&repo, "owned.txt", "1\n2\n3\n4\n5\n6\n7\n8\nNEUN\n", "theirs");
    let ran = repo.let_go_on("x", run);
    (repo, ran)
}

const STAGING: &str = ".mahabharatha/worktrees/x/staging";

#[test]
fn a_conflict_with_a_users_commit_is_left_to_the_user_and_merge_retry_continues() {
    let (repo, ran) = conflicted();
    let staging = repo.join(STAGING);
    let ran = ran.code(5).says("level 1 conflicts with main in owned.txt").says("merge --retry");
    ran.says(&format!("Resolve and commit in {}", staging.display())).does_not_say("completed:");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "theirs");
    assert_eq!(repo.read("owned.txt"), "1\n2\n3\n4\n5\n6\n7\n8\nNEUN\n");
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("conflict in owned.txt") && state.contains(STAGING), "{state}");
    assert_eq!(repo.status()["levels"][0]["status"], "failed");
    assert_eq!(repo.git_in(&staging, &["status", "--porcelain"]), "UU owned.txt");
    assert!(repo.read(&format!("{STAGING}/owned.txt")).contains("<<<<<<<"));

    // Half a resolution is not thrown away by who is too quick.
    repo.write(&format!("{STAGING}/owned.txt"), "half\n");
    repo.run(&["merge", "--retry"]).code(5).says("owned.txt");
    repo.run(&["run"]).code(5);
    assert_eq!(repo.read(&format!("{STAGING}/owned.txt")), "half\n");

    repo.write(&format!("{STAGING}/owned.txt"), "both\n");
    repo.git_in(&staging, &["add", "owned.txt"]);
    repo.git_in(&staging, &["commit", "-q", "-m", "resolved"]);
    repo.run(&["merge", "--retry"])
        .code(0)
        .says("x: level 1 is merged; go on with the levels above it: mahabharatha run x");
    assert_eq!((repo.read("owned.txt").as_str(), repo.read("a.txt").as_str()), ("both\n", "A\n"));
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["log", "--first-parent", "--format=%s", "main", "-3"]), "Level 2: x\nLevel 1: x\ntheirs");
    assert_eq!(repo.refs(), [""; 0]);
}

#[test]
fn an_abandoned_merge_is_kept_when_the_level_is_staged_again() {
    let (repo, ran) = conflicted();
    ran.code(5);
    repo.write(&format!("{STAGING}/owned.txt"), "a person's thoughts\n");
    // Another attempt from the same start makes another staging; the unfinished merge is of the old one.
    repo.run(&["skip", "A", "--reason", "no longer wanted", "--keep-dependents"]).code(0);
    let kept = "what a person did on staging is in the way of the level: it is kept as refs/mahabharatha/x/unfinished/";
    repo.run(&["run"]).code(0).says(kept);
    let name = repo.refs().into_iter().find(|name| name.contains("/unfinished/")).unwrap();
    assert_eq!(repo.git(&["show", &format!("{name}:owned.txt")]), "a person's thoughts");
    assert_eq!(repo.read("owned.txt"), "1\n2\n3\n4\n5\n6\n7\n8\nNEUN\n");
}

#[test]
fn a_base_that_was_amended_is_not_brought_back() {
    let repo = two_levels();
    let run = repo.run_until_held("x");
    let old = repo.git(&["rev-parse", "main"]);
    repo.git(&["commit", "-q", "--amend", "-m", "amended"]);
    let new = repo.git(&["rev-parse", "main"]);
    let rewritten = format!("the base branch was rewritten: it no longer contains {}", &old[..10]);
    repo.let_go_on("x", run).code(9).says(&rewritten).says(&format!("git merge {}", &old[..10]));
    assert_eq!(repo.git(&["rev-parse", "main"]), new);
    assert!(!is_on_main(&repo, &old) && !repo.exists("a.txt"));
    repo.run(&["run"]).code(9).says(&rewritten);
    assert_eq!(repo.git(&["rev-parse", "main"]), new);
    assert!(has_ref(&repo, "tasks/A"), "its work is kept");
    // The way out that it names.
    repo.git(&["merge", "-q", "-m", "both", &old]);
    repo.run(&["run"]).code(0);
    assert!(is_on_main(&repo, &old) && is_on_main(&repo, &new));
}

#[test]
fn a_deleted_base_is_not_created_again() {
    let repo = two_levels();
    let run = repo.run_until_held("x");
    repo.git(&["branch", "-m", "main", "trunk"]);
    let start = repo.git(&["rev-parse", "trunk"]);
    repo.let_go_on("x", run)
        .code(9)
        .says(&format!("the base branch is gone or has become a symbolic ref; it was at {}", &start[..10]));
    assert_eq!(repo.git(&["rev-parse", "trunk"]), start);
    assert!(repo.git_fails(&["rev-parse", "--verify", "--quiet", "refs/heads/main"]));
    repo.git(&["branch", "-m", "trunk", "main"]);
    repo.run(&["run"]).code(0);
}

#[test]
fn a_level_that_the_user_removed_from_the_base_stays_removed() {
    let repo = Repo::new();
    let start = repo.git(&["rev-parse", "main"]);
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.run(&["run", "--level", "1"]).code(0);
    let merged = repo.git(&["rev-parse", "main"]);
    repo.git(&["reset", "-q", "--hard", &start]);
    repo.run(&["run"]).code(9).says("the base branch was rewritten").does_not_say("is completed");
    assert_eq!(repo.git(&["rev-parse", "main"]), start);
    assert!(!repo.exists("a.txt") && !repo.exists(".gsd/specs/x/COMPLETION.md"));
    repo.git(&["reset", "-q", "--hard", &merged]);
    repo.run(&["run"]).code(0);
}

/// What a person may do, with git, to files that the held task owns; and whether that goes together.
const MEANWHILE: [(&str, &str, bool); 8] = [
    ("another line", "sed -i s/^1$/one/ owned.txt", true),
    ("another mode", "chmod +x owned.txt", true),
    ("the same file, the same way", "echo A > a.txt", true),
    ("the same file, another way", "echo mine > a.txt", false),
    ("the same line", "sed -i s/^9$/neun/ owned.txt", false),
    ("deleted", "rm owned.txt", false),
    ("renamed", "git mv owned.txt renamed.txt", false),
    ("a directory in its place", "mkdir a.txt; echo x > a.txt/x", false),
];

#[test]
fn a_users_commit_to_an_owned_file_is_merged_or_conflicts_and_is_never_lost() {
    for (what, does, goes_together) in MEANWHILE {
        let repo = two_levels();
        let run = repo.run_until_held("x");
        let mut person = std::process::Command::new("sh");
        assert!(person.args(["-c", does]).current_dir(repo.path()).status().unwrap().success());
        repo.git(&["add", "-A", "--", ":!.gsd"]);
        repo.git(&["commit", "-q", "-m", what]);
        let theirs = repo.git(&["rev-parse", "HEAD"]);
        let ran = repo.let_go_on("x", run).code(if goes_together { 0 } else { 5 });
        if goes_together {
            ran.says(&format!(
                "main has commits that the run did not make, which land with the level: {} {what}",
                &theirs[..7]
            ));
            assert!(repo.read("owned.txt").ends_with("8\nnine\n"), "{what}");
        } else {
            assert_eq!(repo.git(&["rev-parse", "main"]), theirs, "{what}");
            repo.git(&["-C", STAGING, "rev-parse", "MERGE_HEAD"]);
        }
        assert!(is_on_main(&repo, &theirs), "{what}");
        let left = repo.git(&["diff", "--stat", "HEAD"]);
        assert_eq!(left, "", "{what}: the checkout is as it was committed");
    }
}

#[test]
fn the_next_level_does_not_restore_what_the_user_reverted() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), task("B", 2, "b.txt", &format!("{HELD} cat a.txt > b.txt"))]);
    let run = repo.run_until_held("x");
    repo.git(&["revert", "-m", "1", "--no-edit", "main"]);
    assert!(!repo.exists("a.txt"));
    repo.let_go_on("x", run).code(4).says("it fails on main itself");
    assert!(!repo.exists("a.txt") && !repo.tree("main").contains_key("a.txt"));
    assert!(repo.subjects("main").iter().any(|subject| subject.starts_with("Revert \"Level 1: x\"")));
}

#[test]
fn a_base_that_was_reset_while_the_next_level_works_stops_the_run() {
    let repo = Repo::new();
    let start = repo.git(&["rev-parse", "main"]);
    repo.graph("x", &[simple("A", 1, "a.txt"), task("B", 2, "b.txt", &format!("{HELD} echo B > b.txt"))]);
    let run = repo.run_until_held("x");
    repo.git(&["reset", "-q", "--hard", &start]);
    repo.let_go_on("x", run).code(9).says("the base branch was rewritten");
    assert_eq!(repo.git(&["rev-parse", "main"]), start);
    assert!(!repo.exists("a.txt") && !repo.exists("b.txt"));
}

#[test]
fn a_base_that_was_amended_while_the_gates_ran_stops_the_run() {
    let repo = Repo::new();
    let gate = "test ! -e a.txt || { touch ../../../../.git/gating; while [ ! -e ../../../../.git/go ]; do sleep 0.02; done; }";
    repo.config(&format!("quality_gates: {}\n", json!([{ "name": "slow", "command": gate }])));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let run = repo.spawn(&["run"]);
    repo.wait_for(".git/gating");
    repo.git(&["commit", "-q", "--amend", "-m", "amended"]);
    let amended = repo.git(&["rev-parse", "main"]);
    repo.write(".git/go", "");
    run.wait().code(9).says("the base branch was rewritten");
    assert_eq!(repo.git(&["rev-parse", "main"]), amended);
    assert!(!repo.exists("a.txt"));
}
