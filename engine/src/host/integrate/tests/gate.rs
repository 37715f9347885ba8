use super::*;

fn one_task(lab: &Lab, integration: &Integration) -> (Oid, Oid) {
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "a.txt", "done\n")]);
    (base, staging)
}

#[test]
fn gates_run_on_exactly_the_tree_that_is_to_land() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.prepare_staging_worktree(&base, false).unwrap();
    fs::write(lab.staging("left over.txt"), "from before").unwrap();
    fs::create_dir(lab.staging("build")).unwrap();
    fs::write(lab.staging("build/cache"), "expensive").unwrap();
    integration.gates = vec![
        gate(
            "content",
            "test \"$(cat a.txt)\" = done && test \"$(readlink link)\" = a.txt && test -e 'dir/deep ü/g.txt'",
        ),
        gate(
            "spoils",
            "echo spoilt > a.txt; rm b.txt; echo x > new.txt; git update-index --assume-unchanged c.txt; echo x > c.txt",
        ),
        gate(
            "clean",
            "test \"$(cat a.txt c.txt)\" = 'done\nc.txt' && test -e b.txt && ! test -e new.txt && ! test -e 'left over.txt'",
        ),
        gate(
            "git",
            "test -z \"$(git status --porcelain)\" && test \"$(git rev-parse HEAD)\" = \"$(git rev-parse mahabharatha/x/staging)\"",
        ),
        gate("cache", "test \"$(cat build/cache)\" = expensive"),
    ];
    let gated = integration.gated(&lab, &base, &staging, &[]);
    let Gated::Passed { candidate, passed } = gated else { panic!("{gated:?}") };
    assert_eq!(candidate, Candidate { base, staging: staging.clone(), tree: lab.oid(&format!("{staging}^{{tree}}")) });
    assert_eq!(passed.len(), 5);
    assert!(passed.iter().all(|pass| pass.tree == candidate.tree));
    assert_eq!(lab.git(&["status", "--porcelain"]), "", "the user's checkout is not touched");
    assert!(lab.root.join(".mahabharatha/logs/x/gates/1-content.1.jsonl").exists());
}

#[test]
fn a_gate_that_passed_on_the_tree_is_not_run_again() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.gates = vec![gate("one", "true"), gate("two", "true && true"), gate("same as one", "true")];
    let tree = lab.oid(&format!("{staging}^{{tree}}"));
    let other_tree = lab.oid("trunk^{tree}");
    let passed = [("true && true", other_tree), ("true", tree)];
    let passed = passed.map(|(command, tree)| GatePass { command: command.into(), tree, task: None, clean: false });
    integration.gated(&lab, &base, &staging, &passed);
    assert_eq!(lab.ran(), ["two"]);
}

#[test]
fn a_failed_required_gate_is_reported_with_the_gates_that_passed() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    let optional = Gate { required: false, ..gate("optional", "echo may fail; false") };
    integration.gates = vec![
        gate("first", "true"),
        optional,
        gate("red before", "false"),
        gate("second", "echo a.txt is bad; echo on stderr >&2; exit 3"),
        gate("third", "true"),
    ];
    let call = GateCall { ignore: &["red before".into()], ..call(&base, &staging) };
    let gated = done(integration.gate(&lab.lock(), call).unwrap());
    let Gated::Failed { failure, passed } = gated else { panic!("{gated:?}") };
    assert_eq!((failure.gate.as_str(), failure.staging), ("second", staging));
    assert_eq!(failure.output, "a.txt is bad\non stderr\n\n[exit code 3]");
    assert_eq!(passed.iter().map(|pass| pass.command.as_str()).collect::<Vec<_>>(), ["true"]);
    assert_eq!(lab.ran(), ["first", "optional", "red before", "second"]);
    let log = fs::read_to_string(lab.root.join(".mahabharatha/logs/x/gates/1-optional.1.jsonl")).unwrap();
    let record = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let found: Vec<String> = log.lines().map(|line| record(line)["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, ["gate_started", "gate_output", "gate_ended"]);
    assert_eq!(record(log.lines().nth(1).unwrap())["message"], "may fail");
    assert!(!lab.root.join(".git/mahabharatha/x/slots/running.gate").exists());
}

#[test]
fn the_logs_of_the_latest_runs_are_kept() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.gates = vec![gate("one", "true"), gate("one.2", "false")];
    for _ in 0..25 {
        integration.gated(&lab, &base, &staging, &[]);
    }
    let names = |gate: &str| {
        (1..=30)
            .filter(|run| lab.root.join(format!(".mahabharatha/logs/x/gates/1-{gate}.{run}.jsonl")).exists())
            .collect::<Vec<u32>>()
    };
    assert_eq!(names("one"), (6..=25).collect::<Vec<u32>>());
    assert_eq!(names("one_2"), (6..=25).collect::<Vec<u32>>());
}

