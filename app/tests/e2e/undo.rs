//! `undo`: reverts the merged levels of a feature.

use serde_json::json;

use crate::support::{HELD, Repo, simple, task};

fn completed() -> Repo {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    repo
}

fn files(repo: &Repo) -> Vec<String> {
    repo.tree("main").into_keys().filter(|path| !path.starts_with(".gsd/")).collect()
}

#[test]
fn each_level_is_reverted_by_a_commit_newest_first() {
    let repo = completed();
    let start = repo.git(&["rev-parse", "main~2^{tree}"]);
    let levels = [repo.git(&["rev-parse", "main"]), repo.git(&["rev-parse", "main~1"])];
    let data = repo.run(&["undo", "--yes", "--json"]).code(0).json();
    assert_eq!(repo.git(&["rev-parse", "main^{tree}"]), start);
    let log = repo.git(&["log", "--first-parent", "--format=%s", "main"]);
    assert_eq!(log, "Revert level 1: x\nRevert level 2: x\nLevel 2: x\nLevel 1: x\nfirst");
    let trailers = repo.git(&["log", "-1", "--format=%(trailers:only)", "main"]);
    assert!(trailers.contains(&format!("Mahabharatha-Reverts: {}", levels[1])), "{trailers}");
    assert_eq!((&data["reverts"][0]["landed"], &data["reverts"][0]["level"]), (&json!(levels[0]), &json!(2)));
    assert_eq!(data["reverts"][0]["files"], json!(["b.txt"]));
    // The checkout moved along.
    assert!(!repo.exists("a.txt") && !repo.exists("b.txt") && repo.exists("README.md"));
    assert_eq!(repo.git(&["status", "--porcelain", "--untracked-files=no"]), "");
    let status = repo.status();
    assert_eq!((&status["status"], &status["levels"][1]["status"]), (&json!("undone"), &json!("undone")));
    assert_eq!(repo.run(&["list", "--json"]).code(0).json()["features"][0]["status"], "undone");
}

#[test]
fn nothing_is_reverted_before_the_user_has_agreed() {
    let repo = completed();
    let tip = repo.git(&["rev-parse", "main"]);
    let unanswered = repo.run(&["undo"]).code(2).says("Revert these levels on main?").says("answer it with --yes");
    assert!(unanswered.stdout.contains("b.txt") && unanswered.stdout.contains("level 1"), "{}", unanswered.stdout);
    repo.run(&["undo", "--json"]).code(2).says("--yes");
    assert_eq!((repo.git(&["rev-parse", "main"]), repo.status()["status"].clone()), (tip, json!("completed")));
    // Nothing is asked where there is nothing to revert.
    repo.run(&["undo", "--yes"]).code(0);
    repo.run(&["undo"]).code(0).says("x was undone");
}

#[test]
fn an_undone_feature_has_ended_for_good() {
    let repo = completed();
    repo.run(&["undo", "x", "--yes"]).code(0).says("2 revert commits on main");
    let tip = repo.git(&["rev-parse", "main"]);
    for args in [
        &["run"][..],
        &["run", "--resume"],
        &["merge"],
        &["retry", "A"],
        &["skip", "A", "--reason", "r"],
        &["task", "start"],
        &["task", "claim", "A"],
        &["task", "next"],
        &["design", "--begin"],
        &["design", "--agent", "none"],
        &["design", "--agent", "none", "--force"],
        &["git", "ship"],
    ] {
        repo.run(args).code(6).says("x was undone");
    }
    // Without requirements, the hint starts from the graph.
    repo.run(&["run"])
        .says("copy .gsd/specs/x/task-graph.json, set `feature` to NAME")
        .says("mahabharatha design NAME --from-graph COPY --force");
    let graph = repo.read(".gsd/specs/x/task-graph.json");
    let mut graph: serde_json::Value = serde_json::from_str(&graph).unwrap();
    graph["feature"] = json!("again");
    repo.write(".gsd/copy.json", &graph.to_string());
    repo.run(&["design", "again", "--from-graph", ".gsd/copy.json", "--force", "--no-commit"]).code(0);
    std::fs::remove_dir_all(repo.join(".gsd/specs/again")).unwrap();
    repo.write(".gsd/specs/x/requirements.md", "# x\n");
    repo.run(&["run"]).says("mahabharatha plan NAME --from .gsd/specs/x/requirements.md");
    repo.run(&["undo", "--yes"]).code(0).says(&format!("x was undone in {} on main", &tip[..10]));
    assert_eq!(repo.git(&["rev-parse", "main"]), tip);
    // Brought back since: the answer is as true as before.
    repo.git(&["revert", "--no-edit", "HEAD", "HEAD~1"]);
    let again = repo.run(&["undo", "--yes", "--json"]).code(0).json();
    assert_eq!((&again["commit"], &again["reverts"]), (&json!(tip), &json!([])));
    repo.run(&["undo", "--yes"]).code(0).says(&format!("x was undone in {}", &tip[..10])).does_not_say("is undone");
    repo.run(&["cleanup"]).code(0);
    assert_eq!(repo.status()["status"], "undone");
}

