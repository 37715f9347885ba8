//! The feature's task list in Claude Code, which is only a mirror: what others do there is seen and put right.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::{doing, held, wait};
use crate::support::{Repo, simple, task, with};

/// The list of the feature `x`.
struct List<'a>(&'a Repo);

impl List<'_> {
    fn dir(&self) -> PathBuf {
        self.0.home().join(".claude/tasks/x")
    }

    /// Every file in it, by id.
    fn all(&self) -> BTreeMap<u64, Value> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(self.dir()).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let Some(id) = name.strip_suffix(".json").and_then(|id| id.parse().ok()) else { continue };
            let text = if entry.metadata().unwrap().is_file() { fs::read_to_string(entry.path()) } else { continue };
            all.extend(serde_json::from_str(&text.unwrap_or_default()).ok().map(|task| (id, task)));
        }
        all
    }

    fn find(&self, task: &str) -> Option<Value> {
        self.all().into_values().find(|entry| entry["metadata"]["task"] == task)
    }

    #[track_caller]
    fn of(&self, task: &str) -> Value {
        self.find(task).unwrap_or_else(|| panic!("{task} is not in {:#?}", self.all()))
    }

    #[track_caller]
    fn wait(&self, task: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.0.wait_until(&format!("{task} {what}"), || self.find(task).is_some_and(|entry| holds(&entry)));
        self.of(task)
    }

    fn wait_status(&self, task: &str, status: &str) -> Value {
        self.wait(task, &format!("is {status} there"), |entry| entry["status"] == status)
    }

    /// In place, as the client writes.
    fn change(&self, task: &str, fields: Value) {
        let entry = with(self.of(task), fields);
        fs::write(self.dir().join(format!("{}.json", entry["id"].as_str().unwrap())), entry.to_string()).unwrap();
    }

    fn wipe(&self) {
        for id in self.all().keys() {
            fs::remove_file(self.dir().join(format!("{id}.json"))).unwrap();
        }
    }

    /// A lock of that age.
    fn lock(&self, name: &str, ago: &str) -> PathBuf {
        let lock = self.dir().join(name);
        fs::create_dir_all(&lock).unwrap();
        assert!(Command::new("touch").args(["-d", ago]).arg(&lock).status().unwrap().success());
        lock
    }

    fn left_behind(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.ends_with(".json")).collect()
    }
}

fn mismatches(repo: &Repo) -> Value {
    repo.status()["mismatches"].clone()
}

#[test]
fn it_shows_every_task_from_the_beginning_to_the_end() {
    let repo = Repo::new();
    let list = List(&repo);
    let second = with(simple("B-1", 2, "b1"), json!({ "dependencies": ["A-1"], "description": "Write\u{1b}[2J it." }));
    repo.graph("x", &[held("A-1", 1, "a1"), simple("A-2", 1, "a2"), second]);
    let run = repo.run_until_up(&["A-1"]);
    let first = list.wait_status("A-1", "in_progress");
    list.wait_status("A-2", "completed");
    let worker = repo.task("A-1")["worker"].as_u64().unwrap();
    assert_eq!(first["id"], "1");
    assert_eq!(first["subject"], "[L1] Make a1");
    assert_eq!(first["activeForm"], "Executing Make a1");
    assert_eq!(first["owner"], format!("worker-{worker}"));
    assert_eq!((&first["blocks"], &first["blockedBy"]), (&json!(["3"]), &json!([])));
    assert_eq!(first["metadata"]["status"], "in_progress");
    assert_eq!((&first["metadata"]["level"], &first["metadata"]["attempt"]), (&json!(1), &json!(1)));
    let second = list.of("B-1");
    assert_eq!((&second["status"], &second["blockedBy"]), (&json!("pending"), &json!(["1"])));
    assert_eq!(second["owner"], Value::Null);
    let description = second["description"].as_str().unwrap();
    for text in
        ["Write it.", "Creates: b1", "Needs: A-1", "Verification: test -e 'b1'", "Ownership: the task may change"]
    {
        assert!(description.contains(text), "{text:?} is not in {description}");
    }
    assert_eq!(mismatches(&repo), json!([]));
    repo.let_go("all");
    run.wait().code(0);
    let all = list.all();
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(all.values().all(|entry| entry["status"] == "completed"), "{all:#?}");
    assert_eq!(list.of("B-1")["metadata"]["commit"], repo.task("B-1")["commit"]);
    assert_eq!(list.left_behind(), [""; 0]);
    assert_eq!(mismatches(&repo), json!([]));
}

