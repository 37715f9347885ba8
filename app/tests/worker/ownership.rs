//! Nothing that the task does not own gets into its commit; an attempt that tries fails.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use mahabharatha_core::run::event::FailCause;

use crate::bench::{Bench, Outcome, created, directory, file, verification};

/// Runs the script as the agent of a task that owns `src/own.rs`, `lib/` and, ignored by git, `build/out.txt`.
fn attempt(bench: &Bench, script: &str) -> Outcome {
    let mut spec = bench.spec(&format!("set -e\n{script}"));
    spec.owned.extend([directory("lib"), file("build/out.txt")]);
    bench.run(&spec)
}

#[track_caller]
fn assert_stray(bench: &Bench, script: &str, expected: &str) -> Outcome {
    let outcome = attempt(bench, &format!("echo mine > src/own.rs\n{script}"));
    let (cause, feedback, strays) = outcome.failure();
    assert_eq!(cause, FailCause::Strays, "{feedback}");
    assert!(strays.iter().any(|stray| stray == expected), "{expected} is not among {strays:?}");
    assert!(feedback.contains(expected) && feedback.contains("src/own.rs") && feedback.contains("lib/"), "{feedback}");
    assert_eq!(outcome.code, 1);
    assert!(!bench.has_ref("refs/mahabharatha/x/tasks/TASK-1"));
    // The task's own part is kept, and can be had without the strays.
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "mine\n");
    outcome
}

#[test]
fn changes_outside_are_strays_and_are_kept() {
    let bench = Bench::new();
    let outcome = assert_stray(&bench, "echo x >> src/other.rs; echo new > stray.txt", "src/other.rs");
    assert_eq!(outcome.failure().2, ["src/other.rs", "stray.txt"]);
    assert_eq!(bench.show(outcome.wip(), "src/other.rs").unwrap(), "other\nx\n");
    assert_eq!(bench.show(outcome.wip(), "stray.txt").unwrap(), "new\n");
    let own_part = mahabharatha_core::ids::Oid::new(bench.git(&["rev-parse", &format!("{}^", outcome.wip())])).unwrap();
    assert_eq!(bench.show(&own_part, "src/own.rs").unwrap(), "mine\n");
    assert_eq!(bench.show(&own_part, "src/other.rs").unwrap(), "other\n");
    assert_eq!(bench.show(&own_part, "stray.txt"), None);
    assert!(fs::read_to_string(bench.outside("TASK-1.jsonl")).unwrap().contains("\"event\":\"strays\""));
}

#[test]
fn the_next_attempt_starts_clean_after_strays() {
    let bench = Bench::new();
    assert_stray(&bench, "echo x >> src/other.rs; echo new > stray.txt; rm README.md", "stray.txt");
    let mut spec = bench.spec("s=$(git status --porcelain); echo \"$s\" > src/own.rs; cat src/other.rs >> src/own.rs");
    spec.job.attempt.0 = 2;
    let outcome = bench.run(&spec);
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "\nother\n");
}

#[test]
fn deleting_chmodding_and_moving_what_is_not_owned() {
    assert_stray(&Bench::new(), "rm docs/a.md", "docs/a.md");
    assert_stray(&Bench::new(), "chmod +x docs/a.md", "docs/a.md");
    assert_stray(&Bench::new(), "git mv src/other.rs lib.rs", "src/other.rs");
    assert_stray(&Bench::new(), "mkdir lib; git mv src/other.rs lib/moved.rs", "src/other.rs");
    assert_stray(&Bench::new(), "git mv src/own.rs src/renamed.rs; echo mine > src/own.rs", "src/renamed.rs");
    assert_stray(&Bench::new(), "rm -r docs; ln -s src docs", "docs");
    assert_stray(&Bench::new(), "rm -r docs; echo file > docs", "docs");
}

