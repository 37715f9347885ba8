//! What is checked before a run, without a word to the service.

use crate::client::{Bench, task, version};
use crate::messages_api::{Api, Reply};
use crate::support::{Ran, Repo};

#[test]
fn a_client_that_is_missing_too_old_or_not_logged_in_stops_the_run() {
    let Some(bench) = Bench::new(Api::start(|_| Reply::says("Done.")), "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    let mut command = bench.command(&["run"]);
    command.env_remove("ANTHROPIC_API_KEY");
    Ran::of(command.output().unwrap()).code(7).says("is not logged in").says("ANTHROPIC_API_KEY");
    bench.run(&["doctor"]).code(0).says(&format!("{} (Claude Code), logged in (api_key)", version()));

    let configured = |program: &str| {
        bench.repo.write(".mahabharatha/config.yaml", &format!("agents: {{ claude: {{ command: {program} }} }}\n"))
    };
    bench.repo.program("old", "echo '1.0.3 (Claude Code)'");
    configured("./old");
    bench.run(&["run"]).code(7).says("./old is version 1.0.3, but at least 2.1.197 is required");
    bench.repo.program("old", "echo hello");
    bench.run(&["run"]).code(7).says("does not print its version");
    configured("no-such-client");
    bench.run(&["run"]).code(7).says("no-such-client was not found on PATH");
    assert!(bench.api.asked().is_empty());
}

#[test]
fn a_client_newer_than_the_tested_ones_is_named_and_used() {
    let Some(bench) = Bench::new(Api::start(|_| Reply::says("Done.")), "") else { return };
    bench.repo.graph("x", &[task("A-1", 1, "a.txt")]);
    // An installed one: `doctor` starts no file of the repository.
    let outside = Repo::empty();
    outside
        .program("new", "case $1 in --version) echo '999.0.1 (Claude Code)' ;; *) echo '{\"loggedIn\": true}' ;; esac");
    let config = format!("agents: {{ claude: {{ command: \"{}\" }} }}\n", outside.join("new").display());
    bench.repo.write(".mahabharatha/config.yaml", &config);
    let checks = bench.run(&["doctor", "--json"]).code(0).json()["checks"].clone();
    let named = |status: &str| {
        let checks = checks.as_array().unwrap().iter();
        let messages = checks.filter(|check| check["name"] == "agent" && check["status"] == status);
        messages.map(|check| check["message"].as_str().unwrap()).any(|message| message.contains("999.0.1"))
    };
    assert!(named("ok") && named("warning") && !named("failed"), "{checks:#}");
}
