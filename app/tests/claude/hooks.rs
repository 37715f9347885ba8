//! The hooks as the client calls them.

use serde_json::json;

use crate::client::{Bench, task};
use crate::messages_api::{Api, Reply, bash};
use crate::session::path_to_the_program;

#[test]
fn where_the_program_is_missing_nothing_is_written() {
    let api = Api::start(|ask| match ask.turn() {
        0 => Reply::uses("Write", json!({ "file_path": ask.cwd().join("new.txt"), "content": "x" })),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    // The person lets everything be written.
    let settings = json!({ "permissions": { "allow": ["Write", "Edit"] } });
    std::fs::create_dir_all(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), settings.to_string()).unwrap();
    let talk = bench.talk_with(&[("PATH", "/usr/bin:/bin")], &["Write it."]);
    assert!(!bench.repo.exists("new.txt"));
    assert!(talk.errors()[0].contains("not found"), "{:?}", talk.errors());
    // With it, a session that has nothing to do with tasks is not bothered.
    let talk = bench.talk(&["Write it."]);
    assert_eq!((talk.errors(), &talk.asked), (Vec::<String>::new(), &Vec::new()));
    assert_eq!(bench.repo.read("new.txt"), "x");
}

#[test]
fn a_task_of_ours_cannot_be_called_completed_in_the_list_before_it_is() {
    let completed = |id: &str| Reply::uses("TaskUpdate", json!({ "taskId": id, "status": "completed" }));
    let api = Api::start(move |ask| match ask.turn() {
        0 => bash("mahabharatha task start --json"),
        1 => bash("mahabharatha task claim A-1 --json"),
        2 => Reply::uses("TaskList", json!({})),
        3 => {
            let list = ask.last();
            let number = list
                .lines()
                .find(|line| line.contains("[L1] Make out.txt"))
                .and_then(|line| line.split([' ', '.']).next());
            completed(number.unwrap_or_default().trim_start_matches('#'))
        }
        4 => Reply::uses("TaskCreate", json!({ "subject": "mine", "description": "x", "activeForm": "x" })),
        5 => {
            let last = ask.last();
            let number = last.split('#').nth(1).and_then(|rest| rest.split(' ').next());
            completed(number.unwrap_or_default())
        }
        6 => bash("mahabharatha stop"),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "out.txt")]);
    bench.repo.commit("graph");
    let settings = json!({ "permissions": { "allow": ["Bash(mahabharatha *)"] } });
    std::fs::create_dir_all(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), settings.to_string()).unwrap();
    let path = path_to_the_program();
    let talk = bench.talk_with(&[("PATH", &path), ("CLAUDE_CODE_TASK_LIST_ID", "x")], &["Go."]);
    let results = talk.results();
    assert!(results[3].contains("A-1 is not completed: to be created, and not there: out.txt"), "{results:#?}");
    assert!(results[5].contains("Updated task"), "{results:#?}");
    assert_ne!(bench.repo.task_status("A-1"), "completed");
}
