//! Gates: on the base, after a level, and what happens when one fails.

use serde_json::{Value, json};

use crate::support::{HELD, Ran, Repo, simple, task, with};

/// The configuration of gates, each with its name and command, and more of the configuration after it.
fn gates(gates: &[(&str, &str)], more: &str) -> String {
    let gates: Vec<Value> = gates.iter().map(|(name, command)| json!({ "name": name, "command": command })).collect();
    format!("quality_gates: {}\n{more}", json!(gates))
}

/// Counts its runs in a file that no worktree has.
const COUNTED: &str = "echo run >> ../../../../.git/runs;";

fn runs(repo: &Repo) -> usize {
    if repo.exists(".git/runs") { repo.read(".git/runs").lines().count() } else { 0 }
}

fn committed(repo: &Repo, config: &str) {
    repo.config(config);
    repo.commit("config");
}

pub fn completion(repo: &Repo) -> String {
    repo.read(".gsd/specs/x/COMPLETION.md")
}

#[test]
fn a_red_base_ends_with_7_and_shows_the_output() {
    let repo = Repo::new();
    committed(&repo, &gates(&[("lint", "echo first; echo 'README.md:1: no title' >&2; exit 3"), ("fine", "true")], ""));
    repo.graph("x", &[task("A", 1, "a.txt", "touch ../../../../.git/launched; echo A > a.txt")]);
    let before = repo.git(&["rev-parse", "main"]);
    repo.run(&["run"])
        .code(7)
        .says("these gates fail on the base, before anything was run: lint")
        .says("      README.md:1: no title\n      [exit code 3]")
        .says("--allow-red-base")
        .does_not_say("completed");
    assert!(!repo.exists(".git/launched"));
    assert_eq!(repo.git(&["rev-parse", "main"]), before);
    assert_eq!(repo.status()["status"], "failed");
    assert!(repo.read(".gsd/STATE.md").contains("gates fail on the base: lint"));
    // Once it is fixed the run starts from there.
    repo.config(&gates(&[("lint", "grep title README.md")], ""));
    repo.run(&["run"]).code(7).says("lint: grep title README.md");
    repo.write("README.md", "title\n");
    let fixed = repo.commit("fixed");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["rev-parse", "main^2~1"]), fixed);
}

#[test]
fn a_base_that_fails_only_in_a_worktree_is_reported_with_its_cause() {
    for (gate, cause) in [
        (
            "cat config/.env",
            "config/.env is in your checkout, but git ignores it, so no worktree has it. Let `worktrees.setup`",
        ),
        ("cat \"$PWD/config/.env\"", "config/.env is in your checkout"),
        ("echo 'sh: 1: jest: not found'; exit 1", "node_modules is in your checkout"),
        ("node_modules/.bin/jest", "install it, for example `npm ci`"),
        ("echo \"Error: Cannot find module 'express'\"; exit 1", "Likely cause: node_modules is"),
        (".venv/bin/pytest", ".venv/bin/pip install"),
    ] {
        let repo = Repo::new();
        repo.write(".gitignore", "node_modules/\n.venv/\n.env\nout/\n");
        repo.write("config/committed", "");
        committed(&repo, &format!("quality_gates:\n  - name: all\n    command: {}\n", json!(gate)));
        repo.write("config/.env", "A=1\n");
        repo.program("node_modules/.bin/jest", "exit 0");
        repo.program(".venv/bin/pytest", "exit 0");
        repo.graph("x", &[simple("A", 1, "a.txt")]);
        repo.run(&["run"]).code(7).says(cause).says("worktrees.setup").does_not_say("ommit it");
    }
}

