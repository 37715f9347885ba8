//! `quick`: from one sentence to merged code, with one approval.

use serde_json::{Value, json};

use crate::agents::{answers, requirements};
use crate::architect::proposal;
use crate::client::Bench;
use crate::messages_api::{Api, Reply};
use crate::support::Repo;
use crate::terminal::Terminal;

const CRITERION: &str = "`shop buy 1` prints `sold`";
const SPECS: &str = ".gsd/specs/sell-books";

/// An agent `mine` that plans, designs and does the tasks.
fn agent(plan: &str, design: &str) -> String {
    format!(
        "case $MAHABHARATHA_ROLE-$MAHABHARATHA_TASK_ID in\n\
         product-owner-*) cat > .git/wish; {plan} ;;\narchitect-*) {design} ;;\n\
         -L0-001) echo '# L0-001' >> lib/shop.sh ;;\n-L1-001) mkdir -p bin; echo L1-001 > bin/shop ;;\n*) exit 9 ;;\nesac\n"
    )
}

fn repo(plan: &str, design: &str) -> Repo {
    let repo = Repo::new();
    repo.config("agent: mine\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
    repo.program("agent.sh", &agent(plan, design));
    repo.commit("agent");
    repo
}

fn whole() -> Repo {
    repo(&format!("printf %s '{}'", requirements(CRITERION)), &format!("printf %s '{}'", proposal("sh -n lib/shop.sh")))
}

const QUICK: [&str; 4] = ["quick", "Sell books!", "--agent", "mine"];

#[test]
fn one_sentence_becomes_merged_code() {
    let repo = whole();
    let ran = repo.run(&[&QUICK[..], &["--yes"]].concat()).code(0).says("Feature sell-books");
    ran.says(CRITERION).says("L1-001  bin/shop").says("sell-books is completed");
    let subjects = repo.git(&["log", "--first-parent", "--format=%s", "main"]);
    let expected =
        ["Level 1: sell-books", "Level 0: sell-books", "design(sell-books): 2 tasks on 2 levels", "agent", "first"];
    assert_eq!(subjects.lines().collect::<Vec<_>>(), expected);
    assert!(repo.read(".git/wish").contains("Sell books!"));
    assert_eq!(repo.run(&["status", "--json"]).code(0).json()["requirements"], "approved");
    assert!(repo.tree("main").contains_key(&format!("{SPECS}/approval.json")));
    // The same sentence again is another feature.
    repo.git(&["rm", "-q", "-r", "lib", "bin"]);
    repo.commit("nothing");
    repo.run(&[&QUICK[..], &["--yes", "--json"]].concat()).code(0);
    assert_eq!(repo.run(&["status", "--json"]).code(0).json()["feature"], "sell-books-2");
}

#[test]
fn the_user_approves_once() {
    let repo = whole();
    let mut terminal = Terminal::open(&repo, "quick 'Sell books!' --agent mine", &[]);
    terminal.answer(&repo, "Check the 1 stub with `sh -n lib/shop.sh`?", "y");
    terminal.answer(&repo, "Approve this, commit the design and 1 stub to main, and run it?", "y");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains(CRITERION) && shown.contains("Cost of planning"), "{shown}");
    assert_eq!(shown.matches("[y/N]").count(), 2, "{shown}");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 1: sell-books");
}

#[test]
fn without_approval_the_specs_stay_a_draft() {
    let repo = whole();
    let head = repo.git(&["rev-parse", "main"]);
    let mut terminal = Terminal::open(&repo, "quick 'Sell books!' --agent mine", &[]);
    terminal.answer(&repo, "Check the 1 stub with", "n");
    terminal.answer(&repo, "Approve this, commit", "n");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Nothing was run") && shown.contains("mahabharatha plan sell-books --approve"), "{shown}");
    assert_eq!(repo.git(&["rev-parse", "main"]), head);
    assert!(repo.exists(&format!("{SPECS}/task-graph.json")) && !repo.exists(&format!("{SPECS}/approval.json")));
    let status = repo.run(&["status", "--json"]).code(0).json();
    assert_eq!((&status["status"], &status["requirements"]), (&json!("designed"), &json!("draft")));
}

