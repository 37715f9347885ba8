//! A task changes what it owns and nothing else, whatever its agent tries.

use serde_json::{Value, json};

use crate::support::{Repo, simple, with};

/// One way to change what is not the task's.
struct Way {
    id: &'static str,
    /// What the first attempt does beside its work.
    does: &'static str,
    /// How it is called in feedback, status and log.
    stray: &'static str,
    /// A file that is kept with the work in progress, and what it holds.
    kept: Option<(&'static str, &'static str)>,
}

const COMMON: &str = "$(git rev-parse --path-format=absolute --git-common-dir)";

fn ways() -> Vec<Way> {
    let way = |id, does, stray, kept| Way { id, does, stray, kept };
    vec![
        way("OTHER", "echo theirs > owned-by-other.txt", "owned-by-other.txt", Some(("owned-by-other.txt", "theirs"))),
        way("NEW", "mkdir -p 'a b/ü' && echo new > 'a b/ü/x.txt'", "a b/ü/x.txt", Some(("a b/ü/x.txt", "new"))),
        way("CHANGED", "echo more >> README.md", "README.md", Some(("README.md", "hello\nmore"))),
        way("DELETED", "rm README.md", "README.md", None),
        way("MODE", "chmod +x README.md", "README.md", Some(("README.md", "hello"))),
        way("MOVED", "git mv README.md elsewhere.txt", "elsewhere.txt", Some(("elsewhere.txt", "hello"))),
        way(
            "COMMITTED",
            "echo hidden > hidden.txt && git add -A && git -c user.name=a -c user.email=a@a commit -q -m mine",
            "hidden.txt",
            Some(("hidden.txt", "hidden")),
        ),
        way(
            "ASSUMED",
            "git update-index --assume-unchanged README.md && echo more >> README.md",
            "README.md",
            Some(("README.md", "hello\nmore")),
        ),
        way(
            "SKIPPED",
            "git update-index --skip-worktree README.md && echo more >> README.md",
            "README.md",
            Some(("README.md", "hello\nmore")),
        ),
        way("LINK", "rm link.txt; ln -s /etc/passwd link.txt", "link.txt", Some(("link.txt", "/etc/passwd"))),
        way(
            "NESTED",
            "git init -q nested && echo inner > nested/inner.txt && git -C nested add -A",
            "nested",
            Some(("nested/inner.txt", "inner")),
        ),
        way(
            "HOOK",
            "mkdir -p \"COMMON/hooks\" && printf '#!/bin/sh\\ntouch MARK' > \"COMMON/hooks/post-checkout\" && \
             chmod +x \"COMMON/hooks/post-checkout\"",
            ".git/hooks/post-checkout",
            None,
        ),
        way("CONFIG", "git config core.fsmonitor 'touch MARK'", ".git/config (core.fsmonitor)", None),
        way(
            "FILTER",
            "git config filter.evil.clean 'touch MARK; cat' && echo '* filter=evil' > .gitattributes",
            ".git/config (filter.evil.clean)",
            Some((".gitattributes", "* filter=evil")),
        ),
        way("ALIAS", "git config alias.status '!touch MARK'", ".git/config (alias.status)", None),
    ]
}

