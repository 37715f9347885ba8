//! Claude Code sessions that plan a feature by slash command and hand the program their documents.

use mahabharatha_core::cost::Cost;
use mahabharatha_engine::lease::{self, IDLE_LEASE, Lease};
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::FeaturePaths;
use mahabharatha_sys::store::costs::Question;

/// Registers the calling session as one that plans the feature, so that the hooks allow its calls and documents. Does
/// nothing outside of a session.
pub fn begin_in_session(paths: &FeaturePaths) -> Result<()> {
    let Some(session) = lease::client_session() else { return Ok(()) };
    let dir = lease::planning(paths.dir());
    lease::end_expired(&dir)?;
    Lease::new(session, IDLE_LEASE).write(&dir)
}

/// Ends the calling session's planning of the feature.
pub fn end_in_session(paths: &FeaturePaths) -> Result<()> {
    lease::client_session().map_or(Ok(()), |session| lease::end(&lease::planning(paths.dir()), &session))
}

/// Records that the calling session wrote a document, and returns what that cost: unknown, or nothing outside of a
/// session.
pub fn count_session(paths: &FeaturePaths, phase: &str) -> Result<Cost> {
    if lease::client_session().is_none() {
        return Ok(Cost::default());
    }
    // A question without an answer has an unknown cost.
    Question::record(&paths.planning_costs(), phase, "session").map(|_| Cost::unknown())
}
