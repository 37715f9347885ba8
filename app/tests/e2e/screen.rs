//! The screen on a real terminal: keys, sizes, colours, and every way in which it ends.

use serde_json::json;

use crate::agents::{doing, held, is_alive, kill};
use crate::support::{Repo, processes_in, simple, with};
use crate::terminal::Terminal;
use crate::tmux::Tmux;

const LARGE: (u16, u16) = (120, 40);

/// Asks a question in its first attempt.
const ASKS: &str = "test $MAHABHARATHA_ATTEMPT -gt 1 && echo y > b1 || { echo 'sqlite or postgres?'; exit 3; }";

/// What the shell prints last.
const MODES_SHOWN: &str = "these are the terminal's modes";

/// Runs a command of the program in a terminal. Then the shell says how it ended and in which state the terminal is.
fn open(repo: &Repo, env: &str, command: &str, size: (u16, u16)) -> Tmux {
    let (program, home) = (mahabharatha_testing::program(), repo.home().display().to_string());
    let line = format!(
        "unset NO_COLOR LC_ALL LC_CTYPE CLAUDE_CONFIG_DIR; export HOME='{home}' LANG=C.UTF-8; {env} '{}' {command}; \
         echo \"ended with $?\"; stty -a | tr ';' '\\n' | grep -wo -e '-*icanon' -e '-*echo' -e '-*isig'; \
         echo \"{MODES_SHOWN}\"; exec sleep 1000",
        program.display()
    );
    Tmux::open_sized(repo, &line, size)
}

fn pid_of_run(repo: &Repo) -> u32 {
    repo.read(".gsd/specs/x/.lock").split(':').next().unwrap().parse().unwrap()
}

/// The terminal works as before: it shows what is typed and passes signals on.
#[track_caller]
fn assert_restored(repo: &Repo, screen: &Tmux) {
    screen.wait_for(repo, MODES_SHOWN);
    let shown = screen.screen();
    for mode in ["icanon", "echo", "isig"] {
        assert!(shown.contains(mode) && !shown.contains(&format!("-{mode}")), "{mode} in {shown}");
    }
    assert!(!shown.contains("needs you") && !shown.contains("Nothing needs"), "the screen is left: {shown}");
}

#[test]
fn a_run_is_shown_on_a_screen_and_q_leaves_it_going() {
    let repo = Repo::new();
    let told =
        with(held("A-1", 1, "a1"), json!({ "title": "Make the first", "acceptance_criteria": ["AC-7 it is made"] }));
    repo.graph("x", &[told, simple("B-1", 2, "b1")]);
    let screen = open(&repo, "", "run", LARGE);
    repo.wait_until_up(&["A-1"]);
    screen.wait_for(&repo, "Make the first");
    for part in ["▸ running", "Nothing needs you", "0/2 done", "waits for level 1", "L1 ▸ 0/1", "q leave"] {
        screen.wait_for(&repo, part);
    }
    screen.press("Enter");
    screen.wait_for(&repo, "AC-7 it is made");
    screen.press("3");
    screen.wait_for(&repo, "+half");
    assert!(screen.screen().contains("a1  owned  +1"), "{}", screen.screen());
    screen.press("4");
    screen.wait_for(&repo, "agent_started");
    screen.press("Escape");
    screen.wait_for(&repo, "Nothing needs you");
    screen.press("?");
    screen.wait_for(&repo, "leave; the run goes on");
    screen.press("?");
    screen.wait_for(&repo, "Nothing needs you");
    let pid = pid_of_run(&repo);
    screen.press("q");
    screen.wait_for(&repo, "ended with 0");
    assert!(screen.screen().contains("x goes on"), "{}", screen.screen());
    assert_restored(&repo, &screen);
    assert!(is_alive(pid));
    repo.let_go("all");
    repo.run(&["attach"]).code(0).says("x is completed");
    repo.wait_until("it is gone", || !is_alive(pid));
}

#[test]
fn an_unused_screen_closes_with_the_run() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), doing("A-2", 1, "a2", "exit 1")]);
    let screen = open(&repo, "", "run --junit results.xml", LARGE);
    repo.wait_until_up(&["A-1"]);
    screen.wait_for(&repo, "needs you 1");
    repo.let_go("all");
    screen.wait_for(&repo, "ended with 3");
    assert!(screen.screen().contains("x is blocked"), "{}", screen.screen());
    assert!(repo.read("results.xml").contains("A-2"), "what the process of the run writes is there");
    // A user who opens it afterwards may stay.
    let last = open(&repo, "", "attach", LARGE);
    last.wait_for(&repo, "✗ A-2");
    last.wait_for(&repo, "q quit");
    last.press("q");
    last.wait_for(&repo, "ended with 3");
    let watch = open(&repo, "", "status --watch", LARGE);
    watch.wait_for(&repo, "q quit");
    watch.press("q");
    watch.wait_for(&repo, "ended with 0");
    assert_restored(&repo, &watch);
}

