//! Sessions that plan a feature by slash command. The permissions of a slash command end with its turn, so the calls
//! and documents that follow on a later turn, such as when a subagent has finished, are allowed here.

use std::path::PathBuf;

use mahabharatha_sys::project::Project;

use super::{CallContext, Purpose, ToolUse, Verdict, features_planned, is_among, resolve};
use crate::lease;

/// Allows the session itself plain calls that plan its features, and writes of their drafts and specs. Has no opinion
/// on anything else.
pub fn check(call: &ToolUse, context: &CallContext<'_>) -> Verdict {
    let planned = features_planned(&call.cwd, &call.session_id);
    for feature_dir in &planned {
        lease::renew(&lease::planning(feature_dir), &call.session_id);
    }
    if planned.is_empty() || call.agent_id.is_some() {
        return Verdict::Pass;
    }
    let is_allowed = match call.target() {
        Some(target) => is_document(call, target, &planned),
        None => call.own_call(context).is_some_and(|own| {
            matches!(own.purpose, Purpose::Look | Purpose::Plan) && is_among(&planned, &own.feature)
        }),
    };
    if is_allowed { Verdict::Allow("this session plans the feature".to_owned()) } else { Verdict::Pass }
}

/// Tells whether a write goes to the drafts or to the specs of a planned feature.
fn is_document(call: &ToolUse, target: &str, planned: &[PathBuf]) -> bool {
    let (Some(project), Ok(target)) = (Project::locate_without_git(&call.cwd), resolve(&call.cwd, target)) else {
        return false;
    };
    let specs = project.gsd().join("specs");
    let mut names = planned.iter().filter_map(|dir| dir.file_name());
    target.starts_with(project.drafts()) || names.any(|name| target.starts_with(specs.join(name)))
}
