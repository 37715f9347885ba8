//! Puts commands, agents and hooks in place, and never writes over what a person changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::commands::{self, DETAILS, Home};
use super::settings;
use crate::error::{Result, io};
use crate::store::atomic::{sweep_of, write_atomic};

/// As commands and hooks call it.
pub const PROGRAM: &str = "mahabharatha";

/// What was done, by paths as a person can open them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Installed {
    pub written: Vec<PathBuf>,
    pub removed: Vec<PathBuf>,
    pub kept: Vec<Kept>,
    /// How many files were as they should be.
    pub unchanged: usize,
}

/// A file that a person changed stays; ours lies beside it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    pub path: PathBuf,
    pub new: PathBuf,
}

/// What we wrote, so that it can be told from what a person changed since.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<PathBuf, String>,
}

/// All of it, or nothing where something cannot be written. Done twice it changes nothing.
pub fn install(home: &Home, split: bool) -> Result<Installed> {
    let (dir, mut changes, mut installed) = (home.dir(), Changes::new(home), Installed::default());
    let manifest_path = dir.join(DETAILS).join("installed.json");
    let known = read(&manifest_path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let known: Manifest = known.unwrap_or_default();
    let mut manifest = Manifest::default();
    for (name, text) in commands::files(home, split) {
        let path = dir.join(&name);
        let ours = known.files.get(&name);
        match read(&path)? {
            Some(found) if found == text.as_bytes() => installed.unchanged += 1,
            Some(found) if ours.is_none_or(|ours| *ours != fingerprint(&found)) => {
                let new = beside(&path);
                if read(&new)?.as_deref() != Some(text.as_bytes()) {
                    changes.write(new.clone(), text)?;
                }
                installed.kept.push(Kept { path, new });
                manifest.files.extend(ours.map(|ours| (name, ours.clone())));
                continue;
            }
            _ => {
                changes.write(path.clone(), text.clone())?;
                installed.written.push(path);
            }
        }
        manifest.files.insert(name, fingerprint(text.as_bytes()));
    }
    for (name, ours) in known.files.iter().filter(|(name, _)| !manifest.files.contains_key(*name)) {
        let path = dir.join(name);
        if is_ours_below(name) && read(&path)?.is_some_and(|found| fingerprint(&found) == *ours) {
            changes.remove(path.clone())?;
            installed.removed.push(path);
        }
    }
    let settings_path = dir.join("settings.json");
    match settings::with_hooks(&settings_path)? {
        // Where it is a link, such as to a collection of settings, its target is meant.
        Some(text) => {
            changes.write(settings_path.canonicalize().unwrap_or_else(|_| settings_path.clone()), text)?;
            installed.written.push(settings_path);
        }
        None => installed.unchanged += 1,
    }
    if manifest == known {
        installed.unchanged += 1;
    } else {
        let text = serde_json::to_string_pretty(&manifest).expect("names and fingerprints are plain data");
        changes.write(manifest_path.clone(), text + "\n")?;
        installed.written.push(manifest_path);
    }
    changes.carry_out()?;
    Ok(installed)
}

/// What a person should know who is about to use what was installed; `on_path` is where the program was found.
pub fn warning(on_path: Option<&Path>) -> Option<String> {
    on_path.is_none().then(|| {
        format!(
            "`{PROGRAM}` is not on the PATH: the hooks make Claude Code refuse every write and every shell command until it is"
        )
    })
}

/// The manifest can be changed by anybody: it names nothing outside of our folders.
fn is_ours_below(name: &Path) -> bool {
    let plain = name.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    plain
        && [commands::FOLDERS[0], commands::FOLDERS[1], commands::AGENTS, DETAILS]
            .iter()
            .any(|dir| name.starts_with(dir))
}

/// `init.md.new`, which the client does not take for a command.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

/// Length and 64-bit FNV-1a, the same in every version: enough to notice a change, no defence against a forger.
pub fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{hash:016x}", bytes.len())
}

/// Writes that are undone where a later one fails.
struct Changes<'a> {
    home: &'a Home,
    planned: Vec<Change>,
}

struct Change {
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<String>,
}

