//! Hooks, filters and drivers that an agent planted in the repository are not executed; the user's own still work.

use super::*;
use crate::host::integrate::command::{Check, Failed};

#[test]
fn nothing_planted_is_executed() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    integration.owners.insert(task("A"), [".gitattributes", "a.txt", "x.evil"].into_iter().flat_map(owns).collect());
    let base = lab.oid("trunk");
    let work = lab.task_commit("A", &base, |dir| {
        fs::write(dir.join(".gitattributes"), "*.evil filter=evil\n*.txt merge=evil\n").unwrap();
        fs::write(dir.join("a.txt"), "done\n").unwrap();
        fs::write(dir.join("x.evil"), "evil\n").unwrap();
    });
    let person = lab.writes("B", &base, "b.txt", "a person's\n").commit;
    lab.git(&["reset", "-q", "--hard", person.as_str()]);
    let trace = lab.root.join(".git/executed");
    let run = format!("touch '{}'; cat", trace.display());
    for key in [
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "merge.evil.driver",
        "diff.evil.textconv",
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "diff.external",
        "gpg.program",
        "alias.merge",
    ] {
        lab.git(&["config", key, &run]);
    }
    lab.git(&["config", "commit.gpgSign", "true"]);
    fs::write(lab.root.join(".git/info/attributes"), "* filter=evil merge=evil diff=evil\n").unwrap();
    let hook = format!("#!/bin/sh\ntouch '{}'\n", trace.display());
    for name in
        ["post-checkout", "post-merge", "pre-commit", "post-commit", "reference-transaction", "post-index-change"]
    {
        let path = lab.root.join(".git/hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &hook).unwrap();
        make_executable(&path);
    }
    // Prove that the planted code works when git is called as the user calls it.
    let user = Command::new("git").args(["update-index", "--refresh"]).current_dir(&lab.root).output();
    assert!(user.is_ok() && trace.exists(), "the plants do nothing, so this test shows nothing");
    fs::remove_file(&trace).unwrap();

    integration.gates = vec![gate("g", "grep done a.txt && grep evil x.evil && grep person b.txt")];
    done(integration.check_base(&base).unwrap());
    let (staging, commits) = integration.staged(&base, &[work]);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    let failure = Check::from(&gate("g", "false"))
        .failure(Failed { output: String::new(), likely_cause: None, denied: false }, &staging);
    integration.blame(&base, &failure, &commits).unwrap();
    lab.write("a.txt", "done\n");
    integration.landed(&lab, &candidate).unwrap();
    assert!(!trace.exists());
    assert_eq!(lab.read("x.evil"), "evil\n");
    assert_eq!(lab.oid("trunk^2"), staging);
}

#[test]
fn what_a_gate_writes_to_our_git_directory_has_no_effect() {
    let lab = Lab::new();
    let mut integration = lab.integration();
    let trace = lab.root.join(".git/executed");
    let plant = format!(
        "git config --file '{git}/config' filter.evil.smudge 'touch \"{}\"; cat' && echo '* filter=evil' > '{git}/info/attributes' \
         && echo changed > b.txt && : > '{git}/staging.index.lock'",
        trace.display(),
        git = integration.objects.git_dir().display(),
    );
    integration.gates = vec![gate("plants", &plant), gate("next", "grep -q b.txt b.txt")];
    let candidate = integration.ready(&lab, "done\n");
    assert!(!trace.exists());
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!(lab.read("a.txt"), "done\n");
}

#[test]
fn a_conflict_runs_no_merge_driver() {
    let lab = Lab::new();
    let integration = lab.integration();
    let trace = lab.root.join(".git/executed");
    lab.git(&["config", "merge.evil.driver", &format!("touch '{}'", trace.display())]);
    fs::write(lab.root.join(".git/info/attributes"), "*.txt merge=evil\n").unwrap();
    let base = lab.oid("trunk");
    let (staging, _) = integration.staged(&base, &[lab.writes("A", &base, "a.txt", "ours\n")]);
    lab.write("a.txt", "theirs\n");
    lab.commit("a person's");
    assert!(matches!(obstacle(integration.gated(&lab, &base, &staging, &[])), Obstacle::Conflict { .. }));
    assert!(!trace.exists());
}

#[test]
fn the_users_own_filters_work_as_pinned() {
    let lab = Lab::new();
    lab.git(&["config", "filter.up.smudge", "tr a-z A-Z"]);
    lab.git(&["config", "filter.up.clean", "tr A-Z a-z"]);
    lab.git(&["config", "core.autocrlf", "true"]);
    lab.write(".gitattributes", "*.up filter=up -text\n");
    lab.write("x.up", "start\n");
    lab.commit("filtered");
    let mut integration = lab.integration();
    integration.owners.insert(task("A"), ["x.up", "y.up", "crlf.txt"].into_iter().flat_map(owns).collect());
    integration.gates = vec![gate("g", "grep DONE x.up && grep NEW y.up")];
    let base = lab.oid("trunk");
    let work = lab.task_commit("A", &base, |dir| {
        fs::write(dir.join("x.up"), "DONE\n").unwrap();
        fs::write(dir.join("y.up"), "NEW\n").unwrap();
        fs::write(dir.join("crlf.txt"), "line\r\n").unwrap();
    });
    let (staging, _) = integration.staged(&base, &[work]);
    let candidate = integration.candidate_of(&lab, &base, &staging);
    assert_eq!(lab.git(&["show", &format!("{staging}:x.up")]), "done");
    // A file that, after filtering, already has its new contents.
    lab.write("y.up", "NEW\n");
    integration.landed(&lab, &candidate).unwrap();
    assert_eq!((lab.read("x.up").as_str(), lab.read("crlf.txt").as_str()), ("DONE\n", "line\r\n"));
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
}
