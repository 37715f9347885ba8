//! The architect, played by commands and by the real client: a bad graph first, stubs that do not compile, stubs that do.

use serde_json::{Value, json};

use crate::agents::answers;
use crate::client::{Bench, SECRET};
use crate::design::{SPECS, approved};
use crate::messages_api::{Api, Reply};
use crate::plan::{DOCUMENT, WHOLE};
use crate::support::Repo;
use crate::terminal::Terminal;

fn task(id: &str, level: u32, create: &str, modify: &str, criterion: &str) -> Value {
    let list = |path: &str| if path.is_empty() { json!([]) } else { json!([path]) };
    json!({
        "id": id, "title": format!("Make {id}"), "level": level, "action": "Make it.",
        "files": { "create": list(create), "modify": list(modify), "read": [] }, "dependencies": [],
        "verification": { "command": format!("grep -q {id} {create}{modify}") }, "acceptance_criteria": [criterion],
    })
}

/// A design with a stub whose check is `check`.
pub fn proposal(check: &str) -> Value {
    let stub = json!({ "path": "lib/shop.sh", "content": "buy() { :; }\n", "purpose": "what is sold" });
    json!({
        "design": {
            "summary": "A shop in shell.", "goals": ["sells"], "non_goals": ["pays"], "architecture": "One file.",
            "decisions": [{ "title": "Shell", "context": "c", "options": [{ "name": "sh" }], "decision": "sh", "rationale": "small" }],
            "risks": [], "testing": ["by hand"], "stubs": [stub], "stub_check": { "command": check },
        },
        "tasks": [task("L0-001", 0, "", "lib/shop.sh", "AC-1.1"), task("L1-001", 1, "bin/shop", "", "AC-1.2")],
    })
}

