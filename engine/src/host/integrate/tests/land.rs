use super::*;

fn in_the_way(result: Result<Oid, Obstacle>) -> (Vec<String>, String, String) {
    match result {
        Err(Obstacle::CheckoutInTheWay { files, worktree, why }) => (files, worktree, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_level_lands_as_one_merge_commit_and_the_checkout_moves_with_it() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.owners.insert(task("B"), owns("dir/"));
    let base = lab.oid("trunk");
    let tasks = [
        lab.writes("A", &base, "a.txt", "done\n"),
        lab.task_commit("B", &base, |dir| {
            fs::remove_dir_all(dir.join("dir/deep ü")).unwrap();
            make_executable(&dir.join("dir/f"));
            symlink("f", dir.join("dir/lïnk")).unwrap();
        }),
    ];
    let (staging, _) = integration.staged(&base, &tasks);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    lab.write("untracked.txt", "mine");
    lab.write("c.txt", "dirty, and not in the way");
    let landed = integration.landed(&lab, &candidate).unwrap();

    assert_eq!(lab.oid("trunk"), landed);
    assert_eq!(lab.git(&["log", "-1", "--format=%P"]), format!("{base} {staging}"));
    let body = lab.git(&["log", "-1", "--format=%B|%an <%ae>"]);
    assert_eq!(body, "Level 1: x\n\nMahabharatha-Feature: x\nMahabharatha-Level: 1\n|Us <us@x>");
    assert_eq!(lab.oid("trunk^{tree}"), candidate.tree);
    assert_eq!(lab.git(&["symbolic-ref", "HEAD"]), "refs/heads/trunk");
    assert_eq!(lab.git(&["status", "--porcelain"]), " M c.txt\n?? untracked.txt");
    assert_eq!(lab.read("a.txt"), "done\n");
    assert!(!lab.root.join("dir/deep ü").exists());
    assert_eq!(fs::read_link(lab.root.join("dir/lïnk")).unwrap(), Path::new("f"));
    assert!(lab.git(&["reflog", "-1", "HEAD"]).contains("Level 1: x"));
}

/// Git was killed while it replaced files, together with the process that ran it, which held the index.
#[test]
fn files_that_a_killed_git_was_replacing_are_restored() {
    for left in ["", "do"] {
        let lab = Lab::new();
        let integration = lab.integration();
        let candidate = integration.ready(&lab, "done\n");
        lab.write("a.txt", left);
        // Without the lock that the killed process left it is the user's doing.
        assert_eq!(in_the_way(integration.landed(&lab, &candidate)).0, ["a.txt"]);
        lab.write(".git/index.lock", "mahabharatha is landing a level here\n");
        integration.landed(&lab, &candidate).unwrap();
        assert_eq!(lab.read("a.txt"), "done\n");
        assert_eq!(lab.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn landing_again_returns_the_commit_that_has_landed() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let landed = integration.landed(&lab, &candidate).unwrap();
    assert_eq!(integration.landed(&lab, &candidate), Ok(landed.clone()));
    lab.write("b.txt", "more");
    lab.commit("a person goes on");
    assert_eq!(integration.landed(&lab, &candidate), Ok(landed));
}

#[test]
fn a_merge_of_staging_by_hand_is_not_a_landing() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    lab.git(&["merge", "-q", "--no-ff", "--no-edit", candidate.staging.as_str()]);
    assert_eq!(integration.landed(&lab, &candidate), Err(Obstacle::BaseMoved));
}

#[test]
fn a_moved_or_rewritten_base_is_reported() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let was = candidate.base.clone();
    lab.write("b.txt", "more");
    lab.commit("a person's");
    assert_eq!(integration.landed(&lab, &candidate), Err(Obstacle::BaseMoved));
    lab.git(&["reset", "-q", "--hard", was.as_str()]);
    lab.git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    let now = Some(lab.oid("trunk"));
    assert_eq!(integration.landed(&lab, &candidate), Err(Obstacle::BaseRewritten { was: was.clone(), now }));
    lab.git(&["checkout", "-q", "-b", "other"]);
    lab.git(&["branch", "-D", "trunk"]);
    assert_eq!(integration.landed(&lab, &candidate), Err(Obstacle::BaseRewritten { was, now: None }));
}

#[test]
fn an_empty_level_leaves_the_base_unchanged() {
    let lab = Lab::new();
    let integration = lab.integration();
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[]);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    assert_eq!(integration.landed(&lab, &candidate), Ok(base));
}

#[test]
fn files_in_the_way_are_named_and_nothing_moves() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.owners.insert(
        task("A"),
        ["a.txt", "new.txt", "ignored", "tool.sh", "top/below", "b.txt", "dir/f"].into_iter().flat_map(owns).collect(),
    );
    let base = lab.oid("trunk");
    let work = lab.task_commit("A", &base, |dir| {
        for name in ["a.txt", "new.txt", "ignored", "tool.sh"] {
            fs::write(dir.join(name), "target\n").unwrap();
        }
        fs::create_dir(dir.join("top")).unwrap();
        fs::write(dir.join("top/below"), "target\n").unwrap();
        fs::remove_file(dir.join("b.txt")).unwrap();
        fs::remove_file(dir.join("dir/f")).unwrap();
    });
    let (staging, _) = integration.staged(&base, &[work]);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    let cases: [(&str, &[&str], &str); 7] = [
        ("changed", &["a.txt"], "a.txt"),
        ("staged", &["add", "a.txt"], "a.txt"),
        ("untracked", &["new.txt"], "new.txt"),
        ("ignored", &["ignored"], "ignored"),
        ("deleted by the level, changed", &["b.txt"], "b.txt"),
        ("a file for a directory", &["top"], "top"),
        ("a directory for a file", &["new.txt/inside"], "new.txt"),
    ];
    for (what, steps, expected) in cases {
        match steps {
            ["add", name] => {
                lab.write(name, "mine\n");
                lab.git(&["add", name]);
                lab.write(name, &format!("{name}\n"));
            }
            [name, ..] => lab.write(name, "mine\n"),
            [] => unreachable!("every case has a step"),
        }
        let before = lab.git(&["status", "--porcelain", "--ignored", "-uall"]);
        let (files, worktree, why) = in_the_way(integration.landed(&lab, &candidate));
        assert_eq!(files, [expected], "{what}: {why}");
        assert_eq!(worktree, lab.root.display().to_string(), "{what}");
        assert_eq!(lab.oid("trunk"), base, "{what}");
        assert_eq!(lab.git(&["status", "--porcelain", "--ignored", "-uall"]), before, "{what}");
        lab.git(&["reset", "-q", "--hard"]);
        lab.git(&["clean", "-fdxq", "-e", ".mahabharatha"]);
    }
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
}

