//! Whole runs in a sandbox: agents, verifications and gates work as usual and reach nothing else.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::Repo;

fn confined_by(sandbox: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!(
        "sandbox: {sandbox}\nquality_gates: [ {{ name: all, command: 'test -s a.txt && git log -1 --format=%H' }} ]\n"
    ));
    repo.commit("second");
    repo
}

fn task(run: &str, verification: &str) -> serde_json::Value {
    json!({
        "id": "A", "title": "A", "level": 1, "files": { "create": ["a.txt"] }, "dependencies": [],
        "run": run, "verification": { "command": verification },
    })
}

/// A run succeeds, and the sandbox that was in force is shown everywhere.
fn succeeds(sandbox: &str) {
    let repo = confined_by(sandbox);
    repo.write("a.txt.txt", "");
    repo.graph(
        "x",
        &[task(
            "git status && echo a > a.txt && touch ~/made \"$TMPDIR/made\"",
            "test ! -e ~/made && test ! -e \"$TMPDIR/made\" && test -s a.txt",
        )],
    );
    // The gate needs the file that the task makes.
    repo.run(&["run", "--allow-red-base"]).code(0).says(&format!("sandbox {sandbox}"));
    assert_eq!(repo.status()["sandbox"], sandbox);
    assert!(repo.read(".gsd/specs/x/COMPLETION.md").contains(&format!("**Sandbox:** {sandbox}")));
    assert!(!repo.home().join("made").exists());
}

#[test]
fn a_run_succeeds_in_bubblewrap() {
    succeeds("bwrap");
}

#[test]
fn a_run_succeeds_under_landlock() {
    succeeds("landlock");
}

/// What changes in `.git` during a confined attempt was changed by a person: nothing inside can write there.
fn a_persons_changes_of_git_stay(sandbox: &str) {
    let repo = Repo::new();
    let signs = repo.home().join("signs");
    std::fs::create_dir(&signs).unwrap();
    repo.config(&format!("sandbox: {{ mode: {sandbox}, read: [{}] }}\n", signs.display()));
    repo.commit("second");
    let wait = format!("until test -e {}/go; do sleep 0.05; done; echo a > a.txt", signs.display());
    repo.graph("x", &[task(&wait, "test -s a.txt")]);
    let run = repo.spawn(&["run"]);
    repo.wait_for(".git/mahabharatha/x/slots/worker-0.doing");
    repo.git(&["config", "core.hooksPath", ".husky"]);
    repo.write(".git/hooks/pre-commit", "exit 1\n");
    std::fs::write(signs.join("go"), "").unwrap();
    run.wait().code(0);
    assert_eq!(repo.git(&["config", "core.hooksPath"]), ".husky");
    assert!(repo.exists(".git/hooks/pre-commit"));
}

#[test]
fn a_persons_changes_of_git_stay_in_bubblewrap() {
    a_persons_changes_of_git_stay("bwrap");
}

#[test]
fn a_persons_changes_of_git_stay_under_landlock() {
    a_persons_changes_of_git_stay("landlock");
}

/// Verifications of one level run one after another in staging. None sees what another one left outside of the worktree.
fn verifications_do_not_meet(sandbox: &str, leaves: &str, sees: &str) {
    let repo = Repo::new();
    repo.config(&format!("sandbox: {sandbox}\n"));
    repo.commit("second");
    std::fs::create_dir_all(repo.home().join(".cargo/registry")).unwrap();
    let tasks = ["A", "B", "C", "D"].map(|id| {
        // The second one leaves nothing: in bubblewrap the third one runs as the first of a series.
        let verification = if id == "B" { "true".to_owned() } else { format!("if {sees}; then exit 1; fi; {leaves}") };
        json!({
            "id": id, "title": id, "level": 1, "files": { "create": [format!("{id}.txt")] }, "dependencies": [],
            "run": format!("echo {id} > {id}.txt"), "verification": { "command": verification },
        })
    });
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(0);
}

