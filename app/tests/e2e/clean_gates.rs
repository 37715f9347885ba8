//! Gates and verifications in a clean checkout: what earlier commands left does not let a feature pass.

use serde_json::json;

use crate::support::{Repo, simple, task, with};

/// Level 2 removes the source of what the gate needs; level 1 has left the output, which git ignores.
fn stale(config: &str) -> Repo {
    let repo = Repo::new();
    repo.write(".gitignore", "out\n");
    repo.write("source", "code\n");
    let gate = "if test -e source; then cp source out; fi; test -e out";
    repo.config(&format!("quality_gates: {}\n{config}", json!([{ "name": "build", "command": gate }])));
    repo.commit("a build");
    let removes = with(
        task("B", 2, "b.txt", "echo B > b.txt; rm source"),
        json!({ "files": { "create": ["b.txt"], "modify": ["source"] } }),
    );
    repo.graph("x", &[simple("A", 1, "a.txt"), removes, simple("C", 3, "c.txt")]);
    repo
}

fn merged_levels(repo: &Repo) -> usize {
    repo.subjects("main").iter().filter(|subject| subject.starts_with("Level ")).count()
}

#[test]
fn a_gate_that_passes_only_on_leftovers_does_not_complete_a_feature() {
    let repo = stale("merge: { remediation_attempts: 0 }\n");
    repo.run(&["run"])
        .code(4)
        .says("level 3 is not merged: its gate build failed")
        .says("(in a clean checkout: no ignored files of earlier runs)");
    assert_eq!(merged_levels(&repo), 2);
    let clone = repo.join("clone");
    repo.git(&["clone", "-q", ".", clone.to_str().unwrap()]);
    assert!(!clone.join("source").exists() && !clone.join("out").exists(), "a fresh clone fails as well");
}

#[test]
fn levels_are_gated_in_a_clean_checkout_as_the_configuration_says() {
    let repo = stale("merge: { remediation_attempts: 0 }\ngates: { clean: every }\n");
    repo.run(&["run"]).code(4).says("level 2 is not merged: its gate build failed");
    assert_eq!(merged_levels(&repo), 1);
    for config in ["gates: { clean: never }\n", "gates: { caches: [/out] }\n"] {
        let repo = stale(config);
        repo.run(&["run"]).code(0);
        let clean = repo.read(".gsd/specs/x/COMPLETION.md").contains("in a clean checkout: 4 of 4)");
        assert_eq!(clean, config.contains("caches"), "{config}");
    }
}

#[test]
fn a_verification_that_passes_only_on_leftovers_does_not_complete_a_feature() {
    let repo = Repo::new();
    repo.write(".gitignore", "out\n");
    // As long as level 2 is not there, the gate makes what the verification needs.
    let gate = json!([{ "name": "build", "command": "test -e b.txt || touch out" }]);
    repo.config(&format!("quality_gates: {gate}\nmerge: {{ remediation_attempts: 0 }}\n"));
    repo.commit("a build");
    let verification = json!({ "verification": { "command": "test -e out" } });
    let made = with(task("A", 1, "a.txt", "echo A > a.txt; touch out"), verification);
    repo.graph("x", &[made, simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(4).says("the verification of A fails on the merged tree");
}

#[test]
fn a_task_that_breaks_the_build_from_scratch_is_found_and_fixes_it() {
    let repo = stale("");
    let breaks = with(
        task(
            "B",
            2,
            "b.txt",
            "echo B > b.txt; if test $MAHABHARATHA_ATTEMPT = 1; then rm source; else echo new > source; fi",
        ),
        json!({ "files": { "create": ["b.txt"], "modify": ["source"] } }),
    );
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("C", 2, "c.txt"), breaks]);
    repo.run(&["run"])
        .code(0)
        .says("B is to blame: it passes without B's commit and fails with it")
        .says("level 2 passed its gates in a clean checkout");
    assert_eq!(repo.read("source"), "new\n");
}
