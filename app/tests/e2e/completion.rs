//! The end of a feature: what is reported, what is cleared away, and what must hold first.

use crate::support::{HELD, Repo, simple, task};

fn report(repo: &Repo) -> String {
    repo.read(".gsd/specs/x/COMPLETION.md")
}

/// The rows of a table under a heading, each as its cells.
fn rows(report: &str, heading: &str) -> Vec<Vec<String>> {
    let section = report.split(&format!("## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect()).collect()
}

/// A gate, a task that fails once, one with a stray, one that is skipped, and two levels.
fn eventful() -> Repo {
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: lint, command: 'test -e README.md' }]\n");
    repo.graph(
        "x",
        &[
            task("FAILS", 1, "a.txt", "[ $MAHABHARATHA_ATTEMPT = 1 ] || echo A > a.txt"),
            task("STRAYS", 1, "b.txt", "[ $MAHABHARATHA_ATTEMPT = 2 ] || echo mine > README.md; echo B > b.txt"),
            task("CANNOT", 2, "c.txt", "echo 'there is no such thing'; exit 3"),
            simple("FINE", 2, "d.txt"),
        ],
    );
    repo.run(&["run"]).code(3);
    repo.run(&["skip", "CANNOT", "--reason", "not needed after all"]).code(0);
    repo
}

#[test]
fn the_report_is_true() {
    let repo = eventful();
    assert!(!repo.exists(".gsd/specs/x/COMPLETION.md"), "not before it is completed");
    let start = repo.git(&["rev-parse", "main~1"]);
    let review = format!("review with `git diff {} main`", &start[..10]);
    repo.run(&["run"]).code(0).says("Next: read the report").says(&review).says("`mahabharatha cleanup -f x`");
    let report = report(&repo);
    for line in [
        "- **Base branch:** `main`",
        "- **Tasks:** 3 of 4 completed, 1 skipped",
        "- **Attempts:** 6",
        "- [ ] All tasks in `completed` status (3 of 4)",
        "- [x] All levels merged to `main` (2 of 2)",
        "- [x] No `blocked` tasks without resolution (0 blocked)",
        "- CANNOT: not needed after all",
        "- FAILS, attempt 1: did not make a file that it should have made",
        "- STRAYS, attempt 1: changed what it does not own: README.md",
        "- CANNOT, attempt 1: is blocked: there is no such thing",
    ] {
        assert!(report.contains(line), "{line:?} is not in\n{report}");
    }
    // Every commit that it names is on the base, and is what it says.
    let tasks = rows(&report, "Tasks");
    assert_eq!(tasks.len(), 4);
    for row in &tasks {
        let (id, commit) = (&row[0], row[7].trim_matches('`'));
        if id == "CANNOT" {
            assert_eq!((row[3].as_str(), commit), ("skipped", ""));
            continue;
        }
        assert!(!repo.git_fails(&["merge-base", "--is-ancestor", commit, "main"]), "{id}: {commit}");
        assert!(repo.git(&["log", "-1", "--format=%s", commit]).starts_with(&format!("feat({id}):")));
        assert_eq!(row[4], if id == "FINE" { "1" } else { "2" });
    }
    for row in rows(&report, "Levels") {
        let subject = repo.git(&["log", "-1", "--format=%s", row[3].trim_matches('`')]);
        assert_eq!(subject, format!("Level {}: x", row[0]));
    }
    let gates = rows(&report, "Quality Gates");
    assert_eq!(gates.iter().filter(|row| row[1] == "lint" && row[3] == "passed").count(), 2, "{report}");
    assert_eq!(gates.iter().filter(|row| row[1].starts_with("verify ")).count(), 3, "the skipped task is not verified");
    let commits: Vec<&str> =
        report.split("## Commits\n").nth(1).unwrap().split("\n## ").next().unwrap().trim().lines().collect();
    let log = repo.git(&["log", "--topo-order", "--format=- `%h %s`", "main", "--grep", "Mahabharatha-Feature: x"]);
    assert_eq!(commits, log.lines().collect::<Vec<_>>());
    assert!(report.contains("```mermaid\ngantt\n"));
}

#[test]
fn what_was_ours_is_cleared_away_but_work_in_progress_stays_until_cleanup() {
    let repo = eventful();
    assert!(repo.exists(".mahabharatha/worktrees/x/worker-0"));
    repo.run(&["run"]).code(0);
    let wip = ["refs/mahabharatha/x/wip/STRAYS/1"];
    assert_eq!(repo.refs(), wip);
    assert!(!repo.exists(".mahabharatha/worktrees"));
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(repo.git(&["show", &format!("{}:README.md", wip[0])]), "mine");
    repo.run(&["cleanup"]).code(0);
    assert_eq!(repo.refs(), [""; 0]);
    assert!(repo.exists(".gsd/specs/x/COMPLETION.md") && repo.exists(".git/mahabharatha/x/events.jsonl"));
    repo.run(&["run"]).code(0).says("completed already");
}

#[test]
fn work_that_the_base_branch_lost_again_is_not_called_completed() {
    let repo = Repo::new();
    repo.graph("x", &[task("A-1", 1, "a1", "echo A-1 > a1")]);
    repo.run(&["run"]).code(0);
    let merged = repo.git(&["rev-parse", "main"]);
    repo.git(&["reset", "-q", "--hard", "main~1"]);
    let lost = format!(
        "x was completed, but the branch main does not fit the run: it does not contain {}, level 1",
        &merged[..10]
    );
    let next = "Bring back what it lost (`git reflog main`), then `mahabharatha run x`.";
    repo.run(&["run"]).code(1).says(&lost).says(next).does_not_say("completed already");
    repo.run(&["status"]).code(0).says(&format!("{lost}.\n{next}\n"));
    repo.git(&["merge", "-q", "--ff-only", &merged]);
    repo.run(&["run"]).code(0).says("completed already");
    repo.run(&["status"]).code(0).does_not_say("does not fit");
}

