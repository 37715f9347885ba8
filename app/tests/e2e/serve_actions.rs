//! What a person can do on the page, with and without permission.

use serde_json::{Value, json};

use crate::agents::held;
use crate::page::Page;
use crate::support::{Repo, simple, task};

/// Two tasks that ask, and one that depends on the second.
fn asking() -> Repo {
    let repo = Repo::new();
    repo.config("agent: command\nworkers: { count: 2 }\nretry: { max_attempts: 1 }\n");
    let asks = |id: &str, file: &str, why: &str| task(id, 1, file, &format!("echo '{why}'; exit 3"));
    repo.graph(
        "x",
        &[
            asks("A-1", "a1", "sqlite or postgres?"),
            asks("A-2", "a2", "NEEDS: types.rs — it has the type"),
            simple("B-1", 2, "b1"),
        ],
    );
    repo.run(&["run"]).code(3);
    repo
}

fn all(tree: &str) -> [Value; 5] {
    [
        json!({ "action": "retry", "task": "A-1", "note": "use sqlite" }),
        json!({ "action": "skip", "task": "A-1" }),
        json!({ "action": "grant", "task": "A-2", "paths": ["types.rs"] }),
        json!({ "action": "approve", "tree": tree }),
        json!({ "action": "stop" }),
    ]
}

#[test]
fn a_page_without_permission_changes_nothing() {
    let repo = asking();
    let page = Page::start(&repo, &[]);
    let before = repo.status();
    for action in all(&"a".repeat(40)) {
        let answer = page.act("x", &action);
        assert_eq!(answer.status, 403, "{action}: {}", answer.body);
        let said = answer.json();
        assert_eq!(said["code"], "read_only", "{said}");
        assert!(said["message"].is_string() && said["hint"].as_str().unwrap().contains("--allow-actions"), "{said}");
    }
    assert_eq!(repo.status(), before);
    assert!(page.get("").body.contains("{\"actions\":false,"));
}

#[test]
fn with_permission_it_does_what_the_commands_do() {
    let repo = asking();
    let page = Page::start(&repo, &["--allow-actions"]);
    assert!(page.get("").body.contains("{\"actions\":true,"));
    #[track_caller]
    fn done(page: &Page, action: Value, said: &str) {
        let answer = page.act("x", &action);
        assert_eq!(answer.status, 200, "{action}: {}", answer.body);
        assert!(answer.json()["said"].as_str().unwrap().contains(said), "{}", answer.body);
    }
    let [retry, skip, grant, _, _] = all("");
    done(&page, retry, "A-1: queued again. Go on with: mahabharatha run x");
    assert_eq!(repo.task_status("A-1"), "pending");
    assert!(repo.read(".gsd/STATE.md").contains("A-1: the user says: use sqlite"));
    done(&page, grant, "A-2: granted and queued again");
    assert_eq!(repo.task("A-2")["granted"], json!(["types.rs"]));
    done(&page, skip, "A-1: skipped");
    assert_eq!(repo.task("A-1")["reason"], "skipped on the page");
    done(&page, json!({ "action": "skip", "task": "A-2", "reason": "not now" }), "A-2: skipped");
    assert_eq!(repo.task("A-2")["reason"], "not now");
}

#[test]
fn a_grant_is_refused_as_by_the_command() {
    let repo = Repo::new();
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.write("file", "");
    std::os::unix::fs::symlink("file", repo.join("link")).unwrap();
    repo.commit("a link");
    repo.graph("x", &[task("A-1", 1, "a1", "echo 'NEEDS: link — it has the type'; exit 3")]);
    repo.run(&["run"]).code(3);
    let page = Page::start(&repo, &["--allow-actions"]);
    for path in ["link", "file/x", "../outside"] {
        let answer = page.act("x", &json!({ "action": "grant", "task": "A-1", "paths": ["fine", path] }));
        assert_eq!((answer.status, &answer.json()["code"]), (409, &json!("refused")), "{path}: {}", answer.body);
        let message = answer.json()["message"].as_str().unwrap().to_string();
        assert!(message.ends_with("; nothing is granted"), "{message}");
        repo.run(&["task", "grant", "A-1", "fine", path]).code(2).says(&message);
    }
    assert_eq!((repo.task_status("A-1"), &repo.task("A-1")["granted"]), ("blocked".to_string(), &Value::Null));
}

