//! Done means verified and committed.

use std::fs;

use mahabharatha_core::run::effect::Purpose;
use mahabharatha_core::run::event::{FailCause, GateFailure, JobEnd};

use crate::bench::{Bench, created, directory, verification, wait_until};

#[test]
fn verified_work_becomes_one_commit_on_the_tasks_ref() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo more >> src/own.rs; mkdir -p new; echo made > new/file.rs");
    spec.owned.push(created("new/file.rs"));
    spec.task.title = "Own\nit:\u{7} all".into();
    spec.job.attempt = mahabharatha_core::ids::Attempt(2);
    spec.task.verification = verification("grep -q more src/own.rs && test -f new/file.rs");
    let outcome = bench.run(&spec);
    let commit = outcome.commit();
    assert_eq!(outcome.code, 0);
    assert_eq!(bench.show(commit, "src/own.rs").unwrap(), "own\nmore\n");
    assert_eq!(bench.show(commit, "new/file.rs").unwrap(), "made\n");
    assert_eq!(bench.git(&["rev-parse", &format!("{commit}^")]), bench.base.as_str());
    assert_eq!(bench.git(&["rev-parse", "refs/mahabharatha/x/tasks/TASK-1"]), commit.as_str());
    // For people to see: where the worker began, with what it did as changes.
    assert_eq!(bench.git(&["rev-parse", "mahabharatha/x/worker-0"]), bench.base.as_str());
    assert_eq!(
        bench.git(&["log", "-1", "--format=%B", commit.as_str()]).trim_end(),
        "feat(TASK-1): Own it: all\n\nMahabharatha-Feature: x\nMahabharatha-Task: TASK-1\n\
         Mahabharatha-Level: 1\nMahabharatha-Attempt: 2"
    );
    assert!(!bench.has_ref("refs/mahabharatha/x/wip/TASK-1/2"));
    assert_eq!(bench.git(&["status", "--porcelain"]), "", "the user's checkout is untouched");
    let changed = bench.git(&["-C", bench.worktree().to_str().unwrap(), "status", "--porcelain"]);
    assert_eq!(changed.trim_end(), " M src/own.rs\n?? new/");

    for log in [&spec.logs.worker, &spec.logs.task] {
        let events: Vec<serde_json::Value> =
            fs::read_to_string(log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["started", "agent_started", "agent_ended", "verification", "committed", "ended"]);
        assert_eq!(events[0]["task"], "TASK-1");
        assert_eq!(events[0]["worker"], 0);
        assert_eq!(events[0]["attempt"], 2);
    }
}

#[test]
fn a_job_that_has_a_result_is_not_done_again() {
    let bench = Bench::new();
    let spec = bench.spec("echo x >> src/own.rs; echo called >> ../../../../../calls");
    let first = bench.run(&spec).commit().clone();
    let again = bench.run(&spec);
    assert_eq!((again.code, again.commit()), (0, &first));
    assert_eq!(fs::read_to_string(bench.outside("calls")).unwrap(), "called\n");
}

#[test]
fn what_a_verification_writes_to_our_git_directory_has_no_effect() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo more >> src/own.rs");
    let mark = bench.outside("executed");
    // It changes the task's file and the index, so that git restores the file from there.
    spec.task.verification = verification(&format!(
        "S=\"$(git rev-parse --path-format=absolute --git-common-dir)/mahabharatha/x/slots\"\n\
         [ -e ../../../planted ] || {{ touch ../../../planted\n\
         git config --file \"$S/worker-0.git/config\" filter.evil.smudge 'touch {0}; cat'\n\
         git config --file \"$S/worker-0.git/config\" filter.evil.clean 'touch {0}; cat'\n\
         echo '* filter=evil' > \"$S/worker-0.git/info/attributes\"\n\
         GIT_INDEX_FILE=\"$S/worker-0.scratch\" git update-index --cacheinfo \
         100644,$(echo evil | git hash-object -w --stdin),src/own.rs; }}\n\
         grep -q more src/own.rs && echo changed >> src/own.rs",
        mark.display()
    ));
    let outcome = bench.run(&spec);
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "own\nmore\n");
    assert!(bench.root().join(".mahabharatha/planted").exists() && !mark.exists());
}

#[test]
fn failed_verification_is_feedback_and_the_work_is_kept() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo half >> src/own.rs");
    spec.task.verification = verification("echo to-stdout; echo to-stderr >&2; exit 3");
    let outcome = bench.run(&spec);
    let (cause, feedback, strays) = outcome.failure();
    assert_eq!((outcome.code, cause, strays.len()), (1, FailCause::Verification, 0));
    assert!(feedback.contains("exit code 3") && feedback.contains("to-stdout\nto-stderr"), "{feedback}");
    assert!(feedback.contains("echo to-stdout; echo"), "{feedback}");
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "own\nhalf\n");
    assert_eq!(bench.git(&["rev-parse", "refs/mahabharatha/x/wip/TASK-1/1"]), outcome.wip().as_str());
    assert!(!bench.has_ref("refs/mahabharatha/x/tasks/TASK-1"));
}