#[test]
fn output_is_bounded_and_time_is_up() {
    alone("gate::output_is_bounded_and_time_is_up", || {
        let lab = Lab::new();
        let mut integration = lab.integration();
        let (base, staging) = one_task(&lab, &integration);
        integration.gates = vec![Gate {
            timeout: Duration::from_secs(2),
            ..gate(
                "endless",
                "echo first; sleep 1000 & echo $! > ../../../../.git/build.pid; while :; do echo 0123456789; done",
            )
        }];
        let failed = failure(integration.gated(&lab, &base, &staging, &[]));
        assert!(failed.output.len() < 17 << 10, "{}", failed.output.len());
        assert!(failed.output.starts_with("first\n") && failed.output.ends_with("time limit]"), "{}", failed.output);
        assert!(is_dead(&fs::read_to_string(lab.root.join(".git/build.pid")).unwrap()));
    });
}

#[test]
fn what_a_gate_leaves_running_is_ended() {
    alone("gate::what_a_gate_leaves_running_is_ended", || {
        let lab = Lab::new();
        let mut integration = lab.integration();
        let (base, staging) = one_task(&lab, &integration);
        let escapes = "setsid sh -c 'echo $$ > build.pid; exec sleep 1000' > /dev/null 2>&1 & \
                       while ! test -s build.pid; do sleep 0.01; done";
        integration.gates = vec![gate("escapes", escapes)];
        integration.candidate_of(&lab, &base, &staging);
        assert!(is_dead(&fs::read_to_string(lab.staging("build.pid")).unwrap()));
    });
}

#[test]
fn verifications_run_after_the_gates_and_name_their_task() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.gates = vec![gate("gate", "true")];
    let verify = ["true", "test -e a.txt", "test -e a.txt", "echo no; false"];
    let verify: Vec<Verification> = ["A", "B", "C", "D"]
        .into_iter()
        .zip(verify)
        .map(|(id, command)| Verification { task: task(id), command: command.into(), timeout: Duration::from_secs(9) })
        .collect();
    let call = GateCall { verify: &verify, ..call(&base, &staging) };
    let failed = failure(done(integration.gate(&lab.lock(), call).unwrap()));
    assert_eq!(lab.ran(), ["gate", "verify A", "verify B", "verify C", "verify D"]);
    assert_eq!((failed.gate.as_str(), failed.task), ("verify D", Some(task("D"))));
}

#[test]
fn a_pass_of_one_task_does_not_count_for_another_with_the_same_command() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    let command = "test \"$MAHABHARATHA_TASK_ID\" != C";
    integration.gates = vec![gate("gate", command)];
    let verify = ["A", "B", "C"].map(|id| Verification {
        task: task(id),
        command: command.into(),
        timeout: Duration::from_secs(9),
    });
    let tree = lab.oid(&format!("{staging}^{{tree}}"));
    let passed = [GatePass { command: command.into(), tree, task: Some(task("A")), clean: false }];
    let call = GateCall { passed: &passed, verify: &verify, ..call(&base, &staging) };
    let failed = failure(done(integration.gate(&lab.lock(), call).unwrap()));
    assert_eq!(failed.task, Some(task("C")));
    assert_eq!(lab.ran(), ["gate", "verify B", "verify C"]);
}

