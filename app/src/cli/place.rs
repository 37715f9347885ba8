//! Finds the project and the feature that a command acts on.

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{Place, Project};

use super::Global;

impl Global {
    pub fn project(&self) -> Result<Project> {
        Project::find(&self.directory)
    }

    /// Like `place`, but a named feature must exist already.
    pub fn known_place(&self, argument: Option<&str>) -> Result<Place> {
        let place = self.place(argument)?;
        if argument.is_some() || self.names_a_feature() {
            place.project.check_known(&place.feature)?;
        }
        Ok(place)
    }

    /// Returns the project and the feature; an argument has the same effect as `--feature`.
    pub fn place(&self, argument: Option<&str>) -> Result<Place> {
        if let (Some(one), Some(other)) = (argument, self.feature.as_deref())
            && one.trim() != other.trim()
        {
            return Err(Error::new(
                Kind::Usage,
                format!("two features are named: {one:?}, and {other:?} by --feature"),
            ));
        }
        let project = self.project()?;
        let feature = project.which_feature(argument.or(self.feature.as_deref()), std::env::var_os)?;
        Ok(Place::new(project, feature))
    }

    /// Tells whether `--feature` names a feature; otherwise it is derived from environment and files.
    pub fn names_a_feature(&self) -> bool {
        self.feature.is_some()
    }
}