/// Leaves a process whose first thread has ended, which the kernel lists as a zombie, and which goes on.
const FIRST_THREAD_ENDS: &str = "setsid perl -Mthreads -e 'threads->create(sub { sleep 1000 })->detach; \
    syscall(qx(uname -m) =~ /aarch64/ ? 93 : 60, 0)' left-\"running\" > /dev/null 2>&1 < /dev/null & \
    for i in $(seq 1000); do grep -q '^State:.Z' /proc/$!/status && exit 0; sleep 0.01; done; exit 1";

#[test]
fn no_verification_sees_what_another_one_left() {
    let in_overlay = [
        ("echo x > ~/.cargo/registry/x", "test -e ~/.cargo/registry/x"),
        // Overlays have directories with this name too.
        ("mkdir ~/.cargo/registry/work && echo x > ~/.cargo/registry/work/x", "test -e ~/.cargo/registry/work/x"),
        // The parent of a mount point.
        ("echo x > ~/.cargo/config.toml", "test -e ~/.cargo/config.toml"),
        ("chmod 500 ~/.cargo", "test ! -w ~/.cargo"),
    ];
    let anywhere = [
        ("echo x > ~/x", "test -e ~/x"),
        ("chmod 500 ~", "test ! -w ~"),
        ("echo x > \"$TMPDIR/x\"", "test -e \"$TMPDIR/x\""),
        (FIRST_THREAD_ENDS, "cat /proc/[0-9]*/task/*/cmdline 2>/dev/null | grep -q '[l]eft-running'"),
        ("git config x.y z", "git config x.y"),
        ("git commit --quiet --allow-empty -m x", "git log -1 --format=%s | grep x"),
        ("echo '[x] y = z' > ~/.gitconfig", "git config x.y"),
    ];
    // What is not on disk. Message queues can be listed in a series only.
    let in_memory = [
        ("echo x > /dev/shm/x", "test -e /dev/shm/x"),
        ("mkdir /run/x", "test -e /run/x"),
        ("mkdir /dev/x", "test -e /dev/x"),
        ("chmod 500 /var/tmp", "test ! -w /var/tmp"),
        ("if test -d /dev/mqueue; then touch /dev/mqueue/x; fi", "test -e /dev/mqueue/x"),
        ("perl -e 'shmget(77, 16, 01600) // die'", "perl -e 'exit !defined(shmget(77, 0, 0))'"),
        ("(sleep 1000 &) > /dev/null 2>&1", "grep -q sleep /proc/[0-9]*/comm"),
        ("renice -n 7 -p 1", "test $(nice) -ge 7"),
        ("prlimit --pid 1 --nofile=99:99", "test $(ulimit -n) -le 99"),
        ("ionice -c 3 -p 1", "ionice -p $$ | grep -q idle"),
        ("chmod 0 /dev/pts/ptmx", "test ! -r /dev/pts/ptmx"),
    ];
    for (leaves, sees) in anywhere.iter().chain(&in_overlay).chain(&in_memory) {
        verifications_do_not_meet("bwrap", leaves, sees);
    }
    // Root may write anywhere in its home.
    for (leaves, sees) in anywhere.iter().filter(|(_, sees)| !sees.contains("-w")) {
        verifications_do_not_meet("landlock", leaves, sees);
    }
}

/// Runs three tasks with these verifications and returns the output of the last one, which runs in a series.
fn verified_in_series(repo: &Repo, last: &str, timeout: u32, code: i32) -> String {
    repo.config("sandbox: bwrap\nretry: { max_attempts: 1 }\nmerge: { remediation_attempts: 0 }\n");
    repo.commit("second");
    let tasks = ["A", "B", "C"].map(|id| {
        let command = if id == "C" { last } else { "true" };
        json!({
            "id": id, "title": id, "level": 1, "files": { "create": [format!("{id}.txt")] }, "dependencies": [],
            "run": format!("echo {id} > {id}.txt"),
            "verification": { "command": command, "timeout_seconds": timeout },
        })
    });
    repo.graph("x", &tasks);
    repo.run(&["run"]).code(code);
    repo.read(".mahabharatha/logs/x/gates/1-verify C.1.jsonl")
}