impl<'a> Changes<'a> {
    fn new(home: &'a Home) -> Changes<'a> {
        Changes { home, planned: Vec::new() }
    }

    fn write(&mut self, path: PathBuf, text: String) -> Result<()> {
        self.plan(path, Some(text))
    }

    fn remove(&mut self, path: PathBuf) -> Result<()> {
        self.plan(path, None)
    }

    fn plan(&mut self, path: PathBuf, new: Option<String>) -> Result<()> {
        self.home.check_place(&path)?;
        self.planned.push(Change { old: read(&path)?, new, path });
        Ok(())
    }

    fn carry_out(self) -> Result<()> {
        for (at, change) in self.planned.iter().enumerate() {
            if let Err(error) = set(&change.path, change.new.as_ref().map(String::as_bytes)) {
                for done in self.planned[..at].iter().rev() {
                    // What cannot be put back is still whole, and a second try goes on from there.
                    let _ = set(&done.path, done.old.as_deref());
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

fn set(path: &Path, content: Option<&[u8]>) -> Result<()> {
    match content {
        Some(bytes) => {
            // One that was killed may have left its own behind.
            sweep_of(path);
            write_atomic(path, bytes)
        }
        None => fs::remove_file(path).map_err(io("remove", path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Place {
            Place(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(".claude").join(name)
        }

        fn install(&self, split: bool) -> Result<Installed> {
            install(&Home::of_project(self.0.path()), split)
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap()
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }
    }

    const INIT: &str = "commands/z/init.md";

    #[test]
    fn a_second_time_changes_nothing() {
        let place = Place::new();
        let first = place.install(true).unwrap();
        assert_eq!((first.written.len(), first.kept.len(), first.unchanged), (2 * 10 + 3 + 5 + 2, 0, 0));
        let times = || fs::metadata(place.path("settings.json")).unwrap().modified().unwrap();
        let before = times();
        assert_eq!(place.install(true).unwrap(), Installed { unchanged: 30, ..Installed::default() });
        assert_eq!(times(), before);
    }

    #[test]
    fn what_a_person_changed_is_kept_and_the_new_lies_beside_it() {
        let place = Place::new();
        place.write("agents/worker.md", "mine\n");
        place.install(true).unwrap();
        place.write(INIT, "mine too\n");
        let again = place.install(true).unwrap();
        let kept: Vec<_> = again.kept.iter().map(|kept| kept.path.clone()).collect();
        assert_eq!(kept, [place.path(INIT), place.path("agents/worker.md")]);
        assert!(again.written.is_empty(), "{again:?}");
        assert_eq!((place.read(INIT), place.read("agents/worker.md")), ("mine too\n".into(), "mine\n".into()));
        assert_eq!(place.read("commands/z/init.md.new"), place.read("commands/mahabharatha/init.md"));
        assert!(place.read("agents/worker.md.new").contains("name: worker"));
    }

    #[test]
    fn what_an_older_version_wrote_is_replaced() {
        let place = Place::new();
        place.install(true).unwrap();
        place.write(INIT, "of an older version\n");
        let manifest = place.read("mahabharatha/installed.json");
        let mut manifest: Manifest = serde_json::from_str(&manifest).unwrap();
        manifest.files.insert(INIT.into(), fingerprint(b"of an older version\n"));
        place.write("mahabharatha/installed.json", &serde_json::to_string(&manifest).unwrap());
        let manifest = place.path("mahabharatha/installed.json");
        assert_eq!(place.install(true).unwrap().written, [place.path(INIT), manifest]);
        assert_eq!(place.read(INIT), place.read("commands/mahabharatha/init.md"));
    }

    #[test]
    fn details_go_when_they_are_joined_unless_a_person_changed_them() {
        let place = Place::new();
        place.install(true).unwrap();
        place.write("mahabharatha/plan.details.md", "mine\n");
        let joined = place.install(false).unwrap();
        assert_eq!(joined.removed.len(), 2, "{joined:?}");
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
        place.write("mahabharatha/installed.json", &serde_json::to_string(&Manifest { files }).unwrap());
        assert!(place.install(true).unwrap().removed.is_empty());
        assert!(place.0.path().join("precious").exists() && place.path("settings.local.json").exists());
    }

    #[test]
    fn where_settings_cannot_be_read_or_a_file_cannot_be_written_nothing_is_changed() {
        let place = Place::new();
        place.write("settings.json", "{ no");
        let error = place.install(true).unwrap_err();
        assert!(error.message().contains("settings.json:1:3"), "{error}");
        assert!(!place.path("commands").exists());
        place.write("settings.json", "{}");
        place.write("agents", "a file in the way");
        place.install(true).unwrap_err();
        assert!(!place.path(INIT).exists(), "what was written before is taken back");
        assert_eq!(place.read("settings.json"), "{}");
    }

    #[test]
    fn no_link_in_a_project_leads_a_write_out_of_it() {
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
    fn settings_that_are_a_link_stay_one() {
        let place = Place::new();
        let target = place.0.path().join("collection.json");
        fs::write(&target, "{\"model\": \"opus\"}").unwrap();
        fs::create_dir(place.path("")).unwrap();
        std::os::unix::fs::symlink(&target, place.path("settings.json")).unwrap();
        place.install(true).unwrap();
        assert!(place.path("settings.json").is_symlink());
        let text = fs::read_to_string(target).unwrap();
        assert!(text.contains("opus") && text.contains("hook pre-tool-use"), "{text}");
    }
}
