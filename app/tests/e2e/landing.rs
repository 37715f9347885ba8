//! What lands on the base branch, in every kind of repository.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::support::{HELD, Repo, simple, task, with};

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn a_level_is_one_merge_of_base_and_staging_and_a_task_one_commit_on_staging() {
    let repo = Repo::new();
    let start = repo.git(&["rev-parse", "main"]);
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 1, "b.txt"), simple("C", 2, "c.txt")]);
    repo.run(&["run"]).code(0);
    let first_parents = repo.git(&["log", "--first-parent", "--format=%s|%P", "main"]);
    let [second, first, _] = lines(&first_parents)[..] else { panic!("{first_parents}") };
    assert!(second.starts_with("Level 2: x|") && first.starts_with(&format!("Level 1: x|{start} ")), "{first_parents}");
    assert_eq!(
        lines(&repo.git(&["log", "--format=%s", "main~1^2", &format!("^{start}")])),
        ["feat(B): Make b.txt", "feat(A): Make a.txt"]
    );
    for (commit, trailers) in [
        ("main", "Feature: x|Level: 2"),
        ("main^2", "Feature: x|Task: C|Level: 2|Attempt: 1"),
        ("main~1^2", "Feature: x|Task: B|Level: 1|Attempt: 1"),
    ] {
        let found = repo.git(&["log", "-1", "--format=%(trailers:only)", commit]).replace("Mahabharatha-", "");
        assert_eq!(lines(found.trim()).join("|"), trailers, "{commit}");
        assert_eq!(repo.git(&["log", "-1", "--format=%an <%ae>", commit]), "A Person <person@example.com>");
    }
    // The tree of the merge is the one that was gated, and each task's commit has its own file and nothing else.
    assert_eq!(repo.git(&["rev-parse", "main^{tree}"]), repo.git(&["rev-parse", "main^2^{tree}"]));
    assert_eq!(repo.git(&["diff", "--name-only", "main~1^2~1", "main~1^2"]), "b.txt");
    assert_eq!(repo.git(&["diff", "--name-only", &start, "main~1^2~1"]), "a.txt");
}

#[test]
fn the_base_branch_may_have_any_name() {
    for name in ["master", "release/1.0", "ünï"] {
        let repo = Repo::new();
        repo.git(&["branch", "-m", name]);
        repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
        repo.run(&["run"]).code(0).says(&format!("level 2 merged into {name}"));
        assert_eq!(
            lines(&repo.git(&["log", "--first-parent", "--format=%s", name]))[..2],
            ["Level 2: x", "Level 1: x"]
        );
        assert_eq!(repo.git(&["symbolic-ref", "--short", "HEAD"]), name);
        assert_eq!(repo.git(&["for-each-ref", "--format=%(refname)"]), format!("refs/heads/{name}"));
    }
}

#[test]
fn a_detached_head_is_refused_with_the_way_out() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.git(&["checkout", "-q", "--detach"]);
    repo.run(&["run"]).code(7).says("HEAD is detached").says("git switch");
    assert_eq!(repo.refs(), [""; 0]);
    repo.git(&["switch", "-q", "main"]);
    repo.run(&["run"]).code(0);
}

