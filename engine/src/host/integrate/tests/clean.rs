use mahabharatha_core::config::{Config, Worktrees};

use super::*;

/// A repository with a directory that git ignores and that new worktrees get a copy of.
fn built() -> (Lab, Option<Warm>) {
    let lab = Lab::new();
    fs::create_dir(lab.root.join("build")).unwrap();
    fs::write(lab.root.join("build/made"), "by me").unwrap();
    (lab, Warm::of(&Worktrees { warm: vec!["build".into()], ..Config::default().worktrees }))
}

/// Stages one task and leaves ignored files in staging's worktree.
fn with_leftovers(lab: &Lab, integration: &Integration) -> (Oid, Oid) {
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "a.txt", "done\n")]);
    integration.prepare_staging_worktree(&base, false).unwrap();
    fs::write(lab.staging("ignored"), "from before").unwrap();
    fs::create_dir(lab.staging("build")).unwrap();
    fs::write(lab.staging("build/cache"), "expensive").unwrap();
    (base, staging)
}

fn gated_clean(lab: &Lab, integration: &Integration, call: GateCall) -> Gated {
    done(integration.gate(&lab.lock(), GateCall { clean: true, ..call }).unwrap())
}

fn verifications(commands: &[(&str, &str)]) -> Vec<Verification> {
    let one = |(id, command): &(&str, &str)| Verification {
        task: task(id),
        command: (*command).into(),
        timeout: Duration::from_secs(9),
    };
    commands.iter().map(one).collect()
}

#[test]
fn a_clean_checkout_keeps_only_the_declared_caches() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    integration.gates = vec![gate("stale", "test -e ignored && test -e build/cache")];
    assert!(matches!(integration.gated(&lab, &base, &staging, &[]), Gated::Passed { .. }));
    let failed = failure(gated_clean(&lab, &integration, call(&base, &staging)));
    assert!(failed.clean);
    let (base, staging) = with_leftovers(&lab, &integration);
    integration.caches = vec!["build/".into()];
    integration.gates = vec![gate("cache", "! test -e ignored && test -e build/cache && test -e 'dir/deep ü/g.txt'")];
    let gated = gated_clean(&lab, &integration, call(&base, &staging));
    assert!(matches!(&gated, Gated::Passed { passed, .. } if passed.iter().all(|pass| pass.clean)), "{gated:?}");
}

#[test]
fn a_clean_checkout_has_no_named_pipe_and_no_permissions_of_an_earlier_gate() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    let marks = "test -p marker && test $(stat -c %a a.txt) = 600 && test $(stat -c %a dir) = 700";
    integration.gates = vec![gate("marks", "mkfifo marker; chmod 600 a.txt; chmod 700 dir"), gate("finds", marks)];
    failure(integration.gated(&lab, &base, &staging, &[]));
    integration.gates.remove(0);
    failure(gated_clean(&lab, &integration, call(&base, &staging)));
    let mode = |path: &str| fs::metadata(lab.staging(path)).unwrap().permissions().mode() & 0o777;
    assert_ne!((mode("a.txt"), mode("dir")), (0o600, 0o700));
    assert!(!lab.staging("marker").exists());
}

#[test]
fn a_gate_that_was_killed_with_another_repository_in_its_worktree_does_not_stop_the_next_one() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    fs::remove_file(lab.staging(".git")).unwrap();
    fs::create_dir_all(lab.staging(".git/objects")).unwrap();
    integration.gates = vec![gate("content", "test \"$(cat a.txt)\" = done && test -f .git")];
    assert!(matches!(integration.gated(&lab, &base, &staging, &[]), Gated::Passed { .. }));
}

#[test]
fn staging_is_warmed_when_its_gates_can_use_the_copy() {
    let (lab, warm) = built();
    let gates = vec![gate("warm", "test -e build/made")];
    let integration = Integration { warm, gates, ..lab.integration() };
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "a.txt", "done\n")]);
    integration.prepare_staging_worktree(&base, true).unwrap();
    assert!(!lab.staging("build").exists(), "a clean checkout would throw it away");
    assert!(matches!(integration.gated(&lab, &base, &staging, &[]), Gated::Passed { .. }));
    failure(gated_clean(&lab, &integration, call(&base, &staging)));
}

#[test]
fn staging_is_warmed_ahead_of_gates_that_keep_the_copy() {
    for (clean, caches) in [(false, vec![]), (true, vec!["build/".into()])] {
        let (lab, warm) = built();
        let integration = Integration { warm, caches, ..lab.integration() };
        integration.prepare_staging_worktree(&lab.oid("trunk"), clean).unwrap();
        assert!(lab.staging("build/made").exists(), "{clean}");
    }
}

#[test]
fn a_clean_checkout_has_no_files_in_submodules() {
    let lab = Lab::new();
    let link = format!("160000,{},dir/sub", lab.oid("HEAD"));
    lab.git(&["update-index", "--add", "--cacheinfo", &link]);
    lab.git(&["commit", "-q", "-m", "a submodule"]);
    fs::create_dir(lab.root.join("dir/sub")).unwrap();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    fs::create_dir_all(lab.staging("dir/sub/deep")).unwrap();
    fs::write(lab.staging("dir/sub/deep/left"), "").unwrap();
    integration.gates = vec![gate("empty", "test -z \"$(ls -A dir/sub)\" && test -d dir/sub")];
    let gated = gated_clean(&lab, &integration, call(&base, &staging));
    assert!(matches!(gated, Gated::Passed { .. }), "{gated:?}");
}