#[test]
fn the_base_is_checked_with_every_gate() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let base = lab.oid("trunk");
    assert_eq!(done(integration.check_base(&base).unwrap()), []);
    assert!(!lab.staging("").exists(), "without gates nothing is checked out");
    let optional = Gate { required: false, ..gate("optional", "false") };
    integration.gates = vec![gate("red", "false"), optional, gate("green", "test -e a.txt"), gate("red too", "exit 2")];
    let red = done(integration.check_base(&base).unwrap());
    assert_eq!(red.iter().map(|failure| failure.gate.as_str()).collect::<Vec<_>>(), ["red", "red too"]);
    assert_eq!(red[0].staging, base);
    assert_eq!(lab.ran().len(), 4);
}

#[test]
fn prepare_may_change_lock_files_only() {
    let lab = Lab::new();
    lab.write("dir/Cargo.lock", "old\n");
    lab.commit("with a lock file");
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.prepare =
        Some("cat a.txt > 'dir/Cargo.lock'; echo x > stray.txt; echo x > b.txt; echo x > ignored".into());
    integration.gates = vec![gate("sees it", "grep done dir/Cargo.lock && ! test -e stray.txt && test -e ignored")];
    let candidate = integration.candidate_of(&lab, &base, &staging);
    assert_eq!(lab.oid(&format!("{}^", candidate.staging)), staging);
    let subject =
        lab.git(&["show", "-s", "--format=%s|%an|%(trailers:only,separator=%x2C)", candidate.staging.as_str()]);
    assert_eq!(subject, "Prepare level 1: x|Us|Mahabharatha-Feature: x,Mahabharatha-Level: 1");
    let changed = lab.git(&["diff", "--name-only", staging.as_str(), candidate.tree.as_str()]);
    assert_eq!(changed, "dir/Cargo.lock");
    assert_eq!(lab.oid(&format!("{}^{{tree}}", candidate.staging)), candidate.tree);
    assert_eq!(lab.oid("mahabharatha/x/staging"), candidate.staging);
    assert_eq!(integration.candidate_of(&lab, &base, &staging), candidate, "again, the same comes out");
}

#[test]
fn lock_files_that_are_links_or_new_and_not_owned_are_left_out() {
    let lab = Lab::new();
    lab.write("Cargo.lock", "old\n");
    lab.commit("with a lock file");
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    let commands = "ln -sf /etc/passwd Cargo.lock; echo x > dir/yarn.lock; mkdir -p 'a ünd mehr'; echo x > 'a ünd mehr/go.sum'; \
                    ln -s /etc/passwd 'a ünd mehr/uv.lock'";
    integration.prepare = Some(commands.into());
    integration.gates = vec![gate("as before", "grep old Cargo.lock && ! test -e dir/yarn.lock")];
    let candidate = integration.candidate_of(&lab, &base, &staging);
    let changed = lab.git(&["diff", "--name-only", staging.as_str(), candidate.tree.as_str()]);
    assert_eq!(changed, "a ünd mehr/go.sum");
    let files = ["Cargo.lock", "a ünd mehr/uv.lock", "dir/yarn.lock"].map(str::to_owned).into();
    assert_eq!(*lab.notes.lock().unwrap(), [Note::LockFilesLeftOut { level: LEVEL, files }]);
}

#[test]
fn lock_files_keep_their_mode_and_deleted_ones_are_reported() {
    let lab = Lab::new();
    lab.write("Cargo.lock", "old\n");
    lab.write("dir/go.sum", "old\n");
    lab.write("dir/uv.lock", "old\n");
    lab.commit("with lock files");
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.prepare =
        Some("echo new > Cargo.lock; chmod +x Cargo.lock; chmod +x dir/go.sum; rm dir/uv.lock".into());
    let candidate = integration.candidate_of(&lab, &base, &staging);
    let changed = lab.git(&["diff", "--raw", "--no-abbrev", staging.as_str(), candidate.tree.as_str()]);
    let changed: Vec<&str> = changed.lines().collect();
    assert_eq!(changed.len(), 2, "{changed:?}");
    assert!(changed[0].starts_with(":100644 100644 ") && changed[0].ends_with("M\tCargo.lock"), "{changed:?}");
    assert!(changed[1].ends_with("D\tdir/uv.lock"), "{changed:?}");
    let files = vec!["dir/uv.lock".to_owned()];
    assert_eq!(*lab.notes.lock().unwrap(), [Note::LockFilesDeleted { level: LEVEL, files }]);
}