#[test]
fn an_attempt_that_misses_an_ignored_file_is_reported_with_its_cause() {
    let repo = Repo::new();
    repo.write(".gitignore", ".env\n");
    committed(&repo, "retry: { max_attempts: 1 }\n");
    repo.write(".env", "A=1\n");
    let reads = json!({ "verification": { "command": "cat .env" } });
    repo.graph("x", &[with(simple("A", 1, "a.txt"), reads)]);
    repo.run(&["run"])
        .code(3)
        .says(".env is in your checkout, but git ignores it, so no worktree has it. Name it in .worktreeinclude");
    let found = repo.run(&["debug", "--json"]).json();
    assert!(found["hypotheses"][0]["evidence"].to_string().contains(".worktreeinclude"), "{found:#}");
    repo.write(".worktreeinclude", ".env\n");
    repo.config("retry: { max_attempts: 1 }\nworktrees: { setup: 'test -e .env || echo A=1 > .env' }\n");
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run", "--accept-config"]).code(0);
}

#[test]
fn a_gate_that_misses_a_file_of_a_submodule_has_failed() {
    let (library, repo) = (Repo::new(), Repo::new());
    let url = library.path().display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"]);
    committed(&repo, "quality_gates: [ { name: all, command: 'cat sub/README.md' } ]\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(7).says("these gates fail on the base").does_not_say("Pathspec");
}

#[test]
fn no_cause_is_named_without_evidence() {
    for gate in [
        "echo 'building out and node_modules'; exit 1",
        "echo 'sh: 1: mocha: not found'; exit 1",
        "cat missing.txt",
        "cat untracked.txt",
        "echo 'README.md does not exist'; exit 1",
        "echo 'cannot find value `out` in this scope'; exit 1",
        "echo \"rootdir: $PWD\"; exit 1",
    ] {
        let repo = Repo::new();
        repo.write(".gitignore", "node_modules/\nout/\n");
        committed(&repo, &format!("quality_gates:\n  - name: all\n    command: {}\n", json!(gate)));
        repo.write("untracked.txt", "");
        repo.write("out/made", "");
        repo.program("node_modules/.bin/jest", "exit 0");
        repo.graph("x", &[simple("A", 1, "a.txt")]);
        repo.run(&["run"]).code(7).does_not_say("Likely cause");
    }
}

#[test]
fn a_red_base_that_is_allowed_is_only_reported() {
    let repo = Repo::new();
    committed(&repo, &gates(&[("fine", "true"), ("lint", "echo 'no title'; exit 3")], ""));
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.run(&["run", "--allow-red-base"])
        .code(0)
        .says("gate lint is red on main already: from now on it is only reported")
        .says("level 1: gate lint failed, which is only reported: no title [exit code 3]")
        .says("level 2: gate lint failed, which is only reported: no title [exit code 3]")
        .says("level 2: 1 of 2 gates passed in a clean checkout, lint failed and was red on main before")
        .does_not_say("passed its gates");
    let report = completion(&repo);
    assert!(report.contains("| 2 | lint | `echo 'no title'; exit 3` | failed, as it did before the run |"), "{report}");
    assert!(report.contains("| 2 | fine | `true` | passed |"), "{report}");
    assert!(report.contains("- [ ] All quality gates passed (2 of 4)"), "{report}");
    assert!(report.contains("- [x] All verifications passed on the merged tree (2 of 2)"), "{report}");
    let at = |row: &str| report.find(row).unwrap();
    assert!(at("| 2 | fine |") < at("| 2 | lint |") && at("| 2 | lint |") < at("| 2 | verify A |"), "{report}");
}

#[test]
fn a_gate_that_is_not_required_is_only_reported() {
    let repo = Repo::new();
    let gates = json!([{ "name": "nice", "command": "echo 'not nice'; test ! -e a.txt", "required": false },
                       { "name": "must", "command": "true" }]);
    committed(&repo, &format!("quality_gates: {gates}\n"));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"])
        .code(0)
        .says("main passed its gates")
        .says("level 1: gate nice failed, which is only reported: not nice [exit code 1]")
        .says("level 1: 1 of 2 gates passed in a clean checkout, nice failed and is not required")
        .does_not_say("level 1 passed its gates");
    let report = completion(&repo);
    let gates = "- [x] All required quality gates passed (1 of 2, nice failed and is not required)";
    assert!(report.contains(gates), "{report}");
    assert!(report.contains("| failed; it is not required |"), "{report}");
    // On the base as well.
    repo.graph("y", &[simple("B", 1, "b.txt")]);
    repo.run(&["run"])
        .code(0)
        .says("gate nice fails on main, which is only reported: not nice [exit code 1]")
        .says("main: 1 of 2 gates passed, nice failed and is not required");
}

#[test]
fn a_task_without_a_verification_is_not_counted_as_verified() {
    for verification in [" ", "# nothing to check"] {
        let repo = Repo::new();
        let blank = with(simple("A", 1, "a.txt"), json!({ "verification": { "command": verification } }));
        repo.graph("x", &[blank, simple("B", 1, "b.txt")]);
        repo.run(&["run"])
            .code(0)
            .says("level 1: 1 of 2 tasks passed its verification on the merged tree in a clean checkout, A has no verification");
        let report = completion(&repo);
        assert!(report.contains("passed on the merged tree (1 of 1; 1 of 2 tasks has none)"), "{report}");
        assert!(!report.contains("verify A"), "{report}");
    }
}

#[test]
fn a_gate_that_passed_is_not_run_again_on_the_same_tree_and_one_that_failed_is() {
    let repo = Repo::new();
    repo.write("a.txt", "old\n");
    committed(
        &repo,
        &gates(
            &[("counted", COUNTED), ("picky", "! grep -q bad a.txt")],
            "merge: { remediation_attempts: 0 }\ngates: { clean: never }\n",
        ),
    );
    let change =
        with(task("A", 1, "a.txt", &format!("{HELD} echo bad > a.txt")), json!({ "files": { "modify": ["a.txt"] } }));
    repo.graph("x", &[change]);
    let run = repo.run_until_held("x");
    repo.write("a.txt", "a person's\n");
    // Once on the base, once on the level.
    repo.let_go_on("x", run).code(4);
    assert_eq!(runs(&repo), 2);
    repo.config(&gates(
        &[("counted", COUNTED), ("picky", "echo again >> ../../../../.git/again")],
        "gates: { clean: never }\n",
    ));
    repo.run(&["run", "--accept-config"]).code(9).says("a.txt");
    assert_eq!((runs(&repo), repo.read(".git/again").lines().count()), (2, 1));
    repo.git(&["checkout", "-q", "a.txt"]);
    repo.run(&["run"]).code(0);
    // The last level verifies every task as well, which is another command.
    assert_eq!((runs(&repo), repo.read(".git/again").lines().count()), (2, 1));
    assert!(completion(&repo).contains("| 1 | counted |"), "a remembered pass is reported");
}

#[test]
fn the_task_whose_file_the_output_names_fixes_it_with_the_output_in_its_prompt() {
    let repo = Repo::new();
    committed(&repo, &gates(&[("lint", "! grep -Hn BAD *.txt")], ""));
    let write = "cat > \"$MAHABHARATHA_SPEC_DIR/prompt-$MAHABHARATHA_ATTEMPT\"; echo two > b2.txt; \
                 if [ $MAHABHARATHA_ATTEMPT = 1 ]; then echo BAD > b.txt; else echo good > b.txt; fi";
    let culprit = with(task("B", 1, "b.txt", write), json!({ "files": { "create": ["b.txt", "b2.txt"] } }));
    repo.graph("x", &[simple("A", 1, "a.txt"), culprit, simple("C", 1, "c.txt")]);
    repo.run(&["run"])
        .code(0)
        .says("level 1: gate lint failed: b.txt:1:BAD [exit code 1]")
        .says("B is to blame: the output names b.txt")
        .says("B started to fix gate lint");
    let prompt = repo.read(".gsd/specs/x/prompt-2");
    assert!(prompt.contains("! grep -Hn BAD *.txt") && prompt.contains("b.txt:1:BAD"), "{prompt}");
    assert_eq!(
        repo.git(&["log", "--format=%s", "main^2", "^main^1"]).lines().collect::<Vec<_>>(),
        ["fix(B): Make b.txt", "feat(C): Make c.txt", "feat(B): Make b.txt", "feat(A): Make a.txt"]
    );
    assert_eq!(repo.git(&["diff", "--name-only", "main^2~1", "main^2"]), "b.txt");
    assert!(repo.git(&["log", "-1", "--format=%(trailers:only)", "main^2"]).contains("Mahabharatha-Attempt: 2"));
    assert_eq!(repo.read("b.txt"), "good\n");
    assert!(completion(&repo).contains("B, attempt 2: fixed what made a gate fail"));
}

#[test]
fn without_a_hint_in_the_output_bisection_finds_the_task() {
    let repo = Repo::new();
    let gate = format!("{COUNTED} ! cat *.txt | grep -q BAD");
    committed(&repo, &gates(&[("secretive", &gate)], ""));
    let culprit =
        task("D", 1, "d.txt", "if [ $MAHABHARATHA_ATTEMPT = 1 ]; then echo BAD > d.txt; else echo D > d.txt; fi");
    let mut tasks: Vec<Value> = ["A", "B", "C", "E"].map(|id| simple(id, 1, &format!("{id}.txt"))).to_vec();
    tasks.push(culprit);
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(0).says("D is to blame: it passes without D's commit and fails with it");
    // On the base, on the level, three for five tasks to find it, and on the fix.
    assert_eq!(runs(&repo), 6);
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main^2"]), "fix(D): Make d.txt");
}

/// A level that fails its gate because of what `content` says.
fn unfixable(fix_attempts: u32) -> Repo {
    let repo = Repo::new();
    committed(
        &repo,
        &gates(&[("lint", "! grep -Hn BAD a.txt")], &format!("merge: {{ remediation_attempts: {fix_attempts} }}\n")),
    );
    let write = "echo $MAHABHARATHA_ATTEMPT >> \"$MAHABHARATHA_SPEC_DIR/attempts\"; \
                 { cat \"$MAHABHARATHA_SPEC_DIR/content\"; echo $MAHABHARATHA_ATTEMPT; } > a.txt";
    repo.graph("x", &[task("A", 1, "a.txt", write), simple("B", 1, "b.txt")]);
    repo.write(".gsd/specs/x/content", "BAD\n");
    repo
}

fn attempts(repo: &Repo) -> usize {
    repo.read(".gsd/specs/x/attempts").lines().count()
}

#[test]
fn an_unfixed_gate_exits_with_4_and_its_cause_and_a_retry_continues() {
    let repo = unfixable(2);
    let before = repo.git(&["rev-parse", "main"]);
    repo.run(&["run"])
        .code(4)
        .says("level 1 is not merged: its gate lint failed")
        .says("A is to blame: the output names a.txt")
        .says("      a.txt:1:BAD\n      [exit code 1]")
        .says("mahabharatha retry -f x A`")
        .does_not_say("completed:");
    assert_eq!(attempts(&repo), 3, "one and two fixes");
    assert_eq!(repo.git(&["rev-parse", "main"]), before);
    let status = repo.status();
    assert_eq!((&status["status"], &status["levels"][0]["status"]), (&json!("failed"), &json!("failed")));
    assert!(repo.read(".gsd/STATE.md").contains("gate lint failed: a.txt:1:BAD; A is to blame"));
    repo.write(".gsd/specs/x/content", "good\n");
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run"]).code(0);
    assert_eq!(attempts(&repo), 4);
    assert_eq!(repo.read("a.txt"), "good\n4\n");
    assert!(!repo.subjects("main").iter().any(|subject| subject.starts_with("fix(")), "the old fixes are gone");
}

#[test]
fn a_fix_that_changes_nothing_makes_no_commit() {
    let repo = Repo::new();
    committed(&repo, &gates(&[("lint", "! grep -Hn BAD *.txt")], "merge: { remediation_attempts: 1 }\n"));
    repo.graph("x", &[task("A", 1, "a.txt", "echo BAD > a.txt"), simple("B", 1, "b.txt")]);
    repo.run(&["run"])
        .code(4)
        .says("A changed nothing, though it was to fix something")
        .says("A could not fix it: Nothing was changed, so what failed would fail again.");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "mahabharatha/x/staging"]), "feat(B): Make b.txt");
}

