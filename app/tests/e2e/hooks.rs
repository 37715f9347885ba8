//! What Claude Code's hooks are answered.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{HELD, Ran, Repo, task, with};

const WORKTREE: &str = ".mahabharatha/worktrees/x/worker-0";

/// A subagent that used 12 tokens.
const TRANSCRIPT: &str =
    "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":7,\"output_tokens\":5}}}\n";

fn hook(repo: &Repo, call: &str, env: &[(&str, &str)]) -> Ran {
    answer(repo, "pre-tool-use", call, env)
}

/// The hook's answer to what a client says.
fn answer(repo: &Repo, event: &str, call: &str, env: &[(&str, &str)]) -> Ran {
    let mut command = repo.command(&["hook", event]);
    command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(call.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

fn write_to(repo: &Repo, path: &str) -> Value {
    let input = json!({ "file_path": path, "content": "x" });
    json!({ "session_id": "s1", "cwd": repo.path(), "tool_name": "Write", "tool_input": input })
}

fn decision(ran: &Ran) -> Value {
    ran.json()["hookSpecificOutput"]["permissionDecision"].clone()
}

#[test]
fn only_the_session_that_holds_a_task_may_write_its_files() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "src/a.txt", &format!("{HELD} mkdir -p src && echo A > src/a.txt"))]);
    let run = repo.run_until_held("x");
    let worktree = repo.join(WORKTREE);
    let own = [("MAHABHARATHA_WORKTREE", worktree.to_str().unwrap())];
    let owned = format!("{WORKTREE}/src/a.txt");
    let absolute = repo.join(&owned).display().to_string();
    for path in [owned.as_str(), &absolute, &format!("{WORKTREE}/src/../src/a.txt")] {
        assert_eq!(decision(&hook(&repo, &write_to(&repo, path).to_string(), &own).code(0)), "allow", "{path}");
    }
    hook(&repo, &write_to(&repo, &format!("{WORKTREE}/README.md")).to_string(), &own)
        .code(2)
        .says("README.md is not owned by A, which owns src/a.txt");
    // A session without tasks is left alone; a subagent of the kind `worker` is not.
    assert_eq!(hook(&repo, &write_to(&repo, &owned).to_string(), &[]).code(0).stdout, "");
    for kind in ["worker", "mahabharatha:worker"] {
        let of_worker = with(write_to(&repo, &owned), json!({ "agent_type": kind }));
        hook(&repo, &of_worker.to_string(), &[]).code(2).says("worker 0 of x works on A for another session");
    }
    hook(&repo, &write_to(&repo, ".mahabharatha/worktrees/x/worker-7/a").to_string(), &own)
        .code(2)
        .says("no task is claimed in the worktree of worker 7 of x");
    // A link in the worktree leads out of it, though its name is owned.
    fs::create_dir_all(worktree.join("src")).unwrap();
    symlink(repo.join("README.md"), worktree.join("src/a.txt")).unwrap();
    let through = hook(&repo, &write_to(&repo, &owned).to_string(), &own).code(0);
    assert_eq!(through.stdout, "", "it is a write to the checkout, which is the person's");
    fs::remove_file(worktree.join("src/a.txt")).unwrap();
    symlink("/nowhere/at/all", worktree.join("src/a.txt")).unwrap();
    hook(&repo, &write_to(&repo, &owned).to_string(), &own).code(2);
    fs::remove_file(worktree.join("src/a.txt")).unwrap();
    repo.let_go_on("x", run).code(0);
}

#[test]
fn sessions_that_have_nothing_to_do_with_tasks_are_not_bothered() {
    let repo = Repo::new();
    let plain = Repo::empty();
    for place in [&repo, &plain] {
        let of_slot = format!("{WORKTREE}/a");
        for path in ["README.md", "new/file.txt", "a/../../b", "/nowhere/x", &of_slot] {
            let mut call = write_to(place, path);
            assert_eq!(hook(place, &call.to_string(), &[]).code(0).stdout, "", "{path}");
            call["agent_type"] = json!("worker");
            assert_eq!(hook(place, &call.to_string(), &[]).code(0).stdout, "", "{path}");
        }
        let bash = json!({ "session_id": "s1", "cwd": place.path(), "tool_name": "Bash", "tool_input": { "command": "git push" } });
        hook(place, &bash.to_string(), &[]).code(0);
    }
}

