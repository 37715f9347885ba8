//! What Claude Code is given: `install`, `validate-commands`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::Repo;
use crate::terminal::Terminal;

/// The paths with this action, in `--json` output.
fn with<'a>(done: &'a Value, action: &str) -> Vec<&'a str> {
    let files = done["files"].as_array().unwrap().iter().filter(|file| file["action"] == action);
    files.map(|file| file["path"].as_str().unwrap()).collect()
}

#[test]
fn commands_agents_and_hooks_are_put_in_place_and_hold_together() {
    let repo = Repo::new();
    let settings = "{\n    \"model\": \"opus\",\n    \"hooks\": { \"Stop\": [] }\n}\n";
    repo.write(".claude/settings.json", settings);
    let done = repo.run(&["install", "--json"]).code(0).json();
    assert_eq!((with(&done, "created").len(), with(&done, "merged")), (39, vec![".claude/settings.json"]));
    assert_eq!((&done["written"], &done["remove"]), (&json!(true), &json!("mahabharatha install --remove")));
    assert_eq!(repo.read(".claude/commands/z/plan.md"), repo.read(".claude/commands/mahabharatha/plan.md"));
    let merged: Value = serde_json::from_str(&repo.read(".claude/settings.json")).unwrap();
    assert_eq!(merged["model"], "opus");
    let hook = &merged["hooks"]["PreToolUse"][0]["hooks"][0]["command"];
    assert_eq!(hook, "if command -v mahabharatha >/dev/null 2>&1; then mahabharatha hook pre-tool-use || exit 2; fi");
    assert_eq!(merged["env"]["CLAUDE_CODE_ENABLE_TODO_TOOLS"], "1");
    repo.run(&["validate-commands"]).code(0).says(".claude: 38 files hold together");

    let before = repo.everything();
    let again = repo.run(&["install", "--json"]).code(0).json();
    assert_eq!(with(&again, "unchanged").len(), 40);
    repo.run(&["install"]).code(0).says("already up to date");
    assert_eq!(repo.everything(), before);
}

#[test]
fn files_that_the_user_changed_are_kept_and_reported() {
    let repo = Repo::new();
    repo.run(&["install"]).code(0).says("Remove them with: mahabharatha install --remove");
    repo.write(".claude/commands/z/stop.md", "mine\n");
    let said = repo.run(&["install"]).code(0);
    assert!(
        said.stdout.contains("kept .claude/commands/z/stop.md → .claude/commands/z/stop.md.new"),
        "{}",
        said.stdout
    );
    said.says("kept 1 file that you changed");
    assert_eq!(repo.read(".claude/commands/z/stop.md"), "mine\n");
    let problems = repo.run(&["validate-commands", "--json"]).code(6).json();
    let messages: Vec<&str> =
        problems["problems"].as_array().unwrap().iter().map(|problem| problem["message"].as_str().unwrap()).collect();
    assert!(messages.contains(&"differs from its twin commands/mahabharatha/stop.md"), "{messages:?}");
    let said = repo.run(&["validate-commands", ".claude"]).code(6);
    assert!(said.stdout.contains("commands/z/stop.md:1: "), "{}", said.stdout);
}

