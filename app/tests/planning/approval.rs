//! What was approved, and what was changed since.

use crate::plan::{DOCUMENT, WHOLE};
use crate::support::{Repo, simple};

#[test]
fn a_later_edit_shows_until_it_is_approved_again() {
    let repo = Repo::new();
    repo.write(DOCUMENT, WHOLE);
    repo.write(".gsd/.current-feature", "shop");
    let standing = || repo.run(&["status", "--json"]).code(0).json()["requirements"].as_str().unwrap().to_owned();
    assert_eq!(standing(), "draft");
    repo.run(&["plan", "--approve"]).code(0).says("is approved");
    assert_eq!(standing(), "approved");
    // Who approves it again changes nothing.
    let first = repo.read(".gsd/specs/shop/approval.json").replace("A Person", "Another Person");
    repo.write(".gsd/specs/shop/approval.json", &first);
    repo.run(&["plan", "--approve"]).code(0).says("is approved");
    assert_eq!(repo.read(".gsd/specs/shop/approval.json"), first);
    // Line ends are git's affair.
    repo.write(DOCUMENT, &WHOLE.replace('\n', "\r\n"));
    assert_eq!(standing(), "approved");
    repo.write(DOCUMENT, &WHOLE.replace("exits with 2", "exits with 3"));
    assert_eq!(standing(), "changed");
    repo.run(&["status"]).code(0).says("changed since approval");
    repo.graph("shop", &[simple("A-1", 1, "a")]);
    repo.run(&["run"]).code(0);
    repo.run(&["cleanup"]).code(0);
    assert_eq!(standing(), "changed");
    repo.run(&["status"]).code(0).says("Requirements: changed since approval.");
    let approved = repo.run(&["plan", "shop", "--approve", "--json"]).code(0).json();
    assert_eq!(approved["status"], "approved");
    assert_eq!(standing(), "approved");
    repo.run(&["cleanup", "--force"]).code(0);
    assert_eq!(standing(), "approved");
    repo.write(".gsd/specs/shop/approval.json", "{");
    assert_eq!(standing(), "draft");
}
