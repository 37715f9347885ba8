//! The documents of all features as resources: requirements, design, task graph and completion report.

use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Feature;
use mahabharatha_sys::bounded;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::ui::clean;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

use super::calls::MAX_ANSWER_BYTES;

/// Without a host, which some clients would change.
const SCHEME: &str = "mahabharatha:///";

struct Document {
    name: &'static str,
    about: &'static str,
    mime_type: &'static str,
    path: fn(&FeaturePaths) -> PathBuf,
}

const DOCUMENTS: [Document; 4] = [
    Document {
        name: "requirements.md",
        about: "The requirements",
        mime_type: "text/markdown",
        path: FeaturePaths::requirements,
    },
    Document { name: "design.md", about: "The design", mime_type: "text/markdown", path: FeaturePaths::design },
    Document {
        name: "task-graph.json",
        about: "The tasks with their files, dependencies and verifications",
        mime_type: "application/json",
        path: FeaturePaths::graph,
    },
    Document {
        name: "COMPLETION.md",
        about: "The report of the run, once it has ended",
        mime_type: "text/markdown",
        path: FeaturePaths::completion,
    },
];

/// Lists the documents that there are. Blocks.
pub fn list(directory: &Path) -> Result<Vec<Resource>> {
    let project = Project::find(directory)?;
    let of_feature = |feature: Feature| {
        let paths = project.feature(&feature);
        let found = DOCUMENTS.iter().filter(move |document| (document.path)(&paths).is_file());
        found.map(move |document| {
            Resource::new(format!("{SCHEME}{feature}/{}", document.name), format!("{feature}/{}", document.name))
                .with_description(format!("{} of {feature}", document.about))
                .with_mime_type(document.mime_type)
        })
    };
    Ok(project.known_features().into_iter().flat_map(of_feature).collect())
}

/// Returns the form of all addresses.
pub fn templates() -> Vec<ResourceTemplate> {
    let names: Vec<&str> = DOCUMENTS.iter().map(|document| document.name).collect();
    let template = ResourceTemplate::new(format!("{SCHEME}{{feature}}/{{document}}"), "documents");
    vec![template.with_description(format!("A document of a feature: {}", names.join(", ")))]
}

/// Reads a document. Blocks.
pub fn read(directory: &Path, uri: &str) -> Result<ResourceContents> {
    let unknown = || {
        let names: Vec<String> =
            DOCUMENTS.iter().map(|document| format!("{SCHEME}FEATURE/{}", document.name)).collect();
        Error::new(Kind::Usage, format!("there is no resource {uri}")).hint(format!("There are {}", names.join(", ")))
    };
    let (feature, name) = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(unknown)?;
    let document = DOCUMENTS.iter().find(|document| document.name == name).ok_or_else(unknown)?;
    let feature = Feature::new(feature).map_err(|bad| Error::new(Kind::Usage, bad.to_string()))?;
    let project = Project::find(directory)?;
    project.check_known(&feature, None)?;
    let path = (document.path)(&project.feature(&feature));
    if !path.exists() {
        return Err(Error::new(Kind::Usage, format!("there is no {name} of {feature} yet")));
    }
    let text = bounded::read_to_string(&path, MAX_ANSWER_BYTES as u64).map_err(io("read", &path))?;
    Ok(ResourceContents::text(clean(&text), uri).with_mime_type(document.mime_type))
}
