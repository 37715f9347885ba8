//! What Claude Code is given: `install`, `validate-commands`.

use std::fs;

use serde_json::{Value, json};

use crate::support::Repo;

#[test]
fn commands_agents_and_hooks_are_put_in_place_and_hold_together() {
    let repo = Repo::new();
    let settings = "{\n    \"model\": \"opus\",\n    \"hooks\": { \"Stop\": [] }\n}\n";
    repo.write(".claude/settings.json", settings);
    let done = repo.run(&["install", "--json"]).code(0).json();
    assert_eq!((done["written"].as_array().unwrap().len(), &done["kept"]), (30, &json!([])));
    assert_eq!(repo.read(".claude/commands/z/plan.md"), repo.read(".claude/commands/mahabharatha/plan.md"));
    let merged: Value = serde_json::from_str(&repo.read(".claude/settings.json")).unwrap();
    assert_eq!(merged["model"], "opus");
    let hook = &merged["hooks"]["PreToolUse"][0]["hooks"][0]["command"];
    assert_eq!(hook, "mahabharatha hook pre-tool-use || exit 2");
    repo.run(&["validate-commands"]).code(0).says(".claude: 28 files hold together");

    let before = repo.everything();
    repo.run(&["install"]).code(0).says("0 files written, 30 files as they were");
    assert_eq!(repo.everything(), before);
}

#[test]
fn what_a_person_changed_is_kept_and_said() {
    let repo = Repo::new();
    repo.run(&["install"]).code(0);
    repo.write(".claude/commands/z/stop.md", "mine\n");
    let said = repo.run(&["install"]).code(0);
    assert!(said.stdout.contains("/.claude/commands/z/stop.md.new"), "{}", said.stdout);
    said.says("1 file that you changed kept");
    assert_eq!(repo.read(".claude/commands/z/stop.md"), "mine\n");
    let problems = repo.run(&["validate-commands", "--json"]).code(6).json();
    let messages: Vec<&str> =
        problems["problems"].as_array().unwrap().iter().map(|problem| problem["message"].as_str().unwrap()).collect();
    assert!(messages.contains(&"differs from its twin commands/mahabharatha/stop.md"), "{messages:?}");
    let said = repo.run(&["validate-commands", ".claude"]).code(6);
    assert!(said.stdout.contains("commands/z/stop.md:1: "), "{}", said.stdout);
}

#[test]
fn details_stand_in_the_commands_where_the_configuration_says_so() {
    let repo = Repo::new();
    repo.config("plugins: { context_engineering: { command_splitting: false } }\n");
    repo.run(&["install"]).code(0);
    assert!(!repo.exists(".claude/mahabharatha/kurukshetra.details.md"));
    assert!(repo.read(".claude/commands/z/kurukshetra.md").contains("## Task mode in detail"));
    repo.run(&["validate-commands"]).code(0);
}

#[test]
fn settings_that_are_not_json_are_named_and_nothing_is_changed() {
    let repo = Repo::new();
    repo.write(".claude/settings.json", "{\n  // mine\n}\n");
    let before = repo.everything();
    repo.run(&["install"]).code(6).says(".claude/settings.json:2:3: not valid JSON");
    assert_eq!(repo.everything(), before);
}

#[test]
fn for_all_projects_they_go_to_the_persons_own_directory() {
    let repo = Repo::empty();
    let home = repo.path();
    repo.run_with(&["install", "--user"], &[("HOME", home.to_str().unwrap()), ("CLAUDE_CONFIG_DIR", "")]).code(0);
    let text = repo.read(".claude/commands/z/kurukshetra.md");
    assert!(text.contains(&format!("`{}/.claude/mahabharatha/kurukshetra.details.md`", home.display())), "{text}");
    let elsewhere = home.join("elsewhere");
    let set = [("HOME", home.to_str().unwrap()), ("CLAUDE_CONFIG_DIR", elsewhere.to_str().unwrap())];
    repo.run_with(&["install", "--user"], &set).code(0);
    assert!(fs::metadata(elsewhere.join("settings.json")).is_ok());
    repo.run(&["validate-commands", "elsewhere"]).code(0);
    repo.run(&["validate-commands", "nowhere"]).code(2).says("mahabharatha install");
    // The hooks call the program by its name.
    let unseen = "is not on the PATH: the hooks make Claude Code refuse every write";
    repo.run_with(&["install", "--user"], &[set.as_slice(), &[("PATH", "/nowhere")]].concat()).code(0).says(unseen);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_mahabharatha")).parent().unwrap();
    let seen = [set.as_slice(), &[("PATH", program.to_str().unwrap())]].concat();
    repo.run_with(&["install", "--user"], &seen).code(0).does_not_say("PATH");
}