#[test]
fn a_secret_in_a_lock_file_fails_the_preparation() {
    let lab = Lab::new();
    lab.write("Cargo.lock", "old\n");
    lab.commit("with a lock file");
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    // In two parts, so that this file has none.
    let token = ["ghp_", "wJ3kQ9xZ2mN8vB5tR7yU1oP4aS6dF0gH2jK4"].concat();
    integration.prepare = Some(format!("echo 'resolved = \"https://{token}@github.com/x\"' > Cargo.lock"));
    let failed = failure(integration.gated(&lab, &base, &staging, &[]));
    assert!(failed.output.contains("secret") && failed.output.contains("Cargo.lock"), "{failed:?}");
    assert!(!failed.output.contains(&token), "{failed:?}");
    assert_eq!(lab.oid("mahabharatha/x/staging"), staging);
}

#[test]
fn a_failed_prepare_counts_as_a_failed_gate() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.prepare = Some("echo cannot; false".into());
    let failed = failure(integration.gated(&lab, &base, &staging, &[]));
    assert_eq!((failed.gate.as_str(), failed.command.as_str()), ("merge.prepare", "echo cannot; false"));
    let red = done(integration.check_base(&base).unwrap());
    assert_eq!(red.len(), 1);
}

#[test]
fn a_base_that_moved_is_merged_in() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    lab.write("b.txt", "by a person\n");
    lab.write("dir/Cargo.lock", "theirs\n");
    let tip = lab.commit("a person's");
    integration.prepare = Some("echo both > dir/Cargo.lock".into());
    integration.gates = vec![gate("both", "grep done a.txt && grep person b.txt && grep both dir/Cargo.lock")];
    let candidate = integration.candidate_of(&lab, &base, &staging);
    assert_eq!(candidate.base, tip);
    let changed = lab.git(&["diff", "--name-only", tip.as_str(), candidate.tree.as_str()]);
    assert_eq!(changed, "a.txt\ndir/Cargo.lock");
    let on_staging = lab.git(&["diff", "--name-only", staging.as_str(), candidate.staging.as_str()]);
    assert_eq!(on_staging, "dir/Cargo.lock");
}

#[test]
fn a_fix_starts_from_staging_merged_with_the_moved_base() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let base = lab.oid("trunk");
    let first = lab.writes("A", &base, "a.txt", "done\n");
    let (staging, _) = integration.staged(&base, std::slice::from_ref(&first));
    lab.write("b.txt", "by a person\n");
    let tip = lab.commit("a person's");
    integration.gates = vec![gate("both", "grep person b.txt && grep fixed a.txt")];
    let failed = failure(integration.gated(&lab, &base, &staging, &[])).staging;
    assert_eq!(lab.oid(&format!("{failed}^1")), staging);
    assert_eq!(lab.oid(&format!("{failed}^2")), tip);
    assert_eq!(lab.git(&["show", &format!("{failed}:b.txt")]), "by a person");
    assert_eq!(failure(integration.gated(&lab, &base, &failed, &[])).staging, failed, "once is enough");

    let fix = lab.writes("A", &failed, "a.txt", "fixed\n");
    let candidate = integration.candidate_of(&lab, &base, &fix.commit);
    assert_eq!((&candidate.base, &candidate.staging), (&tip, &fix.commit));
    // Staged again with the fix: the user's commits are on the base branch, so nothing has to be kept.
    lab.notes.lock().unwrap().clear();
    let (staging, _) = integration.staged(&base, &[first, fix]);
    assert_eq!(lab.git(&["show", &format!("{staging}:a.txt")]), "fixed");
    assert!(!lab.notes.lock().unwrap().iter().any(|note| matches!(note, Note::Kept { .. })));
}