#[test]
fn hiding_from_git_status_hides_nothing() {
    let hide = |flag: &str| {
        format!("git update-index --{flag} src/other.rs; echo x >> src/other.rs; git diff --quiet -- src/other.rs")
    };
    assert_stray(&Bench::new(), &hide("assume-unchanged"), "src/other.rs");
    assert_stray(&Bench::new(), &hide("skip-worktree"), "src/other.rs");
    let bench = Bench::new();
    assert_stray(
        &bench,
        "echo '*' >> .git_exclude; echo x > secret; printf 'secret\\n.git_exclude\\n' >> $(git rev-parse --git-common-dir)/info/exclude",
        "secret",
    );
    let same_size_and_time =
        "touch -r src/other.rs ../stamp; printf 'OTHER\\n' > src/other.rs; touch -r ../stamp src/other.rs";
    assert_stray(&Bench::new(), same_size_and_time, "src/other.rs");
    let filters = "printf '* -text filter=none\\n' > .gitattributes; echo x >> src/other.rs";
    assert_stray(&Bench::new(), filters, ".gitattributes");
}

#[test]
fn the_agents_own_commits_branches_and_resets_count_for_nothing() {
    let commit = "git config user.name A; git config user.email a@b; git add -A; git commit -qm sly";
    let bench = Bench::new();
    let outcome = assert_stray(
        &bench,
        &format!("echo x > stray.txt; {commit}; git update-index --force-remove stray.txt"),
        "stray.txt",
    );
    assert_eq!(bench.show(outcome.wip(), "stray.txt").unwrap(), "x\n");
    assert_stray(
        &Bench::new(),
        &format!("echo x > stray.txt; {commit}; git checkout -q --orphan o; git commit -qm o"),
        "stray.txt",
    );

    // Work that was committed, amended and reset is the same work.
    let bench = Bench::new();
    let outcome = attempt(
        &bench,
        &format!("echo mine > src/own.rs; {commit}; git commit -q --amend -m x; git reset -q --soft HEAD~1"),
    );
    let commit = outcome.commit();
    assert_eq!(bench.git(&["diff", "--name-only", bench.base.as_str(), commit.as_str()]), "src/own.rs");
    assert_eq!(bench.git(&["rev-parse", &format!("{commit}^")]), bench.base.as_str());
    assert_eq!(bench.git(&["rev-parse", "trunk"]), bench.base.as_str());
}

#[test]
fn links_that_lead_out_are_strays_also_at_owned_paths() {
    assert_stray(&Bench::new(), "mkdir lib; ln -s /etc/passwd lib/link", "lib/link");
    assert_stray(&Bench::new(), "mkdir lib; ln -s ../../x lib/link", "lib/link");
    assert_stray(&Bench::new(), "mkdir lib; ln -s ../.git lib/link", "lib/link");
    assert_stray(&Bench::new(), "ln -s src lib", "lib");
    assert_stray(
        &Bench::new(),
        "rm -rf build; mkdir elsewhere; touch elsewhere/out.txt; ln -s elsewhere build",
        "build",
    );

    let bench = Bench::new();
    let outcome = attempt(&bench, "mkdir lib; echo a > lib/a; ln -s a lib/link; ln -s ../src/other.rs lib/other");
    let commit = outcome.commit();
    assert_eq!(bench.show(commit, "lib/link").unwrap(), "a");
    assert_eq!(bench.show(commit, "lib/other").unwrap(), "../src/other.rs");
}

#[test]
fn writing_through_a_link_changes_nothing_here() {
    let bench = Bench::new();
    let outside = bench.outside("target");
    fs::create_dir(&outside).unwrap();
    assert_stray(
        &bench,
        &format!(
            "rm -r src; ln -s '{}' src; echo mine > src/own.rs; rm src; git checkout -q -- src; echo mine > src/own.rs; ln -s '{}' lib",
            outside.display(),
            outside.display()
        ),
        "lib",
    );
    assert!(outside.join("own.rs").exists());
}

