//! Excerpts of a program's output: the lines that report a failure, or the last ones.

use crate::markdown::one_line;

/// Most characters of a one-line excerpt.
const MAX_LINE_CHARS: usize = 240;
/// Lines shown after one that reports a failure: values, locations.
const CONTEXT_LINES: usize = 3;
/// The same after a failed test of the Test Anything Protocol, which is followed by a block with fields.
const TAP_CONTEXT_LINES: usize = 5;
/// Fields of such a block that do not say what failed.
const TAP_NOISE: [&str; 6] = ["duration_ms:", "type:", "failureType:", "code:", "name:", "operator:"];
/// Lines shown if none reports a failure.
const LAST_LINES: usize = 3;
/// Characters from which a line may have been wrapped, so that the next line continues it.
const MIN_WRAPPED_CHARS: usize = 40;
/// Most items of a list that are named.
const MAX_NAMED: usize = 5;
/// Output with more lines than this is preceded by its key lines.
const SHORT_OUTPUT_LINES: usize = 30;
const MAX_KEY_LINES: usize = 15;

/// Returns the lines of `output` that report a failure, at most `max`; if there are none, its last lines. The second
/// value is the number of other lines.
pub fn key_lines(output: &str, max: usize) -> (Vec<String>, usize) {
    let lines = lines_of(output);
    let picked = failure_lines(&lines);
    let shown: Vec<String> = match picked.is_empty() {
        true => lines[lines.len().saturating_sub(max)..].iter().map(|line| line.trim_end().to_string()).collect(),
        false => picked.iter().take(max).map(|line| line.trim_end().to_string()).collect(),
    };
    let others = lines.iter().filter(|line| !line.trim().is_empty()).count().saturating_sub(shown.len());
    (shown.into_iter().filter(|line| !line.trim().is_empty()).collect(), others)
}