#[test]
fn an_empty_level_lands_nothing_on_a_moved_base() {
    let lab = Lab::new();
    let integration = lab.integration();
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[]);
    let tip = lab.commit("a person's");
    let candidate = integration.candidate_of(&lab, &base, &staging);
    assert_eq!((&candidate.base, &candidate.staging), (&tip, &tip));
}

#[test]
fn a_tasks_change_does_not_follow_a_rename_by_the_user() {
    let lab = Lab::new();
    let integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    lab.git(&["mv", "a.txt", "moved.txt"]);
    lab.commit("moved");
    let Obstacle::Conflict { files, .. } = obstacle(integration.gated(&lab, &base, &staging, &[])) else { panic!() };
    assert_eq!(files, ["a.txt"]);
}

#[test]
fn a_rewritten_base_is_reported() {
    let lab = Lab::new();
    let integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    lab.git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    let now = Some(lab.oid("trunk"));
    let found = obstacle(integration.gated(&lab, &base, &staging, &[]));
    assert_eq!(found, Obstacle::BaseRewritten { was: base.clone(), now });
    lab.git(&["checkout", "-q", "--detach"]);
    lab.git(&["branch", "-D", "trunk"]);
    let found = obstacle(integration.gated(&lab, &base, &staging, &[]));
    assert_eq!(found, Obstacle::BaseRewritten { was: base, now: None });
}

#[test]
fn with_target_staging_the_base_branch_is_ignored() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.target = MergeTarget::Staging;
    let (base, staging) = one_task(&lab, &integration);
    lab.write("a.txt", "conflicting");
    lab.commit("a person's");
    assert_eq!(integration.candidate_of(&lab, &base, &staging).base, base);
}

/// Stages two tasks and commits a change of the user to the lines of one of them.
fn conflict(lab: &Lab, integration: &Integration) -> (Oid, Oid) {
    let base = lab.oid("trunk");
    let tasks = [lab.writes("A", &base, "a.txt", "ours\n"), lab.writes("B", &base, "b.txt", "b\n")];
    let (staging, _) = integration.staged(&base, &tasks);
    lab.write("a.txt", "theirs\n");
    lab.write("c.txt", "c by a person\n");
    lab.commit("a person's");
    let found = obstacle(integration.gated(lab, &base, &staging, &[]));
    let worktree = lab.root.join(".mahabharatha/worktrees/x/staging").display().to_string();
    assert_eq!(found, Obstacle::Conflict { files: vec!["a.txt".into()], worktree });
    (base, staging)
}

#[test]
fn a_conflict_is_left_for_the_user_to_resolve_and_commit() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.gates = vec![gate("resolved", "grep both a.txt && grep person c.txt && grep -x b b.txt")];
    let (base, staging) = conflict(&lab, &integration);
    let there = lab.staging("");
    let marked = fs::read_to_string(lab.staging("a.txt")).unwrap();
    assert!(marked.contains("<<<<<<<") && marked.contains("ours") && marked.contains("theirs"), "{marked}");
    assert_eq!(git_in(&there, &["status", "--porcelain"]), "UU a.txt\nM  c.txt");
    assert_eq!(git_in(&there, &["symbolic-ref", "HEAD"]), "refs/heads/mahabharatha/x/staging");

    // Gating again before the conflict is resolved leaves the user's work untouched.
    fs::write(lab.staging("a.txt"), "both, nearly\n").unwrap();
    assert!(matches!(obstacle(integration.gated(&lab, &base, &staging, &[])), Obstacle::Conflict { .. }));
    integration.prepare_staging_worktree(&base, false).unwrap();
    assert_eq!(fs::read_to_string(lab.staging("a.txt")).unwrap(), "both, nearly\n");

    fs::write(lab.staging("a.txt"), "both\n").unwrap();
    git_in(&there, &["add", "a.txt"]);
    git_in(&there, &["commit", "-q", "--no-edit"]);
    let resolved = lab.oid("mahabharatha/x/staging");
    assert_eq!(lab.git(&["log", "-1", "--format=%P", resolved.as_str()]), format!("{staging} {}", lab.oid("trunk")));
    let candidate = integration.candidate_of(&lab, &base, &staging);
    assert_eq!((&candidate.staging, &candidate.base), (&resolved, &lab.oid("trunk")));
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.read("a.txt"), "both\n");
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
}

