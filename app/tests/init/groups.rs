//! Which groups of files `init` writes, and that `install --remove` takes them out again.

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fixtures;

fn groups(outcome: &Value) -> Vec<&str> {
    let files = outcome["files"].as_array().unwrap().iter();
    let mut groups: Vec<&str> = files.map(|file| file["group"].as_str().unwrap()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[test]
fn flags_choose_what_is_written() {
    let all = ["agents", "claude-md", "commands", "config", "devcontainer", "hooks", "project", "record", "rules"];
    let bench = Bench::new(fixtures::GO);
    let before = bench.repo.everything();
    let planned = |args: &[&str]| {
        let outcome = bench.run(&[&["init", "--dry-run", "--json"], args].concat()).code(0).json();
        assert_eq!((&outcome["written"], &outcome["remove"]), (&json!(false), &json!("mahabharatha install --remove")));
        groups(&outcome).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(planned(&[]), all);
    assert_eq!(planned(&["--minimal"]), ["config"]);
    assert_eq!(planned(&["--only", "status-line"]), ["record", "status-line"]);
    assert_eq!(planned(&["--only", "rules,config"]), ["config", "rules"]);
    assert_eq!(
        planned(&["--without", "devcontainer,hooks,commands,agents"]),
        ["claude-md", "config", "project", "rules"]
    );
    bench.run(&["init", "--minimal", "--only", "rules"]).code(2);
    bench.run(&["init", "--only", "scaffold"]).code(2).says("devcontainer");
    assert_eq!(bench.repo.everything(), before, "a dry run writes nothing");

    bench.run(&["init", "--minimal"]).code(0).says("mahabharatha install --remove").does_not_say("hooks");
    assert!(bench.repo.exists(".mahabharatha/config.yaml"));
    for path in [".claude", ".devcontainer", "CLAUDE.md", ".gsd/INFRASTRUCTURE.md"] {
        assert!(!bench.repo.exists(path), "{path}");
    }
    bench.run(&["init", "--only", "claude-md"]).code(0).says("Already set up");
    bench.run(&["init", "--force", "--only", "claude-md"]).code(0);
    let text = bench.repo.read("CLAUDE.md");
    assert!(!text.contains(".claude/rules"), "what is not there is not named: {text}");
}

#[test]
fn removal_leaves_no_trace() {
    let bench = Bench::new(fixtures::GO);
    let before = bench.repo.everything();
    bench.run(&["init", "--status-line"]).code(0);
    assert!(bench.repo.read(".claude/settings.json").contains("status --line"));
    bench.run(&["init", "--force"]).code(0);
    bench.run(&["install", "--remove"]).code(0).says("files removed");
    assert_eq!(bench.repo.everything(), before);
}

#[test]
fn removal_gives_back_what_the_user_had_and_keeps_what_they_changed() {
    let bench = Bench::new(fixtures::GO);
    // Without a newline at its end.
    bench.repo.write("CLAUDE.md", "# House rules\n\nSpaces.");
    bench.repo.write(".claude/settings.json", "{ \"model\": \"opus\" }\n");
    bench.repo.write(".devcontainer/devcontainer.json", "{ \"image\": \"mine\" }\n");
    bench.repo.write(".devcontainer/Dockerfile", "FROM mine\n");
    let before = bench.repo.everything();
    bench.run(&["init"]).code(0);
    bench.run(&["install", "--remove"]).code(0);
    assert_eq!(bench.repo.everything(), before);

    bench.run(&["init"]).code(0);
    let config = bench.repo.read(".mahabharatha/config.yaml") + "# mine\n";
    bench.repo.write(".mahabharatha/config.yaml", &config);
    let removed = bench.run(&["install", "--remove", "--json"]).code(0).json();
    let kept: Vec<&Value> =
        removed["files"].as_array().unwrap().iter().filter(|file| file["action"] == "kept").collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(bench.repo.read(".mahabharatha/config.yaml"), config);
    assert_eq!(
        bench.repo.git(&["status", "--porcelain", "-uall", "--", ".mahabharatha"]),
        "?? .mahabharatha/config.yaml"
    );
}

#[test]
fn a_part_can_be_removed_and_what_a_run_left_stays_hidden() {
    let bench = Bench::new(fixtures::GO);
    bench.run(&["init"]).code(0);
    bench.run(&["install", "--remove", "--only", "devcontainer,hooks"]).code(0);
    assert!(!bench.repo.exists(".devcontainer") && !bench.repo.exists(".claude/settings.json"));
    assert!(bench.repo.exists(".claude/agents/worker.md") && bench.repo.exists("CLAUDE.md"));
    bench.repo.write(".mahabharatha/state/x.json", "{}");
    bench.run(&["install", "--remove"]).code(0);
    assert_eq!(bench.repo.git(&["status", "--porcelain", "-uall", "--", ".mahabharatha", ".claude", ".gsd"]), "");
    assert!(bench.repo.exists(".mahabharatha/state/x.json") && bench.repo.exists(".mahabharatha/.gitignore"));
}

#[test]
fn a_planted_record_removes_nothing_else() {
    let bench = Bench::new(fixtures::GO);
    bench.run(&["init"]).code(0);
    let text = bench.repo.read("go.mod");
    let record = bench.repo.read(".mahabharatha/init.json");
    let print = |path: &str| {
        let record: Value = serde_json::from_str(&record).unwrap();
        record["files"][path].as_str().unwrap().to_owned()
    };
    // Under the name of a file whose contents are known.
    std::fs::copy(bench.repo.join(".mahabharatha/.gitignore"), bench.repo.join("precious")).unwrap();
    let planted =
        format!("\"files\": {{ \"precious\": {0:?}, \".gsd/../precious\": {0:?},", print(".mahabharatha/.gitignore"));
    bench.repo.write(".mahabharatha/init.json", &record.replacen("\"files\": {", &planted, 1));
    bench.run(&["install", "--remove"]).code(0);
    assert!(bench.repo.exists("precious"));
    assert_eq!(bench.repo.read("go.mod"), text);
}