#[test]
fn a_users_commit_on_staging_counts_as_a_fix() {
    let repo = unfixable(0);
    // Found by bisection, which tries parts of the level in staging's worktree.
    repo.config(&gates(
        &[("lint", "! cat *.txt | grep -q BAD; touch README.md; rm -f b.txt; ! cat *.txt | grep -q BAD")],
        "merge: { remediation_attempts: 0 }\n",
    ));
    let staging = repo.join(".mahabharatha/worktrees/x/staging");
    repo.run(&["run"]).code(4).says(&staging.display().to_string());
    assert_eq!(repo.git_in(&staging, &["status", "--porcelain", "--branch"]), "## mahabharatha/x/staging");
    repo.write(".mahabharatha/worktrees/x/staging/a.txt", "fixed by hand\n");
    repo.git_in(&staging, &["commit", "-q", "-a", "-m", "by hand"]);
    repo.run(&["merge", "--retry"]).code(0);
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main^2"]), "by hand");
    assert_eq!(repo.read("a.txt"), "fixed by hand\n");
    assert_eq!(repo.read("b.txt"), "B\n");
    assert_eq!(attempts(&repo), 1);
}

#[test]
fn a_users_fix_on_staging_is_kept_when_a_task_is_repeated() {
    let repo = unfixable(0);
    let staging = repo.join(".mahabharatha/worktrees/x/staging");
    repo.run(&["run"]).code(4);
    repo.write(".mahabharatha/worktrees/x/staging/notes.txt", "by hand\n");
    repo.git_in(&staging, &["add", "notes.txt"]);
    repo.git_in(&staging, &["commit", "-q", "-m", "by hand"]);
    repo.write(".gsd/specs/x/content", "good\n");
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run"]).code(0).says("what a person did on staging is in the way of the level: it is kept as");
    assert!(!repo.exists("notes.txt"));
    let kept = repo.refs().into_iter().find(|name| name.contains("/unfinished/")).unwrap();
    assert_eq!(repo.git(&["show", &format!("{kept}:notes.txt")]), "by hand");
    // Not even `cleanup` takes it without being told so.
    repo.run(&["cleanup"]).code(0).says("it is what a person did on staging");
    assert_eq!(repo.refs(), [kept]);
}