#[test]
fn repositories_inside_are_strays_and_never_asked() {
    let evil = |dir: &str| {
        format!(
            "git init -q {dir}; echo x > {dir}/file; \
             git -C {dir} config core.fsmonitor \"touch '$MAHABHARATHA_WORKTREE/../../../../../executed'; false\"; \
             git -C {dir} -c core.fsmonitor=false add file; \
             git -C {dir} -c core.fsmonitor=false -c user.name=A -c user.email=a@b commit -qm x"
        )
    };
    for (dir, stray) in [("nested", "nested"), ("lib/nested", "lib/nested"), ("docs", "docs"), ("lib", "lib")] {
        let bench = Bench::new();
        let outcome = assert_stray(&bench, &evil(dir), stray);
        assert!(!bench.outside("executed").exists());
        assert_eq!(bench.show(outcome.wip(), &format!("{dir}/file")).unwrap(), "x\n", "kept as files");
        let mut spec = bench.spec("test ! -e docs/.git && test ! -e nested && test ! -e lib");
        spec.job.attempt.0 = 2;
        bench.run(&spec).commit();
        assert!(!bench.outside("executed").exists());
    }
    let add = format!("{}; git -c protocol.file.allow=always submodule --quiet add ./nested lib/sub", evil("nested"));
    assert_stray(&Bench::new(), &format!("{add} || true"), "nested");
    let gitlink = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib/sub; mkdir -p lib/sub";
    let outcome = attempt(&Bench::new(), gitlink);
    outcome.commit();
}

#[test]
fn a_submodule_of_the_repository_is_none_of_them() {
    let bench = Bench::build(&[], |root| {
        let inner = root.parent().unwrap().join("inner");
        fs::create_dir(&inner).unwrap();
        crate::bench::git_in(&inner, &["init", "-q"]);
        crate::bench::git_in(&inner, &["commit", "-q", "--allow-empty", "-m", "x"]);
        crate::bench::git_in(
            root,
            &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "sub"],
        );
    });
    let outcome = attempt(
        &bench,
        "echo mine > src/own.rs; git -c protocol.file.allow=always submodule --quiet update --init; touch sub/dirt; \
         git -C sub -c user.name=A -c user.email=a@b commit -q --allow-empty -m y",
    );
    let commit = outcome.commit();
    assert_eq!(bench.git(&["diff", "--name-only", bench.base.as_str(), commit.as_str()]), "src/own.rs");
}

#[test]
fn names_are_compared_by_their_bytes() {
    assert_stray(&Bench::new(), "echo x > src/OWN.rs", "src/OWN.rs");
    assert_stray(&Bench::new(), "mkdir Lib; echo x > Lib/a", "Lib/a");
    assert_stray(&Bench::new(), "mkdir library; echo x > library/a", "library/a");
    assert_stray(&Bench::new(), "mkdir -p lib/.GIT; echo x > lib/.GIT/config", "lib/.GIT/config");
    // The same letter, composed and not.
    let bench = Bench::new();
    let mut spec = bench.spec("printf x > \"$(printf 'a\\314\\210.rs')\"");
    spec.owned.push(file("ä.rs"));
    assert_eq!(bench.run(&spec).failure().0, FailCause::Strays);
}

#[test]
fn an_owned_file_must_be_a_file() {
    let bench = Bench::new();
    let mut spec = bench.spec("mkfifo new");
    spec.owned.push(created("new"));
    assert_eq!(bench.run(&spec).failure().0, FailCause::Missing);
    let bench = Bench::new();
    let outcome = attempt(&bench, "rm src/own.rs; mkdir src/own.rs; echo x > src/own.rs/in");
    assert_eq!(outcome.failure().2, ["src/own.rs/in"]);
    let bench = Bench::new();
    let mut spec = bench.spec("mkdir new");
    spec.owned.push(created("new"));
    assert_eq!(bench.run(&spec).failure().0, FailCause::Missing);
}

#[test]
fn a_file_that_should_have_been_made_is_missed() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo mine > src/own.rs");
    spec.owned.push(created("new.rs"));
    spec.task.verification = verification("touch ../../../../../verified");
    let outcome = bench.run(&spec);
    let (cause, feedback, _) = outcome.failure();
    assert_eq!(cause, FailCause::Missing);
    assert!(feedback.contains("new.rs"), "{feedback}");
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "mine\n");
    assert!(!bench.outside("verified").exists());
}