#[test]
fn files_that_already_have_their_new_contents_are_not_in_the_way() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration
        .owners
        .insert(task("A"), ["a.txt", "new.txt", "b.txt", "tool.sh", "c.txt"].into_iter().flat_map(owns).collect());
    let base = lab.oid("trunk");
    let work = lab.task_commit("A", &base, |dir| {
        for name in ["a.txt", "new.txt", "c.txt"] {
            fs::write(dir.join(name), "target\n").unwrap();
        }
        fs::remove_file(dir.join("b.txt")).unwrap();
        make_executable(&dir.join("tool.sh"));
    });
    let (staging, _) = integration.staged(&base, &[work]);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    lab.write("a.txt", "target\n");
    lab.write("new.txt", "target\n");
    fs::remove_file(lab.root.join("b.txt")).unwrap();
    make_executable(&lab.root.join("tool.sh"));
    lab.write("dir/f", "mine");
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.git(&["status", "--porcelain"]), " M dir/f");
    assert_eq!(lab.read("c.txt"), "target\n");
}

#[test]
fn landing_completes_if_the_checkout_moved_before_its_branch() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    // As after a crash between moving the checkout and moving the branch.
    lab.git(&["read-tree", "-m", "-u", "HEAD", candidate.tree.as_str()]);
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
    assert_eq!(lab.read("a.txt"), "done\n");
}

#[test]
fn the_checkout_is_reset_if_its_branch_cannot_be_moved() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    lab.write("c.txt", "dirty, and not in the way");
    let lock = lab.root.join(".git/refs/heads/trunk.lock");
    fs::write(&lock, "").unwrap();
    let error = integration.land(&lab.lock(), LEVEL, &candidate).unwrap_err();
    assert!(error.message().contains("trunk"), "{error}");
    assert_eq!(lab.oid("trunk"), candidate.base);
    assert_eq!((lab.read("a.txt").as_str(), lab.git(&["status", "--porcelain"]).as_str()), ("a.txt\n", " M c.txt"));
    fs::remove_file(lock).unwrap();
    integration.landed(&lab, &candidate).unwrap();
}

