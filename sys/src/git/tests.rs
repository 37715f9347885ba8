use std::fs;
use std::os::unix::ffi::OsStrExt;

use mahabharatha_core::ids::Oid;
use mahabharatha_testing::git as run_git;
use tempfile::TempDir;

use super::*;

/// A repository with one commit.
struct Repo {
    dir: TempDir,
}

impl Repo {
    fn new(init: &[&str]) -> Self {
        let repo = Repo { dir: tempfile::tempdir().unwrap() };
        repo.git(&[&["init", "-q", "-b", "trunk"], init].concat());
        fs::write(repo.path("a.txt"), "a\n").unwrap();
        fs::create_dir(repo.path("sub")).unwrap();
        fs::write(repo.path("sub/b.txt"), "b\n").unwrap();
        repo.git(&["add", "."]);
        repo.git(&["-c", "user.name=T", "-c", "user.email=t@t", "commit", "-qm", "one"]);
        repo
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        run_git(self.dir.path(), args)
    }

    fn common(&self) -> PathBuf {
        self.path(".git")
    }

    fn real(&self) -> Git {
        Git::repository(self.common())
    }

    fn head(&self) -> Oid {
        self.real().rev_parse("HEAD").unwrap().unwrap()
    }

    /// Returns a private git directory for this work tree, with its index read from HEAD.
    fn ours(&self, pinned: &Pinned) -> Git {
        let git = Git::objects(&self.path(".git/ours"), &self.common(), pinned).unwrap();
        let git = git.work_tree(self.dir.path()).index(self.path(".git/ours-index"));
        git.read_tree(&self.head()).unwrap();
        git.detach_head(&self.head()).unwrap();
        git
    }
}

fn found(git: &Git) -> Vec<(String, Found)> {
    git.status().unwrap().into_iter().map(|entry| (entry.path.to_string(), entry.found)).collect()
}

#[test]
fn the_version_is_parsed() {
    assert!(Git::version().unwrap() >= [2, 31, 0]);
}

#[test]
fn a_call_that_waits_for_a_named_pipe_is_ended() {
    let repo = Repo::new(&[]);
    let work_tree = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(work_tree.path().join(".gitignore")).status().unwrap();
    assert!(made.success());
    let git = repo.ours(&Pinned::default()).work_tree(work_tree.path()).within(Duration::from_secs(1));
    let error = git.status().unwrap_err().to_string();
    assert!(error.contains("did not end within 1 s"), "{error}");
}

#[test]
fn refs_are_swapped_only_from_the_expected_value() {
    let repo = Repo::new(&[]);
    let (git, head) = (repo.real(), repo.head());
    let name = "refs/mahabharatha/x/tasks/A";
    assert_eq!(git.resolve_ref(name).unwrap(), None);
    git.update_ref(name, &head, None).unwrap();
    assert_eq!(git.resolve_ref(name).unwrap(), Some(head.clone()));
    let error = git.update_ref(name, &head, None).unwrap_err().to_string();
    assert!(error.contains("update-ref") && error.contains("exists"), "{error}");
    let tree = git.rev_parse("HEAD^{tree}").unwrap().unwrap();
    let other = git.commit_tree(&tree, std::slice::from_ref(&head), "two\n", &Identity::default()).unwrap();
    assert!(git.update_ref(name, &head, Some(&other)).is_err());
    git.update_ref(name, &other, Some(&head)).unwrap();
    assert_eq!(git.for_each_ref(&["refs/mahabharatha/"]).unwrap(), vec![(name.to_owned(), other.clone())]);
    assert!(git.is_ancestor(&head, &other).unwrap() && !git.is_ancestor(&other, &head).unwrap());
    assert_eq!(git.merge_base(&head, &other).unwrap(), Some(head.clone()));
    git.delete_ref(name, Some(&other)).unwrap();
    assert_eq!(git.for_each_ref(&["refs/mahabharatha/"]).unwrap(), vec![]);
    assert_eq!(git.head_branch().unwrap().as_deref(), Some("refs/heads/trunk"));
}