#[test]
fn ctrl_c_stops_the_run_and_its_work_is_kept() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let screen = open(&repo, "", "run", LARGE);
    repo.wait_until_up(&["A-1"]);
    screen.wait_for(&repo, "A-1");
    screen.press("C-c");
    screen.wait_for(&repo, "ended with 130");
    assert_restored(&repo, &screen);
    assert_eq!(repo.show("refs/mahabharatha/x/wip/A-1/1:a1"), "half");
    assert_eq!(repo.status()["status"], "paused");
    let left = processes_in(&repo.path());
    assert!(!left.iter().any(|(_, command)| command.contains("mahabharatha")), "{left:?}");
}

#[test]
fn a_question_is_answered_on_the_screen() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\nworkers: { count: 2 }\n");
    repo.graph("x", &[held("A-1", 1, "a1"), doing("B-1", 1, "b1", ASKS), simple("C-1", 2, "c1")]);
    let screen = open(&repo, "", "run", LARGE);
    repo.wait_until_up(&["A-1"]);
    screen.wait_for(&repo, "sqlite or postgres?");
    screen.press("n");
    screen.press("r");
    screen.wait_for(&repo, "Answer or advice for B-1");
    screen.type_text("use sqlite");
    screen.wait_for(&repo, "mahabharatha retry -f x B-1 --note 'use sqlite'");
    screen.press("Enter");
    repo.wait_until("the answer is taken", || repo.task_status("B-1") == "completed");
    assert!(repo.status()["decisions"].to_string().contains("use sqlite"));
    // One worker more, by the same way as `scale`.
    screen.press("+");
    repo.wait_until("there is another worker", || repo.status()["workers"].as_array().unwrap().len() == 3);
    repo.let_go("all");
    screen.wait_for(&repo, "✓ completed");
    // A key was pressed, so it stays.
    screen.press("q");
    screen.wait_for(&repo, "ended with 0");
    assert_restored(&repo, &screen);
}

/// Answers the question of B-1, which is selected, in a run that has ended, and continues the run to its end.
fn answer_and_continue(repo: &Repo, screen: &Tmux) {
    screen.press("r");
    screen.type_text("sqlite");
    screen.press("Enter");
    screen.wait_for(repo, "B-1: queued again");
    screen.wait_for(repo, "R continues it");
    screen.press("R");
    screen.wait_for(repo, "It goes on when you leave");
    screen.press("y");
    screen.wait_for(repo, "✓ completed");
    screen.press("q");
    screen.wait_for(repo, "ended with 0");
    assert_restored(repo, screen);
}

#[test]
fn a_feature_is_run_from_the_screen_and_continued_after_an_answer() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[with(doing("B-1", 1, "b1", ASKS), json!({ "title": "Choose one" }))]);
    let screen = open(&repo, "", "attach", LARGE);
    screen.wait_for(&repo, "Designed, not run yet");
    screen.wait_for(&repo, "Choose one");
    let described = json!({ "title": "Choose another", "description": "Choose by what is small." });
    repo.graph("x", &[with(doing("B-1", 1, "b1", ASKS), described)]);
    screen.wait_for(&repo, "Choose another");
    screen.press("Enter");
    screen.wait_for(&repo, "Choose by what is small.");
    screen.press("q");
    screen.wait_for(&repo, "ended with 0");
    let screen = open(&repo, "", "status --watch", LARGE);
    screen.wait_for(&repo, "Choose another");
    screen.press("R");
    screen.wait_for(&repo, "Run it now?");
    screen.press("y");
    screen.wait_for(&repo, "sqlite or postgres?");
    repo.wait_until("the run has ended", || repo.status()["ended_at"].is_string());
    answer_and_continue(&repo, &screen);
}

#[test]
fn a_run_that_was_continued_on_the_screen_is_reported_as_it_ended() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[doing("B-1", 1, "b1", ASKS), held("C-1", 1, "c1")]);
    let screen = open(&repo, "", "run", LARGE);
    screen.wait_for(&repo, "sqlite or postgres?");
    // So that the screen stays.
    screen.press("j");
    repo.let_go("all");
    repo.wait_until("the run has ended", || repo.status()["ended_at"].is_string());
    screen.wait_for(&repo, "R continue");
    screen.press("n");
    answer_and_continue(&repo, &screen);
    assert!(screen.screen().contains("x is completed"), "{}", screen.screen());
}

