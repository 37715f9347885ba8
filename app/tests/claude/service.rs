//! A service that does not serve: attempts are made again and none is used up.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::client::{Bench, task};
use crate::messages_api::{Api, Ask, Reply};
use crate::support::Background;

/// The client asks twice before it gives up.
const TRIES: usize = 2;

fn works(ask: &Ask) -> Reply {
    match ask.turn() {
        0 => ask.write(&format!("{}.txt", ask.task()), &format!("{}\n", ask.task())),
        _ => Reply::says("Done."),
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The limit of a subscription.
fn limited_until(reset: u64) -> Reply {
    let headers = vec![
        ("retry-after", "3600".to_owned()),
        ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-reset", reset.to_string()),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
    ];
    Reply::Error { status: 429, kind: "rate_limit_error", message: "limit", headers }
}

impl Bench {
    fn subscribed(&self, args: &[&str]) -> Background {
        let mut command = self.command(args);
        command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "not-a-token");
        Background::start(command)
    }
}

#[test]
fn errors_of_the_service_and_of_the_network_use_up_no_attempt() {
    let api = Api::start(|ask| match (ask.task().as_str(), ask.attempt().as_str()) {
        ("BUSY", "1") => Reply::fails(529, "overloaded_error"),
        ("BROKEN", "1") => Reply::fails(500, "api_error"),
        ("CUT", "1") => Reply::Dropped,
        ("LOGIN", "1") => Reply::fails(401, "authentication_error"),
        _ => works(ask),
    });
    let Some(bench) = Bench::new(api, "workers: { count: 2 }\n") else { return };
    let ids = ["BUSY", "BROKEN", "CUT", "LOGIN"];
    bench.repo.graph("x", &ids.map(|id| task(id, 1, &format!("{id}.txt"))));
    bench.run(&["run"]).code(0).says("was not served");
    for id in ids {
        let state = bench.repo.task(id);
        let outcomes: Vec<&str> =
            state["attempts"].as_array().unwrap().iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["unserved", "done"], "{id}: {state:#}");
        let retries = bench.events(id, &["retrying"]);
        // A broken answer is asked for once more without a word.
        assert!(id == "CUT" || retries.iter().any(|retry| retry.starts_with("retry 1 of 1")), "{id}: {retries:?}");
        let tries = bench.api.asked_about(id).iter().filter(|ask| ask.attempt() == "1").count();
        assert!(tries >= TRIES, "{id}: {tries}");
    }
}

#[test]
fn a_limit_with_a_reset_time_is_waited_for() {
    let reset = OnceLock::new();
    let api = Api::start(move |ask| {
        // Three seconds from the first request on, in whole seconds as the service tells them.
        let reset = *reset.get_or_init(|| seconds_now() + 3);
        if seconds_now() >= reset { works(ask) } else { limited_until(reset) }
    });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt")]);
    bench.subscribed(&["run"]).wait().code(0).says("the API limit is reached");
    assert_eq!(bench.events("A-1", &["rate_limited"]).len(), 1);
    let outcomes: Vec<_> = bench.repo.task("A-1")["attempts"].as_array().unwrap().clone();
    assert_eq!(outcomes.len(), 2, "{outcomes:#?}");
    assert_eq!(outcomes[0]["outcome"], "unserved");
}

#[test]
fn a_limit_holds_after_a_stop_unless_the_user_says_no_wait() {
    let dir = tempfile::tempdir().unwrap();
    let serves = dir.path().join("serves");
    let told = serves.clone();
    let reset = seconds_now() + 3_600;
    let api = Api::start(move |ask| if told.exists() { works(ask) } else { limited_until(reset) });
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt")]);
    let stopped_while_it_waits = || {
        let run = bench.subscribed(&["run"]);
        bench.repo.wait_until("it waits", || bench.repo.run(&["status", "--json"]).stdout.contains("\"pause\""));
        bench.run(&["stop"]).code(0);
        run.wait().code(130).says("no launches until")
    };
    stopped_while_it_waits().does_not_say("--no-wait");
    let asked = bench.api.asked().len();
    stopped_while_it_waits().says("--no-wait");
    assert_eq!(bench.api.asked().len(), asked, "it is known that it would be refused");
    assert_eq!(bench.repo.task("A-1")["attempts"].as_array().unwrap().len(), 1);
    std::fs::write(&serves, "").unwrap();
    bench.subscribed(&["run", "--no-wait"]).wait().code(0);
}

