//! What programs in a container can reach.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixListener;

use mahabharatha_testing::containers::{Project, task};

#[test]
fn nothing_else_of_the_machine_is_seen_or_writable() {
    let Some(project) = Project::new("") else { return };
    let (root, home) = (project.path(), project.home().canonicalize().unwrap());
    std::fs::write(home.join("secret"), "s3cret").unwrap();
    std::fs::write(root.join("untracked-secret"), "s3cret").unwrap();
    project.write(".claude/rules/a.md", "a");
    let agent = format!(
        "set -e; test ! -e '{0}/secret'; test ! -e '{1}/untracked-secret'; test ! -e '{1}/.git/mahabharatha'; test ! -e '{1}/.mahabharatha/worktrees'; \
         grep -q 'CapEff:.0000000000000000' /proc/self/status; grep -q 'NoNewPrivs:.1' /proc/self/status; \
         for file in /made /usr/made /rules/made /specs/x/made /run/mahabharatha/objects/0/made '{1}/.git' /workspace/.git; do \
           if touch \"$file\" 2>/dev/null && ! test -f \"$file\"; then exit 9; fi; if echo x 2>/dev/null >> \"$file\"; then echo \"wrote $file\"; exit 8; fi; done; \
         if kill -9 1 2>/dev/null; then exit 7; fi; test -z \"$DOCKER_HOST\"; \
         git commit -q --allow-empty -m mine; git config core.fsmonitor 'touch hacked'; echo a > a.txt",
        home.display(),
        root.display()
    );
    project.graph("x", &[task("A", &agent, "test -s a.txt")]);
    project.run(&["run", "-w", "1"]).code(0);
    assert!(!project.exists("hacked"));
    assert!(!project.git(&["log", "--all", "--format=%s"]).contains("mine"));
    project.nothing_is_left();
}

#[test]
fn secrets_are_only_in_the_environment_of_the_program() {
    let Some(project) = Project::new("env: { pass: [TOKEN, TOOLS] }\n") else { return };
    let agent = "test ${#TOKEN} = 12 && test -z \"$TOOLS\" || exit 1; touch begun; while test ! -e go; do sleep 0.1; done; rm -f begun go; echo a > a.txt";
    project.graph("x", &[task("A", agent, "test ${#TOKEN} = 12 || test -z \"$MAHABHARATHA_ATTEMPT\"")]);
    let mut command = project.command(&["run", "-w", "1"]);
    // A path of this machine means nothing inside.
    command.env("TOKEN", "s3cret value").env("TOOLS", project.home());
    let run = crate::support::Background::start(command);
    project.wait_for_agent("begun");
    let names = project.containers();
    assert!(!names.is_empty());
    let shown = project.run(&["status", "-v", "--json"]).code(0).json();
    let container = &shown["workers"][0]["container"];
    assert!(container["name"].as_str().unwrap().ends_with("-x-worker-0"), "{shown}");
    assert!(container["memory_bytes"].as_u64().unwrap() > 0 && container["cpu_percent"].is_number(), "{container}");
    project.run(&["status", "-v"]).code(0).says("-x-worker-0 (").says(" MB, ");
    // An engine that is not there, or does not answer, is no reason to wait.
    let record = project.join(".git/mahabharatha/x/containers.json");
    let text = std::fs::read_to_string(&record).unwrap();
    let silent = UnixListener::bind(project.home().join("silent")).unwrap();
    let socket = project.home().join("silent").display().to_string();
    std::fs::write(&record, text.replace(project.host.strip_prefix("unix://").unwrap(), &socket)).unwrap();
    let shown = project.run(&["status", "-v", "--json"]).code(0).json();
    assert_eq!(shown["workers"][0]["container"]["memory_bytes"], serde_json::Value::Null, "{shown}");
    drop(silent);
    std::fs::write(&record, text).unwrap();
    for name in &names {
        assert!(!project.docker(&["inspect", name]).contains("s3cret"), "{name}");
    }
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains("s3cret value"));
    }
    std::fs::write(project.worktree("go"), "").unwrap();
    run.wait().code(0);
    assert!(!project.docker(&["images", "--format", "{{.Repository}}", "--no-trunc"]).contains("s3cret"));
}

#[test]
fn ports_are_published_on_loopback_and_the_network_can_be_off() {
    let Some(project) = Project::new("ports: { range_start: 51300, range_end: 51400 }\n") else { return };
    let agent = "echo served | nc -l -p $MAHABHARATHA_PORT >/dev/null & touch begun; wait; rm -f begun; echo a > a.txt";
    project.graph("x", &[task("A", agent, "true")]);
    let run = project.run_until_begun();
    let name = project.containers().into_iter().find(|name| name.ends_with("worker-0")).unwrap();
    let published = project.docker(&["port", &name]);
    let address = published.rsplit(' ').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:513"), "{published}");
    project.wait_until("an answer", || {
        let mut text = String::new();
        TcpStream::connect(&address).is_ok_and(|mut stream| stream.read_to_string(&mut text).is_ok())
            && text.contains("served")
    });
    run.wait().code(0);

    let config = project.read(".mahabharatha/config.yaml").replace("type: container", "type: container, network: none");
    project.write(".mahabharatha/config.yaml", &config);
    project.graph("y", &[task("B", "test \"$(ls /sys/class/net)\" = lo && echo b > b.txt", "true")]);
    project.run(&["run", "-w", "1"]).code(0);
}

#[test]
fn a_check_may_have_no_network_while_agents_have() {
    let Some(project) = Project::new("sandbox: { network: false }\n") else { return };
    let agent = "ls /sys/class/net | grep -q eth0 && echo a > a.txt";
    project.graph("x", &[task("A", agent, "test \"$(ls /sys/class/net)\" = lo")]);
    project.run(&["run", "-w", "1"]).code(0);
}