#[test]
fn a_level_is_approved_as_it_was_shown() {
    let repo = Repo::new();
    repo.config("merge: { approval: level }\n");
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["run"]).code(9);
    let page = Page::start(&repo, &["--allow-actions"]);
    let tree = page.json("api/features/x/status")["levels"][0]["awaits_approval"]["tree"].clone();
    for wrong in [json!("a".repeat(40)), json!(""), json!("../x"), json!("main")] {
        let answer = page.act("x", &json!({ "action": "approve", "tree": wrong }));
        assert_eq!((answer.status, &answer.json()["code"]), (409, &json!("refused")), "{wrong}: {}", answer.body);
    }
    let answer = page.act("x", &json!({ "action": "approve", "tree": tree }));
    assert!(answer.json()["said"].as_str().unwrap().contains("level 1 is approved"), "{}", answer.body);
    assert!(answer.json()["said"].as_str().unwrap().ends_with("and merged. x is completed"), "{}", answer.body);
    assert!(repo.tree("main").contains_key("a1"), "approving merges, as the command that is shown does");
    let late = page.act("x", &json!({ "action": "approve", "tree": tree }));
    assert_eq!(late.status, 409, "{}", late.body);
}

#[test]
fn a_run_is_stopped_and_its_work_is_kept() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let page = Page::start(&repo, &["--allow-actions"]);
    let busy = page.act("x", &json!({ "action": "retry", "task": "A-1" }));
    assert_eq!((busy.status, &busy.json()["code"]), (409, &json!("refused")), "{}", busy.body);
    let answer = page.act("x", &json!({ "action": "stop" }));
    assert_eq!(answer.json()["said"], "stopped; its work is kept", "{}", answer.body);
    run.wait().code(130);
    assert_eq!(page.json("api/features/x/status")["status"], "paused");
    let again = page.act("x", &json!({ "action": "stop" }));
    assert_eq!(again.json()["said"], "nothing runs for x", "{}", again.body);
}

#[test]
fn what_is_no_action_is_refused() {
    let repo = asking();
    let page = Page::start(&repo, &["--allow-actions"]);
    let before = repo.status();
    let host = page.host();
    let path = page.path("api/features/x/actions");
    let post = |kind: &str, body: &str| page.request("POST", &path, &[("Host", &host), ("Content-Type", kind)], body);
    let stop = r#"{"action":"stop"}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"] {
        assert_eq!(post(kind, stop).status, 415, "{kind}");
    }
    let bad = [
        "",
        "{",
        "[]",
        "null",
        r#"{"action":"undo"}"#,
        r#"{"action":"retry"}"#,
        r#"{"action":"retry","task":["A-1"]}"#,
        r#"{"action":"stop","force":true}"#,
    ];
    for body in bad {
        let answer = post("application/json; charset=utf-8", body);
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("bad_request")), "{body}: {}", answer.body);
    }
    let large = json!({ "action": "retry", "task": "A-1", "note": "x".repeat(64 << 10) }).to_string();
    assert_eq!(post("application/json", &large).status, 413);
    for (feature, action, status) in [
        ("y", json!({ "action": "stop" }), 404),
        ("..%2fx", json!({ "action": "stop" }), 404),
        ("x", json!({ "action": "retry", "task": "A-9" }), 404),
        ("x", json!({ "action": "retry", "task": "../A-1" }), 404),
        ("x", json!({ "action": "grant", "task": "A-1", "paths": ["../outside"] }), 409),
        ("x", json!({ "action": "grant", "task": "A-1", "paths": [".git/config"] }), 409),
        ("x", json!({ "action": "grant", "task": "A-1", "paths": [""] }), 409),
        ("x", json!({ "action": "retry", "task": "A-1", "note": "x".repeat(20_000) }), 409),
    ] {
        let answer = page.act(feature, &action);
        assert_eq!(answer.status, status, "{feature} {action}: {}", answer.body);
        assert!(answer.json()["message"].is_string());
    }
    assert_eq!(page.request("GET", &path, &[("Host", &host)], "").status, 405);
    // A run remembers what it refused.
    assert_eq!(repo.status()["tasks"], before["tasks"]);
}
