//! Processes inside find their tools and end with their sandbox; exit codes and signals arrive.

use crate::support::Repo;

fn confined_by(sandbox: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("sandbox: {sandbox}\n"));
    repo.commit("second");
    repo
}

/// Processes of the machine with this text in their command line.
pub fn processes_with(text: &str) -> usize {
    let of = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(of);
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").contains(text)).count()
}

#[test]
fn exit_codes_are_those_of_the_program() {
    for sandbox in ["bwrap", "landlock", "off"] {
        let repo = confined_by(sandbox);
        for code in [0, 1, 7, 42] {
            repo.run(&["sandbox", "--", &format!("exit {code}")]).code(code);
        }
        repo.run(&["sandbox", "--", "kill -9 $$"]).code(137);
    }
}

/// As rustup does, which reads its default toolchain from there.
#[test]
fn tools_find_their_toolchains_in_the_home() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = confined_by(sandbox);
        for file in [".rustup/settings.toml", ".cargo/registry/index", ".cargo/bin/tool"] {
            let file = repo.home().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        repo.run(&["sandbox", "--", "cat ~/.rustup/settings.toml ~/.cargo/registry/index ~/.cargo/bin/tool"]).code(0);
        // Npm writes to its cache even to read from it.
        std::fs::create_dir_all(repo.home().join(".npm/_cacache")).unwrap();
        repo.run(&["sandbox", "--", "mkdir -p ~/.npm/_cacache/tmp"]).code(0);
    }
}

#[test]
fn a_writable_directory_in_a_package_cache_is_the_users_own() {
    let repo = Repo::new();
    repo.config("sandbox: { mode: bwrap, write: ['~/.cargo/registry/own'] }\n");
    repo.commit("second");
    let cache = repo.home().join(".cargo/registry");
    std::fs::create_dir_all(cache.join("own")).unwrap();
    repo.run(&["sandbox", "--", "echo kept > ~/.cargo/registry/own/a && echo dropped > ~/.cargo/registry/b"]).code(0);
    assert_eq!(std::fs::read_to_string(cache.join("own/a")).unwrap(), "kept\n");
    assert!(!cache.join("b").exists());
}

#[test]
fn nothing_outlives_its_sandbox() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = confined_by(sandbox);
        // Not a round number, so that no other process has it.
        let seconds = format!("98765.{}", std::process::id());
        repo.run(&[
            "sandbox",
            "--",
            &format!("for i in 1 2 3; do setsid sh -c 'sleep {seconds} & wait' & done; sleep 0.2"),
        ])
        .code(0);
        assert_eq!(processes_with(&seconds), 0, "{sandbox}");
    }
}

#[test]
fn a_command_ends_with_a_signal() {
    let ends = ["bwrap", "landlock", "off"].map(|sandbox| [(sandbox, "INT", 130), (sandbox, "TERM", 143)]);
    for (sandbox, signal, code) in ends.into_iter().flatten() {
        let repo = confined_by(sandbox);
        // Only the processes of the command have it as it is said here.
        let seconds = format!("3{}.75", std::process::id());
        let running = repo.spawn(&["sandbox", "--", &format!("sleep {} & wait", seconds.replace(".75", ".7'5'"))]);
        repo.wait_until("the command runs", || processes_with(&seconds) > 0);
        running.signal(signal);
        running.wait().code(code);
        assert_eq!(processes_with(&seconds), 0, "{sandbox} {signal}");
    }
}

#[test]
fn what_cannot_be_had_is_refused() {
    let repo = confined_by("bwrap");
    repo.graph("x", &[]);
    let path = tempfile::tempdir().unwrap();
    for program in ["git", "sh"] {
        let found = std::process::Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
        std::os::unix::fs::symlink(String::from_utf8(found.stdout).unwrap().trim(), path.path().join(program)).unwrap();
    }
    let path = path.path().to_str().unwrap();
    repo.run_with(&["sandbox", "--", "true"], &[("PATH", path)]).code(7).says("bwrap does not work here");
    repo.config("sandbox: sandbox-exec\n");
    let refused = repo.run(&["sandbox", "--", "true"]).code(7);
    refused.says("error: sandbox-exec does not work here: it needs macOS\nhint: `sandbox: auto` uses what works");
}