#[test]
fn an_agent_that_does_nothing_gets_the_output_of_the_verification() {
    let bench = Bench::new();
    let mut spec = bench.spec("true");
    spec.task.verification = verification("grep -q more src/own.rs");
    let outcome = bench.run(&spec);
    assert_eq!(outcome.failure().0, FailCause::Verification);
    assert!(outcome.report.unwrap().wip.is_none());
}

#[test]
fn a_verification_that_changes_owned_files_runs_again_on_the_right_ones() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo 'let  x' > src/own.rs; mkdir gen; echo a > gen/a");
    spec.owned.push(directory("gen"));
    // A formatter: what it made must neither be committed nor be what is verified.
    spec.task.verification = verification(
        "cat src/own.rs >> ../../../../../seen; ls gen >> ../../../../../seen; echo formatted > src/own.rs; rm gen/a; echo > gen/b",
    );
    let outcome = bench.run(&spec);
    let commit = outcome.commit();
    assert_eq!(bench.show(commit, "src/own.rs").unwrap(), "let  x\n");
    assert_eq!(bench.show(commit, "gen/a").unwrap(), "a\n");
    assert_eq!(bench.show(commit, "gen/b"), None);
    assert_eq!(fs::read_to_string(bench.outside("seen")).unwrap(), "let  x\na\nlet  x\na\n");
}

#[test]
fn a_verification_that_leaves_a_cache_runs_once() {
    let bench = Bench::new();
    let mut spec = bench.spec("mkdir -p gen/__pycache__; echo a > gen/a; echo o > gen/__pycache__/old.pyc");
    spec.owned.push(directory("gen"));
    spec.task.verification = verification("echo . >> ../../../../../runs; echo c > gen/__pycache__/a.pyc");
    bench.run(&spec).commit();
    assert_eq!(fs::read_to_string(bench.outside("runs")).unwrap(), ".\n");
}

#[test]
fn a_verification_that_never_ends_is_ended() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo x >> src/own.rs");
    spec.task.verification = verification("echo begun; (trap '' TERM; sleep 1000) & sleep 1000");
    spec.task.verification.timeout_seconds = 1;
    let outcome = bench.run(&spec);
    let (cause, feedback, _) = outcome.failure();
    assert_eq!(cause, FailCause::Verification);
    assert!(feedback.contains("did not end within 1 s") && feedback.contains("begun"), "{feedback}");
}

#[test]
fn a_gigabyte_of_output_is_bounded() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo x >> src/own.rs");
    spec.task.verification = verification("echo first; yes | head -c 300000000; echo last; false");
    let outcome = bench.run(&spec);
    let (_, feedback, _) = outcome.failure();
    assert!(feedback.len() < 20_000, "{}", feedback.len());
    assert!(feedback.contains("first") && feedback.trim_end().ends_with("last") && feedback.contains("left out"));
    assert!(fs::metadata(&spec.logs.task).unwrap().len() < 10_000_000);
}

#[test]
fn a_verification_leaves_no_process() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo x >> src/own.rs");
    spec.task.verification = verification(
        "setsid sh -c 'echo $$ > ../../../../../server; exec sleep 1000' >/dev/null 2>&1 & while ! [ -s ../../../../../server ]; do sleep 0.01; done",
    );
    bench.run(&spec).commit();
    let pid = fs::read_to_string(bench.outside("server")).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn a_fix_is_a_fix_beside_the_tasks_own_commit() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo x >> src/own.rs");
    let failure = GateFailure {
        gate: "lint".into(),
        command: "lint".into(),
        output: String::new(),
        cause: None,
        denied: false,
        staging: bench.base.clone(),
        task: None,
        clean: false,
    };
    spec.job.purpose = Purpose::Fix { failure };
    let outcome = bench.run(&spec);
    let commit = outcome.commit();
    assert_eq!(bench.git(&["rev-parse", "refs/mahabharatha/x/fixes/TASK-1"]), commit.as_str());
    assert!(!bench.has_ref("refs/mahabharatha/x/tasks/TASK-1"));
    assert!(bench.git(&["log", "-1", "--format=%s", commit.as_str()]).starts_with("fix(TASK-1): "));
}

#[test]
fn a_worker_that_is_cancelled_while_it_verifies_keeps_the_work() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo x >> src/own.rs");
    spec.task.verification = verification("touch ../../../../../verifying; sleep 1000");
    let child = bench.spawn(&spec);
    wait_until(|| bench.outside("verifying").exists());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let outcome = bench.finish(&spec, child);
    assert_eq!(outcome.end(), &JobEnd::Cancelled);
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "own\nx\n");
}
