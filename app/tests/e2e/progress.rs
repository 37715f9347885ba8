//! What a person sees while a run is on: a live display on a terminal, plain lines elsewhere.

use crate::agents::{doing, held};
use crate::support::{Repo, simple};
use crate::terminal::Terminal;

#[test]
fn a_terminal_shows_levels_workers_and_tasks_while_the_run_is_on() {
    let repo = Repo::new();
    repo.config("workers: { count: 2 }\n");
    let twice = doing(
        "A-2",
        1,
        "a2",
        "test $MAHABHARATHA_ATTEMPT -gt 1 && touch \"$S/A-2.up\" && sleep 0.02 && while ! [ -e \"$S/go\" ]; do sleep 0.02; done; echo x > a2; test $MAHABHARATHA_ATTEMPT -gt 1",
    );
    repo.graph("x", &[held("A-1", 1, "a1"), twice, simple("B-1", 2, "b1")]);
    let terminal = Terminal::open(&repo, "run --plain", &[]);
    repo.wait_until_up(&["A-1", "A-2"]);
    terminal.wait_for(&repo, "A-2 (attempt 2)  Make a2");
    let screen = terminal.shown();
    for text in [
        "x: 3 tasks in 2 levels, 2 workers (subprocess), onto main",
        "level 1 of 2 running",
        "0/3",
        "2 running",
        "A-1  Make a1",
        "worker 0",
        "worker 1",
    ] {
        assert!(screen.contains(text), "{text:?} is not in {screen:?}");
    }
    // What failed is told in colour, above the bars, which are drawn again and again.
    assert!(screen.contains("\x1b[33m") && screen.contains("\x1b[2K"), "{screen:?}");
    repo.let_go("all");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    // The last word stands below everything that was drawn.
    let (_, end) = screen.rsplit_once("x is completed: every level is merged").unwrap();
    assert!(!end.contains("running"), "{end:?}");
}

#[test]
fn ctrl_c_on_a_terminal_stops_in_good_order() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let mut terminal = Terminal::open(&repo, "run --plain", &[]);
    repo.wait_until_up(&["A-1"]);
    terminal.wait_for(&repo, "A-1  Make a1");
    terminal.press("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("A-1 was cancelled (attempt 1), its work is kept"), "{screen}");
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
}

#[test]
fn no_color_and_quiet_are_heeded_on_a_terminal() {
    let repo = Repo::new();
    repo.graph("x", &[doing("A-1", 1, "a1", "echo x > a1; test $MAHABHARATHA_ATTEMPT -gt 1"), simple("A-2", 1, "a2")]);
    let (code, screen) = Terminal::open(&repo, "run --plain", &[("NO_COLOR", "1")]).end();
    assert_eq!(code, 0, "{screen}");
    assert!(
        screen.contains("A-1 failed") && !screen.contains("\x1b[33m") && !screen.contains("\x1b[31m"),
        "{screen:?}"
    );
    repo.graph("y", &[simple("A-1", 1, "b1"), doing("A-2", 1, "b2", "exit 3")]);
    let (code, screen) = Terminal::open(&repo, "run -q", &[]).end();
    assert_eq!(code, 3);
    for (text, shown) in
        [("A-2 is blocked", true), ("error", true), ("started on worker", false), ("level 1 of 1", false)]
    {
        assert_eq!(screen.contains(text), shown, "{text:?} in {screen:?}");
    }
}

#[test]
fn without_a_terminal_each_line_has_its_time_and_nothing_else() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a1"), simple("B-1", 2, "b1")]);
    let ran = repo.run(&["run"]).code(0);
    assert_eq!(ran.stdout, "");
    assert!(!ran.stderr.contains('\x1b'), "{}", ran.stderr);
    let stamped = |line: &&str| {
        let (time, rest) = line.split_once(' ').unwrap_or_default();
        time.len() == 8
            && time.chars().enumerate().all(|(at, c)| if at % 3 == 2 { c == ':' } else { c.is_ascii_digit() })
            && !rest.is_empty()
    };
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let (told, last) = lines.split_at(lines.len() - 2);
    assert!(told.iter().all(stamped), "{told:#?}");
    assert!(last[0].starts_with("x is completed") && last[1].starts_with("Next: "), "{last:?}");
    for text in [
        "x: 2 tasks in 2 levels",
        "level 1: 1 task",
        "A-1 started on worker",
        "A-1 completed in",
        "level 1 merged into main",
        "x completed: 2 tasks",
    ] {
        assert!(told.iter().any(|line| line.contains(text)), "{text:?} is not in {told:#?}");
    }
    assert_eq!(repo.run(&["run", "-q"]).code(0).stderr, "");
    let colored = repo.run(&["status", "--color", "always"]).code(0);
    assert!(colored.stdout.contains("\x1b[32mcompleted"), "{:?}", colored.stdout);
}

#[test]
fn every_reading_command_speaks_json() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["run", "--dry-run", "--json"]).code(0).json();
    repo.run(&["design", "--validate-only", "--json"]).code(0).json();
    repo.run(&["doctor", "--json"]).code(0).json();
    repo.run(&["run"]).code(0);
    for command in [&["status", "--json"][..], &["stop", "--json"], &["cleanup", "--dry-run", "--json"]] {
        let ran = repo.run(command).code(0);
        ran.json();
        assert_eq!(ran.stderr, "", "{command:?}");
    }
    for line in repo.run(&["logs", "--json"]).code(0).stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn watching_on_a_terminal_draws_over_what_it_showed() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let watch = Terminal::open(&repo, "status --watch --plain", &[]);
    watch.wait_for(&repo, "in_progress");
    repo.let_go("all");
    run.wait().code(0);
    let (code, screen) = watch.end();
    assert_eq!(code, 0);
    assert!(screen.matches("\x1b[H").count() >= 2 && screen.contains("completed"), "{screen:?}");
}

#[test]
fn a_question_is_asked_on_a_terminal_and_its_answer_heeded() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let needs = crate::support::with(simple("B-1", 2, "b1"), serde_json::json!({ "dependencies": ["A-1"] }));
    repo.graph("x", &[doing("A-1", 1, "a1", "exit 3"), needs]);
    repo.run(&["run"]).code(3);
    for (answer, status) in [("n", "pending"), ("y", "skipped")] {
        let mut terminal = Terminal::open(&repo, "skip A-1 --reason 'not needed'", &[]);
        terminal.wait_for(&repo, "[y/N]");
        assert!(terminal.shown().contains("B-1"));
        terminal.press(&format!("{answer}\n"));
        assert_eq!(terminal.end().0, 0);
        assert_eq!(repo.task_status("B-1"), status);
    }
}
