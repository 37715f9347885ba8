use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::entry::Key;
use super::*;

struct Bench {
    dir: tempfile::TempDir,
    list: TaskList,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let list = TaskList::at(dir.path().join("home"), Path::new("/project"), &Feature::new("x").unwrap());
    Bench { dir, list }
}

fn entry(id: &str, our_status: &'static str) -> Entry {
    let metadata = json!({ "status": our_status, "attempt": 1 });
    Entry {
        key: Key::Task(TaskId::new(id).unwrap()),
        status: Status::of(our_status),
        our_status,
        metadata: metadata.as_object().cloned().unwrap(),
        attempt: 1,
        claimable: true,
        ..Entry::of_phase(Phase::Plan, &Feature::new("x").unwrap(), Status::Pending)
    }
}

impl Bench {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("home/tasks/x").join(name)
    }

    fn read(&self, id: u64) -> Map<String, Value> {
        serde_json::from_slice(&fs::read(self.file(&format!("{id}.json"))).unwrap()).unwrap()
    }

    fn put(&self, entries: &[Entry]) -> (bool, Vec<String>) {
        self.put_unless(entries, &[])
    }

    fn put_unless(&self, entries: &[Entry], refused: &[&str]) -> (bool, Vec<String>) {
        let refused = refused.iter().map(|task| TaskId::new(*task).unwrap()).collect();
        let done = self.list.owner.sync_all(&self.list.create_dir().unwrap(), entries, &refused).unwrap();
        (done.held, done.claims.iter().map(ToString::to_string).collect())
    }

    /// Changes an entry's status like a user in a session.
    fn set(&self, id: u64, status: &str) {
        let mut task = self.read(id);
        task.insert("status".to_string(), json!(status));
        fs::write(self.file(&format!("{id}.json")), Value::Object(task).to_string()).unwrap();
    }

    fn age(&self, name: &str, seconds: u64) {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(self.file(name)).unwrap().set_modified(then).unwrap();
    }
}

const NOTHING: (bool, Vec<String>) = (false, Vec::new());

#[test]
fn phases_are_shown_and_completed_by_a_run() {
    let bench = bench();
    bench.list.put_phase(Phase::Plan, Status::InProgress).unwrap();
    bench.list.put_phase(Phase::Design, Status::Pending).unwrap();
    let (plan, design) = (bench.read(1), bench.read(2));
    assert_eq!((&plan["subject"], &plan["status"]), (&json!("[Plan] Capture requirements: x"), &json!("in_progress")));
    assert_eq!(design["subject"], "[Design] Architecture for x");
    bench.list.put_phase(Phase::Plan, Status::Completed).unwrap();
    assert_eq!((&bench.read(1)["status"], &bench.read(2)["status"]), (&json!("completed"), &json!("pending")));
    let over = Entry {
        create_if_missing: false,
        ..Entry::of_phase(Phase::Design, &Feature::new("x").unwrap(), Status::Completed)
    };
    assert_eq!(bench.put(&[over, entry("A-1", "pending")]), NOTHING);
    assert_eq!((&bench.read(2)["status"], &bench.read(3)["status"]), (&json!("completed"), &json!("pending")));
    bench.list.remove().unwrap();
    assert!(!bench.list.has_entries().unwrap());
    assert_eq!(fs::read(bench.file(".highwatermark")).unwrap(), b"3");
}

#[test]
fn a_task_without_a_running_attempt_can_be_claimed() {
    for open in ["pending", "waiting", "blocked"] {
        let (bench, task) = (bench(), entry("A-1", open));
        assert_eq!(bench.put(std::slice::from_ref(&task)), NOTHING);
        bench.set(1, "completed");
        assert_eq!(bench.put(std::slice::from_ref(&task)), (false, vec!["A-1".to_string()]));
        assert_eq!(bench.read(1)["status"], "completed", "left for the process that may take it");
        assert_eq!(bench.put_unless(std::slice::from_ref(&task), &["A-1"]), NOTHING);
        assert_eq!(bench.read(1)["status"], "pending");
        bench.set(1, "in_progress");
        assert_eq!(bench.put(std::slice::from_ref(&task)), NOTHING);
        assert_eq!(bench.read(1)["status"], "pending");
    }
}

