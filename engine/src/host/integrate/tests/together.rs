//! The user's git and ours in one checkout at the same time.

use super::*;

fn can_stage(lab: &Lab, file: &str) -> bool {
    Command::new("git").args(["add", file]).current_dir(&lab.root).output().unwrap().status.success()
}

#[test]
fn the_index_is_locked_while_a_level_lands() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let checkout = integration.checkout_of_base().unwrap().unwrap().unwrap();
    lab.write("b.txt", "staged before");
    lab.git(&["add", "b.txt"]);
    let lock = checkout.lock().unwrap().unwrap();
    lab.write("untracked.txt", "mine");
    assert!(!can_stage(&lab, "untracked.txt"));
    checkout.advance(&lock, &candidate.base, &candidate.staging).unwrap().unwrap();
    assert!(!can_stage(&lab, "untracked.txt"));
    drop(lock);
    assert!(can_stage(&lab, "untracked.txt"));
    // HEAD has not moved: the level's changes are staged next to those of the user.
    assert_eq!(lab.git(&["status", "--porcelain"]), "M  a.txt\nM  b.txt\nA  untracked.txt");
}

#[test]
fn our_own_lock_left_by_a_kill_is_replaced() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let checkout = integration.checkout_of_base().unwrap().unwrap().unwrap();
    std::mem::forget(checkout.lock().unwrap().unwrap());
    assert!(lab.root.join(".git/index.lock").exists());
    integration.landed(&lab, &candidate).unwrap();
    assert!(!lab.root.join(".git/index.lock").exists());
    assert_eq!((lab.read("a.txt").as_str(), lab.git(&["status", "--porcelain"]).as_str()), ("done\n", ""));
}

#[test]
fn a_concurrent_commit_of_the_landing_changes_is_kept() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let checkout = integration.checkout_of_base().unwrap().unwrap().unwrap();
    let lock = checkout.lock().unwrap().unwrap();
    checkout.advance(&lock, &candidate.base, &candidate.staging).unwrap().unwrap();
    // A `git commit` that has already checked the lock reads the index and moves the branch before we do.
    let tree = lab.git(&["rev-parse", &format!("{}^{{tree}}", candidate.staging)]);
    let theirs = lab.git(&["commit-tree", &tree, "-p", candidate.base.as_str(), "-m", "theirs"]);
    lab.git(&["update-ref", "refs/heads/trunk", &theirs]);
    checkout.retreat(&lock, &candidate.staging, &lab.oid("trunk")).unwrap();
    drop(lock);
    assert_eq!((lab.read("a.txt").as_str(), lab.git(&["status", "--porcelain"]).as_str()), ("done\n", ""));
}
