//! A graph goes in, merged code comes out.

use serde_json::json;

use crate::client::{Bench, SECRET, task};
use crate::messages_api::{Api, Reply, bash};
use crate::support::with;

#[test]
fn a_task_is_done_by_the_real_client() {
    let api = Api::start(|ask| match ask.turn() {
        0 => ask.write("src/a one.txt", "A-1\n"),
        1 => bash("grep -q A-1 'src/a one.txt'"),
        2 => bash("env"),
        _ => Reply::says("It is made."),
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.write("CLAUDE.md", "Use four spaces.\n");
    bench.repo.write(".claude/rules/security-python.md", "No eval.\n");
    bench.repo.write(".claude/rules/security-general.md", "No secrets.\n");
    // A project that would switch the guard off.
    bench
        .repo
        .write(".claude/settings.json", r#"{"permissions":{"allow":["Bash","Edit","Write"]},"disableAllHooks":true}"#);
    bench.repo.commit("project");
    let a = with(task("A-1", 1, "src/a one.txt"), json!({ "files": { "create": ["src/a one.txt"], "modify": [] } }));
    bench.repo.graph("x", &[a]);
    bench.run(&["run"]).code(0).says("x is completed");
    assert_eq!(bench.repo.tree("main")["src/a one.txt"], "A-1");
    eprintln!(
        "{:#?}",
        bench.events("A-1", &["session", "text", "tool_use", "tool_denied", "usage", "finished", "output"])
    );
    let first = &bench.api.asked()[0];
    eprintln!("{} bytes\n{}\n{}", first.bytes, first.system(), first.text());
    let task = bench.repo.task("A-1");
    assert!(task["cost_usd"].as_f64().unwrap() > 0.0 && task["tokens"].as_u64().unwrap() > 3_000, "{task}");
    assert!(!Bench::is_in_files(&bench.repo.path(), SECRET) && !Bench::is_in_files(bench.home(), SECRET));
}
