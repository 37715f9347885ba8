//! The page's server: who is let in, what it tells, live, with many connections, and how it ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::agents::{doing, held};
use crate::page::Page;
use crate::support::{Repo, simple, task, with};

const HOSTILE: &str = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)>";

/// A feature whose run is completed.
fn completed() -> Repo {
    let repo = Repo::new();
    repo.graph("x", &[with(simple("A-1", 1, "src/a.rs"), json!({ "title": HOSTILE })), simple("B-1", 2, "b1")]);
    repo.commit("a spec");
    repo.run(&["run"]).code(0);
    repo
}

/// Methods and addresses of each kind.
fn addresses(page: &Page) -> Vec<(&'static str, String)> {
    let get = ["", "app.css", "app.js", "api/features", "api/features/x/status", "api/features/x/events", "nowhere"];
    let get = get.into_iter().map(|path| ("GET", page.path(path)));
    get.chain([("POST", page.path("api/features/x/actions"))]).collect()
}

#[test]
fn requests_without_the_token_get_nothing() {
    let repo = completed();
    let page = Page::start(&repo, &["--allow-actions"]);
    let (host, other) = (page.host(), "f".repeat(32));
    let origin = format!("http://{host}");
    let evil = format!("evil.example:{}", page.port);
    for (method, path) in addresses(&page) {
        let elsewhere = path.replace(&page.token, &other);
        let without = path.replace(&format!("/{}", page.token), "");
        let strange: [(&str, &[(&str, &str)]); 9] = [
            (&elsewhere, &[("Host", &host)]),
            (&without, &[("Host", &host)]),
            (&path, &[]),
            (&path, &[("Host", &evil)]),
            (&path, &[("Host", "127.0.0.1")]),
            (&path, &[("Host", &host), ("Host", &evil)]),
            (&path, &[("Host", &host), ("Origin", "http://evil.example")]),
            (&path, &[("Host", &host), ("Origin", "null")]),
            (&path, &[("Host", &host), ("Origin", &origin), ("Origin", "http://evil.example")]),
        ];
        for (path, headers) in strange {
            let json = [headers, &[("Content-Type", "application/json")]].concat();
            let answer = page.request(method, path, &json, r#"{"action":"stop"}"#);
            // The server refuses a request without or with two hosts before it is ours.
            assert!(matches!(answer.status, 400 | 403), "{method} {path} {headers:?}: {}", answer.status);
            assert!(answer.body.lines().count() <= 1 && !answer.body.contains("A-1"), "{}", answer.body);
            assert!(!answer.body.contains(&page.token), "{}", answer.body);
        }
    }
    assert_eq!(page.get("").status, 200);
    let bare = page.request("GET", &format!("/{}", page.token), &[("Host", &host)], "");
    assert_eq!((bare.status, bare.header("location")), (308, Some(page.path("").as_str())));
}

#[test]
fn every_answer_has_the_headers_that_keep_it_in() {
    let repo = completed();
    let page = Page::start(&repo, &[]);
    let answers = [
        page.get(""),
        page.get("app.js"),
        page.get("api/features"),
        page.get("nowhere"),
        page.get("api/features/y/status"),
    ];
    let refused = page.request("GET", "/", &[("Host", &page.host())], "");
    let wrong_method = page.request("DELETE", &page.path("api/features"), &[("Host", &page.host())], "");
    assert_eq!((refused.status, wrong_method.status), (403, 405));
    for answer in answers.iter().chain([&refused, &wrong_method]) {
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name} of {}", answer.body);
        }
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    for (path, kind) in [
        ("", "text/html"),
        ("app.css", "text/css"),
        ("app.js", "text/javascript"),
        ("api/features", "application/json"),
    ] {
        assert!(page.get(path).header("content-type").unwrap().starts_with(kind), "{path}");
    }
}

#[test]
fn the_page_begins_with_the_status_and_hostile_text_stays_data() {
    let repo = completed();
    let page = Page::start(&repo, &[]);
    let html = page.get("").body;
    let open = "<script type=\"application/json\" id=\"first\">";
    let (_, first) = html.split_once(open).unwrap();
    let (first, rest) = first.split_once("</script>").unwrap();
    assert!(!first.contains('<') && !rest.contains("alert("), "{html}");
    let first: Value = serde_json::from_str(first).unwrap();
    assert_eq!(first["actions"], false);
    assert_eq!(first["features"], repo.run(&["list", "--json"]).json());
    assert_eq!(first["status"], repo.status());
    assert_eq!(first["status"]["tasks"][0]["title"], HOSTILE);
}