#[test]
fn a_users_uncommitted_changes_on_staging_are_kept() {
    let repo = unfixable(0);
    repo.run(&["run"]).code(4);
    repo.write(".mahabharatha/worktrees/x/staging/a.txt", "half a fix\n");
    repo.run(&["run"]).code(4).says("what a person did on staging is in the way of the level: it is kept as");
    let kept = repo.refs().into_iter().filter(|name| name.contains("/unfinished/")).collect::<Vec<_>>();
    assert_eq!(repo.git(&["show", &format!("{}:a.txt", kept[0])]), "half a fix");
    // Where nothing was changed nothing is kept.
    repo.run(&["run"]).code(4).does_not_say("is kept as");
    assert_eq!(kept.len(), 1);
}

#[test]
fn files_that_do_not_change_keep_their_times_so_that_builds_do_not_start_over() {
    let repo = Repo::new();
    repo.write(".gitignore", "build/\n");
    let build = "mkdir -p build; if test -e build/out -a ! README.md -nt build/out; then echo again >> build/log; \
                 else cp README.md build/out; echo built >> build/log; fi; cp build/log ../../../../.git/log; \
                 echo scribbled > .gitignore";
    committed(&repo, &gates(&[("build", build), ("other", "test -e build")], "gates: { caches: [build/] }\n"));
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt"), simple("C", 3, "c.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read(".git/log"), "built\nagain\nagain\nagain\n");
    assert_eq!(repo.read(".gitignore"), "build/\n");
}