#[test]
fn what_the_client_has_no_word_for_is_said_in_the_text() {
    let repo = Repo::new();
    let list = List(&repo);
    let stuck = doing("A-1", 1, "a1", "echo 'the API\nis gone'; exit 3");
    let person = with(simple("A-3", 1, "a3"), json!({ "foreground": true }));
    let continued = "[ -e a2 ] || { echo half > a2; echo the rest of a2; exit 2; }; ";
    let continued = doing("A-2", 1, "a2", &format!("{continued}{}", wait("A-2")));
    repo.graph("x", &[stuck, continued, person, simple("A-4", 1, "a4")]);
    let run = repo.run_until_up(&["A-2"]);
    let says = |entry: &Value, text: &str| entry["description"].as_str().unwrap().starts_with(text);
    let entry = list.wait("A-2", "goes on", |entry| says(entry, "CHECKPOINT: the rest of a2\n"));
    list.wait_status("A-2", "in_progress");
    assert_eq!(entry["subject"], "[L1] Make a2");
    repo.let_go("all");
    run.wait().code(3);
    let entry = list.of("A-1");
    assert_eq!((&entry["status"], &entry["metadata"]["status"]), (&json!("pending"), &json!("blocked")));
    assert_eq!(entry["subject"], "[L1] Make a1 (blocked: is gone)");
    assert!(says(&entry, "BLOCKED: is gone\n\nthe API\nis gone\n"), "{entry:#}");
    assert_eq!(list.of("A-3")["subject"], "[L1] Make a3 (waits for a person)");
    assert_eq!(list.of("A-2")["status"], "completed");
    assert!(!list.of("A-2")["description"].as_str().unwrap().contains("CHECKPOINT"));

    // Commands of people who drive nothing are seen there as well.
    repo.run(&["retry", "A-1"]).code(0);
    assert_eq!(list.of("A-1")["subject"], "[L1] Make a1");
    repo.run(&["skip", "A-1", "--reason", "not now"]).code(0);
    let entry = list.of("A-1");
    assert_eq!((&entry["status"], &entry["subject"]), (&json!("completed"), &json!("[L1] Make a1 (skipped: not now)")));
    assert_eq!(mismatches(&repo), json!([]));
}

#[test]
fn what_others_change_is_put_right_and_their_own_tasks_stay() {
    let repo = Repo::new();
    let list = List(&repo);
    repo.config("workers: { count: 1 }\n");
    repo.graph("x", &[doing("A-1", 1, "a1", "echo > a1"), held("A-2", 1, "a2")]);
    let run = repo.run_until_up(&["A-2"]);
    list.wait_status("A-1", "completed");
    list.wait_status("A-2", "in_progress");
    let theirs = json!({ "id": "3", "subject": "Buy milk", "description": "", "status": "pending", "blocks": [], "blockedBy": ["2"] });
    fs::write(list.dir().join("3.json"), theirs.to_string()).unwrap();
    list.change("A-2", json!({ "status": "completed", "blocks": ["3", "77"], "subject": "done?" }));
    list.wait("A-2", "is put right", |entry| entry["status"] == "in_progress" && entry["blocks"] == json!(["3"]));
    // Of finished work nothing is begun again.
    let metadata = with(list.of("A-1")["metadata"].clone(), json!({ "note": "mine" }));
    list.change("A-1", json!({ "status": "pending", "owner": null, "metadata": metadata }));
    let entry = list.wait_status("A-1", "completed");
    assert_eq!(entry["metadata"]["note"], "mine");
    fs::remove_file(list.dir().join("1.json")).unwrap();
    let entry = list.wait_status("A-1", "completed");
    assert_eq!(entry["id"], "4");
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(repo.calls(), ["A-1", "A-2"]);
    assert_eq!(list.all()[&3], theirs);
    repo.run(&["cleanup"]).code(0).says(".claude/tasks/x");
    assert_eq!(list.all(), [(3, theirs)].into());
    assert_eq!(fs::read_to_string(list.dir().join(".highwatermark")).unwrap(), "4");
}

