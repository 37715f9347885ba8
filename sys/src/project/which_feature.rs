//! Determines which feature a command is for.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use mahabharatha_core::ids::{BadName, Feature};
use mahabharatha_core::names::suggestion;

use super::Project;
use crate::bounded::{SMALL_FILE_BYTES, check_place, read_to_string};
use crate::error::{Error, Kind, Result, io};

const VARIABLES: [&str; 2] = ["ZERG_FEATURE", "MAHABHARATHA_FEATURE"];

impl Project {
    /// Returns the feature that an argument names; none if it is blank.
    pub fn feature_argument(name: &str) -> Result<Option<Feature>> {
        let name = not_blank(name);
        name.map(|name| Feature::new(name).map_err(|bad| bad_name("", &bad, Kind::Usage))).transpose()
    }

    /// Returns the feature named by the flag, an environment variable, `.gsd/.current-feature`, the newest state
    /// file or the only spec, in this order. A blank value counts as unset.
    pub fn which_feature(
        &self,
        flag: Option<&str>,
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Feature> {
        self.find_feature(flag, variable).map(|(feature, _)| feature)
    }

    /// Returns the feature as `which_feature` does, and what named it if the caller's argument or flag did not.
    pub fn find_feature(
        &self,
        flag: Option<&str>,
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<(Feature, Option<&'static str>)> {
        if let Some(name) = flag.and_then(not_blank) {
            return Ok((named(name, "--feature", Kind::Usage)?, None));
        }
        if let Some((variable, name)) = from_environment(variable)? {
            return Ok((named(&name, variable, Kind::Usage)?, Some(variable)));
        }
        let file = self.current_feature_file();
        match read_to_string(&file, SMALL_FILE_BYTES) {
            Ok(text) => {
                if let Some(name) = not_blank(&text) {
                    let feature = named(name, &file.display().to_string(), Kind::Invalid)?;
                    return Ok((feature, Some(".gsd/.current-feature")));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData
                        | ErrorKind::IsADirectory
                        | ErrorKind::InvalidInput
                        | ErrorKind::FileTooLarge
                ) =>
            {
                return Err(Error::new(Kind::Invalid, format!("{} is not a text file", file.display()))
                    .hint("Write the name of a feature to it, or remove it."));
            }
            Err(error) => return Err(io("read", &file)(error)),
        }
        let newest = self.newest_state().map(|feature| (feature, Some("the newest file in .mahabharatha/state")));
        newest.or_else(|| Some((self.only_spec()?, None))).ok_or_else(|| self.no_feature())
    }

    fn no_feature(&self) -> Error {
        let specified = self.features_with_specs();
        let (message, hint) = match specified.as_slice() {
            [] => {
                let hint = "Start one with `mahabharatha plan <name>`, or name one with --feature <name>.".to_owned();
                ("no feature is named, and this project has none yet".to_owned(), hint)
            }
            [first, ..] => {
                let names: Vec<&str> = specified.iter().map(Feature::as_str).collect();
                let message =
                    format!("no feature is named, and none has been run; there are specs for {}", names.join(", "));
                (message, format!("Name one: --feature {first}."))
            }
        };
        Error::new(Kind::Usage, message)
            .detail("checked --feature, ZERG_FEATURE, MAHABHARATHA_FEATURE, .gsd/.current-feature and the state files")
            .hint(hint)
    }

    /// Every feature that has a spec, a run or a cost of its own, in order.
    pub fn known_features(&self) -> Vec<Feature> {
        let mut features = self.features_with_specs();
        let has_records = |feature: &Feature| {
            let paths = self.feature(feature);
            paths.journal().exists() || paths.has_planning_costs()
        };
        features.extend(named_directories(&self.shared_dir()).filter(has_records));
        features.sort();
        features.dedup();
        features
    }

    /// Like `check_exists`, but if there are no features at all, the command itself says how to begin one.
    pub fn check_known(&self, feature: &Feature, source: Option<&str>) -> Result<()> {
        if self.known_features().is_empty() { Ok(()) } else { self.check_exists(feature, source) }
    }

    /// Fails if there is no such feature. `source` is what named it, if not the caller's argument or flag.
    pub fn check_exists(&self, feature: &Feature, source: Option<&str>) -> Result<()> {
        let known = self.known_features();
        if known.contains(feature) {
            return Ok(());
        }
        let names: Vec<&str> = known.iter().map(Feature::as_str).collect();
        let source = source.map(|source| format!(" (from {source})")).unwrap_or_default();
        Err(Error::new(Kind::Usage, format!("there is no feature {feature}{source}")).hint(suggestion(
            feature.as_str(),
            "features",
            &names,
        )))
    }

    /// Returns a feature that does not exist yet: of this name, or of the name with a number after it.
    pub fn unused_feature(&self, name: &str) -> Feature {
        unused_name(name, &self.known_features())
    }

    fn only_spec(&self) -> Option<Feature> {
        let specified = self.features_with_specs();
        (specified.len() == 1).then(|| specified.into_iter().next())?
    }

    /// Returns the features that have a specs directory, sorted.
    fn features_with_specs(&self) -> Vec<Feature> {
        let mut features: Vec<Feature> = named_directories(&self.gsd().join("specs")).collect();
        features.sort();
        features
    }

    /// Returns the feature with the newest state file. Ignores files that are not named after a feature.
    fn newest_state(&self) -> Option<Feature> {
        let dir = self.home().join("state");
        check_place(&dir).ok()?;
        let states = fs::read_dir(dir).ok()?;
        let newest = states.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let feature = Feature::new(name.strip_suffix(".json")?).ok()?;
            Some((modified(&entry.path()), feature))
        });
        newest.max().map(|(_, feature)| feature)
    }
}

fn unused_name(name: &str, known: &[Feature]) -> Feature {
    let names = std::iter::once(name.to_owned()).chain((2_u64..).map(|number| format!("{name}-{number}")));
    let features = names.filter_map(|name| Feature::new(name).ok());
    let mut unused = features.filter(|feature| !known.contains(feature));
    unused.next().expect("the numbers do not end")
}

/// Directories in `dir` that are named like a feature.
fn named_directories(dir: &Path) -> impl Iterator<Item = Feature> {
    let inside = check_place(dir).is_ok().then(|| fs::read_dir(dir));
    let dirs = inside.into_iter().flatten().flatten().flatten();
    let dirs = dirs.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.filter_map(|entry| Feature::new(entry.file_name().into_string().ok()?).ok())
}

fn from_environment(variable: impl Fn(&'static str) -> Option<OsString>) -> Result<Option<(&'static str, String)>> {
    let mut set = VARIABLES.into_iter().filter_map(|name| {
        let value = variable(name)?.to_string_lossy().into_owned();
        not_blank(&value).map(|value| (name, value.to_owned()))
    });
    match (set.next(), set.next()) {
        (Some((first, one)), Some((second, other))) if one != other => {
            Err(Error::new(Kind::Usage, format!("{first} names the feature {one:?} and {second} names {other:?}"))
                .hint("Unset one of them, or name the feature with --feature."))
        }
        (first, _) => Ok(first),
    }
}

fn named(name: &str, source: &str, kind: Kind) -> Result<Feature> {
    Feature::new(name).map_err(|bad| bad_name(&format!("{source}: "), &bad, kind))
}

fn bad_name(source: &str, bad: &BadName, kind: Kind) -> Error {
    Error::new(kind, format!("{source}{:?} is not a valid {}", bad.value, bad.what))
        .hint(format!("For a feature, {}.", bad.rule))
}

fn not_blank(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        project: Project,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".gsd")).unwrap();
        let (root, git_dir) = (dir.path().to_owned(), dir.path().join(".git"));
        let project = Project {
            checkout: root.clone(),
            root,
            common_dir: git_dir.clone(),
            git_dir,
            settings: std::sync::OnceLock::new(),
        };
        Place { dir, project }
    }

    impl Place {
        fn current(&self, text: impl AsRef<[u8]>) {
            fs::write(self.dir.path().join(".gsd/.current-feature"), text).unwrap();
        }

        fn state(&self, name: &str, age: u64) {
            let path = self.dir.path().join(".mahabharatha/state").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
        }

        fn which(&self, flag: Option<&str>, zerg: &str, mahabharatha: &str) -> Result<String> {
            let variable = |name| Some(OsString::from(if name == "ZERG_FEATURE" { zerg } else { mahabharatha }));
            self.project.which_feature(flag, variable).map(String::from)
        }
    }

    #[test]
    fn each_source_wins_over_the_next() {
        let place = place();
        place.state("older.json", 9);
        place.state("newest.json", 1);
        place.state("Not a feature.json", 0);
        place.state("notes.txt", 0);
        assert_eq!(place.which(None, "", "").unwrap(), "newest");
        place.current("  current\n");
        assert_eq!(place.which(None, "", "").unwrap(), "current");
        assert_eq!(place.which(None, " ", " ours ").unwrap(), "ours");
        assert_eq!(place.which(None, "zerg", "").unwrap(), "zerg");
        assert_eq!(place.which(None, "same", "same").unwrap(), "same");
        assert_eq!(place.which(Some("flag"), "zerg", "ours").unwrap(), "flag");
        assert_eq!(place.which(Some(" "), "zerg", "").unwrap(), "zerg");
        place.current("\n \n");
        assert_eq!(place.which(None, "", "").unwrap(), "newest");
    }

    #[test]
    fn variables_that_disagree_are_an_error_that_names_both() {
        let error = place().which(None, "one", "two").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        for part in ["ZERG_FEATURE", "MAHABHARATHA_FEATURE", "one", "two"] {
            assert!(error.message().contains(part), "{error}");
        }
    }

    #[test]
    fn a_bad_name_is_an_error_that_names_its_source_and_the_rule() {
        let place = place();
        for (result, source, exit) in [
            (place.which(Some("../x"), "", ""), "--feature", Kind::Usage),
            (place.which(None, "../x", ""), "ZERG_FEATURE", Kind::Usage),
            (place.which(None, "", "../x"), "MAHABHARATHA_FEATURE", Kind::Usage),
            (
                {
                    place.current("../x");
                    place.which(None, "", "")
                },
                ".current-feature",
                Kind::Invalid,
            ),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), exit, "{error}");
            assert!(error.message().contains(source) && error.message().contains("../x"), "{error}");
            assert!(error.what_to_do().unwrap().contains("a-z"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_text_is_an_error_and_not_skipped() {
        let place = place();
        place.state("x.json", 0);
        place.current([0xff, 0xfe]);
        assert_eq!(place.which(None, "", "").unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let known = ["x", "x-2"].map(|name| Feature::new(name).unwrap());
        assert_eq!(unused_name("x", &known).as_str(), "x-3");
        assert_eq!(unused_name("y", &known).as_str(), "y");
    }

    #[test]
    fn without_any_feature_the_error_has_a_hint() {
        let error = place().which(None, "", "").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.what_to_do().unwrap().contains("--feature"));
    }
}