#[test]
fn a_claim_about_another_state_does_not_count() {
    let cases = [
        ("an attempt was under way", entry("A-1", "in_progress"), entry("A-1", "pending")),
        ("there was an attempt since", entry("A-1", "pending"), Entry { attempt: 2, ..entry("A-1", "blocked") }),
        ("its turn has not come", entry("A-1", "pending"), Entry { claimable: false, ..entry("A-1", "pending") }),
        ("it was done, and is to be done again", entry("A-1", "completed"), entry("A-1", "pending")),
    ];
    for (what, before, after) in cases {
        let bench = bench();
        assert_eq!(bench.put(&[before]), NOTHING);
        bench.set(1, "completed");
        assert_eq!(bench.put(&[after]), NOTHING, "{what}");
        assert_eq!(bench.read(1)["status"], "pending", "{what}");
    }
}

#[test]
fn a_file_that_is_being_written_is_waited_for() {
    let (bench, tasks) = (bench(), [entry("A-1", "pending"), entry("A-2", "pending")]);
    assert_eq!(bench.put(&tasks), NOTHING);
    let whole = fs::read(bench.file("1.json")).unwrap();
    for half in [&b""[..], &whole[..whole.len() / 2]] {
        fs::write(bench.file("1.json"), half).unwrap();
        assert_eq!(bench.put(&tasks), (true, Vec::new()));
        assert_eq!(fs::read(bench.file("1.json")).unwrap(), half);
        assert!(!bench.file("3.json").exists());
    }
    fs::write(bench.file("1.json"), &whole).unwrap();
    assert_eq!(bench.put(&tasks), NOTHING);
    // The writer has died.
    fs::write(bench.file("1.json"), &whole[..9]).unwrap();
    bench.age("1.json", 3);
    assert_eq!(bench.put(&tasks), NOTHING);
    assert_eq!(bench.read(3)["metadata"]["task"], "A-1");
    assert_eq!(fs::read(bench.file("1.json")).unwrap(), &whole[..9]);
    // A time in the future does not count as being written.
    fs::write(bench.file("2.json"), &whole[..9]).unwrap();
    let tomorrow = SystemTime::now() + Duration::from_secs(24 * 3_600);
    fs::File::open(bench.file("2.json")).unwrap().set_modified(tomorrow).unwrap();
    assert_eq!(bench.put(&tasks), NOTHING);
    assert_eq!(bench.read(4)["metadata"]["task"], "A-2");
}

#[test]
fn a_file_in_place_of_a_lock_is_an_error() {
    let bench = bench();
    fs::create_dir_all(bench.file("")).unwrap();
    fs::write(bench.file(".lock.lock"), "").unwrap();
    let entries = [entry("A-1", "pending")];
    let error = bench.list.owner.sync_all(&bench.list.create_dir().unwrap(), &entries, &BTreeSet::new()).unwrap_err();
    assert!(error.to_string().contains(".lock.lock"), "{error}");
}

#[test]
fn a_lock_is_waited_for_unless_its_holder_died() {
    let (bench, task) = (bench(), entry("A-1", "pending"));
    fs::create_dir_all(bench.file(".lock.lock")).unwrap();
    assert_eq!(bench.put(std::slice::from_ref(&task)), (true, Vec::new()));
    bench.age(".lock.lock", 15);
    assert_eq!(bench.put(std::slice::from_ref(&task)), (true, Vec::new()));
    assert!(!bench.file("1.json").exists());
    bench.age(".lock.lock", 21);
    assert_eq!(bench.put(&[task]), NOTHING);
    assert!(!bench.file(".lock.lock").exists());
    let task = entry("A-1", "in_progress");
    fs::create_dir(bench.file("1.json.lock")).unwrap();
    assert_eq!(bench.put(std::slice::from_ref(&task)), (true, Vec::new()));
    assert_eq!(bench.read(1)["status"], "pending");
    bench.age("1.json.lock", 21);
    assert_eq!(bench.put(&[task]), NOTHING);
    assert_eq!(bench.read(1)["status"], "in_progress");
    assert!(!bench.file("1.json.lock").exists());
}