#[test]
fn the_users_work_in_an_abandoned_merge_is_kept() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, _) = conflict(&lab, &integration);
    fs::write(lab.staging("a.txt"), "half of my work\n").unwrap();
    fs::write(lab.staging("notes.txt"), "and notes\n").unwrap();
    // Staged again without the task that conflicts.
    let (staging, _) = integration.staged(&base, &[lab.writes("B", &base, "b.txt", "b\n")]);
    integration.gates = vec![gate("fine", "grep theirs a.txt && ! test -e notes.txt")];
    integration.candidate_of(&lab, &base, &staging);
    let kept: Vec<String> = lab
        .notes
        .lock()
        .unwrap()
        .iter()
        .filter_map(|note| if let Note::Kept { name } = note { Some(name.clone()) } else { None })
        .collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(lab.git(&["show", &format!("{}:a.txt", kept[0])]), "half of my work");
    assert_eq!(lab.git(&["show", &format!("{}:notes.txt", kept[0])]), "and notes");
    assert_eq!(git_in(&lab.staging(""), &["log", "-1", "--format=%H"]), staging.as_str());
}

#[test]
fn a_lost_staging_branch_is_restored() {
    let lab = Lab::new();
    let integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    lab.git(&["update-ref", "-d", "refs/heads/mahabharatha/x/staging"]);
    integration.candidate_of(&lab, &base, &staging);
    assert_eq!(lab.oid("mahabharatha/x/staging"), staging);
}

#[test]
fn a_removed_worktree_is_created_again() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.gates = vec![gate("g", "grep done a.txt")];
    integration.candidate_of(&lab, &base, &staging);
    fs::remove_dir_all(lab.staging("")).unwrap();
    integration.candidate_of(&lab, &base, &staging);
    // A directory that is not our worktree is refused.
    lab.git(&["worktree", "remove", "--force", lab.staging("").to_str().unwrap()]);
    fs::create_dir_all(lab.staging("")).unwrap();
    fs::write(lab.staging("precious"), "x").unwrap();
    let error = integration.gate(&lab.lock(), call(&base, &staging)).unwrap_err();
    assert!(error.message().contains("not empty"), "{error}");
    assert!(lab.staging("precious").exists());
}

#[test]
fn an_ignored_directory_in_the_place_of_a_file_is_replaced_in_staging() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.owners.insert(task("A"), owns("build"));
    let base = lab.oid("trunk");
    integration.prepare_staging_worktree(&base, false).unwrap();
    fs::create_dir_all(lab.staging("build/deep")).unwrap();
    fs::write(lab.staging("build/deep/cache"), "x").unwrap();
    let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "build", "a file\n")]);
    integration.gates = vec![gate("g", "grep file build")];
    integration.candidate_of(&lab, &base, &staging);
}

