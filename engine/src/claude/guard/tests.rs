use std::os::unix::fs::symlink;

use super::*;

#[test]
fn writes_follow_symlinks() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("in/deep")).unwrap();
    fs::create_dir(root.join("out")).unwrap();
    symlink(root.join("out"), root.join("in/link")).unwrap();
    symlink(root.join("nowhere"), root.join("in/dangling")).unwrap();
    let at = |path: &str| resolve(&root.join("in"), path).map(|found| found.strip_prefix(&root).unwrap().to_owned());
    for (path, goes) in [
        ("new.txt", "in/new.txt"),
        ("./a/b/new.txt", "in/a/b/new.txt"),
        ("deep/../new.txt", "in/new.txt"),
        ("../out/x", "out/x"),
        ("link/x", "out/x"),
        ("missing/../new.txt", "in/new.txt"),
    ] {
        assert_eq!(at(path).unwrap(), Path::new(goes), "{path}");
    }
    for path in ["dangling", "dangling/x", "link/../x"] {
        assert!(at(path).is_err(), "{path}");
    }
}

#[test]
fn only_a_plain_push_is_recognised() {
    for line in ["git push", "cd /x && git -C /y -c a=b push origin", "A=1 git --no-pager push;"] {
        assert!(pushes(line), "{line}");
    }
    for line in ["git stash push", "echo push", "git log; push", "git commit -m push", "gitpush"] {
        assert!(!pushes(line), "{line}");
    }
}

#[test]
fn the_task_of_a_prompt_call_is_found() {
    let of = |feature: Option<&str>| Some(PromptCall { task: "A-1".to_owned(), feature: feature.map(str::to_owned) });
    for (text, call) in [
        ("mahabharatha task prompt A-1", of(None)),
        ("cd '/x y' && mahabharatha task prompt A-1 --feature x 2>&1", of(Some("x"))),
        ("mahabharatha task prompt A-1 --feature=x", of(Some("x"))),
        ("Run `mahabharatha task prompt A-1 -f x` and do what it prints.\n\n# Diagnosis\n\nit `fails`", of(Some("x"))),
        ("Run mahabharatha task prompt A-1.", of(None)),
        ("mahabharatha task prompt", None),
        ("mahabharatha task verify A-1", None),
        ("Look at `src/main.rs`.", None),
    ] {
        assert_eq!(prompt_asked_for(text), call, "{text}");
    }
}

#[test]
fn a_slot_is_recognised_by_its_path() {
    let slot = Slot::around(Path::new("/p/.mahabharatha/worktrees/x/worker-3/src/a.rs")).unwrap();
    assert_eq!(slot, Slot { root: PathBuf::from("/p"), feature: "x".to_owned(), worker: WorkerId(3) });
    for other in ["/p/.mahabharatha/worktrees/x/staging/a", "/p/.mahabharatha/worktrees/x", "/p/src/worker-3/a"] {
        assert_eq!(Slot::around(Path::new(other)), None, "{other}");
    }
}