#[test]
fn groups_are_chosen_by_flags_and_a_dry_run_writes_nothing() {
    let repo = Repo::new();
    let before = repo.everything();
    let planned = repo.run(&["install", "--dry-run", "--json"]).code(0).says("commands").json();
    assert_eq!((planned["written"].as_bool(), with(&planned, "created").len()), (Some(false), 40));
    assert_eq!(repo.everything(), before);
    let groups = |args: &[&str]| {
        let done = repo.run(&[&["install", "--dry-run", "--json"], args].concat()).code(0).json();
        let mut groups: Vec<String> =
            done["files"].as_array().unwrap().iter().map(|file| file["group"].as_str().unwrap().to_owned()).collect();
        groups.dedup();
        groups.retain(|group| group != "record");
        groups.sort();
        groups.dedup();
        groups
    };
    assert_eq!(groups(&[]), ["agents", "commands", "hooks"]);
    assert_eq!(groups(&["--only", "agents,hooks"]), ["agents", "hooks"]);
    assert_eq!(groups(&["--without", "hooks"]), ["agents", "commands"]);
    assert_eq!(groups(&["--minimal"]), ["agents", "commands"]);
    assert_eq!(groups(&["--only", "status-line"]), ["status-line"]);
    assert_eq!(groups(&["--status-line"]), ["agents", "commands", "hooks", "status-line"]);
    assert_eq!(groups(&["--mcp"]), ["agents", "commands", "hooks", "mcp"]);
    assert_eq!(groups(&["--only", "mcp"]), ["mcp"]);
    repo.run(&["install", "--only", "rules"])
        .code(2)
        .says("install does not write the group rules")
        .says("init --force");
    repo.run(&["install", "--only", "everything"]).code(2).says("status-line");
    repo.run(&["install", "--only", "hooks", "--minimal"]).code(2);

    repo.run(&["install", "--only", "status-line"]).code(0).says("2 files written");
    let settings: Value = serde_json::from_str(&repo.read(".claude/settings.json")).unwrap();
    assert_eq!(settings.as_object().unwrap().keys().collect::<Vec<_>>(), ["statusLine"]);
    repo.write(".claude/settings.json", "{\"statusLine\": {\"type\": \"command\", \"command\": \"mine\"}}");
    repo.run(&["install", "--status-line"]).code(0).says("already has a statusLine; it was kept");
    assert!(repo.read(".claude/settings.json").contains("\"mine\""));
}

#[test]
fn the_mcp_server_is_added_to_the_projects_file_and_removed_again() {
    let repo = Repo::new();
    let mine = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n";
    repo.write(".mcp.json", mine);
    repo.commit("mine");
    let done = repo.run(&["install", "--mcp", "--json"]).code(0).json();
    assert!(with(&done, "merged").contains(&".mcp.json"), "{done}");
    let servers: Value = serde_json::from_str(&repo.read(".mcp.json")).unwrap();
    let ours = json!({ "type": "stdio", "command": "mahabharatha", "args": ["mcp"] });
    assert_eq!(servers["mcpServers"]["mahabharatha"], ours);
    repo.run(&["install", "--mcp"]).code(0).says("already up to date");
    // Without the flag it stays as it is.
    repo.run(&["install"]).code(0).says("already up to date");
    repo.run(&["install", "--remove"]).code(0);
    assert_eq!(repo.read(".mcp.json"), mine);
    assert_eq!(repo.git(&["status", "--porcelain", "-uall"]), "");

    repo.git(&["rm", "-q", ".mcp.json"]);
    repo.commit("none");
    repo.run(&["install", "--only", "mcp"]).code(0).says("2 files written");
    repo.run(&["install", "--remove", "--only", "mcp"]).code(0);
    assert!(!repo.exists(".mcp.json") && !repo.exists(".claude"));

    repo.write(".mcp.json", "{\"mcpServers\": {\"mahabharatha\": {\"command\": \"/opt/mbh\"}}}");
    repo.run(&["install", "--only", "mcp"]).code(0).says("already has a server mahabharatha; it was kept");
    repo.write(".mcp.json", "{");
    repo.run(&["install", "--mcp"]).code(6).says(".mcp.json:1:1: not valid JSON");
    assert!(!repo.exists(".claude/commands"), "all of it or nothing");
    repo.run(&["install", "--remove"]).code(0);
    repo.run(&["install", "--user", "--only", "mcp"]).code(2).says("claude mcp add --scope user");
}