#[test]
fn what_cannot_be_written_to_is_removed_too() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    fs::set_permissions(lab.staging("build"), fs::Permissions::from_mode(0o500)).unwrap();
    integration.gates = vec![gate("gone", "! test -e build")];
    let gated = gated_clean(&lab, &integration, call(&base, &staging));
    assert!(matches!(gated, Gated::Passed { .. }), "{gated:?}");
}

#[test]
fn each_gate_sees_what_those_before_it_made() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    integration.prepare = Some("! test -e ignored && echo prepared > ignored".into());
    integration.gates = vec![gate("build", "grep prepared ignored && mkdir build"), gate("test", "test -d build")];
    let verify = verifications(&[("A", "test -d build"), ("B", "grep prepared ignored")]);
    let gated = gated_clean(&lab, &integration, GateCall { verify: &verify, ..call(&base, &staging) });
    assert!(matches!(&gated, Gated::Passed { passed, .. } if passed.len() == 4), "{gated:?}");
    assert_eq!(lab.ran(), ["merge.prepare", "build", "test", "verify A", "verify B"]);
}

#[test]
fn either_all_gates_run_in_a_clean_checkout_or_none() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    let optional = Gate { required: false, ..gate("optional", "false") };
    integration.gates = vec![gate("build", "rm -rf build && mkdir build"), gate("test", "test -d build"), optional];
    let tree = lab.oid(&format!("{staging}^{{tree}}"));
    let pass = |command: &str| GatePass { command: command.into(), tree: tree.clone(), task: None, clean: true };
    let mut passed = vec![pass("rm -rf build && mkdir build")];
    let gated = gated_clean(&lab, &integration, GateCall { passed: &passed, ..call(&base, &staging) });
    assert!(matches!(&gated, Gated::Passed { passed, .. } if passed.len() == 2), "{gated:?}");
    assert_eq!(lab.ran(), ["build", "test", "optional"]);
    passed.push(pass("test -d build"));
    gated_clean(&lab, &integration, GateCall { passed: &passed, ..call(&base, &staging) });
    assert_eq!(lab.ran()[3..], ["optional"]);
}

#[test]
fn a_verification_does_not_pass_on_what_it_left_when_it_failed() {
    let lab = Lab::new();
    let integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    let second_time = "test -e ignored || { touch ignored; false; }";
    for first in ["true", "echo changed >> a.txt"] {
        let verify = verifications(&[("A", first), ("B", second_time)]);
        let failed = gated_clean(&lab, &integration, GateCall { verify: &verify, ..call(&base, &staging) });
        assert_eq!(failure(failed).task, Some(task("B")), "{first}");
    }
}

#[test]
fn a_failure_in_a_clean_checkout_is_bisected_in_clean_checkouts() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let base = lab.oid("trunk");
    let tasks = ["A", "B", "C", "D", "E"].map(|id| {
        let text = if id == "D" { "bad" } else { "good" };
        lab.writes(id, &base, &format!("{}.txt", id.to_lowercase()), text)
    });
    let (staging, commits) = integration.staged(&base, &tasks);
    // The gate needs what the one before it builds, and a pass leaves a file that would let it pass on any tree.
    let test = "test -e ignored || { grep -q bad build/all && exit 1; touch ignored; }";
    integration.gates = vec![gate("build", "mkdir -p build && cat ?.txt > build/all"), gate("test", test)];
    let failed = failure(gated_clean(&lab, &integration, call(&base, &staging)));
    assert_eq!(failed.gate, "test");
    let Blame { task: blamed, why } = done(integration.blame(&base, &failed, &commits).unwrap());
    assert_eq!(blamed, Some(task("D")), "{why}");
}

#[test]
fn a_clean_checkout_has_its_files_as_its_own_attributes_make_them() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, _) = with_leftovers(&lab, &integration);
    integration.owners.insert(task("B"), owns(".gitattributes"));
    let commits =
        [lab.writes("A", &base, "a.txt", "done\n"), lab.writes("B", &base, ".gitattributes", "*.txt text eol=crlf\n")];
    let (staging, _) = integration.staged(&base, &commits);
    integration.gates = vec![gate("attributes", "grep -q \"$(printf '\\r')\" 'dir/deep ü/g.txt'")];
    assert!(matches!(gated_clean(&lab, &integration, call(&base, &staging)), Gated::Passed { .. }));
}

#[test]
fn a_clean_checkout_has_no_repository_in_a_directory_with_files() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    fs::create_dir_all(lab.staging("dir/.git")).unwrap();
    integration.gates = vec![gate("repository", "test ! -e dir/.git && test -e .git")];
    assert!(matches!(gated_clean(&lab, &integration, call(&base, &staging)), Gated::Passed { .. }));
}

#[test]
fn a_verification_does_not_pass_on_what_it_made_of_the_changes_of_another_one() {
    let lab = Lab::new();
    let integration = lab.integration();
    let (base, staging) = with_leftovers(&lab, &integration);
    let sees = "grep -q changed a.txt && echo seen > ignored; test -e ignored";
    let verify = verifications(&[("A", "echo changed >> a.txt"), ("B", sees)]);
    let call = GateCall { verify: &verify, ..call(&base, &staging) };
    assert_eq!(failure(gated_clean(&lab, &integration, call)).task, Some(task("B")));
}