#[test]
fn verifications_run_in_a_series_whose_server_they_cannot_reach() {
    let attack = "cat /proc/1/comm; echo in=$(cat) && kill -9 1; kill -STOP 1; echo alive; echo to stderr >&2; \
                  ls -l /proc/self/fd; \
                  if grep -q program /proc/1/comm; then \
                  ! cat /proc/1/environ && ! readlink /proc/1/fd/3 && ! cat /proc/1/mem && ! ls /proc/1/cwd/; fi";
    let output = verified_in_series(&Repo::new(), attack, 60, 0);
    // The program's output, and not its command, which the log has too.
    for expected in ["program", "in=", "alive", "to stderr"] {
        assert!(output.contains(&format!("\"message\":\"{expected}\"")), "{expected}: {output}");
    }
    assert!(!output.contains("socket:"), "{output}");
}

#[test]
fn a_verification_in_a_series_is_ended_at_its_time_limit() {
    // Only in a series, which comes after the verification of the attempt.
    let slow = "if grep -q program /proc/1/comm; then (setsid sleep 1000 &); trap '' TERM; sleep 1000; fi";
    let output = verified_in_series(&Repo::new(), slow, 2, 4);
    assert!(output.contains("time limit") || output.contains("timed_out"), "{output}");
}

/// A filter of the user's git runs on what agents wrote, and this one runs a file beside it.
fn a_filter_is_confined(sandbox: &str) {
    let repo = Repo::new();
    repo.config(&format!("sandbox: {sandbox}\n"));
    repo.write(".gitattributes", "*.nb filter=nb\n");
    repo.commit("second");
    repo.git(&["config", "filter.nb.clean", "sh ./clean.sh 2>/dev/null || tr a-z A-Z"]);
    repo.git(&["config", "filter.nb.smudge", "cat %f >/dev/null; cat"]);
    let escape = format!("touch {0}/escaped; cat {0}/secret; tr a-z A-Z", repo.home().display());
    std::fs::write(repo.home().join("secret"), "SECRET\n").unwrap();
    repo.graph(
        "x",
        &[json!({
            "id": "A", "title": "A", "level": 1, "files": { "create": ["a.nb", "b.nb", "clean.sh"] },
            "run": format!("echo agent > a.nb; cp a.nb b.nb; echo '{escape}' > clean.sh"),
            "verification": { "command": "grep -qi agent a.nb" },
        })],
    );
    repo.run(&["run"]).code(0);
    assert!(!repo.home().join("escaped").exists());
    for file in ["main:a.nb", "main:b.nb"] {
        assert_eq!(repo.git(&["cat-file", "-p", file]), "AGENT");
    }
}

#[test]
fn filters_are_confined_in_bubblewrap() {
    a_filter_is_confined("bwrap");
}

#[test]
fn filters_are_confined_under_landlock() {
    a_filter_is_confined("landlock");
}

/// A task whose file goes through the filter `q`.
fn filtered(sandbox: &str, command: &str) -> Repo {
    let repo = Repo::new();
    repo.config(&format!("agent: command\nretry: {{ max_attempts: 1 }}\nsandbox: {sandbox}\n"));
    repo.write(".gitattributes", "*.q filter=q\n");
    repo.commit("second");
    repo.git(&["config", "filter.q.clean", command]);
    repo.graph(
        "x",
        &[json!({
            "id": "A", "title": "A", "level": 1, "files": { "create": ["a.q"] },
            "run": "echo agent > a.q", "verification": { "command": "true" },
        })],
    );
    repo
}

#[test]
fn nothing_lands_that_a_filter_could_not_change() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = filtered(sandbox, "sh ~/tools/strip.sh");
        let tools = repo.home().join("tools");
        std::fs::create_dir(&tools).unwrap();
        std::fs::write(tools.join("strip.sh"), "tr a-z A-Z\n").unwrap();
        repo.run(&["run"]).code(3);
        assert!(repo.git_fails(&["cat-file", "-e", "main:a.q"]));
        let reason = repo.task("A")["reason"].as_str().unwrap().to_string();
        for said in ["`sh ~/tools/strip.sh` failed with exit code", "`sandbox.read`", "clean filter 'q' failed"] {
            assert!(reason.contains(said), "{said} in {reason}");
        }

        let shown = format!("agent: command\nsandbox: {{ mode: {sandbox}, read: [~/tools] }}\n");
        repo.write(".mahabharatha/config.yaml", &shown);
        repo.run(&["retry", "A"]).code(0);
        repo.run(&["run", "--accept-config"]).code(0);
        assert_eq!(repo.git(&["cat-file", "-p", "main:a.q"]), "AGENT");
    }
}