#[test]
fn no_task_is_blamed_for_a_gate_that_the_user_broke() {
    let repo = Repo::new();
    committed(&repo, &gates(&[("tidy", "test ! -e mess")], ""));
    repo.graph("x", &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt")), simple("B", 1, "b.txt")]);
    let run = repo.run_until_held("x");
    repo.write("mess", "");
    repo.git(&["add", "mess"]);
    repo.git(&["commit", "-q", "-m", "a mess"]);
    repo.let_go_on("x", run)
        .code(4)
        .says("no task can be blamed: it fails on main itself")
        .does_not_say("started to fix");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "a mess");
    repo.git(&["rm", "-q", "mess"]);
    repo.git(&["commit", "-q", "-m", "tidied up"]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main^1"]), "tidied up");
}

#[test]
fn a_gate_that_does_not_end_is_ended_with_all_its_processes() {
    let repo = Repo::new();
    let gate = json!([{ "name": "slow", "timeout": 1,
        "command": "! test -e a.txt || { echo waiting; sleep 1000 & setsid sleep 1000 & wait; }" }]);
    committed(&repo, &format!("quality_gates: {gate}\nmerge: {{ remediation_attempts: 0 }}\n"));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"]).code(4).says("waiting [ended after 1 s, which is its time limit]");
}

#[test]
fn a_gate_that_prints_a_gigabyte_is_bounded_everywhere() {
    let repo = Repo::new();
    let loud =
        "! test -e a.txt || { echo begin; head -c 1000000000 /dev/zero; echo; echo 'a.txt:1: the end'; exit 1; }";
    committed(&repo, &gates(&[("loud", loud)], "merge: { remediation_attempts: 0 }\n"));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let Ran { stderr, .. } = repo.run(&["run"]).code(4).says("a.txt:1: the end");
    assert!(stderr.len() < 100_000, "{}", stderr.len());
    let size = |path: &str| std::fs::metadata(repo.join(path)).unwrap().len();
    assert!(size(".git/mahabharatha/x/events.jsonl") < 1 << 20);
    assert!(size(".mahabharatha/logs/x/gates/1-loud.1.jsonl") <= 4 << 20);
    repo.run(&["logs", "--gate", "loud"]).code(0).says("gate output: begin\n");
}

#[test]
fn every_run_of_a_gate_is_kept_and_a_failed_one_is_in_the_report() {
    let repo = Repo::new();
    let lint =
        "if grep -q BAD a.txt 2> /dev/null; then echo checking; echo 'a.txt:1: error: BAD'; exit 1; fi; echo clean";
    committed(&repo, &gates(&[("lint", lint)], ""));
    let script = "[ $MAHABHARATHA_ATTEMPT -gt 1 ] && echo good > a.txt || echo BAD > a.txt";
    let a = with(task("A", 1, "a.txt", script), json!({ "acceptance_criteria": ["AC-1.1", "It is small"] }));
    repo.graph("x", &[a]);
    let story = "# Feature: x\n\n## User Stories\n\n### Story 1: One\n\n**Acceptance Criteria:**\n- [ ] It counts\n- [ ] It sings\n";
    repo.write(".gsd/specs/x/requirements.md", story);
    repo.run(&["run"]).code(0).says("level 1: gate lint failed: a.txt:1: error: BAD [exit code 1]");
    let logs = repo.run(&["logs", "--gate", "lint", "--json"]).code(0).stdout;
    let records: Vec<Value> = logs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let output = |at: &str, run: u64| -> Vec<&str> {
        let of = |record: &&Value| record["at"] == at && record["run"] == run && record["event"] == "gate_output";
        records.iter().filter(of).map(|record| record["message"].as_str().unwrap()).collect()
    };
    assert_eq!(output("base", 1), ["clean"]);
    assert_eq!(output("1", 1), ["checking", "a.txt:1: error: BAD"]);
    assert_eq!(output("1", 2), ["clean"]);
    assert!(records.iter().all(|record| record["gate"] == "lint"));
    repo.run(&["logs"]).code(0).says("gate lint (level 1, run 1): gate output: a.txt:1: error: BAD\n");
    let report = completion(&repo);
    for line in [
        "## Failed Gates\n\n- Level 1, lint: a.txt:1: error: BAD \\[exit code 1\\]; passed later\n",
        "## Changes\n\n1 file, 1 line added, 0 removed.\n",
        "| `a.txt` | 1 | 0 |\n",
        "- AC-1.1: It counts (A completed)\n- AC-1.2: It sings (no task names it)\n- It is small (A completed)\n",
    ] {
        assert!(report.contains(line), "{line:?} is not in\n{report}");
    }
}

#[test]
fn the_gate_that_runs_is_shown_with_its_last_line() {
    let repo = Repo::new();
    committed(&repo, &gates(&[("slow", &format!("! test -e a.txt || {{ echo begun; echo half way; {HELD} }}"))], ""));
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    let run = repo.run_until_held("x");
    let gate = || repo.status()["running_gate"].clone();
    repo.wait_until("the gate's last line", || gate()["last_line"] == "half way");
    let shown = gate();
    assert_eq!((&shown["gate"], &shown["at"]), (&json!("slow"), &json!("1")));
    assert!(shown["elapsed_seconds"].is_u64() && shown["command"].as_str().unwrap().starts_with("! test -e a.txt"));
    repo.run(&["status"]).code(0).says("gate slow has been running for ");
    repo.let_go_on("x", run).code(0);
    assert_eq!(gate(), Value::Null);
}

#[test]
fn what_gates_change_in_files_does_not_land_and_the_next_gate_does_not_see_it() {
    let repo = Repo::new();
    let format = "echo formatted >> README.md; rm -f a.txt; touch junk; git add -A; git commit -q -m sneaky || true";
    let look = "test ! -e junk && ! grep -q formatted README.md && { test -e a.txt || ! test -e b.txt; }";
    committed(&repo, &gates(&[("format", format), ("look", look)], ""));
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("README.md"), "hello\n");
    assert_eq!(repo.read("a.txt"), "A\n");
    assert_eq!(
        repo.tree("main").keys().map(String::as_str).collect::<Vec<_>>(),
        [".mahabharatha/config.yaml", "README.md", "a.txt", "b.txt"]
    );
    assert!(!repo.subjects("main").contains(&"sneaky".to_string()), "{:?}", repo.subjects("main"));
}

