//! Finds the project and the feature that a command acts on.

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{Place, Project};

use super::Global;

impl Global {
    pub fn project(&self) -> Result<Project> {
        Project::find(&self.directory)
    }

    /// Like `place`, but the feature must exist already, whatever names it.
    pub fn known_place(&self, argument: Option<&str>) -> Result<Place> {
        self.find_known_place(argument).map(|(place, _)| place)
    }

    /// Like `known_place`, with what named the feature if neither argument nor flag did.
    pub fn find_known_place(&self, argument: Option<&str>) -> Result<(Place, Option<&'static str>)> {
        let (place, source) = self.find_place(argument)?;
        place.project.check_known(&place.feature, source)?;
        Ok((place, source))
    }

    /// Like `known_place`; if the project has no feature at all, one of which only the directory is left will do.
    pub fn cleanable_place(&self, argument: Option<&str>) -> Result<Place> {
        let (place, source) = self.find_place(argument)?;
        if place.paths.dir().is_dir() {
            place.project.check_known(&place.feature, source)?;
        } else {
            place.project.check_exists(&place.feature, source)?;
        }
        Ok(place)
    }

    /// Returns the project and the feature; an argument has the same effect as `--feature`.
    pub fn place(&self, argument: Option<&str>) -> Result<Place> {
        self.find_place(argument).map(|(place, _)| place)
    }

    /// Returns the place, and what named the feature if neither argument nor flag did.
    fn find_place(&self, argument: Option<&str>) -> Result<(Place, Option<&'static str>)> {
        if let (Some(one), Some(other)) = (argument, self.feature.as_deref())
            && one.trim() != other.trim()
        {
            return Err(Error::new(
                Kind::Usage,
                format!("two features are named: {one:?}, and {other:?} by --feature"),
            ));
        }
        let project = self.project()?;
        let named = argument.map(Project::feature_argument).transpose()?.flatten();
        let (feature, source) = match named {
            Some(feature) => (feature, None),
            None => project.find_feature(self.feature.as_deref(), std::env::var_os)?,
        };
        Ok((Place::new(project, feature), source))
    }

    /// Tells whether `--feature` names a feature; otherwise it is derived from environment and files.
    pub fn names_a_feature(&self) -> bool {
        self.feature.is_some()
    }
}