#[test]
fn what_cannot_be_understood_is_refused_only_where_a_session_holds_tasks() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    repo.commit("graph");
    let calls = ["", "{", "[]", "{\"tool_name\":\"Write\"}"];
    for call in calls {
        assert_eq!(hook(&repo, call, &[]).code(0).stdout, "");
        assert_eq!(answer(&repo, "task-completed", call, &[]).code(0).stdout, "");
    }
    repo.run_with(&["task", "start"], &[("CLAUDE_CODE_SESSION_ID", "s1")]).code(0);
    for call in calls {
        hook(&repo, call, &[]).code(2).says("unexpected hook input from Claude Code");
    }
    repo.run_with(&["stop"], &[("CLAUDE_CODE_SESSION_ID", "s1")]).code(0);
}

#[test]
fn the_user_is_not_asked_about_plain_calls_of_the_program_in_a_session_with_tasks() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    repo.commit("graph");
    let bash = |command: &str, more: Value| {
        let call = json!({ "session_id": "s1", "cwd": repo.path(), "tool_name": "Bash", "tool_input": { "command": command } });
        let ran = hook(&repo, &with(call, more).to_string(), &[]).code(0);
        if ran.stdout.is_empty() { Value::Null } else { decision(&ran) }
    };
    let plain = "mahabharatha task next --json --feature x";
    assert_eq!(bash(plain, json!({})), Value::Null, "no session holds anything yet");
    repo.run_with(&["task", "start"], &[("CLAUDE_CODE_SESSION_ID", "s1")]).code(0);
    for allowed in [
        plain,
        "mbh status --json",
        "mahabharatha merge --level 1 -f x",
        "mahabharatha task complete A --json --feature x --decision 'a; b | c $(d)'",
    ] {
        assert_eq!(bash(allowed, json!({})), "allow", "{allowed}");
    }
    for other in [
        "mahabharatha task next; rm -rf x",
        "mahabharatha task next && true",
        "mahabharatha status | sh",
        "mahabharatha status > f",
        "mahabharatha task complete A --decision \"$(id)\"",
        "mahabharatha status\nid",
        "PATH=/x mahabharatha status",
        "/x/mahabharatha status",
        "mahabharatha -C /elsewhere status",
        "mahabharatha status -qC /elsewhere",
        "mahabharatha task next --feature other",
        "mahabharatha run",
        "mahabharatha cleanup --force",
        "mahabharatha stop",
        "mahabharatha task conquer",
        "git status",
    ] {
        assert_eq!(bash(other, json!({})), Value::Null, "{other}");
    }
    for the_users in [
        "mahabharatha task claim A --session s2",
        "mahabharatha merge --session s2",
        "mahabharatha merge --accept-config",
        "mahabharatha merge --app'rove' -f x",
        "mahabharatha merge --approve | cat",
        "mahabharatha task start --accept-config -f x",
        "mahabharatha run --accept-config",
        "mahabharatha task grant A b.txt -f x",
    ] {
        assert_eq!(bash(the_users, json!({})), "ask", "{the_users}");
        assert_eq!(bash(the_users, json!({ "session_id": "s2" })), "ask", "{the_users}");
    }
    assert_eq!(bash(plain, json!({ "session_id": "s2" })), Value::Null, "another session");
    let unusual = json!({ "tool_input": { "command": plain, "dangerouslyDisableSandbox": true } });
    assert_eq!(bash(plain, unusual), Value::Null, "not as usual");
    // A call that names no feature is about the current one.
    assert_eq!(bash("mahabharatha task next", json!({})), "allow");
    repo.write(".gsd/.current-feature", "other\n");
    assert_eq!(bash("mahabharatha task start --allow-red-base", json!({})), Value::Null, "another feature");
    repo.write(".gsd/.current-feature", "x\n");
    let of_subagent = json!({ "agent_id": "a1", "agent_type": "worker" });
    assert_eq!(bash("mahabharatha task verify A --feature x", of_subagent.clone()), "allow");
    for only_for_the_session in ["mahabharatha task complete A --feature x", "mahabharatha merge --level 1"] {
        assert_eq!(bash(only_for_the_session, of_subagent.clone()), Value::Null, "{only_for_the_session}");
    }
    repo.run_with(&["stop"], &[("CLAUDE_CODE_SESSION_ID", "s1")]).code(0);
}

