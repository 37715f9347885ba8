//! What an agent plants in `.git` is found, put back, and never executed.

use std::fs;
use std::process::Command;

use mahabharatha_core::run::event::FailCause;

use crate::bench::{Bench, file, make_executable, verification, wait_until};

const COMMON: &str = "G=$(git rev-parse --git-common-dir); W=$(git rev-parse --git-dir); X=\"touch '$PWD/../../../../../executed'; false\";";

/// The agent does its own work and plants something; another attempt follows in the same place.
#[track_caller]
fn assert_planted(script: &str, expected: &str) {
    let bench = Bench::new();
    let hook = bench.common().join("hooks/post-checkout");
    fs::write(&hook, "#!/bin/sh\nexit 0\n").unwrap();
    make_executable(&hook);
    bench.git(&["config", "core.abbrev", "12"]);
    let before = fs::read_to_string(bench.common().join("config")).unwrap();

    let outcome = bench.run(&bench.spec(&format!("set -e; {COMMON} echo mine > src/own.rs; {script}")));
    let (cause, feedback, strays) = outcome.failure();
    assert_eq!(cause, FailCause::Strays, "{feedback}");
    assert!(strays.iter().any(|stray| stray == expected), "{expected} is not among {strays:?}");
    assert!(feedback.contains(expected), "{feedback}");
    let only_removed = script.starts_with("rm ") && !script.contains(';');
    assert!(only_removed || outcome.job_dir.join("quarantine").is_dir(), "what was planted is kept");

    let mut spec = bench.spec("echo more >> src/own.rs");
    spec.job.attempt.0 = 2;
    bench.run(&spec).commit();
    // The user's own git.
    for (dir, changed) in [(bench.root(), ""), (bench.worktree(), " M src/own.rs\n")] {
        let status = Command::new("git").args(["status", "--porcelain"]).current_dir(dir).output().unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        assert_eq!(String::from_utf8_lossy(&status.stdout), changed);
    }
    assert!(!bench.outside("executed").exists(), "something planted was executed");
    assert_eq!(fs::read_to_string(bench.common().join("config")).unwrap().trim_end(), before.trim_end());
    assert_eq!(fs::read_to_string(&hook).unwrap(), "#!/bin/sh\nexit 0\n");
}

#[test]
fn hooks() {
    let plant = "printf '#!/bin/sh\\n%s\\n' \"$X\" > \"$G/hooks/NAME\"; chmod +x \"$G/hooks/NAME\"";
    for name in ["pre-commit", "reference-transaction", "post-index-change", "post-checkout"] {
        assert_planted(&plant.replace("NAME", name), &format!(".git/hooks/{name}"));
    }
    assert_planted("rm \"$G/hooks/post-checkout\"", ".git/hooks/post-checkout");
    assert_planted("chmod -x \"$G/hooks/post-checkout\"", ".git/hooks/post-checkout");
    assert_planted(
        "mkdir \"$G/h\"; printf '#!/bin/sh\\n%s\\n' \"$X\" > \"$G/h/pre-commit\"; rm -r \"$G/hooks\"; ln -s h \"$G/hooks\"",
        ".git/hooks",
    );
}

#[test]
fn settings_that_execute() {
    for key in ["core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.pager", "filter.f.clean", "diff.external"]
    {
        let shown = format!(".git/config ({})", key.to_lowercase());
        assert_planted(&format!("git config {key} \"$X\""), &shown);
    }
    assert_planted("git config alias.status \"!$X\"", ".git/config (alias.status)");
    assert_planted(
        "printf '[core]\\n\\tfsmonitor = \"%s\"\\n' \"$X\" > \"$G/inc\"; git config include.path inc",
        ".git/config (include.path)",
    );
    assert_planted("git config --unset core.abbrev", ".git/config (core.abbrev)");
    assert_planted("git config core.worktree /", ".git/config (core.worktree)");
}

#[test]
fn files_that_redirect() {
    assert_planted(
        "git config filter.f.clean \"$X\"; mkdir -p \"$G/info\"; echo '* filter=f' > \"$G/info/attributes\"",
        ".git/info/attributes",
    );
    assert_planted("echo /somewhere > \"$G/objects/info/alternates\"", ".git/objects/info/alternates");
    assert_planted("echo ../elsewhere > \"$W/commondir\"", ".git/worktrees/worker-0/commondir");
    assert_planted("echo /elsewhere/.git > \"$W/gitdir\"", ".git/worktrees/worker-0/gitdir");
    assert_planted(
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor \"$X\"",
        ".git/worktrees/worker-0/config.worktree",
    );
    assert_planted("rm .git; git init -q; git config core.fsmonitor \"$X\"", ".git");
    assert_planted("mkdir e; cp -r \"$G/.\" e/ 2>/dev/null || :; echo gitdir: $PWD/e > .git; rm -r e", ".git");
    assert_planted("cp \"$G/config\" \"$G/config2\"; echo '[' >> \"$G/config\"", ".git/config");
    assert_planted("echo . > \"$G/commondir\"", ".git/commondir");
}