#[test]
fn a_symbolic_ref_is_never_followed() {
    let repo = Repo::new(&[]);
    let (git, head) = (repo.real(), repo.head());
    let tree = git.rev_parse("HEAD^{tree}").unwrap().unwrap();
    let other = git.commit_tree(&tree, &[], "other\n", &Identity::default()).unwrap();
    repo.git(&["branch", "precious"]);
    let name = "refs/mahabharatha/x/tasks/A";
    let plants: [(&str, &dyn Fn()); 3] = [
        ("symbolic", &|| drop(repo.git(&["symbolic-ref", name, "refs/heads/precious"]))),
        ("nowhere", &|| drop(repo.git(&["symbolic-ref", name, "refs/heads/nowhere"]))),
        ("link", &|| {
            let path = repo.common().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            std::os::unix::fs::symlink("refs/heads/precious", path).unwrap();
        }),
    ];
    for (kind, plant) in plants {
        plant();
        assert_eq!((git.resolve_ref(name).unwrap(), git.is_symbolic(name)), (None, true), "{kind}");
        git.update_refs(&[RefChange::Set { name: name.into(), new: other.clone() }], "").unwrap();
        assert_eq!((git.resolve_ref(name).unwrap().as_ref(), git.is_symbolic(name)), (Some(&other), false), "{kind}");
        plant();
        git.delete_ref(name, None).unwrap();
        assert!(!repo.common().join(name).exists(), "{kind}");
        assert_eq!(repo.git(&["rev-parse", "precious"]), head.as_str(), "{kind}");
        assert!(git.resolve_ref("refs/heads/nowhere").unwrap().is_none(), "{kind}");
    }
}

#[test]
fn refs_are_not_written_through_a_directory_that_is_a_link() {
    let repo = Repo::new(&[]);
    fs::create_dir_all(repo.common().join("refs/heads/mahabharatha")).unwrap();
    std::os::unix::fs::symlink("..", repo.common().join("refs/heads/mahabharatha/x")).unwrap();
    let error = repo.real().update_ref("refs/heads/mahabharatha/x/staging", &repo.head(), None).unwrap_err();
    assert!(matches!(error, GitError::Link(_)), "{error}");
    assert!(!repo.common().join("refs/heads/staging").exists());
}

#[test]
fn replaced_objects_and_grafts_have_no_effect() {
    let repo = Repo::new(&[]);
    let first = repo.head();
    fs::write(repo.path("a.txt"), "two\n").unwrap();
    repo.git(&["-c", "user.name=T", "-c", "user.email=t@t", "commit", "-qam", "two"]);
    let second = repo.head();
    let (blob, tree) = (format!("{first}:a.txt"), repo.git(&["rev-parse", "HEAD^{tree}"]));
    let git = repo.real();
    let orphan = git.commit_tree(&Oid::new(tree).unwrap(), &[], "evil\n", &Identity::default()).unwrap();
    repo.git(&["replace", &repo.git(&["rev-parse", &blob]), &repo.git(&["rev-parse", "HEAD:a.txt"])]);
    repo.git(&["replace", second.as_str(), orphan.as_str()]);
    fs::write(repo.path(".git/info/grafts"), format!("{second}\n")).unwrap();
    assert_eq!(repo.git(&["show", &blob]), "two", "the plants do nothing, so this test shows nothing");
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "1", "the plants do nothing, so this test shows nothing");
    for git in [repo.real(), repo.ours(&Pinned::default())] {
        assert_eq!(git.run(["cat-file", "blob", &blob]).unwrap().text().unwrap(), "a");
        assert!(git.is_ancestor(&first, &second).unwrap());
        assert_eq!(git.read_commits(std::slice::from_ref(&second)).unwrap()[0].parents, std::slice::from_ref(&first));
    }
}

#[test]
fn a_repository_without_refs_in_files_is_refused_with_the_reason() {
    if Git::version().unwrap() < [2, 45, 0] {
        return;
    }
    let repo = Repo::new(&["--ref-format=reftable"]);
    for error in [repo.real().head_branch().unwrap_err(), repo.real().settings().unwrap().pinned().unwrap_err()] {
        assert!(error.to_string().contains("reftable"), "{error}");
    }
}

