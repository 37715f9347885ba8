//! A new project in an empty directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::support::{Ran, Repo};

const PERSON: [(&str, &str); 2] = [("GIT_AUTHOR_NAME", "A Person"), ("GIT_AUTHOR_EMAIL", "person@example.com")];

fn init(repo: &Repo, args: &[&str]) -> Ran {
    repo.run_with(&[&["init"], args].concat(), &PERSON)
}

/// What is in the directory now, apart from what only git looks at.
fn names(repo: &Repo) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(repo.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_project_begins_with_one_commit_by_its_founder_and_nothing_left_over() {
    let repo = Repo::empty();
    init(&repo, &["--language", "rust", "--name", "My Shop", "--description", "Sells things"])
        .code(0)
        .says("a new project (the directory is empty)")
        .says("Next: `cargo build`");
    assert_eq!(repo.git(&["log", "--format=%an <%ae> %s"]), "A Person <person@example.com> Begin My Shop with Axum");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["branch", "--show-current"]), "main");
    let tree = repo.tree("HEAD");
    for path in
        [".claude/rules/security-rust.md", ".devcontainer/Dockerfile", ".mahabharatha/config.yaml", "src/main.rs"]
    {
        assert!(tree.contains_key(path), "{path} is not in {:?}", tree.keys());
    }
    assert!(!tree.contains_key(".claude/rules/security-python.md"));
    let config = &tree[".mahabharatha/config.yaml"];
    assert!(config.contains("command: cargo clippy --all-targets -- -D warnings\n"), "{config}");
    assert!(tree[".gsd/PROJECT.md"].contains("# Project: My Shop\n\nSells things\n"));
    assert!(tree[".gsd/PROJECT.md"].contains("- the user asked for Rust\n"));

    let before = repo.everything();
    init(&repo, &[]).code(0).says("Already set up");
    assert!(repo.everything() == before, "a second init changed something");
}

#[test]
fn what_was_there_is_kept_and_committed_with_the_rest() {
    let repo = Repo::empty();
    repo.write("README.md", "mine\n");
    repo.write("LICENSE", "also mine\n");
    init(&repo, &["--language", "go", "--name", "shop"]).code(0).says("README.md → README.md.new");
    assert_eq!(repo.read("README.md"), "mine\n");
    assert!(repo.read("README.md.new").starts_with("# shop\n"));
    let tree = repo.tree("HEAD");
    assert_eq!((tree["README.md"].as_str(), tree["LICENSE"].as_str()), ("mine", "also mine"));
    assert_eq!(repo.git(&["status", "--porcelain"]), "?? README.md.new");
}

