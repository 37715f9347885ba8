//! How an agent can end, or be ended.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

use mahabharatha_core::run::event::{FailCause, JobEnd};
use mahabharatha_sys::proc::{ProcessId, find_marked};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, created, verification, wait_until};

#[test]
fn the_agent_gets_its_prompt_its_variables_and_no_secret() {
    let bench = Bench::new();
    let mut spec =
        bench.spec("cat > ../../../../../prompt; env > ../../../../../env; pwd > ../../../../../pwd; echo said");
    spec.ports = vec![50123, 50124];
    spec.env_pass = vec!["PASSED".into()];
    spec.agent.profile.env = vec!["AGENTS".into()];
    spec.task_list_id = Some("list-1".into());
    let mut command = bench.command(&spec);
    command.env("SECRET", "s3cret").env("PASSED", "yes").env("AGENTS", "too");
    bench.finish(&spec, command.spawn().unwrap()).commit();
    let read = |name: &str| fs::read_to_string(bench.outside(name)).unwrap();
    assert!(read("prompt").contains("TASK-1"));
    assert_eq!(read("pwd").trim(), bench.worktree().to_str().unwrap());
    let env = read("env");
    assert!(!env.contains("s3cret"), "{env}");
    let worktree = format!("MAHABHARATHA_WORKTREE={}", bench.worktree().display());
    let job = format!("MAHABHARATHA_JOB={}", bench.job_dir(&spec).display());
    let specs = format!("MAHABHARATHA_SPEC_DIR={}", bench.root().join(".gsd/specs/x").display());
    for line in [
        "PASSED=yes",
        "AGENTS=too",
        "MAHABHARATHA_WORKER_ID=0",
        "MAHABHARATHA_FEATURE=x",
        "MAHABHARATHA_TASK_ID=TASK-1",
        "MAHABHARATHA_ATTEMPT=1",
        "MAHABHARATHA_BRANCH=mahabharatha/x/worker-0",
        "MAHABHARATHA_PORT=50123",
        "MAHABHARATHA_PORTS=50123,50124",
        &job,
        "CLAUDE_CODE_TASK_LIST_ID=list-1",
        &worktree,
        &specs,
    ] {
        assert!(env.lines().any(|found| found == line), "{line} is not in\n{env}");
    }
    assert!(fs::read_to_string(&spec.logs.task).unwrap().contains("\"message\":\"said\""));
}

#[test]
fn a_configured_program_is_found_from_the_main_checkout() {
    let bench = Bench::new();
    let script = bench.root().join("agent.sh");
    fs::write(&script, "#!/bin/sh\necho \"$1\" >> src/own.rs\n").unwrap();
    crate::bench::make_executable(&script);
    let mut spec = bench.spec("exit 1");
    spec.agent.profile.command = vec!["./agent.sh".into(), "two words".into()];
    let outcome = bench.run(&spec);
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "own\ntwo words\n");
}

#[test]
fn an_agent_that_is_not_there_is_named() {
    let bench = Bench::new();
    let mut spec = bench.spec("");
    spec.agent.profile.command = vec!["no-such-agent".into()];
    let outcome = bench.run(&spec);
    let (cause, feedback, _) = outcome.failure();
    assert_eq!((outcome.code, cause), (1, FailCause::Setup));
    assert!(feedback.contains("no-such-agent"), "{feedback}");
    spec.agent.profile.command.clear();
    spec.task.run = None;
    spec.job.attempt.0 = 2;
    assert!(bench.run(&spec).failure().1.contains("no command"));
}

#[test]
fn each_exit_code_has_its_meaning() {
    for (code, expected) in [
        (2, JobEnd::Checkpoint { note: "why".into() }),
        (3, JobEnd::Blocked { reason: "why".into() }),
        (4, JobEnd::Escalated { reason: "why".into() }),
    ] {
        let bench = Bench::new();
        let outcome = bench.run(&bench.spec(&format!("echo half > src/own.rs; echo why; exit {code}")));
        assert_eq!((outcome.code, outcome.end()), (code, &expected));
        assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "half\n");
    }
    let bench = Bench::new();
    let outcome = bench.run(&bench.spec("echo half > src/own.rs; echo out; echo err >&2; exit 9"));
    let (cause, feedback, _) = outcome.failure();
    assert_eq!((outcome.code, cause), (1, FailCause::Agent));
    assert!(feedback.contains("exit code 9") && feedback.contains("out") && feedback.contains("err"), "{feedback}");
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "half\n");
}