/// Returns the program that a shell, `env` or `make` did not find: `sh: 1: jest: not found`.
pub fn missing_program(line: &str) -> Option<&str> {
    let (caller, rest) = line.trim().split_once(": ")?;
    let name = match caller.rsplit('/').next()? {
        "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" => {
            let before = rest.strip_suffix(": not found").or_else(|| rest.strip_suffix(": command not found"))?;
            before.rsplit(": ").next()?
        }
        "env" | "make" => rest.strip_suffix(": No such file or directory")?.trim_matches(['\'', '‘', '’']),
        _ => return None,
    };
    let is_name = |c: char| !c.is_whitespace() && c != '/';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// How programs say that they cannot reach another one over the network.
const OFFLINE: [&str; 12] = [
    "connection refused",
    "econnrefused",
    "could not resolve",
    "could not connect to",
    "network is unreachable",
    "enetunreach",
    "name resolution",
    "name or service not known",
    "nodename nor servname",
    "no such host",
    "eai_again",
    "failed to lookup address",
];

/// Tells whether a program's output says that it cannot reach the network.
pub fn tells_of_no_network(output: &str) -> bool {
    let output = output.to_lowercase();
    OFFLINE.iter().any(|words| output.contains(words))
}

/// Returns the key lines as one line; `None` if nothing was printed.
pub fn key_line(output: &str) -> Option<String> {
    let lines = lines_of(output);
    let mut text = String::new();
    for line in failure_lines(&lines).iter().map(|line| one_line(line)) {
        if !text.is_empty() && text.chars().count() + line.chars().count() > MAX_LINE_CHARS {
            break;
        }
        text.push_str(if text.is_empty() { "" } else { "; " });
        text.push_str(&line);
    }
    if text.is_empty() { last_lines(&lines) } else { Some(cut(&text, MAX_LINE_CHARS)) }
}

/// Returns the last lines as one, as many as fit; `None` if all are empty.
fn last_lines(lines: &[String]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut end = lines.len();
    while texts.len() < LAST_LINES
        && let Some((start, text)) = last_sentence(&lines[..end])
    {
        let length: usize = texts.iter().map(|text| text.chars().count() + 2).sum();
        if !texts.is_empty() && length + text.chars().count() > MAX_LINE_CHARS {
            break;
        }
        texts.insert(0, text);
        end = start;
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the last line that is not empty, with the wrapped lines before it that it continues.
pub fn last_words(text: &str) -> Option<String> {
    last_sentence(&lines_of(text)).map(|(_, words)| words)
}

/// Returns the last line that is not empty, with the wrapped lines before it, and the position of the first of them.
fn last_sentence(lines: &[String]) -> Option<(usize, String)> {
    let mut start = lines.iter().rposition(|line| !line.trim().is_empty())?;
    let mut words = one_line(&lines[start]);
    for line in lines[..start].iter().rev().map(|line| one_line(line)) {
        let is_wrapped = line.chars().count() >= MIN_WRAPPED_CHARS && !line.ends_with(['.', '!', '?', ':', ';']);
        if !is_wrapped || words.chars().count() + line.chars().count() > MAX_LINE_CHARS {
            break;
        }
        words = format!("{line} {words}");
        start -= 1;
    }
    Some((start, cut(&words, MAX_LINE_CHARS)))
}

/// Returns the first paragraph of a reason or a report, as one line: what happened, before the details.
pub fn summary(text: &str) -> String {
    let lines = lines_of(text);
    let paragraph: Vec<String> = lines
        .iter()
        .skip_while(|line| line.trim().is_empty())
        .take_while(|line| !line.trim().is_empty())
        .map(|line| one_line(line))
        .collect();
    paragraph.join(" ")
}

/// Returns a report of a command that failed: what happened with its key lines in the first paragraph, then the command,
/// then its output.
pub fn failure_report(what: &str, command: Option<&str>, output: &str) -> String {
    let output = output.trim();
    let mut report = match key_line(output) {
        Some(line) => format!("{what}: {line}"),
        None => format!("{what} and printed nothing."),
    };
    if let Some(command) = command {
        report.push_str(&format!("\n\n$ {command}"));
    }
    report.push_str(&format!("\n\n{}", with_key_lines(output)));
    report.trim_end().to_string()
}

/// Returns output, preceded by its key lines if it is long and has any.
pub fn with_key_lines(output: &str) -> String {
    let lines = lines_of(output);
    let picked = failure_lines(&lines);
    if lines.len() <= SHORT_OUTPUT_LINES || picked.is_empty() {
        return output.to_string();
    }
    let key: Vec<&str> = picked.into_iter().take(MAX_KEY_LINES).map(str::trim_end).collect();
    format!("Key lines:\n{}\n\nOutput:\n{output}", key.join("\n"))
}

/// Formats a list: `a, b and 3 more`.
pub fn few(items: &[String]) -> String {
    let named = items.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Splits into lines without control sequences such as colours. A carriage return starts a line, as in progress bars.
fn lines_of(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = control_sequence(rest);
        if length == 0 {
            plain.push(if c == '\r' { '\n' } else { c });
        }
        rest = &rest[length.max(c.len_utf8())..];
    }
    plain.lines().filter(|line| !is_cut_mark(line)).map(str::to_string).collect()
}

/// Returns the length of the control sequence that the text begins with: `ESC [`, parameters, intermediates, a final byte.
pub fn control_sequence(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.starts_with(b"\x1b[") {
        return 0;
    }
    let parameters = bytes[2..].iter().take_while(|byte| (0x30..=0x3f).contains(*byte)).count();
    let intermediates = bytes[2 + parameters..].iter().take_while(|byte| (0x20..=0x2f).contains(*byte)).count();
    let end = 2 + parameters + intermediates;
    if bytes.get(end).is_some_and(|byte| (0x40..=0x7e).contains(byte)) { end + 1 } else { 0 }
}

/// Tells whether a line marks the omitted middle of a long output.
fn is_cut_mark(line: &str) -> bool {
    line.starts_with("[… ") && line.ends_with(" …]")
}

fn failure_lines(lines: &[String]) -> Vec<&str> {
    let mut picked: Vec<&str> = Vec::new();
    let mut context = 0;
    let (mut names_test, mut is_tap) = (false, false);
    for line in lines {
        let text = line.trim();
        let is_noise = || text.is_empty() || TAP_NOISE.iter().any(|field| text.starts_with(field));
        let follows_test = names_test;
        names_test = text.starts_with("not ok ") && !tells_success(line);
        if names_test {
            context = CONTEXT_LINES;
        } else if follows_test && text == "---" {
            (is_tap, context) = (true, TAP_CONTEXT_LINES);
            continue;
        } else if is_mere_count(text) || is_tap && is_noise() {
            continue;
        } else if is_tap && (text == "..." || text.starts_with("stack:")) {
            (is_tap, context) = (false, 0);
            continue;
        } else if tells_failure(line) {
            context = context.max(CONTEXT_LINES);
        } else if text.is_empty() || tells_success(line) {
            (is_tap, context) = (false, 0);
            continue;
        } else if context == 0 {
            continue;
        } else {
            context -= 1;
        }
        // Test runners name a failure when it happens and again in their summary.
        if line.chars().any(char::is_alphanumeric) && !picked.contains(&line.as_str()) {
            picked.push(line);
        }
    }
    picked
}

/// Tells whether a line reports a failure; headings, counts of zero and names of passed tests do not.
fn tells_failure(line: &str) -> bool {
    if tells_success(line) {
        return false;
    }
    if line.trim().starts_with(['✖', '✗', '✘']) && !line.trim().ends_with(':') {
        return true;
    }
    let words: Vec<String> = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .map(str::to_lowercase)
        .filter(|w| !w.is_empty())
        .collect();
    let tells = |at: usize| is_failure_word(&words[at]) && (at == 0 || !matches!(words[at - 1].as_str(), "0" | "no"));
    words.len() > 1 && (0..words.len()).any(tells)
}

fn is_failure_word(word: &str) -> bool {
    const WORDS: [&str; 9] =
        ["fail", "failed", "failure", "panicked", "assert", "assertion", "fatal", "errors", "cannot"];
    let named = |end: &str| word.ends_with(end) && !word.contains('_');
    WORDS.contains(&word) || named("error") || named("exception")
}

fn tells_success(line: &str) -> bool {
    let line = line.trim();
    let starts = ["ok ", "PASS", "✓", "✔", "√"].iter().any(|mark| line.starts_with(mark));
    let excused = line.starts_with("not ok ") && ["# TODO", "# SKIP"].iter().any(|mark| line.contains(mark));
    starts || excused || ["... ok", " PASSED", "[ OK ]"].iter().any(|mark| line.ends_with(mark))
}

/// Tells whether a line of a test runner's summary counts something else than failures: `# skipped 0`, `ℹ pass 3`.
fn is_mere_count(line: &str) -> bool {
    let count = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "));
    let count =
        count.and_then(|count| count.split_once(' ')).and_then(|(name, n)| Some((name, n.parse::<f64>().ok()?)));
    let others = ["tests", "suites", "pass", "skipped", "todo", "duration_ms"];
    count.is_some_and(|(name, number)| number == 0.0 || others.contains(&name))
}

/// Cuts the text to `max_chars` and marks the cut with `…`.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARGO: &str = "running 2 tests\ntest tests::parse_error ... ok\ntest tests::adds ... \x1b[31mFAILED\x1b[0m\n\n\
        failures:\n\n---- tests::adds stdout ----\n\nthread 'tests::adds' panicked at src/lib.rs:10:9:\n\
        assertion `left == right` failed\n  left: 3\n right: 4\n\nfailures:\n    tests::adds\n\n\
        test result: FAILED. 1 passed; 1 failed; 0 ignored\n\n";

    #[test]
    fn the_failing_test_is_picked_with_its_values() {
        assert_eq!(
            key_lines(CARGO, 20).0,
            [
                "test tests::adds ... FAILED",
                "thread 'tests::adds' panicked at src/lib.rs:10:9:",
                "assertion `left == right` failed",
                "  left: 3",
                " right: 4",
                "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            ]
        );
        assert_eq!(key_lines(CARGO, 2).0.len(), 2);
        let line = key_line(CARGO).unwrap();
        assert!(
            line.starts_with("test tests::adds ... FAILED; thread 'tests::adds' panicked at src/lib.rs:10:9:;"),
            "{line}"
        );
    }

    #[test]
    fn output_of_other_tools_is_understood() {
        let pytest = "collected 1 item\n\n===== FAILURES =====\n____ test_x ____\n>   assert add(1, 2) == 4\nE   assert 3 == 4\n\n\
            FAILED tests/test_a.py::test_x - assert 3 == 4\n===== 1 failed in 0.02s =====\n";
        assert_eq!(key_lines(pytest, 1).0, [">   assert add(1, 2) == 4"]);
        for line in [
            "src/app.ts(3,5): error TS2322: Type 'string' is not assignable",
            "error[E0308]: mismatched types",
            "TypeError: undefined is not a function",
            "--- FAIL: TestX (0.00s)",
            "not ok 3 - it adds # failed",
            "make: *** [all] Error 2",
        ] {
            assert_eq!(key_line(&format!("begin\n{line}\n\n\nend of the log\n")).unwrap(), one_line(line));
        }
        for line in ["0 failed", "no errors found", "test fails_on_error ... ok", "PASS src/error.test.js", "Failures:"]
        {
            assert_eq!(key_line(&format!("{line}\n\nlast\n")).unwrap(), format!("{line}; last"), "{line}");
        }
    }

    #[test]
    fn failed_tests_of_node_are_named_with_their_places() {
        let counts =
            "# tests 2\n# suites 0\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 118.16\n";
        let tap = "TAP version 13\n# Subtest: subtracts\nok 1 - subtracts\n  ---\n  duration_ms: 0.79\n  ...\n# Subtest: adds two\n\
            not ok 2 - adds two\n  ---\n  duration_ms: 0.84\n  type: 'test'\n  location: '/x/a.test.js:1:79'\n  \
            failureType: 'testCodeFailure'\n  error: |-\n    Expected values to be strictly equal:\n    \n    2 == 3\n    \n  \
            code: 'ERR_ASSERTION'\n  name: 'AssertionError'\n  stack: |-\n    Test.run (node:internal:835:12)\n  ...\n1..2\n";
        let line = key_line(&format!("{tap}{counts}")).unwrap();
        assert_eq!(
            line,
            "not ok 2 - adds two; location: '/x/a.test.js:1:79'; error: |-; Expected values to be strictly equal:; 2 == 3; # fail 1"
        );
        let spec = "✔ subtracts (0.7ms)\n✖ adds two (0.6ms)\n  AssertionError [ERR_ASSERTION]: 2 == 3\n\n";
        let line = key_line(&format!("{spec}{}", counts.replace('#', "ℹ"))).unwrap();
        assert_eq!(line, "✖ adds two (0.6ms); AssertionError [ERR_ASSERTION]: 2 == 3; ℹ fail 1");
        let excused = "not ok 1 - later # TODO\nok 2 - now\n# fail 0\n";
        assert_eq!(key_lines(excused, 9).0.len(), 3);
    }

    #[test]
    fn without_a_failure_the_last_lines_are_taken() {
        assert_eq!(
            key_line("a\nb\n\nexpected 5 items but got 3\nbye bye\n").unwrap(),
            "b; expected 5 items but got 3; bye bye"
        );
        assert_eq!(key_line(" \n"), None);
        let long = "x".repeat(MAX_LINE_CHARS);
        assert_eq!(key_line(&format!("a\n{long}.\nbye")).unwrap(), "bye");
    }

    #[test]
    fn without_a_failure_the_last_words_are_taken() {
        assert_eq!(key_lines("a\nb\n\nc\n", 2).0, ["c"]);
        assert_eq!(last_words("starting\n\nthere is no key\n \x1b[0m\n").unwrap(), "there is no key");
        let wrapped = "log line\nThe settings name a service that this machine\ndoes not reach.\n";
        assert_eq!(last_words(wrapped).unwrap(), "The settings name a service that this machine does not reach.");
        assert_eq!(last_words(" \n"), None);
        assert_eq!(last_words(&"x".repeat(5_000)).unwrap().chars().count(), MAX_LINE_CHARS + 1);
        assert_eq!(last_words("one\n[… 99 bytes left out …]\n").unwrap(), "one");
    }

    #[test]
    fn a_report_begins_with_what_matters() {
        let report = failure_report("The verification failed with exit code 1", Some("cargo  test"), CARGO);
        assert!(summary(&report).starts_with("The verification failed with exit code 1: test tests::adds ... FAILED;"));
        assert!(report.contains("\n\n$ cargo  test\n\nrunning 2 tests\n"), "{report}");
        let silent = failure_report("The agent failed with exit code 1", None, " \n");
        assert_eq!(silent, "The agent failed with exit code 1 and printed nothing.");
        let long = format!("{}error: no such file\n", "compiling\n".repeat(40));
        assert!(with_key_lines(&long).starts_with("Key lines:\nerror: no such file\n\nOutput:\ncompiling\n"));
        assert_eq!(with_key_lines("error: short"), "error: short");
    }

    #[test]
    fn long_lists_are_cut() {
        let items: Vec<String> = (1..=7).map(|number| format!("f{number}")).collect();
        assert_eq!(few(&items[..2]), "f1, f2");
        assert_eq!(few(&items), "f1, f2, f3, f4, f5 and 2 more");
    }

    #[test]
    fn a_program_that_was_not_found_is_named() {
        for (line, program) in [
            ("sh: 1: jest: not found", Some("jest")),
            ("/bin/sh: line 3: jest: command not found", Some("jest")),
            ("bash: jest: command not found", Some("jest")),
            ("/usr/bin/env: ‘python’: No such file or directory", Some("python")),
            ("make: ruff: No such file or directory", Some("ruff")),
            ("sh: 1: ./gradlew: not found", None),
            ("KeyError: user: not found", None),
            ("sh: 1: cannot open x: No such file", None),
            ("", None),
        ] {
            assert_eq!(missing_program(line), program, "{line}");
        }
    }
}
