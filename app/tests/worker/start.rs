//! The worktree is reset, whatever an earlier attempt or a user left there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use mahabharatha_core::graph::OwnedPath;
use mahabharatha_core::run::effect::Performer;
use mahabharatha_core::run::event::FailCause;

use crate::bench::{Bench, git_in};

const CLEAN: &str = "git status --porcelain > ../../../../../status; git symbolic-ref HEAD >> ../../../../../status; \
                     git rev-parse HEAD >> ../../../../../status; ls >> ../../../../../status; echo mine > src/own.rs";

/// One attempt, then the damage, then another that must find everything in order.
#[track_caller]
fn assert_fixed(damage: impl FnOnce(&Bench)) {
    let bench = Bench::new();
    bench.run(&bench.spec("echo mine > src/own.rs; mkdir -p build; echo kept > build/cache")).commit();
    damage(&bench);
    let mut spec = bench.spec(CLEAN);
    spec.job.attempt.0 = 2;
    let outcome = bench.run(&spec);
    outcome.commit();
    let status = fs::read_to_string(bench.outside("status")).unwrap();
    let expected = format!("refs/heads/mahabharatha/x/worker-0\n{}\n", bench.base);
    assert!(status.starts_with(&expected), "{status}");
    for name in ["README.md", "docs", "src"] {
        assert!(status.lines().any(|line| line == name), "{status}");
    }
    assert_eq!(bench.git(&["status", "--porcelain"]), "", "the user's checkout is untouched");
}

#[test]
fn nothing_is_wrong() {
    assert_fixed(|bench| assert!(bench.worktree().join("build/cache").exists()));
}

#[test]
fn leftovers_go_and_ignored_files_stay() {
    assert_fixed(|bench| {
        fs::write(bench.worktree().join("left.txt"), "").unwrap();
        fs::remove_file(bench.worktree().join("README.md")).unwrap();
        fs::create_dir(bench.worktree().join("README.md")).unwrap();
        fs::write(bench.worktree().join("README.md/in"), "").unwrap();
        git_in(&bench.worktree(), &["init", "-q", "nested"]);
    });
}

#[test]
fn the_worktree_was_deleted() {
    assert_fixed(|bench| fs::remove_dir_all(bench.worktree()).unwrap());
}

#[test]
fn the_worktree_was_pruned() {
    assert_fixed(|bench| {
        fs::remove_dir_all(bench.worktree()).unwrap();
        bench.git(&["worktree", "prune"]);
        bench.git(&["branch", "-D", "mahabharatha/x/worker-0"]);
    });
}

#[test]
fn a_git_was_killed_in_the_middle() {
    assert_fixed(|bench| {
        for lock in ["index.lock", "HEAD.lock"] {
            fs::write(bench.admin().join(lock), "").unwrap();
        }
        fs::write(bench.common().join("refs/heads/mahabharatha/x/worker-0.lock"), "").unwrap();
        for slot in ["index", "scratch"] {
            fs::write(bench.common().join(format!("mahabharatha/x/slots/worker-0.{slot}.lock")), "").unwrap();
        }
        fs::write(bench.common().join("refs/mahabharatha/x/tasks/TASK-1.lock"), "").unwrap();
        fs::create_dir(bench.admin().join("rebase-merge")).unwrap();
        fs::write(bench.admin().join("MERGE_HEAD"), format!("{}\n", bench.base)).unwrap();
    });
}

#[test]
fn the_branch_was_moved_and_head_detached() {
    assert_fixed(|bench| {
        git_in(&bench.worktree(), &["checkout", "-q", "--detach"]);
        git_in(&bench.worktree(), &["commit", "-q", "--allow-empty", "-m", "by hand"]);
        bench.git(&["update-ref", "refs/heads/mahabharatha/x/worker-0", "trunk"]);
    });
}

#[test]
fn the_index_is_garbage() {
    assert_fixed(|bench| {
        fs::write(bench.common().join("mahabharatha/x/slots/worker-0.index"), "garbage").unwrap();
        fs::write(bench.admin().join("index"), "garbage").unwrap();
    });
}

#[test]
fn the_administration_is_gone() {
    assert_fixed(|bench| {
        fs::remove_file(bench.worktree().join(".git")).unwrap();
        fs::remove_dir_all(bench.admin()).unwrap();
    });
}

#[test]
fn a_directory_cannot_be_entered() {
    assert_fixed(|bench| {
        fs::set_permissions(bench.worktree().join("src"), fs::Permissions::from_mode(0o000)).unwrap();
    });
}

#[test]
fn a_worktree_that_leads_elsewhere_is_not_touched() {
    let bench = Bench::new();
    bench.run(&bench.spec("true")).commit();
    let precious = bench.outside("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "precious").unwrap();
    fs::remove_dir_all(bench.worktree()).unwrap();
    symlink(&precious, bench.worktree()).unwrap();
    let mut spec = bench.spec(CLEAN);
    spec.job.attempt.0 = 2;
    let outcome = bench.run(&spec);
    let (cause, feedback, _) = outcome.failure();
    assert_eq!(cause, FailCause::Setup);
    assert!(feedback.contains("worker-0 is a symbolic link"), "{feedback}");
    assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "precious");
}