#[test]
fn what_a_failing_gate_commits_does_not_land_when_it_is_tried_again() {
    let repo = Repo::new();
    let sneaky =
        "test ! -e a.txt || { touch junk; git add -A; git commit -q -m sneaky; test -e ../../../../.git/pass; }";
    committed(&repo, &gates(&[("sneaky", sneaky)], "merge: { remediation_attempts: 0 }\n"));
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 1, "b.txt")]);
    repo.run(&["run"]).code(4);
    repo.write(".git/pass", "");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["diff", "--name-only", "main^1", "main"]), "a.txt\nb.txt");
}

#[test]
fn lock_files_are_generated_again_in_staging() {
    let repo = Repo::new();
    let prepare = "merge: { prepare: 'ls *.txt > Cargo.lock; cp Cargo.lock go.sum; touch junk' }\n";
    repo.write("Cargo.lock", "");
    committed(&repo, &gates(&[("locked", "test -e Cargo.lock && test ! -e junk")], prepare));
    // What a task leaves of a lock file is not taken.
    let first = task("A", 1, "a.txt", "echo half > Cargo.lock; echo A > a.txt");
    repo.graph("x", &[first, simple("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run"]).code(0).says("merge.prepare made go.sum, which is not committed");
    assert_eq!(repo.read("Cargo.lock"), "a.txt\nb.txt\nc.txt\n");
    assert!(!repo.exists("go.sum"));
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main^2"]), "Prepare level 2: x");
    assert_eq!(repo.git(&["show", "main~1:Cargo.lock"]), "a.txt\nb.txt");
    assert_eq!(repo.git(&["diff", "--name-only", "main^2~1", "main^2"]), "Cargo.lock");
    assert!(!repo.exists("junk"));
}

#[test]
fn a_preparation_that_fails_on_the_base_is_a_red_base() {
    let repo = Repo::new();
    committed(&repo, "merge: { prepare: 'echo no such tool; exit 3' }\n");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.run(&["run"])
        .code(7)
        .says("these gates fail on the base, before anything was run: merge.prepare")
        .says("      no such tool");
    repo.run(&["run", "--allow-red-base"])
        .code(0)
        .says("level 1: gate merge.prepare failed, which is only reported: no such tool [exit code 3]");
    assert!(completion(&repo).contains("| 1 | merge.prepare | `echo no such tool; exit 3` | failed, as it did before"));
}