#[test]
fn the_program_of_a_filter_is_shown_with_its_python_environment() {
    for sandbox in ["bwrap", "landlock"] {
        let home = tempfile::Builder::new().prefix("venv").tempdir().unwrap();
        let environment = home.path().canonicalize().unwrap();
        let program = environment.join("bin/strip");
        let repo = filtered(sandbox, &format!("\"{}\" --keep", program.display()));
        for dir in ["bin", "lib"] {
            std::fs::create_dir(environment.join(dir)).unwrap();
        }
        std::fs::write(environment.join("pyvenv.cfg"), "").unwrap();
        std::fs::write(environment.join("lib/strip.sh"), "tr a-z A-Z\n").unwrap();
        std::fs::write(&program, format!("#!/bin/sh\nexec sh '{}/lib/strip.sh'\n", environment.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        repo.run(&["run"]).code(0);
        assert_eq!(repo.git(&["cat-file", "-p", "main:a.q"]), "AGENT");
    }
}

#[test]
fn no_link_of_an_agent_leads_a_mount_point_out_of_the_worktree() {
    let repo = Repo::new();
    repo.config("sandbox: bwrap\n");
    repo.write(".gitignore", ".gsd/\n");
    repo.commit("second");
    let victim = repo.home().join("victim");
    std::fs::create_dir(&victim).unwrap();
    let link = format!("mv .gsd/specs .gsd/old; ln -s /oldroot{} .gsd/specs; echo a > a.txt", victim.display());
    repo.graph("x", &[task(&link, "test -e a.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

#[test]
fn a_named_pipe_holds_up_nothing() {
    let repo = Repo::new();
    repo.config("sandbox: bwrap\nquality_gates: [ { name: pipe, command: 'mkdir -p e && mkfifo e/.gitignore' } ]\n");
    repo.commit("second");
    let pipes = "echo a > a.txt; mkfifo .gitignore .gitattributes; mkdir d; mkfifo d/.gitignore";
    repo.graph("x", &[task(pipes, "mkdir -p f && mkfifo f/.gitignore")]);
    repo.run(&["run"]).code(0);
}

#[test]
fn without_a_sandbox_the_run_says_so() {
    let repo = confined_by("off");
    repo.graph("x", &[task("echo a > a.txt", "true")]);
    repo.run(&["run", "--allow-red-base"]).code(0).says("run with your rights");
    assert_eq!(repo.status()["sandbox"], "off");
    assert!(repo.read(".gsd/specs/x/COMPLETION.md").contains("**Sandbox:** none"));
}

#[test]
fn the_worktree_appears_at_the_path_of_the_checkout() {
    let repo = confined_by("bwrap");
    let path = repo.path();
    let here = format!("test \"$PWD\" = '{0}' && test \"$MAHABHARATHA_WORKTREE\" = '{0}'", path.display());
    repo.graph("x", &[task(&format!("{here} && echo a > a.txt"), &here)]);
    repo.run(&["run", "--allow-red-base"]).code(0);
}

#[test]
fn an_option_overrides_the_configuration() {
    let repo = confined_by("off");
    repo.graph("x", &[task("test ! -e ~/secret && echo a > a.txt", "true")]);
    std::fs::write(repo.home().join("secret"), "").unwrap();
    repo.run(&["run", "--allow-red-base", "--sandbox", "bwrap"]).code(0).says("sandbox bwrap");
}

#[test]
fn a_denial_is_reported_with_the_setting_that_lifts_it() {
    let repo = confined_by("bwrap");
    std::fs::write(repo.home().join(".tool"), "").unwrap();
    let file = repo.home().canonicalize().unwrap().join(".tool");
    let read = format!("cat '{}'", file.display());
    repo.write(".gitignore", "*.local\n");
    repo.commit("third");
    repo.graph("x", &[task("cat >> prompts.local; echo a > a.txt", &read)]);
    repo.run(&["run", "--allow-red-base"]).code(3);
    let reason = repo.task("A")["reason"].as_str().unwrap().to_string();
    assert!(reason.starts_with("The sandbox does not show"), "{reason}");
    let (_, blocker) =
        repo.status().to_string().split_once("\"blockers\"").map(|(a, b)| (a.len(), b.to_owned())).unwrap();
    assert!(blocker.contains("The sandbox does not show"), "{blocker}");
    repo.run(&["debug", "A"]).says("The sandbox does not show");
    // It tells that a file exists which the agent cannot see.
    let prompts = repo.read(".mahabharatha/worktrees/x/worker-0/prompts.local");
    assert!(prompts.contains("The verification failed") && !prompts.contains("The sandbox does not"), "{prompts}");

    let config = repo.read(".mahabharatha/config.yaml");
    let config = config.replace("sandbox: bwrap", &format!("sandbox: {{ mode: bwrap, read: ['{}'] }}", file.display()));
    repo.write(".mahabharatha/config.yaml", &config);
    repo.run(&["retry", "A"]).code(0);
    repo.run(&["run", "--allow-red-base", "--accept-config"]).code(0);
}

#[test]
fn what_an_agent_was_denied_is_told_to_people_only() {
    for (run, told) in [
        ("cat ~/x", "does not show"),
        ("echo x > /usr/local/mahabharatha-x", "does not let anything write /usr/local/mahabharatha-x. "),
    ] {
        let repo = Repo::new();
        repo.config("sandbox: bwrap\nretry: { max_attempts: 2, base_seconds: 0 }\n");
        repo.write(".gitignore", "*.local\n");
        repo.commit("second");
        std::fs::write(repo.home().join("x"), "").unwrap();
        repo.graph("x", &[task(&format!("cat >> prompts.local; {run} && echo a > a.txt"), "true")]);
        repo.run(&["run"])
            .code(3)
            .says("A failed: its agent ended with an error (attempt 1 of 2)")
            .says(&format!(": The sandbox {told}"))
            .says("A is blocked: The sandbox does not ")
            .says(" to sandbox.");
        repo.run(&["status"]).says(" to sandbox.");
        repo.run(&["debug", "A"]).says("The sandbox kept the agent of A from a file");
        let prompts = repo.read(".mahabharatha/worktrees/x/worker-0/prompts.local");
        assert!(prompts.contains("The agent") && !prompts.contains("The sandbox does not"), "{prompts}");
    }
}

#[test]
fn a_base_that_fails_only_in_a_sandbox_is_reported_with_its_cause() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.key\n");
    let file = repo.home().canonicalize().unwrap().join(".tool");
    let gates = [("own", "cat test.key".to_owned()), ("tool", format!("cat '{}'", file.display()))];
    let gates = gates.map(|(name, command)| format!("  - {{ name: {name}, command: {} }}\n", json!(command)));
    repo.config(&format!("sandbox: bwrap\nquality_gates:\n{}", gates.concat()));
    repo.commit("second");
    repo.write("test.key", "");
    std::fs::write(&file, "").unwrap();
    repo.graph("x", &[task("echo a > a.txt", "true")]);
    repo.run(&["run"])
        .code(7)
        .says("Likely cause: test.key is in your checkout")
        .does_not_say("Likely cause: Likely")
        .says(&format!("Likely cause: The sandbox does not show {}", file.display()))
        .says("to sandbox.read in .mahabharatha/config.yaml");
}

#[test]
fn a_configured_path_that_is_missing_is_left_out_with_a_warning() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {{ mode: {sandbox}, read: [~/.npmrc], write: [~/gone/cache] }}\n"));
        repo.commit("second");
        repo.graph("x", &[task("echo a > a.txt", "test -s a.txt")]);
        let file = repo.home().join(".npmrc");
        let missing = format!(
            "sandbox.read[0] in .mahabharatha/config.yaml: {} does not exist on this machine, so programs in the sandbox do \
             not see it",
            file.display()
        );
        repo.run(&["doctor"]).code(0).says(&missing).says("sandbox.write[0] in .mahabharatha/config.yaml: ");
        repo.run(&["sandbox", "--", "true"]).code(0);
        repo.run(&["run"]).code(0).says(&missing);
    }
}

#[test]
fn a_path_that_contains_the_home_or_a_directory_of_ours_is_refused() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.graph("x", &[task("echo a > a.txt", "true")]);
        let (root, parent) = (repo.path().display().to_string(), repo.path().parent().unwrap().display().to_string());
        for (path, why) in [
            ("/", "is the whole file system"),
            ("~/", "contains your whole home directory"),
            ("/run", "contains /run/mahabharatha"),
            (&root, "contains "),
            (&parent, "contains "),
        ] {
            repo.config(&format!("sandbox: {{ mode: {sandbox}, read: ['/usr', '{path}'] }}\n"));
            let named = "sandbox.read[1] in .mahabharatha/config.yaml: ";
            repo.run(&["doctor"]).code(7).says("FAILED  sandbox: ").says(named).says(why);
            repo.run(&["run"]).code(7).says(named).says(why).says("Name the files or directories in it");
            if path == "/" || path == "~/" {
                repo.run(&["sandbox", "--", "true"]).code(7).says(named).says(why);
            }
        }
    }
}

#[test]
fn doctor_warns_of_paths_that_open_logins_or_do_nothing() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        std::fs::create_dir(repo.home().join(".ssh")).unwrap();
        let hooks = repo.join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        repo.config(&format!("sandbox: {{ mode: {sandbox}, write: [~/.ssh, '{}'] }}\n", hooks.display()));
        repo.run(&["doctor"])
            .code(0)
            .says("/.ssh may hold logins or keys, which every agent can read and change")
            .says("sandbox.write[1] in .mahabharatha/config.yaml: ")
            .says("so the setting has no effect");
        let planted = repo.run(&["sandbox", "--", &format!("echo x > '{}/planted'", hooks.display())]);
        assert_ne!(planted.code, 0, "{}", planted.stderr);
        assert!(!hooks.join("planted").exists());
        let made = repo.home().join(".ssh/made");
        repo.run(&["sandbox", "--", &format!("touch '{}'", made.display())]).code(0);
    }
}