#[test]
fn a_session_that_plans_a_feature_is_not_asked_about_its_calls_and_documents() {
    let repo = Repo::new();
    let as_session = |args: &[&str]| repo.run_with(args, &[("CLAUDE_CODE_SESSION_ID", "s1")]);
    let answered = |call: Value, more: Value| {
        let ran = hook(&repo, &with(call, more).to_string(), &[]).code(0);
        if ran.stdout.is_empty() { Value::Null } else { decision(&ran) }
    };
    let bash = |command: &str| json!({ "session_id": "s1", "cwd": repo.path(), "tool_name": "Bash", "tool_input": { "command": command } });
    let (submit, draft) =
        ("mahabharatha plan shop --from .mahabharatha/drafts/shop.md --agent none", ".mahabharatha/drafts/shop.md");
    let is_allowed = || (answered(bash(submit), json!({})), answered(write_to(&repo, draft), json!({})));
    let (yes, no) = ((json!("allow"), json!("allow")), (Value::Null, Value::Null));
    assert_eq!(is_allowed(), no, "no session plans yet");
    // A person who plans is no session.
    repo.run(&["plan", "shop", "--begin"]).code(0).says("The requirements of shop are missing");
    assert_eq!(is_allowed(), no);
    repo.run(&["design", "shop", "--begin"]).code(6).says("shop has no requirements");

    let begun = as_session(&["plan", "shop", "--begin", "--json"]).code(0).json();
    assert_eq!(begun, json!({ "feature": "shop", "requirements": "missing" }));
    assert_eq!(is_allowed(), yes);
    for allowed in [
        "mahabharatha plan shop --approve",
        "mahabharatha plan --feature shop --begin",
        "mahabharatha design shop --no-commit --from-graph .mahabharatha/drafts/shop.json",
        "mahabharatha design shop --validate-only",
        "mbh status --json --feature shop",
    ] {
        assert_eq!(answered(bash(allowed), json!({})), "allow", "{allowed}");
    }
    for other in [
        "mahabharatha plan other --approve",
        "mahabharatha plan shop --approve; id",
        "mahabharatha plan shop --from x",
        "mahabharatha plan shop --agent claude --describe x",
        "mahabharatha design shop",
        "mahabharatha design shop --commit --force --from-graph x",
        "mahabharatha -C /elsewhere plan shop --approve",
        "mahabharatha task start --feature shop",
        "mahabharatha run shop",
        "cat .mahabharatha/drafts/shop.md",
    ] {
        assert_eq!(answered(bash(other), json!({})), Value::Null, "{other}");
    }
    assert_eq!(answered(write_to(&repo, ".gsd/specs/shop/design.md"), json!({})), "allow");
    for other in
        ["README.md", ".gsd/specs/other/design.md", ".mahabharatha/config.yaml", ".mahabharatha/drafts/../config.yaml"]
    {
        assert_eq!(answered(write_to(&repo, other), json!({})), Value::Null, "{other}");
    }
    fs::create_dir_all(repo.join(".mahabharatha/drafts")).unwrap();
    symlink(repo.join("README.md"), repo.join(".mahabharatha/drafts/link")).unwrap();
    assert_eq!(answered(write_to(&repo, ".mahabharatha/drafts/link"), json!({})), Value::Null, "it leads elsewhere");
    for (more, whose) in
        [(json!({ "session_id": "s2" }), "another session"), (json!({ "agent_id": "a1" }), "a subagent")]
    {
        assert_eq!(answered(bash(submit), more.clone()), Value::Null, "{whose}");
        assert_eq!(answered(write_to(&repo, draft), more), Value::Null, "{whose}");
    }
    // It holds no task, and its turn's end is not the end of its planning.
    let said = json!({ "session_id": "s1", "cwd": repo.path(), "background_tasks": [] });
    answer(&repo, "stop", &said.to_string(), &[]).code(0);
    assert_eq!(is_allowed(), yes);
    answer(&repo, "session-end", &said.to_string(), &[]).code(0);
    assert_eq!(is_allowed(), no);

    as_session(&["plan", "shop", "--begin"]).code(0);
    repo.write(draft, REQUIREMENTS);
    as_session(&["plan", "shop", "--from", draft, "--agent", "none"]).code(0);
    assert_eq!(is_allowed(), yes);
    as_session(&["plan", "shop", "--approve"]).code(0);
    assert_eq!(is_allowed(), no, "the plan is approved");
}