#[test]
fn a_large_status_comes_after_the_first_paint() {
    let repo = Repo::new();
    let many: Vec<Value> = (0..200).map(|n| simple(&format!("T-{n}"), 1, &format!("f{n}"))).collect();
    repo.graph("x", &many);
    let page = Page::start(&repo, &[]);
    let html = page.get("").body;
    let (_, first) = html.split_once("id=\"first\">").unwrap();
    let first: Value = serde_json::from_str(first.split_once("</script>").unwrap().0).unwrap();
    assert_eq!((&first["status"]["tasks"], &first["status"]["levels"][0]["total"]), (&json!([]), &json!(200)));
    let needed = ["app.css", "app.js", "dom.js", "words.js", "parts.js"].map(|file| page.get(file).body.len());
    let bytes = html.len() + needed.iter().sum::<usize>();
    assert!(bytes < 100_000, "{bytes} bytes before the first paint");
    let next = page.events("api/features/x/events", None).next().unwrap();
    assert_eq!(next.json()["tasks"].as_array().unwrap().len(), 200);
}

#[test]
fn connections_beyond_the_limit_wait_for_a_place() {
    let repo = completed();
    let page = Page::start(&repo, &[]);
    let mut open: Vec<_> = (0..256).map(|_| page.events("api/features/x/events", None)).collect();
    let mut late = page.connect();
    let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", page.path("api/features"), page.host());
    late.write_all(request.as_bytes()).unwrap();
    late.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(late.read(&mut [0; 1]).is_err(), "no answer while all places are taken");
    open.pop();
    late.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
}