#[test]
fn a_worktree_that_vanishes_under_the_agent_is_said() {
    let bench = Bench::new();
    let outcome = bench.run(&bench.spec("cd /; rm -rf \"$MAHABHARATHA_WORKTREE\""));
    let (cause, feedback, _) = outcome.failure();
    assert_eq!(cause, FailCause::Setup);
    assert!(feedback.contains("was removed"), "{feedback}");
    let mut spec = bench.spec("echo mine > src/own.rs");
    spec.job.attempt.0 = 2;
    bench.run(&spec).commit();
    assert!(!bench.has_ref("refs/mahabharatha/x/wip/TASK-1/1"), "there was nothing to keep");
}

#[test]
fn a_base_that_is_not_there_is_said() {
    let bench = Bench::new();
    let mut spec = bench.spec("true");
    spec.job.base = mahabharatha_core::ids::Oid::new("1234567890".repeat(4)).unwrap();
    let outcome = bench.run(&spec);
    let (cause, feedback, _) = outcome.failure();
    assert_eq!(cause, FailCause::Setup);
    assert!(feedback.contains("1234567890") && feedback.contains("read-tree"), "{feedback}");
}

#[test]
fn an_order_that_cannot_be_read_leaves_no_result() {
    let bench = Bench::new();
    let spec = bench.spec("true");
    let mut command = bench.command(&spec);
    let outcome = bench.finish(&spec, command.stdin(Stdio::null()).spawn().unwrap());
    assert_eq!((outcome.code, outcome.report.is_none()), (1, true));
    let error = fs::read_to_string(outcome.job_dir.join("error.txt")).unwrap();
    assert!(error.contains("standard input is not a job spec"), "{error}");
}

#[test]
fn a_forged_spec_in_the_job_directory_changes_nothing() {
    let bench = Bench::new();
    let spec = bench.spec("echo mine > src/own.rs");
    let mut command = bench.command(&spec);
    bench.spec("echo forged > src/own.rs").write(&bench.job_dir(&spec)).unwrap();
    let outcome = bench.finish(&spec, command.spawn().unwrap());
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").as_deref(), Some("mine\n"));
}

#[test]
fn included_files_come_along() {
    let bench = Bench::new();
    let root = bench.root();
    fs::write(
        root.join(".worktreeinclude"),
        "# for workers\n.env*\n!.env.prod\n/build/fixtures/\nsrc/*.rs\nREADME.md\nuntracked\n",
    )
    .unwrap();
    fs::write(root.join(".env"), "SECRET=1\n").unwrap();
    fs::write(root.join(".env.prod"), "no\n").unwrap();
    fs::write(root.join("untracked"), "not ignored\n").unwrap();
    fs::write(root.join("README.md"), "changed by the user\n").unwrap();
    fs::create_dir_all(root.join("build/fixtures/deep")).unwrap();
    fs::write(root.join("build/fixtures/deep/data"), "data\n").unwrap();
    fs::write(root.join("build/not"), "").unwrap();
    fs::write(bench.outside("secret"), "outside\n").unwrap();
    symlink(bench.outside("secret"), root.join(".env.link")).unwrap();
    symlink(".env", root.join(".env.alias")).unwrap();
    let spec = bench
        .spec("ls -A . build build/fixtures/deep > ../../../../../list; cat .env .env.alias README.md > src/own.rs");
    let outcome = bench.run(&spec);
    outcome.commit();
    let list = fs::read_to_string(bench.outside("list")).unwrap();
    for (name, there) in [
        (".env", true),
        (".env.prod", false),
        ("untracked", false),
        ("data", true),
        ("not", false),
        (".env.link", false),
    ] {
        assert_eq!(list.lines().any(|line| line == name), there, "{name} in\n{list}");
    }
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "SECRET=1\nSECRET=1\nreadme\n");
    assert!(outcome.warnings().contains(".env.link"), "{}", outcome.warnings());

    // A newer one replaces what lies there.
    fs::write(root.join(".env"), "SECRET=2\n").unwrap();
    let mut spec = bench.spec("cat .env > src/own.rs");
    spec.job.attempt.0 = 2;
    assert_eq!(bench.show(bench.run(&spec).commit(), "src/own.rs").unwrap(), "SECRET=2\n");
}

#[test]
fn nothing_of_a_submodule_is_included() {
    let bench = Bench::build(&[], |root| {
        let other = root.parent().unwrap().join("other");
        fs::create_dir(&other).unwrap();
        git_in(&other, &["init", "-q", "-b", "trunk"]);
        fs::write(other.join("file"), "").unwrap();
        git_in(&other, &["add", "-A"]);
        git_in(&other, &["commit", "-qm", "start"]);
        let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../other", "module"];
        git_in(root, &add);
    });
    let root = bench.root();
    fs::write(root.join(".worktreeinclude"), ".env\n").unwrap();
    for place in [".env", "module/.env"] {
        fs::write(root.join(place), "SECRET=1\n").unwrap();
    }
    let outcome = bench.run(&bench.spec("cat .env > src/own.rs && ! test -e module/.env"));
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "SECRET=1\n");
}

#[test]
fn a_file_that_a_sparse_checkout_leaves_out_does_not_count_as_deleted() {
    let bench = Bench::new();
    bench.git(&["sparse-checkout", "set", "docs"]);
    assert!(!bench.root().join("src").exists());
    fs::write(bench.root().join("docs/a.md"), "by a person\n").unwrap();
    let mut spec = bench.spec("true");
    spec.owned.push(OwnedPath { path: "docs/a.md".into(), directory: false, create: false });
    spec.job.performer = Performer::Reported { blocked: None };
    let outcome = bench.run(&spec);
    assert_eq!(bench.show(outcome.commit(), "docs/a.md").unwrap(), "by a person\n");
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "own\n");
}
