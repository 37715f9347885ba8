//! The hooks as the client calls them.

use serde_json::json;

use crate::client::Bench;
use crate::messages_api::{Api, Reply};

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
    let talk = bench.talk_with_path("/usr/bin:/bin", &["Write it."]);
    assert!(!bench.repo.exists("new.txt"));
    assert!(talk.errors()[0].contains("not found"), "{:?}", talk.errors());
    // With it, a session that has nothing to do with tasks is not bothered.
    let talk = bench.talk(&["Write it."]);
    assert_eq!((talk.errors(), &talk.asked), (Vec::<String>::new(), &Vec::new()));
    assert_eq!(bench.repo.read("new.txt"), "x");
}
