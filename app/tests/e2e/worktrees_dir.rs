//! `worktrees.dir`: worktrees in another place, and everything that finds them there.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{HELD, Repo, simple, task};
use crate::task_mode::{Session, plain};

/// A repository whose worktrees are in a directory beside it, which is removed with the test.
fn elsewhere() -> (Repo, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::new();
    repo.config(&setting(&trees(&dir)));
    repo.commit("config");
    (repo, dir)
}

fn trees(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().canonicalize().unwrap().join("the trees")
}

fn setting(dir: &Path) -> String {
    format!("worktrees: {{ dir: {} }}\n", json!(dir))
}

#[test]
fn a_run_works_elsewhere_and_leaves_nothing() {
    let (repo, dir) = elsewhere();
    let place = trees(&dir);
    let here = format!("case $PWD in {}/x/worker-*) ;; *) exit 1;; esac; echo A > a.txt", json!(place));
    repo.graph("x", &[task("A", 1, "a.txt", &here), simple("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["doctor"]).says(&format!("worktrees: in {}", place.display()));
    repo.run(&["run"]).code(0);
    assert!(repo.read(".gsd/specs/x/worker-assignments.json").contains(&format!("{}/x/worker-0", place.display())));
    assert!(!place.exists() && !repo.exists(".mahabharatha/worktrees"));
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn what_a_blocked_run_left_there_is_shown_and_cleaned_up() {
    let (repo, dir) = elsewhere();
    let place = trees(&dir);
    repo.graph("x", &[task("A", 1, "a.txt", "exit 1")]);
    repo.run(&["run"]).code(3);
    assert!(place.join("x/worker-0").is_dir());
    repo.run(&["debug"]).says(&format!("{}/x/worker-0", place.display()));
    // A command that is given in a worktree means the project.
    let inside = repo.command(&["status"]).current_dir(place.join("x/worker-0")).output().unwrap();
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stderr));
    repo.run(&["cleanup", "--yes"]).code(0);
    assert!(!place.exists());
}

#[test]
fn a_killed_run_is_resumed_there() {
    let (repo, dir) = elsewhere();
    repo.graph("x", &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt")), simple("B", 1, "b.txt")]);
    let run = repo.run_until_held("x");
    run.signal("KILL");
    run.wait();
    // While an attempt's work is in a worktree, the directory cannot be changed.
    repo.config(&setting(&dir.path().join("others")));
    repo.run(&["run"]).code(9).says("worktrees.dir").says("--accept-config");
    repo.run(&["run", "--accept-config"]).code(9).says("a worktree cannot be moved").says("Put it back to");
    repo.config(&setting(&trees(&dir)));
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["run"]).code(0);
    assert!(!trees(&dir).exists());
}

#[test]
fn a_change_that_is_accepted_moves_the_worktrees() {
    let (repo, dir) = elsewhere();
    repo.graph("x", &[task("A", 1, "a.txt", "test -e \"$MAHABHARATHA_SPEC_DIR/go\" && echo A > a.txt; echo $PWD")]);
    repo.run(&["run"]).code(3);
    assert!(trees(&dir).join("x/staging").is_dir() || trees(&dir).join("x/worker-0").is_dir());
    repo.config("");
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run"]).code(9).says("- worktrees.dir:");
    repo.config("cleanup: { on_completion: false }\n");
    repo.run(&["run", "--accept-config"]).code(0);
    assert!(!trees(&dir).exists());
    assert!(repo.exists(".mahabharatha/worktrees/x/worker-0"));
}

#[test]
fn a_session_works_there_and_its_writes_are_guarded() {
    let (repo, dir) = elsewhere();
    repo.graph("x", &[plain("A", 1, "a.txt"), plain("B", 1, "b.txt")]);
    let one = Session(&repo, "one");
    one.run(&["task", "start"]).code(0);
    let worktree = one.claim("A");
    assert!(Path::new(&worktree).starts_with(trees(&dir)), "{worktree}");
    let judge = |session: &str, path: String| {
        let call = json!({ "session_id": session, "cwd": worktree, "hook_event_name": "PreToolUse", "tool_name": "Write",
            "tool_input": { "file_path": path, "content": "" }, "agent_type": "worker" });
        let mut hook = repo.command(&["hook", "pre-tool-use"]);
        hook.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut hook = hook.stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut hook.stdin.take().unwrap(), call.to_string().as_bytes()).unwrap();
        let output = hook.wait_with_output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let own = judge("one", format!("{worktree}/a.txt"));
    assert!(own.contains("allow"), "{own}");
    let stray = judge("one", format!("{worktree}/b.txt"));
    assert!(stray.contains("not owned by A"), "{stray}");
    one.write(&worktree, "a.txt", "A\n");
    one.run(&["task", "complete", "A"]).code(0);
    assert_eq!(one.does("B", "b.txt", "B\n").code(0).json()["result"], "completed");
    one.run(&["merge"]).code(0);
    assert!(!trees(&dir).exists());
}

#[test]
fn a_directory_in_the_repository_must_be_ignored_and_its_files_are_not_copied() {
    let repo = Repo::new();
    repo.config("worktrees: { dir: out/trees }\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("config");
    repo.run(&["run"]).code(7).says("git does not ignore it").says("Add `/out/trees/` to .gitignore");
    repo.run(&["doctor"]).code(7).says("git does not ignore it");
    repo.write(".gitignore", "/out/\n*.local\n");
    repo.write(".worktreeinclude", "*.local\n");
    repo.write("own.local", "own");
    repo.commit("ignored");
    let kept = "test -e own.local && test ! -e out && touch left.local && ";
    repo.graph(
        "x",
        &[
            task("A", 1, "a.txt", &format!("{kept} echo A > a.txt")),
            task("B", 2, "b.txt", &format!("rm left.local; {kept} echo B > b.txt")),
        ],
    );
    repo.run(&["run"]).code(0);
    assert!(!repo.exists("out/trees"));
}

#[test]
fn places_that_are_not_for_this_project_alone_are_refused() {
    let (repo, dir) = elsewhere();
    repo.graph("x", &[task("A", 1, "a.txt", "exit 1")]);
    repo.run(&["run"]).code(3);
    let other = Repo::new();
    other.graph("x", &[simple("A", 1, "a.txt")]);
    fs::create_dir_all(dir.path().join("full/x/worker-0")).unwrap();
    for (place, why) in [
        (trees(&dir), "is used by another project"),
        (dir.path().join("full"), "is not empty"),
        (PathBuf::from("/usr/local/trees"), "belongs to the system"),
        (PathBuf::from(".."), "holds the repository"),
    ] {
        other.config(&setting(&place));
        other.commit("config");
        other.run(&["run"]).code(7).says(why);
    }
    let place = dir.path().join("shown/trees");
    for key in ["read", "write"] {
        let list = serde_json::json!([dir.path().join("shown")]);
        other.config(&format!("sandbox: {{ mode: off, {key}: {list} }}\n{}", setting(&place)));
        other.commit("config");
        other.run(&["run"]).code(7).says("is below").says(&format!("sandbox.{key}"));
        other.run(&["doctor"]).code(7).says(&format!("sandbox.{key}"));
    }
    assert!(dir.path().join("full/x/worker-0").is_dir() && trees(&dir).join("x/worker-0").is_dir());
}