#[test]
fn what_does_not_come_in_time_is_not_waited_for() {
    let repo = completed();
    let page = Page::start(&repo, &["--allow-actions"]);
    // A body that does not come.
    let path = page.path("api/features/x/actions");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{{",
        page.host()
    );
    let body = page.send(head.as_bytes());
    assert_eq!((body.status, body.json()["code"].as_str()), (408, Some("too_slow")));
    // A head that does not end.
    let mut slow = page.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(!answer.contains(" 200 "), "{answer}");
}

#[test]
fn it_tells_what_the_commands_tell() {
    let repo = completed();
    repo.write("src/a.rs", "fn a() {}\n");
    repo.graph("planned", &[simple("P-1", 1, "p")]);
    let page = Page::start(&repo, &[]);
    assert_eq!(page.json("api/features"), repo.run(&["list", "--json"]).json());
    for feature in ["x", "planned"] {
        let status = repo.run(&["status", feature, "--json"]).json();
        assert_eq!(page.json(&format!("api/features/{feature}/status")), status);
        let file: Value = serde_json::from_str(&repo.read(&format!(".gsd/specs/{feature}/task-graph.json"))).unwrap();
        let graph = page.json(&format!("api/features/{feature}/graph"));
        let ids = |tasks: &Value| tasks.as_array().unwrap().iter().map(|task| task["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&graph["tasks"]), ids(&file["tasks"]));
        assert_eq!(graph["tasks"][0]["verification"]["command"], file["tasks"][0]["verification"]["command"]);
    }
    let detail = page.json("api/features/x/tasks/A-1");
    assert_eq!(detail["task"], repo.run(&["status", "x", "--json"]).json()["tasks"][0]);
    assert_eq!(detail["spec"]["title"], HOSTILE);
    assert_eq!(detail["verification"]["command"], "test -e 'src/a.rs'");
    assert!(detail["verification"]["output"].as_str().unwrap().contains("passed"), "{detail}");
    let lines = page.json("api/features/x/log?task=A-1")["lines"].clone();
    let printed = repo.run(&["logs", "x", "--task", "A-1", "--json"]).stdout;
    let printed: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, json!(printed));
    assert_eq!(page.json("api/features/x/report")["text"], repo.read(".gsd/specs/x/COMPLETION.md"));
    assert_eq!(page.json("api/features/planned/report")["text"], Value::Null);
    let planned = page.json("api/features/planned/tasks/P-1");
    assert_eq!((&planned["task"]["status"], &planned["spec"]["id"]), (&json!("pending"), &json!("P-1")));
    assert_eq!(page.get("api/features/planned/tasks/P-2").json()["code"], "unknown_task");
    assert_eq!(page.get("api/features/planned/tasks/P-1/diff").json()["code"], "no_run");
    for rest in ["", "/diff", "/output"] {
        let answer = page.get(&format!("api/features/x/tasks/A-1{rest}?attempt=99"));
        assert_eq!((answer.status, &answer.json()["message"]), (404, &json!("A-1 has no attempt 99")), "{rest}");
    }
    let level = page.json("api/features/x/diff?level=1");
    assert_eq!((&level["source"], &level["files"][0]["path"]), (&json!("level"), &json!("src/a.rs")));
    assert_eq!(level["files"][0]["owned"], true);
    assert_eq!(page.get("api/features/x/diff?level=9").status, 404);
}

#[test]
fn a_diff_has_classes_and_says_what_is_owned() {
    let repo = Repo::new();
    repo.write("src/a.rs", "fn a() { one() }\n");
    repo.write("long.txt", &"line\n".repeat(10));
    repo.commit("code");
    let script = "echo 'fn a() { two() }' > src/a.rs; echo x > stray; seq 3000 > long.txt; printf '\\0\\1' > raw; \
                  seq 7000 > huge.txt; seq 3000 > \"$(printf 'odd\\033\\342\\200\\256name')\"; printf '%05000d' 7 > wide.txt";
    let owned = json!({ "create": ["raw"], "modify": ["src/a.rs", "long.txt"], "read": [] });
    let asks = format!("{script}; echo 'which?'; exit 3");
    repo.config("agent: command\nretry: { max_attempts: 1 }\n");
    repo.graph("x", &[with(task("A-1", 1, "raw", &asks), json!({ "files": owned }))]);
    repo.run(&["run"]).code(3);
    let page = Page::start(&repo, &[]);
    let diff = page.json("api/features/x/tasks/A-1/diff?attempt=1");
    let file = |path: &str| diff["files"].as_array().unwrap().iter().find(|file| file["path"] == path).unwrap();
    let code = file("src/a.rs");
    assert_eq!((&code["owned"], &code["status"], &code["added"]), (&json!(true), &json!("modified"), &json!(1)));
    let lines = &code["hunks"][0]["lines"];
    assert_eq!(
        lines[1],
        json!({ "kind": "+", "old": null, "new": 1, "parts": [["kw", "fn"], ["", " a() { "], ["in", "two"], ["", "() }"]] })
    );
    assert_eq!((&file("stray")["owned"], &file("stray")["status"]), (&json!(false), &json!("added")));
    assert_eq!((&file("raw")["binary"], &file("raw")["hunks"]), (&json!(true), &json!([])));
    assert_eq!((&file("long.txt")["folded"], &file("long.txt")["hunks"]), (&json!(true), &json!([])));
    let one = page.json("api/features/x/tasks/A-1/diff?attempt=1&file=long.txt");
    assert_eq!((one["files"].as_array().unwrap().len(), &one["files"][0]["folded"]), (1, &json!(false)));
    assert!(one["files"][0]["hunks"][0]["lines"].as_array().unwrap().len() > 3_000);
    assert_eq!(one["files"][0]["left_out"], 0);
    // Nothing is cut without a mark.
    let wide = file("wide.txt")["hunks"][0]["lines"][0]["parts"].as_array().unwrap().last().unwrap();
    assert_eq!(wide, &json!(["cut", "… 3000 more characters"]));
    let huge = &page.json("api/features/x/tasks/A-1/diff?attempt=1&file=huge.txt")["files"][0];
    assert_eq!(huge["left_out"], 2_000);
    assert_eq!(huge["hunks"][0]["lines"].as_array().unwrap().len(), 5_000);
    // A file can be asked for by the name that the answer has.
    let odd = diff["files"].as_array().unwrap().iter().find(|file| file["path"].as_str().unwrap().starts_with("odd"));
    let path = odd.unwrap()["path"].as_str().unwrap();
    assert!(path.contains("<U+202E>"), "{path}");
    let encoded: String = path.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let named = page.json(&format!("api/features/x/tasks/A-1/diff?attempt=1&file={encoded}"));
    assert_eq!((&named["files"][0]["path"], &named["files"][0]["folded"]), (&json!(path), &json!(false)));
}

#[test]
fn what_is_left_out_of_output_and_log_is_said() {
    let repo = Repo::new();
    let script = "seq -f '%06g of many lines' 6000; printf '\\033[31mred\\033[0m\\n'; echo A-1 > a1";
    repo.graph("x", &[doing("A-1", 1, "a1", script), doing("B-1", 1, "b1", "echo few; echo B-1 > b1")]);
    repo.run(&["run"]).code(0);
    let page = Page::start(&repo, &[]);
    let first = |task: &str| page.events(&format!("api/features/x/tasks/{task}/output"), None).next().unwrap().json();
    let (many, few) = (first("A-1"), first("B-1"));
    assert_eq!((&many["left_out"], &few["left_out"]), (&json!(true), &json!(false)));
    let texts = |lines: &Value, field: &str| -> Vec<String> {
        lines.as_array().unwrap().iter().map(|line| line[field].as_str().unwrap_or_default().to_string()).collect()
    };
    assert!(!texts(&many["lines"], "text").contains(&"000001 of many lines".to_string()));
    assert!(texts(&many["lines"], "text").contains(&"red".to_string()));
    let log = page.json("api/features/x/log?task=A-1");
    assert!(log["left_out"].as_u64().unwrap() > 900, "{}", log["left_out"]);
    assert!(
        texts(&log["lines"], "message").contains(&"red".to_string()),
        "control characters are removed as in the output"
    );
    let events = page.json("api/features/x/log?task=A-1&output=false");
    assert_eq!(events["left_out"], 0);
    let names = texts(&events["lines"], "event");
    assert!(names.contains(&"agent_started".to_string()) && !names.contains(&"output".to_string()), "{names:?}");
}

#[test]
fn the_log_of_a_gate_can_be_read() {
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: test, command: 'echo all is well' }]\n");
    repo.commit("config");
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["run"]).code(0);
    let page = Page::start(&repo, &[]);
    let status = page.json("api/features/x/status");
    let gate = status["gates"].as_array().unwrap().iter().find(|gate| gate["at"] == "1").unwrap();
    let name = gate["log"].as_str().unwrap().rsplit('/').next().unwrap();
    let events: Vec<_> = page.events(&format!("api/features/x/gates/{name}"), None).collect();
    assert_eq!(events.iter().map(|event| event.event.as_str()).collect::<Vec<_>>(), ["lines", "end"]);
    assert!(events[0].data.contains("all is well") && events[0].data.contains("$ echo all is well"), "{events:?}");
    for wrong in ["none", "..", "..%2f..%2fstate", "%2fetc%2fpasswd"] {
        assert_eq!(page.get(&format!("api/features/x/gates/{wrong}")).status, 404, "{wrong}");
    }
}