#[test]
fn names_with_spaces_and_umlauts_links_modes_and_bytes_that_are_no_text_survive() {
    let repo = Repo::new();
    repo.write("dir ü/fi le.txt", "old\n");
    repo.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(repo.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("README.md", repo.join("link")).unwrap();
    let odd = repo.path().join(std::ffi::OsStr::from_bytes(b"odd\xff.txt"));
    fs::write(&odd, "odd").unwrap();
    repo.commit("of all kinds");
    let make = "echo new > 'dir ü/nëw file.txt'; ln -s 'dir ü' lnk; echo changed > 'dir ü/fi le.txt'; \
                chmod -x run.sh; printf '#!/bin/sh\\n' > tool; chmod +x tool; \
                mkdir more; echo odd > more/$(printf 'in \\377'); echo ü > 'more/größe: \"1\"'";
    let all = with(
        task("A", 1, "lnk", make),
        json!({ "files": { "create": ["dir ü/nëw file.txt", "lnk", "tool", "more/"], "modify": ["dir ü/fi le.txt", "run.sh"] } }),
    );
    repo.graph("x", &[all, simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    let listed = Command::new("git").args(["ls-tree", "-r", "-z", "main"]).current_dir(repo.path()).output().unwrap();
    let entries: Vec<(&[u8], &[u8])> = listed
        .stdout
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| (&entry[..6], &entry[entry.iter().position(|byte| *byte == b'\t').unwrap() + 1..]))
        .collect();
    for (mode, path) in [
        ("100644", "dir ü/fi le.txt".as_bytes()),
        ("100644", "dir ü/nëw file.txt".as_bytes()),
        ("100644", b"run.sh"),
        ("100755", b"tool"),
        ("120000", b"link"),
        ("120000", b"lnk"),
        ("100644", b"odd\xff.txt"),
        ("100644", b"more/in \xff"),
        ("100644", "more/größe: \"1\"".as_bytes()),
    ] {
        assert!(entries.contains(&(mode.as_bytes(), path)), "{mode} {}", String::from_utf8_lossy(path));
    }
    assert_eq!(fs::read(&odd).unwrap(), b"odd");
    assert_eq!(repo.read("dir ü/fi le.txt"), "changed\n");
    assert_eq!(fs::read_link(repo.join("lnk")).unwrap().to_str(), Some("dir ü"));
    assert_eq!(repo.git(&["status", "--porcelain", "--", ":!.gsd"]), "");
}

#[test]
fn a_repository_with_submodules_keeps_them_as_they_are() {
    let repo = Repo::new();
    repo.git(&["init", "-q", ".git/other"]);
    let other = repo.join(".git/other");
    repo.git_in(&other, &["-c", "user.name=O", "-c", "user.email=o@x", "commit", "-q", "--allow-empty", "-m", "sub"]);
    let url = other.display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"]);
    repo.commit("with a submodule");
    repo.write("sub/mine.txt", "a person's");
    let before = repo.git(&["ls-tree", "main", "sub"]);
    // Where the submodule is, a worktree has an empty directory.
    let first = task("A", 1, "a.txt", "test -d sub && test -z \"$(ls sub)\" && echo A > a.txt");
    repo.graph("x", &[first, simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["ls-tree", "main", "sub"]), before);
    assert_eq!(repo.read("sub/mine.txt"), "a person's");
    assert_eq!(repo.read("b.txt"), "B\n");
}

#[test]
fn a_sha256_repository_works_like_any_other() {
    let repo = Repo::sha256();
    let first = task("A", 1, "a.txt", "[ $MAHABHARATHA_ATTEMPT = 2 ] || touch stray; echo A > a.txt");
    repo.graph("x", &[first, simple("B", 2, "b.txt")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.git(&["rev-parse", "main"]).len(), 64);
    assert_eq!(lines(&repo.git(&["log", "--first-parent", "--format=%s", "main"]))[0], "Level 2: x");
    assert_eq!(repo.refs(), ["refs/mahabharatha/x/wip/A/1"]);
}

#[test]
fn filters_of_the_user_work_everywhere_and_those_of_an_agent_nowhere() {
    let repo = Repo::new();
    repo.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
    repo.git(&["config", "filter.rot.smudge", "tr n-za-m a-z"]);
    repo.git(&["config", "filter.rot.required", "true"]);
    repo.write(".gitattributes", "*.bin filter=rot\n");
    repo.write("x.bin", "hello\n");
    repo.commit("filtered");
    assert_eq!(repo.git(&["show", "main:x.bin"]), "uryyb");
    let home = repo.join(".git/home");
    fs::create_dir(&home).unwrap();
    let evil = format!("touch '{}'; cat", repo.join(".git/evil").display());
    repo.write(
        ".git/plant.sh",
        &format!(
            "git config --global filter.evil.clean \"{evil}\"; git config --global filter.evil.smudge \"{evil}\"\n\
             if [ $MAHABHARATHA_ATTEMPT = 1 ]; then\n\
             git config filter.evil.clean \"{evil}\"; git config filter.rot.clean \"{evil}\"; fi\n\
             mkdir -p d; echo '*.evil filter=evil' > d/.gitattributes; echo made > d/x.evil; echo secret > a.bin\n"
        ),
    );
    let plant = format!("test \"$(cat x.bin)\" = hello && sh '{}'", repo.join(".git/plant.sh").display());
    let first = with(
        task("A", 1, "a.bin", &plant),
        json!({ "files": { "create": ["a.bin", "d/"] }, "verification": { "command": "test \"$(cat a.bin)\" = secret" } }),
    );
    let second = task(
        "B",
        2,
        "b.txt",
        "test \"$(cat a.bin x.bin d/x.evil)\" = \"$(printf 'secret\\nhello\\nmade')\" && echo B > b.txt",
    );
    repo.config("quality_gates: [{ name: smudged, command: '! test -e a.bin || grep -q secret a.bin' }]\n");
    repo.graph("x", &[first, second]);
    repo.run_with(&["run"], &[("HOME", home.to_str().unwrap())]).code(0).says(".git/config (filter.evil.clean)");
    assert_eq!(repo.git(&["show", "main:a.bin"]), "frperg");
    assert_eq!(repo.read("a.bin"), "secret\n");
    assert_eq!(repo.git(&["config", "--get-all", "filter.rot.clean"]), "tr a-z n-za-m");
    assert!(repo.git_fails(&["config", "--local", "--get-regexp", "filter.evil"]));
    assert_eq!(repo.git(&["status", "--porcelain", "--", ":!.gsd", ":!.mahabharatha"]), "");
    assert!(repo.read(".git/home/.gitconfig").contains("filter \"evil\""));
    assert!(!repo.exists(".git/evil"), "what an agent planted was run");
}

#[test]
fn commits_are_unsigned_and_run_no_hooks_whatever_the_user_has_configured() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    let hook = format!("#!/bin/sh\necho $0 >> '{}'\nexit 1\n", repo.join(".git/hooked").display());
    let names = [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "pre-merge-commit",
        "post-merge",
        "post-checkout",
        "reference-transaction",
    ];
    for name in names {
        let path = repo.join(".git/hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &hook).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    repo.git(&["config", "commit.gpgSign", "true"]);
    repo.git(&["config", "gpg.program", "/bin/false"]);
    repo.run(&["run"]).code(0);
    assert!(!repo.exists(".git/hooked"), "{}", repo.read(".git/hooked"));
    let raw = repo.git(&["log", "--format=%H", "main"]);
    assert!(lines(&raw).iter().all(|commit| !repo.git(&["cat-file", "commit", commit]).contains("gpgsig")));
    for name in names {
        assert_eq!(repo.read(&format!(".git/hooks/{name}")), hook, "the user's hooks stay");
    }
}

#[test]
fn a_checkout_on_another_branch_is_not_touched() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt")), simple("B", 2, "b.txt")]);
    let run = repo.run_until_held("x");
    repo.git(&["switch", "-q", "-c", "other"]);
    repo.write("a.txt", "mine\n");
    repo.let_go_on("x", run).code(0);
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "Level 2: x");
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]), "first");
    assert_eq!(repo.read("a.txt"), "mine\n");
    assert!(!repo.exists("b.txt"));
}

