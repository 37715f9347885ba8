//! Two features at once in one repository.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Background, Ran, Repo, simple, task};

/// Says that it is there and which ports it has, and waits for `go` beside its spec.
fn held(id: &str, file: &str) -> Value {
    let script = format!(
        "S=$MAHABHARATHA_SPEC_DIR; echo \"$MAHABHARATHA_PORTS\" > \"$S/{id}.ports\"; \
         while ! [ -e \"$S/go\" ]; do sleep 0.02; done; mkdir -p $(dirname {file}); echo $MAHABHARATHA_FEATURE > {file}"
    );
    task(id, 1, file, &script)
}

/// `x` and `y`, each with two agents that wait; `y` is the current one.
fn two_features(files: [[&str; 2]; 2]) -> Repo {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\nports: { per_worker: 2 }\n");
    for (feature, [one, two]) in ["x", "y"].iter().zip(files) {
        repo.graph(feature, &[held("A-1", one), held("A-2", two), simple("B-1", 2, &format!("{feature}/b1"))]);
    }
    repo
}

fn wait_until_up(repo: &Repo, feature: &str) {
    for id in ["A-1", "A-2"] {
        repo.wait_for(&format!(".gsd/specs/{feature}/{id}.ports"));
    }
}

fn spawn_with(repo: &Repo, args: &[&str], env: &[(&str, &str)]) -> Background {
    let mut command = repo.command(args);
    command.envs(env.iter().copied());
    Background::start(command)
}

fn status_of(repo: &Repo, feature: &str) -> Value {
    repo.run(&["status", "--json", "-f", feature]).code(0).json()
}

#[test]
fn both_land_in_one_base_without_losing_a_commit() {
    let repo = two_features([["x/a1", "x/a2"], ["y/a1", "y/a2"]]);
    let x = spawn_with(&repo, &["run"], &[("ZERG_FEATURE", "x")]);
    wait_until_up(&repo, "x");
    let y = repo.spawn(&["run"]);
    wait_until_up(&repo, "y");
    for feature in ["x", "y"] {
        assert_eq!(status_of(&repo, feature)["status"], "running");
        assert!(repo.exists(&format!(".mahabharatha/worktrees/{feature}/worker-1")));
    }
    // A person commits too.
    repo.write("mine.txt", "mine\n");
    repo.git(&["add", "mine.txt"]);
    repo.git(&["commit", "-qm", "mine"]);
    for feature in ["x", "y"] {
        repo.write(&format!(".gsd/specs/{feature}/go"), "");
    }
    x.wait().code(0).says("x is completed").does_not_say("y is completed");
    y.wait().code(0).says("y is completed");
    let tree = repo.tree("main");
    for feature in ["x", "y"] {
        assert_eq!(tree[&format!("{feature}/a1")], feature);
        assert!(tree.contains_key(&format!("{feature}/b1")));
        assert_eq!(status_of(&repo, feature)["status"], "completed");
        assert!(repo.read(&format!(".mahabharatha/state/{feature}.json")).contains(&format!("\"{feature}\"")));
        assert!(repo.exists(&format!(".mahabharatha/logs/{feature}/workers/worker-0.jsonl")));
        assert!(repo.read(".gsd/STATE.md").contains(&format!("# MAHABHARATHA State: {feature}")));
    }
    assert_eq!(tree["mine.txt"], "mine");
    let subjects: BTreeSet<String> = repo.subjects("main").into_iter().collect();
    for subject in ["Level 1: x", "Level 2: x", "Level 1: y", "Level 2: y", "mine", "first"] {
        assert!(subjects.contains(subject), "{subject}");
    }
    assert_eq!(repo.refs(), [""; 0]);
    let ports: Vec<String> = ["x", "y"]
        .iter()
        .flat_map(|feature| ["A-1", "A-2"].map(|id| repo.read(&format!(".gsd/specs/{feature}/{id}.ports"))))
        .flat_map(|ports| ports.trim().split(',').map(str::to_string).collect::<Vec<_>>())
        .collect();
    assert_eq!((ports.len(), ports.iter().collect::<BTreeSet<_>>().len()), (8, 8), "{ports:?}");
}

#[test]
fn the_feature_is_chosen_by_flag_then_variable_then_file() {
    let repo = Repo::new();
    for feature in ["x", "y", "z"] {
        repo.graph(feature, &[simple("A-1", 1, &format!("{feature}1"))]);
    }
    let tells = |ran: Ran, feature: &str| ran.code(0).says(&format!("{feature}: designed, not run yet"));
    tells(repo.run(&["status"]), "z");
    tells(repo.run_with(&["status"], &[("MAHABHARATHA_FEATURE", "y")]), "y");
    tells(repo.run_with(&["status"], &[("ZERG_FEATURE", " y\n"), ("MAHABHARATHA_FEATURE", "")]), "y");
    tells(repo.run_with(&["status", "--feature", "x"], &[("ZERG_FEATURE", "y")]), "x");
    repo.run_with(&["status"], &[("ZERG_FEATURE", "y"), ("MAHABHARATHA_FEATURE", "x")]).says("ZERG_FEATURE");
    repo.run_with(&["run"], &[("MAHABHARATHA_FEATURE", "y")]).code(0).says("y is completed");
    repo.run(&["run", "x"]).code(0).says("x is completed");
    assert_eq!(repo.tree("main").keys().filter(|name| name.len() == 2).collect::<Vec<_>>(), ["x1", "y1"]);
}

#[test]
fn the_second_run_is_warned_about_files_that_both_own() {
    let repo = two_features([["x/a1", "shared.txt"], ["y/a1", "shared.txt"]]);
    let x = spawn_with(&repo, &["run", "x"], &[]);
    wait_until_up(&repo, "x");
    let y = repo.spawn(&["run"]);
    wait_until_up(&repo, "y");
    for feature in ["y", "x"] {
        repo.run(&["stop", "-f", feature]).code(0);
    }
    x.wait().code(130).does_not_say("owns the same files");
    y.wait().code(130).says("x, which runs now, owns the same files: shared.txt").says("may conflict");
}

#[test]
fn a_run_that_waits_for_another_feature_to_land_can_be_stopped() {
    let repo = Repo::new();
    let signs = repo.join(".gsd/specs").display().to_string();
    repo.config(&format!(
        "quality_gates: [ {{ name: slow, timeout: 60, command: \"test -e x1 || exit 0; touch '{signs}/up'; \
         while ! [ -e '{signs}/go' ]; do sleep 0.02; done\" }} ]\n"
    ));
    repo.commit("gate");
    repo.graph("x", &[simple("A-1", 1, "x1")]);
    repo.graph("y", &[simple("A-1", 1, "y1")]);
    let x = repo.spawn(&["run", "x"]);
    repo.wait_for(".gsd/specs/up");
    let y = repo.spawn(&["run", "y"]);
    repo.wait_until("y waits to land", || {
        let ran = repo.run(&["status", "--json", "-f", "y"]);
        ran.code == 0 && ran.json()["levels"][0]["status"] == "merging"
    });
    repo.run(&["stop", "-f", "y"]).code(0);
    y.wait().code(130);
    assert_eq!(status_of(&repo, "x")["status"], "running");
    repo.write(".gsd/specs/go", "");
    x.wait().code(0);
    repo.run(&["run", "y"]).code(0);
    assert_eq!(repo.tree("main").keys().filter(|name| name.len() == 2).collect::<Vec<_>>(), ["x1", "y1"]);
    assert_eq!(status_of(&repo, "y")["tasks"][0]["attempt"], json!(1));
}
