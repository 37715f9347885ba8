//! The hooks as the client calls them.

use serde_json::json;

use crate::client::{Bench, task};
use crate::commands::NAMES;
use crate::messages_api::{Api, Reply, bash};
use crate::session::path_to_the_program;

#[test]
fn where_the_program_is_missing_the_hooks_do_nothing() {
    let api = Api::start(|ask| {
        let new = ask.cwd().join("new.txt");
        match ask.turn() {
            0 => Reply::uses("Write", json!({ "file_path": new, "content": "one" })),
            1 => Reply::uses("Edit", json!({ "file_path": new, "old_string": "one", "new_string": "two" })),
            2 => bash("cp new.txt copy.txt"),
            _ => Reply::says("Done."),
        }
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    // The user lets everything be written.
    let settings = json!({ "permissions": { "allow": ["Write", "Edit", "Bash(cp *)"] } });
    std::fs::create_dir_all(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), settings.to_string()).unwrap();
    for path in ["/usr/bin:/bin", &path_to_the_program()] {
        let talk = bench.talk_with(&[("PATH", path)], &["Write it."]);
        assert_eq!((talk.errors(), &talk.asked), (Vec::<String>::new(), &Vec::new()), "{path}");
        let said = serde_json::to_string(&talk.events).unwrap();
        assert!(!said.contains("command not found") && !said.contains("mahabharatha: not found"), "{said}");
        assert_eq!(bench.repo.read("copy.txt"), "two");
        for name in ["new.txt", "copy.txt"] {
            std::fs::remove_file(bench.repo.join(name)).unwrap();
        }
    }
}

#[test]
fn removal_leaves_no_commands_and_hooks_in_a_session() {
    let api = Api::start(|ask| match ask.turn() {
        0 => Reply::uses("Write", json!({ "file_path": ask.cwd().join("new.txt"), "content": "one" })),
        _ => Reply::says("Done."),
    });
    let Some(bench) = Bench::installed(api, "") else { return };
    let settings = json!({ "permissions": { "allow": ["Write"] } });
    std::fs::create_dir_all(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), settings.to_string()).unwrap();
    // In the place of the program, one that notes how it is called.
    let program = tempfile::tempdir().unwrap();
    let (file, calls) = (program.path().join("mahabharatha"), program.path().join("calls"));
    std::fs::write(&file, format!("#!/bin/sh\necho \"$2\" >> '{}'\n", calls.display())).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", program.path().display());
    let of_ours = |name: &str, talk: &crate::session::Talk| {
        let agents = ["scout", "product-owner", "architect", "worker", "gatekeeper"];
        let listed = talk.init()[name].as_array().unwrap().clone();
        let is_ours = |it: &str| it.starts_with("mahabharatha:") || it.starts_with("z:") || agents.contains(&it);
        listed.iter().filter(|it| is_ours(it.as_str().unwrap())).count()
    };
    let talk = bench.talk_with(&[("PATH", &path)], &["Write it."]);
    assert_eq!((of_ours("slash_commands", &talk), of_ours("agents", &talk)), (2 * NAMES.len(), 5));
    let called = std::fs::read_to_string(&calls).unwrap();
    assert!(called.contains("pre-tool-use") && called.contains("session-start"), "{called}");

    bench.run(&["install", "--remove"]).code(0);
    std::fs::remove_file(&calls).unwrap();
    std::fs::remove_file(bench.repo.join("new.txt")).unwrap();
    let talk = bench.talk_with(&[("PATH", &path)], &["Write it."]);
    assert_eq!((talk.errors(), bench.repo.read("new.txt")), (Vec::<String>::new(), "one".to_owned()));
    assert_eq!((of_ours("slash_commands", &talk), of_ours("agents", &talk)), (0, 0));
    assert!(!calls.exists(), "{}", std::fs::read_to_string(&calls).unwrap());
}

#[test]
fn the_task_tools_are_there() {
    let api = Api::start(|_| Reply::says("Understood."));
    let Some(bench) = Bench::installed(api, "") else { return };
    let has_tools = |talk: &crate::session::Talk| {
        let tools = talk.init()["tools"].as_array().unwrap().clone();
        ["TaskList", "TaskUpdate"].iter().all(|name| tools.contains(&json!(name)))
    };
    assert!(has_tools(&bench.talk(&["Hello."])));
}

#[test]
fn a_listed_task_cannot_be_marked_completed_before_it_is() {
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
    assert!(results[3].contains("A-1 is not completed: missing: out.txt, which the task must create"), "{results:#?}");
    assert!(results[5].contains("Updated task"), "{results:#?}");
    assert_ne!(bench.repo.task_status("A-1"), "completed");
}
