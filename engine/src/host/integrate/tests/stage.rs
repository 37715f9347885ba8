use super::*;

fn log(lab: &Lab, from: &Oid, to: &Oid) -> Vec<String> {
    let range = format!("{from}..{to}");
    lab.git(&["log", "--reverse", "--format=%s|%an|%ae", &range]).lines().map(str::to_owned).collect()
}

#[test]
fn staging_is_the_base_and_then_one_commit_per_task() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let mut integration = lab.integration();
    integration.owners.insert(task("B"), owns("dir/"));
    let tasks = [
        lab.task_commit("A", &base, |dir| {
            fs::write(dir.join("a.txt"), "changed").unwrap();
            fs::create_dir_all(dir.join("a ünd mehr/quote\"d")).unwrap();
            fs::write(dir.join("a ünd mehr/quote\"d/new\nline ü.txt"), "new").unwrap();
            symlink("../a.txt", dir.join("a ünd mehr/link")).unwrap();
        }),
        lab.task_commit("B", &base, |dir| {
            fs::remove_file(dir.join("dir/f")).unwrap();
            fs::create_dir(dir.join("dir/f")).unwrap();
            fs::write(dir.join("dir/f/below"), "was a file").unwrap();
            fs::remove_dir_all(dir.join("dir/deep ü")).unwrap();
            fs::write(dir.join("dir/deep ü"), "was a directory").unwrap();
            make_executable(&dir.join("dir/deep ü"));
        }),
        lab.task_commit("C", &base, |dir| fs::remove_file(dir.join("c.txt")).unwrap()),
        lab.task_commit("D", &base, |_| {}),
    ];
    let (staging, commits) = integration.staged(&base, &tasks);
    assert_eq!(commits.iter().map(|commit| commit.task.as_str()).collect::<Vec<_>>(), ["A", "B", "C", "D"]);
    assert_eq!(commits[3].commit, staging);
    assert_eq!(lab.oid("mahabharatha/x/staging"), staging);
    assert_eq!(lab.oid(&format!("{}^", commits[0].commit)), base);
    let by = "Wörker|w@x";
    let expected = ["A", "B", "C", "D"].map(|id| format!("feat({id}): do {id}|{by}"));
    assert_eq!(log(&lab, &base, &staging), expected);
    assert!(lab.git(&["show", "-s", "--format=%B", staging.as_str()]).ends_with("Mahabharatha-Task: D"));
    // Each has exactly the changes of the task's own commit.
    for (task, staged) in tasks.iter().zip(&commits) {
        let differences = |commit: &Oid| lab.git(&["diff-tree", "-r", "--raw", &format!("{commit}^"), commit.as_str()]);
        assert_eq!(differences(&staged.commit), differences(&task.commit), "{}", task.task);
    }
    // No file is lost or added: staging has exactly the files of the base and of the tasks' commits.
    assert_eq!(lab.git(&["show", &format!("{staging}:dir/f/below")]), "was a file");
    assert_eq!(lab.git(&["ls-tree", "--format=%(objectmode)", staging.as_str(), "dir/deep ü"]), "100755");
    lab.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn staging_is_deterministic() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let tasks = [lab.writes("A", &base, "a.txt", "1"), lab.writes("B", &base, "b.txt", "2")];
    let first = lab.integration().staged(&base, &tasks);
    lab.git(&["update-ref", "-d", "refs/heads/mahabharatha/x/staging"]);
    assert_eq!(lab.integration().staged(&base, &tasks), first);
    assert_eq!(lab.oid("mahabharatha/x/staging"), first.0);
}

#[test]
fn a_level_without_commits_is_staged_as_its_base() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    assert_eq!(lab.integration().staged(&base, &[]), (base, vec![]));
}

#[test]
fn unowned_changes_are_refused() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let inner = tempfile::tempdir().unwrap();
    git_in(inner.path(), &["init", "-q"]);
    git_in(inner.path(), &["commit", "-q", "--allow-empty", "-m", "inner"]);
    type Work<'a> = Box<dyn Fn(&Path) + 'a>;
    let cases: [(&str, Work); 5] = [
        ("b.txt is not owned", Box::new(|dir| fs::write(dir.join("b.txt"), "x").unwrap())),
        ("a ünd mehrx is not owned", Box::new(|dir| fs::write(dir.join("a ünd mehrx"), "x").unwrap())),
        ("tool.sh is not owned", Box::new(|dir| make_executable(&dir.join("tool.sh")))),
        ("c.txt is not owned", Box::new(|dir| fs::rename(dir.join("c.txt"), dir.join("a.txt")).unwrap())),
        (
            "a ünd mehr/sub is a submodule",
            Box::new(|dir| {
                fs::create_dir(dir.join("a ünd mehr")).unwrap();
                let to = dir.join("a ünd mehr/sub");
                git_in(dir, &["clone", "-q", inner.path().to_str().unwrap(), to.to_str().unwrap()]);
            }),
        ),
    ];
    for (what, work) in cases {
        let commit = lab.task_commit("A", &base, work);
        let error = lab.integration().stage(LEVEL, &base, &[commit]).unwrap_err();
        assert!(error.details().iter().any(|line| line == &format!("A: {what}")), "{what}: {error}");
    }
    assert!(lab.integration().repository.resolve_ref("refs/heads/mahabharatha/x/staging").unwrap().is_none());
}

