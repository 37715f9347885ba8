//! The page in Chromium: the cases are in `cases.mjs`; here are the runs that they look at.
//!
//! `./test --all` installs what they need. Without it they say that they were not run; on CI that is a failure.
//! `PAGE_SHOTS=DIR` leaves pictures of the views there.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use mahabharatha_testing::agents::{doing, held, wait};
use mahabharatha_testing::page::Page;
use mahabharatha_testing::support::{Background, Repo, pass_over, simple, task, with};
use serde_json::{Value, json};

/// Asks a question in its first attempt.
const ASKS: &str = "test $MAHABHARATHA_ATTEMPT -gt 1 && echo y > b1 || { echo 'sqlite or postgres?'; exit 3; }";
const CONFIG: &str = "agent: command\nretry: { max_attempts: 1 }\nworkers: { count: 3 }\n";

struct Tools {
    modules: PathBuf,
    chromium: PathBuf,
}

/// Returns what drives the browser; none if it is not installed, which is said.
fn tools() -> Option<Tools> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let modules = root.join("target/page-browser/node_modules");
    let on_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
    };
    let found = (modules.join("playwright-core").is_dir(), on_path("chromium"), on_path("node"));
    match found {
        (true, Some(chromium), Some(_)) => Some(Tools { modules, chromium }),
        _ => {
            pass_over("the page in a browser: `./test --all` installs chromium, playwright-core and axe-core");
            None
        }
    }
}

/// Starts a case of `cases.mjs` on a page.
fn start(tools: &Tools, repo: &Repo, case: &str, page: &Page) -> Child {
    let url = format!("http://{}{}", page.host(), page.path(""));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/cases.mjs");
    Command::new("node")
        .args([script.as_os_str(), case.as_ref(), url.as_ref(), repo.join(".gsd/specs/x").as_os_str()])
        .env("PAGE_MODULES", &tools.modules)
        .env("PAGE_CHROMIUM", &tools.chromium)
        .spawn()
        .unwrap()
}

#[track_caller]
fn look(tools: &Tools, repo: &Repo, case: &str, page: &Page) {
    assert!(start(tools, repo, case, page).wait().unwrap().success(), "{case}");
}

/// A repository in which A-1 works until it may go on, and B-1 asks a question; C-1 needs both.
fn asking() -> Repo {
    let repo = Repo::new();
    repo.config(CONFIG);
    let needs = json!({ "dependencies": ["A-1", "B-1"], "title": "Put both together" });
    let told = json!({ "title": "Make the first", "acceptance_criteria": ["AC-7 it is made"] });
    repo.graph(
        "x",
        &[with(held("A-1", 1, "a1"), told), doing("B-1", 1, "b1", ASKS), with(simple("C-1", 2, "c1"), needs)],
    );
    repo
}

fn run_until_asked(repo: &Repo) -> Background {
    let run = repo.run_until_up(&["A-1"]);
    repo.wait_until("B-1 asks", || repo.task_status("B-1") == "blocked");
    run
}

#[test]
fn every_view_shows_the_run_and_is_accessible() {
    let Some(tools) = tools() else { return };
    let repo = asking();
    repo.write(".gsd/specs/broken/task-graph.json", "{");
    let run = run_until_asked(&repo);
    let page = Page::start(&repo, &[]);
    look(&tools, &repo, "details", &page);
    look(&tools, &repo, "views", &page);
    repo.let_go("all");
    run.wait().code(3);
}

#[test]
fn the_page_follows_a_run_to_its_report() {
    let Some(tools) = tools() else { return };
    let repo = Repo::new();
    let talks = |id: &str, file: &str| {
        format!("echo 'first line of {id}'; {}; echo 'last line of {id}'; echo {id} > {file}", wait(id))
    };
    repo.graph("x", &[doing("A-1", 1, "a1", &talks("A-1", "a1")), doing("B-1", 2, "b1", &talks("B-1", "b1"))]);
    let run = repo.run_until_up(&["A-1"]);
    look(&tools, &repo, "live", &Page::start(&repo, &[]));
    run.wait().code(0);
}

#[test]
fn gates_have_logs_and_a_task_that_fixes_one_is_running() {
    let Some(tools) = tools() else { return };
    let repo = Repo::new();
    repo.config("quality_gates: [{ name: lint, command: 'echo linted; ! grep -Hn BAD a1' }]\n");
    repo.commit("config");
    let fix = format!("test $MAHABHARATHA_ATTEMPT = 1 && echo BAD > a1 || {{ {}; echo good > a1; }}", wait("A-1"));
    repo.graph("x", &[doing("A-1", 1, "a1", &fix), simple("B-1", 1, "b1")]);
    let run = repo.run_until_up(&["A-1"]);
    look(&tools, &repo, "gates", &Page::start(&repo, &[]));
    run.wait().code(0);
}