#[test]
fn trees_are_read_and_compared_byte_for_byte() {
    let repo = Repo::new(&[]);
    let git = repo.ours(&Pinned::default());
    let before = repo.real().rev_parse("HEAD^{tree}").unwrap().unwrap();
    assert_eq!(git.write_tree().unwrap(), before);
    let odd = RepoPath::new(*b"odd \xff\n name");
    fs::write(odd.under(repo.dir.path()), "x").unwrap();
    std::os::unix::fs::symlink("a.txt", repo.path("link")).unwrap();
    fs::remove_file(repo.path("sub/b.txt")).unwrap();
    let listed: Vec<RepoPath> = git.status().unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(listed.len(), 3, "{listed:?}");
    git.update_index(&listed).unwrap();
    let after = git.write_tree().unwrap();
    let changes = git.diff_tree(&before, &after).unwrap();
    let short: Vec<_> = changes.iter().map(|change| (change.path.clone(), change.status, change.new_mode)).collect();
    assert_eq!(short, vec![("link".into(), 'A', 0o120000), (odd.clone(), 'A', 0o100644), ("sub/b.txt".into(), 'D', 0)]);
    assert_eq!(changes[2].new, None);
    let entries = git.ls_tree(&after).unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(),
        [EntryType::File, EntryType::Symlink, EntryType::File]
    );
    assert_eq!(entries[2].path.as_path().as_os_str().as_bytes(), b"odd \xff\n name");
    assert_eq!(odd.to_string(), "odd \\xff\\n name");
}

#[test]
fn a_sha256_repository_works() {
    let repo = Repo::new(&["--object-format=sha256"]);
    let pinned = repo.real().settings().unwrap().pinned().unwrap();
    let git = repo.ours(&pinned);
    fs::write(repo.path("a.txt"), "changed\n").unwrap();
    git.update_index(&["a.txt".into()]).unwrap();
    let tree = git.write_tree().unwrap();
    assert_eq!(tree.as_str().len(), 64);
    let commit = git.commit_tree(&tree, &[repo.head()], "two\n", &Identity::default()).unwrap();
    repo.real().update_ref("refs/heads/other", &commit, None).unwrap();
    assert_eq!(repo.git(&["show", "other:a.txt"]), "changed");
}

#[test]
fn pinned_filters_run_and_planted_ones_do_not() {
    let repo = Repo::new(&[]);
    fs::write(repo.path(".git/info/attributes"), "*.up filter=up\n").unwrap();
    fs::write(repo.path(".git/info/exclude"), "ignored.txt\n").unwrap();
    repo.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    let pinned = repo.real().settings().unwrap().pinned().unwrap();

    let trace = repo.path("executed");
    let plant = format!("touch {}; cat", trace.display());
    for key in ["filter.evil.clean", "core.fsmonitor", "core.sshCommand", "core.pager", "diff.external"] {
        repo.git(&["config", key, &plant]);
    }
    repo.git(&["config", "filter.up.clean", &plant]);
    fs::write(repo.path(".git/info/attributes"), "* filter=evil\n").unwrap();
    fs::write(repo.path(".git/hooks/reference-transaction"), format!("#!/bin/sh\n{plant}\n")).unwrap();
    fs::set_permissions(
        repo.path(".git/hooks/reference-transaction"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();

    fs::write(repo.path("x.up"), "loud").unwrap();
    fs::write(repo.path("ignored.txt"), "").unwrap();
    let git = repo.ours(&pinned);
    assert_eq!(found(&git), vec![("x.up".into(), Found::Untracked), ("ignored.txt".into(), Found::Ignored)]);
    git.update_index(&["x.up".into()]).unwrap();
    let tree = git.write_tree().unwrap();
    let commit = git.commit_tree(&tree, &[repo.head()], "two\n", &Identity::default()).unwrap();
    repo.real().update_ref("refs/heads/other", &commit, None).unwrap();
    repo.real().worktree_list().unwrap();
    assert!(!trace.exists());
    assert_eq!(repo.real().run(["cat-file", "blob", "other:x.up"]).unwrap().text().unwrap(), "LOUD");
}

#[test]
fn status_tells_each_kind_of_difference() {
    let repo = Repo::new(&[]);
    let git = repo.ours(&Pinned::default());
    fs::write(repo.path("a.txt"), "changed").unwrap();
    fs::remove_file(repo.path("sub/b.txt")).unwrap();
    fs::write(repo.path("sub/new name"), "").unwrap();
    fs::write(repo.path(".gitignore"), "/build/\n").unwrap();
    fs::create_dir(repo.path("build")).unwrap();
    fs::write(repo.path("build/x"), "").unwrap();
    repo.git(&["init", "-q", "nested"]);
    fs::write(repo.path("nested/x"), "").unwrap();
    repo.git(&["-C", "nested", "add", "x"]);
    repo.git(&["-C", "nested", "-c", "user.name=T", "-c", "user.email=t@t", "commit", "-qm", "x"]);
    // Hidden from the user's own `git status`.
    repo.git(&["update-index", "--assume-unchanged", "a.txt"]);
    assert_eq!(
        found(&git),
        vec![
            ("a.txt".into(), Found::Changed),
            ("sub/b.txt".into(), Found::Deleted),
            (".gitignore".into(), Found::Untracked),
            ("nested".into(), Found::UntrackedDirectory),
            ("sub/new name".into(), Found::Untracked),
            ("build".into(), Found::Ignored),
        ]
    );
    git.checkout_index(&["a.txt".into(), "sub/b.txt".into()]).unwrap();
    assert_eq!(fs::read_to_string(repo.path("a.txt")).unwrap(), "a\n");
}

#[test]
fn an_unsupported_repository_is_refused_with_the_reason() {
    let repo = Repo::new(&[]);
    repo.git(&["config", "core.repositoryformatversion", "1"]);
    repo.git(&["config", "extensions.partialClone", "origin"]);
    let error = repo.real().settings().unwrap().pinned().unwrap_err().to_string();
    assert!(error.contains("partial clone"), "{error}");
}

#[test]
fn worktrees_are_listed_with_their_branches() {
    let repo = Repo::new(&[]);
    repo.git(&["worktree", "add", "-q", "-b", "side", "w x"]);
    let list = repo.real().worktree_list().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].branch.as_deref(), Some("refs/heads/trunk"));
    assert_eq!(list[1].branch.as_deref(), Some("refs/heads/side"));
    assert!(list[1].path.ends_with("w x"));
    assert_eq!(list[1].head, Some(repo.head()));
}