#[test]
fn a_gate_is_cancelled_with_all_its_processes() {
    alone("gate::a_gate_is_cancelled_with_all_its_processes", || {
        let lab = Lab::new();
        let mut integration = lab.integration();
        let (base, staging) = one_task(&lab, &integration);
        let pipe = lab.root.join(".git/pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let command = format!("sleep 1000 & sleep 0.2; echo $! > '{}'; wait", pipe.display());
        integration.gates = vec![gate("long", &command), gate("never", "true")];
        let cancel = integration.cancel.clone();
        let watcher = std::thread::spawn(move || {
            let pid = fs::read_to_string(pipe).unwrap();
            cancel.cancel(Duration::ZERO);
            pid
        });
        assert_eq!(integration.gate(&lab.lock(), call(&base, &staging)).unwrap(), Outcome::Cancelled);
        assert!(is_dead(&watcher.join().unwrap()));
        assert_eq!(lab.ran(), ["long"], "the other one is not run");
        // It stays cancelled.
        assert_eq!(integration.check_base(&base).unwrap(), Outcome::Cancelled);
    });
}

#[test]
fn commands_see_only_the_given_environment() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    integration.env.insert("GIVEN".into(), "yes".into());
    integration.gates = vec![gate("env", "test \"$GIVEN\" = yes && test -z \"$(env | grep -E '^(CARGO|GIT)')\"")];
    integration.candidate_of(&lab, &base, &staging);
}

#[test]
fn a_verification_that_changes_files_does_not_affect_the_next_one() {
    let lab = Lab::new();
    let integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    let verify = ["echo changed >> a.txt", "! grep changed a.txt"];
    let verify: Vec<Verification> = ["A", "B"]
        .into_iter()
        .zip(verify)
        .map(|(id, command)| Verification { task: task(id), command: command.into(), timeout: Duration::from_secs(9) })
        .collect();
    let call = GateCall { verify: &verify, ..call(&base, &staging) };
    let answered = done(integration.gate(&lab.lock(), call).unwrap());
    assert!(matches!(answered, Gated::Passed { passed, .. } if passed.len() == 2));
    assert_eq!(lab.ran(), ["verify A", "verify B", "verify A", "verify B"]);
}

/// A command that prints a report in SARIF with one finding.
fn prints_sarif(line: u32) -> String {
    let place = format!(
        r#"{{"artifactLocation":{{"uri":"a.txt"}},"region":{{"startLine":{line},"snippet":{{"text":"CODE"}}}}}}"#
    );
    let result = format!(
        r#"{{"ruleId":"eval","level":"error","message":{{"text":"no eval"}},"locations":[{{"physicalLocation":{place}}}]}}"#
    );
    let log = format!(r#"{{"runs":[{{"tool":{{"driver":{{"name":"scanner"}}}},"results":[{result}]}}]}}"#);
    format!("echo '{log}'")
}

#[test]
fn a_failed_scanner_shows_its_findings() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let (base, staging) = one_task(&lab, &integration);
    let finding = "1 finding of scanner:\nerror: a.txt:7: eval: no eval\n";
    let output = |integration: &mut Integration, gate: Gate| {
        integration.gates = vec![gate];
        match integration.gated(&lab, &base, &staging, &[]) {
            Gated::Failed { failure, .. } => failure.output,
            other => panic!("{other:?}"),
        }
    };
    let sarif = prints_sarif(7);
    let printed = Gate { security: true, ..gate("printed", &format!("echo scanning >&2; {sarif}; exit 1")) };
    assert_eq!(output(&mut integration, printed), format!("{finding}scanning\n\n[exit code 1]"));
    let plain = Gate { security: true, ..gate("plain", "echo bad; echo worse >&2; exit 2") };
    assert_eq!(output(&mut integration, plain), "bad\nworse\n\n[exit code 2]");
    let file = |command: &str| Gate { sarif: Some("build/out.sarif".into()), ..gate("file", command) };
    let written = file(&format!("mkdir -p build; {sarif} > build/out.sarif; echo done; exit 1"));
    assert_eq!(output(&mut integration, written), format!("{finding}done\n\n[exit code 1]"));
    // One that is left over from the last run says nothing about this one.
    assert_eq!(
        output(&mut integration, file("test -e build/out.sarif; echo crashed; exit 1")),
        "crashed\n\n[exit code 1]"
    );
    let outside = lab.root.join("outside.sarif");
    let linked =
        format!("rm -f build/out.sarif; {sarif} > '{0}'; ln -s '{0}' build/out.sarif; exit 1", outside.display());
    assert_eq!(output(&mut integration, file(&linked)), "\n[exit code 1]");
}