#[test]
fn a_checkpoint_continues_where_it_stopped_without_the_strays() {
    let bench = Bench::new();
    let mut spec = bench.spec(
        "echo half > src/own.rs; mkdir new; echo made > new/a.rs; rm src/gone.rs; echo stray > stray.txt; echo note; exit 2",
    );
    fs::write(bench.root().join("src/gone.rs"), "gone\n").unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-qm", "two"]);
    spec.job.base = mahabharatha_core::ids::Oid::new(bench.git(&["rev-parse", "HEAD"])).unwrap();
    spec.owned.extend([created("new/a.rs"), crate::bench::file("src/gone.rs")]);
    let first = bench.run(&spec);
    assert_eq!(first.end(), &JobEnd::Checkpoint { note: "note".into() });
    assert!(first.warnings().contains("stray.txt"), "{}", first.warnings());
    assert_eq!(bench.show(first.wip(), "stray.txt").unwrap(), "stray\n");

    spec.job.attempt.0 = 2;
    spec.job.carry.note = Some("note".into());
    spec.job.carry.wip = Some(first.wip().clone());
    spec.task.run = Some(
        "git status --porcelain > ../../../../../status; cat > ../../../../../prompt; echo rest >> src/own.rs".into(),
    );
    let second = bench.run(&spec);
    let status = fs::read_to_string(bench.outside("status")).unwrap();
    assert_eq!(status, " D src/gone.rs\n M src/own.rs\n?? new/\n");
    assert!(fs::read_to_string(bench.outside("prompt")).unwrap().contains("note"));
    let commit = second.commit();
    assert_eq!(bench.show(commit, "src/own.rs").unwrap(), "half\nrest\n");
    assert_eq!(bench.show(commit, "new/a.rs").unwrap(), "made\n");
    assert_eq!(bench.show(commit, "src/gone.rs"), None);
    assert_eq!(bench.show(commit, "stray.txt"), None);
}

#[test]
fn a_checkpoint_takes_back_nothing_that_another_task_has_changed_since() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo half > src/own.rs; mkdir new; echo made > new/a.rs; echo note; exit 2");
    spec.owned.push(crate::bench::directory("new"));
    let first = bench.run(&spec);
    assert_eq!(first.end(), &JobEnd::Checkpoint { note: "note".into() });

    fs::write(bench.root().join("src/own.rs"), "theirs\n").unwrap();
    fs::create_dir(bench.root().join("new")).unwrap();
    fs::write(bench.root().join("new/b.rs"), "theirs\n").unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-qm", "another owner"]);
    spec.job.base = mahabharatha_core::ids::Oid::new(bench.git(&["rev-parse", "HEAD"])).unwrap();
    spec.job.attempt.0 = 2;
    spec.job.carry.note = Some("note".into());
    spec.job.carry.wip = Some(first.wip().clone());
    spec.task.run = Some("echo rest >> src/own.rs".into());
    let second = bench.run(&spec);
    for (path, text) in [("src/own.rs", "theirs\nrest\n"), ("new/a.rs", "made\n"), ("new/b.rs", "theirs\n")] {
        assert_eq!(bench.show(second.commit(), path).as_deref(), Some(text), "{path}");
    }
}

#[test]
fn a_failed_attempt_is_not_put_on_top() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo half > src/own.rs; exit 1");
    let wip = bench.run(&spec).wip().clone();
    spec.job.attempt.0 = 2;
    spec.job.carry.wip = Some(wip);
    spec.job.carry.feedback = Some("failed because".into());
    spec.task.run = Some("cat; git status --porcelain >> src/own.rs".into());
    let outcome = bench.run(&spec);
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "own\n");
    assert!(fs::read_to_string(&spec.logs.task).unwrap().contains("failed because"));
}