#[test]
fn correct_entries_are_not_written() {
    let (bench, tasks) = (bench(), [entry("A-1", "pending"), entry("A-2", "completed")]);
    assert_eq!(bench.put(&tasks), NOTHING);
    for name in ["1.json", "2.json"] {
        bench.age(name, 100);
    }
    let changed = |name: &str| fs::metadata(bench.file(name)).unwrap().modified().unwrap();
    let before = [changed("1.json"), changed("2.json")];
    assert_eq!(bench.put(&tasks), NOTHING);
    assert_eq!([changed("1.json"), changed("2.json")], before);
}

#[test]
fn projects_with_the_same_feature_name_share_a_list_but_no_entries() {
    let bench = bench();
    let other = TaskList::at(bench.dir.path().join("home"), Path::new("/other"), &Feature::new("x").unwrap());
    assert_eq!(bench.put(&[entry("A-1", "pending")]), NOTHING);
    let entries = [entry("A-1", "completed")];
    assert!(!other.owner.sync_all(&other.create_dir().unwrap(), &entries, &BTreeSet::new()).unwrap().held);
    assert_eq!((&bench.read(1)["status"], &bench.read(2)["status"]), (&json!("pending"), &json!("completed")));
    other.remove().unwrap();
    assert_eq!(bench.read(1)["metadata"]["project"], "/project");
    assert!(!bench.file("2.json").exists());
}

#[test]
fn stale_temporary_files_are_removed() {
    let bench = bench();
    let dir = bench.list.create_dir().unwrap();
    for name in [".mahabharatha-1-1", ".mahabharatha-2-2"] {
        fs::write(bench.file(name), "").unwrap();
    }
    bench.age(".mahabharatha-1-1", 21);
    dir.sweep();
    assert!(!bench.file(".mahabharatha-1-1").exists() && bench.file(".mahabharatha-2-2").exists());
}

fn anything() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("A-1"),
        Just("x"),
        Just("/project"),
        Just("plan"),
        Just("pending"),
        Just("completed"),
        Just("1")
    ];
    let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), word.prop_map(Value::from)];
    let name = prop_oneof![
        Just("id"),
        Just("status"),
        Just("blocks"),
        Just("blockedBy"),
        Just("metadata"),
        Just("project"),
        Just("feature"),
        Just("task"),
        Just("phase"),
        Just("attempt"),
        Just("owner"),
    ];
    leaf.prop_recursive(3, 24, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(String::from), inner, 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_list_is_correct_whatever_others_write(files in prop::collection::vec(anything(), 1..4), mark in "[0-9a-z]{0,30}") {
        let (bench, task) = (bench(), entry("A-1", "in_progress"));
        let dir = bench.list.create_dir().unwrap();
        fs::write(bench.file(".highwatermark"), mark).unwrap();
        for (id, file) in files.iter().enumerate() {
            fs::write(bench.file(&format!("{id}.json")), file.to_string()).unwrap();
            bench.age(&format!("{id}.json"), 3);
        }
        prop_assert_eq!(bench.put(std::slice::from_ref(&task)), NOTHING);
        let found = bench.list.owner.find(&dir).unwrap();
        prop_assert_eq!(found.task(&task.key).and_then(status_of), Some("in_progress"));
        prop_assert_eq!(bench.put(&[task]), NOTHING, "settles");
    }
}