#[test]
fn without_a_terminal_the_language_must_be_named_or_taken() {
    let repo = Repo::empty();
    init(&repo, &["--name", "shop"]).code(2).says("Python is recommended").says("--language").says("--yes");
    assert!(names(&repo).is_empty());
    let args = ["--yes", "--name", "shop", "--description", "A command line tool for our Kubernetes cluster"];
    init(&repo, &args).code(0);
    assert!(repo.read("go.mod").contains("spf13/cobra"));
    let charter = repo.read(".gsd/PROJECT.md");
    assert!(charter.contains(r#""cluster", "kubernetes" in the answers"#), "{charter}");
}

#[test]
fn answers_come_from_a_file_and_flags_go_first() {
    let repo = Repo::empty();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("answers.yaml");
    let text = "name: shop\nlanguage: python\nframework: click\nusers: Traders\nproblem: |\n  Too much\n  # paper\n";
    fs::write(&file, text).unwrap();
    init(&repo, &["--answers", file.to_str().unwrap(), "--framework", "typer"]).code(0);
    assert!(repo.read("pyproject.toml").contains("typer~="));
    let charter = repo.read(".gsd/PROJECT.md");
    assert!(charter.contains("## Problem\nToo much\n\\# paper\n\n## Users\nTraders\n"), "{charter}");
}

#[test]
fn a_new_python_project_has_its_tools_in_a_fresh_checkout_and_in_the_image() {
    let repo = Repo::empty();
    init(&repo, &["--name", "shop", "--language", "python", "--framework", "flask"]).code(0);
    let config = repo.read(".mahabharatha/config.yaml");
    assert!(config.contains("uv sync") && config.contains("command: uv run pytest"), "{config}");
    assert!(repo.read(".devcontainer/Dockerfile").contains("pip install --no-cache-dir uv;"));
}

#[test]
fn hostile_input_is_refused_before_anything_is_written() {
    let repo = Repo::empty();
    let outside = tempfile::tempdir().unwrap();
    let answers = |text: &[u8]| {
        let file = outside.path().join("answers");
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let rust = |more: &[&str]| init(&repo, &[&["--language", "rust"], more].concat());
    rust(&["--name", "../../etc"]).code(2).says("--name");
    rust(&["--name", "$(id)"]).code(2).says("--name");
    rust(&["--name", "match"]).code(2).says("is already taken in Rust");
    rust(&["--name", "shop", "--description", "two\nlines"]).code(2).says("one line");
    rust(&["--name", "shop", "--description", &"x".repeat(100_000)]).code(2).says("300 characters");
    rust(&["--name", "shop", "--framework", "gin"]).code(2).says("must be one of axum, actix-web, clap for Rust");
    init(&repo, &["--name", "shop", "--language", "cobol"]).code(2).says("python, typescript, go, rust");
    for (text, says) in [
        (&b""[..], "empty file"),
        (b"nam: x\nusers: ''\n", "did you mean `name`?"),
        (b"name: [a\n", "not valid YAML"),
        (b"name: \xff\n", "not UTF-8"),
        (&[b'x'; 300 << 10][..], "longer than 256 KiB"),
        (format!("problem: {}\n", "x".repeat(5000)).as_bytes(), "more than 4000 characters"),
    ] {
        init(&repo, &["--yes", "--name", "shop", "--answers", &answers(text)]).code(6).says(says);
    }
    init(&repo, &["--yes", "--name", "shop", "--answers", "nowhere.yaml"]).code(1).says("nowhere.yaml");
    assert!(names(&repo).is_empty(), "{:?}", names(&repo));
}

#[test]
fn without_git_or_without_a_name_for_the_commit_nothing_is_written() {
    let repo = Repo::empty();
    let args = ["init", "--language", "rust", "--name", "shop"];
    repo.run(&args).code(7).says("git has no user name and email").says("git config --global user.name");
    repo.run_with(&args, &[("PATH", "/nowhere")]).code(7).says("git was not found");
    assert!(names(&repo).is_empty());
}

#[test]
fn a_failing_commit_leaves_the_directory_as_it_was() {
    let repo = Repo::empty();
    repo.write("README.md", "mine\n");
    let before = repo.everything();
    let tools = tempfile::tempdir().unwrap();
    let script =
        "#!/bin/sh\ncase \" $* \" in *' commit '*) echo 'no space left' >&2; exit 1;; esac\nexec \"$GIT\" \"$@\"\n";
    let git = tools.path().join("git");
    let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    fs::write(&git, script.replace("\"$GIT\"", real.trim())).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let path = tools.path().to_str().unwrap();
    let env = [PERSON[0], PERSON[1], ("PATH", path)];
    repo.run_with(&["init", "--language", "rust", "--name", "shop"], &env).code(1).says("no space left");
    assert!(repo.everything() == before, "{:?}", names(&repo));
}

#[test]
fn killed_at_any_moment_it_can_be_begun_again() {
    for point in ["init .gitignore", "init src/main.rs", "init .mahabharatha/init.json", "init commit", "init done"] {
        let repo = Repo::empty();
        repo.write("LICENSE", "mine\n");
        let args = ["--language", "rust", "--name", "shop"];
        let env = [PERSON[0], PERSON[1], ("MAHABHARATHA_CRASH_AT", point)];
        repo.run_with(&[&["init"], &args[..]].concat(), &env).code(-1);
        assert_eq!(repo.exists(".git"), point == "init done", "{point}");
        if point == "init done" {
            init(&repo, &[]).code(0).says("Already set up");
        } else {
            init(&repo, &args).code(0).says("a new project").says("Cargo.toml, rustfmt.toml");
        }
        assert_eq!(repo.subjects("main"), ["Begin shop with Axum"], "{point}");
        assert_eq!(repo.git(&["status", "--porcelain"]), "", "{point}");
        assert!(!names(&repo).iter().any(|name| name.starts_with(".unfinished")), "{point}: {:?}", names(&repo));
    }
}

#[test]
fn where_nothing_can_be_written_nothing_is_left() {
    let repo = Repo::empty();
    let program = env!("CARGO_BIN_EXE_mahabharatha");
    let mut limited = Command::new("sh");
    let line = format!("trap '' XFSZ; ulimit -f 0; exec '{program}' init --language rust --name shop");
    limited.args(["-c", &line]).current_dir(repo.path()).env("HOME", repo.path()).envs(PERSON);
    Ran::of(limited.output().unwrap()).code(1).says("raise the limit");
    assert!(names(&repo).is_empty(), "{:?}", names(&repo));
    // No permission holds root back.
    if !rustix::process::getuid().is_root() {
        fs::set_permissions(repo.path(), fs::Permissions::from_mode(0o555)).unwrap();
        init(&repo, &["--language", "rust", "--name", "shop"]).code(1).says("Check its owner");
        fs::set_permissions(repo.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(names(&repo).is_empty());
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let repo = Repo::empty();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), repo.join(".gsd")).unwrap();
    init(&repo, &["--language", "rust", "--name", "shop"]).code(1).says(".gsd");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(names(&repo), [".gsd"]);
}

#[test]
fn at_a_terminal_the_questions_come_one_by_one_and_the_technology_is_confirmed() {
    let repo = Repo::empty();
    let answers = "2 bad/name\nMy Shop\nSells forecasts from data\n\nTraders\n\n\n\n\n\n\nflask\ny\n";
    let program = format!("'{}' init", env!("CARGO_BIN_EXE_mahabharatha"));
    let mut script = Command::new("script");
    script.args(["-qec", &program, "/dev/null"]).current_dir(repo.path()).env("HOME", repo.path()).envs(PERSON);
    let mut child = script.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), answers.as_bytes()).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    for text in [
        "What is the project called?",
        "must start with a letter",
        "Who uses it",
        "Which language (python, typescript, go, rust)? [python]",
        "Which framework (fastapi, flask, typer, click)? [fastapi]",
        "pyproject.toml, src/my_shop/ (5)",
        "Write these files? [y/N]",
    ] {
        assert!(said.contains(text), "{text:?} is not in\n{said}");
    }
    assert!(repo.read("pyproject.toml").contains("flask~="), "{said}");
    assert!(repo.read(".gsd/PROJECT.md").contains("## Users\nTraders\n"));
}

#[test]
fn an_existing_ignore_file_is_extended() {
    let repo = Repo::empty();
    repo.write(".gitignore", "/target/\n*.swp");
    init(&repo, &["--language", "rust", "--name", "shop"]).code(0).says("added to .gitignore");
    let text = repo.read(".gitignore");
    assert!(text.starts_with("/target/\n*.swp\n\n.env\n") && text.matches("/target/").count() == 1, "{text}");
    assert!(!repo.exists(".gitignore.new"));
    assert_eq!(repo.git(&["check-ignore", "target/x", ".env", "a.swp"]).lines().count(), 3);
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
}
