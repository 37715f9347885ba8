use std::io::{Read, Seek};

use super::*;

fn sh(script: &str) -> Cmd {
    Cmd::shell(script).envs(base_env(&[]))
}

#[test]
fn a_program_gets_its_input_and_only_its_environment() {
    let ended =
        Cmd::shell("cat; env | grep -c .; echo \"$GIVEN\" >&2; exit 3").env("GIVEN", "x").stdin("in\n").run().unwrap();
    assert_eq!(ended.status, Exit::Code(3));
    // GIVEN, and what the shell itself sets.
    let out = String::from_utf8(ended.stdout).unwrap();
    let count: u32 = out.strip_prefix("in\n").unwrap().trim().parse().unwrap_or(0);
    assert!(count <= 4, "{out}");
    assert_eq!(ended.stderr, b"x\n");
    assert!(!ended.truncated && !ended.timed_out && !ended.cancelled);
}

#[test]
fn unread_input_does_not_hang() {
    let ended = sh("exec <&-; sleep 0.05").stdin(vec![b'x'; 1 << 20]).run().unwrap();
    assert!(ended.success());
}

#[test]
fn a_listener_answers_the_program_until_it_closes_the_feed() {
    struct Answer(Feed);
    impl Write for Answer {
        fn write(&mut self, heard: &[u8]) -> io::Result<usize> {
            match heard {
                b"name?\n" => self.0.give("Arjuna\n"),
                _ => self.0.close(),
            }
            Ok(heard.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let feed = Feed::default();
    feed.give("first\n");
    let script = "read a; echo name?; read b; echo \"$a $b\"; cat; echo aside >&2";
    let mut copy = tempfile::tempfile().unwrap();
    let cmd = sh(script).stdin_from(feed.clone()).listen(Answer(feed)).copy_to(copy.try_clone().unwrap());
    assert_eq!(cmd.run().unwrap().stdout, b"name?\nfirst Arjuna\n");
    copy.rewind().unwrap();
    let mut copied = String::new();
    copy.read_to_string(&mut copied).unwrap();
    assert_eq!(copied, "aside\n");
    assert!(sh("cat").stdin("").run().unwrap().success());
}

#[test]
fn endless_output_is_read_but_not_kept() {
    let mut copy = tempfile::tempfile().unwrap();
    let ended = sh("head -c 5000000 /dev/zero; echo end").keep(3, 3).copy_to(copy.try_clone().unwrap()).run().unwrap();
    assert!(ended.truncated);
    assert_eq!(ended.stdout, b"\0\0\0\n[\xe2\x80\xa6 4999998 bytes left out \xe2\x80\xa6]\nnd\n");
    copy.rewind().unwrap();
    let mut copied = Vec::new();
    copy.read_to_end(&mut copied).unwrap();
    assert_eq!(copied.len(), 5_000_004);
}

#[test]
fn merged_streams_keep_their_order() {
    let ended = sh("echo 1; echo 2 >&2; echo 3").merged().run().unwrap();
    assert_eq!(ended.stdout, b"1\n2\n3\n");
    assert!(ended.stderr.is_empty());
}

#[test]
fn a_timeout_ends_the_whole_tree() {
    let mark = format!("timeout-{}", std::process::id());
    let ended = sh("trap '' TERM; (trap '' TERM; sleep 300 & wait; wait) & wait; wait")
        .env("MAHABHARATHA_TEST_MARK", &mark)
        .timeout(Duration::from_millis(300))
        .grace(Duration::from_millis(50))
        .run()
        .unwrap();
    assert!(ended.timed_out && !ended.cancelled && !ended.success());
    assert!(matches!(ended.status, Exit::Signal(_)));
    assert_eq!(find_marked("MAHABHARATHA_TEST_MARK", &mark), vec![]);
}

#[test]
fn a_program_that_obeys_sigterm_is_not_killed() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("up");
    let running = sh("trap 'echo bye; exit 7' TERM; echo up; : > up; while :; do sleep 0.01; done")
        .cwd(dir.path())
        .spawn()
        .unwrap();
    let canceller = running.canceller();
    let waiter = std::thread::spawn(move || running.wait().unwrap());
    while !marker.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    canceller.cancel(Duration::from_secs(60));
    let ended = waiter.join().unwrap();
    assert_eq!((ended.status, ended.cancelled), (Exit::Code(7), true));
    assert_eq!(ended.stdout, b"up\nbye\n");
}

#[test]
fn a_process_goes_on_when_its_first_thread_has_ended() {
    become_subreaper().unwrap();
    let mark = format!("first-thread-{}", std::process::id());
    let program = "threads->create(sub { sleep 300 })->detach; syscall(qx(uname -m) =~ /aarch64/ ? 93 : 60, 0)";
    let script = format!(
        "setsid perl -Mthreads -e '{program}' > /dev/null 2>&1 < /dev/null & until grep -q '^State:.Z' /proc/$!/status; do sleep 0.01; done"
    );
    sh(&script).env("MAHABHARATHA_TEST_MARK", &mark).run().unwrap();
    let left = find_marked("MAHABHARATHA_TEST_MARK", &mark);
    assert!(left.len() == 1 && left[0].alive(), "{left:?}");
    assert!(end_descendants(Duration::ZERO) && !has_children());
    assert_eq!(find_marked("MAHABHARATHA_TEST_MARK", &mark), vec![]);
}

#[test]
fn a_pipe_held_by_an_escaped_grandchild_does_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let ended =
        sh("setsid sh -c 'echo $$ > escaped; exec sleep 300' & while ! [ -s escaped ]; do sleep 0.01; done; echo done")
            .cwd(dir.path())
            .run()
            .unwrap();
    assert_eq!(ended.stdout, b"done\n");
    let pid: u32 = std::fs::read_to_string(dir.path().join("escaped")).unwrap().trim().parse().unwrap();
    end_process(ProcessId::of(pid).unwrap());
}

#[test]
fn processes_left_in_the_group_are_killed() {
    let ended = sh("sleep 300 >/dev/null 2>&1 & echo $!").run().unwrap();
    let pid: u32 = String::from_utf8(ended.stdout).unwrap().trim().parse().unwrap();
    // The kill may take a moment; without it this loop would not end before the sleep does.
    while ProcessId::of(pid).is_some_and(|id| id.alive()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_dropped_program_does_not_run_on() {
    let running = sh("sleep 300 & wait").spawn().unwrap();
    let id = running.id();
    assert!(id.alive());
    drop(running);
    assert!(!id.alive());
}

#[test]
fn a_process_differs_from_another_with_its_pid() {
    let own = ProcessId::own();
    assert!(own.alive());
    assert!(!ProcessId { start: own.start + 1, ..own }.alive());
    assert!(!ProcessId { boot: own.boot + 1, ..own }.alive());
}

#[test]
fn a_marked_process_is_found() {
    let mark = format!("test-{}", std::process::id());
    let running = sh("exec sleep 300").env("MAHABHARATHA_TEST_MARK", &mark).spawn().unwrap();
    // During the exec of `sleep` its environment is empty.
    let found = loop {
        let found = find_marked("MAHABHARATHA_TEST_MARK", &mark);
        if !found.is_empty() {
            break found;
        }
    };
    assert_eq!(found, vec![running.id()]);
    assert!(find_marked("MAHABHARATHA_TEST_MARK", "other").is_empty());
}

#[test]
fn a_process_is_found_by_its_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().canonicalize().unwrap().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let running = sh("cd inside; exec env -i sleep 300").cwd(dir.path()).spawn().unwrap();
    while find_working_in(&inside).is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(find_working_in(inside.parent().unwrap()), vec![running.id()]);
    assert!(find_working_in(&inside.join("deeper")).is_empty());
    std::fs::remove_dir(&inside).unwrap();
    assert_eq!(find_working_in(&inside), vec![running.id()], "also when the directory is gone");
}

#[test]
fn a_stopped_program_handles_sigterm() {
    let running = sh("trap 'exit 7' TERM; kill -STOP $$; sleep 300 & wait").spawn().unwrap();
    let (id, canceller) = (running.id(), running.canceller());
    while !std::fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap().contains(") T ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    canceller.cancel(Duration::from_secs(1000));
    assert_eq!(running.wait().unwrap().status, Exit::Code(7));
}

#[test]
fn a_maximal_timeout_never_expires() {
    assert!(sh("true").timeout(Duration::MAX).grace(Duration::MAX).run().unwrap().success());
}

#[test]
fn a_missing_program_or_directory_is_named() {
    let error = Cmd::new("/no/such/program").run().unwrap_err().to_string();
    assert!(error.contains("/no/such/program"), "{error}");
    let error = sh("true").cwd("/no/such/dir").run().unwrap_err().to_string();
    assert!(error.contains("/no/such/dir is not a directory"), "{error}");
}

#[test]
fn kept_output_is_whole_when_it_fits() {
    assert_eq!(Kept::of(b"abcdef", 3, 3), b"abcdef");
    assert_eq!(String::from_utf8(Kept::of(b"abcdefg", 3, 3)).unwrap(), "abc\n[… 1 bytes left out …]\nefg");
}

#[test]
fn half_a_line_is_not_kept() {
    let lines: String = (0..10).map(|n| format!("line {n}\n")).collect();
    let kept = |text: &str| String::from_utf8(Kept::of(text.as_bytes(), 32, 32)).unwrap();
    assert_eq!(
        kept(&lines),
        "line 0\nline 1\nline 2\nline 3\n[… 14 bytes left out …]\nline 6\nline 7\nline 8\nline 9\n"
    );
    let one_line = "a".repeat(50) + &"b".repeat(50);
    assert_eq!(kept(&one_line), format!("{}\n[… 52 bytes left out …]\n{}", "a".repeat(24), "b".repeat(24)));
}

#[test]
fn the_stop_message_comes_before_sigterm() {
    let told = |script: &str, grace: Duration| {
        let feed = Feed::default();
        feed.stop_with("enough\n");
        let running = sh(script).stdin_from(feed).spawn().unwrap();
        running.canceller().cancel(grace);
        let ended = running.wait().unwrap();
        assert!(ended.cancelled);
        (ended.status, String::from_utf8(ended.stdout).unwrap())
    };
    let minute = Duration::from_secs(60);
    assert_eq!(told("read line; echo \"heard $line\"; exit 7", minute), (Exit::Code(7), "heard enough\n".to_owned()));
    assert_eq!(told("exec sleep 1000", minute), (Exit::Signal(15), String::new()));
    assert!(matches!(told("sleep 1000", Duration::ZERO).0, Exit::Signal(_)), "at once");
}

#[test]
fn the_program_that_a_command_begins_with() {
    assert_eq!(leading_program("go test ./..."), Some("go"));
    assert_eq!(leading_program("cd 'a b' && uv run pytest"), Some("uv"));
    for unclear in
        ["./gradlew test", "CI=1 npm test", "$RUNNER", "if true; then x; fi", "cd x; make", "exec x", ". ./x", ""]
    {
        assert_eq!(leading_program(unclear), None, "{unclear}");
    }
}