const REQUIREMENTS: &str = "# Feature: shop\n\n## Problem Statement\nNothing is sold.\n\n## User Stories\n\n### Story 1: A visitor buys\n\
    **As a** visitor\n**I want** a book\n**So that** I can read\n\n**Acceptance Criteria:**\n- [ ] it sells\n\n\
    **Verification:**\n```bash\ntest -e a.txt\n```\n";

#[test]
fn a_task_is_not_completed_while_its_subagent_works() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    repo.commit("graph");
    let as_session = |args: &[&str]| repo.run_with(args, &[("CLAUDE_CODE_SESSION_ID", "s1")]);
    let said = |event: &str, more: Value| {
        let call = with(json!({ "session_id": "s1", "cwd": repo.path() }), more);
        assert_eq!(answer(&repo, event, &call.to_string(), &[]).code(0).stdout, "", "{event}");
    };
    let launched = |agent: &str| {
        let prompt = "Run `mahabharatha task prompt A --feature x` and do what it prints.";
        let response = json!({ "status": "async_launched", "agentId": agent });
        said(
            "post-tool-use",
            json!({ "tool_name": "Agent", "tool_input": { "prompt": prompt }, "tool_response": response }),
        );
    };
    let is_refused = || as_session(&["task", "complete", "A"]).code(8).says("is still working");
    as_session(&["task", "start"]).code(0);
    as_session(&["task", "claim", "A"]).code(0);
    launched("one");
    is_refused();
    // What the client does not say changes nothing.
    said("stop", json!({}));
    is_refused();
    // One that ended without a word is found at the end of the session's turn.
    launched("two");
    said("stop", json!({ "background_tasks": [{ "id": "two", "type": "subagent" }] }));
    is_refused().says("(two)");
    let transcript = repo.join("transcript.jsonl");
    fs::write(&transcript, TRANSCRIPT).unwrap();
    said("subagent-stop", json!({ "agent_id": "two", "agent_transcript_path": transcript }));
    // It was sent another message, and works again.
    let writes =
        with(write_to(&repo, &format!("{WORKTREE}/a.txt")), json!({ "agent_id": "two", "agent_type": "worker" }));
    assert_eq!(decision(&hook(&repo, &writes.to_string(), &[]).code(0)), "allow");
    is_refused();
    said("subagent-stop", json!({ "agent_id": "two", "agent_transcript_path": transcript }));
    // One whose launch did not say for which task is at the one that it enters.
    let response = json!({ "status": "async_launched", "agentId": "three" });
    said("post-tool-use", json!({ "tool_input": { "prompt": "Do task A." }, "tool_response": response }));
    as_session(&["task", "verify", "A"]).code(1);
    let writes = with(writes, json!({ "agent_id": "three" }));
    hook(&repo, &writes.to_string(), &[]).code(0);
    is_refused().says("(three)");
    said("stop", json!({ "background_tasks": [{ "type": "shell" }] }));
    repo.write(&format!("{WORKTREE}/a.txt"), "A\n");
    let done = as_session(&["task", "complete", "A", "--json"]).code(0).json();
    assert_eq!((&done["result"], &done["attempt"]), (&json!("completed"), &json!(1)));
    assert_eq!(repo.task("A")["tokens"], 12);
    as_session(&["stop"]).code(0);
}