#[test]
fn a_wiped_list_is_written_again_as_long_as_the_run_is_on() {
    let repo = Repo::new();
    let list = List(&repo);
    repo.graph("x", &[held("A-1", 1, "a1"), simple("B-1", 2, "b1")]);
    let run = repo.run_until_up(&["A-1"]);
    list.wait_status("A-1", "in_progress");
    fs::write(list.dir().join(".highwatermark"), "2").unwrap();
    list.wipe();
    assert_eq!(list.wait_status("A-1", "in_progress")["id"], "3");
    assert_eq!(list.wait("B-1", "is there", |_| true)["blockedBy"], json!([]));
    fs::remove_dir_all(list.dir()).unwrap();
    assert_eq!(list.wait_status("A-1", "in_progress")["id"], "1");
    repo.let_go("all");
    run.wait().code(0);
    assert!(list.all().values().all(|entry| entry["status"] == "completed"));
    list.wipe();
    repo.run(&["run"]).code(0).says("is completed already");
    assert_eq!(mismatches(&repo), json!([]));
    assert!(list.all().is_empty());
}

#[test]
fn the_locks_of_the_client_are_honoured() {
    let repo = Repo::new();
    let list = List(&repo);
    repo.graph("x", &[held("A-1", 1, "a1"), held("A-2", 2, "a2")]);
    let creating = list.lock(".lock.lock", "now");
    let run = repo.run_until_up(&["A-1"]);
    assert!(list.all().is_empty(), "somebody else makes tasks now");
    fs::remove_dir(&creating).unwrap();
    list.wait_status("A-1", "in_progress");
    let changing = list.lock("1.json.lock", "now");
    repo.let_go("A-1");
    repo.wait_until_up(&["A-2"]);
    list.wait_status("A-2", "in_progress");
    assert_eq!(list.of("A-1")["status"], "in_progress", "somebody else changes it now");
    fs::remove_dir(&changing).unwrap();
    list.wait_status("A-1", "completed");
    // Of a client that died.
    list.lock(".lock.lock", "21 seconds ago");
    list.lock("2.json.lock", "21 seconds ago");
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(list.of("A-2")["status"], "completed");
}

#[test]
fn a_list_that_cannot_be_written_is_one_warning() {
    let repo = Repo::new();
    fs::write(repo.home().join(".claude"), "").unwrap();
    repo.graph("x", &[simple("A-1", 1, "a1"), simple("B-1", 2, "b1")]);
    let ran = repo.run(&["run"]).code(0);
    assert_eq!(ran.stderr.matches("warning").count(), 1, "{}", ran.stderr);
    ran.says("task list").says("the run continues without it");
    assert!(repo.status()["task_list"]["trouble"].is_string());
}

#[test]
fn a_link_in_place_of_the_list_leads_nowhere() {
    for link in [".claude/tasks", ".claude/tasks/x"] {
        let repo = Repo::new();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(elsewhere.path().join("x")).unwrap();
        let link = repo.home().join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(elsewhere.path(), link).unwrap();
        repo.graph("x", &[simple("A-1", 1, "a1")]);
        repo.run(&["run"]).code(0).says("is a symbolic link");
        repo.run(&["cleanup"]).code(0);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(elsewhere.path().join("x")).unwrap().count(), 0);
    }
}