fn with_answers(repo: &Repo, script: &str) {
    repo.config("agent: command\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
    repo.program("agent.sh", script);
    repo.commit("agent");
}

const DESIGN: [&str; 4] = ["design", "shop", "--agent", "mine"];

fn design(repo: &Repo, more: &[&str]) -> crate::support::Ran {
    repo.run(&[&DESIGN[..], more].concat())
}

#[test]
fn every_problem_goes_back_until_the_design_holds() {
    let repo = approved();
    let mut bad = proposal("sh -n lib/shop.sh");
    bad["tasks"][1]["files"]["create"] = json!(["lib/shop.sh"]);
    let broken = proposal("echo it does not compile; exit 1");
    with_answers(
        &repo,
        &format!(
            "prompt=$(cat); [ \"$MAHABHARATHA_ROLE\" = architect ] || exit 9\ncase $prompt in\n\
             *'it does not compile'*) printf %s '{}' ;;\n*'It was rejected'*lib/shop.sh*) printf %s '{broken}' ;;\n*) printf %s '{bad}' ;;\nesac\n",
            proposal("sh -n lib/shop.sh && test -e README.md && ! grep -q CLAUDE lib/shop.sh")
        ),
    );
    let ran = design(&repo, &["--commit"]).code(0);
    ran.says("in mine's design, asking it to fix").says("[stub_check_failed]").says("Committed to main");
    assert_eq!(repo.tree("main")["lib/shop.sh"], "buy() { :; }");
    assert_eq!(repo.read("lib/shop.sh"), "buy() { :; }\n");
    let design = repo.read(&format!("{SPECS}/design.md"));
    for part in [
        "- **Author**: mine\n",
        "### 4.1 Shell",
        "| `lib/shop.sh` | what is sold |",
        "| `bin/shop` | L1-001 | create |",
    ] {
        assert!(design.contains(part), "{part} is not in {design}");
    }
    assert_eq!(repo.git(&["status", "--porcelain", "--", "lib", SPECS]), "");
    repo.run(&["design", "--validate-only"]).code(0);
}

#[test]
fn what_remains_after_the_last_round_is_shown_and_nothing_is_written() {
    let repo = approved();
    let mut bad = proposal("true");
    bad["tasks"][1]["files"]["create"] = json!(["lib/shop.sh"]);
    with_answers(&repo, &format!("cat > /dev/null; echo x >> .git/asked; printf %s '{bad}'\n"));
    let before = repo.read(".gsd/STATE.md");
    design(&repo, &["--commit"]).code(6).says("the design is invalid; nothing was written").says("lib/shop.sh");
    assert_eq!(repo.read(".git/asked").lines().count(), 4);
    assert!(!repo.exists("lib") && !repo.exists(&format!("{SPECS}/task-graph.json")));
    assert_eq!(repo.read(".gsd/STATE.md"), before);
    with_answers(&repo, "cat > /dev/null; echo 'I would rather not.'\n");
    design(&repo, &["--no-commit"]).code(6).says("[unreadable_design]").says("not JSON");
}

#[test]
fn a_stub_takes_no_place_of_the_users_and_leads_nowhere_else() {
    let repo = approved();
    let outside = tempfile::tempdir().unwrap();
    with_answers(&repo, &format!("cat > /dev/null; printf %s '{}'\n", proposal("true")));
    std::os::unix::fs::symlink(outside.path(), repo.join("lib")).unwrap();
    design(&repo, &["--commit"]).code(6).says("stub_in_the_way");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    std::fs::remove_file(repo.join("lib")).unwrap();
    repo.write("lib/shop.sh", "mine\n");
    design(&repo, &["--commit"]).code(6).says("stub_in_the_way");
    assert_eq!(repo.read("lib/shop.sh"), "mine\n");
    repo.commit("mine");
    design(&repo, &["--commit"]).code(6).says("stub_exists");
}

#[test]
fn without_a_commit_the_stubs_are_neither_checked_nor_committed() {
    let repo = approved();
    with_answers(&repo, &format!("cat > /dev/null; printf %s '{}'\n", proposal("touch /nowhere/x; false")));
    design(&repo, &["--no-commit"])
        .code(0)
        .says("the stubs are not checked")
        .says("when these stubs are committed: lib/shop.sh");
    assert_eq!(repo.read("lib/shop.sh"), "buy() { :; }\n");
    repo.run(&["run"]).code(6).says("lib/shop.sh");
    // The stub that is left there is the design's own.
    design(&repo, &["--no-commit"]).code(0).does_not_say("follows the old requirements");
    repo.program("agent.sh", &format!("cat > /dev/null; echo more >> {DOCUMENT}; printf %s '{}'\n", proposal("true")));
    design(&repo, &["--no-commit"]).code(0).says("the design follows the old requirements");
}

#[test]
fn the_user_is_asked_before_the_check_is_run_and_before_the_commit() {
    let repo = approved();
    with_answers(&repo, &format!("cat > /dev/null; printf %s '{}'\n", proposal("sh -n lib/shop.sh")));
    let head = repo.git(&["rev-parse", "main"]);
    let mut person = Terminal::open(&repo, "design shop --agent mine", &[("NO_COLOR", "1")]);
    person.answer(&repo, "Check the 1 stub with `sh -n lib/shop.sh`? [y/N]", "y");
    person.answer(&repo, "Commit the design and 1 stub to main? [y/N]", "y");
    let (code, shown) = person.end();
    assert_eq!(code, 0, "{shown}");
    let (_, shown) = shown.split_once("asking mine").unwrap();
    let shown = shown.replace('\r', "").replace(&repo.path().display().to_string(), "<repository>");
    let commit = repo.git(&["rev-parse", "--short=10", "main"]);
    insta::assert_snapshot!(shown.replace(&commit, "<commit>"));
    assert_eq!(repo.git(&["rev-parse", "main^"]), head);
}

#[test]
fn a_design_stays_uncommitted_without_an_answer() {
    let repo = approved();
    with_answers(&repo, &format!("cat > /dev/null; printf %s '{}'\n", proposal("sh -n lib/shop.sh")));
    let head = repo.git(&["rev-parse", "main"]);
    let mut person = Terminal::open(&repo, "design shop --agent mine", &[("NO_COLOR", "1")]);
    person.answer(&repo, "Check the 1 stub", "y");
    person.wait_for(&repo, "Commit the design and 1 stub to main?");
    person.press("\x04");
    let (code, shown) = person.end();
    assert!(code == 0 && shown.contains("no answer, which counts as no"), "{shown}");
    assert_eq!(repo.git(&["rev-parse", "main"]), head);
    assert!(repo.exists("lib/shop.sh") && repo.exists(&format!("{SPECS}/task-graph.json")));
}

#[test]
fn the_real_client_fixes_its_graph_and_reads_only() {
    let api = Api::start(|ask| {
        let mut value = proposal("sh -n lib/shop.sh");
        if !ask.text().contains("It was rejected") {
            value["tasks"][1]["files"]["create"] = json!(["lib/shop.sh"]);
        }
        match (ask.turn(), ask.text().contains("It was rejected")) {
            (0, false) => Reply::uses("Read", json!({ "file_path": "README.md" })),
            (1, false) | (0, true) => answers(ask, value),
            _ => Reply::says("Done."),
        }
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.write(DOCUMENT, WHOLE);
    bench.run(&["plan", "shop", "--approve"]).code(0);
    let ran = bench.run(&["design", "shop", "--commit"]).code(0);
    ran.says("asking claude as the architect")
        .says("in claude's design, asking it to fix")
        .says(" USD, ")
        .says("Committed to main");
    assert_eq!(bench.repo.tree("main")["lib/shop.sh"], "buy() { :; }");
    let asked = bench.api.asked();
    let tools: Vec<&str> =
        asked[0].body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(["Bash", "Write", "Edit", "Task"].iter().all(|tool| !tools.contains(tool)), "{tools:?}");
    let first = asked[0].text();
    assert!(first.contains("Level 0, Foundations") && first.contains("AC-1.2: an unknown number"), "{first}");
    assert!(!Bench::is_in_files(&bench.repo.path(), SECRET) && !Bench::is_in_files(bench.home(), SECRET));
}

#[test]
fn the_real_client_is_corrected_when_its_model_answers_in_words_and_finally_refused() {
    let Some(bench) = Bench::new(Api::start(|_| Reply::says("I would rather not.")), "") else { return };
    bench.repo.write(DOCUMENT, WHOLE);
    bench.run(&["plan", "shop", "--approve"]).code(0);
    bench.run(&["design", "shop", "--commit"]).code(6).says("it was text instead of");
    assert!(!bench.repo.exists(&format!("{SPECS}/task-graph.json")));
}