#[test]
fn removal_leaves_no_trace_and_keeps_what_the_user_changed() {
    let repo = Repo::new();
    repo.write(".claude/settings.json", "{ \"model\":\"opus\" }");
    repo.write(".claude/agents/mine.md", "mine\n");
    repo.commit("mine");
    let before = repo.everything();
    repo.run(&["install", "--status-line"]).code(0);
    let planned = repo.run(&["install", "--remove", "--dry-run", "--json"]).code(0).json();
    assert_eq!(with(&planned, "removed").len(), 39);
    let merged: Vec<&Value> =
        planned["files"].as_array().unwrap().iter().filter(|file| file["action"] == "merged").collect();
    let entries =
        |group: &str| json!({ "group": group, "path": ".claude/settings.json", "action": "merged", "beside": null });
    assert_eq!(merged, [&entries("hooks"), &entries("status-line")]);
    repo.run(&["install", "--remove", "--only", "hooks"]).code(0);
    let settings: Value = serde_json::from_str(&repo.read(".claude/settings.json")).unwrap();
    assert_eq!(settings.as_object().unwrap().keys().collect::<Vec<_>>(), ["model", "statusLine"]);
    repo.run(&["install", "--remove"]).code(0).says("39 files removed");
    assert_eq!(repo.everything(), before);
    assert_eq!(repo.git(&["status", "--porcelain", "-uall"]), "");
    repo.run(&["install", "--remove"]).code(0).says("nothing of ours to remove");

    repo.run(&["install"]).code(0);
    repo.write(".claude/agents/worker.md", "mine\n");
    let settings = repo.read(".claude/settings.json").replace("\"opus\"", "\"haiku\"");
    repo.write(".claude/settings.json", &settings);
    let removed = repo.run(&["install", "--remove", "--json"]).code(0).json();
    assert_eq!(with(&removed, "kept"), [".claude/agents/worker.md"]);
    assert_eq!(repo.git(&["status", "--porcelain", "-uall"]), " M .claude/settings.json\n?? .claude/agents/worker.md");
    assert_eq!(repo.read(".claude/settings.json"), "{ \"model\":\"haiku\" }");
}