#[test]
fn a_permitted_page_acts_on_the_run() {
    let Some(tools) = tools() else { return };
    let repo = asking();
    let fails = doing("D-1", 1, "d1", "echo 'no such file'; exit 1");
    let graph: Value = serde_json::from_str(&repo.read(".gsd/specs/x/task-graph.json")).unwrap();
    let tasks: Vec<Value> = graph["tasks"].as_array().unwrap().iter().cloned().chain([fails]).collect();
    repo.graph("x", &tasks);
    let run = run_until_asked(&repo);
    repo.wait_until("D-1 failed", || repo.task_status("D-1") == "blocked");
    look(&tools, &repo, "actions", &Page::start(&repo, &["--allow-actions"]));
    run.wait();
    assert_eq!(repo.status()["status"], "paused");
    assert_eq!(repo.task_status("D-1"), "skipped");
    assert!(repo.status()["decisions"].to_string().contains("use sqlite"));
}

#[test]
fn a_permitted_page_grants_files_and_approves_levels() {
    let Some(tools) = tools() else { return };
    let repo = Repo::new();
    repo.config(&format!("{CONFIG}merge: {{ approval: level }}\n"));
    let asks = "test $MAHABHARATHA_ATTEMPT -gt 1 && { echo y > a1; echo t > types.rs; } || \
                { echo 'NEEDS: types.rs — it has the type'; exit 3; }";
    repo.graph("x", &[doing("A-1", 1, "a1", asks)]);
    repo.run(&["run"]).code(3);
    let page = Page::start(&repo, &["--allow-actions"]);
    look(&tools, &repo, "grant", &page);
    assert_eq!(repo.task("A-1")["granted"], json!(["types.rs"]));
    repo.run(&["run"]).code(9);
    look(&tools, &repo, "approve", &page);
    repo.run(&["run"]).code(0).says("x is completed");
    assert_eq!(repo.show("main:types.rs"), "t");
}

#[test]
fn a_page_without_permission_only_shows() {
    let Some(tools) = tools() else { return };
    let repo = asking();
    let run = run_until_asked(&repo);
    let page = Page::start(&repo, &[]);
    look(&tools, &repo, "read_only", &page);
    look(&tools, &repo, "wrong_token", &page);
    assert_eq!(repo.task_status("B-1"), "blocked");
    repo.let_go("all");
    run.wait().code(3);
}

#[test]
fn nothing_in_the_data_runs() {
    let Some(tools) = tools() else { return };
    let repo = Repo::new();
    repo.config(CONFIG);
    let script = "</script><script>pwned=1</script>";
    let image = "<img src=x onerror=pwned=1>";
    let file = "<svg onload=pwned=1>.html";
    let asks = format!(
        "seq 2500; seq 3000 > \"$(printf 'odd\\342\\200\\256name')\"; printf '%s\\n' '{script}' '{image}' '\u{202e}{image}' \"javascript:pwned=1\" > '{file}'; echo '<svg onload=pwned=1>'; \
         echo '[x](javascript:pwned=1) {script} {image} `{image}` **{image}** ${{pwned=1}}'; exit 3"
    );
    let hostile = json!({ "title": format!("{image} {script}"), "acceptance_criteria": [script, image],
                          "description": format!("{script}\n{image}") });
    repo.graph("x", &[with(task("B-1", 1, file, &asks), hostile), simple("C-1", 1, "c1")]);
    repo.run(&["run"]).code(3);
    look(&tools, &repo, "hostile", &Page::start(&repo, &["--allow-actions"]));
}

#[test]
fn a_lost_connection_is_said() {
    let Some(tools) = tools() else { return };
    let repo = asking();
    let run = run_until_asked(&repo);
    let page = Page::start(&repo, &[]);
    let mut case = start(&tools, &repo, "lost", &page);
    repo.wait_for(".gsd/specs/x/seen");
    drop(page);
    assert!(case.wait().unwrap().success());
    repo.let_go("all");
    run.wait().code(3);
}

#[test]
fn the_keys_work() {
    let Some(tools) = tools() else { return };
    let repo = asking();
    let run = run_until_asked(&repo);
    look(&tools, &repo, "keys", &Page::start(&repo, &[]));
    repo.let_go("all");
    run.wait().code(3);
}

#[test]
fn a_thousand_tasks_are_few_elements() {
    let Some(tools) = tools() else { return };
    let repo = Repo::new();
    let one = |n: u32| {
        let needs = if n >= 250 { vec![format!("T-{}", n - 250)] } else { Vec::new() };
        let fields = json!({ "title": format!("Task {n}"), "description": format!("Text {n}"), "dependencies": needs });
        with(simple(&format!("T-{n}"), n / 250 + 1, &format!("f{n}")), fields)
    };
    repo.graph("x", &(0..1_000).map(one).collect::<Vec<_>>());
    look(&tools, &repo, "thousand", &Page::start(&repo, &[]));
}
