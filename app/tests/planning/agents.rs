//! The product owner, played by commands and by the real client.

use serde_json::{Value, json};

use crate::client::{Bench, SECRET};
use crate::messages_api::{Api, Ask, Reply};
use crate::plan::DOCUMENT;
use crate::support::Repo;
use crate::terminal::Terminal;

pub fn requirements(criterion: &str) -> Value {
    let story = json!({
        "title": "A visitor can buy a book", "role": "visitor", "capability": "to buy a book", "benefit": "I can read it",
        "criteria": [criterion], "verification": "sh tests/shop.sh",
    });
    json!({ "requirements": { "problem": "Nobody can buy anything.", "stories": [story] } })
}

/// A repository with an agent `mine` that answers by a script.
fn with_agent(script: &str) -> Repo {
    let repo = Repo::new();
    repo.config("agent: command\nagents: { mine: { kind: command, command: [./agent.sh], env: [MY_TOKEN] } }\n");
    repo.program("agent.sh", script);
    repo.commit("agent");
    repo
}

#[test]
fn a_command_is_asked_with_the_prompt_on_its_input() {
    let answer = requirements("`shop buy 1` prints `sold`");
    let repo = with_agent(&format!(
        "cat > .git/prompt\n[ \"$MAHABHARATHA_ROLE\" = product-owner ] && [ \"$MY_TOKEN\" = t ] && [ -z \"$OTHER\" ] || exit 9\n\
         touch stray; (setsid sleep 100 &)\necho 'Here it is.'; echo '```json'; echo '{answer}'; echo '```'\n"
    ));
    let plan = ["plan", "shop", "--agent", "mine", "--describe", "Sell books."];
    let ran = repo.run_with(&plan, &[("MY_TOKEN", "t"), ("OTHER", "o")]).code(0);
    ran.says("asking mine as the product-owner").says("files in your checkout changed while mine was answering: stray");
    assert!(repo.read(DOCUMENT).contains("- [ ] `shop buy 1` prints `sold`"));
    let prompt = repo.read(".git/prompt");
    assert!(prompt.contains("Sell books.") && prompt.contains("leave `questions` empty"), "{prompt}");
}

#[test]
fn a_confined_agent_reads_the_checkout_but_not_its_git_directory() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = with_agent(&format!(
            "cat > /dev/null\nls | grep -q README.md && cat README.md > /dev/null && ! cat .git/config || exit 9\n\
             ! cat link/secret || exit 9\necho '{}'\n",
            requirements("`shop buy 1` prints `sold`")
        ));
        std::fs::write(repo.home().join("secret"), "secret\n").unwrap();
        std::os::unix::fs::symlink(repo.home(), repo.join("link")).unwrap();
        repo.config(&format!(
            "sandbox: {sandbox}\nagent: command\nagents: {{ mine: {{ kind: command, command: [./agent.sh] }} }}\n"
        ));
        repo.run(&["plan", "shop", "--agent", "mine", "--describe", "Sell books."]).code(0);
        assert!(repo.read(DOCUMENT).contains("`shop buy 1` prints `sold`"));
    }
}

#[test]
fn an_agent_that_gives_no_answer_leaves_nothing_behind() {
    for (script, code, what) in [
        ("exit 3", 1, "it ended with exit code 3"),
        ("echo Sorry.", 1, "wrote no requirements in 6 rounds"),
        ("echo '{\"questions\":[{\"question\":\"Why?\"}]}'", 1, "the user cannot be asked any more"),
        ("yes | head -c 20000000", 1, "its answer is longer than"),
    ] {
        let repo = with_agent(&format!("cat > /dev/null\n{script}\n"));
        repo.run(&["plan", "shop", "--agent", "mine", "--describe", "x"]).code(code).says(what);
        assert!(!repo.exists(".gsd"), "{script}");
    }
}

#[test]
fn an_answer_that_cannot_be_used_goes_back_with_the_reason() {
    let repo = with_agent(&format!(
        "prompt=$(cat)\ncase $prompt in *'could not be used'*'stories: invalid type'*) echo '{}' ;;\n\
         *) echo '{{\"requirements\":{{\"stories\":1}}}}' ;; esac\n",
        requirements("prints 1 \x1b[31mred")
    ));
    repo.run(&["plan", "shop", "--agent", "mine", "--describe", "x"]).code(0);
    let document = repo.read(DOCUMENT);
    assert!(document.contains("- [ ] prints 1 red") && !document.contains('\x1b'), "{document:?}");
}

/// The client's own way to hand in an answer that has a schema.
pub fn answers(ask: &Ask, value: Value) -> Reply {
    let tools = ask.body["tools"].as_array().unwrap();
    let tool = tools.iter().map(|tool| tool["name"].as_str().unwrap()).find(|name| name.contains("Structured"));
    Reply::uses(tool.unwrap(), value)
}

#[test]
fn the_real_client_asks_two_rounds_and_then_writes() {
    let api = Api::start(|ask| {
        let text = ask.text();
        let value = match (text.contains("red ones"), text.contains("In euros")) {
            _ if ask.turn() > 0 => return Reply::says("Done."),
            (false, _) => json!({ "questions": [{ "question": "Which books?", "default": "all" }] }),
            (true, false) => json!({ "questions": [{ "question": "Which currency?", "default": "In euros" }] }),
            _ if text.contains("Cheaper, please") => requirements("a book costs 5 euros"),
            _ => requirements("a book costs 9 euros"),
        };
        answers(ask, value)
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.write("CLAUDE.md", "Use four spaces.\n");
    bench.repo.commit("project");
    let home = bench.home().display().to_string();
    let env = [
        ("HOME", home.as_str()),
        ("ANTHROPIC_BASE_URL", &bench.api.url()),
        ("ANTHROPIC_API_KEY", SECRET),
        ("NO_COLOR", "1"),
    ];
    let mut person = Terminal::open(&bench.repo, "plan shop --describe 'Sell books.'", &env);
    person.answer(&bench.repo, "Which books? [all]", "only red ones");
    person.answer(&bench.repo, "Which currency? [In euros]", "");
    person.answer(&bench.repo, "Approve these requirements?", "c");
    person.answer(&bench.repo, "What should change?", "Cheaper, please; only red ones, In euros");
    person.answer(&bench.repo, "Approve these requirements?", "a");
    let (code, shown) = person.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("a book costs 9 euros") && shown.contains("is approved ("), "{shown}");
    assert!(bench.repo.read(DOCUMENT).contains("- [ ] a book costs 5 euros"));

    let asked = bench.api.asked();
    let tools: Vec<&str> =
        asked[0].body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(["Bash", "Write", "Edit", "Task"].iter().all(|tool| !tools.contains(tool)), "{tools:?}");
    assert!(asked[0].text().contains("Use four spaces."));
    let last = asked.iter().rev().find(|ask| ask.turn() == 0).unwrap();
    assert!(last.text().contains("a book costs 9 euros"), "the requirements so far are revised");
    assert!(!Bench::is_in_files(&bench.repo.path(), SECRET) && !Bench::is_in_files(bench.home(), SECRET));
}

#[test]
fn a_service_that_refuses_the_real_client_is_reported() {
    let api = Api::start(|_| Reply::fails(400, "invalid_request_error"));
    let Some(bench) = Bench::new(api, "") else { return };
    bench.run(&["plan", "shop", "--describe", "x"]).code(1).says("the agent claude: it did not finish");
    assert!(!bench.repo.exists(".gsd"));
}
