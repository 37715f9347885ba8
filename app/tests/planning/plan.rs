//! `plan` by flags, for scripts.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::support::{Background, Ran, Repo, Unwritable};

pub const WHOLE: &str = "\
# Feature: shop

## Problem Statement
Nobody can buy anything.

## User Stories

### Story 1: A visitor can buy a book
**As a** visitor
**I want** to buy a book
**So that** I can read it

**Acceptance Criteria:**
- [ ] `shop buy 1` prints `sold`
- [ ] an unknown number exits with 2

**Verification:**
```bash
sh tests/shop.sh
```

## Constraints
- none

## Out of Scope
- Payment

## Dependencies
- none
";
pub const DOCUMENT: &str = ".gsd/specs/shop/requirements.md";

/// Runs the program with a text on its standard input.
fn run_with_input(repo: &Repo, args: &[&str], input: &[u8]) -> Ran {
    let path = repo.join("input");
    fs::write(&path, input).unwrap();
    let ran = repo.command(args).stdin(Stdio::from(fs::File::open(&path).unwrap())).output().unwrap();
    fs::remove_file(path).unwrap();
    Ran::of(ran)
}

#[test]
fn a_description_becomes_a_form_that_says_what_is_missing() {
    let repo = Repo::new();
    let ran = repo.run(&["plan", "shop", "--describe", "Sell books.", "--agent", "none", "--json"]).code(0);
    let data = ran.json();
    assert_eq!(data["status"], "draft");
    assert_eq!(data["requirements"], json!(repo.join(DOCUMENT)));
    let codes: Vec<&str> =
        data["problems"].as_array().unwrap().iter().map(|problem| problem["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["placeholder"; 10]);
    insta::assert_snapshot!(repo.read(DOCUMENT));
    assert_eq!(repo.read(".gsd/.current-feature"), "shop\n");
    let state = repo.read(".gsd/STATE.md");
    assert!(state.contains("# MAHABHARATHA State: shop") && state.contains("- **Phase:** Planning\n"), "{state}");
    assert!(state.contains("- **Status:** requirements are a draft\n"), "{state}");
    // A form is nothing to be approved.
    repo.run(&["plan", "shop", "--approve"]).code(6).says("cannot be approved yet").says("is not filled in");
    repo.run(&["status"]).code(0).says("planned, not run yet; the requirements are a draft");
}

#[test]
fn a_feature_that_cannot_run_yet_names_what_comes_first() {
    let repo = Repo::new();
    repo.run(&["plan", "shop", "--describe", "Sell books.", "--agent", "none"]).code(0);
    let next = "mahabharatha plan shop --approve\n";
    repo.run(&["status"]).code(0).says(&format!("Next: {next}"));
    let told = repo.run(&["debug"]).code(6).says("there has been no run of shop").says("the requirements are a draft");
    told.says(next).does_not_say("mahabharatha run");
    repo.write("wish.md", WHOLE);
    repo.run(&["plan", "shop", "--from", "wish.md", "--approve"]).code(0);
    for command in ["status", "debug"] {
        repo.run(&[command]).says("mahabharatha design shop\n").does_not_say("mahabharatha run");
    }
    repo.write(".gsd/specs/shop/task-graph.json", "{");
    for command in ["status", "debug"] {
        let told = repo.run(&[command]).says("task-graph.json").says("mahabharatha design shop --validate-only");
        told.does_not_say("mahabharatha run");
    }
}

#[test]
fn whole_requirements_are_taken_as_they_are() {
    let repo = Repo::new();
    repo.write("wish.md", WHOLE);
    repo.run(&["plan", "shop", "--from", "wish.md"]).code(0).says("is a draft").says("plan shop --approve");
    assert_eq!(repo.read(DOCUMENT), WHOLE);
    let other = WHOLE.replace("Payment", "Returns");
    let ran = run_with_input(&repo, &["plan", "shop", "--from", "-", "--approve"], other.as_bytes());
    ran.code(0).says("requirements.1.md").says("is approved").says("mahabharatha design shop");
    assert_eq!(repo.read(DOCUMENT), other);
    assert_eq!(repo.read(".gsd/specs/shop/requirements.1.md"), WHOLE);
}

#[test]
fn an_issue_is_read_with_githubs_tool() {
    let repo = Repo::new();
    let path = format!("{}:{}", repo.join("bin").display(), std::env::var("PATH").unwrap());
    let plan = |env: &[(&str, &str)]| repo.run_with(&["plan", "shop", "--issue", "7", "--agent", "none"], env);
    repo.program(
        "bin/gh",
        "[ \"$*\" = 'issue view 7 --json title,body,url' ] && [ -z \"$SECRET\" ] && [ \"$GH_TOKEN$https_proxy\" = tp ] || exit 1\n\
         echo '{\"title\":\"Sell books\",\"body\":\"All of them.\",\"url\":\"https://example.com/7\"}'\n",
    );
    plan(&[("PATH", &path), ("GH_TOKEN", "t"), ("https_proxy", "p"), ("SECRET", "s")]).code(0);
    assert!(
        repo.read(DOCUMENT).contains("Sell books\n\nAll of them.\n\nhttps://example.com/7\n"),
        "{}",
        repo.read(DOCUMENT)
    );
    repo.program("bin/gh", "echo '{\"title\":\"Sell less\",\"body\":null}'\n");
    plan(&[("PATH", &path)]).code(0);
    assert!(repo.read(DOCUMENT).contains("Sell less\n\n## User"), "{}", repo.read(DOCUMENT));
    repo.program("bin/gh", "echo 'no such issue' >&2; exit 1");
    plan(&[("PATH", &path)]).code(1).says("cannot read issue 7").says("no such issue");
    repo.program("bin/gh", "echo '{'");
    plan(&[("PATH", &path)]).code(1).says("cannot read issue 7");
}

#[test]
fn what_is_not_answered_names_the_flag_that_answers_it() {
    let repo = Repo::new();
    let before = repo.everything();
    repo.run(&["plan", "shop"]).code(2).says("--describe TEXT, --from FILE, --issue N or --agent none");
    repo.run(&["plan", "shop", "--approve"]).code(2).says("--describe");
    repo.run(&["plan", "Shop!"]).code(2).says("not a valid feature");
    repo.run(&["plan", "shop", "--describe", "x", "--from", "y"]).code(2);
    repo.run(&["plan", "shop", "--agent", "nobody", "--describe", "x"]).code(2).says("there is no agent \"nobody\"");
    repo.run(&["plan", "shop", "--agent", "command", "--describe", "x"]).code(6).says("has no command");
    let lock = |path: &std::path::Path| path.starts_with(repo.join(".git/mahabharatha"));
    let after: Vec<_> =
        repo.everything().into_keys().filter(|path| !before.contains_key(path) && !lock(path)).collect();
    assert!(after.is_empty(), "{after:?}");
    repo.write(DOCUMENT, WHOLE);
    repo.run(&["plan", "shop"]).code(2).says("Approve these requirements?").says("--approve");
}

#[test]
fn bad_input_is_refused_and_nothing_is_written() {
    let repo = Repo::new();
    for (text, what) in [
        (&b""[..], "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (&vec![b'x'; 2 << 20], "longer than 1 MB"),
    ] {
        fs::write(repo.join("wish"), text).unwrap();
        let ran = repo.run(&["plan", "shop", "--from", "wish", "--agent", "none"]);
        assert!(matches!(ran.code, 2 | 6), "{}", ran.stderr);
        ran.says(what);
        let ran = run_with_input(&repo, &["plan", "shop", "--from", "-", "--agent", "none"], text);
        assert!(matches!(ran.code, 2 | 6), "{}", ran.stderr);
        ran.says(what);
    }
    repo.run(&["plan", "shop", "--from", "nowhere", "--agent", "none"]).code(2).says("no such file");
    repo.run(&["plan", "shop", "--from", ".", "--agent", "none"]).code(1).says("cannot read");
    assert!(!repo.exists(".gsd"));
    repo.write(".gsd/specs", "a file where a directory should be");
    repo.run(&["plan", "shop", "--describe", "x", "--agent", "none"]).code(1).says(".gsd/specs");
    assert!(!repo.exists(".gsd/.current-feature") && !repo.exists(".gsd/STATE.md"));
}

#[test]
fn an_unwritable_directory_is_reported_and_left_as_it_is() {
    let repo = Repo::new();
    let Some(unwritable) = Unwritable::new(&repo.join(".gsd")) else { return };
    repo.run(&["plan", "shop", "--describe", "x", "--agent", "none"]).code(1).says(".gsd/specs").says("Read-only");
    drop(unwritable);
    assert_eq!(fs::read_dir(repo.join(".gsd")).unwrap().count(), 0);
}

#[test]
fn two_at_once_do_not_write_over_each_other() {
    let repo = Repo::new();
    repo.config("agent: mine\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
    repo.program("agent.sh", "touch held; while [ ! -e go ]; do sleep 0.02; done; echo '{}'");
    repo.commit("agent");
    let first = Background::start(repo.command(&["plan", "shop", "--agent", "mine", "--describe", "x"]));
    repo.wait_for("held");
    repo.run(&["plan", "shop", "--agent", "none", "--describe", "y"])
        .code(8)
        .says("is being planned in another terminal");
    // Ctrl-C ends the agent too.
    first.signal("INT");
    assert_eq!(first.wait().code, 130);
    assert!(!repo.exists(DOCUMENT));
}
