//! Agents that write what is not theirs.

use serde_json::json;

use crate::client::{Bench, task};
use crate::messages_api::{Api, Reply, bash, tool_use};
use crate::support::with;

const VERIFICATION: &str = "git diff --exit-code HEAD -- README.md && grep -q A-1 own.txt";

#[test]
fn what_the_task_does_not_own_cannot_be_written_by_tools_or_redirection() {
    let api = Api::start(|ask| match ask.turn() {
        0 => Reply::of(vec![
            tool_use("Read", json!({ "file_path": ask.file("README.md") })),
            tool_use("Write", json!({ "file_path": ask.file("other.txt"), "content": "mine now" })),
        ]),
        1 => Reply::uses(
            "Edit",
            json!({ "file_path": ask.file("README.md"), "old_string": "hello", "new_string": "bye" }),
        ),
        2 => bash("echo mine > other.txt"),
        3 => bash("cp README.md other.txt"),
        4 => bash("python3 -c \"open('other.txt', 'w').write('mine')\""),
        5 => bash("git push origin main"),
        6 => bash("curl http://127.0.0.1:1/"),
        7 => Reply::uses("Agent", json!({ "description": "x", "prompt": "x", "subagent_type": "general-purpose" })),
        // Git's reading commands can write, and run other programs.
        8 => bash("git diff --output=other.txt HEAD"),
        9 => bash("git grep -O'touch other.txt' hello"),
        10 => bash("git log --oneline -3"),
        11 => bash("git ls-tree -r HEAD"),
        12 => ask.write("own.txt", "A-1\n"),
        13 => bash(VERIFICATION),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    // A project and a person that would switch the guard off, were they asked.
    let settings = json!({ "permissions": { "allow": ["Bash", "Edit", "Write"], "defaultMode": "bypassPermissions" } });
    bench.repo.write(".claude/settings.json", &settings.to_string());
    bench.repo.write(".claude/settings.local.json", &settings.to_string());
    bench.repo.commit("settings");
    std::fs::create_dir(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), settings.to_string()).unwrap();
    let verified = json!({ "verification": { "command": VERIFICATION } });
    bench.repo.graph("x", &[with(task("A-1", 1, "own.txt"), verified)]);
    bench.run(&["run"]).code(0);
    let denied = bench.events("A-1", &["tool_denied"]);
    let expected = [
        "editing other.txt",
        "editing README.md",
        "running echo mine > other.txt",
        "running cp README.md other.txt",
        "running python3 -c \"open('other.txt', 'w').write('mine')\"",
        "running git push origin main",
        "running curl http://127.0.0.1:1/",
        "using Agent",
        "running git diff --output=other.txt HEAD",
        "running git grep -O'touch other.txt' hello",
    ];
    assert_eq!(denied, expected);
    let tree = bench.repo.tree("main");
    assert_eq!((tree["own.txt"].as_str(), tree["README.md"].as_str()), ("A-1", "hello"));
    assert!(!tree.contains_key("other.txt"));
    assert_eq!(bench.repo.task("A-1")["attempt"], 1);
}

#[test]
fn strays_of_an_interpreter_fail_the_attempt_and_are_named_to_the_next() {
    let api = Api::start(|ask| match (ask.attempt().as_str(), ask.turn()) {
        ("1", 0) => ask.write("check.py", "open('other.txt', 'w').write('mine')  # A-1\n"),
        ("1", 1) => bash("python3 check.py"),
        (_, 0) => ask.write("check.py", "print('ok')  # A-1\n"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    let verified = json!({ "verification": { "command": "python3 check.py" } });
    bench.repo.graph("x", &[with(task("A-1", 1, "check.py"), verified)]);
    bench.run(&["run"]).code(0).says("tried to change what it does not own: other.txt");
    assert!(!bench.repo.tree("main").contains_key("other.txt"));
    assert_eq!(bench.repo.git(&["show", "refs/mahabharatha/x/wip/A-1/1:other.txt"]), "mine");
    let second = bench.api.asked().into_iter().find(|ask| ask.attempt() == "2").unwrap();
    assert!(second.text().contains("changed what the task does not own"), "{}", second.text());
}