#[test]
fn worktrees_are_listed_while_another_is_added() {
    let repo = Repo::new(&[]);
    let incomplete = repo.path(".git/worktrees/half");
    fs::create_dir_all(&incomplete).unwrap();
    for (name, text) in [("commondir", ""), ("gitdir", "/nowhere/.git\n"), ("HEAD", "ref: refs/heads/trunk\n")] {
        fs::write(incomplete.join(name), text).unwrap();
    }
    let list = repo.real().run(["worktree", "list"]);
    assert!(list.is_err(), "git itself fails on an incomplete entry");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            fs::write(incomplete.join("commondir"), "../..\n").unwrap();
        });
        assert_eq!(repo.real().worktree_list().unwrap().len(), 2);
    });
}

#[test]
fn an_entry_left_by_a_killed_worktree_add_is_removed() {
    let repo = Repo::new(&[]);
    let incomplete = repo.path(".git/worktrees/w");
    for (left, is_removed) in [
        (&[][..], true),
        (&[("locked", "initializing")], true),
        (&[("locked", "initializing"), ("gitdir", "")], true),
        (&[("gitdir", "/elsewhere/w/.git\n")], false),
        (&[("locked", ""), ("HEAD", "")], false),
    ] {
        fs::create_dir_all(&incomplete).unwrap();
        for (name, text) in left {
            fs::write(incomplete.join(name), text).unwrap();
        }
        repo.real().worktree_remove(&repo.path("w")).unwrap();
        assert_eq!(incomplete.exists(), !is_removed, "{left:?}");
        let _ = fs::remove_dir_all(&incomplete);
    }
}

#[test]
fn the_identity_is_the_users_or_ours() {
    let repo = Repo::new(&[]);
    repo.git(&["config", "user.name", "A <b>"]);
    repo.git(&["config", "user.email", "a@b"]);
    let identity = repo.real().settings().unwrap().identity();
    assert_eq!((identity.name.as_str(), identity.email.as_str()), ("A b", "a@b"));
}

#[test]
fn an_error_shows_git_stderr() {
    let repo = Repo::new(&[]);
    let error = repo.real().run(["cat-file", "blob", "no-such"]).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("`git cat-file blob no-such` failed with exit code 128: fatal:"), "{error}");
}
