//! Planning by slash command, with subagents that work in the background: the model ends its turn, and goes on when it is
//! notified, on a turn for which the command's permissions no longer hold.

use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::client::{Bench, task, version};
use crate::commands::REQUIREMENTS;
use crate::driven::{examples, question, went_well};
use crate::messages_api::{Api, Ask, Reply, bash, tool_use};
use crate::session::path_to_the_program;
use crate::support::with;
use crate::task_mode::{finished, used};

/// The end of the model's turn, before which the subagent does not answer.
#[derive(Default)]
struct Turn {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl Turn {
    fn end(&self) -> Reply {
        *self.has_ended.lock().unwrap() = true;
        self.changed.notify_all();
        Reply::says("Waiting.")
    }

    fn wait(&self) {
        // For a subagent in the foreground the client waits itself.
        if version() != "2.1.197" {
            drop(self.changed.wait_while(self.has_ended.lock().unwrap(), |has_ended| !*has_ended).unwrap());
        }
    }
}

/// What the model does next, by the commands' texts.
enum Next {
    /// The example of the command at this place.
    Call(usize),
    Subagent,
    EndTurn,
    Write,
    Ask,
    Done,
}

/// What follows on what the model did last. The examples come in the order in which they are called; the subagent works
/// before the example at `submits`.
fn next(ask: &Ask, calls: &[String], submits: usize) -> Next {
    if !finished(ask).is_empty() {
        return Next::Write;
    }
    let used = used(ask);
    let Some(first) = used.first() else { return Next::Call(0) };
    match (first.tool.as_str(), calls.iter().position(|call| call == first.command())) {
        ("Agent", _) => Next::EndTurn,
        ("Write", _) => Next::Call(submits),
        ("AskUserQuestion", _) => Next::Call(submits + 1),
        (_, Some(at)) if at + 1 == submits => Next::Subagent,
        (_, Some(at)) if at == submits => Next::Ask,
        (_, Some(at)) if at < submits => Next::Call(at + 1),
        _ => Next::Done,
    }
}

/// A model that follows a command, with the agent that the command names, the place of the call that submits, and what
/// is written before it.
fn follows(agent: &'static str, submits: usize, files: fn() -> Vec<(&'static str, String)>) -> Api {
    let turn = Arc::new(Turn::default());
    Api::start(move |ask| {
        if !ask.is_main() {
            turn.wait();
            return Reply::says("It is thought out.");
        }
        let calls = examples(ask, &[("FEATURE", "greet")]);
        match next(ask, &calls, submits) {
            Next::Call(at) => calls.get(at).map_or_else(|| Reply::says("Done."), |call| bash(call)),
            Next::Subagent => {
                let input = json!({ "description": "think", "prompt": "Think.", "subagent_type": agent });
                Reply::uses("Agent", input)
            }
            Next::EndTurn => turn.end(),
            Next::Write => {
                let writes = files().into_iter().map(|(path, content)| {
                    tool_use("Write", json!({ "file_path": ask.cwd().join(path), "content": content }))
                });
                Reply::of(writes.collect())
            }
            Next::Ask => question("Is it right?"),
            Next::Done => Reply::says("Done."),
        }
    })
}

fn planner() -> Api {
    follows("product-owner", 1, || vec![(".mahabharatha/drafts/greet.md", REQUIREMENTS.to_owned())])
}

fn designer() -> Api {
    follows("architect", 2, || {
        let design = "# Design\n\nOne script.\n".to_owned();
        vec![(".gsd/specs/greet/design.md", design), (".mahabharatha/drafts/greet.json", graph().to_string())]
    })
}

fn graph() -> Value {
    let task = with(
        task("G-1", 1, "greet.sh"),
        json!({ "acceptance_criteria": ["AC-1.1"], "verification": { "command": "sh greet.sh | grep -x hello" } }),
    );
    json!({ "feature": "greet", "tasks": [task] })
}

/// A bench with approved requirements.
fn with_requirements(api: Api) -> Option<Bench> {
    let bench = Bench::installed(api, "")?;
    bench.repo.write("requirements.md", REQUIREMENTS);
    bench.run(&["plan", "greet", "--from", "requirements.md", "--agent", "none"]).code(0);
    bench.run(&["plan", "greet", "--approve"]).code(0);
    Some(bench)
}

fn is_designed(bench: &Bench) {
    let tree = bench.repo.tree("main");
    let committed: Value = serde_json::from_str(&tree[".gsd/specs/greet/task-graph.json"]).unwrap();
    assert_eq!(committed["tasks"][0]["id"], "G-1");
    assert_eq!(tree[".gsd/specs/greet/design.md"], "# Design\n\nOne script.");
    assert!(tree.contains_key(".gsd/specs/greet/tasks/G-1.md"), "{:?}", tree.keys());
    assert!(!tree.contains_key("requirements.md"), "what else lay there is not the design's");
}

#[test]
fn requirements_are_submitted_and_approved_when_the_product_owner_has_finished() {
    let Some(bench) = Bench::installed(planner(), "") else { return };
    let talk = bench.talk_until("Done.", &[("PATH", &path_to_the_program())], "/mahabharatha:plan greet people");
    went_well(&talk);
    assert!(bench.repo.read(".gsd/specs/greet/requirements.md").contains("greet.sh prints hello"));
    assert_eq!(bench.repo.run(&["status", "--json"]).code(0).json()["requirements"], "approved");
    assert_eq!(talk.asked.len(), 1, "{:#?}", talk.asked);
}

#[test]
fn a_design_is_submitted_and_committed_when_the_architect_has_finished() {
    let Some(bench) = with_requirements(designer()) else { return };
    // Another terminal has made another feature the current one.
    bench.repo.write(".gsd/.current-feature", "other");
    let path = path_to_the_program();
    let env = [("PATH", path.as_str()), ("ZERG_FEATURE", "greet")];
    let talk = bench.talk_until("Done.", &env, "/mahabharatha:design");
    went_well(&talk);
    is_designed(&bench);
}

#[test]
fn in_a_terminal_the_user_is_asked_nothing_but_the_models_question() {
    let Some(bench) = with_requirements(designer()) else { return };
    let terminal = bench.open_terminal();
    terminal.type_line(&bench.repo, "/mahabharatha:design greet");
    let not_asked = |screen: &str| assert!(!screen.contains("Do you want to"), "the user is asked:\n{screen}");
    bench.repo.wait_until("the model's question", || {
        not_asked(&terminal.screen());
        terminal.screen().contains("Is it right?")
    });
    terminal.press("Enter");
    bench.repo.wait_until("the end of the design", || {
        not_asked(&terminal.screen());
        bench.repo.tree("main").contains_key(".gsd/specs/greet/design.md")
    });
    is_designed(&bench);
}
