//! `review`: accepting completed tasks and sending them back.

use serde_json::{Value, json};

use crate::support::{HELD, Repo, simple, task, with};
use crate::terminal::Terminal;

fn to_review(repo: &Repo, args: &[&str]) -> Vec<Value> {
    let ran = repo.run(&[&["review", "--json"], args].concat()).code(0);
    ran.json()["tasks"].as_array().unwrap().clone()
}

fn ids(tasks: &[Value]) -> Vec<&str> {
    tasks.iter().map(|task| task["task"].as_str().unwrap()).collect()
}

/// A task that writes another word each time, and the user's words if its prompt has them.
fn by_prompt(id: &str, file: &str) -> Value {
    let run = format!("if grep -q 'use blue'; then echo blue >> {file}; else echo red >> {file}; fi");
    with(task(id, 1, file, &run), json!({ "acceptance_criteria": ["It has a colour"] }))
}

#[test]
fn unmerged_work_is_done_again_with_the_comment_and_reviewed_again() {
    let repo = Repo::new();
    let blocked = task("B", 1, "b.txt", "exit 3");
    repo.graph("x", &[by_prompt("A", "a.txt"), blocked]);
    repo.run(&["run"]).code(3);
    let tasks = to_review(&repo, &[]);
    assert_eq!(ids(&tasks), ["A"]);
    let item = &tasks[0];
    assert_eq!((&item["merged"], &item["attempts"], &item["verdict"]), (&json!(false), &json!(1), &Value::Null));
    assert_eq!(item["verification"]["command"], "test -e 'a.txt'");
    assert_eq!(item["verification"]["passed"], true);
    assert!(item["verification"]["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{item}");
    assert_eq!(item["acceptance_criteria"], json!(["It has a colour"]));
    assert!(item["files"][0]["patch"].as_str().unwrap().ends_with("+red\n"), "{item}");
    repo.run(&["review"]).code(0).says("A: Make a.txt").says("It has a colour").says("+red");

    repo.run(&["review", "--accept", "A"]).code(0);
    assert_eq!(to_review(&repo, &[]), [] as [Value; 0]);
    assert_eq!(to_review(&repo, &["--all", "--level", "1"])[0]["verdict"], "accepted");
    repo.run(&["review"]).code(0).says("everything completed is reviewed");

    let sent = repo.run(&["review", "--send-back", "A", "--comment", "- use blue", "--json"]).code(0).json();
    assert_eq!(sent, json!({ "task": "A", "requeued": true, "follow_up": null }));
    assert_eq!(repo.task_status("A"), "pending");
    repo.run(&["run"]).code(3);
    let again = to_review(&repo, &[]);
    assert_eq!(ids(&again), ["A"], "what was done again is reviewed again");
    assert!(again[0]["files"][0]["patch"].as_str().unwrap().ends_with("+blue\n"), "{again:?}");
    assert_eq!(again[0]["attempts"], 2);
}

#[test]
fn merged_work_gets_a_follow_up_task() {
    let repo = Repo::new();
    repo.graph("x", &[by_prompt("A", "a.txt"), by_prompt("B", "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(ids(&to_review(&repo, &[])), ["A", "B", "C"]);
    assert_eq!(ids(&to_review(&repo, &["--level", "2"])), ["C"]);
    repo.run(&["review", "--accept", "B", "C"]).code(0);
    let send = |task: &str, comment: &str| {
        repo.run(&["review", "--send-back", task, "--comment", comment, "--json"]).code(0).json()["follow_up"].clone()
    };
    assert_eq!(send("A", "use blue\nnot red"), json!({ "task": "FOLLOW-001", "level": 3 }));
    assert_eq!(send("B", "use blue"), json!({ "task": "FOLLOW-002", "level": 3 }), "both at the same time");
    assert_eq!(ids(&to_review(&repo, &[])), [] as [&str; 0]);
    let graph: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    let added = &graph["tasks"][3];
    assert_eq!(added["title"], "Follow-up of A: use blue not red");
    assert_eq!(
        (&added["action"], &added["follow_up"]),
        (&json!("use blue\nnot red"), &json!("review of A: use blue not red"))
    );
    assert_eq!((&added["files"]["modify"], &added["dependencies"]), (&json!(["a.txt"]), &json!(["A"])));
    assert_eq!((&added["verification"], &graph["total_tasks"]), (&graph["tasks"][0]["verification"], &json!(5)));
    repo.run(&["design", "--validate-only"]).code(0);

    repo.run(&["run"]).code(0).says("FOLLOW-001 is new on level 3");
    assert_eq!((repo.read("a.txt"), repo.read("b.txt")), ("red\nblue\n".to_string(), "red\nblue\n".to_string()));
    assert_eq!(ids(&to_review(&repo, &[])), ["FOLLOW-001", "FOLLOW-002"]);
    assert_eq!(send("A", "once more"), json!({ "task": "FOLLOW-003", "level": 4 }));
    assert_eq!(send("FOLLOW-001", "and again"), json!({ "task": "FOLLOW-004", "level": 5 }));
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a.txt"), "red\nblue\nred\nred\n");
    let of = |id: &str| repo.run(&["diff", id, "--json"]).code(0).json()["files"][0]["added"].clone();
    assert_eq!((of("FOLLOW-001"), of("FOLLOW-004")), (json!(1), json!(1)));
}

#[test]
fn a_follow_up_may_change_what_its_task_was_granted() {
    let repo = Repo::new();
    repo.write("types.rs", "mine\n");
    repo.commit("types");
    repo.config("agent: command\nownership: { amend: auto }\n");
    let script = "echo a > a.txt; if [ $MAHABHARATHA_ATTEMPT = 1 ]; then echo 'NEEDS: types.rs — why'; exit 3; fi; echo t > types.rs";
    repo.graph("x", &[task("A", 1, "a.txt", script)]);
    repo.run(&["run"]).code(0);
    repo.run(&["review", "--send-back", "A", "--comment", "again"]).code(0);
    let graph: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    assert_eq!(graph["tasks"][1]["files"]["modify"], json!(["a.txt", "types.rs"]));
}

#[test]
fn a_follow_up_waits_for_the_end_of_the_current_run() {
    let repo = Repo::new();
    let held = task("B", 2, "b.txt", &format!("{HELD} touch b.txt"));
    repo.graph("x", &[by_prompt("A", "a.txt"), held]);
    let run = repo.run_until_held("x");
    let sent = repo.run(&["review", "--send-back", "A", "--comment", "use blue"]).code(0);
    sent.says("FOLLOW-001 on level 3").says("After the current run has ended");
    repo.run(&["review", "--send-back", "B", "--comment", "no"]).code(6).says("B is not completed");
    repo.let_go_on("x", run).code(0);
    assert_eq!(repo.read("a.txt"), "red\n");
    repo.run(&["run"]).code(0);
    assert_eq!(repo.read("a.txt"), "red\nblue\n");
}

#[test]
fn bad_input_changes_nothing() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), task("B", 1, "b.txt", "exit 3")]);
    repo.run(&["review"]).code(6).says("there has been no run of x");
    repo.run(&["run"]).code(3);
    let before = repo.everything();
    for (args, code, what) in [
        (&["review", "y"][..], 2, "y"),
        (&["review", "--level", "7"], 2, "The levels are: 1."),
        (&["review", "--accept", "A", "D"], 2, "x has no task D"),
        (&["review", "--accept", "A", "B"], 6, "B is not completed"),
        (&["review", "--accept"], 2, "--accept"),
        (&["review", "--send-back", "A"], 2, "--comment"),
        (&["review", "--comment", "better"], 2, "--send-back"),
        (&["review", "--send-back", "A", "--comment", " "], 2, "the note is empty"),
        (&["review", "--send-back", "D", "--comment", "better"], 2, "x has no task D"),
        (&["review", "--send-back", "B", "--comment", "better"], 6, "retry B --note"),
        (&["review", "--send-back", "A", "--accept", "A"], 2, "cannot be used with"),
    ] {
        repo.run(args).code(code).says(what);
    }
    assert_eq!(repo.everything(), before);
    repo.run(&["skip", "B", "--reason", "no"]).code(0);
    repo.run(&["run"]).code(0);
    // A graph that the run cannot take in is not made worse.
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "title": "Another" })), simple("B", 1, "b.txt")]);
    let before = repo.everything();
    repo.run(&["review", "--send-back", "A", "--comment", "better"]).code(6).says("A cannot be changed");
    let changed: Vec<_> = repo.everything().into_iter().filter(|(path, was)| before.get(path) != Some(was)).collect();
    assert!(changed.iter().all(|(path, _)| path.ends_with("graph.lock")), "{changed:?}");
}

#[test]
fn at_a_terminal_each_task_is_shown_and_asked_about() {
    let repo = Repo::new();
    repo.graph("x", &["A", "B", "C", "D"].map(|id| by_prompt(id, &format!("{id}.txt"))));
    repo.run(&["run"]).code(0);
    let mut terminal = Terminal::open(&repo, "review", &[("PAGER", "cat")]);
    terminal.answer(&repo, "A (3 more)", "a");
    terminal.answer(&repo, "B (2 more)", "what");
    terminal.answer(&repo, "B (2 more)", "b");
    terminal.answer(&repo, "What should be different?", "use blue");
    terminal.answer(&repo, "C (1 more)", "n");
    terminal.answer(&repo, "D (0 more)", "q");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("A: accepted") && shown.contains("FOLLOW-001 on level 2"), "{shown}");
    assert!(shown.contains("Verification passed") && shown.contains("+red"), "{shown}");
    assert_eq!(ids(&to_review(&repo, &[])), ["C", "D"]);
}
