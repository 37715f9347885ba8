use std::fs;

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn home(&self) -> Home {
        Home::of_project(self.0.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(".claude").join(name)
    }

    fn done(plan: Result<Plan>) -> Result<Vec<Placed>> {
        let plan = plan?;
        plan.carry_out()?;
        Ok(plan.files)
    }

    fn install(&self, split: bool) -> Result<Vec<Placed>> {
        Place::done(plan(&self.home(), split, &Selection::usual()))
    }

    fn install_only(&self, group: Group) -> Vec<Placed> {
        Place::done(plan(&self.home(), true, &Selection::new([group]))).unwrap()
    }

    fn remove(&self, selection: &Selection) -> Vec<Placed> {
        Place::done(plan_removal(&self.home(), selection)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Returns everything in the project, directories included.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let walk = ignore::WalkBuilder::new(self.0.path()).standard_filters(false).build().flatten();
        walk.map(|entry| (entry.path().to_owned(), fs::read(entry.path()).unwrap_or_default())).collect()
    }
}

fn with(files: &[Placed], action: Action) -> Vec<&str> {
    files.iter().filter(|file| file.action == action).map(|file| file.path.as_str()).collect()
}

const INIT: &str = "commands/z/init.md";

#[test]
fn a_second_installation_changes_nothing() {
    let place = Place::new();
    let first = place.install(true).unwrap();
    assert_eq!(with(&first, Action::Created).len(), 2 * 15 + 3 + 5 + 2);
    assert_eq!(first.len(), 40);
    let again = plan(&place.home(), true, &Selection::usual()).unwrap();
    assert!(again.changes_nothing() && with(&again.files, Action::Unchanged).len() == 40, "{again:?}");
}

#[test]
fn only_the_selected_groups_are_written_and_the_others_stay() {
    let place = Place::new();
    let agents = place.install_only(Group::Agents);
    assert_eq!(agents.iter().filter(|file| file.group == Group::Agents).count(), 5);
    assert!(!place.path("settings.json").exists() && !place.path("commands").exists());
    place.install_only(Group::Hooks);
    assert!(place.path("agents/worker.md").exists() && place.path("settings.json").exists());
    assert!(!place.read("settings.json").contains("statusLine"));
    let files = place.install_only(Group::StatusLine);
    let settings: Vec<&Placed> = files.iter().filter(|file| file.is(".claude/settings.json")).collect();
    assert_eq!((settings.len(), settings[0].group, settings[0].action), (1, Group::StatusLine, Action::Merged));
    assert!(place.read("settings.json").contains("mahabharatha status --line"));
    place.remove(&Selection::new([Group::Agents]));
    assert!(!place.path("agents").exists() && place.path("settings.json").exists());
    place.remove(&Selection::all());
    assert!(!place.path("").exists());
}

#[test]
fn files_changed_by_the_user_are_kept_beside_the_new_version() {
    let place = Place::new();
    place.write("agents/worker.md", "mine\n");
    place.install(true).unwrap();
    place.write(INIT, "mine too\n");
    let again = place.install(true).unwrap();
    assert_eq!(with(&again, Action::Kept), [".claude/commands/z/init.md", ".claude/agents/worker.md"]);
    assert_eq!(with(&again, Action::Updated), [".claude/mahabharatha/installed.json"]);
    assert_eq!((place.read(INIT), place.read("agents/worker.md")), ("mine too\n".into(), "mine\n".into()));
    assert_eq!(place.read("commands/z/init.md.new"), place.read("commands/mahabharatha/init.md"));
    assert!(place.read("agents/worker.md.new").contains("name: worker"));
    assert!(plan(&place.home(), true, &Selection::usual()).unwrap().changes_nothing());
    // The new version is removed once the user has adopted it.
    fs::rename(place.path("commands/z/init.md.new"), place.path(INIT)).unwrap();
    place.write("commands/z/init.md.new", &place.read(INIT));
    assert_eq!(with(&place.install(true).unwrap(), Action::Removed), [".claude/commands/z/init.md.new"]);
}

#[test]
fn files_of_an_older_version_are_replaced() {
    let place = Place::new();
    place.install(true).unwrap();
    place.write(INIT, "of an older version\n");
    let mut manifest: Manifest = serde_json::from_str(&place.read("mahabharatha/installed.json")).unwrap();
    manifest.files.insert(INIT.into(), fingerprint(b"of an older version\n"));
    place.write("mahabharatha/installed.json", &serde_json::to_string(&manifest).unwrap());
    let again = place.install(true).unwrap();
    assert_eq!(with(&again, Action::Updated), [".claude/commands/z/init.md", ".claude/mahabharatha/installed.json"]);
    assert_eq!(place.read(INIT), place.read("commands/mahabharatha/init.md"));
}

#[test]
fn joined_details_are_removed_unless_the_user_changed_them() {
    let place = Place::new();
    place.install(true).unwrap();
    place.write("mahabharatha/plan.details.md", "mine\n");
    let joined = place.install(false).unwrap();
    assert_eq!(with(&joined, Action::Removed).len(), 2, "{joined:?}");
    assert!(!place.path("mahabharatha/kurukshetra.details.md").exists());
    assert_eq!(place.read("mahabharatha/plan.details.md"), "mine\n");
    assert!(place.read("commands/z/plan.md").contains("## The form of requirements"));
}

#[test]
fn a_manifest_that_names_other_files_removes_nothing() {
    let place = Place::new();
    fs::write(place.0.path().join("precious"), "x").unwrap();
    place.write("settings.local.json", "x");
    let files = ["../precious", "agents/../../precious", "settings.local.json"];
    let files = files.map(|name| (PathBuf::from(name), fingerprint(b"x"))).into();
    let manifest = serde_json::to_string(&Manifest { files, ..Manifest::default() }).unwrap();
    place.write("mahabharatha/installed.json", &manifest);
    assert_eq!(with(&place.install(true).unwrap(), Action::Removed), [""; 0]);
    place.write("mahabharatha/installed.json", &manifest);
    place.remove(&Selection::all());
    assert!(place.0.path().join("precious").exists() && place.path("settings.local.json").exists());
}

#[test]
fn an_error_leaves_everything_unchanged() {
    let place = Place::new();
    place.write("settings.json", "{ no");
    let error = place.install(true).unwrap_err();
    assert!(error.message().contains("settings.json:1:3"), "{error}");
    assert!(!place.path("commands").exists());
    place.write("settings.json", "{}");
    place.write("agents", "a file in the way");
    let before = place.everything();
    place.install(true).unwrap_err();
    assert_eq!(place.everything(), before, "what was written before is taken back");
}

#[test]
fn no_symbolic_link_leads_a_write_out_of_the_project() {
    let (place, outside) = (Place::new(), tempfile::tempdir().unwrap());
    let settings = outside.path().join("settings.json");
    fs::write(&settings, "{}").unwrap();
    fs::create_dir(place.path("")).unwrap();
    for (link, target) in [("settings.json", settings.as_path()), ("commands", outside.path())] {
        std::os::unix::fs::symlink(target, place.path(link)).unwrap();
        let error = place.install(true).unwrap_err();
        assert!(error.message().contains("leads out of the project"), "{error}");
        fs::remove_file(place.path(link)).unwrap();
    }
    assert_eq!((fs::read_dir(outside.path()).unwrap().count(), fs::read(settings).unwrap()), (1, b"{}".to_vec()));
    assert!(!place.path("agents").exists());
}

#[test]
fn settings_that_are_a_symbolic_link_stay_one() {
    let place = Place::new();
    let target = place.0.path().join("collection.json");
    fs::write(&target, "{\"model\": \"opus\"}").unwrap();
    fs::create_dir(place.path("")).unwrap();
    std::os::unix::fs::symlink(&target, place.path("settings.json")).unwrap();
    place.install(true).unwrap();
    assert!(place.path("settings.json").is_symlink());
    let text = fs::read_to_string(&target).unwrap();
    assert!(text.contains("opus") && text.contains("hook pre-tool-use"), "{text}");
    place.remove(&Selection::all());
    assert!(place.path("settings.json").is_symlink());
    assert_eq!(fs::read_to_string(target).unwrap(), "{\"model\": \"opus\"}");
}

#[test]
fn removal_leaves_no_trace_and_keeps_what_the_user_changed() {
    let place = Place::new();
    place.write("settings.json", "{ \"model\":\"opus\" , \"list\": [1,2] }");
    place.write("agents/mine.md", "mine\n");
    let before = place.everything();
    place.install(true).unwrap();
    let removed = place.remove(&Selection::all());
    assert_eq!(with(&removed, Action::Removed).len(), 39);
    assert_eq!(place.everything(), before);

    place.install(true).unwrap();
    place.write(INIT, "changed\n");
    place.install(true).unwrap();
    let removed = place.remove(&Selection::all());
    assert_eq!(with(&removed, Action::Kept), [".claude/commands/z/init.md"]);
    let mut expected = before;
    let kept = place.path(INIT);
    expected.extend(kept.ancestors().skip(1).take(2).map(|dir| (dir.to_owned(), Vec::new())));
    expected.insert(kept, b"changed\n".to_vec());
    assert_eq!(place.everything(), expected);
}

#[test]
fn plugins_share_a_directory_with_other_files() {
    let place = Place::new();
    let dir = place.0.path();
    fs::write(dir.join("README.md"), "mine").unwrap();
    fs::create_dir_all(dir.join("z")).unwrap();
    fs::write(dir.join("z/README.md"), "mine").unwrap();
    let before = place.everything();
    let files = Place::done(plan_plugins(dir)).unwrap();
    assert_eq!(with(&files, Action::Kept), ["z/README.md"]);
    assert_eq!(fs::read_to_string(dir.join("z/README.md")).unwrap(), "mine");
    assert!(dir.join("z/README.md.new").exists() && dir.join("mahabharatha/hooks/hooks.json").exists());
    assert!(!dir.join("z/hooks").exists() && !dir.join("z/agents").exists());
    assert!(plan_plugins(dir).unwrap().changes_nothing());
    Place::done(plan_plugin_removal(dir)).unwrap();
    assert_eq!(place.everything(), before);
}
