//! What is found in projects of known kinds, and what is written for them.

use mahabharatha_core::config::Config;
use serde_json::Value;

use crate::bench::Bench;
use crate::fixtures;

/// Everything that `init` writes from what it found, as one text.
fn written(bench: &Bench) -> String {
    let files = [".gsd/INFRASTRUCTURE.md", ".mahabharatha/config.yaml", ".devcontainer/Dockerfile", "CLAUDE.md"];
    let rules = std::fs::read_dir(bench.repo.join(".claude/rules")).into_iter().flatten().flatten();
    let mut rules: Vec<String> = rules.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    rules.sort();
    let texts = files.map(|path| format!("==> {path}\n{}\n", bench.repo.read(path)));
    let text = format!("{}==> .claude/rules\n{}\n", texts.concat(), rules.join("\n"));
    // Whether a database runs here is no matter of the project.
    let is_proposal = |line: &&str| line.starts_with("# Paths that the sandbox") || line.starts_with("#sandbox:");
    match text.lines().any(|line| is_proposal(&line)) {
        true => {
            let kept = text.lines().filter(|line| !is_proposal(line) && !line.starts_with("#  write: [/"));
            kept.map(|line| format!("{line}\n")).collect::<String>().replace("\n\n\n", "\n\n")
        }
        false => text,
    }
}

/// Snapshots what is written, and sees to it that the configuration holds and that doing it again changes nothing.
fn discover(name: &str, files: &[(&str, &str)]) {
    let bench = Bench::new(files);
    bench.run(&["init"]).code(0).says("an existing project (it contains \".git\")").does_not_say("warning:");
    Config::parse(&bench.repo.read(".mahabharatha/config.yaml")).unwrap();
    insta::assert_snapshot!(name, written(&bench));
    let before = bench.repo.everything();
    bench.run(&["init"]).code(0).says("Already set up");
    assert_eq!(bench.repo.everything(), before);
    bench.run(&["init", "--force"]).code(0).says("nothing was changed");
    assert_eq!(bench.repo.everything(), before);
}

#[test]
fn a_polyglot_monorepo() {
    discover("polyglot", fixtures::POLYGLOT);
}

#[test]
fn a_django_site() {
    discover("django", fixtures::DJANGO);
}

#[test]
fn a_next_app() {
    discover("next", fixtures::NEXT);
}

#[test]
fn a_go_module() {
    discover("go", fixtures::GO);
}

#[test]
fn a_cargo_workspace() {
    discover("cargo", fixtures::CARGO);
}

#[test]
fn a_maven_project() {
    discover("maven", fixtures::MAVEN);
}

#[test]
fn a_dotnet_solution() {
    discover("dotnet", fixtures::DOTNET);
}

#[test]
fn what_was_found_can_be_had_as_json() {
    let bench = Bench::new(fixtures::NEXT);
    let ran = bench.run(&["init", "--json", "--name", "other"]).code(0);
    let outcome = ran.json();
    assert_eq!((outcome["mode"].as_str(), outcome["why"].as_str()), (Some("discovery"), Some("it contains \".git\"")));
    assert_eq!(outcome["survey"]["name"], "other");
    assert_eq!(outcome["survey"]["quality"]["coverage"]["percent"], 80.0);
    let actions: Vec<&Value> = outcome["files"].as_array().unwrap().iter().map(|file| &file["action"]).collect();
    assert!(actions.len() > 10 && actions.iter().all(|action| *action == "created"), "{actions:?}");
    assert!(bench.repo.read(".mahabharatha/config.yaml").contains("name: other"));
    assert!(ran.stderr.lines().all(|line| line.contains("an existing project")), "{}", ran.stderr);
}

#[test]
fn tools_that_are_there_become_gates() {
    let bench = Bench::new(fixtures::CARGO);
    for program in ["gitleaks", "cargo-audit"] {
        bench.program(program);
    }
    bench.run(&["init"]).code(0);
    let config = Config::parse(&bench.repo.read(".mahabharatha/config.yaml")).unwrap();
    let gates: Vec<_> = config.quality_gates.iter().map(|gate| (gate.name.as_str(), gate.required)).collect();
    let expected = [("lint", true), ("format", true), ("test", true), ("secrets", false), ("cargo audit", false)];
    assert_eq!(gates, expected);
    assert!(bench.repo.read(".mahabharatha/config.yaml").contains("#- name: semgrep"));
}

