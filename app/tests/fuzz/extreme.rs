//! Inputs that are deep, long or many: what takes memory or time by leaps takes it here.

/// No file of a person is longer.
pub const LONG: usize = 512 << 10;
const MANY: usize = 3_000;

/// By name, for a reader.
pub fn inputs(reader: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut inputs = anywhere();
    inputs.extend(match reader {
        "graph" => graphs(),
        "task" => task_files(),
        "config" => configurations(),
        "journal" => journals(),
        "worktreeinclude" => vec![
            ("many patterns", b"**/a*b*c*d*e*f*/**/*.x\n".repeat(MANY / 10)),
            ("stars in a row", [b"*a".repeat(200), b"\n".to_vec()].concat()),
            ("alternatives in alternatives", b"{a,".repeat(500)),
        ],
        "requirements" | "state" => vec![
            ("many headings", b"## Heading\n\ntext\n".repeat(LONG / 20)),
            ("many sections of features", b"# MAHABHARATHA State: x\n\n## Decisions\n- a\n".repeat(MANY)),
        ],
        "logs" => vec![(
            "many records",
            br#"{"ts":"2026-01-26T10:30:00Z","level":"info","message":"m"}
"#
            .repeat(LONG / 64),
        )],
        _ => Vec::new(),
    });
    inputs
}

fn anywhere() -> Vec<(&'static str, Vec<u8>)> {
    let mut inputs = vec![
        ("one long line", b"x".repeat(LONG)),
        ("empty lines", b"\n".repeat(LONG)),
        ("zeros", vec![0; LONG]),
        ("no text at all", vec![0xff; LONG]),
        ("escapes", b"\x1b[31m\x1b]0;".repeat(LONG / 9)),
        ("a long number", b"9".repeat(LONG)),
        ("marks above one letter", "\u{301}".repeat(LONG / 2).into_bytes()),
    ];
    for (name, opening) in [
        ("deep lists", "["),
        ("deep objects", "{\"a\":"),
        ("deep quotes", "> "),
        ("deep points", "- "),
        ("fences", "```\n"),
        ("backticks", "`a"),
        ("elements", "<a>"),
        ("remarks", "<!--"),
        ("spaces", " "),
        ("headings", "# "),
        ("references", "&#"),
        ("keys", "a: "),
        ("backslashes", "\\"),
        ("quotes", "\""),
    ] {
        inputs.push((name, opening.repeat(LONG / opening.len()).into_bytes()));
    }
    inputs
}