#[test]
fn later_commits_stay_and_conflicts_are_refused() {
    let repo = completed();
    repo.write("later.txt", "later\n");
    repo.write("README.md", "changed\n");
    repo.commit("later");
    repo.run(&["undo", "--dry-run"]).code(0).says("can be undone: 2 revert commits on main");
    let before = (repo.refs(), repo.status());
    repo.write("a.txt", "mine\n");
    repo.commit("mine");
    let tip = repo.git(&["rev-parse", "main"]);
    repo.run(&["undo"]).code(5).says("later commits on main changed the same lines").says("a.txt");
    assert_eq!((repo.git(&["rev-parse", "main"]), repo.read("a.txt")), (tip, "mine\n".to_owned()));
    assert_eq!(repo.status(), before.1);
    repo.git(&["revert", "--no-edit", "HEAD"]);
    repo.run(&["undo", "--yes"]).code(0);
    assert_eq!(files(&repo), [".mahabharatha/config.yaml", "README.md", "later.txt"]);
    assert_eq!(repo.read("README.md"), "changed\n");
}

#[test]
fn changes_of_the_user_are_never_overwritten() {
    let repo = completed();
    let tip = repo.git(&["rev-parse", "main"]);
    repo.write("a.txt", "not committed\n");
    repo.run(&["undo", "--yes"]).code(7).says("a.txt").says("Nothing was changed");
    assert_eq!((repo.git(&["rev-parse", "main"]), repo.read("a.txt")), (tip, "not committed\n".to_owned()));
    assert_eq!(repo.status()["status"], "completed");
    repo.git(&["checkout", "-q", "a.txt"]);
    // Where the base is not checked out, the branch alone moves.
    repo.git(&["switch", "-q", "-c", "elsewhere"]);
    repo.run(&["undo", "--yes"]).code(0);
    assert!(repo.exists("a.txt"));
    assert!(!repo.tree("main").contains_key("a.txt"));
}

#[test]
fn what_cannot_be_undone_is_refused() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "exit 3")]);
    repo.run(&["undo"]).code(6).says("there has been no run of x");
    repo.run(&["run"]).code(3);
    repo.run(&["undo"]).code(6).says("no level of x is merged");
    repo.run(&["undo", "y"]).code(2).says("there is no feature y");
    repo.graph("held", &[simple("A", 1, "c.txt"), task("B", 2, "b.txt", &format!("{HELD} echo b > b.txt"))]);
    let run = repo.run_until_held("held");
    repo.run(&["undo"]).code(8);
    repo.run(&["stop", "--force"]).code(0);
    run.wait().code(130);
    // The merged level of a stopped run can be undone.
    repo.run(&["undo", "--yes"]).code(0).says("1 revert commit on main");
    assert!(!repo.tree("main").contains_key("c.txt"));
    repo.config("merge: { target: staging }\n");
    repo.commit("config");
    repo.graph("staged", &[simple("A", 1, "d.txt")]);
    repo.run(&["run"]).code(0);
    repo.run(&["undo"]).code(6).says("is not on main").says("mahabharatha/staged/staging");
    repo.git(&["merge", "-q", "--no-edit", "mahabharatha/staged/staging"]);
    repo.run(&["undo", "--yes"]).code(0);
    assert!(!repo.tree("main").contains_key("d.txt"));
}

#[test]
fn an_undo_that_was_killed_is_finished_by_the_next() {
    let repo = completed();
    let tip = repo.git(&["rev-parse", "main"]);
    let killed = repo.run_with(&["undo", "--yes"], &[("MAHABHARATHA_CRASH_AT", "undo with the branch moved")]);
    assert_ne!(killed.code, 0);
    assert_eq!(repo.git(&["rev-parse", "main~2"]), tip);
    assert_eq!(repo.status()["status"], "completed");
    repo.run(&["undo", "--yes"]).code(0);
    assert_eq!(repo.git(&["rev-parse", "main~2"]), tip, "no second revert");
    assert_eq!(repo.status()["status"], "undone");
}