#[test]
fn what_an_ended_session_holds_is_released_by_its_own_end_or_when_the_next_one_starts() {
    let (repo, home) = (Repo::new(), tempfile::tempdir().unwrap());
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    repo.commit("graph");
    let env = |session: &'static str| {
        [("CLAUDE_CODE_SESSION_ID", session), ("CLAUDE_CONFIG_DIR", home.path().to_str().unwrap())]
    };
    let listed = || {
        let entries = fs::read_dir(home.path().join("tasks/x")).unwrap().flatten();
        let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        let entry = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        entry.into_iter().find(|entry| entry["metadata"]["task"] == "A").unwrap()["status"].clone()
    };
    let says = |event: &str, session: &'static str| {
        let call = json!({ "session_id": session, "cwd": repo.path(), "reason": "other" });
        assert_eq!(answer(&repo, event, &call.to_string(), &env(session)).code(0).stdout, "", "{event}");
    };
    let transcript = repo.join("transcript.jsonl");
    fs::write(&transcript, TRANSCRIPT).unwrap();
    for (attempt, event, by) in [(1, "session-end", "s1"), (2, "session-start", "s2")] {
        repo.run_with(&["task", "start"], &env("s1")).code(0);
        repo.run_with(&["task", "claim", "A"], &env("s1")).code(0);
        let writes = with(write_to(&repo, &format!("{WORKTREE}/a.txt")), json!({ "agent_id": "one" }));
        hook(&repo, &writes.to_string(), &env("s1")).code(0);
        let stopped =
            json!({ "session_id": "s1", "cwd": repo.path(), "agent_id": "one", "agent_transcript_path": transcript });
        answer(&repo, "subagent-stop", &stopped.to_string(), &env("s1")).code(0);
        assert_eq!(listed(), "in_progress");
        says("session-start", "s3");
        says("session-end", "s3");
        assert_eq!(listed(), "in_progress", "another session comes and goes");
        if event == "session-start" {
            // The client was killed: its session says nothing any more.
            let lease = repo.join(".git/mahabharatha/x/sessions/s1.json");
            let mut text: Value = serde_json::from_slice(&fs::read(&lease).unwrap()).unwrap();
            text["patience_ms"] = json!(0);
            fs::write(&lease, text.to_string()).unwrap();
        }
        says(event, by);
        assert_eq!((listed(), repo.task_status("A")), (json!("pending"), "pending".to_owned()), "{event}");
        assert_eq!((&repo.task("A")["attempt"], &repo.task("A")["tokens"]), (&json!(attempt), &json!(12 * attempt)));
        repo.run_with(&["stop"], &env("s1")).code(0);
    }
}

#[test]
fn a_session_may_write_the_files_of_what_it_claimed_and_nothing_else() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true")]);
    repo.commit("graph");
    let as_session = |args: &[&str]| repo.run_with(args, &[("CLAUDE_CODE_SESSION_ID", "s1")]);
    as_session(&["task", "start"]).code(0);
    as_session(&["task", "claim", "A"]).code(0);
    let of_worker = |path: &str| with(write_to(&repo, path), json!({ "agent_id": "a1", "agent_type": "worker" }));
    let owned = format!("{WORKTREE}/a.txt");
    assert_eq!(decision(&hook(&repo, &of_worker(&owned).to_string(), &[]).code(0)), "allow");
    hook(&repo, &of_worker("README.md").to_string(), &[]).code(2).says("outside of your worktree");
    hook(&repo, &of_worker(&format!("{WORKTREE}/README.md")).to_string(), &[]).code(2).says("is not owned by A");
    // The session itself may still write in the checkout, if the person lets it.
    assert_eq!(hook(&repo, &write_to(&repo, "README.md").to_string(), &[]).code(0).stdout, "");
    let of_other = with(of_worker(&owned), json!({ "session_id": "s2" }));
    hook(&repo, &of_other.to_string(), &[]).code(2).says("for another session");
    hook(&repo, &write_to(&repo, ".git/mahabharatha/x/events.jsonl").to_string(), &[])
        .code(2)
        .says("is managed by mahabharatha");
    let push = json!({ "tool_name": "Bash", "tool_input": { "command": "git push" } });
    hook(&repo, &with(of_worker(""), push).to_string(), &[]).code(2).says("does not push");
    // It is alive as long as its hooks call.
    let lease = repo.join(".git/mahabharatha/x/sessions/s1.json");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(&lease).unwrap().set_modified(long_ago).unwrap();
    hook(&repo, &of_worker(&owned).to_string(), &[]).code(0);
    assert!(fs::metadata(&lease).unwrap().modified().unwrap() > long_ago);
    as_session(&["stop"]).code(0);
    hook(&repo, &of_worker(&owned).to_string(), &[]).code(2);
}

