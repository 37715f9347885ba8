//! What a run leaves for CI services and trace collectors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::support::{Repo, simple, task, with};

/// Test cases of a JUnit file by Python's own parser: suite, name, and `passed`, `failure` or `skipped`.
fn cases(repo: &Repo, file: &str) -> Vec<(String, String, String)> {
    const READ: &str = "import sys, json, xml.etree.ElementTree as t\n\
        r = t.parse(sys.argv[1]).getroot()\n\
        for s in r: assert int(s.get('tests')) == len(s) and int(s.get('failures')) == len(s.findall('*/failure'))\n\
        print(json.dumps([[s.get('name'), c.get('name'), c[0].tag if len(c) else 'passed'] for s in r for c in s]))";
    let output = Command::new("python3").args(["-c", READ]).arg(repo.join(file)).output().unwrap();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), repo.read(file));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn case(suite: &str, name: &str, result: &str) -> (String, String, String) {
    (suite.to_owned(), name.to_owned(), result.to_owned())
}

#[test]
fn verifications_and_gates_are_test_cases() {
    let repo = Repo::new();
    repo.config(
        "quality_gates: [{ name: lint, command: 'printf \"\\033[2J<&\"; ! test -e bad' }, \
         { name: size, command: 'test ! -e a.txt', required: false }]\nmerge: { remediation_attempts: 0 }\n",
    );
    repo.commit("configure");
    let stuck = task("B", 1, "b.txt", "printf 'no \\033[31m<way> & \"so\" on\\0'; exit 3");
    repo.graph("x", &[simple("A", 1, "a.txt"), stuck, simple("C", 2, "bad")]);
    repo.run(&["run", "--junit", "out.xml"]).code(3);
    let found = cases(&repo, "out.xml");
    assert_eq!(
        found,
        [
            case("run", "run", "failure"),
            case("verifications", "A: Make a.txt", "passed"),
            case("verifications", "B: Make b.txt", "failure"),
            case("verifications", "C: Make bad", "skipped"),
        ]
    );
    repo.run(&["skip", "B", "--reason", "not needed"]).code(0);
    repo.run(&["run", "--junit", "out.xml"]).code(4);
    let found = cases(&repo, "out.xml");
    for expected in [
        case("verifications", "B: Make b.txt", "skipped"),
        case("verifications", "C: Make bad", "passed"),
        case("gates of level 1", "lint", "passed"),
        case("gates of level 1", "size", "skipped"),
        case("gates of level 2", "lint", "failure"),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not among {found:#?}");
    }
}

#[test]
fn what_passed_on_an_earlier_tree_is_not_reported_for_a_later_one() {
    let repo = Repo::new();
    repo.config(
        "merge: { approval: level, remediation_attempts: 0 }\nquality_gates: [{ name: alint, command: '! test -e bad' }, \
         { name: btest, command: 'true' }, { name: ctest, command: 'true' }]\n",
    );
    repo.commit("configure");
    let unverified = with(simple("B", 1, "b.txt"), json!({ "verification": { "command": "" } }));
    repo.graph("x", &[simple("A", 1, "a.txt"), unverified]);
    repo.run(&["run", "--junit", "out.xml"]).code(9);
    let found = cases(&repo, "out.xml");
    for expected in [
        case("verifications", "A: Make a.txt", "passed"),
        case("verifications", "B: Make b.txt", "skipped"),
        case("gates of level 1", "alint", "passed"),
        case("gates of level 1", "btest", "passed"),
        case("gates of level 1", "ctest", "passed"),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not among {found:#?}");
    }
    // Again on the same tree, where nothing is run.
    repo.run(&["run", "--junit", "out.xml"]).code(9);
    assert!(cases(&repo, "out.xml").contains(&case("gates of level 1", "btest", "passed")));
    repo.write("bad", "");
    repo.git(&["add", "bad"]);
    repo.git(&["commit", "-qm", "breaks"]);
    repo.run(&["merge", "--approve"]).code(4);
    repo.run(&["run", "--junit", "out.xml"]).code(4);
    let found: Vec<_> = cases(&repo, "out.xml").into_iter().filter(|(suite, ..)| suite == "gates of level 1").collect();
    assert_eq!(found, [case("gates of level 1", "alint", "failure")]);
}

#[test]
fn a_file_is_written_where_the_command_works() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.write("sub/file", "");
    repo.run(&["-C", "sub", "run", "--junit", "out.xml"]).code(0);
    assert!(cases(&repo, "sub/out.xml").contains(&case("verifications", "A: Make a.txt", "passed")));
    assert!(!repo.exists("out.xml"));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    for file in ["nowhere/out.xml", ".", "README.md/x"] {
        repo.run(&["run", "--junit", file]).code(2).says("--junit");
    }
    repo.run(&["run", "--junit", "out.xml", "--dry-run"]).code(2);
    assert!(!repo.exists(".git/mahabharatha/x/events.jsonl"), "nothing was begun");
    // One that is refused later has a file that says so.
    repo.config("agent: nobody\n");
    repo.run(&["run", "--junit", "out.xml"]).code(6);
    assert_eq!(cases(&repo, "out.xml"), [case("run", "run", "failure")]);
}

/// A collector that takes one trace.
pub fn collector() -> (String, JoinHandle<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut request, mut length) = (String::new(), 0);
        reader.read_line(&mut request).unwrap();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if header.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        (request, serde_json::from_slice(&body).unwrap())
    });
    (address, server)
}