#[test]
fn a_limit_causes_one_notice_that_names_its_reset() {
    let reset = seconds_now() + 3_600;
    let Some(bench) =
        Bench::new(Api::start(move |_| limited_until(reset)), "notify: { command: 'cat >> \"$HOME/notices\"' }\n")
    else {
        return;
    };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt"), task("A-2", 1, "A-2.txt")]);
    let run = bench.subscribed(&["run"]);
    let notices = || std::fs::read_to_string(bench.home().join("notices")).unwrap_or_default();
    bench.repo.wait_until("a notice", || notices().contains('\n'));
    bench.run(&["stop"]).code(0);
    run.wait().code(130);
    let told: Vec<Value> = notices().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [quota] = &told[..] else { panic!("{told:#?}") };
    assert_eq!((&quota["event"], &quota["feature"], &quota["task"]), (&json!("quota"), &json!("x"), &Value::Null));
    let message = quota["message"].as_str().unwrap();
    assert!(message.starts_with("no launches until ") && message.contains("the API limit is reached"), "{message}");
}

/// Runs until the first attempt was not served, stops, and returns the cause that `debug` names.
fn cause_after_a_stop(bench: &Bench, run: Background) -> Value {
    let unserved = || bench.repo.run(&["status", "--json"]).stdout.contains("\"unserved\"");
    bench.repo.wait_until("an attempt was not served", unserved);
    bench.run(&["stop"]).code(0);
    run.wait().code(130);
    let found = bench.run(&["debug", "--json"]).code(0).json();
    let [cause, stopped] = found["hypotheses"].as_array().unwrap().as_slice() else { panic!("{found:#}") };
    assert_eq!(stopped["code"], "stopped");
    cause.clone()
}

#[test]
fn debug_names_a_login_that_is_refused_and_a_limit_that_is_reached() {
    let api = Api::start(|_| Reply::fails(401, "authentication_error"));
    let Some(bench) = Bench::new(api, "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt")]);
    let refused = cause_after_a_stop(&bench, bench.spawn(&["run"]));
    assert_eq!((&refused["code"], &refused["task"]), (&json!("agent_login"), &json!("A-1")));
    assert_eq!(refused["command"], "claude auth login && mahabharatha run x");
    assert!(refused["evidence"][0].as_str().unwrap().starts_with("the API refuses access ("), "{refused}");

    let reset = seconds_now() + 3_600;
    let Some(bench) = Bench::new(Api::start(move |_| limited_until(reset)), "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt")]);
    let limited = cause_after_a_stop(&bench, bench.subscribed(&["run"]));
    assert_eq!((&limited["code"], &limited["command"]), (&json!("quota"), &json!("mahabharatha run x")));
    assert!(limited["evidence"][0].as_str().unwrap().starts_with("the API limit is reached ("), "{limited}");
}

#[test]
fn the_journal_knows_which_agent_and_model_did_a_task() {
    let Some(bench) = Bench::new(Api::start(works), "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "A-1.txt")]);
    bench.run(&["run"]).code(0);
    let journal = bench.repo.read(".git/mahabharatha/x/events.jsonl");
    let ended = journal.lines().find(|line| line.contains("job_ended")).unwrap();
    let report = &serde_json::from_str::<Value>(ended).unwrap()["event"]["report"];
    assert_eq!((&report["agent"], &report["model"]), (&json!("claude"), &json!("sonnet")), "{report}");
    bench.repo.graph("y", &[task("B-1", 1, "B-1.txt")]);
    let estimate = bench.run(&["estimate", "y", "--what-if", "agent=claude,model=sonnet", "--json"]).code(0).json();
    let pool = &estimate["what_if"]["pools"][0];
    assert_eq!((&pool["agent"], &pool["model"], &pool["samples"]), (&json!("claude"), &json!("sonnet"), &json!(1)));
    let cost = estimate["estimate"]["total"]["p90_usd"].as_f64();
    assert_eq!(cost, bench.repo.run(&["status", "-f", "x", "--json"]).json()["cost_usd"].as_f64(), "{estimate:#}");
}