#[test]
fn a_foreign_file_among_the_worktrees_does_not_keep_a_run_from_ending() {
    let repo = Repo::new();
    let planted = "touch ../planted; ln -s planted ../link; echo A-1 > a1";
    repo.graph("x", &[task("A-1", 1, "a1", planted)]);
    repo.run(&["run"]).code(0).says("x is completed");
    assert!(repo.exists(".mahabharatha/worktrees/x/planted"), "not ours to remove");
    assert!(!repo.exists(".mahabharatha/worktrees/x/worker-0"));
    repo.run(&["cleanup"]).code(0);
}

#[test]
fn what_was_ours_is_kept_where_that_is_configured() {
    let repo = Repo::new();
    repo.config("cleanup: { on_completion: false }\n");
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 1, "b.txt")]);
    repo.run(&["run", "-w", "1"]).code(0);
    assert_eq!(
        repo.refs(),
        [
            "refs/heads/mahabharatha/x/staging",
            "refs/heads/mahabharatha/x/worker-0",
            "refs/mahabharatha/x/tasks/A",
            "refs/mahabharatha/x/tasks/B"
        ]
    );
    let worktrees = repo.git(&["worktree", "list"]);
    assert!(
        worktrees.contains("[mahabharatha/x/staging]") && worktrees.contains("[mahabharatha/x/worker-0]"),
        "{worktrees}"
    );
    repo.run(&["cleanup"]).code(0);
    assert_eq!(repo.refs(), [""; 0]);
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn nothing_is_completed_before_its_report_is_written() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.write(".gsd/specs/x/COMPLETION.md/in the way", "");
    repo.run(&["run"]).code(1).says("COMPLETION.md").does_not_say("is completed");
    assert_eq!(repo.status()["status"], "failed");
    assert_ne!(repo.refs(), [""; 0], "nothing is cleared away either");
    std::fs::remove_dir_all(repo.join(".gsd/specs/x/COMPLETION.md")).unwrap();
    repo.run(&["run"]).code(0).says("x is completed");
    assert_eq!(repo.task("A")["attempt"], 1);
    assert_eq!(repo.refs(), [""; 0]);
}

#[test]
fn nothing_is_completed_while_the_base_lacks_a_level() {
    let repo = Repo::new();
    let start = repo.git(&["rev-parse", "main"]);
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.write(".gsd/specs/x/COMPLETION.md/in the way", "");
    repo.run(&["run"]).code(1);
    std::fs::remove_dir_all(repo.join(".gsd/specs/x/COMPLETION.md")).unwrap();
    let merged = repo.git(&["rev-parse", "main"]);
    repo.git(&["reset", "-q", "--hard", &start]);
    repo.run(&["run"]).code(1).says(&format!("level 1 was merged as {}, which main no longer contains", &merged[..10]));
    assert!(!repo.exists(".gsd/specs/x/COMPLETION.md"));
    repo.git(&["merge", "-q", "--ff-only", &merged]);
    repo.run(&["run"]).code(0);
}

#[test]
fn a_level_whose_tasks_are_all_skipped_is_passed_over_wherever_it_is() {
    let cannot = |id, level, file| task(id, level, file, "exit 3");
    // The first, the last, and the only one.
    for (tasks, landed) in [
        (
            vec![cannot("SKIP", 1, "a.txt"), simple("B", 2, "b.txt"), simple("C", 3, "c.txt")],
            vec!["Level 3: x", "Level 2: x"],
        ),
        (vec![simple("A", 1, "a.txt"), cannot("SKIP", 2, "b.txt")], vec!["Level 1: x"]),
        (vec![cannot("SKIP", 1, "a.txt")], vec![]),
    ] {
        let repo = Repo::new();
        repo.graph("x", &tasks);
        repo.run(&["run"]).code(3);
        repo.run(&["skip", "SKIP", "--reason", "no", "--keep-dependents"]).code(0);
        let level = if landed == ["Level 1: x"] { 2 } else { 1 };
        repo.run(&["run"]).code(0).says("x is completed").does_not_say(&format!("level {level} merged into"));
        let log = repo.git(&["log", "--first-parent", "--format=%s", "main"]);
        assert_eq!(log.lines().collect::<Vec<_>>(), [&landed[..], &["first"]].concat());
        assert!(report(&repo).contains("- SKIP: no"));
        let tests_pass = report(&repo).contains("- [x] Tests pass on `main`");
        assert_eq!(tests_pass, !landed.is_empty(), "{}", report(&repo));
        assert_eq!(repo.refs(), [""; 0]);
    }
}

#[test]
fn a_level_is_skipped_while_a_run_is_on_as_well() {
    let repo = Repo::new();
    repo.graph(
        "x",
        &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt")), simple("B", 2, "b.txt"), simple("C", 3, "c.txt")],
    );
    let run = repo.run_until_held("x");
    repo.run(&["skip", "B", "--reason", "no", "--keep-dependents"]).code(0);
    repo.let_go_on("x", run).code(0).says("level 2: nothing to merge");
    assert_eq!(repo.git(&["log", "--first-parent", "--format=%s", "main"]), "Level 3: x\nLevel 1: x\nfirst");
}

#[test]
fn the_target_of_levels_that_are_merged_cannot_be_changed() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.run(&["run", "--level", "1"]).code(0);
    repo.config("merge: { target: staging }\n");
    repo.run(&["run"]).code(6).says("merge.target").says("level 1 is merged into main");
    repo.config("");
    repo.run(&["run"]).code(0);
}