#[test]
fn a_run_is_followed_live_and_a_lost_connection_catches_up() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    let page = Page::start(&repo, &[]);
    // Before the run there is a plan.
    let mut events = page.events("api/features/x/events", None);
    let first = events.next().unwrap();
    assert_eq!((first.event.as_str(), first.id.as_str()), ("status", "0-1"));
    assert_eq!((&first.json()["status"], first.json()["tasks"].as_array().unwrap().len()), (&json!("designed"), 3));
    // The design changes without an event in the journal while the connection is lost.
    drop(events);
    let tasks = [held("A-1", 1, "a1"), held("A-2", 1, "a2"), simple("B-1", 2, "b1")];
    repo.graph("x", &tasks.map(|task| with(task, json!({ "title": "New title" }))));
    let mut events = page.events("api/features/x/events", Some(&first.id));
    let changed = events.next().unwrap();
    assert_eq!(changed.json()["tasks"][0]["title"], "New title", "{changed:?}");
    let run = repo.run_until_up(&["A-1", "A-2"]);
    let is = |event: &Value, task: &str, status: &str| {
        event["tasks"].as_array().unwrap().iter().any(|known| known["id"] == task && known["status"] == status)
    };
    let running = events.by_ref().find(|event| is(&event.json(), "A-1", "in_progress")).unwrap();
    assert!(!is(&running.json(), "B-1", "completed"));
    repo.let_go("A-1");
    let done = events.by_ref().find(|event| is(&event.json(), "A-1", "completed")).unwrap();
    assert!(!is(&done.json(), "B-1", "pending"), "a task that did not change is not sent again: {done:?}");
    drop(events);
    repo.let_go("all");
    let mut again = page.events("api/features/x/events", Some(&running.id));
    let missed = again.next().unwrap();
    assert_eq!(missed.json()["tasks"].as_array().unwrap().len(), 3, "{missed:?}");
    let is_end = |event: &Value| event["status"] == "completed";
    let end = if is_end(&missed.json()) { missed } else { again.find(|event| is_end(&event.json())).unwrap() };
    run.wait().code(0);
    let latest = page.events("api/features/x/events", None).next().unwrap();
    let mut current = page.events("api/features/x/events", Some(&latest.id));
    let nothing = current.next().unwrap();
    assert_eq!((&nothing.json()["tasks"], &nothing.id), (&json!([]), &latest.id));
    let seq = |id: &str| id.split_once('-').unwrap().0.parse::<u64>().unwrap();
    assert!(seq(&end.id) <= seq(&latest.id));
}