fn spans(trace: &Value) -> Vec<Value> {
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    all.iter().find(|attribute| attribute["key"] == key).map_or(&Value::Null, |attribute| &attribute["value"])
}

#[test]
fn a_run_is_a_trace() {
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: lint, command: 'true' }]\n");
    repo.commit("configure");
    let later =
        task("B", 2, "b.txt", "echo SECRET-TEXT; test -e \"$MAHABHARATHA_SPEC_DIR/go\" || exit 3; echo b > b.txt");
    repo.graph("x", &[simple("A", 1, "a.txt"), later]);
    let (address, server) = collector();
    repo.run_with(&["run"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]).code(3).does_not_say("no trace");
    let (request, trace) = server.join().unwrap();
    assert_eq!(request, "POST /v1/traces HTTP/1.1\r\n");
    assert!(!trace.to_string().contains("SECRET-TEXT") && !trace.to_string().contains("Make"), "{trace}");
    let first = spans(&trace);
    let (run, level, attempt) = (named(&first, "run x"), named(&first, "level 1"), named(&first, "attempt 1 at A"));
    assert_eq!((&level["parentSpanId"], &attempt["parentSpanId"]), (&run["spanId"], &level["spanId"]));
    assert_eq!(named(&first, "gates of level 1")["parentSpanId"], level["spanId"]);
    assert_eq!((&run["status"]["code"], &attempt["status"]["code"]), (&json!(2), &json!(1)));
    assert_eq!(attribute(attempt, "gen_ai.agent.name"), &json!({ "stringValue": "command" }));
    assert_eq!(
        attribute(named(&first, "attempt 1 at B"), "mahabharatha.outcome"),
        &json!({ "stringValue": "blocked" })
    );
    for span in &first {
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
        assert_eq!((span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()), (32, 16));
    }

    // What is resumed belongs to the same trace, and nothing is sent twice.
    repo.write(".gsd/specs/x/go", "");
    repo.run(&["retry", "B"]).code(0);
    let (address, server) = collector();
    repo.run_with(&["run"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]).code(0);
    let second = spans(&server.join().unwrap().1);
    assert_eq!(named(&second, "attempt 2 at B")["traceId"], run["traceId"]);
    let ids = |spans: &[Value]| {
        spans.iter().map(|span| span["spanId"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(ids(&first).is_disjoint(&ids(&second)) && second.iter().all(|span| span["name"] != "attempt 1 at A"));
}

#[test]
fn a_trace_names_the_agent_that_made_the_attempt_not_todays() {
    let repo = Repo::new();
    // While the agent works, a person makes another one the default.
    let change = "sed -i \"s/^agent: one/agent: two/\" \"$MAHABHARATHA_SPEC_DIR/../../../.mahabharatha/config.yaml\"";
    let agent = |script: &str| json!({ "kind": "command", "command": ["sh", "-c", script] });
    let agents = json!({ "one": agent(&format!("echo a > a.txt; {change}")), "two": agent("exit 1") });
    repo.config(&format!("agent: one\nagents: {agents}\n"));
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": null }))]);
    let (address, server) = collector();
    repo.run_with(&["run"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]).code(0);
    assert!(repo.read(".mahabharatha/config.yaml").contains("agent: two"));
    let found = spans(&server.join().unwrap().1);
    assert_eq!(attribute(named(&found, "attempt 1 at A"), "gen_ai.agent.name"), &json!({ "stringValue": "one" }));
}

#[test]
fn a_collector_that_is_not_there_is_a_warning() {
    let repo = Repo::new();
    for (feature, file, address, why) in [
        ("x", "x.txt", "http://127.0.0.1:1", "127.0.0.1:1"),
        ("y", "y.txt", "https://collector.example.com", "it must begin with http://"),
    ] {
        repo.graph(feature, &[simple("A", 1, file)]);
        let ran = repo.run_with(&["run", feature], &[("OTEL_EXPORTER_OTLP_ENDPOINT", address)]).code(0);
        ran.says("warning: no trace was sent").says(why);
    }
    repo.graph("z", &[simple("A", 1, "z.txt")]);
    repo.run_with(&["run"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).code(0).does_not_say("no trace");
}