#[test]
fn a_locked_index_or_an_unfinished_operation_is_in_the_way() {
    let lab = Lab::new();
    let integration = lab.integration();
    let candidate = integration.ready(&lab, "done\n");
    let lock = lab.root.join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let (files, _, why) = in_the_way(integration.landed(&lab, &candidate));
    assert_eq!(files, [lock.display().to_string()]);
    assert!(why.contains("remove"), "{why}");
    fs::remove_file(lock).unwrap();
    for (name, what) in [("MERGE_HEAD", "a merge"), ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert")]
    {
        let path = lab.root.join(".git").join(name);
        fs::write(&path, format!("{}\n", candidate.base)).unwrap();
        let (_, _, why) = in_the_way(integration.landed(&lab, &candidate));
        assert!(why.contains(what), "{why}");
        fs::remove_file(path).unwrap();
    }
    assert_eq!(lab.oid("trunk"), candidate.base);
    integration.landed(&lab, &candidate).unwrap();
}

#[test]
fn a_rebase_of_the_base_branch_is_in_the_way() {
    let lab = Lab::new();
    let integration = lab.integration();
    lab.write("b.txt", "one");
    lab.commit("one");
    let candidate = integration.ready(&lab, "done\n");
    let stopped = Command::new("git")
        .args(["-c", "user.name=U", "-c", "user.email=u@x", "rebase", "-q", "--exec", "false", "HEAD~1"])
        .current_dir(&lab.root)
        .output()
        .unwrap();
    assert!(!stopped.status.success());
    let (_, _, why) = in_the_way(integration.landed(&lab, &candidate));
    assert!(why.contains("rebase of trunk"), "{why}");
    lab.git(&["rebase", "--abort"]);
    integration.landed(&lab, &candidate).unwrap();
}

#[test]
fn a_base_branch_without_a_checkout_is_moved() {
    let lab = Lab::new();
    let integration = lab.integration();
    lab.git(&["checkout", "-q", "--detach"]);
    let candidate = integration.ready(&lab, "done\n");
    lab.write("a.txt", "dirty");
    let landed = integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.oid("trunk"), landed);
    assert_eq!(lab.oid("HEAD"), candidate.base);
    assert_eq!(lab.git(&["status", "--porcelain"]), " M a.txt");
}

#[test]
fn a_base_checked_out_in_a_linked_worktree_advances_there() {
    let lab = Lab::new();
    let integration = lab.integration();
    let linked = lab.root.with_file_name("linked wörktree");
    lab.git(&["checkout", "-q", "-b", "other"]);
    lab.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "trunk"]);
    let candidate = integration.ready(&lab, "done\n");
    lab.write("a.txt", "dirty on the other branch");
    fs::write(linked.join("a.txt"), "mine").unwrap();
    let (files, worktree, _) = in_the_way(integration.landed(&lab, &candidate));
    assert_eq!((files, worktree), (vec!["a.txt".to_owned()], linked.display().to_string()));
    git_in(&linked, &["checkout", "-q", "a.txt"]);
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(fs::read_to_string(linked.join("a.txt")).unwrap(), "done\n");
    assert_eq!(git_in(&linked, &["status", "--porcelain"]), "");
    assert_eq!(lab.read("a.txt"), "dirty on the other branch");
}

#[test]
fn a_second_checkout_of_the_base_is_in_the_way_unless_its_files_are_gone() {
    let lab = Lab::new();
    let integration = lab.integration();
    let linked = lab.root.with_file_name("linked");
    lab.git(&["worktree", "add", "-q", "--force", linked.to_str().unwrap(), "trunk"]);
    let candidate = integration.ready(&lab, "done\n");
    let (_, _, why) = in_the_way(integration.landed(&lab, &candidate));
    assert!(why.contains("as well"), "{why}");
    fs::remove_dir_all(&linked).unwrap();
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
}

#[test]
fn with_target_staging_only_the_staging_branch_moves() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.target = MergeTarget::Staging;
    let start = lab.oid("trunk");
    let candidate = integration.ready(&lab, "done\n");
    let landed = integration.landed(&lab, &candidate).unwrap();
    assert_eq!((lab.oid("trunk"), lab.oid("mahabharatha/x/staging")), (start.clone(), landed.clone()));
    assert_eq!(
        lab.git(&["log", "-1", "--format=%s|%P", landed.as_str()]),
        format!("Level 1: x|{start} {}", candidate.staging)
    );
    assert_eq!(integration.landed(&lab, &candidate), Ok(landed.clone()), "again");
    assert_eq!(lab.read("a.txt"), "a.txt\n");
    // The next level is staged on it.
    let (staging, _) = integration.staged(&landed, &[lab.writes("B", &landed, "b.txt", "two\n")]);
    let next = integration.candidate_of(&lab, &landed, &staging);
    let second = integration.landed(&lab, &next).unwrap();
    assert_eq!(lab.git(&["log", "--first-parent", "--format=%s", second.as_str()]), "Level 1: x\nLevel 1: x\nstart");
    // A commit of the user on top of staging is gated before it lands.
    let (staging, _) = integration.staged(&second, &[lab.writes("C", &second, "c.txt", "three\n")]);
    let third = integration.candidate_of(&lab, &second, &staging);
    let tree = lab.git(&["rev-parse", &format!("{staging}^{{tree}}")]);
    let person = lab.git(&["commit-tree", &tree, "-p", staging.as_str(), "-m", "by hand"]);
    lab.git(&["update-ref", "refs/heads/mahabharatha/x/staging", &person]);
    assert_eq!(integration.landed(&lab, &third), Err(Obstacle::BaseMoved));
}