#[test]
fn an_agent_that_takes_too_long_is_ended_with_all_that_it_started() {
    let bench = Bench::new();
    let mut spec = bench.spec("trap '' TERM; echo half > src/own.rs; sleep 1000 & sleep 1000; sleep 1000");
    spec.limits.attempt_ms = 2000;
    let outcome = bench.run(&spec);
    assert_eq!(outcome.failure().0, FailCause::Timeout);
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "half\n");
}

#[test]
fn silence_without_change_is_a_stall_and_work_is_not() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo half > src/own.rs; sleep 1000");
    spec.limits.stall_ms = 1500;
    let outcome = bench.run(&spec);
    assert_eq!(outcome.failure().0, FailCause::Stalled);
    assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "half\n");

    for busy in ["echo .", "echo . >> src/own.rs"] {
        spec.job.attempt.0 += 1;
        spec.limits.stall_ms = 2500;
        spec.task.run = Some(format!("for i in 1 2 3 4 5 6; do {busy}; sleep 0.6; done"));
        bench.run(&spec).commit();
    }
}

#[test]
fn a_daemon_that_left_with_an_empty_environment_is_ended_before_anything_is_looked_at() {
    let bench = Bench::new();
    let late = "sleep 0.3; echo late >> src/own.rs; sleep 1000";
    let spec = bench.spec(&format!(
        "echo mine > src/own.rs; (setsid env -i /bin/sh -c 'echo $$ > ../../../../../pid; {late}' >/dev/null 2>&1 &) ; \
         while ! [ -s ../../../../../pid ]; do sleep 0.01; done"
    ));
    let outcome = bench.run(&spec);
    assert_eq!(bench.show(outcome.commit(), "src/own.rs").unwrap(), "mine\n");
    let pid = fs::read_to_string(bench.outside("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    assert_eq!(fs::read_to_string(bench.worktree().join("src/own.rs")).unwrap(), "mine\n");
}

#[test]
fn cancelled_the_worker_keeps_the_work_even_of_an_agent_that_does_not_listen() {
    for trap in ["", "trap '' TERM; "] {
        let bench = Bench::new();
        let spec =
            bench.spec(&format!("{trap}echo half > src/own.rs; touch ../../../../../up; sleep 1000; sleep 1000"));
        let child = bench.spawn(&spec);
        wait_until(|| bench.outside("up").exists());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let outcome = bench.finish(&spec, child);
        assert_eq!((outcome.code, outcome.end()), (1, &JobEnd::Cancelled));
        assert_eq!(bench.show(outcome.wip(), "src/own.rs").unwrap(), "half\n");
        assert!(find_marked("MAHABHARATHA_WORKTREE", bench.worktree().to_str().unwrap()).is_empty());
    }
}

#[test]
fn the_second_call_ends_it_at_once() {
    let bench = Bench::new();
    let mut spec = bench.spec("trap '' TERM; touch ../../../../../up; sleep 1000; sleep 1000");
    spec.limits.grace_ms = 1_000_000;
    let mut child = bench.spawn(&spec);
    wait_until(|| bench.outside("up").exists());
    // More than twice does no harm, and signals of one kind merge while one is pending.
    wait_until(|| {
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        std::thread::sleep(std::time::Duration::from_millis(20));
        child.try_wait().unwrap().is_some()
    });
    let outcome = bench.finish(&spec, child);
    assert_eq!((outcome.code, outcome.report.is_none()), (1, true));
    assert!(find_marked("MAHABHARATHA_WORKTREE", bench.worktree().to_str().unwrap()).is_empty());
}

#[test]
fn a_fenced_job_is_left_alone() {
    let bench = Bench::new();
    let spec = bench.spec("touch ../../../../../ran");
    fs::create_dir_all(bench.job_dir(&spec)).unwrap();
    fs::write(bench.job_dir(&spec).join("fence"), "").unwrap();
    let outcome = bench.run(&spec);
    assert_eq!((outcome.code, outcome.report.is_none()), (1, true));
    assert!(!bench.outside("ran").exists());
    assert!(!bench.worktree().join("README.md").exists(), "the worktree is untouched");
}

#[test]
fn a_job_is_done_by_one_worker_only_and_says_who() {
    let bench = Bench::new();
    let spec = bench.spec("echo . >> ../../../../../calls; while ! [ -e ../../../../../go ]; do sleep 0.01; done");
    let first = bench.spawn(&spec);
    wait_until(|| bench.outside("calls").exists());
    let worker: ProcessId =
        serde_json::from_slice(&fs::read(bench.job_dir(&spec).join("worker.json")).unwrap()).unwrap();
    assert_eq!(worker.pid, first.id());
    assert!(worker.alive());
    let second = bench.run(&spec);
    assert_eq!((second.code, second.report.is_none()), (1, true));
    fs::write(bench.outside("go"), "").unwrap();
    bench.finish(&spec, first).commit();
    assert!(!worker.alive());
    assert_eq!(fs::read_to_string(bench.outside("calls")).unwrap(), ".\n");
}

#[test]
fn its_ports_are_held_while_it_lives() {
    let bench = Bench::new();
    let lock = bench.common().join("mahabharatha/ports/50123");
    let mut spec = bench.spec(&format!("flock -n '{}' true && exit 9; exit 0", lock.display()));
    spec.ports = vec![50123];
    bench.run(&spec).commit();
    assert!(fs::File::options().write(true).open(&lock).unwrap().try_lock().is_ok());
}

#[test]
fn work_of_a_killed_worker_is_kept_by_the_next() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo half > src/own.rs; echo s > stray.txt; touch ../../../../../up; sleep 1000");
    let mut command = bench.command(&spec);
    let mut child = command.process_group(0).spawn().unwrap();
    wait_until(|| bench.outside("up").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // The agent outlives its worker, and would write on.
    assert!(!find_marked("MAHABHARATHA_WORKTREE", bench.worktree().to_str().unwrap()).is_empty());
    spec.job.attempt.0 = 2;
    spec.job.task = mahabharatha_core::ids::TaskId::new("TASK-2").unwrap();
    spec.task.run = Some("test \"$(cat src/own.rs)\" = own && ! [ -e stray.txt ]".into());
    spec.task.verification = verification("true");
    let outcome = bench.run(&spec);
    outcome.commit();
    assert!(outcome.warnings().contains("refs/mahabharatha/x/wip/TASK-1/1"), "{}", outcome.warnings());
    assert_eq!(bench.git(&["show", "refs/mahabharatha/x/wip/TASK-1/1:src/own.rs"]), "half");
    assert_eq!(bench.git(&["show", "refs/mahabharatha/x/wip/TASK-1/1:stray.txt"]), "s");
    assert!(find_marked("MAHABHARATHA_WORKTREE", bench.worktree().to_str().unwrap()).is_empty());
}

#[test]
fn what_was_planted_by_an_agent_that_killed_its_worker_is_put_back_by_the_next() {
    let bench = Bench::new();
    let mut spec = bench.spec(
        "G=$(git rev-parse --git-common-dir); echo '#!/bin/sh' > \"$G/hooks/pre-push\"; git config core.pager evil; \
         kill -9 $PPID; sleep 1000",
    );
    let dead = bench.run(&spec);
    assert_eq!((dead.code, dead.report.is_none()), (-1, true));
    spec.job.attempt.0 = 2;
    spec.task.run = Some("echo mine > src/own.rs".into());
    let outcome = bench.run(&spec);
    outcome.commit();
    for name in [".git/hooks/pre-push", ".git/config (core.pager)"] {
        assert!(outcome.warnings().contains(name), "{}", outcome.warnings());
    }
    assert!(!bench.common().join("hooks/pre-push").exists());
    assert!(bench.git_fails(&["config", "core.pager"]));
}

#[test]
fn what_cannot_be_committed_of_a_killed_workers_work_is_set_aside() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo half > src/own.rs; touch ../../../../../up; kill -9 $PPID; sleep 1000");
    bench.run(&spec);
    fs::write(bench.common().join("mahabharatha/x/slots/worker-0.index"), "garbage").unwrap();
    spec.job.attempt.0 = 2;
    spec.task.run = Some("echo mine > src/own.rs".into());
    let outcome = bench.run(&spec);
    outcome.commit();
    let aside = bench.worktree().with_file_name("left-TASK-1.1-1");
    assert!(outcome.warnings().contains(aside.to_str().unwrap()), "{}", outcome.warnings());
    assert_eq!(fs::read_to_string(aside.join("src/own.rs")).unwrap(), "half\n");
}