#[test]
fn files_that_are_no_tasks_are_left_alone() {
    let repo = Repo::new();
    let list = List(&repo);
    fs::create_dir_all(list.dir()).unwrap();
    let precious = repo.home().join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, list.dir().join("1.json")).unwrap();
    assert!(Command::new("mkfifo").arg(list.dir().join("2.json")).status().unwrap().success());
    fs::create_dir(list.dir().join("3.json")).unwrap();
    fs::write(list.dir().join("99999999999999999999.json"), "[]").unwrap();
    fs::write(list.dir().join(".highwatermark"), "99999999999999999999").unwrap();
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["run"]).code(0).does_not_say("warning");
    assert_eq!((&list.of("A-1")["id"], &list.of("A-1")["status"]), (&json!("4"), &json!("completed")));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn it_can_be_turned_off() {
    let repo = Repo::new();
    repo.config("claude_tasks: { enabled: false }\n");
    repo.graph("x", &[simple("A-1", 1, "a1")]);
    repo.run(&["run"]).code(0);
    assert_eq!(repo.status()["task_list"], Value::Null);
    assert_eq!(fs::read_dir(repo.home()).unwrap().count(), 0);
    let demo = repo.run(&["demo"]).code(0);
    assert_eq!(fs::read_dir(repo.home()).unwrap().count(), 0, "{}", demo.stderr);
}

#[test]
fn status_tells_where_list_and_journal_differ() {
    let repo = Repo::new();
    let list = List(&repo);
    repo.graph("x", &[task("A-1", 1, "a1", "exit 3"), simple("A-2", 1, "a2"), simple("B-1", 2, "b1")]);
    repo.run(&["run"]).code(3);
    assert_eq!(mismatches(&repo), json!([]));
    repo.run(&["status"]).code(0).does_not_say("Task list");
    list.change("A-2", json!({ "status": "pending" }));
    list.change("B-1", json!({ "status": "completed" }));
    let different = json!([
        { "task": "A-2", "ours": "completed", "claude": "pending" },
        { "task": "B-1", "ours": "pending", "claude": "completed" },
    ]);
    assert_eq!(mismatches(&repo), different);
    repo.run(&["status"]).code(0).says("A-2 is pending there, completed here");
    fs::remove_file(list.dir().join("2.json")).unwrap();
    assert_eq!(mismatches(&repo)[0], json!({ "task": "A-2", "ours": "completed", "claude": "missing" }));

    let elsewhere = [("CLAUDE_CODE_TASK_LIST_ID", "other/one")];
    repo.run_with(&["status"], &elsewhere).code(0).says("this session shows the list other-one");
    let status = repo.run_with(&["status", "--json"], &elsewhere).json();
    assert_eq!(status["task_list"], json!({ "id": "x", "shown_instead": "other-one", "trouble": null }));
    let of_its_own = [("CLAUDE_CODE_SESSION_ID", "0f-5d")];
    repo.run_with(&["status"], &of_its_own).code(0).says("this session shows the list 0f-5d");
    repo.run_with(&["status"], &[("CLAUDE_CODE_TASK_LIST_ID", "x"), of_its_own[0]])
        .code(0)
        .does_not_say("this session shows");

    repo.run(&["retry", "A-1"]).code(0);
    assert_eq!(mismatches(&repo), json!([]), "put right with the command");
}

#[test]
fn a_task_that_is_planned_no_longer_goes_and_others_follow() {
    let repo = Repo::new();
    let list = List(&repo);
    let both = |last: Value| [task("A-1", 1, "a1", "exit 3"), last];
    repo.graph("x", &both(with(simple("B-1", 2, "b1"), json!({ "dependencies": ["A-1"] }))));
    repo.run(&["run"]).code(3);
    assert_eq!(list.of("A-1")["blocks"], json!(["2"]));
    repo.graph("x", &both(simple("B-2", 2, "b2")));
    repo.run(&["retry", "A-1"]).code(0);
    repo.run(&["run"]).code(3);
    assert_eq!((list.find("B-1"), &list.of("B-2")["id"]), (None, &json!("3")));
    assert_eq!(list.of("A-1")["blocks"], json!([]));
}