#[test]
fn the_base_moves_in_the_worktree_where_it_is_checked_out() {
    let repo = Repo::new();
    repo.graph("x", &[task("A", 1, "a.txt", &format!("{HELD} echo A > a.txt")), simple("B", 2, "b.txt")]);
    let run = repo.run_until_held("x");
    repo.git(&["switch", "-q", "-c", "other"]);
    repo.git(&["worktree", "add", "-q", ".git/linked", "main"]);
    repo.write(".git/linked/README.md", "changed\n");
    repo.let_go_on("x", run).code(0);
    let linked = repo.join(".git/linked");
    assert_eq!(repo.git_in(&linked, &["log", "-1", "--format=%s"]), "Level 2: x");
    assert_eq!(repo.git_in(&linked, &["status", "--porcelain"]), " M README.md");
    assert_eq!(repo.read(".git/linked/b.txt"), "B\n");
    assert!(!repo.exists("b.txt"));
}

#[test]
fn a_subdirectory_is_as_good_as_the_root() {
    let repo = Repo::new();
    repo.write("deep/er/file", "");
    repo.graph("x", &[simple("A", 1, "a.txt")]);
    repo.commit("deep");
    let ran = repo.command(&["run"]).current_dir(repo.join("deep/er")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(repo.read("a.txt"), "A\n");
}

#[test]
fn from_a_linked_worktree_the_work_lands_on_its_branch() {
    let repo = Repo::new();
    repo.graph("x", &[simple("A", 1, "a.txt"), simple("B", 2, "b.txt")]);
    repo.git(&["worktree", "add", "-q", "-b", "side", ".git/linked"]);
    let linked = repo.join(".git/linked");
    let ran = repo.command(&["run"]).current_dir(&linked).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("level 2 merged into side"), "{said}");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "side"]), "Level 2: x");
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "main"]), "first");
    assert_eq!(repo.read(".git/linked/b.txt"), "B\n");
    assert_eq!(repo.git_in(&linked, &["status", "--porcelain"]), "");
    assert!(!repo.exists("a.txt"), "the main checkout stays on main");
    // Commands to the run work from there as well.
    let status = repo.command(&["status", "--json"]).current_dir(&linked).output().unwrap();
    assert!(String::from_utf8_lossy(&status.stdout).contains("\"completed\""));
    // One whose HEAD is detached is refused like any other.
    repo.git_in(&linked, &["checkout", "-q", "--detach"]);
    repo.graph("y", &[simple("C", 1, "c.txt")]);
    let refused = repo.command(&["run"]).current_dir(&linked).output().unwrap();
    assert_eq!(refused.status.code(), Some(7), "{}", String::from_utf8_lossy(&refused.stderr));
}
