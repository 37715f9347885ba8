//! Records the user's approval of a feature's requirements, in a file beside them so that it is committed with them.

use std::fmt;

use jiff::Timestamp;
use mahabharatha_core::graph::Severity;
use mahabharatha_core::spec::{Gap, Requirements};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::{FeaturePaths, Project};
use mahabharatha_sys::store::atomic::write_atomic;
use serde::{Deserialize, Serialize};

use super::documents::read_document;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Approval {
    /// Git blob id of the requirements text, with Unix line endings.
    requirements: String,
    approved_at: String,
    approved_by: String,
}

/// Approval status of a feature's requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Missing,
    Draft,
    Approved,
    /// Edited since they were approved.
    Changed,
}

impl fmt::Display for ApprovalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ApprovalStatus::Missing => "missing",
            ApprovalStatus::Draft => "a draft",
            ApprovalStatus::Approved => "approved",
            ApprovalStatus::Changed => "changed since approval",
        })
    }
}

pub fn approval_status(project: &Project, paths: &FeaturePaths) -> Result<ApprovalStatus> {
    let Some(text) = read_document(&paths.requirements())? else { return Ok(ApprovalStatus::Missing) };
    let Some(approval) = read_document(&paths.approval())? else { return Ok(ApprovalStatus::Draft) };
    // An unreadable approval file approves nothing.
    let Ok(approval) = serde_json::from_str::<Approval>(&approval) else { return Ok(ApprovalStatus::Draft) };
    let same = approval.requirements == fingerprint(project, &text)?;
    Ok(if same { ApprovalStatus::Approved } else { ApprovalStatus::Changed })
}

/// Returns the approval status for the design document, with who approved the requirements and when.
pub fn approval_line(paths: &FeaturePaths, status: ApprovalStatus) -> String {
    let approval = read_document(&paths.approval()).ok().flatten();
    match approval.and_then(|text| serde_json::from_str::<Approval>(&text).ok()) {
        Some(approval) if status == ApprovalStatus::Approved => {
            format!("approved {} by {}", approval.approved_at, approval.approved_by)
        }
        _ => status.to_string(),
    }
}

/// Approves the requirements as they are in the file, unless something in them is missing.
pub fn approve(project: &Project, paths: &FeaturePaths) -> Result<()> {
    let path = paths.requirements();
    let Some(text) = read_document(&path)? else {
        return Err(Error::new(Kind::Invalid, format!("{} has no requirements to approve", paths.feature()))
            .hint(format!("Write them first: mahabharatha plan {}", paths.feature())));
    };
    let missing: Vec<Gap> =
        Requirements::parse(&text).check().into_iter().filter(|gap| gap.severity == Severity::Error).collect();
    if !missing.is_empty() {
        let error = Error::new(Kind::Invalid, format!("{} cannot be approved yet", path.display()));
        return Err(missing
            .iter()
            .fold(error, |error, gap| error.detail(gap_line(gap)))
            .hint("Fill in what is missing, then approve again."));
    }
    if approval_status(project, paths)? == ApprovalStatus::Approved {
        // Keep the first approval's name and date.
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
    Ok(project.git().hash_blob(text.replace("\r\n", "\n").as_bytes())?.to_string())
}

pub fn gap_line(gap: &Gap) -> String {
    match &gap.place {
        Some(place) => format!("[{}] {place} {}", gap.code, gap.message),
        None => format!("[{}] {}", gap.code, gap.message),
    }
}
