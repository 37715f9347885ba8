//! Projects that mean harm, and places that cannot be written to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use mahabharatha_core::config::Config;

use crate::bench::Bench;
use crate::fixtures;
use crate::support::Ran;

#[test]
fn unreadable_manifests_are_reported_and_the_rest_is_found() {
    let bench = Bench::new(&[("go.mod", "module example.com/x\n\ngo 1.22\n"), ("main.go", "package main\n")]);
    let root = bench.repo.path();
    fs::write(root.join("package.json"), format!("{{\"name\": \"{}\"}}", "x".repeat(50 << 20))).unwrap();
    fs::write(root.join("Cargo.toml"), b"[package]\nname = \"\xff\xfe\"\n").unwrap();
    fs::write(root.join("pyproject.toml"), format!("a = {}", "[".repeat(100_000))).unwrap();
    fs::write(root.join("composer.json"), "[".repeat(100_000)).unwrap();
    fs::write(root.join("pom.xml"), "<project><modules><module>".repeat(1000)).unwrap();
    fs::write(root.join("Gemfile"), b"gem \"\0\x1b[2J\"\n").unwrap();
    symlink(".", root.join("loop")).unwrap();
    symlink("/", root.join("everything")).unwrap();
    symlink("/etc/passwd", root.join(".nvmrc")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("requirements.txt")).status().unwrap().success());
    let ran =
        bench.run(&["init"]).code(0).says("package.json is longer than 1024 KB").says("Cargo.toml is not valid UTF-8");
    ran.says("pyproject.toml is not valid TOML").says("composer.json is not valid JSON");
    let report = bench.repo.read(".gsd/INFRASTRUCTURE.md");
    assert!(report.contains("| Go | 1 | 1 |") && report.contains("## Notes"), "{report}");
    assert!(!report.contains("root:") && !report.contains('\x1b') && report.len() < 100_000, "{report}");
    Config::parse(&bench.repo.read(".mahabharatha/config.yaml")).unwrap();
}

#[test]
fn names_that_would_break_out_stay_names() {
    let evil = "a`|<b>\n# x\n\"; rm -rf \u{202e}$(touch pwned)";
    let manifest = serde_json::json!({
        "name": evil, "description": evil, "scripts": { "test": "jest", evil: evil }, "main": format!("../../{evil}"),
        "dependencies": { "react": evil }, "engines": { "node": format!("20{evil}") }, "workspaces": ["../*", "{{{", "**/**/**"],
    });
    let bench = Bench::new(&[("package.json", &manifest.to_string())]);
    let dir = bench.repo.join("it's $(touch pwned); `x`");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("go.mod"), "module x\n").unwrap();
    bench.run(&["init"]).code(0);
    let report = bench.repo.read(".gsd/INFRASTRUCTURE.md");
    let headings: Vec<&str> = report.lines().filter(|line| line.starts_with("# ")).collect();
    assert_eq!(headings, ["# Infrastructure"]);
    assert!(!report.contains("\u{202e}"), "{report}");
    let config = Config::parse(&bench.repo.read(".mahabharatha/config.yaml")).unwrap();
    let test = config.quality_gates.iter().find(|gate| gate.command.contains("go test")).unwrap();
    let shown = test.command.replace("go test", "pwd; echo");
    let ran = Command::new("sh").args(["-c", &shown]).current_dir(bench.repo.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stdout).contains("it's $(touch pwned); `x`"), "{test:?} {ran:?}");
    assert!(!bench.repo.exists("pwned"));
    assert!(bench.repo.read(".devcontainer/Dockerfile").contains("FROM ${BASE:-debian:bookworm-slim}\n"));
    assert!(bench.repo.read(".devcontainer/Dockerfile").contains("FROM ${BASE:-node:20-bookworm-slim} AS node\n"));
}

#[test]
fn without_git_or_a_directory_nothing_is_written() {
    let bench = Bench::new(fixtures::GO);
    bench.without_program("git");
    let before = bench.repo.everything();
    bench.run(&["init"]).code(7).says("git was not found").says("Install git");
    assert_eq!(bench.repo.everything(), before);
    bench.run(&["-C", "nowhere", "init"]).code(7);
}

#[test]
fn a_configuration_that_does_not_hold_is_an_error_before_anything_is_written() {
    let bench = Bench::new(fixtures::GO);
    bench.repo.write(".mahabharatha/config.yaml", "wrkers: 3\n");
    let before = bench.repo.everything();
    bench.run(&["init"]).code(6).says("workers");
    assert_eq!(bench.repo.everything(), before);
}

#[test]
fn what_stands_in_the_way_is_named_and_nothing_is_half_written() {
    let bench = Bench::new(fixtures::GO);
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), bench.repo.join(".devcontainer")).unwrap();
    let before = bench.repo.everything();
    bench.run(&["init"]).code(1).says(".devcontainer").says("does not write through symlinks");
    assert_eq!(bench.repo.everything(), before);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);

    fs::remove_file(bench.repo.join(".devcontainer")).unwrap();
    // The installer of the commands fails, after everything else is in place.
    bench.repo.write(".claude/settings.json", "no JSON");
    let before = bench.repo.everything();
    let ran = bench.run(&["init"]);
    assert_ne!(ran.code, 0);
    ran.says("settings.json");
    assert_eq!(bench.repo.everything(), before);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    let bench = Bench::without_git(&[("main.py", "x\n")]);
    let root = bench.repo.path();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o555)).unwrap();
    let may_write_anyway = fs::write(root.join("probe"), "").is_ok();
    if may_write_anyway {
        fs::remove_file(root.join("probe")).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        return read_only_mount(&bench);
    }
    bench.run(&["init"]).code(1).says("permissions");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}

/// Root can write anywhere except on a read-only file system.
fn read_only_mount(bench: &Bench) {
    let dir = tempfile::tempdir().unwrap();
    if !crate::support::Disk::mount(dir.path(), "size=1m") {
        return;
    }
    fs::write(dir.path().join("main.py"), "x\n").unwrap();
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(dir.path()).status().unwrap();
    assert!(remount.success());
    let ran = bench.run(&["-C", dir.path().to_str().unwrap(), "init"]);
    let umount = Command::new("umount").arg("-l").arg(dir.path()).status().unwrap();
    ran.code(1).says("read-only");
    assert!(umount.success());
}

#[test]
fn a_claude_md_that_cannot_be_added_to_is_named() {
    let bench = Bench::new(&[("AGENTS.md", "# Ours\n"), ("Makefile", "test:\n\ttrue\n")]);
    symlink("AGENTS.md", bench.repo.join("CLAUDE.md")).unwrap();
    bench.run(&["init"]).code(0).says("CLAUDE.md was not changed: it is a symlink").says("- Checks: `make test`");
    assert_eq!(bench.repo.read("AGENTS.md"), "# Ours\n");
}

#[test]
fn a_home_is_no_project() {
    let bench = Bench::without_git(&[("notes/todo.txt", "x\n")]);
    let init = |dir: &str| {
        let mut command = bench.command(&["-C", dir, "init"]);
        command.env("HOME", bench.repo.path());
        Ran::of(command.output().unwrap())
    };
    bench.repo.write(".bashrc", "");
    let before = bench.repo.everything();
    init(".").code(2).says("is your home directory").says("Nothing was written");
    assert_eq!(bench.repo.everything(), before);
    init("notes").code(0);
    bench.repo.git(&["init", "-q"]);
    fs::create_dir(bench.repo.join("tools")).unwrap();
    bench.repo.write("tools/x.py", "");
    init("tools").code(2).says("is your home directory");
}
