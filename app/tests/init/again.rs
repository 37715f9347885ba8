//! Once more, and beside what a person has: nothing of theirs is lost.

use serde_json::Value;

use crate::bench::Bench;
use crate::fixtures;

#[test]
fn files_that_the_user_changed_are_kept_and_the_new_version_goes_beside_them() {
    let bench = Bench::new(fixtures::GO);
    bench.run(&["init"]).code(0);
    bench.repo.write(".mahabharatha/config.yaml", "workers: { count: 2 }\n");
    bench.repo.write("pkg/more/more.go", "package more\n");
    let again = bench.run(&["init", "--force"]).code(0);
    let again = again.says("updated .gsd/INFRASTRUCTURE.md").says("Kept as you have them");
    again.says(".mahabharatha/config.yaml → .mahabharatha/config.yaml.new");
    assert_eq!(bench.repo.read(".mahabharatha/config.yaml"), "workers: { count: 2 }\n");
    assert!(bench.repo.read(".mahabharatha/config.yaml.new").contains("go test"));
    assert!(bench.repo.read(".gsd/INFRASTRUCTURE.md").contains("pkg/more"));
    let before = bench.repo.everything();
    bench.run(&["init", "--force"]).code(0).says("config.yaml.new");
    assert_eq!(bench.repo.everything(), before, "twice changes nothing");
}

#[test]
fn what_was_there_before_the_first_time_is_added_to_or_kept() {
    let bench = Bench::new(fixtures::GO);
    bench.repo.write("CLAUDE.md", "# House rules\n\nSpaces.\n");
    bench.repo.write(".claude/settings.json", "{ \"model\": \"opus\" }\n");
    bench.repo.write(".devcontainer/devcontainer.json", "{ \"image\": \"mine\" }\n");
    bench.repo.write(".devcontainer/Dockerfile", "FROM mine\n");
    bench.repo.write(".mahabharatha/config.yaml", "agent: command\n");
    bench.run(&["init"]).code(0).says("added to CLAUDE.md").says("added to .devcontainer/devcontainer.json");
    let json = |path: &str| -> Value { serde_json::from_str(&bench.repo.read(path)).unwrap() };
    assert!(bench.repo.read("CLAUDE.md").starts_with("# House rules\n\nSpaces.\n\n<!-- mahabharatha"));
    assert_eq!(json(".claude/settings.json")["model"], "opus");
    assert!(json(".claude/settings.json")["hooks"]["PreToolUse"].is_array());
    assert_eq!(json(".devcontainer/devcontainer.json")["image"], "mine");
    assert_eq!(bench.repo.read(".devcontainer/Dockerfile"), "FROM mine\n");
    assert_eq!(bench.repo.read(".mahabharatha/config.yaml"), "agent: command\n");
    assert!(
        bench.repo.exists(".mahabharatha/config.yaml.new") && !bench.repo.exists(".devcontainer/docker-compose.yaml")
    );
    let before = bench.repo.everything();
    bench.run(&["init", "--force"]).code(0);
    assert_eq!(bench.repo.everything(), before, "twice changes nothing");
}

#[test]
fn one_that_was_killed_is_finished_by_the_next() {
    for point in
        ["init .mahabharatha/config.yaml", "init CLAUDE.md", "write settings.json", "init .mahabharatha/init.json"]
    {
        let bench = Bench::new(fixtures::GO);
        let ended = bench.command(&["init"]).env("MAHABHARATHA_CRASH_AT", point).output().unwrap();
        assert_eq!(ended.status.code(), None, "{point}");
        bench.run(&["init"]).code(0).does_not_say("Already set up").does_not_say("Kept");
        let all = bench.repo.everything();
        let left: Vec<_> = all.keys().filter(|path| path.to_string_lossy().contains("unfinished")).collect();
        assert!(left.is_empty(), "{point}: {left:?}");
        for path in ["CLAUDE.md", ".claude/settings.json", ".claude/commands/z/init.md", ".mahabharatha/init.json"] {
            assert!(bench.repo.exists(path), "{point}: {path}");
        }
        bench.run(&["init"]).code(0).says("Already set up");
    }
}

#[test]
fn a_run_can_start_in_what_init_made() {
    let bench = Bench::new(&[("Makefile", "test:\n\ttest -e src/hello\n\nlint:\n\ttrue\n"), ("src/hello", "hello\n")]);
    bench.repo.git(&["config", "user.name", "A Person"]);
    bench.repo.git(&["config", "user.email", "person@example.com"]);
    bench.run(&["init"]).code(0).says("git commit");
    assert!(bench.repo.read(".mahabharatha/config.yaml").contains("command: make test"));
    bench.repo.graph("x", &[crate::support::simple("ONE", 1, "src/one")]);
    bench.repo.commit("set up");
    assert_eq!(bench.repo.git(&["status", "--porcelain"]), "");
    // `make` is found here, as it is not on the bare PATH.
    bench.repo.run(&["run", "x"]).code(0);
    assert_eq!(bench.repo.git(&["show", "main:src/one"]), "ONE");
}