/// A `PATH` on which bubblewrap fails.
fn without_bubblewrap(repo: &Repo) -> String {
    repo.program("broken/bwrap", "echo 'bwrap: No permissions to create new namespace' >&2\nexit 1\n");
    format!("{}:{}", repo.join("broken").display(), std::env::var("PATH").unwrap())
}

#[test]
fn what_bubblewrap_says_is_in_the_error() {
    let repo = Repo::new();
    let path = without_bubblewrap(&repo);
    repo.config("sandbox: bwrap\n");
    let says = "the sandbox ended before the program was started: No permissions to create new namespace";
    repo.run_with(&["sandbox", "--", "true"], &[("PATH", &path)]).code(7).says(says);
    repo.run_with(&["doctor"], &[("PATH", &path)]).code(7).says(says);
}

#[test]
fn a_weaker_sandbox_that_is_used_instead_is_named_with_the_reason() {
    let repo = Repo::new();
    let path = without_bubblewrap(&repo);
    repo.config("sandbox: auto\n");
    repo.graph("x", &[task("echo a > a.txt", "true")]);
    let says = "landlock, which stops less than bwrap (bwrap: the sandbox ended before the program was started: No \
                permissions to create new namespace)";
    repo.run_with(&["doctor"], &[("PATH", &path)]).code(0).says("warning sandbox: ").says(says);
    repo.run_with(&["run"], &[("PATH", &path)]).code(0).says(says);
    repo.run(&["doctor"]).code(0).does_not_say("stops less");
}

