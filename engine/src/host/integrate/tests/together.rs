//! A person's git and ours in one checkout at the same time.

use super::*;

fn can_stage(lab: &Lab, file: &str) -> bool {
    Command::new("git").args(["add", file]).current_dir(&lab.root).output().unwrap().status.success()
}

#[test]
fn nobody_changes_the_index_while_a_level_lands() {
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
    // HEAD stands where it stood: what came is staged, beside what the person staged.
    assert_eq!(lab.git(&["status", "--porcelain"]), "M  a.txt\nM  b.txt\nA  untracked.txt");
}

#[test]
fn a_lock_that_was_left_when_we_were_killed_is_ours_to_take() {
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
fn a_commit_that_took_what_was_about_to_land_keeps_it() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let checkout = integration.checkout_of_base().unwrap().unwrap().unwrap();
    let lock = checkout.lock().unwrap().unwrap();
    checkout.advance(&lock, &candidate.base, &candidate.staging).unwrap().unwrap();
    // A `git commit` that has passed its look at the lock reads the index and moves the branch before we do.
    let tree = lab.git(&["rev-parse", &format!("{}^{{tree}}", candidate.staging)]);
    let theirs = lab.git(&["commit-tree", &tree, "-p", candidate.base.as_str(), "-m", "theirs"]);
    lab.git(&["update-ref", "refs/heads/trunk", &theirs]);
    checkout.retreat(&lock, &candidate.staging, &lab.oid("trunk")).unwrap();
    drop(lock);
    assert_eq!((lab.read("a.txt").as_str(), lab.git(&["status", "--porcelain"]).as_str()), ("done\n", ""));
}