#[test]
fn a_shallow_clone_and_a_repository_with_a_submodule_and_a_submodule_itself_work() {
    let lab = Lab::new();
    let inner = lab.root.with_file_name("inner");
    fs::create_dir(&inner).unwrap();
    git_in(&inner, &["init", "-q"]);
    fs::write(inner.join("file"), "in a submodule").unwrap();
    git_in(&inner, &["add", "-A"]);
    git_in(&inner, &["commit", "-q", "-m", "inner"]);
    lab.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "sub"]);
    lab.commit("with a submodule");
    lab.write("b.txt", "more");
    lab.commit("more");
    let clone = lab.root.with_file_name("clone");
    let url = format!("file://{}", lab.root.display());
    git_in(lab.root.parent().unwrap(), &["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()]);
    let shallow = Lab { root: clone, notes: Arc::default(), _dir: tempfile::tempdir().unwrap() };
    let outer = lab.root.with_file_name("outer");
    fs::create_dir(&outer).unwrap();
    git_in(&outer, &["init", "-q"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-b", "trunk", "../re pö", "sub"];
    git_in(&outer, &add);
    let submodule = Lab { root: outer.join("sub"), notes: Arc::default(), _dir: tempfile::tempdir().unwrap() };
    for lab in [&lab, &shallow, &submodule] {
        let mut integration = lab.integration();
        let first = integration.ready(lab, "first\n");
        integration.landed(lab, &first).unwrap();
        integration.gates = vec![gate("g", "grep done a.txt && test -d sub")];
        let base = lab.oid("trunk");
        let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "a.txt", "done\n")]);
        lab.write("c.txt", "by a person\n");
        lab.commit("moved");
        let before = lab.git(&["submodule", "status"]);
        let candidate = integration.candidate_of(lab, &base, &staging);
        let landed = integration.landed(lab, &candidate).unwrap();
        assert_eq!(lab.oid("trunk"), landed);
        assert_eq!(lab.git(&["status", "--porcelain"]), "");
        assert_eq!(lab.git(&["submodule", "status"]), before);
        assert_eq!(lab.read("a.txt"), "done\n");
    }
    assert_eq!(lab.read("sub/file"), "in a submodule");
}

#[test]
fn in_a_sparse_checkout_nothing_appears_that_it_leaves_out() {
    let lab = Lab::new();
    lab.write("outside/x.txt", "x\n");
    lab.write("outside/y.txt", "y\n");
    lab.commit("more");
    lab.git(&["sparse-checkout", "set", "dir"]);
    assert!(!lab.root.join("outside").exists());
    let mut integration = lab.integration();
    integration.owners.insert(task("A"), owns("outside/"));
    let base = lab.oid("trunk");
    let work = lab.task_commit("A", &base, |dir| {
        git_in(dir, &["sparse-checkout", "disable"]);
        fs::write(dir.join("outside/x.txt"), "done\n").unwrap();
        fs::write(dir.join("outside/new.txt"), "new\n").unwrap();
    });
    let (staging, _) = integration.staged(&base, &[work]);
    integration.gates = vec![gate("g", "grep done outside/x.txt")];
    let candidate = integration.candidate_of(&lab, &base, &staging);
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
    assert!(!lab.root.join("outside").exists());
    lab.git(&["sparse-checkout", "disable"]);
    assert_eq!((lab.read("outside/x.txt").as_str(), lab.read("outside/new.txt").as_str()), ("done\n", "new\n"));
}

#[test]
fn an_untracked_file_that_a_sparse_checkout_leaves_out_is_in_the_way() {
    let lab = Lab::new();
    lab.git(&["sparse-checkout", "set", "dir"]);
    let mut integration = lab.integration();
    integration.owners.insert(task("A"), owns("outside/"));
    let base = lab.oid("trunk");
    let work = lab.task_commit("A", &base, |dir| {
        git_in(dir, &["sparse-checkout", "disable"]);
        fs::create_dir(dir.join("outside")).unwrap();
        fs::write(dir.join("outside/new.txt"), "new\n").unwrap();
    });
    let (staging, _) = integration.staged(&base, &[work]);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    lab.write("outside/new.txt", "by a person\n");
    let obstacle = integration.landed(&lab, &candidate).unwrap_err();
    let Obstacle::CheckoutInTheWay { files, .. } = &obstacle else { panic!("{obstacle:?}") };
    assert_eq!(*files, ["outside/new.txt"]);
    assert_eq!(lab.oid("trunk"), base);
    // A file with the same contents does not stop the landing.
    lab.write("outside/new.txt", "new\n");
    integration.landed(&lab, &candidate).unwrap();
}