#[test]
fn a_subagent_that_writes_for_one_task_is_kept_out_of_the_others_until_that_one_is_over() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", "true"), task("B", 1, "b.txt", "true")]);
    repo.commit("graph");
    let as_session = |args: &[&str]| repo.run_with(args, &[("CLAUDE_CODE_SESSION_ID", "s1")]);
    as_session(&["task", "start"]).code(0);
    let claimed = as_session(&["task", "claim", "A", "B", "--json"]).code(0).json();
    let place = |at: usize, file: &str| format!("{}/{file}", claimed["claimed"][at]["worktree"].as_str().unwrap());
    let (a, b) = (place(0, "a.txt"), place(1, "b.txt"));
    let by = |agent: &str, path: &str| {
        let call = with(write_to(&repo, path), json!({ "agent_id": agent, "agent_type": "worker" }));
        hook(&repo, &call.to_string(), &[])
    };
    for (agent, path) in [("one", &a), ("two", &b), ("one", &a), ("../one", &b)] {
        assert_eq!(decision(&by(agent, path).code(0)), "allow", "{agent} {path}");
    }
    by("one", &b).code(2).says(&format!("you work on A in {}", place(0, "").trim_end_matches('/')));
    by("two", &a).code(2).says("A belongs to another subagent");
    // Who asked for a prompt is at that task, though it has written nothing yet.
    let asks = json!({ "tool_name": "Bash", "tool_input": { "command": "mahabharatha task prompt B --feature x" } });
    let asked = with(write_to(&repo, ""), json!({ "agent_id": "four", "agent_type": "worker" }));
    assert_eq!(decision(&hook(&repo, &with(asked, asks).to_string(), &[]).code(0)), "allow");
    by("four", &a).code(2).says("you work on B in ");
    // One that broke off is replaced by another, and the session itself may write wherever it holds a task.
    assert_eq!(decision(&by("three", &a).code(0)), "allow");
    for path in [&a, &b] {
        assert_eq!(decision(&hook(&repo, &write_to(&repo, path).to_string(), &[]).code(0)), "allow", "{path}");
    }
    // Given another task when the first is over, it may go on.
    fs::write(&a, "A").unwrap();
    as_session(&["task", "complete", "A"]).code(0);
    assert_eq!(decision(&by("one", &b).code(0)), "allow");
    as_session(&["stop"]).code(0);
}

#[test]
fn a_task_is_called_completed_in_the_clients_list_only_if_that_holds() {
    let (repo, home) = (Repo::new(), tempfile::tempdir().unwrap());
    repo.graph("x", &[task("A", 1, "a.txt", "true"), task("B", 1, "b.txt", "true")]);
    repo.commit("graph");
    let env = [
        ("CLAUDE_CODE_SESSION_ID", "s1"),
        ("CLAUDE_CODE_TASK_LIST_ID", "x"),
        ("CLAUDE_CONFIG_DIR", home.path().to_str().unwrap()),
    ];
    repo.run_with(&["task", "start"], &env).code(0);
    repo.run_with(&["task", "claim", "A"], &env).code(0);
    let list = home.path().join("tasks/x");
    fs::create_dir_all(&list).unwrap();
    let entry = |id: &str, task: &str| {
        let metadata = json!({ "project": repo.path(), "feature": "x", "task": task });
        let entry =
            json!({ "id": id, "subject": task, "description": "", "status": "in_progress", "metadata": metadata });
        fs::write(list.join(format!("{id}.json")), entry.to_string()).unwrap();
    };
    entry("101", "A");
    entry("102", "B");
    fs::write(list.join("103.json"), json!({ "id": "103", "subject": "mine", "status": "pending" }).to_string())
        .unwrap();
    let completed = |session: &str, id: &str| {
        let call = json!({ "session_id": session, "cwd": repo.path(), "task_id": id, "task_subject": "s" });
        answer(&repo, "task-completed", &call.to_string(), &env)
    };
    completed("s1", "101").code(2).says("A is not completed: missing: a.txt, which the task must create");
    completed("s2", "101").code(2).says("another session (s1) holds it");
    for other in ["103", "104", "../101", ""] {
        completed("s1", other).code(0);
    }
    // No session works on it: the run checks the claim itself.
    completed("s1", "102").code(0);
    repo.write(&format!("{WORKTREE}/a.txt"), "A\n");
    completed("s1", "101").code(0);
    repo.run_with(&["task", "complete", "A"], &env).code(0);
    completed("s1", "101").code(0);
    repo.run_with(&["stop"], &env).code(0);
}