#[test]
fn a_users_work_that_is_completed_in_the_list_is_checked_and_kept() {
    let repo = Repo::new();
    let list = List(&repo);
    repo.graph("x", &[doing("A-1", 1, "a1", "echo cannot; exit 3"), simple("B-1", 2, "b1")]);
    repo.run(&["run"]).code(3);
    list.change("A-1", json!({ "status": "completed" }));
    assert_eq!(mismatches(&repo), json!([{ "task": "A-1", "ours": "blocked", "claude": "completed" }]));
    // It does not hold: the file is not there.
    let ran = repo.run(&["run"]).code(3).says("A-1 was reported as done");
    assert_eq!(ran.stderr.matches("A-1 was reported as done").count(), 1, "{}", ran.stderr);
    let entry = list.of("A-1");
    assert_eq!((&entry["status"], &entry["subject"]), (&json!("pending"), &json!("[L1] Make a1 (blocked: cannot)")));
    assert_eq!(mismatches(&repo), json!([]));
    repo.run(&["run"]).code(3).does_not_say("was reported as done");

    repo.write("a1", "by hand\n");
    list.change("A-1", json!({ "status": "completed" }));
    // Who does not drive the run leaves it for who does.
    repo.run(&["skip", "B-1", "--reason", "not now"]).code(0);
    assert_eq!(list.of("A-1")["status"], "completed");
    repo.run(&["run"]).code(0).says("A-1 was reported as done");
    assert_eq!(repo.tree("main")["a1"], "by hand");
    assert_eq!(repo.calls(), ["A-1"], "no agent was called for it");
    assert_eq!(list.of("A-1")["status"], "completed");
    assert_eq!(mismatches(&repo), json!([]));
}

#[test]
fn a_claim_is_taken_while_the_run_is_on_if_its_turn_has_come() {
    let repo = Repo::new();
    let list = List(&repo);
    let person = with(simple("A-2", 1, "a2"), json!({ "foreground": true }));
    repo.graph("x", &[held("A-1", 1, "a1"), person, doing("B-1", 2, "b1", "echo > b1")]);
    let run = repo.run_until_up(&["A-1"]);
    list.wait_status("A-1", "in_progress");
    repo.write("a2", "by hand\n");
    repo.write("b1", "by hand\n");
    for task in ["A-1", "A-2", "B-1"] {
        list.change(task, json!({ "status": "completed" }));
    }
    repo.wait_until("A-2 is taken", || repo.task_status("A-2") == "completed");
    list.wait_status("A-1", "in_progress");
    list.wait_status("B-1", "pending");
    fs::remove_file(repo.join("b1")).unwrap();
    repo.let_go("all");
    run.wait().code(0);
    assert_eq!(repo.tree("main")["a2"], "by hand");
    assert_eq!(repo.calls(), ["A-1", "B-1"]);
}

#[test]
fn a_feature_with_thousands_of_tasks_has_no_list() {
    let repo = Repo::new();
    let blocked = task("FIRST", 1, "first", "exit 3");
    let later = (0..1_000).map(|n| {
        let id = format!("T{n}");
        with(simple(&id, 2, &format!("d/{id}")), json!({ "dependencies": ["FIRST"] }))
    });
    let all: Vec<Value> = std::iter::once(blocked).chain(later).collect();
    repo.graph("x", &all);
    repo.run(&["run"]).code(3);
    assert_eq!(List(&repo).all(), BTreeMap::new());
    let status = repo.run(&["status", "--json"]).code(0).json();
    assert_eq!(status["mismatches"], json!([]));
    // One task fewer is listed as always.
    repo.graph("y", &all[..1_000]);
    repo.run(&["run", "y"]).code(3);
    assert!(fs::read_dir(repo.home().join(".claude/tasks/y")).unwrap().count() >= 1_000);
}
