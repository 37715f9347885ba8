//! Which requirements a person approved, kept beside them so that it goes where they go.

use std::fmt;

use jiff::Timestamp;
use mahabharatha_core::graph::Severity;
use mahabharatha_core::spec::{Gap, Requirements};
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::atomic::write_atomic;
use serde::{Deserialize, Serialize};

use super::documents::read_document;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Approval {
    /// The name that git gives to the text, with line ends as on Unix.
    requirements: String,
    approved_at: String,
    approved_by: String,
}

/// How the requirements of a feature stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Missing,
    Draft,
    Approved,
    /// Edited since they were approved.
    Changed,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Missing => "missing",
            Standing::Draft => "a draft",
            Standing::Approved => "approved",
            Standing::Changed => "changed since approval",
        })
    }
}

pub fn standing(project: &Project, paths: &FeaturePaths) -> Result<Standing> {
    let Some(text) = read_document(&paths.requirements())? else { return Ok(Standing::Missing) };
    let Some(approval) = read_document(&paths.approval())? else { return Ok(Standing::Draft) };
    // What cannot be read approves nothing.
    let Ok(approval) = serde_json::from_str::<Approval>(&approval) else { return Ok(Standing::Draft) };
    let same = approval.requirements == fingerprint(project, &text)?;
    Ok(if same { Standing::Approved } else { Standing::Changed })
}

/// How they stand, with who approved them and when, for a document.
pub fn approval_line(paths: &FeaturePaths, standing: Standing) -> String {
    let approval = read_document(&paths.approval()).ok().flatten();
    match approval.and_then(|text| serde_json::from_str::<Approval>(&text).ok()) {
        Some(approval) if standing == Standing::Approved => {
            format!("approved {} by {}", approval.approved_at, approval.approved_by)
        }
        _ => standing.to_string(),
    }
}

/// Approves the requirements as they stand in the file, unless something in them is missing.
pub fn approve(project: &Project, paths: &FeaturePaths) -> Result<()> {
    let path = paths.requirements();
    let Some(text) = read_document(&path)? else {
        return Err(Error::new(ExitCode::Invalid, format!("{} has no requirements to approve", paths.feature()))
            .hint(format!("Write them first: mahabharatha plan {}", paths.feature())));
    };
    let missing: Vec<Gap> =
        Requirements::parse(&text).check().into_iter().filter(|gap| gap.severity == Severity::Error).collect();
    if !missing.is_empty() {
        let error = Error::new(ExitCode::Invalid, format!("{} cannot be approved yet", path.display()));
        return Err(missing
            .iter()
            .fold(error, |error, gap| error.detail(gap_line(gap)))
            .hint("Fill in what is missing, then approve it."));
    }
    if standing(project, paths)? == Standing::Approved {
        // Whoever approved it first did.
        return Ok(());
    }
    let identity = project.identity()?;
    let approval = Approval {
        requirements: fingerprint(project, &text)?,
        approved_at: format!("{:.0}", Timestamp::now()),
        approved_by: format!("{} <{}>", identity.name, identity.email),
    };
    let text = serde_json::to_string_pretty(&approval).expect("an approval has string keys only") + "\n";
    write_atomic(&paths.approval(), text.as_bytes())
}

fn fingerprint(project: &Project, text: &str) -> Result<String> {
    Ok(project.git().name_of(text.replace("\r\n", "\n").as_bytes())?.to_string())
}

pub fn gap_line(gap: &Gap) -> String {
    match &gap.place {
        Some(place) => format!("[{}] {place} {}", gap.code, gap.message),
        None => format!("[{}] {}", gap.code, gap.message),
    }
}