#[test]
fn the_output_of_an_agent_comes_as_it_is_said() {
    let repo = Repo::new();
    let script = format!("echo first words; {}; echo last words; echo A-1 > a1", crate::agents::wait("A-1"));
    repo.graph("x", &[doing("A-1", 1, "a1", &script)]);
    let page = Page::start(&repo, &[]);
    let run = repo.run_until_up(&["A-1"]);
    let mut output = page.events("api/features/x/tasks/A-1/output", None);
    let lines = |event: &crate::page::Event| event.json()["lines"].as_array().unwrap().clone();
    let mut said = Vec::new();
    let mut until = |text: &str| {
        while !said.iter().any(|line: &Value| line["text"] == text) {
            let event = output.next().unwrap();
            assert_eq!(event.event, "lines");
            said.extend(lines(&event));
        }
    };
    until("first words");
    assert!(page.get("api/features/x/tasks/A-1").json()["prompt"].as_str().unwrap().contains("A-1"));
    repo.let_go("all");
    until("last words");
    let rest: Vec<crate::page::Event> = output.collect();
    let end = rest.last().unwrap();
    assert_eq!((end.event.as_str(), end.data.as_str()), ("end", "{}"));
    assert_eq!(said.iter().filter(|line| line["text"] == "first words").count(), 1, "{said:?}");
    run.wait().code(0);
    // A browser that connects again is told to leave it.
    let path = page.path("api/features/x/tasks/A-1/output");
    let answer = page.request("GET", &path, &[("Host", &page.host()), ("Last-Event-ID", &end.id)], "");
    assert_eq!(answer.status, 204);
}

#[test]
fn two_hundred_connections_are_served_and_end_with_the_server() {
    let repo = Repo::new();
    repo.graph("x", &[held("A-1", 1, "a1")]);
    let run = repo.run_until_up(&["A-1"]);
    let page = Page::start(&repo, &[]);
    let mut open: Vec<_> = (0..200).map(|_| page.events("api/features/x/events", None)).collect();
    for events in &mut open {
        assert_eq!(events.next().unwrap().json()["tasks"][0]["id"], "A-1");
    }
    assert_eq!(page.json("api/features/x/status")["status"], "running");
    repo.let_go("all");
    run.wait().code(0);
    for events in &mut open {
        assert!(events.any(|event| event.json()["status"] == "completed"));
    }
    // One watch and one thread for all of them.
    let threads = fs::read_dir(format!("/proc/{}/task", page.pid())).unwrap().count();
    assert!(threads < 25, "{threads} threads");
    assert_eq!(page.end_by("TERM"), Some(130));
    assert!(open.iter_mut().all(|events| events.next().is_none()));
}

