//! Agents that try to get what they do not own into the base branch, or something of theirs executed. Each line of the
//! tables is one; the first attempt is hostile, the second does the work.

use serde_json::{Value, json};

use crate::support::{Repo, simple, with};

/// One agent, by what it does beside its work, and what is said to have been touched.
type Adversary = (&'static str, &'static str, &'static str);

/// What scripts may use: `$G` is the repository's git directory, `$W` the worktree's own, `MARK` a file that only
/// something that was executed can make.
const SETUP: &str = "G=$(git rev-parse --path-format=absolute --git-common-dir); W=$(git rev-parse --absolute-git-dir)";

const FILES: &[Adversary] = &[
    ("OTHER", "echo theirs > owned-by-other.txt", "owned-by-other.txt"),
    ("NEW", "mkdir -p 'a b/ü' && echo new > 'a b/ü/x.txt'", "a b/ü/x.txt"),
    ("CHANGED", "echo more >> README.md", "README.md"),
    ("DELETED", "rm README.md", "README.md"),
    ("MODE", "chmod +x README.md", "README.md"),
    ("MOVED", "git mv README.md elsewhere.txt", "elsewhere.txt"),
    ("MOVED-IN", "rm moved-in.txt; git mv README.md moved-in.txt", "README.md"),
    ("COMMITTED", "echo hidden > hidden.txt; git add -A; git commit -q -m mine", "hidden.txt"),
    ("AMENDED", "echo hidden > hidden.txt; git add -A; git commit -q --amend -m mine", "hidden.txt"),
    (
        "RESET",
        "echo hidden > hidden.txt; git add -A; git commit -q -m mine; git reset -q --soft HEAD~1; \
         git update-index --force-remove hidden.txt",
        "hidden.txt",
    ),
    ("ORPHAN", "echo hidden > hidden.txt; git checkout -q --orphan o; git add -A; git commit -q -m o", "hidden.txt"),
    ("ASSUMED", "git update-index --assume-unchanged README.md; echo more >> README.md", "README.md"),
    ("SKIPPED", "git update-index --skip-worktree README.md; echo more >> README.md", "README.md"),
    (
        "SAME-TIME",
        "touch -r README.md ../stamp; printf 'HELLO\\n' > README.md; touch -r ../stamp README.md; rm ../stamp",
        "README.md",
    ),
    ("LINK", "rm link.txt; ln -s /etc/passwd link.txt", "link.txt"),
    ("INTO-GIT", "rm into-git.txt; ln -s .git/config into-git.txt", "into-git.txt"),
    ("THROUGH", "rm through.txt; ln -s README.md through.txt; echo more >> through.txt", "README.md"),
    ("THROUGH-DIR", "mkdir d; ln -s .. d/up; echo more >> d/up/README.md", "README.md"),
    (
        "NESTED",
        "git init -q nested; echo inner > nested/inner.txt; git -C nested add -A; \
         git -C nested config core.fsmonitor 'touch MARK'",
        "nested",
    ),
    (
        "SUBMODULE",
        "git init -q sub; git -C sub -c user.name=a -c user.email=a commit -q --allow-empty -m inner; git add sub 2>/dev/null; \
         printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ext::touch MARK\\n\\tupdate = !touch MARK\\n' > .gitmodules",
        ".gitmodules",
    ),
    ("CASE", "echo x > readme.MD", "readme.MD"),
    ("CASE-OF-OWN", "echo x > CASE-OF-OWN.TXT", "CASE-OF-OWN.TXT"),
    // Beside `ü.txt`, the same letter of two characters.
    ("UNICODE", "echo x > \"$(printf 'u\\314\\210.txt')\"", "u\u{308}.txt"),
    ("ATTRIBUTES", "echo '* -text filter=evil' > .gitattributes", ".gitattributes"),
    ("IGNORE", "printf 'secret\\n' > .gitignore; echo x > secret", ".gitignore"),
    ("EXCLUDED", "mkdir -p \"$G/info\"; echo secret >> \"$G/info/exclude\"; echo x > secret", "secret"),
];

const GIT_FILES: &[Adversary] = &[
    ("HOOK", "HOOK post-checkout", ".git/hooks/post-checkout"),
    ("REF-HOOK", "HOOK reference-transaction", ".git/hooks/reference-transaction"),
    ("HOOKS-PATH", "git config core.hooksPath \"$PWD\"", ".git/config (core.hookspath)"),
    (
        "HOOK-BY-CONFIG",
        "git config hook.evil.event reference-transaction; git config hook.evil.command 'touch MARK'",
        ".git/config (hook.evil.command)",
    ),
    ("FSMONITOR", "git config core.fsmonitor 'touch MARK'", ".git/config (core.fsmonitor)"),
    (
        "FILTER",
        "git config filter.evil.clean 'touch MARK; cat'; git config filter.evil.smudge 'touch MARK; cat'; \
         mkdir -p \"$G/info\"; echo '* filter=evil' > \"$G/info/attributes\"",
        ".git/info/attributes",
    ),
    ("DIFF", "git config diff.external 'touch MARK'", ".git/config (diff.external)"),
    ("ALIAS", "git config alias.status '!touch MARK'", ".git/config (alias.status)"),
    (
        "SIGNATURE",
        "git config log.showSignature true; git config gpg.program \"$PWD/none\"",
        ".git/config (gpg.program)",
    ),
    (
        "INCLUDE",
        "printf '[core]\\n\\tfsmonitor = touch MARK\\n' > \"$G/evil\"; git config include.path evil",
        ".git/config (include.path)",
    ),
    ("WORKTREE", "git config core.worktree /", ".git/config (core.worktree)"),
    ("BROKEN", "echo '[' >> \"$G/config\"", ".git/config"),
    ("EXTENSION", "git config extensions.evil 1", ".git/config (extensions.evil)"),
    ("ALTERNATES", "echo /somewhere > \"$G/objects/info/alternates\"", ".git/objects/info/alternates"),
    ("GRAFTS", "echo $(git rev-parse HEAD) > \"$G/info/grafts\"", ".git/info/grafts"),
    ("GIT-FILE", "rm .git; git init -q; git config core.fsmonitor 'touch MARK'", ".git"),
    ("COMMONDIR", "echo ../elsewhere > \"$W/commondir\"", ".git/worktrees/worker-0/commondir"),
    ("THEIR-COMMONDIR", "echo ../elsewhere > \"$G/worktrees/theirs/commondir\"", ".git/worktrees/theirs/commondir"),
    ("GITDIR", "echo /elsewhere/.git > \"$W/gitdir\"", ".git/worktrees/worker-0/gitdir"),
    (
        "CONFIG-WORKTREE",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch MARK'",
        ".git/worktrees/worker-0/config.worktree",
    ),
    ("SPARSE", "git sparse-checkout set --no-cone nothing", ".git/config (extensions.worktreeconfig)"),
];

/// Runs them one after the other in one repository, and checks that nothing of theirs is left anywhere.
fn withstand(adversaries: &[Adversary]) {
    let repo = Repo::new();
    repo.write("ü.txt", "one character\n");
    repo.commit("second");
    let theirs = repo.join(".git/theirs").display().to_string();
    repo.git(&["worktree", "add", "-q", "-b", "theirs", &theirs]);
    repo.config("workers: { count: 1 }\n");
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("executed");
    let mut tasks: Vec<Value> = vec![simple("OWNER", 1, "owned-by-other.txt")];
    for (id, does, told) in adversaries {
        let file = format!("{}.txt", id.to_lowercase());
        let hook = "printf '#!/bin/sh\\ntouch MARK\\n' > \"$G/hooks/$H\"; chmod +x \"$G/hooks/$H\"";
        let does = match does.strip_prefix("HOOK ") {
            Some(name) => format!("H={name}; mkdir -p \"$G/hooks\"; {hook}"),
            None => does.to_string(),
        };
        let does = does.replace("MARK", mark.to_str().unwrap());
        // The second attempt must have been told what was wrong with the first.
        let run = format!(
            "cat > \"$MAHABHARATHA_SPEC_DIR/prompt\"; echo {id} > {file}\n\
             if [ $MAHABHARATHA_ATTEMPT = 1 ]; then set -e; {SETUP}; {does}\n\
             else grep -qF -- '- {told}' \"$MAHABHARATHA_SPEC_DIR/prompt\" || exit 9; fi"
        );
        tasks.push(with(simple(id, 1, &file), json!({ "run": run })));
    }
    repo.graph("x", &tasks);
    let ran = repo.run(&["run"]).code(0).says("attempt failed");
    assert!(!mark.exists(), "something planted was executed");
    let status = repo.status();
    for (id, _, told) in adversaries {
        let task = status["tasks"].as_array().unwrap().iter().find(|task| task["id"] == *id).unwrap();
        let attempts = task["attempts"].as_array().unwrap();
        let outcomes: Vec<&str> = attempts.iter().map(|each| each["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["failed", "done"], "{id}: {attempts:#?}");
        assert_eq!(attempts[0]["cause"], "strays", "{id}: {attempts:#?}");
        let strays: Vec<&str> =
            attempts[0]["strays"].as_array().unwrap().iter().map(|each| each.as_str().unwrap()).collect();
        assert!(strays.contains(told), "{id}: {strays:?}");
        assert!(ran.stderr.lines().any(|line| line.contains(id) && line.contains(strays[0])), "{id}: {}", ran.stderr);
        let logged = repo.run(&["logs", "--task", id, "--level", "warn", "--json"]).code(0).stdout;
        assert!(logged.lines().any(|line| line.contains("\"event\":\"strays\"") && line.contains(told)), "{logged}");
    }
    assert_nothing_of_theirs(&repo, adversaries);
    // The person's own git executes nothing either.
    for args in
        [&["status"][..], &["diff"], &["log", "-3"], &["checkout", "-q", "-b", "another"], &["worktree", "list"]]
    {
        repo.git(args);
        assert!(!mark.exists(), "git {args:?} executed something planted");
    }
    repo.git_in(std::path::Path::new(&theirs), &["status"]);
    repo.write("person.txt", "x");
    repo.git(&["add", "person.txt"]);
    repo.git(&["commit", "-q", "-m", "person"]);
    assert!(!mark.exists());
    println!("{} hostile agents withstood", adversaries.len());
}

/// What landed is what the tasks own, beside what was there before; and git is as it was.
fn assert_nothing_of_theirs(repo: &Repo, adversaries: &[Adversary]) {
    let tree = repo.tree("main");
    let mut expected: Vec<String> = adversaries.iter().map(|(id, ..)| format!("{}.txt", id.to_lowercase())).collect();
    expected.extend([".mahabharatha/config.yaml", "README.md", "owned-by-other.txt", "ü.txt"].map(str::to_string));
    expected.sort();
    assert_eq!(tree.keys().cloned().collect::<Vec<_>>(), expected);
    assert_eq!((tree["README.md"].as_str(), tree["owned-by-other.txt"].as_str()), ("hello", "OWNER"));
    for (id, ..) in adversaries {
        assert_eq!(tree[&format!("{}.txt", id.to_lowercase())], *id);
    }
    let modes = repo.git(&["ls-tree", "-r", "main"]);
    assert!(modes.lines().all(|line| line.starts_with("100644 ")), "{modes}");
    for path in ["hooks/post-checkout", "hooks/reference-transaction", "info/attributes", "info/grafts"] {
        assert!(!repo.exists(&format!(".git/{path}")), "{path}");
    }
    let config = repo.read(".git/config");
    for word in ["fsmonitor", "evil", "alias", "gpg", "include", "worktree", "["] {
        assert_eq!(config.contains(word), word == "[", "{word} in {config}");
    }
    assert_eq!(repo.read(".git/worktrees/theirs/commondir"), "../..\n");
}

#[test]
fn agents_that_change_files_that_they_do_not_own() {
    withstand(FILES);
}

#[test]
fn agents_that_change_what_git_goes_by() {
    withstand(GIT_FILES);
}

#[test]
fn the_strays_are_kept() {
    let repo = Repo::new();
    let hostile = "echo a > a.txt; test $MAHABHARATHA_ATTEMPT = 2 || { echo more >> README.md; mkdir d; echo x > d/x; \
                   git init -q n; echo n > n/n; git -C n add -A; rm -f link; ln -s /etc/passwd link; chmod +x README.md; }";
    repo.graph("x", &[with(simple("A", 1, "a.txt"), json!({ "run": hostile }))]);
    repo.run(&["run"]).code(0).says("kept in wip, attempt failed");
    for (path, content) in [("README.md", "hello\nmore"), ("d/x", "x"), ("n/n", "n"), ("link", "/etc/passwd")] {
        assert_eq!(repo.git(&["show", &format!("refs/mahabharatha/x/wip/A/1:{path}")]), content, "{path}");
    }
}