fn graph(tasks: impl Iterator<Item = String>) -> Vec<u8> {
    format!(r#"{{"feature":"x","tasks":[{}]}}"#, tasks.collect::<Vec<_>>().join(",")).into_bytes()
}

fn task(id: &str, level: usize, files: &str, dependencies: &str) -> String {
    format!(
        r#"{{"id":"{id}","title":"T","level":{level},"files":{{{files}}},"dependencies":[{dependencies}],"verification":{{"command":"true"}}}}"#
    )
}

fn graphs() -> Vec<(&'static str, Vec<u8>)> {
    let create = |path: &str| format!(r#""create":["{path}"]"#);
    let all: Vec<String> = (0..MANY).map(|n| format!("\"T{n}\"")).collect();
    vec![
        ("many tasks", graph((0..MANY).map(|n| task(&format!("T{n}"), 1, &create(&format!("f{n}")), "")))),
        ("many levels", graph((0..MANY).map(|n| task(&format!("T{n}"), n, &create(&format!("f{n}")), "")))),
        (
            "a chain of dependencies",
            graph((0..MANY).map(|n| {
                let before = n.checked_sub(1).map(|n| format!("\"T{n}\"")).unwrap_or_default();
                task(&format!("T{n}"), n, &create(&format!("f{n}")), &before)
            })),
        ),
        (
            "one ring of dependencies",
            graph(
                (0..MANY)
                    .map(|n| task(&format!("T{n}"), 1, &create(&format!("f{n}")), &format!("\"T{}\"", (n + 1) % MANY))),
            ),
        ),
        ("one file for all", graph((0..MANY).map(|n| task(&format!("T{n}"), 1, &create("f"), "")))),
        ("one name for all", graph((0..MANY).map(|n| task("T", 1, &create(&format!("f{n}")), "")))),
        (
            "names that are nearly right",
            graph((0..MANY).map(|n| task(&format!("T{n}"), 1, &create(&format!("f{n}")), &format!("\"T{n}x\"")))),
        ),
        (
            "directories in directories",
            graph((1..300).map(|n| task(&format!("T{n}"), 1, &create(&("d/".repeat(n) + "**")), ""))),
        ),
        (
            "who needs all",
            graph((0..300).map(|n| task(&format!("T{n}"), n, &create(&format!("f{n}")), &all[..n].join(",")))),
        ),
        ("one path of many parts", graph(std::iter::once(task("T", 1, &create(&("d/".repeat(LONG / 4) + "f")), "")))),
        (
            "one text",
            graph(std::iter::once(
                task("T", 1, &create("f"), "").replace("\"T\",\"level", &format!("\"{}\",\"level", "x".repeat(LONG))),
            )),
        ),
    ]
}

fn task_files() -> Vec<(&'static str, Vec<u8>)> {
    let head = "# TASK-001: T\n\n## Metadata\n- **Level:** 1\n\n## Specification\n```xml\n<task type=\"auto\">\n<name>T</name>\n";
    let with = |middle: String| format!("{head}{middle}</task>\n```\n").into_bytes();
    vec![
        ("many files", with(format!("<files>\n{}</files>\n", "src/file.rs\n".repeat(LONG / 12)))),
        ("elements never closed", with("<action>".repeat(LONG / 8))),
        ("one long text", with(format!("<action>{}</action>\n", "text &lt; ".repeat(LONG / 10)))),
        ("many blocks", with(String::new()).repeat(MANY)),
        (
            "many attributes",
            with(String::new())
                .to_vec()
                .splice(0..0, format!("<task {}>", "a=\"b\" ".repeat(LONG / 6)).into_bytes())
                .collect(),
        ),
        (
            "many criteria",
            format!("{head}</task>\n```\n## Acceptance Criteria\n{}", "- [ ] one\n".repeat(LONG / 10)).into_bytes(),
        ),
        ("many metadata", head.replace("- **Level:** 1\n", &"- **Level:** 1\n".repeat(LONG / 15)).into_bytes()),
    ]
}

fn configurations() -> Vec<(&'static str, Vec<u8>)> {
    let aliases: String =
        (1..30).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(","))).collect();
    let merges: String = (1..2_000).map(|n| format!("k{n}: &k{n} {{ x: *k{} }}\n", n - 1)).collect();
    vec![
        ("aliases of aliases", format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{aliases}").into_bytes()),
        ("a chain of aliases", format!("k0: &k0 x\n{merges}").into_bytes()),
        ("an alias in itself", b"a: &a [*a]\n".to_vec()),
        ("many keys", (0..MANY * 10).map(|n| format!("k{n}: 1\n")).collect::<String>().into_bytes()),
        ("one key often", b"workers: { count: 1 }\n".repeat(MANY * 5)),
        ("many gates", format!("quality_gates:\n{}", "- { name: g, command: c }\n".repeat(MANY)).into_bytes()),
        (
            "many agents",
            format!("agents:\n{}", (0..MANY).map(|n| format!("  a{n}: {{ kind: x }}\n")).collect::<String>())
                .into_bytes(),
        ),
        ("a long block", format!("merge:\n  prepare: |\n{}", "    line\n".repeat(LONG / 9)).into_bytes()),
        (
            "many patterns",
            format!("ownership:\n  generated:\n{}", "    - \"**/a*b*{c,d}/**\"\n".repeat(MANY)).into_bytes(),
        ),
        ("deep indentation", (0..2_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>().into_bytes()),
    ]
}

fn journals() -> Vec<(&'static str, Vec<u8>)> {
    let header = "{\"journal\":1,\"feature\":\"x\"}\n";
    let corpus = crate::mutate::corpus("journal");
    let whole = String::from_utf8_lossy(&corpus[0]).into_owned();
    let started = whole.lines().nth(1).unwrap_or_default().to_owned();
    let then = |events: Vec<String>| {
        let records =
            events.iter().enumerate().map(|(n, event)| format!("{{\"seq\":{},\"at\":{n},\"event\":{event}}}\n", n + 2));
        format!("{header}{started}\n{}", records.collect::<String>()).into_bytes()
    };
    let asked =
        |n: usize| format!(r#"{{"event":"asked","request":"r{n}","command":{{"command":"retry","tasks":[]}}}}"#);
    vec![
        ("many records", then(vec![r#"{"event":"woke"}"#.to_owned(); LONG / 50])),
        ("many requests", then((0..MANY).map(asked).collect())),
        (
            "many workers",
            format!("{header}{}\n", started.replace("\"workers\":", "\"workers\":4294967295,\"x\":")).into_bytes(),
        ),
        (
            "one long record",
            format!("{header}{{\"seq\":1,\"at\":0,\"event\":{{\"event\":\"{}\"}}}}\n", "x".repeat(LONG)).into_bytes(),
        ),
        ("the latest of all times", timed(&whole, i64::MAX)),
        ("the earliest of all times", timed(&whole, i64::MIN)),
    ]
}

/// The same journal, with every record at this time.
fn timed(journal: &str, at: i64) -> Vec<u8> {
    let lines = journal.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        if record["at"].is_i64() {
            record["at"] = at.into();
        }
        format!("{record}\n")
    });
    lines.collect::<String>().into_bytes()
}