#[test]
fn each_failure_names_the_next_command() {
    let repo = repo("exit 3", "exit 3");
    let quick = |repo: &Repo| repo.run(&[&QUICK[..], &["--yes"]].concat());
    quick(&repo).code(1).says("it ended with exit code 3");
    assert!(!repo.exists(".gsd"));
    assert_eq!(repo.run(&["list", "--json"]).code(0).json()["features"], json!([]), "nothing is left of it");
    let good = format!("printf %s '{}'", requirements(CRITERION));
    repo.program("agent.sh", &agent(&good, "exit 3"));
    quick(&repo).code(1).says("the requirements are a draft").says("mahabharatha plan sell-books --approve");
    let incomplete = "printf %s '{\"requirements\":{\"problem\":\"p\",\"stories\":[]}}'";
    repo.program("agent.sh", &agent(incomplete, "exit 3"));
    quick(&repo).code(6).says("[no_stories]").says("mahabharatha design sell-books-2");
    let mut bad = proposal("true");
    bad["tasks"][1]["files"]["create"] = json!(["lib/shop.sh"]);
    repo.program("agent.sh", &agent(&good, &format!("printf %s '{bad}'")));
    quick(&repo).code(6).says("the design is invalid").says("mahabharatha plan sell-books-3 --approve");
    let ran = repo.run(&[&QUICK[..], &["--yes", "--json"]].concat()).code(6);
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [end] = &events[..] else { panic!("{events:#?}") };
    assert_eq!((&end["event"], &end["code"]), (&json!("end"), &json!(6)));
    assert!(!end["error"]["details"].as_array().unwrap().is_empty(), "{end}");
    assert_eq!(repo.git(&["log", "--format=%s", "main"]), "agent\nfirst");
}

#[test]
fn bad_input_is_refused_before_any_agent_is_asked() {
    let repo = whole();
    for (args, code, says) in [
        (&["quick", "x"][..], 2, "--yes"),
        (&["quick"], 2, "required"),
        (&["quick", "x", "--issue", "3", "--yes"], 2, "cannot be used with"),
        (&["quick", " ", "--yes"], 2, "what you want is empty"),
        (&["quick", "x", "--agent", "none", "--yes"], 2, "needs an agent"),
        (&["quick", "x", "--agent", "nobody", "--yes"], 2, "there is no agent \"nobody\""),
        (&["quick", "x", "--max-cost=-1", "--yes"], 2, "--max-cost"),
        (&["quick", "x", "--feature", "../x", "--yes"], 2, "not a valid"),
    ] {
        repo.run(args).code(code).says(says);
    }
    assert!(!repo.exists(".gsd") && !repo.exists(".git/wish"));
    repo.graph("taken", &[]);
    repo.run(&["quick", "x", "--feature", "taken", "--yes"]).code(2).says("there is a feature taken already");
}

#[test]
fn an_issue_is_done_as_well() {
    let repo = whole();
    repo.program("bin/gh", "echo '{\"title\":\"Sell books\",\"body\":\"All of them.\"}'\n");
    repo.git(&["add", "-A"]);
    repo.commit("gh");
    let path = format!("{}:{}", repo.join("bin").display(), std::env::var("PATH").unwrap());
    let quick = ["quick", "--issue", "12", "--agent", "mine", "--yes"];
    repo.run_with(&quick, &[("PATH", &path)]).code(0).says("issue-12 is completed");
    assert!(repo.read(".git/wish").contains("All of them."));
}

#[test]
fn the_real_client_plans_designs_and_works() {
    let api = Api::start(|ask| {
        let is_planning = ask.tools().iter().any(|tool| tool.contains("Structured"));
        match (is_planning, ask.turn()) {
            (false, 0) => ask.write("bin/shop", "L1-001\n"),
            (true, 0) if ask.text().contains("Level 0, Foundations") => {
                let mut design = proposal("true");
                design["design"]["stubs"] = json!([]);
                design["tasks"] = json!([design["tasks"][1]]);
                answers(ask, design)
            }
            (true, 0) => answers(ask, requirements(CRITERION)),
            _ => Reply::says("Done."),
        }
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.run(&["quick", "Sell books!", "--yes"]).code(0).says("sell-books is completed");
    assert_eq!(bench.repo.tree("main")["bin/shop"], "L1-001");
}