#[test]
fn the_users_changes_meanwhile_are_neither_blamed_nor_lost() {
    let bench = Bench::new();
    let spec = bench
        .spec("echo mine > src/own.rs; touch ../../../../../up; while ! [ -e ../../../../../go ]; do sleep 0.01; done");
    let child = bench.spawn(&spec);
    wait_until(|| bench.outside("up").exists());
    bench.git(&["remote", "add", "friend", "https://example.org/x.git"]);
    bench.git(&["config", "user.name", "Somebody"]);
    fs::write(bench.outside("go"), "").unwrap();
    bench.finish(&spec, child).commit();
    assert_eq!(bench.git(&["remote"]), "friend");

    // Beside something that was planted.
    let mut spec = bench.spec(
        "rm ../../../../../up ../../../../../go; git config core.pager evil; git remote add other https://example.org/y.git",
    );
    spec.job.attempt.0 = 2;
    assert_eq!(bench.run(&spec).failure().2, [".git/config (core.pager)"]);
    assert_eq!(bench.git(&["remote"]), "friend\nother");
    assert!(bench.git_fails(&["config", "core.pager"]));
}

#[test]
fn an_edited_exclude_file_is_reported_and_hides_nothing() {
    let bench = Bench::new();
    let outcome =
        bench.run(&bench.spec(&format!("{COMMON} echo mine > src/own.rs; echo '*.x' >> \"$G/info/exclude\"")));
    outcome.commit();
    assert!(outcome.warnings().contains(".git/info/exclude"), "{}", outcome.warnings());
}

#[test]
fn a_verification_cannot_plant_either() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo mine > src/own.rs");
    spec.task.verification = verification(&format!("{COMMON} echo '#!/bin/sh' > \"$G/hooks/pre-push\""));
    let outcome = bench.run(&spec);
    assert_eq!(outcome.failure().2, [".git/hooks/pre-push"]);
    assert!(!bench.common().join("hooks/pre-push").exists());
    assert!(!bench.has_ref("refs/mahabharatha/x/tasks/TASK-1"));
}

#[test]
fn who_began_while_something_was_planted_is_not_blamed_for_its_removal() {
    let bench = Bench::new();
    let wait = "while ! [ -e ../../../../../NAME ]; do sleep 0.01; done";
    let planter = bench.spec(&format!(
        "{COMMON} echo mine > src/own.rs; echo '#!/bin/sh' > \"$G/hooks/pre-push\"; git config core.pager evil; \
         touch ../../../../../planted; {}",
        wait.replace("NAME", "first")
    ));
    let mut other =
        bench.spec(&format!("echo mine > README.md; touch ../../../../../begun; {}", wait.replace("NAME", "second")));
    let slot = bench.root().join(".mahabharatha/worktrees/x/worker-1");
    bench.git(&["worktree", "add", "-q", "--no-checkout", "-b", "mahabharatha/x/worker-1", slot.to_str().unwrap()]);
    other.job.task = mahabharatha_core::ids::TaskId::new("TASK-2").unwrap();
    other.job.worker.0 = 1;
    other.owned = vec![file("README.md")];
    other.worktree = slot;
    other.worktree_git_dir = bench.common().join("worktrees/worker-1");
    other.branch = "refs/heads/mahabharatha/x/worker-1".into();

    let first = bench.spawn(&planter);
    wait_until(|| bench.outside("planted").exists());
    let second = bench.spawn(&other);
    wait_until(|| bench.outside("begun").exists());
    fs::write(bench.outside("first"), "").unwrap();
    assert_eq!(bench.finish(&planter, first).failure().0, FailCause::Strays);
    fs::write(bench.outside("second"), "").unwrap();
    bench.finish(&other, second).commit();
    assert!(!bench.common().join("hooks/pre-push").exists());
    assert!(bench.git_fails(&["config", "core.pager"]));
}

#[test]
fn a_worktree_that_was_being_made_when_the_attempt_began_is_not_the_agents_doing() {
    let bench = Bench::new();
    let half_made = bench.common().join("worktrees/staging");
    fs::create_dir(&half_made).unwrap();
    let spec = bench
        .spec("echo mine > src/own.rs; touch ../../../../../up; while ! [ -e ../../../../../go ]; do sleep 0.01; done");
    let child = bench.spawn(&spec);
    wait_until(|| bench.outside("up").exists());
    fs::write(half_made.join("commondir"), "../..\n").unwrap();
    fs::write(bench.outside("go"), "").unwrap();
    bench.finish(&spec, child).commit();
    assert!(half_made.join("commondir").exists());
}

#[test]
fn pinned_filters_are_used_as_they_were() {
    let bench = Bench::build(&[], |root| {
        crate::bench::git_in(root, &["config", "filter.up.clean", "tr a-z A-Z"]);
        crate::bench::git_in(root, &["config", "filter.up.smudge", "tr A-Z a-z"]);
        fs::write(root.join(".gitattributes"), "*.up filter=up\n").unwrap();
        fs::write(root.join("a.up"), "text\n").unwrap();
    });
    let mut spec = bench.spec("test \"$(cat a.up)\" = text && echo more >> a.up");
    spec.owned = vec![file("a.up")];
    let outcome = bench.run(&spec);
    assert_eq!(bench.git(&["cat-file", "blob", &format!("{}:a.up", outcome.commit())]), "TEXT\nMORE");
}

#[test]
fn a_worktree_that_was_in_the_making_is_not_put_back_to_half_of_it() {
    let bench = Bench::new();
    let admin = bench.common().join("worktrees/staging");
    fs::create_dir_all(&admin).unwrap();
    fs::write(admin.join("commondir"), "").unwrap();
    let making = format!("printf '../..\\n' > '{}/commondir'; echo mine > src/own.rs", admin.display());
    bench.run(&bench.spec(&making)).commit();
    assert_eq!(fs::read_to_string(admin.join("commondir")).unwrap(), "../..\n");
}