#[test]
fn the_screen_fits_every_size_and_needs_neither_colour_nor_unicode() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1"), simple("B-1", 2, "b1")]);
    let run = repo.run_until_up(&["A-1"]);
    let screen = open(&repo, "", "attach", LARGE);
    screen.wait_for(&repo, "1/5 workers");
    assert!(screen.painted_screen().contains("38;5;6m"), "what runs is cyan: {:?}", screen.painted_screen());
    screen.resize(50, 12);
    repo.wait_until("the small screen", || {
        !screen.screen().contains("Nothing needs you") && screen.screen().contains("q leave")
    });
    screen.resize(30, 5);
    repo.wait_until("the one line", || screen.screen().trim() == "x 0/2 ▸ running");
    screen.resize(80, 24);
    screen.wait_for(&repo, "Nothing needs you");
    screen.press("q");
    screen.wait_for(&repo, "ended with 0");
    let plain = open(&repo, "NO_COLOR=1 LANG=C ODD=$(printf '\\377')", "attach", (80, 24));
    plain.wait_for(&repo, "> running");
    let painted = plain.painted_screen();
    // What sets the default colours is no colour.
    let colors = (0..8).map(|color| format!("3{color}m")).chain(["38;".to_string(), "48;".to_string()]);
    colors.for_each(|color| assert!(!painted.contains(&format!("\x1b[{color}")), "{color} in {painted:?}"));
    assert!(plain.screen().is_ascii(), "{}", plain.screen());
    plain.press("C-c");
    plain.wait_for(&repo, "ended with 0");
    repo.let_go("all");
    run.wait().code(0);
}

#[test]
fn a_terminal_that_is_closed_does_the_run_no_harm() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let screen = open(&repo, "", "run", LARGE);
    repo.wait_until_up(&["A-1"]);
    screen.wait_for(&repo, "A-1");
    let pid = pid_of_run(&repo);
    screen.close();
    let shown = || {
        processes_in(&repo.path()).iter().any(|(other, command)| *other != pid && command.contains("mahabharatha run"))
    };
    repo.wait_until("the screen is gone", || !shown());
    assert!(is_alive(pid));
    repo.let_go("all");
    repo.wait_until("the run is completed", || repo.status()["status"] == "completed");
    repo.wait_until("it is gone", || !is_alive(pid));
}

#[test]
fn signals_and_panics_give_the_terminal_back() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let attached = || {
        let all = processes_in(&repo.path());
        all.iter().find(|(_, command)| command.contains("mahabharatha attach")).map(|(pid, _)| *pid)
    };
    for signal in ["TERM", "INT"] {
        let screen = open(&repo, "", "attach", LARGE);
        screen.wait_for(&repo, "Nothing needs you");
        let pid = attached().unwrap().to_string();
        std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        screen.wait_for(&repo, "ended with 0");
        assert_restored(&repo, &screen);
    }
    let panics = "RUST_BACKTRACE=0 MAHABHARATHA_CRASH_AT='screen drawn#2' MAHABHARATHA_CRASH_WITH=panic";
    let screen = open(&repo, panics, "attach", LARGE);
    screen.wait_for(&repo, "ended with 101");
    assert!(screen.screen().contains("a test asked for this panic"), "{}", screen.screen());
    assert_restored(&repo, &screen);
    // A run whose process is killed is told as what it is.
    let screen = open(&repo, "", "attach", LARGE);
    screen.wait_for(&repo, "Nothing needs you");
    screen.press("j");
    let pid = pid_of_run(&repo);
    kill(pid);
    screen.wait_for(&repo, "the process that drove it is gone");
    screen.wait_for(&repo, "mahabharatha run x");
    screen.press("q");
    screen.wait_for(&repo, "ended with 9");
    drop(run);
    repo.run(&["stop"]).code(0);
}

#[test]
fn nothing_that_an_agent_prints_is_obeyed() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    let evil = r"printf '\033]0;owned\007\033[2J\033[8mhidden\302\2332J'";
    repo.graph("x", &[doing("A-1", 1, "a1", &format!("{evil}; exit 3")), held("B-1", 1, "b1")]);
    let run = repo.run_until_up(&["B-1"]);
    repo.wait_until("A-1 is blocked", || repo.task_status("A-1") == "blocked");
    let mut terminal = Terminal::open(&repo, "attach", &[("LANG", "C.UTF-8")]);
    terminal.wait_for(&repo, "hidden");
    terminal.press("\r");
    terminal.wait_for(&repo, "overview");
    terminal.press("2");
    terminal.wait_for(&repo, "hidden");
    terminal.press("q");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    for part in ["\x1b]0", "\x07", "\x1b[8m", "\u{9b}"] {
        assert!(!shown.contains(part), "{part:?} in {shown:?}");
    }
    repo.let_go("all");
    run.wait().code(3);
}
