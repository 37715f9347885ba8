//! What the real Claude Code client sends in the first request of a worker, how much of it two workers share, and whether the
//! second worker asks after the first answer, against the client as it comes.

#![expect(clippy::unwrap_used, reason = "a measurement may end by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mahabharatha_testing::claude_client;
use mahabharatha_testing::messages_api::{Api, Ask, Reply};
use serde_json::json;

fn main() {
    let Some(client) = claude_client::program() else {
        println!("the first request: not measured, as ./test has not installed the Claude Code client");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (answers, early) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let unanswered = Arc::clone(&early);
    let ours = Api::start(move |ask| {
        if answers.load(Ordering::SeqCst) == 0 {
            unanswered.fetch_add(1, Ordering::SeqCst);
        }
        let reply = match ask.turn() {
            0 => ask.write(&format!("{}.txt", ask.task()), "done\n"),
            _ => Reply::says("Done."),
        };
        answers.fetch_add(1, Ordering::SeqCst);
        reply
    });
    run_two_workers(&client, dir.path(), &ours);
    let ours: Vec<Ask> = ours.asked().into_iter().filter(|ask| ask.turn() == 0).collect();
    let defaults = Api::start(|_| Reply::says("Done."));
    for (worker, ask) in ours.iter().enumerate() {
        let place = dir.path().join(format!("default-{worker}"));
        fs::create_dir(&place).unwrap();
        let prompt = format!("{}\n{}", ask.system(), ask.text());
        let run = client_command(&client, dir.path(), &defaults).arg("-p").arg(prompt).current_dir(place).output();
        assert!(run.unwrap().status.success());
    }
    println!("the first request of a worker, and what two workers share of it");
    print("ours", &ours);
    print("the client's defaults", &defaults.asked());
    println!("requests before the first answer   {:>6} of {} workers", early.load(Ordering::SeqCst), ours.len());
    println!("what our first request is made of");
    for (part, bytes) in parts(&ours[0]) {
        println!("  {part:<32} {bytes:>6} bytes");
    }
}

/// The parts of a request, the largest first.
fn parts(ask: &Ask) -> Vec<(String, usize)> {
    let tools = ask.body["tools"].as_array().into_iter().flatten();
    let mut parts: Vec<(String, usize)> = tools
        .map(|tool| (format!("tool {}", tool["name"].as_str().unwrap_or_default()), tool.to_string().len()))
        .collect();
    for (part, value) in ask.body.as_object().into_iter().flatten().filter(|(part, _)| *part != "tools") {
        match value.as_array().filter(|_| part == "messages") {
            Some(messages) => parts.extend(messages.iter().map(|message| {
                let role = message["role"].as_str().unwrap_or_default();
                (format!("message of {role}"), message.to_string().len())
            })),
            None => parts.push((part.clone(), value.to_string().len())),
        }
    }
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}

fn print(name: &str, asked: &[Ask]) {
    let [one, other, ..] = asked else { panic!("{name}: {} requests", asked.len()) };
    let shared = one.shared_with(other);
    println!(
        "{name:<34} {:>6} bytes, {} tools, {shared:>6} bytes shared ({} %)",
        one.bytes,
        tools(one),
        100 * shared / one.bytes
    );
    let chosen = one.bytes - one.bytes_of_client();
    println!(
        "  without what the client adds     {chosen:>6} bytes, {shared:>15} bytes shared ({} %)",
        100 * shared / chosen
    );
    let fixed: usize = ["tools", "system"].map(|part| one.body[part].to_string().len()).iter().sum();
    println!("  of tools and system prompt       {fixed:>6} bytes, {:>6} bytes shared", shared.min(fixed));
}

fn tools(ask: &Ask) -> usize {
    ask.body["tools"].as_array().map_or(0, Vec::len)
}

fn client_command(program: &Path, home: &Path, api: &Api) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("ANTHROPIC_BASE_URL", api.url())
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .stdin(Stdio::null());
    command
}

fn run_two_workers(client: &Path, dir: &Path, api: &Api) {
    let repo = dir.join("repo");
    let specs = repo.join(".gsd/specs/b");
    fs::create_dir_all(&specs).unwrap();
    fs::create_dir(repo.join(".mahabharatha")).unwrap();
    let config = format!("agents: {{ claude: {{ command: {} }} }}\n", json!(client));
    fs::write(repo.join(".mahabharatha/config.yaml"), config).unwrap();
    fs::write(repo.join(".gsd/.current-feature"), "b").unwrap();
    fs::write(specs.join("requirements.md"), "# Requirements\n\n".to_owned() + &"- It must work.\n".repeat(100))
        .unwrap();
    let task = |id: &str| {
        let file = format!("{id}.txt");
        json!({ "id": id, "title": "t", "level": 1, "files": { "create": [file] }, "verification": { "command": format!("test -e {file}") } })
    };
    let graph = json!({ "feature": "b", "tasks": [task("A"), task("B")] });
    fs::write(specs.join("task-graph.json"), graph.to_string()).unwrap();
    let identity = ["-c", "user.name=b", "-c", "user.email=b@b"];
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "base"]] {
        let done = Command::new("git").args(identity).args(args).current_dir(&repo).status();
        assert!(done.unwrap().success());
    }
    let program = Path::new(env!("CARGO_BIN_EXE_mahabharatha"));
    let run = client_command(program, dir, api).args(["-q", "run"]).current_dir(&repo).status();
    assert!(run.unwrap().success());
}