#[test]
fn where_nothing_was_before_nothing_is_left() {
    let repo = Repo::new();
    let before = repo.everything();
    repo.run(&["install"]).code(0);
    repo.run(&["install", "--remove"]).code(0);
    assert_eq!(repo.everything(), before);
    assert!(!repo.exists(".claude"));
    let home = repo.home().join("claude");
    let env = [("CLAUDE_CONFIG_DIR", home.to_str().unwrap())];
    repo.run_with(&["install", "--user"], &env).code(0).says("mahabharatha install --remove --user");
    repo.run_with(&["install", "--remove", "--user"], &env).code(0);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

#[test]
fn at_a_terminal_the_plan_is_shown_and_asked_about() {
    let repo = Repo::new();
    let before = repo.everything();
    let answer = |command: &str, line: &str| {
        let mut user = Terminal::open(&repo, command, &[("NO_COLOR", "1")]);
        if command == "install" {
            user.answer(&repo, "status line? [y/N]", "");
        }
        user.answer(&repo, "[y/N]", line);
        user.end()
    };
    let (code, shown) = answer("install", "n");
    assert_eq!(code, 0);
    let plan =
        ["create 33 files: .claude/commands/mahabharatha/ (15)", "create .claude/settings.json", "Write these files?"];
    assert!(plan.iter().all(|text| shown.contains(text)), "{shown}");
    assert_eq!(repo.everything(), before);
    assert_eq!(answer("install", "y").0, 0);
    assert!(repo.exists(".claude/settings.json"));
    assert!(!repo.read(".claude/settings.json").contains("statusLine"));
    let (code, shown) = answer("install --remove", "n");
    assert!(code == 0 && shown.contains("choose what is removed"), "{shown}");
    assert!(repo.exists(".claude/settings.json"));
    assert_eq!(answer("install --remove", "yes").0, 0);
    assert_eq!(repo.everything(), before);
    let (code, shown) = Terminal::open(&repo, "install --yes", &[("NO_COLOR", "1")]).end();
    assert!(code == 0 && !shown.contains("[y/N]"), "{shown}");
    // Nothing to do is nothing to ask about.
    let (code, shown) = Terminal::open(&repo, "install", &[("NO_COLOR", "1")]).end();
    assert!(code == 0 && shown.contains("already up to date"), "{shown}");
}

#[test]
fn commands_without_the_hooks_that_they_need_are_warned_about() {
    let repo = Repo::new();
    let warning = "`mahabharatha install --only hooks` adds them";
    for without in
        [&["install", "--minimal"][..], &["install", "--without", "hooks"], &["init", "--force", "--without", "hooks"]]
    {
        repo.run(without).code(0).says(warning);
    }
    repo.run(&["install", "--only", "agents"]).code(0).does_not_say(warning);
    repo.run(&["install", "--user", "--minimal"]).code(0).says("`mahabharatha install --user --only hooks` adds them");
    // The user's own hooks do for all projects.
    repo.run(&["install", "--user", "--only", "hooks"]).code(0);
    repo.run(&["install", "--minimal"]).code(0).does_not_say(warning);
    repo.run(&["install", "--remove", "--user"]).code(0);
    repo.run(&["install"]).code(0).does_not_say(warning);
    repo.run(&["install", "--minimal"]).code(0).does_not_say(warning);
}

#[test]
fn init_at_a_terminal_shows_its_plan_and_without_consent_writes_nothing() {
    let repo = Repo::new();
    fs::remove_dir_all(repo.join(".mahabharatha")).unwrap();
    let before = repo.everything();
    let mut user = Terminal::open(&repo, "init", &[("NO_COLOR", "1")]);
    user.answer(&repo, "Write these files? [y/N]", "n");
    let (code, shown) = user.end();
    assert_eq!(code, 0, "{shown}");
    for text in [
        "commands      create",
        "hooks         create .claude/settings.json",
        "config        create",
        "Nothing was changed",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert_eq!(repo.everything(), before);
}

#[test]
fn the_status_line_is_offered_where_there_is_none() {
    let repo = Repo::new();
    let mut user = Terminal::open(&repo, "install", &[("NO_COLOR", "1")]);
    user.answer(&repo, "Also show runs in Claude Code's status line? [y/N]", "y");
    user.answer(&repo, "Write these files? [y/N]", "y");
    let (code, shown) = user.end();
    assert!(code == 0 && shown.contains("status-line   create .claude/settings.json"), "{shown}");
    assert!(repo.read(".claude/settings.json").contains("mahabharatha status --line"));
    let offer = "mahabharatha install --only status-line";
    repo.run(&["install"]).code(0).does_not_say(offer);

    // Without a terminal, by a hint.
    repo.run(&["install", "--remove"]).code(0).does_not_say(offer);
    repo.run(&["install"]).code(0).says(offer);
    repo.run(&["install", "--without", "status-line"]).code(0).does_not_say(offer);
    repo.run(&["install", "--user"]).code(0).says("mahabharatha install --user --only status-line");
    // A project's status line would hide that of the user.
    let home = repo.home().join("claude");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("settings.json"), "{\"statusLine\": {\"type\": \"command\", \"command\": \"mine\"}}").unwrap();
    repo.run_with(&["install"], &[("CLAUDE_CONFIG_DIR", home.to_str().unwrap())]).code(0).does_not_say(offer);
}

#[test]
fn plugins_are_written_beside_other_files_and_hold_together() {
    let repo = Repo::new();
    repo.write("plugins/README.md", "mine\n");
    let before = repo.everything();
    let done = repo.run(&["install", "--plugin", "plugins", "--json"]).code(0).json();
    assert!(with(&done, "created").contains(&"mahabharatha/hooks/hooks.json"), "{done}");
    assert_eq!(repo.read("plugins/README.md"), "mine\n");
    assert_eq!(repo.read("plugins/z/commands/plan.md"), repo.read("plugins/mahabharatha/commands/plan.md"));
    assert!(!repo.exists("plugins/z/hooks") && !repo.exists("plugins/z/agents") && !repo.exists(".claude"));
    repo.run(&["validate-commands", "plugins"]).code(0).says("35 files hold together");
    let text = repo.read("plugins/z/commands/plan.md").replace("Agent(mahabharatha:scout)", "Agent(scout)");
    repo.write("plugins/z/commands/plan.md", &text);
    let problems = repo.run(&["validate-commands", "plugins", "--json"]).code(6).json();
    assert!(problems["problems"].to_string().contains("refers to the agent scout, which does not exist"), "{problems}");
    repo.run(&["install", "--plugin", "plugins"]).code(0).says("kept 1 file");
    fs::remove_file(repo.join("plugins/z/commands/plan.md")).unwrap();
    repo.run(&["install", "--remove", "--plugin", "plugins"]).code(0);
    assert_eq!(repo.everything(), before);
    repo.run(&["install", "--plugin", "plugins", "--user"]).code(2);
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
fn for_all_projects_they_go_to_the_users_own_directory() {
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
    let unseen = "is not on the PATH: the slash commands cannot call it, and the hooks do nothing";
    repo.run_with(&["install", "--user"], &[set.as_slice(), &[("PATH", "/nowhere")]].concat()).code(0).says(unseen);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_mahabharatha")).parent().unwrap();
    let seen = [set.as_slice(), &[("PATH", program.to_str().unwrap())]].concat();
    repo.run_with(&["install", "--user"], &seen).code(0).does_not_say("PATH");
}

/// Everything but git's own, which changes when its status is read.
fn files(repo: &Repo) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let git = repo.join(".git");
    repo.everything().into_iter().filter(|(path, _)| !path.starts_with(&git)).collect()
}

#[test]
fn an_install_that_was_killed_is_undone_by_the_next_command() {
    let settings = "install .claude/settings.json";
    for (args, point) in [
        (&["install"][..], "install .claude/commands/z/plan.md"),
        (&["install"], settings),
        (&["install"], "install .claude/mahabharatha/installed.json"),
        (&["install", "--plugin", "."], "install .claude-plugin/installed.json"),
    ] {
        let repo = Repo::new();
        repo.write(".claude/settings.json", "{ \"model\":\"opus\" }");
        repo.commit("mine");
        let before = files(&repo);
        repo.run_with(args, &[("MAHABHARATHA_CRASH_AT", point)]).code(-1);
        assert_ne!(files(&repo), before, "{point}");
        assert!(!repo.git(&["status", "--porcelain", "-uall"]).contains("unfinished"), "{point}");
        let remove = [args, &["--remove"]].concat();
        repo.run(&remove).code(0).says("interrupted").says("nothing of ours to remove");
        assert_eq!(files(&repo), before, "{point}");

        repo.run(args).code(0).does_not_say("interrupted");
        let installed = files(&repo);
        repo.run_with(&remove, &[("MAHABHARATHA_CRASH_AT", point)]).code(-1);
        assert_ne!(files(&repo), installed, "{point}");
        repo.run(&[args, &["--dry-run"]].concat()).code(0).does_not_say("interrupted");
        repo.run(args).code(0).says("already up to date");
        assert_eq!(files(&repo), installed, "{point}");
    }
}

#[test]
fn what_a_killed_install_left_is_undone_by_init_and_the_other_way_round() {
    let repo = Repo::new();
    fs::remove_dir_all(repo.join(".mahabharatha")).unwrap();
    let before = files(&repo);
    let killed = |args: &[&str], point: &str| {
        repo.run_with(args, &[("MAHABHARATHA_CRASH_AT", point)]).code(-1);
        assert!(repo.exists(".claude/agents/worker.md"));
    };
    killed(&["init"], "init .mahabharatha/init.json");
    repo.run(&["install", "--remove"]).code(0).says("nothing of ours to remove");
    assert_eq!(files(&repo), before);
    killed(&["install"], "install .claude/mahabharatha/installed.json");
    repo.run(&["init"]).code(0).does_not_say("Kept");
    repo.run(&["install", "--remove"]).code(0);
    assert_eq!(files(&repo), before);
}

#[test]
fn for_all_projects_too_a_killed_install_is_undone() {
    let repo = Repo::new();
    let home = repo.home().join("claude");
    let env = ("CLAUDE_CONFIG_DIR", home.to_str().unwrap());
    let crash = ("MAHABHARATHA_CRASH_AT", "install mahabharatha/installed.json");
    repo.run_with(&["install", "--user"], &[env, crash]).code(-1);
    repo.run_with(&["install", "--user", "--remove"], &[env]).code(0).says("nothing of ours to remove");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

#[test]
fn a_disk_that_fills_up_at_any_write_loses_nothing() {
    let repo = Repo::new();
    repo.write(".claude/settings.json", "{ \"model\":\"opus\" }");
    let args = ["install", "--only", "agents,hooks"];
    repo.run(&args).code(0);
    let installed = files(&repo);
    let counter = repo.home().join("counter");
    let mut was_left_to_the_next_command = false;
    for nth in 1.. {
        fs::write(&counter, format!("from {nth}\n")).unwrap();
        let env = [("MAHABHARATHA_TEST_FULL_DISK", counter.to_str().unwrap())];
        let ran = repo.run_with(&["install", "--remove"], &env);
        if ran.code == 0 {
            break;
        }
        ran.code(1).says("No space left");
        was_left_to_the_next_command |= files(&repo) != installed;
        repo.run(&args).code(0).says("already up to date");
        assert_eq!(files(&repo), installed, "after write {nth}");
    }
    assert!(was_left_to_the_next_command, "every change could be undone at once");
}