#[test]
fn changes_of_a_commits_parent_are_not_staged() {
    let lab = Lab::new();
    let integration = lab.integration();
    let base = lab.oid("trunk");
    let planted = lab.writes("A", &base, "tool.sh", "not owned");
    let on_top = lab.writes("A", &planted.commit, "a.txt", "owned");
    // Not even if the parent claims to be on staging.
    lab.git(&["update-ref", "refs/heads/mahabharatha/x/staging", planted.commit.as_str()]);
    for tasks in [vec![lab.writes("B", &base, "b.txt", "b"), on_top.clone()], vec![on_top]] {
        let (staging, _) = integration.staged(&base, &tasks);
        assert_eq!(lab.git(&["show", &format!("{staging}:a.txt")]), "owned");
        assert_eq!(lab.git(&["show", &format!("{staging}:tool.sh")]), "tool.sh");
    }
}

#[test]
fn a_tree_that_no_checkout_would_write_is_refused() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let blob = lab.git(&["rev-parse", "trunk:a.txt"]);
    let make_tree = |lines: String| {
        let mut child = Command::new("git")
            .args(["mktree"])
            .current_dir(&lab.root)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), lines.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    };
    for name in [".git", ".GIT"] {
        let hooks = make_tree(format!("100755 blob {blob}\tpost-checkout\n"));
        let dot_git = make_tree(format!("040000 tree {hooks}\t{name}\n"));
        let rest = lab.git(&["ls-tree", "trunk"]).lines().map(|line| format!("{line}\n")).collect::<String>();
        let tree = make_tree(format!("{rest}040000 tree {dot_git}\ta ünd mehr\n"));
        let commit = Oid::new(lab.git(&["commit-tree", &tree, "-p", base.as_str(), "-m", "evil"])).unwrap();
        let error = lab.integration().stage(LEVEL, &base, &[TaskCommit { task: task("A"), commit }]).unwrap_err();
        assert!(error.to_string().contains("git directory"), "{name}: {error}");
    }
}

#[test]
fn a_merge_commit_is_refused() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let other = lab.writes("A", &base, "a.txt", "x").commit;
    let tree = lab.git(&["rev-parse", &format!("{other}^{{tree}}")]);
    let args = ["commit-tree", &tree, "-p", base.as_str(), "-p", other.as_str(), "-m", "merge"];
    let commit = Oid::new(lab.git(&args)).unwrap();
    let error = lab.integration().stage(LEVEL, &base, &[TaskCommit { task: task("A"), commit }]).unwrap_err();
    assert!(error.to_string().contains("2 parents"), "{error}");
}

#[test]
fn a_file_where_another_task_has_a_directory_is_an_error() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let mut integration = lab.integration();
    integration.owners.insert(task("A"), owns("new"));
    integration.owners.insert(task("B"), owns("new/below"));
    let tasks = [lab.writes("A", &base, "new", "a file"), lab.writes("B", &base, "new/below", "in a directory")];
    let error = integration.stage(LEVEL, &base, &tasks).unwrap_err();
    assert!(error.message().contains("new/below") && error.message().contains('A'), "{error}");
}

#[test]
fn a_fix_is_staged_without_the_changes_of_its_parent() {
    let lab = Lab::new();
    let integration = lab.integration();
    let base = lab.oid("trunk");
    let (a, b) = (lab.writes("A", &base, "a.txt", "wrong"), lab.writes("B", &base, "b.txt", "skipped later"));
    let (staging, _) = integration.staged(&base, &[a.clone(), b]);
    let fix = lab.writes("A", &staging, "a.txt", "right");
    lab.git(&["update-ref", "refs/heads/mahabharatha/x/staging", fix.commit.as_str()]);

    let (staging, commits) = integration.staged(&base, &[a.clone(), fix.clone()]);
    assert_eq!(commits.iter().map(|of| of.task.as_str()).collect::<Vec<_>>(), ["A", "A"]);
    assert_eq!(log(&lab, &base, &staging).len(), 2);
    assert_eq!(lab.git(&["show", &format!("{staging}:a.txt")]), "right");
    assert_eq!(lab.git(&["show", &format!("{staging}:b.txt")]), "b.txt", "what B did is not there any more");
    assert_eq!(integration.staged(&base, &[a, fix]).0, staging, "again, the same comes out");
}

