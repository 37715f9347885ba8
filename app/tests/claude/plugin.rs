//! Our plugins as the client takes them.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::claude_client;
use crate::client::Bench;
use crate::commands::NAMES;
use crate::messages_api::{Api, Reply, tool_use};
use crate::session::path_to_the_program;

fn with_plugins(api: Api) -> Option<(Bench, tempfile::TempDir)> {
    let (bench, plugins) = (Bench::new(api, "")?, tempfile::tempdir().unwrap());
    bench.run(&["install", "--plugin", plugins.path().to_str().unwrap()]).code(0);
    Some((bench, plugins))
}

fn plugin_dirs(plugins: &Path) -> Vec<String> {
    let dirs = ["mahabharatha", "z"].map(|name| plugins.join(name).to_str().unwrap().to_owned());
    dirs.into_iter().flat_map(|dir| ["--plugin-dir".to_owned(), dir]).collect()
}

/// Runs `claude plugin`.
fn plugin(bench: &Bench, args: &[&str]) -> std::process::Output {
    let mut client = Command::new("timeout");
    client.args(["--kill-after=5", "120"]).arg(claude_client::program().unwrap()).arg("plugin").args(args);
    let outer = bench.command(&[]);
    client.env_clear().envs(outer.get_envs().filter_map(|(name, value)| Some((name, value?))));
    client.stdin(std::process::Stdio::null()).output().unwrap()
}

#[test]
fn the_client_finds_nothing_wrong_with_plugins_and_marketplace() {
    let Some((bench, plugins)) = with_plugins(Api::start(|_| Reply::says("Hello."))) else { return };
    for place in ["", "mahabharatha", "z"] {
        let output = plugin(&bench, &["validate", "--strict", plugins.path().join(place).to_str().unwrap()]);
        assert!(output.status.success(), "{place}: {output:?}");
    }
}

#[test]
fn the_commands_of_the_readmes_install_the_plugins() {
    let Some((bench, plugins)) = with_plugins(Api::start(|_| Reply::says("Hello."))) else { return };
    let text = std::fs::read_to_string(plugins.path().join("z/README.md")).unwrap();
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("    /plugin ")).collect();
    assert_eq!(commands.len(), 3, "{text}");
    for command in commands {
        let command = command.replace("<owner>/<repo>", plugins.path().to_str().unwrap());
        let output = plugin(&bench, &command.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{command}: {output:?}");
    }
    let listed = plugin(&bench, &["list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(["mahabharatha@mahabharatha", "z@mahabharatha"].iter().all(|name| listed.contains(name)), "{listed}");
}

#[test]
fn commands_and_agents_have_the_names_of_their_plugins() {
    let api = Api::start(|ask| match (ask.is_main(), ask.turn()) {
        (true, 0) if ask.last().contains("# Kurukshetra") => {
            // As the command says it.
            assert!(ask.last().contains("`mahabharatha:worker`"), "{}", ask.last());
            let call =
                json!({ "description": "x", "prompt": "For the worker.", "subagent_type": "mahabharatha:worker" });
            Reply::of(vec![tool_use("Agent", call)])
        }
        _ => Reply::says("Done."),
    });
    let Some((bench, plugins)) = with_plugins(api) else { return };
    let dirs = plugin_dirs(plugins.path());
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let path = path_to_the_program();
    let env = [("PATH", path.as_str())];
    let talk = bench.talk_by(&bench.repo.path(), &dirs, &env, &["/z:kurukshetra x"]);
    let listed = |name: &str| {
        let all = talk.init()[name].as_array().unwrap().iter();
        all.map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (prefix, name) in ["mahabharatha", "z"].iter().flat_map(|prefix| NAMES.map(|name| (prefix, name))) {
        assert!(listed("slash_commands").contains(&format!("{prefix}:{name}")), "{:?}", listed("slash_commands"));
    }
    for agent in ["scout", "product-owner", "architect", "worker", "gatekeeper"] {
        assert!(listed("agents").contains(&format!("mahabharatha:{agent}")), "{:?}", listed("agents"));
    }
    assert_eq!(talk.errors(), [""; 0]);
    let asked = bench.api.asked();
    assert!(asked.iter().any(|ask| !ask.is_main() && ask.text().contains("For the worker.")), "the worker was called");
}

#[test]
fn hooks_of_a_plugin_run_and_do_nothing_where_the_program_is_missing() {
    let api = Api::start(|ask| match ask.turn() {
        0 => Reply::uses("Write", json!({ "file_path": ask.cwd().join("new.txt"), "content": "one" })),
        _ => Reply::says("Done."),
    });
    let Some((bench, plugins)) = with_plugins(api) else { return };
    let settings = json!({ "permissions": { "allow": ["Write"] } });
    std::fs::create_dir_all(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), settings.to_string()).unwrap();
    let dirs = plugin_dirs(plugins.path());
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let root = bench.repo.path();
    let talk = bench.talk_by(&root, &dirs, &[("PATH", "/usr/bin:/bin")], &["Write it."]);
    assert_eq!(talk.errors(), [""; 0]);
    std::fs::remove_file(bench.repo.join("new.txt")).unwrap();

    // A program that refuses everything shows that the hook is called, and once.
    let program = tempfile::tempdir().unwrap();
    let script = format!("#!/bin/sh\necho \"$2\" >> '{}/calls'\nexit 1\n", program.path().display());
    let file = program.path().join("mahabharatha");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", program.path().display());
    let talk = bench.talk_by(&root, &dirs, &[("PATH", &path)], &["Write it."]);
    assert_eq!(talk.errors().len(), 1, "{:?}", talk.errors());
    assert!(!bench.repo.exists("new.txt"));
    let calls = std::fs::read_to_string(program.path().join("calls")).unwrap();
    assert_eq!(calls.lines().filter(|call| *call == "pre-tool-use").count(), 1, "{calls}");
}