#[test]
fn a_sandbox_that_cannot_be_tried_is_not_done_without() {
    let repo = Repo::new();
    repo.config("sandbox: auto\n");
    let outside = repo.home().join("written");
    repo.graph("x", &[task(&format!("echo a > a.txt; echo x > {}", outside.display()), "true")]);
    let ran = repo.run_with(&["run"], &[("TMPDIR", "/nonexistent")]).code(7);
    ran.says("cannot find out whether bwrap works here: cannot create a temporary directory");
    assert!(!outside.exists());
}

#[test]
fn a_command_that_is_tried_is_told_what_the_sandbox_denied() {
    for sandbox in ["bwrap", "landlock"] {
        let repo = Repo::new();
        repo.config(&format!("sandbox: {sandbox}\n"));
        let file = repo.home().canonicalize().unwrap().join(".local/share/x");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        let tried = repo.run(&["sandbox", "--", "echo out; cat ~/.local/share/x"]).code(1);
        // Under Landlock the program's home has another path.
        let advice = format!("add {} to sandbox.read in .mahabharatha/config.yaml", file.display());
        let tried = tried.says("Likely cause: The sandbox does not show ").says(&advice);
        assert_eq!(tried.stdout, "out\n");
        assert!(tried.stderr.find("No such file") < tried.stderr.find("Likely cause"), "{}", tried.stderr);
        repo.config(&format!("sandbox: {{ mode: {sandbox}, read: ['{}'] }}\n", file.display()));
        repo.run(&["sandbox", "--", "cat ~/.local/share/x"]).code(0);
        repo.run(&["sandbox", "--", "echo fails >&2; exit 3"]).code(3).does_not_say("Likely cause");
        repo.run_with(&["sandbox", "--", ": ${SERVICE_URL:?}"], &[("SERVICE_URL", "x")])
            .says("SERVICE_URL is set in your environment, but commands of a run do not see it");
    }
}