#[test]
fn every_way_out_is_caught_named_kept_and_not_taken() {
    let repo = Repo::new();
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("executed");
    repo.config("workers: { count: 1 }\n");
    let ways = ways();
    let mut tasks: Vec<Value> = vec![simple("OWNER", 1, "owned-by-other.txt")];
    for way in &ways {
        let file = format!("{}.txt", way.id.to_lowercase());
        let does = way.does.replace("COMMON", COMMON).replace("MARK", mark.to_str().unwrap());
        // The second attempt must have been told what was wrong with the first.
        let run = format!(
            "cat > \"$MAHABHARATHA_SPEC_DIR/prompt\"; echo {id} > {file}\n\
             if [ $MAHABHARATHA_ATTEMPT = 1 ]; then {does}\n\
             else grep -qF -- '- {stray}' \"$MAHABHARATHA_SPEC_DIR/prompt\" || exit 9; fi",
            id = way.id,
            stray = way.stray,
        );
        tasks.push(with(simple(way.id, 1, &file), json!({ "run": run })));
    }
    repo.graph("x", &tasks);
    let ran = repo.run(&["run"]).code(0).says("kept in wip, attempt failed");
    assert!(!mark.exists(), "something planted was executed");

    let status = repo.status();
    for way in &ways {
        let id = way.id;
        let task = status["tasks"].as_array().unwrap().iter().find(|task| task["id"] == id).unwrap();
        let attempts = task["attempts"].as_array().unwrap();
        let outcomes: Vec<&str> = attempts.iter().map(|each| each["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["failed", "done"], "{id}: {attempts:#?}");
        assert_eq!(attempts[0]["cause"], "strays", "{id}");
        let strays: Vec<&str> =
            attempts[0]["strays"].as_array().unwrap().iter().map(|each| each.as_str().unwrap()).collect();
        assert!(strays.contains(&way.stray), "{id}: {strays:?}");
        assert!(ran.stderr.lines().any(|line| line.contains(id) && line.contains(way.stray)), "{id}: {}", ran.stderr);
        let logged = repo.run(&["logs", "--task", id, "--level", "warn", "--json"]).code(0).stdout;
        assert!(
            logged.lines().any(|line| line.contains("\"event\":\"strays\"") && line.contains(way.stray)),
            "{logged}"
        );
        if let Some((path, content)) = way.kept {
            let wip = format!("refs/mahabharatha/x/wip/{id}/1");
            assert_eq!(repo.git(&["show", &format!("{wip}:{path}")]), content, "{id}");
        }
    }

    // What landed is what the tasks own, and the first commit.
    let tree = repo.tree("main");
    let mut expected: Vec<String> = ways.iter().map(|way| format!("{}.txt", way.id.to_lowercase())).collect();
    expected.extend([".mahabharatha/config.yaml", "README.md", "owned-by-other.txt"].map(str::to_string));
    expected.sort();
    assert_eq!(tree.keys().cloned().collect::<Vec<_>>(), expected);
    assert_eq!((tree["README.md"].as_str(), tree["owned-by-other.txt"].as_str()), ("hello", "OWNER"));
    assert_eq!(tree["link.txt"], "LINK");
    let modes = repo.git(&["ls-tree", "-r", "main"]);
    assert!(modes.lines().all(|line| line.starts_with("100644 ")), "{modes}");
    // Nothing planted is left for the person's next git command.
    assert!(!repo.exists(".git/hooks/post-checkout"));
    let config = repo.read(".git/config");
    assert!(["fsmonitor", "evil", "alias"].iter().all(|word| !config.contains(word)), "{config}");
    repo.git(&["status"]);
    repo.git(&["checkout", "-q", "-b", "another"]);
    assert!(!mark.exists());
}

#[test]
fn a_task_that_never_keeps_to_its_own_is_blocked_and_says_what_it_touched() {
    let repo = Repo::new();
    repo.config("retry: { max_attempts: 2, base_seconds: 0, max_seconds: 0 }\nagent: command\n");
    let run = "echo a > a.txt; echo b > b.txt; echo more >> README.md";
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": run }))]);
    repo.run(&["run"]).code(3);
    let task = repo.task("A");
    assert_eq!((&task["status"], &task["strays"]), (&json!("blocked"), &json!(["README.md", "b.txt"])));
    repo.run(&["status", "-v"]).code(0).says("changed without owning it: README.md, b.txt").says("wip/A/2");
    let analysis = repo.read(".gsd/specs/x/tasks/A.md");
    assert!(analysis.contains("## Failure Analysis") && analysis.contains("README.md"), "{analysis}");
    assert!(repo.read(".gsd/STATE.md").contains("- A\n  - Root cause:"));
    assert_eq!(repo.tree("main").keys().collect::<Vec<_>>(), [".mahabharatha/config.yaml", "README.md"]);
}

#[test]
fn a_verification_that_changes_more_than_it_may_lands_nothing_of_it() {
    let repo = Repo::new();
    let verify = "echo more >> README.md; echo x > made.txt; echo changed >> a.txt; test -e a.txt";
    let task = with(simple("A", 1, "a.txt"), json!({ "verification": { "command": verify, "timeout_seconds": 20 } }));
    repo.graph("x", &[task, simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    let tree = repo.tree("main");
    assert_eq!((tree["a.txt"].as_str(), tree["README.md"].as_str()), ("A", "hello"));
    assert!(!tree.contains_key("made.txt"));
}

#[test]
fn what_tools_make_is_left_out_without_a_word() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.o\n");
    repo.write("Cargo.lock", "old\n");
    repo.commit("ignore");
    let run = "echo a > src/a.py; echo new > Cargo.lock; mkdir -p src/__pycache__ node_modules/left-pad target/debug; \
               echo p > src/__pycache__/a.pyc; echo n > node_modules/left-pad/i.js; echo t > target/debug/x; echo o > a.o; \
               echo g > api.generated.ts";
    repo.config("ownership: { generated: [\"**/*.generated.ts\"] }\n");
    repo.graph("x", &[with(simple("A", 1, "src/a.py"), json!({ "run": format!("mkdir -p src; {run}") }))]);
    repo.run(&["run"]).code(0).does_not_say("does not own");
    let task = repo.task("A");
    assert_eq!((task["attempt"].as_u64(), &task["attempts"][0]["strays"]), (Some(1), &json!([])));
    let tree = repo.tree("main");
    let expected = [".gitignore", ".mahabharatha/config.yaml", "Cargo.lock", "README.md", "src/a.py"];
    assert_eq!(tree.keys().collect::<Vec<_>>(), expected);
    assert_eq!(tree["Cargo.lock"], "old");
}