#[test]
fn names_that_lead_elsewhere_lead_nowhere() {
    let repo = completed();
    repo.write(".gsd/secret", "hidden");
    let page = Page::start(&repo, &[]);
    for name in
        ["y", "..", "%2e%2e", "..%2f..", "..%2fx", "x%2f..%2fx", "x%00", "%ff", "X", "-x", "a b", &"a".repeat(300)]
    {
        let name = name.replace(' ', "%20");
        for rest in ["status", "graph", "events", "log", "report", "tasks/A-1", "tasks/A-1/output", "tasks/A-1/diff"] {
            let answer = page.get(&format!("api/features/{name}/{rest}"));
            assert_eq!(answer.status, 404, "{name}/{rest}: {}", answer.body);
            assert!(answer.json()["message"].is_string(), "{}", answer.body);
        }
        for rest in ["", "/output", "/diff"] {
            let answer = page.get(&format!("api/features/x/tasks/{name}{rest}"));
            assert_eq!(answer.status, 404, "x/tasks/{name}{rest}: {}", answer.body);
        }
        let answer = page.get(&format!("api/features/x/log?task={name}"));
        assert!(matches!(answer.status, 400 | 404), "log of {name}: {}", answer.status);
    }
    assert_eq!(page.get("api/features/y/status").json()["code"], "unknown_feature");
    let unknown = page.get("api/features/x/tasks/A-2").json();
    assert_eq!(unknown["code"], "unknown_task");
    assert!(unknown["hint"].as_str().unwrap().contains("A-1"), "{unknown}");
    for file in ["../../.gsd/secret", "..%2f..%2f.gsd%2fsecret", "/etc/passwd", "%2fetc%2fpasswd"] {
        let diff = page.json(&format!("api/features/x/tasks/A-1/diff?file={file}"));
        assert_eq!(diff["files"], json!([]), "{file}");
    }
    assert_eq!(page.get("api/features/x/tasks/A-1?attempt=x").status, 400);
    assert_eq!(page.get("app.js/../../../.gsd/secret").status, 404);
}

#[test]
fn it_listens_on_loopback_only() {
    let repo = Repo::new();
    let page = Page::start(&repo, &[]);
    let port = format!(":{:04X}", page.port);
    let listening = |file: &str| -> BTreeSet<String> {
        let sockets = fs::read_to_string(file).unwrap_or_default();
        let fields = sockets.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        fields
            .filter(|fields| fields[3] == "0A" && fields[1].ends_with(&port))
            .map(|fields| fields[1].to_string())
            .collect()
    };
    assert_eq!(listening("/proc/net/tcp"), [format!("0100007F{port}")].into());
    assert_eq!(listening("/proc/net/tcp6"), BTreeSet::new());
}

#[test]
fn it_says_what_keeps_it_from_starting_and_works_without_features() {
    let repo = Repo::new();
    let page = Page::start(&repo, &[]);
    assert_eq!(page.json("api/features"), json!({ "features": [] }));
    assert!(page.get("").body.contains("\"status\":null"));
    let port = page.port.to_string();
    let taken = repo.run(&["serve", "--port", &port]).code(1);
    taken.says(&format!("cannot listen on 127.0.0.1:{port}")).says("leave out --port");
    let nowhere = Repo::empty();
    nowhere.run(&["serve"]).code(7).says("not in a git repository").says("git init");
    assert_eq!(page.end_by("INT"), Some(130));
}

#[test]
fn the_browser_is_started_without_a_shell_and_its_arguments_have_no_token() {
    let repo = Repo::new();
    let script = "{ tr '\\0' '\\n' < /proc/$$/cmdline; echo; env; stat -c '%a' \"$1\" \"$(dirname \"$1\")\"; } > \"$HOME/opened.tmp\"; \
                  cp \"$1\" \"$HOME/page\"; printf '%s' \"$1\" > \"$HOME/file\"; mv \"$HOME/opened.tmp\" \"$HOME/opened\"";
    repo.program("browser", script);
    let browser = repo.join("browser").display().to_string();
    let repo = repo.with_env("BROWSER", &browser);
    let page = Page::start(&repo, &["--open"]);
    let opened = repo.home().join("opened");
    repo.wait_until("the browser", || opened.exists());
    let seen = fs::read_to_string(opened).unwrap();
    assert!(!seen.contains(&page.token), "{seen}");
    assert!(seen.ends_with("600\n700\n"), "{seen}");
    let url = format!("http://{}/{}/", page.host(), page.token);
    let file = fs::read_to_string(repo.home().join("page")).unwrap();
    assert!(file.contains(&format!("content=\"0; url={url}\"")), "{file}");
    let path = fs::read_to_string(repo.home().join("file")).unwrap();
    assert_eq!(page.end_by("TERM"), Some(130));
    assert!(!std::path::Path::new(&path).exists(), "{path}");
}