#[test]
fn a_setup_that_the_sandbox_keeps_from_a_file_is_explained() {
    let repo = Repo::new();
    std::fs::write(repo.home().join("settings"), "").unwrap();
    repo.config("sandbox: bwrap\nworktrees: { setup: 'cat ~/settings' }\n");
    repo.commit("second");
    repo.graph("x", &[task("echo a > a.txt", "true")]);
    repo.run(&["run"]).code(7).says("Likely cause: The sandbox does not show ").says("to sandbox.read in");
    repo.run(&["debug"]).says("[setup_failed]").says("The sandbox does not show ");
}

/// A gate like the tests of a file server that refuses paths with a directory that begins with a dot.
const REFUSES_DOT_DIRECTORIES: &str = r#"case "$PWD" in */.*) echo "403 Forbidden: $PWD/index.html"; exit 1;; esac"#;

#[test]
fn doctor_runs_the_gates_where_a_run_would() {
    let dir = tempfile::Builder::new().prefix("trees").tempdir().unwrap();
    let repo = Repo::new();
    repo.config(&format!(
        "sandbox: landlock\nquality_gates: [ {{ name: serve, command: {} }} ]\nworktrees: {{ dir: {} }}\n",
        json!(REFUSES_DOT_DIRECTORIES),
        json!(dir.path().canonicalize().unwrap())
    ));
    repo.commit("second");
    repo.graph("x", &[task("echo a > a.txt", "true")]);
    repo.run(&["doctor", "--run-gates"]).code(0).says("green on the base");
}

#[test]
fn a_project_that_refuses_dot_directories_needs_worktrees_elsewhere() {
    for sandbox in ["landlock", "off", "bwrap"] {
        let dir = tempfile::Builder::new().prefix("trees").tempdir().unwrap();
        let repo = Repo::new();
        let base = format!(
            "sandbox: {sandbox}\nquality_gates: [ {{ name: serve, command: {} }} ]\n",
            json!(REFUSES_DOT_DIRECTORIES)
        );
        repo.config(&base);
        repo.commit("second");
        repo.graph("x", &[task("echo a > a.txt", REFUSES_DOT_DIRECTORIES)]);
        if sandbox == "bwrap" {
            repo.run(&["run"]).code(0);
            continue;
        }
        repo.run(&["run"]).code(7).says("Likely cause: the path of the worktree").says("worktrees.dir");
        let place = dir.path().canonicalize().unwrap().join("trees");
        repo.config(&format!("{base}worktrees: {{ dir: {} }}\n", json!(place)));
        repo.run(&["run", "--accept-config"]).code(0);
        assert!(!place.exists());
    }
}
