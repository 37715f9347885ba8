use super::*;

const ALL: Entries = Entries { hooks: true, status_line: true };
const HOOKS_ONLY: Entries = Entries { hooks: true, status_line: false };

fn added_to(old: Option<&str>, entries: Entries) -> Result<(Option<String>, Added)> {
    let mut added = Added::default();
    let edited = add(Path::new("settings.json"), old, entries, &mut added)?;
    let text = match edited.result {
        Edited::Text(text) => Some(text),
        _ => None,
    };
    Ok((text, added))
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn hooks_do_nothing_without_the_program_and_only_two_may_deny() {
    let (text, _) = added_to(None, HOOKS_ONLY).unwrap();
    let settings = value(&text.unwrap());
    let commands: Vec<(String, u64)> = settings["hooks"]
        .as_object()
        .unwrap()
        .values()
        .map(|groups| &groups[0]["hooks"][0])
        .map(|hook| (hook["command"].as_str().unwrap().to_owned(), hook["timeout"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("pre-tool-use || exit 2", 30),
        ("post-tool-use || true", 30),
        ("subagent-stop || true", 30),
        ("stop || true", 30),
        ("task-completed || exit 2", 600),
        ("session-start || true", 30),
        ("session-end || true", 30),
    ];
    let expected = expected.map(|(end, seconds)| {
        (format!("if command -v mahabharatha >/dev/null 2>&1; then mahabharatha hook {end}; fi"), seconds)
    });
    assert_eq!(commands, expected);
    assert_eq!(
        settings["hooks"]["PreToolUse"][0]["matcher"],
        "Write|Edit|MultiEdit|NotebookEdit|Bash|mcp__mahabharatha__.*"
    );
    assert_eq!(settings["hooks"]["PostToolUse"][0]["matcher"], "Agent|Task");
    assert_eq!(settings["env"], json!({ "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1" }));
    assert_eq!(plugin_hooks()["hooks"], settings["hooks"]);
}

#[test]
fn existing_text_stays_byte_for_byte_and_removal_restores_it() {
    for old in [
        "{\n\t\"z\": 1.50,\n\t\"hooks\": {\n\t\t\"Stop\": [],\n\t\t\"PreToolUse\": [\n\t\t\t{ \"matcher\": \"Bash\", \"hooks\": [] }\n\t\t]\n\t},\n\t\"a\": \"ü\"\n}\n",
        "{\"model\":\"opus\",\"env\":{\"A\":\"1\"}}",
        "{ }\n",
        "{\r\n  \"hooks\": {\r\n  },\r\n  \"a\": 1\r\n}\r\n",
        "{\n    \"permissions\": { \"allow\": [\"Bash(ls)\",  \"Read\"] }\n}",
    ] {
        let (new, mut added) = added_to(Some(old), ALL).unwrap();
        let new = new.unwrap();
        let settings = value(&new);
        for (key, theirs) in
            value(old).as_object().unwrap().iter().filter(|(key, _)| !["hooks", "env"].contains(&key.as_str()))
        {
            assert_eq!(&settings[key], theirs);
        }
        assert!(settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap().contains("hook stop"), "{new}");
        assert_eq!(added_to(Some(&new), ALL).unwrap().0, None, "a second time changes nothing");
        let removed = remove(Path::new("settings.json"), &new, ALL, &mut added).unwrap();
        assert_eq!(removed, Edit { result: Edited::Text(old.to_owned()), changed: ALL });
    }
}

#[test]
fn our_file_is_removed_unless_the_user_added_to_it() {
    let (new, added) = added_to(None, ALL).unwrap();
    let new = new.unwrap();
    let remove = |text: &str, entries| remove(Path::new("s"), text, entries, &mut added.clone()).unwrap();
    assert_eq!(remove(&new, ALL), Edit { result: Edited::Gone, changed: ALL });
    assert_eq!(remove("{}", HOOKS_ONLY), Edit { result: Edited::Gone, changed: HOOKS_ONLY });
    let theirs = new.replacen("{\n", "{\n  \"model\": \"opus\",\n", 1);
    let Edited::Text(left) = remove(&theirs, ALL).result else { panic!("gone") };
    assert_eq!(left, "{\n  \"model\": \"opus\"\n}\n");
    let Edited::Text(left) = remove(&new, HOOKS_ONLY).result else { panic!() };
    assert_eq!(value(&left).as_object().unwrap().keys().collect::<Vec<_>>(), ["statusLine"]);
}

#[test]
fn different_values_of_the_user_stay() {
    let by_hand = |command: &str| json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let settings = json!({
        "hooks": {
            "PreToolUse": by_hand("/opt/bin/mahabharatha hook pre-tool-use"),
            "PostToolUse": by_hand("mahabharatha hook post-tool-use"),
            "SubagentStop": by_hand("mahabharatha hook subagent-stop; true"),
            "Stop": by_hand("cd / && mahabharatha hook stop"),
            "TaskCompleted": by_hand("mahabharatha hook task-completed; exit 0"),
            "SessionStart": by_hand("mahabharatha hook session-start"),
            "SessionEnd": by_hand("mahabharatha hook session-end"),
        },
        "env": { "CLAUDE_CODE_ENABLE_TODO_TOOLS": "0" },
        "statusLine": { "type": "command", "command": "mine" },
    })
    .to_string();
    let (new, mut added) = added_to(Some(&settings), ALL).unwrap();
    assert_eq!((new, added.is_nothing()), (None, true));
    assert!(has_other_status_line(&value(&settings)));
    let unchanged = Edit { result: Edited::Unchanged, changed: Entries::default() };
    assert_eq!(remove(Path::new("s"), &settings, ALL, &mut added).unwrap(), unchanged);
}

#[test]
fn invalid_settings_are_an_error_that_names_the_place() {
    for (text, place) in [
        ("{\n  \"a\": 1,\n}", "settings.json:3:1: not valid JSON"),
        ("[]", "the file is not an object"),
        ("{\"hooks\": 3}", "hooks is not an object"),
        ("{\"hooks\": {\"PreToolUse\": {}}}", "hooks.PreToolUse is not a list"),
        ("{\"env\": []}", "env is not an object"),
    ] {
        let error = added_to(Some(text), ALL).unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.message().contains(place), "{error}");
    }
}