#[test]
fn from_a_subdirectory_the_repository_is_meant_and_an_empty_one_is_asked_about() {
    let bench = Bench::new(fixtures::GO);
    std::fs::create_dir(bench.repo.join("new")).unwrap();
    let before = bench.repo.everything();
    bench
        .run(&["-C", "new", "init"])
        .code(2)
        .says("is empty, but inside the repository")
        .says("outside any repository");
    bench.run(&["-C", "go.mod", "init"]).code(2).says("go.mod is not a directory");
    assert_eq!(bench.repo.everything(), before);
    bench.run(&["-C", "cmd", "init"]).code(0);
    assert!(bench.repo.exists(".gsd/INFRASTRUCTURE.md") && !bench.repo.exists("cmd/.gsd"));
}

#[test]
fn code_without_a_repository_is_discovered_and_told_to_become_one() {
    let bench = Bench::without_git(&[("main.py", "print('hello')\n")]);
    bench.run(&["init"]).code(0).says("(it is not empty: it contains \"main.py\")").says("git init");
    assert!(bench.repo.read(".gsd/INFRASTRUCTURE.md").contains("| Python | 1 | 1 |"));
    assert!(bench.repo.read(".devcontainer/Dockerfile").contains("FROM ${BASE:-python:3.12-slim-bookworm}\n"));
    assert!(!bench.repo.exists(".git"));
}

#[test]
fn flags_of_a_new_project_are_refused_for_an_old_one() {
    let bench = Bench::new(fixtures::GO);
    bench.run(&["init", "--language", "go"]).code(2).says("--language is for a new project");
    assert!(!bench.repo.exists(".mahabharatha"));
}

#[test]
fn programs_that_the_gates_need_and_the_machine_has_not_are_named() {
    let bench = Bench::new(fixtures::GO);
    let calls = "these commands need it: `go vet ./...`, `go test ./...`, `go get -t ./...`";
    bench.run(&["init"]).code(0).says("Next: put go on PATH").says(calls);
    bench.repo.git(&["config", "user.name", "A Person"]);
    bench.repo.git(&["config", "user.email", "person@example.com"]);
    bench.repo.commit("set up");
    bench.run(&["doctor"]).code(0).says("lint calls go, which was not found on PATH");
    bench.program("go");
    bench.run(&["init", "--force"]).code(0).says("nothing was changed").does_not_say("on PATH");
    bench.run(&["doctor"]).code(0).does_not_say("calls go");
    bench.program("golangci-lint");
    bench.run(&["init", "--force"]).code(0).says("updated .mahabharatha/config.yaml");
    assert!(bench.repo.read(".mahabharatha/config.yaml").contains("  command: golangci-lint run\n"));
    let lines = "- In a fresh checkout first: `go get -t ./...`\n- Checks: `golangci-lint run`, `go test ./...`\n";
    assert!(bench.repo.read("CLAUDE.md").contains(lines));
}

#[test]
fn an_empty_repository_is_pointed_to_new_projects() {
    let bench = Bench::new(&[("README.md", "# To be written\n")]);
    bench.run(&["init", "--language", "go"]).code(2).says("run init in a directory without .git");
    bench.run(&["init"]).code(0).says("there is no code yet").says("run init in a directory without .git");
    bench.repo.write("main.py", "print()\n");
    bench.run(&["init", "--force"]).code(0).does_not_say("there is no code yet");
}

#[test]
fn what_the_sandbox_hides_is_proposed_but_not_switched_on() {
    let bench = Bench::new(&[("package.json", r#"{"name": "x", "scripts": {"test": "true"}}"#)]);
    for file in [".npmrc", ".pip/pip.conf", ".m2/settings.xml"] {
        let path = bench.repo.home().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "//registry.example/:_authToken=secret\n").unwrap();
    }
    bench.run(&["init"]).code(0);
    let config = bench.repo.read(".mahabharatha/config.yaml");
    assert!(config.contains("#sandbox:\n#  read: [~/.npmrc]    # may hold credentials"), "{config}");
    assert!(Config::parse(&config).unwrap().sandbox.read.is_empty());
    let uncommented = config.replace("\n#sandbox:\n#  read", "\nsandbox:\n  read");
    assert_eq!(Config::parse(&uncommented).unwrap().sandbox.read, ["~/.npmrc"]);
}