#[test]
fn a_hundred_tasks_are_staged_at_once() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let mut integration = lab.integration();
    let mut tasks = Vec::new();
    let mut input = String::new();
    for number in 0..100 {
        let id = format!("T{number}");
        integration.owners.insert(task(&id), owns(&format!("many/{number}.txt")));
        input += &format!("commit refs/heads/t\nmark :{}\ncommitter T <t@x> 1 +0000\ndata 1\nx\n", number + 1);
        input += &format!("from {base}\nM 100644 inline many/{number}.txt\ndata 1\nx\nget-mark :{}\n", number + 1);
    }
    fs::write(lab.root.join("../input"), input).unwrap();
    let made = lab.git(&["-c", "alias.import=!git fast-import --quiet --force <../input", "import"]);
    for (number, commit) in made.lines().enumerate() {
        tasks.push(TaskCommit { task: task(&format!("T{number}")), commit: Oid::new(commit).unwrap() });
    }
    let (staging, commits) = integration.staged(&base, &tasks);
    assert_eq!(commits.len(), 100);
    assert_eq!(lab.git(&["ls-tree", &format!("{staging}:many")]).lines().count(), 100);
}

#[test]
fn commits_that_are_lost_are_named_by_their_tasks() {
    let lab = Lab::new();
    let integration = lab.integration();
    let base = lab.oid("trunk");
    let tasks = ["A", "B", "C"].map(|id| lab.writes(id, &base, &format!("{}.txt", id.to_lowercase()), id));
    let blob = lab.oid(&format!("{}:c.txt", tasks[2].commit));
    let lost = || match integration.stage(LEVEL, &base, &tasks).unwrap() {
        Err(Obstacle::WorkLost { tasks }) => tasks,
        other => panic!("{other:?}"),
    };
    lab.lose(&tasks[0].commit);
    assert_eq!(lost(), [task("A")]);
    lab.lose(&blob);
    assert_eq!(lost(), [task("A"), task("C")]);
}

#[test]
fn staging_that_is_lost_is_reported() {
    let lab = Lab::new();
    let integration = lab.integration();
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "a.txt", "done")]);
    lab.lose(&staging);
    assert_eq!(obstacle(integration.gated(&lab, &base, &staging, &[])), Obstacle::StagingLost);
}

#[test]
fn an_attempt_starts_from_the_work_of_its_dependencies() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let integration = lab.integration();
    let a = lab.writes("A", &base, "a.txt", "1");
    let on_a = integration.put_onto(&base, std::slice::from_ref(&a)).unwrap();
    let b = lab.writes("B", &on_a, "b.txt", "2");
    let start = integration.put_onto(&base, &[a.clone(), b.clone()]).unwrap();
    assert_eq!(log(&lab, &base, &start).len(), 2);
    assert_eq!(["a.txt", "b.txt"].map(|file| lab.git(&["show", &format!("{start}:{file}")])), ["1", "2"]);
    assert_eq!(lab.integration().put_onto(&base, &[a, b]).unwrap(), start, "it is not the same after a crash");
    assert_eq!(integration.put_onto(&base, &[]).unwrap(), base);
}

#[test]
fn work_that_would_take_back_a_change_of_its_files_is_outdated() {
    let lab = Lab::new();
    let base = lab.oid("trunk");
    let tasks = [lab.writes("A", &base, "a.txt", "1"), lab.writes("B", &base, "b.txt", "2")];
    let changed = lab.writes("C", &base, "a.txt", "changed meanwhile").commit;
    let staged = lab.integration().stage(Level(1), &changed, &tasks).unwrap();
    assert_eq!(staged, Err(Obstacle::Outdated { tasks: vec![task("A")] }));
    let same = lab.writes("C", &base, "a.txt", "1").commit;
    assert!(lab.integration().stage(Level(1), &same, &tasks).unwrap().is_ok());
    let elsewhere = lab.writes("C", &base, "c.txt", "changed meanwhile").commit;
    assert!(lab.integration().stage(Level(1), &elsewhere, &tasks).unwrap().is_ok());
}