#[test]
fn a_file_that_git_does_not_see_is_missed_too() {
    let bench = Bench::build(&[], |root| {
        std::os::unix::fs::symlink("build", root.join("link")).unwrap();
    });
    let mut spec = bench.spec("mkdir build; echo made > link/new.rs");
    spec.owned = vec![created("link/new.rs")];
    let outcome = bench.run(&spec);
    assert_eq!(outcome.failure().0, FailCause::Missing);

    // A fix finds what the task has made.
    let mut spec = bench.spec("true");
    spec.job.attempt.0 = 2;
    spec.owned = vec![created("docs/a.md")];
    bench.run(&spec).commit();
}

#[test]
fn what_git_ignores_and_what_tools_make_is_left_out_quietly() {
    let bench = Bench::new();
    let outcome = attempt(
        &bench,
        "echo mine > src/own.rs; mkdir -p build node_modules/x lib/__pycache__ lib/src; echo o > build/out.txt; \
         echo b > build/big; echo l > debug.log; echo n > node_modules/x/y; echo k > Cargo.lock; \
         echo c > lib/__pycache__/a.pyc; echo l > lib/x.log; echo r > lib/src/real.rs; git init -q node_modules/x",
    );
    let commit = outcome.commit();
    // An ignored file that is owned by its name is the task's work.
    let changed = bench.git(&["diff", "--name-only", bench.base.as_str(), commit.as_str()]);
    assert_eq!(changed, "build/out.txt\nlib/src/real.rs\nsrc/own.rs");
    assert!(outcome.warnings().contains("lib/__pycache__/a.pyc"), "{}", outcome.warnings());
    assert!(!outcome.warnings().contains("node_modules"), "{}", outcome.warnings());
}

#[test]
fn configured_patterns_are_left_out_also_where_they_are_tracked() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo mine > src/own.rs; echo x >> docs/a.md; echo x > api.gen.rs");
    spec.generated = vec!["docs/*.md".into(), "**/*.gen.rs".into()];
    let outcome = bench.run(&spec);
    let changed = bench.git(&["diff", "--name-only", bench.base.as_str(), outcome.commit().as_str()]);
    assert_eq!(changed, "src/own.rs");
}

#[test]
fn a_directory_that_hides_itself_does_not_reach_the_next_attempt() {
    let bench = Bench::new();
    attempt(&bench, "echo mine > src/own.rs; mkdir hidden; echo '*' > hidden/.gitignore; echo x > hidden/helper; mkdir build; echo cache > build/cache").commit();
    let mut spec = bench.spec("test ! -e hidden && test -e build/cache");
    spec.job.attempt.0 = 2;
    bench.run(&spec).commit();
}

#[test]
fn modes_links_and_odd_names_are_committed_as_they_are() {
    let bench = Bench::new();
    let outcome = attempt(
        &bench,
        "chmod +x src/own.rs; mkdir -p 'lib/with space'; echo s > 'lib/with space/ä ö.txt'; \
         printf n > \"$(printf 'lib/new\\nline')\"; printf b > \"$(printf 'lib/\\377')\"",
    );
    let commit = outcome.commit();
    assert!(bench.git(&["ls-tree", commit.as_str(), "src/own.rs"]).starts_with("100755 "));
    assert_eq!(bench.show(commit, "lib/with space/ä ö.txt").unwrap(), "s\n");
    assert_eq!(bench.show(commit, "lib/new\nline").unwrap(), "n");
    let tree = mahabharatha_sys::git::Git::repository(bench.common()).ls_tree(commit).unwrap();
    assert!(tree.iter().any(|entry| entry.path.as_path().as_os_str().as_bytes() == b"lib/\xff"));
}

#[test]
fn a_file_too_large_to_keep_is_named() {
    let bench = Bench::new();
    let outcome = attempt(&bench, "echo mine > src/own.rs; mkdir lib; truncate -s 60M lib/huge; exit 1");
    assert!(outcome.warnings().contains("lib/huge"), "{}", outcome.warnings());
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "mine\n");
    assert_eq!(bench.show(outcome.wip(), "lib/huge"), None);
}

#[test]
fn a_sha256_repository_is_worked_on_too() {
    let bench = Bench::with_init(&["--object-format=sha256"]);
    let outcome = attempt(&bench, "echo mine > src/own.rs");
    assert_eq!(outcome.commit().as_str().len(), 64);
}
